package balance_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/decandb/decan/internal/balance"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// TestMergeAfterScalingDown merges what a lower throughput no longer needs
// (S110-S112): exactly what a dry run predicts, and nothing while all partitions
// are needed.
func TestMergeAfterScalingDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	b := w.balancer()
	defer b.Close()
	b.Start()
	eventually(t, "four partitions", func() bool { return w.view().Ranges.Len() == 4 })
	if left, err := b.Merge(t.Context(), w.container, false); err != nil || len(left) != 4 {
		t.Errorf("with 400 RU/s: %v, %v", left, err)
	}
	for _, step := range []struct{ rus, want int }{{300, 3}, {100, 1}, {100, 1}} {
		lower := catalog.PutThroughput{Throughput: resource.Throughput{Owner: w.container, Manual: step.rus, Highest: 400}}
		if _, err := w.catalog.Commit(t.Context(), lower); err != nil {
			t.Fatal(err)
		}
		version := w.catalog.View().Version()
		foreseen, err := b.Merge(t.Context(), w.container, true)
		if err != nil || len(foreseen) != step.want || w.catalog.View().Version() != version {
			t.Errorf("a dry run with %d RU/s: %v, %v", step.rus, foreseen, err)
		}
		left, err := b.Merge(t.Context(), w.container, false)
		if err != nil || len(left) != step.want || w.view().Ranges.Len() != step.want {
			t.Errorf("with %d RU/s: %v, %v, %d partitions", step.rus, left, err, w.view().Ranges.Len())
		}
		for i := range left {
			if left[i] != foreseen[i] {
				t.Errorf("with %d RU/s: %v remain, the dry run predicted %v", step.rus, left[i], foreseen[i])
			}
		}
	}
	if _, err := b.Merge(t.Context(), "nobody", false); status.CodeOf(err) != status.CodeNotFound {
		t.Errorf("a missing container: %v, want 404", err)
	}
}

// TestDelayedMergeBlocksNoOther merges a container whose limits delay that for an
// hour, with a balancer that does one thing at a time: another container must be
// split during the delay.
func TestDelayedMergeBlocksNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	held := w.create(t, "held", 2, 100)
	hour := time.Hour
	if _, err := w.catalog.Commit(t.Context(), catalog.PutLimits{RID: held, Limits: resource.OwnLimits{SplitDelay: &hour}}); err != nil {
		t.Fatal(err)
	}
	b := balance.New(balance.Config{Catalog: w.catalog, Node: w.node, Limits: w.limits, Parallel: 1})
	defer b.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := b.Merge(ctx, held, false)
		done <- err
	}()
	container := func() *catalog.Container {
		c, _ := w.catalog.View().ContainerByRID(held)
		return c
	}
	eventually(t, "the plan of the merge", func() bool { return len(container().Merges) == 1 })
	b.Wake(w.container)
	eventually(t, "four partitions", func() bool { return w.view().Ranges.Len() == 4 })
	if n := len(container().Merges); n != 1 {
		t.Errorf("%d merges are held", n)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the merge ended with %v", err)
	}
}
