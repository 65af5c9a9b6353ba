package query

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/decandb/decan/internal/status"
)

// groupDocuments returns documents of n groups, two for each.
func groupDocuments(t testing.TB, n int) list {
	var docs list
	for i := range 2 * n {
		docs = append(docs, newDocument(t, nil, uint64(i+1), fmt.Sprintf(`{"id":"%d","k":"group %05d","n":%d}`, i, (i*7919)%n, i)))
	}
	return docs
}

// TestGroupMemory shows that groups which do not fit in memory come in several
// passes, and that a query whose one group does not fit is refused.
func TestGroupMemory(t *testing.T) {
	t.Parallel()
	docs := groupDocuments(t, 500)
	p := mustCompile(t, "SELECT c.k, COUNT(1) AS n FROM c GROUP BY c.k")
	want, _, err := all(t.Context(), p, docs.split(3), Budget{})
	if err != nil || len(want) != 500 {
		t.Fatalf("%d groups, %v", len(want), err)
	}
	for _, most := range []int64{4 << 10, 20 << 10, 1 << 20} {
		page, err := p.Run(t.Context(), docs, Budget{Memory: most})
		if err != nil || page.More != (most < 1<<20) {
			t.Fatalf("%d bytes: %d groups, more %v, %v", most, len(page.Rows), page.More, err)
		}
		got, _, err := all(t.Context(), p, docs.split(3), Budget{Memory: most, MaxItems: 70})
		if err != nil {
			t.Fatalf("%d bytes: %v", most, err)
		}
		if !slices.EqualFunc(got, want, func(a, b Row) bool { return string(a.JSON) == string(b.JSON) }) {
			t.Fatalf("%d bytes: %d groups that differ", most, len(got))
		}
	}
	for text, ok := range map[string]int64{
		"SELECT c.k, COUNT(1) AS n FROM c GROUP BY c.k":             700,
		"SELECT VALUE MAKELIST(c.k) FROM c":                         40 << 10,
		"SELECT c.k, MAKELIST(c.id) AS l FROM c GROUP BY c.k":       2 << 10,
		"SELECT DISTINCT VALUE c.k FROM c ORDER BY c.n":             500 * (entrySize + 16),
		"SELECT VALUE COUNT(1) FROM (SELECT DISTINCT c.k FROM c) x": 700,
	} {
		for _, most := range []int64{ok, 100} {
			_, _, err := all(t.Context(), mustCompile(t, text), docs.split(3), Budget{Memory: most})
			if most == ok && err != nil {
				t.Errorf("%s with %d bytes: %v", text, most, err)
			}
			if most != ok && (status.CodeOf(err) != status.CodeBadRequest || !strings.Contains(err.Error(), "than the 100 bytes")) {
				t.Errorf("%s with %d bytes: %v", text, most, err)
			}
		}
	}
}

// combining are queries that read all documents before they return a row.
var combiningTexts = []string{
	"SELECT VALUE COUNT(1) FROM c",
	"SELECT c.k, COUNT(1) AS n FROM c GROUP BY c.k",
	"SELECT DISTINCT VALUE c.k FROM c",
	"SELECT DISTINCT VALUE c.k FROM c ORDER BY c.n",
	"SELECT VALUE COUNT(1) FROM (SELECT DISTINCT VALUE c.k FROM c) x",
	"SELECT VALUE c.k FROM c ORDER BY c.k",
	"SELECT VALUE c.k FROM c",
}

// TestGroupCancel shows that cancelling the context ends every kind of run, and
// at once if it was cancelled before.
func TestGroupCancel(t *testing.T) {
	t.Parallel()
	ix := newIndex(t)
	var docs list
	for i := range 2_000 {
		docs = append(docs, newDocument(t, ix, uint64(i+1), fmt.Sprintf(`{"k":%d,"n":%d}`, i, i)))
	}
	for _, text := range combiningTexts {
		p := compileWith(t, text, ix)
		ctx, cancel := context.WithCancel(t.Context())
		seen := 0
		src := observed{docs, func() {
			if seen++; seen == 100 {
				cancel()
			}
		}}
		stream := func(ctx context.Context, b Budget) (Page, error) { return p.Run(ctx, src, b) }
		if _, _, err := p.Merge([]Stream{stream}, Progress{}).Page(ctx, Budget{}); !errors.Is(err, context.Canceled) || seen > 100+64 {
			t.Errorf("%s: %v after %d documents", text, err, seen)
		}
		for _, src := range []Source{docs, indexed{docs}} {
			if _, err := p.Run(ctx, src, Budget{MaxItems: 5}); !errors.Is(err, context.Canceled) {
				t.Errorf("%s over %T: %v", text, src, err)
			}
		}
	}
}

// TestGroupError shows that an error of one partition is returned unchanged, also
// when all are asked at once.
func TestGroupError(t *testing.T) {
	t.Parallel()
	trouble := errors.New("disk failure")
	for _, text := range combiningTexts {
		p := mustCompile(t, text)
		for _, parallel := range []bool{false, true} {
			list := streams(p, groupDocuments(t, 10).split(3))
			list = slices.Insert(list, 1, func(ctx context.Context, b Budget) (Page, error) { return p.Run(ctx, broken{trouble}, b) })
			m := p.Merge(list, Progress{})
			if parallel {
				m.Parallel = inParallel
			}
			if _, _, err := m.Page(t.Context(), Budget{}); !errors.Is(err, trouble) {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
}

// TestWaves checks which partitions a merge asks: growing waves if it may read
// ahead, all if it looks for few documents, otherwise one after another. It also
// checks which pages the merge reports as used.
func TestWaves(t *testing.T) {
	t.Parallel()
	ix := newIndex(t)
	scan := compileWith(t, "SELECT VALUE c.k FROM c WHERE c.n >= 0", ix)
	find := compileWith(t, `SELECT VALUE c.k FROM c WHERE c.n IN (`+repeated(40, ",", "#")+`)`, ix)
	parts := make([]list, 10) // four documents each
	for i, d := range groupDocuments(t, 20) {
		parts[i%10] = append(parts[i%10], newDocument(t, ix, d.number, string(d.body)))
	}
	for _, c := range []struct {
		plan        *Plan
		items       int
		parallel    bool
		asked, used int64
		more        bool
	}{
		{scan, 3, false, 1, 1, true},
		{scan, 3, true, 1, 1, true},
		{scan, 6, false, 2, 2, true},
		{scan, 6, true, 3, 2, true}, // one, then two
		{scan, 8, true, 3, 2, true},
		{scan, 13, true, 7, 4, true},
		{scan, 100, false, 10, 10, false},
		{scan, 100, true, 10, 10, false},
		{find, 3, false, 1, 1, true},
		{find, 3, true, 10, 1, true}, // all at once
		{find, 100, true, 10, 10, false},
	} {
		p := c.plan
		var asked, used atomic.Int64
		var list []Stream
		for _, part := range parts {
			list = append(list, func(ctx context.Context, b Budget) (Page, error) {
				asked.Add(1)
				page, err := p.Run(ctx, part, b)
				page.Used = func() { used.Add(1) }
				return page, err
			})
		}
		m := p.Merge(list, Progress{})
		if c.parallel {
			m.Parallel = inParallel
		}
		page, _, err := m.Page(t.Context(), Budget{MaxItems: c.items})
		if err != nil || len(page.Rows) != min(c.items, 40) || page.More != c.more {
			t.Fatalf("%+v: %d rows, more %v, %v", c, len(page.Rows), page.More, err)
		}
		if asked.Load() != c.asked || used.Load() != c.used {
			t.Errorf("%+v: asked %d, used %d", c, asked.Load(), used.Load())
		}
		if want := min(int64(40), 4*c.used); page.Stats.Retrieved > want {
			t.Errorf("%+v: counted %d documents", c, page.Stats.Retrieved)
		}
	}
}

// TestCountsOverWaves checks that OFFSET, LIMIT and TOP end correctly in the middle of
// a wave at any page size, and that a merge that continues then ends.
func TestCountsOverWaves(t *testing.T) {
	t.Parallel()
	parts := groupDocuments(t, 40).split(8) // ten documents each
	plain, _, err := all(t.Context(), mustCompile(t, "SELECT VALUE c.id FROM c"), parts, Budget{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		text         string
		offset, take int
	}{
		{"SELECT TOP 13 VALUE c.id FROM c", 0, 13},
		{"SELECT TOP 30 VALUE c.id FROM c", 0, 30},
		{"SELECT VALUE c.id FROM c OFFSET 20 LIMIT 31", 20, 31},
		{"SELECT VALUE c.id FROM c OFFSET 5 LIMIT 1", 5, 1},
		{"SELECT VALUE c.id FROM c OFFSET 79 LIMIT 5", 79, 1},
	} {
		p := mustCompile(t, c.text)
		for _, size := range []int{0, 1, 7, 1000} {
			m := p.Merge(streams(p, parts), Progress{})
			m.Parallel = inParallel
			var got []Row
			for more := true; more; {
				page, _, err := m.Page(t.Context(), Budget{MaxItems: size})
				if err != nil {
					t.Fatal(err)
				}
				got, more = append(got, page.Rows...), page.More
			}
			want := plain[c.offset : c.offset+c.take]
			if !slices.EqualFunc(got, want, func(a, b Row) bool { return string(a.JSON) == string(b.JSON) }) {
				t.Errorf("%s in pages of %d: %d rows, want %d", c.text, size, len(got), len(want))
			}
		}
	}
}

// TestMergeGroupsContinues shows that one merge may be asked for page after page of
// groups.
func TestMergeGroupsContinues(t *testing.T) {
	t.Parallel()
	for _, text := range combiningTexts[1:] {
		p := mustCompile(t, text)
		docs := groupDocuments(t, 30)
		want, _, err := all(t.Context(), p, docs.split(3), Budget{})
		if err != nil {
			t.Fatal(err)
		}
		m := p.Merge(streams(p, docs.split(3)), Progress{})
		m.Parallel = inParallel
		var got []Row
		for more := true; more; {
			page, _, err := m.Page(t.Context(), Budget{MaxItems: 7})
			if err != nil || len(page.Rows) > 7 {
				t.Fatalf("%s: %d rows, %v", text, len(page.Rows), err)
			}
			got, more = append(got, page.Rows...), page.More
		}
		if !slices.EqualFunc(got, want, func(a, b Row) bool { return string(a.JSON) == string(b.JSON) }) {
			t.Errorf("%s: got %d rows, want %d", text, len(got), len(want))
		}
	}
}

// TestIndexAnswers shows which queries read no document, or few, when an index is
// present, and that the others do not need one.
func TestIndexAnswers(t *testing.T) {
	t.Parallel()
	ix := newIndex(t, "/hidden/?")
	var docs list
	for i := range 400 {
		docs = append(docs, newDocument(t, ix, uint64(i+1), fmt.Sprintf(`{"id":"%d","k":%d,"few":%d,"hidden":%d}`, i, i, i%4, i%4)))
	}
	for text, most := range map[string]int64{
		"SELECT VALUE COUNT(1) FROM c":                                          0,
		"SELECT VALUE COUNT(1) FROM c WHERE c.few = 1":                          0,
		"SELECT VALUE COUNT(1) FROM c WHERE c.k > 100 AND c.k <= 200":           0,
		"SELECT VALUE COUNT(c.nothing) FROM c":                                  0,
		"SELECT VALUE MAX(c.k) FROM c":                                          0,
		"SELECT MIN(c.k), MAX(c.few), SUM(c.k), COUNT(1) FROM c":                0,
		"SELECT c.few, COUNT(1) AS n FROM c GROUP BY c.few":                     0,
		"SELECT DISTINCT VALUE c.few FROM c":                                    0,
		"SELECT DISTINCT VALUE c.few FROM c WHERE c.few != 2":                   0,
		"SELECT VALUE COUNT(1) FROM c WHERE c.k % 2 = 0":                        0,
		"SELECT c.few, COUNT(1) AS n FROM c WHERE c.k >= 100 GROUP BY c.few":    0,
		"SELECT TOP 10 VALUE c.id FROM c ORDER BY c.k":                          11,
		"SELECT TOP 10 VALUE c.id FROM c ORDER BY c.k DESC":                     11,
		"SELECT TOP 10 VALUE c.id FROM c WHERE c.few = 1 ORDER BY c.k":          100,
		"SELECT VALUE COUNT(1) FROM c WHERE c.hidden = 1":                       400,
		"SELECT c.hidden, COUNT(1) AS n FROM c GROUP BY c.hidden":               400,
		"SELECT c.few, COUNT(1) AS n FROM c WHERE c.hidden = 1 GROUP BY c.few":  400,
		"SELECT VALUE SUM(c.few) FROM c WHERE c.k = 7":                          1,
		"SELECT VALUE MAX(c.few) FROM c WHERE c.k < 50":                         50,
		"SELECT TOP 10 VALUE c.id FROM c WHERE c.hidden = 1 ORDER BY c.k":       51,
		"SELECT TOP 10 VALUE c.id FROM c WHERE c.hidden = 9 ORDER BY c.k":       500,
		"SELECT VALUE COUNT(1) FROM c JOIN t IN c.tags":                         400,
		"SELECT VALUE COUNT(1) FROM c WHERE EXISTS(SELECT 1 FROM t IN c.tags)":  400,
		"SELECT VALUE c.id FROM c WHERE c.k < 5 ORDER BY c.k":                   5,
		"SELECT VALUE COUNT(1) FROM (SELECT DISTINCT VALUE c.few FROM c) x":     0,
		"SELECT VALUE COUNT(1) FROM c WHERE c.k = 1 OR c.few = 2":               0,
		"SELECT VALUE COUNT(1) FROM c WHERE STARTSWITH(c.id, '1') AND c.k < 99": 0,
	} {
		p := compileWith(t, text, ix)
		run := func(src Source) Page {
			stream := func(ctx context.Context, b Budget) (Page, error) { return p.Run(ctx, src, b) }
			page, _, err := p.Merge([]Stream{stream}, Progress{}).Page(t.Context(), Budget{MaxItems: 100})
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			return page
		}
		with, without := run(indexed{docs}), run(docs)
		if with.Stats.Retrieved > most || most > 0 && with.Stats.Retrieved < min(most, 400)*3/4 {
			t.Errorf("%s: read %d documents, want %d at most", text, with.Stats.Retrieved, most)
		}
		if !slices.EqualFunc(with.Rows, without.Rows, func(a, b Row) bool { return string(a.JSON) == string(b.JSON) }) {
			t.Errorf("%s: with the index %d rows, without %d", text, len(with.Rows), len(without.Rows))
		}
	}
}

// TestJoinStats checks that a document with several rows counts once, and again on a
// page that continues inside it.
func TestJoinStats(t *testing.T) {
	t.Parallel()
	docs := list{newDocument(t, nil, 1, `{"t":[1,2,3]}`), newDocument(t, nil, 2, `{"t":[]}`), newDocument(t, nil, 3, `{"t":[4]}`)}
	p := mustCompile(t, "SELECT VALUE t FROM c JOIN t IN c.t")
	whole, err := p.Run(t.Context(), docs, Budget{})
	if err != nil || whole.Stats.Retrieved != 3 || whole.Stats.Matched != 2 || whole.Stats.Output != 4 || whole.More {
		t.Fatalf("%+v, %v", whole.Stats, err)
	}
	var places []string
	for b := (Budget{MaxItems: 2}); ; {
		page, err := p.Run(t.Context(), docs, b)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range page.Rows {
			places = append(places, fmt.Sprintf("%s at %d.%d", row.JSON, row.Position.Number, row.Position.Row))
		}
		if !page.More {
			break
		}
		b.After, b.Started = page.Next, true
	}
	if got, want := strings.Join(places, ", "), "1 at 1.1, 2 at 1.2, 3 at 1.0, 4 at 3.0"; got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
}

// TestTimes shows that the parts of a run's time add up to the whole.
func TestTimes(t *testing.T) {
	t.Parallel()
	docs := numberedDocuments(t, 2_000)
	for _, text := range []string{"SELECT * FROM c", "SELECT VALUE COUNT(1) FROM c", "SELECT VALUE c.id FROM c ORDER BY c.k"} {
		page, err := mustCompile(t, text).Run(t.Context(), docs, Budget{MaxItems: 100_000})
		if err != nil {
			t.Fatal(err)
		}
		s := page.Stats
		if s.Lookup < 0 || s.Load < 0 || s.Evaluate < 0 || s.Lookup+s.Load+s.Evaluate > s.Took || s.Took <= 0 {
			t.Errorf("%s: %+v", text, s)
		}
	}
}

// TestHostilePositions shows that forged positions return some rows or none, and never
// cause a panic or endless work: positions come from clients.
func TestHostilePositions(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 8))
	ix := shapeIndex(t)
	var docs list
	for i := range 30 {
		docs = append(docs, randomShape(t, r, ix, i+1))
	}
	for _, shape := range shapes {
		p := compileWith(t, shape.text, ix)
		for range 40 {
			key := make([]byte, pickInt(r, 0, 1, 5, 127, 128, 129))
			for i := range key {
				key[i] = []byte{0, 1, 2, 5, 6, 7, 8, 'x', 0xFE, 0xFF}[r.IntN(10)]
			}
			from := Progress{
				Position: Position{Number: []uint64{0, 1, 15, 1<<64 - 1}[r.IntN(4)], Key: key, Row: pickInt(r, -1, 0, 1, 1<<40)},
				Started:  r.IntN(4) > 0,
				Skip:     []int64{0, 1, 1 << 62}[r.IntN(3)],
				Taken:    []int64{0, 1, 1 << 62}[r.IntN(3)],
			}
			stream := func(ctx context.Context, b Budget) (Page, error) { return p.Run(ctx, indexed{docs}, b) }
			if _, _, err := p.Merge([]Stream{stream}, from).Page(t.Context(), Budget{MaxItems: 5}); err != nil {
				t.Errorf("seed %d: %s from %+v: %v", seed, shape.text, from, err)
			}
		}
	}
}

// TestIndexedFilters counts and groups with random filters, with and without the index.
// It detects an index expression that is wrongly considered exact.
func TestIndexedFilters(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 9))
	ix := newIndex(t, "/n/b/?")
	var docs list
	for i := range 100 {
		docs = append(docs, newDocument(t, ix, uint64(i+1), randomDocument(r, i%40)))
	}
	answered := 0
	for range 600 {
		filter := randomFilter(r, r.IntN(4))
		for _, head := range []string{"SELECT VALUE COUNT(1) FROM c", "SELECT DISTINCT VALUE c.a FROM c", "SELECT c.id, COUNT(c.a) AS n FROM c", "SELECT MIN(c.a) AS lo, MAX(c.b) AS hi FROM c", "SELECT VALUE c.id FROM c"} {
			text := head + " WHERE " + filter
			switch head {
			case "SELECT c.id, COUNT(c.a) AS n FROM c":
				text += " GROUP BY c.id"
			case "SELECT VALUE c.id FROM c":
				text = strings.Replace(text, "SELECT", "SELECT TOP 3", 1) + " ORDER BY c.a"
			}
			with, err := compileWith(t, text, ix).Run(t.Context(), indexed{docs}, Budget{})
			if err != nil {
				t.Fatalf("seed %d: %s: %v", seed, text, err)
			}
			without, err := mustCompile(t, text).Run(t.Context(), docs, Budget{})
			if err != nil {
				t.Fatalf("seed %d: %s: %v", seed, text, err)
			}
			if with.Stats.Retrieved < without.Stats.Retrieved {
				answered++
			}
			same := func(a, b Row) bool {
				if string(a.JSON) != string(b.JSON) || string(a.Order) != string(b.Order) || (a.Group == nil) != (b.Group == nil) {
					return false
				}
				return a.Group == nil || slices.EqualFunc(a.Group.Aggregates, b.Group.Aggregates, func(x, y Aggregate) bool {
					return x.result().String() == y.result().String()
				})
			}
			if !slices.EqualFunc(with.Rows, without.Rows, same) {
				t.Fatalf("seed %d: %s: %d rows with the index, %d without", seed, text, len(with.Rows), len(without.Rows))
			}
		}
	}
	if answered < 400 {
		t.Fatalf("the index answered %d queries only", answered)
	}
}

// TestTogetherJoin pages through children of one partition whose documents give
// several rows, so that pages end inside documents.
func TestTogetherJoin(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 10))
	p := mustCompile(t, "SELECT VALUE t FROM c JOIN t IN c.t")
	for range 200 {
		children := make([]list, 1+r.IntN(4))
		var want, got []string
		for i := range r.IntN(15) {
			var items []string
			for j := range r.IntN(5) {
				items = append(items, fmt.Sprint(10*i+j))
			}
			want = append(want, items...)
			child := &children[r.IntN(len(children))]
			*child = append(*child, newDocument(t, nil, uint64(i+1), `{"t":[`+strings.Join(items, ",")+`]}`))
		}
		together := Together(streams(p, children)...)
		var from Progress
		for pages := 0; ; pages++ {
			page, next, err := p.Merge([]Stream{together}, from).Page(t.Context(), Budget{MaxItems: 1 + r.IntN(6), MaxBytes: 1 + r.IntN(12)})
			if err != nil || pages > 200 {
				t.Fatalf("seed %d: page %d, %v", seed, pages, err)
			}
			for _, row := range page.Rows {
				got = append(got, string(row.JSON))
			}
			if from = next; !page.More {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: got %v, want %v", seed, got, want)
		}
	}
}
