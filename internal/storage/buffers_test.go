package storage

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

// measured returns what Pebble says that the write buffers of stores take, in bytes.
func measured(stores []*Store) (sum int64) {
	for _, s := range stores {
		m := s.db.Metrics().MemTable
		sum += int64(m.Size + m.ZombieSize)
	}
	return sum
}

// pour writes about size bytes to a store in batches of rows whose values have the
// given length, and calls after behind each.
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

// shapes are ways to fill a buffer: many small rows, few large ones, and between.
var shapes = []struct{ rows, value int }{{50, 3}, {20, 100}, {3, 1000}, {1, 20_000}}

// However many stores are written to at the same time, and whatever their rows look
// like, their write buffers keep to the budget and half a megabyte for each.
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
	for part := range 4 { // so that they are busy in turns, and grow in turns
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
	t.Error("no buffer has grown, though there is room")
}

// A store that may not have a larger buffer keeps the one it has: the estimate of
// what rows take in it holds for rows of every shape.
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
			// Of large rows the key and the value are nearly all that a buffer holds.
			if flushes := s.db.Metrics().Flush.Count; shape.value >= 1000 && flushes > int64(poured/(bufferFirst/3)) {
				t.Errorf("%d flushes of %d KB: buffers are flushed long before they are half full", flushes, poured>>10)
			}
		})
	}
}

// A store that is busy alone gets the largest buffers, as if there were no budget;
// and what it took is there for others when it was closed.
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

// A batch that no buffer has room for is written all the same, and no store waits
// for ever when the budget is exceeded.
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
