package simulate

import (
	"context"
	"iter"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/query"
)

// one is a source with one document, which it yields if the index would find it.
type one struct {
	document *document
	found    *bool
}

func (o one) Candidates(_ context.Context, need query.Need) iter.Seq2[query.Candidate, error] {
	return func(yield func(query.Candidate, error) bool) {
		if need.After > 0 || !need.Access.Admits(o.document.terms) {
			return
		}
		*o.found = true
		yield(query.Candidate{Number: 1, Body: o.document.body, Led: need.Access.Op != index.All}, nil)
	}
}

// match runs an instance on each document by itself.
func (x *simulation) match(i *instance) error {
	for n := range x.documents {
		if err := x.err(); err != nil {
			return err
		}
		found := false
		page, err := i.plan.Run(x.ctx, one{&x.documents[n], &found}, query.Budget{})
		if err != nil {
			return err
		}
		if found {
			i.loaded = append(i.loaded, n)
		}
		if page.Stats.Matched > 0 || len(page.Rows) > 0 && page.Stats.Matched == 0 && found {
			i.matched = append(i.matched, n)
		}
	}
	return nil
}

// leaves counts the spans of an expression, each of which is a lookup.
func leaves(e index.Expr) int64 {
	var n int64
	switch e.Op {
	case index.Leaf, index.Filter:
		n = 1
	case index.And, index.Or:
		for _, arg := range e.Args {
			n += leaves(arg)
		}
	}
	return n
}
