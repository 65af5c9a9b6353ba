package row

import (
	"encoding/binary"
	"fmt"
)

// The encoded form of a row, version 1:
//
//	version 1, flags
//	timestamp, 8 bytes         if there is a marker or a cell: that of the marker,
//	                           or of the first cell
//	TTL, expiry                if the marker or a cell expires: of the first one
//	deletion: timestamp, 8 bytes; second
//	key values: number; of each: column, length, bytes
//	number of cells, the cells
//
// and of a cell:
//
//	column minus the column of the cell before it, head
//	timestamp minus that of the row   if it is another one
//	TTL, expiry                       if it expires otherwise
//	second                            of a tombstone or deletion
//	path, original, value             each with its length, if the cell has it
//
// Numbers are varints, with sign where they may be negative. A cell with the
// timestamp of the row has no byte for it.
const rowVersion = 1

const (
	rowMarker = 1 << iota
	rowDeletion
	rowKey
	rowTTL
	rowMarkerTTL
	rowTimestamp
	rowFlagsEnd
)

const (
	cellKindMask = 7
	cellPath     = 1 << (iota + 2)
	cellTimestamp
	cellOriginal
	cellTTL
	cellHeadEnd
)

// Append appends the encoded form of the row, which [DecodeRow] and [Reader] read.
func (r *Row) Append(dst []byte) []byte {
	flags, base := byte(0), int64(0)
	ttl, expiry, expires := uint32(0), int64(0), false
	if r.Marker.Present {
		flags |= rowMarker
		base = r.Marker.Timestamp
		if r.Marker.TTL > 0 {
			flags |= rowMarkerTTL
			ttl, expiry, expires = r.Marker.TTL, r.Marker.Expiry, true
		}
	} else if len(r.Cells) > 0 {
		base = r.Cells[0].Timestamp
	}
	if r.Marker.Present || len(r.Cells) > 0 {
		flags |= rowTimestamp
	}
	for i := range r.Cells {
		if c := &r.Cells[i]; !expires && c.Kind == CellExpiring {
			ttl, expiry, expires = c.TTL, c.Local, true
		}
	}
	if expires {
		flags |= rowTTL
	}
	if r.Deletion.Present {
		flags |= rowDeletion
	}
	if len(r.Key) > 0 {
		flags |= rowKey
	}
	dst = append(dst, rowVersion, flags)
	if flags&rowTimestamp != 0 {
		dst = binary.BigEndian.AppendUint64(dst, uint64(base))
	}
	if expires {
		dst = binary.AppendVarint(binary.AppendUvarint(dst, uint64(ttl)), expiry)
	}
	if r.Deletion.Present {
		dst = binary.BigEndian.AppendUint64(dst, uint64(r.Deletion.Timestamp))
		dst = binary.AppendVarint(dst, r.Deletion.Local)
	}
	if len(r.Key) > 0 {
		dst = binary.AppendUvarint(dst, uint64(len(r.Key)))
		for _, k := range r.Key {
			dst = appendBytes(binary.AppendUvarint(dst, uint64(k.Column)), k.Value)
		}
	}
	dst = binary.AppendUvarint(dst, uint64(len(r.Cells)))
	column := uint32(0)
	for i := range r.Cells {
		c := &r.Cells[i]
		dst = binary.AppendUvarint(dst, uint64(c.Column-column))
		column = c.Column
		dst = c.append(dst, base, ttl, expiry)
	}
	return dst
}

func (c *Cell) append(dst []byte, base int64, ttl uint32, expiry int64) []byte {
	head := byte(c.Kind)
	if c.Path != nil {
		head |= cellPath
	}
	if c.Timestamp != base {
		head |= cellTimestamp
	}
	if c.Original != nil {
		head |= cellOriginal
	}
	if c.Kind == CellExpiring && (c.TTL != ttl || c.Local != expiry) {
		head |= cellTTL
	}
	dst = append(dst, head)
	if head&cellTimestamp != 0 {
		dst = binary.AppendVarint(dst, c.Timestamp-base)
	}
	if head&cellTTL != 0 {
		dst = binary.AppendVarint(binary.AppendUvarint(dst, uint64(c.TTL)), c.Local)
	}
	if c.Kind == CellTombstone || c.Kind == CellDeletion {
		dst = binary.AppendVarint(dst, c.Local)
	}
	if c.Path != nil {
		dst = appendBytes(dst, c.Path)
	}
	if c.Original != nil {
		dst = appendBytes(dst, c.Original)
	}
	if c.hasValue() {
		dst = appendBytes(dst, c.Value)
	}
	return dst
}

func (c *Cell) hasValue() bool {
	return c.Kind == CellLive || c.Kind == CellExpiring || c.Kind == CellCounter
}

func appendBytes(dst, v []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(v))), v...)
}

// cursor reads the parts of an encoding. After a fault it returns zeros, and bad
// is true.
type cursor struct {
	rest []byte
	bad  bool
}

func (c *cursor) fail() {
	c.rest, c.bad = nil, true
}

func (c *cursor) byte() byte {
	if len(c.rest) == 0 {
		c.fail()
		return 0
	}
	b := c.rest[0]
	c.rest = c.rest[1:]
	return b
}

func (c *cursor) uvarint() uint64 {
	if len(c.rest) > 0 && c.rest[0] < 0x80 {
		n := uint64(c.rest[0])
		c.rest = c.rest[1:]
		return n
	}
	n, used := binary.Uvarint(c.rest)
	if used <= 0 {
		c.fail()
		return 0
	}
	c.rest = c.rest[used:]
	return n
}

func (c *cursor) varint() int64 {
	n, used := binary.Varint(c.rest)
	if used <= 0 {
		c.fail()
		return 0
	}
	c.rest = c.rest[used:]
	return n
}

// uint32 reads a varint of 32 bits.
func (c *cursor) uint32() uint32 {
	n := c.uvarint()
	if n > 1<<32-1 {
		c.fail()
	}
	return uint32(n)
}

func (c *cursor) int64() int64 {
	if len(c.rest) < 8 {
		c.fail()
		return 0
	}
	n := int64(binary.BigEndian.Uint64(c.rest))
	c.rest = c.rest[8:]
	return n
}

// bytes reads a length and bytes, which share memory with the source.
func (c *cursor) bytes() []byte {
	n := c.uvarint()
	if n > uint64(len(c.rest)) {
		c.fail()
		return nil
	}
	v := c.rest[:n:n]
	c.rest = c.rest[n:]
	return v
}

// count reads a number of parts, each of which has at least one byte.
func (c *cursor) count() int {
	n := c.uvarint()
	if n > uint64(len(c.rest)) {
		c.fail()
		return 0
	}
	return int(n)
}

// Reader reads an encoded row without allocating: first its marker and deletion,
// then cell by cell. The zero value is ready for [Reader.Reset].
type Reader struct {
	Marker   Liveness
	Deletion Deletion
	// Cell is the cell that Next read. Its slices share memory with the encoded
	// row.
	Cell Cell

	// Known says whether a column exists, so that its cells make a row visible. Nil is for
	// all columns.
	Known func(column uint32) bool

	cursor cursor
	key    cursor // at the key values
	keys   int    // number of key values
	cells  int    // that remain
	base   int64
	ttl    uint32
	expiry int64
}

// Reset starts to read an encoded row. It returns an error that wraps ErrCorrupt
// if the row is not one that [Row.Append] made.
func (r *Reader) Reset(encoded []byte) error {
	*r = Reader{Known: r.Known, cursor: cursor{rest: encoded}}
	c := &r.cursor
	version, flags := c.byte(), c.byte()
	if version != rowVersion || flags >= rowFlagsEnd || flags&rowMarkerTTL != 0 && flags&(rowTTL|rowMarker) != rowTTL|rowMarker {
		return corruptRow()
	}
	if flags&rowTimestamp != 0 {
		r.base = c.int64()
	}
	if flags&rowTTL != 0 {
		r.ttl, r.expiry = c.uint32(), c.varint()
	}
	if flags&rowMarker != 0 {
		r.Marker = Liveness{Present: true, Timestamp: r.base}
		if flags&rowMarkerTTL != 0 {
			r.Marker.TTL, r.Marker.Expiry = r.ttl, r.expiry
		}
	}
	if flags&rowDeletion != 0 {
		r.Deletion = Deletion{Present: true, Timestamp: c.int64(), Local: c.varint()}
	}
	if flags&rowKey != 0 {
		r.keys = c.count()
		r.key = *c
		for range r.keys {
			c.uint32()
			c.bytes()
		}
	}
	r.cells = c.count()
	if c.bad {
		return corruptRow()
	}
	return nil
}

// Next reads the next cell into Cell. It returns false after the last cell, or if
// the row is corrupt; see [Reader.Err].
func (r *Reader) Next() bool {
	if r.cells == 0 || r.cursor.bad {
		return false
	}
	r.cells--
	c := &r.cursor
	column := uint64(r.Cell.Column) + c.uvarint()
	head := c.byte()
	kind := CellKind(head & cellKindMask)
	r.Cell = Cell{Column: uint32(column), Kind: kind, Timestamp: r.base}
	if column > 1<<32-1 || kind > CellCounter || head >= cellHeadEnd {
		c.fail()
	}
	if head&cellTimestamp != 0 {
		r.Cell.Timestamp += c.varint()
	}
	switch kind {
	case CellExpiring:
		r.Cell.TTL, r.Cell.Local = r.ttl, r.expiry
		if head&cellTTL != 0 {
			r.Cell.TTL, r.Cell.Local = c.uint32(), c.varint()
		}
	case CellTombstone, CellDeletion:
		r.Cell.Local = c.varint()
	}
	if head&cellPath != 0 {
		r.Cell.Path = c.bytes()
	}
	if head&cellOriginal != 0 {
		r.Cell.Original = c.bytes()
	}
	if r.Cell.hasValue() {
		r.Cell.Value = c.bytes()
	}
	return !c.bad
}

// Err returns an error that wraps ErrCorrupt if Next stopped at a fault, or if
// bytes remain after the last cell.
func (r *Reader) Err() error {
	if r.cursor.bad || r.cells == 0 && len(r.cursor.rest) > 0 {
		return corruptRow()
	}
	return nil
}

// KeyValues returns the clustering values whose bytes the encoded key does not
// have. They share memory with the encoded row.
func (r *Reader) KeyValues() []KeyValue {
	if r.keys == 0 {
		return nil
	}
	values, c := make([]KeyValue, r.keys), r.key
	for i := range values {
		values[i] = KeyValue{Column: int(c.uint32()), Value: c.bytes()}
	}
	return values
}

// DecodeRow reads a whole row, which shares memory with the encoded bytes. It
// returns an error that wraps ErrCorrupt if the cells are not in order, or if the
// row has something that its deletions cover.
func DecodeRow(encoded []byte) (Row, error) {
	var r Reader
	if err := r.Reset(encoded); err != nil {
		return Row{}, err
	}
	row := Row{Marker: r.Marker, Deletion: r.Deletion, Key: r.KeyValues()}
	if r.cells > 0 {
		row.Cells = make([]Cell, 0, r.cells)
	}
	if row.Marker.Present && row.Deletion.Covers(row.Marker.Timestamp) {
		return Row{}, corruptRow()
	}
	m := merger{row: &row}
	for r.Next() {
		if n := len(row.Cells); n > 0 && orderCells(&row.Cells[n-1], &r.Cell) >= 0 {
			return Row{}, corruptRow()
		}
		if !m.add(&r.Cell) {
			return Row{}, corruptRow()
		}
	}
	return row, r.Err()
}

func corruptRow() error { return fmt.Errorf("%w: row", ErrCorrupt) }
