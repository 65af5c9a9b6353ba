package query

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/value"
)

// matcherPolicies are indexes that leave something out, or have more than ranges.
func matcherPolicies(tb testing.TB) []*index.Index {
	tb.Helper()
	policies := []resource.IndexingPolicy{
		{Included: []string{"/*"}},
		{Included: []string{"/*"}, Excluded: []string{"/n/b/?", "/t/*"}},
		{Included: []string{"/a/?", "/n/*"}, Excluded: []string{"/*"}},
		{Included: []string{"/*"}, Composite: [][]resource.CompositePath{{{Path: "/a"}, {Path: "/b", Descending: true}}}},
	}
	var list []*index.Index
	for _, p := range policies {
		p.Mode, p.Automatic = resource.IndexingConsistent, true
		ix, err := index.Compile(p)
		if err != nil {
			tb.Fatal(err)
		}
		list = append(list, ix)
	}
	return list
}

// A Matcher decides about a document as its terms in the index do: for each filter
// that it supports, whatever the policy leaves out, and whichever documents it
// has seen before.
func TestMatcherAgainstTerms(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 12))
	matchable, held := 0, 0
	for _, ix := range matcherPolicies(t) {
		type stored struct {
			body  []byte
			terms []index.Term
			ts    int64
		}
		var docs []stored
		for i := range 120 {
			d := newDocument(t, ix, uint64(i+1), matcherDocument(r, i))
			ts := int64(r.IntN(4))
			docs = append(docs, stored{d.body, ix.Stamp(slices.Clone(d.terms), ts), ts})
		}
		for range 600 {
			filter := randomFilter(r, r.IntN(4))
			if r.IntN(5) == 0 {
				filter += fmt.Sprintf(" AND c._ts %s %d", pick(r, []string{"=", "<", ">=", "!="}), r.IntN(4))
			}
			p, err := Compile("SELECT * FROM c WHERE "+filter, nil, ix, Options{})
			if err != nil {
				t.Fatalf("seed %d: %s: %v", seed, filter, err)
			}
			matcher := NewMatcher(ix, p.Access())
			if matcher == nil {
				continue
			}
			matchable++
			for _, d := range docs {
				want := p.Access().Admits(d.terms)
				if want && p.Access().Op != index.All {
					held++
				}
				if got := matcher.Match(d.body, d.ts); got != want {
					t.Fatalf("seed %d: %s of %s at %d: %t, and its terms say %t: %v", seed, filter, d.body, d.ts, got, want, p.Access())
				}
			}
		}
	}
	if matchable < 600 || held < 1000 {
		t.Errorf("%d filters were matchable, and %d documents held: too few to show anything", matchable, held)
	}
}

// matcherDocument is a random document, sometimes with a value that its term does not
// show, or with members written in unusual ways.
func matcherDocument(r *rand.Rand, number int) string {
	text := randomDocument(r, number)
	switch r.IntN(6) {
	case 0:
		text = strings.Replace(text, `"id"`, ` "i\u0064" `, 1)
	case 1:
		text = strings.TrimSuffix(text, "}") + `,"long":"` + strings.Repeat("x", 2000+r.IntN(3)) + `"}`
	case 2:
		text = strings.Replace(text, `"a":1`, `"a":1.0e0`, 1)
	case 3:
		text = strings.Replace(text, `"a":"a"`, `"a":"\u0061"`, 1)
	}
	return text
}

// A term of a long string shows only its beginning. A Matcher answers yes where
// the lists do, even where the value would allow a more exact answer.
func TestMatcherOfLongStrings(t *testing.T) {
	t.Parallel()
	ix := newIndex(t)
	long := strings.Repeat("x", 3000)
	for _, filter := range []string{`c.s = "` + long + `"`, `c.s > "x"`, `CONTAINS(c.s, "y")`, `STARTSWITH(c.s, "` + long[:2000] + `")`, `ENDSWITH(c.s, "x")`} {
		p, err := Compile("SELECT * FROM c WHERE "+filter, nil, ix, Options{})
		if err != nil {
			t.Fatal(err)
		}
		matcher := NewMatcher(ix, p.Access())
		if matcher == nil {
			t.Errorf("no matcher for %.40s", filter)
			continue
		}
		for _, s := range []string{"", "x", long, long + "y", long[:2999], "y" + long} {
			d := newDocument(t, ix, 1, `{"id":"1","s":"`+s+`"}`)
			if got, want := matcher.Match(d.body, 0), p.Access().Admits(d.terms); got != want {
				t.Errorf("%.40s of a string of %d bytes: %t, and its terms say %t", filter, len(s), got, want)
			}
		}
	}
}

// An expression that depends on more than the values at single paths has no Matcher:
// elements of arrays and computed properties. Neither has an expression of very many
// parts.
func TestMatcherUnsupported(t *testing.T) {
	t.Parallel()
	ix := newIndex(t)
	many := "c.a = 0"
	for i := range matcherMax {
		many += fmt.Sprintf(" OR c.b%d > %d", i, i)
	}
	for filter, want := range map[string]bool{
		`ARRAY_CONTAINS(c.t, 1)`:                           false,
		`EXISTS(SELECT VALUE x FROM x IN c.t WHERE x = 1)`: false,
		`c.a = 1 AND ARRAY_CONTAINS(c.t, 1)`:               false,
		many:                                               false,
		`c.a = 1 AND (c.b > 2 OR c.n.a = "x")`:             true,
		`c._ts > 5`:                                        true,
		`c.a IN (1, 2, 3) AND NOT IS_NULL(c.b) AND c.id > "1"`:      true,
		`STARTSWITH(c.a, "x") AND CONTAINS(c.b, "y") AND c._ts > 1`: true,
	} {
		p, err := Compile("SELECT * FROM c WHERE "+filter, nil, ix, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := NewMatcher(ix, p.Access()) != nil; got != want {
			t.Errorf("%.80s has a Matcher: %t, want %t", filter, got, want)
		}
	}
	docs, rooted, computed := rooted(t)
	p, err := Compile("SELECT * FROM c WHERE c.root > 1", nil, rooted, Options{Computed: computed})
	if err != nil {
		t.Fatal(err)
	}
	if p.Access().Op == index.All || len(docs) == 0 {
		t.Fatalf("the access does not use the computed property: %v", p.Access())
	}
	if NewMatcher(rooted, p.Access()) != nil {
		t.Error("a condition on a computed property, which is not stored, has a Matcher")
	}
}

// For bytes that are not JSON a Matcher answers yes: the reader of the document
// then finds the error.
func TestMatcherOfDamage(t *testing.T) {
	t.Parallel()
	ix := newIndex(t)
	p, err := Compile("SELECT * FROM c WHERE c.a = 1", nil, ix, Options{})
	if err != nil {
		t.Fatal(err)
	}
	matcher := NewMatcher(ix, p.Access())
	for _, body := range []string{"", "  ", "{", `{"b":`, `{"b":[1,`, "\x00"} {
		if !matcher.Match([]byte(body), 0) {
			t.Errorf("%q does not match", body)
		}
	}
	if matcher.Match([]byte(`{"a":2}`), 0) || !matcher.Match([]byte(`{"a":1}`), 0) {
		t.Error("documents after damaged ones are not matched")
	}
}

// A Matcher allocates no memory per document.
func TestMatcherDoesNotAllocate(t *testing.T) {
	if raceDetector {
		t.Skip("with the race detector a sync.Pool forgets values at random")
	}
	ix := newIndex(t)
	p, err := Compile(`SELECT * FROM c WHERE c.n > 5 AND c.s IN ("a", "b", "c") AND c.o.x != true AND CONTAINS(c.s, "a")`, nil, ix, Options{})
	if err != nil {
		t.Fatal(err)
	}
	matcher := NewMatcher(ix, p.Access())
	if matcher == nil {
		t.Fatal("no matcher")
	}
	body := []byte(`{"id":"1","n":7,"o":{"x":false},"s":"a","t":[1,2,3]}`)
	matcher.Match(body, 0)
	if n := testing.AllocsPerRun(100, func() { matcher.Match(body, 0) }); n > 0 {
		t.Errorf("%g allocations for each document", n)
	}
}

// FuzzMatcher tests any filter on any document that could be stored, in each
// policy.
func FuzzMatcher(f *testing.F) {
	f.Add(`c.a = 1 AND c.b > "x"`, `{"id":"1","a":1,"b":"xy"}`, int64(3))
	f.Add(`STARTSWITH(c.n.a, "\u0061") OR c._ts < 5`, `{"n":{"\u0061":"ab","b":null},"a":[{}]}`, int64(5))
	f.Add(`NOT (c.a IN (1, "1", null)) AND IS_DEFINED(c.b)`, `{"a":{"b":1},"b":[]}`, int64(0))
	f.Add(`CONTAINS(c.a, "b") AND c.n >= 1e300`, `{"a":"abc","n":1E301}`, int64(1))
	policies := matcherPolicies(f)
	f.Fuzz(func(t *testing.T, filter, text string, ts int64) {
		doc, err := value.ParseString(text)
		if err != nil || doc.Kind() != value.KindObject || !utf8.ValidString(text) || ts < 0 {
			return
		}
		body := doc.Without("_rid", "_self", "_etag", "_ts", "_attachments").Append(nil)
		if doc, err = value.ParseString(string(body)); err != nil {
			t.Fatal(err)
		}
		for _, ix := range policies {
			p, err := Compile("SELECT * FROM c WHERE "+filter, nil, ix, Options{})
			if err != nil {
				return
			}
			matcher := NewMatcher(ix, p.Access())
			if matcher == nil {
				continue
			}
			want := p.Access().Admits(ix.Stamp(ix.Terms(nil, doc), ts))
			for range 3 {
				if got := matcher.Match(body, ts); got != want {
					t.Fatalf("%q of %s at %d: %t, and its terms say %t: %v", filter, body, ts, got, want, p.Access())
				}
			}
		}
	})
}
