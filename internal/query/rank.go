package query

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/internal/vector"
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
	for t := l.Next(); t.Kind != sql.TokenEnd && !t.Bad(); t = l.Next() {
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

// nearFirst reports whether the most similar vectors have the least distance, by the
// metric of a call of VectorDistance.
func (c *compiler) nearFirst(call *sql.CallExpr) bool {
	var options []value.Value
	for _, arg := range call.Args[2:] {
		options = append(options, c.expr(arg).v)
	}
	metric, ok := metricOf(options, c.binding(call, nil).policyMetric())
	return ok && metric.Better(0, 1)
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

// rankingOf returns the ORDER BY RANK of a query that has passed the analysis.
func rankingOf(q *sql.Select, in inputs) ranking {
	call := q.OrderBy[0].Expr.(*sql.CallExpr)
	if !isFunction(call, "RRF") {
		return ranking{components: []scorer{scorerOf(call)}}
	}
	scores, weights := fusionOf(call, in.params)
	r := ranking{fused: true}
	if weights != nil {
		r.weights = weightsOf(weights, in)
	}
	for _, x := range scores {
		r.components = append(r.components, scorerOf(x.(*sql.CallExpr)))
	}
	return r
}

// fusionOf returns the components of a call of RRF, and the expression of the weights,
// nil if there are none.
func fusionOf(call *sql.CallExpr, params map[string]value.Value) (scores []sql.Expr, weights sql.Expr) {
	scores, _ = multiplierOf(call.Args, params)
	if n := len(scores); n > 0 {
		switch scores[n-1].(type) {
		case *sql.ArrayLiteral, *sql.Parameter:
			return scores[:n-1], scores[n-1]
		}
	}
	return scores, nil
}

// multiplierOf divides the arguments of RRF: a number after two or more others is not a
// component. The planner calls it the multiplier of the search list's size, and leaves it
// out of the texts that it makes. v is undefined if there is none.
func multiplierOf(args []sql.Expr, params map[string]value.Value) (rest []sql.Expr, v value.Value) {
	last := len(args) - 1
	if last < 2 {
		return args, value.Undefined()
	}
	switch x := args[last].(type) {
	case *sql.Literal:
		v = x.Value
	case *sql.Parameter:
		v = params[x.Name]
	case *sql.Ident:
		v = numberNames[x.Name]
	}
	if v.Kind() != value.KindNumber {
		return args, value.Undefined()
	}
	return args[:last], v
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

// scorerOf returns one component.
func scorerOf(call *sql.CallExpr) scorer {
	one := scorer{call: call}
	if isFunction(call, "FullTextScore") {
		one.terms = call.Args[1:]
	}
	return one
}

// unranked reports a part of a query that must not have ORDER BY RANK.
func (a *analysis) unranked(at sql.Span, code, what string) {
	a.report(at, code, "%s not allowed with the ORDER BY RANK clause.", what)
}

// rank checks the ORDER BY RANK of a query.
func (a *analysis) rank(q *sql.Select, s *scope, at position) {
	a.clause = clauseRank
	item := &q.OrderBy[0]
	if at != outermost {
		a.report(q.OrderAt, "SC2228", "The ORDER BY RANK clause is not supported in subqueries.")
	}
	if item.Explicit {
		a.report(q.OrderAt, "SC2222", "Specifying a sort order (ASC or DESC) in the ORDER BY RANK clause is not allowed.")
	}
	call := item.Expr.(*sql.CallExpr)
	if isFunction(call, "RRF") {
		a.fusion(q, call, s)
		return
	}
	a.score(q, call, a.expr(call, s))
}

// fusion checks a call of RRF: first the multiplier, then the last one of the others,
// which may be the weights.
func (a *analysis) fusion(q *sql.Select, call *sql.CallExpr, s *scope) {
	scores, multiplier := multiplierOf(call.Args, a.params)
	if n, ok := multiplier.Int64(); multiplier.IsDefined() && (!ok || n < 1 || n > math.MaxInt32) {
		a.report(q.OrderAt, "SC2232", "The optional search list size multiplier argument to a score fusion function must be a positive integer.")
	}
	last := len(scores) - 1
	var b bound
	if last > 0 && a.isArray(scores[last]) {
		weights := scores[last]
		scores = scores[:last]
		a.expr(weights, s)
		if len(weightsOf(weights, inputs{params: a.params})) != len(scores) {
			a.report(q.OrderAt, "SC2229", "The last parameter of the RRF function is an optional array of weights. When present, it must be a literal array of numbers, one for each of the component scores used for the RRF function. The length of this array must be the same as the number of the component scores.")
		}
		last = -1
	}
	if len(scores) < 2 {
		a.report(q.OrderAt, "SC2233", "A score fusion function requires at least two component score functions.")
	}
	if last >= 0 {
		b = a.expr(scores[last], s)
	}
	for i, x := range scores {
		if i != last {
			a.score(q, x, a.expr(x, s))
		}
	}
	if last >= 0 {
		a.score(q, scores[last], b)
	}
}

// score checks whether x is a component of a ranking. An expression with an error of its
// own needs no check.
func (a *analysis) score(q *sql.Select, x sql.Expr, b bound) {
	if b.null || planned(x) || a.isUndefined(x) {
		return
	}
	a.report(q.OrderAt, "SC2221", "The ORDER BY RANK clause must be followed by a VectorDistance and/or a FullTextScore function call.")
}

// searchTerms checks the terms of a call of FullTextScore where it is allowed.
func (a *analysis) searchTerms(call *sql.CallExpr) {
	terms := call.Args[1:]
	if slices.ContainsFunc(terms, func(term sql.Expr) bool { return !a.isTerm(term) }) {
		a.report(terms[0].Span(), "SC2241", "The second through last arguments of the 'FullTextScore' function must be literals of type string or object specifying the fuzzy search argument containing a 'term' property which is a string and a 'distance' property which is a number between 0 and 2 (inclusive).")
	}
	if len(terms) > termsMax {
		a.exceeded("SC3032", "search terms supplied to 'FullTextScore' function call", termsMax)
	}
}

// isTerm reports whether x can be searched for: a string, or an object for words with a
// similar spelling.
func (a *analysis) isTerm(x sql.Expr) bool {
	v, ok := inputs{params: a.params}.constant(x)
	switch {
	case !ok:
		return false
	case v.Kind() == value.KindString:
		return true
	}
	distance, whole := v.Get("distance").Int64()
	return v.Get("term").Kind() == value.KindString && whole && distance >= 0 && distance <= 2
}

// isScore reports whether x is a component of a ranking.
func isScore(x sql.Expr) bool {
	call, ok := x.(*sql.CallExpr)
	return ok && (isFunction(call, "VectorDistance") || isFunction(call, "FullTextScore"))
}

// planned reports whether the planner takes x for a component of a ranking.
func planned(x sql.Expr) bool {
	if sub, ok := x.(*sql.Subquery); ok && sub.Kind == sql.SubqueryScalar && sub.Query.Value != nil && sub.Query.From == nil && sub.Query.Where == nil {
		return planned(sub.Query.Value)
	}
	call, ok := x.(*sql.CallExpr)
	return ok && (isScore(x) || isFunction(call, "_VectorScore"))
}

// The limits of the options with which VectorDistance asks an index for candidates.
const (
	searchMultiplierMax = 100
	listMultiplierMax   = 50
)

// vectorOptions checks the third and the fourth argument of VectorDistance. It returns
// false if the planner ignores the call.
func (a *analysis) vectorOptions(x *sql.CallExpr) bool {
	in := inputs{params: a.params}
	if len(x.Args) > 2 {
		if v, ok := in.constant(x.Args[2]); !ok || v.Kind() != value.KindBool {
			a.report(x.Args[2].Span(), "SC2212", `The third argument provided in the VectorDistance function is invalid. This value must be a boolean value set to either "true" to execute an exact search or "false" to execute an efficient search leveraging the index.`)
			return false
		}
	}
	if len(x.Args) < 4 {
		return true
	}
	at := x.Args[3].Span()
	options, ok := in.constant(x.Args[3])
	if !ok || options.Kind() != value.KindObject {
		a.report(at, "SC2210", "Options argument of VectorDistance function must be an object literal expression.")
		return true
	}
	for _, m := range options.Members() {
		if code, message := wrongOption(m.Name, m.Value); code != "" {
			a.report(at, code, "%s", message)
			return true
		}
	}
	return true
}

// wrongOption returns the error of an option of VectorDistance, or "".
func wrongOption(name string, v value.Value) (code, message string) {
	known, most := true, int64(0)
	switch name {
	case "distanceFunction":
		_, known = vector.ParseMetric(v.Text())
	case "dataType":
		known = vectorTypes[strings.ToLower(v.Text())]
	case searchListMultiplier:
		code, most = "SC2213", searchMultiplierMax
	case listMultiplier:
		code, most = "SC2214", listMultiplierMax
	case "filterPriority":
		code, most = "SC2215", math.MaxInt64
	default:
		return "SC2210", fmt.Sprintf("'%s' is not a valid option name for VectorDistance function options argument.", truncate(name))
	}
	if most == 0 {
		switch {
		case v.Kind() != value.KindString:
			return "SC2210", fmt.Sprintf("VectorDistance function options argument property value of option '%s' must be a string literal.", name)
		case !known:
			return "SC2210", fmt.Sprintf("VectorDistance function options argument property value '%s' is not a valid value for option '%s'.", truncate(v.Text()), name)
		}
		return "", ""
	}
	if v.Kind() != value.KindNumber {
		return "SC2210", fmt.Sprintf("VectorDistance function options argument property value of option '%s' must be a number literal.", name)
	}
	n, whole := v.Int64()
	switch {
	case most == math.MaxInt64, whole && n >= 1 && n <= most:
		return "", ""
	case !whole:
		return code, fmt.Sprintf("The '%s' value specified in the VectorDistance function must be an integer between 1 and %d.", name, most)
	}
	return code, fmt.Sprintf("The '%s' value %d specified in the VectorDistance function is outside the supported range. The value must be between 1 and %d.", name, n, most)
}

// rankFeatures returns the features of a query with ORDER BY RANK.
func rankFeatures(q *sql.Select, params map[string]value.Value) Features {
	f := FeatureHybridSearch
	if call := q.OrderBy[0].Expr.(*sql.CallExpr); isFunction(call, "RRF") {
		if _, weights := fusionOf(call, params); weights != nil {
			f |= FeatureWeightedRankFusion
		}
	}
	return f
}
