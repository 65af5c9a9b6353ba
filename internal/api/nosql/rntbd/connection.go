package rntbd

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/decandb/decan/internal/api/transport"
	"github.com/decandb/decan/internal/audit"
)

// connection is a connection of a client. One goroutine reads requests; each request is
// served in another one (transport.Task). A goroutine that has an answer sends it, unless
// another one is sending: that one sends it too.
type connection struct {
	server *Server
	conn   net.Conn // as accepted
	wire   *wire    // with TLS, unless the client does without
	reader reader
	client Client

	ctx    context.Context // of the requests; ends with the connection
	cancel context.CancelFunc

	running  sync.WaitGroup // requests
	stopping atomic.Bool    // nothing more is read
	greeted  atomic.Bool    // the context was answered
	since    atomic.Int64   // when the connection became idle, by Server.now

	mu sync.Mutex

	changed  sync.Cond // of mu: open, unsent, reserved or sending has changed
	open     int       // guarded by mu: requests whose answer is not sent
	unsent   int       // guarded by mu: bytes of answers
	reserved int       // guarded by mu: bytes for answers that are being made
	next     gathered  // guarded by mu
	sending  bool      // guarded by mu: a goroutine sends what next gathers
	broken   bool      // guarded by mu: the client cannot be written to
	cause    error     // guarded by mu: why not

	going gathered // owned by the goroutine that sends
}

// exchange is a request with its answer.
type exchange struct {
	connection *connection
	request    Request
	response   Response
	debt       debt
	reserved   int // of connection.reserved
}

const (
	// helloBytes is the maximum length of the first frame of a connection.
	helloBytes = 16 << 10

	// headBytes is the maximum length of later frames without their payload.
	headBytes = 1 << 20

	// dropMax is the longest payload that is read and dropped so that its connection
	// can continue.
	dropMax = 16 << 20

	// keptPayload is the maximum capacity of a payload's memory that is used again.
	keptPayload = 16 << 10
)

func newConnection(ctx context.Context, s *Server, conn net.Conn) *connection {
	c := &connection{server: s, conn: conn, client: Client{Remote: text(transport.Remote(conn))}}
	c.changed.L = &c.mu
	c.ctx, c.cancel = context.WithCancel(ctx)
	c.since.Store(s.now())
	return c
}

func text(at netip.AddrPort) string {
	if !at.IsValid() {
		return ""
	}
	return at.String()
}

// IdleSince returns when the connection became idle, and whether it is. Connections
// that have not sent their context count as idle for a long time.
func (c *connection) IdleSince() (int64, bool) {
	if !c.greeted.Load() {
		return c.since.Load() - int64(24*time.Hour), true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.since.Load(), c.open == 0
}

// Stop ends reading. The requests that were read are answered.
func (c *connection) Stop() {
	c.stopping.Store(true)
	_ = c.conn.SetReadDeadline(time.Now()) // The connection ends otherwise.
}

// Serve serves the connection until its end.
func (c *connection) Serve() {
	defer c.conn.Close()
	defer c.cancel()
	err := c.begin()
	for err == nil {
		err = c.read()
	}
	if !c.stopping.Load() {
		c.cancel() // The client is gone.
		c.report(cmp.Or(c.writing(), err))
	}
	c.drain()
	if c.wire != nil {
		transport.Linger(c.conn, c.wire.Conn)
	}
	c.running.Wait()
}

// writing returns why the client cannot be written to, or nil if it can.
func (c *connection) writing() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// errPlain means that a client does not use TLS, which the server requires.
var errPlain = errors.New("the client does not use TLS")

// begin makes the handshake and answers the context.
func (c *connection) begin() error {
	config := &c.server.config
	if err := c.conn.SetReadDeadline(transport.Within(config.LoginTimeout)); err != nil {
		return err
	}
	if c.stopping.Load() {
		return net.ErrClosed // Stop may have set its deadline before.
	}
	spoken, records, err := c.handshake()
	if err != nil {
		return err
	}
	c.wire = &wire{Wire: transport.Wire{Conn: spoken, ReadTime: config.ReadTimeout, WriteTime: config.WriteTimeout, Stopping: c.stopping.Load}, records: records}
	c.wire.Keep()
	c.reader.wire = c.wire
	n, err := c.reader.length(helloBytes)
	if err != nil {
		return err
	}
	head, err := c.reader.head(n)
	if err != nil {
		return err
	}
	h, err := decodeHello(head)
	if err != nil {
		return err
	}
	if _, err := c.wire.Write(h.appendAnswer(nil, config.Agent, config.Version)); err != nil {
		return err
	}
	if h.refusal != "" {
		return &Violation{Reason: h.refusal}
	}
	c.client.Version, c.client.UserAgent = h.version, h.agent
	c.since.Store(c.server.now())
	c.greeted.Store(true)
	return c.reader.done()
}

// recordVersion is the second byte of every TLS connection, the high byte of a version.
// If a first frame begins with the same two bytes, the third is 0, since it is not as long.
const recordVersion = 0x03

// handshake makes the TLS handshake, unless the client does without TLS and may. records
// is the connection below TLS, or nil.
func (c *connection) handshake() (spoken net.Conn, records *heldConn, err error) {
	config := &c.server.config
	first, begun, err := transport.Peek(c.conn, 3)
	if err != nil {
		return nil, nil, err
	}
	switch secure := first[0] == transport.RecordTypeHandshake && first[1] == recordVersion && first[2] != 0; {
	case secure && config.TLS != nil:
		records := &heldConn{Conn: begun}
		conn := tls.Server(records, config.TLS)
		if err := conn.HandshakeContext(c.ctx); err != nil {
			return nil, nil, &handshakeError{err}
		}
		c.client.Secure = true
		return conn, records, nil
	case !config.Plain:
		config.Watch.Refused(audit.ReasonPlain, c.conn.RemoteAddr().String())
		return nil, nil, errPlain
	}
	return begun, nil, nil
}

// handshakeError is why the TLS handshake has failed.
type handshakeError struct{ error }

// Unwrap returns the cause.
func (e *handshakeError) Unwrap() error { return e.error }

// exchanges keeps exchanges for later requests.
var exchanges = sync.Pool{New: func() any { return new(exchange) }}

// read reads a request and begins to answer it.
func (c *connection) read() error {
	n, err := c.reader.length(headBytes)
	if err != nil {
		return err
	}
	if err := c.admit(); err != nil {
		return err
	}
	x := exchanges.Get().(*exchange)
	x.connection, x.debt, x.reserved = c, debt{requests: 1}, 0
	x.request.Client, x.request.exchange = &c.client, x
	if err := c.receive(x, n); err != nil {
		c.mu.Lock()
		c.payLocked(x.debt)
		c.mu.Unlock()
		return err
	}
	c.server.metrics.requests.Inc()
	c.running.Add(1)
	c.server.Start(x)
	return nil
}

// admit counts a request as open. It waits while there are too many, and while the
// client does not take its answers.
func (c *connection) admit() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	waited := false
	for c.open >= c.server.config.Requests || c.unsent > unsentMax {
		if c.broken {
			return net.ErrClosed
		}
		waited = true
		c.changed.Wait()
	}
	c.open++
	c.server.metrics.open.Add(1)
	if waited && c.wire.Expecting() {
		return c.wire.Expect() // The client had no reason to wait with the rest.
	}
	return nil
}

// enter waits while the client does not take its answers, so that the requests which are
// open already do not add to them. It reserves room for an answer that cannot be refused.
func (x *exchange) enter() {
	c, size := x.connection, x.request.changed(x.connection.server.config.PayloadBytes)
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.broken && (c.unsent > unsentMax || size > 0 && !c.fitsLocked(size)) {
		c.changed.Wait()
	}
	x.reserved = size
	c.reserved += size
}

// fitsLocked reports whether an answer of size bytes may be made. One always may.
func (c *connection) fitsLocked(size int) bool {
	held := c.unsent + c.reserved
	return held == 0 || held+size <= answersMax
}

// Room reports whether the client may have an answer of size bytes, and keeps room for
// it. It returns false if the answers that the client has not taken are too many bytes:
// then the handler answers with an error. Requests that change something have room for
// their answer already, and small answers need none.
func (r *Request) Room(size int) bool {
	x := r.exchange
	if x == nil || size <= x.reserved || size <= countedMin {
		return true
	}
	c := x.connection
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.broken && !c.fitsLocked(size-x.reserved) {
		return false
	}
	c.reserved += size - x.reserved
	x.reserved = size
	return true
}

// changed returns how many bytes the answer of a request may have that changes something
// and cannot be refused afterwards: its item, or the results of a batch or a script. 0 is
// for requests that only read, and for answers without an item.
func (r *Request) changed(payloadMax int) int {
	silent, _ := r.Int(RequestReturnPreference)
	switch r.Operation {
	case Create, Upsert, Replace:
		if silent == 0 {
			return len(r.Payload)
		}
	case Patch:
		if silent == 0 {
			return payloadMax
		}
	case Batch, ExecuteJavaScript:
		return 2 * payloadMax
	}
	return 0
}

// receive reads the request of x, whose head has n bytes.
func (c *connection) receive(x *exchange, n int) error {
	r := &x.request
	var head string
	var err error
	fault := NoFault
	if x.take(n) {
		head, err = c.reader.head(n)
	} else {
		fault = NoMemory
		head, err = c.reader.dropHead(n)
	}
	if err != nil {
		return err
	}
	if err := r.decode(head); err != nil {
		return err
	}
	r.Fault = fault
	if r.Resource == Connection {
		return violation("a second context")
	}
	if r.Bool(RequestPayloadPresent) {
		if err := c.receivePayload(x); err != nil {
			return err
		}
	}
	return c.reader.done()
}

// receivePayload reads the payload of x.
func (c *connection) receivePayload(x *exchange) error {
	r := &x.request
	size, err := c.reader.payloadLength()
	if err != nil {
		return err
	}
	switch {
	case size > max(dropMax, int64(c.server.config.PayloadBytes)):
		return violation("a payload has %d bytes", size)
	case r.Fault != NoFault:
		return c.reader.drop(size)
	case size > int64(c.server.config.PayloadBytes):
		r.Fault = TooLarge
		return c.reader.drop(size)
	}
	before := x.debt.memory
	var fits bool
	r.Payload, fits, err = c.reader.payload(r.Payload, int(size), func(size int) bool { return x.take(before + size) })
	if err == nil && !fits {
		r.Fault, r.Payload = NoMemory, nil
		c.server.config.Memory.Release(x.debt.memory)
		x.debt.memory = 0
	}
	return err
}

// take takes memory for a request that has size bytes now.
func (x *exchange) take(size int) bool {
	if size <= countedMin || size <= x.debt.memory {
		return true
	}
	if !x.connection.server.config.Memory.Take(size-x.debt.memory, size) {
		return false
	}
	x.debt.memory = size
	return true
}

// Do implements transport.Task.
func (x *exchange) Do() {
	defer x.connection.running.Done()
	x.serve()
}

// serve answers the request.
func (x *exchange) serve() {
	c := x.connection
	x.response.reset()
	x.enter()
	x.answer(c)
	c.send(x)
	if cap(x.request.Payload) > keptPayload {
		x.request.Payload = nil
	}
	x.connection, x.request.Client, x.request.exchange, x.request.head, x.response.Payload = nil, nil, nil, "", nil
	exchanges.Put(x)
}

// answer calls the handler. If it panics, only its request fails.
func (x *exchange) answer(c *connection) {
	defer func() {
		if p := recover(); p != nil {
			c.server.config.Logger.Error("a handler of direct mode has panicked", "panic", fmt.Sprint(p), "activity", x.request.Activity.String(), "stack", string(debug.Stack()))
			x.response.Begin(http.StatusInternalServerError)
		}
	}()
	c.server.config.Handler.Serve(c.ctx, &x.request, &x.response)
}
