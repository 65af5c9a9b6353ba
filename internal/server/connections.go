package server

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/decandb/decan/internal/api/nosql"
	"github.com/decandb/decan/internal/api/transport"
)

// connections limits the number of connections of one port or more, in total and per
// address. At the limit, the connection that has been quiet for longest is closed to
// make room: clients open another one when they need it. A new one is refused only if
// all are busy.
type connections struct {
	limit        int // of all
	perAddress   int // of each address except loopback ones
	readTimeout  time.Duration
	writeTimeout time.Duration
	memory       *nosql.Memory // counts long headers
	metrics      *connectionMetrics
	port         string // label of the metrics
	began        time.Time

	mu sync.Mutex

	open   []*connection        // guarded by mu
	counts map[netip.Prefix]int // guarded by mu: number of open connections by address
	cursor int                  // guarded by mu: the start of the next search
}

const (
	// searchMin is the minimum number of connections from which the longest quiet one
	// is chosen. With thousands of connections, it may not be the longest quiet one of
	// all.
	searchMin = 512

	// readingMin is how long the headers of a request may take until the
	// connection may be closed to make room.
	readingMin = 5 * time.Second
)

// now is a monotonic clock, in nanoseconds.
func (s *connections) now() int64 { return int64(time.Since(s.began)) }

// atMost returns the client's time for a step that has its own limit.
func (s *connections) atMost(bound time.Duration) time.Duration {
	if s.readTimeout > 0 {
		return min(bound, s.readTimeout)
	}
	return bound
}

// admit counts an accepted connection, and closes a quiet one if there are too
// many. It returns nil if none is quiet: then it closes conn.
func (s *connections) admit(conn net.Conn) *connection {
	c := &connection{Conn: conn, all: s, address: transport.Network(transport.Remote(conn).Addr())}
	c.since.Store(s.now())
	for {
		victim, reason := s.enter(c)
		if reason == "" {
			return c
		}
		if victim == nil {
			s.metrics.refused.WithLabelValues(s.port, reason).Inc()
			c.cut() // A client that waits for an answer notices at once.
			_ = conn.Close()
			return nil
		}
		s.metrics.displaced.WithLabelValues(s.port, reason).Inc()
		_ = victim.Conn.Close() // Its goroutine notices.
	}
}

// enter adds c to the open connections. If there are too many, it removes a
// victim instead, which the caller closes, and returns which limit was reached.
func (s *connections) enter(c *connection) (victim *connection, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case len(s.open) >= s.limit:
		victim, reason = s.quietest(nil), tooManyInAll
	case s.perAddress > 0 && s.counts[c.address] >= s.perAddress && !c.address.Addr().IsLoopback():
		victim, reason = s.quietest(&c.address), tooManyOfAddress
	default:
		c.place = len(s.open)
		s.open = append(s.open, c)
		s.counts[c.address]++
		return nil, ""
	}
	if victim != nil {
		s.removeLocked(victim)
	}
	return victim, reason
}

// quietest returns a connection that may be closed, or nil: the one of the
// address that has been quiet for longest. If address is nil, it is one of the
// address with the most connections. The connection is marked as gone.
func (s *connections) quietest(of *netip.Prefix) *connection {
	now := s.now()
	for {
		var best *connection
		var bestState int32
		for i := range s.open {
			if best != nil && i >= searchMin {
				break
			}
			s.cursor = (s.cursor + 1) % len(s.open)
			c := s.open[s.cursor]
			if of != nil && c.address != *of {
				continue
			}
			state := c.state.Load()
			if state > reading || state == reading && now-c.since.Load() < int64(readingMin) {
				continue
			}
			if best == nil || s.before(c, best) {
				best, bestState = c, state
			}
		}
		if best == nil || best.state.CompareAndSwap(bestState, gone) {
			return best
		}
	}
}

// before reports whether a is closed in preference to b.
func (s *connections) before(a, b *connection) bool {
	if x, y := s.counts[a.address], s.counts[b.address]; x != y {
		return x > y
	}
	return a.since.Load() < b.since.Load()
}

func (s *connections) remove(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeLocked(c)
}

// removeLocked removes c, if it is present.
func (s *connections) removeLocked(c *connection) {
	if c.place < 0 || c.place >= len(s.open) || s.open[c.place] != c {
		return
	}
	last := s.open[len(s.open)-1]
	s.open[c.place], last.place = last, c.place
	s.open[len(s.open)-1] = nil
	s.open = s.open[:len(s.open)-1]
	c.place = -1
	if s.counts[c.address]--; s.counts[c.address] == 0 {
		delete(s.counts, c.address)
	}
}

func (s *connections) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// connectionMetrics counts the connections of all ports.
type connectionMetrics struct {
	refused   *prometheus.CounterVec
	displaced *prometheus.CounterVec
	slow      *prometheus.CounterVec
	flooded   prometheus.Counter
	open      *prometheus.Desc
	ports     []*connections // set before the first scrape
}

func newConnectionMetrics() *connectionMetrics {
	m := &connectionMetrics{
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "decan_connections_refused_total",
			Help: "Connections closed when they came, since there were too many in all or from their address and all were busy.",
		}, []string{"port", "reason"}),
		displaced: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "decan_connections_displaced_total",
			Help: "Quiet connections closed to make room for others, since there were too many in all or from their address.",
		}, []string{"port", "reason"}),
		slow: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "decan_connections_slow_total",
			Help: "Connections cut because the client sent a body or took an answer too slowly.",
		}, []string{"direction"}),
		flooded: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "decan_connections_flooded_total",
			Help: "HTTP/2 connections cut because the client reset more than half of its requests.",
		}),
		open: prometheus.NewDesc("decan_connections_open", "Open connections.", []string{"port"}, nil),
	}
	for _, port := range []string{portData, portAdmin} {
		for _, reason := range []string{tooManyInAll, tooManyOfAddress} {
			m.refused.WithLabelValues(port, reason)
			m.displaced.WithLabelValues(port, reason)
		}
	}
	m.slow.WithLabelValues(slowToSend)
	m.slow.WithLabelValues(slowToTake)
	return m
}

// Values of labels.
const (
	portData         = "data" // includes the compute gateway's
	portAdmin        = "admin"
	tooManyInAll     = "total"
	tooManyOfAddress = "address"
	slowToSend       = "read"
	slowToTake       = "write"
)

// Describe implements prometheus.Collector.
func (m *connectionMetrics) Describe(to chan<- *prometheus.Desc) {
	m.refused.Describe(to)
	m.displaced.Describe(to)
	m.slow.Describe(to)
	m.flooded.Describe(to)
	to <- m.open
}

// Collect implements prometheus.Collector.
func (m *connectionMetrics) Collect(to chan<- prometheus.Metric) {
	m.refused.Collect(to)
	m.displaced.Collect(to)
	m.slow.Collect(to)
	m.flooded.Collect(to)
	for _, s := range m.ports {
		to <- prometheus.MustNewConstMetric(m.open, prometheus.GaugeValue, float64(s.count()), s.port)
	}
}
