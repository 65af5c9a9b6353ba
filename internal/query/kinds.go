package query

import (
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
	mayExist   = mayAny &^ mayMiss
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

// kinds returns the kinds that the value of n can have, whatever the document.
func (r *reach) kinds(n node) kinds {
	if r.work <= 0 {
		return mayAny
	}
	n = r.resolve(n)
	if n.row != nil {
		return mayObject
	}
	if v, ok := r.constant(n); ok {
		return kindsOf(v)
	}
	switch x := n.x.(type) {
	case nil, *sql.Ident:
		return mayExist // a document or an element
	case *sql.Subquery:
		return r.subqueryKinds(n, x)
	case *sql.MemberExpr:
		if r.kinds(n.at(x.X))&mayObject == 0 {
			return mayMiss
		}
	case *sql.IndexExpr:
		if r.kinds(n.at(x.X))&(mayArray|mayObject) == 0 {
			return mayMiss
		}
	case *sql.UnaryExpr:
		k := r.kinds(n.at(x.X))
		if x.Op == "NOT" {
			return negated(k)
		}
		return k.only(mayNumber, mayNumber)
	case *sql.BinaryExpr:
		k := operatorKinds(x.Op, r.kinds(n.at(x.X)), r.kinds(n.at(x.Y)))
		if x.Op == "=" && k&mayFalse != 0 && r.same(r.resolve(n.at(x.X)), r.resolve(n.at(x.Y))) {
			k &^= mayFalse
		}
		return k
	case *sql.LogicalExpr:
		return r.logicKinds(n, x)
	case *sql.CoalesceExpr:
		k := r.kinds(n.at(x.X))
		if k&mayMiss != 0 {
			k = k&^mayMiss | r.kinds(n.at(x.Y))
		}
		return k
	case *sql.ConditionalExpr:
		return r.conditionalKinds(n.at(x.Cond), n.at(x.Then), n.at(x.Else))
	case *sql.BetweenExpr:
		k := r.kinds(n.at(x.X))
		low, high := operatorKinds(">=", k, r.kinds(n.at(x.Low))), operatorKinds("<=", k, r.kinds(n.at(x.High)))
		return inverted(conjoined(low, high), x.Not)
	case *sql.InExpr:
		k, out := r.kinds(n.at(x.X)), mayFalse
		if k == mayMiss {
			return mayMiss
		}
		for _, item := range x.List {
			out |= operatorKinds("=", k&^mayMiss, r.kinds(n.at(item))&^mayMiss)
		}
		return inverted(out, x.Not) | k&mayMiss
	case *sql.LikeExpr:
		return operatorKinds("LIKE", r.kinds(n.at(x.X)), r.kinds(n.at(x.Pattern)))
	case *sql.LetExpr:
		if inner := n.s.owner.lets[x]; inner != nil {
			return r.kinds(node{x: x.In, s: inner})
		}
	case *sql.ArrayLiteral:
		return mayArray
	case *sql.ObjectLiteral:
		return mayObject
	case *sql.CallExpr:
		return r.callKinds(n, x)
	}
	return mayAny
}

func (r *reach) conditionalKinds(cond, then, otherwise node) kinds {
	var k kinds
	if c := r.kinds(cond); c&mayTrue != 0 {
		k = r.kinds(then)
		if c&^mayTrue == 0 {
			return k
		}
	}
	return k | r.kinds(otherwise)
}

// subqueryKinds returns the kinds of a subquery.
func (r *reach) subqueryKinds(n node, x *sql.Subquery) kinds {
	switch x.Kind {
	case sql.SubqueryExists:
		if s := n.s.scopeOf(x.Query); s != nil {
			if list, ok := r.obstacles(nil, x.Query, s); ok && len(list) == 0 {
				return mayTrue
			}
		}
		return mayBool
	case sql.SubqueryAll:
		return mayBool
	case sql.SubqueryArray:
		return mayArray
	case sql.SubqueryFirst, sql.SubqueryLast:
		if iterates(x.Query) {
			return mayAny
		}
	}
	row := r.rowOf(n, x.Query)
	if row.s == nil {
		return mayAny
	}
	return r.kinds(row) | mayMiss
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

func (r *reach) logicKinds(n node, x *sql.LogicalExpr) kinds {
	out := r.kinds(n.at(x.Terms[0]))
	for _, term := range x.Terms[1:] {
		k := r.kinds(n.at(term))
		if x.Or {
			out = negated(conjoined(negated(out), negated(k)))
		} else {
			out = conjoined(out, k)
		}
	}
	return out
}

// totals are the kinds of the aggregates.
var totals = map[AggregateKind]kinds{
	Count: mayNumber, CountIf: mayNumber, Sum: mayNumber | mayMiss, Average: mayNumber | mayMiss,
	Min: mayCompare | mayMiss, Max: mayCompare | mayMiss, MakeList: mayArray, MakeSet: mayArray,
}

// callKinds returns the kinds of a call. A function that is not listed can return any
// kind.
func (r *reach) callKinds(n node, x *sql.CallExpr) kinds {
	f := functions[strings.ToUpper(x.Name)]
	if x.UDF || f == nil {
		return mayAny
	}
	if kind, ok := aggregateKind(x); ok {
		if (kind == Min || kind == Max) && !n.s.root && !(n.s.query != nil && iterates(n.s.query)) {
			return mayAny
		}
		return totals[kind]
	}
	may := func(i int, want kinds) bool {
		return i >= len(x.Args) || r.kinds(n.at(x.Args[i]))&want != 0 || want == mayArray && r.conditionalRow(n.at(x.Args[i]))
	}
	switch f.name {
	case "FullTextContains", "FullTextContainsAll", "FullTextContainsAny":
		for i := range x.Args {
			if !may(i, textKinds(i)) {
				return mayMiss
			}
		}
		return mayBool | mayMiss
	case "VectorDistance", "_VectorScore":
		if !may(0, mayArray|mayNull) || !may(1, mayArray|mayNull) {
			return mayMiss
		}
		return mayNumber | mayMiss
	case "ARRAY_CONTAINS":
		if !may(0, mayArray) || !may(1, mayExist) {
			return mayMiss
		}
		return mayBool | mayMiss
	case "ST_ISVALID":
		return mayBool | mayMiss
	case "IIF":
		return r.conditionalKinds(n.at(x.Args[0]), n.at(x.Args[1]), n.at(x.Args[2]))
	case "RAND", "GetCurrentTicks", "GetCurrentTimestamp", "HASH":
		return mayNumber
	case "GetCurrentDateTime":
		return mayString
	case "NOW", "AGO":
		if len(x.Args) > 1 && (!may(0, mayString) || !may(1, mayNumber)) {
			return mayMiss
		}
		return mayString | mayMiss
	case "IS_DATETIME":
		return mayBool
	case "DateTimeAdd":
		if !may(0, mayString) || !may(len(x.Args)-2, mayNumber|mayString) || !may(len(x.Args)-1, mayString) {
			return mayMiss
		}
		return mayString | mayMiss
	}
	if test := typeTests[f.name]; test != 0 {
		return r.testKinds(r.kinds(n.at(x.Args[0])), f.name, test)
	}
	s, known := signatures[f.name]
	if !known {
		return mayAny
	}
	for i, each := range s.args {
		switch {
		case i > 0 && (someOf(f, x) || f.name == "REPLICATE"):
			return s.result
		case f.name == "REPLICATE":
			each |= mayNull
		}
		if !may(i, each) {
			return mayMiss
		}
	}
	return s.result
}

// someOf reports whether a call searches for several texts, which the planner does not
// compare.
func someOf(f *function, x *sql.CallExpr) bool {
	return len(x.Args) > 2 && (strings.HasPrefix(f.name, "CONTAINS_ALL_") || strings.HasPrefix(f.name, "CONTAINS_ANY_"))
}

// testKinds returns the results of a test for kinds.
func (r *reach) testKinds(k kinds, name string, test kinds) kinds {
	switch {
	case k&test == 0:
		return mayFalse
	case k&^test == 0 && name != "IS_INTEGER" && name != "IS_FINITE_NUMBER":
		return mayTrue
	}
	return mayBool
}

// textKinds are the kinds of an argument of FullTextContains and the like.
func textKinds(i int) kinds {
	if i == 0 {
		return mayString
	}
	return mayString | mayObject
}

// signature holds the kinds of the arguments and the result of a function, according to
// the service's planner.
type signature struct {
	result kinds
	args   []kinds // of the first arguments, for the result to be defined
}

var signatureKinds = map[byte]kinds{'n': mayNumber, 's': mayString, 'b': mayBool, 'a': mayArray, 'o': mayObject, '?': mayAny, '!': mayExist, 'N': mayNumber | mayMiss, 'O': mayObject | mayNull}

// signatures maps names of functions to signatures. A key of the literal is the kind of
// the result, followed by a blank and the kinds of the arguments.
var signatures = makeSignatures(map[string]string{
	"n n":    "ABS ACOS ASIN ATAN CEILING COS COT DEGREES EXP FLOOR IntBitNot LOG10 RADIANS ROUND SIGN SIN SQRT SQUARE TAN TRUNC",
	"n nn":   "ATN2 LOG IntAdd IntBitAnd IntBitLeftShift IntBitOr IntBitRightShift IntBitXor IntDiv IntMod IntMul IntSub POWER",
	"n a":    "ARRAY_AVG ARRAY_LENGTH ARRAY_MEDIAN ARRAY_SUM",
	"? a":    "ARRAY_MAX ARRAY_MIN",
	"a a":    "ARRAY_CONCAT",
	"a an":   "ARRAY_SLICE",
	"a aa":   "SetDifference SetIntersect SetUnion",
	"b aa":   "SetEqual",
	"b a":    "ARRAY_CONTAINS_ALL ARRAY_CONTAINS_ANY",
	"a O":    "ObjectToArray",
	"n o":    "DOCUMENTID",
	"n s":    "DateTimeToTicks DateTimeToTimestamp DAY LENGTH MONTH StringToNumber YEAR _FullTextWordCount",
	"n ss":   "DateTimePart INDEX_OF",
	"n ssN":  "LASTINDEXOF",
	"n sss":  "DateTimeDiff",
	"s s":    "LOWER LTRIM REVERSE RTRIM TRIM UPPER",
	"s ssns": "DateTimeBin",
	"s sssn": "REGEXEXTRACT",
	"s ss":   "CONCAT DateTimeFormat LASTSUBSTRINGAFTER LASTSUBSTRINGBEFORE SUBSTRINGAFTER SUBSTRINGBEFORE",
	"s sss":  "REPLACE",
	"s ssss": "REGEXREPLACE REGEXREPLACEALL",
	"s sn":   "LEFT REPLICATE RIGHT",
	"s snn":  "SUBSTRING",
	"s as":   "StringJoin",
	"s ns":   "TicksToDateTime TimestampToDateTime",
	"s nnn":  "DateTimeFromParts",
	"s !":    "ToString",
	"b s":    "StringToBoolean",
	"b ss":   "CONTAINS_ALL_CI CONTAINS_ALL_CS CONTAINS_ANY_CI CONTAINS_ANY_CS CONTAINS ENDSWITH RegexMatch STARTSWITH STRINGEQUALS",
	"a s":    "StringToArray",
	"a ss":   "StringSplit",
	"a sss":  "REGEXEXTRACTALL",
	"? s":    "StringToNull",
	"? n":    "CHOOSE",
	"n ?":    "ST_AREA ST_DISTANCE",
	"b ?":    "ST_INTERSECTS ST_WITHIN",
	"o ?":    "ST_ISVALIDDETAILED",
	"o !":    "StringToObject",
})

// further are the kinds of the arguments after those of the signature.
var further = map[string]kinds{
	"CONCAT": mayString, "ARRAY_CONCAT": mayArray, "LTRIM": mayString, "RTRIM": mayString, "TRIM": mayString,
	"CONTAINS": mayBool, "ENDSWITH": mayBool, "STARTSWITH": mayBool, "STRINGEQUALS": mayBool,
	"INDEX_OF": mayNumber, "ROUND": mayNumber, "ARRAY_SLICE": mayNumber, "RegexMatch": mayString,
	"DateTimeFromParts": mayNumber,
}

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
	"IS_OBJECT": mayObject, "IS_STRING": mayString, "IS_PRIMITIVE": mayNull | mayBool | mayNumber | mayString,
	"IS_INTEGER": mayNumber, "IS_FINITE_NUMBER": mayNumber,
}
