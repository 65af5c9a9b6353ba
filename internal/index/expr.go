package index

import "strings"

// ExprOp says how an [Expr] combines its parts.
type ExprOp uint8

// The operators.
const (
	All  ExprOp = iota // every document: the index does not help
	None               // no document
	Leaf               // the documents of Span
	And                // those of all Args
	Or                 // those of any of Args
)

// Expr is a set of documents in terms of the index: what the planner asks a
// partition for. The zero value is every document.
type Expr struct {
	Op   ExprOp
	Args []Expr // of And and Or; an empty And is All, an empty Or is None
	Span Span   // of Leaf
}

// Exact reports whether the documents of the expression are exactly those that
// satisfy the predicate it was made of, given that its leaves say what was
// asked: no leaf is an approximation, and it is not All for want of an index.
func (e Expr) Exact() bool {
	switch e.Op {
	case All:
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

// Serves reports whether the index covers every path of the expression: whether
// an expression that was made with another index finds all documents in the
// lists of this one.
func (x *Index) Serves(e Expr) bool {
	if e.Op == Leaf {
		return x.Covers(e.Span.Path)
	}
	for _, arg := range e.Args {
		if !x.Serves(arg) {
			return false
		}
	}
	return true
}

// String returns the expression with the labels of its spans, such as
// (/a/? and (/b/? or /c/?)).
func (e Expr) String() string {
	switch e.Op {
	case All:
		return "all"
	case None:
		return "none"
	case Leaf:
		return e.Span.Label
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
