package storage

import (
	"bytes"
	"fmt"
)

// Lists iterates over the posting lists of a range in key order: for grouping, distinct
// values and ordering. One goroutine uses it. Moves report whether there is a current
// list; after false call Err. All lists of the range must be of one family, in which no
// key is a prefix of another.
type Lists struct {
	rows    *reusableIter
	sweeper *sweeper
	err     error
	low     []byte
	high    []byte
	key     []byte // of the list, without a chunk
	seek    []byte
	valid   bool
	dir     direction // of the last move
	at      rowsAt    // where rows is

	// Returned by Numbers, and reused for each list.
	numbers Postings
	own     ownCursor
	within  numbersCursor // numbers is nil: no limit
	both    intersectCursor
}

// rowsAt is where the row iterator of a [Lists] is.
type rowsAt uint8

const (
	atFirst  rowsAt = iota // on the first row of the list that the last move met
	atInside               // on some row of the list
	atAfter                // on the row after the list, or after all rows
	atBefore               // on the row before the list, or before all rows
)

// Lists returns the posting lists with low <= key < high; keys have no chunks.
func (s *Snapshot) Lists(low, high []byte) *Lists {
	l := &Lists{sweeper: s.sweeper, low: bytes.Clone(low), high: bytes.Clone(high)}
	l.own.lists = l
	l.both.args = []cursor{&l.own, &l.within}
	if len(low) == 0 || bytes.Compare(low, high) >= 0 {
		return l
	}
	l.rows, l.err = s.take(l.low, successor(l.low[:1]))
	return l
}

// Within restricts Count and Numbers to the numbers of a set, from their next call on;
// nil ends that. The iterator still visits lists that have none of them.
func (l *Lists) Within(n *Numbers) { l.within.numbers = n }

// First moves to the first list.
func (l *Lists) First() bool {
	return l.rows != nil && l.enter(l.rows.SeekGE(l.low), forward)
}

// Last moves to the last list.
func (l *Lists) Last() bool { return l.rows != nil && l.enter(l.rows.SeekLT(l.high), backward) }

// SeekGE moves to the first list whose key is key or above.
func (l *Lists) SeekGE(key []byte) bool {
	if bytes.Compare(key, l.low) < 0 {
		key = l.low
	}
	return l.rows != nil && l.enter(l.rows.SeekGE(key), forward)
}

// SeekLE moves to the last list whose key is key or lower.
func (l *Lists) SeekLE(key []byte) bool {
	if bytes.Compare(key, l.high) >= 0 {
		return l.Last()
	}
	l.seek = append(append(l.seek[:0], key...), listEnd...)
	if l.rows == nil || !l.enter(l.rows.SeekLT(l.seek), backward) {
		return false
	}
	// If key is a prefix of lists, they are above it.
	return bytes.Compare(l.key, key) <= 0 || l.enter(l.rows.SeekLT(key), backward)
}

// Next moves to the next list.
func (l *Lists) Next() bool { return l.valid && l.move(forward, atAfter) }

// Prev moves to the previous list.
func (l *Lists) Prev() bool { return l.valid && l.move(backward, atBefore) }

// move moves from the current list to the next one in a direction. The row iterator is
// on that list already if it is at there.
func (l *Lists) move(d direction, there rowsAt) bool {
	var ok bool
	switch l.at {
	case there:
		ok = l.rows.Valid()
	case atFirst, atInside:
		// Most lists have one row or a few.
		if ok = step(l.rows, d); ok && l.same() {
			ok = l.leave(d)
		}
	default:
		ok = l.leave(d)
	}
	return l.enter(ok, d)
}

// step moves to the next row in a direction.
func step(r *reusableIter, d direction) bool {
	if d == backward {
		return r.Prev()
	}
	return r.Next()
}

// leave moves the row iterator beyond the current list.
func (l *Lists) leave(d direction) bool {
	if d == backward {
		return l.rows.SeekLT(l.key)
	}
	l.seek = appendChunk(append(l.seek[:0], l.key...), chunkLast)
	ok := l.rows.SeekGE(l.seek)
	if ok && l.same() {
		ok = l.rows.Next()
	}
	return ok
}

// same reports whether the current row belongs to the current list.
func (l *Lists) same() bool {
	list, _, err := cutChunk(l.rows.Key())
	return err == nil && bytes.Equal(list, l.key)
}

// enter makes the list of the current row the current list, and skips empty rows. In
// backward direction that row is the last of the list.
func (l *Lists) enter(ok bool, d direction) bool {
	l.valid, l.dir, l.at = false, d, atFirst
	for ; ok; ok = step(l.rows, d) {
		list, _, err := cutChunk(l.rows.Key())
		if err != nil {
			l.err = err
			return false
		}
		// The bounds apply to lists, so a row beyond them may belong to a list within.
		above, below := bytes.Compare(list, l.high) >= 0, bytes.Compare(list, l.low) < 0
		if above && d == forward || below && d == backward {
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

// Valid reports whether there is a current list.
func (l *Lists) Valid() bool { return l.valid }

// Key returns the key of the current list, valid until the next move.
func (l *Lists) Key() []byte { return l.key }

// Count returns how many numbers the current list has, restricted by Within. It reads
// the whole list, so the next call of Next costs nothing.
func (l *Lists) Count() (int64, error) {
	if !l.valid {
		return 0, l.Err()
	}
	if l.within.numbers == nil && l.dir == forward && l.at == atFirst {
		return l.countRows()
	}
	n, err := l.Numbers().Count()
	if err != nil && l.err == nil {
		l.err = err
	}
	return n, l.Err()
}

// countRows adds up the rows of the current list, from its first on.
func (l *Lists) countRows() (n int64, err error) {
	l.at = atAfter
	for {
		value, err := l.rows.ValueAndErr()
		if err == nil && !isEmptyPosting(value) {
			var v view
			v, err = readerView(value)
			n += int64(v.size())
		}
		if err != nil {
			l.err = err
			return 0, l.Err()
		}
		if !l.rows.Next() || !l.same() {
			return n, l.Err()
		}
	}
}

// Numbers returns the numbers of the current list, restricted by Within, for reading in
// either direction. The set is valid until the next call of Numbers and the next move,
// and need not be closed. In the direction of the iteration it costs no seek.
func (l *Lists) Numbers() *Postings {
	l.own.on, l.own.done, l.within.on = false, !l.valid, false
	l.numbers = Postings{root: &l.own}
	if l.within.numbers != nil {
		l.numbers.root = &l.both
	}
	return &l.numbers
}

// ownCursor reads the current list of a [Lists] with its row iterator.
type ownCursor struct {
	lists *Lists
	key   []byte // scratch
	chunk uint64
	on    bool // the row iterator is on chunk
	done  bool
}

func (c *ownCursor) seek(chunk uint64, d direction) (uint64, bool, error) {
	if c.done || c.on && !d.before(c.chunk, chunk) {
		return c.chunk, !c.done, nil
	}
	l := c.lists
	ok := true
	switch {
	case c.on:
		// The next chunk is often the next row.
		ok = step(l.rows, d)
	case l.at != atFirst || l.dir != d:
		ok = c.leap(chunk, d)
	}
	if ok = ok && c.readChunk(); ok && d.before(c.chunk, chunk) {
		ok = c.leap(chunk, d) && c.readChunk()
	}
	switch c.on, c.done = ok, !ok; {
	case ok:
		l.at = atInside
	case d == forward:
		l.at = atAfter
	default:
		l.at = atBefore
	}
	return c.chunk, ok, l.rows.Error()
}

// readChunk reads the chunk of the current row, and reports whether the row belongs to
// the list.
func (c *ownCursor) readChunk() bool {
	list, chunk, err := cutChunk(c.lists.rows.Key())
	c.chunk = chunk
	return err == nil && bytes.Equal(list, c.lists.key)
}

// leap moves to the row of chunk or the first one beyond it.
func (c *ownCursor) leap(chunk uint64, d direction) bool {
	rows, list := c.lists.rows, c.lists.key
	if d == backward && chunk == chunkLast {
		c.key = append(append(c.key[:0], list...), listEnd...)
		return rows.SeekLT(c.key)
	}
	if d == backward {
		c.key = appendChunk(append(c.key[:0], list...), chunk+1)
		return rows.SeekLT(c.key)
	}
	c.key = appendChunk(append(c.key[:0], list...), chunk)
	return rows.SeekGE(c.key)
}

// listEnd, appended to the key of a list, is above all its rows.
var listEnd = bytes.Repeat([]byte{0xFF}, chunkBytes+1)

func (c *ownCursor) load() (view, error) {
	value, err := c.lists.rows.ValueAndErr()
	if err != nil {
		return view{}, err
	}
	return readerView(value)
}

func (c *ownCursor) close() error { return nil }

// Err returns the error that ended the iteration, nil at its normal end.
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

// Close ends the iteration and returns the error that Err returns.
func (l *Lists) Close() error {
	err := l.Err()
	if l.rows != nil {
		closeErr := l.rows.put()
		l.rows, l.valid = nil, false
		if err == nil && closeErr != nil {
			err = fmt.Errorf("walk over posting lists: %w", explain(closeErr))
		}
	}
	return err
}
