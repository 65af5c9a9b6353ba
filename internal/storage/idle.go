package storage

import (
	"sync"
	"time"
)

// idleDefault is the default of [Options.IdleFlush].
const idleDefault = time.Minute

// idleBuffersMax is how many bytes of write buffers an idle store may keep. A new store
// has a buffer of 256 KB, and after each flush the next one may be twice as large. Only
// closing a store makes its buffers small again.
const idleBuffersMax = 1 << 20

// EvictIdle sets a callback for idle stores whose write buffers have grown beyond what
// an idle store may keep. It may close the store, which alone frees them, and reports
// whether it did. If it did not, it is called again later. Nil removes the callback.
func (p *Pool) EvictIdle(evict func(*Store) (closed bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.evict = evict
}

// pins counts the background tasks that use an open [Store]. Pool.mu guards closing.
type pins struct {
	closing bool
	pinned  sync.WaitGroup // tasks that use the store
}

// flushIdle flushes, one after another, the stores that no write has reached since its
// last call. After that their data takes no memory, and opening them reads no log. It
// reports whether a store will need a flush or an eviction later. The first write after
// a flush schedules it again.
func (p *Pool) flushIdle() (left bool) {
	p.mu.Lock()
	evict := p.evict
	p.mu.Unlock()
	for _, s := range p.pinAll() {
		switch {
		case s.writtenSinceIdle.Swap(false):
			left = left || s.dirty.Load()
		case s.dirty.Load():
			if err := s.Flush(); err != nil {
				p.options.Logger.Debug("idle store not flushed", "store", s.dir, "err", err)
			}
			left = left || s.Err() == nil && s.dirty.Load()
		}
		large := s.Err() == nil && !s.dirty.Load() && s.buffered() > idleBuffersMax
		s.pinned.Done()
		if large && evict != nil {
			// A store that is in use may be evicted next time.
			left = !evict(s) || left
		}
	}
	return left
}

// pinAll returns the open stores. Close of a store waits until pinned.Done is called
// for it.
func (p *Pool) pinAll() []*Store {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*Store, 0, len(p.open))
	for _, s := range p.open {
		if s != nil && !s.closing {
			s.pinned.Add(1)
			all = append(all, s)
		}
	}
	return all
}

// awaitUnpinned prevents new pins of the store and waits for the end of existing ones.
func (s *Store) awaitUnpinned() {
	s.pool.mu.Lock()
	s.closing = true
	s.pool.mu.Unlock()
	s.pinned.Wait()
}
