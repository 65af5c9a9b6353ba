package storage

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
)

// Reads and merges report bytes that are not a posting list as damage.
func TestDamagedPostings(t *testing.T) {
	t.Parallel()
	merge := newMerger(func([]byte) {}, func() {}).Merge
	for _, value := range [][]byte{
		{},
		{0, 0},
		{1},
		{1, 0},
		{1, 0, 0, 0},
		{3, 0, 0},
		{0x31, 0, 0},
		{0x11},
		{0x11, 5},
		{0x11, 5, 0, 1, 0},
		{0x11, 1, 0, 1, 0},
		{2, 0},
		make([]byte, 9000), append([]byte{1}, make([]byte, 2*arrayMax+2)...),
		append([]byte{2}, make([]byte, bitmapBytes+1)...),
	} {
		if _, err := decodePosting(value); !IsCorrupt(err) {
			t.Errorf("value %.10x of %d bytes: %v, want that it is damaged", value, len(value), err)
		}
		if _, err := merge([]byte("tl123456"), value); !IsCorrupt(err) {
			t.Errorf("merge begins with %.10x: %v", value, err)
		}
		m, err := merge([]byte("tl123456"), []byte{formAddOne, 1, 0})
		must(t, err)
		if err := m.MergeNewer(value); !IsCorrupt(err) {
			t.Errorf("merge with %.10x: %v", value, err)
		}
	}
	if _, err := merge([]byte("t12345"), []byte{formAddOne, 1, 0}); !IsCorrupt(err) {
		t.Errorf("merge of a key without a chunk: %v", err)
	}
	s := newStore(t)
	put(t, s, "tx\x00\x00\x00\x00\x00\x00", "no posting list")
	put(t, s, "ty\x00\x00\x00\x00\x00\x00", "\x10\x00\x00")
	snapshot := s.Snapshot()
	defer snapshot.Close()
	for _, list := range []string{"tx", "ty"} {
		p := snapshot.Postings([]byte(list))
		if _, ok := p.Next(); ok || !IsCorrupt(p.Err()) {
			t.Errorf("list %s: %v, want that it is damaged", list, p.Err())
		}
		if err := p.Close(); !IsCorrupt(err) {
			t.Errorf("list %s: Close returned %v", list, err)
		}
		lists := snapshot.Lists([]byte(list), []byte("tz"))
		lists.First()
		if _, err := lists.Count(); !IsCorrupt(err) {
			t.Errorf("list %s: Count returned %v", list, err)
		}
		_ = lists.Close()
	}
}

// Merging is associative: operands may be merged in any grouping, from either
// end, and the bytes are the same.
func TestMergerAssociative(t *testing.T) {
	t.Parallel()
	merge := newMerger(func([]byte) {}, func() {}).Merge
	key := []byte("tlist\x00\x00\x00\x00\x00\x00")
	finish := func(m pebble.ValueMerger, base bool) []byte {
		value, closer, err := m.Finish(base)
		must(t, err)
		value = bytes.Clone(value)
		if closer != nil {
			must(t, closer.Close())
		}
		return value
	}
	r := rand.New(rand.NewPCG(3, 3))
	for round := range 300 {
		count := 1 + r.IntN([]int{4, 40, 9000}[round%3])
		operands := make([][]byte, count)
		span := []int{4, 300, 65536}[r.IntN(3)]
		state := map[uint16]bool{}
		for i := range operands {
			x := uint16(r.IntN(span))
			add := r.IntN(4) > 0
			operands[i] = []byte{formRemoveOne, byte(x), byte(x >> 8)}
			if add {
				operands[i][0] = formAddOne
			}
			state[x] = add
		}
		newer := func(from, to int) []byte { // oldest first
			m, err := merge(key, operands[from])
			must(t, err)
			for _, o := range operands[from+1 : to] {
				must(t, m.MergeNewer(o))
			}
			return finish(m, false)
		}
		older := func(from, to int) []byte { // newest first
			m, err := merge(key, operands[to-1])
			must(t, err)
			for i := to - 2; i >= from; i-- {
				must(t, m.MergeOlder(operands[i]))
			}
			return finish(m, false)
		}
		whole := newer(0, count)
		if other := older(0, count); !bytes.Equal(whole, other) {
			t.Fatalf("round %d: from the old end %.20x, from the new end %.20x", round, whole, other)
		}
		if count >= 3 {
			i := 1 + r.IntN(count-2)
			j := i + 1 + r.IntN(count-i-1)
			parts := [][]byte{older(0, i), newer(i, j), older(j, count)}
			m, err := merge(key, parts[1])
			must(t, err)
			if r.IntN(2) == 0 {
				must(t, m.MergeNewer(parts[2]))
				parts[1] = finish(m, false)
				m, err = merge(key, parts[1])
				must(t, err)
				must(t, m.MergeOlder(parts[0]))
			} else {
				must(t, m.MergeOlder(parts[0]))
				parts[1] = finish(m, false)
				m, err = merge(key, parts[1])
				must(t, err)
				must(t, m.MergeNewer(parts[2]))
			}
			if grouped := finish(m, false); !bytes.Equal(grouped, whole) {
				t.Fatalf("round %d: grouped %.20x, in one merge %.20x", round, grouped, whole)
			}
		}
		m, err := merge(key, whole)
		must(t, err)
		final := finish(m, true)
		want := []uint16{}
		for x, in := range state {
			if in {
				want = append(want, x)
			}
		}
		slices.Sort(want)
		got := []uint16{}
		if len(want) == 0 {
			if !isEmptyPosting(final) {
				t.Fatalf("round %d: an empty set is %x", round, final)
			}
		} else {
			v, err := readerView(final)
			must(t, err)
			for x := range chunkSize {
				if !v.dense {
					i := v.find(0, uint16(x))
					if i < v.count && v.at(i) == uint16(x) {
						got = append(got, uint16(x))
					}
				} else if v.has(uint16(x)) {
					got = append(got, uint16(x))
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("round %d: %d numbers, want %d", round, len(got), len(want))
		}
	}
}

func FuzzDecodePosting(f *testing.F) {
	f.Add([]byte{formAddOne, 1, 2})
	f.Add([]byte{formRemoveOne, 1, 2})
	f.Add([]byte{0x11, 1, 0, 1, 0, 2, 0})
	f.Add(append([]byte{0x12}, make([]byte, bitmapBytes+2)...))
	f.Fuzz(func(t *testing.T, value []byte) {
		e, err := decodePosting(value)
		if err != nil {
			return
		}
		// Any value that can be decoded can be merged; merging the result again does
		// not change it.
		merge := newMerger(func([]byte) {}, func() {}).Merge
		m, err := merge([]byte("t123456"), []byte{formAddOne, 0, 0})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.MergeOlder(value); err != nil {
			t.Fatal(err)
		}
		out, closer, err := m.Finish(false)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodePosting(out); err != nil {
			t.Fatalf("%x becomes %x: %v", value, out, err)
		}
		_ = e.added.size() + e.removed.size()
		if closer != nil {
			_ = closer.Close()
		}
	})
}
