package storage

import (
	"runtime"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// giveWay lets the goroutines run that wait for a processor. Flushes, compactions and
// those who read or write many rows call it several times in a millisecond: otherwise
// they keep their processor for up to 10 ms at a time, and a request may wait for one
// at each of its steps from goroutine to goroutine. They go on when nobody else wants
// the processor, and every now and then when somebody always does.
func giveWay() { runtime.Gosched() }

// pace gives way once in so many rows. The zero value is ready to use.
type pace int

const paceRows = 64

// row counts a row.
func (p *pace) row() {
	if *p++; *p%paceRows == 0 {
		giveWay()
	}
}

// flushedFile is a table that a flush writes, a block at a time.
type flushedFile struct{ vfs.File }

// Write gives way behind what it has written.
func (f flushedFile) Write(p []byte) (int, error) {
	defer giveWay()
	return f.File.Write(p)
}
