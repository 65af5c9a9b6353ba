package storage

import (
	"sync"
	"time"
)

// periodic repeats a background task while the task reports that work is left. It has
// no timer while there is none.
type periodic struct {
	pause time.Duration      // before each run; if it is negative the task never runs
	run   func() (left bool) // the task; set once, like pause

	mu      sync.Mutex
	timer   *time.Timer // nil while no run is scheduled
	stopped bool
	running sync.WaitGroup
}

// schedule schedules a run unless one is scheduled already.
func (p *periodic) schedule() {
	if p.pause < 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer == nil && !p.stopped {
		p.timer = time.AfterFunc(p.pause, p.fire)
	}
}

// fire runs the task once.
func (p *periodic) fire() {
	p.mu.Lock()
	if p.stopped {
		p.mu.Unlock()
		return
	}
	p.timer = nil
	p.running.Add(1)
	p.mu.Unlock()
	defer p.running.Done()
	if p.run() {
		p.schedule()
	}
}

// stop cancels the scheduled run and waits for the one in progress.
func (p *periodic) stop() {
	p.mu.Lock()
	p.stopped = true
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	p.mu.Unlock()
	p.running.Wait()
}
