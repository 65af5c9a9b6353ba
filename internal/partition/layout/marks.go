package layout

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/partitionkey"
)

// Mark is a mark of purged documents. It hides the documents of a key, or of a
// prefix of one, that last changed at an LSN or before it.
type Mark struct {
	Extent partitionkey.Range // of the hashed keys; after a split, a part may belong to another partition
	Key    []byte             // canonical: of all levels, or of the first ones
	LSN    resource.LSN
}

// Hides reports whether the mark hides a document. Canonical components delimit
// themselves, so one key is a prefix of another only by whole levels.
func (m *Mark) Hides(d *Document) bool {
	return d.LSN <= m.LSN && bytes.HasPrefix(d.Key, m.Key)
}

// Bounds returns the bounds of the rows that the mark covers in a family whose keys
// begin with the EPK, within the own range of a partition. With keys of version 1
// they include a few other rows.
func (m *Mark) Bounds(own partitionkey.Range, width int, f storage.Family) (low, high []byte) {
	extent, overlaps := m.Extent.Intersect(own)
	if !overlaps {
		return []byte{byte(f)}, []byte{byte(f)}
	}
	low, high = KeyBounds(extent, width)
	return append([]byte{byte(f)}, low...), append([]byte{byte(f)}, high...)
}

// Marks are the marks of a partition, the oldest first.
type Marks []Mark

// Hides reports whether one of the marks hides a document.
func (l Marks) Hides(d *Document) bool {
	for i := range l {
		if l[i].Hides(d) {
			return true
		}
	}
	return false
}

// Concern reports whether a mark may hide documents of a canonical key.
func (l Marks) Concern(key []byte) bool {
	return slices.ContainsFunc(l, func(m Mark) bool { return bytes.HasPrefix(key, m.Key) })
}

// Overlap reports whether a mark may hide documents of a range.
func (l Marks) Overlap(r partitionkey.Range) bool {
	return slices.ContainsFunc(l, func(m Mark) bool { return m.Extent.Overlaps(r) })
}

// Append appends the row of the marks.
func (l Marks) Append(dst []byte) []byte {
	dst = append(dst, MetaVersion)
	for _, m := range l {
		dst = binary.BigEndian.AppendUint64(dst, uint64(m.LSN))
		for _, part := range [][]byte{[]byte(m.Extent.Min), []byte(m.Extent.Max), m.Key} {
			dst = binary.BigEndian.AppendUint16(dst, uint16(len(part)))
			dst = append(dst, part...)
		}
	}
	return dst
}

// DecodeMarks decodes a row of marks. They share its bytes.
func DecodeMarks(row []byte) (l Marks, err error) {
	const lsnBytes = 8
	damaged := fmt.Errorf("purges %.64x: %w", row, ErrMeta)
	if len(row) < 2 || row[0] != MetaVersion {
		return nil, damaged
	}
	for rest := row[1:]; len(rest) > 0; {
		if len(rest) < lsnBytes {
			return nil, damaged
		}
		m := Mark{LSN: resource.LSN(binary.BigEndian.Uint64(rest))}
		rest = rest[lsnBytes:]
		var parts [3][]byte
		for i := range parts {
			if len(rest) < 2 || len(rest)-2 < int(binary.BigEndian.Uint16(rest)) {
				return nil, damaged
			}
			end := 2 + int(binary.BigEndian.Uint16(rest))
			parts[i], rest = rest[2:end:end], rest[end:]
		}
		m.Extent = partitionkey.Range{Min: partitionkey.EPK(parts[0]), Max: partitionkey.EPK(parts[1])}
		m.Key = parts[2]
		if m.LSN == 0 || len(m.Key) == 0 || m.Extent.Empty() {
			return nil, damaged
		}
		l = append(l, m)
	}
	return l, nil
}

// ReadMarks reads the marks, if the state says that there are some.
func ReadMarks(r Getter, s State) (Marks, error) {
	if s.Purged == 0 {
		return nil, nil
	}
	row, found, err := r.Get(nil, storage.MetaKey(nil, MetaPurges))
	if err == nil && !found {
		err = fmt.Errorf("row %s is missing: %w", MetaPurges, ErrMeta)
	}
	if err != nil {
		return nil, err
	}
	return DecodeMarks(row)
}
