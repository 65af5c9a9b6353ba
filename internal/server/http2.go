package server

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
)

// Bounds of HTTP/2 (RFC 9113). Each connection has them.
const (
	// streamsMax is the number of requests in progress.
	streamsMax = 100

	// frameMax is the maximum size of a frame that a client may send, the least
	// that the protocol allows: net/http holds a whole frame in memory.
	frameMax = 16 << 10

	// streamWindow and connectionWindow are how many bytes of bodies a client may
	// send before the server has read them.
	streamWindow     = 256 << 10
	connectionWindow = 1 << 20

	// streamMemory is the approximate memory of a request in progress without its
	// headers and its body. Each request but the first of a connection counts with
	// it against the memory of requests.
	streamMemory = 8 << 10

	// resetsCounted is the number of requests of a connection above which the share of
	// those that the client has reset is limited. Older requests count less.
	resetsCounted = 500
)

// http2Config returns the bounds for net/http.
func http2Config() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams:          streamsMax,
		MaxReadFrameSize:              frameMax,
		MaxReceiveBufferPerStream:     streamWindow,
		MaxReceiveBufferPerConnection: connectionWindow,
	}
}

// spokenProtocols are the protocols of each port. Over TLS the handshake chooses
// one of them; without TLS, HTTP/2 begins with its preface.
//
// net/http sees an HTTP/2 connection over TLS as one without: it serves HTTP/2
// over TLS only on a [tls.Conn], on which no frames could be followed.
func spokenProtocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	return p
}

// The names of protocols in TLS handshakes.
const (
	alpnHTTP2 = "h2"
	alpnHTTP1 = "http/1.1"
)

// preface is what each client sends first on an HTTP/2 connection. No request of
// HTTP/1.1 begins with its first prefaceMark bytes.
const (
	preface     = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	prefaceMark = 4
)

// http2Conn is an HTTP/2 connection. It follows the frames as they are read, and
// ends clients that send a frame or the headers of a request too slowly, whose
// headers do not fit into the memory, or that reset most of their requests.
//
// The embedded connection has no method ConnectionState, see spokenProtocols.
type http2Conn struct {
	net.Conn // a *tls.Conn or a *peekedConn

	all *connections
	raw *connection // below TLS

	// Owned by the reading goroutine.
	frames  frames
	armed   uint64 // the part of frames with a read deadline; 0 for none
	buffer  [4 << 10]byte
	unread  []byte // of buffer
	failure error  // the error of the connection, returned after unread
}

// newHTTP2Conn returns an HTTP/2 connection over c, which is that of raw. state is
// the TLS state, or nil without TLS.
func newHTTP2Conn(c net.Conn, raw *connection, state *tls.ConnectionState) *http2Conn {
	raw.streamed, raw.secure = true, state
	return &http2Conn{Conn: c, all: raw.all, raw: raw}
}

// Read reads from the client. net/http reads frames in two small pieces, so that
// a buffer saves system calls.
func (c *http2Conn) Read(p []byte) (int, error) {
	if len(c.unread) > 0 {
		n := copy(p, c.unread)
		c.unread = c.unread[n:]
		return n, nil
	}
	if c.failure != nil {
		return 0, c.failure
	}
	if len(p) >= len(c.buffer) {
		return c.fill(p)
	}
	n, err := c.fill(c.buffer[:])
	copied := copy(p, c.buffer[:n])
	c.unread, c.failure = c.buffer[copied:n], err
	if copied > 0 {
		err = nil
	}
	return copied, err
}

// fill reads from the connection and follows the frames.
func (c *http2Conn) fill(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if wrong := c.frames.feed(p[:n]); wrong != nil {
		if errors.Is(wrong, errResets) {
			c.all.metrics.flooded.Inc()
		}
		return 0, wrong
	}
	if err != nil {
		if c.armed != 0 && errors.Is(err, os.ErrDeadlineExceeded) {
			c.all.metrics.slow.WithLabelValues(slowToSend).Inc()
		}
		return n, err
	}
	c.expectRest()
	return n, c.countBlock()
}

// expectRest sets the deadline for the rest of an incomplete frame or of
// incomplete headers.
func (c *http2Conn) expectRest() {
	if c.all.readTimeout <= 0 {
		return
	}
	switch part := c.frames.incomplete(); {
	case part == c.armed:
	case part == 0:
		c.armed = 0
		_ = c.raw.Conn.SetReadDeadline(time.Time{}) // The next read returns the error.
	default:
		c.armed = part
		_ = c.raw.Conn.SetReadDeadline(time.Now().Add(c.all.readTimeout))
	}
}

// countBlock counts the memory of incomplete headers. Complete ones are counted
// with their request.
func (c *http2Conn) countBlock() error {
	if c.frames.block <= headFree {
		c.raw.forget()
		return nil
	}
	if c.raw.head = c.frames.block; !c.raw.countHead() {
		return errHeadTooMuch
	}
	if c.raw.ended.Load() {
		c.raw.forget() // Close may have done so before the headers were counted.
	}
	return nil
}

// frames follows the frames on a connection as their bytes are read. It leaves all
// errors to net/http except those that net/http accepts.
type frames struct {
	prefaced int     // bytes of the preface that were read
	header   [9]byte // of the current frame
	have     int     // bytes of header that were read
	skip     int     // bytes of the frame still to come
	part     uint64  // counts frames; the frames of one request's headers count once
	open     bool    // the headers of a request are incomplete
	block    int     // bytes of these headers

	opened, reset int // requests
}

// The frames that are followed, their flag, and the size of priorities.
const (
	frameHeaders      = 1
	frameReset        = 3
	frameContinuation = 9
	flagEndHeaders    = 4
)

var (
	errPreface = errors.New("the HTTP/2 connection does not begin with its preface")
	errResets  = &net.OpError{Op: "read", Net: "tcp", Err: errors.New("the client has reset most of its requests")}
)

// incomplete returns the number of the frame or the headers of which a part was
// read, or 0 if the last byte that was read ends one.
func (f *frames) incomplete() uint64 {
	if f.have == 0 && f.skip == 0 && !f.open {
		return 0
	}
	return f.part
}

// feed follows bytes that were read.
func (f *frames) feed(p []byte) error {
	for len(p) > 0 {
		switch {
		case f.prefaced < len(preface):
			n := min(len(p), len(preface)-f.prefaced)
			if string(p[:n]) != preface[f.prefaced:f.prefaced+n] {
				return errPreface
			}
			p, f.prefaced = p[n:], f.prefaced+n
		case f.skip > 0:
			n := min(f.skip, len(p))
			p, f.skip = p[n:], f.skip-n
			f.end()
		default:
			if f.have == 0 && !f.open {
				f.part++
			}
			n := copy(f.header[f.have:], p)
			p, f.have = p[n:], f.have+n
			if f.have == len(f.header) {
				if err := f.begin(); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// begin is called when the header of a frame is complete.
func (f *frames) begin() error {
	f.have = 0
	f.skip = int(binary.BigEndian.Uint32(f.header[:]) >> 8)
	switch f.header[3] {
	case frameHeaders:
		f.opened++
		f.open, f.block = true, f.skip
	case frameContinuation:
		f.block += f.skip
	case frameReset:
		f.reset++
		if f.opened >= resetsCounted {
			if f.reset > f.opened/2 {
				return errResets
			}
			f.opened, f.reset = f.opened/2, f.reset/2
		}
	}
	f.end()
	return nil
}

// end ends the headers of a request if the last byte of their last frame was
// read.
func (f *frames) end() {
	kind := f.header[3]
	if f.skip == 0 && (kind == frameHeaders || kind == frameContinuation) && f.header[4]&flagEndHeaders != 0 {
		f.open, f.block = false, 0
	}
}

// serveStream serves a request of HTTP/2, which has deadlines of its own for its
// body and its answer.
func (c *connection) serveStream(handler http.Handler, hw http.ResponseWriter, hr *http.Request) {
	if c.state.Load() == gone || hr.Context().Err() != nil { // it may be reset before its turn
		panic(http.ErrAbortHandler)
	}
	_ = growStack(0)
	hr.TLS = c.secure
	w := &streamWriter{ResponseWriter: hw, c: c}
	if fault := ambiguous(hr); fault != "" {
		http.Error(w, "400 Bad Request: "+fault, http.StatusBadRequest)
		return
	}
	taken := headBytes(hr.Header)
	if taken <= headFree {
		taken = 0
	}
	if c.streams.Add(1) > 1 {
		taken += streamMemory
	}
	defer c.streams.Add(-1)
	if !c.all.memory.Take(taken, taken) {
		w.Header().Set("x-ms-retry-after-ms", "1000")
		http.Error(w, c.all.memory.Refusal().Error(), http.StatusTooManyRequests)
		return
	}
	defer c.all.memory.Release(taken)
	if hr.ContentLength != 0 {
		b := &streamBody{ReadCloser: hr.Body, w: w}
		b.expect()
		hr.Body = b
	}
	handler.ServeHTTP(w, hr)
}

// growStack makes the stack of the goroutine 16 KB large, which a point read needs.
// net/http serves each request of HTTP/2 in a new goroutine. Its stack would grow three
// times, each time with a copy of more frames: an eighth of the time of a point read.
// The index keeps the array from being removed.
//
//go:noinline
func growStack(at int) byte {
	var space [12 << 10]byte
	return space[at]
}

// headBytes returns the length of the headers.
func headBytes(header http.Header) int {
	n := 0
	for name, values := range header {
		for _, value := range values {
			n += len(name) + len(value)
		}
	}
	return n
}

// ambiguous returns what is wrong with a request that a proxy could interpret
// differently, or "". net/http refuses headers that belong to HTTP/1.1, and bodies that
// are not as long as announced.
func ambiguous(hr *http.Request) string {
	if lengths := hr.Header["Content-Length"]; len(lengths) > 0 {
		if _, err := strconv.ParseUint(lengths[0], 10, 63); err != nil || len(lengths) > 1 {
			return "malformed Content-Length"
		}
	}
	if hosts := hr.Header["Host"]; len(hosts) > 1 || len(hosts) == 1 && hosts[0] != hr.Host {
		return "the Host header differs from :authority"
	}
	return ""
}

// streamBody is the body of a request. Each 64 KB of it must arrive within the
// timeout for reading.
type streamBody struct {
	io.ReadCloser // of net/http

	w    *streamWriter
	left int // bytes until the deadline is renewed
}

// Read reads from the body.
func (b *streamBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left <= 0 && err == nil {
		b.expect()
	}
	if err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		b.w.c.all.metrics.slow.WithLabelValues(slowToSend).Inc()
	}
	return n, err
}

// expect sets the deadline for the next piece.
func (b *streamBody) expect() {
	b.left = pieceMin
	if timeout := b.w.c.all.readTimeout; timeout > 0 {
		_ = http.NewResponseController(b.w.ResponseWriter).SetReadDeadline(time.Now().Add(timeout)) // HTTP/2 has it.
	}
}

// streamWriter writes the answer of a request. The client must take each 64 KB
// of it within the timeout for writing: it may leave the window of one stream
// closed and use the connection for others.
type streamWriter struct {
	http.ResponseWriter // of net/http

	c     *connection
	wrote bool // a deadline is set
}

// Unwrap is for [http.ResponseController].
func (w *streamWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader sends the status.
func (w *streamWriter) WriteHeader(status int) {
	w.expect()
	w.ResponseWriter.WriteHeader(status)
}

// Write sends a part of the answer.
func (w *streamWriter) Write(p []byte) (int, error) {
	sent := 0
	for {
		if !w.wrote {
			w.expect()
		}
		began := time.Now()
		n, err := w.ResponseWriter.Write(p[sent:min(len(p), sent+pieceMin)])
		sent += n
		if err != nil && w.c.all.writeTimeout > 0 && time.Since(began) >= w.c.all.writeTimeout {
			w.c.all.metrics.slow.WithLabelValues(slowToTake).Inc()
		}
		if err != nil || sent == len(p) {
			return sent, err
		}
		w.wrote = false
	}
}

// expect sets the deadline for the next piece.
func (w *streamWriter) expect() {
	w.wrote = true
	if timeout := w.c.all.writeTimeout; timeout > 0 {
		_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(timeout)) // HTTP/2 has it.
	}
}
