package storage

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// mergerName is recorded in every store: a store cannot be opened with another merger.
const mergerName = "decan.posting.1"

// newMerger returns the merger of posting lists. It reuses its working memory, because
// merges are many and most are small. It calls onEmpty with the key of a row that
// becomes empty, and onMany when a whole row came in piecesMany pieces or more.
func newMerger(onEmpty func(key []byte), onMany func()) *pebble.Merger {
	var free sync.Pool
	return &pebble.Merger{
		Name: mergerName,
		Merge: func(key, value []byte) (pebble.ValueMerger, error) {
			if len(key) <= chunkBytes {
				return nil, fmt.Errorf("posting key %x: %w", key, errPosting)
			}
			if _, _, ok := oneOperand(value); !ok {
				if _, err := decodePosting(value); err != nil {
					return nil, err
				}
			}
			m, ok := free.Get().(*merger)
			if !ok {
				m = &merger{free: &free, onEmpty: onEmpty, onMany: onMany}
			}
			m.key = append(m.key[:0], key...)
			m.alone = append(m.alone[:0], value...)
			m.few = m.few[:0]
			m.dense = false
			m.pieces = 1
			return m, nil
		},
	}
}

// merger is the state of one merge: which numbers of a chunk were added last, and which
// were removed last. It begins as a copy of the only value, then becomes a short sorted
// list, and then a pair of bitmaps.
type merger struct {
	free    *sync.Pool
	onEmpty func(key []byte)
	onMany  func()
	key     []byte
	pieces  int      // number of values merged
	alone   []byte   // the first value while it is the only one, otherwise empty
	few     []uint32 // number<<1 | removed, sorted, each number once
	dense   bool     // added and removed contain the state
	added   *[chunkWords]uint64
	removed *[chunkWords]uint64
	halves  [2][]uint16 // the numbers of few, as two sets
	out     []byte
}

// piecesMany is the number of pieces from which a row is slow to read: each is
// elsewhere in memory and costs a few hundred nanoseconds.
const piecesMany = 256

// fewMax is the capacity of the sorted list.
const fewMax = 64

// MergeNewer merges a value that is newer than those so far.
func (m *merger) MergeNewer(value []byte) error { return m.merge(value, true) }

// MergeOlder merges a value that is older than those so far.
func (m *merger) MergeOlder(value []byte) error { return m.merge(value, false) }

func (m *merger) merge(value []byte, newer bool) error {
	m.pieces++
	m.spread()
	if x, removed, ok := oneOperand(value); ok {
		// Nearly all operands are of one number.
		if !m.dense && len(m.few) == fewMax {
			m.widen()
		}
		if m.dense {
			m.putBit(x, removed, newer)
		} else {
			m.putFew(x, removed, newer)
		}
		return nil
	}
	e, err := decodePosting(value)
	if err != nil {
		return err
	}
	m.put(&e.added, false, newer)
	m.put(&e.removed, true, newer)
	return nil
}

// oneOperand decodes an operand of one number.
func oneOperand(value []byte) (x uint16, removed, ok bool) {
	if len(value) != 3 || (value[0] != formAddOne && value[0] != formRemoveOne) {
		return 0, false, false
	}
	return binary.LittleEndian.Uint16(value[1:]), value[0] == formRemoveOne, true
}

// spread turns the only value into a state that others can be merged with.
func (m *merger) spread() {
	if len(m.alone) == 0 {
		return
	}
	// newMerger has decoded it before.
	e, err := decodePosting(m.alone)
	if err != nil {
		panic("storage: a posting value changed while it was merged: " + err.Error())
	}
	m.put(&e.added, false, true)
	m.put(&e.removed, true, true)
	m.alone = m.alone[:0]
}

// put merges one half of a value into the state.
func (m *merger) put(v *view, removed, newer bool) {
	if !m.dense && (v.dense || len(m.few)+v.count > fewMax) {
		m.widen()
	}
	switch {
	case v.dense:
		m.putWords(v, removed, newer)
	case m.dense:
		for i := range v.count {
			m.putBit(v.at(i), removed, newer)
		}
	default:
		for i := range v.count {
			m.putFew(v.at(i), removed, newer)
		}
	}
}

func (m *merger) putFew(x uint16, removed, newer bool) {
	entry := uint32(x) << 1
	if removed {
		entry |= 1
	}
	low, high := 0, len(m.few)
	for low < high {
		mid := int(uint(low+high) / 2)
		if m.few[mid]>>1 < uint32(x) {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low < len(m.few) && m.few[low]>>1 == uint32(x) {
		if newer {
			m.few[low] = entry
		}
		return
	}
	m.few = append(m.few, 0)
	copy(m.few[low+1:], m.few[low:])
	m.few[low] = entry
}

func (m *merger) putBit(x uint16, removed, newer bool) {
	to, from := m.added, m.removed
	if removed {
		to, from = from, to
	}
	i, bit := x>>6, uint64(1)<<(x&63)
	if newer {
		from[i] &^= bit
		to[i] |= bit
		return
	}
	if from[i]&bit == 0 {
		to[i] |= bit
	}
}

func (m *merger) putWords(v *view, removed, newer bool) {
	to, from := m.added, m.removed
	if removed {
		to, from = from, to
	}
	for i := range chunkWords {
		w := v.word(i)
		if newer {
			from[i] &^= w
			to[i] |= w
		} else {
			to[i] |= w &^ from[i]
		}
	}
}

// widen turns the sorted list into bitmaps.
func (m *merger) widen() {
	if m.added == nil {
		m.added, m.removed = new([chunkWords]uint64), new([chunkWords]uint64)
	} else {
		clear(m.added[:])
		clear(m.removed[:])
	}
	m.dense = true
	for _, entry := range m.few {
		m.putBit(uint16(entry>>1), entry&1 != 0, true)
	}
	m.few = m.few[:0]
}

// Finish returns the merged value. If includesBase is true nothing older follows, so
// removals are dropped.
func (m *merger) Finish(includesBase bool) ([]byte, io.Closer, error) {
	if includesBase && m.pieces >= piecesMany {
		m.onMany()
	}
	if len(m.alone) > 0 && (!includesBase || m.alone[0]>>4 == formNone) {
		return m.alone, m, nil
	}
	m.spread()
	added, removed := m.views()
	if includesBase {
		removed = view{}
	}
	m.out = appendPosting(m.out[:0], &added, &removed)
	if isEmptyPosting(m.out) {
		m.onEmpty(m.key)
	}
	return m.out, m, nil
}

// views returns the state as two sets.
func (m *merger) views() (added, removed view) {
	if m.dense {
		return view{dense: true, words: m.added}, view{dense: true, words: m.removed}
	}
	adds, removes := m.halves[0][:0], m.halves[1][:0]
	for _, entry := range m.few {
		if entry&1 != 0 {
			removes = append(removes, uint16(entry>>1))
		} else {
			adds = append(adds, uint16(entry>>1))
		}
	}
	m.halves[0], m.halves[1] = adds, removes
	return view{count: len(adds), array: adds}, view{count: len(removes), array: removes}
}

// Close makes the merger available for other merges.
func (m *merger) Close() error {
	// The free list must not keep more memory than a merge usually needs.
	if cap(m.out) <= 4*bitmapBytes && cap(m.alone) <= 4*bitmapBytes {
		m.free.Put(m)
	}
	return nil
}
