package storage

import (
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
)

// Batch collects rows that a store commits together or not at all. Later rows override
// earlier ones with the same key. A batch copies the keys and values that it is given.
// One goroutine uses it at a time.
type Batch struct {
	rows    *pebble.Batch
	scratch []byte
}

// NewBatch returns an empty batch that belongs to no store: pass its rows to another
// batch with [Batch.Repr] and [Batch.Append].
func NewBatch() *Batch { return &Batch{rows: new(pebble.Batch)} }

// NewBatchOf is [NewBatch] with capacity for about this many bytes.
func NewBatchOf(bytes int) *Batch {
	b := NewBatch()
	// An empty batch is a header of zeros, which is always valid.
	if err := b.rows.SetRepr(make([]byte, batchrepr.HeaderLen, batchrepr.HeaderLen+bytes)); err != nil {
		panic("storage: an empty batch is refused: " + err.Error())
	}
	return b
}

// Adopt returns a batch with the rows of repr, a result of [Batch.Repr], and calls
// visit for each row. It does not copy: the batch owns repr from now on, and applying
// the batch changes its header. Damaged rows are an error.
func Adopt(repr []byte, visit func(Row) error) (*Batch, error) {
	if err := ReadRows(repr, visit); err != nil {
		return nil, err
	}
	b := NewBatch()
	if err := b.rows.SetRepr(repr); err != nil {
		return nil, fmt.Errorf("adopt rows: %w", err)
	}
	return b, nil
}

// NewBatch returns an empty batch for this store. Close it after use.
func (s *Store) NewBatch() *Batch { return &Batch{rows: s.db.NewBatch()} }

// Set writes a row. The error is always nil for rows smaller than 4 GB.
func (b *Batch) Set(key, value []byte) error { return b.rows.Set(key, value, nil) }

// Delete removes a row, which need not exist.
func (b *Batch) Delete(key []byte) error { return b.rows.Delete(key, nil) }

// DeleteRange removes the rows with low <= key < high.
func (b *Batch) DeleteRange(low, high []byte) error { return b.rows.DeleteRange(low, high, nil) }

// AddPosting adds a document number to a posting list. list is the key of the list
// without a chunk, as [TermKey] and [PrefixKey] return it.
func (b *Batch) AddPosting(list []byte, number uint64) error {
	return b.posting(list, number, formAddOne)
}

// RemovePosting removes a document number from a posting list, which need not contain
// it. Of an add and a remove in one batch the later wins.
func (b *Batch) RemovePosting(list []byte, number uint64) error {
	return b.posting(list, number, formRemoveOne)
}

func (b *Batch) posting(list []byte, number uint64, form byte) error {
	b.scratch = append(b.scratch[:0], list...)
	b.scratch = appendChunk(b.scratch, number>>16)
	operand := [3]byte{form, byte(number), byte(number >> 8)}
	return b.rows.Merge(b.scratch, operand[:], nil)
}

// Add appends a row, such as one that [ReadRows] returned.
func (b *Batch) Add(r Row) error {
	switch r.Kind {
	case RowSet:
		return b.Set(r.Key, r.Value)
	case RowDelete:
		return b.Delete(r.Key)
	case RowDeleteRange:
		return b.DeleteRange(r.Key, r.Value)
	case RowPosting:
		return b.rows.Merge(r.Key, r.Value, nil)
	}
	return fmt.Errorf("row of kind %d: %w", r.Kind, errRows)
}

// Join appends the rows of another batch of this process.
func (b *Batch) Join(other *Batch) error {
	if other.rows.Empty() {
		return nil
	}
	return b.rows.Apply(other.rows, nil)
}

// Renumber replaces the document number in all rows of a batch, which must be changes
// of posting lists for one document. The rows keep their key order.
func (b *Batch) Renumber(number uint64) error {
	chunk := appendChunk(nil, number>>16)
	return ReadRows(b.Repr(), func(r Row) error {
		if r.Kind != RowPosting || len(r.Key) <= chunkBytes || len(r.Value) != 3 {
			return fmt.Errorf("renumber a row of kind %d: %w", r.Kind, errRows)
		}
		copy(r.Key[len(r.Key)-chunkBytes:], chunk)
		r.Value[1], r.Value[2] = byte(number), byte(number>>8)
		return nil
	})
}

// Append appends the rows of repr, a result of [Batch.Repr]. If they are damaged it
// returns an error and leaves the batch unchanged.
func (b *Batch) Append(repr []byte) error {
	return b.AppendEach(repr, func(Row) error { return nil })
}

// AppendEach is Append that first calls visit for each row, in order. It returns the
// first error of visit, and then appends nothing.
func (b *Batch) AppendEach(repr []byte, visit func(Row) error) error {
	if len(repr) == 0 {
		return nil
	}
	if err := ReadRows(repr, visit); err != nil {
		return err
	}
	var other pebble.Batch
	if err := other.SetRepr(repr); err != nil {
		return fmt.Errorf("append rows: %w", err)
	}
	if err := b.rows.Apply(&other, nil); err != nil {
		return fmt.Errorf("append rows: %w", err)
	}
	return nil
}

// Repr returns the rows as bytes, for [Batch.Append] and [ReadRows]. The batch owns the
// bytes; they are valid until it changes or is closed.
func (b *Batch) Repr() []byte {
	if b.rows.Empty() {
		return nil
	}
	return b.rows.Repr()
}

// Rows returns the number of rows, operands of posting lists included.
func (b *Batch) Rows() int { return int(b.rows.Count()) }

// Len returns the size of the batch in bytes.
func (b *Batch) Len() int { return b.rows.Len() }

// Empty reports whether the batch has no rows.
func (b *Batch) Empty() bool { return b.rows.Empty() }

// Reset empties the batch, which can be used again.
func (b *Batch) Reset() { b.rows.Reset() }

// Close releases the batch's memory. The batch must not be used afterwards.
func (b *Batch) Close() error {
	if b.rows == nil {
		return nil
	}
	err := b.rows.Close()
	b.rows = nil
	return err
}

// RowKind is what a row of a batch does.
type RowKind uint8

// The kinds of rows.
const (
	RowSet         RowKind = iota // Key gets Value
	RowDelete                     // Key is deleted
	RowDeleteRange                // all keys in [Key, Value) are deleted
	RowPosting                    // a posting list changes; Key ends in a chunk
)

// Row is one row of a batch.
type Row struct {
	Kind  RowKind
	Key   []byte
	Value []byte
}

// Posting returns the list that a row of kind [RowPosting] changes, the number that it
// adds or removes, and whether it adds. The list shares the row's bytes.
func (r Row) Posting() (list []byte, number uint64, added bool, err error) {
	list, chunk, err := cutChunk(r.Key)
	if err != nil {
		return nil, 0, false, err
	}
	if len(r.Value) != 3 || (r.Value[0] != formAddOne && r.Value[0] != formRemoveOne) {
		return nil, 0, false, fmt.Errorf("posting operand %x: %w", r.Value, errPosting)
	}
	low := uint64(r.Value[1]) | uint64(r.Value[2])<<8
	return list, chunk<<16 | low, r.Value[0] == formAddOne, nil
}

// ReadRows calls visit for each row of repr, in order. Keys and values share repr's
// bytes. It returns the first error of visit, or an error if the bytes are damaged.
func ReadRows(repr []byte, visit func(Row) error) error {
	if len(repr) == 0 {
		return nil
	}
	header, ok := batchrepr.ReadHeader(repr)
	if !ok {
		return fmt.Errorf("read rows: %w", errRows)
	}
	rest := repr[batchrepr.HeaderLen:]
	count := uint32(0)
	for len(rest) > 0 {
		row, next, err := cutRow(rest)
		if err != nil {
			return fmt.Errorf("read row %d: %w", count, err)
		}
		if err := visit(row); err != nil {
			return err
		}
		rest = next
		count++
	}
	if count != header.Count {
		return fmt.Errorf("read rows: %d of %d: %w", count, header.Count, errRows)
	}
	return nil
}

// cutRow splits off the first row. Pebble's own reader trusts its input, but these
// bytes may come from a log or another machine.
func cutRow(rows []byte) (row Row, rest []byte, err error) {
	switch pebble.InternalKeyKind(rows[0]) {
	case pebble.InternalKeyKindSet:
		row.Kind = RowSet
	case pebble.InternalKeyKindDelete:
		row.Kind = RowDelete
	case pebble.InternalKeyKindRangeDelete:
		row.Kind = RowDeleteRange
	case pebble.InternalKeyKindMerge:
		row.Kind = RowPosting
	default:
		// No Batch of this package has any other kind.
		return Row{}, nil, fmt.Errorf("kind %d: %w", rows[0], errRows)
	}
	row.Key, rest, err = cutBytes(rows[1:])
	if err != nil || row.Kind == RowDelete {
		return row, rest, err
	}
	row.Value, rest, err = cutBytes(rest)
	return row, rest, err
}

func cutBytes(b []byte) (part, rest []byte, err error) {
	size, n := uvarint32(b)
	if n <= 0 || uint64(size) > uint64(len(b)-n) {
		return nil, nil, errRows
	}
	b = b[n:]
	return slices.Clip(b[:size]), b[size:], nil
}

func uvarint32(b []byte) (v uint32, n int) {
	for i, c := range b[:min(len(b), 5)] {
		if i == 4 && c > 0x0F {
			return 0, 0
		}
		v |= uint32(c&0x7F) << (7 * i)
		if c < 0x80 {
			return v, i + 1
		}
	}
	return 0, 0
}
