package cluster_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/throughput"
)

// enforcedWorld returns a world that refuses requests over the budget, with its own clock
// and without maintenance.
func enforcedWorld(t *testing.T, clock *atomic.Int64) *world {
	t.Helper()
	clock.Store(1_700_000_000)
	w, _ := start(t, 0)
	w.restart(t, func(c *cluster.Config) {
		c.Now = func() time.Time { return time.Unix(clock.Load(), 0) }
		c.Throttling.Enforcement = cluster.EnforceOn
		c.Maintenance = -1
	})
	return w
}

// TestClear shows that purged documents are deleted with a tenth of the throughput, and
// that the deletions are billed.
func TestClear(t *testing.T) {
	t.Parallel()
	const documents, rate = partition.BatchMax + 20, 1000
	var clock atomic.Int64
	w := enforcedWorld(t, &clock)
	c := w.provisioned(t, 1, rate)
	id := c.Ranges.At(0).Value.ID
	for i := range documents {
		if _, err := w.put(c, id, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	clock.Add(2)
	replica, release, err := w.node.Replica(t.Context(), c, id)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	key, epk := keyIn(c, id)
	r, err := c.PartitionKey.Prefix(key)
	if err != nil {
		t.Fatal(err)
	}
	var meter throughput.Meter
	spent := replica.Load().Total
	purged, err := replica.Purge(t.Context(), partition.Purge{Generation: 1, Key: key, Range: r, Meter: &meter})
	if err != nil || !purged.Marked || epk != r.Min {
		t.Fatalf("%+v, %v", purged, err)
	}
	if got := replica.Load().Total - spent; got != meter.Due() || got == 0 {
		t.Errorf("the purge is billed %.2f, and charged %.2f", got, meter.Due())
	}
	spent += meter.Due()
	calls := 0
	for ; replica.Stats().Purging > 0; calls++ {
		clock.Add(1)
		if got := w.node.Clear(t.Context()); got > rate/10/5 { // A deletion costs at least 5 RU.
			t.Fatalf("%d documents are deleted for a tenth of %d RU", got, rate)
		}
	}
	if s := replica.Stats(); s.Documents != 0 || s.Cleared != documents {
		t.Errorf("%d documents are left, and %d cleared", s.Documents, s.Cleared)
	}
	// The last call spends less.
	if got, least := replica.Load().Total-spent, float64(5*documents)*0.8; got < least || calls > documents/10 {
		t.Errorf("clearing is billed %.2f in %d calls, want %.2f at least", got, calls, least)
	}
}

// purgedPartitions creates a container and purges one key in each of the given partitions,
// with more documents than one call of Clear can delete.
func purgedPartitions(t *testing.T, w *world, partitions int, purged ...resource.PartitionID) *catalog.Container {
	t.Helper()
	c, err := w.create("c", partitions)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range purged {
		for i := range partition.BatchMax + 1 {
			if err := w.write(c, id, fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
		if done, err := w.purge(c, id); err != nil || !done.Marked {
			t.Fatalf("%+v, %v", done, err)
		}
	}
	return c
}

// purge deletes all documents that write has stored in a partition.
func (w *world) purge(c *catalog.Container, id resource.PartitionID) (partition.Purged, error) {
	replica, release, err := w.node.Replica(context.Background(), c, id)
	if err != nil {
		return partition.Purged{}, err
	}
	defer release()
	key, _ := keyIn(c, id)
	r, err := c.PartitionKey.Prefix(key)
	if err != nil {
		return partition.Purged{}, err
	}
	return replica.Purge(context.Background(), partition.Purge{Generation: 1, Key: key, Range: r})
}

// isPurging reports whether a start would find that a partition has purged documents to
// delete.
func (w *world) isPurging(c *catalog.Container, id resource.PartitionID) bool {
	files := w.pool.FS()
	_, err := files.Stat(files.PathJoin("data", "p", hex.EncodeToString([]byte(c.RID)), id.String(), "PURGING"))
	return err == nil
}

// cleared calls Clear until a start would find no purged documents in a partition, and
// verifies that it is empty. The maintenance calls Clear as well, so there may be nothing
// to do.
func (w *world) cleared(t *testing.T, c *catalog.Container, ids ...resource.PartitionID) {
	t.Helper()
	for _, id := range ids {
		for began := time.Now(); w.isPurging(c, id); runtime.Gosched() {
			if w.node.Clear(t.Context()); time.Since(began) > time.Minute {
				t.Fatalf("partition %s is not cleared", id)
			}
		}
		if n, err := w.count(c, id); err != nil || n != 0 {
			t.Errorf("%d documents are left in partition %s (%v)", n, id, err)
		}
	}
}

// TestClearGoesOnClosed deletes the purged documents of a partition that was closed, with
// a restart and without, and opens no other partition.
func TestClearGoesOnClosed(t *testing.T) {
	t.Parallel()
	for name, closed := range map[string]func(t *testing.T, w *world, c *catalog.Container){
		"restarted": func(t *testing.T, w *world, _ *catalog.Container) { w.restart(t, func(*cluster.Config) {}) },
		"crowded out": func(t *testing.T, w *world, c *catalog.Container) {
			if _, err := w.count(c, 0); err != nil { // This closes the other: at most one is open.
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _ := start(t, 1)
			c := purgedPartitions(t, w, 3, 1)
			closed(t, w, c)
			w.cleared(t, c, 1)
			if _, open := w.node.LSN(c, 2); open || w.isPurging(c, 2) {
				t.Error("a partition with nothing to clear was opened, or would be")
			}
		})
	}
}

// TestClearManyClosed opens only a few of many closed partitions at a time, and forgets
// those that no longer exist.
func TestClearManyClosed(t *testing.T) {
	t.Parallel()
	const all = 10
	w, _ := start(t, 0)
	var ids []resource.PartitionID
	for id := range resource.PartitionID(all) {
		ids = append(ids, id)
	}
	c := purgedPartitions(t, w, all, ids...)
	w.restart(t, func(*cluster.Config) {})
	w.cleared(t, c, ids...)
	if err := w.write(c, 0, "x"); err != nil {
		t.Fatal(err)
	}
	if done, err := w.purge(c, 0); err != nil || done.Marked || done.Deleted != 1 || w.isPurging(c, 0) {
		t.Errorf("%+v, %v: want a few deleted at once, and no partition left", done, err)
	}
}

// TestClearSplit splits a partition with purged documents; its children delete them.
func TestClearSplit(t *testing.T) {
	t.Parallel()
	var clock atomic.Int64
	w := enforcedWorld(t, &clock) // Nothing is deleted before the restart.
	c := w.provisioned(t, 1, 1000)
	for i := range partition.BatchMax + 100 {
		if _, err := w.put(c, 0, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
		clock.Add(1)
	}
	if done, err := w.purge(c, 0); err != nil || !done.Marked {
		t.Fatalf("%+v, %v", done, err)
	}
	result, err := w.node.Split(t.Context(), c.RID, 0, c.PartitionKey.Middle(c.Ranges.At(0).Range))
	if err != nil {
		t.Fatal(err)
	}
	split, _ := w.catalog.View().ContainerByRID(c.RID)
	w.restart(t, func(*cluster.Config) {})
	w.cleared(t, split, result.Children[0].ID, result.Children[1].ID)
}

// TestExpireUsesLeftOver shows that Expire deletes nothing after a second whose whole
// budget was spent, and continues after one with units left.
func TestExpireUsesLeftOver(t *testing.T) {
	t.Parallel()
	var clock atomic.Int64
	w := enforcedWorld(t, &clock)
	c := w.provisioned(t, 1, 400)
	id := c.Ranges.At(0).Value.ID
	next := c.Container
	next.DefaultTTL = 3
	if _, err := w.catalog.Commit(t.Context(), catalog.ReplaceContainer{Container: next, Expect: c.ETag}); err != nil {
		t.Fatal(err)
	}
	spend := func(from int) (n int) {
		for ; ; n++ {
			if _, err := w.put(c, id, fmt.Sprint(from+n)); err != nil {
				return n // The budget of this second is spent.
			}
		}
	}
	first := spend(0)
	clock.Add(2)
	second := spend(first)
	clock.Add(1) // The first documents have expired, and the previous second has nothing left.
	if got := w.node.Expire(t.Context()); got != 0 {
		t.Errorf("%d documents are deleted with nothing left over", got)
	}
	if got, err := w.count(c, id); err != nil || got != int64(first+second) {
		t.Errorf("%d documents (%v), want %d", got, err, first+second)
	}
	clock.Add(1)
	w.node.Expire(t.Context())
	if got, err := w.count(c, id); err != nil || got != int64(second) {
		t.Errorf("%d documents (%v), want %d", got, err, second)
	}
}
