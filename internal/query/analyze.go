package query

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// analysis checks a query against the rules of the language and records the first
// construct that is not supported. Errors in the query are reported first.
type analysis struct {
	params      map[string]value.Value
	functions   func(name string) (Function, bool) // user-defined; nil for none at all
	diagnostics []sql.Diagnostic
	missing     string // "" when everything is executable
	joins       int    // JOINs so far, those of subqueries included
	udfs        int    // calls of user-defined functions so far
}

// Limits of the service for one query.
const (
	joinsMax = 10
	udfsMax  = 10
)

// diagnosticsMax is the maximum number of errors in one response.
const diagnosticsMax = 20

func (a *analysis) report(at sql.Span, code, format string, args ...any) {
	a.add(sql.Diagnosticf(at, code, format, args...))
}

func (a *analysis) add(faults ...sql.Diagnostic) {
	a.diagnostics = append(a.diagnostics, faults[:min(len(faults), diagnosticsMax-len(a.diagnostics))]...)
}

func (a *analysis) later(format string, args ...any) {
	if a.missing == "" {
		a.missing = fmt.Sprintf(format, args...)
	}
}

// check analyses a whole query and returns the error for the client.
func check(text string, q *sql.Select, in inputs) error {
	a := &analysis{params: in.params, functions: in.opts.Functions}
	s := a.query(q, nil, outermost)
	if len(a.diagnostics) > 0 {
		return sql.NewError(text, a.diagnostics...)
	}
	if err := a.order(q, s); err != nil {
		return err
	}
	if a.missing != "" {
		return status.Unsupported(a.missing)
	}
	return nil
}

// position is where a query occurs.
type position uint8

const (
	outermost position = iota
	source             // in the first input of an outermost query, or of a query in that position: it may name the container
	inside             // in any other input, or in an expression
)

// query checks a query and returns its scope.
func (a *analysis) query(q *sql.Select, outer *scope, at position) *scope {
	s := &scope{outer: outer}
	if q.From != nil {
		for i := range q.From.Inputs {
			a.input(q, i, s, at)
		}
	}
	a.list(q, s)
	if q.Where != nil {
		a.expr(q.Where, s)
		a.noAggregate(q.Where, "the WHERE clause")
	}
	a.groupBy(q, s)
	for _, sort := range q.OrderBy {
		a.expr(sort.Expr, s)
		a.noAggregate(sort.Expr, "the ORDER BY clause")
	}
	a.add(rankDiagnostics(q, at != outermost, a.params)...)
	a.counts(q)
	if at != outermost {
		a.nested(q)
	}
	return s
}

// nested reports the clauses that a subquery must not have.
func (a *analysis) nested(q *sql.Select) {
	if len(q.OrderBy) > 0 && !q.Rank {
		a.report(q.OrderBy[0].Expr.Span(), "SC2202", "'ORDER BY' clause is not supported in subqueries.")
	}
	if q.Top != nil {
		a.report(q.Top.Span(), "SC2203", "'TOP' clause is not supported in subqueries.")
	}
	if q.Offset != nil {
		a.report(sql.Span{Start: q.Offset.Span().Start, End: q.Limit.Span().End}, "SC2204", "'OFFSET LIMIT' clause is not supported in subqueries.")
	}
}

// input checks one input and adds its alias to the scope. Only the first input of an
// outermost query, or of a query in its place, may name the container.
func (a *analysis) input(q *sql.Select, i int, s *scope, at position) {
	in := &q.From.Inputs[i]
	first := i == 0 && at != inside
	if i > 0 {
		if a.joins++; a.joins == joinsMax+1 {
			a.report(in.At, "SC3004", "The SQL query exceeded the maximum number of joins. The allowed limit is %d.", joinsMax)
		}
	}
	switch {
	case in.Subquery != nil && first:
		a.query(in.Subquery, s, source)
	case in.Subquery != nil:
		a.query(in.Subquery, s, inside)
	case !first:
		a.expr(in.Collection, s)
	}
	name := in.Name()
	if name == "" {
		return
	}
	if _, twice := s.names[name]; twice {
		a.report(in.At, "SC2011", "The input alias '%s' is specified more than once in the FROM clause.", name)
	}
	s.define(name, alias{input: i})
}

func (a *analysis) list(q *sql.Select, s *scope) {
	switch {
	case q.Star && len(q.GroupBy) > 0:
		a.report(q.ListAt, "SC2041", "'SELECT *' is not allowed with GROUP BY.")
	case q.Star && q.From == nil:
		a.report(q.ListAt, "SC2040", "'SELECT *' is not valid if FROM clause is omitted.")
	case q.Star && len(q.From.Inputs) != 1:
		a.report(q.ListAt, "SC2040", "'SELECT *' is only valid with a single input set.")
	}
	for x := range q.Columns() {
		a.expr(x, s)
	}
}

// noAggregate refuses aggregates outside select lists.
func (a *analysis) noAggregate(x sql.Expr, clause string) {
	for call := range aggregatesIn(x) {
		a.report(call.At, "SC2100", "An aggregate function is not allowed in %s.", clause)
	}
}

// groupBy checks the keys of groups, and that the select list of a query that combines
// rows does not refer to single rows.
func (a *analysis) groupBy(q *sql.Select, s *scope) {
	keys := map[string]bool{}
	before := len(a.diagnostics)
	for _, x := range q.GroupBy {
		a.expr(x, s)
		keys[sql.Canonical(x)] = true
		switch {
		case holdsAggregate(x):
			a.report(x.Span(), "SC2103", "A GROUP BY expression cannot contain an aggregate or a subquery.")
		case len(a.diagnostics) == before && !refers(x, s):
			a.report(x.Span(), "SC2104", "A GROUP BY expression has to contain at least one property reference.")
		}
	}
	if len(a.diagnostics) > before || !isGrouped(q) {
		return
	}
	for x := range q.Columns() {
		a.grouped(x, s, s, keys)
	}
}

// refers reports whether x contains the alias of an input.
func refers(x sql.Expr, s *scope) bool {
	for name := range sql.Idents(x) {
		if s.has(name.Name) {
			return true
		}
	}
	return false
}

// grouped checks an expression in the select list of a grouped query: each reference
// to the inputs of the query, whose scope is s, must be in an aggregate or in a key.
// here is the scope of x: that of a subquery, or s.
func (a *analysis) grouped(x sql.Expr, s, here *scope, keys map[string]bool) {
	if _, ok := aggregateKind(x); ok && here == s || keys[sql.Canonical(x)] && !hides(x, here, s) {
		return
	}
	switch y := x.(type) {
	case *sql.Subquery:
		a.groupedIn(y.Query, s, here, keys)
		return
	case *sql.LetExpr:
		a.grouped(y.Value, s, here, keys)
		a.grouped(y.In, s, here.with(y.Name), keys)
		return
	case *sql.Ident, *sql.MemberExpr, *sql.IndexExpr:
		root, inKey := pathRoot(x, keys)
		if root == nil {
			break
		}
		if _, of := here.lookup(root.Name); of == s && !inKey {
			a.report(x.Span(), "SC2102", "Property reference '%s' is invalid in the select list because it is not contained in either an aggregate function or the GROUP BY clause.", truncate(x.String()))
		}
		return
	}
	for part := range sql.Children(x) {
		a.grouped(part, s, here, keys)
	}
}

// groupedIn checks a subquery in the select list of a grouped query.
func (a *analysis) groupedIn(q *sql.Select, s, outer *scope, keys map[string]bool) {
	here := &scope{outer: outer}
	if q.From != nil {
		for i := range q.From.Inputs {
			in := &q.From.Inputs[i]
			if in.Subquery != nil {
				a.groupedIn(in.Subquery, s, here, keys)
			} else {
				a.grouped(in.Collection, s, here, keys)
			}
			if name := in.Name(); name != "" {
				here.define(name, alias{})
			}
		}
	}
	for x := range q.Columns() {
		a.grouped(x, s, here, keys)
	}
	if q.Where != nil {
		a.grouped(q.Where, s, here, keys)
	}
	for _, x := range q.GroupBy {
		a.grouped(x, s, here, keys)
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

// counts checks TOP, OFFSET and LIMIT.
func (a *analysis) counts(q *sql.Select) {
	a.count(q.Top, "SC2060", "TOP")
	a.count(q.Offset, "SC2062", "OFFSET")
	a.count(q.Limit, "SC2061", "LIMIT")
}

func (a *analysis) count(x sql.Expr, code, name string) {
	if x == nil {
		return
	}
	v := value.Undefined()
	switch x := x.(type) {
	case *sql.Literal:
		v = x.Value
	case *sql.Parameter:
		if _, ok := a.params[x.Name]; !ok {
			a.expr(x, nil)
			return
		}
		v = a.params[x.Name]
	}
	if n, ok := v.Int64(); !ok || n < 0 || n > countMax {
		a.report(x.Span(), code, "The %s count must be an integer from 0 to %d.", name, countMax)
	}
}

// countMax is the maximum of TOP, OFFSET and LIMIT.
const countMax = math.MaxInt32

func (a *analysis) expr(x sql.Expr, s *scope) {
	switch x := x.(type) {
	case *sql.Ident:
		if _, number := numberNames[x.Name]; !number && !s.has(x.Name) {
			a.report(x.At, "SC2001", "Identifier '%s' could not be resolved.", truncate(x.Name))
		}
	case *sql.Parameter:
		if _, ok := a.params[x.Name]; !ok {
			a.report(x.At, "SC2001", "Identifier '@%s' could not be resolved: the request has no parameter of that name.", truncate(x.Name))
		}
	case *sql.CallExpr:
		a.call(x, s)
	case *sql.LetExpr:
		a.let(x, s)
	case *sql.Subquery:
		before := len(a.diagnostics)
		a.query(x.Query, s, inside)
		if len(a.diagnostics) == before && x.Kind == sql.SubqueryScalar && severalRows(x.Query) {
			a.report(x.At, "SC2105", "The cardinality of a scalar subquery result set cannot be greater than one.")
		}
	default:
		for part := range sql.Children(x) {
			a.expr(part, s)
		}
	}
}

// let checks a LET. Its name may hide a name of an outer scope.
func (a *analysis) let(x *sql.LetExpr, s *scope) {
	a.expr(x.Value, s)
	a.expr(x.In, s.with(x.Name))
	a.noAggregate(x.Value, "a LET expression")
	a.noAggregate(x.In, "a LET expression")
}

// severalRows reports whether a query can have more than one row for a document,
// according to its FROM clause.
func severalRows(q *sql.Select) bool {
	if isGrouped(q) {
		return len(q.GroupBy) > 0
	}
	if q.From == nil {
		return false
	}
	for i := range q.From.Inputs {
		if in := &q.From.Inputs[i]; in.In || in.Subquery != nil && severalRows(in.Subquery) {
			return true
		}
	}
	return false
}

func (a *analysis) call(x *sql.CallExpr, s *scope) {
	for _, arg := range x.Args {
		a.expr(arg, s)
	}
	if x.UDF {
		a.userFunction(x)
		return
	}
	f := functions[strings.ToUpper(x.Name)]
	if f == nil {
		a.report(x.NameAt, "SC2005", "'%s' is not a recognized built-in function name.", truncate(x.Name))
		return
	}
	if n := len(x.Args); n < f.min || f.max >= 0 && n > f.max {
		a.report(x.At, "SC2050", "The %s function requires %s.", strings.ToUpper(x.Name), f.arity())
	}
	a.add(vectorDiagnostics(x, a.params)...)
	if f.aggregate && slices.ContainsFunc(x.Args, holdsAggregate) {
		a.report(x.At, "SC2101", "Cannot perform an aggregate function on an expression containing an aggregate or a subquery.")
	}
}

// arity says how many arguments the function has.
func (f *function) arity() string {
	switch {
	case f.max < 0:
		return fmt.Sprintf("at least %d argument(s)", f.min)
	case f.min == f.max:
		return fmt.Sprintf("%d argument(s)", f.min)
	}
	return fmt.Sprintf("%d to %d argument(s)", f.min, f.max)
}

// holdsAggregate reports whether x contains an aggregate or a subquery at any depth.
func holdsAggregate(x sql.Expr) bool {
	if _, ok := x.(*sql.Subquery); ok {
		return true
	}
	if _, ok := aggregateKind(x); ok {
		return true
	}
	for part := range sql.Children(x) {
		if holdsAggregate(part) {
			return true
		}
	}
	return false
}

// order checks the expressions of ORDER BY. These errors have forms of their own.
func (a *analysis) order(q *sql.Select, s *scope) error {
	if q.Rank {
		return nil
	}
	for _, sort := range q.OrderBy {
		if len(q.GroupBy) > 0 {
			if !slices.ContainsFunc(q.GroupBy, func(key sql.Expr) bool { return sql.Canonical(key) == sql.Canonical(sort.Expr) }) {
				return numberedError(2206, "Unsupported ORDER BY clause. ORDER BY of a query with GROUP BY has to name an expression of GROUP BY.")
			}
			continue
		}
		if sortsByValue(sort.Expr) {
			continue
		}
		if !isPath(sort.Expr) {
			return numberedError(2206, "Unsupported ORDER BY clause. ORDER BY item expression could not be mapped to a document path.")
		}
		if root, _ := pathRoot(sort.Expr, nil); correlated(q, s, root.Name) {
			return planError("Order-by over correlated collections is not supported.")
		}
	}
	return nil
}

// correlated reports whether a name is not that of a first input of documents or of
// one place in them.
func correlated(q *sql.Select, s *scope, name string) bool {
	a, _ := s.lookup(name)
	return a.input > 0 || q.From == nil || q.From.Inputs[0].In
}

// isPath reports whether x is a property that is reached only by names and indexes.
func isPath(x sql.Expr) bool {
	steps := 0
	for ; ; steps++ {
		switch y := x.(type) {
		case *sql.Ident:
			return steps > 0
		case *sql.MemberExpr:
			x = y.X
		case *sql.IndexExpr:
			if _, ok := y.Index.(*sql.Literal); !ok {
				return false
			}
			x = y.X
		default:
			return false
		}
	}
}
