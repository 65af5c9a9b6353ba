package query

import (
	"context"
	"slices"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/pacing"
	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/value"
)

// The statistics of a hybrid search from the index: the number of words, and the
// number of documents with a term.

// lookupText answers SUM(_FullTextWordCount(c.text)) from the numbers of words in the
// index, and COUNTIF of a condition from the documents that the index finds for it: it
// counts them or, if some may not satisfy the condition, reads only those.
func (p *Plan) lookupText(c *compiler, ix *index.Index, call groupCall) (lookup, bool) {
	arg, ok := call.expr.Args[0].(*sql.CallExpr)
	switch {
	case call.kind == CountIf && ok && isTextCall(arg):
		return p.lookupCondition(c, ix, arg)
	case call.kind != Sum || !ok || !isFunction(arg, "_FullTextWordCount"):
		return lookup{}, false
	}
	path, ok := c.path(arg.Args[0])
	if !ok {
		return lookup{}, false
	}
	span, ok := ix.Words(indexPath(path))
	return lookup{way: byWords, access: p.accessing, order: index.Order{Span: span}}, ok
}

func isTextCall(call *sql.CallExpr) bool {
	return isFunction(call, "FullTextContains") || isFunction(call, "FullTextContainsAll") || isFunction(call, "FullTextContainsAny")
}

func (p *Plan) lookupCondition(c *compiler, ix *index.Index, x sql.Expr) (lookup, bool) {
	e, exact := c.predicate(x).access(ix)
	if e.Op == index.All {
		return lookup{}, false
	}
	l := lookup{way: byDocuments, access: joined(index.And, append(slices.Clone(leavesAnd(p.accessing)), e), index.All)}
	if exact && (e.Op == index.None || e.Exact()) {
		l.way, l.holds = byCount, true
	}
	return l, true
}

// words adds the numbers of words.
func (s *groupSet) words(ctx context.Context, src Indexed, l *lookup) (done bool, err error) {
	defer s.run.watch.lookingUp()()
	e := s.run.env
	looked := 0
	for t, err := range src.Terms(ctx, Walk{Span: l.order.Span, Access: l.access}) {
		if looked++; looked%contextEvery == 0 && err == nil {
			err = pacing.Check(ctx)
		}
		if err != nil {
			return false, err
		}
		v, exact := index.DecodeTerm(t.Term)
		if !exact || v.Kind() != value.KindNumber {
			return false, nil
		}
		for _, i := range l.calls {
			s.only.Aggregates[i].addTimes(e, v, t.Count)
		}
	}
	return true, e.err
}

// documents reads the documents for which a condition may be true.
func (s *groupSet) documents(ctx context.Context, src Source, l *lookup) (done bool, err error) {
	r := s.run
	take := func(int) bool { return s.take(l, 1) }
	err = r.candidates(ctx, src, Need{Access: l.access, Unordered: true, Bare: r.plan.bare}, func(c Candidate) bool {
		r.setCurrent(c)
		r.each(take)
		return true
	})
	return true, err
}
