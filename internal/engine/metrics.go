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
	asked := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "decan_engine_query_partitions",
		Help:    "Physical partitions that a page of a query or document list has asked, of pages that were answered.",
		Buckets: []float64{1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000},
	})
	if r != nil {
		r.MustRegister(asked)
	}
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "decan_engine_query_overload_total",
		Help: "Queries refused because others take the processors (queue) or the memory (memory), or because they took more processor time than one may (time).",
	}, []string{"reason"})
	if r != nil {
		r.MustRegister(refused)
	}
	return &metrics{
		refused:  refused,
		worked:   counter("decan_engine_query_processor_seconds_total", "Processor time of queries and of pages of the change feed, about."),
		waited:   counter("decan_engine_query_waits_total", "Queries that had to wait for their first turn."),
		asked:    asked,
		visits:   counter("decan_engine_partition_visits_total", "Physical partitions asked, over all requests on documents."),
		retries:  counter("decan_engine_moved_retries_total", "Requests repeated because a partition had moved."),
		queries:  counter("decan_engine_query_pages_total", "Pages of queries and document lists."),
		fanned:   counter("decan_engine_query_fanout_pages_total", "Pages of queries and document lists that asked more than one physical partition."),
		unserved: counter("decan_engine_query_refused_total", "Queries refused because a client has to merge them (400/1004)."),
	}
}

// work shows what queries take of the machine.
func (m *metrics) work(r prometheus.Registerer, e *Engine) {
	if r == nil {
		return
	}
	gauge := func(name, help string, value func() float64) {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	t := e.turns
	gauge("decan_engine_queries_running", "Turns that queries and pages of the change feed hold which have worked for more than a millisecond.", func() float64 {
		t.mu.Lock()
		defer t.mu.Unlock()
		return float64(t.held)
	})
	gauge("decan_engine_queries_long", "Queries and pages of the change feed that have run for more than a second, waiting included.", func() float64 { return float64(len(e.long())) })
	gauge("decan_engine_queries_waiting", "Queries that wait for a turn, paused ones included.", func() float64 { return float64(t.waiting.Load()) })
	gauge("decan_engine_query_memory_bytes", "Memory that queries hold for their intermediate results.", func() float64 { return float64(e.memory.bytes()) })
}

// QueryVisits says how far the queries of a container fan out: its queries and
// document lists since the engine was opened. A client that asks each partition by
// itself sends as many queries, of one partition each.
type QueryVisits struct {
	Queries    int64 // that were answered with a first page at least
	Partitions int64 // physical partitions asked: each once for a query, however many pages
}

// Mean returns how many physical partitions a query has asked on average, 0 without
// queries.
func (v QueryVisits) Mean() float64 {
	if v.Queries == 0 {
		return 0
	}
	return float64(v.Partitions) / float64(v.Queries)
}

// fanouts keeps the visits of each container. The zero value is empty.
type fanouts struct {
	mu sync.Mutex

	byContainer map[resource.RID]QueryVisits // of those that were asked, less what was dropped
}

// add counts a page.
func (f *fanouts) add(view *catalog.View, container resource.RID, page QueryVisits) {
	f.mu.Lock()
	defer f.mu.Unlock()
	sum, known := f.byContainer[container]
	if !known {
		for rid := range f.byContainer { // Containers come and go; this is when one has come.
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
