package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/decandb/decan/internal/api/nosql"
	"github.com/decandb/decan/internal/api/transport"
)

const (
	// firstByteTimeout bounds how long a new connection may stay silent, unless
	// the server's read timeout is shorter.
	firstByteTimeout = 30 * time.Second

	// handshakeTimeout bounds the TLS handshake in the same way.
	handshakeTimeout = 10 * time.Second
)

// mixedListener accepts TLS and plain connections on one port: it examines the
// first byte of each. Each connection waits for that byte and makes the TLS
// handshake in a goroutine of its own, so a silent client does not delay others.
type mixedListener struct {
	inner   net.Listener
	all     *connections
	config  *tls.Config
	ready   chan net.Conn
	closing chan struct{}
	waiting sync.WaitGroup

	mu sync.Mutex

	silent map[net.Conn]struct{} // guarded by mu: connections without a first byte; nil once closed
}

// listenMixed starts accepting on inner, which it owns from now on, as many
// connections as all allows.
func listenMixed(inner net.Listener, all *connections, config *tls.Config) *mixedListener {
	l := &mixedListener{
		inner:   inner,
		all:     all,
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
			// A lack of descriptors is temporary; a closed listener is not.
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
		c := l.all.admit(conn)
		if c == nil {
			continue
		}
		if !l.admit(c) {
			c.Close()
			return
		}
		l.waiting.Go(func() { l.sniff(c) })
	}
}

// admit records a silent connection, so that Close can end it.
func (l *mixedListener) admit(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.silent == nil {
		return false
	}
	l.silent[conn] = struct{}{}
	return true
}

func (l *mixedListener) sniff(c *connection) {
	spoken, err := l.speak(c)

	l.mu.Lock()
	delete(l.silent, c)
	l.mu.Unlock()

	if err != nil {
		c.Close()
		return
	}
	select {
	case l.ready <- spoken:
	case <-l.closing:
		c.Close()
	}
}

// speak waits for the first bytes, makes the handshake with TLS clients, and determines
// the version of HTTP.
func (l *mixedListener) speak(c *connection) (net.Conn, error) {
	c.SetReadDeadline(time.Now().Add(l.all.atMost(firstByteTimeout)))
	reader := bufio.NewReaderSize(c, 16)
	first, err := reader.Peek(1)
	if err != nil {
		return nil, err
	}
	plain := &peekedConn{connection: c, reader: reader}
	if first[0] != transport.RecordTypeHandshake {
		spoken := net.Conn(plain)
		if first[0] == preface[0] {
			if first, err = reader.Peek(prefaceMark); err != nil {
				return nil, err
			}
		}
		if string(first) == preface[:prefaceMark] {
			spoken = newHTTP2Conn(plain, c, nil)
		}
		return spoken, c.SetReadDeadline(time.Time{})
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.all.atMost(handshakeTimeout))
	defer cancel()
	secure := tls.Server(plain, l.config)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	spoken := net.Conn(secure)
	if state := secure.ConnectionState(); state.NegotiatedProtocol == alpnHTTP2 {
		spoken = newHTTP2Conn(secure, c, &state)
	}
	return spoken, c.SetReadDeadline(time.Time{})
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

// Close stops accepting, closes the silent connections, and returns when all
// goroutines of the listener have ended.
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

// Addr returns the listener's address.
func (l *mixedListener) Addr() net.Addr { return l.inner.Addr() }

// peekedConn is a connection whose first bytes were read ahead.
type peekedConn struct {
	*connection

	reader *bufio.Reader // nil once drained

	gathering bool   // Write holds back a first piece
	held      []byte // that piece
}

var _ nosql.Gatherer = (*peekedConn)(nil)

// pieceMax is the maximum size of the first piece held back: that of net/http's
// buffer, which holds the headers and the beginning of a body.
const pieceMax = 4 << 10

// Gather calls write, and sends the first two pieces that it writes as one.
func (c *peekedConn) Gather(write func()) {
	c.gathering = true
	defer func() {
		c.gathering = false
		if len(c.held) > 0 {
			_, _ = c.connection.Write(c.held) // The client is gone; the next read returns the error.
			c.held = c.held[:0]
		}
	}()
	write()
}

// Write sends p, after the bytes that Gather holds back.
func (c *peekedConn) Write(p []byte) (int, error) {
	if !c.gathering {
		return c.connection.Write(p)
	}
	if len(c.held) == 0 && len(p) <= pieceMax {
		c.held = append(c.held, p...)
		return len(p), nil
	}
	c.gathering = false
	before := len(c.held)
	sent, err := c.writeBuffers(net.Buffers{c.held, p})
	c.held = c.held[:0]
	return max(0, sent-before), err
}

// Read returns the bytes read ahead, then those of the connection.
func (c *peekedConn) Read(p []byte) (int, error) {
	if c.reader == nil {
		return c.connection.Read(p)
	}
	if c.reader.Buffered() == 0 {
		c.reader = nil
		return c.connection.Read(p)
	}
	return c.reader.Read(p[:min(len(p), c.reader.Buffered())])
}
