package rntbd

import (
	"net"
	"sync"

	"github.com/decandb/decan/internal/api/transport"
)

// wire is a connection that can send several TLS records as one.
type wire struct {
	transport.Wire

	records *heldConn // below TLS; nil without
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
	if err := w.SetWriteDeadline(transport.Within(w.WriteTime)); err != nil {
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
	if cap(c.held) > 2*transport.PieceBytes {
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
	if len(c.held) < transport.PieceBytes {
		return len(p), nil
	}
	return len(p), c.sendLocked()
}
