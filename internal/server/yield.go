package server

import (
	"os"
	"runtime"
	"sync"
	"syscall"
)

// yielder lets goroutines run that wait for a processor, and those whose packets
// have arrived.
//
// Go polls the network when a processor is idle, and every 10 ms otherwise. A
// goroutine that only calls [runtime.Gosched] keeps a processor from being idle:
// with one for each processor, a request waits up to 10 ms. A goroutine that
// waits for the network leaves the processor idle, and the poll that finds its
// packet also finds the other packets. So a yielding goroutine writes a byte into
// a pipe, waits for it as for a packet, and reads it.
//
// Where a goroutine cannot wait for pipes, it only calls Gosched.
type yielder struct {
	mu sync.Mutex

	idle   []*pipe
	pipes  int // created, and not closed
	closed bool
}

// pipesMax bounds the pipes, and so the descriptors: when more goroutines yield
// at once, the others only call Gosched.
const pipesMax = 64

// pipe has one end to write to and one to read from.
type pipe struct {
	read, write *os.File
	conn        syscall.RawConn // of read
}

// yield lets the waiting goroutines run first, and then returns.
func (y *yielder) yield() {
	if p := y.take(); p != nil {
		ok := p.wait()
		y.put(p, ok)
	}
	// Goroutines that were found together with the byte run first.
	runtime.Gosched()
}

// take returns an unused pipe, or nil if none is available.
func (y *yielder) take() *pipe {
	y.mu.Lock()
	defer y.mu.Unlock()
	if n := len(y.idle); n > 0 {
		p := y.idle[n-1]
		y.idle = y.idle[:n-1]
		return p
	}
	if y.closed || y.pipes >= pipesMax {
		return nil
	}
	p := newPipe()
	if p == nil {
		y.closed = true // There are no descriptors left, or the system has no such pipes.
		return nil
	}
	y.pipes++
	return p
}

// put returns a pipe, and closes it if it is unusable.
func (y *yielder) put(p *pipe, ok bool) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if ok && !y.closed {
		y.idle = append(y.idle, p)
		return
	}
	y.closed = true
	y.pipes--
	p.close()
}

// Close closes the unused pipes, and those in use when they are returned.
func (y *yielder) Close() error {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.closed = true
	for _, p := range y.idle {
		y.pipes--
		p.close()
	}
	y.idle = nil
	return nil
}

// newPipe returns a pipe, or nil if goroutines cannot wait for pipes here.
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
	_ = p.read.Close() // It holds no data.
	_ = p.write.Close()
}

// wait waits for its own byte as for a packet, and reports whether that works.
func (p *pipe) wait() bool {
	var b [1]byte
	begun, written := false, false
	err := p.conn.Read(func(uintptr) bool {
		if begun {
			return true
		}
		// The byte is written once Go is registered for the event: an earlier
		// event would be lost.
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
