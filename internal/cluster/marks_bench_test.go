package cluster_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/value"
)

// BenchmarkMarks measures the cost of marks: 64 writers create documents on the disk in
// four partitions, alternately one second with marks and one without. ratio is the speed
// with marks divided by the speed without.
func BenchmarkMarks(b *testing.B) {
	const writers, partitions = 64, 4
	dir := b.TempDir()
	pool, err := storage.NewPool(storage.Options{})
	if err != nil {
		b.Fatal(err)
	}
	w := &world{pool: pool}
	if w.store, err = pool.Create(dir + "/catalog"); err != nil {
		b.Fatal(err)
	}
	if w.catalog, err = catalog.Open(w.store, nil); err != nil {
		b.Fatal(err)
	}
	if w.node, err = cluster.Start(cluster.Config{Pool: pool, Dir: dir, Catalog: w.catalog, Limits: resource.DefaultLimits()}); err != nil {
		b.Fatal(err)
	}
	c, err := w.create("c", partitions)
	if err != nil {
		b.Fatal(err)
	}
	var next atomic.Int64
	turn := func(marks bool) (rate float64) {
		w.node.Mark(marks)
		began, until := time.Now(), time.Now().Add(time.Second)
		var done atomic.Int64
		var group sync.WaitGroup
		for range writers {
			group.Go(func() {
				for time.Now().Before(until) {
					n := next.Add(1)
					p := resource.PartitionID(n % partitions)
					k, epk := keyIn(c, p)
					id := fmt.Sprint(n)
					doc := value.Object([]value.Member{{Name: "id", Value: value.String(id)}, {Name: "pk", Value: value.String(k.At(0).Text())}})
					replica, release, err := w.node.Replica(b.Context(), c, p)
					if err == nil {
						_, err = replica.Write(b.Context(), partition.Write{Op: partition.Create, Generation: 1, Key: k, EPK: epk, ID: id, Document: doc})
						release()
					}
					if err != nil {
						b.Error(err)
						return
					}
					done.Add(1)
				}
			})
		}
		group.Wait()
		return float64(done.Load()) / time.Since(began).Seconds()
	}
	turn(true)
	var with, without float64
	for i := 0; b.Loop(); i++ {
		first := i%2 == 0
		for _, marks := range []bool{first, !first} {
			if rate := turn(marks); marks {
				with += rate
			} else {
				without += rate
			}
		}
	}
	b.ReportMetric(with/without, "ratio")
	b.ReportMetric(with/float64(b.N), "with/s")
	b.ReportMetric(without/float64(b.N), "without/s")
	w.node.Mark(true)
	if err := w.close(); err != nil {
		b.Fatal(err)
	}
}
