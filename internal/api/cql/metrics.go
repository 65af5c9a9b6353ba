package cql

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/decandb/decan/internal/api/cql/frame"
)

// metrics counts what the door does.
type metrics struct {
	requests *prometheus.CounterVec                  // by opcode
	byOpcode [256]atomic.Pointer[prometheus.Counter] // of requests: those that were counted
	errors   *prometheus.CounterVec                  // by the name of their code
}

// newMetrics registers the metrics of a server, unless registry is nil.
func newMetrics(s *Server, registry prometheus.Registerer) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "decan_cql_requests_total",
			Help: "Requests of CQL clients that have signed in, by opcode.",
		}, []string{"opcode"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "decan_cql_errors_total",
			Help: "Errors sent to CQL clients, by kind.",
		}, []string{"error"}),
	}
	if registry == nil {
		return m
	}
	gauge := func(name, help string, read func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read)
	}
	s.Register(registry)
	registry.MustRegister(
		m.requests, m.errors,
		gauge("decan_cql_inflight_bytes", "Bytes of the requests and answers of CQL clients in memory.", func() float64 { return float64(s.inflight.taken()) }),
		gauge("decan_cql_prepared_statements", "Prepared statements of CQL clients.", func() float64 { return float64(s.prepared.count()) }),
	)
	return m
}

// request counts a request of a client that has signed in.
func (m *metrics) request(o frame.Opcode) {
	counter := m.byOpcode[o].Load()
	if counter == nil {
		counter = new(m.requests.WithLabelValues(o.String()))
		m.byOpcode[o].Store(counter)
	}
	(*counter).Inc()
}

// answered counts a message that is sent to a client, if it is an error.
func (m *metrics) answered(message frame.Message) {
	if e, ok := message.(*frame.Error); ok {
		m.errors.WithLabelValues(e.Code.String()).Inc()
	}
}
