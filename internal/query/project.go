package query

import (
	"strconv"

	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// emitter appends the value of an expression as JSON. It copies places of the document
// unchanged. It returns false and appends nothing if the expression is undefined.
type emitter func(e *env, dst []byte) ([]byte, bool)

// projection compiles the select list.
func (c *compiler) projection(q *sql.Select) emitter {
	if q.Star {
		return c.star().emitter()
	}
	if q.Value != nil {
		return c.emitter(q.Value)
	}
	exprs := make([]sql.Expr, len(q.Items))
	for i, item := range q.Items {
		exprs[i] = item.Expr
	}
	return object(c.members(columnNames(q.Items), exprs))
}

// copies reports whether the select list is the whole document.
func (c *compiler) copies(q *sql.Select) bool {
	if q.Star {
		return c.star().slot >= 0 && len(c.scope.inputs[0].place) == 0
	}
	if q.Value == nil {
		return false
	}
	place, stored := c.path(q.Value)
	return stored && len(place) == 0
}

// columnNames returns the names of the columns: the alias, the last name of a path, or
// else $1, $2 and so on.
func columnNames(items []sql.SelectItem) []string {
	names := make([]string, len(items))
	unnamed := 0
	for i, item := range items {
		names[i] = item.Alias
		if names[i] == "" {
			names[i] = columnName(item.Expr)
		}
		if names[i] == "" {
			unnamed++
			names[i] = "$" + strconv.Itoa(unnamed)
		}
	}
	return names
}

// columnName returns the name of a select item without an alias: the last name of a
// path.
func columnName(x sql.Expr) string {
	switch x := x.(type) {
	case *sql.Ident:
		if _, number := numberNames[x.Name]; !number {
			return x.Name
		}
	case *sql.MemberExpr:
		if x.Param == "" {
			return x.Name
		}
	}
	return ""
}

// memberEmitter writes one property of an object.
type memberEmitter struct {
	prefix string // the quoted name and a colon
	emit   emitter
}

// members compiles the properties of an object. Of two with one name the last applies,
// at the position of the first.
func (c *compiler) members(names []string, exprs []sql.Expr) []memberEmitter {
	members := make([]memberEmitter, 0, len(names))
	places := make(map[string]int, len(names))
	for i, name := range names {
		emit := c.emitter(exprs[i])
		if at, seen := places[name]; seen {
			members[at].emit = emit
			continue
		}
		places[name] = len(members)
		members = append(members, memberEmitter{prefix: string(value.AppendQuoted(nil, name)) + ":", emit: emit})
	}
	return members
}

// emitter compiles an expression for output.
func (c *compiler) emitter(x sql.Expr) emitter {
	part := c.expr(x)
	switch {
	case part.con && !part.v.IsDefined():
		return func(_ *env, dst []byte) ([]byte, bool) { return dst, false }
	case part.con && (part.v.Kind() < value.KindString && part.v.Finite() || part.v.Kind() == value.KindString && part.v.Len() < foldMax):
		text := part.v.JSON()
		return func(_ *env, dst []byte) ([]byte, bool) { return append(dst, text...), true }
	}
	if _, ok := c.registered(x); ok {
		return part.emitter()
	}
	switch x := x.(type) {
	case *sql.ObjectLiteral:
		names, exprs := make([]string, len(x.Members)), make([]sql.Expr, len(x.Members))
		for i, m := range x.Members {
			names[i], exprs[i] = m.Name, m.Expr
		}
		return object(c.members(names, exprs))
	case *sql.ArrayLiteral:
		items := make([]emitter, len(x.Items))
		for i, item := range x.Items {
			items[i] = c.emitter(item)
		}
		return array(items)
	}
	return part.emitter()
}

// emitter returns the emitter of the whole expression.
func (c code) emitter() emitter {
	if c.slot >= 0 {
		return copier(c.slot)
	}
	eval := c.value()
	return func(e *env, dst []byte) ([]byte, bool) {
		v := eval(e)
		if !v.IsDefined() {
			return dst, false
		}
		if !e.fitsValue(v) {
			return dst, false
		}
		if !v.Finite() {
			e.fail(notFinite())
			return dst, false
		}
		return v.Append(dst), true
	}
}

// notFinite is the error of a row that JSON cannot represent.
func notFinite() *status.Error {
	return status.From(numberedError(4001, "The response content contains a numeric value that cannot be represented in JSON (e.g. Infinity and NaN)."))
}

// copier copies a place of the document unchanged.
func copier(slot int) emitter {
	return func(e *env, dst []byte) ([]byte, bool) {
		raw := e.raw(slot)
		if raw == nil || !e.fits(len(raw)) {
			return dst, false
		}
		return append(dst, raw...), true
	}
}

func object(members []memberEmitter) emitter {
	return func(e *env, dst []byte) ([]byte, bool) {
		start := len(dst)
		dst = append(dst, '{')
		for i := range members {
			m := &members[i]
			before := len(dst)
			if before > start+1 {
				dst = append(dst, ',')
			}
			dst = append(dst, m.prefix...)
			var ok bool
			if dst, ok = m.emit(e, dst); !ok {
				dst = dst[:before]
			}
			if !e.fits(len(dst) - start) {
				return dst[:start], false
			}
		}
		return append(dst, '}'), true
	}
}

func array(items []emitter) emitter {
	return func(e *env, dst []byte) ([]byte, bool) {
		start := len(dst)
		dst = append(dst, '[')
		for _, emit := range items {
			before := len(dst)
			if before > start+1 {
				dst = append(dst, ',')
			}
			var ok bool
			if dst, ok = emit(e, dst); !ok {
				dst = dst[:before]
			}
			if !e.fits(len(dst) - start) {
				return dst[:start], false
			}
		}
		return append(dst, ']'), true
	}
}
