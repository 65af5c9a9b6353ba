package partition

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

const (
	hugeTerms = 100_000
	hugeTime  = 4 * time.Second
)

// hugeDocument is a document with that many terms, of about 18 bytes each, which no
// other round has.
func hugeDocument(id string, terms int, round uint64) value.Value {
	random := rand.New(rand.NewPCG(round, 7))
	items := make([]value.Value, terms)
	for i := range items {
		items[i] = value.String(fmt.Sprintf("%015x", random.Uint64()>>4))
	}
	return value.Object([]value.Member{
		{Name: "id", Value: value.String(id)},
		{Name: "a", Value: value.String("huge-" + id)},
		{Name: "list", Value: value.Array(items)},
	})
}

// diskWorld is a world on files, with the pool of a server.
func diskWorld(tb testing.TB, container *resource.Container) *world {
	tb.Helper()
	w := &world{
		tb: tb, limits: resource.DefaultLimits(), conditionTime: ampleTime,
		own: resource.Partition{ID: 7, Range: partitionkey.Full(), Generation: 3, Ordinal: 2},
	}
	w.container.Store(container)
	w.clock.Store(1_700_000_000)
	var err error
	if w.pool, err = storage.NewPool(storage.Options{CacheBytes: 512 << 20}); err != nil {
		tb.Fatal(err)
	}
	if w.store, err = w.pool.Create(tb.TempDir() + "/store"); err != nil {
		tb.Fatal(err)
	}
	if err = Initialize(w.config(), w.own); err != nil {
		tb.Fatal(err)
	}
	w.group = replication.NewSolo(w)
	p, err := Open(w.config())
	if err != nil {
		tb.Fatal(err)
	}
	w.partition.Store(p)
	tb.Cleanup(func() {
		if err := errors.Join(p.Close(), w.group.Close(), w.store.Close(), w.pool.Close()); err != nil {
			tb.Error(err)
		}
	})
	return w
}

// latencies are the latencies of one kind of operation, in milliseconds.
type latencies struct {
	mu  sync.Mutex
	all []time.Duration
}

func (l *latencies) add(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, d)
}

func (l *latencies) at(part float64) float64 {
	if len(l.all) == 0 {
		return 0
	}
	slices.Sort(l.all)
	return float64(l.all[min(len(l.all)-1, int(part*float64(len(l.all))))].Microseconds()) / 1000
}

// BenchmarkHugeDocuments upserts and reads small documents while clients replace
// documents of 1.8 MB and 100,000 terms, all in one partition.
func BenchmarkHugeDocuments(b *testing.B) {
	for _, clients := range []int{0, 1, 4, 16} {
		b.Run(fmt.Sprint("clients=", clients), func(b *testing.B) {
			for b.Loop() {
				benchHuge(b, clients)
			}
		})
	}
}

func benchHuge(b *testing.B, clients int) {
	w := diskWorld(b, containerWith(b, 2, []string{"/a"}, ""))
	for i := range 100 {
		if _, err := w.write(Create, benchDocument(int64(i), 1<<10), nil); err != nil {
			b.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(b.Context())
	var wait sync.WaitGroup
	var replaced atomic.Int64
	for i := range clients {
		wait.Go(func() {
			for round := uint64(0); ctx.Err() == nil; round++ {
				doc := hugeDocument(fmt.Sprint("h", i), hugeTerms, uint64(i)<<32|round%2)
				if _, err := w.write(Upsert, doc, nil); err != nil {
					b.Error(err)
					return
				}
				replaced.Add(1)
			}
		})
	}
	if clients > 0 {
		time.Sleep(time.Second) // The documents are there.
	}
	before := replaced.Load()
	var upserts, reads latencies
	end := time.Now().Add(hugeTime)
	wait.Go(func() {
		for i := int64(0); time.Now().Before(end); i++ {
			doc := benchDocument(i%100, 1<<10).With("property9", value.Int(i))
			began := time.Now()
			if _, err := w.write(Upsert, doc, nil); err != nil {
				b.Error(err)
				return
			}
			upserts.add(time.Since(began))
		}
		cancel()
	})
	for i := int64(0); time.Now().Before(end); i++ {
		doc := benchDocument(i%100, 0)
		began := time.Now()
		if _, err := w.read(w.container.Load().KeyOf(doc), doc.Get("id").Text(), nil); err != nil {
			b.Fatal(err)
		}
		reads.add(time.Since(began))
		time.Sleep(time.Millisecond)
	}
	done := replaced.Load() - before
	wait.Wait()
	b.ReportMetric(float64(done)/hugeTime.Seconds(), "replaced/s")
	b.ReportMetric(float64(len(upserts.all))/hugeTime.Seconds(), "upserts/s")
	b.ReportMetric(upserts.at(0.5), "p50-ms")
	b.ReportMetric(upserts.at(0.99), "p99-ms")
	b.ReportMetric(upserts.at(1), "max-ms")
	b.ReportMetric(reads.at(0.99), "read-p99-ms")
	b.ReportMetric(reads.at(1), "read-max-ms")
}
