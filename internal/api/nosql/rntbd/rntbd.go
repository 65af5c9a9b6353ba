// Package rntbd is the wire of direct mode: it speaks RNTBD, the binary protocol that
// the Java and .NET SDKs use for most operations unless they are told otherwise.
//
// A [Server] serves connections, and a [Handler] answers each [Request] with a
// [Response]. Both are sets of tokens, numbered values with the meaning of headers, and a
// payload. request_tokens.go and response_tokens.go have the tables of the tokens,
// token.go their encoding, context.go the exchange with which a connection begins,
// reader.go and connection.go the way of requests, wire.go and sending.go that of answers.
//
// # Invariants
//
// No input panics. Memory is allocated for bytes that have arrived, never for a length
// alone. What a client sends affects no connection but its own. Every answer has the
// tokens PayloadPresent and TransportRequestID, without which clients cannot use it. A
// client that does not take its answers is not read.
//
// The package knows no document, no status code but those of a refused context and of a
// handler that panics, and no header. It authenticates no one: each request carries its
// own authorization.
//
// Page: docs/direct.md
package rntbd

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/decandb/decan/internal/api/transport"
	"github.com/decandb/decan/internal/audit"
)

// Handler answers the requests of clients.
type Handler interface {
	// Serve answers r by setting w. It is called in a goroutine of the request, for
	// many requests at the same time. ctx ends when the client is gone. Neither r nor w
	// may be used after Serve has returned.
	Serve(ctx context.Context, r *Request, w *Response)
}

// Memory limits how many bytes the requests and answers of all clients take.
type Memory interface {
	// Take takes n bytes for a request that then has size bytes in total, if they fit.
	Take(n, size int) bool
	// Add takes n bytes whether they fit or not, for answers that exist.
	Add(n int)
	// Release returns n bytes.
	Release(n int)
}

// noMemory limits nothing.
type noMemory struct{}

func (noMemory) Take(int, int) bool { return true }
func (noMemory) Add(int)            {}
func (noMemory) Release(int)        {}

// Config configures a server. The zero value of an option is its default.
type Config struct {
	Handler Handler
	TLS     *tls.Config  // nil only with Plain
	Plain   bool         // serve clients without TLS too, for tests: no SDK does without
	Agent   string       // what the server calls itself
	Version string       // of the server, as clients show it
	Memory  Memory       // nil: no limit
	Logger  *slog.Logger // nil: discard
	Watch   *audit.Door  // may be nil

	Registerer prometheus.Registerer // may be nil

	// PerAddress is the maximum number of connections of one address, except loopback
	// addresses; of IPv6 addresses, a network of 64 bits is one. 0 and less are no limit.
	PerAddress int

	// Limits. See the defaults below for what they bound. Negative times are no limit.
	Connections  int
	Requests     int
	PayloadBytes int
	LoginTimeout time.Duration
	ReadTimeout  time.Duration
	WriteTimeout time.Duration
}

// The defaults of the limits. Idle connections have none: clients take the end of a
// connection as a failure of every partition that it serves.
const (
	connectionsDefault  = 4096             // connections of all clients
	requestsDefault     = 1024             // requests of one connection at the same time; SDKs use 30
	payloadBytesDefault = 2 << 20          // body of a request
	loginTimeoutDefault = 25 * time.Second // until a client has sent its context
	readTimeoutDefault  = 30 * time.Second // for each 64 KB of a request
	writeTimeoutDefault = 30 * time.Second // for each 64 KB of an answer
)

func orDefault[T int | time.Duration](value *T, def T) {
	if *value == 0 {
		*value = def
	}
}

func (c Config) complete() Config {
	orDefault(&c.Connections, connectionsDefault)
	orDefault(&c.Requests, requestsDefault)
	orDefault(&c.PayloadBytes, payloadBytesDefault)
	orDefault(&c.LoginTimeout, loginTimeoutDefault)
	orDefault(&c.ReadTimeout, readTimeoutDefault)
	orDefault(&c.WriteTimeout, writeTimeoutDefault)
	if c.Agent == "" {
		c.Agent = "Decan"
	}
	if c.Version == "" {
		c.Version = "devel"
	}
	if c.Memory == nil {
		c.Memory = noMemory{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Server serves connections of clients. It is safe for concurrent use. Close waits for
// the requests that were read.
type Server struct {
	*transport.Server

	config  Config
	metrics *metrics
	reports reports
	began   time.Time
}

// New returns a server without listeners.
func New(config Config) *Server {
	config = config.complete()
	s := &Server{
		config:  config,
		reports: reports{last: map[string]time.Time{}, left: map[string]int{}},
		began:   time.Now(),
	}
	s.Server = transport.New(transport.Config{
		Open:        func(ctx context.Context, conn net.Conn) transport.Connection { return newConnection(ctx, s, conn) },
		Logger:      config.Logger.With("port", "direct"),
		Prefix:      "decan_direct",
		Clients:     "in direct mode",
		Connections: config.Connections,
		PerAddress:  config.PerAddress,
	})
	s.metrics = newMetrics(s, config.Registerer)
	return s
}

// now is a monotonic clock, in nanoseconds.
func (s *Server) now() int64 { return int64(time.Since(s.began)) }
