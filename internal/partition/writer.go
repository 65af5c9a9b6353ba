package partition

import "time"

const (
	// flightsMax bounds the effects on their way, and so the memory of the
	// overlay: many more than one sync takes along.
	flightsMax      = 512
	flightsBytesMax = 32 << 20

	// queueRetryAfter is what a client is told when the queue is full: a queue
	// is worked off in about this time.
	queueRetryAfter = 100 * time.Millisecond
)

// writer is the state of the one goroutine that evaluates. The goroutine ends
// when there is nothing to do, so that a quiet partition costs none, and what
// is here waits for the next one; mu hands it over.
type writer struct {
	// next is the state after all effects on their way.
	next    state
	paths   paths // once pathsKnown
	overlay overlay
	keeping keeping

	pathsKnown bool

	// catalog is the version of the catalog that the effects so far have recorded.
	catalog uint64

	// stalled stops an index rebuild whose last step failed, until the next
	// write or Reindex.
	stalled bool

	tx   transaction // under way
	key  []byte      // scratch for keys
	cell []byte      // scratch for values
}

// run is the writer's goroutine.
func (p *Partition) run(idle chan struct{}) {
	defer close(idle)
	for {
		p.reap()
		p.obey()
		requests, more := p.take()
		if !more {
			return
		}
		for i, r := range requests {
			p.serve(r)
			requests[i] = nil // The caller's, whoever waits behind it.
		}
		switch {
		case p.sweeping():
			p.sweep()
		case len(requests) == 0:
			p.waitForFlight()
		}
	}
}

// take returns the waiting requests, none when there is other work or they have
// to wait, and false when the goroutine has to end.
func (p *Partition) take() (requests []*request, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	takes := len(p.queue) > 0 && !p.sealed
	if !takes && p.order == nil && len(p.writer.overlay.flights) == 0 && !p.sweepingLocked() {
		p.running = false
		return nil, false
	}
	if !takes {
		return nil, true
	}
	// The two slices change places: the one handed out comes back served.
	requests = p.queue
	p.queue, p.spare = p.spare[:0], requests
	if p.holders > 0 {
		requests = p.passLocked(requests)
	}
	return requests, true
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

// waitForFlight waits until the oldest effect has its result or the queue has
// grown.
func (p *Partition) waitForFlight() {
	flights := p.writer.overlay.flights
	if len(flights) == 0 {
		return
	}
	select {
	case <-flights[0].proposal.Done():
	case <-p.wake:
	}
}

// reap takes the effects that have their result out of the overlay. After one
// that failed nothing evaluated behind it can stand: it waits for all of them,
// which the group or Apply refuses too, and starts again from what was
// published.
func (p *Partition) reap() {
	o := &p.writer.overlay
	for len(o.flights) > 0 && o.flights[0].landed() {
		f := o.flights[0]
		if err := f.proposal.Err(); err != nil {
			p.config.Logger.Warn("effect failed", "partition", p.descriptor.ID, "lsn", f.lsn, "behind", len(o.flights)-1, "err", err)
			p.restart()
			return
		}
		o.settle()
	}
}

// drain waits until no effect is on its way.
func (p *Partition) drain() {
	for len(p.writer.overlay.flights) > 0 {
		<-p.writer.overlay.flights[0].proposal.Done()
		p.reap()
	}
}

// restart forgets everything that is not published.
func (p *Partition) restart() {
	for _, f := range p.writer.overlay.flights {
		<-f.proposal.Done()
	}
	p.writer.overlay.clear()
	p.writer.stalled, p.writer.pathsKnown = true, false
	p.writer.keeping = keeping{}
	p.writer.catalog = 0 // The effect that recorded it may be lost.
	if now := p.current.Load(); now != nil {
		counter := p.writer.next.counter // Numbers that were given to a Holding are not given again.
		p.writer.next = now.state
		p.writer.next.counter = max(p.writer.next.counter, counter)
	}
}
