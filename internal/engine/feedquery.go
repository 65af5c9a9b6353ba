package engine

import (
	"context"
	"iter"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/status"
)

// FeedQuery is a query over the documents of a page of the change feed. Its rows are in
// the order of the changes. The query may only filter and project: anything that orders,
// counts, skips or combines documents is 400, as are user-defined functions.
type FeedQuery struct {
	Text   string
	Params []query.Param
}

// compile returns the plan of the query for a container.
func (q *FeedQuery) compile(e *Engine, c *catalog.Container) (*query.Plan, error) {
	plan, err := e.compile(q.Text, q.Params, nil, c.Indexing.Computed)
	if err != nil {
		return nil, err
	}
	if !plan.Separate() || plan.Limited() {
		return nil, status.BadRequest("A query over the change feed may have only SELECT, FROM and WHERE: each row is made of one document, in the order of the changes.")
	}
	return plan, nil
}

// selectRows replaces the documents of the page by the rows of a plan over them. It
// works in turns with other requests and within Limits.QueryTime, like a query, but
// never ends early: the position is after all documents.
func (f *feedPage) selectRows(ctx context.Context, plan *query.Plan) error {
	memory := streamMemory{account: &f.job.memory}
	worker := &f.worker
	worker.begin(ctx, f.job, &memory)
	defer worker.end()
	var rows [][]byte
	b := query.Budget{Grow: &memory}
	for {
		memory.renew()
		page, err := plan.Run(worker, changeSource(f.out.Rows), b)
		if worker.fault != nil {
			return worker.fault
		}
		if err != nil {
			return err
		}
		for _, row := range page.Rows {
			rows = append(rows, row.JSON)
		}
		if !page.More {
			f.out.Rows = rows
			return nil
		}
		b.After, b.Started = page.Next, true
	}
}

// changeSource supplies a plan with the documents of a page of the change feed. The
// number of a document is its place on the page, from 1.
type changeSource [][]byte

// Candidates yields the documents after need.After. There is no index that would narrow
// them down.
func (s changeSource) Candidates(ctx context.Context, need query.Need) iter.Seq2[query.Candidate, error] {
	return func(yield func(query.Candidate, error) bool) {
		for i := need.After; i < uint64(len(s)); i++ {
			if err := ctx.Err(); err != nil {
				yield(query.Candidate{}, err)
				return
			}
			if !yield(query.Candidate{Number: i + 1, Body: s[i]}, nil) {
				return
			}
		}
	}
}
