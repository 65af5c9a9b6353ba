package storage

import (
	"errors"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// sweeper removes the rows of posting lists that have become empty. A merge
// cannot do it: what it finds may lie above rows it does not see, and Pebble
// v2.1 loses its place in a compaction when a merger says that a row is gone
// (cockroachdb/pebble issue 6168). So an empty chunk stays as a row of one byte,
// everyone who meets it leaves a hint here, and now and then the store deletes
// those that still are empty. Nobody can tell the difference but by the space.
type sweeper struct {
	mu    sync.Mutex
	keys  []string // rows that were seen to be empty
	known map[string]struct{}
}

const (
	// sweepBatch is how many rows are swept at once.
	sweepBatch = 512
	// sweepTime is how long writers wait for a sweep at a time: a row takes a
	// microsecond, or twenty when many tables were not compacted yet.
	sweepTime = 500 * time.Microsecond
	// sweepMax is how many hints are kept. More are dropped: whoever reads the
	// row will leave one again.
	sweepMax = 16 << 10
)

// hint takes note of an empty row.
func (w *sweeper) hint(key []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.known[string(key)]; known || len(w.keys) >= sweepMax {
		return
	}
	if w.known == nil {
		w.known = map[string]struct{}{}
	}
	text := string(key)
	w.keys = append(w.keys, text)
	w.known[text] = struct{}{}
}

// due reports whether a sweep is worth its while.
func (w *sweeper) due() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.keys) >= sweepBatch
}

// take removes up to sweepBatch hints and returns them.
func (w *sweeper) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.keys), sweepBatch)
	keys := w.keys[:n]
	w.keys = w.keys[n:]
	for _, key := range keys {
		delete(w.known, key)
	}
	if len(w.keys) == 0 {
		w.keys, w.known = nil, nil
	}
	return keys
}

// back puts hints back that were not looked at.
func (w *sweeper) back(keys []string) {
	for _, key := range keys {
		w.hint([]byte(key))
	}
}

// sweep deletes rows of the hints that are still empty, and ends early when it has
// taken for as long as it may; zero is for ever. No writer is under way
// meanwhile, so nothing can be added to a row between the look and the
// deletion. It is not synced: what a crash undoes was empty.
func (s *Store) sweep(most time.Duration) error {
	keys := s.sweeper.take()
	if len(keys) == 0 {
		return nil
	}
	s.applying.Lock()
	defer s.applying.Unlock()
	b := s.db.NewBatch()
	began := time.Now()
	for i, key := range keys {
		if most > 0 && i%16 == 15 && time.Since(began) > most {
			s.sweeper.back(keys[i:])
			break
		}
		value, closer, err := s.db.Get([]byte(key))
		if errors.Is(err, pebble.ErrNotFound) {
			continue
		}
		if err != nil {
			return errors.Join(explain(err), b.Close())
		}
		if isEmptyPosting(value) {
			err = b.Delete([]byte(key), nil)
		}
		if err := errors.Join(err, closer.Close()); err != nil {
			return errors.Join(err, b.Close())
		}
	}
	if !b.Empty() {
		s.dirty.Store(true)
	}
	return errors.Join(s.db.Apply(b, pebble.NoSync), b.Close())
}

// sweepAll sweeps until no hints are left, before the store goes quiet.
func (s *Store) sweepAll() {
	for range sweepMax / sweepBatch {
		if err := s.sweep(0); err != nil {
			s.pool.options.Logger.Debug("empty posting rows not swept", "store", s.dir, "err", err)
			return
		}
	}
}
