package storage

import (
	"sync"
	"time"
)

// idleDefault is how long a store is not written to until it is flushed.
const idleDefault = time.Minute

// restingBuffers is up to which size the write buffers of an idle store stay, in
// bytes: a fresh one has 256 KB, and each flush gives it the next of twice the
// size. Only closing a store makes its buffers small again.
const restingBuffers = 1 << 20

// idle flushes the stores of a pool that are not written to any more, so that
// what they wrote takes no memory and opening them again reads no log.
//
// There is one timer for all, and none while no store has anything to flush: the
// write that is the first after a flush starts it.
type idle struct {
	mu sync.Mutex

	timer   *time.Timer // nil while nothing is to be flushed
	soon    *time.Timer // nil while no store is known to be scattered
	round   sync.WaitGroup
	stopped bool
	giveUp  func(*Store) (closed bool)
}

// GiveUp names who is called with an idle store whose write buffers have grown
// beyond what an idle store should keep. It returns whether the store was closed,
// as it may, since only that frees them; otherwise it is called again later.
func (p *Pool) GiveUp(giveUp func(*Store) (closed bool)) {
	p.idle.mu.Lock()
	defer p.idle.mu.Unlock()
	p.idle.giveUp = giveUp
}

// resting is the part of a [Store] that belongs to idle; guarded by Pool.mu, but
// for the group.
type resting struct {
	closing bool
	use     sync.WaitGroup // of whoever flushes it from outside
}

// wake is called by the first write after a flush.
func (p *Pool) wake() {
	if p.options.IdleFlush < 0 {
		return
	}
	p.idle.mu.Lock()
	defer p.idle.mu.Unlock()
	if p.idle.timer == nil && !p.idle.stopped {
		p.arm()
	}
}

// arm starts the timer. The caller has idle.mu.
func (p *Pool) arm() {
	p.idle.timer = time.AfterFunc(p.options.IdleFlush, p.tick)
}

// tick is one round, and the start of the next if anything is left.
func (p *Pool) tick() {
	p.idle.mu.Lock()
	if p.idle.stopped {
		p.idle.mu.Unlock()
		return
	}
	p.idle.timer = nil
	p.idle.round.Add(1)
	giveUp := p.idle.giveUp
	p.idle.mu.Unlock()
	defer p.idle.round.Done()
	left := p.flushIdle(giveUp)
	p.idle.mu.Lock()
	defer p.idle.mu.Unlock()
	if left && p.idle.timer == nil && !p.idle.stopped {
		p.arm()
	}
}

// stop ends the rounds and waits for the one under way.
func (p *Pool) stop() {
	p.idle.mu.Lock()
	p.idle.stopped = true
	if p.idle.timer != nil {
		p.idle.timer.Stop()
		p.idle.timer = nil
	}
	if p.idle.soon != nil {
		p.idle.soon.Stop()
		p.idle.soon = nil
	}
	p.idle.mu.Unlock()
	p.idle.round.Wait()
}

// flushIdle flushes the stores that were not written to since the last call, one
// after the other, since nobody waits for them. It reports whether any store will
// have something to flush or to give up later.
func (p *Pool) flushIdle(giveUp func(*Store) bool) (left bool) {
	for _, s := range p.borrow() {
		switch {
		case s.touched.Swap(false):
			left = left || s.dirty.Load()
		case s.dirty.Load():
			if err := s.Flush(); err != nil {
				p.options.Logger.Debug("idle store not flushed", "store", s.dir, "err", err)
			}
			left = left || s.Err() == nil && s.dirty.Load()
		}
		large := s.Err() == nil && !s.dirty.Load() && s.buffered() > restingBuffers
		s.use.Done()
		if large && giveUp != nil {
			// Who uses it at the moment may let go of it until the next round.
			left = !giveUp(s) || left
		}
	}
	return left
}

// borrow returns the open stores, which Close waits for until they are given back.
func (p *Pool) borrow() []*Store {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*Store, 0, len(p.open))
	for _, s := range p.open {
		if s != nil && !s.closing {
			s.use.Add(1)
			all = append(all, s)
		}
	}
	return all
}

// leave ends the time in which others may flush the store.
func (s *Store) leave() {
	s.pool.mu.Lock()
	s.closing = true
	s.pool.mu.Unlock()
	s.use.Wait()
}
