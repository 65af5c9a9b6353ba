package query

import (
	"slices"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/value"
)

// scope is what names mean in one query: the aliases of its inputs, and behind
// them those of the queries around it. That of a LET is one more, around what it
// is for.
type scope struct {
	outer  *scope
	names  map[string]alias // nil until the first
	inputs []alias
	bound  map[string]int // registers by the text of the expressions they stand for; see compiler.bind
}

// alias is what the name of an input or of a LET means.
type alias struct {
	input int          // the place of the input in its query
	local int          // the register that holds the value; -1 when place is where it is in the document
	place value.Path   // with a register: where the index has it
	found bool         // place is known
	let   bool         // the name of a LET: its value depends on nothing that its expression does not
	fixed *value.Value // of a LET: the same for all documents; nil for a value that is not. local is unused
}

// lookup returns what a name means and the scope that says so, nil for a name
// without meaning.
func (s *scope) lookup(name string) (alias, *scope) {
	for ; s != nil; s = s.outer {
		if a, ok := s.names[name]; ok {
			return a, s
		}
	}
	return alias{}, nil
}

func (s *scope) has(name string) bool {
	_, in := s.lookup(name)
	return in != nil
}

// with is the scope inside of a LET, as far as the analysis asks.
func (s *scope) with(name string) *scope {
	inner := &scope{outer: s}
	inner.define(name, alias{let: true})
	return inner
}

// inside reports whether s is another scope, or one inside of it.
func (s *scope) inside(other *scope) bool {
	for ; s != nil; s = s.outer {
		if s == other {
			return true
		}
	}
	return false
}

// hides reports whether a name in x means something else here than in an outer
// scope.
func hides(x sql.Expr, here, outer *scope) bool {
	if here == outer {
		return false
	}
	for name := range sql.Idents(x) {
		if _, s := here.lookup(name.Name); s != nil {
			if _, t := outer.lookup(name.Name); s != t {
				return true
			}
		}
	}
	return false
}

func (s *scope) define(name string, a alias) {
	if s.names == nil {
		s.names = map[string]alias{}
	}
	s.names[name] = a
}

// element is a step to any one element of an array: the same one wherever it
// stands in places, and another one than that of any other call. Only the index
// has such places.
func (c *compiler) element() value.Step {
	c.stepped++
	return value.Step{Index: -c.stepped, IsIndex: true}
}

// input is a compiled input of a query. Exactly one of slot, value and query is
// what it reads.
type input struct {
	slot  int                      // of a place in the document; -1 for none
	value func(e *env) value.Value // nil for none
	query *rows                    // nil for none
	in    bool                     // go through the elements
	local int                      // the register for the value; -1 for none
	tests []func(e *env) truth     // parts of the filter that need this input and none behind it
}

// each calls next for each value of the input, until it returns false, and
// reports whether the end was reached.
func (in *input) each(e *env, next func() bool) bool {
	switch {
	case in.query != nil:
		return in.query.each(e, func(v value.Value) bool { return in.offer(e, v, next) })
	case in.slot >= 0:
		if e.raw(in.slot) == nil {
			return e.err == nil
		}
		return in.row(e, next)
	}
	before := e.memory
	v := e.take(in.value)
	made := e.memory - before
	e.held += made
	more := in.offer(e, v, next)
	e.held, e.memory = e.held-made, e.memory-made
	return more
}

// offer passes on a value or, when the input iterates, its elements.
func (in *input) offer(e *env, v value.Value, next func() bool) bool {
	if !in.in {
		return e.err == nil && (!v.IsDefined() || in.put(e, v, next))
	}
	for _, item := range v.Items() {
		if item.IsDefined() && !in.put(e, item, next) {
			return false
		}
	}
	return e.err == nil
}

func (in *input) put(e *env, v value.Value, next func() bool) bool {
	if in.local >= 0 {
		e.locals[in.local] = v
	}
	return in.row(e, next)
}

// row tests what can be tested from this input on, and goes on to the next.
func (in *input) row(e *env, next func() bool) bool {
	if !e.step() {
		return false
	}
	if !pass(e, in.tests) {
		return e.err == nil
	}
	return next()
}

func pass(e *env, tests []func(e *env) truth) bool {
	for _, test := range tests {
		if test(e) != yes {
			return false
		}
	}
	return e.err == nil
}

// loop is FROM and WHERE of a query: it goes through the combinations of its
// inputs that pass the filter.
type loop struct {
	inputs []input
	tests  []func(e *env) truth // parts of the filter that need no input
}

// each calls row for each combination, in the order of the inputs, until it
// returns false. It reports whether the end was reached.
func (l *loop) each(e *env, row func() bool) bool {
	if !pass(e, l.tests) {
		return e.err == nil
	}
	next := row
	for i := len(l.inputs) - 1; i >= 0; i-- {
		in, behind := &l.inputs[i], next
		next = func() bool { return in.each(e, behind) }
	}
	return next() && e.err == nil
}

// within compiles with another scope.
func (c *compiler) within(s *scope, f func()) {
	saved := c.scope
	c.scope = s
	f()
	c.scope = saved
}

// loop compiles FROM and WHERE in the scope of the query, which gets its names.
func (c *compiler) loop(q *sql.Select, root bool) loop {
	var l loop
	if q.From != nil {
		for i := range q.From.Inputs {
			in := &q.From.Inputs[i]
			compiled, a := c.input(in, root && i == 0)
			a.input = i
			c.scope.define(in.Name(), a)
			c.scope.inputs = append(c.scope.inputs, a)
			l.inputs = append(l.inputs, compiled)
		}
	}
	for _, term := range conjuncts(q.Where) {
		part := c.expr(term)
		if part.con && truthIn(part.v) == yes {
			continue
		}
		tests := &l.tests
		if at := c.lastInput(term); at >= 0 {
			tests = &l.inputs[at].tests
		}
		*tests = append(*tests, part.truth())
	}
	return l
}

// conjuncts returns the terms that all have to be true; none for nil.
func conjuncts(x sql.Expr) []sql.Expr {
	if and, ok := x.(*sql.LogicalExpr); ok && !and.Or {
		return and.Terms
	}
	if x == nil {
		return nil
	}
	return []sql.Expr{x}
}

// lastInput returns the last input of the query being compiled that x refers to,
// -1 for none.
func (c *compiler) lastInput(x sql.Expr) int {
	last := -1
	for name := range sql.Idents(x) {
		if a, ok := c.scope.names[name.Name]; ok {
			last = max(last, a.input)
		}
	}
	return last
}

// rootName is the name that a collection begins with.
func rootName(x sql.Expr) string {
	for {
		switch y := x.(type) {
		case *sql.Ident:
			return y.Name
		case *sql.MemberExpr:
			x = y.X
		case *sql.IndexExpr:
			x = y.X
		default:
			return ""
		}
	}
}

// input compiles an input with those in front of it in scope.
func (c *compiler) input(in *sql.Input, root bool) (out input, a alias) {
	out = input{slot: -1, local: -1, in: in.In}
	switch {
	case in.Subquery != nil && root && c.overRows:
		out.slot, a = c.places.Add(nil), alias{local: -1, found: true}
		if in.In {
			out.slot, out.value = -1, code{slot: c.slot(nil)}.value()
		}
	case in.Subquery != nil:
		out.query = c.rows(in.Subquery, root)
		c.within(c.scopes[in.Subquery], func() { a = c.rowAlias(in.Subquery) })
	case root:
		c.within(&scope{names: map[string]alias{rootName(in.Collection): {local: -1, found: true}}}, func() {
			a = c.collection(in.Collection, &out)
		})
	default:
		a = c.collection(in.Collection, &out)
	}
	if a.local < 0 && !in.In {
		return out, a
	}
	out.local = c.local()
	a.local = out.local
	if in.In && a.found {
		a.place = append(slices.Clip(a.place), c.element())
	}
	return out, a
}

// collection compiles what an input reads, and says where it is. The local of
// the alias is -1 when the document has it there, and 0 otherwise.
func (c *compiler) collection(of sql.Expr, out *input) alias {
	path, stored := c.path(of)
	if !stored || out.in {
		out.value = c.expr(of).value()
	}
	switch {
	case !stored:
		place, found := c.place(of)
		return alias{place: place, found: found}
	case len(path) == 0 && !out.in:
		out.slot = c.places.Add(nil) // Nobody reads it, so far.
	case !out.in:
		out.slot = c.slot(path)
	}
	return alias{local: -1, place: path, found: true}
}

// star is the value of the only input of the query being compiled.
func (c *compiler) star() code {
	a := c.scope.inputs[0]
	if a.local < 0 {
		return code{slot: c.slot(a.place)}
	}
	return local(a.local)
}

// namesContainer reports whether the rows of a query are made of documents.
func namesContainer(q *sql.Select) bool {
	for q.From != nil {
		in := &q.From.Inputs[0]
		if in.Subquery == nil {
			return true
		}
		q = in.Subquery
	}
	return false
}

// compileRows compiles FROM and WHERE of the plan's query, whose scope c has
// from then on, and what they tell the index and the routing.
//
// A query over rows of another plan tells routing what that one does, and the
// index nothing.
func (p *Plan) compileRows(c *compiler, ix *index.Index) {
	q := p.query
	p.loop = c.loop(q, true)
	p.base = -1
	p.plain = q.From == nil
	if namesContainer(q) || p.inner != nil {
		p.base = c.places.Add(nil)
		if first := p.loop.inputs[0]; len(p.loop.inputs) == 1 && first.slot >= 0 {
			p.plain, p.base = true, first.slot
			p.whole = len(c.scope.inputs[0].place) == 0
		}
	}
	if q.Where != nil {
		if f := c.expr(q.Where); !f.con || truthIn(f.v) != yes {
			p.filter = f.truth()
		}
	}
	if p.inner != nil {
		p.where = p.inner.where
		return
	}
	p.where = c.inputs(q)
	if ix == nil {
		if p.where.op == nothing {
			p.accessing = index.Expr{Op: index.None}
		}
		return
	}
	var exact bool
	p.accessing, exact = p.where.access(ix)
	p.exact = exact && p.plain && (p.accessing.Op == index.All || p.accessing.Exact())
}
