// Package transport is what the doors with protocols of their own, CQL and direct mode,
// have in common below their frames: it accepts connections and bounds their number.
//
// A [Server] accepts connections on listeners, up to its limits, and runs a [Connection]
// for each until Close. A [Wire] reads and writes with a deadline for each piece, so that
// a slow client is cut and a large message of a fast one is not. Peek and Linger are the
// beginning and the end of a connection, Remote and Network say whose it is.
//
// # Invariants
//
// At a limit, the connection that has been idle for longest makes room; a busy one never
// does. Close returns when every connection has ended.
//
// The package knows no frame and no request. The port of the REST protocol is not served
// by it: internal/server extends net/http, which has states and deadlines of its own,
// and shares Remote and Network.
//
// Page: docs/architecture.md
package transport

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Connection is an accepted connection of a protocol.
type Connection interface {
	// Serve serves the connection until its end, and closes it. It returns when no
	// goroutine of the connection is left.
	Serve()

	// Stop makes the connection read nothing more and end when what it has read is
	// answered. It does not wait. It may be called before Serve.
	Stop()

	// IdleSince returns when the connection became idle, and whether it is idle and may
	// be closed to make room. The times of all connections are of one clock.
	IdleSince() (since int64, idle bool)
}

// Config configures a server. Every field but the limits is required.
type Config struct {
	// Open returns the connection that serves conn. The context ends with the server,
	// after all connections have ended or the time for that is over. Open must not wait.
	Open func(ctx context.Context, conn net.Conn) Connection

	Logger *slog.Logger

	Prefix  string // of the names of metrics, such as "decan_cql"
	Clients string // what their help says of connections, such as "of CQL clients"

	Connections int // maximum number of open connections

	// PerAddress is the maximum number of connections of one address, except loopback
	// addresses; of IPv6 addresses, a network of 64 bits is one. 0 and less are no limit.
	PerAddress int
}

// Server serves connections of clients. It is safe for concurrent use.
type Server struct {
	config  Config
	metrics *metrics

	base   context.Context // of all connections
	cancel context.CancelFunc

	running sync.WaitGroup // accept loops and connections
	workers workers

	mu sync.Mutex

	closed    bool                      // guarded by mu
	listeners map[net.Listener]struct{} // guarded by mu
	open      map[*accepted]struct{}    // guarded by mu
	counts    map[netip.Prefix]int      // guarded by mu: of open by address
}

// accepted is an open connection.
type accepted struct {
	Connection

	conn    net.Conn
	network netip.Prefix // for which the connection counts
}

// New returns a server without listeners.
func New(config Config) *Server {
	s := &Server{
		config:    config,
		listeners: map[net.Listener]struct{}{},
		open:      map[*accepted]struct{}{},
		counts:    map[netip.Prefix]int{},
	}
	s.metrics = newMetrics(s)
	s.base, s.cancel = context.WithCancel(context.Background())
	return s
}

// acceptPause is the first pause after an error of Accept.
const acceptPause = 5 * time.Millisecond

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
				c.Serve()
				s.leave(c)
			}()
		}
	}
}

// admit opens and counts a connection. At a limit it closes the connection that has been
// idle for longest; if none is idle, it closes conn and returns nil. At the limit of an
// address, only connections of that address make room.
func (s *Server) admit(conn net.Conn) *accepted {
	network := Network(Remote(conn).Addr())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = conn.Close() // The client notices.
		return nil
	}
	tooMany := len(s.open) >= s.config.Connections
	ofAddress := s.config.PerAddress > 0 && s.counts[network] >= s.config.PerAddress && !network.Addr().IsLoopback()
	if tooMany || ofAddress {
		victim := s.idlestLocked(func(other *accepted) bool { return !ofAddress || other.network == network })
		if victim == nil {
			s.metrics.refused.Inc()
			s.config.Logger.Debug("refused a connection: all are busy", "remote", conn.RemoteAddr().String())
			_ = conn.Close() // The client notices.
			return nil
		}
		s.metrics.displaced.Inc()
		s.removeLocked(victim)
		_ = victim.conn.Close() // Its goroutine notices.
	}
	c := &accepted{Connection: s.config.Open(s.base, conn), conn: conn, network: network}
	s.open[c] = struct{}{}
	s.counts[network]++
	s.running.Add(1)
	return c
}

// idlestLocked returns the connection of some that has been idle for longest, or nil.
func (s *Server) idlestLocked(of func(*accepted) bool) *accepted {
	var best *accepted
	var bestSince int64
	for c := range s.open {
		since, idle := c.IdleSince()
		if idle && (best == nil || since < bestSince) && of(c) {
			best, bestSince = c, since
		}
	}
	return best
}

func (s *Server) removeLocked(c *accepted) {
	if _, open := s.open[c]; !open {
		return
	}
	delete(s.open, c)
	if s.counts[c.network]--; s.counts[c.network] == 0 {
		delete(s.counts, c.network)
	}
}

func (s *Server) leave(c *accepted) {
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

// Close stops accepting and reading, waits until the requests that were read are
// answered or ctx has ended, and closes all connections.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	for l := range s.listeners {
		_ = l.Close() // Its accept loop ends.
	}
	for c := range s.open {
		c.Stop()
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
		s.cancel()
		s.mu.Lock()
		for c := range s.open {
			_ = c.conn.Close() // Its goroutines end.
		}
		s.mu.Unlock()
	}
	<-ended
	s.workers.close()
	s.cancel()
	return err
}
