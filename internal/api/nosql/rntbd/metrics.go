package rntbd

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics counts what the door does.
type metrics struct {
	requests prometheus.Counter
	writes   prometheus.Counter
	ended    *prometheus.CounterVec // by reason
	open     atomic.Int64
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
	}
	if registry == nil {
		return m
	}
	s.Register(registry)
	registry.MustRegister(m.requests, m.writes, m.ended, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "decan_direct_requests_open",
		Help: "Requests in direct mode whose answer is not sent.",
	}, func() float64 { return float64(m.open.Load()) }))
	return m
}
