package query

import (
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/decandb/decan/internal/geo"
	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/query/sql"
	fulltext "github.com/decandb/decan/internal/text"
	"github.com/decandb/decan/internal/value"
)

// predicate is what a filter tells about the documents that pass it, reduced to
// what an index or a partition key can use. It may admit more documents than the
// filter, and is lossy then, never fewer. The zero value admits all.
type predicate struct {
	op     predicateOp
	args   []predicate   // of both and either
	path   value.Path    // of a leaf, from the top of the document; a place as compiler.place gives it
	values []value.Value // of a leaf: one, or several for isIn; nil for isDefined
	lossy  bool          // a document may satisfy it and fail the filter

	// test narrows a leaf further: it is true of the value at path wherever the
	// filter is. It says nothing about arrays and objects, and may be called by
	// several goroutines.
	test func(v value.Value) bool

	// hidden keeps a predicate from routing: it does not speak of what is stored
	// at path, or stands in a subquery, of which the service routes by none.
	hidden bool

	cells  func(g geo.Grid) []geo.Interval // of isNear
	phrase fulltext.Phrase                 // of hasWords
}

type predicateOp uint8

const (
	anything predicateOp = iota
	nothing
	both
	either
	isIn   // equal to one of values
	isLess // less, and of the same type, as with the next three
	isAtMost
	isMore
	isAtLeast
	isPrefixed // a string that begins with values[0]
	isDefined
	isMissing  // nothing stands there, which no index tells
	isKind     // of the type of values[0]
	hasElement // an array with an element equal to values[0]
	isNear     // a geometry with one of cells
	hasWords   // a text with phrase
)

// unsure is what a filter comes to of which nothing is known.
func unsure() predicate { return predicate{lossy: true} }

// approximately marks a predicate that admits more than its filter.
func approximately(p predicate) predicate {
	p.lossy = p.lossy || p.op != nothing
	return p
}

// hidden keeps a predicate from routing.
func hidden(p predicate) predicate {
	p.hidden = true
	return p
}

// predicate reduces a filter.
func (c *compiler) predicate(x sql.Expr) predicate {
	if part := c.expr(x); part.con {
		if truthIn(part.v) == yes {
			return predicate{}
		}
		return predicate{op: nothing}
	}
	p := c.reduce(x)
	if p.op == anything && p.lossy && !triedInParts(x) {
		p = c.tested(predicate{op: isDefined}, x)
	}
	if c.isComputed(p.path) {
		return hidden(p)
	}
	return p
}

// triedInParts reports whether the parts of x were asked each by itself, so that
// asking x tells nothing new: a chain of which no part has a test has none either.
// Either a part is true where nothing stands, and so is the chain, or a part is
// about something else as well. Without this the parts at the bottom of deep
// chains would be compiled again on every level.
func triedInParts(x sql.Expr) bool {
	switch x := x.(type) {
	case *sql.LogicalExpr:
		return true
	case *sql.UnaryExpr:
		if x.Op != "NOT" {
			return false
		}
		switch inner := x.X.(type) {
		case *sql.LogicalExpr:
			return true
		case *sql.UnaryExpr:
			return inner.Op == "NOT"
		}
	}
	return false
}

func (c *compiler) reduce(x sql.Expr) predicate {
	if path, ok := c.place(x); ok {
		return leaf(isIn, path, value.Bool(true))
	}
	switch x := x.(type) {
	case *sql.LogicalExpr:
		return c.chain(x, x.Or, c.predicate)
	case *sql.UnaryExpr:
		if x.Op == "NOT" {
			return c.negation(x.X)
		}
	case *sql.BinaryExpr:
		return c.comparison(x.Op, x.X, x.Y)
	case *sql.BetweenExpr:
		if !x.Not {
			return combine(both, []predicate{c.comparison(">=", x.X, x.Low), c.comparison("<=", x.X, x.High)})
		}
	case *sql.InExpr:
		if !x.Not {
			return c.membership(x)
		}
	case *sql.LikeExpr:
		return c.likeness(x)
	case *sql.CallExpr:
		return c.question(x)
	case *sql.LetExpr:
		p := unsure()
		if s := c.lets[x]; s != nil {
			c.within(s, func() { p = c.predicate(x.In) })
		}
		return p
	case *sql.Subquery:
		if x.Kind == sql.SubqueryExists {
			return hidden(approximately(c.exists(x.Query)))
		}
	}
	return unsure()
}

func (c *compiler) chain(x *sql.LogicalExpr, or bool, reduce func(sql.Expr) predicate) predicate {
	op := both
	if or {
		op = either
	}
	args := make([]predicate, len(x.Terms))
	for i, term := range x.Terms {
		args[i] = reduce(term)
	}
	return combine(op, args)
}

// negation reduces NOT x: to the terms of a chain, negated, and to the opposite
// of a comparison, which is true where the comparison is false, and undefined
// where that is.
func (c *compiler) negation(x sql.Expr) predicate {
	if path, ok := c.place(x); ok {
		return leaf(isIn, path, value.Bool(false))
	}
	switch x := x.(type) {
	case *sql.LogicalExpr:
		return c.chain(x, !x.Or, c.negated)
	case *sql.UnaryExpr:
		if x.Op == "NOT" {
			return c.predicate(x.X)
		}
	case *sql.CallExpr:
		if len(x.Args) == 1 && strings.EqualFold(x.Name, "IS_DEFINED") && !x.UDF {
			if path, ok := c.place(x.Args[0]); ok && len(path) > 0 {
				return leaf(isMissing, path)
			}
		}
	case *sql.BinaryExpr:
		if op := opposite[x.Op]; op != "" && !c.unordered(x) {
			return c.comparison(op, x.X, x.Y)
		}
	case *sql.InExpr:
		if x.Not {
			return c.membership(x)
		}
	}
	return unsure()
}

// unordered reports whether a comparison by order may meet NaN, of which that
// is false and the opposite too: in a constant, or in a computed property. What
// is stored has none.
func (c *compiler) unordered(x *sql.BinaryExpr) bool {
	if comparisonOps[x.Op] == anything {
		return false
	}
	for _, side := range [...]sql.Expr{x.X, x.Y} {
		if part := c.expr(side); part.con && isNaN(part.v) {
			return true
		}
		if place, ok := c.place(side); ok && c.isComputed(place) {
			return true
		}
	}
	return false
}

// isComputed reports whether a place is in a computed property.
func (c *compiler) isComputed(place value.Path) bool {
	return len(place) > 0 && c.computed.has(place[0].Name)
}

// negated is predicate of NOT x, which need not be in the tree.
func (c *compiler) negated(x sql.Expr) predicate {
	not := &sql.UnaryExpr{Op: "NOT", X: x, At: x.Span()}
	return c.predicate(not)
}

// opposite is the operator that is true where an operator is false.
var opposite = map[string]string{"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}

// exists reduces the condition that a subquery has a row.
func (c *compiler) exists(q *sql.Select) predicate {
	if isGrouped(q) && len(q.GroupBy) == 0 {
		return unsure() // Aggregates over nothing are a row.
	}
	p := unsure()
	c.within(c.scopes[q], func() { p = c.inputs(q) })
	return p
}

// inputs reduces FROM and WHERE of the query whose scope is current: what holds
// of each document that gives a row.
func (c *compiler) inputs(q *sql.Select) predicate {
	var args []predicate
	if q.Where != nil {
		args = append(args, c.predicate(q.Where))
	}
	if q.From == nil {
		return combine(both, args)
	}
	for i := range q.From.Inputs {
		in, a := &q.From.Inputs[i], c.scope.inputs[i]
		switch {
		case in.Subquery != nil:
			args = append(args, hidden(approximately(c.exists(in.Subquery))))
		case a.local >= 0:
			args = append(args, unsure())
		case len(a.place) > 0 && (q.Where == nil || !args[0].implies(a.place)):
			args = append(args, leaf(isDefined, a.place))
		}
	}
	return combine(both, args)
}

// implies reports whether something stands at place in every document that
// satisfies p.
func (p predicate) implies(place value.Path) bool {
	implies := func(arg predicate) bool { return arg.implies(place) }
	switch p.op {
	case anything:
		return false
	case nothing:
		return true
	case both:
		return slices.ContainsFunc(p.args, implies)
	case either:
		return !slices.ContainsFunc(p.args, func(arg predicate) bool { return !implies(arg) })
	}
	return p.op != isMissing && len(p.path) >= len(place) && slices.Equal(p.path[:len(place)], place)
}

// narrow is a predicate less the conditions that something stands at a place,
// which tell little where most documents have it, and whether there are some.
func (p predicate) narrow() (n predicate, less bool) {
	switch {
	case p.op == isDefined && p.test == nil:
		return unsure(), true
	case p.op == both:
		args := make([]predicate, len(p.args))
		for i, arg := range p.args {
			one := false
			args[i], one = arg.narrow()
			less = less || one
		}
		n = combine(both, args)
		n.hidden = p.hidden
		return n, less
	}
	return p, false
}

func leaf(op predicateOp, path value.Path, values ...value.Value) predicate {
	return predicate{op: op, path: path, values: values}
}

// combine simplifies a conjunction or disjunction.
func combine(op predicateOp, args []predicate) predicate {
	decides, neutral := nothing, anything
	if op == either {
		decides, neutral = anything, nothing
	}
	kept := make([]predicate, 0, len(args))
	lossy := false
	for _, arg := range args {
		lossy = lossy || arg.lossy
		switch {
		case arg.op == decides:
			return predicate{op: decides, lossy: arg.lossy}
		case arg.op == neutral:
		case arg.op == op && !arg.hidden:
			kept = append(kept, arg.args...)
		default:
			kept = append(kept, arg)
		}
	}
	switch len(kept) {
	case 0:
		return predicate{op: neutral, lossy: lossy}
	case 1:
		kept[0].lossy = lossy
		return kept[0]
	}
	return predicate{op: op, args: kept, lossy: lossy}
}

// mirrored is the operator that says the same with its sides exchanged.
var mirrored = map[string]string{"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

var comparisonOps = map[string]predicateOp{"<": isLess, "<=": isAtMost, ">": isMore, ">=": isAtLeast}

func (c *compiler) comparison(op string, l, r sql.Expr) predicate {
	switch {
	case mirrored[op] == "":
		return unsure()
	case op != "!=" && (c.isUnequal(l) || c.isUnequal(r)):
		return predicate{op: nothing}
	}
	path, ok := c.place(l)
	other := r
	if !ok {
		if path, ok = c.place(r); !ok {
			return c.nearness(op, l, r)
		}
		other, op = l, mirrored[op]
	}
	side := c.expr(other)
	if !side.con {
		if op == "!=" {
			return approximately(leaf(isDefined, path))
		}
		return unsure()
	}
	v := side.v
	if !v.IsDefined() {
		return predicate{op: nothing}
	}
	switch op {
	case "=":
		p := leaf(isIn, path, v)
		p.hidden = c.isComputed(path)
		return p
	case "!=":
		p := leaf(isDefined, path)
		p.test = func(stored value.Value) bool { return equal(stored, v) == no }
		return p
	}
	if !hasOrder(v.Kind()) {
		return predicate{op: nothing}
	}
	p := leaf(comparisonOps[op], path, v)
	if (op == "<" || op == "<=") && v.Kind() == value.KindNumber && c.isComputed(path) {
		// The index has NaN in front of all other numbers.
		return combine(both, []predicate{hidden(leaf(isAtLeast, path, value.Number(math.Inf(-1)))), hidden(p)})
	}
	return p
}

// isUnequal reports whether x is a constant that equals nothing and has nothing
// above or below it: NaN, or an array or object with one.
func (c *compiler) isUnequal(x sql.Expr) bool {
	part := c.expr(x)
	return part.con && hasNaN(part.v)
}

// membership reduces IN: to one leaf for a place and constants, otherwise to
// the equalities it stands for.
func (c *compiler) membership(x *sql.InExpr) predicate {
	path, ok := c.place(x.X)
	if !ok {
		args := make([]predicate, len(x.List))
		for i, item := range x.List {
			args[i] = c.comparison("=", x.X, item)
		}
		return combine(either, args)
	}
	values := make([]value.Value, 0, len(x.List))
	for _, item := range x.List {
		part := c.expr(item)
		if !part.con {
			return unsure()
		}
		if part.v.IsDefined() {
			values = append(values, part.v)
		}
	}
	return leafIn(path, values)
}

// leafIn says that the value at path is equal to one of several, of which it
// takes the slice: those with NaN equal nothing.
func leafIn(path value.Path, values []value.Value) predicate {
	if values = slices.DeleteFunc(values, hasNaN); len(values) == 0 {
		return predicate{op: nothing}
	}
	return leaf(isIn, path, values...)
}

// likeness uses what a constant pattern begins with.
func (c *compiler) likeness(x *sql.LikeExpr) predicate {
	path, ok := c.place(x.X)
	text := c.expr(x.Pattern)
	if !ok || !text.con || x.Not {
		return unsure()
	}
	if text.v.Kind() != value.KindString {
		return predicate{op: nothing}
	}
	literal, whole := compileLike(text.v.Text(), x.Escape).prefix()
	switch {
	case whole:
		return leaf(isIn, path, value.String(literal))
	case literal != "":
		return c.tested(leaf(isPrefixed, path, value.String(literal)), x)
	}
	return c.tested(leaf(isKind, path, value.String("")), x)
}

// typeQuestions are the functions that ask for one type, by a value of it.
var typeQuestions = map[string]value.Value{
	"IS_NULL": value.Null(), "IS_BOOL": value.Bool(true), "IS_BOOLEAN": value.Bool(true),
	"IS_NUMBER": value.Int(0), "IS_STRING": value.String(""),
	"IS_ARRAY": value.Array(nil), "IS_OBJECT": value.Object(nil),
}

// question reduces the calls that an index can answer.
func (c *compiler) question(x *sql.CallExpr) predicate {
	if len(x.Args) == 0 || x.UDF {
		return unsure() // RAND(), the present time, and what no index knows
	}
	name := strings.ToUpper(x.Name)
	path, onPath := c.place(x.Args[0])
	if v, ok := typeQuestions[name]; ok && onPath {
		return leaf(isKind, path, v)
	}
	switch name {
	case "IS_DEFINED":
		if onPath {
			return leaf(isDefined, path)
		}
	case "STARTSWITH", "STRINGEQUALS", "STRING_EQUALS":
		return c.stringQuestion(name, x, path, onPath)
	case "CONTAINS", "ENDSWITH", "REGEXMATCH", "REGEX_MATCH":
		if onPath {
			return c.tested(leaf(isKind, path, value.String("")), x)
		}
	case "ARRAY_CONTAINS":
		return c.arrayQuestion(x, path, onPath)
	case "ST_WITHIN", "ST_INTERSECTS":
		return c.spatialQuestion(x)
	case "FULLTEXTCONTAINS", "FULLTEXT_CONTAINS", "FULLTEXTCONTAINSALL", "FULLTEXT_CONTAINS_ALL":
		return c.textQuestion(both, x)
	case "FULLTEXTCONTAINSANY", "FULLTEXT_CONTAINS_ANY":
		return c.textQuestion(either, x)
	case "ARRAY_CONTAINS_ANY":
		return c.elements(either, x, path, onPath)
	case "ARRAY_CONTAINS_ALL":
		return c.elements(both, x, path, onPath)
	}
	return unsure()
}

// testedMax bounds the text of all conditions of a plan that are looked at once
// more as tests. It is twice that of the longest query, which only conditions in
// each other reach.
const testedMax = 1 << 20

// tested narrows a predicate of the place that x is about by x itself: when x is
// about nothing else, and not true where nothing stands. A predicate without
// values gets its path.
func (c *compiler) tested(p predicate, x sql.Expr) predicate {
	c.asked = c.scope
	path, ok := value.Path(nil), false
	if at := x.Span(); c.making.tested <= testedMax {
		c.making.tested += at.End - at.Start
		path, ok = c.onlyPlace(x, nil)
	}
	if ok && path != nil {
		p.test = c.tester(x, path)
	}
	switch {
	case p.test != nil:
		p.path, p.lossy = path, false
		return p
	case p.path == nil:
		return unsure()
	}
	return approximately(p)
}

// onlyPlace returns the one place that x is about: found, or the one it finds
// first, nil for none. It reports false when there are several, or the document
// as a whole, or something else that changes from document to document. A place
// in elements of an array that x names twice is two, since the names may stand
// for different elements.
func (c *compiler) onlyPlace(x sql.Expr, found value.Path) (value.Path, bool) {
	if _, ok := c.registered(x); ok {
		return nil, false
	}
	if place, ok := c.place(x); ok {
		same := found == nil || slices.Equal(found, place) && !slices.Contains(indexPath(place), index.Element)
		return place, len(place) > 0 && same
	}
	switch x := x.(type) {
	case *sql.Ident:
		a, s := c.scope.lookup(x.Name)
		return found, s == nil || a.fixed != nil || a.let && !c.asked.inside(s)
	case *sql.LetExpr:
		return c.onlyPlaceOfLet(x, found)
	case *sql.Subquery:
		return nil, false
	case *sql.CallExpr:
		if f := functions[strings.ToUpper(x.Name)]; x.UDF || f == nil || f.volatile || f.aggregate {
			return nil, false
		}
	}
	for part := range sql.Children(x) {
		var ok bool
		if found, ok = c.onlyPlace(part, found); !ok {
			return nil, false
		}
	}
	return found, true
}

func (c *compiler) onlyPlaceOfLet(x *sql.LetExpr, found value.Path) (value.Path, bool) {
	found, ok := c.onlyPlace(x.Value, found)
	s := c.lets[x]
	if !ok || s == nil {
		return nil, false
	}
	c.within(s, func() { found, ok = c.onlyPlace(x.In, found) })
	return found, ok
}

// tester compiles a condition into a test of the value at the one place that it
// is about, nil when it is true where nothing stands. What fails passes, so that
// the filter meets it and fails as well.
func (c *compiler) tester(x sql.Expr, place value.Path) func(v value.Value) bool {
	t := newCompiler(c.params, c.computed, c.ix)
	t.scope, t.scopes, t.only, t.making = c.scope, c.scopes, place, c.making
	t.local() // The first register is for the value.
	holds := t.expr(x).truth()
	envs := sync.Pool{New: func() any {
		e := newEnv()
		e.locals = make([]value.Value, t.locals)
		return e
	}}
	test := func(v value.Value) bool {
		e := envs.Get().(*env)
		e.locals[0] = v
		passes := holds(e) == yes || e.err != nil
		clear(e.locals)
		e.err, e.worked, e.looks = nil, 0, 0
		envs.Put(e)
		return passes
	}
	if test(value.Undefined()) {
		return nil
	}
	return test
}

// flag returns what the third argument of a search says, false without one;
// known is false when that differs from document to document, or is no boolean.
func (c *compiler) flag(x *sql.CallExpr) (set, known bool) {
	if len(x.Args) < 3 {
		return false, true
	}
	arg := c.expr(x.Args[2])
	return arg.v.IsTrue(), arg.con && arg.v.Kind() == value.KindBool
}

func (c *compiler) stringQuestion(name string, x *sql.CallExpr, path value.Path, onPath bool) predicate {
	if !onPath {
		return unsure()
	}
	arg := c.expr(x.Args[1])
	ignores, known := c.flag(x)
	if ignores || !known || !arg.con || arg.v.Kind() != value.KindString {
		return c.tested(leaf(isKind, path, value.String("")), x)
	}
	if name == "STARTSWITH" {
		return leaf(isPrefixed, path, arg.v)
	}
	return leaf(isIn, path, arg.v)
}

// arrayQuestion reduces a search in a stored array, and one for a stored value
// in a constant array.
func (c *compiler) arrayQuestion(x *sql.CallExpr, path value.Path, onPath bool) predicate {
	partial, known := c.flag(x)
	if !known {
		return unsure()
	}
	if arg := c.expr(x.Args[1]); onPath && arg.con && arg.v.IsDefined() {
		if partial && arg.v.Kind() == value.KindObject {
			return c.elementWith(path, arg.v)
		}
		return leafElement(path, arg.v)
	}
	list := c.expr(x.Args[0])
	if path, ok := c.place(x.Args[1]); ok && !partial && list.con && list.v.Kind() == value.KindArray {
		return leafIn(path, slices.Clone(list.v.Items()))
	}
	return unsure()
}

// elementWith says of an array that it has an object with all members of another
// one.
func (c *compiler) elementWith(path value.Path, part value.Value) predicate {
	args := []predicate{leaf(hasElement, path, value.Object(nil))}
	inside := append(slices.Clip(path), c.element())
	for _, m := range part.Members() {
		args = append(args, leaf(isIn, append(slices.Clip(inside), value.Step{Name: m.Name}), m.Value))
	}
	return approximately(combine(both, args))
}

// elements reduces a search for several values in a stored array. An undefined
// one is not found.
func (c *compiler) elements(op predicateOp, x *sql.CallExpr, path value.Path, onPath bool) predicate {
	if !onPath {
		return unsure()
	}
	args := make([]predicate, len(x.Args)-1)
	for i, item := range x.Args[1:] {
		switch arg := c.expr(item); {
		case !arg.con:
			args[i] = unsure()
		case !arg.v.IsDefined():
			args[i] = predicate{op: nothing}
		default:
			args[i] = leafElement(path, arg.v)
		}
	}
	return combine(op, args)
}

// leafElement says that the array at path has an element equal to v.
func leafElement(path value.Path, v value.Value) predicate {
	if hasNaN(v) {
		return predicate{op: nothing}
	}
	return leaf(hasElement, path, v)
}
