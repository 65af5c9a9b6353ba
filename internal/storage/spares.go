package storage

import (
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// reusableIter is an iterator of Pebble's that is used repeatedly. At its first move, a
// new iterator opens a table of each level, which takes several times as long as the
// move itself. A reused one finds a row in about a microsecond.
type reusableIter struct {
	*pebble.Iterator
	snapshot *Snapshot
	tables   uint64 // Store.tables when it was made
	bounded  bool   // it has bounds

	// Guarded by spares.mu, and set while the iterator is spare.
	newer, older *reusableIter // in the pool
	below        *reusableIter // in the snapshot
}

// spares are the iterators of a pool's stores that are not in use.
//
// Each keeps the write buffers, tables and blocks that it reads in memory or on the
// disk, even those that a flush or a compaction has replaced. So their number is small,
// and the least recently used one is closed for a new one.
type spares struct {
	mu sync.Mutex

	newest, oldest *reusableIter
	count          int
}

const (
	// sparesMax is how many iterators may be spare in a pool: enough for the busy
	// partitions, and tens of megabytes at most.
	sparesMax = 128
	// sparesOfOne is how many may be spare in a snapshot.
	sparesOfOne = 8
	// viewsUntilSpare is how many rows of a snapshot are looked up without a reusable
	// iterator. A snapshot that lives only until the next write needs none.
	viewsUntilSpare = 4
)

// take returns an iterator over the rows with low <= key < high; a nil bound is open.
// It has no position. Call put after use.
func (s *Snapshot) take(low, high []byte) (*reusableIter, error) {
	r := s.pool.spares.pop(s)
	if r != nil && r.tables != s.tables.Load() {
		_ = r.Close() // It had no error, and is not used any more.
		r = nil
	}
	if r == nil {
		tables := s.tables.Load()
		made, err := s.at.NewIter(&pebble.IterOptions{LowerBound: low, UpperBound: high, UseL6Filters: true})
		if err != nil {
			return nil, err
		}
		return &reusableIter{Iterator: made, snapshot: s, tables: tables, bounded: low != nil || high != nil}, nil
	}
	if r.bounded || low != nil || high != nil {
		r.SetBounds(low, high)
		r.bounded = low != nil || high != nil
	}
	return r, nil
}

// put makes an iterator spare. It closes it if there are enough or it has met an error,
// and returns that error.
func (r *reusableIter) put() error {
	if r.Error() != nil || !r.snapshot.pool.spares.push(r) {
		return r.Close()
	}
	return nil
}

// pop takes the most recently used spare iterator of a snapshot, nil if there is none.
func (p *spares) pop(s *Snapshot) *reusableIter {
	if s.spare.Load() == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	r := s.spare.Load()
	if r != nil {
		p.unlink(r)
	}
	return r
}

// push makes an iterator spare, unless its snapshot has enough.
func (p *spares) push(r *reusableIter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := r.snapshot
	if s.spares == sparesOfOne {
		return false
	}
	r.below = s.spare.Load()
	s.spare.Store(r)
	s.spares++
	if r.older = p.newest; r.older != nil {
		r.older.newer = r
	} else {
		p.oldest = r
	}
	p.newest = r
	if p.count++; p.count > sparesMax {
		// Under the lock, because its snapshot may be about to be closed.
		last := p.oldest
		p.unlink(last)
		_ = last.Close() // It had no error, and is not used any more.
	}
	return true
}

// unlink removes an iterator from both lists. The caller holds p.mu.
func (p *spares) unlink(r *reusableIter) {
	if r.newer != nil {
		r.newer.older = r.older
	} else {
		p.newest = r.older
	}
	if r.older != nil {
		r.older.newer = r.newer
	} else {
		p.oldest = r.newer
	}
	p.count--
	s := r.snapshot
	s.spares--
	if s.spare.Load() == r {
		s.spare.Store(r.below)
	} else {
		above := s.spare.Load()
		for above.below != r {
			above = above.below
		}
		above.below = r.below
	}
	r.newer, r.older, r.below = nil, nil, nil
}

// drop closes the spare iterators of a snapshot.
func (p *spares) drop(s *Snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for r := s.spare.Load(); r != nil; r = s.spare.Load() {
		p.unlink(r)
		_ = r.Close() // It had no error, and is not used any more.
	}
}

// spareOf is the part of a [Snapshot] that belongs to spares.
type spareOf struct {
	spare  atomic.Pointer[reusableIter] // the most recently used one; written under spares.mu
	spares int                          // number of spare iterators; guarded by spares.mu
	views  atomic.Int32                 // rows looked up without an iterator, up to viewsUntilSpare
}
