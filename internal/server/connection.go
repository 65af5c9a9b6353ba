package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"github.com/decandb/decan/internal/api/nosql"
)

// What a connection is doing. It goes from quiet to reading with the first byte of a
// request, to busy when the headers are there, and back to quiet after the answer.
const (
	quiet   int32 = iota // no request is under way; also before the first one
	reading              // a part of a request's headers was read
	busy                 // a handler works on a request, or its answer is being sent
	gone                 // closed to make room for another
)

// pieceMin is how much of a body or an answer has to move within the time that a
// client has for reading or writing, unless it is the rest.
const pieceMin = 64 << 10

// headFree is up to which length the headers of a request are not counted.
const headFree = 16 << 10

// connection is an accepted connection that ends slow clients.
//
// While a body arrives, each 64 KB of it must arrive within the timeout for reading,
// and while an answer is sent, each 64 KB must be taken within the one for writing.
// No deadline is in force while a handler works.
type connection struct {
	net.Conn // as it was accepted

	all     *connections
	address netip.Prefix
	place   int // in all.open; guarded by all.mu; -1 when it is not there

	state atomic.Int32
	since atomic.Int64 // when state became quiet or reading, as all.now tells

	head    int          // bytes that were read since the connection was quiet; the reading goroutine's
	counted atomic.Int64 // of them, what all.memory has counted

	read   int64        // bytes that were read in all
	arrive atomic.Int64 // up to where read has to come before the deadline; 0 while no body arrives

	armed   atomic.Int64 // when the write deadline is, as all.now tells; 0 for none of ours
	foreign atomic.Bool  // somebody else has set the write deadline
}

// Read reads what the client has sent. It renews the deadline of a body that arrives.
func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.read += int64(n)
		if goal := c.arrive.Load(); goal > 0 && c.read >= goal {
			c.expectBody()
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

// errHeadTooMuch ends a connection whose request has not begun. net/http closes it
// without an answer, as after any error of this type.
var errHeadTooMuch = &net.OpError{Op: "read", Net: "tcp", Err: errors.New("the headers of requests under way take all memory that they may")}

// countHead counts what the headers have grown by.
func (c *connection) countHead() bool {
	grown := c.head - int(c.counted.Load())
	if !c.all.memory.Take(grown, c.head) {
		return false
	}
	c.counted.Add(int64(grown))
	return true
}

// forget gives back what the headers of the request that has ended were counted.
func (c *connection) forget() { c.all.memory.Release(int(c.counted.Swap(0))) }

// expectBody sets the deadline for the next piece of a body. net/http removes it when
// the body has ended.
func (c *connection) expectBody() {
	if c.all.readTimeout <= 0 {
		return
	}
	c.arrive.Store(c.read + pieceMin)
	_ = c.Conn.SetReadDeadline(time.Now().Add(c.all.readTimeout)) // Reading will tell.
}

// SetReadDeadline sets the deadline, and ends the watch over a body.
func (c *connection) SetReadDeadline(t time.Time) error {
	c.arrive.Store(0)
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline sets the deadline. Without one each write has the timeout for
// writing.
func (c *connection) SetWriteDeadline(t time.Time) error {
	if t.IsZero() {
		// net/http removes the deadline after each request. Ours may stay: it is
		// renewed before it matters.
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

// Write sends p. A client that takes less than 64 KB of it within the timeout is cut.
func (c *connection) Write(p []byte) (int, error) {
	began := c.arm()
	sent, err := c.Conn.Write(p)
	for moved := sent; c.goesOn(err, moved, &began); sent += moved {
		moved, err = c.Conn.Write(p[sent:])
	}
	return sent, err
}

// writeBuffers sends pieces as one, likewise.
func (c *connection) writeBuffers(pieces net.Buffers) (int, error) {
	began := c.arm()
	n, err := pieces.WriteTo(c.Conn)
	sent := int(n)
	for moved := sent; c.goesOn(err, moved, &began); sent += moved {
		n, err = pieces.WriteTo(c.Conn) // It has dropped what was sent.
		moved = int(n)
	}
	return sent, err
}

// arm sees to it that the write deadline is at least half of the timeout away, and
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

// renew puts the write deadline off until left after now.
func (c *connection) renew(now, left int64) {
	c.armed.Store(now + left)
	_ = c.Conn.SetWriteDeadline(time.Now().Add(time.Duration(left))) // Writing will tell.
}

// goesOn reports whether a write that ended with err, after it had sent so many bytes
// since began, is tried again for what is left. If the client is too slow, it is cut.
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

// cut has the system drop what it still holds for the client when the connection is
// closed.
func (c *connection) cut() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // Otherwise it is dropped some minutes later.
	}
}

// CloseWrite tells the client that nothing more is sent. net/http calls it when it has
// sent the last answer and gives a client that still sends half a second to read it: the
// connection may make room for another meanwhile.
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
	c.forget()
	return c.Conn.Close()
}

// connectionOf returns the connection under what net/http has got.
func connectionOf(conn net.Conn) *connection {
	switch c := conn.(type) {
	case *framedTLS:
		return connectionOf(c.NetConn())
	case *framedConn:
		return c.connection
	case *peekedConn:
		return c.connection
	}
	return conn.(*connection)
}

// changed is the hook of net/http that tells what a connection is doing.
func changed(conn net.Conn, state http.ConnState) {
	c := connectionOf(conn)
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

type connectionKey struct{}

// withConnection is the hook of net/http that makes the context of a connection.
func withConnection(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(nosql.WithConn(ctx, conn), connectionKey{}, connectionOf(conn))
}

// watched has handler serve requests whose connections are known to be busy and whose
// bodies have a deadline.
func watched(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(hw http.ResponseWriter, hr *http.Request) {
		c := hr.Context().Value(connectionKey{}).(*connection)
		if !c.state.CompareAndSwap(reading, busy) {
			panic(http.ErrAbortHandler) // It is closed already.
		}
		if hr.ContentLength != 0 {
			c.expectBody()
		}
		handler.ServeHTTP(hw, hr)
	})
}
