package engine

import (
	"context"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/partitionkey"
)

// hybrid answers a query with ORDER BY RANK: it reads statistics of all
// documents, then the best rows of each component, and fuses them. It computes
// the whole result for every page and cuts the page out of it, since a rank is
// no position at which a partition could continue.
func (q *queryPage) hybrid(ctx context.Context, c *catalog.Container, plan *query.Plan, h *query.Hybrid, s scope, at continuation) error {
	statistics, err := h.Statistics()
	if err != nil {
		return err
	}
	var known []byte
	if statistics != nil {
		rows, err := q.all(ctx, c, statistics, []partitionkey.Range{partitionkey.Full()})
		if err != nil {
			return err
		}
		if len(rows) > 0 {
			known = rows[0].JSON
		}
	}
	components, err := h.Components(known)
	if err != nil {
		return err
	}
	found := make([][]query.Row, len(components))
	for i, component := range components {
		if found[i], err = q.all(ctx, c, component, s.ranges); err != nil {
			return err
		}
	}
	rows, err := h.Fuse(found)
	if err != nil {
		return err
	}
	q.cut(rows, at)
	return nil
}

// cut sets the page at a position, out of all rows.
func (q *queryPage) cut(rows []query.Row, at continuation) {
	rows = rows[min(at.Taken, int64(len(rows))):]
	budget := q.engine.budget(q.req)
	size := 0
	q.out.Stats.OutputBytes = 0 // no client sees the rows of the components
	for _, row := range rows {
		size += len(row.JSON)
		if budget.MaxItems > 0 && len(q.out.Rows) >= budget.MaxItems || len(q.out.Rows) > 0 && size > budget.MaxBytes {
			break
		}
		q.out.Rows = append(q.out.Rows, row.JSON)
		q.out.Stats.OutputBytes += int64(len(row.JSON))
	}
	q.out.Stats.Output = int64(len(q.out.Rows))
	if len(q.out.Rows) < len(rows) {
		next := at
		next.Taken += int64(len(q.out.Rows))
		q.out.Continuation = next.String()
	}
}

// all returns every row of a plan over the documents of ranges. The error is
// BadRequest if they do not fit into the memory of one query.
func (q *queryPage) all(ctx context.Context, c *catalog.Container, plan *query.Plan, ranges []partitionkey.Range) ([]query.Row, error) {
	streams := q.each(c, plan, tasks(c, ranges))
	runs := make([]query.Stream, len(streams))
	for i, s := range streams {
		runs[i] = s.run
	}
	merge := plan.Merge(runs, query.Progress{})
	merge.Parallel = parallel
	budget := query.Budget{MaxBytes: q.engine.limits.ResponseBytes, Memory: q.engine.limits.QueryMemoryBytes, Grow: &q.job.mainMemory}
	var rows []query.Row
	size, granted := int64(0), int64(query.GrowFree)
	for {
		page, reached, err := merge.Page(ctx, budget)
		if err != nil {
			return nil, err
		}
		q.out.Stats.Add(page.Stats)
		for _, row := range page.Rows {
			if size += int64(len(row.JSON)); size > q.engine.limits.QueryMemoryBytes {
				return nil, query.TooMuchMemory(q.engine.limits.QueryMemoryBytes)
			}
		}
		if size > granted {
			more, err := q.job.mainMemory.Grow(size - granted)
			if err != nil {
				return nil, err
			}
			granted += more
		}
		rows = append(rows, page.Rows...)
		if reached.Done {
			return rows, nil
		}
	}
}
