package index

import (
	"bytes"
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/resource"
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
			t.Fatal("terms are not sorted, or not unique")
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
