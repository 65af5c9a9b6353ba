package query

import (
	"strings"

	"github.com/decandb/decan/internal/value"
)

// predicate is what a filter tells about the documents that pass it, reduced to
// what an index or a partition key can use. It may admit more documents than the
// filter, never fewer. The zero value admits all.
type predicate struct {
	op     predicateOp
	args   []predicate   // of both and either
	path   []step        // of a leaf, from the top of the document
	values []value.Value // of a leaf: one, or several for isIn; nil for isDefined
}

type predicateOp uint8

const (
	anything predicateOp = iota
	nothing
	both
	either
	isIn   // equal to one of values
	isLess // less, and of the same type, as with the next three
	isAtMost
	isMore
	isAtLeast
	isPrefixed // a string that begins with values[0]
	isDefined
	isKind     // of the type of values[0]
	hasElement // an array with an element equal to values[0]
)

// predicate reduces a filter.
func (c *compiler) predicate(x Expr) predicate {
	if part := c.expr(x); part.con {
		if truthIn(part.v) == yes {
			return predicate{}
		}
		return predicate{op: nothing}
	}
	if path, ok := c.path(x); ok {
		return leaf(isIn, path, value.Bool(true))
	}
	switch x := x.(type) {
	case *Logic:
		op := both
		if x.Or {
			op = either
		}
		args := make([]predicate, len(x.Terms))
		for i, term := range x.Terms {
			args[i] = c.predicate(term)
		}
		return combine(op, args)
	case *Unary:
		if path, ok := c.path(x.X); ok && x.Op == "NOT" {
			return leaf(isIn, path, value.Bool(false))
		}
	case *Binary:
		return c.comparison(x.Op, x.L, x.R)
	case *Between:
		if !x.Not {
			return combine(both, []predicate{c.comparison(">=", x.X, x.Low), c.comparison("<=", x.X, x.High)})
		}
	case *In:
		if !x.Not {
			return c.membership(x)
		}
	case *Like:
		return c.likeness(x)
	case *Call:
		return c.question(x)
	}
	return predicate{}
}

func leaf(op predicateOp, path []step, values ...value.Value) predicate {
	return predicate{op: op, path: path, values: values}
}

// combine simplifies a conjunction or disjunction.
func combine(op predicateOp, args []predicate) predicate {
	decides, neutral := nothing, anything
	if op == either {
		decides, neutral = anything, nothing
	}
	kept := make([]predicate, 0, len(args))
	for _, arg := range args {
		switch arg.op {
		case decides:
			return predicate{op: decides}
		case neutral:
		case op:
			kept = append(kept, arg.args...)
		default:
			kept = append(kept, arg)
		}
	}
	switch len(kept) {
	case 0:
		return predicate{op: neutral}
	case 1:
		return kept[0]
	}
	return predicate{op: op, args: kept}
}

// mirrored is the operator that says the same with its sides exchanged.
var mirrored = map[string]string{"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

var comparisonOps = map[string]predicateOp{"<": isLess, "<=": isAtMost, ">": isMore, ">=": isAtLeast}

func (c *compiler) comparison(op string, l, r Expr) predicate {
	if mirrored[op] == "" {
		return predicate{}
	}
	path, ok := c.path(l)
	other := r
	if !ok {
		if path, ok = c.path(r); !ok {
			return predicate{}
		}
		other, op = l, mirrored[op]
	}
	side := c.expr(other)
	if !side.con {
		if op == "!=" {
			return leaf(isDefined, path)
		}
		return predicate{}
	}
	v := side.v
	if !v.IsDefined() {
		return predicate{op: nothing}
	}
	switch op {
	case "=":
		return leaf(isIn, path, v)
	case "!=":
		return leaf(isDefined, path)
	}
	if !hasOrder(v.Kind()) {
		return predicate{op: nothing}
	}
	return leaf(comparisonOps[op], path, v)
}

// membership reduces IN: to one leaf for a place and constants, otherwise to
// the equalities it stands for.
func (c *compiler) membership(x *In) predicate {
	path, ok := c.path(x.X)
	if !ok {
		args := make([]predicate, len(x.List))
		for i, item := range x.List {
			args[i] = c.comparison("=", x.X, item)
		}
		return combine(either, args)
	}
	values := make([]value.Value, 0, len(x.List))
	for _, item := range x.List {
		part := c.expr(item)
		if !part.con {
			return predicate{}
		}
		if part.v.IsDefined() {
			values = append(values, part.v)
		}
	}
	return leafIn(path, values)
}

func leafIn(path []step, values []value.Value) predicate {
	if len(values) == 0 {
		return predicate{op: nothing}
	}
	return leaf(isIn, path, values...)
}

// likeness uses what a constant pattern begins with.
func (c *compiler) likeness(x *Like) predicate {
	path, ok := c.path(x.X)
	text := c.expr(x.Pattern)
	if !ok || !text.con || x.Not {
		return predicate{}
	}
	if text.v.Kind() != value.KindString {
		return predicate{op: nothing}
	}
	literal, whole := compileLike(text.v.Text(), x.Escape).prefix()
	switch {
	case whole:
		return leaf(isIn, path, value.String(literal))
	case literal != "":
		return leaf(isPrefixed, path, value.String(literal))
	}
	return leaf(isKind, path, value.String(""))
}

// typeQuestions are the functions that ask for one type, by a value of it.
var typeQuestions = map[string]value.Value{
	"IS_NULL": value.Null(), "IS_BOOL": value.Bool(true), "IS_BOOLEAN": value.Bool(true),
	"IS_NUMBER": value.Int(0), "IS_STRING": value.String(""),
	"IS_ARRAY": value.Array(nil), "IS_OBJECT": value.Object(nil),
}

// question reduces the calls that an index can answer.
func (c *compiler) question(x *Call) predicate {
	if len(x.Args) == 0 {
		return predicate{} // RAND() and the present time
	}
	name := strings.ToUpper(x.Name)
	path, onPath := c.path(x.Args[0])
	if v, ok := typeQuestions[name]; ok && onPath {
		return leaf(isKind, path, v)
	}
	switch name {
	case "IS_DEFINED":
		if onPath {
			return leaf(isDefined, path)
		}
	case "STARTSWITH", "STRINGEQUALS", "STRING_EQUALS":
		return c.stringQuestion(name, x, path, onPath)
	case "ARRAY_CONTAINS":
		return c.arrayQuestion(x, path, onPath)
	}
	return predicate{}
}

func (c *compiler) stringQuestion(name string, x *Call, path []step, onPath bool) predicate {
	if len(x.Args) == 3 {
		if ignore := c.expr(x.Args[2]); !ignore.con || ignore.v.IsTrue() {
			return predicate{}
		}
	}
	arg := c.expr(x.Args[1])
	if !onPath || !arg.con || arg.v.Kind() != value.KindString {
		return predicate{}
	}
	if name == "STARTSWITH" {
		return leaf(isPrefixed, path, arg.v)
	}
	return leaf(isIn, path, arg.v)
}

// arrayQuestion reduces a search in a stored array, and one for a stored value
// in a constant array.
func (c *compiler) arrayQuestion(x *Call, path []step, onPath bool) predicate {
	if len(x.Args) == 3 {
		if partial := c.expr(x.Args[2]); !partial.con || partial.v.IsTrue() {
			return predicate{}
		}
	}
	if arg := c.expr(x.Args[1]); onPath && arg.con && arg.v.IsDefined() {
		return leaf(hasElement, path, arg.v)
	}
	list := c.expr(x.Args[0])
	if path, ok := c.path(x.Args[1]); ok && list.con && list.v.Kind() == value.KindArray {
		return leafIn(path, list.v.Items())
	}
	return predicate{}
}
