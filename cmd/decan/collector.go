package main

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// heapFloor is the size in bytes up to which Go's heap grows without a garbage
// collection, however little of it is in use. A server uses about ten megabytes,
// because the block cache is outside the heap. Go would collect whenever the heap has
// doubled, which happens many times per second in a busy server.
const heapFloor = 64 << 20

// collector keeps the floor of the heap. After each collection it sets the size of the
// heap at which the next one runs: heapFloor, or twice the heap if that is more.
type collector struct {
	mu      sync.Mutex
	percent int // the last value set
	stopped bool
}

// keepHeapFloor keeps the floor until stop is called, unless GOGC in the environment
// sets the frequency of collections. A memory limit (GOMEMLIMIT) stays in force.
func keepHeapFloor() (stop func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	c := &collector{percent: percentDefault}
	c.look()
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.stopped = true
		debug.SetGCPercent(percentDefault)
	}
}

// look sets when the next collection runs, and arranges to be called after it.
func (c *collector) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	if wanted := percentFor(live[0].Value.Uint64()); wanted != c.percent {
		c.percent = wanted
		debug.SetGCPercent(wanted) // stops the world for a moment
	}
	// The sentinel is unreachable, so the next collection runs its finalizer.
	runtime.SetFinalizer(new(sentinel), func(*sentinel) { c.look() })
}

// sentinel contains a pointer, because tiny objects without pointers share memory.
type sentinel struct{ _ *sentinel }

// percentDefault is by how many percent of its live bytes Go's heap grows between two
// collections.
const percentDefault = 100

// percentStep is the granularity of the value, so that it rarely changes.
const percentStep = 50

// percentFor returns by how many percent of its live bytes the heap may grow, in whole
// steps.
func percentFor(live uint64) int {
	room := (heapFloor - float64(live)) / float64(max(live, 1<<20)) * 100
	return max(percentDefault, int(math.Floor(room/percentStep))*percentStep)
}
