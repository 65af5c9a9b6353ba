package index

import "github.com/decandb/decan/internal/value"

// Placed reports whether the documents of a Leaf or a Filter can be told by the one
// value at its path: the path leads through no array, and it is no computed
// property. Then [Expr.Holds] answers for that value.
func (x *Index) Placed(e Expr) bool {
	s := e.Span
	if e.Op != Leaf && e.Op != Filter || len(s.Path) == 0 || s.Path.elements() || len(s.Low) < idSize || !x.Covers(s.Path) {
		return false
	}
	if _, computed := x.computed[s.Path[0]]; computed {
		return false
	}
	return x.walk(rootState, s.Path).id() == s.Low[:idSize]
}

// Holds reports whether a document with this value at the path of a [Index.Placed]
// Leaf or Filter is one of its documents: whether the term that the value has in the
// index is one of those that the expression asks for. It appends the term to dst,
// which is empty, as scratch.
func (e Expr) Holds(dst []byte, v value.Value) (scratch []byte, holds bool) {
	if !v.IsDefined() {
		return dst, false
	}
	dst = append(dst, e.Span.Low[:idSize]...)
	dst, exact := appendValue(dst, v)
	if string(dst) < string(e.Span.Low) || string(dst) >= string(e.Span.High) {
		return dst, false
	}
	return dst, e.Op != Filter || !exact || e.Test(v)
}
