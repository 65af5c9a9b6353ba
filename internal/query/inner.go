package query

import (
	"context"
	"iter"
)

// outer returns the single stream of a plan that reads the combined rows of a
// subquery: the plan over the rows of the inner plan, merged from streams. The numbers
// of its documents are the positions of those rows, so each page restarts the inner
// query.
func (m *Merge) outer(streams []Stream) Stream {
	return func(ctx context.Context, b Budget) (Page, error) {
		src := &combined{plan: m.plan.inner, streams: streams, parallel: m.Parallel, memory: b.Memory, grow: b.Grow}
		page, err := m.plan.run(ctx, src, b)
		src.stats.OutputBytes, src.stats.Compiled = page.Stats.OutputBytes, m.plan.took
		src.stats.Calls += page.Stats.Calls
		page.Stats = src.stats
		return page, err
	}
}

// combined is the source of the rows of an inner plan. It never holds all of them in
// memory.
type combined struct {
	plan     *Plan
	streams  []Stream
	parallel func(n int, do func(i int))
	memory   int64
	grow     Granter
	stats    Stats // of the inner plan
}

// Candidates implements [Source].
func (s *combined) Candidates(ctx context.Context, need Need) iter.Seq2[Candidate, error] {
	return func(yield func(Candidate, error) bool) {
		merge := s.plan.Merge(s.streams, Progress{})
		merge.Parallel, merge.seeing.flat = s.parallel, true
		for number, more := uint64(0), true; more; {
			page, _, err := merge.Page(ctx, Budget{Memory: s.memory, Grow: s.grow})
			if err != nil {
				yield(Candidate{}, err)
				return
			}
			s.stats.Add(page.Stats)
			for _, row := range page.Rows {
				number++
				if number > need.After && !yield(Candidate{Number: number, Body: row.JSON}, nil) {
					return
				}
			}
			more = page.More
		}
	}
}
