package query

import (
	"slices"

	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/value"
)

// rows is a compiled subquery: FROM, WHERE, and the value of each combination.
type rows struct {
	loop     loop
	value    func(e *env) value.Value // of a row; an undefined value is not a row
	group    *combiner                // nil if each combination is a row
	distinct bool
}

// combiner is how a subquery combines its rows.
type combiner struct {
	keys       []register // of GROUP BY; without keys, all rows are one group, which always exists
	aggregates []register
	kinds      []AggregateKind // of aggregates
}

// register is an expression and the register for its value.
type register struct {
	eval  func(e *env) value.Value
	local int
}

// each calls yield for each row until it returns false. It reports whether all rows
// were used.
func (r *rows) each(e *env, yield func(v value.Value) bool) bool {
	before, outside := e.memory, e.held
	defer func() {
		e.memory = before
		r.forget(e)
	}()
	if r.distinct {
		yield = firstOnly(e, yield)
	}
	row := func() bool {
		e.fresh = 0
		v := r.value(e)
		switch {
		case e.err != nil:
			return false
		case !v.IsDefined():
			return true
		}
		n := r.made(e, v)
		if e.fresh = n; v.Kind() > value.KindString || v.Kind() == value.KindString && !e.stored(v.Text()) {
			e.fresh += e.held - outside // it may share memory with the values of its inputs
		}
		e.held += n
		more := e.keeps(int(n)) && yield(v)
		e.held, e.memory = e.held-n, e.memory-n
		return more
	}
	if r.group == nil {
		return r.loop.each(e, row)
	}
	return r.group.each(e, &r.loop, row)
}

// made is [env.made] of a row.
func (r *rows) made(e *env, v value.Value) int64 {
	n := e.made(v)
	if r.group != nil && v.Kind() >= value.KindString {
		n = max(n, int64(sizeOf(v)))
	}
	return n
}

// forget releases the values in the registers of the subquery.
func (r *rows) forget(e *env) {
	for i := range r.loop.inputs {
		if at := r.loop.inputs[i].local; at >= 0 {
			e.locals[at] = value.Undefined()
		}
	}
	if r.group == nil {
		return
	}
	for _, list := range [][]register{r.group.keys, r.group.aggregates} {
		for _, at := range list {
			e.locals[at.local] = value.Undefined()
		}
	}
}

// firstOnly passes the first of equal values.
func firstOnly(e *env, yield func(v value.Value) bool) func(v value.Value) bool {
	seen := map[string]struct{}{}
	return func(v value.Value) bool {
		key := string(value.AppendKey(nil, v))
		if _, ok := seen[key]; ok {
			return true
		}
		if !e.keeps(len(key) + entrySize) {
			return false
		}
		seen[key] = struct{}{}
		return yield(v)
	}
}

// rowGroup is one group of a running subquery.
type rowGroup struct {
	keys       []value.Value
	aggregates []Aggregate
}

// each collects the groups. Then it sets the registers for each group, in the order of
// first occurrence, and calls row.
func (g *combiner) each(e *env, l *loop, row func() bool) bool {
	for _, group := range g.collect(e, l) {
		if e.err != nil {
			return false
		}
		for i, k := range g.keys {
			e.locals[k.local] = group.keys[i]
		}
		for i, a := range g.aggregates {
			e.locals[a.local] = group.aggregates[i].result()
		}
		if !row() {
			return false
		}
	}
	return e.err == nil
}

func (g *combiner) collect(e *env, l *loop) []*rowGroup {
	var groups []*rowGroup
	places := map[string]*rowGroup{}
	if len(g.keys) == 0 {
		groups = append(groups, g.start(nil))
		places[""] = groups[0]
	}
	keys := make([]value.Value, len(g.keys))
	var text []byte
	l.each(e, func() bool {
		text = text[:0]
		for i, k := range g.keys {
			keys[i] = k.eval(e)
			text = value.AppendKey(text, keys[i])
		}
		group := places[string(text)]
		if group == nil {
			if !e.keeps(len(text) + entrySize*(1+len(g.keys)+len(g.aggregates))) {
				return false
			}
			for i, key := range keys {
				keys[i] = retained(key)
			}
			group = g.start(slices.Clone(keys))
			places[string(text)] = group
			groups = append(groups, group)
		}
		for i, a := range g.aggregates {
			group.aggregates[i].add(e, a.eval(e))
		}
		return e.err == nil
	})
	return groups
}

func (g *combiner) start(keys []value.Value) *rowGroup {
	group := &rowGroup{keys: keys, aggregates: make([]Aggregate, len(g.aggregates))}
	for i, kind := range g.kinds {
		group.aggregates[i].Kind = kind
	}
	return group
}

// rows compiles a subquery. root says that its first input may name the container.
func (c *compiler) rows(q *sql.Select, root bool) *rows {
	r := &rows{distinct: q.Distinct}
	c.within(&scope{outer: c.scope}, func() {
		r.loop = c.loop(q, root)
		if isGrouped(q) {
			r.group = c.combiner(q)
		}
		r.value = c.rowValue(q)
	})
	return r
}

// rowAlias returns the alias for the rows of a subquery, in its scope and as a source.
func (c *compiler) rowAlias(q *sql.Select) alias {
	switch {
	case isGrouped(q), q.Star && q.From == nil:
	case q.Star:
		a := c.scope.inputs[0]
		a.local = min(a.local, 0)
		return a
	case q.Value != nil:
		if path, ok := c.path(q.Value); ok {
			return alias{local: -1, place: path, found: true}
		}
		place, found := c.place(q.Value)
		return alias{place: place, found: found}
	}
	return alias{}
}

// combiner compiles GROUP BY and the aggregates of a select list, and binds them to
// registers.
func (c *compiler) combiner(q *sql.Select) *combiner {
	g := &combiner{}
	calls := aggregateCalls(q)
	for _, call := range calls {
		kind, _ := aggregateKind(call)
		g.kinds = append(g.kinds, kind)
		g.aggregates = append(g.aggregates, register{eval: c.expr(call.Args[0]).value(), local: c.local()})
	}
	for _, x := range q.GroupBy {
		g.keys = append(g.keys, register{eval: c.expr(x).value(), local: c.local()})
	}
	for i, call := range calls {
		c.bind(call, g.aggregates[i].local)
	}
	for i, x := range q.GroupBy {
		c.bind(x, g.keys[i].local)
	}
	return g
}

// aggregateCalls returns the aggregates of a select list, each text once.
func aggregateCalls(q *sql.Select) []*sql.CallExpr {
	var calls []*sql.CallExpr
	seen := map[string]bool{}
	for x := range q.Columns() {
		for call := range aggregatesIn(x) {
			if key := sql.Canonical(call); !seen[key] {
				seen[key] = true
				calls = append(calls, call)
			}
		}
	}
	return calls
}

// rowValue compiles the select list of a subquery.
func (c *compiler) rowValue(q *sql.Select) func(e *env) value.Value {
	switch {
	case q.Star:
		return c.star().value()
	case q.Value != nil:
		return c.expr(q.Value).value()
	}
	names := columnNames(q.Items)
	evals := make([]func(e *env) value.Value, len(q.Items))
	for i, item := range q.Items {
		evals[i] = c.expr(item.Expr).value()
	}
	return func(e *env) value.Value { return makeObject(e, names, evals) }
}

func makeObject(e *env, names []string, evals []func(e *env) value.Value) value.Value {
	before, room := e.memory, measure{room: builtMax - 1}
	members := make([]value.Member, 0, len(evals))
	for i, eval := range evals {
		v := e.take(eval)
		room.room -= len(names[i])
		if !e.fitsIn(&room, v) {
			break
		}
		members = append(members, value.Member{Name: names[i], Value: v})
	}
	return e.literal(value.Object(members), len(evals)*memberSize, before)
}

// subquery compiles a query used as an expression.
func (c *compiler) subquery(x *sql.Subquery) code {
	r := c.rows(x.Query, false)
	switch x.Kind {
	case sql.SubqueryExists:
		if x.Query.Value == nil {
			r.value = func(*env) value.Value { return value.Null() } // the row exists whatever its value
		}
		r.distinct = false
		return condition(func(e *env) truth {
			found := false
			r.each(e, func(value.Value) bool { found = true; return false })
			return truthOf(found)
		})
	case sql.SubqueryArray:
		return computed(r.array)
	case sql.SubqueryAll:
		r.distinct = false
		return condition(r.all)
	case sql.SubqueryLast:
		r.distinct = false
		return computed(r.last)
	}
	return computed(r.first)
}

// first returns the first row, or undefined.
func (r *rows) first(e *env) (first value.Value) {
	made := int64(0)
	r.each(e, func(v value.Value) bool {
		first, made = v, e.fresh
		return false
	})
	e.fresh = made
	return first
}

// last returns the last row, or undefined.
func (r *rows) last(e *env) (last value.Value) {
	made := int64(0)
	r.each(e, func(v value.Value) bool {
		grown := e.fresh - made
		last, made = v, e.fresh
		return e.keeps(int(grown))
	})
	e.fresh = made
	return last
}

// array collects all rows.
func (r *rows) array(e *env) value.Value {
	var items []value.Value
	m, made := measure{room: builtMax - 1}, int64(0)
	r.each(e, func(v value.Value) bool {
		n := e.fresh + int64(valueSize)
		made += n
		if !e.fitsIn(&m, v) || !e.keeps(int(n)) {
			return false
		}
		items = append(items, v)
		return true
	})
	e.fresh = made
	return value.Array(items)
}

// all reports whether each row is true, like a chain of AND.
func (r *rows) all(e *env) truth {
	result := yes
	r.each(e, func(v value.Value) bool {
		if t := truthIn(v); t != yes {
			result = t
		}
		return result != no
	})
	return result
}
