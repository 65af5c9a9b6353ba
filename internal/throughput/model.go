package throughput

import "github.com/decandb/decan/internal/resource"

// The figures that the service publishes, and what this model makes of them.
// The test reads both columns.
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
// Between 1 KB and 100 KB nothing is published: a straight line goes through
// both ends. It happens to be the same line for reads and writes, times five.
const (
	kilobyte = 1024

	// A document of k kilobytes is (unitOffset + k) / unitSlope units, and
	// at least one: 1 at 1 KB and 10 at 100 KB.
	unitOffset = 10.0
	unitSlope  = 11.0

	writeFactor = 5.0  // a unit written costs this many units read
	termCost    = 0.12 // each index term added or removed

	queryBase  = 1.3    // once for each partition that a query visits
	lookupCost = 0.07   // each span of the index that is looked up
	hitCost    = 0.001  // each entry that a lookup yields
	resultCost = 0.005  // each row returned
	vectorCost = 0.0002 // each stored vector or code that is compared in the index
	callCost   = 0.01   // each call of a user-defined function
)

// The charges of operations whose work does not vary.
const (
	// Miss is a point read of a document that is not there.
	Miss = 1.0

	// NotModified is a point read that ends with the client's own version.
	NotModified = 1.0

	// MetadataRead reads a database, a container, an offer or the ranges.
	MetadataRead = 1.0

	// MetadataQuery lists or queries those.
	MetadataQuery = 2.0

	// MetadataWrite creates, replaces or deletes one.
	MetadataWrite = 4.95
)

// units is the size of a document in units.
func units(sizeBytes int) float64 {
	return max(1, (unitOffset+float64(sizeBytes)/kilobyte)/unitSlope)
}

// Read is the charge of a point read of a document of that size.
func Read(sizeBytes int) float64 { return units(sizeBytes) }

// Insert is the charge of creating a document of that size with that many index
// terms. An upsert that creates costs the same.
func Insert(sizeBytes, terms int) float64 {
	return writeFactor*units(sizeBytes) + termCost*float64(terms)
}

// Delete is the charge of removing a document of that size with that many index
// terms.
func Delete(sizeBytes, terms int) float64 { return Insert(sizeBytes, terms) }

// Replace is the charge of putting a document of one size in place of another,
// when that many index terms are removed and added together. An upsert that
// replaces costs the same.
func Replace(oldBytes, newBytes, termsChanged int) float64 {
	return writeFactor*(units(oldBytes)+units(newBytes)) + termCost*float64(termsChanged)
}

// Refused is the charge of a write that was refused for what is stored: an id
// that exists, an etag that differs. sizeBytes is the size of the stored
// document that decided, 0 when there is none.
func Refused(sizeBytes int) float64 { return units(sizeBytes) }

// Work is what one partition did for one page of a query or feed.
type Work struct {
	Documents int64 // loaded
	Bytes     int64 // of those
	Lookups   int64 // spans of the index looked up
	Hits      int64 // entries that the lookups yielded
	Results   int64 // rows returned
	Vectors   int64 // stored vectors, or codes of them, compared in the index
	Calls     int64 // of user-defined functions

	// Resumed marks a page that goes on where one before ended. Only the
	// first page in a partition pays for the visit, and one behind which
	// nothing was left, since no answer is free.
	Resumed bool
}

// Query is the charge of that work. Documents count by their exact size here,
// also below 1 KB, so that it does not matter how they fall on pages.
func Query(w Work) float64 {
	loaded := (unitOffset*float64(w.Documents) + float64(w.Bytes)/kilobyte) / unitSlope
	charge := hitCost*float64(w.Hits) + resultCost*float64(w.Results) + vectorCost*float64(w.Vectors) + Calls(w.Calls)
	if w.Resumed && charge+loaded > 0 {
		return charge + loaded
	}
	return charge + queryBase + lookupCost*float64(w.Lookups) + max(1, loaded)
}

// Calls is the charge of calls of user-defined functions, which takes no account
// of how long they run.
func Calls(n int64) float64 { return callCost * float64(n) }

// AtLevel is the charge of a read at a level of consistency: strong and bounded
// staleness ask two replicas, and cost twice.
func AtLevel(charge float64, level resource.Consistency) float64 {
	if level.DoublesReads() {
		return 2 * charge
	}
	return charge
}
