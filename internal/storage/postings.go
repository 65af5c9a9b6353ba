package storage

import (
	"context"
	"fmt"
	"math/bits"

	"github.com/cockroachdb/pebble/v2"
)

// Postings is a set of document numbers that is computed while it is read: one
// list, the union of a range of lists, or what [Intersect], [Union] and
// [Difference] make of others. It belongs to one goroutine. Reading costs no
// allocation per number.
//
// A set is read in one direction, that of its first move: rising with Next
// and SeekGE, or falling with Prev and SeekLT. A move in the other direction
// panics.
//
// Whoever combines sets gives them away: closing the result closes them. After
// a move said no, ask Err.
type Postings struct {
	root cursor
	err  error

	begun bool
	way   way
	chunk uint64 // the current chunk
	ok    bool   // there is a current chunk
	view  view   // its numbers
	// place is where the reading is in the chunk. Forward it is the next number
	// of an array or the next word of a bitmap, backward the one behind those
	// that are left.
	place  int
	word   uint64 // what is left of the word that is being read
	closed bool
}

// way is the direction of a reading.
type way bool

const (
	forward  way = false
	backward way = true
)

// before reports whether the reading meets chunk a before chunk b.
func (w way) before(a, b uint64) bool {
	if w == backward {
		return a > b
	}
	return a < b
}

// cursor is a node of the tree under a Postings. It moves by chunks, in the one
// way that all calls name.
type cursor interface {
	// seek moves to the given chunk or the first one behind it, in the way of
	// the reading, that may have numbers. It never turns round.
	seek(chunk uint64, w way) (at uint64, ok bool, err error)
	// load returns the numbers of the current chunk, good until the next call.
	// There may be none.
	load() (view, error)
	close() error
}

// Postings returns the posting list with this key, given without a chunk.
func (s *Snapshot) Postings(list []byte) *Postings {
	// Both in one: most sets are a single list, and many of those are short.
	set := new(struct {
		Postings
		cursor listCursor
	})
	set.cursor.open(s, list)
	set.root = &set.cursor
	return &set.Postings
}

// PostingsRange returns the union of the lists with low <= key < high, keys
// without chunks and all of one family. It reads all of them at the first move,
// which may take a while: the context can end it. It then holds two bytes for
// each number, or 8 KB for 65,536.
func (s *Snapshot) PostingsRange(ctx context.Context, low, high []byte) *Postings {
	return s.PostingsRanges(ctx, ListRange{Low: low, High: high})
}

// PostingsRanges is PostingsRange for the lists of several ranges. It opens one
// iterator however many ranges there are.
func (s *Snapshot) PostingsRanges(ctx context.Context, ranges ...ListRange) *Postings {
	return &Postings{root: &rangeCursor{ctx: ctx, snapshot: s, ranges: ranges}}
}

// Intersect returns the numbers that are in every set. There must be one.
func Intersect(sets ...*Postings) *Postings {
	if len(sets) == 0 {
		panic("storage: intersection of no sets")
	}
	if len(sets) == 1 {
		return sets[0]
	}
	return &Postings{root: &intersectCursor{args: roots(sets)}}
}

// Union returns the numbers that are in any set: none without sets.
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

// roots takes the trees out of sets, which their owners no longer use.
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

// Prev returns the next number of a reading from the greatest to the least.
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

// begin makes the first move of a reading, to the given chunk, unless it was
// made before.
func (p *Postings) begin(w way, chunk uint64) {
	if !p.begun {
		p.begun, p.way = true, w
		p.enter(chunk)
	}
	if p.way != w {
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

// stepBack is step in the other direction. The word that is being read is the
// one at place.
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

// SeekGE skips all numbers below the given one, so that Next returns the first
// at or above it, and reports whether there is one. It never moves back.
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

// SeekLT skips all numbers at or above the given one, so that Prev returns the
// last below it, and reports whether there is one. It never moves forward.
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

// skip moves to the first number of the chunk that is low or above.
func (p *Postings) skip(low uint16) {
	if !p.view.dense {
		p.place = p.view.find(p.place, low)
		return
	}
	// The word that is being read is the one before place.
	if word := int(low >> 6); word >= p.place {
		p.place = word
		p.word = p.view.word(p.place)
		p.place++
	}
	if int(low>>6) == p.place-1 {
		p.word &= ^uint64(0) << (low & 63)
	}
}

// skipBack moves to the last number of the chunk that is low or below.
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

// peek moves to a chunk that has a number left, without taking it.
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
	case !p.view.dense && p.way == backward:
		return p.place > 0
	case !p.view.dense:
		return p.place < p.view.count
	case p.way == backward:
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

// left counts what is left of the current chunk.
func (p *Postings) left() int {
	switch {
	case !p.view.dense && p.way == backward:
		return p.place
	case !p.view.dense:
		return p.view.count - p.place
	case p.way == backward:
		return bits.OnesCount64(p.word) + p.view.ones(0, p.place)
	}
	return bits.OnesCount64(p.word) + p.view.ones(p.place, chunkWords)
}

// enterNext moves to the chunk behind the current one.
func (p *Postings) enterNext() {
	switch {
	case p.way == forward:
		p.enter(p.chunk + 1)
	case p.chunk > 0:
		p.enter(p.chunk - 1)
	default:
		p.ok = false
	}
}

// enter moves to the given chunk or the first one behind it.
func (p *Postings) enter(chunk uint64) {
	p.ok, p.view, p.place, p.word = false, view{}, 0, 0
	if p.err != nil || p.closed || chunk > chunkLast {
		return
	}
	at, ok, err := p.root.seek(chunk, p.way)
	if err == nil && ok {
		p.view, err = p.root.load()
	}
	p.chunk, p.ok = at, ok && err == nil
	p.err = err
	if p.way == backward {
		p.place = p.view.count
		if p.view.dense {
			p.place = chunkWords
		}
	}
}

// chunkLast is the last chunk there can be.
const chunkLast = 1<<(8*chunkBytes) - 1

// Count returns how many numbers are left and reads them. It adds up whole
// chunks, so it is much cheaper than Next.
func (p *Postings) Count() (int64, error) { return p.CountTo(1<<63 - 1) }

// CountTo is Count that stops at the end of the chunk in which it reaches most:
// for those who only need to know whether there are few.
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

// Err returns what ended the reading early, nil at an ordinary end.
func (p *Postings) Err() error {
	if p.err != nil {
		return fmt.Errorf("read posting list: %w", explain(p.err))
	}
	return nil
}

// Close ends the reading and returns what Err would. A set that was combined
// with others is closed by closing the result, and by itself to no effect.
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
	rows    *finder
	sweeper *sweeper
	err     error
	list    []byte // the key without a chunk, with room for one
	high    []byte // above all rows of the list
	size    int    // of the key without a chunk
	at      uint64
	on      bool // rows stands on chunk at
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

// successor returns the least key above all that begin with prefix, nil when
// there is none.
func successor(prefix []byte) []byte { return appendSuccessor(nil, prefix) }

// appendSuccessor appends the successor of prefix to dst, which is empty.
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

func (c *listCursor) seek(chunk uint64, w way) (uint64, bool, error) {
	if c.err != nil {
		return 0, false, c.err
	}
	if c.done || c.on && !w.before(c.at, chunk) {
		return c.at, !c.done, nil
	}
	// The next chunk is often the next row.
	valid := false
	if c.on {
		valid = c.step(w)
	}
	if !c.on || valid && c.short(chunk, w) {
		valid = c.leap(chunk, w)
	}
	// Rows of a longer list may stand between ours only if a list's key is the
	// beginning of another's; the width tells them apart.
	for ; valid; valid = c.step(w) {
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

// step moves to the next row of the list. The list's ends are limits of the moves
// and not bounds of the iterator, which would cost it the place that it is at.
// They keep it from merging the row of the list behind.
func (c *listCursor) step(w way) bool {
	if w == backward {
		return c.rows.PrevWithLimit(c.list[:c.size]) == pebble.IterValid
	}
	return c.rows.NextWithLimit(c.high) == pebble.IterValid
}

// leap moves to the row of chunk or the first one behind it.
func (c *listCursor) leap(chunk uint64, w way) bool {
	low := c.list[:c.size]
	switch {
	case w == forward:
		return c.rows.SeekGEWithLimit(appendChunk(low, chunk), c.high) == pebble.IterValid
	case chunk == chunkLast:
		return c.rows.SeekLTWithLimit(c.high, low) == pebble.IterValid
	}
	return c.rows.SeekLTWithLimit(appendChunk(low, chunk+1), low) == pebble.IterValid
}

// short reports whether the current row is one of the list that chunk is behind.
func (c *listCursor) short(chunk uint64, w way) bool {
	_, at, err := cutChunk(c.rows.Key())
	return err == nil && w.before(at, chunk)
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

// readerView takes the set out of a value that a reader sees: Pebble has merged
// it to the end, so nothing is removed any more.
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
