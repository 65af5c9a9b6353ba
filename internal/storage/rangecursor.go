package storage

import (
	"bytes"
	"context"
	"fmt"
	"math"

	"github.com/decandb/decan/internal/pacing"
)

// ListRange is a range of posting lists: those with Low <= key < High. Keys have no
// chunks and are all of one family.
type ListRange struct {
	Low, High []byte
	// Keep decides by the key whether a list is included; nil includes all. The key is
	// valid until Keep returns.
	Keep func(list []byte) bool
}

// rangeCursor is the union of the lists of ranges. The rows of a range are ordered by
// list, not by chunk, so it collects them once and then reads the collected set.
type rangeCursor struct {
	ctx      context.Context
	snapshot *Snapshot
	ranges   []ListRange

	gathered numbersCursor
}

func (c *rangeCursor) seek(chunk uint64, d direction) (uint64, bool, error) {
	if c.gathered.numbers == nil {
		numbers, err := c.gather()
		if err != nil {
			return 0, false, err
		}
		c.gathered.numbers = numbers
	}
	return c.gathered.seek(chunk, d)
}

func (c *rangeCursor) load() (view, error) { return c.gathered.load() }

func (c *rangeCursor) close() error {
	c.gathered.numbers = nil
	return nil
}

// gather reads all rows of the ranges.
func (c *rangeCursor) gather() (*Numbers, error) {
	numbers, _, err := c.snapshot.gather(c.ctx, math.MaxInt, c.ranges)
	return numbers, err
}

// GatherRange returns the union of the lists of a range. It reads at most most rows: if
// there are more, over is true and there is no set. A list has one row for each chunk
// of 65,536 numbers in use.
func (s *Snapshot) GatherRange(ctx context.Context, r ListRange, most int) (numbers *Numbers, over bool, err error) {
	numbers, over, err = s.gather(ctx, most, []ListRange{r})
	if err != nil {
		err = fmt.Errorf("read posting lists: %w", explain(err))
	}
	return numbers, over, err
}

// gather reads at most most rows of ranges.
func (s *Snapshot) gather(ctx context.Context, most int, ranges []ListRange) (numbers *Numbers, over bool, err error) {
	g := gatherer{ctx: ctx, sweeper: s.sweeper, most: most}
	for _, r := range ranges {
		if bytes.Compare(r.Low, r.High) >= 0 {
			continue
		}
		if g.rows == nil {
			low, high := r.Low[:1], successor(r.Low[:1])
			if g.rows, err = s.take(low, high); err != nil {
				return nil, false, err
			}
			defer func() {
				if closeErr := g.rows.put(); err == nil {
					err = closeErr
				}
			}()
		}
		if err := g.add(r); err != nil {
			return nil, false, err
		}
	}
	if g.read > most {
		return nil, true, nil
	}
	return g.builder.Numbers(), false, nil
}

// gatherer collects the numbers of ranges.
type gatherer struct {
	ctx     context.Context
	sweeper *sweeper
	rows    *reusableIter
	builder NumbersBuilder
	read    int // rows so far
	most    int // limit of rows

	list   []byte // list that Keep was last called for
	kept   bool   // result of Keep
	passed int    // rows of that list skipped so far
	seek   []byte
}

const (
	// checkEvery is how many rows are read between two checks of the context.
	checkEvery = 1024
	// fewRows is how many rows of an excluded list are skipped one by one before a seek
	// skips the rest.
	fewRows = 4
)

// add collects one range. No list key is a prefix of another, so the first list at or
// above High ends the range. Only a list whose key is a prefix of Low can be in
// between.
func (g *gatherer) add(r ListRange) error {
	g.list = g.list[:0]
	for valid := g.rows.SeekGE(r.Low); valid; {
		if g.read++; g.read%checkEvery == 0 {
			if err := pacing.Check(g.ctx); err != nil {
				return err
			}
		}
		list, chunk, err := cutChunk(g.rows.Key())
		if err != nil {
			return err
		}
		if bytes.Compare(list, r.High) >= 0 {
			g.read-- // The row is beyond the range.
			break
		}
		if g.read > g.most {
			return nil
		}
		if bytes.Compare(list, r.Low) >= 0 {
			if !g.keep(list, r.Keep) {
				valid = g.pass()
				continue
			}
			if err := g.take(chunk); err != nil {
				return err
			}
		}
		valid = g.rows.Next()
	}
	return g.rows.Error()
}

// take collects the current row.
func (g *gatherer) take(chunk uint64) error {
	value, err := g.rows.ValueAndErr()
	if err != nil {
		return err
	}
	if isEmptyPosting(value) {
		g.sweeper.hint(g.rows.Key())
		return nil
	}
	v, err := readerView(value)
	if err == nil {
		g.builder.add(chunk, &v)
	}
	return err
}

// keep calls Keep once for each list.
func (g *gatherer) keep(list []byte, keep func(list []byte) bool) bool {
	if keep == nil {
		return true
	}
	if !bytes.Equal(list, g.list) {
		g.list = append(g.list[:0], list...)
		g.kept, g.passed = keep(g.list), 0
	}
	return g.kept
}

// pass skips a row of an excluded list.
func (g *gatherer) pass() bool {
	if g.passed++; g.passed != fewRows {
		return g.rows.Next()
	}
	g.seek = appendChunk(append(g.seek[:0], g.list...), chunkLast)
	return g.rows.SeekGE(g.seek)
}
