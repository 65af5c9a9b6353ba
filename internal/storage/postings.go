package storage

import (
	"context"
	"fmt"
	"math/bits"

	"github.com/cockroachdb/pebble/v2"
)

// Postings is a set of document numbers that is computed while it is read: one list,
// the union of a range of lists, or a result of [Intersect], [Union] or [Difference].
// One goroutine uses it. Reading allocates nothing per number.
//
// A set is read in one direction, that of its first move: ascending with Next and
// SeekGE, or descending with Prev and SeekLT. A move in the other direction panics.
//
// Combining sets transfers their ownership: closing the result closes them. After a
// move returned false call Err.
type Postings struct {
	root cursor
	err  error

	begun bool
	dir   direction
	chunk uint64 // the current chunk
	ok    bool   // there is a current chunk
	view  view   // its numbers
	// place is the position in the chunk. Forward it is the next number of an array or the
	// next word of a bitmap, backward the one after those that are left.
	place  int
	word   uint64 // the rest of the current word
	closed bool
}

// direction is the direction of reading.
type direction bool

const (
	forward  direction = false
	backward direction = true
)

// before reports whether chunk a is read before chunk b.
func (d direction) before(a, b uint64) bool {
	if d == backward {
		return a > b
	}
	return a < b
}

// cursor is a node of the tree of a Postings. It moves by chunks, and all calls use the
// same direction.
type cursor interface {
	// seek moves to the first chunk that may have numbers, from chunk on in the direction
	// of reading. It never reverses.
	seek(chunk uint64, d direction) (at uint64, ok bool, err error)
	// load returns the numbers of the current chunk, valid until the next call. There may
	// be none.
	load() (view, error)
	close() error
}

// Postings returns the posting list with this key, which has no chunk.
func (s *Snapshot) Postings(list []byte) *Postings {
	// One allocation for both: most sets are a single list, and many of those are short.
	set := new(struct {
		Postings
		cursor listCursor
	})
	set.cursor.open(s, list)
	set.root = &set.cursor
	return &set.Postings
}

// PostingsRange returns the union of the lists with low <= key < high; keys have no
// chunks and are all of one family. Its first move reads all of them, which may take
// long; the context can cancel it. The result takes two bytes for each number, or 8 KB
// for 65,536.
func (s *Snapshot) PostingsRange(ctx context.Context, low, high []byte) *Postings {
	return s.PostingsRanges(ctx, ListRange{Low: low, High: high})
}

// PostingsRanges is PostingsRange for several ranges. It opens one iterator for all of
// them.
func (s *Snapshot) PostingsRanges(ctx context.Context, ranges ...ListRange) *Postings {
	return &Postings{root: &rangeCursor{ctx: ctx, snapshot: s, ranges: ranges}}
}

// Intersect returns the numbers that are in every set. It needs at least one set.
func Intersect(sets ...*Postings) *Postings {
	if len(sets) == 0 {
		panic("storage: intersection of no sets")
	}
	if len(sets) == 1 {
		return sets[0]
	}
	return &Postings{root: &intersectCursor{args: roots(sets)}}
}

// Union returns the numbers that are in any set. The union of no sets is empty.
func Union(sets ...*Postings) *Postings {
	if len(sets) == 1 {
		return sets[0]
	}
	return &Postings{root: newUnionCursor(roots(sets))}
}

// Difference returns the numbers of a that are not in b.
func Difference(a, b *Postings) *Postings {
	args := roots([]*Postings{a, b})
	return &Postings{root: &differenceCursor{from: args[0], less: args[1]}}
}

// roots returns the trees of sets and closes the sets.
func roots(sets []*Postings) []cursor {
	cursors := make([]cursor, len(sets))
	for i, p := range sets {
		if p.begun || p.closed {
			panic("storage: a posting set that was read is combined")
		}
		cursors[i] = p.root
		p.closed = true
	}
	return cursors
}

// Next returns the next number.
func (p *Postings) Next() (number uint64, ok bool) {
	p.begin(forward, 0)
	for p.ok {
		if low, ok := p.step(); ok {
			return p.chunk<<16 | uint64(low), true
		}
		p.enterNext()
	}
	return 0, false
}

// Prev returns the next number in descending order.
func (p *Postings) Prev() (number uint64, ok bool) {
	p.begin(backward, chunkLast)
	for p.ok {
		if low, ok := p.stepBack(); ok {
			return p.chunk<<16 | uint64(low), true
		}
		p.enterNext()
	}
	return 0, false
}

// begin makes the first move, to the given chunk, unless it was made before.
func (p *Postings) begin(d direction, chunk uint64) {
	if !p.begun {
		p.begun, p.dir = true, d
		p.enter(chunk)
	}
	if p.dir != d {
		panic("storage: a posting set is read in two directions")
	}
}

// step returns the next number of the current chunk.
func (p *Postings) step() (low uint16, ok bool) {
	if !p.view.dense {
		if p.place == p.view.count {
			return 0, false
		}
		low = p.view.at(p.place)
		p.place++
		return low, true
	}
	for p.word == 0 {
		if p.place == chunkWords {
			return 0, false
		}
		p.word = p.view.word(p.place)
		p.place++
	}
	low = uint16((p.place-1)<<6 | bits.TrailingZeros64(p.word))
	p.word &= p.word - 1
	return low, true
}

// stepBack is step in the other direction. The current word is the one at place.
func (p *Postings) stepBack() (low uint16, ok bool) {
	if !p.view.dense {
		if p.place == 0 {
			return 0, false
		}
		p.place--
		return p.view.at(p.place), true
	}
	for p.word == 0 {
		if p.place == 0 {
			return 0, false
		}
		p.place--
		p.word = p.view.word(p.place)
	}
	bit := bits.Len64(p.word) - 1
	p.word &^= 1 << bit
	return uint16(p.place<<6 | bit), true
}

// SeekGE skips all numbers below number, so that Next returns the first one that is
// number or higher, and reports whether there is one. It never moves back.
func (p *Postings) SeekGE(number uint64) bool {
	chunk := number >> 16
	p.begin(forward, chunk)
	if p.ok && p.chunk < chunk {
		p.enter(chunk)
	}
	if p.ok && p.chunk == chunk {
		p.skip(uint16(number))
	}
	return p.peek()
}

// SeekLT skips number and all higher numbers, so that Prev returns the last one below
// number, and reports whether there is one. It never moves forward.
func (p *Postings) SeekLT(number uint64) bool {
	if number == 0 {
		p.begin(backward, 0)
		p.ok = false
		return false
	}
	last := number - 1
	chunk := min(last>>16, chunkLast)
	p.begin(backward, chunk)
	if p.ok && p.chunk > chunk {
		p.enter(chunk)
	}
	if p.ok && p.chunk == chunk && last>>16 == chunk {
		p.skipBack(uint16(last))
	}
	return p.peek()
}

// skip moves to the first number of the chunk that is low or higher.
func (p *Postings) skip(low uint16) {
	if !p.view.dense {
		p.place = p.view.find(p.place, low)
		return
	}
	// The current word is the one before place.
	if word := int(low >> 6); word >= p.place {
		p.place = word
		p.word = p.view.word(p.place)
		p.place++
	}
	if int(low>>6) == p.place-1 {
		p.word &= ^uint64(0) << (low & 63)
	}
}

// skipBack moves to the last number of the chunk that is low or lower.
func (p *Postings) skipBack(low uint16) {
	if !p.view.dense {
		if low < ^uint16(0) {
			p.place = min(p.place, p.view.find(0, low+1))
		}
		return
	}
	if word := int(low >> 6); word < p.place {
		p.place = word
		p.word = p.view.word(p.place)
	}
	if int(low>>6) == p.place {
		p.word &= ^uint64(0) >> (63 - low&63)
	}
}

// peek moves to a chunk that has a number left, without consuming the number.
func (p *Postings) peek() bool {
	for p.ok {
		if p.more() {
			return true
		}
		p.enterNext()
	}
	return false
}

// more reports whether the current chunk has a number left.
func (p *Postings) more() bool {
	switch {
	case !p.view.dense && p.dir == backward:
		return p.place > 0
	case !p.view.dense:
		return p.place < p.view.count
	case p.dir == backward:
		for p.word == 0 && p.place > 0 {
			p.place--
			p.word = p.view.word(p.place)
		}
	default:
		for p.word == 0 && p.place < chunkWords {
			p.word = p.view.word(p.place)
			p.place++
		}
	}
	return p.word != 0
}

// left returns how many numbers of the current chunk are left.
func (p *Postings) left() int {
	switch {
	case !p.view.dense && p.dir == backward:
		return p.place
	case !p.view.dense:
		return p.view.count - p.place
	case p.dir == backward:
		return bits.OnesCount64(p.word) + p.view.ones(0, p.place)
	}
	return bits.OnesCount64(p.word) + p.view.ones(p.place, chunkWords)
}

// enterNext moves to the next chunk in the direction of reading.
func (p *Postings) enterNext() {
	switch {
	case p.dir == forward:
		p.enter(p.chunk + 1)
	case p.chunk > 0:
		p.enter(p.chunk - 1)
	default:
		p.ok = false
	}
}

// enter moves to the given chunk or the first one beyond it.
func (p *Postings) enter(chunk uint64) {
	p.ok, p.view, p.place, p.word = false, view{}, 0, 0
	if p.err != nil || p.closed || chunk > chunkLast {
		return
	}
	at, ok, err := p.root.seek(chunk, p.dir)
	if err == nil && ok {
		p.view, err = p.root.load()
	}
	p.chunk, p.ok = at, ok && err == nil
	p.err = err
	if p.dir == backward {
		p.place = p.view.count
		if p.view.dense {
			p.place = chunkWords
		}
	}
}

// chunkLast is the highest chunk.
const chunkLast = 1<<(8*chunkBytes) - 1

// Count reads the remaining numbers and returns how many there were. It adds up whole
// chunks, which is much faster than Next.
func (p *Postings) Count() (int64, error) { return p.CountTo(1<<63 - 1) }

// CountTo is Count that stops at the end of the chunk in which it reaches most, for
// callers that only need to know whether there are few.
func (p *Postings) CountTo(most int64) (int64, error) {
	if !p.begun {
		p.begin(forward, 0)
	}
	total := int64(0)
	for p.ok && total < most {
		total += int64(p.left())
		p.enterNext()
	}
	return total, p.Err()
}

// Err returns the error that ended the reading, nil at its normal end.
func (p *Postings) Err() error {
	if p.err != nil {
		return fmt.Errorf("read posting list: %w", explain(p.err))
	}
	return nil
}

// Close ends the reading and returns the error that Err returns. It has no effect on a
// set that was combined with others, which the result closes.
func (p *Postings) Close() error {
	if p.closed {
		return p.Err()
	}
	p.closed = true
	p.ok = false
	if err := p.root.close(); p.err == nil {
		p.err = err
	}
	return p.Err()
}

// listCursor reads one list.
type listCursor struct {
	rows    *reusableIter
	sweeper *sweeper
	err     error
	list    []byte // the key without a chunk, with capacity for one
	high    []byte // above all rows of the list
	size    int    // length of the key without a chunk
	at      uint64
	on      bool // rows is on chunk at
	done    bool
}

func (c *listCursor) open(s *Snapshot, list []byte) {
	c.sweeper, c.size = s.sweeper, len(list)
	room := make([]byte, 0, 2*len(list)+chunkBytes)
	room = append(room, list...)
	c.high = appendSuccessor(room[c.size+chunkBytes:c.size+chunkBytes], list)
	c.list = room[: c.size : c.size+chunkBytes]
	c.rows, c.err = s.take(nil, nil)
}

// successor returns the least key above all keys with this prefix, nil if there is
// none.
func successor(prefix []byte) []byte { return appendSuccessor(nil, prefix) }

// appendSuccessor appends the successor of prefix to dst, which must be empty.
func appendSuccessor(dst, prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xFF {
			end := append(dst, prefix[:i+1]...)
			end[i]++
			return end
		}
	}
	return nil
}

func (c *listCursor) seek(chunk uint64, d direction) (uint64, bool, error) {
	if c.err != nil {
		return 0, false, c.err
	}
	if c.done || c.on && !d.before(c.at, chunk) {
		return c.at, !c.done, nil
	}
	// The next chunk is often the next row.
	valid := false
	if c.on {
		valid = c.step(d)
	}
	if !c.on || valid && c.short(chunk, d) {
		valid = c.leap(chunk, d)
	}
	// If the key of one list is a prefix of another's, rows of the longer list may be in
	// between; their length differs.
	for ; valid; valid = c.step(d) {
		if len(c.rows.Key()) == c.size+chunkBytes {
			_, c.at, _ = cutChunk(c.rows.Key())
			c.on = true
			return c.at, true, nil
		}
	}
	c.done = true
	c.err = c.rows.Error()
	return 0, false, c.err
}

// step moves to the next row of the list. The ends of the list are limits of the move
// and not bounds of the iterator: setting bounds would lose its position. The limits
// keep it from merging the row of the next list.
func (c *listCursor) step(d direction) bool {
	if d == backward {
		return c.rows.PrevWithLimit(c.list[:c.size]) == pebble.IterValid
	}
	return c.rows.NextWithLimit(c.high) == pebble.IterValid
}

// leap moves to the row of chunk or the first one beyond it.
func (c *listCursor) leap(chunk uint64, d direction) bool {
	low := c.list[:c.size]
	switch {
	case d == forward:
		return c.rows.SeekGEWithLimit(appendChunk(low, chunk), c.high) == pebble.IterValid
	case chunk == chunkLast:
		return c.rows.SeekLTWithLimit(c.high, low) == pebble.IterValid
	}
	return c.rows.SeekLTWithLimit(appendChunk(low, chunk+1), low) == pebble.IterValid
}

// short reports whether chunk is beyond the current row.
func (c *listCursor) short(chunk uint64, d direction) bool {
	_, at, err := cutChunk(c.rows.Key())
	return err == nil && d.before(at, chunk)
}

func (c *listCursor) load() (view, error) {
	value, err := c.rows.ValueAndErr()
	if err != nil {
		return view{}, err
	}
	if isEmptyPosting(value) {
		c.sweeper.hint(c.rows.Key())
	}
	return readerView(value)
}

// readerView returns the set of a value that a reader sees. Pebble has merged it
// completely, so it has no removals.
func readerView(value []byte) (view, error) {
	e, err := decodePosting(value)
	if err != nil {
		return view{}, err
	}
	if e.removed.raw != nil {
		return view{}, fmt.Errorf("removals are left over: %w", errPosting)
	}
	return e.added, nil
}

func (c *listCursor) close() error {
	if c.rows == nil {
		return nil
	}
	err := c.rows.put()
	c.rows = nil
	return err
}
