package partition

import (
	"encoding/binary"
	"fmt"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/partitionkey"
)

// kept is a part of the key space and an LSN: of that part, the complete feed has
// every change after the LSN. After a merge there can be several parts.
type kept struct {
	max   partitionkey.EPK // not included; the next one begins there
	after resource.LSN
}

// keptList tiles the range of a partition. It is empty if the partition keeps no
// changes, or has not written any since it began to keep them.
type keptList []kept

// append appends the row of the list.
func (l keptList) append(dst []byte) []byte {
	dst = append(dst, metaVersion)
	for _, k := range l {
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(k.max)))
		dst = append(dst, k.max...)
		dst = binary.BigEndian.AppendUint64(dst, uint64(k.after))
	}
	return dst
}

// decodeKept decodes a row of append.
func decodeKept(row []byte) (l keptList, err error) {
	const lsnBytes = 8
	damaged := fmt.Errorf("kept %x: %w", row, errMeta)
	if len(row) < 2 || row[0] != metaVersion {
		return nil, damaged
	}
	for rest := row[1:]; len(rest) > 0; {
		if len(rest) < 2 {
			return nil, damaged
		}
		n := int(binary.BigEndian.Uint16(rest))
		if rest = rest[2:]; len(rest) < n+lsnBytes {
			return nil, damaged
		}
		k := kept{max: partitionkey.EPK(rest[:n]), after: resource.LSN(binary.BigEndian.Uint64(rest[n:]))}
		if len(l) > 0 && l[len(l)-1].max.Compare(k.max) >= 0 {
			return nil, damaged
		}
		l, rest = append(l, k), rest[n+lsnBytes:]
	}
	return l, nil
}

// readKept reads the row, and returns an empty list if there is none.
func readKept(r reader) (keptList, error) {
	row, found, err := r.Get(nil, storage.MetaKey(nil, metaKept))
	if err != nil || !found {
		return nil, err
	}
	return decodeKept(row)
}

// at returns the part that contains a hashed key, nil if no part does.
func (l keptList) at(epk partitionkey.EPK) *kept {
	for i := range l {
		if epk.Compare(l[i].max) < 0 {
			return &l[i]
		}
	}
	return nil
}

// covers reports whether the feed has every change of a range after a position.
func (l keptList) covers(r partitionkey.Range, after resource.LSN) bool {
	for _, k := range l {
		if r.Min.Compare(k.max) >= 0 {
			continue // before the range
		}
		if after < k.after {
			return false
		}
		if r.Max.Compare(k.max) <= 0 {
			break
		}
	}
	return true
}
