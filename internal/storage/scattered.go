package storage

import (
	"sync/atomic"
	"time"
)

// gatherAfter is how long a scattered store is not written to until it is flushed, to
// within as long again.
const gatherAfter = 200 * time.Millisecond

// scattered is the part of a [Store] whose posting rows were read in very many pieces.
//
// Each document adds a piece to the row of each of its terms, and who reads a row puts
// its pieces together, each time, until a flush has done it for good: a term that
// thousands of new documents share takes milliseconds. Most who write much and then
// read would wait for that in vain until the store is idle. So a store that was read
// in that state is flushed as soon as nobody has written for a moment. One that is
// written to all the time is not: its buffer fills soon, and small tables cost more
// than they save.
type scattered struct {
	seen      atomic.Bool  // a row was read in many pieces since the last flush for that
	gathering atomic.Int32 // flushes and compactions under way, which put rows together too
}

// scatter notes that a row came in many pieces. It is called by whoever reads it, and
// by flushes and compactions, which are none of a reader's business.
func (s *Store) scatter() {
	if s.gathering.Load() > 0 || s.seen.Load() || s.seen.Swap(true) {
		return
	}
	s.stirred.Store(false)
	s.pool.gather.begin()
}

// flushScattered flushes the stores that are scattered and were not written to since
// the last look, and reports whether others are left.
func (p *Pool) flushScattered() (left bool) {
	for _, s := range p.borrow() {
		switch {
		case !s.seen.Load():
		case s.stirred.Swap(false):
			left = true
		default:
			s.seen.Store(false)
			if err := s.Flush(); err != nil {
				p.options.Logger.Debug("scattered store not flushed", "store", s.dir, "err", err)
			}
		}
		s.use.Done()
	}
	return left
}
