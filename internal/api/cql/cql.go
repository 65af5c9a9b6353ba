// Package cql is the door of the Cassandra API: it speaks CQL's native protocol.
//
// [Server] serves connections, plain and with TLS on the same port, authenticates
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
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/api/transport"
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

// Server serves connections of clients. It is safe for concurrent use. Close waits for
// running statements.
type Server struct {
	*transport.Server

	config   Config
	inflight *budget
	prepared *prepared
	metrics  *metrics

	mu sync.Mutex

	listening map[*connection]registration // guarded by mu: connections that get events
}

// New returns a server without listeners.
func New(config Config) *Server {
	config = config.complete()
	s := &Server{
		config:    config,
		inflight:  newBudget(config.InflightBytes),
		prepared:  newPrepared(config.Prepared, config.PreparedBytes),
		listening: map[*connection]registration{},
	}
	s.Server = transport.New(transport.Config{
		Open:        func(ctx context.Context, conn net.Conn) transport.Connection { return newConnection(ctx, s, conn) },
		Logger:      config.Logger.With("port", "cql"),
		Prefix:      "decan_cql",
		Clients:     "of CQL clients",
		Connections: config.Connections,
		PerAddress:  config.PerAddress,
	})
	s.metrics = newMetrics(s, config.Registerer)
	return s
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
	wants := s.listening[c]
	for _, event := range events {
		wants.schema = wants.schema || event == frame.SchemaChanges
		wants.nodes = wants.nodes || event != frame.SchemaChanges
	}
	s.listening[c] = wants
}

// forget ends the registration of a connection, which registers no more.
func (s *Server) forget(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listening, c)
}
