package server

import (
	"os"
	"runtime"
	"sync"
	"syscall"
)

// givers lets goroutines run that wait for a processor, and those whose packets have
// arrived.
//
// Go looks at the network when a processor has nothing else to do, and every 10 ms
// otherwise. A goroutine that only calls [runtime.Gosched] is something to do: with
// one for each processor, a request waits for 10 ms until anybody notices it. One
// that waits for the network itself is not, and Go finds with it what else has
// arrived. So who gives way writes a byte into a pipe, waits for it as for a packet,
// and reads it.
//
// Where pipes cannot be waited for, it only calls Gosched.
type givers struct {
	mu sync.Mutex

	idle   []*pipe
	pipes  int // made, and not closed
	closed bool
}

// pipesMax bounds the pipes, and so the descriptors: more goroutines at once than
// that only call Gosched.
const pipesMax = 64

// pipe is one end of a pipe to write to and one to read from.
type pipe struct {
	read, write *os.File
	conn        syscall.RawConn // of read
}

// giveWay returns when the goroutines have had their chance that were waiting.
func (g *givers) giveWay() {
	if p := g.take(); p != nil {
		ok := p.wait()
		g.put(p, ok)
	}
	// Those that were found together with the byte come first.
	runtime.Gosched()
}

// take returns a pipe that nobody uses, nil when there is none.
func (g *givers) take() *pipe {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := len(g.idle); n > 0 {
		p := g.idle[n-1]
		g.idle = g.idle[:n-1]
		return p
	}
	if g.closed || g.pipes >= pipesMax {
		return nil
	}
	p := newPipe()
	if p == nil {
		g.closed = true // Descriptors have run out, or the system has no such pipes.
		return nil
	}
	g.pipes++
	return p
}

// put takes a pipe back, and closes it when it is no good any more.
func (g *givers) put(p *pipe, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if ok && !g.closed {
		g.idle = append(g.idle, p)
		return
	}
	g.closed = true
	g.pipes--
	p.close()
}

// Close closes the pipes that nobody uses, and those in use when they come back.
func (g *givers) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for _, p := range g.idle {
		g.pipes--
		p.close()
	}
	g.idle = nil
	return nil
}

// newPipe returns a pipe, nil when there is none that can be waited for.
func newPipe() *pipe {
	read, write, err := os.Pipe()
	if err != nil {
		return nil
	}
	p := &pipe{read: read, write: write}
	if p.conn, err = read.SyscallConn(); err != nil || !p.wait() {
		p.close()
		return nil
	}
	return p
}

func (p *pipe) close() {
	_ = p.read.Close() // Nothing is kept in it.
	_ = p.write.Close()
}

// wait waits for a byte of its own as for a packet, and reports whether it can.
func (p *pipe) wait() bool {
	var b [1]byte
	begun, written := false, false
	err := p.conn.Read(func(uintptr) bool {
		if begun {
			return true
		}
		// The byte is written when Go is ready to be told of it: a word that comes
		// before that is lost.
		begun = true
		n, err := p.write.Write(b[:])
		written = n == 1 && err == nil
		return !written
	})
	if err != nil || !written {
		return false
	}
	n, err := p.read.Read(b[:])
	return n == 1 && err == nil
}
