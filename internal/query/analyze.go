package query

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// analysis checks a query against the rules of the language, as the service's planner
// does: in the same order and with the same codes, positions and texts. docs/planner.md
// has the order.
type analysis struct {
	text        string
	params      map[string]value.Value
	functions   func(name string) (Function, bool) // user-defined; nil if there are none
	diagnostics []sql.Diagnostic
	size        int                    // of diagnostics, in bytes
	limits      []sql.Diagnostic       // limits that the query exceeds; reported if there is no other error
	unknown     []sql.Diagnostic       // user-defined functions that do not exist: only a container knows
	missing     string                 // "" when everything is executable
	joins       int                    // JOINs so far, those of subqueries included
	udfs        int                    // calls of user-defined functions so far
	whole       sql.Span               // of the query
	sorting     bool                   // checking a key of ORDER BY
	filtering   bool                   // checking WHERE
	depth       int                    // of subqueries in the current expression
	keys        bool                   // checking a key of GROUP BY
	several     map[*sql.Select]bool   // queries that can have several rows per document
	faulty      map[*sql.CallExpr]bool // calls that failed their check
	composed    bool                   // LET has an aggregate
}

// Limits of the service for one query.
const (
	joinsMax = 10
	udfsMax  = 10
	termsMax = 5 // of all FullTextScore calls
)

// diagnosticsBytes bounds the errors in one response, and diagnosticBytes is the size of
// one without its message. The service has no such bound.
const (
	diagnosticsBytes = 7500
	diagnosticBytes  = 90
)

func (a *analysis) report(at sql.Span, code, format string, args ...any) {
	if a.size > diagnosticsBytes {
		return
	}
	one := sql.Diagnosticf(at, code, format, args...)
	if a.size += diagnosticBytes + len(one.Message); a.size <= diagnosticsBytes {
		a.diagnostics = append(a.diagnostics, one)
	}
}

func (a *analysis) later(format string, args ...any) {
	if a.missing == "" {
		a.missing = fmt.Sprintf(format, args...)
	}
}

// check analyses the whole query. It returns the error of the planner. If the planner
// accepts the query but partitions refuse it, check records their error in the plan.
func (p *Plan) check(text string) error {
	q := p.query
	a := &analysis{text: text, params: p.with.params, functions: p.with.opts.Functions, whole: q.At, several: map[*sql.Select]bool{}, faulty: map[*sql.CallExpr]bool{}}
	s := a.query(q, nil, outermost)
	faults := a.diagnostics
	if len(faults) == 0 {
		faults = a.limits
	}
	if len(faults) > 0 {
		return sql.NewError(text, faults...)
	}
	if err := a.order(q); err != nil {
		return err
	}
	switch {
	case q.Rank && q.From == nil:
		p.refused = sql.NewError(text, sql.Diagnosticf(q.OrderAt, "SC2225", "The ORDER BY RANK clause is not allowed without a FROM clause."))
	case len(a.unknown) > 0:
		p.refused = sql.NewError(text, a.unknown...)
	case a.composed:
		p.refused = composition()
	case a.missing != "":
		p.refused = status.Unsupported(a.missing)
	default:
		p.refused = p.correlatedOrder(s)
	}
	return nil
}

// position is where a query occurs.
type position uint8

const (
	outermost  position = iota
	source              // in the first input of an outermost query, or of a query in that position: it may name the container
	inside              // in any other input
	expression          // in an expression
)

// query checks a query and returns its scope. It checks each clause separately first.
// If all clauses are correct, it checks the references of a grouped query.
func (a *analysis) query(q *sql.Select, outer *scope, at position) *scope {
	s := &scope{outer: outer}
	if q.Top != nil && q.Offset != nil {
		a.report(q.At, "SC2205", "A TOP cannot be used in the same query or subquery as an OFFSET.")
	}
	if q.From != nil {
		for i := len(q.From.Inputs) - 1; i > 0 && q.Rank; i-- {
			a.unranked(sql.Span{Start: q.FromAt.Start, End: max(q.From.Inputs[i].At.End, q.From.Inputs[i].AliasAt.End)}, "SC2224", "The JOIN operator is")
		}
		for i := range q.From.Inputs {
			a.input(q, i, s, at)
		}
	}
	if q.Where != nil {
		a.filter(q, s, at)
	}
	a.groupBy(q, s)
	if len(q.OrderBy) > 0 {
		a.orderBy(q, s, at)
	}
	a.list(q, s)
	correct := len(a.diagnostics) == 0
	if correct {
		a.groupedQuery(q, s)
	}
	if !correct || !isGrouped(q) || len(q.GroupBy) > 0 {
		a.several[q] = a.inputsSeveral(q)
	}
	a.counts(q, at, correct)
	return s
}

// filter checks WHERE. In a subquery of an expression, the planner accepts an aggregate
// in WHERE, but partitions refuse it.
func (a *analysis) filter(q *sql.Select, s *scope, at position) {
	if at == expression {
		a.expr(q.Where, s)
		for call := range aggregatesIn(q.Where) {
			a.unknown = append(a.unknown, inFilter(call))
		}
		return
	}
	a.filtering = true
	a.expr(q.Where, s)
	a.filtering = false
}

// inFilter returns the error for an aggregate in WHERE.
func inFilter(call *sql.CallExpr) sql.Diagnostic {
	return sql.Diagnosticf(call.At, "SC2104", "Aggregates are not allowed in the WHERE clause.")
}

// inputsSeveral reports whether the FROM clause of a query can produce more than one
// row per document.
func (a *analysis) inputsSeveral(q *sql.Select) bool {
	return q.From != nil && slices.ContainsFunc(q.From.Inputs, func(in sql.Input) bool {
		return in.In || in.Subquery != nil && a.several[in.Subquery]
	})
}

// input checks one input and adds its alias to the scope. Only the first input of an
// outermost query, or of a query in its place, may name the container.
func (a *analysis) input(q *sql.Select, i int, s *scope, at position) {
	in := &q.From.Inputs[i]
	first := i == 0 && at < inside
	if s.sets++; in.In && in.Subquery != nil {
		s.sets++
	}
	if i > 0 {
		if a.joins++; a.joins == joinsMax+1 {
			a.exceeded("SC3002", "joins", joinsMax)
		}
	}
	if q.Rank && in.In {
		a.unranked(in.At, "SC2223", "The FROM clause with the IN operator is")
	}
	if q.Rank && in.Subquery != nil {
		a.unranked(in.SubqueryAt, "SC2225", "Subqueries in the FROM clause are")
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
	if _, here := s.names[name]; here || s.has(name) && renames(in) {
		a.report(in.AliasAt, "SC2021", "The input set name or alias '%s' is specified more than once in the FROM clause.", truncate(name))
	}
	s.define(name, alias{input: i})
}

// renames reports whether an input defines a name of its own. FROM c inside a query over
// c is the same c.
func renames(in *sql.Input) bool {
	_, plain := in.Collection.(*sql.Ident)
	return in.In || in.Alias != "" || !plain
}

// exceeded records that the query exceeds a limit of the service.
func (a *analysis) exceeded(code, what string, limit int) {
	a.limits = append(a.limits, sql.Diagnosticf(a.whole, code, "The SQL query exceeded the maximum number of %s. The allowed limit is %d.", what, limit))
}

// list checks the select list.
func (a *analysis) list(q *sql.Select, s *scope) {
	if q.Star && q.From == nil {
		// The planner accepts this in a subquery.
		a.unknown = append(a.unknown, sql.Diagnosticf(q.ListAt, "SC1021", "Syntax error, 'SELECT *' is not valid if FROM clause is omitted."))
	}
	if q.Rank && q.Distinct {
		a.unranked(sql.Span{Start: q.At.Start, End: q.ListAt.End}, "SC2220", "The DISTINCT keyword is")
	}
	if q.Star && !ordersGroups(q) && (s.sets > 1 || q.From == nil && s.inputSets() > 1) {
		a.report(q.ListAt, "SC2042", "'SELECT *' is only valid with a single input set.")
	}
	names := columnNames(q.Items)
	if q.Value != nil {
		a.expr(q.Value, s)
	}
	for i := range q.Items {
		item := &q.Items[i]
		a.expr(item.Expr, s)
		if named := item.Alias != "" || columnName(item.Expr) != ""; named && slices.Contains(names[:i], names[i]) {
			a.twice(columnAt(item), names[i])
		}
	}
	if q.Rank {
		for x := range q.Columns() {
			for call := range aggregatesIn(x) {
				a.unranked(call.At, "SC2226", "Aggregate functions are")
			}
		}
	}
}

// twice reports a name that an object already has.
func (a *analysis) twice(at sql.Span, name string) {
	a.report(at, "SC2022", "Object creation error, property name '%s' specified more than once.", truncate(name))
}

// columnAt returns the position of a column's name.
func columnAt(item *sql.SelectItem) sql.Span {
	if x, ok := item.Expr.(*sql.MemberExpr); ok && item.Alias == "" {
		return x.NameAt
	}
	return item.At
}

// orderBy checks the keys of ORDER BY; see also [analysis.order].
func (a *analysis) orderBy(q *sql.Select, s *scope, at position) {
	if q.Rank {
		a.rank(q, s, at)
		return
	}
	if at != outermost {
		a.report(q.OrderAt, "SC2202", "'ORDER BY' is not supported in subqueries.")
	}
	for i := range q.OrderBy {
		item := &q.OrderBy[i]
		a.sortKey(item.Expr, s)
		if isDistance(item.Expr) && item.Explicit {
			a.report(item.At, "SC2210", "Specifying a sorting order (ASC or DESC) with VectorDistance function is not supported. VectorDistance will always sort in the order of most similar (first) to least similar (last).")
		}
	}
}

// sortKey checks a single key of ORDER BY.
func (a *analysis) sortKey(x sql.Expr, s *scope) {
	a.sorting = true
	a.expr(x, s)
	a.sorting = false
}

// counts checks TOP, OFFSET and LIMIT, which subqueries must not have. TOP of a grouped
// query is checked only if the query is correct.
func (a *analysis) counts(q *sql.Select, at position, correct bool) {
	if q.Top != nil && at != outermost && (isLiteral(q.Top) || a.isCount(q.Top)) {
		a.report(q.TopAt, "SC2203", "'TOP' is not supported in subqueries.")
	}
	if q.Offset != nil && at != outermost {
		a.report(q.OffsetAt, "SC2204", "'OFFSET LIMIT' clause is not supported in subqueries.")
	}
	if correct || !isGrouped(q) && !ordersGroups(q) {
		a.count(q.Top, "SC2060", "The count value provided for a TOP clause must be an integer.")
	}
	a.count(q.Offset, "SC2062", "The OFFSET count value exceeds the maximum allowed value.")
	a.count(q.Limit, "SC2061", "The LIMIT count value exceeds the maximum allowed value.")
}

func (a *analysis) count(x sql.Expr, code, message string) {
	if x != nil && !a.isCount(x) {
		a.report(x.Span(), code, "%s", message)
	}
}

func (a *analysis) isCount(x sql.Expr) bool {
	v := value.Undefined()
	switch x := x.(type) {
	case *sql.Literal:
		v = x.Value
	case *sql.Parameter:
		v = a.params[x.Name]
	}
	n, ok := v.Int64()
	return ok && n >= 0 && n <= countMax
}

// countMax is the maximum of TOP, OFFSET and LIMIT. It exceeds what clients may send,
// because rewritten texts contain sums of two such counts.
const countMax = math.MaxUint32

func (a *analysis) expr(x sql.Expr, s *scope) {
	switch x := x.(type) {
	case *sql.Ident:
		if _, number := numberNames[x.Name]; !number && !s.has(x.Name) {
			a.unresolved(x)
		}
	case *sql.IndexExpr:
		if !a.isFixed(x.Index) {
			a.expr(x.Index, s)
			a.report(x.At, "SC2990", "The specified query includes 'member indexer' which is currently not supported.")
			return
		}
		a.expr(x.X, s)
	case *sql.LikeExpr:
		a.expr(x.X, s)
		a.expr(x.Pattern, s)
		if wrongEscape(x) {
			a.report(x.EscapeAt, "SC2207", "The invalid escape character '%s' was specified in a LIKE predicate.", truncate(x.Escape))
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
		for part := range sql.Children(x) {
			a.expr(part, s)
		}
	case *sql.CallExpr:
		a.call(x, s)
	case *sql.LetExpr:
		a.let(x, s)
	case *sql.Subquery:
		if a.keys {
			a.combined(x.At)
			return
		}
		a.subquery(x, s)
		if x.Kind == sql.SubqueryScalar && a.several[x.Query] {
			a.cardinality(x)
		}
	default:
		for part := range sql.Children(x) {
			a.expr(part, s)
		}
	}
}

// subquery checks a query in an expression. The clause that contains the expression
// does not affect the query.
func (a *analysis) subquery(x *sql.Subquery, s *scope) {
	sorting, filtering := a.sorting, a.filtering
	a.sorting, a.filtering = false, false
	a.depth++
	a.query(x.Query, s, expression)
	a.depth--
	a.sorting, a.filtering = sorting, filtering
}

func (a *analysis) unresolved(x *sql.Ident) {
	a.report(x.At, "SC2001", "Identifier '%s' could not be resolved.", truncate(x.Name))
}

func (a *analysis) cardinality(x *sql.Subquery) {
	a.report(x.Query.At, "SC2201", "The cardinality of a scalar subquery result set cannot be greater than one.")
}

// isFixed reports whether x can be an index: a literal or a parameter that is a number
// or a string.
func (a *analysis) isFixed(x sql.Expr) bool {
	v := value.Undefined()
	switch x := x.(type) {
	case *sql.Literal:
		v = x.Value
	case *sql.Parameter:
		v = a.params[x.Name]
	case *sql.Ident:
		v = numberNames[x.Name]
	}
	return v.Kind() == value.KindNumber || v.Kind() == value.KindString
}

// let checks a LET, whose name must not hide another.
func (a *analysis) let(x *sql.LetExpr, s *scope) {
	switch {
	case a.keys:
		a.report(x.At, "SC2090", "LET expressions are not allowed in the GROUP BY clause.")
		return
	case a.sorting:
		a.report(x.At, "SC2091", "LET expressions are not allowed in the ORDER BY clause.")
		return
	}
	a.expr(x.Value, s)
	if s.has(x.Name) {
		a.report(x.NameAt, "SC2023", "The variable name '%s' in the LET expression must be unique.", truncate(x.Name))
	}
	a.expr(x.In, s.with(x.Name))
	a.composed = a.composed || hasAggregate(x.Value) || hasAggregate(x.In)
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
	if f == nil || f.name == "RRF" {
		a.faulty[x] = true
		a.report(x.NameAt, "SC2005", "'%s' is not a recognized built-in function name.", truncate(x.Name))
		return
	}
	if takesTimespan(f, len(x.Args)) && !a.isTimespan(x.Args[0]) {
		a.faulty[x] = true
		a.report(x.At, "SC2053", "The timespan argument provided to the DateTime function is invalid.")
		return
	}
	if !f.takes(len(x.Args)) {
		a.faulty[x] = true
		a.arity(x, f)
		return
	}
	switch {
	case f.name == "FullTextScore":
		a.faulty[x] = true
		a.report(x.At, "SC2240", "The FullTextScore function is only allowed in the ORDER BY RANK clause.")
	case f.aggregate && a.keys:
		a.combined(x.At)
	case f.aggregate && a.filtering:
		one := inFilter(x)
		a.report(one.At, one.Code, "%s", one.Message)
	case f.aggregate && slices.ContainsFunc(x.Args, hasAggregate):
		a.ofAggregate(x)
	}
	a.arguments(x, f)
}

// ofAggregate reports an aggregate of an aggregate. In a subquery of an expression, the
// planner accepts it, but partitions refuse it.
func (a *analysis) ofAggregate(x *sql.CallExpr) {
	one := sql.Diagnosticf(x.At, "SC2101", "Cannot perform an aggregate function on an expression containing an aggregate or a subquery.")
	if a.depth > 0 {
		a.unknown = append(a.unknown, one)
		return
	}
	a.report(one.At, one.Code, "%s", one.Message)
}

// arity reports a wrong number of arguments. The error quotes the name as written.
func (a *analysis) arity(x *sql.CallExpr, f *function) {
	name := truncate(x.Name)
	if f.name == "LEFT" || f.name == "RIGHT" {
		name = f.name
	}
	a.report(x.At, "SC2050", "The %s function requires %s.", name, f.arity())
	if f.name == "_FullTextScore" {
		a.report(x.NameAt, "SC2005", "'%s' is not a recognized built-in function name.", truncate(x.Name))
	}
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
