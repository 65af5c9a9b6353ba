package server

import (
	"bufio"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/decandb/decan/internal/api/nosql"
)

// firstByteTimeout bounds how long a fresh connection may stay silent. It only
// frees the goroutine that waits for the first byte.
const firstByteTimeout = 30 * time.Second

// recordTypeHandshake is the first byte of every TLS connection.
const recordTypeHandshake = 0x16

// mixedListener accepts TLS and plain connections on one port: it looks at the
// first byte of each. Waiting for that byte happens in a goroutine of its own
// per connection, so a silent client holds up nobody.
type mixedListener struct {
	inner   net.Listener
	config  *tls.Config
	ready   chan net.Conn
	closing chan struct{}
	waiting sync.WaitGroup

	mu sync.Mutex

	silent map[net.Conn]struct{} // guarded by mu: connections without a first byte; nil once closed
}

// listenMixed starts accepting on inner, which it owns from here on.
func listenMixed(inner net.Listener, config *tls.Config) *mixedListener {
	l := &mixedListener{
		inner:   inner,
		config:  config,
		ready:   make(chan net.Conn),
		closing: make(chan struct{}),
		silent:  map[net.Conn]struct{}{},
	}
	l.waiting.Go(l.acceptLoop)
	return l
}

func (l *mixedListener) acceptLoop() {
	backoff := 5 * time.Millisecond
	for {
		conn, err := l.inner.Accept()
		if err != nil {
			// Running out of descriptors passes; a closed listener does not.
			if errors.Is(err, net.ErrClosed) {
				return
			}
			select {
			case <-l.closing:
				return
			case <-time.After(backoff):
				backoff = min(2*backoff, time.Second)
			}
			continue
		}
		backoff = 5 * time.Millisecond
		if !l.admit(conn) {
			conn.Close()
			return
		}
		l.waiting.Go(func() { l.sniff(conn) })
	}
}

// admit remembers a connection that has not spoken yet, so that Close can end it.
func (l *mixedListener) admit(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.silent == nil {
		return false
	}
	l.silent[conn] = struct{}{}
	return true
}

func (l *mixedListener) sniff(conn net.Conn) {
	conn.SetReadDeadline(time.Now().Add(firstByteTimeout))
	reader := bufio.NewReaderSize(conn, 16)
	first, err := reader.Peek(1)
	conn.SetReadDeadline(time.Time{})

	l.mu.Lock()
	delete(l.silent, conn)
	l.mu.Unlock()

	if err != nil {
		conn.Close()
		return
	}
	var spoken net.Conn = &peekedConn{Conn: conn, reader: reader}
	if first[0] == recordTypeHandshake {
		spoken = tls.Server(spoken, l.config)
	}
	select {
	case l.ready <- spoken:
	case <-l.closing:
		conn.Close()
	}
}

// Accept returns the next connection that has sent its first byte.
func (l *mixedListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.ready:
		return framed(conn), nil
	case <-l.closing:
		return nil, net.ErrClosed
	}
}

// Close stops accepting, ends the connections that have said nothing, and
// returns when no goroutine of the listener is left.
func (l *mixedListener) Close() error {
	l.mu.Lock()
	if l.silent == nil {
		l.mu.Unlock()
		return nil
	}
	silent := l.silent
	l.silent = nil
	l.mu.Unlock()

	close(l.closing)
	err := l.inner.Close()
	for conn := range silent {
		conn.Close()
	}
	l.waiting.Wait()
	return err
}

// Addr returns the address listened on.
func (l *mixedListener) Addr() net.Addr { return l.inner.Addr() }

// peekedConn is a connection whose first bytes were read ahead.
type peekedConn struct {
	net.Conn

	reader *bufio.Reader // nil once drained

	gathering bool   // Write keeps a first piece back
	held      []byte // that piece
}

var _ nosql.Gatherer = (*peekedConn)(nil)

// pieceMax is the size of the first piece that is kept back: that of the buffer
// of net/http, in which the headers and the beginning of a body meet.
const pieceMax = 4 << 10

// Gather calls write, and sends the first two pieces that it writes as one.
func (c *peekedConn) Gather(write func()) {
	c.gathering = true
	defer func() {
		c.gathering = false
		if len(c.held) > 0 {
			_, _ = c.Conn.Write(c.held) // The client is gone; reading on will tell.
			c.held = c.held[:0]
		}
	}()
	write()
}

// Write sends p, behind what Gather keeps back.
func (c *peekedConn) Write(p []byte) (int, error) {
	if !c.gathering {
		return c.Conn.Write(p)
	}
	if len(c.held) == 0 && len(p) <= pieceMax {
		c.held = append(c.held, p...)
		return len(p), nil
	}
	c.gathering = false
	before := len(c.held)
	both := net.Buffers{c.held, p}
	sent, err := both.WriteTo(c.Conn)
	c.held = c.held[:0]
	return max(0, int(sent)-before), err
}

// Read returns the bytes read ahead, then those of the connection.
func (c *peekedConn) Read(p []byte) (int, error) {
	if c.reader == nil {
		return c.Conn.Read(p)
	}
	if c.reader.Buffered() == 0 {
		c.reader = nil
		return c.Conn.Read(p)
	}
	return c.reader.Read(p[:min(len(p), c.reader.Buffered())])
}
