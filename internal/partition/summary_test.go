package partition

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/status"
)

// summary reads the summary from the store of a world.
func (w *world) summary() Summary {
	w.tb.Helper()
	snapshot := w.store.Snapshot()
	defer snapshot.Close()
	summary, err := ReadSummary(snapshot)
	if err != nil {
		w.tb.Fatal(err)
	}
	return summary
}

// A partition records the version of the catalog with the first effect under that
// version, also after a restart or a lost effect, and no effect decreases it.
func TestCatalogVersionIsRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/pk"}, ""))
	var version atomic.Uint64
	reopen := func() {
		t.Helper()
		p, err := Open(func() Config { c := w.config(); c.CatalogVersion = version.Load; return c }())
		if err != nil {
			t.Fatal(err)
		}
		if before := w.partition.Swap(p); before != nil {
			if err := before.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	put := func(id string) error {
		_, err := w.write(Upsert, w.parse(`{"id":"`+id+`","pk":"x"}`), nil)
		return err
	}
	reopen()
	for i, step := range []struct{ version, want uint64 }{{0, 0}, {3, 3}, {3, 3}, {9, 9}, {5, 9}} {
		version.Store(step.version)
		if err := put("a"); err != nil {
			t.Fatal(err)
		}
		if got := w.summary(); got.Catalog != step.want {
			t.Errorf("step %d: recorded %d, want %d", i, got.Catalog, step.want)
		}
		reopen()
	}
	summary := w.summary()
	if summary.Partition.ID != 7 || summary.Documents != 1 || summary.LSN != 5 || summary.Container != w.container.Load().RID || summary.HasUniqueKeys {
		t.Errorf("summary %+v", summary)
	}
	if report := w.check(); !report.Clean() || report.Catalog != 9 {
		t.Errorf("check: %+v", report)
	}
}

// After an effect that was refused, the next one records the version.
func TestCatalogVersionAfterLostEffect(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/pk"}, ""))
	var refuse atomic.Bool
	group := &refusing{Group: w.group, refuse: &refuse}
	config := w.config()
	config.Group, config.CatalogVersion = group, func() uint64 { return 4 }
	p, err := Open(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.partition.Swap(p).Close(); err != nil {
		t.Fatal(err)
	}
	refuse.Store(true)
	if _, err := w.write(Upsert, w.parse(`{"id":"a","pk":"x"}`), nil); status.CodeOf(err) != status.CodeTooManyRequests {
		t.Fatalf("refused write: %v", err)
	}
	refuse.Store(false)
	if _, err := w.write(Upsert, w.parse(`{"id":"a","pk":"x"}`), nil); err != nil {
		t.Fatal(err)
	}
	if got := w.summary().Catalog; got != 4 {
		t.Errorf("recorded %d, want 4", got)
	}
}

// refusing is a group that is full for a while.
type refusing struct {
	replication.Group
	refuse *atomic.Bool
}

func (g *refusing) Propose(ctx context.Context, ref replication.PartitionRef, e replication.Effect) *replication.Proposal {
	if g.refuse.Load() {
		p := replication.NewProposal()
		p.Resolve(replication.Rejected, status.TooManyRequests(0, 0, "The queue is full."))
		return p
	}
	return g.Group.Propose(ctx, ref, e)
}
