package storage

import (
	"bytes"
	"context"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// rangeCursor is the union of a range of lists. The rows of a range stand in
// the order of lists, not of chunks, so it collects them once and then walks
// over what it has.
type rangeCursor struct {
	ctx       context.Context
	snapshot  *Snapshot
	low, high []byte

	begun  bool
	chunks []*gathered // sorted by chunk
	place  int
}

// gathered is one chunk of a union. Most documents are in one list of a range,
// so numbers are collected unsorted and put in order at the end.
type gathered struct {
	chunk uint64
	array []uint16
	words *[chunkWords]uint64 // instead of array when there are many
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

// checkEvery is how many rows are read between two looks at the context.
const checkEvery = 1024

// gather reads all rows of the range. Lists are prefix-free, so the first one
// at or above high ends it; only a list whose key is the beginning of low can
// stand between.
func (c *rangeCursor) gather() (err error) {
	if bytes.Compare(c.low, c.high) >= 0 {
		return nil
	}
	end := successor(c.low[:1])
	rows, err := c.snapshot.rows.NewIter(&pebble.IterOptions{LowerBound: c.low, UpperBound: end})
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := rows.Close(); err == nil {
			err = closeErr
		}
	}()
	byChunk := map[uint64]*gathered{}
	var last *gathered
	read := 0
	for valid := rows.First(); valid; valid = rows.Next() {
		if read++; read%checkEvery == 0 && c.ctx.Err() != nil {
			return context.Cause(c.ctx)
		}
		list, chunk, err := cutChunk(rows.Key())
		if err != nil {
			return err
		}
		if bytes.Compare(list, c.high) >= 0 {
			break
		}
		if bytes.Compare(list, c.low) < 0 {
			continue
		}
		value, err := rows.ValueAndErr()
		if err != nil {
			return err
		}
		if isEmptyPosting(value) {
			c.snapshot.sweeper.hint(rows.Key())
			continue
		}
		v, err := readerView(value)
		if err != nil {
			return err
		}
		if last == nil || last.chunk != chunk {
			last = byChunk[chunk]
			if last == nil {
				last = &gathered{chunk: chunk}
				byChunk[chunk] = last
				c.chunks = append(c.chunks, last)
			}
		}
		last.add(&v)
	}
	slices.SortFunc(c.chunks, func(a, b *gathered) int {
		if a.chunk < b.chunk {
			return -1
		}
		return 1
	})
	for _, g := range c.chunks {
		slices.Sort(g.array)
		g.array = slices.Compact(g.array)
	}
	return rows.Error()
}

func (c *rangeCursor) seek(chunk uint64) (uint64, bool, error) {
	if !c.begun {
		c.begun = true
		if err := c.gather(); err != nil {
			return 0, false, err
		}
	}
	for c.place < len(c.chunks) && c.chunks[c.place].chunk < chunk {
		c.place++
	}
	if c.place == len(c.chunks) {
		return 0, false, nil
	}
	return c.chunks[c.place].chunk, true, nil
}

func (c *rangeCursor) load() (view, error) {
	g := c.chunks[c.place]
	if g.words != nil {
		return view{dense: true, words: g.words}, nil
	}
	return view{count: len(g.array), array: g.array}, nil
}

func (c *rangeCursor) close() error {
	c.chunks = nil
	return nil
}
