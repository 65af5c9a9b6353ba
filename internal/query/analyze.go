package query

import (
	"fmt"
	"math"
	"strings"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// analysis checks a query against the rules of the language, and notes the
// first construct that is not executed yet. Faults come before that: a wrong
// query is wrong whatever we can do.
type analysis struct {
	params  map[string]value.Value
	faults  []fault
	missing string // "" when everything is executable
}

// scope holds the aliases that a part of the query sees.
type scope struct {
	outer *scope
	names map[string]bool // nil until the first
}

func (s *scope) has(name string) bool {
	for ; s != nil; s = s.outer {
		if s.names[name] {
			return true
		}
	}
	return false
}

// empty reports whether no alias is in sight, so that a name is the container's.
func (s *scope) empty() bool {
	for ; s != nil; s = s.outer {
		if len(s.names) > 0 {
			return false
		}
	}
	return true
}

func (a *analysis) fault(at Span, code, format string, args ...any) {
	a.faults = append(a.faults, faultf(at, code, format, args...))
}

func (a *analysis) later(format string, args ...any) {
	if a.missing == "" {
		a.missing = fmt.Sprintf(format, args...)
	}
}

// check analyses a whole query. The error is what a client shall see.
func check(text string, q *Select, params map[string]value.Value) error {
	a := &analysis{params: params}
	a.query(q, nil, false)
	if len(a.faults) > 0 {
		return languageErrors(text, a.faults...)
	}
	if err := a.order(q); err != nil {
		return err
	}
	if a.missing != "" {
		return status.Unsupported(a.missing)
	}
	return nil
}

func (a *analysis) query(q *Select, outer *scope, nested bool) {
	s := &scope{outer: outer}
	if q.From != nil {
		for i := range q.From.Inputs {
			a.input(&q.From.Inputs[i], s, i == 0)
		}
	}
	a.list(q, s)
	if q.Where != nil {
		a.expr(q.Where, s)
	}
	for _, x := range q.GroupBy {
		a.later("GROUP BY")
		a.expr(x, s)
	}
	for _, sort := range q.OrderBy {
		a.expr(sort.Expr, s)
	}
	if q.Distinct {
		a.later("DISTINCT")
	}
	a.counts(q)
	if nested {
		a.nested(q)
	}
}

// nested says what may not stand in a subquery.
func (a *analysis) nested(q *Select) {
	a.later("A subquery")
	if len(q.OrderBy) > 0 {
		a.fault(q.OrderBy[0].Expr.span(), "SC2202", "'ORDER BY' clause is not supported in subqueries.")
	}
	if q.Top != nil {
		a.fault(q.Top.span(), "SC2203", "'TOP' clause is not supported in subqueries.")
	}
	if q.Offset != nil {
		a.fault(Span{q.Offset.span().Start, q.Limit.span().End}, "SC2204", "'OFFSET LIMIT' clause is not supported in subqueries.")
	}
}

// input checks one input and brings its alias into scope. Only the first may
// name the container, and only where nothing else is in scope.
func (a *analysis) input(in *Input, s *scope, first bool) {
	alias := in.Alias
	switch {
	case in.Query != nil:
		a.later("A subquery in FROM")
		a.query(in.Query, s, true)
	case first && s.outer.empty():
		if in.In {
			a.later("Iteration with IN in FROM")
		}
	default:
		a.expr(in.Of, s)
	}
	if !first {
		a.later("JOIN")
	}
	if alias == "" && in.Of != nil {
		alias = sourceName(in.Of)
	}
	if alias == "" {
		return
	}
	if s.names[alias] {
		a.fault(in.at, "SC2011", "The input alias '%s' is specified more than once in the FROM clause.", alias)
	}
	if s.names == nil {
		s.names = map[string]bool{}
	}
	s.names[alias] = true
}

// sourceName is the alias of a collection that was given none: its last name.
func sourceName(x Expr) string {
	switch x := x.(type) {
	case *Name:
		return x.Name
	case *Member:
		return x.Name
	}
	return ""
}

func (a *analysis) list(q *Select, s *scope) {
	switch {
	case q.Star && len(q.GroupBy) > 0:
		a.fault(q.listAt, "SC2041", "'SELECT *' is not allowed with GROUP BY.")
	case q.Star && q.From == nil:
		a.fault(q.listAt, "SC2040", "'SELECT *' is not valid without a FROM clause.")
	case q.Star && len(q.From.Inputs) != 1:
		a.fault(q.listAt, "SC2040", "'SELECT *' is only valid with a single input set.")
	case q.Value != nil:
		a.expr(q.Value, s)
	}
	for _, item := range q.Items {
		a.expr(item.Expr, s)
	}
}

// counts checks TOP, OFFSET and LIMIT, whose values are known here.
func (a *analysis) counts(q *Select) {
	a.count(q.Top, "SC2060", "TOP")
	a.count(q.Offset, "SC2062", "OFFSET")
	a.count(q.Limit, "SC2061", "LIMIT")
}

func (a *analysis) count(x Expr, code, name string) {
	if x == nil {
		return
	}
	v := value.Undefined()
	switch x := x.(type) {
	case *Literal:
		v = x.Value
	case *Parameter:
		if _, ok := a.params[x.Name]; !ok {
			a.expr(x, nil)
			return
		}
		v = a.params[x.Name]
	}
	if n, ok := v.Int64(); !ok || n < 0 || n > countMax {
		a.fault(x.span(), code, "The %s count must be an integer from 0 to %d.", name, countMax)
	}
}

// countMax is the most that TOP, OFFSET and LIMIT can say.
const countMax = math.MaxInt32

func (a *analysis) expr(x Expr, s *scope) {
	switch x := x.(type) {
	case *Name:
		if _, number := numberNames[x.Name]; !number && !s.has(x.Name) {
			a.fault(x.at, "SC2001", "Identifier '%s' could not be resolved.", x.Name)
		}
	case *Parameter:
		if _, ok := a.params[x.Name]; !ok {
			a.fault(x.at, "SC2001", "Identifier '@%s' could not be resolved: the request has no parameter of that name.", x.Name)
		}
	case *Call:
		a.call(x, s)
	case *Subquery:
		a.query(x.Query, s, true)
	default:
		for part := range parts(x) {
			a.expr(part, s)
		}
	}
}

func (a *analysis) call(x *Call, s *scope) {
	for _, arg := range x.Args {
		a.expr(arg, s)
	}
	if x.UDF {
		a.later("The user-defined function udf.%s", x.Name)
		return
	}
	f := functions[strings.ToUpper(x.Name)]
	if f == nil {
		a.fault(x.nameAt, "SC2005", "'%s' is not a recognized built-in function name.", x.Name)
		return
	}
	if n := len(x.Args); n < f.min || f.max >= 0 && n > f.max {
		a.fault(x.at, "SC2050", "The %s function requires %s.", strings.ToUpper(x.Name), f.arity())
		return
	}
	if f.aggregate {
		for _, arg := range x.Args {
			if holdsAggregate(arg) {
				a.fault(x.at, "SC2101", "Cannot perform an aggregate function on an expression containing an aggregate or a subquery.")
				return
			}
		}
		a.later("The aggregate %s", f.name)
	}
	if f.run == nil {
		a.later("The function %s", f.name)
	}
}

// arity says how many arguments the function takes.
func (f *function) arity() string {
	switch {
	case f.max < 0:
		return fmt.Sprintf("at least %d argument(s)", f.min)
	case f.min == f.max:
		return fmt.Sprintf("%d argument(s)", f.min)
	}
	return fmt.Sprintf("%d to %d argument(s)", f.min, f.max)
}

// holdsAggregate reports whether an aggregate or a subquery is anywhere in x.
func holdsAggregate(x Expr) bool {
	switch x := x.(type) {
	case *Subquery:
		return true
	case *Call:
		if f := functions[strings.ToUpper(x.Name)]; f != nil && f.aggregate && !x.UDF {
			return true
		}
	}
	for part := range parts(x) {
		if holdsAggregate(part) {
			return true
		}
	}
	return false
}

// order checks what ORDER BY sorts by. These errors have forms of their own.
func (a *analysis) order(q *Select) error {
	if len(q.OrderBy) == 0 {
		return nil
	}
	if q.Rank {
		return status.Unsupported("ORDER BY RANK")
	}
	for _, sort := range q.OrderBy {
		if call, ok := sort.Expr.(*Call); ok && strings.EqualFold(call.Name, "VectorDistance") {
			return status.Unsupported("ORDER BY VectorDistance")
		}
		if !isPath(sort.Expr) {
			return numberedError(2206, "Unsupported ORDER BY clause. ORDER BY item expression could not be mapped to a document path.")
		}
	}
	if len(q.OrderBy) > 1 {
		return status.Unsupported("ORDER BY over several paths")
	}
	if q.From != nil && q.From.Inputs[0].Query == nil {
		if _, whole := q.From.Inputs[0].Of.(*Name); !whole {
			a.later("ORDER BY in a query FROM a property")
		}
	}
	return nil
}

// isPath reports whether x is a property, reached by names and positions alone.
func isPath(x Expr) bool {
	steps := 0
	for ; ; steps++ {
		switch y := x.(type) {
		case *Name:
			return steps > 0
		case *Member:
			x = y.Of
		case *Index:
			if _, ok := y.At.(*Literal); !ok {
				return false
			}
			x = y.Of
		default:
			return false
		}
	}
}

// parts iterates over the expressions directly inside x. Those inside a
// subquery are not among them.
func parts(x Expr) func(yield func(Expr) bool) {
	return func(yield func(Expr) bool) {
		all := func(list ...Expr) {
			for _, part := range list {
				if !yield(part) {
					return
				}
			}
		}
		switch x := x.(type) {
		case *Member:
			all(x.Of)
		case *Index:
			all(x.Of, x.At)
		case *Unary:
			all(x.X)
		case *Binary:
			all(x.L, x.R)
		case *Logic:
			all(x.Terms...)
		case *Coalesce:
			all(x.L, x.R)
		case *Conditional:
			all(x.If, x.Then, x.Else)
		case *Between:
			all(x.X, x.Low, x.High)
		case *In:
			if yield(x.X) {
				all(x.List...)
			}
		case *Like:
			all(x.X, x.Pattern)
		case *Call:
			all(x.Args...)
		case *ArrayLiteral:
			all(x.Items...)
		case *ObjectLiteral:
			for _, m := range x.Members {
				if !yield(m.Expr) {
					return
				}
			}
		}
	}
}
