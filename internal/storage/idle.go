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

// GiveUp names who is called with an idle store whose write buffers have grown
// beyond what an idle store should keep. It returns whether the store was closed,
// as it may, since only that frees them; otherwise it is called again later.
func (p *Pool) GiveUp(giveUp func(*Store) (closed bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.giveUp = giveUp
}

// resting is the part of a [Store] that is for who flushes it from outside; guarded by
// Pool.mu, but for the group.
type resting struct {
	closing bool
	use     sync.WaitGroup // of whoever flushes it from outside
}

// flushIdle flushes the stores that were not written to since the last call, so that
// what they wrote takes no memory and opening them again reads no log: one after the
// other, since nobody waits for them. It reports whether any store will have something
// to flush or to give up later. The first write after a flush begins its rounds.
func (p *Pool) flushIdle() (left bool) {
	p.mu.Lock()
	giveUp := p.giveUp
	p.mu.Unlock()
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
