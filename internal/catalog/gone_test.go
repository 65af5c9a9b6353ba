package catalog_test

import (
	"context"
	"testing"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/resource"
)

// TestGonePartitions shows that a container knows the ranges of its last 1,000 replaced
// partitions, across a restart, and none of older ones.
func TestGonePartitions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := context.Background()
	commit := func(change catalog.Change) *catalog.View {
		t.Helper()
		view, err := w.Commit(ctx, change)
		if err != nil {
			t.Fatal(err)
		}
		return view
	}
	database, _ := commit(catalog.CreateDatabase{Database: resource.Database{ID: "d"}}).Database("d")
	c := parseContainer(t, "c")
	c.RID = w.ReserveContainer(database.RID)
	commit(catalog.CreateContainer{Container: c, Partitions: tile(c.PartitionKey, 1)})
	now := func() *catalog.Container {
		c, _ := w.View().ContainerByRID(c.RID)
		return c
	}
	// Each round replaces three partitions: it splits the only one, and merges the
	// children again.
	const rounds = 340
	for range rounds {
		whole := now().Ranges.At(0).Value
		commit(catalog.PlanSplit{Container: c.RID, Parent: whole.ID, At: "\x20"})
		commit(catalog.FinishSplit{Container: c.RID, Parent: whole.ID})
		pair := [2]resource.PartitionID{now().Ranges.At(0).Value.ID, now().Ranges.At(1).Value.ID}
		commit(catalog.PlanMerge{Container: c.RID, Parents: pair, PartitionRUs: 10000})
		commit(catalog.FinishMerge{Container: c.RID, Parents: pair, PartitionRUs: 10000})
	}
	w.reopen(t)
	if n := len(now().Gone); n != 1000 {
		t.Errorf("%d replaced partitions are known, want 1000", n)
	}
	const first = 3*rounds - 1000 // known
	for id := resource.PartitionID(0); id < 3*rounds; id++ {
		r, known := now().OnceOwned(id)
		if known != (id >= first) {
			t.Fatalf("partition %s: known %v", id, known)
		}
		if known && (id%3 == 0) != (r.Min == "" && r.Max == "\xFF") {
			t.Fatalf("partition %s had the range %v", id, r)
		}
	}
	if _, known := now().OnceOwned(now().Ranges.At(0).Value.ID); known {
		t.Error("the current partition counts as replaced")
	}
}
