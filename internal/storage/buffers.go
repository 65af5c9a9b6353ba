package storage

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// A store collects writes in a write buffer and writes full buffers to tables. Pebble
// gives a store a first buffer of 256 KB, makes each buffer twice as large as the one
// before, up to [Options.MemTableBytes], and never makes them smaller. It keeps one
// flushed buffer for later use, and does not consider other stores: a hundred busy
// stores would take gigabytes.
//
// Only a flush while less than half of a buffer is used prevents a larger next one. So
// when a buffer is nearly half full, the budget that all stores of the pool share
// decides whether it may fill up.

const (
	// bufferFirst is the size of a store's first buffer.
	bufferFirst = 256 << 10
	// bufferFree is the memory of each store's buffers that does not count: one of the
	// first size in use, and one for later use.
	bufferFree = 2 * bufferFirst
	// bufferHalf is the use of a buffer, in percent, at which the budget decides: half,
	// less the error of the estimate.
	bufferHalf = 44
	// budgetShare divides the rest of the budget: one store may take this fraction of
	// it. So some of the budget is left for stores that become busy later, and stores
	// that are busy at the same time get similar parts.
	budgetShare = 4
	// rowBytes is the average overhead of a row in a buffer, in addition to its key and
	// value, less the three bytes that a batch takes for it.
	rowBytes = 48
)

// budget limits the write buffers of all stores of a pool together, not counting
// bufferFree for each.
type budget struct {
	limit int64

	mu sync.Mutex

	taken int64
}

// claim increases the part of one store, if enough is left.
func (b *budget) claim(from, to int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if to > from && to > (b.limit-(b.taken-from))/budgetShare {
		return false
	}
	b.taken += to - from
	return true
}

// change records a new part of one store.
func (b *budget) change(from, to int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken += to - from
}

// over reports whether the limit is exceeded.
func (b *budget) over() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.taken > b.limit
}

// buffers tracks the write buffers of a store.
//
// Pebble charges them to the block cache. Eight busy stores would use up a cache of 128
// MB, and each read would load and decompress its blocks again. So the charge is
// returned to the cache: buffers are not part of it.
type buffers struct {
	budget *budget
	cache  *pebble.Cache
	most   int64 // largest size of one buffer, in bytes

	changed atomic.Bool  // a buffer was begun or flushed since the last settle
	begun   atomic.Int64 // number of buffers begun so far

	mu sync.Mutex

	settled  int64           // begun at the last settle
	taken    int64           // bytes of all buffers at the last settle
	waiting  bool            // buffers waited for a flush at the last settle
	counted  int64           // the store's part of the budget
	size     int64           // of the buffer in use, in bytes, as far as it is known
	used     int64           // estimated bytes used in it
	last     int64           // bytes of the last batch
	whole    bool            // it may fill up and be followed by a larger one
	flushing <-chan struct{} // closed at the end of the last requested flush; nil before
	takeBack func()          // revokes the return to the block cache; nil if there was none
}

// begin attaches the buffers to the pool's budget.
func (q *buffers) begin(p *Pool) {
	q.budget, q.cache, q.most = &p.budget, p.cache, int64(p.options.MemTableBytes)
}

// buffered returns how many bytes the buffers of the store take.
func (s *Store) buffered() int64 {
	s.buffers.mu.Lock()
	defer s.buffers.mu.Unlock()
	return s.buffers.taken
}

// room makes room for a batch within the budget. It waits for a flush if the previous
// one is still in progress or the pool is over its budget.
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

// fill counts a batch. It reports whether to flush before the batch is applied, which
// flush to wait for first, and whether to wait for the new one.
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

// grow asks the budget for a buffer of twice the size, and another for later use. The
// caller holds mu.
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

// flushed records a requested flush: the next buffer has the size of the current one.
func (q *buffers) flushed(end <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.flushing = end
	q.settled = q.begun.Load()
	q.whole = false
}

// settle updates the recorded state of the buffers.
func (s *Store) settle() {
	s.buffers.changed.Store(false)
	begun := s.buffers.begun.Load()
	m := s.db.Metrics().MemTable
	s.buffers.settle(begun, int64(m.Size), int64(m.Size+m.ZombieSize), m.Count)
}

// settle takes the number of buffers begun so far, the bytes and the number of those in
// use or waiting, and the bytes of all.
func (q *buffers) settle(begun, size, all, count int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if begun > q.settled {
		q.settled, q.used, q.whole = begun, q.last, false
		q.size = min(2*q.size, q.most)
	}
	if q.waiting = count > 1; !q.waiting {
		q.size = size // Only then does size tell how large the current one is.
	}
	q.size = max(q.size, min(bufferFirst, q.most))
	counted := max(all, 2*q.size) - bufferFree
	if q.whole {
		counted = max(counted, q.counted)
	}
	q.count(max(0, counted))
	q.give(all)
}

// count records the store's part of the budget. The caller holds mu.
func (q *buffers) count(counted int64) {
	q.budget.change(q.counted, counted)
	q.counted = counted
}

// give returns the charge of the buffers to the block cache, and replaces the previous
// return. If there are more than two buffers, the others wait for a slow disk, and
// their charge is not returned. The caller holds mu.
func (q *buffers) give(taken int64) {
	before := q.takeBack
	q.taken, q.takeBack = taken, nil
	if given := min(taken, 2*q.most); given > 0 {
		q.takeBack = q.cache.Reserve(-int(given))
	}
	// In this order the cache does not shrink in between.
	if before != nil {
		before()
	}
}

// end returns everything when the store is closed.
func (q *buffers) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.count(0)
	q.give(0)
}
