package transport

import (
	"crypto/tls"
	"io"
	"math"
	"net"
	"net/netip"
	"time"
)

// Within returns the deadline of a step that may take d; none if d is negative.
func Within(d time.Duration) time.Time {
	if d < 0 {
		return time.Time{}
	}
	return time.Now().Add(d)
}

// PieceBytes is how much of a message must arrive, and of an answer must be taken, within
// the client's time.
const PieceBytes = 64 << 10

// Wire is a connection with a deadline for each piece of what it reads and writes. One
// goroutine at a time may read, and one may write.
type Wire struct {
	net.Conn

	ReadTime  time.Duration // for each piece that is read; negative: no limit
	WriteTime time.Duration // for each piece that is written; negative: no limit

	// Stopping reports whether nothing more is read. Who makes it true sets a deadline
	// in the past afterwards.
	Stopping func() bool

	// Owned by the reading goroutine.
	read      int64 // bytes
	goal      int64 // read must reach it before the deadline
	expecting bool  // the deadline is that of a piece
	until     inForce

	written inForce // owned by the writing goroutine
}

// inForce is a deadline in force. To set one costs as much as a small message, so one that
// is only a little later than necessary stays.
type inForce struct {
	at time.Time // zero for none
	of time.Duration
}

// spare is the part of its time by which a deadline may be late.
const spare = 16

// after returns the deadline to set for a step that may take d, or false if the one in
// force is right: not earlier than d from now, and late by a part of d at most.
func (f *inForce) after(d time.Duration) (time.Time, bool) {
	if d < 0 {
		if f.at.IsZero() && f.of == d {
			return time.Time{}, false
		}
		*f = inForce{of: d}
		return time.Time{}, true
	}
	now := time.Now()
	if f.of == d && f.at.Sub(now) >= d {
		return time.Time{}, false
	}
	*f = inForce{at: now.Add(d + d/spare), of: d}
	return f.at, true
}

// Expect sets the deadline for the next piece. Read renews it after each one.
func (w *Wire) Expect() error {
	w.goal, w.expecting = w.read+PieceBytes, true
	return w.deadline(w.ReadTime)
}

// Expecting reports whether the deadline in force is that of a piece.
func (w *Wire) Expecting() bool { return w.expecting }

// Keep keeps the deadline in force, which is for the whole of a message, until Await.
func (w *Wire) Keep() { w.goal, w.expecting = math.MaxInt64, true }

// Await sets the deadline for the next message to begin; a negative time is no limit.
func (w *Wire) Await(d time.Duration) error {
	w.expecting = false
	return w.deadline(d)
}

func (w *Wire) deadline(d time.Duration) error {
	at, changed := w.until.after(d)
	if !changed {
		return nil
	}
	if err := w.SetReadDeadline(at); err != nil {
		return err
	}
	if w.Stopping() { // Its deadline may be older than this one.
		return w.SetReadDeadline(time.Now())
	}
	return nil
}

// Read reads from the client.
func (w *Wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	w.read += int64(n)
	if w.expecting && w.read >= w.goal && err == nil {
		err = w.Expect()
	}
	return n, err
}

// Write sends p, at once if it is one piece.
func (w *Wire) Write(p []byte) (int, error) {
	sent := 0
	for {
		if at, changed := w.written.after(w.WriteTime); changed {
			if err := w.SetWriteDeadline(at); err != nil {
				return sent, err
			}
		}
		n, err := w.Conn.Write(p[sent:min(len(p), sent+PieceBytes)])
		sent += n
		if err != nil || sent == len(p) {
			return sent, err
		}
	}
}

// RecordTypeHandshake is the first byte of every TLS connection.
const RecordTypeHandshake = 0x16

// Peek reads the first n bytes of a connection. begun is the connection with these bytes
// before the rest.
func Peek(conn net.Conn, n int) (first []byte, begun net.Conn, err error) {
	first = make([]byte, n)
	if _, err := io.ReadFull(conn, first); err != nil {
		return nil, nil, err
	}
	return first, &begunConn{Conn: conn, first: first}, nil
}

// begunConn is a connection whose first bytes were read.
type begunConn struct {
	net.Conn
	first []byte
}

// Read returns the first bytes, then those of the connection.
func (c *begunConn) Read(p []byte) (int, error) {
	if len(c.first) > 0 {
		n := copy(p, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// lingerTime and lingerBytes bound what is read and dropped after the last answer.
// Without that, the system may discard an answer that the client has not read.
const (
	lingerTime  = 500 * time.Millisecond
	lingerBytes = 1 << 20
)

// Linger ends what is sent to a client and gives it time to read the last answer. conn is
// the connection as accepted, spoken the same with TLS, if the client uses it.
func Linger(conn, spoken net.Conn) {
	if secure, ok := spoken.(*tls.Conn); ok {
		_ = secure.CloseWrite() // The connection ends in any case.
	}
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || conn.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, conn, lingerBytes) // The connection ends in any case.
}

// Remote returns the address of the client, or zero if it has none of TCP.
func Remote(conn net.Conn) netip.AddrPort {
	if tcp, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		at := tcp.AddrPort()
		return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	}
	return netip.AddrPort{}
}

// Network returns for which of its networks a client counts: its address, or for IPv6
// the 64 bits of a network, of which one client may have every address.
func Network(of netip.Addr) netip.Prefix {
	bits := of.BitLen()
	if of.Is6() && !of.IsLoopback() {
		bits = 64
	}
	network, _ := of.WithZone("").Prefix(bits) // It is zero for no address.
	return network
}
