// Package check is the judge of partitions: it verifies every invariant of package
// partition from stored bytes alone. Tests end with it, and `decan check` offers it to
// operators.
//
// Learn [Run], [Watch] and [Report]. The judge shares the formats of package layout
// with the writer and no other code, so that an error of the writer is not repeated
// here.
//
// Absent: it repairs nothing, and knows one partition at a time; cluster compares
// partitions with the catalog.
//
// Page: docs/partition.md
package check

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// Report is the result of [Run].
type Report struct {
	Partition resource.PartitionID
	Range     partitionkey.Range
	Documents int64
	Bytes     int64 // of stored JSON without system properties
	Logical   int64 // logical partitions
	Terms     int64 // entries of the index
	LSN       resource.LSN
	Latest    int64  // the latest _ts, in seconds since 1970
	Catalog   uint64 // version of the catalog at the last change of the partition; zero if unknown

	// Problems has a sentence for each problem, at most ProblemsMax.
	Problems []string
	// Unnamed is the number of further problems.
	Unnamed int
}

// ProblemsMax is the maximum number of problems that a [Report] names.
const ProblemsMax = 100

// Clean reports whether there is no problem.
func (r *Report) Clean() bool { return len(r.Problems) == 0 }

func (r *Report) problem(format string, args ...any) {
	if len(r.Problems) >= ProblemsMax {
		r.Unnamed++
		return
	}
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

// Options are those of [Watch].
type Options struct {
	// Tell is called with the progress every few hundred rows, in the goroutine of the
	// caller. Nil is not called.
	Tell func(Progress)

	// Item returns why an item of a table does not agree with the definition of the table,
	// or nil. It is called with the items in their order, and their routing keys. Without
	// it, only what package row knows is verified.
	Item func(key, item, body []byte) error

	// Visit is called with each item of a table whose place is right, in their order. Nil is
	// not called.
	Visit func(key, item, body []byte)
}

// Run verifies every invariant of a partition from the bytes of a snapshot: each
// document has its rows in every family and exactly the index terms of its body, no
// row is without its document, the counters are exact, and each key is at its hash
// and in the range of the partition. It reads all rows.
//
// The report has the problems. The error is that of bytes that cannot be read at
// all.
func Run(snapshot *storage.Snapshot, container *resource.Container) (Report, error) {
	return Watch(context.Background(), snapshot, container, Options{})
}

// Progress is the progress of the check of one partition.
type Progress struct {
	Documents int64   // read so far
	Bytes     int64   // of their JSON without system properties
	Part      float64 // of the work, from 0 to 1: an estimate
}

// Watch is [Run] with options. It returns the error of ctx soon after ctx has ended.
func Watch(ctx context.Context, snapshot *storage.Snapshot, container *resource.Container, o Options) (Report, error) {
	c := checker{ctx: ctx, tell: o.Tell, item: o.Item, visit: o.Visit, snapshot: snapshot, container: container}
	if err := c.run(); err != nil {
		return c.report, fmt.Errorf("check partition %s: %w", c.descriptor.ID, err)
	}
	return c.report, nil
}

// checker is one run of the check.
type checker struct {
	ctx   context.Context
	tell  func(Progress)                     // may be nil
	item  func(key, item, body []byte) error // may be nil, as visit
	visit func(key, item, body []byte)
	rows  int64 // rows and entries of lists read so far; see read

	snapshot  *storage.Snapshot
	container *resource.Container
	report    Report

	descriptor layout.Descriptor
	state      layout.State
	indexing   *layout.Indexing
	epkWidth   int
	paths      layout.Paths
	kept       layout.KeptList

	unique     layout.Uniques
	lists      sums  // of the entries of posting lists that the documents need
	compared   int64 // entries of posting lists read so far
	vectorRows int64 // that the documents need, as the two below
	uniqueRows int64
	expiryRows int64
	key        []byte
}

func (c *checker) run() error {
	d, s, row, err := layout.ReadMeta(c.snapshot)
	if err != nil {
		c.report.problem("The partition has no readable meta rows: %v.", err)
		return nil
	}
	c.descriptor, c.state, c.epkWidth = d, s, layout.EPKWidth(d.Key)
	c.report.Partition, c.report.Range, c.report.LSN, c.report.Latest = d.ID, d.Range, s.LSN, s.TS
	if d.Container != c.container.RID || !d.Key.Equal(c.container.PartitionKey) {
		c.report.problem("The store belongs to container %s with key %v, not to %s with key %v.", d.Container, d.Key.Paths, c.container.RID, c.container.PartitionKey.Paths)
		return nil
	}
	if c.indexing, err = layout.CompileIndexing(row, nil); err != nil {
		c.report.problem("The indexing policy cannot be compiled: %v.", err)
		return nil
	}
	if c.paths, err = layout.ReadPaths(c.snapshot); err != nil {
		c.report.problem("The complete paths cannot be read: %v.", err)
	}
	if c.kept, err = layout.ReadKept(c.snapshot); err != nil {
		c.report.problem("What the complete feed has cannot be read: %v.", err)
	}
	if err := c.purges(); err != nil {
		return err
	}
	if c.report.Catalog, err = layout.ReadCatalog(c.snapshot); err != nil {
		c.report.problem("The version of the catalog cannot be read: %v.", err)
	}
	if c.unique, err = layout.CompileUniques(c.container.UniqueKeys); err != nil {
		c.report.problem("The unique keys cannot be read: %v.", err)
		return nil
	}
	c.lists = newSums()
	for _, step := range []func() error{c.families, c.documents, c.numbers, c.feed, c.complete, c.logical, c.vectors, c.expiries, c.uniques, c.postings} {
		if err := step(); err != nil {
			return err
		}
	}
	if c.report.Documents != s.Items || c.report.Bytes != s.Bytes {
		c.report.problem("The counters say %d documents of %d bytes, there are %d of %d.", s.Items, s.Bytes, c.report.Documents, c.report.Bytes)
	}
	return nil
}

const (
	// checkLook is the number of rows between two looks at the context.
	checkLook = 256

	// checkDocuments is the estimated part of the work that reads the documents and
	// the rows that belong to them. Most of the rest reads posting lists.
	checkDocuments = 0.8
)

// read counts a row. Its error ends the check.
func (c *checker) read() error {
	if c.rows++; c.rows%checkLook != 0 {
		return nil
	}
	if c.tell != nil {
		c.tell(c.progress())
	}
	return c.ctx.Err()
}

// progress returns the progress so far.
func (c *checker) progress() Progress {
	p := Progress{Documents: c.report.Documents, Bytes: c.report.Bytes}
	if c.state.Items > 0 {
		p.Part = checkDocuments * min(1, float64(c.report.Documents)/float64(c.state.Items))
	}
	if c.lists.count > 0 {
		p.Part += (1 - checkDocuments) * min(1, float64(c.compared)/float64(c.lists.count))
	}
	return p
}

// each calls visit for every row of a family.
func (c *checker) each(f storage.Family, visit func(key, row []byte) error) error {
	rows := c.snapshot.Iter(f.Bounds())
	for valid := rows.First(); valid; valid = rows.Next() {
		err := c.read()
		if err == nil {
			err = visit(rows.Key(), rows.Value())
		}
		if err != nil {
			_ = rows.Close() // The error of visit tells more.
			return err
		}
	}
	return rows.Close()
}

// families looks for rows of unknown families, and for unknown meta rows.
func (c *checker) families() error {
	rows := c.snapshot.Iter(nil, nil)
	for valid := rows.First(); valid; {
		f, known := storage.FamilyOf(rows.Key())
		if !known {
			c.report.problem("Row %x is of a family that this release does not write.", rows.Key())
			valid = rows.Next()
			continue
		}
		_, high := f.Bounds()
		valid = rows.SeekGE(high)
	}
	if err := rows.Close(); err != nil {
		return err
	}
	return c.each(storage.FamilyMeta, func(key, _ []byte) error {
		switch name := string(key[1:]); name {
		case layout.MetaDescriptor, layout.MetaState, layout.MetaIndex, layout.MetaPaths, layout.MetaPathsNext, layout.MetaMerged, layout.MetaKept, layout.MetaPurges, layout.MetaCatalog:
		default:
			c.report.problem("Meta row %q is unknown.", name)
		}
		return nil
	})
}

// purges verifies that there are marks exactly if the state says so.
func (c *checker) purges() error {
	row, found, err := c.snapshot.Get(nil, storage.MetaKey(nil, layout.MetaPurges))
	if err != nil {
		return err
	}
	if found != (c.state.Purged != 0) || c.state.Purged > c.state.LSN {
		c.report.problem("The marks of purges were changed last at %d of %d, and they are there: %v.", c.state.Purged, c.state.LSN, found)
	}
	if !found {
		return nil
	}
	marks, err := layout.DecodeMarks(row)
	if err == nil && len(marks) == 0 {
		err = layout.ErrMeta
	}
	if err != nil {
		c.report.problem("The marks of purges cannot be read: %v.", err)
	}
	for _, m := range marks {
		if m.LSN > c.state.Purged {
			c.report.problem("The mark of the purge %d is newer than the last change of marks at %d.", m.LSN, c.state.Purged)
		}
	}
	return nil
}

// documents verifies each document with the rows that belong to it alone, and adds
// up the totals of each logical partition, whose documents are adjacent.
func (c *checker) documents() error {
	var group []byte // the 'q' key of the logical partition being added up
	var sum layout.Totals
	err := c.each(storage.FamilyDocument, func(key, row []byte) error {
		d, err := layout.DecodeDocument(row)
		if err != nil {
			c.report.problem("Document row %x cannot be read: %v.", key, err)
			return nil
		}
		c.report.Documents++
		c.report.Bytes += int64(len(d.Body))
		epk, err := c.place(key, &d)
		if err != nil {
			c.report.problem("Document %d: %v.", d.Number, err)
			return nil
		}
		c.key = storage.LogicalKey(c.key[:0], epk, layout.KeyHash(d.Key))
		if !bytes.Equal(c.key, group) {
			if err := c.totals(group, sum); err != nil {
				return err
			}
			group, sum = append(group[:0], c.key...), layout.Totals{}
			c.report.Logical++
		}
		sum.Items, sum.Bytes = sum.Items+1, sum.Bytes+int64(len(d.Body))
		return c.document(key, &d, epk)
	})
	if err != nil {
		return err
	}
	return c.totals(group, sum)
}

// The kinds of items of a table, which are the first bytes of their names.
const (
	itemMeta = iota
	itemStatic
	itemRow
	itemOutbox // a row whose materialized views are to be updated
	itemRange  // deletions for which they are
)

// placeItem verifies that the routing key of an item of a table is that of its row, and
// that its body can be read.
func (c *checker) placeItem(d *layout.Document, epk partitionkey.EPK, item []byte) error {
	key := partitionkey.NewKey(partitionkey.Bytes(string(d.Key)))
	if err := c.descriptor.Key.Check(key, true); err != nil {
		return err
	}
	if got := c.descriptor.Key.Hash(key); got != epk {
		return fmt.Errorf("its key %s hashes to %s, its row is at %s", key, got, epk)
	}
	var err error
	switch {
	case len(item) == 0 || item[0] > itemRange || item[0] != itemRow && item[0] != itemOutbox && len(item) > 1:
		return fmt.Errorf("its name %x is not that of an item", item)
	case item[0] == itemMeta:
		_, err = row.DecodeMeta(d.Body)
	case item[0] >= itemOutbox: // Package table reads it.
	default:
		_, err = row.DecodeRow(d.Body)
	}
	if err == nil && c.item != nil {
		err = c.item(d.Key, item, d.Body)
	}
	if err == nil && c.visit != nil {
		c.visit(d.Key, item, d.Body)
	}
	return err
}

// place verifies that the row key of a document is that of its partition key and id,
// and returns its EPK.
func (c *checker) place(key []byte, d *layout.Document) (partitionkey.EPK, error) {
	if c.epkWidth > 0 && d.EPKSize != c.epkWidth {
		return "", fmt.Errorf("its hashed key has %d bytes, not %d", d.EPKSize, c.epkWidth)
	}
	epkBytes, hash, item, err := storage.DecodeDocumentKey(key, d.EPKSize)
	if err != nil {
		return "", err
	}
	epk := partitionkey.EPK(epkBytes)
	if layout.KeyHash(d.Key) != hash {
		return "", fmt.Errorf("its key %x does not have the second hash %x", d.Key, hash)
	}
	if !c.descriptor.Range.Contains(epk) {
		return "", fmt.Errorf("its hashed key %s is outside of the range %s", epk, c.descriptor.Range)
	}
	if d.Item != c.container.IsTable() {
		return "", fmt.Errorf("its row says that it is a row of a table: %t, its container: %t", d.Item, c.container.IsTable())
	}
	if d.Item {
		return epk, c.placeItem(d, epk, item)
	}
	doc, err := value.Parse(d.Body)
	if err != nil {
		return "", err
	}
	if doc.Get("id").Text() != string(item) {
		return "", fmt.Errorf("its id %q is not the %q of its row", doc.Get("id").Text(), item)
	}
	if ttl, _ := layout.TTLOf(doc); ttl != d.TTL {
		return "", fmt.Errorf("its time to live is %d, its row says %d", ttl, d.TTL)
	}
	full := c.container.KeyOf(doc)
	if !bytes.Equal(full.Canonical(c.descriptor.Key), d.Key) {
		return "", fmt.Errorf("its body has the key %s, its row another", full)
	}
	if got := c.descriptor.Key.Hash(full); got != epk {
		return "", fmt.Errorf("its key %s hashes to %s, its row is at %s", full, got, epk)
	}
	return epk, nil
}

// document verifies the header of a document and the rows that belong to it, and
// adds up the entries of posting lists that it must have.
func (c *checker) document(key []byte, d *layout.Document, epk partitionkey.EPK) error {
	if d.LSN == 0 || d.LSN > c.state.LSN {
		c.report.problem("Document %d has LSN %d, the partition is at %d.", d.Number, d.LSN, c.state.LSN)
	}
	if d.TS > c.state.TS {
		c.report.problem("Document %d was written at %d, later than the partition's last write at %d.", d.Number, d.TS, c.state.TS)
	}
	own := resource.NewNumber(c.descriptor.Ordinal, 0)
	if d.Number == 0 || d.Number > own && d.Number < own+resource.NumbersMax && d.Number-own > c.state.Counter {
		c.report.problem("Document %d has a number that was not given out yet: the counter is at %d.", d.Number, c.state.Counter)
	}
	c.key = storage.RIDKey(c.key[:0], d.Number)
	if err := c.expect(c.key, key[1:], "number row of document %d", d.Number); err != nil {
		return err
	}
	c.key = storage.FeedKey(c.key[:0], uint64(d.LSN), d.Ordinal, d.Seq)
	if err := c.expect(c.key, layout.AppendFeedValue(nil, d.Number, string(epk), c.epkWidth), "feed row of document %d", d.Number); err != nil {
		return err
	}
	if err := c.revision(d, epk); err != nil {
		return err
	}
	if err := c.claims(d, epk); err != nil {
		return err
	}
	if at, ok := d.Expiry(); ok {
		c.expiryRows++
		c.key = storage.ExpiryKey(c.key[:0], at, d.Number)
		if err := c.expect(c.key, nil, "expiry row of document %d", d.Number); err != nil {
			return err
		}
	}
	if d.Directive == layout.Exclude && !c.state.Excludes {
		c.report.problem("Document %d is excluded from the index, and the state says that no document is.", d.Number)
	}
	k := c.keysOf(key, d, c.lacks)
	for _, v := range k.Vectors {
		c.vectorRows++
		c.key = storage.VectorKey(c.key[:0], v.ID, d.Number)
		if err := c.expect(c.key, v.Stored, "vector of document %d", d.Number); err != nil {
			return err
		}
	}
	return c.listsOf(k, epk, func(list []byte) error {
		c.lists.add(list, d.Number)
		return nil
	})
}

// expect verifies that there is a row and that it has a value.
func (c *checker) expect(key, want []byte, format string, args ...any) error {
	found, err := c.snapshot.View(key, func(got []byte) error {
		if !bytes.Equal(got, want) {
			c.report.problem("The %s is %x, not %x.", fmt.Sprintf(format, args...), got, want)
		}
		return nil
	})
	if err == nil && !found {
		c.report.problem("The %s is missing.", fmt.Sprintf(format, args...))
	}
	return err
}

// totals verifies the 'q' row of a logical partition.
func (c *checker) totals(key []byte, want layout.Totals) error {
	if key == nil {
		return nil
	}
	return c.expect(key, want.Append(nil), "size row of logical partition %x", key[1:])
}

// numbers looks for 'r' rows without a document.
func (c *checker) numbers() error {
	return c.strays(storage.FamilyRID, c.report.Documents, func(key, row []byte) error {
		number, err := storage.DecodeRIDKey(key)
		if err != nil {
			c.report.problem("Number row %x cannot be read.", key)
			return nil
		}
		d, err := c.find(row)
		if err == nil && (d == nil || d.Number != number) {
			c.report.problem("The number row %d leads to no document of that number.", number)
		}
		return err
	})
}

// feed looks for 'f' rows without a document.
func (c *checker) feed() error {
	return c.strays(storage.FamilyFeed, c.report.Documents, func(key, row []byte) error {
		lsn, ordinal, seq, err := storage.DecodeFeedKey(key)
		if err != nil || len(row) < storage.NumberBytes {
			c.report.problem("Feed row %x cannot be read.", key)
			return nil
		}
		d, err := c.findNumber(row[:storage.NumberBytes])
		if err == nil && (d == nil || d.Version.LSN != resource.LSN(lsn) || d.Ordinal != ordinal || d.Seq != seq) {
			c.report.problem("The feed row %d/%d/%d is of no current version.", lsn, ordinal, seq)
		}
		return err
	})
}

// vectors looks for vectors that no document has.
func (c *checker) vectors() error {
	return c.strays(storage.FamilyVector, c.vectorRows, func(key, _ []byte) error {
		path, number, err := storage.DecodeVectorKey(key)
		if err != nil {
			c.report.problem("Vector row %x cannot be read.", key)
			return nil
		}
		d, err := c.findNumber(key[len(key)-storage.NumberBytes:])
		if err != nil {
			return err
		}
		if d == nil || !slices.ContainsFunc(c.keysOf(nil, d, nil).Vectors, func(v index.VectorEntry) bool { return string(v.ID) == string(path) }) {
			c.report.problem("The vector %x/%d is of no document.", path, number)
		}
		return nil
	})
}

// expiries looks for 'x' rows without a document that expires at that time.
func (c *checker) expiries() error {
	return c.strays(storage.FamilyExpiry, c.expiryRows, func(key, _ []byte) error {
		at, number, err := storage.DecodeExpiryKey(key)
		if err != nil {
			c.report.problem("Expiry row %x cannot be read.", key)
			return nil
		}
		d, err := c.findNumber(key[len(key)-storage.NumberBytes:])
		if err != nil {
			return err
		}
		if d != nil {
			if own, ok := d.Expiry(); ok && own == at {
				return nil
			}
		}
		c.report.problem("The expiry row %d/%d is of no document.", at, number)
		return nil
	})
}

// strays looks for rows that belong to no document. documents has found a row for
// each document that needs one, so there are strays only if there are more than want
// rows: otherwise it just counts them.
func (c *checker) strays(f storage.Family, want int64, look func(key, row []byte) error) error {
	count := int64(0)
	err := c.each(f, func(_, _ []byte) error {
		count++
		return nil
	})
	if err != nil || count == want {
		return err
	}
	return c.each(f, look)
}

// logical looks for 'q' rows without documents.
func (c *checker) logical() error {
	count := int64(0)
	return c.each(storage.FamilyLogical, func(key, row []byte) error {
		if count++; count == c.report.Logical+1 {
			c.report.problem("There are more size rows than the %d logical partitions.", c.report.Logical)
		}
		if _, err := layout.DecodeTotals(row); err != nil {
			c.report.problem("Size row %x cannot be read: %v.", key, err)
		}
		return nil
	})
}

// find returns a copy of the document whose row key ends in suffix, or nil.
func (c *checker) find(suffix []byte) (*layout.Document, error) {
	row, found, err := c.snapshot.Get(nil, storage.DocumentKeyOf(nil, suffix))
	if err != nil || !found {
		return nil, err
	}
	d, err := layout.DecodeDocument(row)
	if err != nil {
		return nil, nil // It has been reported.
	}
	return &d, nil
}

// findNumber returns the document with a number, given as the 8 bytes of a row key,
// or nil.
func (c *checker) findNumber(number []byte) (*layout.Document, error) {
	suffix, found, err := c.snapshot.Get(nil, append([]byte{byte(storage.FamilyRID)}, number...))
	if err != nil || !found {
		return nil, err
	}
	return c.find(suffix)
}
