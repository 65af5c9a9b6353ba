package engine

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/script"
)

// metrics are the engine's counters.
type metrics struct {
	fanouts  fanouts
	visits   prometheus.Counter
	asked    prometheus.Histogram
	retries  prometheus.Counter
	fanned   prometheus.Counter
	queries  prometheus.Counter
	unserved prometheus.Counter

	worked  prometheus.Counter // processor seconds
	waited  prometheus.Counter // for the first turn
	refused *prometheus.CounterVec
}

// newMetrics creates the counters, and registers them with r unless that is
// nil.
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
			Help: "Scripts that could not be stopped in time and are still running.",
		}, func() float64 { return float64(scripts.Runaways()) }))
	}
	asked := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "decan_engine_query_partitions",
		Help:    "Physical partitions asked for one answered page of a query or document list.",
		Buckets: []float64{1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000},
	})
	if r != nil {
		r.MustRegister(asked)
	}
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "decan_engine_query_overload_total",
		Help: "Queries refused because other requests use the processors (queue) or the memory (memory), or because they exceeded their processor time (time).",
	}, []string{"reason"})
	if r != nil {
		r.MustRegister(refused)
	}
	return &metrics{
		refused:  refused,
		worked:   counter("decan_engine_query_processor_seconds_total", "Approximate processor time of queries and of pages of the change feed."),
		waited:   counter("decan_engine_query_waits_total", "Queries that had to wait for their first turn."),
		asked:    asked,
		visits:   counter("decan_engine_partition_visits_total", "Physical partitions asked, over all requests on documents."),
		retries:  counter("decan_engine_moved_retries_total", "Requests repeated because a partition had moved."),
		queries:  counter("decan_engine_query_pages_total", "Pages of queries and document lists."),
		fanned:   counter("decan_engine_query_fanout_pages_total", "Pages of queries and document lists that asked more than one physical partition."),
		unserved: counter("decan_engine_query_refused_total", "Queries refused because a client has to merge them (400/1004)."),
	}
}

// work registers the gauges of running queries.
func (m *metrics) work(r prometheus.Registerer, e *Engine) {
	if r == nil {
		return
	}
	gauge := func(name, help string, value func() float64) {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	t := e.turns
	gauge("decan_engine_queries_running", "Turns held by queries and pages of the change feed that have worked for more than a millisecond.", func() float64 {
		t.mu.Lock()
		defer t.mu.Unlock()
		return float64(t.held)
	})
	gauge("decan_engine_queries_long", "Queries and pages of the change feed that have run for more than a second, including waiting.", func() float64 { return float64(len(e.long())) })
	gauge("decan_engine_queries_waiting", "Queries that wait for a turn, including paused ones.", func() float64 { return float64(t.waiting.Load()) })
	gauge("decan_engine_query_memory_bytes", "Memory that queries use for intermediate results.", func() float64 { return float64(e.memory.bytes()) })
}

// QueryVisits counts how many partitions the queries and document lists of a
// container have asked since the engine was created. A client that asks each
// partition itself sends several queries of one partition each.
type QueryVisits struct {
	Queries    int64 // of which the first page was answered
	Partitions int64 // physical partitions asked, each once for a query, whatever its number of pages
}

// Mean returns the mean number of physical partitions that a query asks, or 0
// without queries.
func (v QueryVisits) Mean() float64 {
	if v.Queries == 0 {
		return 0
	}
	return float64(v.Partitions) / float64(v.Queries)
}

// fanouts has the visits of each container. The zero value is empty.
type fanouts struct {
	mu sync.Mutex

	byContainer map[resource.RID]QueryVisits // of containers that were queried, except those deleted since
}

// add counts a page of a query.
func (f *fanouts) add(view *catalog.View, container resource.RID, page QueryVisits) {
	f.mu.Lock()
	defer f.mu.Unlock()
	sum, known := f.byContainer[container]
	if !known {
		for rid := range f.byContainer { // For a new container, forget those that were deleted.
			if _, exists := view.ContainerByRID(rid); !exists {
				delete(f.byContainer, rid)
			}
		}
		if f.byContainer == nil {
			f.byContainer = map[resource.RID]QueryVisits{}
		}
	}
	f.byContainer[container] = QueryVisits{Queries: sum.Queries + page.Queries, Partitions: sum.Partitions + page.Partitions}
}

func (f *fanouts) of(container resource.RID) QueryVisits {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.byContainer[container]
}
