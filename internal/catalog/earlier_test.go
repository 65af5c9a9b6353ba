package catalog_test

import (
	"context"
	"testing"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/resource"
)

// TestEarlierThroughput shows that a throughput keeps the last 20 values that it had,
// across a restart. A change of something else is none, and keeps the time of the value.
func TestEarlierThroughput(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	commit := func(change catalog.Change) {
		t.Helper()
		if _, err := w.Commit(context.Background(), change); err != nil {
			t.Fatal(err)
		}
	}
	commit(catalog.CreateDatabase{Database: resource.Database{ID: "d"}, Throughput: &resource.Throughput{Manual: 400}})
	database, _ := w.View().Database("d")
	now := func() resource.Throughput {
		found, _ := w.View().Throughput(database.RID)
		return found
	}
	change := func(edit func(t *resource.Throughput)) {
		t.Helper()
		changed := now()
		edit(&changed)
		commit(catalog.PutThroughput{Throughput: changed})
	}
	for i := range 24 {
		change(func(t *resource.Throughput) { t.Manual = 500 + 100*i })
	}
	change(func(t *resource.Throughput) { t.Manual, t.Max = 0, 4000 })
	before := now().Replaced
	change(func(t *resource.Throughput) {
		t.Buckets, t.Earlier, t.Replaced = []resource.Bucket{{ID: 1, Percent: 30}}, nil, 0
	})
	w.reopen(t)
	got := now()
	if got.Replaced != before || got.Max != 4000 || len(got.Buckets) != 1 || len(got.Earlier) != resource.EarlierMax {
		t.Fatalf("%+v, want the time %d of the value, and %d earlier ones", got, before, resource.EarlierMax)
	}
	for i, e := range got.Earlier {
		if e.Manual != 900+100*i || e.Max != 0 || e.TS == 0 {
			t.Errorf("earlier value %d is %+v", i, e)
		}
	}
}
