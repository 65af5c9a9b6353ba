package balance_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/decandb/decan/internal/balance"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// world is a container of one partition with 400 RU/s on a node in memory.
type world struct {
	catalog   *catalog.Catalog
	node      *cluster.Node
	container resource.RID
	limits    resource.Limits
}

func newWorld(t *testing.T, delay time.Duration, changes ...func(*cluster.Config)) *world {
	t.Helper()
	pool, err := storage.NewPool(storage.Options{InMemory: true})
	fatal(t, err)
	store, err := pool.Create("catalog")
	fatal(t, err)
	w := &world{limits: resource.DefaultLimits()}
	w.limits.PartitionRUs = 100
	w.catalog, err = catalog.Open(store, nil)
	fatal(t, err)
	config := cluster.Config{Pool: pool, Catalog: w.catalog, Limits: w.limits, SplitDelay: delay}
	for _, change := range changes {
		change(&config)
	}
	w.limits = config.Limits
	w.node, err = cluster.Start(config)
	fatal(t, err)
	t.Cleanup(func() {
		for _, closing := range []func() error{w.node.Close, store.Close, pool.Close} {
			if err := closing(); err != nil {
				t.Error(err)
			}
		}
	})
	_, err = w.catalog.Commit(t.Context(), catalog.CreateDatabase{Database: resource.Database{ID: "d"}})
	fatal(t, err)
	w.container = w.create(t, "c", 1, 400)
	return w
}

// create creates a container with a number of partitions and a throughput.
func (w *world) create(t *testing.T, name string, partitions, rus int) resource.RID {
	t.Helper()
	database, _ := w.catalog.View().Database("d")
	body, err := value.ParseString(`{"id":"` + name + `","partitionKey":{"paths":["/pk"]}}`)
	fatal(t, err)
	c, err := resource.ParseContainer(body)
	fatal(t, err)
	c.RID = w.catalog.ReserveContainer(database.RID)
	var all []resource.Partition
	for i, r := range c.PartitionKey.Divide(partitions) {
		all = append(all, resource.Partition{ID: resource.PartitionID(i), Range: r, Group: 1, Generation: 1, Ordinal: uint32(i)})
	}
	fatal(t, w.node.CreatePartitions(t.Context(), c, all))
	_, err = w.catalog.Commit(t.Context(), catalog.CreateContainer{Container: c, Partitions: all, Throughput: &resource.Throughput{Manual: rus, Highest: rus}})
	fatal(t, err)
	return c.RID
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) balancer() *balance.Balancer {
	return balance.New(balance.Config{Catalog: w.catalog, Node: w.node, Limits: w.limits})
}

func (w *world) view() *catalog.Container {
	c, _ := w.catalog.View().ContainerByRID(w.container)
	return c
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still waiting for %s", what)
		}
	}
}

// TestStartFindsWhatIsLeft starts with a container whose throughput needs four
// partitions, as a restart may find it (S105).
func TestStartFindsWhatIsLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	b := w.balancer()
	defer b.Close()
	b.Start()
	eventually(t, "four partitions", func() bool { return w.view().Ranges.Len() == 4 })
	for range 3 {
		b.Wake(w.container)
	}
	b.Close()
	if n := w.view().Ranges.Len(); n != 4 {
		t.Errorf("%d partitions, want 4", n)
	}
}

// TestOnePartitionUntilTheLimit writes documents of few keys into a container of
// one partition. All go there until it has reached its limit; after the next
// document there are two partitions (S12).
func TestOnePartitionUntilTheLimit(t *testing.T) {
	t.Parallel()
	const fit = 40
	document := func(i int) value.Value {
		v, err := value.ParseString(fmt.Sprintf(`{"id":"%04d","pk":"%d"}`, i, i%4))
		fatal(t, err)
		return v
	}
	var b *balance.Balancer
	var grown atomic.Int64
	w := newWorld(t, 0, func(c *cluster.Config) {
		c.Limits.PartitionRUs = 10_000
		c.Limits.PhysicalPartitionBytes = fit * int64(len(document(0).JSON()))
		c.Grown = func(container resource.RID) { grown.Add(1); b.Wake(container) }
	})
	b = w.balancer()
	defer b.Close()
	write := func(i int) {
		t.Helper()
		c, doc := w.view(), document(i)
		key := c.KeyOf(doc)
		replica, release, err := w.node.Replica(t.Context(), c, 0)
		fatal(t, err)
		defer release()
		_, err = replica.Write(t.Context(), partition.Write{Op: partition.Create, Generation: 1, Key: key, EPK: c.PartitionKey.Hash(key), Document: doc})
		fatal(t, err)
	}
	for i := range fit {
		write(i)
	}
	bytes, err := w.node.Size(t.Context(), w.view(), 0, true)
	if err != nil || bytes != w.limits.PhysicalPartitionBytes {
		t.Errorf("%d bytes are stored, want the limit of %d; %v", bytes, w.limits.PhysicalPartitionBytes, err)
	}
	if n := w.view().Ranges.Len(); n != 1 || grown.Load() > 0 {
		t.Errorf("at the limit there are %d partitions, and it was told %d times", n, grown.Load())
	}
	write(fit)
	eventually(t, "two partitions", func() bool { return w.view().Ranges.Len() == 2 })
	b.Close()
	total := int64(0)
	for _, p := range w.view().Partitions() {
		bytes, err := w.node.Size(t.Context(), w.view(), p.ID, true)
		fatal(t, err)
		if bytes == 0 {
			t.Errorf("partition %s is empty", p.ID)
		}
		total += bytes
	}
	if want := (fit + 1) * int64(len(document(0).JSON())); total != want || w.view().Ranges.Len() != 2 {
		t.Errorf("%d partitions hold %d bytes, want two with %d", w.view().Ranges.Len(), total, want)
	}
}

// TestUpgradeFollowsLoad raises an autoscale maximum by its upgrade policy when
// a load has reached it, once, and not again before the load has reached the new
// maximum.
func TestUpgradeFollowsLoad(t *testing.T) {
	t.Parallel()
	var clock atomic.Int64
	clock.Store(1_700_000_000)
	w := newWorld(t, 0, func(c *cluster.Config) {
		c.Limits.PartitionRUs = 10_000
		c.Now = func() time.Time { return time.Unix(clock.Load(), 0) }
	})
	maximum := func() int {
		t, _ := w.catalog.View().ThroughputOf(w.view())
		return t.Max
	}
	automatic := catalog.PutThroughput{Throughput: resource.Throughput{Owner: w.container, Max: 100, Highest: 100, Upgrade: resource.Upgrade{Percent: 10}}}
	if _, err := w.catalog.Commit(t.Context(), automatic); err != nil {
		t.Fatal(err)
	}
	for range 5 { // seconds of 100 RU
		for due := 0.0; due < 100; {
			due += w.miss(t)
		}
		clock.Add(1)
	}
	b := w.balancer()
	defer b.Close()
	b.Wake(w.container)
	eventually(t, "1,000 RU/s", func() bool { return maximum() == 1000 })
	for range 2 {
		b.Wake(w.container)
	}
	b.Close()
	if n := maximum(); n != 1000 {
		t.Errorf("the maximum is %d RU/s", n)
	}
}

// miss reads a document that does not exist, and returns the charge.
func (w *world) miss(t *testing.T) float64 {
	t.Helper()
	c := w.view()
	replica, release, err := w.node.Replica(t.Context(), c, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	var meter throughput.Meter
	key := partitionkey.NewKey(partitionkey.String("none"))
	_, err = replica.Read(t.Context(), partition.Read{Generation: 1, Key: key, EPK: c.PartitionKey.Hash(key), ID: "none", Meter: &meter})
	if status.CodeOf(err) != status.CodeNotFound {
		t.Fatal(err)
	}
	return meter.Due()
}

// TestCloseUndoes closes while a split is delayed: it is undone, and later calls
// do nothing.
func TestCloseUndoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, time.Hour)
	b := w.balancer()
	b.Start()
	eventually(t, "a plan", func() bool { return len(w.view().Splits) == 1 })
	b.Close()
	b.Wake(w.container)
	if c := w.view(); len(c.Splits) != 0 || c.Ranges.Len() != 1 {
		t.Errorf("%d plans and %d partitions are left", len(c.Splits), c.Ranges.Len())
	}
}

// TestDropped wakes for a container that does not exist, and drops a container
// whose split is delayed.
func TestDropped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, time.Hour)
	b := w.balancer()
	defer b.Close()
	b.Wake("nobody")
	b.Wake(w.container)
	eventually(t, "a plan", func() bool { return len(w.view().Splits) == 1 })
	if _, err := w.catalog.Commit(t.Context(), catalog.DeleteContainer{RID: w.container}); err != nil {
		t.Fatal(err)
	}
	w.node.DropContainer(w.container)
	b.Close()
}
