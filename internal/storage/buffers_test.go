package storage

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

// measured returns Pebble's size of the write buffers of stores, in bytes.
func measured(stores []*Store) (sum int64) {
	for _, s := range stores {
		m := s.db.Metrics().MemTable
		sum += int64(m.Size + m.ZombieSize)
	}
	return sum
}

// pour writes about size bytes to a store in batches of rows with values of the given
// length, and calls after after each batch.
func pour(t *testing.T, s *Store, random *rand.Rand, size, rows, value int, after func()) {
	t.Helper()
	content := make([]byte, value)
	for size > 0 {
		b := s.NewBatch()
		for range rows {
			must(t, b.Set(fmt.Appendf(nil, "d%016x", random.Uint64()), content))
		}
		size -= b.Len()
		must(t, s.Apply(b))
		must(t, b.Close())
		after()
	}
}

// shapes are ways to fill a buffer: with many small rows, with few large ones, and in
// between.
var shapes = []struct{ rows, value int }{{50, 3}, {20, 100}, {3, 1000}, {1, 20_000}}

// The write buffers of all stores stay within the budget plus half a megabyte for each
// store, however many are written to at the same time, with rows of any shape.
func TestWriteBuffersKeepToTheBudget(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	const budget = 2 << 20
	each, count := 3<<18, 12
	if raceDetector {
		each, count = each/2, count/2
	}
	pool := newPool(t, Options{InMemory: true, CacheBytes: 1 << 20, BufferBytes: budget, MemTableBytes: 4 << 20})
	var stores []*Store
	for i := range count {
		s, err := pool.Create(fmt.Sprintf("s%d", i))
		must(t, err)
		defer func() { must(t, s.Close()) }()
		stores = append(stores, s)
	}
	most := int64(budget + count*bufferFree)
	for part := range 4 { // stores are busy, and grow, in turns
		var busy sync.WaitGroup
		for i, s := range stores {
			random := rand.New(rand.NewPCG(seed, uint64(part*count+i)))
			shape := shapes[(i+part)%len(shapes)]
			busy.Go(func() { pour(t, s, random, each/4, shape.rows, shape.value, func() {}) })
		}
		busy.Wait()
		if got := measured(stores); got > most {
			t.Errorf("the write buffers of %d stores take %d KB, want at most %d KB", count, got>>10, most>>10)
		}
	}
	for _, s := range stores {
		if s.buffers.size <= bufferFirst {
			continue
		}
		return
	}
	t.Error("no buffer has grown, although the budget allows it")
}

// A store that gets no larger buffer keeps the one it has: the estimate of the size of
// rows in the buffer holds for every shape.
func TestWriteBuffersStaySmallWithoutBudget(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	poured := 3 << 18
	if raceDetector {
		poured /= 2
	}
	for i, shape := range shapes {
		t.Run(fmt.Sprintf("rows=%d,value=%d", shape.rows, shape.value), func(t *testing.T) {
			t.Parallel()
			pool := newPool(t, Options{InMemory: true, CacheBytes: 1 << 20, BufferBytes: 1})
			s, err := pool.Create("s")
			must(t, err)
			defer func() { must(t, s.Close()) }()
			most := int64(0)
			pour(t, s, rand.New(rand.NewPCG(seed, uint64(i))), poured, shape.rows, shape.value, func() {
				m := s.db.Metrics().MemTable
				most = max(most, int64(m.Size)/m.Count)
			})
			if most > bufferFirst {
				t.Errorf("a buffer of %d KB was made, want none above %d KB", most>>10, bufferFirst>>10)
			}
			// Large rows consist of little but key and value.
			if flushes := s.db.Metrics().Flush.Count; shape.value >= 1000 && flushes > int64(poured/(bufferFirst/3)) {
				t.Errorf("%d flushes of %d KB: want buffers flushed only when nearly half full", flushes, poured>>10)
			}
		})
	}
}

// A store that is busy alone gets the largest buffers, as if there were no budget. Once
// it is closed, others can use its part of the budget.
func TestOneBusyStoreHasRoom(t *testing.T) {
	t.Parallel()
	pool := newPool(t, Options{InMemory: true, BufferBytes: 8 << 20, MemTableBytes: 1 << 20})
	for i := range 3 {
		s, err := pool.Create(fmt.Sprintf("s%d", i))
		must(t, err)
		pour(t, s, rand.New(rand.NewPCG(1, 1)), 2<<20, 3, 1000, func() {})
		if s.buffers.size != 1<<20 {
			t.Errorf("store %d has a buffer of %d KB, want 1 MB", i, s.buffers.size>>10)
		}
		must(t, s.Close())
		if pool.budget.taken != 0 {
			t.Errorf("%d bytes of the budget are taken when no store is open", pool.budget.taken)
		}
	}
}

// A batch larger than any buffer is written nevertheless, and no store waits forever
// when the budget is exceeded.
func TestLargeBatchesWithoutBudget(t *testing.T) {
	t.Parallel()
	pool := newPool(t, Options{InMemory: true, BufferBytes: 1, MemTableBytes: 4 << 20})
	s, err := pool.Create("s")
	must(t, err)
	defer func() { must(t, s.Close()) }()
	for i, size := range []int{100 << 10, 300 << 10, 1 << 20, 3 << 20, 10, 500 << 10} {
		put(t, s, fmt.Sprintf("d%d", i), string(make([]byte, size)))
		put(t, s, fmt.Sprintf("e%d", i), "x")
	}
	snapshot := s.Snapshot()
	defer snapshot.Close()
	for i := range 6 {
		for _, name := range []string{"d", "e"} {
			if found, err := snapshot.Has(fmt.Appendf(nil, "%s%d", name, i)); !found || err != nil {
				t.Errorf("%s%d: %v, %v", name, i, found, err)
			}
		}
	}
}
