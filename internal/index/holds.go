package index

import "github.com/decandb/decan/internal/value"

// Placed reports whether the value at its path alone decides whether a document belongs
// to a Leaf or a Filter: the path goes through no array and is no computed property.
// Then [Expr.Holds] decides it for a value.
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

// Holds reports whether a document with this value at the path of a [Index.Placed] Leaf
// or Filter belongs to it: whether the term of the value is one of its terms. Holds
// appends the term to dst, which must be empty, and returns it as scratch memory.
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
