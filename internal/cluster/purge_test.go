package cluster_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/throughput"
)

// enforcedWorld is a world that refuses what is over the budget, with a clock of
// its own.
func enforcedWorld(t *testing.T, clock *atomic.Int64) *world {
	t.Helper()
	clock.Store(1_700_000_000)
	w, _ := start(t, 0)
	w.restart(t, func(c *cluster.Config) {
		c.Now = func() time.Time { return time.Unix(clock.Load(), 0) }
		c.Throttling.Enforcement = cluster.EnforceOn
	})
	return w
}

// TestClear deletes what was purged with a tenth of the throughput, and bills that.
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
		if got := w.node.Clear(t.Context()); got > rate/10/5 { // A deletion costs 5 RU and more.
			t.Fatalf("%d documents are deleted for a tenth of %d RU", got, rate)
		}
	}
	if s := replica.Stats(); s.Documents != 0 || s.Cleared != documents {
		t.Errorf("%d documents are left, and %d cleared", s.Documents, s.Cleared)
	}
	// The node may have been here before, and the last call spends less.
	if got, least := replica.Load().Total-spent, float64(5*documents)*0.8; got < least || calls > documents/10 {
		t.Errorf("clearing is billed %.2f in %d calls, want %.2f at least", got, calls, least)
	}
}

// TestExpireUsesLeftOver deletes nothing after a second that has spent all there
// was, and goes on after one that has not.
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
				return n // The second is over budget.
			}
		}
	}
	first := spend(0)
	clock.Add(2)
	second := spend(first)
	clock.Add(1) // The first have expired, and the second before has nothing left.
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
