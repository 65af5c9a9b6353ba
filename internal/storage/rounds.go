package storage

import (
	"sync"
	"time"
)

// rounds looks for work again and again for as long as some is left. While there is
// none it has no timer.
type rounds struct {
	pause time.Duration      // in front of each round; below zero there are none
	look  func() (left bool) // one round; the two are set once

	mu      sync.Mutex
	timer   *time.Timer // nil while no round is to come
	stopped bool
	running sync.WaitGroup
}

// begin has a round come unless one is to come already.
func (r *rounds) begin() {
	if r.pause < 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer == nil && !r.stopped {
		r.timer = time.AfterFunc(r.pause, r.round)
	}
}

func (r *rounds) round() {
	r.mu.Lock()
	if r.stopped {
		r.mu.Unlock()
		return
	}
	r.timer = nil
	r.running.Add(1)
	r.mu.Unlock()
	defer r.running.Done()
	if r.look() {
		r.begin()
	}
}

// stop ends the rounds and waits for the one under way.
func (r *rounds) stop() {
	r.mu.Lock()
	r.stopped = true
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
	r.mu.Unlock()
	r.running.Wait()
}
