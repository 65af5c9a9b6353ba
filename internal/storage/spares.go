package storage

import (
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// finder is an iterator of Pebble's that is used again and again. A fresh one opens
// a table of each level at its first move, which takes several times as long as
// the move itself; one that is there finds a row in about a microsecond.
type finder struct {
	*pebble.Iterator
	snapshot *Snapshot
	tables   uint64 // the store's count of tables' changes when it was made
	bounded  bool   // SetBounds was called

	// Guarded by spares.mu, set while it is spare.
	newer, older *finder // among all of the pool
	below        *finder // among those of the snapshot
}

// spares are the iterators of a pool's stores that nobody uses at the moment.
//
// Each keeps the write buffers and tables that it reads, even those that a flush
// or a compaction has replaced, and the blocks that it stands on. So there are
// few, and the one that was used the longest time ago makes room for another.
type spares struct {
	mu sync.Mutex

	newest, oldest *finder
	count          int
}

const (
	// sparesMax is how many iterators are spare in a pool: enough for the
	// partitions that are busy, and tens of megabytes at most.
	sparesMax = 128
	// sparesOfOne is how many are spare in a snapshot.
	sparesOfOne = 8
	// viewsUntilSpare is how many rows of a snapshot are looked up without an
	// iterator. Snapshots that live from one write to the next need none.
	viewsUntilSpare = 4
)

// take returns an iterator over the rows with low <= key < high, nil for no
// bound. It stands nowhere. Put it back after use.
func (s *Snapshot) take(low, high []byte) (*finder, error) {
	r := s.pool.spares.pop(s)
	if r != nil && r.tables != s.tables.Load() {
		_ = r.Close() // It had no error, and was to be used no more.
		r = nil
	}
	if r == nil {
		tables := s.tables.Load()
		made, err := s.at.NewIter(&pebble.IterOptions{LowerBound: low, UpperBound: high, UseL6Filters: true})
		if err != nil {
			return nil, err
		}
		return &finder{Iterator: made, snapshot: s, tables: tables, bounded: low != nil || high != nil}, nil
	}
	if r.bounded || low != nil || high != nil {
		r.SetBounds(low, high)
		r.bounded = low != nil || high != nil
	}
	return r, nil
}

// put makes an iterator spare, or closes it when there are enough of them or it
// has met an error, which it returns.
func (r *finder) put() error {
	if r.Error() != nil || !r.snapshot.pool.spares.push(r) {
		return r.Close()
	}
	return nil
}

// pop takes the spare iterator of a snapshot that was used last; nil when there
// is none.
func (p *spares) pop(s *Snapshot) *finder {
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

// push keeps an iterator, unless its snapshot has enough.
func (p *spares) push(r *finder) bool {
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
		// Under the lock: its snapshot may be about to end.
		last := p.oldest
		p.unlink(last)
		_ = last.Close() // It had no error, and was to be used no more.
	}
	return true
}

// unlink takes an iterator out of both lists. p.mu is held.
func (p *spares) unlink(r *finder) {
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
		_ = r.Close() // It had no error, and was to be used no more.
	}
}

// spareOf is the part of a [Snapshot] that belongs to spares.
type spareOf struct {
	spare  atomic.Pointer[finder] // the one used last; written under spares.mu
	spares int                    // how many there are; guarded by spares.mu
	views  atomic.Int32           // rows looked up without an iterator, up to viewsUntilSpare
}
