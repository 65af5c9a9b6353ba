package query

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/internal/vector"
)

var _ Ranked = indexed{}

// Nearest sorts all documents. Its approximate search ignores the last element of each
// vector, so its results are often wrong.
func (l indexed) Nearest(ctx context.Context, s Nearest) iter.Seq2[Candidate, error] {
	type near struct {
		document
		guess, score float64
	}
	var all []near
	for _, d := range l.list {
		v, ok := vector.Parse(at(d.value, s.Path), nil)
		if !ok || len(v) != len(s.Vector) || !s.Access.Admits(d.terms) {
			continue
		}
		last := len(v) - 1
		all = append(all, near{d, s.Metric.Score(v[:last], s.Vector[:last]), s.Metric.Score(v, s.Vector)})
	}
	worse := func(a, b float64) int {
		switch {
		case s.Metric.Better(a, b):
			return -1
		case s.Metric.Better(b, a):
			return 1
		}
		return 0
	}
	byScore := func(a, b near) int { return cmp.Or(worse(a.score, b.score), cmp.Compare(b.number, a.number)) }
	slices.SortFunc(all, func(a, b near) int { return cmp.Or(worse(a.guess, b.guess), cmp.Compare(b.number, a.number)) })
	if s.List == 0 {
		s.List = len(all)
		from := near{document: document{number: s.From.ID}, score: s.From.Score}
		all = slices.DeleteFunc(all, func(d near) bool { return s.Started && byScore(d, from) <= 0 })
	}
	return func(yield func(Candidate, error) bool) {
		var body []byte
		for group := range slices.Chunk(all, max(s.List, 1)) {
			slices.SortFunc(group, byScore)
			for _, d := range group {
				if !d.yield(ctx, &body, Candidate{Led: true}, s.Bare, yield) {
					return
				}
			}
		}
	}
}

// at returns the value at a path.
func at(v value.Value, path index.Path) value.Value {
	for _, name := range path {
		v = v.Get(name)
	}
	return v
}

func (l indexed) Latest(ctx context.Context, need Need) iter.Seq2[Candidate, error] {
	return func(yield func(Candidate, error) bool) {
		var body []byte
		for _, d := range slices.Backward(l.list) {
			if (need.After == 0 || d.number < need.After) && need.Access.Admits(d.terms) && !d.yield(ctx, &body, Candidate{Led: need.Access.Op != index.All}, need.Bare, yield) {
				return
			}
		}
	}
}

// nearestIndex has a vector index of a type at /v and one at /sub/v.
func nearestIndex(t *testing.T, kind, element, metric string) *index.Index {
	t.Helper()
	return containerIndex(t, fmt.Sprintf(`{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},
		"vectorEmbeddingPolicy":{"vectorEmbeddings":[{"path":"/v","dataType":%q,"dimensions":3,"distanceFunction":%q},{"path":"/sub/v","dataType":"float32","dimensions":2,"distanceFunction":"euclidean"}]},
		"fullTextPolicy":{"defaultLanguage":"en-US","fullTextPaths":[{"path":"/text","language":"en-US"}]},
		"indexingPolicy":{"vectorIndexes":[{"path":"/v","type":%q},{"path":"/sub/v","type":"flat"}],"fullTextIndexes":[{"path":"/text"}]}}`, element, metric, kind))
}

// nearestDocument returns a random document, usually with vectors, many of which
// are equally near.
func nearestDocument(t testing.TB, r *rand.Rand, ix *index.Index, n int) document {
	text := fmt.Sprintf(`{"_rid":"r%06d","id":"%d","n":%d,"tags":[%d,%d],"text":%q`, n, n, r.IntN(10), r.IntN(4), r.IntN(4),
		strings.Join([]string{"boat", "swim", "fast"}[:r.IntN(4)], " ")+" stone")
	switch r.IntN(8) {
	case 0:
	case 1:
		text += `,"v":[1,"2",3]`
	case 2:
		text += `,"v":[1,2]`
	default:
		text += fmt.Sprintf(`,"v":[%d,%d,%d]`, r.IntN(5)-2, r.IntN(5)-2, r.IntN(9)-4)
	}
	if r.IntN(4) > 0 {
		text += fmt.Sprintf(`,"sub":{"v":[%d,%d.5]}`, r.IntN(6), r.IntN(6))
	}
	return newDocument(t, ix, uint64(n), text+"}")
}

// TestNearestRows compares the rows found through an index of vectors with those
// of a sort: over several partitions, in pages, with filters that the index knows
// and others, and with documents that have no vector.
func TestNearestRows(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 11))
	led := 0
	for range 300 {
		kind, element := pickText(r, "flat", "quantizedFlat", "diskANN"), pickText(r, "float32", "float32", "int8")
		ix := nearestIndex(t, kind, element, pickText(r, "cosine", "euclidean", "dotproduct"))
		var docs list
		for n := range 20 + r.IntN(300) {
			docs = append(docs, nearestDocument(t, r, ix, n+1))
		}
		how := pickText(r, "", "", ", false", ", true", `, true, {distanceFunction: "euclidean"}`, ", false, {searchListSizeMultiplier: 2}")
		distance := pickText(r, fmt.Sprintf("VectorDistance(c.v, [%d, %d, %d]%s)", r.IntN(5)-2, r.IntN(5)-2, r.IntN(9)-4, how),
			fmt.Sprintf("VectorDistance([%d, 2.25], c.sub.v, true)", r.IntN(6)))
		where := pickText(r, "", "", "WHERE c.n > 4", "WHERE c.n = 3 OR c.n = 4", "WHERE c.n * 2 > 8", "WHERE c.n * 2 > 17", "WHERE c.n < 0", "WHERE IS_DEFINED(c.sub)")
		shape := pickText(r, "SELECT TOP %[3]d c.id, %[1]s AS d FROM c %[2]s ORDER BY %[1]s", "SELECT c.id FROM c %[2]s ORDER BY %[1]s OFFSET %[4]d LIMIT %[3]d",
			"SELECT TOP %[3]d VALUE [c.id, t] FROM c JOIN t IN c.tags %[2]s ORDER BY %[1]s")
		text := fmt.Sprintf(shape, distance, where, 1+r.IntN(12), r.IntN(4))
		p := compileWith(t, text, ix)
		want, err := shapeRun{parts: 1}.rows(t.Context(), p, docs)
		if err != nil {
			t.Fatal(err)
		}
		guessed := p.order.nearest != nil && p.order.nearest.multiplier > 0
		var first []value.Value
		for _, page := range []int{0, 1, 4} {
			w := shapeRun{parts: 1 + r.IntN(3), page: page, bytes: pickInt(r, 0, 0, 40), indexed: true}
			if guessed {
				w.parts, w.bytes = 1, 0
			}
			got, err := w.rows(t.Context(), p, docs)
			if err != nil {
				t.Fatalf("seed %d: %s: %v", seed, text, err)
			}
			label := fmt.Sprintf("seed %d: %s %s of %d documents: %s: %s", seed, element, kind, len(docs), text, w)
			if !guessed {
				compareRows(t, label, got, want, true)
				continue
			}
			// An approximate search may return other rows, but the number of rows is
			// the same, and the rows do not depend on the pages.
			if first == nil {
				first = got
			}
			compareRows(t, label, got, first, true)
			if len(got) != len(want) {
				t.Fatalf("%s: %d rows, want %d", label, len(got), len(want))
			}
		}
		page, err := p.Run(t.Context(), indexed{docs}, Budget{})
		if err != nil {
			t.Fatal(err)
		}
		if page.Stats.Retrieved < int64(len(docs))/3 && where == "" {
			led++
		}
	}
	if led < 20 {
		t.Errorf("seed %d: too few cases: only %d of the searches read few documents", seed, led)
	}
}

func pickText(r *rand.Rand, list ...string) string { return list[r.IntN(len(list))] }

// TestNearestReads checks how many documents a search reads: those that it returns and,
// with a filter that the index does not know, those before them.
func TestNearestReads(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind, element, text string
		read                int64
	}{
		{"flat", "float32", "SELECT TOP 5 c.id FROM c ORDER BY VectorDistance(c.v, [1, 0, 0])", 5},
		{"flat", "float32", "SELECT TOP 5 c.id FROM c WHERE c.n < 500 ORDER BY VectorDistance(c.v, [1, 0, 0])", 5},
		{"flat", "float32", "SELECT TOP 5 c.id FROM c WHERE c.n * 2 < 1000 ORDER BY VectorDistance(c.v, [1, 0, 0])", 5},
		{"flat", "float32", "SELECT TOP 5 c.id FROM c WHERE c.n % 2 + 0 * LENGTH(c.id) = 0 ORDER BY VectorDistance(c.v, [1, 0, 0])", 9},
		{"flat", "float32", "SELECT c.id FROM c ORDER BY VectorDistance(c.v, [1, 0, 0]) OFFSET 3 LIMIT 5", 8},
		// The few that pass the filter are read and sorted.
		{"flat", "float32", "SELECT TOP 5 c.id FROM c WHERE c.n < 20 ORDER BY VectorDistance(c.v, [1, 0, 0])", 20},
		// All of them are requested.
		{"flat", "float32", "SELECT c.id FROM c ORDER BY VectorDistance(c.v, [1, 0, 0])", 1000},
		{"flat", "float32", "SELECT TOP 500 c.id FROM c ORDER BY VectorDistance(c.v, [1, 0, 0])", 1000},
		// Another metric than that of the index, and vectors that are not in it.
		{"flat", "float32", `SELECT TOP 5 c.id FROM c ORDER BY VectorDistance(c.v, [1, 0, 0], false, {distanceFunction: "cosine"})`, 5},
		{"flat", "float32", "SELECT TOP 5 c.id FROM c ORDER BY VectorDistance(c.v, [1, 0])", 1000},
		{"flat", "float32", "SELECT TOP 5 c.id FROM c ORDER BY VectorDistance(c.w, [1, 0, 0])", 1000},
		// The source compares approximate matches, but with vectors of fewer bits.
		{"diskANN", "float32", "SELECT TOP 5 c.id FROM c ORDER BY VectorDistance(c.v, [1, 0, 0])", 5},
		{"flat", "int8", "SELECT TOP 5 c.id FROM c ORDER BY VectorDistance(c.v, [1, 0, 0])", 25},
		{"flat", "int8", "SELECT TOP 5 c.id FROM c ORDER BY VectorDistance(c.v, [1, 0, 0], false, {quantizedVectorListMultiplier: 3, searchListSizeMultiplier: 50})", 15},
		{"flat", "int8", "SELECT TOP 5 c.id FROM c ORDER BY VectorDistance(c.v, [1, 0, 0], true)", 1000},
	} {
		ix := nearestIndex(t, c.kind, c.element, "euclidean")
		var docs list
		for n := range 1000 {
			docs = append(docs, newDocument(t, ix, uint64(n+1), fmt.Sprintf(`{"id":"%d","n":%d,"v":[%d,0,0]}`, n, n, n%125+1)))
		}
		p := compileWith(t, c.text, ix)
		var stats Stats
		if _, _, err := p.Merge([]Stream{func(ctx context.Context, b Budget) (Page, error) {
			page, err := p.Run(ctx, indexed{docs}, b)
			stats = page.Stats
			return page, err
		}}, Progress{}).Page(t.Context(), Budget{}); err != nil {
			t.Fatal(err)
		}
		if stats.Retrieved != c.read {
			t.Errorf("%s index of %s: %s: read %d, want %d", c.kind, c.element, c.text, stats.Retrieved, c.read)
		}
		n, ok, err := p.Estimate(t.Context(), indexed{docs})
		if want := min(c.read, 1000); err != nil || !ok || !strings.Contains(c.text, "%") && n != want {
			t.Errorf("%s: estimate %d, %t, %v, want %d", c.text, n, ok, err, want)
		}
	}
}

// TestHybridFromIndex compares searches by words and vectors over an index with
// those over documents alone.
func TestHybridFromIndex(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 12))
	ix := nearestIndex(t, "flat", "float32", "euclidean")
	var docs list
	for n := range 2000 {
		d := nearestDocument(t, r, ix, n+1)
		if n%150 == 0 {
			d = newDocument(t, ix, uint64(n+1), strings.Replace(string(d.body), "stone", "stone horse horse", 1))
		}
		docs = append(docs, d)
	}
	for _, rank := range []string{
		`FullTextScore(c.text, "horse")`, `FullTextScore(c.text, "horse", "stone")`, `FullTextScore(c.text, "boat")`, `FullTextScore(c.text, "nothing")`, `FullTextScore(c.text, "boat swim")`,
		`FullTextScore(c.text, "the")`,
		`RRF(FullTextScore(c.text, "horse"), VectorDistance(c.v, [1, 2, 3]))`,
		`RRF(VectorDistance(c.sub.v, [1, 2]), FullTextScore(c.text, "horse", {"term": "boad", "distance": 1}), VectorDistance(c.v, [1, 2, 3]), [1, -2, 3])`,
	} {
		for _, where := range []string{"", "WHERE c.n > 3", "WHERE c.n * 2 < 4"} {
			text := fmt.Sprintf("SELECT VALUE c.id FROM c %s ORDER BY RANK %s OFFSET 2 LIMIT 30", where, rank)
			h := compileWith(t, text, ix).Hybrid()
			parts := docs.split(1)
			if where != "" {
				parts = docs.split(3)
			}
			want, read, err := fused(t.Context(), h, func(l list) Source { return l }, parts)
			if err != nil {
				t.Fatal(err)
			}
			got, readFromIndex, err := fused(t.Context(), h, func(l list) Source { return indexed{l} }, parts)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, want) {
				t.Errorf("seed %d: %s:\n%v, want\n%v", seed, text, got, want)
			}
			if few := !strings.Contains(rank, "stone") && !strings.Contains(rank, "boa"); few && where == "" && 5*readFromIndex > read {
				t.Errorf("%s: %d documents read, %d without the index", text, readFromIndex, read)
			}
		}
	}
}

// asked is a source that records which accesses must be exact.
type asked struct {
	indexed
	whole *[]string
}

func (s asked) note(access index.Expr) { *s.whole = append(*s.whole, access.String()) }

func (s asked) Count(ctx context.Context, access index.Expr, most int64) (int64, bool, error) {
	if most == math.MaxInt64 {
		s.note(access)
	}
	return s.indexed.Count(ctx, access, most)
}

func (s asked) Nearest(ctx context.Context, n Nearest) iter.Seq2[Candidate, error] {
	s.note(n.Access)
	return s.indexed.Nearest(ctx, n)
}

func (s asked) Latest(ctx context.Context, n Need) iter.Seq2[Candidate, error] {
	s.note(n.Access)
	return s.indexed.Latest(ctx, n)
}

func (s asked) Candidates(ctx context.Context, n Need) iter.Seq2[Candidate, error] {
	s.note(n.Access)
	return s.indexed.Candidates(ctx, n)
}

// TestHybridOfValues runs searches that select a value, which must be defined, so
// that their components require it: no component reads all terms of its path,
// unless few documents have it.
func TestHybridOfValues(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 14))
	ix := nearestIndex(t, "flat", "float32", "euclidean")
	var docs list
	for n := range 4000 {
		d := nearestDocument(t, r, ix, n+1)
		if n%80 == 0 {
			d = newDocument(t, ix, uint64(n+1), strings.Replace(strings.Replace(string(d.body), "stone", "stone horse", 1), "{", `{"rare":1,`, 1))
		}
		docs = append(docs, d)
	}
	for _, c := range []struct {
		what, where string
		asked       bool // for all that have the value
	}{
		{"c.id", "", false}, {"c.id", "WHERE c.n > 3", false}, {"c.rare", "", true},
	} {
		for _, rank := range []string{
			`FullTextScore(c.text, "horse")`, `VectorDistance(c.v, [1, 2, 3])`,
			`RRF(FullTextScore(c.text, "horse"), VectorDistance(c.v, [1, 2, 3]))`,
		} {
			h := compileWith(t, fmt.Sprintf("SELECT TOP 5 VALUE %s FROM c %s ORDER BY RANK %s", c.what, c.where, rank), ix).Hybrid()
			want, _, err := fused(t.Context(), h, func(l list) Source { return l }, []list{docs})
			if err != nil {
				t.Fatal(err)
			}
			var whole []string
			got, _, err := fused(t.Context(), h, func(l list) Source { return asked{indexed{l}, &whole} }, []list{docs})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, want) || len(got) != 5 {
				t.Errorf("seed %d: %s of %s: %v, want %v", seed, c.what, rank, got, want)
			}
			path := "/" + strings.TrimPrefix(c.what, "c.") + "/?"
			if found := slices.ContainsFunc(whole, func(access string) bool { return strings.Contains(access, path) }); found != c.asked {
				t.Errorf("seed %d: %s %s of %s asks for %q", seed, c.what, c.where, rank, whole)
			}
		}
	}
}

// fused runs a hybrid search, and returns how many documents it read.
func fused(ctx context.Context, h *Hybrid, source func(l list) Source, parts []list) (rows []string, read int64, err error) {
	run := func(p *Plan) ([]Row, error) {
		var streams []Stream
		for _, part := range parts {
			streams = append(streams, func(ctx context.Context, b Budget) (Page, error) { return p.Run(ctx, source(part), b) })
		}
		page, _, err := p.Merge(streams, Progress{}).Page(ctx, Budget{})
		read += page.Stats.Retrieved
		return page.Rows, err
	}
	var known []byte
	statistics, err := h.Statistics()
	if err == nil && statistics != nil {
		var row []Row
		if row, err = run(statistics); err == nil {
			known = row[0].JSON
		}
	}
	if err != nil {
		return nil, 0, err
	}
	components, err := h.Components(known)
	if err != nil {
		return nil, 0, err
	}
	found := make([][]Row, len(components))
	for i, p := range components {
		if found[i], err = run(p); err != nil {
			return nil, 0, err
		}
	}
	out, err := h.Fuse(found)
	for _, row := range out {
		rows = append(rows, string(row.JSON))
	}
	return rows, read, err
}
