package query

import (
	"slices"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/value"
)

// scope holds the meaning of names in one query: the aliases of its inputs and, through
// outer, those of the enclosing queries. A LET has a scope for its expression.
type scope struct {
	outer  *scope
	names  map[string]alias // nil before the first name
	inputs []alias
	set    bool         // of the analysis: the inputs so far can have several rows, or are the container
	own    []int        // of the analysis: the different input sets, for SELECT *
	sets   map[int]bool // of the analysis: those of own
	refers bool         // of the analysis: the query contains a property
	query  *sql.Select  // whose inputs the names are; nil for a LET
	root   bool         // the first input of the query may name the container
	owner  *compiler
	extra  []int          // of the analysis: the input sets of subqueries in expressions
	fed    bool           // of the analysis: an input is a subquery whose inputs can have several rows
	groups bool           // of the analysis: the clause reads groups, whose number is checked later
	null   bool           // of the analysis: the value of the query has an error
	let    bool           // of the analysis: of a LET
	bound  map[string]int // registers by the text of their expressions; see compiler.bind
	starts bool           // of the analysis: the names of outer scopes are lost; see analysis.lose
}

// alias is the meaning of the name of an input or a LET.
type alias struct {
	input int          // the index of the input in its query
	local int          // the register of the value; -1 if the value is at place in the document
	place value.Path   // with a register: where the index has the value
	found bool         // place is known
	let   bool         // the name of a LET, whose value depends only on what its expression depends on
	fixed *value.Value // of a LET: its constant value; nil if the value is not constant. local is unused
	set   int          // of the analysis: the input set; inputs that are only names share it
	bare  bool         // of the analysis: contains no property: the name of a LET, or a constant subquery
	expr  sql.Expr     // of a LET: its value, in the scope outside

	columns []sql.SelectItem // of the analysis: of a subquery that is evaluated as a single expression
	fed     bool             // of the analysis: that subquery has inputs
}

// lookup returns what a name means and the scope that defines it, or nil if none does.
func (s *scope) lookup(name string) (alias, *scope) {
	for ; s != nil; s = s.outer {
		if a, ok := s.names[name]; ok {
			return a, s
		}
		if s.starts {
			break
		}
	}
	return alias{}, nil
}

func (s *scope) has(name string) bool {
	_, in := s.lookup(name)
	return in != nil
}

// inputSets returns the number of different input sets of the query and the outer ones,
// or 0 in a clause that reads groups.
func (s *scope) inputSets() int {
	var all []int
	for ; s != nil; s = s.outer {
		if s.groups {
			return 0
		}
		all = append(append(all, s.own...), s.extra...)
	}
	slices.Sort(all)
	return len(slices.Compact(all))
}

// onlySet returns the only input set that is visible in a query, or 0.
func (s *scope) onlySet() int {
	if s.inputSets() != 1 {
		return 0
	}
	for ; ; s = s.outer {
		if all := append(slices.Clone(s.own), s.extra...); len(all) > 0 {
			return all[0]
		}
	}
}

// inGroups reports whether s is in a clause that reads groups.
func (s *scope) inGroups() bool {
	for ; s != nil; s = s.outer {
		if s.groups {
			return true
		}
	}
	return false
}

// addSet adds an input set that the query does not have yet.
func (s *scope) addSet(set int) {
	if s.sets[set] {
		return
	}
	if s.sets == nil {
		s.sets = map[int]bool{}
	}
	s.sets[set] = true
	s.own = append(s.own, set)
}

// with returns the scope inside a LET, for the analysis.
func (s *scope) with(name string) *scope {
	inner := &scope{outer: s, let: true}
	inner.define(name, alias{let: true, bare: true})
	return inner
}

// outsideLet returns the scope outside the LETs around s, for the analysis.
func (s *scope) outsideLet() *scope {
	for s.let {
		s = s.outer
	}
	return s
}

// scopeOf returns the scope of a subquery, or nil if it is not known.
func (s *scope) scopeOf(q *sql.Select) *scope {
	for c := s.owner; c != nil; c = c.inner {
		if of := c.scopes[q]; of != nil {
			return of
		}
	}
	return nil
}

// before returns the scope in which an input is looked up. If the input has the name of
// its own collection, as in FROM c inside a query over c, that is without its name.
func (s *scope) before(i int) *scope {
	in := &s.query.From.Inputs[i]
	if rootName(in.Collection) != in.Name() {
		return s
	}
	earlier := &scope{outer: s.outer, query: s.query, root: s.root, owner: s.owner}
	for j := range i {
		earlier.define(s.query.From.Inputs[j].Name(), alias{input: j})
	}
	return earlier
}

// container returns a scope whose only name is that of the container.
func (s *scope) container(name string) *scope {
	whole := &sql.Select{From: &sql.From{Inputs: []sql.Input{{Collection: &sql.Ident{Name: name}}}}}
	return &scope{query: whole, root: true, owner: s.owner, names: map[string]alias{name: {local: -1}}}
}

// inside reports whether s is the other scope or inside it.
func (s *scope) inside(other *scope) bool {
	for ; s != nil; s = s.outer {
		if s == other {
			return true
		}
	}
	return false
}

// hides reports whether a name in x has another meaning here than in an outer scope.
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

// element returns a step to any element of an array. The step denotes the same element
// wherever it occurs; each call returns a step to another element. Only places in the
// index contain such steps.
func (c *compiler) element() value.Step {
	c.stepped++
	return value.Step{Index: -c.stepped, IsIndex: true}
}

// input is a compiled input of a query. It reads exactly one of slot, value and query.
type input struct {
	slot  int                      // of a place in the document; -1 for none
	value func(e *env) value.Value // nil for none
	query *rows                    // nil for none
	in    bool                     // iterate over the elements
	local int                      // the register for the value; -1 for none
	tests []func(e *env) truth     // the parts of the filter that need this input and no later one
}

// each calls next for each value of the input until it returns false. It reports
// whether all values were used.
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

// offer passes a value or, if the input iterates, its elements to next.
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

// row evaluates the tests that need this input and continues with the next.
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

// loop is FROM and WHERE of a query: it iterates over the combinations of inputs that
// pass the filter.
type loop struct {
	inputs []input
	tests  []func(e *env) truth // the parts of the filter that need no input
}

// each calls row for each combination, in the order of the inputs, until it returns
// false. It reports whether all combinations were used.
func (l *loop) each(e *env, row func() bool) bool {
	if !pass(e, l.tests) {
		return e.err == nil
	}
	next := row
	for i := len(l.inputs) - 1; i >= 0; i-- {
		in, following := &l.inputs[i], next
		next = func() bool { return in.each(e, following) }
	}
	return next() && e.err == nil
}

// within compiles in another scope.
func (c *compiler) within(s *scope, f func()) {
	saved := c.scope
	c.scope = s
	f()
	c.scope = saved
}

// loop compiles FROM and WHERE in the scope of the query, and adds its names.
func (c *compiler) loop(q *sql.Select, root bool) loop {
	var l loop
	c.scope.query, c.scope.root, c.scope.owner = q, root, c
	c.scopes[q] = c.scope
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

// conjuncts returns the terms of a conjunction; none for nil.
func conjuncts(x sql.Expr) []sql.Expr {
	if and, ok := x.(*sql.LogicalExpr); ok && !and.Or {
		return and.Terms
	}
	if x == nil {
		return nil
	}
	return []sql.Expr{x}
}

// lastInput returns the last input of the current query to which x refers, or -1.
func (c *compiler) lastInput(x sql.Expr) int {
	last := -1
	for name := range sql.Idents(x) {
		if a, ok := c.scope.names[name.Name]; ok {
			last = max(last, a.input)
		}
	}
	return last
}

// rootName returns the first name of a collection.
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

// input compiles an input in the scope of those before it.
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

// collection compiles what an input reads and returns its place. The local of the
// alias is -1 if the document has the value there, otherwise 0.
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
		out.slot = c.places.Add(nil) // so far no expression reads it
	case !out.in:
		out.slot = c.slot(path)
	}
	return alias{local: -1, place: path, found: true}
}

// star returns the value of the only input of the current query.
func (c *compiler) star() code {
	if len(c.scope.inputs) == 0 {
		return constant(value.Undefined())
	}
	a := c.scope.inputs[0]
	if a.local < 0 {
		return code{slot: c.slot(a.place)}
	}
	return local(a.local)
}

// namesContainer reports whether the rows of a query are made from documents.
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

// compileRows compiles FROM and WHERE of the plan's query, and the predicates that they
// provide to the index and to routing. The scope of that query becomes the scope of c.
//
// A query over the rows of another plan uses the routing of that plan and no index.
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
		if p.where.op == opFalse {
			p.accessing = index.Expr{Op: index.None}
		}
		return
	}
	var exact bool
	p.accessing, exact = p.where.access(ix)
	p.exact = exact && p.plain && (p.accessing.Op == index.All || p.accessing.Exact())
}
