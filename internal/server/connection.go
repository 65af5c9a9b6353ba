package server

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"github.com/decandb/decan/internal/api/nosql"
)

// The state of a connection. It changes from quiet to reading with the first byte
// of a request, to busy when the headers are complete, and back to quiet after
// the answer.
const (
	quiet   int32 = iota // no request is in progress; also before the first one
	reading              // a part of a request's headers has been read
	busy                 // a handler works on a request, or its answer is being sent
	gone                 // closed to make room for another
)

// pieceMin is how much of a body or an answer, except its last part, must be
// transferred within the client's time for reading or writing.
const pieceMin = 64 << 10

// headFree is the length up to which the headers of a request do not count.
const headFree = 16 << 10

// connection is an accepted connection that ends slow clients. HTTP/1.1 uses all of
// it; HTTP/2 has deadlines for each request instead of those for reading, see
// [http2Conn].
//
// While a body arrives, each 64 KB of it must arrive within the timeout for reading,
// and while an answer is sent, each 64 KB must be taken within the one for writing.
// No deadline is in force while a handler works.
type connection struct {
	net.Conn // the accepted connection

	all     *connections
	address netip.Prefix
	place   int // in all.open; guarded by all.mu; -1 if absent

	state atomic.Int32
	since atomic.Int64 // when state became quiet or reading, by all.now

	head    int          // bytes read since the connection was quiet; owned by the reading goroutine
	counted atomic.Int64 // the part of head that all.memory counts

	read   int64        // bytes read in total
	arrive atomic.Int64 // the value that read must reach before the deadline; 0 while no body arrives

	streamed bool                 // HTTP/2; set before the connection is served
	secure   *tls.ConnectionState // of an HTTP/2 connection over TLS
	streams  atomic.Int32         // HTTP/2 requests in progress
	ended    atomic.Bool          // Close was called

	armed   atomic.Int64 // the write deadline by all.now; 0 if arm has not set it
	foreign atomic.Bool  // another caller has set the write deadline
}

// Read reads from the client. It renews the deadline of an arriving body.
func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.read += int64(n)
		if goal := c.arrive.Load(); goal > 0 && c.read >= goal {
			c.expectBody()
		}
		if c.streamed {
			return n, err
		}
		if c.head += n; c.head > headFree && c.state.Load() <= reading && !c.countHead() {
			return 0, errHeadTooMuch
		}
	}
	if err != nil && errors.Is(err, os.ErrDeadlineExceeded) && c.arrive.Swap(0) > 0 {
		c.all.metrics.slow.WithLabelValues(slowToSend).Inc()
	}
	return n, err
}

// errHeadTooMuch ends a connection before its request begins. net/http closes it
// without an answer, as after any error of this type.
var errHeadTooMuch = &net.OpError{Op: "read", Net: "tcp", Err: errors.New("the headers of running requests use all of their memory")}

// countHead counts the growth of the headers.
func (c *connection) countHead() bool {
	grown := c.head - int(c.counted.Load())
	if !c.all.memory.Take(grown, c.head) {
		return false
	}
	c.counted.Add(int64(grown))
	return true
}

// forget releases the memory counted for the headers of the finished request.
func (c *connection) forget() { c.all.memory.Release(int(c.counted.Swap(0))) }

// expectBody sets the deadline for the next piece of a body. net/http removes it
// after the body.
func (c *connection) expectBody() {
	if c.all.readTimeout <= 0 {
		return
	}
	c.arrive.Store(c.read + pieceMin)
	_ = c.Conn.SetReadDeadline(time.Now().Add(c.all.readTimeout)) // The next read returns the error.
}

// SetReadDeadline sets the deadline, and ends the deadline of a body.
func (c *connection) SetReadDeadline(t time.Time) error {
	c.arrive.Store(0)
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline sets the deadline. Without one each write has the write
// timeout.
func (c *connection) SetWriteDeadline(t time.Time) error {
	if t.IsZero() {
		// net/http removes the deadline after each request. The connection's own
		// may stay: it is renewed in time.
		if c.foreign.CompareAndSwap(true, false) {
			c.armed.Store(0)
			return c.Conn.SetWriteDeadline(t)
		}
		return nil
	}
	c.foreign.Store(true)
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline sets both deadlines.
func (c *connection) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// Write sends p. A client that takes less than 64 KB of it within the timeout is
// disconnected.
func (c *connection) Write(p []byte) (int, error) {
	began := c.arm()
	sent, err := c.Conn.Write(p)
	for moved := sent; c.goesOn(err, moved, &began); sent += moved {
		moved, err = c.Conn.Write(p[sent:])
	}
	return sent, err
}

// writeBuffers sends pieces as one, in the same way.
func (c *connection) writeBuffers(pieces net.Buffers) (int, error) {
	began := c.arm()
	n, err := pieces.WriteTo(c.Conn)
	sent := int(n)
	for moved := sent; c.goesOn(err, moved, &began); sent += moved {
		n, err = pieces.WriteTo(c.Conn) // WriteTo has dropped the sent bytes.
		moved = int(n)
	}
	return sent, err
}

// arm ensures that the write deadline is at least half the timeout away, and
// returns the time. Most writes do not move it.
func (c *connection) arm() int64 {
	timeout := int64(c.all.writeTimeout)
	if timeout <= 0 || c.foreign.Load() {
		return 0
	}
	now := c.all.now()
	if c.armed.Load()-now < timeout/2 {
		c.renew(now, timeout)
	}
	return now
}

// renew moves the write deadline to left after now.
func (c *connection) renew(now, left int64) {
	c.armed.Store(now + left)
	_ = c.Conn.SetWriteDeadline(time.Now().Add(time.Duration(left))) // The next write returns the error.
}

// goesOn reports whether a write that ended with err is retried for the rest. It has
// sent so many bytes since began. If the client is too slow, it is disconnected.
func (c *connection) goesOn(err error, sent int, began *int64) bool {
	timeout := int64(c.all.writeTimeout)
	if err == nil || timeout <= 0 || c.foreign.Load() || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	now := c.all.now()
	switch {
	case sent >= pieceMin:
		*began = now
	case now-*began >= timeout:
		c.cut()
		c.all.metrics.slow.WithLabelValues(slowToTake).Inc()
		return false
	}
	c.renew(now, *began+timeout-now)
	return true
}

// cut makes the system drop its unsent bytes for the client when the connection
// is closed.
func (c *connection) cut() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // Otherwise the system drops them only after some minutes.
	}
}

// CloseWrite tells the client that nothing more is sent. net/http calls it after
// the last answer, and gives a client that is still sending half a second to read
// it: during this time the connection may be closed to make room for another.
func (c *connection) CloseWrite() error {
	c.since.Store(c.all.now())
	c.state.CompareAndSwap(busy, quiet)
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close ends the connection.
func (c *connection) Close() error {
	c.all.remove(c)
	c.ended.Store(true)
	c.forget()
	return c.Conn.Close()
}

// connectionOf returns the connection below one of net/http.
func connectionOf(conn net.Conn) *connection {
	switch c := conn.(type) {
	case *framedTLS:
		return connectionOf(c.NetConn())
	case *framedConn:
		return c.connection
	case *http2Conn:
		return c.raw
	case *peekedConn:
		return c.connection
	}
	return conn.(*connection)
}

// changed is the hook of net/http for the state of a connection.
func changed(conn net.Conn, state http.ConnState) {
	c := connectionOf(conn)
	if c.streamed {
		c.changedStreams(state)
		return
	}
	switch state {
	case http.StateActive:
		if c.state.CompareAndSwap(quiet, reading) {
			c.since.Store(c.all.now())
		}
	case http.StateIdle:
		c.forget()
		c.head = 0
		c.since.Store(c.all.now())
		c.state.CompareAndSwap(busy, quiet)
		c.state.CompareAndSwap(reading, quiet)
	case http.StateClosed:
		c.forget()
	}
}

// changedStreams is changed for HTTP/2: a connection is active while it has a
// request in progress.
func (c *connection) changedStreams(state http.ConnState) {
	switch state {
	case http.StateActive:
		c.state.CompareAndSwap(quiet, busy)
	case http.StateIdle:
		c.since.Store(c.all.now())
		c.state.CompareAndSwap(busy, quiet)
	}
}

type connectionKey struct{}

// withConnection is the hook of net/http that makes the context of a connection.
func withConnection(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(nosql.WithConn(ctx, conn), connectionKey{}, connectionOf(conn))
}

// watched makes handler serve requests on connections that are marked as busy,
// with a deadline for their bodies.
func watched(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(hw http.ResponseWriter, hr *http.Request) {
		c := hr.Context().Value(connectionKey{}).(*connection)
		if c.streamed {
			c.serveStream(handler, hw, hr)
			return
		}
		if !c.state.CompareAndSwap(reading, busy) {
			panic(http.ErrAbortHandler) // It is already closed.
		}
		if hr.ContentLength != 0 {
			c.expectBody()
		}
		handler.ServeHTTP(hw, hr)
	})
}
