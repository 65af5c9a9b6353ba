package cql

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/api/transport"
	"github.com/decandb/decan/internal/audit"
	"github.com/decandb/decan/internal/auth"
)

// connection is a connection of a client. One goroutine reads requests; each statement
// runs in a goroutine of its own. A goroutine that has an answer sends it, unless
// another one is sending: that one sends it too.
type connection struct {
	server *Server
	conn   net.Conn        // as accepted
	wire   *transport.Wire // with TLS, if the client uses it
	reader *frame.Reader
	slots  chan struct{} // one element for each request whose answer is not sent

	ctx    context.Context // of the requests; ends with the connection
	cancel context.CancelFunc

	running  sync.WaitGroup // statements
	stopping atomic.Bool    // nothing more is read
	signedIn atomic.Bool
	spoken   atomic.Uint32 // the version, once the client has signed in
	since    atomic.Int64  // when the connection began to wait, in Unix nanoseconds

	// Owned by the reading goroutine.
	version     frame.Version // of the first request; zero before it
	compression frame.Compression
	started     bool           // STARTUP was answered
	session     *Session       // nil before the client has signed in
	token       []byte         // of AUTH_RESPONSE
	verifier    *auth.Verifier // that has accepted token
	keyspace    string         // in use
	overload    bool           // answer OVERLOADED instead of not reading

	mu sync.Mutex

	idle    sync.Cond     // of mu: sending became false
	writer  *frame.Writer // guarded by mu
	sending bool          // guarded by mu: a goroutine sends what writer gathers
	broken  bool          // guarded by mu: the client cannot be written to
	owed    debt          // guarded by mu: released once what writer has gathered is sent
}

// debt is what a connection holds for answers until they are sent.
type debt struct {
	bytes int64
	slots int
}

const (
	// loginBytes is the maximum length of a body before a client has signed in.
	loginBytes = 64 << 10

	// requestBytes is the approximate memory of a request in addition to its body.
	requestBytes = 1 << 10
)

func newConnection(ctx context.Context, s *Server, conn net.Conn) *connection {
	c := &connection{server: s, conn: conn, slots: make(chan struct{}, s.config.Streams)}
	c.idle.L = &c.mu
	c.ctx, c.cancel = context.WithCancel(ctx)
	c.since.Store(time.Now().UnixNano())
	return c
}

// IdleSince returns when the connection became idle, and whether it is. Connections
// that have not signed in count as idle for a long time.
func (c *connection) IdleSince() (int64, bool) {
	since := c.since.Load()
	if !c.signedIn.Load() {
		return since - int64(24*time.Hour), true
	}
	return since, len(c.slots) == 0
}

// Stop ends reading. The requests that were read are answered.
func (c *connection) Stop() {
	c.stopping.Store(true)
	_ = c.conn.SetReadDeadline(time.Now()) // The connection ends otherwise.
}

// Serve serves the connection until its end.
func (c *connection) Serve() {
	defer c.server.forget(c)
	defer c.conn.Close()
	defer c.cancel()
	if err := c.speak(); err != nil {
		return
	}
	for c.wait() == nil && c.next() {
	}
	if !c.stopping.Load() {
		c.cancel() // The client is gone.
	}
	c.running.Wait()
	c.drain()
	transport.Linger(c.conn, c.wire.Conn)
}

// speak finds out whether the client uses TLS.
func (c *connection) speak() error {
	config := &c.server.config
	if err := c.conn.SetReadDeadline(transport.Within(config.LoginTimeout)); err != nil {
		return err
	}
	if c.stopping.Load() {
		return net.ErrClosed // Stop may have set its deadline before.
	}
	first, begun, err := transport.Peek(c.conn, 1)
	if err != nil {
		return err
	}
	switch {
	case first[0] == transport.RecordTypeHandshake && config.TLS != nil:
		secure := tls.Server(begun, config.TLS)
		if err := secure.HandshakeContext(c.ctx); err != nil {
			return err
		}
		begun = secure
	case config.TLSOnly:
		config.Watch.Refused(audit.ReasonPlain, c.conn.RemoteAddr().String())
		return errors.New("the client does not use TLS")
	}
	c.wire = &transport.Wire{Conn: begun, ReadTime: config.ReadTimeout, WriteTime: config.WriteTimeout, Stopping: c.stopping.Load}
	c.reader = frame.NewReader(c.wire, min(loginBytes, config.FrameBytes))
	c.writer = frame.NewWriter(c.wire)
	return nil
}

// wait returns when a request begins. Before the client has signed in, the deadline of
// speak stays in force.
func (c *connection) wait() error {
	for !c.reader.Ready() {
		c.since.Store(time.Now().UnixNano())
		if c.session != nil {
			if err := c.wire.Await(c.server.config.IdleTimeout); err != nil {
				return err
			}
		}
		if c.stopping.Load() {
			return net.ErrClosed
		}
		err := c.reader.Wait()
		if err == nil {
			break
		}
		if c.stopping.Load() || !errors.Is(err, os.ErrDeadlineExceeded) || len(c.slots) == 0 {
			return err
		}
		// The client waits for an answer.
	}
	if c.stopping.Load() {
		return net.ErrClosed
	}
	if c.session != nil && !c.reader.Whole() {
		return c.wire.Expect()
	}
	return nil
}

// next reads a request and begins to answer it. It returns false if the connection
// ends.
func (c *connection) next() bool {
	h, err := c.reader.Header()
	if err != nil {
		return c.end(0, err)
	}
	if version, stream, fault := c.check(&h); fault != nil {
		c.version = version
		return c.end(stream, fault)
	}
	c.version = h.Version
	if c.session == nil {
		return c.login(&h)
	}
	if !c.welcome() {
		return c.end(h.Stream, &frame.Error{Code: frame.CodeUnauthorized, Message: "The account key of this connection is no longer valid. Connect with a current key."})
	}
	if int64(h.Length) > int64(c.server.config.FrameBytes) {
		_, err := c.reader.Body() // It returns the error without reading.
		return c.end(h.Stream, err)
	}
	r := &request{connection: c, stream: h.Stream, keyspace: c.keyspace, bytes: requestBytes + int64(h.Length)}
	switch taken, err := c.reserve(r); {
	case err != nil:
		return false
	case !taken:
		if err := c.reader.Skip(); err != nil {
			return c.end(h.Stream, err)
		}
		c.send(&frame.Frame{Version: c.version, Stream: h.Stream, Message: overloaded()}, debt{})
		return true
	}
	body, err := c.reader.Body()
	if err == nil {
		if grown := int64(len(body)) - int64(h.Length); grown > 0 {
			r.bytes += grown
			c.server.inflight.add(grown)
		}
		r.frame, err = frame.Decode(h, body)
		if fault, is := errors.AsType[*frame.TextError](err); is { // Apache Cassandra continues, too.
			c.send(&frame.Frame{Version: c.version, Stream: h.Stream, Message: fault.Answer}, debt{bytes: r.bytes, slots: 1})
			return true
		}
	}
	if err != nil {
		c.pay(debt{bytes: r.bytes, slots: 1})
		return c.end(h.Stream, err)
	}
	return c.dispatch(r)
}

// reserve takes a slot and the memory for a request. If there is none, it waits, or
// returns false to a client that wants to know.
func (c *connection) reserve(r *request) (bool, error) {
	select {
	case c.slots <- struct{}{}:
	default:
		if c.overload {
			return false, nil
		}
		select {
		case c.slots <- struct{}{}:
		case <-c.ctx.Done():
			return false, c.ctx.Err()
		}
		defer c.expect()
	}
	if c.server.inflight.try(r.bytes) {
		return true, nil
	}
	if c.overload {
		<-c.slots
		return false, nil
	}
	if err := c.server.inflight.take(c.ctx, r.bytes); err != nil {
		<-c.slots
		return false, err
	}
	c.expect()
	return true, nil
}

// expect gives the client its time again: while the server did not read, it had no
// reason to wait with the rest.
func (c *connection) expect() {
	_ = c.wire.Expect() // The next read returns the error.
}

// check returns what is wrong with a header, and in which version and on which stream
// the client is told.
func (c *connection) check(h *frame.Header) (frame.Version, int16, error) {
	highest := c.server.config.Release.highest()
	switch {
	case h.Version < frame.V3 || h.Version > highest:
		// Drivers try another version when they see this text, on stream 0.
		return highest, 0, protocolError("Invalid or unsupported protocol version (%d); supported versions are (%s)",
			h.Version, strings.Join(c.server.config.Release.versions(), ", "))
	case c.version != 0 && c.version != h.Version:
		return c.version, h.Stream, protocolError("Invalid message version. Got %s but previous messages on this connection had version %s", h.Version, c.version)
	case !h.Opcode.Known() || h.Response || h.Opcode.Response():
		_, err := frame.Decode(*h, nil)
		return highest, h.Stream, err
	}
	return 0, 0, nil
}

// end tells the client why its connection ends, if it is its own fault, and returns
// false.
func (c *connection) end(stream int16, err error) bool {
	var fault *frame.Error
	if errors.As(err, &fault) {
		if c.version == 0 {
			c.version = c.server.config.Release.highest()
		}
		c.server.config.Logger.Debug("ended a connection of CQL", "remote", c.conn.RemoteAddr().String(), "error", err)
		c.send(&frame.Frame{Version: c.version, Stream: stream, Message: fault}, debt{})
	}
	return false
}
