package index

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/geo"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/text"
	"github.com/decandb/decan/internal/value"
)

// everything is a container with all kinds of indexes.
const everything = `{"computedProperties":[{"name":"cp","query":"SELECT VALUE c.a FROM c"}],
"fullTextPolicy":{"fullTextPaths":[{"path":"/text"}]},
"vectorEmbeddingPolicy":{"vectorEmbeddings":[{"path":"/v","dimensions":3},{"path":"/a","dimensions":2,"dataType":"int8"}]},
"indexingPolicy":{"includedPaths":[{"path":"/*"},{"path":"/cp/?"},{"path":"/list/[]/{a, b/c}/?"}],
"compositeIndexes":[[{"path":"/a"},{"path":"/b","order":"descending"}],[{"path":"/cp"},{"path":"/_ts"}]],
"spatialIndexes":[{"path":"/*","types":["Point","Polygon","MultiPolygon","LineString"]}],"fullTextIndexes":[{"path":"/text"}],
"vectorIndexes":[{"path":"/v","type":"quantizedFlat","quantizationByteSize":2},{"path":"/a","type":"flat"}]}}`

// rich generates a document with values for all kinds of indexes.
func (r random) rich() value.Value {
	doc := r.document(2)
	if r.coin() {
		doc = doc.With("cp", r.value(1))
	}
	if r.coin() {
		doc = doc.With("text", value.String(r.words()))
	}
	if r.coin() {
		doc = doc.With("place", r.shape(geo.Geography))
	}
	items := make([]value.Value, r.IntN(4))
	for i := range items {
		items[i] = r.document(1)
	}
	return doc.With("list", value.Array(items))
}

func (r random) words() string {
	pool := []string{"run", "runs", "running", "The", "and", "naïve", "Straße", "x1", "swim", strings.Repeat("long", 20)}
	words := make([]string, r.IntN(6))
	for i := range words {
		words[i] = pool[r.IntN(len(pool))]
	}
	return strings.Join(words, " ")
}

// shape generates a geometry around the origin, as GeoJSON.
func (r random) shape(s geo.System) value.Value {
	scale := 8.0
	if s == geo.Geometry {
		scale = 3
	}
	x, y := (r.Float64()-0.5)*scale, (r.Float64()-0.5)*scale
	point := func(dx, dy float64) value.Value {
		return value.Array([]value.Value{value.Number(x + dx), value.Number(y + dy)})
	}
	kind, coordinates := "Point", point(0, 0)
	size := r.Float64() * scale / 3
	switch r.IntN(3) {
	case 0:
		kind, coordinates = "LineString", value.Array([]value.Value{point(0, 0), point(size, size/2)})
	case 1:
		kind = "Polygon"
		coordinates = value.Array([]value.Value{value.Array([]value.Value{point(0, 0), point(size+0.1, 0), point(size+0.1, size+0.1), point(0, size+0.1), point(0, 0)})})
	}
	return value.Object([]value.Member{{Name: "type", Value: value.String(kind)}, {Name: "coordinates", Value: coordinates}})
}

// finds reports whether an expression includes a document.
func finds(e Expr, terms []Term) bool {
	switch e.Op {
	case All:
		return true
	case Leaf:
		return inSpan(terms, e.Span)
	case Filter:
		return slices.ContainsFunc(terms, func(t Term) bool {
			v, exact := DecodeTerm(t)
			return e.Span.Low <= t && t < e.Span.High && (!exact || e.Test(v))
		})
	case And:
		return !slices.ContainsFunc(e.Args, func(arg Expr) bool { return !finds(arg, terms) })
	case Or:
		return slices.ContainsFunc(e.Args, func(arg Expr) bool { return finds(arg, terms) })
	}
	return false
}

// TestSpatialFindsAll checks that every shape that intersects another, or is
// near it, is found by its cells.
func TestSpatialFindsAll(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		system geo.System
		policy string
	}{
		{geo.Geography, `{"indexingPolicy":{"spatialIndexes":[{"path":"/*","types":["Point","Polygon","MultiPolygon","LineString"]}]}}`},
		{geo.Geometry, `{"geospatialConfig":{"type":"Geometry"},"indexingPolicy":{"spatialIndexes":[{"path":"/*","types":["Point","Polygon","MultiPolygon","LineString"],"boundingBox":{"xmin":-9,"ymin":-9,"xmax":9,"ymax":9}},{"path":"/place/?","types":["Point","Polygon","MultiPolygon","LineString"],"boundingBox":{"xmin":-1,"ymin":-1,"xmax":1,"ymax":1}}]}}`},
	} {
		x := mustContainer(t, c.policy)
		if x.System() != c.system {
			t.Errorf("system %v, want %v", x.System(), c.system)
		}
		hits, misses := 0, 0
		for seed := range uint64(400) {
			r := newRandom(seed)
			path := Path{"place"}
			doc := value.Object([]value.Member{{Name: "place", Value: r.shape(c.system)}})
			if r.coin() {
				path = Path{"places", Element}
				doc = value.Object([]value.Member{{Name: "places", Value: value.Array([]value.Value{doc.Get("place")})}})
			}
			grid, ok := x.Grid(path)
			if !ok {
				t.Fatalf("no grid at %s", path)
			}
			asked := r.shape(c.system)
			shape, _ := geo.Parse(asked, c.system)
			kept, _ := geo.Parse(doc.Get("place"), c.system)
			if len(path) > 1 {
				kept, _ = geo.Parse(doc.Get("places").Index(0), c.system)
			}
			e, ok := x.Spatial(path, grid.Query(nil, shape))
			if !ok || e.Exact() {
				t.Fatalf("seed %d: spatial expression at %s: %t, exact %t", seed, path, ok, e.Exact())
			}
			found := finds(e, x.Terms(nil, doc))
			if !found && geo.Intersects(shape, kept) {
				t.Fatalf("seed %d: %s intersects %s and is not found", seed, doc, asked)
			}
			if found {
				hits++
			} else {
				misses++
			}
			near, _ := x.Spatial(path, grid.Near(nil, shape, 1))
			if d, ok := geo.Distance(shape, kept); ok && d < 1 && !finds(near, x.Terms(nil, doc)) {
				t.Fatalf("seed %d: %s is %g from %s and is not found", seed, doc, d, asked)
			}
		}
		if hits < 20 || misses < 20 {
			t.Errorf("system %v: %d hits and %d misses: the test draws too little", c.system, hits, misses)
		}
	}
}

// TestManyShapes checks that the work for a document with many geometries is
// bounded, that all are found, and that points keep their own cells.
func TestManyShapes(t *testing.T) {
	t.Parallel()
	const sharp = shapeWorkMax / shapeWorkMin
	geometry := func(format string, i int) string {
		x, y := float64(i%100), float64(i/100)
		return fmt.Sprintf(format, x, y, x+0.2, y, x+0.2, y+0.2, x, y)
	}
	const (
		line    = `{"type":"LineString","coordinates":[[%g,%g],[%g,%g],[%g,%g]],"n":[%g,%g]}`
		area    = `{"type":"Polygon","coordinates":[[[%g,%g],[%g,%g],[%g,%g],[%g,%g]]]}`
		invalid = `{"type":"Polygon","coordinates":[[[%g,%g],[%g,%g],[%g,%g],[%g,%g],[0,0],[1,0]]]}`
		point   = `{"type":"Point","coordinates":[%g,%g],"n":[%g,%g,%g,%g,%g,%g]}`
	)
	for _, c := range []struct{ system, members string }{
		{"Geography", `{"indexingPolicy":{"excludedPaths":[{"path":"/*"}],"spatialIndexes":[{"path":"/*","types":["Point","Polygon","MultiPolygon","LineString"]}]}}`},
		{"Geometry", `{"geospatialConfig":{"type":"Geometry"},"indexingPolicy":{"excludedPaths":[{"path":"/*"}],"spatialIndexes":[{"path":"/*","types":["Point","Polygon","MultiPolygon","LineString"],"boundingBox":{"xmin":-10,"ymin":-10,"xmax":110,"ymax":110}}]}}`},
	} {
		x := mustContainer(t, c.members)
		grid, _ := x.Grid(Path{"a", Element})
		found := func(terms []Term, at string) bool {
			shape, ok := geo.Parse(parse(t, at), x.System())
			e, served := x.Spatial(Path{"a", Element}, grid.Query(nil, shape))
			if !ok || !served {
				t.Fatalf("%s is not a query", at)
			}
			return finds(e, terms)
		}
		const far = `{"type":"Point","coordinates":[-7.5,-7.5]}`
		for _, n := range []int{sharp, sharp + 1, 4 * sharp} {
			for _, format := range []string{line, area, invalid, point} {
				items := make([]string, n)
				for i := range items {
					items[i] = geometry(format, i)
				}
				terms := x.Terms(nil, parse(t, `{"id":"1","a":[`+strings.Join(items, ",")+`]}`))
				if most := sharp*cellsMax + 6 + 1; format != point && len(terms) > most {
					t.Errorf("%s: %d of %s have %d terms, more than %d", c.system, n, format, len(terms), most)
				}
				for i := 0; i < n; i += 37 {
					if format != invalid && !found(terms, items[i]) {
						t.Errorf("%s: number %d of %d is not found: %s", c.system, i, n, items[i])
					}
				}
				if everywhere := format != point && n > sharp; found(terms, far) != everywhere {
					t.Errorf("%s: %d of %s are everywhere: %t, want %t", c.system, n, format, !everywhere, everywhere)
				}
			}
		}
	}
}

// TestFullTextFindsAll checks that texts are found by their tokens and by no
// others.
func TestFullTextFindsAll(t *testing.T) {
	t.Parallel()
	x := mustContainer(t, everything)
	path := Path{"text"}
	analyzer, _ := text.For("en-US")
	hits, exact := 0, 0
	for seed := range uint64(500) {
		r := newRandom(seed)
		doc := value.Object([]value.Member{{Name: "text", Value: value.String(r.words())}, {Name: "other", Value: value.String(r.words())}})
		terms := x.Terms(nil, doc)
		tokens := analyzer.Tokens(nil, doc.Get("text").Text())
		phrase := analyzer.Phrase(r.words())
		if r.IntN(3) == 0 {
			phrase, _ = analyzer.Fuzzy(r.words(), 1)
		}
		if loose, ok := x.FullText(path, phrase.Tokens()); ok != (len(phrase.Tokens()) > 0) || ok && loose.Exact() {
			t.Fatalf("seed %d: %d tokens, served %t", seed, len(phrase.Tokens()), ok)
		} else if phrase.Distance() == 0 && phrase.Match(tokens) && !finds(loose, terms) {
			t.Fatalf("seed %d: %s matches %v and is not found", seed, doc, phrase.Tokens())
		}
		e, ok := x.Phrase(path, phrase)
		if !ok {
			t.Fatal("no full-text index")
		}
		got, want := finds(e, terms), phrase.Match(tokens)
		if want && !got || got && !want && e.Exact() {
			t.Fatalf("seed %d: %s matches %v %t, found %t, exact %t", seed, doc, phrase.Tokens(), want, got, e.Exact())
		}
		if got {
			hits++
		}
		if e.Exact() && e.Op != None {
			exact++
		}
	}
	if hits < 50 || exact < 20 {
		t.Errorf("only %d texts found and %d exact expressions: the test draws too little", hits, exact)
	}
	if _, ok := x.Phrase(Path{"other"}, analyzer.Phrase("run")); ok {
		t.Error("a path without an index is served")
	}
}

// TestTupleAgreesWithElements checks that a tuple finds the documents in which
// one element has all the values.
func TestTupleAgreesWithElements(t *testing.T) {
	t.Parallel()
	x := mustContainer(t, everything)
	members, hits := []Path{{"b", "c"}, {"a"}}, 0
	for seed := range uint64(2000) {
		r := newRandom(seed)
		doc := r.rich()
		values := []value.Value{r.value(1), r.value(1)}
		n := 1 + r.IntN(2)
		if n == 2 && r.coin() && doc.Get("list").Len() > 0 {
			item := doc.Get("list").Index(r.IntN(doc.Get("list").Len()))
			values = []value.Value{members[0].at(item), members[1].at(item)}
		}
		s, used := x.Tuple(Path{"list", Element}, members[2-n:], values[2-n:])
		// The tuple has a before b/c.
		places := []int{n - 1, 0}[:n]
		for i, place := range places {
			if !values[2-n+place].IsDefined() {
				places = places[:i]
				break
			}
		}
		if !slices.Equal(used, places) {
			t.Fatalf("seed %d: of the tuple of %v, %v are served, want %v", seed, values[2-n:], used, places)
		}
		if len(used) == 0 {
			continue
		}
		want := slices.ContainsFunc(doc.Get("list").Items(), func(item value.Value) bool {
			for _, i := range used {
				if !value.Equal(members[2-n+i].at(item), values[2-n+i]) {
					return false
				}
			}
			return true
		})
		if got := inSpan(x.Terms(nil, doc), s); want && !got || got && !want && s.Exact {
			t.Fatalf("seed %d: %s has an element with %v %t, found %t, exact %t", seed, doc, values[2-n:], want, got, s.Exact)
		}
		if want {
			hits++
		}
	}
	if hits < 50 {
		t.Errorf("only %d documents found: the test draws too little", hits)
	}
	for _, c := range []struct {
		members []Path
		want    []int
	}{
		{[]Path{{"b", "c"}}, nil},
		{[]Path{{"x"}, {"a"}}, []int{1}},
		{[]Path{{"x"}, {"b", "c"}, {"a"}}, []int{2, 1}},
		{[]Path{{"a"}, {"a"}}, []int{0}},
		{nil, nil},
	} {
		values := make([]value.Value, len(c.members))
		for i := range values {
			values[i] = value.Int(1)
		}
		s, used := x.Tuple(Path{"list", Element}, c.members, values)
		if !slices.Equal(used, c.want) || s.One != (len(used) == 2) {
			t.Errorf("of the tuple of %v, %v are served in %v", c.members, used, s)
		}
		if _, used := x.Tuple(Path{"list"}, c.members, values); len(used) > 0 {
			t.Errorf("a tuple of the array itself: %v", used)
		}
	}
}

// TestLongPhrase checks that a phrase as long as a document is looked up by its
// first tokens.
func TestLongPhrase(t *testing.T) {
	t.Parallel()
	x := mustContainer(t, everything)
	analyzer, _ := text.For("en-US")
	for n, lookups := range map[int]int{tokensMax: tokensMax, tokensMax + 1: tokensMax, 1000: tokensMax} {
		words := make([]string, n)
		for i := range words {
			words[i] = fmt.Sprintf("w%d", i)
		}
		doc := value.Object([]value.Member{{Name: "text", Value: value.String(strings.Join(words, " "))}})
		e, ok := x.Phrase(Path{"text"}, analyzer.Phrase(doc.Get("text").Text()))
		if !ok || len(e.Args) != lookups || e.Exact() || !finds(e, x.Terms(nil, doc)) {
			t.Errorf("a phrase of %d words: %d lookups, want %d", n, len(e.Args), lookups)
		}
	}
}

// TestWideDocuments checks that properties are found among thousands of members
// as among few.
func TestWideDocuments(t *testing.T) {
	t.Parallel()
	x := mustContainer(t, strings.Replace(everything, `[{"path":"/cp"}`, `[{"path":"/b/a"},{"path":"/b/c"}],[{"path":"/cp"}`, 1))
	special := func(doc value.Value) []Term {
		return slices.DeleteFunc(x.Terms(nil, doc), func(t Term) bool { return !x.ids[t[:idSize]] })
	}
	widen := func(v value.Value) value.Value {
		members := slices.Clone(v.Members())
		for i := range wide {
			members = slices.Insert(members, i, value.Member{Name: "other" + strconv.Itoa(i), Value: value.Int(1)})
		}
		return value.Object(members)
	}
	for seed := range uint64(50) {
		r := newRandom(seed)
		doc := r.rich()
		if doc.Get("b").Kind() != value.KindObject {
			doc = doc.With("b", r.document(1))
		}
		if got, want := special(widen(doc.With("b", widen(doc.Get("b"))))), special(doc); !slices.Equal(got, want) || len(want) == 0 {
			t.Fatalf("seed %d: %s has the terms %x, and %x with more members", seed, doc, want, got)
		}
	}
}

// TestFilterFindsAll checks that a Filter finds the values that pass its test,
// and the terms that are not exact.
func TestFilterFindsAll(t *testing.T) {
	t.Parallel()
	x := mustCompile(t, "/*")
	for seed := range uint64(3000) {
		r := newRandom(seed)
		doc := r.document(1)
		s, _ := x.Span(Path{"a"}, Defined, value.Undefined())
		test := func(v value.Value) bool {
			return strings.Contains(v.Text(), "y") || v.Kind() == value.KindArray && v.Len() > 0
		}
		e := Expr{Op: Filter, Span: s, Test: test}
		if test(doc.Get("a")) && !finds(e, x.Terms(nil, doc)) {
			t.Fatalf("seed %d: %s is not found", seed, doc)
		}
		if e.Exact() {
			t.Fatal("a filter is never exact")
		}
	}
}

// TestDecodeTerm checks that the value in a term is the one from which it was
// made.
func TestDecodeTerm(t *testing.T) {
	t.Parallel()
	x := mustCompile(t, "/*")
	for seed := range uint64(3000) {
		r := newRandom(seed)
		want := r.value(1)
		if !want.IsDefined() {
			continue
		}
		id := x.walk(rootState, Path{"a"}).id()
		for _, term := range x.Terms(nil, value.Object([]value.Member{{Name: "a", Value: want}})) {
			if term[:idSize] != id {
				continue
			}
			got, exact := DecodeTerm(term)
			switch {
			case exact && !value.Equal(got, want), got.Kind() != want.Kind():
				t.Fatalf("seed %d: %s decodes as %s", seed, want, got)
			case !exact && want.Kind() == value.KindString && (len(want.Text()) <= StringBytesMax || !strings.HasPrefix(want.Text(), got.Text()) || len(got.Text()) < StringBytesMax-3):
				t.Fatalf("seed %d: %q decodes as %q", seed, want.Text(), got.Text())
			case !exact && want.Kind() < value.KindString:
				t.Fatalf("seed %d: %s is not exact", seed, want)
			}
		}
	}
}

// TestVectors checks that vectors are stored as their index says, and only those
// that fit it.
func TestVectors(t *testing.T) {
	t.Parallel()
	x := mustContainer(t, everything)
	form, ok := x.VectorForm(Path{"v"})
	if !ok || form.Quantizer == nil || form.Dimensions != 3 || len(form.ID) != idSize || len(form.CodeID) != idSize || form.CodeID == form.ID {
		t.Fatalf("form %+v, %t", form, ok)
	}
	flat, _ := x.VectorForm(Path{"a"})
	if flat.Quantizer != nil || flat.CodeID != "" || flat.Size() != 2 {
		t.Fatalf("form %+v", flat)
	}
	for _, c := range []struct{ doc, want string }{
		{`{"v":[1,2,3],"a":[4,5]}`, "code vector flat"},
		{`{"v":[1,2,3]}`, "code vector"},
		{`{"v":[1,2],"a":[1]}`, ""},
		{`{"v":[1,2,3,4],"a":{}}`, ""},
		{`{"v":[1,2,"3"],"a":[1,null]}`, ""},
		{`{"v":[1,2,1e300],"a":[1,2]}`, "flat"},
		{`{}`, ""},
	} {
		var got []string
		for _, entry := range x.Vectors(nil, parse(t, c.doc)) {
			kind, size := "vector", 3*4
			switch entry.ID {
			case flat.ID:
				kind, size = "flat", 2
			case form.CodeID:
				kind, size = "code", form.Quantizer.Size()
			}
			if len(entry.Stored) != size {
				t.Errorf("%s: %d bytes of a %s", c.doc, len(entry.Stored), kind)
			}
			got = append(got, kind)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s has vectors %q, want %q", c.doc, got, c.want)
		}
	}
	if at, ok := x.VectorAt(Path{"v"}); !ok || at.Type != resource.VectorQuantizedFlat || at.Dimensions != 3 {
		t.Errorf("%+v, %t", at, ok)
	}
	mere := mustContainer(t, `{"vectorEmbeddingPolicy":{"vectorEmbeddings":[{"path":"/v","dimensions":3}]}}`)
	if at, ok := mere.VectorAt(Path{"v"}); !ok || at.Type != "" || at.Distance != "cosine" {
		t.Errorf("%+v, %t", at, ok)
	}
	if _, ok := mere.VectorAt(Path{"w"}); ok || len(mere.Vectors(nil, parse(t, `{"v":[1,2,3]}`))) > 0 {
		t.Error("a vector without an index")
	}
}

func TestLanguage(t *testing.T) {
	t.Parallel()
	x := mustContainer(t, `{"fullTextPolicy":{"defaultLanguage":"de-DE","fullTextPaths":[{"path":"/a"},{"path":"/b/c","language":"fr-FR"}]}}`)
	for _, c := range []struct {
		path Path
		want string
		ok   bool
	}{{Path{"a"}, "de-DE", true}, {Path{"b", "c"}, "fr-FR", true}, {Path{"b"}, "de-DE", false}} {
		if got, ok := x.Language(c.path); got != c.want || ok != c.ok {
			t.Errorf("%s is %s, %t", c.path, got, ok)
		}
	}
	if got, ok := mustCompile(t, "/*").Language(Path{"a"}); got != "en-US" || ok {
		t.Errorf("without a policy: %s, %t", got, ok)
	}
	if !slices.Equal(resource.Languages(), text.Languages()) {
		t.Errorf("policies may name %v, and there are analyzers for %v", resource.Languages(), text.Languages())
	}
}

// TestEveryBoxMakesAGrid checks that every box that a policy may have makes a
// grid.
func TestEveryBoxMakesAGrid(t *testing.T) {
	t.Parallel()
	r := newRandom(1)
	taken := 0
	for range 2000 {
		side := func() float64 {
			return (r.Float64() - 0.5) * []float64{1e-150, 1e-140, 1, 1e6, 1e149, 1e150, 1e151}[r.IntN(7)]
		}
		low := side()
		members := fmt.Sprintf(`{"geospatialConfig":{"type":"Geometry"},"indexingPolicy":{"spatialIndexes":[{"path":"/*","types":["Point","Polygon","MultiPolygon","LineString"],"boundingBox":{"xmin":%g,"ymin":%g,"xmax":%g,"ymax":%g}}]}}`, low, low, low+side(), side())
		p, err := container(members)
		if err != nil {
			continue
		}
		taken++
		if _, err := Compile(p); err != nil {
			t.Fatalf("%s: %v", members, err)
		}
	}
	if taken < 100 {
		t.Errorf("only %d boxes were accepted", taken)
	}
}
