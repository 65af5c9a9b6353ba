package storage

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// courtesy is the manners of one piece of work that nobody waits for: a flush, a
// compaction, or somebody who reads and writes many rows. Several times in a
// millisecond it gives way to the goroutines that wait for a processor. Otherwise it
// would keep its own for up to 10 ms at a time, and a request may wait for one at each
// of its steps from goroutine to goroutine.
//
// It keeps a fifth of the time for itself: when all processors are always wanted, work
// that always gave way would hardly go on, and those who wait for its end, such as a
// writer for a flush, would wait too. The zero value is ready to use, by several
// goroutines too.
type courtesy struct {
	keeps atomic.Int64 // until when it gives way to nobody, in nanoseconds of the clock
}

const (
	// courtesyShare is how many times longer it may wait than it works.
	courtesyShare = 4
	// courtesyKeeps is for how long it keeps its processor at most: Go would not leave
	// it for longer either.
	courtesyKeeps = 10 * time.Millisecond
)

// giveWay is called between two pieces of the work.
func (c *courtesy) giveWay() {
	c.give(courtesyClock, runtime.Gosched)
}

var courtesyBegan = time.Now()

// courtesyClock only goes on; a test stops it.
var courtesyClock = func() time.Duration { return time.Since(courtesyBegan) }

func (c *courtesy) give(clock func() time.Duration, yield func()) {
	left := clock()
	if left < time.Duration(c.keeps.Load()) {
		return
	}
	yield()
	back := clock()
	c.keeps.Store(int64(back + min((back-left)/courtesyShare, courtesyKeeps)))
}

// pace gives way once in so many rows. The zero value is ready to use, by one
// goroutine.
type pace struct {
	courtesy
	rows int
}

const paceRows = 64

// row counts a row.
func (p *pace) row() {
	if p.rows++; p.rows%paceRows == 0 {
		p.giveWay()
	}
}

// flushedFile is a table that a flush writes, a block at a time.
type flushedFile struct {
	vfs.File
	space *space
	courtesy
}

// Write gives way behind what it has written.
func (f *flushedFile) Write(p []byte) (int, error) {
	defer f.giveWay()
	f.space.spend(len(p))
	return f.space.write(f.File, p)
}
