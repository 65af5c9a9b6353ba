package query

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// exprWriter writes random expressions of constants: every function with 0 to 5
// arguments of every type, every operator, and expressions within expressions.
type exprWriter struct{ *rand.Rand }

// Constants by type. Each list has the values at which functions and operators change
// their results, and texts that only some of them understand.
var (
	someNumbers = []string{
		"0", "1", "2", "3", "5", "7", "10", "-1", "-2", "-7", "0.0", "-0.0", "1.0", "0.5", "-0.5", "1.5", "2.5", "-2.5", "3.14159", "100.456", "-100.456",
		"31", "32", "33", "63", "64", "65", "45", "1e2", "1e-7", "1e16", "1e17", "1e21", "2147483647", "2147483648", "-2147483648", "-2147483649", "4294967295", "4294967296",
		"9007199254740991", "9007199254740992", "9007199254740993", "-9007199254740993", "9007199254740993.0", "9223372036854775807", "-9223372036854775807", "-9223372036854775808",
		"9223372036854775808", "18446744073709551615", "1.7976931348623157e308", "-1.7976931348623157e308", "5e-324", "2.2250738585072014e-308", "0x1F", "123456789", "99999999999999999",
		"100000000000000000", "0.1", "0.30000000000000004", "1000000", "1594368209000", "15943682090000000", "-1594368209000", "NaN", "Infinity", "-Infinity",
	}
	someIntegers = []string{"0", "1", "2", "3", "4", "5", "-1", "-2", "-3", "7", "10", "100", "1.0", "3.5", "-0.0", "100000", "100001", "2147483648", "9223372036854775807", "-9223372036854775808", "1e21", "NaN"}
	someStrings  = []string{
		`""`, `"a"`, `"A"`, `"b"`, `"abc"`, `"ABC"`, `"aBc"`, `"abcabc"`, `"ca"`, `" a "`, `"\ta\n"`, `" "`, `"a,b,c"`, `","`, `"aaa"`, `"aa"`, `"é"`, `"É"`, `"ß"`, `"ẞ"`, `"İ"`, `"ı"`, `"ǅ"`, `"ſ"`, `"Σ"`, `"ς"`, `"K"`, `"😀"`, `"a😀b"`, `"e\u0301"`, `"\u00a0x\u2003"`, `"\ufeff"`, `"\uffff"`, `"ﬁ"`, `"Ω"`,
		`"1"`, `"01"`, `"-1"`, `"-0"`, `"1.50"`, `" 1 "`, `"1e5"`, `"1e400"`, `"+1"`, `"0x1F"`, `"9223372036854775807"`, `"9223372036854775808"`, `"NaN"`, `"true"`, `" false "`, `"TRUE"`, `"null"`, `" null "`, `"[1,2]"`, `"[1,\"a\",{\"a\":null}]"`, `"[ 1 , 01 ]"`, `"[]"`, `"{}"`, `"{\"a\":1}"`, `"{\"b\":[1.0],\"a\":\"x\"}"`, `"[1"`, `"undefined"`,
		`"%"`, `"a%"`, `"%c"`, `"_b_"`, `"a!%"`, `"[a-c]b%"`, `"[^a]%"`, `"\\"`, `"/"`, `"a\"b"`, `"x'y"`,
	}
	someTimes = []string{
		`"2020-01-31T10:20:30.1234567Z"`, `"2020-01-31T10:20:30Z"`, `"2020-02-29"`, `"2021-02-29"`, `"2019-12-31T23:59:59.9999999Z"`, `"1970-01-01T00:00:00.0000000Z"`, `"1969-12-31T23:59:59.5Z"`, `"1601-01-01"`, `"1600-12-31T23:59:59Z"`, `"9999-12-31T23:59:59.9999999Z"`,
		`"2020-01-31T10:20:30+02:00"`, `"2020-01-31T10:20:30-0930"`, `"2020-01-31 10:20:30"`, `"2020-01-31T10:20"`, `"2020-01-31T24:00:00Z"`, `"2020-1-31"`, `"20200131"`, `"2020-01-31T10:20:30.12345678Z"`, `"2020-01-31T10:20:30.Z"`, `"2020-01"`, `"2020-01-31T"`, `"2020-01-31Z"`, `"2020-06-15T12:30:45.678Z"`, `"2021-03-28T01:30:00Z"`,
	}
	someParts   = []string{`"yyyy"`, `"year"`, `"YY"`, `"mm"`, `"month"`, `"m"`, `"dd"`, `"day"`, `"d"`, `"hh"`, `"hour"`, `"mi"`, `"n"`, `"minute"`, `"ss"`, `"s"`, `"ms"`, `"mcs"`, `"ns"`, `"nanosecond"`, `"dw"`, `"weekday"`, `"week"`, `"q"`, `""`, `"Day"`}
	someFormats = []string{`"yyyy-MM-dd"`, `"HH:mm:ss.fffffff"`, `"yy/M/d h tt"`, `"y yyy yyyyy"`, `"FFF f"`, `"\\y y"`, `"T'x'Z"`, `""`, `"ddd MMM"`, `"\\"`, `"hh'h'mm"`, `"K zzz"`}
	someArrays  = []string{
		"[]", "[1]", "[1,2,3]", "[3,1,2]", "[1,2]", "[2,1,2]", "[1,1,2]", `["a","b"]`, `["b","a","b"]`, `["abc","ABC"]`, "[1.5,2.5]", "[null]", "[true,false]", "[undefined]", "[1,undefined,2]", `[1,"a",null,true,[1],{"a":1}]`, "[[1],[2]]", `[{"a":1},{"a":2,"b":3}]`, "[NaN]", "[NaN,1]", "[Infinity,1]", "[9007199254740993,1]", "[9223372036854775807,1]", "[0,-0.0]", "[1.0,1]", `["é","😀"]`, `[{"b":1,"a":2},{"a":2,"b":1}]`,
	}
	someObjects = []string{"{}", `{"a":1}`, `{"a":1,"b":2}`, `{"b":2,"a":1}`, `{"a":{"b":[1,2]}}`, `{"a":undefined}`, `{"a":null,"b":"x"}`, `{"a":NaN}`, `{"é":1}`}
	someShapes  = []string{
		`{"type":"Point","coordinates":[0,0]}`, `{"type":"Point","coordinates":[5,5]}`, `{"type":"Point","coordinates":[10.5,-20.25]}`, `{"type":"Point","coordinates":[1,2,3]}`, `{"type":"Point","coordinates":[200,0]}`, `{"type":"Point","coordinates":[]}`, `{"type":"Point"}`, `{"type":"point","coordinates":[0,0]}`,
		`{"type":"LineString","coordinates":[[0,0],[5,5]]}`, `{"type":"LineString","coordinates":[[0,0]]}`, `{"type":"Polygon","coordinates":[[[0,0],[10,0],[10,10],[0,10],[0,0]]]}`, `{"type":"Polygon","coordinates":[[[0,0],[0,10],[10,10],[10,0],[0,0]]]}`, `{"type":"Polygon","coordinates":[[[0,0],[10,0],[10,10]]]}`, `{"type":"MultiPolygon","coordinates":[[[[0,0],[1,0],[1,1],[0,0]]]]}`,
	}
	someOthers = []string{"true", "false", "null", "undefined"}
)

// typesOf are the types of the arguments of functions for which arguments of any type
// mostly give undefined: n number, i integer, s string, d date, p part of a date,
// f format of a date, a array, o object, g shape, b boolean, x anything. The last one
// repeats.
var typesOf = map[string]string{
	"CONTAINS": "ssb", "STARTSWITH": "ssb", "ENDSWITH": "ssb", "STRINGEQUALS": "ssb", "STRING_EQUALS": "ssb",
	"CONTAINS_ANY_CS": "s", "CONTAINS_ALL_CS": "s", "CONTAINS_ANY_CI": "s", "CONTAINS_ALL_CI": "s", "CONCAT": "s",
	"INDEX_OF": "ssi", "INDEXOF": "ssi", "LASTINDEXOF": "ssi", "LEFT": "si", "RIGHT": "si", "SUBSTRING": "sii", "REPLACE": "s", "REPLICATE": "si",
	"SUBSTRINGBEFORE": "s", "SUBSTRINGAFTER": "s", "LASTSUBSTRINGBEFORE": "s", "LASTSUBSTRINGAFTER": "s",
	"TOSTRING": "x", "TO_STRING": "x", "STRINGJOIN": "as", "STRING_JOIN": "as", "STRINGSPLIT": "s", "STRING_SPLIT": "s",
	"STRINGTOARRAY": "s", "STRINGTOBOOLEAN": "s", "STRINGTONULL": "s", "STRINGTONUMBER": "s", "STRINGTOOBJECT": "s",
	"LOWER": "s", "UPPER": "s", "REVERSE": "s", "LENGTH": "s", "TRIM": "s", "LTRIM": "s", "RTRIM": "s",
	"ARRAY_CONTAINS": "axb", "ARRAY_CONTAINS_ANY": "ax", "ARRAY_CONTAINS_ALL": "ax", "ARRAY_LENGTH": "a", "ARRAY_CONCAT": "a", "ARRAY_SLICE": "aii",
	"ARRAY_SUM": "a", "ARRAY_AVG": "a", "ARRAY_MEDIAN": "a", "ARRAY_MIN": "a", "ARRAY_MAX": "a", "CHOOSE": "ix", "OBJECTTOARRAY": "os",
	"SETUNION": "a", "SETINTERSECT": "a", "SETDIFFERENCE": "a", "SETEQUAL": "a", "SET_UNION": "a", "SET_INTERSECT": "a", "SET_DIFFERENCE": "a", "SET_EQUAL": "a",
	"DATETIMETOTICKS": "d", "DATETIMETOTIMESTAMP": "d", "YEAR": "d", "MONTH": "d", "DAY": "d", "TICKSTODATETIME": "nf", "TIMESTAMPTODATETIME": "nf",
	"DATETIMEADD": "pid", "DATETIMEFORMAT": "df", "DATETIMEDIFF": "pdd", "DATETIMEPART": "pd", "DATETIMEFROMPARTS": "i", "DATETIMEBIN": "dpnd", "IS_DATETIME": "d",
	"IIF": "bxx", "INTADD": "n", "ROUND": "ni",
}

// leaf writes a constant of a type of typesOf.
func (w exprWriter) leaf(kind byte) string {
	switch kind {
	case 'n':
		return pick(w.Rand, someNumbers)
	case 'i':
		return pick(w.Rand, someIntegers)
	case 's':
		return pick(w.Rand, someStrings)
	case 'd':
		return pick(w.Rand, someTimes)
	case 'p':
		return pick(w.Rand, someParts)
	case 'f':
		return pick(w.Rand, someFormats)
	case 'a':
		return pick(w.Rand, someArrays)
	case 'o':
		return pick(w.Rand, someObjects)
	case 'g':
		return pick(w.Rand, someShapes)
	case 'b':
		return pick(w.Rand, someOthers[:2])
	}
	return w.leaf("nnnisssdaaoogb?"[w.IntN(15)])
}

// libraryFunctions are computed by the library of the language. The last digits of
// their results differ from the service's, so their arguments are constants, and they
// are not arguments themselves.
var libraryFunctions = []string{"SIN", "COS", "TAN", "COT", "ASIN", "ACOS", "ATAN", "ATN2", "EXP", "LOG", "LOG10", "POWER", "ST_DISTANCE", "ST_AREA"}

// innerFunctions are the functions whose values the planner computes, except
// libraryFunctions.
var innerFunctions = func() (names []string) {
	for name, f := range functions {
		switch {
		case f.volatile, f.aggregate, slices.Contains(libraryFunctions, name):
		case name[0] == '_', strings.HasPrefix(name, "REGEX"), strings.HasPrefix(name, "FULLTEXT"), strings.HasPrefix(name, "VECTOR"), strings.HasPrefix(name, "ST_"):
		case name == "RRF", name == "DOCUMENTID", name == "HASH", name == "UDF":
		default:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}()

// expr writes an expression of at most depth levels.
func (w exprWriter) expr(depth int) string {
	if w.IntN(8) == 0 {
		return w.call(pick(w.Rand, append([]string{"ST_WITHIN", "ST_INTERSECTS", "ST_ISVALID"}, libraryFunctions...)), 0)
	}
	return w.inner(depth)
}

func (w exprWriter) inner(depth int) string {
	if depth == 0 {
		return w.leaf('x')
	}
	if w.IntN(3) > 0 {
		return w.call(pick(w.Rand, innerFunctions), depth-1)
	}
	return w.operator(depth - 1)
}

// argument writes a value that mostly is of a type.
func (w exprWriter) argument(kind byte, depth int) string {
	switch {
	case depth > 0 && w.IntN(3) == 0:
		return w.inner(depth)
	case w.IntN(6) == 0:
		kind = 'x'
	}
	return w.leaf(kind)
}

// call writes a call of a function, mostly with a number of arguments that it takes.
func (w exprWriter) call(name string, depth int) string {
	f, kinds := functions[name], typesOf[name]
	if kinds == "" {
		kinds = "n"
		switch {
		case strings.HasPrefix(name, "ST_"):
			kinds = "g"
		case strings.HasPrefix(name, "IS"):
			kinds = "x"
		}
	}
	most := f.max
	if most < 0 {
		most = f.min + 3
	}
	n := f.min + w.IntN(most-f.min+1)
	if w.IntN(40) == 0 {
		n = w.IntN(6)
	}
	args := make([]string, n)
	for i := range args {
		args[i] = w.argument(kinds[min(i, len(kinds)-1)], depth)
	}
	return name + "(" + strings.Join(args, ", ") + ")"
}

// operator writes an operator with its operands.
func (w exprWriter) operator(depth int) string {
	of := func(kind byte) string { return "(" + w.argument(kind, depth) + ")" }
	binary := func(kind byte, ops ...string) string {
		return of(kind) + " " + pick(w.Rand, ops) + " " + of(kind)
	}
	same := "nsab"[w.IntN(4)]
	switch w.IntN(17) {
	case 0:
		return fmt.Sprintf(pick(w.Rand, []string{"1 / (%s)", "ToString(%s)"}), w.argument('n', depth)) // these distinguish -0 from 0
	case 1, 16:
		return binary('n', "+", "-", "*", "/", "%")
	case 2:
		return binary('n', "&", "|", "^", "<<", ">>", ">>>")
	case 3, 4:
		return binary(same, "=", "!=", "<", "<=", ">", ">=")
	case 5:
		return binary('b', "AND", "OR")
	case 6:
		return binary('s', "||")
	case 7:
		return binary('x', "??")
	case 8:
		return pick(w.Rand, []string{"-", "+", "~"}) + of('n')
	case 9:
		return "NOT " + of('b')
	case 10:
		return fmt.Sprintf("%s %sBETWEEN %s AND %s", of(same), pick(w.Rand, []string{"", "NOT "}), of(same), of(same))
	case 11:
		return fmt.Sprintf("%s %sIN (%s, %s)", of(same), pick(w.Rand, []string{"", "NOT "}), w.argument(same, depth), w.argument(same, depth))
	case 12:
		return fmt.Sprintf("%s ? %s : %s", of('b'), of('x'), of('x'))
	case 13:
		return fmt.Sprintf("[%s, %s]", w.argument('x', depth), w.argument('x', depth))
	case 14:
		return fmt.Sprintf(`{"a": %s, "b": %s}`, w.argument('x', depth), w.argument('x', depth))
	}
	if w.IntN(2) == 0 {
		return of('a') + pick(w.Rand, []string{"[0]", "[1]", "[2]", `["a"]`})
	}
	return of('o') + pick(w.Rand, []string{".a", `["b"]`, ".a.b", "[0]"})
}
