package query

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/decandb/decan/internal/value"
)

// writtenValue returns JSON in one of the forms that a client may write it in.
func writtenValue(r *rand.Rand) string {
	scalar := func() string {
		return pick(r, []string{
			"null", "true", "false", "0", "-0", "1", "1.0", "10e-1", "7", "-7", "123456789012345678", "1234567890123456789",
			"12345678901234567890", "0.5", `""`, `"a"`, `"\u0061"`, `"b"`, `"}{]["`, `"\\"`, `"\""`, `"a\\\\"`, `"é"`, `"\u00e9"`, `"aa"`,
		})
	}
	switch r.IntN(6) {
	case 0:
		return fmt.Sprintf(`[%s, %s ]`, scalar(), scalar())
	case 1:
		return fmt.Sprintf("{\"a\":\n%s,\"\\u0061b\" : %s}", scalar(), scalar())
	case 2:
		return pick(r, []string{"[]", "[ ]", "{}", "{ }"})
	}
	return scalar()
}

// The result of comparing a place with a constant depends on its value only, not
// on how it is written.
func TestPlaceComparison(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 10))
	var places value.Locator
	slot := places.Add(value.Path{{Name: "a"}})
	e := env{places: &places, cells: make([]value.Located, places.Len())}
	for range 20_000 {
		text := `{}`
		if r.IntN(20) > 0 {
			text = `{"a":` + writtenValue(r) + `}`
		}
		constant, err := value.ParseString(writtenValue(r))
		if err != nil {
			t.Fatal(err)
		}
		op := pick(r, []string{"=", "!=", "<", "<=", ">", ">="})
		e.load([]byte(text))
		got := placeComparison(op, slot, constant)(&e)
		e.load([]byte(text))
		if want := comparison(op)(e.at(slot), constant); got != want || e.err != nil {
			t.Fatalf("seed %d: a %s %s in %s is %d, want %d, %v", seed, op, constant.JSON(), text, got, want, e.err)
		}
	}
}

// A run over many documents allocates no memory per document.
func TestCountDoesNotAllocate(t *testing.T) {
	var docs plainList
	for i := range 2000 {
		docs = append(docs, Candidate{Number: uint64(i + 1), Body: fmt.Appendf(nil, `{"id":"%d","a":{"b":[1,2]},"s":"x%d","n":%d}`, i, i, i)})
	}
	for _, filter := range []string{`c.n > 5`, `c.s = "x7"`, `c.a.b[1] = 2 AND c.n < 1000`, `c.none = 1`, `c.n BETWEEN 2 AND 4`} {
		p := mustCompile(t, "SELECT COUNT(1) AS n, SUM(c.n) AS s FROM c WHERE "+filter)
		allocs := testing.AllocsPerRun(3, func() {
			if _, err := p.Run(t.Context(), docs, Budget{}); err != nil {
				t.Fatal(err)
			}
		})
		if allocs > 50 {
			t.Errorf("%s: %g allocations for 2000 documents", filter, allocs)
		}
	}
}

// A run that finds one document makes only a few allocations.
func TestFindAllocations(t *testing.T) {
	docs := plainList{{Number: 1, Body: []byte(`{"id":"1","n":2,"s":"x"}`)}}
	p := mustCompile(t, `SELECT * FROM c WHERE c.id = "1" AND c.n = 2`)
	allocs := testing.AllocsPerRun(100, func() {
		if page, err := p.Run(t.Context(), docs, Budget{}); err != nil || len(page.Rows) != 1 {
			t.Fatal(len(page.Rows), err)
		}
	})
	if allocs > 12 {
		t.Errorf("%g allocations", allocs)
	}
}
