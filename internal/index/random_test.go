package index

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/geo"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/text"
	"github.com/decandb/decan/internal/value"
)

// random generates policies, documents and orders. The seed is in every message.
type random struct {
	*rand.Rand
	seed uint64
}

func newRandom(seed uint64) random { return random{rand.New(rand.NewPCG(seed, 1)), seed} }

// names are few, so that policies and documents overlap.
var names = []string{"a", "b", "c"}

func (r random) name() string { return names[r.IntN(len(names))] }

func (r random) coin() bool { return r.IntN(2) == 0 }

// value generates a value, often one that was generated before.
func (r random) value(depth int) value.Value {
	switch r.IntN(12) {
	case 0:
		return value.Null()
	case 1:
		return value.Bool(r.coin())
	case 2, 3:
		return value.Int(int64(r.IntN(3)))
	case 4:
		return value.Number([]float64{-1.5, 1e300, 1 << 60}[r.IntN(3)])
	case 5, 6:
		return value.String([]string{"", "x", "xy", "x\x00", "x\x00y", "\x00", "y", "é"}[r.IntN(8)])
	case 7, 8:
		return value.String(r.long())
	case 9:
		items := make([]value.Value, r.IntN(3))
		for i := range items {
			items[i] = r.value(depth - 1)
		}
		return value.Array(items)
	case 10:
		if depth > 0 {
			return r.document(depth - 1)
		}
		return value.Object(nil)
	}
	return value.Undefined()
}

// long generates a string of about the length that the index keeps, with zeros
// and two-byte characters at the cut.
func (r random) long() string {
	b := strings.Repeat("x", StringBytesMax-2)
	for range r.IntN(5) {
		b += []string{"x", "y", "\x00", "é"}[r.IntN(4)]
	}
	return b
}

func (r random) document(depth int) value.Value {
	var members []value.Member
	for _, name := range names {
		if v := r.value(depth); v.IsDefined() {
			members = append(members, value.Member{Name: name, Value: v})
		}
	}
	return value.Object(members)
}

// composites generates composite indexes over a, b, c, a/b and _ts.
func (r random) composites() [][]resource.CompositePath {
	paths := []string{"/a", "/b", "/c", "/a/b", "/_ts"}
	all := make([][]resource.CompositePath, 1+r.IntN(4))
	for i := range all {
		r.Shuffle(len(paths), func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
		for _, path := range paths[:2+r.IntN(2)] {
			all[i] = append(all[i], resource.CompositePath{Path: path, Descending: r.coin()})
		}
	}
	return all
}

// stored is a document with its number, its write time and its terms.
type stored struct {
	doc    value.Value
	number uint64
	terms  []Term
}

// store gives documents numbers, times and terms. The time becomes a property,
// because queries see it.
func (r random) store(x *Index, n int) []stored {
	docs := make([]stored, n)
	for i := range docs {
		doc, ts := r.document(2), int64(1000+r.IntN(3))
		docs[i] = stored{doc.With("_ts", value.Int(ts)), uint64(i + 1), x.Stamp(x.Terms(nil, doc), ts)}
	}
	return docs
}

// query is an ORDER BY and the values that its filter fixes.
type query struct {
	keys  []SortKey
	fixed map[string]value.Value
	paths map[string]Path

	made map[uint64][]byte // order keys by document
}

func (q query) equal(p Path) (value.Value, bool) {
	v, ok := q.fixed[p.String()]
	return v, ok
}

// passes reports whether a document passes the filter.
func (q query) passes(doc value.Value) bool {
	for name, v := range q.fixed {
		if !value.Equal(q.paths[name].at(doc), v) {
			return false
		}
	}
	return true
}

// query generates an order that an index may serve, with a filter on the values
// of some document.
func (r random) query(x *Index, docs []stored) query {
	q := query{fixed: map[string]value.Value{}, paths: map[string]Path{}, made: map[uint64][]byte{}}
	like := docs[r.IntN(len(docs))].doc
	fix := func(p Path) bool {
		v := p.at(like)
		if v.IsDefined() {
			q.fixed[p.String()], q.paths[p.String()] = v, p
		}
		return v.IsDefined()
	}
	if len(x.composites) == 0 || r.IntN(4) == 0 {
		q.keys = []SortKey{{Path{r.name()}, r.coin()}}
		return q
	}
	c, opposite := x.composites[r.IntN(len(x.composites))], r.coin()
	from := r.IntN(len(c.parts))
	for i, p := range c.parts {
		if i < from {
			if !fix(p.path) {
				from = i // a filter cannot fix a value to undefined
			} else {
				continue
			}
		}
		q.keys = append(q.keys, SortKey{p.path, p.desc != opposite})
		if r.IntN(4) == 0 {
			fix(p.path)
		}
	}
	return q
}

// key returns the order key of a document as plans make it.
func (q query) key(d stored) []byte {
	if key, ok := q.made[d.number]; ok {
		return key
	}
	var key []byte
	for _, k := range q.keys {
		start := len(key)
		key = value.AppendKey(key, k.Path.at(d.doc))
		if k.Desc != q.keys[0].Desc {
			invert(key[start:])
		}
	}
	q.made[d.number] = key
	return key
}

// compare orders documents as plans do: by key, then by number, both in the
// direction of the first key.
func (q query) compare(a, b stored) int {
	c := bytes.Compare(q.key(a), q.key(b))
	if c == 0 {
		c = cmp.Compare(a.number, b.number)
	}
	if q.keys[0].Desc {
		c = -c
	}
	return c
}

// step is a document that a walk meets, and the term under which it does.
type step struct {
	stored
	term Term
}

// walk visits documents as a partition does, beginning at a term.
func (o Order) walk(docs []stored, from Term) []step {
	var steps []step
	for _, d := range docs {
		found := false
		for _, t := range d.terms {
			if o.Span.Low <= t && t < o.Span.High {
				steps, found = append(steps, step{d, t}), true
			}
		}
		if !found && o.Missing {
			steps = append(steps, step{d, ""})
		}
	}
	slices.SortFunc(steps, func(a, b step) int {
		c := cmp.Or(cmp.Compare(a.term, b.term), cmp.Compare(a.number, b.number))
		if o.Desc {
			c = -c
		}
		return c
	})
	if from == "" {
		return steps
	}
	return slices.DeleteFunc(steps, func(s step) bool { return o.Desc && s.term > from || !o.Desc && s.term < from })
}

// sorted returns the documents of a walk that pass the filter, and sorts each
// group.
func (q query) sorted(o Order, steps []step) []stored {
	var out []stored
	for i := 0; i < len(steps); {
		group, exact := o.Group(steps[i].term)
		n := 1
		for i+n < len(steps) {
			if next, _ := o.Group(steps[i+n].term); next != group {
				break
			}
			n++
		}
		var run []stored
		for _, s := range steps[i : i+n] {
			if q.passes(s.doc) {
				run = append(run, s.stored)
			}
		}
		if !exact {
			slices.SortFunc(run, q.compare)
		}
		out = append(out, run...)
		i += n
	}
	return out
}

func numbers(docs []stored) []uint64 {
	out := make([]uint64, len(docs))
	for i, d := range docs {
		out[i] = d.number
	}
	return out
}

// TestOrderIsSorting checks that walking terms, and sorting inside groups that
// need it, is the same as sorting by the order key, whatever the policy, the
// directions and the values are; and that a walk that begins at the result of
// Seek misses nothing.
func TestOrderIsSorting(t *testing.T) {
	t.Parallel()
	walked, flipped, grouped := 0, 0, 0
	for seed := range uint64(800) {
		r := newRandom(seed)
		x, err := Compile(resource.IndexingPolicy{Mode: resource.IndexingConsistent, Included: []string{"/*"}, Composite: r.composites()})
		if err != nil {
			t.Fatal(err)
		}
		docs := r.store(x, 40)
		for range 5 {
			q := r.query(x, docs)
			o, ok := x.Order(q.keys, q.equal)
			if !ok {
				t.Fatalf("seed %d: the order %v is not served by %v", seed, q.keys, x.composites)
			}
			if !o.Walks {
				continue
			}
			var want []stored
			for _, d := range docs {
				if q.passes(d.doc) {
					want = append(want, d)
				}
			}
			slices.SortFunc(want, q.compare)
			steps := o.walk(docs, "")
			if got := q.sorted(o, steps); !slices.Equal(numbers(got), numbers(want)) {
				t.Fatalf("seed %d: order %v where %v by %s desc=%t: got %v, want %v", seed, q.keys, q.fixed, o.Span, o.Desc, numbers(got), numbers(want))
			}
			walked++
			if o.flip {
				flipped++
			}
			for _, s := range steps {
				if _, exact := o.Group(s.term); !exact {
					grouped++
				}
			}
			seekAll(t, r, q, o, docs, want)
		}
	}
	t.Logf("%d walks, %d flipped, %d inexact terms", walked, flipped, grouped)
	if walked < 2000 || flipped < 200 || grouped < 10000 {
		t.Errorf("only %d walks, %d flipped, %d inexact terms: the test draws too little", walked, flipped, grouped)
	}
}

// seekAll begins walks at the order keys of documents, whole and cut.
func seekAll(t *testing.T, r random, q query, o Order, docs, sorted []stored) {
	t.Helper()
	for range min(len(sorted), 5) {
		i := r.IntN(len(sorted))
		at := sorted[i]
		key := q.key(at)
		if r.coin() {
			key = key[:r.IntN(len(key)+1)]
		}
		from, _ := o.Seek(key)
		met := map[uint64]bool{}
		for _, s := range o.walk(docs, from) {
			met[s.number] = true
		}
		for _, d := range sorted[i:] {
			if !met[d.number] {
				t.Fatalf("seed %d: order %v where %v: a walk from %x, for the key %x of document %d, misses document %d", r.seed, q.keys, q.fixed, string(from), key, at.number, d.number)
			}
		}
		// The term itself, if it is exact: a Seek that always returns the
		// beginning would pass the checks above.
		if len(key) < len(q.key(at)) || o.flip {
			continue
		}
		for _, term := range at.terms {
			if _, exact := o.Group(term); exact && o.Span.Low <= term && term < o.Span.High && from != term {
				t.Fatalf("seed %d: order %v: the key %x of document %d leads to %x and not to its term %x", r.seed, q.keys, key, at.number, string(from), string(term))
			}
		}
	}
}

// TestNarrowAgreesWithSpan checks that a narrowed walk has exactly the documents
// of the predicate's span.
func TestNarrowAgreesWithSpan(t *testing.T) {
	t.Parallel()
	inverted := 0
	for seed := range uint64(600) {
		r := newRandom(seed)
		x, err := Compile(resource.IndexingPolicy{Mode: resource.IndexingConsistent, Included: []string{"/*"}, Composite: r.composites()})
		if err != nil {
			t.Fatal(err)
		}
		docs := r.store(x, 30)
		for range 10 {
			q := r.query(x, docs)
			o, _ := x.Order(q.keys, q.equal)
			s, ok := x.Span(q.keys[0].Path, Op(r.IntN(int(Kind)+1)), r.value(0))
			if !ok || !o.Walks {
				continue
			}
			if o.inverted[0] {
				inverted++
			}
			narrow := o.Narrow(s)
			if narrow.Missing {
				t.Fatal("a predicate is true of undefined")
			}
			got := map[uint64]bool{}
			for _, step := range narrow.walk(docs, "") {
				got[step.number] = true
			}
			for _, d := range o.walk(docs, "") {
				if want := inSpan(d.terms, s); got[d.number] != want {
					t.Fatalf("seed %d: order %v narrowed to %s: document %s is there %t, want %t", seed, q.keys, s, d.doc, got[d.number], want)
				}
			}
		}
	}
	if inverted < 100 {
		t.Errorf("only %d orders with inverted bytes: the test draws too little", inverted)
	}
}

// TestTermsArePrefixFree checks that no term is a prefix of another, whatever
// kinds they are, and that all are sorted.
func TestTermsArePrefixFree(t *testing.T) {
	t.Parallel()
	x := mustContainer(t, everything)
	var all []Term
	r := newRandom(1)
	for range 500 {
		terms := x.Stamp(x.Terms(nil, r.rich()), int64(r.IntN(5)))
		if !slices.IsSorted(terms) || len(slices.Compact(slices.Clone(terms))) != len(terms) {
			t.Fatal("terms are not sorted, or twice there")
		}
		all = append(all, terms...)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	for i := 1; i < len(all); i++ {
		if strings.HasPrefix(string(all[i]), string(all[i-1])) {
			t.Fatalf("%x begins %x", string(all[i-1]), string(all[i]))
		}
	}
}

// everything is a container with all kinds of indexes.
const everything = `{"computedProperties":[{"name":"cp","query":"SELECT VALUE c.a FROM c"}],
"fullTextPolicy":{"fullTextPaths":[{"path":"/text"}]},
"vectorEmbeddingPolicy":{"vectorEmbeddings":[{"path":"/v","dimensions":3},{"path":"/a","dimensions":2,"dataType":"int8"}]},
"indexingPolicy":{"includedPaths":[{"path":"/*"},{"path":"/cp/?"},{"path":"/list/[]/{a, b/c}/?"}],
"compositeIndexes":[[{"path":"/a"},{"path":"/b","order":"descending"}],[{"path":"/cp"},{"path":"/_ts"}]],
"spatialIndexes":[{"path":"/*"}],"fullTextIndexes":[{"path":"/text"}],
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
		{geo.Geography, `{"indexingPolicy":{"spatialIndexes":[{"path":"/*"}]}}`},
		{geo.Geometry, `{"geospatialConfig":{"type":"Geometry"},"indexingPolicy":{"spatialIndexes":[{"path":"/*","boundingBox":{"xmin":-9,"ymin":-9,"xmax":9,"ymax":9}},{"path":"/place/?","boundingBox":{"xmin":-1,"ymin":-1,"xmax":1,"ymax":1}}]}}`},
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
		{"Geography", `{"indexingPolicy":{"excludedPaths":[{"path":"/*"}],"spatialIndexes":[{"path":"/*"}]}}`},
		{"Geometry", `{"geospatialConfig":{"type":"Geometry"},"indexingPolicy":{"excludedPaths":[{"path":"/*"}],"spatialIndexes":[{"path":"/*","boundingBox":{"xmin":-10,"ymin":-10,"xmax":110,"ymax":110}}]}}`},
	} {
		x := mustContainer(t, c.members)
		grid, _ := x.Grid(Path{"a", Element})
		found := func(terms []Term, at string) bool {
			shape, ok := geo.Parse(parse(t, at), x.System())
			e, served := x.Spatial(Path{"a", Element}, grid.Query(nil, shape))
			if !ok || !served {
				t.Fatalf("%s is no question", at)
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
		t.Error("a vector that nobody asked for")
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
		members := fmt.Sprintf(`{"geospatialConfig":{"type":"Geometry"},"indexingPolicy":{"spatialIndexes":[{"path":"/*","boundingBox":{"xmin":%g,"ymin":%g,"xmax":%g,"ymax":%g}}]}}`, low, low, low+side(), side())
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
		t.Errorf("only %d boxes were taken", taken)
	}
}

// FuzzOrder checks that Seek and Group do not fail for any order key.
func FuzzOrder(f *testing.F) {
	x := mustContainer(f, `{"indexingPolicy":{"compositeIndexes":[[{"path":"/a"},{"path":"/b","order":"descending"},{"path":"/c"}]]}}`)
	var orders []Order
	for _, text := range []string{"a", "abc", "ABC", "bc", "BC", "c", "C"} {
		var keys []SortKey
		for i, c := range text {
			desc := i == 0 && c < 'a' || i > 0 && (c|32 == 'b') != (text[0] < 'a')
			keys = append(keys, SortKey{Path{string(c | 32)}, desc})
		}
		if keys[0].Path[0] == "b" {
			keys[0].Desc, keys[1].Desc = text[0] < 'a', text[0] >= 'a'
		}
		o, ok := x.Order(keys, func(p Path) (value.Value, bool) { return value.Int(1), p[0] < keys[0].Path[0] })
		if !ok || !o.Walks {
			f.Fatalf("%v is not served", keys)
		}
		orders = append(orders, o)
	}
	r := newRandom(1)
	for range 50 {
		key := value.AppendKey(value.AppendKey(nil, r.value(1)), r.value(1))
		f.Add(key)
		f.Add(key[:r.IntN(len(key))])
	}
	f.Fuzz(func(t *testing.T, key []byte) {
		for _, o := range orders {
			at, _ := o.Seek(key)
			if at != "" && (at < o.Span.Low && !o.Desc || at > o.Span.High && o.Desc) {
				t.Fatalf("%x leads out of %s", key, o.Span)
			}
			term := o.prefix + Term(key)
			if group, _ := o.Group(term); !strings.HasPrefix(string(term), group) {
				t.Fatalf("%x is in the group %x", string(term), group)
			}
			o.Group(Term(key))
		}
		DecodeTerm(Term(key))
		x.composites[0].stamp([]Term{x.composites[0].id + Term(key)}, 1)
	})
}
