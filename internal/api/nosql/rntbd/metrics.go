package rntbd

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics counts what the door does.
type metrics struct {
	requests  prometheus.Counter
	writes    prometheus.Counter
	ended     *prometheus.CounterVec // by reason
	refused   prometheus.Counter
	displaced prometheus.Counter
	open      atomic.Int64
}

// newMetrics registers the metrics of a server, unless registry is nil.
func newMetrics(s *Server, registry prometheus.Registerer) *metrics {
	m := &metrics{
		requests: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "decan_direct_requests_total",
			Help: "Requests of clients in direct mode.",
		}),
		writes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "decan_direct_writes_total",
			Help: "Writes to clients in direct mode; one has all the answers that were ready.",
		}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "decan_direct_connections_ended_total",
			Help: "Connections in direct mode that the server closed because of their client, by reason: tls (the handshake failed), plain (no TLS), protocol (a frame that cannot be read), slow (a request or its answer took too long).",
		}, []string{"reason"}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "decan_direct_connections_refused_total",
			Help: "Connections in direct mode closed when they came, since there were too many and all were busy.",
		}),
		displaced: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "decan_direct_connections_displaced_total",
			Help: "Idle connections in direct mode closed to make room for others.",
		}),
	}
	if registry == nil {
		return m
	}
	gauge := func(name, help string, read func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read)
	}
	registry.MustRegister(
		m.requests, m.writes, m.ended, m.refused, m.displaced,
		gauge("decan_direct_connections_open", "Open connections in direct mode.", func() float64 { return float64(s.Connections()) }),
		gauge("decan_direct_requests_open", "Requests in direct mode whose answer is not sent.", func() float64 { return float64(m.open.Load()) }),
	)
	return m
}
