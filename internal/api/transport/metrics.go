package transport

import "github.com/prometheus/client_golang/prometheus"

// metrics counts the connections of a server.
type metrics struct {
	refused   prometheus.Counter
	displaced prometheus.Counter
	open      prometheus.GaugeFunc
}

func newMetrics(s *Server) *metrics {
	prefix, clients := s.config.Prefix, s.config.Clients
	return &metrics{
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: prefix + "_connections_refused_total",
			Help: "Connections " + clients + " closed when they came, since there were too many and all were busy.",
		}),
		displaced: prometheus.NewCounter(prometheus.CounterOpts{
			Name: prefix + "_connections_displaced_total",
			Help: "Idle connections " + clients + " closed to make room for others.",
		}),
		open: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: prefix + "_connections_open",
			Help: "Open connections " + clients + ".",
		}, func() float64 { return float64(s.Connections()) }),
	}
}

// Register registers the metrics of the server: how many connections are open, were
// refused, and have made room.
func (s *Server) Register(registry prometheus.Registerer) {
	registry.MustRegister(s.metrics.refused, s.metrics.displaced, s.metrics.open)
}
