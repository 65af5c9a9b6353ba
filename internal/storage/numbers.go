package storage

import (
	"cmp"
	"context"
	"slices"
	"sort"

	"github.com/decandb/decan/internal/pacing"
)

// Numbers is an immutable set of document numbers in memory, safe for concurrent use.
// It takes two bytes for each number, or 8 KB for each 65,536 consecutive ones where
// that is less.
type Numbers struct {
	chunks []gathered // sorted by chunk
	count  int64
}

// gathered is one chunk of a set, with sorted numbers.
type gathered struct {
	chunk uint64
	array []uint16
	words *[chunkWords]uint64 // instead of array if there are many
}

func (g *gathered) view() view {
	if g.words != nil {
		return view{dense: true, words: g.words}
	}
	return view{count: len(g.array), array: g.array}
}

// Len returns how many numbers there are.
func (n *Numbers) Len() int64 { return n.count }

// Bytes returns about how many bytes of memory the set takes.
func (n *Numbers) Bytes() int64 {
	size := int64(64 * cap(n.chunks))
	for i := range n.chunks {
		if g := &n.chunks[i]; g.words != nil {
			size += bitmapBytes
		} else {
			size += 2 * int64(cap(g.array))
		}
	}
	return size
}

// Has reports whether a number is in the set.
func (n *Numbers) Has(number uint64) bool {
	at := n.find(number >> 16)
	if at == len(n.chunks) || n.chunks[at].chunk != number>>16 {
		return false
	}
	g := &n.chunks[at]
	if g.words != nil {
		return g.words[uint16(number)>>6]&(1<<(number&63)) != 0
	}
	_, found := slices.BinarySearch(g.array, uint16(number))
	return found
}

// find returns the index of the first chunk that is chunk or higher.
func (n *Numbers) find(chunk uint64) int {
	return sort.Search(len(n.chunks), func(i int) bool { return n.chunks[i].chunk >= chunk })
}

// Postings returns the set for reading. It may be called repeatedly.
func (n *Numbers) Postings() *Postings { return &Postings{root: &numbersCursor{numbers: n}} }

// Collect reads a set, which must not have been read from, into memory and closes it.
// The context can cancel it.
func (p *Postings) Collect(ctx context.Context) (*Numbers, error) {
	p.begin(forward, 0)
	var b NumbersBuilder
	for read := 1; p.ok; read++ {
		if read%checkEvery == 0 {
			if err := pacing.Check(ctx); err != nil {
				p.ok, p.err = false, err
				break
			}
		}
		b.add(p.chunk, &p.view)
		p.enterNext()
	}
	if err := p.Close(); err != nil {
		return nil, err
	}
	return b.Numbers(), nil
}

// Gather is Collect for sets that may be small. Up to most numbers it appends them to
// few, ascending, and returns no set; otherwise it returns few unchanged and the whole
// set. Soon after more than limit numbers it stops, sets over and returns no set.
func (p *Postings) Gather(ctx context.Context, few []uint64, most int, limit int64) (_ []uint64, all *Numbers, over bool, err error) {
	p.begin(forward, 0)
	begin, left := len(few), limit
	for read := 1; p.ok && len(few)-begin+p.view.size() <= most; read++ {
		if read%checkEvery == 0 {
			if err := pacing.Check(ctx); err != nil {
				p.ok, p.err = false, err
				break
			}
		}
		for low, ok := p.step(); ok; low, ok = p.step() {
			few = append(few, p.chunk<<16|uint64(low))
		}
		p.enterNext()
	}
	if left -= int64(len(few) - begin); left < 0 {
		return few[:begin], nil, true, p.Close()
	}
	if !p.ok {
		return few, nil, false, p.Close()
	}
	var b NumbersBuilder
	for _, number := range few[begin:] {
		b.Add(number)
	}
	for read := 1; p.ok; read++ {
		if left -= int64(p.view.size()); left < 0 {
			return few[:begin], nil, true, p.Close()
		}
		if read%checkEvery == 0 {
			if err := pacing.Check(ctx); err != nil {
				p.ok, p.err = false, err
				break
			}
		}
		b.add(p.chunk, &p.view)
		p.enterNext()
	}
	if err := p.Close(); err != nil {
		return few[:begin], nil, false, err
	}
	return few[:begin], b.Numbers(), false, nil
}

// NumbersOf returns the set of these numbers.
func NumbersOf(list []uint64) *Numbers {
	var b NumbersBuilder
	for _, number := range list {
		b.Add(number)
	}
	return b.Numbers()
}

// NumbersBuilder collects numbers in any order and with repetitions. The zero value is
// empty.
type NumbersBuilder struct {
	chunks  []*gathered
	byChunk map[uint64]*gathered // nil while there are few chunks
	last    *gathered
}

// fewChunks is up to how many chunks are searched one by one.
const fewChunks = 8

// Add adds a number to the set.
func (b *NumbersBuilder) Add(number uint64) {
	one := [1]uint16{uint16(number)}
	b.add(number>>16, &view{count: 1, array: one[:]})
}

// add adds the numbers of a chunk. Most documents are in one list of a range, so
// numbers are collected unsorted and sorted at the end.
func (b *NumbersBuilder) add(chunk uint64, v *view) {
	if b.last == nil || b.last.chunk != chunk {
		if b.last = b.find(chunk); b.last == nil {
			b.last = &gathered{chunk: chunk}
			b.grow()
		}
	}
	b.last.add(v)
}

// find returns a chunk, nil if there is none yet.
func (b *NumbersBuilder) find(chunk uint64) *gathered {
	if b.byChunk != nil {
		return b.byChunk[chunk]
	}
	for _, g := range b.chunks {
		if g.chunk == chunk {
			return g
		}
	}
	return nil
}

// grow appends the last chunk to the others.
func (b *NumbersBuilder) grow() {
	b.chunks = append(b.chunks, b.last)
	switch {
	case b.byChunk != nil:
		b.byChunk[b.last.chunk] = b.last
	case len(b.chunks) > fewChunks:
		b.byChunk = map[uint64]*gathered{}
		for _, g := range b.chunks {
			b.byChunk[g.chunk] = g
		}
	}
}

func (g *gathered) add(v *view) {
	if g.words == nil && (v.dense || len(g.array)+v.count > arrayMax) {
		g.words = new([chunkWords]uint64)
		for _, x := range g.array {
			g.words[x>>6] |= 1 << (x & 63)
		}
		g.array = nil
	}
	switch {
	case v.dense:
		for i := range g.words {
			g.words[i] |= v.word(i)
		}
	case g.words != nil:
		for i := range v.count {
			x := v.at(i)
			g.words[x>>6] |= 1 << (x & 63)
		}
	default:
		for i := range v.count {
			g.array = append(g.array, v.at(i))
		}
	}
}

// Numbers returns the set and empties the builder.
func (b *NumbersBuilder) Numbers() *Numbers {
	n := &Numbers{chunks: make([]gathered, 0, len(b.chunks))}
	slices.SortFunc(b.chunks, func(x, y *gathered) int { return cmp.Compare(x.chunk, y.chunk) })
	for _, g := range b.chunks {
		slices.Sort(g.array)
		g.array = slices.Compact(g.array)
		v := g.view()
		if size := v.size(); size > 0 {
			n.count += int64(size)
			n.chunks = append(n.chunks, *g)
		}
	}
	*b = NumbersBuilder{}
	return n
}

// numbersCursor reads a set in memory.
type numbersCursor struct {
	numbers *Numbers
	place   int
	on      bool // place is valid: the result of the last seek
}

func (c *numbersCursor) seek(chunk uint64, d direction) (uint64, bool, error) {
	chunks := c.numbers.chunks
	if !c.on || c.place >= 0 && c.place < len(chunks) && d.before(chunks[c.place].chunk, chunk) {
		c.place = c.numbers.find(chunk)
		if d == backward && (c.place == len(chunks) || chunks[c.place].chunk > chunk) {
			c.place--
		}
		c.on = true
	}
	if c.place < 0 || c.place >= len(chunks) {
		return 0, false, nil
	}
	return chunks[c.place].chunk, true, nil
}

func (c *numbersCursor) load() (view, error) { return c.numbers.chunks[c.place].view(), nil }

func (c *numbersCursor) close() error { return nil }
