package scan

import (
	"context"
	"errors"

	"github.com/decandb/decan/internal/index"
)

// partsMax is the number of parts of a conjunction that are tried to make it cheap.
const partsMax = 16

// within returns an expression that can be evaluated by reading about effort terms: e
// itself, or one that admits more documents. In the latter case less is true.
func (s *Source) within(ctx context.Context, e index.Expr, effort int64) (_ index.Expr, less bool, err error) {
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

// someWithin is within for a conjunction. Each part may take the whole effort, because
// a cheap part is worth more if the others are expensive.
func (s *Source) someWithin(ctx context.Context, e index.Expr, effort int64) (_ index.Expr, less bool, err error) {
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

// eachWithin is within for a disjunction. Its parts share the effort.
func (s *Source) eachWithin(ctx context.Context, e index.Expr, effort int64) (_ index.Expr, less bool, err error) {
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

// termsTo counts the terms of a span, up to most.
func (s *Source) termsTo(ctx context.Context, span index.Span, most int64) (n int64, err error) {
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
		if n++; Stopped(ctx, int(n)) != nil {
			return 0, Stopped(ctx, int(n))
		}
	}
	return n, lists.Err()
}
