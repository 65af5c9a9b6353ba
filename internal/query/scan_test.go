package query

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/decandb/decan/internal/value"
)

// writtenJSON is a random value as somebody may have written it: with blanks,
// with escapes where none are needed, with numbers in several forms, and with
// few names, in any order.
func writtenJSON(r *rand.Rand, depth int) string {
	blank := func() string { return pick(r, []string{"", "", "", " ", "\n\t"}) }
	list := func(open, closing string, item func() string) string {
		var items []string
		for range r.IntN(5) {
			items = append(items, blank()+item()+blank())
		}
		return open + strings.Join(items, ",") + closing
	}
	kind := r.IntN(6)
	if depth == 0 {
		kind = min(kind, 3)
	}
	switch kind {
	case 4:
		return list("[", "]", func() string { return writtenJSON(r, depth-1) })
	case 5:
		names := []string{`"a"`, `"b"`, `"\u0061b"`, `"c\""`, `"long name"`, `""`}
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		return list("{", "}", func() string {
			name := names[0]
			names = append(names[1:], fmt.Sprintf(`"%d"`, len(names)+r.IntN(1<<40)))
			return name + blank() + ":" + blank() + writtenJSON(r, depth-1)
		})
	case 0:
		return pick(r, []string{"null", "true", "false"})
	case 1:
		return pick(r, []string{"0", "-0", "1", "1.0", "10e-1", "7", "-7", "123456789012345678", "1234567890123456789", "12345678901234567890", "0.5"})
	}
	return pick(r, []string{`""`, `"a"`, `"\u0061"`, `"b"`, `"}{]["`, `"\\"`, `"\""`, `"a\\\\"`, `"é"`, `"\u00e9"`, `"aa"`})
}

// checkPlaces compares what is found in the text of a document with what the parser
// finds at the paths, by their slots.
func checkPlaces(t *testing.T, e *env, text string, doc value.Value, paths map[int][]step, seed uint64) {
	t.Helper()
	e.load([]byte(text))
	for slot, path := range paths {
		want := doc
		for _, s := range path {
			if s.IsIndex {
				want = want.Index(s.Index)
			} else {
				want = want.Get(s.Name)
			}
		}
		got := e.at(slot)
		if e.err != nil || got.IsDefined() != want.IsDefined() || got.IsDefined() && !value.Equal(got, want) {
			t.Fatalf("seed %d: %v of %s: got %s, %v, want %s", seed, path, text, got.JSON(), e.err, want.JSON())
		}
	}
}

// What a pass over the bytes finds is what the parser finds, document after
// document, whatever those before it looked like.
func TestLocateAgainstParser(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 9))
	for range 300 {
		root, slots := branch{slot: -1}, 0
		paths := map[int][]step{}
		for range 1 + r.IntN(30) {
			var path []step
			for range r.IntN(4) {
				s := step{Name: pick(r, []string{"a", "b", "ab", `c"`, "long name", ""})}
				if r.IntN(4) == 0 {
					s = step{Index: r.IntN(4), IsIndex: true}
				}
				path = append(path, s)
			}
			paths[root.add(path, &slots)] = path
		}
		e := env{root: &root, cells: make([]cell, slots)}
		for range 20 {
			text := writtenJSON(r, 3)
			doc, err := value.ParseString(text)
			if err != nil {
				t.Fatalf("seed %d: %s: %v", seed, text, err)
			}
			checkPlaces(t, &e, text, doc, paths, seed)
		}
	}
}

// Names that are looked for in the bytes are found where the parser finds them, in
// documents that resemble each other: with strings that look like names, brackets in
// strings, the same names in objects in front and behind, and escapes now and then.
func TestLeapAgainstParser(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 11))
	names := []string{"a", "kind", "a:b", ":x", "x{y", "[", ",", "é", "a b", "plain"}
	texts := []string{`"a"`, `"kind"`, `"{"`, `"]}["`, `"a:b"`, `"plain"`, `","`, `""`, `"` + strings.Repeat("x", 90) + `"`}
	leaps := 0
	for range 300 {
		root, slots := branch{slot: -1}, 0
		paths := map[int][]step{}
		for range 1 + r.IntN(leapMax+1) {
			path := []step{{Name: pick(r, names)}}
			if r.IntN(4) == 0 {
				path = append(path, step{Name: pick(r, names)})
			}
			paths[root.add(path, &slots)] = path
		}
		e := env{root: &root, cells: make([]cell, slots)}
		order := r.Perm(len(names))
		blank := pick(r, []string{"", "", " "})
		for range 30 {
			var members []string
			for _, n := range order {
				v := pick(r, append(texts, "7", "-1.5", "true"))
				switch r.IntN(12) {
				case 0:
					v = fmt.Sprintf(`{%q:%s,"n":[%s,{%q:1}]}`, pick(r, names), v, v, pick(r, names))
				case 1:
					v = fmt.Sprintf(`[%s,{%q%s:%s}]`, v, pick(r, names), blank, v)
				case 2:
					continue
				}
				if r.IntN(100) == 0 {
					v = `"\""`
				}
				members = append(members, fmt.Sprintf("%q%s:%s%s", names[n], blank, blank, v))
			}
			text := "{" + strings.Join(members, ","+blank) + "}"
			doc, err := value.ParseString(text)
			if err != nil {
				t.Fatalf("seed %d: %s: %v", seed, text, err)
			}
			checkPlaces(t, &e, text, doc, paths, seed)
			if e.shape.begun && e.shape.spots != [leapMax]int{} && e.shape.lost == 0 {
				leaps++
			}
		}
	}
	if leaps < 500 {
		t.Errorf("seed %d: %d documents were read by leaps", seed, leaps)
	}
}

// A damaged document is told by a leap as well.
func TestLeapDamaged(t *testing.T) {
	t.Parallel()
	root, slots := branch{slot: -1}, 0
	slot := root.add([]step{{Name: "b"}}, &slots)
	e := env{root: &root, cells: make([]cell, slots)}
	for _, text := range []string{`{"a":1,"b":2}`, `{"a":1,"b":2}`, `{"a":1,"b":}`} {
		e.load([]byte(text))
		if v := e.at(slot); v.IsDefined() == (e.err != nil) {
			t.Errorf("%s: %s, %v", text, v.JSON(), e.err)
		}
	}
	if e.err == nil {
		t.Error("a document without a value is no error")
	}
}

// FuzzLocate looks for two places in a document, which is there three times.
func FuzzLocate(f *testing.F) {
	f.Add(`{"a":"b","b":{"a":1},"c":[{"b":2}]}`, "a", "b")
	f.Add(`{"x{":"}","a b":"\\"}`, "x{", "a b")
	f.Add(`{",":1,"a":","}`, ",", "")
	f.Fuzz(func(t *testing.T, text, a, b string) {
		doc, err := value.ParseString(text)
		if err != nil || !utf8.ValidString(a) || !utf8.ValidString(b) {
			return
		}
		text = string(doc.Append(nil)) // as it is stored: without two members of one name
		root, slots := branch{slot: -1}, 0
		paths := map[int][]step{}
		for _, path := range [][]step{{{Name: a}}, {{Name: b}, {Name: a}}} {
			paths[root.add(path, &slots)] = path
		}
		e := env{root: &root, cells: make([]cell, slots)}
		for range 3 {
			checkPlaces(t, &e, text, doc, paths, 0)
		}
	})
}

// A comparison of a place with a constant is that of its value, however it is
// written.
func TestPlaceComparison(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 10))
	root, slots := branch{slot: -1}, 0
	slot := root.add([]step{{Name: "a"}}, &slots)
	e := env{root: &root, cells: make([]cell, slots)}
	for range 20_000 {
		text := `{}`
		if r.IntN(20) > 0 {
			text = `{"a":` + writtenJSON(r, 1) + `}`
		}
		constant, err := value.ParseString(writtenJSON(r, 1))
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

// A run over many documents takes no memory for each of them.
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

// A run that finds one document takes a handful of pieces of memory.
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
