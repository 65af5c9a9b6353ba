package server

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/decandb/decan/internal/api/nosql"
)

// connections are those of one port or more, and bounds how many there are, in all and
// from one address. When there are as many as may be, the one that has been quiet for
// longest is closed to make room: clients open another when they need it. A new one is
// refused only when all are busy.
type connections struct {
	limit        int // of all
	perAddress   int // of each address but loopback ones
	readTimeout  time.Duration
	writeTimeout time.Duration
	memory       *nosql.Memory // counts long headers
	metrics      *connectionMetrics
	port         string // label of the metrics
	began        time.Time

	mu sync.Mutex

	open   []*connection        // guarded by mu
	counts map[netip.Prefix]int // guarded by mu: of open, by address
	cursor int                  // guarded by mu: where the next search begins
}

const (
	// searchMin is among how many connections the longest quiet one is looked for,
	// at least. With thousands open it need not be the very longest.
	searchMin = 512

	// readingMin is how long the headers of a request may be under way until the
	// connection may be closed to make room.
	readingMin = 5 * time.Second
)

// now is a clock that never goes back, in nanoseconds.
func (s *connections) now() int64 { return int64(time.Since(s.began)) }

// atMost returns how long a client may take for what has its own bound.
func (s *connections) atMost(bound time.Duration) time.Duration {
	if s.readTimeout > 0 {
		return min(bound, s.readTimeout)
	}
	return bound
}

// admit counts an accepted connection, and closes a quiet one when there are too
// many. It returns nil when none is quiet: then conn is closed.
func (s *connections) admit(conn net.Conn) *connection {
	c := &connection{Conn: conn, all: s, address: addressOf(conn)}
	c.since.Store(s.now())
	for {
		victim, reason := s.enter(c)
		if reason == "" {
			return c
		}
		if victim == nil {
			s.metrics.refused.WithLabelValues(s.port, reason).Inc()
			c.cut() // A client that waits for an answer learns it at once.
			_ = conn.Close()
			return nil
		}
		s.metrics.displaced.WithLabelValues(s.port, reason).Inc()
		_ = victim.Conn.Close() // Its goroutine finds out.
	}
}

// enter puts c among the open connections. When there are too many, it takes out a
// victim instead, which the caller closes, and says what there are too many of.
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

// quietest returns a connection that may be closed, or nil: of the address, or of the
// one that has the most when that is nil, the one that has been quiet for longest. It
// is marked as gone.
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

// before reports whether a is closed rather than b.
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

// removeLocked takes c out, if it is there.
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

// ipv6Bits is the part of an IPv6 address that one customer has.
const ipv6Bits = 64

// addressOf returns whom a connection counts for: the address of the client, of which
// IPv6 ones count by networks of 64 bits.
func addressOf(conn net.Conn) netip.Prefix {
	tcp, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	addr := tcp.AddrPort().Addr().Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() && !addr.IsLoopback() {
		bits = ipv6Bits
	}
	prefix, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return prefix
}

// connectionMetrics count the connections of all ports.
type connectionMetrics struct {
	refused   *prometheus.CounterVec
	displaced *prometheus.CounterVec
	slow      *prometheus.CounterVec
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
	portData         = "data" // and the compute gateway's
	portAdmin        = "admin"
	tooManyInAll     = "total"
	tooManyOfAddress = "address"
	slowToSend       = "read"
	slowToTake       = "write"
)

// Describe tells what there is.
func (m *connectionMetrics) Describe(to chan<- *prometheus.Desc) {
	m.refused.Describe(to)
	m.displaced.Describe(to)
	m.slow.Describe(to)
	to <- m.open
}

// Collect tells how much.
func (m *connectionMetrics) Collect(to chan<- prometheus.Metric) {
	m.refused.Collect(to)
	m.displaced.Collect(to)
	m.slow.Collect(to)
	for _, s := range m.ports {
		to <- prometheus.MustNewConstMetric(m.open, prometheus.GaugeValue, float64(s.count()), s.port)
	}
}
