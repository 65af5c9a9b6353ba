package replication_test

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/replication/replicationtest"
	"github.com/decandb/decan/internal/storage"
)

// stored is a state machine on one store: it does what a partition's Apply does with
// rows, and nothing else.
type stored struct{ store *storage.Store }

func (s stored) Apply(_ replication.PartitionRef, effects []replication.Effect) ([]error, error) {
	batch := s.store.NewBatch()
	defer batch.Close()
	for _, e := range effects {
		if err := batch.Append(e.Rows); err != nil {
			return nil, err
		}
	}
	if err := s.store.Apply(batch); err != nil {
		return nil, err
	}
	return nil, s.store.Snapshot().Close()
}

// rows returns the rows of a document of 1 KB with 20 terms and a feed entry.
func rows(tb testing.TB, number uint64) []byte {
	tb.Helper()
	b := storage.NewBatch()
	key := storage.DocumentKey(nil, "0123456789abcdef", number*0x9E3779B97F4A7C15, "id")
	if err := b.Set(key, make([]byte, 1024)); err != nil {
		tb.Fatal(err)
	}
	if err := b.Set(storage.FeedKey(nil, number, 1, 0), binary.BigEndian.AppendUint64(nil, number)); err != nil {
		tb.Fatal(err)
	}
	for i := range uint64(20) {
		list := storage.TermKey(nil, fmt.Appendf(nil, "path%04d value%04d", i, number%100))
		if err := b.AddPosting(list, number); err != nil {
			tb.Fatal(err)
		}
	}
	return b.Repr()
}

// BenchmarkSolo compares writers that propose to a Solo with writers that apply to the
// store directly, on a real disk.
func BenchmarkSolo(b *testing.B) {
	for _, writers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("group=solo/writers=%d", writers), func(b *testing.B) {
			store := benchStore(b)
			group := replication.NewSolo(stored{store})
			defer group.Close()
			ref := replicationtest.Ref(1)
			spread(b, writers, func(number uint64) error {
				return group.Propose(b.Context(), ref, replication.Effect{Rows: rows(b, number)}).Wait(b.Context())
			})
			status := group.Status()
			b.ReportMetric(float64(status.Applied)/float64(status.Batches), "effects/sync")
		})
		b.Run(fmt.Sprintf("group=none/writers=%d", writers), func(b *testing.B) {
			machine := stored{benchStore(b)}
			spread(b, writers, func(number uint64) error {
				_, err := machine.Apply(replication.PartitionRef{}, []replication.Effect{{Rows: rows(b, number)}})
				return err
			})
		})
	}
}

// spread divides b.N writes among writers.
func spread(b *testing.B, writers int, write func(number uint64) error) {
	b.ReportAllocs()
	b.ResetTimer()
	var next atomic.Uint64
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for number := next.Add(1); number <= uint64(b.N); number = next.Add(1) {
				if err := write(number); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "effects/s")
}

func benchStore(b *testing.B) *storage.Store {
	b.Helper()
	pool, err := storage.NewPool(storage.Options{})
	if err != nil {
		b.Fatal(err)
	}
	store, err := pool.Create(filepath.Join(b.TempDir(), "store"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := store.Close(); err != nil {
			b.Error(err)
		}
		if err := pool.Close(); err != nil {
			b.Error(err)
		}
	})
	return store
}

// BenchmarkPropose measures the cost of the group alone, with a state machine that does
// nothing.
func BenchmarkPropose(b *testing.B) {
	group := replication.NewSolo(nothing{})
	defer group.Close()
	ref := replicationtest.Ref(1)
	b.ReportAllocs()
	for b.Loop() {
		if err := group.Propose(b.Context(), ref, replication.Effect{LSN: 1}).Wait(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

type nothing struct{}

func (nothing) Apply(replication.PartitionRef, []replication.Effect) ([]error, error) {
	return nil, nil
}
