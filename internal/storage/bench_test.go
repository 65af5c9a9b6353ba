package storage

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
)

func BenchmarkGet(b *testing.B) {
	s := newStore(b)
	value := make([]byte, 1024)
	for i := range 10_000 {
		put(b, s, fmt.Sprintf("d%08d", i), string(value))
	}
	must(b, s.Flush())
	snapshot := s.Snapshot()
	defer snapshot.Close()
	r := rand.New(rand.NewPCG(1, 1))
	key := []byte("d00000000")
	dst := make([]byte, 0, 2048)
	b.ReportAllocs()
	for b.Loop() {
		key = fmt.Appendf(key[:0], "d%08d", r.IntN(10_000))
		var found bool
		var err error
		dst, found, err = snapshot.Get(dst[:0], key)
		if err != nil || !found {
			b.Fatal(err)
		}
	}
}

// BenchmarkApply applies and syncs the effect of one document of 1 KB with 20 terms.
func BenchmarkApply(b *testing.B) {
	for _, disk := range []bool{false, true} {
		b.Run(fmt.Sprintf("disk=%v", disk), func(b *testing.B) {
			options := Options{InMemory: !disk}
			if disk {
				options.FS = osFS
			}
			s, err := newPool(b, options).Create(filepath.Join(b.TempDir(), "s"))
			must(b, err)
			defer s.Close()
			value := make([]byte, 1024)
			batch := s.NewBatch()
			defer batch.Close()
			key, list := []byte{}, []byte{}
			n := uint64(0)
			b.ReportAllocs()
			for b.Loop() {
				batch.Reset()
				n++
				key = DocumentKey(key[:0], "0123456789abcdef", n, "id")
				_ = batch.Set(key, value)
				for i := range 20 {
					list = fmt.Appendf(list[:0], "tpath%04d value%04d", i, n%100)
					_ = batch.AddPosting(list, n)
				}
				must(b, s.Apply(batch))
			}
		})
	}
}

// postingStore has lists of the given density over a million numbers.
func postingStore(b *testing.B, everies ...int) *Snapshot {
	s := newStore(b)
	for l, every := range everies {
		batch := s.NewBatch()
		for n := 0; n < 1_000_000; n += every {
			must(b, batch.AddPosting(fmt.Appendf(nil, "tlist%d", l), uint64(n)))
			if batch.Rows() == 10_000 {
				must(b, s.ApplyNoSync(batch))
				batch.Reset()
			}
		}
		must(b, s.ApplyNoSync(batch))
		must(b, batch.Close())
	}
	must(b, s.Flush())
	must(b, s.db.Compact(b.Context(), []byte("a"), []byte("z"), false))
	snapshot := s.Snapshot()
	b.Cleanup(func() { snapshot.Close() })
	return snapshot
}

func BenchmarkPostings(b *testing.B) {
	snapshot := postingStore(b, 2, 3, 1000)
	list := func(n int) *Postings { return snapshot.Postings(fmt.Appendf(nil, "tlist%d", n)) }
	for _, c := range []struct {
		name  string
		build func() *Postings
		walk  bool
	}{
		{"op=count/size=500k", func() *Postings { return list(0) }, false},
		{"op=walk/size=500k", func() *Postings { return list(0) }, true},
		{"op=and/size=500k,333k", func() *Postings { return Intersect(list(0), list(1)) }, false},
		{"op=and/size=500k,1k", func() *Postings { return Intersect(list(0), list(2)) }, false},
		{"op=or/size=500k,333k", func() *Postings { return Union(list(0), list(1)) }, false},
		{"op=not/size=500k,333k", func() *Postings { return Difference(list(0), list(1)) }, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p := c.build()
				if c.walk {
					for _, ok := p.Next(); ok; _, ok = p.Next() {
					}
				} else if _, err := p.Count(); err != nil {
					b.Fatal(err)
				}
				must(b, p.Close())
			}
		})
	}
}

// BenchmarkPostingsRange reads the union of many lists with one document each, such as
// a range of times.
func BenchmarkPostingsRange(b *testing.B) {
	for _, lists := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("lists=%d", lists), func(b *testing.B) {
			s := newStore(b)
			batch := s.NewBatch()
			for n := range lists {
				must(b, batch.AddPosting(fmt.Appendf(nil, "tlist%08d", n), uint64(n)))
			}
			must(b, s.Apply(batch))
			must(b, batch.Close())
			must(b, s.Flush())
			snapshot := s.Snapshot()
			defer snapshot.Close()
			b.ReportAllocs()
			for b.Loop() {
				p := snapshot.PostingsRange(b.Context(), []byte("tlist"), []byte("tlisu"))
				if n, err := p.Count(); err != nil || n != int64(lists) {
					b.Fatal(n, err)
				}
				must(b, p.Close())
			}
		})
	}
}

// BenchmarkMerge merges the operands of a chunk one by one, like a compaction.
func BenchmarkMerge(b *testing.B) {
	for _, operands := range []int{1, 20, 5000} {
		b.Run(fmt.Sprintf("operands=%d", operands), func(b *testing.B) {
			merge := newMerger(func([]byte) {}, func() {}).Merge
			key := []byte("tlist\x00\x00\x00\x00\x00\x00")
			b.ReportAllocs()
			for b.Loop() {
				operand := [3]byte{formAddOne}
				m, err := merge(key, operand[:])
				if err != nil {
					b.Fatal(err)
				}
				for i := 1; i < operands; i++ {
					operand[1], operand[2] = byte(i*7), byte(i*7>>8)
					if err := m.MergeOlder(operand[:]); err != nil {
						b.Fatal(err)
					}
				}
				_, closer, err := m.Finish(true)
				if err != nil {
					b.Fatal(err)
				}
				_ = closer.Close()
			}
		})
	}
}
