package row

import (
	"bytes"
	"cmp"
)

// Times are of two kinds. A timestamp orders writes: it is what the client or the
// server gives as the time of a write, in microseconds as a rule, and it may be
// negative. Seconds are those of the clock since 1970: they decide when something
// expires, and when a tombstone may be purged.

// Liveness is the marker of a row: an INSERT was made, so the row exists even if
// all its columns are null. The zero value is no marker.
type Liveness struct {
	Present   bool
	Timestamp int64
	// TTL is the time to live in seconds, 0 for no end. Expiry is the second from
	// which the marker is dead, if TTL is not 0.
	TTL    uint32
	Expiry int64
}

// Live says whether the marker exists and has not expired.
func (l Liveness) Live(now int64) bool { return l.Present && (l.TTL == 0 || now < l.Expiry) }

// Deletion covers everything with its timestamp or a lesser one. The zero value
// is no deletion.
type Deletion struct {
	Present   bool
	Timestamp int64
	// Local is the second of the server's clock at which it was made; it decides
	// when the deletion may be purged.
	Local int64
}

// Covers says whether something with a timestamp is deleted.
func (d Deletion) Covers(timestamp int64) bool { return d.Present && timestamp <= d.Timestamp }

// Or returns the deletion of the two that covers more.
func (d Deletion) Or(other Deletion) Deletion {
	if !d.Present || other.Present && (other.Timestamp > d.Timestamp ||
		other.Timestamp == d.Timestamp && other.Local > d.Local) {
		return other
	}
	return d
}

// CellKind is the kind of a cell.
type CellKind uint8

// The kinds of cells.
const (
	// CellLive has a value.
	CellLive CellKind = iota
	// CellExpiring has a value until its expiry; then it is a tombstone.
	CellExpiring
	// CellTombstone has no value: the column, element or field was deleted.
	CellTombstone
	// CellDeletion deletes the elements of a multi-cell column that have its
	// timestamp or a lesser one. It precedes the elements.
	CellDeletion
	// CellCounter has the value of a counter.
	CellCounter
)

// Cell is the value of a column, or of one element of a multi-cell column, or the
// record of its deletion.
type Cell struct {
	// Column is the id of the column in its table: never reused, also after the
	// column is dropped.
	Column uint32
	Kind   CellKind
	// Path names the element of a multi-cell column in the order of bytes: the
	// encoded key of a set or map, the index of a field (two bytes), or the
	// place in a list. It is nil for other columns and in a CellDeletion.
	Path []byte
	// Original are the bytes of the key of a set or map if Path does not have
	// them all; see [Type.Original].
	Original  []byte
	Timestamp int64
	// TTL is the time to live of a CellExpiring in seconds.
	TTL uint32
	// Local is the second from which a CellExpiring is dead, or at which a
	// CellTombstone or CellDeletion was made.
	Local int64
	// Value is the value of a live, expiring or counter cell. An element of a set
	// has an empty one.
	Value []byte
}

// Live says whether the cell has a value at a time.
func (c *Cell) Live(now int64) bool {
	switch c.Kind {
	case CellLive, CellCounter:
		return true
	case CellExpiring:
		return now < c.Local
	}
	return false
}

// KeyValue keeps the bytes of a clustering value that the encoded key does not
// have.
type KeyValue struct {
	// Column is the index of the clustering column.
	Column int
	Value  []byte
}

// Row is a row, a static row, or the changes that a write makes to one: they merge
// alike. It has nothing that its own deletions cover. The zero value is a row
// without anything. Rows made by [DecodeRow] share memory with the encoded bytes.
type Row struct {
	Marker   Liveness
	Deletion Deletion
	// Cells are in the order of columns and paths, each once. A CellDeletion is
	// the first cell of its column.
	Cells []Cell
	// Key are the clustering values whose bytes the encoded key does not have.
	Key []KeyValue
}

// Empty says whether the row has no marker, no deletion and no cell: there is
// nothing to store.
func (r *Row) Empty() bool {
	return !r.Marker.Present && !r.Deletion.Present && len(r.Cells) == 0
}

// Alive says whether the row exists for readers at a time: its marker or one of
// its cells is live. A static row exists by its cells.
func (r *Row) Alive(now int64) bool {
	if r.Marker.Live(now) {
		return true
	}
	for i := range r.Cells {
		if r.Cells[i].Live(now) {
			return true
		}
	}
	return false
}

// Expiry returns the second from which the row has nothing to keep but the record
// that it is gone: nothing of it is live, and all of its deletions and tombstones
// were made by then. A time after that, which allows for writes that arrive late,
// the row may be removed as a whole. It returns false if a part of the row never
// expires, or if the row is empty.
func (r *Row) Expiry() (second int64, expires bool) {
	at := func(candidate int64) {
		if !expires || candidate > second {
			second, expires = candidate, true
		}
	}
	if r.Marker.Present {
		if r.Marker.TTL == 0 {
			return 0, false
		}
		at(r.Marker.Expiry)
	}
	if r.Deletion.Present {
		at(r.Deletion.Local)
	}
	for i := range r.Cells {
		switch c := &r.Cells[i]; c.Kind {
		case CellLive, CellCounter:
			return 0, false
		default:
			at(c.Local)
		}
	}
	return second, expires
}

// orderCells orders cells by column, deletions of columns first, then by path.
func orderCells(a, b *Cell) int {
	if c := cmp.Compare(a.Column, b.Column); c != 0 {
		return c
	}
	if deletionA, deletionB := a.Kind == CellDeletion, b.Kind == CellDeletion; deletionA != deletionB {
		if deletionA {
			return -1
		}
		return 1
	}
	return bytes.Compare(a.Path, b.Path)
}

// Merge returns the row that has the changes of both rows, whatever their order:
// Merge is commutative, associative and idempotent, but that the key values are
// those of a, unless a is empty. The result shares memory with both.
func Merge(a, b *Row) Row {
	switch {
	case a.Empty():
		return *b
	case b.Empty():
		return *a
	}
	merged := Row{
		Marker:   a.Marker.or(b.Marker),
		Deletion: a.Deletion.Or(b.Deletion),
		Key:      a.Key,
		Cells:    make([]Cell, 0, len(a.Cells)+len(b.Cells)),
	}
	if merged.Deletion.Covers(merged.Marker.Timestamp) {
		merged.Marker = Liveness{}
	}
	m := merger{row: &merged}
	x, y := a.Cells, b.Cells
	for len(x) > 0 && len(y) > 0 {
		switch order := orderCells(&x[0], &y[0]); {
		case order < 0:
			m.add(&x[0])
			x = x[1:]
		case order > 0:
			m.add(&y[0])
			y = y[1:]
		default:
			if wins(&y[0], &x[0]) {
				m.add(&y[0])
			} else {
				m.add(&x[0])
			}
			x, y = x[1:], y[1:]
		}
	}
	for i := range x {
		m.add(&x[i])
	}
	for i := range y {
		m.add(&y[i])
	}
	return merged
}

// merger appends cells in order, without those that are deleted.
type merger struct {
	row *Row
	// column is the one whose elements elements deletes.
	column   uint32
	elements Deletion
}

// add returns false if the cell is deleted.
func (m *merger) add(c *Cell) bool {
	if m.row.Deletion.Covers(c.Timestamp) {
		return false
	}
	if c.Kind == CellDeletion {
		m.column, m.elements = c.Column, Deletion{Present: true, Timestamp: c.Timestamp}
	} else if m.column == c.Column && c.Path != nil && m.elements.Covers(c.Timestamp) {
		return false
	}
	m.row.Cells = append(m.row.Cells, *c)
	return true
}

// or returns the marker that wins: the later one, at the same timestamp the
// expiring one, then the one that expires later, then the one with the shorter time
// to live, which was probably written later.
func (l Liveness) or(other Liveness) Liveness {
	switch {
	case !l.Present:
		return other
	case !other.Present:
		return l
	}
	order := cmp.Or(
		cmp.Compare(l.Timestamp, other.Timestamp),
		cmp.Compare(min(l.TTL, 1), min(other.TTL, 1)),
		cmp.Compare(l.Expiry, other.Expiry),
		cmp.Compare(other.TTL, l.TTL),
	)
	if order < 0 {
		return other
	}
	return l
}

// wins says whether cell a, and not b, is the value of their column or element. The
// later one wins. At the same timestamp a tombstone wins over everything, then an
// expiring cell over a live one; of two tombstones or expiring cells the one with
// the later second, then the one with the shorter time to live, which was probably
// written later; then the greater value, by unsigned bytes. A tombstone wins over a
// counter whatever their timestamps: a counter that was deleted is not counted again.
func wins(a, b *Cell) bool {
	if a.Kind == CellCounter && b.Kind == CellTombstone || a.Kind == CellTombstone && b.Kind == CellCounter {
		return a.Kind == CellTombstone
	}
	if a.Timestamp != b.Timestamp {
		return a.Timestamp > b.Timestamp
	}
	order := cmp.Compare(cellRank(a.Kind), cellRank(b.Kind))
	if order == 0 && cellRank(a.Kind) > 0 {
		order = cmp.Or(cmp.Compare(a.Local, b.Local), cmp.Compare(b.TTL, a.TTL))
	}
	if order == 0 {
		order = cmp.Or(bytes.Compare(a.Value, b.Value), bytes.Compare(a.Original, b.Original))
	}
	return order > 0
}

func cellRank(k CellKind) int {
	switch k {
	case CellTombstone, CellDeletion:
		return 2
	case CellExpiring:
		return 1
	}
	return 0
}

// Shadow returns the row without what a deletion of its partition or of a range
// covers. It does not add the deletion to the row. The result shares memory with
// the row.
func (r *Row) Shadow(d Deletion) Row {
	if !d.Present {
		return *r
	}
	shadowed := Row{Marker: r.Marker, Deletion: r.Deletion, Key: r.Key}
	if d.Covers(r.Marker.Timestamp) {
		shadowed.Marker = Liveness{}
	}
	if d.Covers(r.Deletion.Timestamp) {
		shadowed.Deletion = Deletion{}
	}
	for i := range r.Cells {
		if !d.Covers(r.Cells[i].Timestamp) {
			shadowed.Cells = append(shadowed.Cells, r.Cells[i])
		}
	}
	return shadowed
}

// Due returns the second from which Purge, with before = now-grace, changes something.
// It returns false if nothing of the row expires or was deleted.
func (r *Row) Due(grace int64) (second int64, ok bool) {
	at := func(candidate int64) {
		if !ok || candidate < second {
			second, ok = candidate, true
		}
	}
	if r.Marker.Present && r.Marker.TTL > 0 {
		at(r.Marker.Expiry + grace + 1)
	}
	if r.Deletion.Present {
		at(r.Deletion.Local + grace + 1)
	}
	for i := range r.Cells {
		switch c := &r.Cells[i]; c.Kind {
		case CellLive, CellCounter:
		case CellExpiring:
			at(c.Local)
		default:
			at(c.Local + grace + 1)
		}
	}
	return second, ok
}

// Purge returns the row without what is dead and was deleted or had expired before
// a second: deletions, tombstones, expired cells and an expired marker. Other
// expired cells lose their values and become tombstones. Older writes that arrive
// after a purge may reappear, so before must be far enough in the past. It returns
// false if nothing changes. The result shares memory with the row.
func (r *Row) Purge(now, before int64) (purged Row, changed bool) {
	purged = Row{Marker: r.Marker, Deletion: r.Deletion, Key: r.Key}
	if r.Marker.Present && !r.Marker.Live(now) && r.Marker.Expiry < before {
		purged.Marker, changed = Liveness{}, true
	}
	if r.Deletion.Present && r.Deletion.Local < before {
		purged.Deletion, changed = Deletion{}, true
	}
	for i := range r.Cells {
		c := r.Cells[i]
		if !c.Live(now) {
			if c.Local < before {
				changed = true
				continue
			}
			if c.Kind == CellExpiring {
				// The tombstone of an expired cell was made when the cell was written.
				c.Kind, c.Local, c.TTL, c.Value = CellTombstone, c.Local-int64(c.TTL), 0, nil
				changed = true
			}
		}
		purged.Cells = append(purged.Cells, c)
	}
	return purged, changed
}
