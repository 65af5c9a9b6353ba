package storage

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// pacer paces one piece of background work: a flush, a compaction, or a loop that reads
// and writes many rows. The work calls yield several times in a millisecond, which lets
// goroutines run that wait for a processor. Otherwise the work would keep its processor
// for up to 10 ms at a time, and a request may wait that long at each of its steps from
// goroutine to goroutine.
//
// The work keeps a fifth of the time. Otherwise, when all processors are in demand,
// work that always yielded would make almost no progress, and neither would its
// waiters, such as a writer that waits for a flush. The zero value is ready for use,
// also by several goroutines.
type pacer struct {
	clock     func() time.Duration // monotonic; nil: sinceStart
	keepUntil atomic.Int64         // yield does nothing before, in nanoseconds of the clock
}

const (
	// pacerShare is the maximum ratio of the time that the work waits to the time that
	// it runs.
	pacerShare = 4
	// pacerKeepMax is the longest time for which the work keeps its processor. Go
	// would preempt it after that time as well.
	pacerKeepMax = 10 * time.Millisecond
)

var start = time.Now()

// sinceStart is the monotonic clock of the process.
func sinceStart() time.Duration { return time.Since(start) }

// yield lets other goroutines run, unless the work has waited long enough. Call it
// between two pieces of the work.
func (p *pacer) yield() {
	clock := p.clock
	if clock == nil {
		clock = sinceStart
	}
	p.pause(clock, runtime.Gosched)
}

func (p *pacer) pause(clock func() time.Duration, yield func()) {
	began := clock()
	if began < time.Duration(p.keepUntil.Load()) {
		return
	}
	yield()
	ended := clock()
	p.keepUntil.Store(int64(ended + min((ended-began)/pacerShare, pacerKeepMax)))
}

// rowPacer yields once in yieldRows rows. One goroutine uses it.
type rowPacer struct {
	pacer pacer
	rows  int
}

const yieldRows = 64

// row counts a row.
func (p *rowPacer) row() {
	if p.rows++; p.rows%yieldRows == 0 {
		p.pacer.yield()
	}
}

// flushedFile is a table that a flush writes, one block at a time.
type flushedFile struct {
	vfs.File
	space *space
	pacer pacer
}

// Write writes p and then yields.
func (f *flushedFile) Write(p []byte) (int, error) {
	defer f.pacer.yield()
	f.space.spend(len(p))
	return f.space.write(f.File, p)
}
