package storage

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// A store collects what is written to it in a write buffer, and writes full ones to
// tables. Pebble gives a store's first buffer 256 KB and each one the double of the
// one before, up to [Options.MemTableBytes], and never makes them smaller again. It
// keeps one that was flushed for the next turn, and knows nothing of other stores:
// left to it, a hundred busy ones come to gigabytes.
//
// There is one way to keep a buffer from being followed by a larger one: to flush it
// while less than half of it is used. So whether a buffer may be used up is decided
// when it is nearly half full, by the budget that all stores of the pool share.

const (
	// bufferFirst is the size of a store's first buffer.
	bufferFirst = 256 << 10
	// bufferFree is what the buffers of each store may take without being counted:
	// one of the first size in use, and one for later.
	bufferFree = 2 * bufferFirst
	// bufferHalf is how much of a buffer is used when it is decided about, in parts
	// of a hundred: less than the half by what the estimate may be wrong.
	bufferHalf = 44
	// budgetShare is the part of what is left of the budget that one store may take.
	// So there is always something left for one that becomes busy later, and many
	// that are busy together get about the same.
	budgetShare = 4
	// rowBytes is what a buffer takes for a row besides its key and value, on average,
	// less the three bytes that a batch takes.
	rowBytes = 48
)

// budget is what the write buffers of all stores of a pool take together, without
// bufferFree of each.
type budget struct {
	limit int64

	mu sync.Mutex

	taken int64
}

// claim makes the part of one store larger, if there is enough left for that.
func (b *budget) claim(from, to int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if to > from && to > (b.limit-(b.taken-from))/budgetShare {
		return false
	}
	b.taken += to - from
	return true
}

// change takes note of what the part of one store has become.
func (b *budget) change(from, to int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken += to - from
}

// over reports whether more is taken than there should be.
func (b *budget) over() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.taken > b.limit
}

// buffers are the write buffers of a store, as the store sees them.
//
// Pebble takes them out of the block cache, so that eight busy stores would leave
// nothing of a cache of 128 MB, and each read would load and unpack its blocks
// again. What it takes is given back: the buffers come on top of the cache.
type buffers struct {
	budget *budget
	cache  *pebble.Cache
	most   int64 // how large one may grow, in bytes

	changed atomic.Bool  // one was begun or flushed since they were settled last
	begun   atomic.Int64 // how many were

	mu sync.Mutex

	settled  int64           // begun, when they were settled last
	taken    int64           // bytes that all of them took then
	waiting  bool            // some of them waited to be flushed then
	counted  int64           // the store's part of the budget
	size     int64           // of the one in use, in bytes, as far as is known
	used     int64           // of it, about
	last     int64           // by the last batch
	whole    bool            // it may be used up, and be followed by a larger one
	flushing <-chan struct{} // ends with the flush that was asked for last; nil before
	takeBack func()          // ends what was given back to the block cache; nil when nothing is
}

// begin takes the store's buffers under the pool's budget.
func (q *buffers) begin(p *Pool) {
	q.budget, q.cache, q.most = &p.budget, p.cache, int64(p.options.MemTableBytes)
}

// buffered returns what the buffers of the store take, in bytes.
func (s *Store) buffered() int64 {
	s.buffers.mu.Lock()
	defer s.buffers.mu.Unlock()
	return s.buffers.taken
}

// room sees to it that a batch finds room without the buffers taking more than they
// may. It waits for a flush when the one before is still under way, or when the pool
// is over its budget.
func (s *Store) room(b *Batch) error {
	q := &s.buffers
	before, flush, wait := q.fill(int64(b.Len()) + rowBytes*int64(b.Rows()))
	if !flush {
		return nil
	}
	if before != nil {
		<-before
	}
	flushed, err := s.db.AsyncFlush()
	if err != nil {
		return fmt.Errorf("flush store %s: %w", s.dir, err)
	}
	if wait {
		<-flushed
	}
	q.flushed(flushed)
	s.settle()
	return nil
}

// fill counts a batch, and tells whether to flush before it is applied: behind the
// flush before that, and waiting for its end.
func (q *buffers) fill(batch int64) (before <-chan struct{}, flush, wait bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last = batch
	q.used += batch
	wait = q.waiting && q.budget.over()
	if !wait && (q.whole || q.used*100 <= q.size*bufferHalf || q.grow()) {
		return nil, false, false
	}
	q.used = batch
	return q.flushing, true, wait
}

// grow asks for a buffer of twice the size, and another for later. The caller holds mu.
func (q *buffers) grow() bool {
	if q.size < q.most {
		wanted := 2*min(2*q.size, q.most) - bufferFree
		if wanted > q.counted && !q.budget.claim(q.counted, wanted) {
			return false
		}
		q.counted = max(q.counted, wanted)
	}
	q.whole = true
	return true
}

// flushed takes note of a flush that was asked for: the next buffer has the size of
// the one before.
func (q *buffers) flushed(end <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.flushing = end
	q.settled = q.begun.Load()
	q.whole = false
}

// settle looks at what the buffers have become.
func (s *Store) settle() {
	s.buffers.changed.Store(false)
	begun := s.buffers.begun.Load()
	m := s.db.Metrics().MemTable
	s.buffers.settle(begun, int64(m.Size), int64(m.Size+m.ZombieSize), m.Count)
}

// settle takes the number of buffers that were begun so far, the bytes and the number
// of those that are in use or wait, and the bytes of all.
func (q *buffers) settle(begun, size, all, count int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if begun > q.settled {
		q.settled, q.used, q.whole = begun, q.last, false
		q.size = min(2*q.size, q.most)
	}
	if q.waiting = count > 1; !q.waiting {
		q.size = size // There is no other way to learn it.
	}
	q.size = max(q.size, min(bufferFirst, q.most))
	counted := max(all, 2*q.size) - bufferFree
	if q.whole {
		counted = max(counted, q.counted)
	}
	q.count(max(0, counted))
	q.give(all)
}

// count takes note of the store's part of the budget. The caller holds mu.
func (q *buffers) count(counted int64) {
	q.budget.change(q.counted, counted)
	q.counted = counted
}

// give gives the block cache back what the buffers take, in place of what was given
// back before. More than two buffers only wait for a slow disk, and what they take is
// left to them. The caller holds mu.
func (q *buffers) give(taken int64) {
	before := q.takeBack
	q.taken, q.takeBack = taken, nil
	if given := min(taken, 2*q.most); given > 0 {
		q.takeBack = q.cache.Reserve(-int(given))
	}
	// In this order the cache never shrinks in between.
	if before != nil {
		before()
	}
}

// end gives everything back: the store is closed.
func (q *buffers) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.count(0)
	q.give(0)
}
