package query

import (
	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/value"
)

// let compiles LET name = value IN expression. A name for a place of the document or
// for a constant is an alias for it, so that indexes and routing can use it. Any other
// value is computed once, into a register.
func (c *compiler) let(x *sql.LetExpr) code {
	part := c.expr(x.Value)
	a := alias{let: true, expr: x.Value}
	switch path, stored := c.path(x.Value); {
	case stored:
		a.local, a.place, a.found = -1, path, true
	case part.con:
		a.fixed = &part.v
	default:
		a.place, a.found = c.place(x.Value)
		a.local = c.local()
	}
	inner := &scope{outer: c.scope, owner: c}
	inner.define(x.Name, a)
	c.lets[x] = inner
	var in code
	c.within(inner, func() { in = c.expr(x.In) })
	if in.con || a.local < 0 || a.fixed != nil {
		return in
	}
	eval, register := part.value(), a.local
	if in.test != nil {
		test := in.test
		return condition(func(e *env) truth {
			before := e.memory
			e.locals[register] = e.take(eval)
			t := test(e)
			e.memory, e.locals[register] = before, value.Undefined()
			return t
		})
	}
	body := in.value()
	return computed(func(e *env) value.Value {
		before := e.memory
		e.locals[register] = e.take(eval)
		e.fresh = 0
		v := body(e)
		e.fresh += e.memory - before // the value may share memory with the register
		e.memory, e.locals[register] = before, value.Undefined()
		return v
	})
}
