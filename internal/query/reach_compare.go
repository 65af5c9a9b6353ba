package query

import (
	"strings"

	"github.com/decandb/decan/internal/query/sql"
)

// followed reports whether the planner compares the types of two expressions that are
// equal: only those of a place, and of two arrays or objects. Any other two may be equal.
func (r *reach) followed(x, y node) bool {
	built := written
	k := r.kinds(x) & r.kinds(y) & mayExist
	if built(x) && built(y) || k == 0 && (r.kinds(x) == mayMiss || r.kinds(y) == mayMiss) {
		return true
	}
	for _, n := range []node{x, y} {
		switch sub := n.x.(type) {
		case nil:
			return n.row == nil
		case *sql.Ident, *sql.MemberExpr, *sql.IndexExpr:
			return true
		case *sql.Subquery:
			if sub.Kind == sql.SubqueryScalar {
				continue
			}
			return true
		case *sql.CallExpr:
			if f := functions[strings.ToUpper(sub.Name)]; f != nil && typeTests[f.name] != 0 && (built(x) || built(y)) {
				return true
			}
		}
	}
	return false
}

// ofElement reports whether a resolved node is the document, an element of an array, or a
// property of one.
func ofElement(x sql.Expr) bool {
	for {
		switch y := x.(type) {
		case nil, *sql.Ident:
			return true
		case *sql.MemberExpr:
			x = y.X
		case *sql.IndexExpr:
			x = y.X
		default:
			return false
		}
	}
}

// same reports whether x and y are the same property of a document or of an element, which
// is not NaN.
func (r *reach) same(x, y node) bool {
	a, ok := r.place(x)
	b, also := r.place(y)
	return ok && also && a == b && ofElement(x.x)
}
