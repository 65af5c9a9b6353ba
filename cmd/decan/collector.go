package main

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// heapFloor is the size in bytes that the heap of Go may reach before its garbage is
// collected, however little of it is in use. A server uses some ten megabytes: what is
// stored lies outside of that heap. Go would collect whenever as much again has been
// allocated, which a busy server does many times a second.
const heapFloor = 64 << 20

// collector keeps the heap's floor. It looks at the heap after each collection and asks
// for the next one at heapFloor, or where the heap has doubled if that is more.
type collector struct {
	mu      sync.Mutex
	percent int // as it was asked for last
	stopped bool
}

// keepHeapFloor sets the floor until stop is called, unless the environment says by
// GOGC how often to collect. A limit of all memory (GOMEMLIMIT) stays in force.
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

// look asks for the next collection, and to be called after it.
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
	// Nothing leads to the sentinel, so the next collection finds it.
	runtime.SetFinalizer(new(sentinel), func(*sentinel) { c.look() })
}

// sentinel has a pointer, since tiny objects without one share their memory.
type sentinel struct{ _ *sentinel }

// percentDefault is by which part of what is in use the heap of Go grows between two
// collections.
const percentDefault = 100

// percentStep is in which steps the figure is changed, so that it rarely is.
const percentStep = 50

// percentFor returns by which part of what is in use the heap may grow, in whole steps.
func percentFor(live uint64) int {
	room := (heapFloor - float64(live)) / float64(max(live, 1<<20)) * 100
	return max(percentDefault, int(math.Floor(room/percentStep))*percentStep)
}
