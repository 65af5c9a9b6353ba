package index

import (
	"slices"
	"strings"

	"github.com/decandb/decan/internal/value"
)

// ExprOp says how an [Expr] combines its parts.
type ExprOp uint8

// The operators.
const (
	All    ExprOp = iota // every document: the index does not help
	None                 // no document
	Leaf                 // the documents of Span
	And                  // those in all Args
	Or                   // those in any of Args
	Filter               // the documents of those terms of Span whose value passes Test
)

// Expr is a set of documents in terms of the index: what the planner asks a
// partition for. The zero value is the set of all documents.
type Expr struct {
	Op   ExprOp
	Args []Expr // of And and Or; an empty And is All, an empty Or is None
	Span Span   // of Leaf and Filter

	// Test is called for each term of a Filter with the value that [DecodeTerm]
	// returns; a term that is not exact passes without a call. Test must return
	// true for every value that satisfies the predicate, and must not keep the
	// value. It may be called from any goroutine, but only by one at a time.
	Test func(value.Value) bool
}

// Exact reports whether the documents of the expression are exactly those that
// satisfy the predicate from which it was made: no leaf is an approximation, and
// it is not All for lack of an index. A Filter is never exact, because terms
// that are not exact pass it.
func (e Expr) Exact() bool {
	switch e.Op {
	case All, Filter:
		return false
	case Leaf:
		return e.Span.Exact
	}
	for _, arg := range e.Args {
		if !arg.Exact() {
			return false
		}
	}
	return true
}

// Serves reports whether the index has the terms of every span of the
// expression: whether an expression that was made with another index finds all
// documents in this one. For a walk, pass a Leaf of its span.
func (x *Index) Serves(e Expr) bool {
	if e.Op == Leaf || e.Op == Filter {
		return x.has(e.Span)
	}
	for _, arg := range e.Args {
		if !x.Serves(arg) {
			return false
		}
	}
	return true
}

// has reports whether documents get the terms of a span.
func (x *Index) has(s Span) bool {
	if len(s.Low) < idSize || x.none {
		return false
	}
	id := s.Low[:idSize]
	if x.ids[id] {
		return true
	}
	if x.Covers(s.Path) && x.walk(rootState, s.Path).id() == id {
		return true
	}
	at := x.spatialAt(s.cellsOf)
	return at != nil && x.spatialID(s.cellsOf, at) == id
}

// Admits reports whether a document with these terms belongs to the set of the
// expression. It looks at each term for each leaf: a source with few documents and
// without posting lists uses it.
func (e Expr) Admits(terms []Term) bool {
	switch e.Op {
	case All:
		return true
	case Leaf, Filter:
		return slices.ContainsFunc(terms, func(t Term) bool {
			if t < e.Span.Low || t >= e.Span.High {
				return false
			}
			if e.Op == Leaf {
				return true
			}
			v, exact := DecodeTerm(t)
			return !exact || e.Test(v)
		})
	case And:
		return !slices.ContainsFunc(e.Args, func(arg Expr) bool { return !arg.Admits(terms) })
	case Or:
		return slices.ContainsFunc(e.Args, func(arg Expr) bool { return arg.Admits(terms) })
	}
	return false
}

// String returns the expression with the labels of its spans, such as (/a/? and
// (/b/? or /c/?)).
func (e Expr) String() string {
	switch e.Op {
	case All:
		return "all"
	case None:
		return "none"
	case Leaf:
		return e.Span.Label
	case Filter:
		return "filter " + e.Span.Label
	}
	word := " and "
	if e.Op == Or {
		word = " or "
	}
	parts := make([]string, len(e.Args))
	for i, arg := range e.Args {
		parts[i] = arg.String()
	}
	return "(" + strings.Join(parts, word) + ")"
}
