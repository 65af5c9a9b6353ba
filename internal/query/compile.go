package query

import (
	"slices"
	"strings"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/value"
)

// code is a compiled expression.
type code struct {
	// Exactly one of these is the expression: a constant, a place in the document, a
	// condition, or a function.
	con  bool
	v    value.Value
	slot int // -1 for none
	test func(e *env) truth
	eval func(e *env) value.Value
}

func constant(v value.Value) code { return code{con: true, v: v, slot: -1} }

func condition(test func(e *env) truth) code { return code{slot: -1, test: test} }

func computed(eval func(e *env) value.Value) code { return code{slot: -1, eval: eval} }

// value returns the expression as a function that returns a value.
func (c code) value() func(e *env) value.Value {
	switch {
	case c.con:
		v := c.v
		return func(*env) value.Value { return v }
	case c.slot >= 0:
		slot := c.slot
		return func(e *env) value.Value { return e.at(slot) }
	case c.test != nil:
		test := c.test
		return func(e *env) value.Value { return test(e).value() }
	}
	return c.eval
}

// truth returns the expression as a condition.
func (c code) truth() func(e *env) truth {
	switch {
	case c.test != nil:
		return c.test
	case c.con:
		t := truthIn(c.v)
		return func(*env) truth { return t }
	}
	eval := c.value()
	return func(e *env) truth { return truthIn(eval(e)) }
}

// compilation is the state that the compilers of one plan share: the work and memory
// used so far.
type compilation struct {
	folding *env  // evaluates constants
	looks   int   // its work, in units of workCheck
	kept    int64 // bytes of the constants
	tested  int   // length of the conditions that were compiled again; see compiler.tested
	regexes regexes
}

func newCompilation() *compilation {
	return &compilation{folding: newEnv(), regexes: regexes{known: map[[2]string]knownRegex{}}}
}

// Limits of folding. A short text could demand much memory, and plans are cached.
const (
	foldMax  = 4 << 10 // bytes of a string
	foldsMax = 4 << 20 // bytes of all constants of a plan
)

// fold replaces an expression by its value if all operands are constant. If folding
// fails, it keeps the expression: the error appears when a document is evaluated, so a
// query without documents succeeds.
func (c *compiler) fold(x code, parts ...code) code {
	for _, part := range parts {
		if !part.con {
			return x
		}
	}
	m := c.compilation
	e := m.folding
	if m.looks > workFolds || m.kept > foldsMax {
		return x
	}
	e.err, e.looks, e.memory, e.fresh = nil, 0, 0, 0
	v := x.value()(e)
	m.looks += e.looks
	made := e.made(v)
	if e.err != nil || v.Kind() == value.KindString && v.Len() > foldMax || m.kept+made > foldsMax {
		return x
	}
	m.kept += made
	return constant(v)
}

// local returns the expression that reads a register.
func local(n int) code {
	return code{slot: -1, eval: func(e *env) value.Value { return e.locals[n] }}
}

// compiler turns the expressions of an analysed query into code.
type compiler struct {
	params   map[string]value.Value
	computed *Computed    // nil without computed properties
	stepped  int          // number of elements so far; see element
	ix       *index.Index // nil for documents without a policy
	inner    *compiler    // of that plan
	overRows bool         // another plan makes the first input, and each row of it is a document
	scope    *scope       // of the query being compiled
	scopes   map[*sql.Select]*scope
	lets     map[*sql.LetExpr]*scope // of those compiled so far
	places   value.Locator
	locals   int
	done     map[sql.Expr]code // expressions compiled so far; filters are examined repeatedly

	functions func(name string) (Function, bool) // user-defined; nil if there are none
	scripted  bool                               // an expression calls one
	called    map[string]int                     // the index of each such call, by its text

	whole       bool       // an expression reads the whole document
	system      bool       // an expression reads a system property
	only        value.Path // the place whose value is in register 0; see tester
	asked       *scope     // of the expression that onlyPlace examines
	compilation *compilation
}

func newCompiler(params map[string]value.Value, computed *Computed, ix *index.Index) *compiler {
	return &compiler{
		params: params, computed: computed, ix: ix, scope: new(scope), scopes: map[*sql.Select]*scope{},
		lets: map[*sql.LetExpr]*scope{}, done: map[sql.Expr]code{},
		compilation: newCompilation(),
	}
}

// local allocates a register.
func (c *compiler) local() int {
	c.locals++
	return c.locals - 1
}

// slot returns the slot of a place in the document.
func (c *compiler) slot(place value.Path) int {
	if len(place) == 0 {
		c.whole = true
	} else if systemProperty(place[0].Name) {
		c.system = true
	}
	return c.places.Add(place)
}

// systemProperty reports whether a top-level property is a system property, which the
// database adds to a document.
func systemProperty(name string) bool {
	switch name {
	case "_rid", "_self", "_etag", "_ts", "_attachments":
		return true
	}
	return false
}

// path returns the place in the document that x denotes, from the top.
func (c *compiler) path(x sql.Expr) (value.Path, bool) {
	place, stored, _ := c.locate(x)
	return place, stored
}

// place returns the place of x in the index: its path, also if x is a computed
// property or refers to the elements of an array by an alias.
func (c *compiler) place(x sql.Expr) (value.Path, bool) {
	place, _, found := c.locate(x)
	return place, found
}

// locate returns the place of x. stored says that the document has x there, found that
// the index would have it there.
func (c *compiler) locate(x sql.Expr) (place value.Path, stored, found bool) {
	if _, ok := c.registered(x); ok {
		return nil, false, false
	}
	switch x := x.(type) {
	case *sql.Ident:
		a, s := c.scope.lookup(x.Name)
		return a.place, s != nil && a.local < 0, a.found
	case *sql.MemberExpr:
		place, stored, found = c.locate(x.X)
		return c.below(place, value.Step{Name: x.Name}, stored, found)
	case *sql.IndexExpr:
		place, stored, found = c.locate(x.X)
		if !found {
			return nil, false, false
		}
		at := c.expr(x.Index)
		if !at.con {
			return nil, false, false
		}
		if i, isInt := at.v.Int64(); isInt && i >= 0 && i < 1<<31 {
			return c.below(place, value.Step{Index: int(i), IsIndex: true}, stored, found)
		}
		if at.v.Kind() == value.KindString {
			return c.below(place, value.Step{Name: at.v.Text()}, stored, found)
		}
	}
	return nil, false, false
}

// below appends a step. A computed property hides a stored one.
func (c *compiler) below(place value.Path, s value.Step, stored, found bool) (value.Path, bool, bool) {
	if !found {
		return nil, false, false
	}
	if len(place) == 0 && c.computed.has(s.Name) {
		stored = false
	}
	return append(slices.Clip(place), s), stored, true
}

// computedName returns the name if x is a computed property.
func (c *compiler) computedName(x sql.Expr) (string, bool) {
	place, stored, found := c.locate(x)
	if stored || !found || len(place) != 1 || !c.computed.has(place[0].Name) {
		return "", false
	}
	return place[0].Name, true
}

// bind replaces x, and later expressions in this query with the same text and meaning,
// by a register. It serves the select lists of grouped queries: compile the arguments
// of aggregates and the group keys first.
func (c *compiler) bind(x sql.Expr, register int) {
	if c.scope.bound == nil {
		c.scope.bound = map[string]int{}
	}
	c.scope.bound[sql.Canonical(x)] = register
	delete(c.done, x)
}

// registered returns the register of x.
func (c *compiler) registered(x sql.Expr) (int, bool) {
	key := ""
	for s := c.scope; s != nil; s = s.outer {
		if len(s.bound) == 0 {
			continue
		}
		if key == "" {
			key = sql.Canonical(x)
		}
		if register, ok := s.bound[key]; ok && !hides(x, c.scope, s) {
			return register, true
		}
	}
	return 0, false
}

// expr compiles an expression whose names are resolved and which is executable.
func (c *compiler) expr(x sql.Expr) code {
	if part, ok := c.done[x]; ok {
		return part
	}
	part := c.fresh(x)
	c.done[x] = part
	return part
}

func (c *compiler) fresh(x sql.Expr) code {
	if register, ok := c.registered(x); ok {
		return local(register)
	}
	place, stored, found := c.locate(x)
	switch {
	case found && c.only != nil && slices.Equal(place, c.only):
		return local(0)
	case stored:
		return code{slot: c.slot(place)}
	}
	if name, ok := c.computedName(x); ok {
		return c.property(name)
	}
	return c.node(x)
}

// node compiles an expression from its operands.
func (c *compiler) node(x sql.Expr) code {
	switch x := x.(type) {
	case *sql.Literal:
		return constant(x.Value)
	case *sql.Ident:
		switch a, s := c.scope.lookup(x.Name); {
		case s == nil:
		case a.fixed != nil:
			return constant(*a.fixed)
		default:
			return local(a.local)
		}
		return constant(numberNames[x.Name])
	case *sql.Parameter:
		return constant(c.params[x.Name])
	case *sql.MemberExpr:
		name := x.Name
		return c.one(x.X, func(e *env, v value.Value) value.Value { return e.member(v, name) })
	case *sql.IndexExpr:
		return c.two(x.X, x.Index, (*env).element)
	case *sql.UnaryExpr:
		return c.unary(x)
	case *sql.BinaryExpr:
		return c.binary(x)
	case *sql.LogicalExpr:
		return c.logic(x)
	case *sql.CoalesceExpr:
		return c.two(x.X, x.Y, func(_ *env, l, r value.Value) value.Value {
			if l.IsDefined() {
				return l
			}
			return r
		})
	case *sql.ConditionalExpr:
		return c.conditional(x.Cond, x.Then, x.Else)
	case *sql.BetweenExpr:
		return c.between(x)
	case *sql.InExpr:
		return c.in(x)
	case *sql.LikeExpr:
		return c.like(x)
	case *sql.LetExpr:
		return c.let(x)
	case *sql.CallExpr:
		return c.call(x)
	case *sql.ArrayLiteral:
		return c.array(x)
	case *sql.ObjectLiteral:
		return c.object(x)
	case *sql.Subquery:
		return c.subquery(x)
	}
	panic("query: no code for an expression that passed the analysis")
}

// one and two compile functions of values.
func (c *compiler) one(x sql.Expr, f func(e *env, v value.Value) value.Value) code {
	part := c.expr(x)
	eval := part.value()
	return c.fold(computed(func(e *env) value.Value { return f(e, eval(e)) }), part)
}

func (c *compiler) two(x, y sql.Expr, f func(e *env, a, b value.Value) value.Value) code {
	left, right := c.expr(x), c.expr(y)
	l, r := left.value(), right.value()
	return c.fold(computed(func(e *env) value.Value {
		before := e.memory
		a, b := e.take(l), e.take(r)
		return e.release(f(e, a, b), before)
	}), left, right)
}

func (c *compiler) unary(x *sql.UnaryExpr) code {
	if x.Op == "NOT" {
		part := c.expr(x.X)
		test := part.truth()
		return c.fold(condition(func(e *env) truth { return test(e).not() }), part)
	}
	op := x.Op
	return c.one(x.X, func(_ *env, v value.Value) value.Value { return unary(op, v) })
}

func (c *compiler) binary(x *sql.BinaryExpr) code {
	switch x.Op {
	case "=", "!=", "<", "<=", ">", ">=":
		return c.compare(c.expr(x.X), c.expr(x.Y), x.Op)
	case "||":
		return c.two(x.X, x.Y, (*env).concat)
	}
	f := arithmetic(x.Op)
	return c.two(x.X, x.Y, func(_ *env, l, r value.Value) value.Value { return f(l, r) })
}

func (c *compiler) compare(left, right code, op string) code {
	switch {
	case left.slot >= 0 && right.con && right.v.IsDefined():
		return condition(placeComparison(op, left.slot, right.v))
	case left.con && left.v.IsDefined() && right.slot >= 0:
		return condition(placeComparison(mirrored[op], right.slot, left.v))
	}
	test := comparison(op)
	l := left.value()
	if right.con {
		r := right.v
		return c.fold(condition(func(e *env) truth { return e.compare(test, l(e), r) }), left)
	}
	r := right.value()
	return c.fold(condition(func(e *env) truth {
		before := e.memory
		a, b := e.take(l), e.take(r)
		e.memory = before
		return e.compare(test, a, b)
	}), left, right)
}

// logic compiles a chain. One deciding value, false for AND and true for OR, decides
// the chain even if other terms are undefined.
func (c *compiler) logic(x *sql.LogicalExpr) code {
	decides := no
	if x.Or {
		decides = yes
	}
	var tests []func(e *env) truth
	rest := decides.not()
	for _, term := range x.Terms {
		part := c.expr(term)
		if !part.con {
			tests = append(tests, part.truth())
			continue
		}
		switch truthIn(part.v) {
		case decides:
			return constant(decides.value())
		case unknown:
			rest = unknown
		}
	}
	if len(tests) == 0 {
		return constant(rest.value())
	}
	return condition(func(e *env) truth {
		result := rest
		for _, test := range tests {
			switch test(e) {
			case decides:
				return decides
			case unknown:
				result = unknown
			}
		}
		return result
	})
}

// conditional evaluates the second branch unless the condition is exactly true.
func (c *compiler) conditional(cond, then, otherwise sql.Expr) code {
	test, a, b := c.expr(cond), c.expr(then), c.expr(otherwise)
	if test.con {
		if truthIn(test.v) == yes {
			return a
		}
		return b
	}
	holds, l, r := test.truth(), a.value(), b.value()
	return computed(func(e *env) value.Value {
		holds := holds(e) == yes
		e.fresh = 0
		if holds {
			return l(e)
		}
		return r(e)
	})
}

// between is the conjunction of two comparisons: it is false if one of them is, even if
// the other one is undefined.
func (c *compiler) between(x *sql.BetweenExpr) code {
	v, low, high := c.expr(x.X), c.expr(x.Low), c.expr(x.High)
	above := c.compare(v, low, ">=").truth()
	below := c.compare(v, high, "<=").truth()
	not := x.Not
	return c.fold(condition(func(e *env) truth {
		t := above(e)
		if t != no {
			if u := below(e); u != yes {
				t = u
			}
		}
		if not {
			return t.not()
		}
		return t
	}), v, low, high)
}

// inSetMin is the number of constants from which a lookup in a set is faster than
// comparisons.
const inSetMin = 8

// in compiles IN. An undefined member of the list counts as unequal to every value.
func (c *compiler) in(x *sql.InExpr) code {
	v := c.expr(x.X)
	parts := []code{v}
	var items []func(e *env) value.Value
	set := map[string]struct{}{}
	for _, item := range x.List {
		part := c.expr(item)
		parts = append(parts, part)
		switch {
		case part.con && (!part.v.IsDefined() || hasNaN(part.v)): // it equals nothing
		case !part.con || len(x.List) < inSetMin || part.v.Kind() > value.KindString || part.v.Len() > foldMax:
			items = append(items, part.value())
		default:
			set[string(value.AppendKey(nil, part.v))] = struct{}{}
		}
	}
	eval, not := v.value(), x.Not
	return c.fold(condition(func(e *env) truth {
		before := e.memory
		t := among(e, e.take(eval), set, items)
		e.memory = before
		if not {
			return t.not()
		}
		return t
	}), parts...)
}

func among(e *env, v value.Value, set map[string]struct{}, items []func(e *env) value.Value) truth {
	if !v.IsDefined() {
		return unknown
	}
	if len(set) > 0 && v.Kind() <= value.KindString {
		if v.Kind() == value.KindString && !e.workOf(v, v) {
			return unknown
		}
		e.scratch = value.AppendKey(e.scratch[:0], v)
		if _, ok := set[string(e.scratch)]; ok {
			return yes
		}
	}
	for _, item := range items {
		if e.compare(equal, v, item(e)) == yes {
			return yes
		}
	}
	return no
}

func (c *compiler) like(x *sql.LikeExpr) code {
	v, text := c.expr(x.X), c.expr(x.Pattern)
	eval, patternOf := v.value(), text.value()
	match := func(e *env, s, pattern string) bool { return compileLike(pattern, x.Escape).match(e, s) }
	if text.con {
		p := compileLike(text.v.Text(), x.Escape)
		match = func(e *env, s, _ string) bool { return p.match(e, s) }
	}
	not := x.Not
	return c.fold(condition(func(e *env) truth {
		before := e.memory
		s, pattern := e.take(eval), e.take(patternOf)
		e.memory = before
		if s.Kind() != value.KindString || pattern.Kind() != value.KindString || !e.work(pattern.Len()) {
			return unknown
		}
		return truthOf(match(e, s.Text(), pattern.Text()) != not)
	}), v, text)
}

func (c *compiler) call(x *sql.CallExpr) code {
	if x.UDF {
		return c.userFunction(x)
	}
	f := functions[strings.ToUpper(x.Name)]
	parts := make([]code, len(x.Args))
	evals := make([]func(e *env) value.Value, len(x.Args))
	for i, arg := range x.Args {
		parts[i] = c.expr(arg)
		evals[i] = parts[i].value()
	}
	b, run := c.binding(x, parts), f.run
	if f.direct != nil {
		if eval := f.direct(b); eval != nil {
			return computed(eval)
		}
	}
	switch {
	case f.bind != nil:
		run = f.bind(b)
	case run == nil:
		run = undefinedRun // an aggregate that is not bound to a register
	}
	if f.name == "RegexMatch" {
		if matcher, ok := fixedRegex(b); ok {
			run = matcher
		}
	}
	shares := sharing[f.name]
	result := computed(func(e *env) value.Value {
		before := e.memory
		base := e.push(evals)
		v := value.Undefined()
		if args := e.stack[base:]; e.workOn(args) {
			v = run(e, args)
		}
		return e.pop(v, base, before, shares)
	})
	if f.volatile {
		return result
	}
	return c.fold(result, parts...)
}

// sharing are the functions whose results are parts of their arguments.
var sharing = map[string]bool{"CHOOSE": true, "ARRAY_SLICE": true}

// push evaluates the arguments of a call onto the stack and returns where they begin.
// The arguments of inner calls are above them and are removed before push returns.
func (e *env) push(evals []func(e *env) value.Value) (base int) {
	base = len(e.stack)
	for _, eval := range evals {
		v := e.take(eval)
		e.stack = append(e.stack, v)
	}
	return base
}

// pop ends a call: it removes the arguments and returns v, or undefined if v is too
// large.
func (e *env) pop(v value.Value, base int, before int64, shares bool) value.Value {
	clear(e.stack[base:])
	e.stack = e.stack[:base]
	v = e.release(v, before)
	if v.Kind() < value.KindArray || shares {
		return v
	}
	m := measure{room: builtMax}
	if !e.fitsIn(&m, v) {
		return value.Undefined()
	}
	e.fresh += int64(m.nodes * valueSize)
	return v
}

// array builds an array. Undefined elements are omitted.
func (c *compiler) array(x *sql.ArrayLiteral) code {
	parts := make([]code, len(x.Items))
	evals := make([]func(e *env) value.Value, len(x.Items))
	for i, item := range x.Items {
		parts[i] = c.expr(item)
		evals[i] = parts[i].value()
	}
	return c.fold(computed(func(e *env) value.Value { return makeArray(e, evals) }), parts...)
}

func makeArray(e *env, evals []func(e *env) value.Value) value.Value {
	before, m := e.memory, measure{room: builtMax - 1}
	items := make([]value.Value, 0, len(evals))
	for _, eval := range evals {
		v := e.take(eval)
		if !v.IsDefined() {
			continue
		}
		if !e.fitsIn(&m, v) {
			break
		}
		items = append(items, v)
	}
	return e.literal(value.Array(items), len(evals)*valueSize, before)
}

// literal finishes an array or object. size is its memory in bytes without its parts.
func (e *env) literal(v value.Value, size int, before int64) value.Value {
	e.release(v, before)
	if e.err != nil {
		return value.Undefined()
	}
	e.fresh += int64(size)
	return v
}

// object builds an object. Undefined properties are omitted.
func (c *compiler) object(x *sql.ObjectLiteral) code {
	parts := make([]code, len(x.Members))
	evals := make([]func(e *env) value.Value, len(x.Members))
	for i, m := range x.Members {
		parts[i] = c.expr(m.Expr)
		evals[i] = parts[i].value()
	}
	names := make([]string, len(x.Members))
	for i, m := range x.Members {
		names[i] = m.Name
	}
	return c.fold(computed(func(e *env) value.Value { return makeObject(e, names, evals) }), parts...)
}
