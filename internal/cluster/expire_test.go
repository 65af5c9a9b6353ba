package cluster_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/cluster"
)

// clockWorld returns a world with its own clock and without maintenance.
func clockWorld(t *testing.T, now func() time.Time) *world {
	t.Helper()
	w, _ := start(t, 0)
	w.restart(t, func(c *cluster.Config) { c.Now, c.Maintenance = now, -1 })
	return w
}

// TestExpire deletes expired documents in every open partition, and none in a container
// without a time to live.
func TestExpire(t *testing.T) {
	t.Parallel()
	var clock atomic.Int64
	clock.Store(1_700_000_000)
	w := clockWorld(t, func() time.Time { return time.Unix(clock.Load(), 0) })
	for _, name := range []string{"mortal", "immortal"} {
		c, err := w.create(name, 3)
		if err != nil {
			t.Fatal(err)
		}
		for p := range 3 {
			if err := w.write(c, c.Ranges.At(p).Value.ID, "x"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := w.node.Expire(t.Context()); got != 0 {
		t.Errorf("%d documents deleted before there is a time to live", got)
	}
	c, _ := w.catalog.View().Container("d", "mortal")
	next := c.Container
	next.DefaultTTL = 100
	if _, err := w.catalog.Commit(t.Context(), catalog.ReplaceContainer{Container: next, Expect: c.ETag}); err != nil {
		t.Fatal(err)
	}
	if got := w.node.Expire(t.Context()); got != 0 {
		t.Errorf("%d documents deleted before their time", got)
	}
	clock.Add(100)
	if got := w.node.Expire(t.Context()); got != 3 {
		t.Errorf("%d documents deleted, want 3", got)
	}
	for name, want := range map[string]int64{"mortal": 0, "immortal": 1} {
		c, _ := w.catalog.View().Container("d", name)
		for p := range 3 {
			if got, err := w.count(c, c.Ranges.At(p).Value.ID); err != nil || got != want {
				t.Errorf("partition %d of %s has %d documents, want %d (%v)", p, name, got, want, err)
			}
		}
	}
}
