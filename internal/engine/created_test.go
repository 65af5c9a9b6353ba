package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
)

// TestCreatedAtIsGuarded creates a container after the machine's clock has jumped ahead by
// a year. The partitions have the time of the guarded clock, which does not follow the
// jump; throughput buckets that are changed then have it as well.
func TestCreatedAtIsGuarded(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	machine := &clock{}
	machine.set(begin)
	guarded := cluster.NewClock(cluster.ClockConfig{Now: machine.now, Elapsed: func() time.Duration { return 0 }})
	w := newWorld(t, func(c *engine.Config) { c.Now = machine.now })
	if err := w.node.Close(); err != nil {
		t.Fatal(err)
	}
	var err error
	w.node, err = cluster.Start(cluster.Config{Pool: w.pool, Dir: "data", Catalog: w.catalog, Limits: w.cfg.Limits, Clock: guarded})
	if err != nil {
		t.Fatal(err)
	}
	w.cfg.Node = w.node
	w.Engine = engine.New(w.cfg)

	machine.set(begin.AddDate(1, 0, 0))
	w.container(t, 2, "/k")
	c, ok := w.catalog.View().Container("d", "c")
	if !ok {
		t.Fatal("the container does not exist")
	}
	for i, p := range c.Partitions() {
		if want := resource.Timestamp(begin.Unix()); p.CreatedAt != want {
			t.Errorf("partition %d was created at %d, want %d: the time without the jump", i, p.CreatedAt, want)
		}
	}
	offer, ok := w.catalog.View().ThroughputOf(c)
	if !ok {
		t.Fatal("the container has no throughput")
	}
	_, err = w.ReplaceOffer(context.Background(), caller, engine.OfferRequest{
		Offer: offer.RID.String(), Body: parse(t, `{"content":{"offerThroughput":400,"throughputBuckets":[{"id":1,"maxThroughputPercentage":50}]}}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	offer, _ = w.catalog.View().ThroughputOf(c)
	if want := resource.Timestamp(begin.Unix()); offer.BucketsAt != want {
		t.Errorf("the buckets were changed at %d, want %d: the time without the jump", offer.BucketsAt, want)
	}
}
