package catalog_test

import (
	"testing"
	"time"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// The limits of a container survive a restart and a replace that does not know
// them, and a change must name the current ones.
func TestLimits(t *testing.T) {
	t.Parallel()
	w, c, e := functionWorld(t)
	of := func(rid resource.RID) resource.OwnLimits {
		got, _ := w.View().ContainerByRID(rid)
		return got.Limits
	}
	none := resource.OwnLimits{}
	delay := time.Duration(0)
	want := resource.OwnLimits{PhysicalPartitionBytes: 1 << 20, PartitionRUs: 500, SplitDelay: &delay}
	before, _ := w.View().ContainerByRID(c)
	w.must(t, catalog.PutLimits{RID: c, Limits: want, Expected: none})
	if now, _ := w.View().ContainerByRID(c); now.ETag != before.ETag || now.Version != before.Version {
		t.Error("limits have changed the etag or the ranges")
	}
	w.fails(t, status.CodePreconditionFailed, catalog.PutLimits{RID: c, Limits: none, Expected: none})
	w.fails(t, status.CodeNotFound, catalog.PutLimits{RID: "none", Limits: want})
	stale := before.Container
	w.must(t, catalog.ReplaceContainer{Container: stale, Expect: before.ETag})
	for range 2 {
		if got := of(c); !got.Equal(want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if got := of(e); !got.Equal(none) {
			t.Errorf("the other container has %+v", got)
		}
		w.reopen(t)
	}
	w.must(t, catalog.PutLimits{RID: c, Limits: none, Expected: want})
	if got := of(c); !got.Equal(none) {
		t.Errorf("taken back: got %+v", got)
	}
}
