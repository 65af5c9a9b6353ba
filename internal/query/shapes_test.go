package query

import (
	"cmp"
	"context"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/value"
)

// shapeIndex is the policy of the documents of TestShapes: everything but /b, a
// composite index, and one whose first path is fixed by filters.
func shapeIndex(t testing.TB) *index.Index {
	t.Helper()
	ix, err := index.Compile(resource.IndexingPolicy{
		Mode: resource.IndexingConsistent, Automatic: true,
		Included: []string{"/*"}, Excluded: []string{"/hidden/?"},
		Composite: [][]resource.CompositePath{
			{{Path: "/a"}, {Path: "/s", Descending: true}},
			{{Path: "/f"}, {Path: "/id"}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return ix
}

// randomShape makes a document with values of all kinds at a, numbers whose sum
// is inexact at f, strings longer than keys and terms at s, and an array at t.
func randomShape(t testing.TB, r *rand.Rand, ix *index.Index, number int) document {
	members := []string{fmt.Sprintf(`"id":"%d"`, number), fmt.Sprintf(`"_rid":"r%d"`, number)}
	put := func(name, text string) {
		if r.IntN(8) > 0 {
			members = append(members, fmt.Sprintf("%q:%s", name, text))
		}
	}
	put("a", randomValue(r))
	put("b", pick(r, words))
	put("hidden", pick(r, words))
	put("f", pick(r, []string{"0.1", "0.2", "0.3", "1e16", "-1e16", "1", "7", "9007199254740993", "-3.25"}))
	put("s", fmt.Sprintf("%q", strings.Repeat("x", pickInt(r, 0, 3, 100, 111, 112, 126, 127, 128, 129, 200))+pick(r, []string{"", "a", "b", "yy", "z"})))
	put("o", pick(r, []string{`{"a":1,"b":2}`, `{"b":2,"a":1}`, `{"a":1}`, `[1,2]`, `[]`, "1"}))
	put("t", "["+strings.Join([]string{pick(r, words), pick(r, words), `"x"`}[:r.IntN(4)], ",")+"]")
	return newDocument(t, ix, uint64(number), "{"+strings.Join(members, ",")+"}")
}

func pickInt(r *rand.Rand, list ...int) int { return list[r.IntN(len(list))] }

// row is the input of a naive result: a document and an element of its array t.
type row struct {
	doc     document
	element value.Value
}

func (r row) at(name string) value.Value {
	if name == "t" {
		return r.element
	}
	return r.doc.value.Get(name)
}

// rowsOf returns the documents as rows, joined with their arrays or not.
func rowsOf(docs list, join bool, pass func(row) bool) []row {
	var rows []row
	for _, d := range docs {
		if !join {
			rows = append(rows, row{doc: d})
			continue
		}
		for _, item := range d.value.Get("t").Items() {
			rows = append(rows, row{doc: d, element: item})
		}
	}
	if pass != nil {
		rows = slices.DeleteFunc(rows, func(r row) bool { return !pass(r) })
	}
	return rows
}

// naive computes the result of a shape: groups of rows by the names of their
// keys, each made into a value; without names each row is a group, unless lone is
// set.
type naive struct {
	join   bool
	pass   func(r row) bool
	keys   []string
	lone   bool
	order  []string // names, prefixed with - for DESC; nil when the order does not matter
	result func(group []row) value.Value
}

func (n naive) answer(docs list) []value.Value {
	rows := rowsOf(docs, n.join, n.pass)
	var groups [][]row
	places := map[string]int{}
	for i, r := range rows {
		key := fmt.Sprint(i)
		if len(n.keys) > 0 || n.lone {
			key = ""
			for _, name := range n.keys {
				key += string(value.AppendKey(nil, r.at(name)))
			}
		}
		at, ok := places[key]
		if !ok {
			at = len(groups)
			places[key], groups = at, append(groups, nil)
		}
		groups[at] = append(groups[at], r)
	}
	if n.lone && len(groups) == 0 {
		groups = [][]row{nil}
	}
	slices.SortStableFunc(groups, func(x, y []row) int {
		desc := len(n.order) > 0 && n.order[0][0] == '-'
		for _, name := range n.order {
			c := value.CompareOrder(x[0].at(strings.TrimPrefix(name, "-")), y[0].at(strings.TrimPrefix(name, "-")))
			if name[0] == '-' {
				c = -c
			}
			if c != 0 {
				return c
			}
		}
		if c := cmp.Compare(x[0].doc.number, y[0].doc.number); desc && len(n.order) > 0 {
			return -c
		}
		return 0
	})
	var out []value.Value
	for _, group := range groups {
		if v := n.result(group); v.IsDefined() {
			out = append(out, v)
		}
	}
	return out
}

func objectOf(names string, values ...value.Value) value.Value {
	var members []value.Member
	for i, name := range strings.Split(names, " ") {
		members = append(members, value.Member{Name: name, Value: values[i]})
	}
	return value.Object(members)
}

// column returns the defined values of a name.
func column(group []row, name string) []value.Value {
	var out []value.Value
	for _, r := range group {
		if v := r.at(name); v.IsDefined() {
			out = append(out, v)
		}
	}
	return out
}

func countOf(group []row, name string) value.Value { return value.Int(int64(len(column(group, name)))) }

// sumOf adds exactly and rounds once.
func sumOf(group []row, name string) value.Value {
	sum, whole := new(big.Rat), true
	for _, v := range column(group, name) {
		if v.Kind() != value.KindNumber {
			return value.Undefined()
		}
		if i, ok := v.Int64(); ok {
			sum.Add(sum, new(big.Rat).SetInt64(i))
		} else {
			whole = false
			sum.Add(sum, new(big.Rat).SetFloat64(v.Float()))
		}
	}
	if whole && sum.Num().IsInt64() {
		return value.Int(sum.Num().Int64())
	}
	f, _ := sum.Float64()
	return value.Number(f)
}

func averageOf(group []row, name string) value.Value {
	sum, n := sumOf(group, name), len(column(group, name))
	if n == 0 || !sum.IsDefined() {
		return value.Undefined()
	}
	return value.Number(sum.Float() / float64(n))
}

func extremeOf(group []row, name string, sign int) value.Value {
	best := value.Undefined()
	for _, v := range column(group, name) {
		if v.Kind() > value.KindString {
			return value.Undefined()
		}
		if !best.IsDefined() || sign*value.Compare(v, best) > 0 {
			best = v
		}
	}
	return best
}

func first(name string) func(group []row) value.Value {
	return func(group []row) value.Value { return group[0].at(name) }
}

func is(name, text string) func(row) bool {
	v, err := value.ParseString(text)
	if err != nil {
		panic(err)
	}
	return func(r row) bool { return r.at(name).IsDefined() && value.Equal(r.at(name), v) }
}

// shapes are queries of every kind and their meaning.
var shapes = []struct {
	text string
	naive
}{
	{"SELECT VALUE COUNT(1) FROM c", naive{lone: true, result: func(g []row) value.Value { return value.Int(int64(len(g))) }}},
	{"SELECT VALUE COUNT(c.a) FROM c", naive{lone: true, result: func(g []row) value.Value { return countOf(g, "a") }}},
	{"SELECT VALUE COUNT(1) FROM c WHERE c.a = 1", naive{lone: true, pass: is("a", "1"), result: func(g []row) value.Value { return value.Int(int64(len(g))) }}},
	{"SELECT VALUE COUNT(c.b) FROM c WHERE c.a = 1", naive{lone: true, pass: is("a", "1"), result: func(g []row) value.Value { return countOf(g, "b") }}},
	{"SELECT VALUE COUNT(1) FROM c WHERE c.hidden = 1", naive{lone: true, pass: is("hidden", "1"), result: func(g []row) value.Value { return value.Int(int64(len(g))) }}},
	{"SELECT VALUE COUNT(1) FROM c WHERE c.a = 'nobody'", naive{lone: true, pass: is("a", `"nobody"`), result: func(g []row) value.Value { return value.Int(int64(len(g))) }}},
	{"SELECT VALUE COUNT(1) FROM c WHERE c.a = 1 AND c.a = 2", naive{lone: true, pass: func(row) bool { return false }, result: func(g []row) value.Value { return value.Int(int64(len(g))) }}},
	{"SELECT VALUE COUNT(1) FROM c WHERE CONTAINS(c.s, 'yy')", naive{lone: true, pass: func(r row) bool { return strings.Contains(r.at("s").Text(), "yy") }, result: func(g []row) value.Value { return value.Int(int64(len(g))) }}},
	{"SELECT VALUE COUNT(1) FROM c WHERE c.a = [1]", naive{lone: true, pass: is("a", "[1]"), result: func(g []row) value.Value { return value.Int(int64(len(g))) }}},
	{"SELECT VALUE SUM(c.f) FROM c", naive{lone: true, result: func(g []row) value.Value { return sumOf(g, "f") }}},
	{"SELECT VALUE SUM(c.f) FROM c WHERE c.f > 0.15 AND c.f < 8", naive{lone: true, pass: func(r row) bool { return r.at("f").Float() > 0.15 && r.at("f").Float() < 8 }, result: func(g []row) value.Value { return sumOf(g, "f") }}},
	{"SELECT VALUE SUM(c.a) FROM c", naive{lone: true, result: func(g []row) value.Value { return sumOf(g, "a") }}},
	{"SELECT VALUE AVG(c.f) FROM c", naive{lone: true, result: func(g []row) value.Value { return averageOf(g, "f") }}},
	{"SELECT VALUE MIN(c.s) FROM c", naive{lone: true, result: func(g []row) value.Value { return extremeOf(g, "s", -1) }}},
	{"SELECT VALUE MAX(c.s) FROM c", naive{lone: true, result: func(g []row) value.Value { return extremeOf(g, "s", 1) }}},
	{"SELECT VALUE MIN(c.a) FROM c", naive{lone: true, result: func(g []row) value.Value { return extremeOf(g, "a", -1) }}},
	{"SELECT VALUE MAX(c.a) FROM c WHERE IS_PRIMITIVE(c.a)", naive{lone: true, pass: func(r row) bool { return r.at("a").IsDefined() && r.at("a").Kind() <= value.KindString }, result: func(g []row) value.Value { return extremeOf(g, "a", 1) }}},
	{"SELECT VALUE MIN(c.b) FROM c WHERE c.a = 1", naive{lone: true, pass: is("a", "1"), result: func(g []row) value.Value { return extremeOf(g, "b", -1) }}},
	{"SELECT COUNT(1) AS n, SUM(c.f) AS s, AVG(c.f) AS v, MIN(c.b) AS lo, MAX(c.b) AS hi, COUNTIF(c.a = 1) AS x, COUNT(c.o) AS o FROM c", naive{lone: true, result: func(g []row) value.Value {
		return objectOf("n s v lo hi x o", value.Int(int64(len(g))), sumOf(g, "f"), averageOf(g, "f"), extremeOf(g, "b", -1), extremeOf(g, "b", 1),
			value.Int(int64(len(slices.DeleteFunc(slices.Clone(g), func(r row) bool { return !is("a", "1")(r) })))), countOf(g, "o"))
	}}},
	{"SELECT VALUE SUM(c.f / 2) FROM c WHERE c.f < 1e6", naive{lone: true, pass: func(r row) bool { return r.at("f").IsDefined() && r.at("f").Float() < 1e6 }, result: func(g []row) value.Value {
		return value.Number(sumOf(g, "f").Float() / 2) // halving is exact
	}}},
	{"SELECT c.a, COUNT(1) AS n FROM c GROUP BY c.a", naive{keys: []string{"a"}, result: func(g []row) value.Value {
		return objectOf("a n", g[0].at("a"), value.Int(int64(len(g))))
	}}},
	{"SELECT c.a, COUNT(1) AS n FROM c WHERE c.hidden = 1 GROUP BY c.a", naive{keys: []string{"a"}, pass: is("hidden", "1"), result: func(g []row) value.Value {
		return objectOf("a n", g[0].at("a"), value.Int(int64(len(g))))
	}}},
	{"SELECT c.s, COUNT(1) AS n FROM c WHERE c.b = 1 GROUP BY c.s", naive{keys: []string{"s"}, pass: is("b", "1"), result: func(g []row) value.Value {
		return objectOf("s n", g[0].at("s"), value.Int(int64(len(g))))
	}}},
	{"SELECT c.a, c.b, SUM(c.f) AS s, COUNT(c.o) AS o FROM c GROUP BY c.a, c.b", naive{keys: []string{"a", "b"}, result: func(g []row) value.Value {
		return objectOf("a b s o", g[0].at("a"), g[0].at("b"), sumOf(g, "f"), countOf(g, "o"))
	}}},
	{"SELECT c.b, c.a, MAX(c.s) AS s FROM c GROUP BY c.a, c.b ORDER BY c.b DESC, c.a", naive{keys: []string{"a", "b"}, order: []string{"-b", "a"}, result: func(g []row) value.Value {
		return objectOf("b a s", g[0].at("b"), g[0].at("a"), extremeOf(g, "s", 1))
	}}},
	{"SELECT VALUE SUM(c.a) FROM c GROUP BY c.b", naive{keys: []string{"b"}, result: func(g []row) value.Value { return sumOf(g, "a") }}},
	{"SELECT LENGTH(c.s) AS l, COUNT(1) AS n FROM c GROUP BY LENGTH(c.s)", naive{result: nil}},
	{"SELECT DISTINCT VALUE c.a FROM c", naive{keys: []string{"a"}, result: first("a")}},
	{"SELECT DISTINCT VALUE c.o FROM c", naive{keys: []string{"o"}, result: first("o")}},
	{"SELECT DISTINCT VALUE c.s FROM c", naive{keys: []string{"s"}, result: first("s")}},
	{"SELECT DISTINCT VALUE c.hidden FROM c", naive{keys: []string{"hidden"}, result: first("hidden")}},
	{"SELECT DISTINCT c.a, c.s FROM c", naive{keys: []string{"a", "s"}, result: func(g []row) value.Value { return objectOf("a s", g[0].at("a"), g[0].at("s")) }}},
	{"SELECT DISTINCT VALUE c.s FROM c ORDER BY c.s", naive{keys: []string{"s"}, order: []string{"s"}, result: first("s")}},
	{"SELECT DISTINCT VALUE c.s FROM c ORDER BY c.s DESC", naive{keys: []string{"s"}, order: []string{"-s"}, result: first("s")}},
	{"SELECT DISTINCT c.a FROM c ORDER BY c.a DESC", naive{keys: []string{"a"}, order: []string{"-a"}, result: func(g []row) value.Value { return objectOf("a", g[0].at("a")) }}},
	{"SELECT DISTINCT VALUE c.b FROM c WHERE c.a = 1 ORDER BY c.b", naive{keys: []string{"b"}, pass: is("a", "1"), order: []string{"b"}, result: first("b")}},
	{"SELECT DISTINCT * FROM c", naive{result: func(g []row) value.Value { return g[0].doc.value }}},
	{"SELECT DISTINCT VALUE c.b FROM c ORDER BY c.f", naive{result: nil}},
	{"SELECT DISTINCT VALUE COUNT(1) FROM c GROUP BY c.a", naive{result: nil}},
	{"SELECT DISTINCT TOP 5 VALUE c.b FROM c ORDER BY c.f DESC", naive{result: nil}},
	{"SELECT DISTINCT VALUE c.a FROM c OFFSET 3 LIMIT 4", naive{result: nil}},
	{"SELECT TOP 3 c.a, COUNT(1) AS n FROM c GROUP BY c.a", naive{result: nil}},
	{"SELECT TOP 0 COUNT(1) FROM c", naive{result: nil}},
	{"SELECT COUNT(1) FROM c OFFSET 1 LIMIT 1", naive{result: nil}},
	{"SELECT VALUE ARRAY_LENGTH(MAKESET(c.b)) FROM c", naive{result: nil}},
	{"SELECT c.a, ARRAY_LENGTH(MAKELIST(c.b)) AS l FROM c GROUP BY c.a", naive{result: nil}},
	{"SELECT c.id, t FROM c JOIN t IN c.t", naive{join: true, result: func(g []row) value.Value { return objectOf("id t", g[0].at("id"), g[0].at("t")) }}},
	{"SELECT c.id, t FROM c JOIN t IN c.t WHERE t != 1 ORDER BY c.b", naive{join: true, pass: func(r row) bool { return !is("t", "1")(r) }, order: []string{"b"}, result: func(g []row) value.Value { return objectOf("id t", g[0].at("id"), g[0].at("t")) }}},
	{"SELECT c.id, t FROM c JOIN t IN c.t ORDER BY c.b DESC", naive{join: true, order: []string{"-b"}, result: func(g []row) value.Value { return objectOf("id t", g[0].at("id"), g[0].at("t")) }}},
	{"SELECT TOP 7 VALUE c.id FROM c JOIN t IN c.t", naive{result: nil}},
	{"SELECT DISTINCT VALUE t FROM c JOIN t IN c.t", naive{join: true, keys: []string{"t"}, result: first("t")}},
	{"SELECT t, COUNT(1) AS n, SUM(c.f) AS s FROM c JOIN t IN c.t GROUP BY t", naive{join: true, keys: []string{"t"}, result: func(g []row) value.Value {
		return objectOf("t n s", g[0].at("t"), value.Int(int64(len(g))), sumOf(g, "f"))
	}}},
	{"SELECT VALUE COUNT(1) FROM (SELECT DISTINCT VALUE c.a FROM c) x", naive{result: nil}},
	{"SELECT VALUE x.n FROM (SELECT c.a, COUNT(1) AS n FROM c GROUP BY c.a) x WHERE x.n > 1", naive{result: nil}},
	{"SELECT VALUE x.a FROM (SELECT c.a, COUNT(1) AS n FROM c GROUP BY c.a) x WHERE x.n > 2", naive{result: nil}},
	{"SELECT VALUE c.id FROM c ORDER BY c.a", naive{order: []string{"a"}, result: first("id")}},
	{"SELECT VALUE c.id FROM c ORDER BY c.s DESC", naive{order: []string{"-s"}, result: first("id")}},
	{"SELECT VALUE c.id FROM c WHERE c.a = 1 ORDER BY c.b", naive{pass: is("a", "1"), order: []string{"b"}, result: first("id")}},
	{"SELECT VALUE c.id FROM c WHERE c.b >= 1 ORDER BY c.b DESC", naive{pass: func(r row) bool { return r.at("b").Kind() == value.KindNumber && r.at("b").Float() >= 1 }, order: []string{"-b"}, result: first("id")}},
	{"SELECT VALUE c.id FROM c WHERE c.hidden = 1 ORDER BY c.f", naive{pass: is("hidden", "1"), order: []string{"f"}, result: first("id")}},
	{"SELECT VALUE c.id FROM c ORDER BY c.a, c.s DESC", naive{order: []string{"a", "-s"}, result: first("id")}},
	{"SELECT VALUE c.id FROM c ORDER BY c.a DESC, c.s", naive{order: []string{"-a", "s"}, result: first("id")}},
	{"SELECT VALUE c.id FROM c WHERE c.f = 1 ORDER BY c.id DESC", naive{pass: is("f", "1"), order: []string{"-id"}, result: first("id")}},
	{"SELECT VALUE c.id FROM c WHERE c.a = 1 ORDER BY c.s DESC", naive{pass: is("a", "1"), order: []string{"-s"}, result: first("id")}},
	{"SELECT VALUE c.id FROM c WHERE c.a = 1 ORDER BY c.s", naive{pass: is("a", "1"), order: []string{"s"}, result: first("id")}},
	{"SELECT TOP 5 VALUE c.id FROM c ORDER BY c.f", naive{result: nil}},
	{"SELECT VALUE c.id FROM c", naive{result: first("id")}},
	{"SELECT VALUE 1", naive{result: nil}},
	{"SELECT VALUE COUNT(1)", naive{result: nil}},
}

// shapeRun is one way to run a query.
type shapeRun struct {
	parts    int
	page     int
	bytes    int
	indexed  bool
	parallel bool
	memory   int64
}

func (w shapeRun) String() string {
	return fmt.Sprintf("partitions=%d page=%d bytes=%d indexed=%t parallel=%t memory=%d", w.parts, w.page, w.bytes, w.indexed, w.parallel, w.memory)
}

// rows runs a plan to its end, each page with a merge of its own.
func (w shapeRun) rows(ctx context.Context, p *Plan, docs list) ([]value.Value, error) {
	rows, err := w.texts(ctx, p, docs)
	if err != nil {
		return nil, err
	}
	var out []value.Value
	for _, row := range rows {
		v, err := value.ParseString(row)
		if err != nil {
			return nil, fmt.Errorf("row %q: %w", row, err)
		}
		out = append(out, v)
	}
	return out, nil
}

// texts is rows as they are written.
func (w shapeRun) texts(ctx context.Context, p *Plan, docs list) ([]string, error) {
	var list []Stream
	for _, part := range docs.split(w.parts) {
		var src Source = part
		if w.indexed {
			src = indexed{part}
		}
		list = append(list, func(ctx context.Context, b Budget) (Page, error) { return p.Run(ctx, src, b) })
	}
	var out []string
	var from Progress
	for pages := 0; ; pages++ {
		done := 0
		if !p.FirstSeen() {
			done, from.Stream = from.Stream, 0
		}
		m := p.Merge(list[done:], from)
		if w.parallel {
			m.Parallel = inParallel
		}
		page, next, err := m.Page(ctx, Budget{MaxItems: w.page, MaxBytes: w.bytes, Memory: w.memory})
		if err != nil {
			return nil, err
		}
		for _, r := range page.Rows {
			out = append(out, string(r.JSON))
		}
		if !page.More {
			return out, nil
		}
		if w.page > 0 && len(page.Rows) > w.page || pages > 10*len(docs)+100 {
			return nil, fmt.Errorf("page %d has %d rows", pages, len(page.Rows))
		}
		from = next
		from.Stream += done
	}
}

func inParallel(n int, do func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { do(i) })
	}
	wg.Wait()
}

// TestShapes runs queries of every kind over one, three and eight partitions, at
// several page sizes, with and without an index, one stream after another and all
// at once: the result is always the same, and equals the naive computation.
func TestShapes(t *testing.T) {
	t.Parallel()
	ix := shapeIndex(t)
	for _, n := range []int{0, 1, 50} {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 4))
		var docs list
		for i := range n {
			docs = append(docs, randomShape(t, r, ix, i+1))
		}
		for _, shape := range shapes {
			t.Run(fmt.Sprintf("docs=%d/%s", n, shape.text), func(t *testing.T) {
				t.Parallel()
				runShape(t, seed, ix, docs, shape.text, shape.naive)
			})
		}
	}
}

func runShape(t *testing.T, seed uint64, ix *index.Index, docs list, text string, model naive) {
	p, err := Compile(text, nil, ix, Options{})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	var want []value.Value
	if model.result != nil {
		want = model.answer(docs)
	}
	// A query over several partitions without ORDER BY may return its rows in
	// another order.
	sorted := model.order == nil && model.result != nil
	for _, parts := range []int{1, 3, 8} {
		if p.base < 0 {
			parts = 1
		}
		switch met := p.group.firstSeen() || p.inner != nil; {
		case model.result == nil && (want == nil || met || !p.Ordered()):
			if want, err = (shapeRun{parts: parts}).rows(t.Context(), p, docs); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		case met && model.result != nil: // F29: in the order in which a scan meets them
			want, sorted = model.answer(slices.Concat(docs.split(parts)...)), false
		}
		for _, page := range []shapeRun{{}, {page: 1}, {page: 2}, {page: 7}, {bytes: 40}} {
			for _, ahead := range []bool{false, true} {
				w := page
				w.parts, w.indexed, w.parallel = parts, ahead, ahead
				got, err := w.rows(t.Context(), p, docs)
				if err != nil {
					t.Fatalf("seed %d: %s: %v", seed, w, err)
				}
				compareRows(t, fmt.Sprintf("seed %d: %s", seed, w), got, want, sorted)
			}
		}
	}
}

func compareRows(t *testing.T, about string, got, want []value.Value, sorted bool) {
	t.Helper()
	if sorted {
		got, want = slices.Clone(got), slices.Clone(want)
		slices.SortFunc(got, value.Compare)
		slices.SortFunc(want, value.Compare)
	}
	if !slices.EqualFunc(got, want, value.Equal) {
		t.Fatalf("%s:\ngot  %s\nwant %s", about, value.Array(got).JSON(), value.Array(want).JSON())
	}
}

// TestRandomShapes runs random queries in every way, and compares with one page
// of one partition without an index.
func TestRandomShapes(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 7))
	ix := newIndex(t)
	var docs list
	for i := range 20 {
		docs = append(docs, newDocument(t, ix, uint64(i+1), nestedDocument(r, i)))
	}
	queries, found := 0, 0
	for tries := 0; queries < 2_000 && tries < 50_000; tries++ {
		w := &queryWriter{Rand: r, loops: 3}
		text := w.query(2, "c", false)
		p, err := Compile(text, nil, ix, Options{})
		if err != nil {
			continue // The writer does not know all rules.
		}
		bare, err := Compile(text, nil, nil, Options{})
		if err != nil {
			t.Fatalf("seed %d: %s: %v", seed, text, err)
		}
		want, err := (shapeRun{parts: 1}).rows(t.Context(), bare, docs)
		if err != nil || len(want) > 500 {
			continue
		}
		queries++
		found += len(want)
		for range 4 {
			w := shapeRun{parts: pickInt(r, 1, 2, 5), page: pickInt(r, 0, 1, 3, 10), bytes: pickInt(r, 0, 0, 30), indexed: r.IntN(4) > 0, parallel: r.IntN(2) == 0}
			if p.base < 0 {
				w.parts = 1
			}
			got, err := w.rows(t.Context(), p, docs)
			if err != nil {
				t.Fatalf("seed %d: %s: %s: %v", seed, text, w, err)
			}
			compareRows(t, fmt.Sprintf("seed %d: %s: %s", seed, text, w), got, want, true)
		}
	}
	if queries < 2_000 || found < 2_000 {
		t.Fatalf("too few cases: %d queries with %d rows", queries, found)
	}
}
