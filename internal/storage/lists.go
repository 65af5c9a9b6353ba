package storage

import (
	"bytes"
	"fmt"
)

// Lists walks over the posting lists of a range, list by list in the order of
// their keys: for grouping, distinct values and order. It belongs to one
// goroutine. Moves report whether it stands on a list; after false, ask Err.
// All lists of the range must be of one family, in which no key is the
// beginning of another.
type Lists struct {
	rows    *finder
	sweeper *sweeper
	err     error
	low     []byte
	high    []byte
	key     []byte // of the list, without a chunk
	seek    []byte
	valid   bool
	way     way   // of the last move
	at      where // rows

	// What Numbers hands out, used again for each list.
	numbers Postings
	own     ownCursor
	within  numbersCursor // numbers is nil: no limit
	both    intersectCursor
}

// where is where the rows of a [Lists] stand.
type where uint8

const (
	first  where = iota // on the row of the list that the last move met first
	inside              // on any row of the list
	behind              // on the row after the list, or after all rows
	before              // on the row in front of the list, or in front of all rows
)

// Lists returns the lists with low <= key < high, keys without chunks.
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

// Within limits what Count and Numbers say of each list to the numbers of a set,
// from their next call on; nil ends that. The walk still stands on lists without
// any of them.
func (l *Lists) Within(n *Numbers) { l.within.numbers = n }

// First moves to the first list.
func (l *Lists) First() bool {
	return l.rows != nil && l.settle(l.rows.SeekGE(l.low), forward)
}

// Last moves to the last list.
func (l *Lists) Last() bool { return l.rows != nil && l.settle(l.rows.SeekLT(l.high), backward) }

// SeekGE moves to the first list whose key is key or above.
func (l *Lists) SeekGE(key []byte) bool {
	if bytes.Compare(key, l.low) < 0 {
		key = l.low
	}
	return l.rows != nil && l.settle(l.rows.SeekGE(key), forward)
}

// SeekLE moves to the last list whose key is key or below.
func (l *Lists) SeekLE(key []byte) bool {
	if bytes.Compare(key, l.high) >= 0 {
		return l.Last()
	}
	l.seek = append(append(l.seek[:0], key...), listEnd...)
	if l.rows == nil || !l.settle(l.rows.SeekLT(l.seek), backward) {
		return false
	}
	// When key is only the beginning of lists, those are above it.
	return bytes.Compare(l.key, key) <= 0 || l.settle(l.rows.SeekLT(key), backward)
}

// Next moves to the next list.
func (l *Lists) Next() bool { return l.valid && l.move(forward, behind) }

// Prev moves to the list before.
func (l *Lists) Prev() bool { return l.valid && l.move(backward, before) }

// move leaves the current list for the one that follows it in a way. The rows
// stand there already when they are at the given place.
func (l *Lists) move(w way, there where) bool {
	var ok bool
	switch l.at {
	case there:
		ok = l.rows.Valid()
	case first, inside:
		// Most lists have one row or few.
		if ok = step(l.rows, w); ok && l.same() {
			ok = l.leave(w)
		}
	default:
		ok = l.leave(w)
	}
	return l.settle(ok, w)
}

// step moves to the next row in the way of a reading.
func step(r *finder, w way) bool {
	if w == backward {
		return r.Prev()
	}
	return r.Next()
}

// leave moves the rows out of the current list.
func (l *Lists) leave(w way) bool {
	if w == backward {
		return l.rows.SeekLT(l.key)
	}
	l.seek = appendChunk(append(l.seek[:0], l.key...), chunkLast)
	ok := l.rows.SeekGE(l.seek)
	if ok && l.same() {
		ok = l.rows.Next()
	}
	return ok
}

// same reports whether the current row is one of the current list.
func (l *Lists) same() bool {
	list, _, err := cutChunk(l.rows.Key())
	return err == nil && bytes.Equal(list, l.key)
}

// settle takes the list of the row that the last move found, passing by rows
// in which nothing is left. Going backward that row is the list's last.
func (l *Lists) settle(ok bool, w way) bool {
	l.valid, l.way, l.at = false, w, first
	for ; ok; ok = step(l.rows, w) {
		list, _, err := cutChunk(l.rows.Key())
		if err != nil {
			l.err = err
			return false
		}
		// Bounds are of lists, so a row beyond them may still be in range.
		above, below := bytes.Compare(list, l.high) >= 0, bytes.Compare(list, l.low) < 0
		if above && w == forward || below && w == backward {
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

// Key returns the key of the current list, good until the next move.
func (l *Lists) Key() []byte { return l.key }

// Count returns how many numbers the current list has, limited by Within. It
// reads all of the list, and Next is free afterwards.
func (l *Lists) Count() (int64, error) {
	if !l.valid {
		return 0, l.Err()
	}
	if l.within.numbers == nil && l.way == forward && l.at == first {
		return l.countRows()
	}
	n, err := l.Numbers().Count()
	if err != nil && l.err == nil {
		l.err = err
	}
	return n, l.Err()
}

// countRows adds up the rows of the current list, of which the rows stand on the
// first.
func (l *Lists) countRows() (n int64, err error) {
	l.at = behind
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

// Numbers returns the numbers of the current list, limited by Within, for
// reading in either direction. The set is good until the next call and the next
// move; there is no need to close it. In the direction of the walk it costs no
// seek.
func (l *Lists) Numbers() *Postings {
	l.own.on, l.own.done, l.within.on = false, !l.valid, false
	l.numbers = Postings{root: &l.own}
	if l.within.numbers != nil {
		l.numbers.root = &l.both
	}
	return &l.numbers
}

// ownCursor reads the current list of a [Lists] through its iterator.
type ownCursor struct {
	lists *Lists
	key   []byte // scratch
	chunk uint64
	on    bool // the rows stand on chunk
	done  bool
}

func (c *ownCursor) seek(chunk uint64, w way) (uint64, bool, error) {
	if c.done || c.on && !w.before(c.chunk, chunk) {
		return c.chunk, !c.done, nil
	}
	l := c.lists
	ok := true
	switch {
	case c.on:
		// The next chunk is often the next row.
		ok = step(l.rows, w)
	case l.at != first || l.way != w:
		ok = c.leap(chunk, w)
	}
	if ok = ok && c.stand(); ok && w.before(c.chunk, chunk) {
		ok = c.leap(chunk, w) && c.stand()
	}
	switch c.on, c.done = ok, !ok; {
	case ok:
		l.at = inside
	case w == forward:
		l.at = behind
	default:
		l.at = before
	}
	return c.chunk, ok, l.rows.Error()
}

// stand takes the chunk of the row that the rows stand on, and reports whether
// it is one of the list.
func (c *ownCursor) stand() bool {
	list, chunk, err := cutChunk(c.lists.rows.Key())
	c.chunk = chunk
	return err == nil && bytes.Equal(list, c.lists.key)
}

// leap moves the rows to chunk or the first one behind it.
func (c *ownCursor) leap(chunk uint64, w way) bool {
	rows, list := c.lists.rows, c.lists.key
	if w == backward && chunk == chunkLast {
		c.key = append(append(c.key[:0], list...), listEnd...)
		return rows.SeekLT(c.key)
	}
	if w == backward {
		c.key = appendChunk(append(c.key[:0], list...), chunk+1)
		return rows.SeekLT(c.key)
	}
	c.key = appendChunk(append(c.key[:0], list...), chunk)
	return rows.SeekGE(c.key)
}

// listEnd is, behind the key of a list, above all its rows.
var listEnd = bytes.Repeat([]byte{0xFF}, chunkBytes+1)

func (c *ownCursor) load() (view, error) {
	value, err := c.lists.rows.ValueAndErr()
	if err != nil {
		return view{}, err
	}
	return readerView(value)
}

func (c *ownCursor) close() error { return nil }

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
		closeErr := l.rows.put()
		l.rows, l.valid = nil, false
		if err == nil && closeErr != nil {
			err = fmt.Errorf("walk over posting lists: %w", explain(closeErr))
		}
	}
	return err
}
