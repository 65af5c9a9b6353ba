package query

import (
	"slices"
	"strings"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/value"
)

// access converts a predicate to an index expression. A predicate that the index cannot
// answer becomes the expression of all documents. exact reports that, if the leaves of
// the expression are exact, it selects exactly the documents that pass the filter.
func (p predicate) access(x *index.Index) (e index.Expr, exact bool) {
	switch p.op {
	case opTrue:
		return index.Expr{}, !p.lossy
	case opFalse:
		return index.Expr{Op: index.None}, true
	case opAnd:
		e, exact = p.conjunction(x)
	case opOr:
		e, exact = p.disjunction(x)
	default:
		e = p.leaf(x)
		exact = e.Op != index.All
	}
	return e, exact && !p.lossy
}

// leaf returns an expression that selects the documents with one of the values.
func (p predicate) leaf(x *index.Index) index.Expr {
	path := indexPath(p.path)
	switch p.op {
	case opIn:
		if args, _ := (predicate{args: []predicate{p}}).tuples(x); len(args) > 0 {
			return args[0]
		}
		return p.spans(x, path, index.Eq)
	case opLess:
		return p.spans(x, path, index.Lt)
	case opLessEqual:
		return p.spans(x, path, index.Le)
	case opGreater:
		return p.spans(x, path, index.Gt)
	case opGreaterEqual:
		return p.spans(x, path, index.Ge)
	case opPrefix:
		return p.spans(x, path, index.Prefix)
	case opDefined:
		p.values = []value.Value{value.Null()}
		return p.spans(x, path, index.Defined)
	case opKind:
		return p.spans(x, path, index.Kind)
	case opElement:
		return p.spans(x, append(path, index.Element), index.Eq)
	case opNear:
		return p.nearby(x, path)
	case opWords:
		return p.words(x, path)
	}
	return index.Expr{}
}

func (p predicate) conjunction(x *index.Index) (_ index.Expr, exact bool) {
	args, rest := p.tuples(x)
	places := map[string]int{} // label to the index of its leaf in args
	exact = len(args) == 0
	for _, arg := range rest {
		e, all := arg.access(x)
		exact = exact && all
		switch e.Op {
		case index.None:
			return e, true
		case index.All:
		case index.Leaf:
			if at, seen := places[e.Span.Label]; seen {
				s := narrow(args[at].Span, e.Span)
				if s.Empty() {
					return index.Expr{Op: index.None}, true
				}
				args[at].Span = s
				continue
			}
			// A document can have several values in an array, and two predicates may
			// be true of different ones, so their leaves are not merged.
			if !strings.Contains(e.Span.Label, "/"+index.Element) {
				places[e.Span.Label] = len(args)
			}
			args = append(args, e)
		default:
			args = append(args, e)
		}
	}
	return joined(index.And, args, index.All), exact
}

// tuplesMax is the maximum number of tuple paths for one element.
const tuplesMax = 8

// tuples replaces conditions of a conjunction on members of one array element by spans
// of tuple paths. It uses a tuple path that has several of the members, or one member
// without terms of its own. rest holds the other conditions.
func (p predicate) tuples(x *index.Index) (args []index.Expr, rest []predicate) {
	places := map[int][]int{} // for each element, the indexes of its equalities in p.args
	var elements []int
	for i, arg := range p.args {
		at := slices.IndexFunc(arg.path, func(s value.Step) bool { return s.IsIndex })
		if arg.op != opIn || len(arg.values) != 1 || arg.test != nil || at < 0 || at == len(arg.path)-1 || arg.path[at].Index >= 0 {
			continue
		}
		element := arg.path[at].Index
		if places[element] == nil {
			elements = append(elements, element)
		}
		places[element] = append(places[element], i)
	}
	if len(elements) == 0 {
		return nil, p.args
	}
	answered := map[int]bool{} // the indexes in p.args that a tuple answers
	for _, element := range elements {
		list := places[element]
		for range tuplesMax {
			span, used := p.tuple(x, list)
			if len(used) == 0 {
				break
			}
			args = append(args, index.Expr{Op: index.Leaf, Span: span})
			for _, at := range used {
				answered[at] = true
			}
			list = slices.DeleteFunc(list, func(at int) bool { return answered[at] })
		}
	}
	for i, arg := range p.args {
		if !answered[i] {
			rest = append(rest, arg)
		}
	}
	return args, rest
}

// tuple returns the span of the tuple path that answers the most equalities of a list
// on one element, and the equalities that it answers.
func (p predicate) tuple(x *index.Index, list []int) (s index.Span, used []int) {
	if len(list) == 0 {
		return index.Span{}, nil
	}
	members, values := make([]index.Path, len(list)), make([]value.Value, len(list))
	var array index.Path
	for i, at := range list {
		path := indexPath(p.args[at].path)
		end := slices.Index(path, index.Element) + 1
		array, members[i], values[i] = path[:end], path[end:], p.args[at].values[0]
	}
	s, used = x.Tuple(array, members, values)
	if len(used) == 1 && x.Covers(append(slices.Clip(array), members[used[0]]...)) {
		return index.Span{}, nil // the member has terms of its own
	}
	for i, place := range used {
		used[i] = list[place]
	}
	return s, used
}

// narrow intersects two spans of one place, such as the ends of BETWEEN.
func narrow(a, b index.Span) index.Span {
	a.Low, a.High = max(a.Low, b.Low), min(a.High, b.High)
	a.Exact, a.One = a.Exact && b.Exact, a.One || b.One
	return a
}

func (p predicate) disjunction(x *index.Index) (_ index.Expr, exact bool) {
	var args []index.Expr
	exact = true
	for _, arg := range p.args {
		e, all := arg.access(x)
		exact = exact && all
		switch e.Op {
		case index.All:
			return e, false
		case index.None:
		case index.Or:
			args = append(args, e.Args...)
		default:
			args = append(args, e)
		}
	}
	return joined(index.Or, args, index.None), exact
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

// spans returns an expression that selects the documents with any of the values,
// restricted to values that pass the test.
func (p predicate) spans(x *index.Index, path index.Path, op index.Op) index.Expr {
	var args []index.Expr
	for _, v := range p.values {
		s, ok := x.Span(path, op, v)
		switch {
		case !ok:
			return index.Expr{}
		case s.Empty():
		case p.test != nil:
			args = append(args, index.Expr{Op: index.Filter, Span: s, Test: p.test})
		default:
			args = append(args, index.Expr{Op: index.Leaf, Span: s})
		}
	}
	return joined(index.Or, args, index.None)
}

// indexPath returns a path as the index stores it: all elements of an array share one
// step.
func indexPath(path value.Path) index.Path {
	p := make(index.Path, len(path), len(path)+1)
	for i, s := range path {
		p[i] = s.Name
		if s.IsIndex {
			p[i] = index.Element
		}
	}
	return p
}

// namesTerms reports whether an access reads the documents of single terms. Each
// partition then has few, and asking some partitions first saves nothing.
func namesTerms(x index.Expr) bool {
	switch x.Op {
	case index.Leaf:
		return x.Span.One
	case index.And:
		return slices.ContainsFunc(x.Args, namesTerms)
	case index.Or:
		return !slices.ContainsFunc(x.Args, func(arg index.Expr) bool { return !namesTerms(arg) })
	}
	return false
}
