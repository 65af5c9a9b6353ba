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
	// reserveMax is how many descriptors a pool keeps back: a store takes one for the
	// time of a flush, or until its log is the next, and few do so at once.
	reserveMax = 16
	// reserveReads is how many of them may be used to read tables, which stay open:
	// those of the last flush at least can be read then.
	reserveReads = 8
)

// reserve keeps descriptors back for the stores that serve. One that cannot begin
// its next log, write a flush or begin a manifest has failed for good, although
// nothing is wrong with the disk; so when connections, readers or the children of a
// split have taken all the others, it gets one of these. So does one that is to read
// a table. They are taken again as soon as there are enough.
type reserve struct {
	files vfs.FS
	short atomic.Bool // fewer are held than shall be

	mu     sync.Mutex
	place  string // the directory that is opened for each; empty before the first store is
	held   []vfs.File
	closed bool
}

// isExhausted reports whether err says that there was no descriptor left.
func isExhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// begin keeps back as many descriptors as shall be. What it opens for them is the
// topmost directory above that of a store, which is never removed.
func (r *reserve) begin(dir string) {
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

// fill is for whoever has mu. What it does not get it tries to at the next call.
func (r *reserve) fill() {
	for !r.closed && len(r.held) < reserveMax {
		f, err := r.files.OpenDir(r.place)
		if err != nil {
			r.short.Store(isExhausted(err)) // Where nothing can be kept back, nothing is missing.
			return
		}
		r.held = append(r.held, f)
	}
	r.short.Store(false)
}

// refill is called when a descriptor may have become free.
func (r *reserve) refill() {
	if r.short.Load() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.fill()
	}
}

// open opens a file that a store needs: when there is no descriptor, with those that
// are kept back, of which it leaves some.
func (r *reserve) open(leave int, open func() (vfs.File, error)) (vfs.File, error) {
	f, err := open()
	for isExhausted(err) && r.give(leave) { // Somebody else may be quicker.
		f, err = open()
	}
	if err == nil {
		r.refill()
	}
	return f, err
}

// give lets go of one descriptor, so that it can be taken, if there are more than
// shall be left.
func (r *reserve) give(leave int) bool {
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

// close lets go of all of them.
func (r *reserve) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	for r.give(0) {
		continue
	}
}

// CanOpen reports whether n more files can be opened: the error says why not, also
// when some of the descriptors that are kept back for the stores are in use. It is
// for those who are about to begin what would fail half-way without them. It opens
// that many and closes them again. Some store must be open.
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
			return nil // A directory that may not be opened says nothing.
		}
		opened = append(opened, f)
	}
	return nil
}

// isFlush reports whether a table is written to flush the store, which it cannot do
// without. A compaction can wait.
func isFlush(category vfs.DiskWriteCategory) bool {
	return strings.HasSuffix(string(category), "memtable-flush")
}
