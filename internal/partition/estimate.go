package partition

import (
	"context"
	"errors"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/status"
)

// Estimate returns how many documents the plan of q expects to read here, by the
// index alone, and false when nothing short of reading can tell. It costs
// nothing that a meter counts, and looks at Plan, Generation and Range of q only.
func (p *Partition) Estimate(ctx context.Context, q Query) (n int64, ok bool, err error) {
	now, err := p.acquire()
	if err != nil {
		return 0, false, err
	}
	defer p.release(now)
	clip, overlaps := q.Range.Intersect(p.descriptor.Range)
	if q.Generation != p.descriptor.Generation || !overlaps {
		return 0, false, status.PartitionMoved(status.SubRangeGone)
	}
	s := newSource(p, now, q.Range, clip)
	defer s.free()
	n, ok, err = q.Plan.Estimate(ctx, s.face())
	if err != nil && ctx.Err() != nil && status.From(err) == nil {
		err = ended(ctx)
	}
	return n, ok, err
}

// partsMax is how many parts of a conjunction are looked at to make it cheap.
const partsMax = 16

// within returns what of an expression can be known by passing about effort
// terms: the expression itself, or one that admits more documents, and then less
// is true.
func (s *source) within(ctx context.Context, e index.Expr, effort int64) (_ index.Expr, less bool, err error) {
	switch e.Op {
	case index.Leaf, index.Filter:
		n, err := s.termsTo(ctx, e.Span, max(0, effort)+1)
		if n > max(0, effort) || err != nil {
			return index.Expr{}, true, err
		}
	case index.And:
		return s.someWithin(ctx, e, effort)
	case index.Or:
		return s.eachWithin(ctx, e, effort)
	}
	return e, false, nil
}

// someWithin is within for a conjunction: each part may take the whole effort,
// since one that takes little is worth more the more the others would take.
func (s *source) someWithin(ctx context.Context, e index.Expr, effort int64) (_ index.Expr, less bool, err error) {
	known := index.Expr{Op: index.And}
	for i, arg := range e.Args {
		if i == partsMax {
			return known, true, nil
		}
		part, cut, err := s.within(ctx, arg, effort)
		if err != nil {
			return e, false, err
		}
		less = less || cut
		if part.Op != index.All {
			known.Args = append(known.Args, part)
		}
	}
	if len(known.Args) == 0 {
		known = index.Expr{}
	}
	return known, less, nil
}

// eachWithin is within for a disjunction, whose parts share the effort.
func (s *source) eachWithin(ctx context.Context, e index.Expr, effort int64) (_ index.Expr, less bool, err error) {
	known := index.Expr{Op: index.Or, Args: make([]index.Expr, 0, min(int64(len(e.Args)), max(0, effort)))}
	for _, arg := range e.Args {
		before := s.passed
		part, cut, err := s.within(ctx, arg, effort)
		if err != nil || part.Op == index.All {
			return index.Expr{}, true, err
		}
		effort -= max(1, s.passed-before)
		less = less || cut
		known.Args = append(known.Args, part)
	}
	return known, less, nil
}

// termsTo counts the terms of a span that have documents, up to most.
func (s *source) termsTo(ctx context.Context, span index.Span, most int64) (n int64, err error) {
	if span.Empty() {
		return 0, nil
	}
	if span.One {
		s.passed++
		return min(1, most), nil
	}
	lists := s.lists(span)
	defer func() { err = errors.Join(err, lists.Close()) }()
	for valid := lists.First(); valid && n < most; valid = lists.Next() {
		s.passed++
		if n++; stopped(ctx, int(n)) != nil {
			return 0, stopped(ctx, int(n))
		}
	}
	return n, lists.Err()
}
