package storage

import (
	"errors"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// sweeper removes the rows of posting lists that have become empty. A merge cannot do
// so: it may not see the rows below, and Pebble v2.1 loses its position in a compaction
// when a merger deletes a row (cockroachdb/pebble issue 6168). So an empty chunk stays
// as a row of one byte. Each reader and merge that meets one leaves a hint here, and
// the store occasionally deletes the hinted rows that are still empty. The only effect
// is on disk space.
type sweeper struct {
	mu    sync.Mutex
	keys  []string // rows that were seen to be empty
	known map[string]struct{}
}

const (
	// sweepBatch is the number of hints of one sweep.
	sweepBatch = 512
	// sweepTime is how long writers wait for a sweep at a time. A row takes a microsecond,
	// or twenty if many tables are not compacted yet.
	sweepTime = 500 * time.Microsecond
	// sweepMax is how many hints are kept. Others are dropped: the next reader of the row
	// leaves one again.
	sweepMax = 16 << 10
)

// hint records an empty row.
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

// due reports whether there are enough hints for a sweep.
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

// back returns hints that were not used.
func (w *sweeper) back(keys []string) {
	for _, key := range keys {
		w.hint([]byte(key))
	}
}

// sweep deletes the hinted rows that are still empty. It ends early after the time
// most; zero is unlimited. Writers wait, so no number is added to a row between the
// read and the deletion. It does not sync: a crash brings back only empty rows.
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

// sweepAll sweeps until no hints are left, before the store becomes quiet.
func (s *Store) sweepAll() {
	for range sweepMax / sweepBatch {
		if err := s.sweep(0); err != nil {
			s.pool.options.Logger.Debug("empty posting rows not swept", "store", s.dir, "err", err)
			return
		}
	}
}
