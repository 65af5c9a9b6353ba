package storage

import (
	"sync/atomic"
	"time"
)

// fragmentedAfter is how long no write must reach a fragmented store before it is
// flushed; the flush comes up to as much later.
const fragmentedAfter = 200 * time.Millisecond

// fragmented is the part of a [Store] that notes when a posting row was read in many
// pieces.
//
// Each document adds a piece to the row of each of its terms. Each reader of a row
// merges its pieces, until a flush does so permanently; for a term that thousands of
// new documents share this takes milliseconds. Without more, most clients that write
// much and then read would pay for it until the store is idle. So a store in which such
// a row was read is flushed as soon as no write arrives for a moment. A store that is
// written to continuously is not: its buffer fills soon, and small tables cost more
// than they save.
type fragmented struct {
	isFragmented atomic.Bool  // a row was read in many pieces since the last flush for that reason
	rewriting    atomic.Int32 // flushes and compactions in progress, which merge rows too
}

// noteFragmented notes that a row came in many pieces. The merger calls it for readers,
// and for flushes and compactions, which do not count.
func (s *Store) noteFragmented() {
	if s.rewriting.Load() > 0 || s.isFragmented.Load() || s.isFragmented.Swap(true) {
		return
	}
	s.writtenSinceRead.Store(false)
	s.pool.fragmentedFlush.schedule()
}

// flushFragmented flushes the fragmented stores that no write has reached since its last
// call, and reports whether others are left.
func (p *Pool) flushFragmented() (left bool) {
	for _, s := range p.pinAll() {
		switch {
		case !s.isFragmented.Load():
		case s.writtenSinceRead.Swap(false):
			left = true
		default:
			s.isFragmented.Store(false)
			if err := s.Flush(); err != nil {
				p.options.Logger.Debug("fragmented store not flushed", "store", s.dir, "err", err)
			}
		}
		s.pinned.Done()
	}
	return left
}
