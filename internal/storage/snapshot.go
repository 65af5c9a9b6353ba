package storage

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// Snapshot is an immutable view of a store, safe for concurrent use. Its iterators are
// not.
type Snapshot struct {
	at      *pebble.Snapshot
	db      *pebble.DB
	pool    *Pool
	tables  *atomic.Uint64 // of the store
	sweeper *sweeper
	spareOf
}

// Get appends the value of key to dst and reports whether the key exists.
func (s *Snapshot) Get(dst, key []byte) (value []byte, found bool, err error) {
	found, err = s.View(key, func(value []byte) error {
		dst = append(dst, value...)
		return nil
	})
	return dst, found, err
}

// View calls use with the value of key, if the key exists, and reports whether it does.
// The value is valid until use returns. View returns the error of use.
func (s *Snapshot) View(key []byte, use func(value []byte) error) (found bool, err error) {
	if s.views.Load() < viewsUntilSpare {
		s.views.Add(1)
		return s.viewOnce(key, use)
	}
	r, err := s.take(nil, nil)
	if err != nil {
		return false, fmt.Errorf("read row: %w", explain(err))
	}
	if !r.SeekPrefixGE(key) {
		if err := r.put(); err != nil {
			return false, fmt.Errorf("read row: %w", explain(err))
		}
		return false, nil
	}
	value, err := r.ValueAndErr()
	if err != nil {
		return false, errors.Join(fmt.Errorf("read row: %w", explain(err)), r.Close())
	}
	err = use(value)
	return true, errors.Join(err, r.put())
}

// Rows looks up rows of a snapshot one after another with one iterator. One goroutine
// uses it. Close it before the snapshot.
type Rows struct {
	snapshot *Snapshot
	rows     *reusableIter // nil while it is in use, and before the first lookup
}

// Rows returns a Rows for several lookups, each faster than [Snapshot.View]. Do not
// copy it after its first use.
func (s *Snapshot) Rows() Rows { return Rows{snapshot: s} }

// View is [Snapshot.View]. use may call it as well.
func (r *Rows) View(key []byte, use func(value []byte) error) (found bool, err error) {
	rows := r.rows
	if r.rows = nil; rows == nil {
		if rows, err = r.snapshot.take(nil, nil); err != nil {
			return false, fmt.Errorf("read row: %w", explain(err))
		}
	}
	if !rows.SeekPrefixGE(key) {
		if err := rows.Error(); err != nil {
			return false, errors.Join(fmt.Errorf("read row: %w", explain(err)), rows.Close())
		}
		return false, r.spare(rows)
	}
	value, err := rows.ValueAndErr()
	if err != nil {
		return false, errors.Join(fmt.Errorf("read row: %w", explain(err)), rows.Close())
	}
	err = use(value)
	return true, errors.Join(err, r.spare(rows))
}

// spare keeps an iterator for the next lookup.
func (r *Rows) spare(rows *reusableIter) error {
	if r.rows == nil {
		r.rows = rows
		return nil
	}
	return rows.put()
}

// Close ends the lookups.
func (r *Rows) Close() error {
	if r.rows == nil {
		return nil
	}
	err := r.rows.put()
	r.rows = nil
	return err
}

// viewOnce is View without a reusable iterator.
func (s *Snapshot) viewOnce(key []byte, use func(value []byte) error) (found bool, err error) {
	value, closer, err := s.at.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read row: %w", explain(err))
	}
	err = use(value)
	return true, errors.Join(err, closer.Close())
}

// Has reports whether there is a row with this key.
func (s *Snapshot) Has(key []byte) (bool, error) {
	return s.View(key, func([]byte) error { return nil })
}

// Iter returns an iterator over the rows with low <= key < high; a nil bound is open.
// It has no position until it is moved. Close it before the snapshot.
func (s *Snapshot) Iter(low, high []byte) *Iterator {
	rows, err := s.take(low, high)
	return &Iterator{rows: rows, err: err}
}

// EstimatePostings estimates how many bytes the posting lists with low <= key < high
// take on the disk, and whether they are dense: if so each 8 KB have up to 65,536
// numbers, otherwise few. It describes the current tables of the store instead of the
// snapshot, without what was written since the last flush. It ignores errors, which
// readers of the lists will meet.
func (s *Snapshot) EstimatePostings(low, high []byte) (stored uint64, dense bool) {
	if bytes.Compare(low, high) >= 0 {
		return 0, false
	}
	stored, err := s.db.EstimateDiskUsage(low, high)
	if err != nil || stored < 4*bitmapBytes {
		return stored, false
	}
	rows, err := s.take(nil, nil)
	if err != nil {
		return stored, false
	}
	if rows.SeekGEWithLimit(low, high) == pebble.IterValid {
		value, err := rows.ValueAndErr()
		dense = err == nil && len(value) >= bitmapBytes
	}
	_ = rows.put() // Readers of the lists meet the error again.
	return stored, dense
}

// Close releases the snapshot, which must not be used afterwards.
func (s *Snapshot) Close() error {
	s.pool.spares.drop(s)
	return s.at.Close()
}

// Iterator iterates over rows in key order. One goroutine uses it. Moves report whether
// there is a current row; after false call Err.
type Iterator struct {
	rows *reusableIter // nil if it could not be created
	err  error
}

// First moves to the first row.
func (i *Iterator) First() bool { return i.rows != nil && i.rows.First() }

// Last moves to the last row.
func (i *Iterator) Last() bool { return i.rows != nil && i.rows.Last() }

// SeekGE moves to the first row whose key is key or higher.
func (i *Iterator) SeekGE(key []byte) bool { return i.rows != nil && i.rows.SeekGE(key) }

// SeekLT moves to the last row whose key is lower than key.
func (i *Iterator) SeekLT(key []byte) bool { return i.rows != nil && i.rows.SeekLT(key) }

// Next moves to the next row.
func (i *Iterator) Next() bool { return i.rows != nil && i.rows.Next() }

// Prev moves to the previous row.
func (i *Iterator) Prev() bool { return i.rows != nil && i.rows.Prev() }

// Valid reports whether there is a current row.
func (i *Iterator) Valid() bool { return i.rows != nil && i.rows.Valid() }

// Key returns the key of the current row, valid until the next move.
func (i *Iterator) Key() []byte { return i.rows.Key() }

// Value returns the value of the current row, valid until the next move. It is nil if
// it cannot be read; then Err returns why.
func (i *Iterator) Value() []byte {
	value, err := i.rows.ValueAndErr()
	if err != nil && i.err == nil {
		i.err = err
	}
	return value
}

// Err returns the error that ended the iteration, nil at its normal end.
func (i *Iterator) Err() error {
	err := i.err
	if err == nil && i.rows != nil {
		err = i.rows.Error()
	}
	if err != nil {
		return fmt.Errorf("scan rows: %w", explain(err))
	}
	return nil
}

// Close closes the iterator and returns the error that Err returns.
func (i *Iterator) Close() error {
	err := i.Err()
	if i.rows == nil {
		return err
	}
	closeErr := i.rows.put()
	i.rows = nil
	if err == nil && closeErr != nil {
		err = fmt.Errorf("scan rows: %w", explain(closeErr))
	}
	i.err = err
	return err
}
