package query

import (
	"maps"
	"strings"

	"github.com/decandb/decan/internal/query/sql"
)

// needs maps the text of a place to the kinds that its value must have for a condition
// to hold. The kinds are an overestimate. A place without an entry may have any value.
type needs map[string]kinds

const mayExist = mayAny &^ mayMiss

// restrict adds that a place has a value of the given kinds, and reports whether that
// is possible. A place that has a value is in an object or an array.
func (n needs) restrict(x sql.Expr, want kinds) bool {
	text := sql.Canonical(x)
	have, known := n[text]
	if !known {
		have = mayAny
	}
	if n[text] = have & want; have&want == 0 {
		return false
	}
	switch x := x.(type) {
	case *sql.MemberExpr:
		return n.restrict(x.X, mayObject)
	case *sql.IndexExpr:
		return n.restrict(x.X, mayArray)
	}
	return true
}

// require adds to n what must hold for x to be of the given kinds, and reports whether
// that is possible.
func (c *compiler) require(x sql.Expr, want kinds, n needs) bool {
	if c.kinds(x)&want == 0 {
		return false
	}
	if want&mayMiss != 0 || c.expr(x).con {
		return true
	}
	if isPath(x) {
		return n.restrict(x, want)
	}
	switch x := x.(type) {
	case *sql.UnaryExpr:
		if x.Op == "NOT" {
			return c.require(x.X, ofNegated(want), n)
		}
		return c.require(x.X, mayNumber, n)
	case *sql.BinaryExpr:
		return c.requireOperands(x.Op, x.X, x.Y, want, n)
	case *sql.LogicalExpr:
		return c.requireTerms(x, want&mayBool, n)
	case *sql.BetweenExpr:
		if x.Not {
			want = ofNegated(want)
		}
		if want&mayBool != mayTrue {
			return true
		}
		return c.requireOperands(">=", x.X, x.Low, mayTrue, n) && c.requireOperands("<=", x.X, x.High, mayTrue, n)
	case *sql.InExpr:
		return c.requireMember(x, want, n)
	case *sql.LikeExpr:
		if want&mayBool == mayBool {
			return true
		}
		return c.require(x.X, mayString, n) && c.require(x.Pattern, mayString, n)
	case *sql.CallExpr:
		return c.requireArguments(x, want, n)
	}
	return true
}

// ofNegated returns the kinds of the operand of NOT.
func ofNegated(want kinds) kinds {
	var out kinds
	if want&mayTrue != 0 {
		out |= mayFalse
	}
	if want&mayFalse != 0 {
		out |= mayTrue
	}
	return out
}

func (c *compiler) requireOperands(op string, x, y sql.Expr, want kinds, n needs) bool {
	both := mayExist
	kx, ky := c.kinds(x), c.kinds(y)
	switch op {
	case "=", "!=":
		equal := want&mayBool == mayTrue
		if op == "!=" {
			equal = want&mayBool == mayFalse
		}
		if equal && (kx != mayAny || ky != mayAny) {
			both = kx & ky
			if c.expr(x).con == c.expr(y).con {
				both = kx.types() & ky.types()
			}
		}
	case "<", "<=", ">", ">=":
		if c.beyond(op, y) || c.beyond(mirrored[op], x) {
			return want&mayFalse != 0
		}
		if kx != mayAny || ky != mayAny {
			both = kx.types() & ky.types() & mayCompare
		}
	case "||":
		both = mayString
	default:
		both = mayNumber
	}
	both &= mayExist
	return c.require(x, both, n) && c.require(y, both, n)
}

// beyond reports whether no value is less, or greater, than a constant of its kind.
func (c *compiler) beyond(op string, x sql.Expr) bool {
	part := c.expr(x)
	if !part.con {
		return false
	}
	switch k := kindsOf(part.v); op {
	case "<":
		return k == mayNull || k == mayFalse
	case ">":
		return k == mayNull || k == mayTrue
	}
	return false
}

// requireTerms is [compiler.require] for AND and OR.
func (c *compiler) requireTerms(x *sql.LogicalExpr, want kinds, n needs) bool {
	all, any := mayTrue, mayFalse
	if x.Or {
		all, any = mayFalse, mayTrue
	}
	switch want {
	case all:
		for _, term := range x.Terms {
			if !c.require(term, all, n) {
				return false
			}
		}
		return true
	case any:
		return c.requireAny(x.Terms, any, n)
	}
	return true
}

// requireAny adds what must hold for one of the terms to be of the given kinds.
func (c *compiler) requireAny(terms []sql.Expr, want kinds, n needs) bool {
	var union needs
	for _, term := range terms {
		one := maps.Clone(n)
		if !c.require(term, want, one) {
			continue
		}
		if union == nil {
			union = one
			continue
		}
		for place, k := range union {
			if other, ok := one[place]; ok {
				union[place] = k | other
			} else {
				delete(union, place)
			}
		}
	}
	if union == nil {
		return false
	}
	maps.Copy(n, union)
	return true
}

func (c *compiler) requireMember(x *sql.InExpr, want kinds, n needs) bool {
	if x.Not {
		want = ofNegated(want)
	}
	members := mayExist
	if want&mayBool == mayTrue {
		members = 0
		for _, item := range x.List {
			members |= c.kinds(item) & mayExist
		}
	}
	return c.require(x.X, members, n)
}

// signature holds the kinds of the arguments and the result of a function, according to
// the service's planner.
type signature struct {
	result kinds
	args   []kinds // of the first arguments, for the result to be defined
}

var signatureKinds = map[byte]kinds{'n': mayNumber, 's': mayString, 'b': mayBool, 'a': mayArray, 'o': mayObject, '?': mayAny}

// signatures maps names of functions to signatures. A key of the literal is the kind of
// the result, followed by a blank and the kinds of the arguments.
var signatures = makeSignatures(map[string]string{
	"n n":   "ABS ACOS ASIN ATAN CEILING COS COT DEGREES EXP FLOOR IntBitNot LOG LOG10 RADIANS ROUND SIGN SIN SQRT SQUARE TAN TRUNC",
	"n nn":  "ATN2 IntAdd IntBitAnd IntBitLeftShift IntBitOr IntBitRightShift IntBitXor IntDiv IntMod IntMul IntSub POWER",
	"n a":   "ARRAY_AVG ARRAY_LENGTH ARRAY_MEDIAN ARRAY_SUM",
	"? a":   "ARRAY_MAX ARRAY_MIN",
	"a a":   "ARRAY_CONCAT",
	"a an":  "ARRAY_SLICE",
	"a aa":  "SetDifference SetIntersect SetUnion",
	"b aa":  "SetEqual",
	"b a":   "ARRAY_CONTAINS_ALL ARRAY_CONTAINS_ANY",
	"a o":   "ObjectToArray",
	"n o":   "DOCUMENTID",
	"n s":   "DateTimeToTicks DateTimeToTimestamp DAY LENGTH MONTH StringToNumber YEAR _FullTextWordCount",
	"n ss":  "DateTimePart INDEX_OF LASTINDEXOF",
	"n sss": "DateTimeDiff",
	"s s":   "LOWER LTRIM REVERSE RTRIM TRIM UPPER",
	"s ss":  "CONCAT DateTimeBin DateTimeFormat LASTSUBSTRINGAFTER LASTSUBSTRINGBEFORE REGEXEXTRACT SUBSTRINGAFTER SUBSTRINGBEFORE",
	"s sss": "REPLACE REGEXREPLACE REGEXREPLACEALL",
	"s sn":  "LEFT RIGHT",
	"s snn": "SUBSTRING",
	"s as":  "StringJoin",
	"s n":   "TicksToDateTime TimestampToDateTime",
	"s nnn": "DateTimeFromParts",
	"s ?":   "ToString",
	"b s":   "StringToBoolean CONTAINS_ALL_CI CONTAINS_ALL_CS CONTAINS_ANY_CI CONTAINS_ANY_CS",
	"b ss":  "CONTAINS ENDSWITH RegexMatch STARTSWITH STRINGEQUALS",
	"a s":   "StringToArray",
	"a ss":  "StringSplit REGEXEXTRACTALL",
	"o s":   "StringToObject",
	"? s":   "StringToNull",
	"? n":   "CHOOSE",
	"n ?":   "ST_DISTANCE ST_AREA",
	"b ?":   "ST_INTERSECTS ST_WITHIN ST_ISVALID",
	"o ?":   "ST_ISVALIDDETAILED",
})

func makeSignatures(names map[string]string) map[string]signature {
	all := map[string]signature{}
	for kind, list := range names {
		result, args, _ := strings.Cut(kind, " ")
		s := signature{result: signatureKinds[result[0]] | mayMiss}
		for i := range args {
			s.args = append(s.args, signatureKinds[args[i]])
		}
		for name := range strings.FieldsSeq(list) {
			all[name] = s
		}
	}
	return all
}

// typeTests are the kinds of values for which a function is true.
var typeTests = map[string]kinds{
	"IS_ARRAY": mayArray, "IS_BOOL": mayBool, "IS_DEFINED": mayExist, "IS_NULL": mayNull, "IS_NUMBER": mayNumber,
	"IS_OBJECT": mayObject, "IS_STRING": mayString,
}

func (c *compiler) requireArguments(x *sql.CallExpr, want kinds, n needs) bool {
	f := functions[strings.ToUpper(x.Name)]
	if x.UDF || f == nil {
		return true
	}
	if test := typeTests[f.name]; test != 0 && want&mayBool == mayTrue {
		return c.require(x.Args[0], test, n)
	}
	for i, each := range signatures[f.name].args {
		if i < len(x.Args) && each != mayAny && !c.require(x.Args[i], each, n) {
			return false
		}
	}
	return true
}

// rowless reports whether no row of q can pass its filter and have a value.
func (c *compiler) rowless(q *sql.Select, valued bool) bool {
	n := needs{}
	if q.From != nil {
		for i := range q.From.Inputs {
			if in := &q.From.Inputs[i]; in.In && in.Collection != nil && !n.restrict(in.Collection, mayArray) {
				return true
			}
		}
	}
	if q.Where != nil && !c.require(q.Where, mayTrue, n) {
		return true
	}
	return valued && q.Value != nil && !isGrouped(q) && !c.require(q.Value, mayExist, n)
}
