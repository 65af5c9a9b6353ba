package engine_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// TestUnknownPartitionIsGoneAtOnce shows that a partition that the view does not
// have is 410 at once. Only a partition that is moving makes a request wait for
// a newer view.
func TestUnknownPartitionIsGoneAtOnce(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	w := newWorld(t, func(c *engine.Config) { c.Registerer = registry })
	link := w.container(t, 1, "/pk")
	unknown := resource.PartitionID(77)
	_, err := w.Query(t.Context(), caller, engine.QueryRequest{
		Link: link, Text: "SELECT * FROM c", Partition: &unknown, Cross: true,
	})
	if status.CodeOf(err) != status.CodeGone || status.SubOf(err) != status.SubRangeGone {
		t.Fatalf("got %v, want 410/1002", err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "decan_engine_moved_retries_total" {
			if n := family.GetMetric()[0].GetCounter().GetValue(); n != 0 {
				t.Errorf("the request was repeated %v times", n)
			}
			return
		}
	}
	t.Error("no metric counts retries")
}
