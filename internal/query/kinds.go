package query

import (
	"slices"
	"strings"

	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/value"
)

// kinds is the set of kinds that an expression can have in any document. It is an
// overestimate, derived from the types of its parts.
type kinds uint8

const (
	mayMiss kinds = 1 << iota // undefined
	mayNull
	mayFalse
	mayTrue
	mayNumber
	mayString
	mayArray
	mayObject

	mayBool    = mayFalse | mayTrue
	mayCompare = mayNull | mayBool | mayNumber | mayString // has an order
	mayAny     = ^kinds(0)
)

func kindsOf(v value.Value) kinds {
	switch v.Kind() {
	case value.KindNull:
		return mayNull
	case value.KindBool:
		if v.IsTrue() {
			return mayTrue
		}
		return mayFalse
	case value.KindNumber:
		return mayNumber
	case value.KindString:
		return mayString
	case value.KindArray:
		return mayArray
	case value.KindObject:
		return mayObject
	}
	return mayMiss
}

// types merges the two booleans.
func (k kinds) types() kinds {
	if k&mayBool != 0 {
		k |= mayBool
	}
	return k
}

// meets reports whether values of k and o may be of one type among the given.
func (k kinds) meets(o, among kinds) bool { return k.types()&o.types()&among&^mayMiss != 0 }

// only returns the result of an operator that needs operands of a type, and is
// undefined for others.
func (k kinds) only(operand, result kinds) kinds {
	var out kinds
	if k&operand != 0 {
		out = result
	}
	if k&^operand != 0 {
		out |= mayMiss
	}
	return out
}

// kinds returns the kinds of x in the current scope.
func (c *compiler) kinds(x sql.Expr) kinds {
	if part := c.expr(x); part.con {
		return kindsOf(part.v)
	}
	switch x := x.(type) {
	case *sql.Subquery:
		return c.subqueryKinds(x)
	case *sql.MemberExpr:
		if c.kinds(x.X)&mayObject == 0 {
			return mayMiss
		}
	case *sql.UnaryExpr:
		k := c.kinds(x.X)
		if x.Op == "NOT" {
			return negated(k)
		}
		return k.only(mayNumber, mayNumber)
	case *sql.BinaryExpr:
		return operatorKinds(x.Op, c.kinds(x.X), c.kinds(x.Y))
	case *sql.LogicalExpr:
		return c.logicKinds(x)
	case *sql.CoalesceExpr:
		k := c.kinds(x.X)
		if k&mayMiss != 0 {
			k = k&^mayMiss | c.kinds(x.Y)
		}
		return k
	case *sql.ConditionalExpr:
		var k kinds
		if cond := c.kinds(x.Cond); cond&mayTrue != 0 {
			k = c.kinds(x.Then)
			if cond&^mayTrue == 0 {
				return k
			}
		}
		return k | c.kinds(x.Else)
	case *sql.BetweenExpr:
		k := c.kinds(x.X)
		low, high := operatorKinds(">=", k, c.kinds(x.Low)), operatorKinds("<=", k, c.kinds(x.High))
		return inverted(conjoined(low, high), x.Not)
	case *sql.InExpr:
		k, out := c.kinds(x.X), mayFalse
		for _, item := range x.List {
			out |= operatorKinds("=", k, c.kinds(item))
		}
		return inverted(out, x.Not)
	case *sql.LikeExpr:
		return operatorKinds("LIKE", c.kinds(x.X), c.kinds(x.Pattern))
	case *sql.ArrayLiteral:
		return mayArray
	case *sql.ObjectLiteral:
		return mayObject
	case *sql.CallExpr:
		return c.callKinds(x)
	}
	return mayAny
}

// subqueryKinds returns the kinds of a subquery, without its columns.
func (c *compiler) subqueryKinds(x *sql.Subquery) kinds {
	switch x.Kind {
	case sql.SubqueryExists, sql.SubqueryAll:
		return mayBool
	case sql.SubqueryArray:
		return mayArray
	case sql.SubqueryScalar:
		if v, ok := c.constantOf(x.Query); ok {
			return kindsOf(v)
		}
		if x.Query.Value == nil && !x.Query.Star {
			return mayObject | mayMiss
		}
	}
	return mayAny
}

// constantOf returns the value of a query that has one row, of a constant.
func (c *compiler) constantOf(q *sql.Select) (value.Value, bool) {
	if q.From != nil || q.Where != nil || q.Value == nil {
		return value.Undefined(), false
	}
	return inputs{params: c.params}.constant(q.Value)
}

func negated(k kinds) kinds {
	out := k.only(mayBool, 0)
	if k&mayTrue != 0 {
		out |= mayFalse
	}
	if k&mayFalse != 0 {
		out |= mayTrue
	}
	return out
}

func inverted(k kinds, not bool) kinds {
	if not {
		return negated(k)
	}
	return k
}

func conjoined(a, b kinds) kinds {
	out := (a | b) & mayFalse
	if a&mayTrue != 0 && b&mayTrue != 0 {
		out |= mayTrue
	}
	if (a|b)&^mayBool != 0 {
		out |= mayMiss
	}
	return out
}

func operatorKinds(op string, a, b kinds) kinds {
	switch op {
	case "=", "!=":
		out := kinds(0)
		if (a|b)&mayMiss != 0 {
			out = mayMiss
		}
		if a&^mayMiss == 0 || b&^mayMiss == 0 {
			return out
		}
		if a.meets(b, mayAny) {
			return out | mayBool
		}
		if op == "!=" {
			return out | mayTrue
		}
		return out | mayFalse
	case "<", "<=", ">", ">=":
		if a.meets(b, mayCompare) {
			return mayBool | mayMiss
		}
		return mayMiss
	case "||":
		return (a.only(mayString, mayString) & b.only(mayString, mayString)) | (a.only(mayString, 0)|b.only(mayString, 0))&mayMiss
	case "LIKE":
		if a&b&mayString == 0 {
			return mayMiss
		}
		return mayBool | mayMiss
	}
	if a&b&mayNumber == 0 {
		return mayMiss
	}
	return mayNumber | mayMiss
}

func (c *compiler) logicKinds(x *sql.LogicalExpr) kinds {
	out := c.kinds(x.Terms[0])
	for _, term := range x.Terms[1:] {
		k := c.kinds(term)
		if x.Or {
			out = negated(conjoined(negated(out), negated(k)))
		} else {
			out = conjoined(out, k)
		}
	}
	return out
}

// callKinds returns the kinds of a call. A function that is not listed can return any
// kind.
func (c *compiler) callKinds(x *sql.CallExpr) kinds {
	if x.UDF {
		return mayAny
	}
	f := functions[strings.ToUpper(x.Name)]
	if f == nil {
		return mayAny
	}
	may := func(i int, want kinds) bool { return i >= len(x.Args) || c.kinds(x.Args[i])&want != 0 }
	switch f.name {
	case "FullTextContains", "FullTextContainsAll", "FullTextContainsAny":
		possible := may(0, mayString)
		for i := 1; i < len(x.Args); i++ {
			possible = possible && may(i, mayString|mayObject)
		}
		if !possible {
			return mayMiss
		}
		return mayBool | mayMiss
	case "VectorDistance":
		if !may(0, mayArray) || !may(1, mayArray) {
			return mayMiss
		}
		return mayNumber | mayMiss
	case "ARRAY_CONTAINS":
		if !may(0, mayArray) || !may(1, mayAny&^mayMiss) {
			return mayMiss
		}
		return mayBool | mayMiss
	case "RAND", "GetCurrentTicks", "GetCurrentTimestamp":
		return mayNumber
	case "GetCurrentDateTime":
		return mayString
	}
	if typeTests[f.name] != 0 {
		return mayBool
	}
	s, known := signatures[f.name]
	if !known {
		return mayAny
	}
	for i, each := range s.args {
		if !may(i, each) {
			return mayMiss
		}
	}
	return s.result
}

// contradicts reports whether two conditions of a conjunction require different values
// at one place.
func (p predicate) contradicts() bool {
	if p.op != opAnd {
		return false
	}
	for i, a := range p.args {
		for _, b := range p.args[:i] {
			if a.op == opIn && b.op == opIn && slices.Equal(a.path, b.path) && !slices.ContainsFunc(a.values, func(v value.Value) bool {
				return slices.ContainsFunc(b.values, func(w value.Value) bool { return value.Equal(v, w) })
			}) && !slices.ContainsFunc(a.path, func(s value.Step) bool { return s.Index < 0 }) {
				return true
			}
		}
	}
	return false
}

// valueless reports whether the VALUE of the query is always undefined, or the query
// only counts values that are never defined or never true. It runs after everything
// else is compiled, because groups replace expressions.
func (p *Plan) valueless(c *compiler) bool {
	q := p.query
	if !isGrouped(q) && p.group != nil && q.Value != nil {
		v, ok := p.with.constant(q.Value)
		return ok && !v.IsDefined()
	}
	if !isGrouped(q) {
		return c.rowless(q, true)
	}
	x := q.Value
	if len(q.Items) == 1 {
		x = q.Items[0].Expr
	}
	if x == nil || len(q.GroupBy) > 0 {
		return false
	}
	switch aggregateOf(x) {
	case "Count":
		return c.kinds(x.(*sql.CallExpr).Args[0]) == mayMiss
	case "CountIf":
		return c.kinds(x.(*sql.CallExpr).Args[0])&mayTrue == 0
	}
	return false
}

// impossible reports whether the query has no row, whatever the documents: its filter
// cannot be true, or an input has no values.
func (c *compiler) impossible(q *sql.Select) bool {
	if c.rowless(q, false) {
		return true
	}
	if q.From == nil {
		return false
	}
	for i := range q.From.Inputs {
		inner := q.From.Inputs[i].Subquery
		if inner == nil || isGrouped(inner) || c.scopes[inner] == nil {
			continue
		}
		nothing := false
		c.within(c.scopes[inner], func() {
			nothing = c.impossible(inner) || c.rowless(inner, true)
		})
		if nothing {
			return true
		}
	}
	return false
}
