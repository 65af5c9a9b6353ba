package query

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/value"
)

// oddValues are arguments that functions do not expect.
func oddValues() []value.Value {
	point, _ := value.ParseString(`{"type":"Point","coordinates":[1,2]}`)
	return []value.Value{
		value.Undefined(), value.Null(), value.Bool(true), value.Bool(false),
		value.Int(0), value.Int(-1), value.Int(3), value.Number(1.5), value.Int(math.MaxInt64), value.Int(math.MinInt64), value.Number(1e300),
		value.String(""), value.String("a"), value.String("2024-02-29T01:02:03.4567891Z"), value.String("yyyy"), value.String("(["), value.String("\xff\x80"), value.String("😀é"),
		value.Array(nil), value.Array([]value.Value{value.Int(1), value.Undefined(), value.String("x")}), value.Array([]value.Value{value.Int(1), value.Int(2)}),
		value.Object(nil), value.Object([]value.Member{{Name: "term", Value: value.String("a")}, {Name: "distance", Value: value.Int(1)}}), point,
	}
}

// takesUndefined are the functions that accept an undefined argument. All others
// return undefined for it.
var takesUndefined = map[string]bool{
	"IS_DEFINED": true, "IS_NULL": true, "IS_BOOL": true, "IS_NUMBER": true, "IS_STRING": true, "IS_ARRAY": true, "IS_OBJECT": true,
	"IS_PRIMITIVE": true, "IS_INTEGER": true, "IS_FINITE_NUMBER": true, "IS_DATETIME": true, "IIF": true, "CHOOSE": true,
	"ARRAY_CONTAINS_ANY": true, "ARRAY_CONTAINS_ALL": true, // as OR and AND
	"ST_ISVALID": true, "ST_ISVALIDDETAILED": true,
	"LASTINDEXOF": true, "ObjectToArray": true, // as without the argument
	"HASH":            true, // 0 for undefined
	"CONTAINS_ANY_CI": true, "CONTAINS_ANY_CS": true, "CONTAINS_ALL_CI": true, "CONTAINS_ALL_CS": true,
}

// TestFunctionsOfAnything calls every function with arguments of every kind: none
// panics, and those not in takesUndefined return undefined for an undefined
// argument.
func TestFunctionsOfAnything(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 7))
	odd := oddValues()
	e := newEnv()
	e.now = time.Unix(1_700_000_000, 0)
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		f := functions[name]
		if f.aggregate {
			continue
		}
		most := f.max
		if most < 0 {
			most = f.min + 2
		}
		for range 3000 {
			args := make([]value.Value, f.min+r.IntN(most-f.min+1))
			hole := false
			for i := range args {
				args[i] = odd[r.IntN(len(odd))]
				hole = hole || !args[i].IsDefined()
			}
			e.err = nil
			v := f.run(e, args)
			if hole && v.IsDefined() && !takesUndefined[f.name] {
				t.Fatalf("seed %d: %s of %s is %s", seed, f.name, argumentText(args), v.JSON())
			}
		}
	}
}

// TestSignatures compares what the planner knows of functions with their values: with an
// argument of another kind the value is undefined, and it is never of another kind.
func TestSignatures(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 9))
	odd := oddValues()
	e := newEnv()
	for name, s := range signatures {
		f := functions[strings.ToUpper(name)]
		if f == nil || f.name != name || f.max >= 0 && len(s.args) > f.max {
			t.Errorf("%s is not a function, or not with that number of arguments", name)
			continue
		}
		for range 3000 {
			args := make([]value.Value, f.min+r.IntN(max(f.min, len(s.args))-f.min+1))
			possible := true
			for i := range args {
				args[i] = odd[r.IntN(len(odd))]
				possible = possible && (i >= len(s.args) || kindsOf(args[i])&s.args[i] != 0)
			}
			if k := further[name]; k != 0 && f.max != len(args) && r.IntN(2) == 0 {
				args = append(args, odd[r.IntN(len(odd))])
				possible = possible && kindsOf(args[len(args)-1])&k != 0
			}
			e.err = nil
			if v := f.run(e, args); kindsOf(v)&s.result == 0 || !possible && v.IsDefined() {
				t.Fatalf("seed %d: %s of %s is %s", seed, name, argumentText(args), v.JSON())
			}
		}
	}
}

// TestBoundFunctions compares calls with constant arguments to calls whose
// arguments come from a document: a result computed once must equal the result
// for each document.
func TestBoundFunctions(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 8))
	odd := oddValues()
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		f := functions[name]
		if f.bind == nil || f.name != name && !strings.EqualFold(f.name, name) {
			continue
		}
		most := f.max
		if most < 0 {
			most = f.min + 1
		}
		for range 150 {
			args := make([]value.Value, f.min+r.IntN(most-f.min+1))
			for i := range args {
				args[i] = odd[r.IntN(len(odd))]
			}
			compareBound(t, seed, f, args, r)
		}
	}
}

func compareBound(t *testing.T, seed uint64, f *function, args []value.Value, r *rand.Rand) {
	t.Helper()
	e := newEnv()
	e.now = time.Unix(1_700_000_000, 0)
	want := f.run(e, args)
	b := binding{args: make([]sql.Expr, len(args)), parts: make([]code, len(args))}
	for i, arg := range args {
		b.args[i] = &sql.Literal{Value: arg}
		b.parts[i] = constant(arg)
		if r.IntN(2) == 0 {
			b.parts[i] = computed(func(*env) value.Value { return arg })
		}
	}
	got := f.bind(b)(e, args)
	if got.IsDefined() != want.IsDefined() || got.IsDefined() && !value.Equal(got, want) && got.JSON() != want.JSON() {
		t.Fatalf("seed %d: %s of %s is %s, and %s when it knows the constants", seed, f.name, argumentText(args), want.JSON(), got.JSON())
	}
}

func argumentText(args []value.Value) string {
	var list []string
	for _, arg := range args {
		list = append(list, fmt.Sprintf("%q", (&sql.Literal{Value: arg}).String()))
	}
	return strings.Join(list, ", ")
}

// TestPolicies shows that functions follow the container's policies for the
// property that they read.
func TestPolicies(t *testing.T) {
	t.Parallel()
	ix := containerIndex(t, `{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},
		"fullTextPolicy":{"defaultLanguage":"en-US","fullTextPaths":[{"path":"/fr","language":"fr-FR"}]},
		"vectorEmbeddingPolicy":{"vectorEmbeddings":[{"path":"/e","dataType":"float32","dimensions":2,"distanceFunction":"euclidean"}]},
		"geospatialConfig":{"type":"Geometry"}}`)
	doc := `{"fr":"les chevaux","en":"les chevaux","e":[4,5],"f":[4,5],"yes":true,"at":{"type":"Point","coordinates":[3,4]}}`
	for expr, want := range map[string]string{
		`FullTextContains(c.fr, "cheval")`: `true`,
		`FullTextContains(c.en, "cheval")`: `false`,
		`_FullTextWordCount(c.fr)`:         `1`,
		`_FullTextWordCount(c.en)`:         `2`,
		`VectorDistance(c.e, [1, 1])`:      `5`,
		`VectorDistance([1, 1], c.e)`:      `5`,
		`_VectorScore(c.e, [1, 1])`:        `-5`,
		`VectorDistance(c.f, [4, 5])`:      `1`,
		`VectorDistance(c.e, c.f)`:         `0`,
		`[VectorDistance(c.e, [1]), VectorDistance(c.at, [1, 1]), VectorDistance(c.none, [1, 1]), VectorDistance(c.e, "x")]`: `[]`,
		`[_VectorScore(c.e, [])]`: `[]`,
		`VectorDistance([1, 1], c.e, true, {distanceFunction: "dotproduct"})`:  `9`,
		`VectorDistance(c.e, [1, 1], false, {distanceFunction: "dotproduct"})`: `9`,
		`ST_DISTANCE(c.at, {"type": "Point", "coordinates": [0, 0]})`:          `5`,
		`ST_ISVALID({"type": "Point", "coordinates": [0, 91]})`:                `true`,
	} {
		p, err := Compile("SELECT VALUE "+expr+" FROM c", nil, ix, Options{})
		if err != nil {
			t.Fatal(err)
		}
		page, err := p.Run(t.Context(), list{newDocument(t, ix, 1, doc)}, Budget{})
		got := ""
		if err == nil && len(page.Rows) > 0 {
			got = string(page.Rows[0].JSON)
		}
		if got != want {
			t.Errorf("%s: got %s, %v, want %s", expr, got, err, want)
		}
	}
}

// goodCalls has a call of every function with arguments of the expected kinds,
// and lists which other kinds the function accepts: "1:any" is any kind as
// argument 1.
var goodCalls = map[string][]string{
	`IS_DEFINED(1)`:                     {"0:any"},
	`IS_NULL(1)`:                        {"0:any"},
	`IS_BOOL(1)`:                        {"0:any"},
	`IS_NUMBER(1)`:                      {"0:any"},
	`IS_STRING(1)`:                      {"0:any"},
	`IS_ARRAY(1)`:                       {"0:any"},
	`IS_OBJECT(1)`:                      {"0:any"},
	`IS_PRIMITIVE(1)`:                   {"0:any"},
	`IS_INTEGER(1)`:                     {"0:any"},
	`IS_FINITE_NUMBER(1)`:               {"0:any"},
	`IS_DATETIME(1)`:                    {"0:any"},
	`ABS(1)`:                            nil,
	`ACOS(1)`:                           nil,
	`ASIN(1)`:                           nil,
	`ATAN(1)`:                           nil,
	`CEILING(1)`:                        nil,
	`COS(1)`:                            nil,
	`COT(1)`:                            nil,
	`DEGREES(1)`:                        nil,
	`EXP(1)`:                            nil,
	`FLOOR(1)`:                          nil,
	`LOG10(1)`:                          nil,
	`RADIANS(1)`:                        nil,
	`SIGN(1)`:                           nil,
	`SIN(1)`:                            nil,
	`SQRT(1)`:                           nil,
	`SQUARE(1)`:                         nil,
	`TAN(1)`:                            nil,
	`TRUNC(1)`:                          nil,
	`ATN2(2, 3)`:                        nil,
	`LOG(2, 3)`:                         nil,
	`NumberBin(2, 3)`:                   nil,
	`POWER(2, 3)`:                       nil,
	`ROUND(2, 3)`:                       nil,
	`IntAdd(2, 3)`:                      nil,
	`IntSub(2, 3)`:                      nil,
	`IntMul(2, 3)`:                      nil,
	`IntDiv(2, 3)`:                      nil,
	`IntMod(2, 3)`:                      nil,
	`IntBitAnd(2, 3)`:                   nil,
	`IntBitOr(2, 3)`:                    nil,
	`IntBitXor(2, 3)`:                   nil,
	`IntBitLeftShift(2, 3)`:             nil,
	`IntBitRightShift(2, 3)`:            nil,
	`IntBitNot(2)`:                      nil,
	`PI()`:                              nil,
	`RAND()`:                            nil,
	`LENGTH("ab")`:                      nil,
	`LOWER("ab")`:                       nil,
	`UPPER("ab")`:                       nil,
	`REVERSE("ab")`:                     nil,
	`LTRIM("ab", "a")`:                  nil,
	`RTRIM("ab", "a")`:                  nil,
	`TRIM("ab", "a")`:                   nil,
	`CONTAINS("ab", "a", true)`:         nil,
	`STARTSWITH("ab", "a", true)`:       nil,
	`ENDSWITH("ab", "a", true)`:         nil,
	`STRINGEQUALS("ab", "a", true)`:     nil,
	`CONTAINS_ANY_CI("ab", "a", "b")`:   {"1:any", "2:any"},
	`CONTAINS_ANY_CS("ab", "a", "b")`:   {"1:any", "2:any"},
	`CONTAINS_ALL_CI("ab", "a", "b")`:   nil,
	`CONTAINS_ALL_CS("ab", "a", "b")`:   nil,
	`CONCAT("a", "b", "c")`:             nil,
	`INDEX_OF("ab", "b", 0)`:            nil,
	`LASTINDEXOF("ab", "b", 0)`:         {"2:undefined"},
	`LEFT("ab", 1)`:                     nil,
	`RIGHT("ab", 1)`:                    nil,
	`REPLICATE("ab", 1)`:                nil,
	`SUBSTRING("ab", 0, 1)`:             nil,
	`REPLACE("ab", "a", "c")`:           nil,
	`SUBSTRINGBEFORE("ab", "a")`:        nil,
	`SUBSTRINGAFTER("ab", "a")`:         nil,
	`LASTSUBSTRINGBEFORE("ab", "a")`:    nil,
	`LASTSUBSTRINGAFTER("ab", "a")`:     nil,
	`RegexMatch("ab", "A", "i")`:        nil,
	`REGEXEXTRACT("ab", "a")`:           nil,
	`REGEXEXTRACTALL("ab", "a")`:        nil,
	`REGEXREPLACE("ab", "a", "c", "i")`: nil,
	`REGEXREPLACEALL("ab", "a", "c")`:   nil,
	`ToString(1)`:                       {"0:any"},
	`StringJoin(["a"], "-")`:            nil,
	`StringSplit("a-b", "-")`:           nil,
	`StringToArray("[1]")`:              nil,
	`StringToBoolean("true")`:           nil,
	`StringToNull("null")`:              nil,
	`StringToNumber("1")`:               nil,
	`StringToObject("{}")`:              nil,
	`ARRAY_CONCAT([1], [2], [3])`:       nil,
	`ARRAY_CONTAINS([1], 1, true)`:      {"1:any"},
	`ARRAY_CONTAINS_ANY([1], 2, 1)`:     {"1:any", "2:any"},
	`ARRAY_CONTAINS_ALL([1], 1, 1)`:     {"1:any", "2:any"},
	`ARRAY_LENGTH([1, 2])`:              nil,
	`ARRAY_SUM([1, 2])`:                 nil,
	`ARRAY_AVG([1, 2])`:                 nil,
	`ARRAY_MEDIAN([1, 2])`:              nil,
	`ARRAY_MIN([1, 2])`:                 nil,
	`ARRAY_MAX([1, 2])`:                 nil,
	`ARRAY_SLICE([1, 2], 0, 1)`:         nil,
	`CHOOSE(1, "a", "b")`:               {"1:any", "2:any"},
	`ObjectToArray({a: 1}, "k", "v")`:   {"2:undefined"},
	`SetUnion([1], [1, 2])`:             nil,
	`SetIntersect([1], [1, 2])`:         nil,
	`SetDifference([1], [1, 2])`:        nil,
	`SetEqual([1], [1, 2])`:             nil,
	`NOW()`:                             nil,
	`GetCurrentDateTime()`:              nil,
	`GetCurrentDateTimeStatic()`:        nil,
	`GetCurrentTicks()`:                 nil,
	`GetCurrentTicksStatic()`:           nil,
	`GetCurrentTimestamp()`:             nil,
	`GetCurrentTimestampStatic()`:       nil,
	`AGO("hh", 1)`:                      nil,
	`DateTimeAdd("hh", 1, "2024-02-29T01:02:03Z")`:                                            nil,
	`DateTimeDiff("hh", "2024-02-29T01:02:03Z", "2024-02-29T01:02:03Z")`:                      nil,
	`DateTimePart("hh", "2024-02-29T01:02:03Z")`:                                              nil,
	`DateTimeFromParts(2024, 2, 3, 4, 5, 6, 7)`:                                               nil,
	`DateTimeBin("2024-02-29T01:02:03Z", "hh", 1, "2024-02-29T01:02:03Z")`:                    nil,
	`DateTimeFormat("2024-02-29T01:02:03Z", "yyyy")`:                                          nil,
	`DateTimeToTicks("2024-02-29T01:02:03Z")`:                                                 nil,
	`DateTimeToTimestamp("2024-02-29T01:02:03Z")`:                                             nil,
	`YEAR("2024-02-29T01:02:03Z")`:                                                            nil,
	`MONTH("2024-02-29T01:02:03Z")`:                                                           nil,
	`DAY("2024-02-29T01:02:03Z")`:                                                             nil,
	`TicksToDateTime(1)`:                                                                      nil,
	`TimestampToDateTime(1)`:                                                                  nil,
	`ST_DISTANCE({type: "Point", coordinates: [0, 0]}, {type: "Point", coordinates: [0, 0]})`: nil,
	`ST_WITHIN({type: "Point", coordinates: [0, 0]}, {type: "Polygon", coordinates: [[[0, 0], [1, 0], [1, 1], [0, 0]]]})`:     nil,
	`ST_INTERSECTS({type: "Point", coordinates: [0, 0]}, {type: "Polygon", coordinates: [[[0, 0], [1, 0], [1, 1], [0, 0]]]})`: nil,
	`ST_AREA({type: "Polygon", coordinates: [[[0, 0], [1, 0], [1, 1], [0, 0]]]})`:                                             nil,
	`ST_ISVALID({type: "Point", coordinates: [0, 0]})`:                                                                        {"0:any"},
	`ST_ISVALIDDETAILED({type: "Point", coordinates: [0, 0]})`:                                                                {"0:any"},
	`FullTextContains("a fox", "fox")`:                                                                                        {"1:object", "1:array"},
	`FullTextContainsAll("a fox", "fox", "fox")`:                                                                              {"1:object", "2:object", "1:array", "2:array"},
	`FullTextContainsAny("a fox", "fox", "fox")`:                                                                              {"1:object", "2:object", "1:array", "2:array"},
	`_FullTextWordCount("a fox")`:                                                                                             nil,
	`_FullTextScore("a fox", ["fox"], 1, 2, [1])`:                                                                             nil,
	`VectorDistance([1, 2], [3, 4], true, {})`:                                                                                nil,
	`_VectorScore([1, 2], [3, 4], true, {})`:                                                                                  nil,
	`IIF(true, 1, 2)`:                                                                                                         {"0:any", "1:any", "2:any"},
	`HASH(1, 7)`:                                                                                                              {"0:any"},
	`DOCUMENTID({_rid: "36ZyAPW+uN8NAAAAAAAAAA=="})`:                                                                          nil,
}

// TestFunctionsRefuseKinds replaces each argument of a valid call by values of other
// kinds. Null, undefined and every wrong type make the result undefined, never an
// error.
func TestFunctionsRefuseKinds(t *testing.T) {
	t.Parallel()
	e := newEnv()
	e.now = time.Unix(1_700_000_000, 0)
	seen := map[*function]bool{}
	for text, others := range goodCalls {
		q, err := sql.Parse("SELECT VALUE "+text, nil)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		call := q.Value.(*sql.CallExpr)
		f := functions[strings.ToUpper(call.Name)]
		if f == nil {
			t.Fatalf("%s: no such function", text)
		}
		seen[f] = true
		var args []value.Value
		c := newCompiler(nil, nil, nil)
		for _, arg := range call.Args {
			args = append(args, c.expr(arg).v)
		}
		if v := f.run(e, slices.Clone(args)); !v.IsDefined() || e.err != nil {
			t.Errorf("%s is undefined, %v", text, e.err)
		}
		for i, good := range args {
			for _, odd := range oddValues() {
				if odd.Kind() == good.Kind() || slices.Contains(others, fmt.Sprintf("%d:any", i)) || slices.Contains(others, fmt.Sprintf("%d:%s", i, odd.Kind())) {
					continue
				}
				wrong := slices.Clone(args)
				wrong[i] = odd
				if v := f.run(e, wrong); v.IsDefined() || e.err != nil {
					t.Errorf("%s with %s as argument %d is %s, %v", text, odd.JSON(), i, v.JSON(), e.err)
					e.err = nil
					break
				}
			}
		}
	}
	for name, f := range functions {
		if !seen[f] && !f.aggregate && f.name != "RRF" && f.name != "FullTextScore" { // those two occur only in ORDER BY RANK
			t.Errorf("%s has no call in goodCalls", name)
		}
	}
}
