package query

import (
	"fmt"
	"math"
	"slices"

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
	limit       []sql.Diagnostic       // the limit that the query exceeds; reported if there is no other error
	unknown     []sql.Diagnostic       // user-defined functions that do not exist: only a container knows
	missing     string                 // "" when everything is executable
	udfs        int                    // calls of user-defined functions so far
	iterations  int                    // inputs with IN so far, those of subqueries included
	loops       int                    // of these, those that are loops around the current clause
	whole       sql.Span               // of the query
	clause      clause                 // of the innermost query
	in          frame                  // the innermost query
	at          position               // of the innermost query
	depth       int                    // of subqueries in expressions
	sets        int                    // input sets so far
	several     map[*sql.Select]bool   // queries that can have several rows per document
	many        map[*sql.Select]bool   // queries whose inputs can have several rows per document
	raw         map[*sql.Select]bool   // grouped queries with an error, whose result is that of their inputs
	width       map[*sql.Select]int    // number of input sets of the result of a query, if it is not one
	wide        map[*sql.Select]bool   // queries with SELECT * of several inputs, in a clause that reads groups
	starred     map[*sql.Select]bool   // grouped queries with SELECT *
	left        []string               // scopes inside the query so far: names of LET, lostNames, or "" for a subquery of several rows
	faulty      map[*sql.CallExpr]bool // calls of aggregates with a wrong number of arguments
	composed    bool                   // LET has an aggregate
}

// clause is the part of a query that is checked.
type clause uint8

const (
	clauseFrom clause = iota
	clauseWhere
	clauseGroupBy
	clauseOrderBy
	clauseRank
	clauseList
)

// frame is a query and its scope.
type frame struct {
	q *sql.Select
	s *scope
}

// bound is what the analysis knows about an expression.
type bound struct {
	null   bool // the expression itself has an error
	refers bool // it contains a property of an input
}

// Limits of the service for one query.
const (
	joinsMax = 10 // of inputs with IN inside each other; the planner calls them joins
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
	a := &analysis{text: text, params: p.with.params, functions: p.with.opts.Functions, whole: q.At, several: map[*sql.Select]bool{}, many: map[*sql.Select]bool{}, width: map[*sql.Select]int{}, raw: map[*sql.Select]bool{}, starred: map[*sql.Select]bool{}, wide: map[*sql.Select]bool{}, faulty: map[*sql.CallExpr]bool{}}
	s := a.query(q, nil, outermost)
	faults := a.diagnostics
	if len(faults) == 0 {
		faults = a.limit
	}
	if len(faults) > 0 {
		return sql.NewError(text, faults...)
	}
	if err := a.order(q, s); err != nil {
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
//
// The planner evaluates a subquery whose inputs have one row per document as a single
// expression: it has no groups, and its aggregates are not checked. s.set is false for
// such a query.
func (a *analysis) query(q *sql.Select, outer *scope, at position) *scope {
	s := &scope{outer: outer, set: at < inside && q.From == nil}
	if s.set {
		s.addSet(a.newSet())
	}
	in, place, before, iterations, loops, left := a.in, a.at, a.clause, a.iterations, a.loops, len(a.left)
	a.in, a.at, a.clause = frame{q, s}, at, clauseFrom
	defer func() { a.in, a.at, a.clause, a.left = in, place, before, a.left[:left] }()
	if q.Top != nil && q.Offset != nil {
		a.report(q.At, "SC2205", "A TOP cannot be used in the same query or subquery as an OFFSET.")
	}
	if q.From != nil {
		for i := len(q.From.Inputs) - 1; i > 0 && q.Rank; i-- {
			a.unranked(sql.Span{Start: q.FromAt.Start, End: max(q.From.Inputs[i].At.End, q.From.Inputs[i].AliasAt.End)}, "SC2224", "The JOIN operator is")
		}
		for i := range q.From.Inputs {
			a.input(q, i, at)
		}
	}
	if q.Where != nil {
		a.clause = clauseWhere
		s.refers = a.expr(q.Where, s).refers || s.refers
	}
	a.groupBy(q, s)
	set := s.set
	s.groups = set && len(q.GroupBy) > 0
	if len(q.OrderBy) > 0 {
		a.orderBy(q, s, at)
	}
	a.list(q, s)
	s.groups = false
	if len(q.GroupBy) == 0 {
		set = s.set
	}
	correct := len(a.diagnostics) == 0
	grouped := a.groups(q)
	switch {
	case correct && set:
		a.groupedQuery(q, s)
		a.starred[q] = q.Star && len(q.GroupBy) > 0 && !q.Rank
	case correct:
		a.ungrouped(func() { a.groupedQuery(q, s) })
	case set && grouped:
		a.width[q] = len(s.own) + len(s.extra)
		a.raw[q] = true
		if q.From != nil {
			a.leak(q.From.Inputs[:len(q.From.Inputs)-1], s)
		}
	}
	if isGrouped(q) && len(q.GroupBy) == 0 {
		a.loops = loops // aggregates end them
	}
	if at == source && !s.set {
		a.width[q] = len(s.own) + 1
		a.leak(q.From.Inputs, s)
	}
	a.many[q] = s.set
	// The planner does not know that aggregates in place of the container are one row if
	// there is an IN anywhere in the query.
	iterates := at == source && a.iterations > iterations
	a.several[q] = s.set && (!correct || !isGrouped(q) || len(q.GroupBy) > 0 || iterates)
	a.counts(q, at, correct || !set || !grouped)
	return s
}

// leak makes names of a query known to the outer one, as the planner does for queries
// that it leaves early.
func (a *analysis) leak(inputs []sql.Input, s *scope) {
	for i := range inputs {
		in := &inputs[i]
		if a.at >= inside && renames(in) && in.Name() == in.Collection.(*sql.Ident).Name {
			continue // it is a name of the outer query, or of nothing
		}
		if name := in.Name(); s.outer != nil && name != "" && !s.outer.has(name) {
			s.outer.define(name, s.names[name])
		}
	}
}

// lose makes the names that are known at a scalar subquery, or at one in FROM, unknown in
// the rest of the query if the subquery has SELECT * with GROUP BY, as in the planner.
func (a *analysis) lose(q *sql.Select, s *scope) {
	if a.starred[q] {
		s.names, s.starts = nil, true
		a.left = append(a.left, lostNames)
	}
}

const lostNames = "*" // no name

// keeps reports whether a name is that of a LET that has ended and that the planner still
// knows. At the end of a LET, it forgets the last scope that is not one of a query, which
// is that of a subquery of several rows if there is one inside the LET.
func (a *analysis) keeps(name string) bool {
	for i := len(a.left) - 1; i >= 0 && a.left[i] != lostNames; i-- {
		if a.left[i] == name {
			return true
		}
	}
	return false
}

// groups reports whether the rows of a query are groups, or would be without the errors
// found so far.
func (a *analysis) groups(q *sql.Select) bool {
	if len(q.GroupBy) > 0 {
		return true
	}
	for x := range q.Columns() {
		if a.aggregates(x) {
			return true
		}
	}
	return a.ordersGroups(q)
}

func (a *analysis) ordersGroups(q *sql.Select) bool {
	return len(q.GroupBy) > 0 || slices.ContainsFunc(q.OrderBy, func(sort sql.OrderByItem) bool { return a.aggregates(sort.Expr) })
}

// aggregates reports whether x contains a call of an aggregate that has no error.
func (a *analysis) aggregates(x sql.Expr) bool {
	for call := range aggregatesIn(x) {
		if !a.faulty[call] {
			return true
		}
	}
	return false
}

// ungrouped runs a check whose errors the planner does not find but partitions do.
func (a *analysis) ungrouped(check func()) {
	diagnostics, size := a.diagnostics, a.size
	check()
	a.unknown = append(a.unknown, a.diagnostics[len(diagnostics):]...)
	a.diagnostics, a.size = diagnostics, size
}

// input checks one input of the innermost query and adds its alias to the scope. Only
// the first input of an outermost query, or of a query in its place, may name the
// container.
func (a *analysis) input(q *sql.Select, i int, at position) {
	in, s := &q.From.Inputs[i], a.in.s
	first := i == 0 && at < inside
	if q.Rank && in.In {
		a.unranked(in.At, "SC2223", "The FROM clause with the IN operator is")
	}
	if q.Rank && in.Subquery != nil {
		a.unranked(in.SubqueryAt, "SC2225", "Subqueries in the FROM clause are")
	}
	one := alias{input: i}
	switch {
	case in.Subquery != nil:
		one = a.rows(in, first, one)
	case first:
		s.set, s.refers = true, true
		one.set = a.newSet()
		s.addSet(one.set)
	default:
		one = a.collection(in, i, one, at)
	}
	if in.In {
		a.iterations++
		if a.loops++; a.loops > joinsMax {
			a.exceeded("SC3002", "joins", joinsMax)
		}
	}
	name := in.Name()
	if name == "" {
		return
	}
	one.bare = one.bare && !s.set && a.depth > 0
	known, where := s.lookup(name)
	clash := where != nil && known.set != one.set && !passesOn(in, name) && !(known.let && renames(in) && rootName(in.Collection) == name)
	if (clash || where == nil && a.keeps(name)) && !a.unresolved(in) && !a.raw[in.Subquery] {
		a.report(in.AliasAt, "SC2021", "The input set name or alias '%s' is specified more than once in the FROM clause.", truncate(name))
	}
	s.define(name, one)
}

// passesOn reports whether an input is a subquery without a filter that returns what it
// reads of the input of this name.
func passesOn(in *sql.Input, name string) bool {
	q := in.Subquery
	if q == nil || in.In || q.From == nil || q.Where != nil || len(q.GroupBy) > 0 || len(q.From.Inputs) != 1 || q.From.Inputs[0].Collection == nil {
		return false
	}
	row, plain := q.Value.(*sql.Ident)
	return (q.Star || plain && row.Name == q.From.Inputs[0].Name()) && rootName(q.From.Inputs[0].Collection) == name
}

func (a *analysis) newSet() int {
	a.sets++
	return a.sets
}

// rows checks an input that is a subquery, and completes its alias.
func (a *analysis) rows(in *sql.Input, first bool, one alias) alias {
	s, at := a.in.s, inside
	if first {
		at = source
	}
	before := len(a.diagnostics)
	inner := a.query(in.Subquery, s, at)
	a.lose(in.Subquery, s)
	s.set, s.fed = s.set || in.In || a.several[in.Subquery], s.fed || a.many[in.Subquery]
	s.refers = s.refers || inner.refers
	one.bare = !inner.refers
	if x, ok := in.Subquery.Value.(*sql.Ident); ok && !s.set {
		known, _ := inner.lookup(x.Name)
		one.set = known.set
	}
	if sub := in.Subquery; !s.set && !first && sub.Where == nil {
		switch {
		case sub.Star:
			one.set = inner.onlySet()
		case len(sub.Items) > 0 && len(a.diagnostics) == before:
			one.columns, one.fed = sub.Items, sub.From != nil
		}
	}
	if one.set == 0 {
		one.set = a.newSet()
	}
	s.addSet(one.set)
	for range a.width[in.Subquery] - 1 {
		s.addSet(a.newSet())
	}
	if in.In && first {
		s.addSet(a.newSet())
	}
	return one
}

// collection checks an input that is a place in another one, and completes its alias.
// An input that is only a name is the input of that name.
func (a *analysis) collection(in *sql.Input, i int, one alias, at position) alias {
	s := a.in.s
	b := a.expr(in.Collection, s)
	s.set = s.set || in.In
	if root, _ := pathRoot(in.Collection, nil); root != nil {
		known, where := s.lookup(root.Name)
		one.bare = where != nil && known.bare
		if renames(in) && (!s.set && at >= inside || in.Name() == root.Name) {
			one.set = known.set
		}
	}
	if !renames(in) {
		s.refers = s.refers || b.refers || !one.bare
	}
	if one.set == 0 {
		one.set = a.newSet()
	}
	switch {
	case a.unresolved(in) && s.has(in.Name()):
	case i > 0 || !renames(in) || in.Name() != in.Collection.(*sql.Ident).Name:
		s.addSet(one.set)
	}
	return one
}

// unresolved reports whether an input is only a name, of no input.
func (a *analysis) unresolved(in *sql.Input) bool {
	return renames(in) && !a.in.s.has(in.Collection.(*sql.Ident).Name)
}

// renames reports whether an input is only the name of another one.
func renames(in *sql.Input) bool {
	_, plain := in.Collection.(*sql.Ident)
	return plain && !in.In && in.Subquery == nil
}

// exceeded records that the query exceeds a limit of the service. The planner reports
// one limit, that with the least code.
func (a *analysis) exceeded(code, what string, limit int) {
	if len(a.limit) == 0 || code < a.limit[0].Code {
		a.limit = []sql.Diagnostic{sql.Diagnosticf(a.whole, code, "The SQL query exceeded the maximum number of %s. The allowed limit is %d.", what, limit)}
	}
}

// list checks the select list.
func (a *analysis) list(q *sql.Select, s *scope) {
	a.clause = clauseList
	if q.Star && q.From == nil {
		// The planner accepts this in a subquery.
		a.unknown = append(a.unknown, sql.Diagnosticf(q.ListAt, "SC1021", "Syntax error, 'SELECT *' is not valid if FROM clause is omitted."))
	}
	if q.Rank && q.Distinct {
		a.unranked(sql.Span{Start: q.At.Start, End: q.ListAt.End}, "SC2220", "The DISTINCT keyword is")
	}
	if q.Star && !(s.set && a.ordersGroups(q)) && (len(s.own) > 1 || q.From == nil && len(q.OrderBy) == 0 && s.outer.inputSets() > 1) {
		if a.wide[q] = s.outer.inGroups(); !a.wide[q] {
			a.wideStar(q)
		}
	}
	s.refers = s.refers || q.Star && q.From == nil && s.outer.inputSets() > 0
	names := columnNames(q.Items)
	if q.Value != nil {
		b := a.expr(q.Value, s)
		s.refers = b.refers || s.refers
		s.null = b.null && q.From == nil
	}
	before := make(map[string]bool, len(names))
	for i := range q.Items {
		item := &q.Items[i]
		s.refers = a.expr(item.Expr, s).refers || s.refers
		if named := item.Alias != "" || columnName(item.Expr) != ""; named && before[names[i]] {
			a.twice(columnAt(item), names[i])
		}
		before[names[i]] = true
	}
}

func (a *analysis) wideStar(q *sql.Select) {
	a.report(q.ListAt, "SC2042", "'SELECT *' is only valid with a single input set.")
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
	a.clause = clauseOrderBy
	if q.Rank {
		a.rank(q, s, at)
		return
	}
	if at != outermost {
		a.report(q.OrderAt, "SC2202", "'ORDER BY' is not supported in subqueries.")
	}
	for i := range q.OrderBy {
		item := &q.OrderBy[i]
		if b := a.expr(item.Expr, s); isDistance(item.Expr) && item.Explicit && !b.null {
			a.report(item.At, "SC2210", "Specifying a sorting order (ASC or DESC) with VectorDistance function is not supported. VectorDistance will always sort in the order of most similar (first) to least similar (last).")
		}
	}
}

// counts checks TOP, OFFSET and LIMIT, which subqueries must not have. The planner does
// not check the TOP of a grouped query with an error.
func (a *analysis) counts(q *sql.Select, at position, top bool) {
	if q.Top != nil && top {
		if at != outermost {
			a.report(q.TopAt, "SC2203", "'TOP' is not supported in subqueries.")
		}
		a.count(q.Top, "SC2060", "The count value provided for a TOP clause must be an integer.")
	}
	if q.Offset != nil && at != outermost {
		a.report(q.OffsetAt, "SC2204", "'OFFSET LIMIT' clause is not supported in subqueries.")
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
