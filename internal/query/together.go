package query

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// Together merges several streams, of a plan that is not Ordered, which hold parts of
// what was one partition. Rows come in the order of document numbers, so a position
// from before the split is valid for all streams, and one position is sufficient to
// continue.
func Together(streams ...Stream) Stream {
	if len(streams) == 1 {
		return streams[0]
	}
	return func(ctx context.Context, b Budget) (Page, error) {
		var page Page
		known := Position{Number: math.MaxUint64} // no stream has more rows up to here
		var used []func()
		for _, run := range streams {
			part, err := run(ctx, b)
			if err != nil {
				return Page{}, err
			}
			page.Stats.Add(part.Stats)
			page.Rows = append(page.Rows, part.Rows...)
			if part.Used != nil {
				used = append(used, part.Used)
			}
			if part.More {
				page.More = true
				if part.Next.before(known) {
					known = part.Next
				}
			}
			if page.Next.before(part.Next) {
				page.Next = part.Next
			}
		}
		if known.before(page.Next) {
			page.Next = known
		}
		slices.SortStableFunc(page.Rows, func(x, y Row) int { return cmp.Compare(x.Position.Number, y.Position.Number) })
		page.trim(b, known)
		page.Used = func() {
			for _, f := range used {
				f()
			}
		}
		return page, nil
	}
}

// before reports whether p precedes o in the order of numbers.
func (p Position) before(o Position) bool {
	rows := func(n int) int {
		if n == 0 {
			return math.MaxInt
		}
		return n
	}
	return cmp.Or(cmp.Compare(p.Number, o.Number), cmp.Compare(rows(p.Row), rows(o.Row))) < 0
}

// trim truncates the page to the rows that are known to be complete and to the budget.
func (p *Page) trim(b Budget, known Position) {
	kept, bytes := 0, 0
	for _, row := range p.Rows {
		bytes += len(row.JSON)
		if known.before(row.Position) ||
			b.MaxItems > 0 && kept == b.MaxItems || kept > 0 && b.MaxBytes > 0 && bytes > b.MaxBytes {
			p.More = true
			break
		}
		kept++
	}
	if kept < len(p.Rows) && !known.before(p.Rows[kept].Position) {
		p.Next = p.Rows[kept-1].Position
	}
	clear(p.Rows[kept:])
	p.Rows = p.Rows[:kept]
}
