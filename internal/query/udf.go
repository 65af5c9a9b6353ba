package query

import (
	"context"
	"slices"

	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/value"
)

// Function is a user-defined function. Its arguments are those of one row, including
// undefined ones, and are valid during the call. Goroutines may call it concurrently.
// Its error ends the query and is a *status.Error or that of ctx.
//
// Equal arguments must give equal results: calls with the same text in a query,
// including a rewritten one, are evaluated once per row. No index has its results.
type Function func(ctx context.Context, args []value.Value) (value.Value, error)

// userFunction checks a call of a user-defined function.
func (a *analysis) userFunction(x *sql.CallExpr) {
	if a.udfs++; a.udfs == udfsMax+1 {
		a.exceeded("SC3005", "user-defined function calls", udfsMax)
	}
	if a.functions == nil {
		a.later("The user-defined function udf.%s", truncate(x.Name))
		return
	}
	if _, found := a.functions(x.Name); !found {
		a.unknown = append(a.unknown, sql.Diagnosticf(x.NameAt, "SC2005", "'udf.%s' is not a recognized user-defined function name.", truncate(x.Name)))
	}
}

// userFunction compiles a call of a user-defined function. It is never folded: even a
// call with constant arguments runs with the query.
func (c *compiler) userFunction(x *sql.CallExpr) code {
	var f Function
	found := false
	if c.functions != nil {
		f, found = c.functions(x.Name)
	}
	if !found {
		// The function was removed after the analysis. The query fails as if it had
		// been compiled after the removal.
		return computed(func(e *env) value.Value {
			e.fail(sql.NewError("", sql.Diagnosticf(sql.Span{}, "SC2005", "'udf.%s' is not a recognized user-defined function name.", truncate(x.Name))))
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

// callPlace returns the number of a call, which is the same for all calls with the
// same text.
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

// result is the last result of a user-defined function and its arguments.
type result struct {
	known bool // it belongs to the current document
	args  []value.Value
	v     value.Value
}

// callUser calls a user-defined function, unless the query has failed or the last call
// at the same place had the same arguments: a filter and a select list often share a
// call.
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
	if !e.fitsValue(v) { // before it is kept
		return value.Undefined()
	}
	last.known, last.args, last.v = true, append(last.args[:0], args...), v
	return v
}

// identical reports whether two values are equal and their members have the same
// order.
func identical(a, b value.Value) bool {
	if a.Kind() != b.Kind() {
		return false
	}
	if a.Kind() < value.KindArray {
		return value.Compare(a, b) == 0
	}
	return a.JSON() == b.JSON()
}
