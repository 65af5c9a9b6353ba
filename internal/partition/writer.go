package partition

import (
	"time"

	"github.com/decandb/decan/internal/partition/layout"
)

const (
	// flightsMax bounds the effects that are proposed and not applied, and so the
	// memory of the overlay. It is many times what one sync covers.
	flightsMax      = 512
	flightsBytesMax = 32 << 20

	// queueRetryAfter is the retry time for a client when the queue is full: about the
	// time in which a queue is processed.
	queueRetryAfter = 100 * time.Millisecond
)

// writer is the state of the one goroutine that evaluates requests. The goroutine ends
// when there is no work, so that a quiet partition has none; the next one takes over
// the state. The mutex of the intake orders the two.
type writer struct {
	// next is the state after all proposed effects.
	next    layout.State
	paths   layout.Paths // valid if pathsKnown
	overlay overlay
	keeping keeping

	pathsKnown bool

	micros int64 // the last time that Items.Micros has returned

	// catalog is the version of the catalog that was recorded last.
	catalog uint64

	// stalled stops an index rebuild after a failed step, until the next write or
	// Reindex.
	stalled bool

	tx   transaction // in progress
	key  []byte      // scratch for keys
	cell []byte      // scratch for values
}

// run is the writer's goroutine. It closes idle at its end.
func (p *Partition) run(idle chan struct{}) {
	defer close(idle)
	for {
		p.reap()
		p.executeOrder()
		requests, more := p.take()
		if !more {
			return
		}
		for i, r := range requests {
			p.serve(r)
			requests[i] = nil // It belongs to its caller.
		}
		switch {
		case p.sweeping():
			p.sweep()
		case len(requests) == 0:
			p.waitForFlight()
		}
	}
}

// take returns the requests to serve. There are none if they have to wait, or if there
// is other work only. It returns false if the goroutine has to end.
func (p *Partition) take() (requests []*request, more bool) {
	requests, parked, more := p.dequeue()
	if len(parked) > 0 {
		p.heavy.park(parked)
	}
	return requests, more
}

// dequeue is take that also returns the requests that it has parked.
func (p *Partition) dequeue() (requests, parked []*request, more bool) {
	p.intake.mu.Lock()
	defer p.intake.mu.Unlock()
	takes := len(p.intake.queue) > 0 && !p.intake.sealed
	if !takes && p.intake.order == nil && len(p.writer.overlay.flights) == 0 && !p.sweepingLocked() {
		p.intake.running = false
		return nil, nil, false
	}
	if !takes {
		return nil, nil, true
	}
	// The two slices are swapped: the next call reuses this one.
	requests = p.intake.queue
	p.intake.queue, p.intake.spare = p.intake.spare[:0], requests
	requests, parked = p.intake.locks.pass(requests)
	return requests, parked, true
}

// serve evaluates one request and proposes its effect.
func (p *Partition) serve(r *request) {
	if !r.stage.CompareAndSwap(waiting, claimed) {
		return
	}
	defer close(r.evaluated)
	defer p.contain(&r.err)
	p.writer.stalled = false
	for p.writer.overlay.full() {
		<-p.writer.overlay.flights[0].proposal.Done()
		p.reap()
	}
	now, err := p.acquire()
	if err != nil {
		r.err = err
		return
	}
	defer p.release(now)
	r.err = p.evaluate(r, now)
}

// waitForFlight waits until the oldest effect has its result, or there is more work.
func (p *Partition) waitForFlight() {
	flights := p.writer.overlay.flights
	if len(flights) == 0 {
		return
	}
	select {
	case <-flights[0].proposal.Done():
	case <-p.intake.wake:
	}
}

// reap removes the effects that have their result from the overlay. If one failed, the
// effects that were evaluated after it are invalid, and the group or Apply refuses
// them as well: reap waits for all of them, and restarts from the published state.
func (p *Partition) reap() {
	o := &p.writer.overlay
	for len(o.flights) > 0 && o.flights[0].landed() {
		f := o.flights[0]
		if err := f.proposal.Err(); err != nil {
			p.config.Logger.Warn("effect failed", "partition", p.own.ID, "lsn", f.lsn, "later", len(o.flights)-1, "err", err)
			p.restart()
			return
		}
		o.settle()
	}
}

// drain waits until all proposed effects have their result.
func (p *Partition) drain() {
	for len(p.writer.overlay.flights) > 0 {
		<-p.writer.overlay.flights[0].proposal.Done()
		p.reap()
	}
}

// restart drops everything that is not published.
func (p *Partition) restart() {
	for _, f := range p.writer.overlay.flights {
		<-f.proposal.Done()
	}
	p.writer.overlay.clear()
	p.writer.stalled, p.writer.pathsKnown = true, false
	p.writer.keeping = keeping{}
	p.writer.catalog = 0 // The effect that recorded it may be lost.
	if now := p.states.current.Load(); now != nil {
		counter := p.writer.next.Counter // A LockedTransaction may have numbers up to it.
		p.writer.next = now.State
		p.writer.next.Counter = max(p.writer.next.Counter, counter)
	}
}
