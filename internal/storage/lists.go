package storage

import (
	"bytes"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Lists walks over the posting lists of a range, list by list in the order of
// their keys: for grouping, distinct values and order. It belongs to one
// goroutine. Moves report whether it stands on a list; after false, ask Err.
// All lists of the range must be of one family, in which no key is the
// beginning of another.
type Lists struct {
	rows    *pebble.Iterator
	sweeper *sweeper
	err     error
	low     []byte
	high    []byte
	key     []byte // of the list, without a chunk
	seek    []byte
	valid   bool
	moved   bool // rows stands on a row of another list, which is the next one
}

// Lists returns the lists with low <= key < high, keys without chunks.
func (s *Snapshot) Lists(low, high []byte) *Lists {
	l := &Lists{sweeper: s.sweeper, low: bytes.Clone(low), high: bytes.Clone(high)}
	if len(low) == 0 || bytes.Compare(low, high) >= 0 {
		return l
	}
	l.rows, l.err = s.rows.NewIter(&pebble.IterOptions{LowerBound: l.low, UpperBound: successor(l.low[:1])})
	return l
}

// First moves to the first list.
func (l *Lists) First() bool {
	return l.rows != nil && l.settle(l.rows.SeekGE(l.low), false)
}

// Last moves to the last list.
func (l *Lists) Last() bool { return l.rows != nil && l.settle(l.rows.SeekLT(l.high), true) }

// SeekGE moves to the first list whose key is key or above.
func (l *Lists) SeekGE(key []byte) bool {
	if bytes.Compare(key, l.low) < 0 {
		key = l.low
	}
	return l.rows != nil && l.settle(l.rows.SeekGE(key), false)
}

// Next moves to the next list.
func (l *Lists) Next() bool {
	if !l.valid {
		return false
	}
	if l.moved {
		return l.settle(l.rows.Valid(), false)
	}
	// Most lists have one row or few.
	if ok := l.rows.Next(); !ok || !l.same() {
		return l.settle(ok, false)
	}
	l.seek = appendChunk(append(l.seek[:0], l.key...), chunkLast)
	ok := l.rows.SeekGE(l.seek)
	if ok && l.same() {
		ok = l.rows.Next()
	}
	return l.settle(ok, false)
}

// Prev moves to the list before.
func (l *Lists) Prev() bool {
	return l.valid && l.settle(l.rows.SeekLT(l.key), true)
}

// same reports whether the current row is one of the current list.
func (l *Lists) same() bool {
	list, _, err := cutChunk(l.rows.Key())
	return err == nil && bytes.Equal(list, l.key)
}

// settle takes the list of the row that the last move found, passing by rows
// in which nothing is left. Going backward that row is the list's last.
func (l *Lists) settle(ok, backward bool) bool {
	l.valid, l.moved = false, false
	for ; ok; ok = l.step(backward) {
		list, _, err := cutChunk(l.rows.Key())
		if err != nil {
			l.err = err
			return false
		}
		// Bounds are of lists, so a row beyond them may still be in range.
		above, below := bytes.Compare(list, l.high) >= 0, bytes.Compare(list, l.low) < 0
		if above && !backward || below && backward {
			return false
		}
		if above || below {
			continue
		}
		value, err := l.rows.ValueAndErr()
		if err != nil {
			l.err = err
			return false
		}
		if isEmptyPosting(value) {
			l.sweeper.hint(l.rows.Key())
			continue
		}
		l.key = append(l.key[:0], list...)
		l.valid = true
		return true
	}
	return false
}

func (l *Lists) step(backward bool) bool {
	if backward {
		return l.rows.Prev()
	}
	return l.rows.Next()
}

// Valid reports whether there is a current list.
func (l *Lists) Valid() bool { return l.valid }

// Key returns the key of the current list, good until the next move.
func (l *Lists) Key() []byte { return l.key }

// Count returns how many numbers the current list has. It reads all of the
// list, and Next is free afterwards.
func (l *Lists) Count() (int64, error) {
	if !l.valid {
		return 0, l.Err()
	}
	total := int64(0)
	for ok := l.rows.SeekGE(l.key); ok && l.same(); ok = l.rows.Next() {
		value, err := l.rows.ValueAndErr()
		if err != nil {
			l.err = err
			return 0, l.Err()
		}
		v, err := readerView(value)
		if err != nil {
			l.err = err
			return 0, l.Err()
		}
		total += int64(v.size())
	}
	l.moved = true
	return total, l.Err()
}

// Err returns what ended the walk early, nil at an ordinary end.
func (l *Lists) Err() error {
	err := l.err
	if err == nil && l.rows != nil {
		err = l.rows.Error()
	}
	if err != nil {
		return fmt.Errorf("walk over posting lists: %w", explain(err))
	}
	return nil
}

// Close ends the walk and returns what Err would.
func (l *Lists) Close() error {
	err := l.Err()
	if l.rows != nil {
		closeErr := l.rows.Close()
		l.rows, l.valid = nil, false
		if err == nil && closeErr != nil {
			err = fmt.Errorf("walk over posting lists: %w", explain(closeErr))
		}
	}
	return err
}
