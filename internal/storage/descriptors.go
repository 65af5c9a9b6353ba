package storage

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// reserveMax is how many descriptors a pool reserves. A store uses one for a flush, or
	// from the creation of a log until it is in use, and few stores do so at the same
	// time.
	reserveMax = 16
	// reserveReads is how many of them may be used to read tables, which stay open: enough
	// to read at least those of the last flush.
	reserveReads = 8
)

// descriptorReserve reserves descriptors for open stores. A store that cannot create
// its next log, write a flush or begin a manifest fails permanently, although the disk
// works. So when connections, readers or the children of a split have used up all
// descriptors, the store gets one of the reserve, as does a store that must open a
// table to read it. The reserve is filled again when descriptors become free.
type descriptorReserve struct {
	files vfs.FS
	short atomic.Bool // fewer than reserveMax are held

	mu     sync.Mutex
	place  string // directory that is opened to hold a descriptor; empty before the first store
	held   []vfs.File
	closed bool
}

// isExhausted reports whether err says that no descriptor was free.
func isExhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// begin fills the reserve. To hold a descriptor it opens the topmost directory above
// dir, which is never removed.
func (r *descriptorReserve) begin(dir string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.place == "" {
		r.place = r.files.PathDir(dir)
		for above := r.files.PathDir(r.place); above != r.place; above = r.files.PathDir(above) {
			r.place = above
		}
	}
	r.fill()
}

// fill opens as many descriptors as are missing; the next call tries again. The caller
// holds mu.
func (r *descriptorReserve) fill() {
	for !r.closed && len(r.held) < reserveMax {
		f, err := r.files.OpenDir(r.place)
		if err != nil {
			r.short.Store(isExhausted(err)) // If nothing can be reserved here, nothing is missing.
			return
		}
		r.held = append(r.held, f)
	}
	r.short.Store(false)
}

// refill fills the reserve when a descriptor may have become free.
func (r *descriptorReserve) refill() {
	if r.short.Load() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.fill()
	}
}

// open opens a file that a store needs. If no descriptor is free it uses the reserve,
// but leaves some there.
func (r *descriptorReserve) open(leave int, open func() (vfs.File, error)) (vfs.File, error) {
	f, err := open()
	for isExhausted(err) && r.give(leave) { // Another goroutine may take it first.
		f, err = open()
	}
	if err == nil {
		r.refill()
	}
	return f, err
}

// give closes one descriptor of the reserve if it holds more than leave.
func (r *descriptorReserve) give(leave int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := len(r.held) - 1
	if last < leave {
		return false
	}
	r.short.Store(true)
	_ = r.held[last].Close() // Nothing was written to it.
	r.held = r.held[:last]
	return true
}

// close closes all of them.
func (r *descriptorReserve) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	for r.give(0) {
		continue
	}
}

// CanOpen returns an error if n more files cannot be opened, or if the stores use a
// part of the reserve. Call it before work that would fail half-way without them. It
// opens that many descriptors and closes them again. A store must be open.
func (p *Pool) CanOpen(n int) error {
	r := &p.reserve
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fill()
	opened := make([]vfs.File, 0, n)
	defer func() {
		for _, f := range opened {
			_ = f.Close() // Nothing was written to it.
		}
	}()
	for range n {
		f, err := r.files.OpenDir(r.place)
		if isExhausted(err) {
			return err
		}
		if err != nil {
			return nil // The directory cannot be opened, so this says nothing about descriptors.
		}
		opened = append(opened, f)
	}
	return nil
}

// isFlush reports whether a table is written by a flush, which must not fail. A
// compaction can be repeated.
func isFlush(category vfs.DiskWriteCategory) bool {
	return strings.HasSuffix(string(category), "memtable-flush")
}
