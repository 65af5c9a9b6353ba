package query

import (
	"slices"
	"unicode/utf8"

	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/value"
)

// groupedQuery checks the references of a grouped query, first those of ORDER BY. An
// ORDER BY of only properties, without GROUP BY, needs no check.
func (a *analysis) groupedQuery(q *sql.Select, s *scope) {
	if !a.groups(q) || q.Rank || q.From == nil && len(q.GroupBy) == 0 {
		return
	}
	if len(q.GroupBy) > 0 {
		for i := range q.OrderBy {
			a.totalledIn(q.OrderBy[i].Expr, false)
		}
		for x := range q.Columns() {
			a.totalledIn(x, false)
		}
	}
	if len(q.GroupBy) > 0 || slices.ContainsFunc(q.OrderBy, func(sort sql.OrderByItem) bool { return !isPath(sort.Expr) }) {
		paths := map[string]bool{}
		for _, x := range q.GroupBy {
			if isPath(x) {
				paths[sql.Canonical(x)] = true
			}
		}
		a.clause = clauseOrderBy
		for i := range q.OrderBy {
			x := q.OrderBy[i].Expr
			if element, ok := x.(*sql.IndexExpr); ok {
				x = element.X // compare the array with the keys, not its element
			}
			a.grouped(x, s, s, paths)
		}
	}
	a.clause = clauseList
	switch {
	case q.Star && len(q.GroupBy) > 0:
		a.width[q] = len(q.GroupBy)
		a.report(q.ListAt, "SC2041", "'SELECT *' is not allowed with GROUP BY.")
	case q.Star:
		a.report(q.ListAt, "SC2040", "'SELECT *' is not allowed with aggregate functions.")
	}
	keys := groupKeys(q)
	for x := range q.Columns() {
		a.grouped(x, s, s, keys)
	}
}

func groupKeys(q *sql.Select) map[string]bool {
	keys := map[string]bool{}
	for _, x := range q.GroupBy {
		keys[sql.Canonical(x)] = true
	}
	return keys
}

// groupBy checks the keys of GROUP BY.
func (a *analysis) groupBy(q *sql.Select, s *scope) {
	a.clause = clauseGroupBy
	if q.Rank && len(q.GroupBy) > 0 {
		a.unranked(q.GroupAt, "SC2227", "The GROUP BY clause is")
	}
	for _, x := range q.GroupBy {
		if !a.expr(x, s).refers {
			a.report(x.Span(), "SC2110", "Each GROUP BY expression must contain at least one property reference.")
		}
	}
}

// combined reports an aggregate or a subquery in a key of GROUP BY.
func (a *analysis) combined(at sql.Span) {
	a.report(at, "SC2111", "Cannot use an aggregate or a subquery in an expression used for the group by list of a GROUP BY clause.")
}

// wrongEscape reports whether a LIKE has an escape that is not one character.
func wrongEscape(x *sql.LikeExpr) bool {
	return x.HasEscape && utf8.RuneCountInString(x.Escape) != 1
}

// grouped checks an expression in the select list of a grouped query: each reference
// to the inputs of the query, whose scope is s, must be in an aggregate or in a key.
// here is the scope of x: that of a subquery, or s.
func (a *analysis) grouped(x sql.Expr, s, here *scope, keys map[string]bool) {
	if _, ok := aggregateKind(x); ok && here.outsideLet() == s {
		return
	}
	if keys[sql.Canonical(x)] && !hides(x, here, s) {
		return
	}
	switch y := x.(type) {
	case *sql.Subquery:
		a.groupedIn(y, s, here, keys)
		return
	case *sql.LetExpr:
		a.grouped(y.Value, s, here, keys)
		a.grouped(y.In, s, here.with(y.Name), keys)
		return
	case *sql.IndexExpr:
		a.grouped(y.X, s, here, keys) // check the array, not its element
		return
	case *sql.Ident, *sql.MemberExpr:
		if a.reference(x, s, here, keys) {
			return
		}
	}
	for part := range sql.Children(x) {
		a.grouped(part, s, here, keys)
	}
}

// totalledIn checks the subqueries in the aggregates of a grouped query.
func (a *analysis) totalledIn(x sql.Expr, inside bool) {
	if sub, ok := x.(*sql.Subquery); ok {
		if inside && a.wide[sub.Query] {
			a.wideStar(sub.Query)
		}
		if inside && sub.Kind == sql.SubqueryScalar && a.several[sub.Query] {
			a.cardinality(sub)
		}
		return
	}
	_, total := aggregateKind(x)
	for part := range sql.Children(x) {
		a.totalledIn(part, inside || total)
	}
}

// reference checks a path in a grouped query. It returns false if x is none.
func (a *analysis) reference(x sql.Expr, s, here *scope, keys map[string]bool) bool {
	root, inKey := pathRoot(x, keys)
	if root == nil {
		return false
	}
	if !inner(here, s, root.Name) && !inKey {
		code, clause := "SC2102", "select list"
		if a.clause == clauseOrderBy {
			code, clause = "SC2103", "ORDER BY clause"
		}
		a.report(x.Span(), code, "Property reference '%s' is invalid in the %s because it is not contained in either an aggregate function or the GROUP BY clause.", truncate(a.text[x.Span().Start:x.Span().End]), clause)
	}
	return true
}

// inner reports whether a name is an alias of a subquery of the grouped query whose
// scope is s, according to the scope here in it.
func inner(here, s *scope, name string) bool {
	for ; here != s; here = here.outer {
		if _, ok := here.names[name]; ok {
			return true
		}
	}
	_, number := numberNames[name]
	return number && !s.has(name)
}

// groupedIn checks a subquery of a grouped query. If there are no errors so far, its
// own aggregates reduce several rows to one.
func (a *analysis) groupedIn(x *sql.Subquery, s, outer *scope, keys map[string]bool) {
	before := a.clause
	a.clause = clauseList
	a.groupedClauses(x.Query, s, outer, keys)
	a.clause = before
	reduced := isGrouped(x.Query) && len(x.Query.GroupBy) == 0 && len(a.diagnostics) == 0
	if x.Kind == sql.SubqueryScalar && !reduced && a.many[x.Query] {
		a.cardinality(x)
	}
}

func (a *analysis) groupedClauses(q *sql.Select, s, outer *scope, keys map[string]bool) {
	here := &scope{outer: outer}
	if q.From != nil {
		for i := range q.From.Inputs {
			in := &q.From.Inputs[i]
			if in.Subquery != nil {
				a.groupedClauses(in.Subquery, s, here, keys)
			} else {
				a.groupedInput(in, s, here, keys)
			}
			if name := in.Name(); name != "" {
				here.define(name, alias{})
			}
		}
	}
	if q.Where != nil {
		a.grouped(q.Where, s, here, keys)
	}
	for _, x := range q.GroupBy {
		before := len(a.diagnostics)
		if a.grouped(x, s, here, keys); len(a.diagnostics) > before && !refersInside(x, s, here) {
			a.report(x.Span(), "SC2110", "Each GROUP BY expression must contain at least one property reference.")
		}
	}
	if q.Star && q.From == nil && outer == s && len(a.in.q.GroupBy) > 1 {
		a.wideStar(q)
	}
	if a.wide[q] {
		a.wideStar(q)
	}
	for x := range q.Columns() {
		if len(q.GroupBy) > 0 && q.From != nil {
			a.lost(x, s, here)
		}
		a.grouped(x, s, here, keys)
	}
}

// refersInside reports whether x contains the alias of a subquery of the grouped query
// whose scope is s.
func refersInside(x sql.Expr, s, here *scope) bool {
	for name := range sql.Idents(x) {
		if inner(here, s, name.Name) {
			return true
		}
	}
	return false
}

// groupedInput checks a collection of a subquery of a grouped query. A key that is only
// a name does not make its properties known here.
func (a *analysis) groupedInput(in *sql.Input, s, here *scope, keys map[string]bool) {
	properties := map[string]bool{}
	for x := in.Collection; x != nil; {
		next := sql.Expr(nil)
		switch y := x.(type) {
		case *sql.MemberExpr:
			next = y.X
		case *sql.IndexExpr:
			next = y.X
		}
		if text := sql.Canonical(x); keys[text] && (next != nil || x == in.Collection && !in.In) {
			properties[text] = true
		}
		x = next
	}
	if _, element := in.Collection.(*sql.IndexExpr); !element || !a.reference(in.Collection, s, here, properties) {
		a.grouped(in.Collection, s, here, properties)
	}
}

// lost reports aliases of s in the aggregates of a subquery that groups its own rows.
// The planner does not find such aliases.
func (a *analysis) lost(x sql.Expr, s, here *scope) {
	for call := range aggregatesIn(x) {
		for _, arg := range call.Args {
			for name := range sql.Idents(arg) {
				if _, of := here.lookup(name.Name); of == s {
					a.report(name.At, "SC2001", "Identifier '%s' could not be resolved.", truncate(name.Name))
				}
			}
		}
	}
}

// pathRoot returns the first name of a path, or nil if x is not a path, and whether
// the path begins with a key.
func pathRoot(x sql.Expr, keys map[string]bool) (root *sql.Ident, inKey bool) {
	for {
		inKey = inKey || keys[sql.Canonical(x)]
		switch y := x.(type) {
		case *sql.Ident:
			return y, inKey
		case *sql.MemberExpr:
			x = y.X
		case *sql.IndexExpr:
			x = y.X
		default:
			return nil, inKey
		}
	}
}

// order checks that the keys of ORDER BY are places in documents. This error has a form
// of its own, and is returned only if the query has no other error.
func (a *analysis) order(q *sql.Select, s *scope) error {
	if q.Rank || q.From == nil || s.set && len(q.GroupBy) == 0 && a.groups(q) {
		return nil
	}
	if first := q.From.Inputs[0]; len(q.From.Inputs) == 1 && countsRows(first.Name(), q) {
		return nil
	}
	for i := range q.OrderBy {
		if x := q.OrderBy[i].Expr; !a.sortable(x, q) && !(len(q.OrderBy) == 1 && a.sortsByValue(x, q)) {
			return numberedError(2206, "Unsupported ORDER BY clause. ORDER BY item expression could not be mapped to a document path.")
		}
	}
	return nil
}

// sortsByValue reports whether x is a score, or the distance of a property from a
// constant vector.
func (a *analysis) sortsByValue(x sql.Expr, q *sql.Select) bool {
	if !isDistance(x) {
		return sortsByValue(x)
	}
	place, vector := x.(*sql.CallExpr).Args[0], x.(*sql.CallExpr).Args[1]
	if !a.sortable(place, q) {
		place, vector = vector, place
	}
	v, ok := inputs{params: a.params}.constant(vector)
	return ok && a.sortable(place, q) && v.Kind() == value.KindArray &&
		!slices.ContainsFunc(v.Items(), func(item value.Value) bool { return item.Kind() != value.KindNumber })
}

// sortable reports whether x is an input of q or a property of one, through the columns
// of subqueries, or the rows that countsRows finds.
func (a *analysis) sortable(x sql.Expr, q *sql.Select) bool {
	if root, _ := pathRoot(x, nil); root != nil && countsRows(root.Name, q) && !isGrouped(q) {
		return true
	}
	return a.isPlace(x, q)
}

func (a *analysis) isPlace(x sql.Expr, q *sql.Select) bool {
	var steps []string // from the last to the first; "" for an index
	for {
		switch y := a.chosen(x, q).(type) {
		case *sql.MemberExpr:
			steps, x = append(steps, y.Name), y.X
		case *sql.IndexExpr:
			steps, x = append(steps, ""), y.X
			if v, fixed := (inputs{params: a.params}).constant(y.Index); fixed {
				if items, ok := a.chosen(y.X, q).(*sql.ArrayLiteral); ok {
					i, whole := v.Int64()
					if !whole || i < 0 || i >= int64(len(items.Items)) {
						return false
					}
					steps, x = steps[:len(steps)-1], items.Items[i]
				}
			}
		case *sql.ObjectLiteral:
			if len(steps) == 0 {
				return false
			}
			at := slices.IndexFunc(y.Members, func(m sql.Property) bool { return m.Name == steps[len(steps)-1] })
			if at < 0 {
				return false
			}
			steps, x = steps[:len(steps)-1], y.Members[at].Expr
		case *sql.Subquery:
			return y.Kind == sql.SubqueryScalar && y.Query.Value != nil && a.isPlace(y.Query.Value, y.Query)
		case *sql.Ident:
			if _, number := numberNames[y.Name]; number {
				return false
			}
			return q.From == nil || a.columnIsPlace(y.Name, steps, q.From.Inputs)
		default:
			return false
		}
	}
}

// chosen returns the branch of a condition that is taken in every document.
func (a *analysis) chosen(x sql.Expr, q *sql.Select) sql.Expr {
	switch y := x.(type) {
	case *sql.ConditionalExpr:
		return a.branch(x, y.Cond, y.Then, y.Else, q)
	case *sql.CallExpr:
		if isFunction(y, "IIF") && len(y.Args) == 3 {
			return a.branch(x, y.Args[0], y.Args[1], y.Args[2], q)
		}
	case *sql.CoalesceExpr:
		if v, fixed := (inputs{params: a.params}).constant(y.X); fixed && !v.IsDefined() || !fixed && a.alwaysMissing(y.X) {
			return a.chosen(y.Y, q)
		}
		if root, ok := y.X.(*sql.Ident); ok && isInput(root.Name, q) {
			return y.X
		}
	}
	return x
}

func (a *analysis) branch(x, cond, then, otherwise sql.Expr, q *sql.Select) sql.Expr {
	v, fixed := (inputs{params: a.params}).constant(cond)
	call, tested := cond.(*sql.CallExpr)
	switch {
	case fixed && truthIn(v) == yes, sql.Canonical(then) == sql.Canonical(otherwise):
		return a.chosen(then, q)
	case tested && isFunction(call, "IS_DEFINED") && len(call.Args) == 1:
		if root, ok := call.Args[0].(*sql.Ident); ok && isInput(root.Name, q) {
			return a.chosen(then, q)
		}
	case fixed, a.alwaysMissing(cond), isNumeric(cond):
		return a.chosen(otherwise, q)
	}
	return x
}

// isNumeric reports whether the result of x is a number or undefined.
func isNumeric(x sql.Expr) bool {
	switch y := x.(type) {
	case *sql.UnaryExpr:
		return y.Op != "NOT"
	case *sql.BinaryExpr:
		return mirrored[y.Op] == "" && y.Op != "||"
	}
	return false
}

// alwaysMissing reports whether x is an operator on numbers that has an operand of
// another type.
func (a *analysis) alwaysMissing(x sql.Expr) bool {
	if !isNumeric(x) {
		return false
	}
	for part := range sql.Children(x) {
		v, fixed := (inputs{params: a.params}).constant(part)
		switch y := part.(type) {
		case *sql.ArrayLiteral, *sql.ObjectLiteral:
			return true
		default:
			if fixed && v.Kind() != value.KindNumber || !fixed && a.alwaysMissing(y) {
				return true
			}
		}
	}
	return false
}

// isInput reports whether a name is that of a collection in FROM, which always has a value.
func isInput(name string, q *sql.Select) bool {
	return q.From != nil && slices.ContainsFunc(q.From.Inputs, func(in sql.Input) bool { return in.Name() == name && in.Subquery == nil })
}

// countsRows reports whether the first input of a query without a filter has this name and is
// the value of an aggregate that always has one. Such values count as places.
func countsRows(name string, q *sql.Select) bool {
	first := &q.From.Inputs[0]
	if first.Name() != name || first.In || first.Subquery == nil || !alwaysTrue(q.Where) && !replaced(q.Where) || len(first.Subquery.GroupBy) > 0 || first.Subquery.Value == nil {
		return false
	}
	kind, ok := aggregateKind(first.Subquery.Value)
	return ok && (kind == Count || kind == CountIf || kind == MakeList || kind == MakeSet)
}

// columnIsPlace reports whether steps after an input, the last of them first, lead to a
// place in documents.
func (a *analysis) columnIsPlace(name string, steps []string, inputs []sql.Input) bool {
	i := slices.IndexFunc(inputs, func(in sql.Input) bool { return in.Name() == name })
	if i < 0 {
		return true
	}
	inner := inputs[i].Subquery
	switch {
	case inner == nil && i == 0:
		return true
	case inner == nil:
		return a.collectionIsPlace(&inputs[i], steps, inputs[:i])
	case i > 0 && !a.filtersRows(inner):
		return false
	case inner.Star && inner.From == nil:
		return i > 0
	case inner.Star:
		return a.columnIsPlace(inner.From.Inputs[0].Name(), steps, inner.From.Inputs)
	case inner.Value != nil:
		return a.memberIsPlace(inner.Value, steps, inner)
	case len(steps) == 0:
		return false
	}
	at := slices.Index(columnNames(inner.Items), steps[len(steps)-1])
	return at >= 0 && a.memberIsPlace(inner.Items[at].Expr, steps[:len(steps)-1], inner)
}

// alwaysTrue reports whether a filter is absent or the literal true, which a client puts
// in the place of the filter of a rewritten text.
func alwaysTrue(where sql.Expr) bool {
	x, ok := where.(*sql.Literal)
	return where == nil || ok && x.Value.IsTrue()
}

// replaced reports whether a filter is that of a rewritten text without another one: true
// in place of its placeholder, and that the row is defined.
func replaced(where sql.Expr) bool {
	x, ok := where.(*sql.LogicalExpr)
	if !ok || x.Or || len(x.Terms) != 2 || !alwaysTrue(x.Terms[0]) {
		return false
	}
	call, ok := x.Terms[1].(*sql.CallExpr)
	return ok && isFunction(call, "IS_DEFINED")
}

// filtersRows reports whether a subquery has rows of its own to filter, or no filter: the
// value of one with a filter that has no such rows is an expression, and not a place.
func (a *analysis) filtersRows(q *sql.Select) bool {
	if alwaysTrue(q.Where) {
		return true
	}
	if v, fixed := (inputs{params: a.params}).constant(q.Where); fixed && v.IsTrue() {
		return true
	}
	return q.From != nil && slices.ContainsFunc(q.From.Inputs, func(in sql.Input) bool {
		return in.In || in.Subquery != nil && a.filtersRows(in.Subquery)
	})
}

// collectionIsPlace is columnIsPlace for an input that is a place in an earlier one.
func (a *analysis) collectionIsPlace(in *sql.Input, steps []string, earlier []sql.Input) bool {
	steps = slices.Clip(steps)
	if in.In {
		steps = append(steps, "")
	}
	for x := in.Collection; ; {
		switch y := x.(type) {
		case *sql.MemberExpr:
			steps, x = append(steps, y.Name), y.X
		case *sql.IndexExpr:
			steps, x = append(steps, ""), y.X
		case *sql.Ident:
			return a.columnIsPlace(y.Name, steps, earlier)
		default:
			return true
		}
	}
}

// memberIsPlace reports whether steps after an expression, the last of them first, lead
// to a place in documents.
func (a *analysis) memberIsPlace(x sql.Expr, steps []string, q *sql.Select) bool {
	if o, ok := x.(*sql.ObjectLiteral); ok && len(steps) > 0 {
		at := slices.IndexFunc(o.Members, func(m sql.Property) bool { return m.Name == steps[len(steps)-1] })
		return at >= 0 && a.memberIsPlace(o.Members[at].Expr, steps[:len(steps)-1], q)
	}
	return a.isPlace(x, q)
}

// correlatedOrder returns the error of partitions for an ORDER BY of anything other
// than documents, places in them and groups. The planner accepts such a query.
func (p *Plan) correlatedOrder(s *scope) error {
	q := p.query
	if q.From == nil || q.Rank || isGrouped(q) {
		return nil
	}
	first := 0
	if p.rooted {
		first = 1
	}
	for _, sort := range q.OrderBy {
		root, _ := pathRoot(sort.Expr, nil)
		if root == nil {
			continue
		}
		inner := combining(q.From)
		if a, _ := s.lookup(root.Name); a.input > first || q.From.Inputs[first].In || inner != nil && inner.Distinct {
			return planError("Order-by over correlated collections is not supported.")
		}
	}
	return nil
}

// isPath reports whether x is an input, or a property that is reached only by names and
// indexes.
func isPath(x sql.Expr) bool {
	for {
		switch y := x.(type) {
		case *sql.Ident:
			_, number := numberNames[y.Name]
			return !number
		case *sql.MemberExpr:
			x = y.X
		case *sql.IndexExpr:
			x = y.X
		default:
			return false
		}
	}
}
