package query

import (
	"slices"

	"github.com/decandb/decan/internal/query/sql"
)

// written reports whether a resolved node is an array or an object that the query writes.
func written(n node) bool {
	switch n.x.(type) {
	case *sql.ArrayLiteral, *sql.ObjectLiteral:
		return true
	}
	return n.row != nil
}

// holds adds that a property is equal to an array or an object that the query writes, if
// the first node is one. As in the service's planner, one of only constants and properties
// says nothing of the other. The planner also takes it that the parts are defined; a
// literal without a part is equal to a smaller one, so that would lose rows.
func (r *reach) holds(literal, other node, in []box) []box {
	if !written(literal) || other.row != nil || !ofElement(other.x) || !r.operates(literal) {
		return in
	}
	kind := mayObject
	if _, ok := literal.x.(*sql.ArrayLiteral); ok {
		kind = mayArray
	}
	return r.want(other, domain{kinds: kind}, in)
}

// operates reports whether a part of an array or an object that a query writes is neither
// a property nor constant.
func (r *reach) operates(literal node) bool {
	part := func(x sql.Expr) bool {
		n := r.resolve(literal.at(x))
		_, fixed := r.constant(n)
		return !fixed && (n.row != nil || !ofElement(n.x))
	}
	if literal.row != nil {
		return slices.ContainsFunc(literal.row.Items, func(item sql.SelectItem) bool { return part(item.Expr) })
	}
	for x := range sql.Children(literal.x) {
		if part(x) {
			return true
		}
	}
	return false
}

// onlyInput returns the row of the innermost query with inputs, for SELECT * of a query
// without them.
func onlyInput(s *scope) node {
	for ; s != nil; s = s.outer {
		if s.query != nil && s.query.From != nil && len(s.query.From.Inputs) > 0 {
			return node{x: &sql.Ident{Name: s.query.From.Inputs[0].Name()}, s: s}
		}
	}
	return node{}
}

// conditionalRow reports whether a name refers to the row of a subquery that has no row in
// some documents. As in the service's planner, such a row counts as an array where one is
// needed.
func (r *reach) conditionalRow(n node) bool {
	for range resolveMax {
		var q *sql.Select
		var inner *scope
		switch x := n.x.(type) {
		case *sql.Ident:
			if a, s := n.s.lookup(x.Name); s != nil && !a.let && s.query != nil && s.query.From != nil && a.input < len(s.query.From.Inputs) {
				if input := &s.query.From.Inputs[a.input]; !input.In && input.Subquery != nil && !(a.input == 0 && s.root) {
					q, inner = input.Subquery, s.scopeOf(input.Subquery)
				}
			}
		case *sql.Subquery:
			if x.Kind == sql.SubqueryScalar || x.Kind == sql.SubqueryFirst || x.Kind == sql.SubqueryLast {
				q, inner = x.Query, n.s.scopeOf(x.Query)
			}
		}
		if q != nil && inner != nil && !multiplies(q) && !totalled(q) && r.optional(q, inner) {
			return true
		}
		next, ok := r.referred(n)
		if !ok {
			return false
		}
		n = next
	}
	return false
}

// ofElement returns what the planner takes from a domain of an element of an array, or of
// a property of one: nothing if the domain says only what the value is not.
func (r *reach) ofElement(n node, name *sql.Ident, d domain) domain {
	const composed = mayArray | mayObject
	if d.kinds&composed != composed {
		return d
	}
	a, s := n.s.lookup(name.Name)
	if s == nil || a.let || s.query == nil || s.query.From == nil || a.input >= len(s.query.From.Inputs) || !s.query.From.Inputs[a.input].In {
		return d
	}
	return domain{kinds: mayExist | d.kinds}
}

// root returns the name that a property begins with, and its scope.
func root(n node) (*sql.Ident, bool) {
	for {
		switch x := n.x.(type) {
		case *sql.MemberExpr:
			n.x = x.X
		case *sql.IndexExpr:
			n.x = x.X
		case *sql.Ident:
			return x, true
		default:
			return nil, false
		}
	}
}

// branched reports whether a resolved node has a value that a condition chooses. Its
// kinds are not compared.
func branched(n node) bool {
	switch x := n.x.(type) {
	case *sql.ConditionalExpr, *sql.CoalesceExpr:
		return true
	case *sql.CallExpr:
		return isFunction(x, "IIF")
	}
	return false
}

// branches reports whether a condition chooses between values of which one is the result
// of a function: the planner does not know that they have no members.
func (r *reach) branches(n node) bool {
	calls := func(x sql.Expr) bool {
		of := r.resolve(n.at(x))
		_, fixed := r.constant(of)
		_, call := of.x.(*sql.CallExpr)
		return call && !fixed
	}
	switch x := n.x.(type) {
	case *sql.CoalesceExpr:
		return calls(x.X) || calls(x.Y)
	case *sql.ConditionalExpr:
		return calls(x.Then) || calls(x.Else)
	case *sql.CallExpr:
		kind, ok := aggregateKind(x)
		return ok && kind == Average && n.s.query != nil && !n.s.root && !multiplies(n.s.query) && r.optional(n.s.query, n.s)
	}
	return false
}
