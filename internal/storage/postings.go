package storage

import (
	"context"
	"fmt"
	"math/bits"

	"github.com/cockroachdb/pebble/v2"
)

// Postings is a set of document numbers that is computed while it is read, in
// rising order: one list, the union of a range of lists, or what [Intersect],
// [Union] and [Difference] make of others. It belongs to one goroutine. Reading
// costs no allocation per number.
//
// Whoever combines sets gives them away: closing the result closes them. After
// Next or SeekGE said no, ask Err.
type Postings struct {
	root cursor
	err  error

	begun  bool
	chunk  uint64 // the current chunk
	ok     bool   // there is a current chunk
	view   view   // its numbers
	place  int    // next number of an array, or next word of a bitmap
	word   uint64 // what is left of the word before place
	closed bool
}

// cursor is a node of the tree under a Postings. It moves forward by chunks.
type cursor interface {
	// seek moves to the first chunk at or above the given one that may have
	// numbers. It never moves back.
	seek(chunk uint64) (at uint64, ok bool, err error)
	// load returns the numbers of the current chunk, good until the next call.
	// There may be none.
	load() (view, error)
	close() error
}

// Postings returns the posting list with this key, given without a chunk.
func (s *Snapshot) Postings(list []byte) *Postings {
	return &Postings{root: newListCursor(s, list)}
}

// PostingsRange returns the union of the lists with low <= key < high, keys
// without chunks and all of one family. It reads all of them at the first move,
// which may take a while: the context can end it. It then holds two bytes for
// each number, or 8 KB for 65,536.
func (s *Snapshot) PostingsRange(ctx context.Context, low, high []byte) *Postings {
	return &Postings{root: &rangeCursor{ctx: ctx, snapshot: s, low: low, high: high}}
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
	if !p.begun {
		p.begun = true
		p.enter(0)
	}
	for p.ok {
		if low, ok := p.step(); ok {
			return p.chunk<<16 | uint64(low), true
		}
		p.enter(p.chunk + 1)
	}
	return 0, false
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

// SeekGE skips all numbers below the given one, so that Next returns the first
// at or above it, and reports whether there is one. It never moves back.
func (p *Postings) SeekGE(number uint64) bool {
	chunk := number >> 16
	if !p.begun || (p.ok && p.chunk < chunk) {
		p.begun = true
		p.enter(chunk)
	}
	if p.ok && p.chunk == chunk {
		p.skip(uint16(number))
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

// peek moves to a chunk that has a number left, without taking it.
func (p *Postings) peek() bool {
	for p.ok {
		if !p.view.dense && p.place < p.view.count {
			return true
		}
		if p.view.dense {
			for p.word == 0 && p.place < chunkWords {
				p.word = p.view.word(p.place)
				p.place++
			}
			if p.word != 0 {
				return true
			}
		}
		p.enter(p.chunk + 1)
	}
	return false
}

// enter moves to the first chunk at or above the given one.
func (p *Postings) enter(chunk uint64) {
	p.ok, p.view, p.place, p.word = false, view{}, 0, 0
	if p.err != nil || p.closed || chunk > chunkLast {
		return
	}
	at, ok, err := p.root.seek(chunk)
	if err == nil && ok {
		p.view, err = p.root.load()
	}
	p.chunk, p.ok = at, ok && err == nil
	p.err = err
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
		p.begun = true
		p.enter(0)
	}
	total := int64(0)
	for p.ok && total < most {
		if p.view.dense {
			total += int64(bits.OnesCount64(p.word) + p.view.ones(p.place))
		} else {
			total += int64(p.view.count - p.place)
		}
		p.enter(p.chunk + 1)
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
	rows    *pebble.Iterator
	sweeper *sweeper
	err     error
	list    []byte // the key without a chunk, with room for one
	size    int    // of the key without a chunk
	at      uint64
	on      bool // rows stands on chunk at
	done    bool
}

func newListCursor(s *Snapshot, list []byte) *listCursor {
	c := &listCursor{sweeper: s.sweeper, size: len(list)}
	c.list = append(make([]byte, 0, len(list)+chunkBytes), list...)
	c.rows, c.err = s.rows.NewIter(&pebble.IterOptions{LowerBound: c.list[:c.size], UpperBound: successor(list)})
	return c
}

// successor returns the least key above all that begin with prefix, nil when
// there is none.
func successor(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xFF {
			end := append(make([]byte, 0, i+1), prefix[:i+1]...)
			end[i]++
			return end
		}
	}
	return nil
}

func (c *listCursor) seek(chunk uint64) (uint64, bool, error) {
	if c.err != nil {
		return 0, false, c.err
	}
	if c.done || (c.on && c.at >= chunk) {
		return c.at, !c.done, nil
	}
	// The next chunk is often the next row.
	valid := false
	if c.on {
		valid = c.rows.Next()
		if valid && c.behind(chunk) {
			valid = c.rows.SeekGE(appendChunk(c.list[:c.size], chunk))
		}
	} else {
		valid = c.rows.SeekGE(appendChunk(c.list[:c.size], chunk))
	}
	// Rows of a longer list may stand between ours only if a list's key is the
	// beginning of another's; the width tells them apart.
	for ; valid; valid = c.rows.Next() {
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

// behind reports whether the current row is one of the list below chunk.
func (c *listCursor) behind(chunk uint64) bool {
	_, at, err := cutChunk(c.rows.Key())
	return err == nil && at < chunk
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
	err := c.rows.Close()
	c.rows = nil
	return err
}
