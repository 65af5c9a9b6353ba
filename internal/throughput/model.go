package throughput

import "github.com/decandb/decan/internal/resource"

// The figures that the service publishes, and the results of this model. The
// test checks both columns.
//
//	work                                             published    here
//	point read of 1 KB                               1            1
//	point read of 100 KB                             10           10
//	insert of 1 KB, nothing indexed                  5            5
//	insert of 100 KB, nothing indexed                50           50
//	insert of 1 KB, default index (14 terms)         6.67         6.68
//	delete of the same                               6.67         6.68
//	upsert over the same, a few terms differ         10.67        10.72
//	replace of the same, some terms differ           11.05        11.08
//	replace, everything differs                      2 inserts    2 inserts
//	query for one document of 10 KB                  3.19         3.19
//	query that finds nothing, one index lookup       2.3 to 3     2.37
//	query for 1,000 documents of 1 KB                about 1,000  1,007
//	one more physical partition in a query           2 to 3       2.37
//	strong or bounded staleness reads                twice        twice
//
// Nothing is published between 1 KB and 100 KB; the model uses a straight line
// through both ends. It is the same line for reads and, times five, for writes.
const (
	kilobyte = 1024

	// A document of k kilobytes is (unitOffset + k) / unitSlope units, and
	// at least one: 1 at 1 KB and 10 at 100 KB.
	unitOffset = 10.0
	unitSlope  = 11.0

	writeFactor = 5.0  // a unit written costs as much as this many units read
	termCost    = 0.12 // each index term added or removed

	queryBase  = 1.3    // once for each partition that a query visits
	lookupCost = 0.07   // each span of the index that is looked up
	hitCost    = 0.001  // each entry that a lookup yields
	resultCost = 0.005  // each row returned
	vectorCost = 0.0002 // each stored vector or code that is compared in the index
	callCost   = 0.01   // each call of a user-defined function
)

// The charges of operations with constant work.
const (
	// Miss is a point read of a document that does not exist.
	Miss = 1.0

	// NotModified is a point read for which the client has the current version.
	NotModified = 1.0

	// MetadataRead reads a database, a container, an offer or partition key
	// ranges.
	MetadataRead = 1.0

	// MetadataQuery lists or queries these.
	MetadataQuery = 2.0

	// MetadataWrite creates, replaces or deletes one of them.
	MetadataWrite = 4.95
)

// units is the size of a document in units.
func units(sizeBytes int) float64 {
	return max(1, (unitOffset+float64(sizeBytes)/kilobyte)/unitSlope)
}

// Read returns the charge of a point read of a document with that size.
func Read(sizeBytes int) float64 { return units(sizeBytes) }

// Insert returns the charge of creating a document with that size and number of
// index terms. An upsert that creates costs the same.
func Insert(sizeBytes, terms int) float64 {
	return writeFactor*units(sizeBytes) + termCost*float64(terms)
}

// Delete returns the charge of deleting a document with that size and number of
// index terms.
func Delete(sizeBytes, terms int) float64 { return Insert(sizeBytes, terms) }

// Replace returns the charge of replacing a document; termsChanged is the number
// of index terms that are removed plus those that are added. An upsert that
// replaces costs the same.
func Replace(oldBytes, newBytes, termsChanged int) float64 {
	return writeFactor*(units(oldBytes)+units(newBytes)) + termCost*float64(termsChanged)
}

// Refused returns the charge of a write that was refused because of what is
// stored: the id exists, or the etag differs. sizeBytes is the size of the
// stored document that decided, 0 if there is none.
func Refused(sizeBytes int) float64 { return units(sizeBytes) }

// Work is what one partition did for one page of a query or feed.
type Work struct {
	Documents int64 // loaded
	Bytes     int64 // of these documents
	Lookups   int64 // spans of the index looked up
	Hits      int64 // entries that the lookups yielded
	Results   int64 // rows returned
	Vectors   int64 // stored vectors, or codes of them, compared in the index
	Calls     int64 // of user-defined functions

	// Resumed is true for a page that continues an earlier one. Only the first
	// page in a partition pays for the visit, and so does a later page that
	// found nothing, because no response is free.
	Resumed bool
}

// Query returns the charge of that work. Documents count with their exact size,
// even below 1 KB, so that their distribution over pages does not matter.
func Query(w Work) float64 {
	loaded := (unitOffset*float64(w.Documents) + float64(w.Bytes)/kilobyte) / unitSlope
	charge := hitCost*float64(w.Hits) + resultCost*float64(w.Results) + vectorCost*float64(w.Vectors) + Calls(w.Calls)
	if w.Resumed && charge+loaded > 0 {
		return charge + loaded
	}
	return charge + queryBase + lookupCost*float64(w.Lookups) + max(1, loaded)
}

// Calls returns the charge of calls of user-defined functions. It does not
// depend on how long they run.
func Calls(n int64) float64 { return callCost * float64(n) }

// AtLevel returns the charge of a read at a consistency level: strong and
// bounded staleness read two replicas and cost twice.
func AtLevel(charge float64, level resource.Consistency) float64 {
	if level.DoublesReads() {
		return 2 * charge
	}
	return charge
}
