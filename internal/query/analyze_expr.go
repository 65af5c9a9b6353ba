package query

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/value"
)

// expr checks an expression of the innermost query.
func (a *analysis) expr(x sql.Expr, s *scope) bound {
	switch x := x.(type) {
	case *sql.Ident:
		one, where := s.lookup(x.Name)
		_, number := numberNames[x.Name]
		switch {
		case number || where != nil:
		case a.keeps(x.Name):
			a.unknown = append(a.unknown, sql.Diagnosticf(x.At, "SC2001", "Identifier '%s' could not be resolved.", truncate(x.Name)))
		default:
			a.report(x.At, "SC2001", "Identifier '%s' could not be resolved.", truncate(x.Name))
			return bound{null: true}
		}
		return bound{refers: where != nil && !one.bare}
	case *sql.IndexExpr:
		if !a.isFixed(x.Index) {
			a.expr(x.Index, s)
			a.report(x.At, "SC2990", "The specified query includes 'member indexer' which is currently not supported.")
			return bound{null: true}
		}
		return bound{refers: a.expr(x.X, s).refers}
	case *sql.MemberExpr:
		b := bound{refers: a.expr(x.X, s).refers}
		if root, ok := x.X.(*sql.Ident); ok {
			one, _ := s.lookup(root.Name)
			known := one.columns == nil || slices.Contains(columnNames(one.columns), x.Name)
			b.refers = b.refers && (known || a.clause == clauseGroupBy && (a.depth == 0 || one.fed))
		}
		return b
	case *sql.LikeExpr:
		if wrongEscape(x) {
			a.report(x.EscapeAt, "SC2207", "The invalid escape character '%s' was specified in a LIKE predicate.", truncate(x.Escape))
			return bound{null: true}
		}
	case *sql.ObjectLiteral:
		names := make(map[string]bool, len(x.Members))
		for i := range x.Members {
			m := &x.Members[i]
			if names[m.Name] {
				a.twice(m.NameAt, m.Name)
			}
			names[m.Name] = true
		}
	case *sql.CallExpr:
		return a.call(x, s)
	case *sql.LetExpr:
		return a.let(x, s)
	case *sql.Subquery:
		return a.subquery(x, s)
	}
	var b bound
	for part := range sql.Children(x) {
		b.refers = a.expr(part, s).refers || b.refers
	}
	return b
}

// subquery checks a query in an expression. A scalar subquery of several rows is an
// error, unless the query that contains it is evaluated as a single expression: then
// that has several rows.
func (a *analysis) subquery(x *sql.Subquery, s *scope) bound {
	if a.clause == clauseGroupBy {
		a.combined(x.At)
		return bound{null: true}
	}
	loops := a.loops
	a.depth++
	inner := a.query(x.Query, s, expression)
	a.depth--
	a.loops = loops
	switch {
	case x.Kind == sql.SubqueryScalar && a.starred[x.Query]:
		a.lose(x.Query, s)
	case a.many[x.Query]:
		a.left = append(a.left, "")
	}
	in := a.in.s
	if q := x.Query; a.many[q] || q.Top != nil || q.Offset != nil || len(q.OrderBy) > 0 && !q.Rank {
		for range inner.own {
			in.extra = append(in.extra, a.newSet())
		}
	}
	b := bound{refers: inner.refers, null: inner.null && x.Kind == sql.SubqueryScalar}
	switch {
	case x.Kind != sql.SubqueryScalar || !a.several[x.Query]:
	case !in.set && !in.fed && a.at >= inside:
		in.set = true
	case in.groups:
		// groupedIn and totalledIn report this if there is no other error.
	default:
		a.cardinality(x)
		in.set, b.null = in.set || in.fed, true
	}
	return b
}

func (a *analysis) cardinality(x *sql.Subquery) {
	a.report(x.Query.At, "SC2201", "The cardinality of a scalar subquery result set cannot be greater than one.")
}

// isFixed reports whether x can be an index: a literal or a parameter that is a number
// or a string.
func (a *analysis) isFixed(x sql.Expr) bool {
	v := a.given(x)
	if x, ok := x.(*sql.Ident); ok {
		v = numberNames[x.Name]
	}
	return v.Kind() == value.KindNumber || v.Kind() == value.KindString
}

// let checks a LET, whose name must not hide another.
func (a *analysis) let(x *sql.LetExpr, s *scope) bound {
	switch a.clause {
	case clauseGroupBy:
		a.report(x.At, "SC2090", "LET expressions are not allowed in the GROUP BY clause.")
		return bound{null: true}
	case clauseOrderBy, clauseRank:
		a.report(x.At, "SC2091", "LET expressions are not allowed in the ORDER BY clause.")
		return bound{null: true}
	}
	v := a.expr(x.Value, s)
	if s.has(x.Name) || a.keeps(x.Name) {
		a.report(x.NameAt, "SC2023", "The variable name '%s' in the LET expression must be unique.", truncate(x.Name))
		return bound{refers: v.refers}
	}
	a.left = append(a.left, x.Name)
	in := a.expr(x.In, s.with(x.Name))
	a.left = a.left[:len(a.left)-1]
	a.composed = a.composed || hasAggregate(x.Value) || hasAggregate(x.In)
	return bound{refers: v.refers || in.refers}
}

func (a *analysis) call(x *sql.CallExpr, s *scope) bound {
	var b bound
	args := make([]bound, len(x.Args))
	for i, arg := range x.Args {
		args[i] = a.expr(arg, s)
		b.refers = b.refers || args[i].refers
	}
	if x.UDF {
		a.userFunction(x)
		return b
	}
	f := functions[strings.ToUpper(x.Name)]
	switch {
	case f == nil || f.name == "RRF":
		a.unrecognized(x)
		return bound{null: true}
	case takesTimespan(f, len(x.Args)) && !a.isTimespan(x.Args[0]):
		a.report(x.At, "SC2053", "The timespan argument provided to the DateTime function is invalid.")
		return bound{null: true}
	case !f.takes(len(x.Args)):
		a.faulty[x] = true
		a.arity(x, f)
		return bound{null: true}
	case f.name == "FullTextScore" && a.clause != clauseRank:
		a.report(x.At, "SC2240", "The FullTextScore function is only allowed in the ORDER BY RANK clause.")
		return bound{null: true}
	case f.name == "_FullTextScore" && a.clause == clauseRank:
		a.unrecognized(x)
		return bound{null: true}
	case f.aggregate:
		a.aggregate(x)
	}
	b.null = !a.arguments(x, f, args)
	b.refers = b.refers && !b.null
	return b
}

// aggregate checks where a call of an aggregate is. What the planner does not check in a
// query that is evaluated as a single expression, partitions refuse.
func (a *analysis) aggregate(x *sql.CallExpr) {
	if a.in.q.Rank {
		a.unranked(x.At, "SC2226", "Aggregate functions are")
	}
	check := func(check func()) { check() }
	if !a.in.s.set {
		check = a.ungrouped
	}
	check(func() {
		switch {
		case a.clause == clauseGroupBy:
			a.combined(x.At)
		case a.clause == clauseWhere:
			a.report(x.At, "SC2104", "Aggregates are not allowed in the WHERE clause.")
		case slices.ContainsFunc(x.Args, a.aggregates):
			a.report(x.At, "SC2101", "Cannot perform an aggregate function on an expression containing an aggregate or a subquery.")
		}
	})
}

func (a *analysis) unrecognized(x *sql.CallExpr) {
	a.report(x.NameAt, "SC2005", "'%s' is not a recognized built-in function name.", truncate(x.Name))
}

// arity reports a wrong number of arguments. The error quotes the name as written.
func (a *analysis) arity(x *sql.CallExpr, f *function) {
	name := truncate(x.Name)
	if f.name == "LEFT" || f.name == "RIGHT" {
		name = f.name
	}
	a.report(x.At, "SC2050", "The %s function requires %s.", name, f.arity())
	if f.name == "_FullTextScore" {
		a.unrecognized(x)
	}
}

// arity returns the allowed number of arguments as text.
func (f *function) arity() string {
	switch {
	case f.max < 0:
		return fmt.Sprintf("at least %d argument(s)", f.min)
	case f.min == f.max:
		return fmt.Sprintf("%d argument(s)", f.min)
	}
	return fmt.Sprintf("%d to %d argument(s)", f.min, f.max)
}

// takesTimespan reports whether the first of n arguments is a time span.
func takesTimespan(f *function, n int) bool {
	return n == 1 && (f.name == "NOW" || f.name == "AGO") || n == 2 && f.name == "DateTimeAdd"
}

var timespan = regexp.MustCompile(`^-?[0-9]+.`)

// isTimespan reports whether x is the text of a time span, such as 1d.
func (a *analysis) isTimespan(x sql.Expr) bool {
	return timespan.MatchString(a.given(x).Text())
}

// given returns the value of a literal or a parameter.
func (a *analysis) given(x sql.Expr) value.Value {
	switch x := x.(type) {
	case *sql.Literal:
		return x.Value
	case *sql.Parameter:
		return a.params[x.Name]
	}
	return value.Undefined()
}

// isUndefined reports whether x is the literal undefined or a parameter without a value.
func (a *analysis) isUndefined(x sql.Expr) bool {
	switch x.(type) {
	case *sql.Literal, *sql.Parameter:
		return !a.given(x).IsDefined()
	}
	return false
}

// arguments checks the arguments of the functions that need literals. It returns false
// if the planner ignores the call.
func (a *analysis) arguments(x *sql.CallExpr, f *function, args []bound) bool {
	switch f.name {
	case "HASH":
		// The modulo of a call with a seed may be undefined, and is so after an error.
		without := len(args) == 3 && (args[1].null || a.isUndefined(x.Args[1]))
		if len(args) > 1 && !without && !a.isInteger(x.Args[1], 0) {
			a.report(x.Args[1].Span(), "SC2051", "The modulo value for the 'Hash' function must be a non-zero integer literal.")
		}
		if len(args) > 2 && !a.isInteger(x.Args[2], math.MaxInt64) {
			a.report(x.Args[2].Span(), "SC2052", "The seed value for the 'Hash' function must be an integer literal.")
		}
	case "VectorDistance", "_VectorScore":
		return a.vectorOptions(x)
	case "FullTextScore":
		a.searchTerms(x)
	case "_FullTextScore":
		if !a.isArray(x.Args[1]) || !a.isArray(x.Args[4]) {
			a.report(x.At, "SC2242", "One or more arguments provided by the rewritten full text query are invalid.")
			a.unrecognized(x)
			return false
		}
	}
	return true
}

// isArray reports whether x is written as an array.
func (a *analysis) isArray(x sql.Expr) bool {
	_, ok := x.(*sql.ArrayLiteral)
	return ok || a.given(x).Kind() == value.KindArray
}

// isInteger reports whether x is written as an integer and is not but.
func (a *analysis) isInteger(x sql.Expr, but int64) bool {
	n, ok := a.given(x).Int64()
	if at := x.Span(); ok && n != but {
		text := a.text[at.Start:at.End]
		return !strings.ContainsAny(text, ".eE") || strings.ContainsAny(text, "xX@")
	}
	return false
}
