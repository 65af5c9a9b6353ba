package layout

import (
	"encoding/binary"
	"fmt"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/partitionkey"
)

// Kept is a part of the key space and an LSN: of that part, the complete feed has
// every change after the LSN. After a merge there can be several parts.
type Kept struct {
	Max   partitionkey.EPK // not included; the next one begins there
	After resource.LSN
}

// KeptList tiles the range of a partition. It is empty if the partition keeps no
// changes, or has not written any since it began to keep them.
type KeptList []Kept

// Append appends the row of the list.
func (l KeptList) Append(dst []byte) []byte {
	dst = append(dst, MetaVersion)
	for _, k := range l {
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(k.Max)))
		dst = append(dst, k.Max...)
		dst = binary.BigEndian.AppendUint64(dst, uint64(k.After))
	}
	return dst
}

// DecodeKept decodes a row of Append.
func DecodeKept(row []byte) (l KeptList, err error) {
	const lsnBytes = 8
	damaged := fmt.Errorf("kept %x: %w", row, ErrMeta)
	if len(row) < 2 || row[0] != MetaVersion {
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
		k := Kept{Max: partitionkey.EPK(rest[:n]), After: resource.LSN(binary.BigEndian.Uint64(rest[n:]))}
		if len(l) > 0 && l[len(l)-1].Max.Compare(k.Max) >= 0 {
			return nil, damaged
		}
		l, rest = append(l, k), rest[n+lsnBytes:]
	}
	return l, nil
}

// ReadKept reads the row, and returns an empty list if there is none.
func ReadKept(r Getter) (KeptList, error) {
	row, found, err := r.Get(nil, storage.MetaKey(nil, MetaKept))
	if err != nil || !found {
		return nil, err
	}
	return DecodeKept(row)
}

// At returns the part that contains a hashed key, nil if no part does.
func (l KeptList) At(epk partitionkey.EPK) *Kept {
	for i := range l {
		if epk.Compare(l[i].Max) < 0 {
			return &l[i]
		}
	}
	return nil
}

// Covers reports whether the feed has every change of a range after a position.
func (l KeptList) Covers(r partitionkey.Range, after resource.LSN) bool {
	for _, k := range l {
		if r.Min.Compare(k.Max) >= 0 {
			continue // before the range
		}
		if after < k.After {
			return false
		}
		if r.Max.Compare(k.Max) <= 0 {
			break
		}
	}
	return true
}
