package query

import (
	"slices"
	"strings"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/value"
)

// code is a compiled expression.
type code struct {
	// Exactly one of these says what the expression is: a constant, a place in
	// the document, a condition, or anything else.
	con  bool
	v    value.Value
	slot int // -1 for none
	test func(e *env) truth
	eval func(e *env) value.Value
}

func constant(v value.Value) code { return code{con: true, v: v, slot: -1} }

func condition(test func(e *env) truth) code { return code{slot: -1, test: test} }

func computed(eval func(e *env) value.Value) code { return code{slot: -1, eval: eval} }

// value returns the expression as a function to a value.
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

// fold turns an expression whose parts are all constants into its value.
func (c code) fold(parts ...code) code {
	for _, part := range parts {
		if !part.con {
			return c
		}
	}
	return c.foldAlways()
}

// foldAlways evaluates c now. What fails now is left to fail for each document,
// so that a query without documents is answered.
func (c code) foldAlways() code {
	e := newEnv()
	v := c.value()(e)
	if e.err != nil || v.Kind() == value.KindString && v.Len() > foldMax {
		return c
	}
	return constant(v)
}

// foldMax bounds the strings that folding makes: a text could ask for very many.
const foldMax = 4 << 10

// local is what is in a register.
func local(n int) code {
	return code{slot: -1, eval: func(e *env) value.Value { return e.locals[n] }}
}

// compiler turns the expressions of an analysed query into code.
type compiler struct {
	params   map[string]value.Value
	computed *Computed    // nil without computed properties
	stepped  int          // elements handed out; see element
	ix       *index.Index // nil for documents without policies
	overRows bool         // the first input is made by another plan, and each row of it a document
	scope    *scope       // of the query being compiled
	scopes   map[*Select]*scope
	lets     map[*Let]*scope // of those compiled so far
	root     branch
	slots    int
	locals   int
	done     map[Expr]code // what is compiled already: filters are asked for their parts again and again

	functions func(name string) (Function, bool) // user-defined; nil for none at all
	scripted  bool                               // some expression calls one
	called    map[string]int                     // the places of those calls, by their texts

	whole  bool   // some expression reads the document as a whole
	system bool   // some expression reads a system property
	only   []step // a place that stands for the register 0; see tester
	asked  *scope // of the expression that onlyPlace is asked about
}

func newCompiler(params map[string]value.Value, computed *Computed, ix *index.Index) *compiler {
	return &compiler{
		params: params, computed: computed, ix: ix, scope: new(scope), scopes: map[*Select]*scope{},
		lets: map[*Let]*scope{}, root: branch{slot: -1}, done: map[Expr]code{},
	}
}

// local hands out a register.
func (c *compiler) local() int {
	c.locals++
	return c.locals - 1
}

// slot returns the slot of a place in the document.
func (c *compiler) slot(place []step) int {
	if len(place) == 0 {
		c.whole = true
	} else if systemProperty(place[0].Name) {
		c.system = true
	}
	return c.root.add(place, &c.slots)
}

// systemProperty reports whether a top-level property is one that the database
// adds to a document.
func systemProperty(name string) bool {
	switch name {
	case "_rid", "_self", "_etag", "_ts", "_attachments":
		return true
	}
	return false
}

// path returns the place in the document that x means, from the top.
func (c *compiler) path(x Expr) ([]step, bool) {
	place, stored, _ := c.locate(x)
	return place, stored
}

// place returns where the index has what x means: its path, also when x is a
// computed property, or goes through the elements of an array by an alias.
func (c *compiler) place(x Expr) ([]step, bool) {
	place, _, found := c.locate(x)
	return place, found
}

// locate returns the place of x. stored says that the document has x there,
// found that the index would.
func (c *compiler) locate(x Expr) (place []step, stored, found bool) {
	if _, ok := c.registered(x); ok {
		return nil, false, false
	}
	switch x := x.(type) {
	case *Name:
		a, s := c.scope.lookup(x.Name)
		return a.place, s != nil && a.local < 0, a.found
	case *Member:
		place, stored, found = c.locate(x.Of)
		return c.below(place, step{Name: x.Name}, stored, found)
	case *Index:
		place, stored, found = c.locate(x.Of)
		if !found {
			return nil, false, false
		}
		at := c.expr(x.At)
		if !at.con {
			return nil, false, false
		}
		if i, isInt := at.v.Int64(); isInt && i >= 0 && i < 1<<31 {
			return c.below(place, step{Index: int(i), IsIndex: true}, stored, found)
		}
		if at.v.Kind() == value.KindString {
			return c.below(place, step{Name: at.v.Text()}, stored, found)
		}
	}
	return nil, false, false
}

// below goes one step on. A computed property hides a stored one.
func (c *compiler) below(place []step, s step, stored, found bool) ([]step, bool, bool) {
	if !found {
		return nil, false, false
	}
	if len(place) == 0 && c.computed.has(s.Name) {
		stored = false
	}
	return append(slices.Clip(place), s), stored, true
}

// computedName returns the computed property that x is.
func (c *compiler) computedName(x Expr) (string, bool) {
	place, stored, found := c.locate(x)
	if stored || !found || len(place) != 1 || !c.computed.has(place[0].Name) {
		return "", false
	}
	return place[0].Name, true
}

// bind makes x, and from then on whatever is written like it in this query and
// means the same, stand for a register. It is for what is in select lists behind
// groups: compile the arguments of aggregates and the group keys first.
func (c *compiler) bind(x Expr, register int) {
	if c.scope.bound == nil {
		c.scope.bound = map[string]int{}
	}
	c.scope.bound[alike(x)] = register
	delete(c.done, x)
}

// registered returns the register that stands for x.
func (c *compiler) registered(x Expr) (int, bool) {
	key := ""
	for s := c.scope; s != nil; s = s.outer {
		if len(s.bound) == 0 {
			continue
		}
		if key == "" {
			key = alike(x)
		}
		if register, ok := s.bound[key]; ok && !hides(x, c.scope, s) {
			return register, true
		}
	}
	return 0, false
}

// expr compiles an expression whose names are resolved and whose constructs are
// all executable.
func (c *compiler) expr(x Expr) code {
	if part, ok := c.done[x]; ok {
		return part
	}
	part := c.fresh(x)
	c.done[x] = part
	return part
}

func (c *compiler) fresh(x Expr) code {
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

// node compiles an expression from its parts.
func (c *compiler) node(x Expr) code {
	switch x := x.(type) {
	case *Literal:
		return constant(x.Value)
	case *Name:
		switch a, s := c.scope.lookup(x.Name); {
		case s == nil:
		case a.fixed != nil:
			return constant(*a.fixed)
		default:
			return local(a.local)
		}
		return constant(numberNames[x.Name])
	case *Parameter:
		return constant(c.params[x.Name])
	case *Member:
		name := x.Name
		return c.one(x.Of, func(e *env, v value.Value) value.Value { return e.member(v, name) })
	case *Index:
		return c.two(x.Of, x.At, (*env).element)
	case *Unary:
		return c.unary(x)
	case *Binary:
		return c.binary(x)
	case *Logic:
		return c.logic(x)
	case *Coalesce:
		return c.two(x.L, x.R, func(_ *env, l, r value.Value) value.Value {
			if l.IsDefined() {
				return l
			}
			return r
		})
	case *Conditional:
		return c.conditional(x.If, x.Then, x.Else)
	case *Between:
		return c.between(x)
	case *In:
		return c.in(x)
	case *Like:
		return c.like(x)
	case *Let:
		return c.let(x)
	case *Call:
		return c.call(x)
	case *ArrayLiteral:
		return c.array(x)
	case *ObjectLiteral:
		return c.object(x)
	case *Subquery:
		return c.subquery(x)
	}
	panic("query: expression passed the analysis and has no code")
}

// one and two compile functions of values.
func (c *compiler) one(x Expr, f func(e *env, v value.Value) value.Value) code {
	part := c.expr(x)
	eval := part.value()
	return computed(func(e *env) value.Value { return f(e, eval(e)) }).fold(part)
}

func (c *compiler) two(x, y Expr, f func(e *env, a, b value.Value) value.Value) code {
	left, right := c.expr(x), c.expr(y)
	l, r := left.value(), right.value()
	return computed(func(e *env) value.Value { return f(e, l(e), r(e)) }).fold(left, right)
}

func (c *compiler) unary(x *Unary) code {
	if x.Op == "NOT" {
		part := c.expr(x.X)
		test := part.truth()
		return condition(func(e *env) truth { return test(e).not() }).fold(part)
	}
	op := x.Op
	return c.one(x.X, func(_ *env, v value.Value) value.Value { return unary(op, v) })
}

func (c *compiler) binary(x *Binary) code {
	switch x.Op {
	case "=", "!=", "<", "<=", ">", ">=":
		return c.compare(c.expr(x.L), c.expr(x.R), x.Op)
	case "||":
		return c.two(x.L, x.R, (*env).concat)
	}
	f := arithmetic(x.Op)
	return c.two(x.L, x.R, func(_ *env, l, r value.Value) value.Value {
		a, b, ok := numbers(l, r)
		if !ok {
			return value.Undefined()
		}
		return value.Number(f(a, b))
	})
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
		return condition(func(e *env) truth { return e.compare(test, l(e), r) }).fold(left)
	}
	r := right.value()
	return condition(func(e *env) truth { return e.compare(test, l(e), r(e)) }).fold(left, right)
}

// logic compiles a chain. The value that decides a chain decides it whatever
// the other terms are, undefined ones included.
func (c *compiler) logic(x *Logic) code {
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

// conditional takes the second branch unless the condition is exactly true; see
// settled.md on that choice.
func (c *compiler) conditional(cond, then, otherwise Expr) code {
	test, a, b := c.expr(cond), c.expr(then), c.expr(otherwise)
	if test.con {
		if truthIn(test.v) == yes {
			return a
		}
		return b
	}
	holds, l, r := test.truth(), a.value(), b.value()
	return computed(func(e *env) value.Value {
		if holds(e) == yes {
			return l(e)
		}
		return r(e)
	})
}

func (c *compiler) between(x *Between) code {
	v, low, high := c.expr(x.X), c.expr(x.Low), c.expr(x.High)
	above := c.compare(v, low, ">=").truth()
	below := c.compare(v, high, "<=").truth()
	not := x.Not
	return condition(func(e *env) truth {
		t := min(above(e), below(e)) // unknown, then no
		if not {
			return t.not()
		}
		return t
	}).fold(v, low, high)
}

// inSetMin is the number of constants from which looking a value up is cheaper
// than comparing it with each.
const inSetMin = 8

func (c *compiler) in(x *In) code {
	v := c.expr(x.X)
	parts := []code{v}
	undefinedToo := false
	var items []func(e *env) value.Value
	set := map[string]struct{}{}
	for _, item := range x.List {
		part := c.expr(item)
		parts = append(parts, part)
		switch {
		case !part.con || len(x.List) < inSetMin:
			items = append(items, part.value())
		case !part.v.IsDefined():
			undefinedToo = true
		default:
			set[string(value.AppendKey(nil, part.v))] = struct{}{}
		}
	}
	eval, not := v.value(), x.Not
	return condition(func(e *env) truth {
		t := among(e, eval(e), set, items, undefinedToo)
		if not {
			return t.not()
		}
		return t
	}).fold(parts...)
}

func among(e *env, v value.Value, set map[string]struct{}, items []func(e *env) value.Value, undefinedToo bool) truth {
	if !v.IsDefined() {
		return unknown
	}
	if len(set) > 0 {
		if v.Kind() >= value.KindString && !e.workOf(v, v) {
			return unknown
		}
		e.scratch = value.AppendKey(e.scratch[:0], v)
		if _, ok := set[string(e.scratch)]; ok {
			return yes
		}
	}
	result := no
	if undefinedToo {
		result = unknown
	}
	for _, item := range items {
		switch e.compare(equal, v, item(e)) {
		case yes:
			return yes
		case unknown:
			result = unknown
		}
	}
	return result
}

func (c *compiler) like(x *Like) code {
	v, text := c.expr(x.X), c.expr(x.Pattern)
	eval, patternOf := v.value(), text.value()
	match := func(s value.Value, e *env) bool { return compileLike(patternOf(e).Text(), x.Escape).match(e, s.Text()) }
	if text.con {
		p := compileLike(text.v.Text(), x.Escape)
		match = func(s value.Value, e *env) bool { return p.match(e, s.Text()) }
	}
	not := x.Not
	return condition(func(e *env) truth {
		s := eval(e)
		if s.Kind() != value.KindString || patternOf(e).Kind() != value.KindString || !e.work(patternOf(e).Len()) {
			return unknown
		}
		return truthOf(match(s, e) != not)
	}).fold(v, text)
}

func (c *compiler) call(x *Call) code {
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
		run = undefinedRun // An aggregate that nobody bound.
	}
	if f.name == "RegexMatch" {
		if matcher, ok := fixedRegex(parts); ok {
			run = matcher
		}
	}
	result := computed(func(e *env) value.Value {
		// The arguments of calls inside an argument lie above and are gone again
		// when it is pushed.
		base := len(e.stack)
		for _, eval := range evals {
			v := eval(e)
			e.stack = append(e.stack, v)
		}
		v := value.Undefined()
		if args := e.stack[base:]; e.workOn(args) {
			v = run(e, args)
		}
		e.stack = e.stack[:base]
		return v
	})
	if f.volatile {
		return result
	}
	return result.fold(parts...)
}

// array builds an array; undefined elements disappear.
func (c *compiler) array(x *ArrayLiteral) code {
	parts := make([]code, len(x.Items))
	evals := make([]func(e *env) value.Value, len(x.Items))
	for i, item := range x.Items {
		parts[i] = c.expr(item)
		evals[i] = parts[i].value()
	}
	return computed(func(e *env) value.Value {
		items := make([]value.Value, 0, len(evals))
		for _, eval := range evals {
			if v := eval(e); v.IsDefined() {
				items = append(items, v)
			}
		}
		return value.Array(items)
	}).fold(parts...)
}

// object builds an object; undefined properties are left out.
func (c *compiler) object(x *ObjectLiteral) code {
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
	return computed(func(e *env) value.Value { return makeObject(e, names, evals) }).fold(parts...)
}
