package query

import (
	"strings"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/value"
)

// inputs are what a plan was compiled from in addition to its text. A hybrid search
// compiles more queries with them.
type inputs struct {
	params map[string]value.Value // by names without the @
	ix     *index.Index
	opts   Options
}

// constant returns the value of an expression that does not depend on a document.
func (in inputs) constant(x sql.Expr) (value.Value, bool) {
	if !isConstant(x) {
		return value.Undefined(), false
	}
	part := newCompiler(in.params, nil, nil).expr(x)
	return part.v, part.con
}

// inline replaces the parameters of a query by their values. Some clients send the
// texts of a hybrid search without the parameters.
func (in inputs) inline(text string) string {
	if len(in.params) == 0 {
		return text
	}
	var b strings.Builder
	done := 0
	l := sql.NewLexer(text, in.params)
	for t := l.Next(); t.Kind != sql.TokenEnd && t.Kind != sql.TokenInvalid; t = l.Next() {
		if v, ok := in.params[t.Text]; ok && t.Kind == sql.TokenParameter {
			b.WriteString(text[done:t.At.Start])
			b.WriteString(literalText(v))
			done = t.At.End
		}
	}
	b.WriteString(text[done:])
	if b.Len() > resource.DefaultLimits().QueryTextBytes {
		return text // long vectors: no partition would accept the query
	}
	return b.String()
}

// literalText writes a value as an expression. Brackets separate the sign of a number
// from a preceding operator.
func literalText(v value.Value) string {
	if v.Kind() == value.KindNumber && v.Float() < 0 {
		return "(" + v.JSON() + ")"
	}
	return (&sql.Literal{Value: v}).String()
}

// isConstant reports whether x refers to no input and to no other row.
func isConstant(x sql.Expr) bool {
	switch x := x.(type) {
	case *sql.Ident:
		_, number := numberNames[x.Name]
		return number
	case *sql.Subquery:
		return false
	case *sql.CallExpr:
		f := functions[strings.ToUpper(x.Name)]
		if x.UDF || f == nil || f.run == nil || f.volatile || !f.takes(len(x.Args)) {
			return false
		}
	}
	for part := range sql.Children(x) {
		if !isConstant(part) {
			return false
		}
	}
	return true
}

// ranking is the ORDER BY RANK of a query.
type ranking struct {
	components []scorer
	weights    []float64 // one for each component; nil if absent
	fused      bool      // RRF
}

// scorer is one component of a ranking.
type scorer struct {
	call  *sql.CallExpr
	terms []sql.Expr // of FullTextScore; nil for a distance of vectors
}

// rankingOf parses the ORDER BY RANK of a query. If there are diagnostics, the ranking
// is meaningless.
func rankingOf(q *sql.Select, in inputs) (ranking, []sql.Diagnostic) {
	key := q.OrderBy[0].Expr
	call, ok := key.(*sql.CallExpr)
	if !ok || len(q.OrderBy) > 1 {
		return ranking{}, []sql.Diagnostic{sql.Diagnosticf(key.Span(), "SC2220", "The ORDER BY RANK clause takes one call of FullTextScore or RRF.")}
	}
	if !isFunction(call, "RRF") {
		one, f := scorerOf(call, in)
		return ranking{components: []scorer{one}}, f
	}
	r := ranking{fused: true}
	args := call.Args
	var faults []sql.Diagnostic
	if n := len(args); n > 0 {
		if _, scores := args[n-1].(*sql.CallExpr); !scores {
			args = args[:n-1]
			if r.weights = weightsOf(call.Args[n-1], in); len(r.weights) != len(args) {
				faults = append(faults, sql.Diagnosticf(call.Args[n-1].Span(), "SC2229", "The weights of the RRF function must be an array of numbers, one for each component score."))
			}
		}
	}
	if len(args) < 2 {
		faults = append(faults, sql.Diagnosticf(call.At, "SC2221", "The RRF function requires at least two component scores."))
	}
	for _, arg := range args {
		score, _ := arg.(*sql.CallExpr)
		one, f := scorerOf(score, in)
		if score == nil {
			f = []sql.Diagnostic{sql.Diagnosticf(arg.Span(), "SC2221", "The RRF function takes calls of FullTextScore and VectorDistance.")}
		}
		r.components, faults = append(r.components, one), append(faults, f...)
	}
	return r, faults
}

// weightsOf returns the weights of RRF, or nil if x is not an array of numbers.
func weightsOf(x sql.Expr, in inputs) []float64 {
	v, ok := in.constant(x)
	if !ok || v.Kind() != value.KindArray {
		return nil
	}
	var list []float64
	for _, item := range v.Items() {
		if item.Kind() != value.KindNumber || !item.Finite() {
			return nil
		}
		list = append(list, item.Float())
	}
	return list
}

// isFunction reports whether a call calls a built-in function, in any of its
// spellings.
func isFunction(call *sql.CallExpr, name string) bool {
	if call == nil || call.UDF {
		return false
	}
	f := functions[strings.ToUpper(call.Name)]
	return f != nil && f.name == name
}

// scorerOf parses one component.
func scorerOf(call *sql.CallExpr, in inputs) (scorer, []sql.Diagnostic) {
	switch {
	case isFunction(call, "VectorDistance"):
		return scorer{call: call}, nil
	case !isFunction(call, "FullTextScore"):
		at := sql.Span{}
		if call != nil {
			at = call.At
		}
		return scorer{}, []sql.Diagnostic{sql.Diagnosticf(at, "SC2220", "The ORDER BY RANK clause takes calls of FullTextScore, VectorDistance and RRF.")}
	case len(call.Args) < 2:
		return scorer{}, nil // the wrong number of arguments is already reported
	}
	if !isPath(call.Args[0]) {
		return scorer{}, []sql.Diagnostic{sql.Diagnosticf(call.Args[0].Span(), "SC2240", "The first argument of the FullTextScore function must be a property.")}
	}
	one := scorer{call: call}
	for _, arg := range call.Args[1:] {
		v, ok := in.constant(arg)
		if !ok || v.Kind() != value.KindArray {
			one.terms = append(one.terms, arg)
			continue
		}
		for _, item := range v.Items() {
			one.terms = append(one.terms, &sql.Literal{Value: item})
		}
	}
	return one, nil
}

// rankDiagnostics checks the rankings of a query: where FullTextScore and RRF occur,
// and what a query with ORDER BY RANK may read. nested says that q is a subquery.
func rankDiagnostics(q *sql.Select, nested bool, params map[string]value.Value) []sql.Diagnostic {
	var faults []sql.Diagnostic
	check := func(x sql.Expr) { faults = append(faults, misplacedScores(x)...) }
	if q.Value != nil {
		check(q.Value)
	}
	for _, item := range q.Items {
		check(item.Expr)
	}
	if q.Where != nil {
		check(q.Where)
	}
	for _, x := range q.GroupBy {
		check(x)
	}
	if !q.Rank {
		for _, sort := range q.OrderBy {
			check(sort.Expr)
		}
		return faults
	}
	_, more := rankingOf(q, inputs{params: params})
	return append(append(faults, rankPlaces(q, nested)...), more...)
}

// misplacedScores returns the calls in x of functions that are allowed only after
// ORDER BY RANK.
func misplacedScores(x sql.Expr) []sql.Diagnostic {
	var faults []sql.Diagnostic
	if call, ok := x.(*sql.CallExpr); ok && (isFunction(call, "FullTextScore") || isFunction(call, "RRF")) {
		faults = append(faults, sql.Diagnosticf(call.At, "SC2240", "The %s function is only allowed in the ORDER BY RANK clause.", functions[strings.ToUpper(call.Name)].name))
	}
	for part := range sql.Children(x) {
		faults = append(faults, misplacedScores(part)...)
	}
	return faults
}

// rankPlaces checks what a query with ORDER BY RANK reads.
func rankPlaces(q *sql.Select, nested bool) []sql.Diagnostic {
	at := q.OrderBy[0].Expr.Span()
	var faults []sql.Diagnostic
	add := func(code, where string) {
		faults = append(faults, sql.Diagnosticf(at, code, "The ORDER BY RANK clause is not supported %s.", where))
	}
	if nested {
		add("SC2228", "in a subquery")
	}
	if q.Distinct || isGrouped(q) {
		add("SC2226", "with DISTINCT, GROUP BY or an aggregate")
	}
	if q.From == nil {
		add("SC2225", "without a FROM clause")
		return faults
	}
	if len(q.From.Inputs) > 1 {
		add("SC2224", "with JOIN")
	}
	switch first := q.From.Inputs[0]; {
	case first.In:
		add("SC2223", "with IN in the FROM clause")
	case first.Subquery != nil:
		add("SC2225", "with a subquery in the FROM clause")
	case !readsDocuments(q):
		add("SC2225", "with a property in the FROM clause")
	}
	return faults
}

// rankFeatures returns the features of a query with ORDER BY RANK.
func rankFeatures(q *sql.Select) Features {
	f := FeatureHybridSearch
	if call, ok := q.OrderBy[0].Expr.(*sql.CallExpr); ok && len(call.Args) > 0 && isFunction(call, "RRF") {
		if _, scores := call.Args[len(call.Args)-1].(*sql.CallExpr); !scores {
			f |= FeatureWeightedRankFusion
		}
	}
	return f
}
