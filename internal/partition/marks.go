package partition

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/partitionkey"
)

// purge is a mark of purged documents. It hides the documents of a key, or of a
// prefix of one, that last changed at an LSN or before it.
type purge struct {
	extent partitionkey.Range // of the hashed keys; after a split, a part may belong to another partition
	key    []byte             // canonical: of all levels, or of the first ones
	lsn    resource.LSN
}

// hides reports whether the mark hides a document. Canonical components delimit
// themselves, so one key is a prefix of another only by whole levels.
func (m *purge) hides(d *document) bool {
	return d.lsn <= m.lsn && bytes.HasPrefix(d.key, m.key)
}

// bounds returns the bounds of the rows that the mark covers in a family whose keys
// begin with the EPK, within the own range of a partition. With keys of version 1
// they include a few other rows.
func (m *purge) bounds(own partitionkey.Range, width int, f storage.Family) (low, high []byte) {
	extent, overlaps := m.extent.Intersect(own)
	if !overlaps {
		return []byte{byte(f)}, []byte{byte(f)}
	}
	low, high = keyBounds(extent, width)
	return append([]byte{byte(f)}, low...), append([]byte{byte(f)}, high...)
}

// purges are the marks of a partition, the oldest first.
type purges []purge

// hide reports whether one of the marks hides a document.
func (l purges) hide(d *document) bool {
	for i := range l {
		if l[i].hides(d) {
			return true
		}
	}
	return false
}

// concern reports whether a mark may hide documents of a canonical key.
func (l purges) concern(key []byte) bool {
	return slices.ContainsFunc(l, func(m purge) bool { return bytes.HasPrefix(key, m.key) })
}

// overlap reports whether a mark may hide documents of a range.
func (l purges) overlap(r partitionkey.Range) bool {
	return slices.ContainsFunc(l, func(m purge) bool { return m.extent.Overlaps(r) })
}

// append appends the row of the marks.
func (l purges) append(dst []byte) []byte {
	dst = append(dst, metaVersion)
	for _, m := range l {
		dst = binary.BigEndian.AppendUint64(dst, uint64(m.lsn))
		for _, part := range [][]byte{[]byte(m.extent.Min), []byte(m.extent.Max), m.key} {
			dst = binary.BigEndian.AppendUint16(dst, uint16(len(part)))
			dst = append(dst, part...)
		}
	}
	return dst
}

// decodePurges decodes a row of marks. They share its bytes.
func decodePurges(row []byte) (l purges, err error) {
	const lsnBytes = 8
	damaged := fmt.Errorf("purges %.64x: %w", row, errMeta)
	if len(row) < 2 || row[0] != metaVersion {
		return nil, damaged
	}
	for rest := row[1:]; len(rest) > 0; {
		if len(rest) < lsnBytes {
			return nil, damaged
		}
		m := purge{lsn: resource.LSN(binary.BigEndian.Uint64(rest))}
		rest = rest[lsnBytes:]
		var parts [3][]byte
		for i := range parts {
			if len(rest) < 2 || len(rest)-2 < int(binary.BigEndian.Uint16(rest)) {
				return nil, damaged
			}
			end := 2 + int(binary.BigEndian.Uint16(rest))
			parts[i], rest = rest[2:end:end], rest[end:]
		}
		m.extent = partitionkey.Range{Min: partitionkey.EPK(parts[0]), Max: partitionkey.EPK(parts[1])}
		m.key = parts[2]
		if m.lsn == 0 || len(m.key) == 0 || m.extent.Empty() {
			return nil, damaged
		}
		l = append(l, m)
	}
	return l, nil
}

// readPurges reads the marks, if the state says that there are some.
func readPurges(r reader, s state) (purges, error) {
	if s.purged == 0 {
		return nil, nil
	}
	row, found, err := r.Get(nil, storage.MetaKey(nil, metaPurges))
	if err == nil && !found {
		err = fmt.Errorf("row %s is missing: %w", metaPurges, errMeta)
	}
	if err != nil {
		return nil, err
	}
	return decodePurges(row)
}
