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

// predicate is what a filter says about the documents that pass it, reduced to what an
// index or a partition key can use. It admits all documents that the filter admits. If
// it may admit more, it is lossy. The zero value admits all.
type predicate struct {
	op     predicateOp
	args   []predicate   // of opAnd and opOr
	path   value.Path    // of a leaf, from the top of the document, as compiler.place returns it
	values []value.Value // of a leaf: one, or several for opIn; nil for opDefined
	lossy  bool          // a document may satisfy the predicate and not pass the filter

	// test restricts a leaf further: it is true of the value at path in every document
	// that passes the filter. It is not valid for arrays and objects. Goroutines may
	// call it concurrently.
	test func(v value.Value) bool

	// hidden excludes a predicate from routing: it is not about the stored value at
	// path.
	hidden bool

	cells  func(g geo.Grid) []geo.Interval // of opNear
	phrase fulltext.Phrase                 // of opWords
}

type predicateOp uint8

const (
	opTrue predicateOp = iota
	opFalse
	opAnd
	opOr
	opIn   // equal to one of values
	opLess // less, and of the same type, as are the next three
	opLessEqual
	opGreater
	opGreaterEqual
	opPrefix // a string that begins with values[0]
	opDefined
	opMissing // the place is undefined, which no index can find
	opKind    // of the type of values[0]
	opElement // an array with an element equal to values[0]
	opNear    // a geometry with one of cells
	opWords   // a text with phrase
)

// unknownPredicate returns the predicate of a filter about which nothing is known.
func unknownPredicate() predicate { return predicate{lossy: true} }

// approximately marks a predicate that may admit more than its filter.
func approximately(p predicate) predicate {
	p.lossy = p.lossy || p.op != opFalse
	return p
}

// hidden excludes a predicate from routing.
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
		return predicate{op: opFalse}
	}
	p := c.reduce(x)
	if p.op == opTrue && p.lossy && !triedInParts(x) {
		p = c.tested(predicate{op: opDefined}, x)
	}
	if c.isComputed(p.path) {
		return hidden(p)
	}
	return p
}

// triedInParts reports whether the operands of x were tested separately, so that a
// test of x adds nothing: if no operand of a chain has a test, the chain has none.
// Either an operand is true of undefined, and so is the chain, or an operand depends
// on something else. Without this check the operands at the bottom of deep chains
// would be compiled again on every level.
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
		return leaf(opIn, path, value.Bool(true))
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
			return combine(opAnd, []predicate{c.comparison(">=", x.X, x.Low), c.comparison("<=", x.X, x.High)})
		}
	case *sql.InExpr:
		if !x.Not {
			return c.inPredicate(x)
		}
	case *sql.LikeExpr:
		return c.likePredicate(x)
	case *sql.CallExpr:
		return c.callPredicate(x)
	case *sql.LetExpr:
		p := unknownPredicate()
		if s := c.lets[x]; s != nil {
			c.within(s, func() { p = c.predicate(x.In) })
		}
		return p
	case *sql.Subquery:
		if x.Kind == sql.SubqueryExists {
			return approximately(c.exists(x.Query))
		}
	}
	return unknownPredicate()
}

func (c *compiler) chain(x *sql.LogicalExpr, or bool, reduce func(sql.Expr) predicate) predicate {
	op := opAnd
	if or {
		op = opOr
	}
	args := make([]predicate, len(x.Terms))
	for i, term := range x.Terms {
		args[i] = reduce(term)
	}
	return combine(op, args)
}

// negation reduces NOT x: it negates the terms of a chain, and replaces a comparison
// by its opposite, which is true where the comparison is false and undefined where the
// comparison is undefined.
func (c *compiler) negation(x sql.Expr) predicate {
	if path, ok := c.place(x); ok {
		return leaf(opIn, path, value.Bool(false))
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
				return leaf(opMissing, path)
			}
		}
	case *sql.BinaryExpr:
		if op := opposite[x.Op]; op != "" {
			return c.comparison(op, x.X, x.Y)
		}
	case *sql.InExpr:
		if x.Not {
			return c.inPredicate(x)
		}
	}
	return unknownPredicate()
}

// isComputed reports whether a place is in a computed property.
func (c *compiler) isComputed(place value.Path) bool {
	return len(place) > 0 && c.computed.has(place[0].Name)
}

// negated returns the predicate of NOT x. NOT x need not be in the tree.
func (c *compiler) negated(x sql.Expr) predicate {
	not := &sql.UnaryExpr{Op: "NOT", X: x, At: x.Span()}
	return c.predicate(not)
}

// opposite is the operator that is true where the given one is false.
var opposite = map[string]string{"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}

// exists reduces the condition that a subquery has a row.
func (c *compiler) exists(q *sql.Select) predicate {
	if isGrouped(q) && len(q.GroupBy) == 0 {
		return unknownPredicate() // aggregates without GROUP BY always have a row
	}
	p := unknownPredicate()
	c.within(c.scopes[q], func() { p = c.inputs(q) })
	return p
}

// inputs reduces FROM and WHERE of the query of the current scope: it is true of each
// document that has a row.
func (c *compiler) inputs(q *sql.Select) predicate {
	var args []predicate
	if q.Where != nil {
		args = append(args, c.predicate(q.Where))
	}
	if q.From == nil {
		return combine(opAnd, args)
	}
	for i := range q.From.Inputs {
		in, a := &q.From.Inputs[i], c.scope.inputs[i]
		switch {
		case in.Subquery != nil:
			args = append(args, approximately(c.exists(in.Subquery)))
		case a.local >= 0:
			args = append(args, unknownPredicate())
		case len(a.place) > 0 && (q.Where == nil || !args[0].implies(a.place)):
			args = append(args, leaf(opDefined, a.place))
		}
	}
	return combine(opAnd, args)
}

// implies reports whether place is defined in every document that satisfies p.
func (p predicate) implies(place value.Path) bool {
	implies := func(arg predicate) bool { return arg.implies(place) }
	switch p.op {
	case opTrue:
		return false
	case opFalse:
		return true
	case opAnd:
		return slices.ContainsFunc(p.args, implies)
	case opOr:
		return !slices.ContainsFunc(p.args, func(arg predicate) bool { return !implies(arg) })
	}
	return p.op != opMissing && len(p.path) >= len(place) && slices.Equal(p.path[:len(place)], place)
}

// narrow returns a predicate without the conditions that a place is defined, which are
// of little use if most documents have it, and whether there are such conditions.
func (p predicate) narrow() (n predicate, less bool) {
	switch {
	case p.op == opDefined && p.test == nil:
		return unknownPredicate(), true
	case p.op == opAnd:
		args := make([]predicate, len(p.args))
		for i, arg := range p.args {
			one := false
			args[i], one = arg.narrow()
			less = less || one
		}
		n = combine(opAnd, args)
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
	decides, neutral := opFalse, opTrue
	if op == opOr {
		decides, neutral = opTrue, opFalse
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

// mirrored is the operator that is equivalent when its operands are exchanged.
var mirrored = map[string]string{"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

var comparisonOps = map[string]predicateOp{"<": opLess, "<=": opLessEqual, ">": opGreater, ">=": opGreaterEqual}

func (c *compiler) comparison(op string, l, r sql.Expr) predicate {
	switch {
	case mirrored[op] == "":
		return unknownPredicate()
	case op != "!=" && (c.isUnequal(l) || c.isUnequal(r)):
		return predicate{op: opFalse}
	}
	path, ok := c.place(l)
	other := r
	if !ok {
		if path, ok = c.place(r); !ok {
			return c.distancePredicate(op, l, r)
		}
		other, op = l, mirrored[op]
	}
	side := c.expr(other)
	if !side.con {
		if op == "!=" {
			return approximately(leaf(opDefined, path))
		}
		return unknownPredicate()
	}
	v := side.v
	if !v.IsDefined() {
		return predicate{op: opFalse}
	}
	switch op {
	case "=":
		p := leaf(opIn, path, v)
		p.hidden = c.isComputed(path)
		return p
	case "!=":
		p := leaf(opDefined, path)
		p.test = func(stored value.Value) bool { return equal(stored, v) == no }
		return p
	}
	if !hasOrder(v.Kind()) {
		return predicate{op: opFalse}
	}
	p := leaf(comparisonOps[op], path, v)
	if (op == "<" || op == "<=") && v.Kind() == value.KindNumber && c.isComputed(path) {
		// In the index, NaN comes before all other numbers.
		return combine(opAnd, []predicate{hidden(leaf(opGreaterEqual, path, value.Number(math.Inf(-1)))), hidden(p)})
	}
	return p
}

// isUnequal reports whether x is a constant for which all comparisons are false: NaN,
// or an array or object that contains it.
func (c *compiler) isUnequal(x sql.Expr) bool {
	part := c.expr(x)
	return part.con && hasNaN(part.v)
}

// inPredicate reduces IN: to one leaf for a place and constants, otherwise to
// equalities.
func (c *compiler) inPredicate(x *sql.InExpr) predicate {
	path, ok := c.place(x.X)
	if !ok {
		args := make([]predicate, len(x.List))
		for i, item := range x.List {
			args[i] = c.comparison("=", x.X, item)
		}
		return combine(opOr, args)
	}
	values := make([]value.Value, 0, len(x.List))
	for _, item := range x.List {
		part := c.expr(item)
		if !part.con {
			return unknownPredicate()
		}
		if part.v.IsDefined() {
			values = append(values, part.v)
		}
	}
	return leafIn(path, values)
}

// leafIn returns the predicate that the value at path is equal to one of several. It
// owns the slice. Values with NaN equal nothing.
func leafIn(path value.Path, values []value.Value) predicate {
	if values = slices.DeleteFunc(values, hasNaN); len(values) == 0 {
		return predicate{op: opFalse}
	}
	return leaf(opIn, path, values...)
}

// likePredicate uses the constant prefix of a pattern.
func (c *compiler) likePredicate(x *sql.LikeExpr) predicate {
	path, ok := c.place(x.X)
	text := c.expr(x.Pattern)
	if !ok || !text.con || x.Not {
		return unknownPredicate()
	}
	if text.v.Kind() != value.KindString {
		return predicate{op: opFalse}
	}
	literal, whole := compileLike(text.v.Text(), x.Escape).prefix()
	switch {
	case whole:
		return leaf(opIn, path, value.String(literal))
	case literal != "":
		return c.tested(leaf(opPrefix, path, value.String(literal)), x)
	}
	return c.tested(leaf(opKind, path, value.String("")), x)
}

// typeCalls are the functions that test for one type, each with a value of the type.
var typeCalls = map[string]value.Value{
	"IS_NULL": value.Null(), "ISNULL": value.Null(), "IS_BOOL": value.Bool(true), "IS_BOOLEAN": value.Bool(true),
	"IS_NUMBER": value.Int(0), "IS_STRING": value.String(""),
	"IS_ARRAY": value.Array(nil), "IS_OBJECT": value.Object(nil),
}

// callPredicate reduces the calls that an index can answer.
func (c *compiler) callPredicate(x *sql.CallExpr) predicate {
	if len(x.Args) == 0 || x.UDF {
		return unknownPredicate() // RAND(), the current time, and what no index knows
	}
	name := strings.ToUpper(x.Name)
	path, onPath := c.place(x.Args[0])
	if v, ok := typeCalls[name]; ok && onPath {
		return leaf(opKind, path, v)
	}
	switch name {
	case "IS_DEFINED":
		if onPath {
			return leaf(opDefined, path)
		}
	case "STARTSWITH", "STRINGEQUALS", "STRING_EQUALS":
		return c.stringCall(name, x, path, onPath)
	case "CONTAINS", "ENDSWITH", "REGEXMATCH", "REGEX_MATCH":
		if onPath {
			return c.tested(leaf(opKind, path, value.String("")), x)
		}
	case "ARRAY_CONTAINS":
		return c.arrayCall(x, path, onPath)
	case "ST_WITHIN", "ST_INTERSECTS":
		return c.spatialCall(x)
	case "FULLTEXTCONTAINS", "FULLTEXT_CONTAINS", "FULLTEXTCONTAINSALL", "FULLTEXT_CONTAINS_ALL":
		return c.textCall(opAnd, x)
	case "FULLTEXTCONTAINSANY", "FULLTEXT_CONTAINS_ANY":
		return c.textCall(opOr, x)
	case "ARRAY_CONTAINS_ANY":
		return c.elements(opOr, x, path, onPath)
	case "ARRAY_CONTAINS_ALL":
		return c.elements(opAnd, x, path, onPath)
	}
	return unknownPredicate()
}

// testedMax is the maximum total length of the conditions of a plan that are compiled
// again as tests: twice the length of the longest query, which only nested conditions
// exceed.
const testedMax = 1 << 20

// tested restricts a predicate on the place that x is about by x itself, if x depends
// on nothing else and is not true of undefined. It sets the path of a predicate
// without values.
func (c *compiler) tested(p predicate, x sql.Expr) predicate {
	c.asked = c.scope
	path, ok := value.Path(nil), false
	if at := x.Span(); c.compilation.tested <= testedMax {
		c.compilation.tested += at.End - at.Start
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
		return unknownPredicate()
	}
	return approximately(p)
}

// onlyPlace returns the only place on which x depends: found, or the first one in x;
// nil if there is none. It returns false if x depends on several places, on the whole
// document, or on something else that differs between documents. A place in the
// elements of an array that occurs twice counts as two, because the elements may
// differ.
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

// tester compiles a condition into a test of the value at its only place, or nil if
// the condition is true of undefined. If an evaluation returns an error, the value
// passes, and the filter reports the error.
func (c *compiler) tester(x sql.Expr, place value.Path) func(v value.Value) bool {
	t := newCompiler(c.params, c.computed, c.ix)
	t.scope, t.scopes, t.only, t.compilation = c.scope, c.scopes, place, c.compilation
	t.local() // the first register is for the value
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

// flag returns the third argument of a search, or false if there is none. known is
// false if the argument is not a constant boolean.
func (c *compiler) flag(x *sql.CallExpr) (set, known bool) {
	if len(x.Args) < 3 {
		return false, true
	}
	arg := c.expr(x.Args[2])
	return arg.v.IsTrue(), arg.con && arg.v.Kind() == value.KindBool
}

func (c *compiler) stringCall(name string, x *sql.CallExpr, path value.Path, onPath bool) predicate {
	if !onPath {
		return unknownPredicate()
	}
	arg := c.expr(x.Args[1])
	ignores, known := c.flag(x)
	if ignores || !known || !arg.con || arg.v.Kind() != value.KindString {
		return c.tested(leaf(opKind, path, value.String("")), x)
	}
	if name == "STARTSWITH" {
		return leaf(opPrefix, path, arg.v)
	}
	return leaf(opIn, path, arg.v)
}

// arrayCall reduces a search in a stored array, and a search for a stored value in a
// constant array.
func (c *compiler) arrayCall(x *sql.CallExpr, path value.Path, onPath bool) predicate {
	partial, known := c.flag(x)
	if !known {
		return unknownPredicate()
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
	return unknownPredicate()
}

// elementWith returns the predicate that an array has an object with all members of
// another object.
func (c *compiler) elementWith(path value.Path, part value.Value) predicate {
	args := []predicate{leaf(opElement, path, value.Object(nil))}
	inside := append(slices.Clip(path), c.element())
	for _, m := range part.Members() {
		switch place := append(slices.Clip(inside), value.Step{Name: m.Name}); m.Value.Kind() {
		case value.KindArray, value.KindObject: // a part of the stored one suffices
			args = append(args, leaf(opKind, place, m.Value))
		default:
			args = append(args, leaf(opIn, place, m.Value))
		}
	}
	return approximately(combine(opAnd, args))
}

// elements reduces a search for several values in a stored array. An undefined value
// is never found.
func (c *compiler) elements(op predicateOp, x *sql.CallExpr, path value.Path, onPath bool) predicate {
	if !onPath {
		return unknownPredicate()
	}
	args := make([]predicate, len(x.Args)-1)
	for i, item := range x.Args[1:] {
		switch arg := c.expr(item); {
		case !arg.con:
			args[i] = unknownPredicate()
		case !arg.v.IsDefined():
			args[i] = predicate{op: opFalse}
		default:
			args[i] = leafElement(path, arg.v)
		}
	}
	return combine(op, args)
}

// leafElement returns the predicate that the array at path has an element equal to v.
func leafElement(path value.Path, v value.Value) predicate {
	if hasNaN(v) {
		return predicate{op: opFalse}
	}
	return leaf(opElement, path, v)
}
