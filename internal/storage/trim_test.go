package storage

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// Numbers are removed from posting lists of every form, in any proportion, step by
// step, and the lists remain usable.
func TestTrimPostings(t *testing.T) {
	t.Parallel()
	for _, share := range []float64{0, 0.001, 0.5, 0.999, 1} {
		for _, most := range []uint64{300, 3 * chunkSize} {
			t.Run(fmt.Sprintf("gone=%v/numbers=%d", share, most), func(t *testing.T) {
				t.Parallel()
				start := rand.Uint64()
				t.Logf("seed %d", start)
				testTrim(t, rand.New(rand.NewPCG(start, 0)), share, most)
			})
		}
	}
}

func testTrim(t *testing.T, r *rand.Rand, share float64, most uint64) {
	s := newStore(t)
	m := model{}
	add := func(list string, number uint64) {
		if m[list] == nil {
			m[list] = map[uint64]bool{}
		}
		m[list][number] = true
	}
	b := s.NewBatch()
	defer b.Close()
	apply := func() {
		t.Helper()
		must(t, s.ApplyNoSync(b))
		b.Reset()
	}
	var gone NumbersBuilder
	for number := range most {
		for l, every := range []uint64{1, 2, 90, 5000} {
			if number%every == 0 {
				list := fmt.Sprint("tlist", l)
				add(list, number)
				must(t, b.AddPosting([]byte(list), number))
			}
		}
		if b.Len() > 1<<20 {
			apply()
		}
	}
	apply()
	out := map[uint64]bool{}
	for number := range most + 10 {
		if r.Float64() < share {
			gone.Add(number)
			out[number] = true
		}
	}
	numbers := gone.Numbers()
	low, high := FamilyTerm.Bounds()
	steps := 0
	for low != nil {
		var err error
		low, err = s.TrimPostings(b, low, high, numbers, 10<<10)
		must(t, err)
		apply()
		steps++
		// Numbers that are added between the steps remain, wherever they are.
		list, number := fmt.Sprint("tlist", r.IntN(4)), most+100+uint64(steps)
		add(list, number)
		must(t, b.AddPosting([]byte(list), number))
		apply()
	}
	if most > chunkSize && steps < 3 {
		t.Errorf("%d steps", steps)
	}
	for list := range m {
		for number := range m[list] {
			if out[number] {
				delete(m[list], number)
			}
		}
	}
	snapshot := s.Snapshot()
	for list := range m {
		if text := differ(all(t, snapshot.Postings([]byte(list))), m.sorted(list)); text != "" {
			t.Errorf("%s: %s", list, text)
		}
	}
	must(t, snapshot.Close())
	must(t, s.Flush())
}

// A checkpoint without a range is a store with everything else. It does not have the
// files of the range, and accepts writes like any other store.
func TestCheckpointWithout(t *testing.T) {
	t.Parallel()
	p := newPool(t, Options{})
	s, err := p.Create("store")
	must(t, err)
	value := bytes.Repeat([]byte("x"), 1<<10)
	random := rand.New(rand.NewPCG(1, 1))
	b := s.NewBatch()
	for i := range 4000 {
		for j := range value {
			value[j] = byte(random.Uint32())
		}
		must(t, b.Set(fmt.Appendf(nil, "d%04d", i), value))
		if b.Len() > 256<<10 {
			must(t, s.Apply(b))
			must(t, s.Flush()) // each file has a part of the range
			b.Reset()
		}
	}
	must(t, b.Set([]byte("f1"), []byte("feed")))
	must(t, b.Set([]byte("mname"), []byte("meta")))
	must(t, s.Apply(b))
	must(t, b.Close())
	must(t, s.CheckpointWithout("half", []byte("d2000"), []byte("e")))
	if err := s.CheckpointWithout("half", []byte("d2000"), []byte("e")); err == nil {
		t.Error("a second checkpoint in the same place")
	}
	half, err := p.Open("half")
	must(t, err)
	must(t, half.DeleteRange([]byte("d2000"), []byte("e")))
	if got, whole := half.Size(), s.Size(); got > whole*3/4 {
		t.Errorf("a half of %d bytes has %d", whole, got)
	}
	put(t, half, "d2500", "new")
	snapshot := half.Snapshot()
	rows := 0
	_, err = half.Walk(half.NewBatch(), []byte("d"), []byte("e"), 1<<30, func(key, _ []byte) error {
		rows++
		return nil
	})
	must(t, err)
	if rows != 2001 {
		t.Errorf("%d rows, want 2,001", rows)
	}
	must(t, snapshot.Close())
	for key, want := range map[string]string{"f1": "feed", "mname": "meta", "d2500": "new", "d3000": "-"} {
		if got := get(t, half, key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	must(t, half.Close())
	must(t, s.Close())
}

// Walk continues where the last call ended, and visits each row once.
func TestWalk(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for i := range 100 {
		put(t, s, fmt.Sprintf("r%03d", i), "value")
	}
	for _, limit := range []int{1, 25, 1000, 1 << 20} {
		b := s.NewBatch()
		met, steps := 0, 0
		for low := []byte("r010"); low != nil; steps++ {
			var err error
			low, err = s.Walk(b, low, []byte("r090"), limit, func(key, value []byte) error {
				if want := fmt.Sprintf("r%03d", 10+met); string(key) != want || string(value) != "value" {
					t.Fatalf("met %s with %q, want %s", key, value, want)
				}
				met++
				return nil
			})
			must(t, err)
		}
		if met != 80 || limit == 1 && steps != 80 {
			t.Errorf("limit %d: met %d rows in %d steps", limit, met, steps)
		}
		must(t, b.Close())
	}
}
