package query

import (
	"strings"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/value"
)

// access turns a predicate into what to ask the index for. What the index
// cannot tell is every document, which narrows nothing.
func (p predicate) access(x *index.Index) index.Expr {
	switch p.op {
	case nothing:
		return index.Expr{Op: index.None}
	case both:
		return p.conjunction(x)
	case either:
		return p.disjunction(x)
	case isIn:
		return spans(x, indexPath(p.path), index.Eq, p.values)
	case isLess:
		return spans(x, indexPath(p.path), index.Lt, p.values)
	case isAtMost:
		return spans(x, indexPath(p.path), index.Le, p.values)
	case isMore:
		return spans(x, indexPath(p.path), index.Gt, p.values)
	case isAtLeast:
		return spans(x, indexPath(p.path), index.Ge, p.values)
	case isPrefixed:
		return spans(x, indexPath(p.path), index.Prefix, p.values)
	case isDefined:
		return spans(x, indexPath(p.path), index.Defined, []value.Value{value.Null()})
	case isKind:
		return spans(x, indexPath(p.path), index.Kind, p.values)
	case hasElement:
		return spans(x, append(indexPath(p.path), index.Element), index.Eq, p.values)
	}
	return index.Expr{}
}

func (p predicate) conjunction(x *index.Index) index.Expr {
	var args []index.Expr
	places := map[string]int{} // label to its leaf in args
	for _, arg := range p.args {
		switch e := arg.access(x); e.Op {
		case index.None:
			return e
		case index.All:
		case index.Leaf:
			if at, seen := places[e.Span.Label]; seen {
				s := narrow(args[at].Span, e.Span)
				if s.Empty() {
					return index.Expr{Op: index.None}
				}
				args[at].Span = s
				continue
			}
			// A document can have several values in an array, and two predicates
			// may be true of different ones, so their leaves stay apart.
			if !strings.Contains(e.Span.Label, "/"+index.Element) {
				places[e.Span.Label] = len(args)
			}
			args = append(args, e)
		default:
			args = append(args, e)
		}
	}
	return joined(index.And, args, index.All)
}

// narrow intersects two spans of one place, such as the ends of BETWEEN.
func narrow(a, b index.Span) index.Span {
	a.Low, a.High = max(a.Low, b.Low), min(a.High, b.High)
	a.Exact, a.One = a.Exact && b.Exact, a.One || b.One
	return a
}

func (p predicate) disjunction(x *index.Index) index.Expr {
	var args []index.Expr
	for _, arg := range p.args {
		switch e := arg.access(x); e.Op {
		case index.All:
			return e
		case index.None:
		case index.Or:
			args = append(args, e.Args...)
		default:
			args = append(args, e)
		}
	}
	return joined(index.Or, args, index.None)
}

func joined(op index.ExprOp, args []index.Expr, empty index.ExprOp) index.Expr {
	switch len(args) {
	case 0:
		return index.Expr{Op: empty}
	case 1:
		return args[0]
	}
	return index.Expr{Op: op, Args: args}
}

// spans asks for the documents of any of the values.
func spans(x *index.Index, path index.Path, op index.Op, values []value.Value) index.Expr {
	var args []index.Expr
	for _, v := range values {
		s, ok := x.Span(path, op, v)
		switch {
		case !ok:
			return index.Expr{}
		case !s.Empty():
			args = append(args, index.Expr{Op: index.Leaf, Span: s})
		}
	}
	return joined(index.Or, args, index.None)
}

// indexPath is the path as the index has it, where all elements of an array are
// one place.
func indexPath(path []step) index.Path {
	p := make(index.Path, len(path), len(path)+1)
	for i, s := range path {
		p[i] = s.Name
		if s.IsIndex {
			p[i] = index.Element
		}
	}
	return p
}
