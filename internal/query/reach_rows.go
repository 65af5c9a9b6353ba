package query

import (
	"slices"

	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/value"
)

// rows adds what must hold for q, whose scope is s, to have a row. A query at the top
// makes its rows of documents; any other makes them for a document.
func (r *reach) rows(q *sql.Select, s *scope, top bool, in []box) []box {
	n := node{s: s}
	if possible, done := r.totals(q, n, top); done {
		return unless(!possible, in)
	}
	if q.From != nil {
		for i := range q.From.Inputs {
			in = r.from(q, s, i, top, in)
		}
	}
	if q.Where != nil {
		outer := r.projecting
		r.projecting = false
		in = r.want(n.at(q.Where), certainly, in)
		r.projecting = outer
	}
	before := r.projecting
	r.projecting = true
	defer func() { r.projecting = before }()
	switch {
	case !isGrouped(q):
		if q.Value != nil {
			in = r.want(n.at(q.Value), something, in)
		}
	case q.Value != nil && !hasAggregate(q.Value):
		in = r.want(n.at(q.Value), something, in)
	case q.Value != nil && onlyExtremes(q) && !top && r.kinds(n.at(q.Value.(*sql.CallExpr).Args[0]))&mayCompare == 0:
		return nil
	case q.Value != nil && onlyExtremes(q):
		in = r.want(n.at(q.Value.(*sql.CallExpr).Args[0]), something, in)
	case len(q.GroupBy) == 0 && top && !r.single(q, s, top):
		in = r.counted(q, n, in)
	}
	return in
}

// totals examines a query with aggregates that has a row whatever its inputs are: done is
// false for any other query. The row can be undefined and so no row: possible is false if
// it always is.
func (r *reach) totals(q *sql.Select, n node, top bool) (possible, done bool) {
	if !isGrouped(q) {
		return true, false
	}
	single, totalled := r.single(q, n.s, top), totalled(q)
	if totalled && q.Value != nil && !onlyExtremes(q) && r.kinds(n.at(q.Value))&^mayMiss == 0 {
		return false, true
	}
	switch {
	case top && !single || len(q.GroupBy) > 0 && !single, !totalled:
		return true, false
	case q.Value == nil:
		return true, !top
	}
	if kind, ok := aggregateKind(q.Value); ok && single {
		arg := n.at(q.Value.(*sql.CallExpr).Args[0])
		v, fixed := r.constant(arg)
		switch {
		case (kind == Sum || kind == Average) && !top && q.From == nil && fixed && v.IsDefined() && v.Kind() != value.KindNumber,
			(kind == Sum || onlyExtremes(q)) && !(q.From != nil && q.From.Inputs[0].Subquery != nil && iterates(q.From.Inputs[0].Subquery)) && top && r.kinds(arg)&^(mayArray|mayObject) == 0:
			return false, true
		case kind == Average:
			return true, false
		}
	}
	return true, !top && !onlyExtremes(q)
}

// totalled reports whether a column of a query, or its value, has an aggregate.
func totalled(q *sql.Select) bool {
	for x := range q.Columns() {
		if hasAggregate(x) {
			return true
		}
	}
	return false
}

// single reports whether the inputs of a query have one row for a document, or in total:
// the planner evaluates such a query as an expression, without groups.
func (r *reach) single(q *sql.Select, s *scope, top bool) bool {
	if multiplies(q) || !top {
		return !multiplies(q)
	}
	if q.From == nil || q.From.Inputs[0].Subquery == nil {
		return false
	}
	first := q.From.Inputs[0].Subquery
	inner := s.scopeOf(first)
	return inner != nil && (isGrouped(first) && len(first.GroupBy) == 0 || r.single(first, inner, true))
}

// multiplies is [iterates], except in subqueries whose rows are counted to a single one.
func multiplies(q *sql.Select) bool {
	return q.From != nil && slices.ContainsFunc(q.From.Inputs, func(in sql.Input) bool {
		return in.In || in.Subquery != nil && multiplies(in.Subquery) && (len(in.Subquery.GroupBy) > 0 || !isGrouped(in.Subquery))
	})
}

// onlyExtremes reports whether the VALUE of a query is a minimum or a maximum, which is
// undefined without values.
func onlyExtremes(q *sql.Select) bool {
	kind, ok := aggregateKind(q.Value)
	return ok && (kind == Min || kind == Max)
}

// counted adds what must hold for a document to count in a query that only counts.
func (r *reach) counted(q *sql.Select, n node, in []box) []box {
	var calls []*sql.CallExpr
	for x := range q.Columns() {
		for call := range aggregatesIn(x) {
			if kind, _ := aggregateKind(call); kind != Count && kind != CountIf {
				return in
			}
			calls = append(calls, call)
		}
	}
	for i := range q.OrderBy {
		if hasAggregate(q.OrderBy[i].Expr) {
			return in
		}
	}
	var out []box
	for _, call := range calls {
		kind, _ := aggregateKind(call)
		if kind == Count {
			out = r.joined(out, r.want(n.at(call.Args[0]), something, r.copied(in)))
			continue
		}
		if len(r.want(n.at(call.Args[0]), certainly, r.copied(in))) > 0 {
			return in
		}
	}
	return out
}

// from adds what must hold for an input to have a value.
func (r *reach) from(q *sql.Select, s *scope, i int, top bool, in []box) []box {
	input := &q.From.Inputs[i]
	if i > 0 && r.inner && !input.In && iterates(q) && (input.Subquery == nil || !iterates(input.Subquery)) {
		return in // as in the planner, whose ranges admit more documents than have rows
	}
	defer func(inner bool) { r.inner = inner }(r.inner)
	r.inner = false
	first := top && i == 0
	if input.Subquery != nil {
		inner := s.scopeOf(input.Subquery)
		if inner == nil {
			return in
		}
		in = r.rows(input.Subquery, inner, first && s.root, in)
		if row := r.resolve(r.rowOf(node{s: s}, input.Subquery)); input.In && row.s != nil {
			in = r.want(row, r.listOf(row, input.Subquery, inner, first && s.root), in)
		}
		return in
	}
	n := node{x: input.Collection, s: s.before(i)}
	if i == 0 && s.root {
		n = r.below(s, input.Collection)
	}
	if !input.In {
		return r.want(n, something, in)
	}
	before := r.loose
	r.loose = true
	in = r.want(n, r.list(r.resolve(n)), in)
	r.loose = before
	if place, ok := r.place(r.resolve(n)); ok {
		for i, b := range in {
			in[i] = append(b, cell{iterated + place, domain{kinds: mayArray}, anything, 0})
		}
	}
	return in
}

// listOf returns what the rows of a subquery must be that an input iterates over. As in
// the service, a row with a condition of its own may be anything.
func (r *reach) listOf(row node, q *sql.Select, s *scope, top bool) domain {
	if !top && !multiplies(q) && r.optional(q, s) {
		return anything
	}
	return r.list(row)
}

// optional reports whether a query can have no row for a document, and may have one.
func (r *reach) optional(q *sql.Select, s *scope) bool {
	if q.Where != nil && r.kinds(node{x: q.Where, s: s})&mayTrue == 0 {
		return false
	}
	return r.filters(q, s) || r.mayLack(q, s)
}

// filters reports whether a query has a filter that is neither always true nor never.
func (r *reach) filters(q *sql.Select, s *scope) bool {
	if q.Where == nil {
		return false
	}
	k := r.kinds(node{x: q.Where, s: s})
	return k&mayTrue != 0 && k != mayTrue
}

// list returns what a resolved node must be that an input iterates over: an array. As in
// the service, results of functions, conditions and subqueries count as arrays.
func (r *reach) list(n node) domain {
	if _, ok := r.constant(n); ok {
		return domain{kinds: mayArray}
	}
	if n.row != nil && n.s.outer != nil && !n.s.root && !multiplies(n.row) && r.optional(n.row, n.s) {
		return something
	}
	if k := r.kinds(n); k == mayTrue || k == mayFalse {
		return domain{kinds: mayArray}
	}
	switch x := n.x.(type) {
	case *sql.ConditionalExpr, *sql.CoalesceExpr, *sql.InExpr:
		return something
	case *sql.LikeExpr:
		if !x.Not {
			return something
		}
	case *sql.CallExpr:
		if !r.counts(n, x) {
			return something
		}
	case *sql.Subquery:
		if x.Kind == sql.SubqueryScalar {
			return something
		}
	}
	return domain{kinds: mayArray}
}

// counts reports whether a call is an aggregate of the single row of a query, whose value
// the planner knows to be a number.
func (r *reach) counts(n node, x *sql.CallExpr) bool {
	kind, ok := aggregateKind(x)
	if !ok || n.s.root || n.s.query != nil && (multiplies(n.s.query) || r.filters(n.s.query, n.s) || r.mayLack(n.s.query, n.s)) {
		return false
	}
	arg := n.at(x.Args[0])
	if kind == Count {
		return r.kinds(arg)&mayMiss == 0
	}
	_, fixed := r.constant(arg)
	return fixed
}

// untracked reports whether a name is an element of rows that the planner does not follow:
// it does not compare what is said about such an element.
func (r *reach) untracked(n node, x *sql.Ident) bool {
	a, s := n.s.lookup(x.Name)
	if s == nil || s.query == nil || s.query.From == nil || a.let || a.input >= len(s.query.From.Inputs) {
		return false
	}
	input := &s.query.From.Inputs[a.input]
	if !input.In {
		return false
	}
	if input.Subquery == nil {
		of := node{x: input.Collection, s: s.before(a.input)}
		if a.input == 0 && s.root {
			return false
		}
		name, ok := root(r.resolve(of))
		return ok && r.untracked(r.resolve(of), name)
	}
	inner := s.scopeOf(input.Subquery)
	row := r.resolve(r.rowOf(node{s: s}, input.Subquery))
	return inner != nil && row.s != nil && r.listOf(row, input.Subquery, inner, a.input == 0 && s.root).kinds != mayArray
}

// mayLack reports whether an input of a query can be missing in a document.
func (r *reach) mayLack(q *sql.Select, s *scope) bool {
	if q.From == nil {
		return false
	}
	for i := range q.From.Inputs {
		in := &q.From.Inputs[i]
		if in.Subquery != nil && !in.In {
			inner := s.scopeOf(in.Subquery)
			if row := r.rowOf(node{s: s}, in.Subquery); inner != nil && (row.s != nil && r.kinds(row)&mayMiss != 0 || r.optional(in.Subquery, inner)) {
				return true
			}
		}
		if name, ok := in.Collection.(*sql.Ident); ok {
			if a, _ := s.before(i).lookup(name.Name); !a.let {
				continue
			}
		}
		if in.Subquery == nil && !in.In {
			if of, ok := r.input(s, i); ok && r.kinds(of)&mayMiss != 0 {
				return true
			}
		}
	}
	return false
}
