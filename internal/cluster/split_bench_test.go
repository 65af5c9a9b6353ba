package cluster_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/value"
)

// onFiles returns a world on the real file system.
func onFiles(b *testing.B) *world {
	b.Helper()
	pool, err := storage.NewPool(storage.Options{})
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	w := &world{pool: pool}
	if w.store, err = pool.Create(filepath.Join(dir, "catalog")); err != nil {
		b.Fatal(err)
	}
	if w.catalog, err = catalog.Open(w.store, nil); err != nil {
		b.Fatal(err)
	}
	w.node, err = cluster.Start(cluster.Config{Pool: pool, Dir: dir, Catalog: w.catalog, Limits: resource.DefaultLimits()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := w.close(); err != nil {
			b.Error(err)
		}
	})
	return w
}

// benchItem returns a document of 1 KB with 20 indexed values.
func benchItem(i int) value.Value {
	doc := fmt.Sprintf(`{"id":"%d","a":"tenant%d","text":"%0800d"`, i, i%1000, i)
	for n := range 18 {
		doc += fmt.Sprintf(`,"p%d":%d`, n, i%(10+n*n))
	}
	v, err := value.ParseString(doc + "}")
	if err != nil {
		panic(err)
	}
	return v
}

// BenchmarkSplit splits a container of DECAN_SPLIT_DOCUMENTS documents, 20,000 if it is
// not set, always its largest partition, while 64 writers write as fast as they can. It
// reports pause, how long writes to the partition wait; wait, the slowest single write
// during the split; and calm, the slowest one in the same time after it.
func BenchmarkSplit(b *testing.B) {
	documents, _ := strconv.Atoi(os.Getenv("DECAN_SPLIT_DOCUMENTS"))
	if documents == 0 {
		documents = 20_000
	}
	for _, writers := range []int{0, 64} {
		b.Run(fmt.Sprintf("documents=%d/writers=%d", documents, writers), func(b *testing.B) {
			benchSplit(b, documents, writers)
		})
	}
}

func benchSplit(b *testing.B, documents, writers int) {
	w := onFiles(b)
	created, err := w.createWith("c", `{"paths":["/a"],"version":2}`, "", 1)
	if err != nil {
		b.Fatal(err)
	}
	c := client{w, created.RID}
	var loaders sync.WaitGroup
	for g := range 64 {
		loaders.Go(func() {
			for i := g; i < documents; i += 64 {
				if _, err := c.write(partition.Upsert, benchItem(i), ""); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	loaders.Wait()
	var slowest atomic.Int64
	stop := make(chan struct{})
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				began := time.Now()
				_, err := c.write(partition.Upsert, benchItem(rand.IntN(documents)), "")
				if err != nil && status.CodeOf(err) != status.CodeTooManyRequests {
					b.Error(err)
					return
				}
				for took := int64(time.Since(began)); ; {
					if before := slowest.Load(); took <= before || slowest.CompareAndSwap(before, took) {
						break
					}
				}
			}
		})
	}
	var pauses, waits, calm []time.Duration
	b.ResetTimer()
	for b.Loop() {
		slowest.Store(0)
		result, err := w.node.Split(b.Context(), c.rid, largest(b, c), "")
		if errors.Is(err, partition.ErrIndivisible) {
			b.Skip("too few documents for so many splits")
		}
		if err != nil {
			b.Fatal(err)
		}
		pauses, waits = append(pauses, result.Pause), append(waits, time.Duration(slowest.Swap(0)))
		// The same time without a split, for comparison.
		b.StopTimer()
		time.Sleep(result.Took)
		calm = append(calm, time.Duration(slowest.Load()))
		b.StartTimer()
	}
	b.StopTimer()
	close(stop)
	group.Wait()
	slices.Sort(pauses)
	slices.Sort(waits)
	slices.Sort(calm)
	milliseconds := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(milliseconds(pauses[len(pauses)/2]), "pause-p50-ms")
	b.ReportMetric(milliseconds(pauses[len(pauses)-1]), "pause-max-ms")
	if writers > 0 {
		b.ReportMetric(milliseconds(waits[len(waits)/2]), "wait-p50-ms")
		b.ReportMetric(milliseconds(calm[len(calm)/2]), "calm-p50-ms")
	}
}

func largest(b *testing.B, c client) (id resource.PartitionID) {
	most := int64(-1)
	for i := range c.container().Ranges.Len() {
		p := c.container().Ranges.At(i).Value
		n, err := c.w.count(c.container(), p.ID)
		if err != nil {
			b.Fatal(err)
		}
		if n > most {
			id, most = p.ID, n
		}
	}
	return id
}
