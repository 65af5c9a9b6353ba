package engine

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/decandb/decan/internal/script"
)

// metrics are the engine's counters.
type metrics struct {
	visits   prometheus.Counter
	retries  prometheus.Counter
	fanned   prometheus.Counter
	queries  prometheus.Counter
	unserved prometheus.Counter
}

// newMetrics makes the counters and shows them at r, unless it is nil.
func newMetrics(r prometheus.Registerer, scripts *script.Runner) *metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		if r != nil {
			r.MustRegister(c)
		}
		return c
	}
	if r != nil && scripts != nil {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "decan_engine_script_runaways",
			Help: "Scripts that could not be stopped in time and still run.",
		}, func() float64 { return float64(scripts.Runaways()) }))
	}
	return &metrics{
		visits:   counter("decan_engine_partition_visits_total", "Physical partitions asked, over all requests on documents."),
		retries:  counter("decan_engine_moved_retries_total", "Requests repeated because a partition had moved."),
		queries:  counter("decan_engine_query_pages_total", "Pages of queries and document lists."),
		fanned:   counter("decan_engine_query_fanout_pages_total", "Pages of queries and document lists that asked more than one physical partition."),
		unserved: counter("decan_engine_query_refused_total", "Queries refused because a client has to merge them (400/1004)."),
	}
}
