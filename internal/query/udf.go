package query

import (
	"context"
	"slices"

	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/value"
)

// Function is a user-defined function. It is called with the arguments of one
// row, undefined ones included, which are good for the time of the call; many
// goroutines may call it at the same time. Its error ends the query, and is a
// *status.Error or that of ctx.
//
// The same arguments are taken to give the same result: what is written twice in
// a query, or by whoever rewrote it, is called once for a row. No index knows
// what it returns.
type Function func(ctx context.Context, args []value.Value) (value.Value, error)

// userFunction checks a call of a user-defined function.
func (a *analysis) userFunction(x *sql.CallExpr) {
	if a.udfs++; a.udfs == udfsMax+1 {
		a.fault(x.At, "SC3005", "The SQL query exceeded the maximum number of user-defined function calls. The allowed limit is %d.", udfsMax)
	}
	if a.functions == nil {
		a.later("The user-defined function udf.%s", clip(x.Name))
		return
	}
	if _, found := a.functions(x.Name); !found {
		a.fault(x.NameAt, "SC2005", "'udf.%s' is not a recognized user-defined function name.", clip(x.Name))
	}
}

// userFunction compiles a call of a user-defined function. It is never folded:
// even one of constants runs while the query does, in its time.
func (c *compiler) userFunction(x *sql.CallExpr) code {
	var f Function
	found := false
	if c.functions != nil {
		f, found = c.functions(x.Name)
	}
	if !found {
		// It was there a moment ago. The query is refused as if it had come later.
		return computed(func(e *env) value.Value {
			e.fail(sql.NewError("", sql.Diagnosticf(sql.Span{}, "SC2005", "'udf.%s' is not a recognized user-defined function name.", clip(x.Name))))
			return value.Undefined()
		})
	}
	c.scripted = true
	place := c.callPlace(x)
	evals := make([]func(e *env) value.Value, len(x.Args))
	for i, arg := range x.Args {
		evals[i] = c.expr(arg).value()
	}
	return computed(func(e *env) value.Value {
		before := e.memory
		base := e.push(evals)
		return e.pop(e.callUser(f, place, e.stack[base:]), base, before, false)
	})
}

// callPlace is the number of a call, the same for all that are written alike.
func (c *compiler) callPlace(x *sql.CallExpr) int {
	if c.called == nil {
		c.called = map[string]int{}
	}
	key := sql.Canonical(x)
	place, known := c.called[key]
	if !known {
		place = len(c.called)
		c.called[key] = place
	}
	return place
}

// result is what a user-defined function made of its arguments last.
type result struct {
	known bool // of the current document
	args  []value.Value
	v     value.Value
}

// callUser calls a user-defined function, unless the query has failed already, or
// a call at the same place has had these arguments last: a filter and what is
// selected often have a call in common.
func (e *env) callUser(f Function, place int, args []value.Value) value.Value {
	if e.err != nil {
		return value.Undefined()
	}
	for place >= len(e.called) {
		e.called = append(e.called, result{})
	}
	last := &e.called[place]
	if last.known && slices.EqualFunc(last.args, args, identical) {
		return last.v
	}
	ctx := e.ctx
	if ctx == nil {
		ctx = context.Background()
	}
	e.calls++
	v, err := f(ctx, args)
	if err != nil {
		e.fail(err)
		return value.Undefined()
	}
	if !e.fitsValue(v) { // Before it is kept.
		return value.Undefined()
	}
	last.known, last.args, last.v = true, append(last.args[:0], args...), v
	return v
}

// identical reports whether nobody can tell two values apart: those that are
// equal may differ in the order of members.
func identical(a, b value.Value) bool {
	if a.Kind() != b.Kind() {
		return false
	}
	if a.Kind() < value.KindArray {
		return value.Compare(a, b) == 0
	}
	return a.JSON() == b.JSON()
}
