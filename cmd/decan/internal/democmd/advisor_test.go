package democmd

import (
	"math"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/simulate"
	"github.com/decandb/decan/internal/value"
)

// advisorAgrees compares what the key advisor predicts for the events with what the
// server did: partitions after the splits, partitions that each query asks, its charge,
// and which keys refuse writes (S21, S26, S37, S47 to S54).
//
// The bounds: two refused writes; one partition or a quarter of them, since a server splits while the events
// come and the simulation after all of them are there; a hundredth of a charge, and what
// a visit costs for each partition more or less. The kind of route is the same.
func advisorAgrees(t *testing.T, report *demoReport) {
	t.Helper()
	const visit = 2.5 // RU: the base and a lookup
	events := demoEvents(report.Events)
	limits := resource.LaptopLimits()
	indexing := resource.DefaultIndexing()
	indexing.Excluded = append(indexing.Excluded, "/details/?")
	for i := range report.Layouts {
		layout, real := &demoLayouts[i], &report.Layouts[i]
		var sample simulate.Sample
		for _, e := range events {
			if layout.synthetic {
				e.TenantUser = layout.key(e)[0]
			}
			body, err := e.body(report.EventBytes)
			if err != nil {
				t.Fatal(err)
			}
			v, err := value.Parse(body)
			if err != nil {
				t.Fatal(err)
			}
			sample.Documents = append(sample.Documents, v)
		}
		w := simulate.Workload{Throughput: 400}
		for _, q := range demoQueries(events) {
			text, parameters := q.text(layout)
			one := simulate.Query{Text: text, PerSecond: 1}
			for name, v := range parameters {
				one.Parameters = append(one.Parameters, simulate.Parameter{Name: name, Value: value.String(v)})
			}
			w.Queries = append(w.Queries, one)
		}
		advice, err := simulate.Advise(t.Context(), sample, w, [][]string{layout.paths}, simulate.Settings{Limits: limits, Indexing: indexing})
		if err != nil {
			t.Fatal(err)
		}
		predicted := &advice.Candidates[0]
		if full := predicted.LargestBytes > limits.LogicalPartitionBytes; full != (real.Refused > 0) {
			t.Errorf("%s: the largest key would hold %d bytes of %d, and the server refused %d writes", layout.title, predicted.LargestBytes, limits.LogicalPartitionBytes, real.Refused)
		}
		if off := predicted.Refused - int64(real.Refused); off < -2 || off > 2 {
			t.Errorf("%s: %d refused writes predicted, the server refused %d", layout.title, predicted.Refused, real.Refused)
		}
		if real.Refused > 0 {
			continue // The simulation keeps the events that the server has refused.
		}
		near := func(what string, predicted, real, least, part float64) {
			if math.Abs(predicted-real) > max(least, part*real) {
				t.Errorf("%s: %s: predicted %.2f, the server has %.2f", layout.title, what, predicted, real)
			}
		}
		near("bytes of the largest key", float64(predicted.LargestBytes), float64(real.LargestBytes), 0, 0.001)
		near("partitions", float64(predicted.Partitions), float64(real.Partitions), 1, 0.25)
		for k, q := range predicted.Queries {
			asked := real.Queries[k]
			name := strings.TrimPrefix(asked.Text, "SELECT * FROM c WHERE ")
			if all, really := q.Route == simulate.FanOut, asked.Visited == asked.Total; all != really && asked.Total > 2 {
				t.Errorf("%s: %s: predicted %s, the server asked %d of %d", layout.title, name, q.Route, asked.Visited, asked.Total)
			}
			if q.Route == simulate.SinglePartition && asked.Visited != 1 {
				t.Errorf("%s: %s: predicted a single partition, the server asked %d", layout.title, name, asked.Visited)
			}
			near(name+": partitions asked", q.Partitions, float64(asked.Visited), 1, 0.25)
			near(name+": charge", q.Charge, asked.Charge, visit*math.Abs(q.Partitions-float64(asked.Visited)), 0.01)
		}
	}
}
