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

// takesUndefined are the functions that make something of an undefined argument.
// All others are undefined then.
var takesUndefined = map[string]bool{
	"IS_DEFINED": true, "IS_NULL": true, "IS_BOOL": true, "IS_NUMBER": true, "IS_STRING": true, "IS_ARRAY": true, "IS_OBJECT": true,
	"IS_PRIMITIVE": true, "IS_INTEGER": true, "IS_FINITE_NUMBER": true, "IS_DATETIME": true, "IIF": true, "CHOOSE": true,
	"ARRAY_CONTAINS_ANY": true, "ARRAY_CONTAINS_ALL": true, // as OR and AND
	"CONTAINS_ANY_CI": true, "CONTAINS_ANY_CS": true, "CONTAINS_ALL_CI": true, "CONTAINS_ALL_CS": true,
}

// TestFunctionsOfAnything calls every function with whatever there is: none
// panics, and those that promise it are undefined for undefined.
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

// TestBoundFunctions compares calls whose arguments are constant, or from a
// document, with each other: what is worked out once must be what each document
// would give.
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
	b := binding{args: make([]Expr, len(args)), parts: make([]code, len(args))}
	for i, arg := range args {
		b.args[i] = &Literal{Value: arg}
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
		list = append(list, fmt.Sprintf("%q", (&Literal{Value: arg}).String()))
	}
	return strings.Join(list, ", ")
}

// TestPolicies shows that functions follow the policies of the container for the
// property that they are asked about.
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
		`[VectorDistance(c.e, [1]), VectorDistance(c.at, [1, 1]), VectorDistance(c.none, [1, 1]), VectorDistance(c.e, "x")]`:   `[]`,
		`[VectorDistance(c.e, [1, 1], 1), VectorDistance(c.e, [1, 1], true, {distanceFunction: c.fr}), _VectorScore(c.e, [])]`: `[]`,
		`VectorDistance([1, 1], c.e, c.yes, {distanceFunction: "dotproduct"})`:                                                 `9`,
		`VectorDistance(c.e, [1, 1], false, {distanceFunction: "dotproduct"})`:                                                 `9`,
		`ST_DISTANCE(c.at, {"type": "Point", "coordinates": [0, 0]})`:                                                          `5`,
		`ST_ISVALID({"type": "Point", "coordinates": [0, 91]})`:                                                                `true`,
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
