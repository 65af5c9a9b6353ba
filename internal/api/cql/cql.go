// Package cql is the door of the Cassandra API: it speaks CQL's native protocol.
//
// [Server] accepts connections, plain and with TLS on the same port, authenticates
// them with account keys, runs their requests at the same time up to its limits, and
// pushes events. It knows connections, prepared statements and frames; a [Processor]
// runs the statements. connection.go reads requests, sending.go writes answers,
// login.go is the beginning of a connection, requests.go the statements, prepared.go
// the cache of prepared statements, errors.go the words of errors.
//
// # Invariants
//
// What a client sends affects no connection but its own. A connection that has not
// signed in holds little memory and ends soon. Every queue is bounded: a client that
// does not take its answers is not read. A change of the schema reaches the clients
// that registered for it before the answer to the statement that made it.
//
// The package decides nothing about data and parses no statement.
//
// Page: docs/cassandra.md
package cql

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/audit"
	"github.com/decandb/decan/internal/auth"
)

// Config configures a server. The zero value of an option is its default.
type Config struct {
	Processor Processor
	Account   string                // the user name of clients
	Verifier  func() *auth.Verifier // of the current keys
	TLS       *tls.Config           // nil: clients cannot use TLS
	TLSOnly   bool                  // refuse connections without TLS
	Release   Release
	Logger    *slog.Logger // nil: discard
	Watch     *audit.Door  // may be nil
	Now       func() time.Time

	Registerer prometheus.Registerer // may be nil

	// PerAddress is the maximum number of connections of one address, except loopback
	// addresses; of IPv6 addresses, a network of 64 bits is one. 0 and less are no limit.
	PerAddress int

	// Limits. See the defaults below for what they bound. Negative times are no limit.
	Connections   int
	FrameBytes    int
	Streams       int
	InflightBytes int64
	Prepared      int
	PreparedBytes int64
	LoginTimeout  time.Duration
	ReadTimeout   time.Duration
	WriteTimeout  time.Duration
	IdleTimeout   time.Duration
}

// The defaults of the limits.
const (
	connectionsDefault   = 4096             // connections of all clients
	frameBytesDefault    = 16 << 20         // body of a request, as in Cassandra
	streamsDefault       = 1024             // requests of one connection at the same time
	inflightBytesDefault = 128 << 20        // requests and answers of all connections
	preparedDefault      = 10_000           // prepared statements of all clients
	preparedBytesDefault = 10 << 20         // memory of prepared statements, as in Cassandra
	loginTimeoutDefault  = 10 * time.Second // until a client has signed in
	readTimeoutDefault   = 30 * time.Second // for each 64 KB of a request
	writeTimeoutDefault  = 30 * time.Second // for each 64 KB of an answer
	idleTimeoutDefault   = 10 * time.Minute // without a request
)

func orDefault[T int | int64 | time.Duration](value *T, def T) {
	if *value == 0 {
		*value = def
	}
}

func (c Config) complete() Config {
	orDefault(&c.Connections, connectionsDefault)
	orDefault(&c.FrameBytes, frameBytesDefault)
	orDefault(&c.Streams, streamsDefault)
	orDefault(&c.InflightBytes, inflightBytesDefault)
	orDefault(&c.Prepared, preparedDefault)
	orDefault(&c.PreparedBytes, preparedBytesDefault)
	orDefault(&c.LoginTimeout, loginTimeoutDefault)
	orDefault(&c.ReadTimeout, readTimeoutDefault)
	orDefault(&c.WriteTimeout, writeTimeoutDefault)
	orDefault(&c.IdleTimeout, idleTimeoutDefault)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Release is the release of Cassandra as which the server presents itself.
type Release uint8

// The releases.
const (
	Release41  Release = iota // 4.1, protocols 3 to 5
	Release311                // 3.11 as the service shows it, protocols 3 and 4
)

// highest returns the highest version of the protocol.
func (r Release) highest() frame.Version {
	if r == Release311 {
		return frame.V4
	}
	return frame.V5
}

// CQL returns the version of the language.
func (r Release) CQL() string {
	if r == Release311 {
		return "3.4.4"
	}
	return "3.4.6"
}

// Full returns the release with its last number.
func (r Release) Full() string {
	if r == Release311 {
		return "3.11.19"
	}
	return "4.1.10"
}

// Protocol returns the highest version of the protocol.
func (r Release) Protocol() string { return strconv.Itoa(int(r.highest())) }

// versions returns the names of the versions of the protocol.
func (r Release) versions() []string {
	names := []string{}
	for v := frame.V3; v <= r.highest(); v++ {
		names = append(names, v.String())
	}
	return names
}

// Server serves connections of clients. It is safe for concurrent use.
type Server struct {
	config   Config
	inflight *budget
	prepared *prepared
	metrics  *metrics

	base   context.Context // of all requests
	cancel context.CancelFunc

	running sync.WaitGroup // accept loops and connections

	mu sync.Mutex

	closed    bool                         // guarded by mu
	listeners map[net.Listener]struct{}    // guarded by mu
	open      map[*connection]struct{}     // guarded by mu
	counts    map[netip.Prefix]int         // guarded by mu: of open by address
	listening map[*connection]registration // guarded by mu: connections that get events
}

// New returns a server without listeners.
func New(config Config) *Server {
	config = config.complete()
	s := &Server{
		config:    config,
		inflight:  newBudget(config.InflightBytes),
		prepared:  newPrepared(config.Prepared, config.PreparedBytes),
		listeners: map[net.Listener]struct{}{},
		open:      map[*connection]struct{}{},
		counts:    map[netip.Prefix]int{},
		listening: map[*connection]registration{},
	}
	s.metrics = newMetrics(s, config.Registerer)
	s.base, s.cancel = context.WithCancel(context.Background())
	return s
}

// Serve accepts connections on a listener, which it owns from now on, until Close. It
// returns net.ErrClosed after Close, and may be called for several listeners.
func (s *Server) Serve(listener net.Listener) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errors.Join(net.ErrClosed, listener.Close())
	}
	s.listeners[listener] = struct{}{}
	s.running.Add(1)
	s.mu.Unlock()
	defer s.running.Done()

	backoff := acceptPause
	for {
		conn, err := listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return net.ErrClosed
		case err != nil: // A lack of descriptors is temporary.
			select {
			case <-s.base.Done():
				return net.ErrClosed
			case <-time.After(backoff):
				backoff = min(2*backoff, time.Second)
			}
			continue
		}
		backoff = acceptPause
		if c := s.admit(conn); c != nil {
			go func() {
				defer s.running.Done()
				c.serve()
				s.leave(c)
			}()
		}
	}
}

// acceptPause is the first pause after an error of Accept.
const acceptPause = 5 * time.Millisecond

// admit counts a connection. At a limit it closes the connection that has been idle
// for longest, one that has not signed in first; if none is idle, it refuses conn and
// returns nil. At the limit of an address, these are connections of that address.
func (s *Server) admit(conn net.Conn) *connection {
	c := newConnection(s, conn)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = conn.Close() // The client notices.
		return nil
	}
	tooMany := len(s.open) >= s.config.Connections
	ofAddress := s.config.PerAddress > 0 && s.counts[c.network] >= s.config.PerAddress && !c.network.Addr().IsLoopback()
	if tooMany || ofAddress {
		victim := s.idlestLocked(func(other *connection) bool { return !ofAddress || other.network == c.network })
		if victim == nil {
			s.metrics.refused.Inc()
			s.config.Logger.Debug("refused a connection of CQL: all are busy", "remote", conn.RemoteAddr().String())
			_ = conn.Close() // The client notices.
			return nil
		}
		s.metrics.displaced.Inc()
		s.removeLocked(victim)
		_ = victim.conn.Close() // Its goroutine notices.
	}
	s.open[c] = struct{}{}
	s.counts[c.network]++
	s.running.Add(1)
	return c
}

// idlestLocked returns the connection of some that has been idle for longest, or nil.
func (s *Server) idlestLocked(of func(*connection) bool) *connection {
	var best *connection
	var bestSince int64
	for c := range s.open {
		since, idle := c.idleSince()
		if idle && (best == nil || since < bestSince) && of(c) {
			best, bestSince = c, since
		}
	}
	return best
}

func (s *Server) removeLocked(c *connection) {
	if _, open := s.open[c]; !open {
		return
	}
	delete(s.open, c)
	if s.counts[c.network]--; s.counts[c.network] == 0 {
		delete(s.counts, c.network)
	}
	delete(s.listening, c)
}

func (s *Server) leave(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeLocked(c)
}

// Connections returns the number of open connections.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// Close stops accepting and reading, waits until running requests are answered or ctx
// has ended, and closes all connections.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	for l := range s.listeners {
		_ = l.Close() // Its accept loop ends.
	}
	for c := range s.open {
		c.stop()
	}
	s.mu.Unlock()

	ended := make(chan struct{})
	go func() {
		s.running.Wait()
		close(ended)
	}()
	var err error
	select {
	case <-ended:
	case <-ctx.Done():
		err = ctx.Err()
		s.mu.Lock()
		for c := range s.open {
			_ = c.conn.Close() // Its goroutine ends.
		}
		s.mu.Unlock()
	}
	s.cancel()
	<-ended
	return err
}

// registration says which events a connection gets.
type registration struct{ schema, nodes bool }

// Changed tells the clients that registered for it about changes of the schema, and
// forgets the prepared statements that depend on what has changed. It does not wait
// for clients. The answers to statements that made a change call it already.
func (s *Server) Changed(changes ...frame.SchemaChange) {
	for i := range changes {
		s.prepared.invalidate(&changes[i])
	}
	for i := range changes {
		s.push(&frame.Event{Schema: &changes[i]})
	}
}

// NodeChanged tells the clients that registered for it about a node: kind is
// frame.StatusChanges or frame.TopologyChanges, address where clients reach the node.
func (s *Server) NodeChanged(kind, change string, address netip.AddrPort) {
	s.push(&frame.Event{Kind: kind, Change: change, Address: address})
}

func (s *Server) push(event *frame.Event) {
	var to []*connection
	s.mu.Lock()
	for c, wants := range s.listening {
		if event.Schema != nil && wants.schema || event.Schema == nil && wants.nodes {
			to = append(to, c)
		}
	}
	s.mu.Unlock()
	for _, c := range to {
		c.push(event)
	}
}

func (s *Server) register(c *connection, events []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, open := s.open[c]; !open {
		return
	}
	wants := s.listening[c]
	for _, event := range events {
		wants.schema = wants.schema || event == frame.SchemaChanges
		wants.nodes = wants.nodes || event != frame.SchemaChanges
	}
	s.listening[c] = wants
}
