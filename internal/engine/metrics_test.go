package engine

import (
	"testing"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/resource"
)

// TestFanoutsForget shows that the visits of deleted containers are dropped when
// another container is queried for the first time.
func TestFanoutsForget(t *testing.T) {
	t.Parallel()
	var f fanouts
	none := &catalog.View{} // All containers are deleted.
	dropped, asked := resource.ContainerRID(resource.DatabaseRID(1), 1), resource.ContainerRID(resource.DatabaseRID(1), 2)
	f.add(none, dropped, QueryVisits{Queries: 1, Partitions: 3})
	f.add(none, dropped, QueryVisits{Partitions: 2})
	if got := f.of(dropped); got != (QueryVisits{Queries: 1, Partitions: 5}) || got.Mean() != 5 {
		t.Errorf("visits %+v, %v each", got, got.Mean())
	}
	f.add(none, asked, QueryVisits{Queries: 2, Partitions: 2})
	if got := f.of(dropped); got != (QueryVisits{}) || len(f.byContainer) != 1 {
		t.Errorf("a deleted container has %+v; %d are kept", got, len(f.byContainer))
	}
}
