package rntbd

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// within returns the deadline of a step that may take d; none if d is negative.
func within(d time.Duration) time.Time {
	if d < 0 {
		return time.Time{}
	}
	return time.Now().Add(d)
}

// pieceBytes is how much of a request must arrive, and of an answer must be taken,
// within the client's time.
const pieceBytes = 64 << 10

// wire sets deadlines for each piece of a request or an answer.
type wire struct {
	net.Conn
	pieceTime, writeTime time.Duration
	stopping             func() bool // nothing more is read
	records              *heldConn   // below TLS; nil without

	// Owned by the reading goroutine.
	read int64 // bytes
	goal int64 // read must reach it before the deadline; 0 for none
}

// expect sets the deadline for the next piece.
func (w *wire) expect() error {
	w.goal = w.read + pieceBytes
	return w.deadline(within(w.pieceTime))
}

// patient removes the deadline.
func (w *wire) patient() error {
	w.goal = 0
	return w.deadline(time.Time{})
}

func (w *wire) deadline(t time.Time) error {
	if err := w.SetReadDeadline(t); err != nil {
		return err
	}
	if w.stopping() { // It may have set its deadline before.
		return w.SetReadDeadline(time.Now())
	}
	return nil
}

// Read reads from the client. It renews the deadline after each piece.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	w.read += int64(n)
	if w.goal > 0 && w.read >= w.goal && err == nil {
		err = w.expect()
	}
	return n, err
}

// Write sends p, at once if it is one piece.
func (w *wire) Write(p []byte) (int, error) {
	sent := 0
	for {
		if err := w.SetWriteDeadline(within(w.writeTime)); err != nil {
			return sent, err
		}
		n, err := w.Conn.Write(p[sent:min(len(p), sent+pieceBytes)])
		sent += n
		if err != nil || sent == len(p) {
			return sent, err
		}
	}
}

// hold keeps what is written until release, or until it is a piece.
func (w *wire) hold() {
	if w.records != nil {
		w.records.hold()
	}
}

// release sends what was held.
func (w *wire) release() error {
	if w.records == nil {
		return nil
	}
	if err := w.SetWriteDeadline(within(w.writeTime)); err != nil {
		return err
	}
	return w.records.release()
}

// heldConn can hold what is written to it. TLS writes each record on its own.
type heldConn struct {
	net.Conn

	mu      sync.Mutex
	holding bool   // guarded by mu
	held    []byte // guarded by mu
}

func (c *heldConn) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holding = true
}

func (c *heldConn) release() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holding = false
	return c.sendLocked()
}

func (c *heldConn) sendLocked() error {
	if len(c.held) == 0 {
		return nil
	}
	_, err := c.Conn.Write(c.held)
	c.held = c.held[:0]
	if cap(c.held) > 2*pieceBytes {
		c.held = nil
	}
	return err
}

// Write sends p, or holds it.
func (c *heldConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.holding {
		return c.Conn.Write(p)
	}
	c.held = append(c.held, p...)
	if len(c.held) < pieceBytes {
		return len(p), nil
	}
	return len(p), c.sendLocked()
}

const (
	// bufferBytes is the size of the buffer of a connection: several usual requests.
	bufferBytes = 8 << 10

	// payloadFirst is how much of a payload gets memory before it has arrived.
	payloadFirst = 4 << 10
)

// reader reads frames. It is owned by the reading goroutine of its connection.
type reader struct {
	wire       *wire
	buf        []byte
	begin, end int // of the bytes that were read and not used yet

	inside bool // a frame has begun
}

// need returns when n bytes are in the buffer, which grows as they arrive.
func (r *reader) need(n int) error {
	for r.end-r.begin < n {
		if r.end == len(r.buf) {
			r.makeRoom()
		}
		if (r.inside || r.end > r.begin) && r.wire.goal == 0 {
			if err := r.wire.expect(); err != nil {
				return err
			}
		}
		got, err := r.wire.Read(r.buf[r.end:])
		r.end += got
		if err != nil && r.end-r.begin < n {
			if errors.Is(err, io.EOF) && (r.inside || r.end > r.begin) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// makeRoom makes room after the bytes in the buffer, which is full to its end.
func (r *reader) makeRoom() {
	held := r.buf[r.begin:r.end]
	switch {
	case len(held) == 0 && len(r.buf) == bufferBytes:
	case len(held) <= bufferBytes/2 && len(r.buf) <= bufferBytes:
		if r.buf == nil {
			r.buf = make([]byte, bufferBytes)
		}
	case len(held) <= bufferBytes/2:
		r.buf = make([]byte, bufferBytes) // It was grown for a long frame.
	default:
		r.buf = make([]byte, 2*len(held))
	}
	r.end = copy(r.buf, held)
	r.begin = 0
}

// take returns the next n bytes, which need has brought into the buffer. They are valid
// until the next call of need.
func (r *reader) take(n int) []byte {
	taken := r.buf[r.begin : r.begin+n]
	r.begin += n
	return taken
}

// length returns the length of the head of the next frame, which is not taken. It waits
// for a frame without a deadline.
func (r *reader) length(limit int) (int, error) {
	if err := r.need(4); err != nil {
		return 0, err
	}
	n := integer(string(r.buf[r.begin:r.begin+4]), false)
	if n < headMin || n > uint64(limit) {
		return 0, violation("a frame has %d bytes, and between %d and %d are allowed", n, headMin, limit)
	}
	r.inside = true
	return int(n), nil
}

// head returns the head of a frame whose length is known.
func (r *reader) head(n int) (string, error) {
	if err := r.need(n); err != nil {
		return "", err
	}
	return string(r.take(n)), nil
}

// dropHead reads the head of a frame and keeps what an answer to it needs.
func (r *reader) dropHead(n int) (string, error) {
	if err := r.need(headMin); err != nil {
		return "", err
	}
	kept := append([]byte{}, r.take(headMin)...)
	for left, count := n-headMin, 0; left > 0; count++ {
		if count == tokensMax || left < tokenMin {
			return "", violation("the tokens of a frame cannot be read")
		}
		if err := r.need(tokenMin - 1); err != nil {
			return "", err
		}
		t := Token{ID: uint16(r.buf[r.begin]) | uint16(r.buf[r.begin+1])<<8, Type: Type(r.buf[r.begin+2])}
		if int(t.Type) >= len(types) {
			return "", violation("token 0x%04X has the unknown %s", t.ID, t.Type)
		}
		form := types[t.Type]
		begin, size := tokenMin-1+int(form.prefix), uint64(form.fixed)
		if begin <= left {
			if err := r.need(begin); err != nil {
				return "", err
			}
			if form.prefix > 0 {
				size = integer(string(r.buf[r.begin+tokenMin-1:r.begin+begin]), false)
			}
		}
		if begin > left || size > uint64(left-begin) {
			return "", violation("token 0x%04X of type %s is longer than its frame", t.ID, t.Type)
		}
		r.begin += begin
		left -= begin + int(size)
		if id := RequestID(t.ID); form.kind != kindInteger || id != RequestTransportRequestID && id != RequestPayloadPresent {
			if err := r.drop(int64(size)); err != nil {
				return "", err
			}
			continue
		}
		if err := r.need(int(size)); err != nil {
			return "", err
		}
		t.Value = string(r.take(int(size)))
		kept, _ = t.Append(kept) // An integer always can be encoded.
	}
	return string(kept), nil
}

// payloadLength reads the length of a payload.
func (r *reader) payloadLength() (int64, error) {
	if err := r.need(4); err != nil {
		return 0, err
	}
	return int64(integer(string(r.take(4)), false)), nil
}

// payload reads n bytes into the memory of into, and into more as they arrive. Before
// it uses memory it asks whether the size is allowed; if not, it returns false after it
// has dropped the rest.
func (r *reader) payload(into []byte, n int, allowed func(size int) bool) ([]byte, bool, error) {
	into = into[:0]
	for size := 0; len(into) < n; {
		if len(into) == size {
			size = min(n, max(payloadFirst, 2*size))
			if !allowed(size) {
				return into, false, r.drop(int64(n - len(into)))
			}
			if size > cap(into) {
				into = append(make([]byte, 0, size), into...)
			}
		}
		if held := r.end - r.begin; held > 0 {
			into = append(into, r.take(min(held, size-len(into)))...)
			continue
		}
		if r.wire.goal == 0 {
			if err := r.wire.expect(); err != nil {
				return into, true, err
			}
		}
		got, err := r.wire.Read(into[len(into):size])
		into = into[:len(into)+got]
		if err != nil && len(into) < n {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return into, true, err
		}
	}
	return into, true, nil
}

// drop reads n bytes and forgets them.
func (r *reader) drop(n int64) error {
	for n > 0 {
		held := min(int64(r.end-r.begin), n)
		r.begin += int(held)
		if n -= held; n > 0 {
			if err := r.need(1); err != nil {
				return err
			}
		}
	}
	return nil
}

// done ends a frame.
func (r *reader) done() error {
	r.inside = false
	if r.wire.goal > 0 {
		return r.wire.patient()
	}
	return nil
}
