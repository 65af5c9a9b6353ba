package storage

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// Snapshot is an unchanging view of a store. It may be used from several
// goroutines; the iterators it makes may not.
type Snapshot struct {
	at      *pebble.Snapshot
	db      *pebble.DB
	pool    *Pool
	tables  *atomic.Uint64 // of the store
	sweeper *sweeper
	spareOf
}

// Get appends the value of key to dst and reports whether there is one.
func (s *Snapshot) Get(dst, key []byte) (value []byte, found bool, err error) {
	found, err = s.View(key, func(value []byte) error {
		dst = append(dst, value...)
		return nil
	})
	return dst, found, err
}

// View calls use with the value of key, if there is one, and reports whether
// there was. The value is good until use returns, whose error it passes on.
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

// Rows looks rows of a snapshot up, one after the other, with one iterator. It belongs
// to one goroutine. Close it before the snapshot.
type Rows struct {
	snapshot *Snapshot
	rows     *finder // nil while it is in use, and before the first look
}

// Rows returns what looks several rows up in less time than [Snapshot.View] takes. It is
// not copied once it is used.
func (s *Snapshot) Rows() Rows { return Rows{snapshot: s} }

// View is [Snapshot.View]. It may be called by use as well.
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

// spare keeps an iterator for the next look.
func (r *Rows) spare(rows *finder) error {
	if r.rows == nil {
		r.rows = rows
		return nil
	}
	return rows.put()
}

// Close ends the look-ups.
func (r *Rows) Close() error {
	if r.rows == nil {
		return nil
	}
	err := r.rows.put()
	r.rows = nil
	return err
}

// viewOnce is View without an iterator to be used again.
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

// Iter returns an iterator over the rows with low <= key < high; nil leaves an
// end open. It stands nowhere until it is moved. Close it before the snapshot.
func (s *Snapshot) Iter(low, high []byte) *Iterator {
	rows, err := s.take(low, high)
	return &Iterator{rows: rows, err: err}
}

// Weigh returns about how many bytes the posting lists with low <= key < high take on
// the disk, and whether they are dense: then 8 KB of that are up to 65,536 numbers, and
// otherwise few. What was written since the last flush is not among it, and the state
// is that of the store and not of the snapshot. An error counts as nothing: whoever
// reads the lists meets it.
func (s *Snapshot) Weigh(low, high []byte) (stored uint64, dense bool) {
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
	_ = rows.put() // An error comes again when the lists are read.
	return stored, dense
}

// Close ends the snapshot. Nobody may use it any more.
func (s *Snapshot) Close() error {
	s.pool.spares.drop(s)
	return s.at.Close()
}

// Iterator walks over rows in key order. It belongs to one goroutine. Moves
// report whether it stands on a row; after false, ask Err.
type Iterator struct {
	rows *finder // nil when it could not be made
	err  error
}

// First moves to the first row.
func (i *Iterator) First() bool { return i.rows != nil && i.rows.First() }

// Last moves to the last row.
func (i *Iterator) Last() bool { return i.rows != nil && i.rows.Last() }

// SeekGE moves to the first row whose key is key or above.
func (i *Iterator) SeekGE(key []byte) bool { return i.rows != nil && i.rows.SeekGE(key) }

// SeekLT moves to the last row whose key is below key.
func (i *Iterator) SeekLT(key []byte) bool { return i.rows != nil && i.rows.SeekLT(key) }

// Next moves to the next row.
func (i *Iterator) Next() bool { return i.rows != nil && i.rows.Next() }

// Prev moves to the row before.
func (i *Iterator) Prev() bool { return i.rows != nil && i.rows.Prev() }

// Valid reports whether the iterator stands on a row.
func (i *Iterator) Valid() bool { return i.rows != nil && i.rows.Valid() }

// Key returns the key of the row, good until the next move.
func (i *Iterator) Key() []byte { return i.rows.Key() }

// Value returns the value of the row, good until the next move; nil when it
// cannot be read, which Err then tells.
func (i *Iterator) Value() []byte {
	value, err := i.rows.ValueAndErr()
	if err != nil && i.err == nil {
		i.err = err
	}
	return value
}

// Err returns what went wrong, nil at an ordinary end.
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

// Close ends the iterator and returns what Err would.
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
