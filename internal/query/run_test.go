package query

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/decandb/decan/internal/status"
)

func mustCompile(t testing.TB, text string) *Plan {
	t.Helper()
	p, err := Compile(text, nil, nil, Options{Now: time.Unix(0, 0)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func numberedDocuments(t testing.TB, n int) list {
	var docs list
	for i := range n {
		docs = append(docs, newDocument(t, nil, uint64(i+1), fmt.Sprintf(`{"id":"%d","k":%d,"pad":"%s"}`, i, n-i, strings.Repeat("p", 50))))
	}
	return docs
}

// TestDeadline shows that a page without ORDER BY ends in time, makes progress
// however short the time is, and may be empty.
func TestDeadline(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, "SELECT VALUE c.id FROM c WHERE c.k = 1")
	docs := numberedDocuments(t, 50)
	past := time.Unix(1, 0)
	var from Budget
	var got []string
	pages := 0
	for {
		from.Deadline = past
		page, err := p.Run(t.Context(), docs, from)
		if err != nil {
			t.Fatal(err)
		}
		pages++
		for _, row := range page.Rows {
			got = append(got, string(row.JSON))
		}
		if !page.More {
			break
		}
		if page.Next.Number <= from.After.Number {
			t.Fatalf("no progress after document %d", from.After.Number)
		}
		from = Budget{After: page.Next, Started: true}
	}
	if pages < 2 || !slices.Equal(got, []string{`"49"`}) {
		t.Fatalf("%d pages, rows %v", pages, got)
	}
	// The same through a merge.
	rows, pages, err := all(t.Context(), p, docs.split(3), Budget{Deadline: past})
	if err != nil || len(rows) != 1 || pages < 2 {
		t.Fatalf("%d rows on %d pages, %v", len(rows), pages, err)
	}
}

// TestCancel shows that cancelling the context ends a run.
func TestCancel(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"SELECT * FROM c", "SELECT * FROM c ORDER BY c.k"} {
		p := mustCompile(t, text)
		ctx, cancel := context.WithCancel(t.Context())
		seen := 0
		src := observed{numberedDocuments(t, 500), func() {
			if seen++; seen == 3 {
				cancel()
			}
		}}
		if _, err := p.Run(ctx, src, Budget{}); !errors.Is(err, context.Canceled) {
			t.Fatalf("%s: %v", text, err)
		}
		if seen > 3+64 {
			t.Fatalf("%s: read %d documents after the end", text, seen-3)
		}
		stream := func(ctx context.Context, b Budget) (Page, error) { return p.Run(ctx, src, b) }
		if _, _, err := p.Merge([]Stream{stream}, Progress{}).Page(ctx, Budget{}); !errors.Is(err, context.Canceled) {
			t.Fatalf("merge of %s: %v", text, err)
		}
	}
}

// observed calls note before it yields each document.
type observed struct {
	list
	note func()
}

func (o observed) Candidates(ctx context.Context, need Need) iter.Seq2[Candidate, error] {
	return func(yield func(Candidate, error) bool) {
		for c, err := range o.list.Candidates(context.Background(), need) {
			o.note()
			if !yield(c, err) {
				return
			}
		}
	}
}

// TestSourceError shows that errors of a source are returned unchanged.
func TestSourceError(t *testing.T) {
	t.Parallel()
	trouble := errors.New("disk failure")
	src := broken{trouble}
	for _, text := range []string{"SELECT * FROM c", "SELECT * FROM c ORDER BY c.k"} {
		if _, err := mustCompile(t, text).Run(t.Context(), src, Budget{}); !errors.Is(err, trouble) {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

type broken struct{ err error }

func (b broken) Candidates(context.Context, Need) iter.Seq2[Candidate, error] {
	return func(yield func(Candidate, error) bool) { yield(Candidate{}, b.err) }
}

// TestCorruptDocument checks that a document that is not JSON is an error of the server
// and not of the client.
func TestCorruptDocument(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{"a`, `{"a":`, `{"a" 1}`, `{"x":"\"`, ``, `{"a":tru}`} {
		src := list{{number: 1, body: []byte(body)}}
		p := mustCompile(t, "SELECT VALUE c.a = 1 FROM c")
		_, err := p.Run(t.Context(), src, Budget{})
		if err == nil || status.From(err) != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// TestLocate finds places in texts with white space, escapes and nesting.
func TestLocate(t *testing.T) {
	t.Parallel()
	docs := list{newDocument(t, nil, 1, " { \"x\" : \"}\\\"]\\\\\" , \"a\\u0062\" : [ 1 , { \"c\" : \"\\\\\" } , [ ] ] , \"é\" : -1.5e3 , \"n\" : { } } ")}
	for expr, want := range map[string]string{
		`c.ab[0]`: `1`, `c.ab[1].c`: `"\\"`, `c.ab[1]["c"]`: `"\\"`, `c.ab[2]`: `[ ]`, `c.ab[3]`: ``, `c["é"]`: `-1.5e3`,
		`c.n`: `{ }`, `c.n.x`: ``, `c.x`: `"}\"]\\"`, `c.x.y`: ``, `c.x[0]`: ``, `c.ab.c`: ``, `[c.ab[1].c, c.ab[0], c.x, c.n]`: `["\\",1,"}\"]\\",{ }]`,
		`LENGTH(c.x)`: `4`, `c["é"] * 2`: `-3000`,
	} {
		page, err := mustCompile(t, "SELECT VALUE "+expr+" FROM c").Run(t.Context(), docs, Budget{})
		if err != nil {
			t.Errorf("%s: %v", expr, err)
			continue
		}
		got := ""
		for _, row := range page.Rows {
			got = string(row.JSON)
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", expr, got, want)
		}
	}
}

// TestStats counts what was read and returned.
func TestStats(t *testing.T) {
	t.Parallel()
	docs := numberedDocuments(t, 10)
	page, err := mustCompile(t, "SELECT VALUE c.id FROM c WHERE c.k > 5").Run(t.Context(), docs, Budget{})
	if err != nil {
		t.Fatal(err)
	}
	s := page.Stats
	again, err := mustCompile(t, "SELECT VALUE c.id FROM c").Run(t.Context(), docs, Budget{MaxBytes: 7})
	if err != nil || len(again.Rows) != 2 || again.Stats.Retrieved != 2 || !again.More {
		t.Fatalf("a row without room is counted: %+v, %v", again.Stats, err)
	}
	if s.Retrieved != 10 || s.Matched != 5 || s.Output != 5 || s.OutputBytes != 15 || s.IndexHits != 0 || s.RetrievedBytes < 500 {
		t.Fatalf("%+v", s)
	}
}

// TestEstimate checks how many documents a plan expects to read according to the
// index, and that it expects nothing without one.
func TestEstimate(t *testing.T) {
	t.Parallel()
	ix := newIndex(t)
	var docs list
	for i := range 10 {
		docs = append(docs, newDocument(t, ix, uint64(i+1), fmt.Sprintf(`{"id":"%d","k":%d}`, i, i)))
	}
	for text, want := range map[string]int64{
		"SELECT * FROM c":                  10,
		"SELECT * FROM c WHERE c.k > 6":    3,
		"SELECT * FROM c WHERE c.k = 'no'": 0,
		"SELECT VALUE COUNT(1) FROM (SELECT DISTINCT c.id FROM c WHERE c.k < 4) AS d": 4,
	} {
		n, ok, err := compileWith(t, text, ix).Estimate(t.Context(), indexed{docs})
		if n != want || !ok || err != nil {
			t.Errorf("%s: %d, %v, %v, want %d", text, n, ok, err, want)
		}
	}
	if _, ok, err := mustCompile(t, "SELECT 1").Estimate(t.Context(), indexed{docs}); ok || err != nil {
		t.Errorf("without FROM: %v, %v", ok, err)
	}
	if _, ok, err := mustCompile(t, "SELECT * FROM c").Estimate(t.Context(), docs); ok || err != nil {
		t.Errorf("without an index: %v, %v", ok, err)
	}
}

// TestEarlyExit shows that a merge does not ask a partition that it does not
// need.
func TestEarlyExit(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, "SELECT TOP 3 VALUE c.id FROM c")
	asked := 0
	var list []Stream
	for _, part := range numberedDocuments(t, 40).split(4) {
		list = append(list, func(ctx context.Context, b Budget) (Page, error) {
			asked++
			return p.Run(ctx, part, b)
		})
	}
	page, _, err := p.Merge(list, Progress{}).Page(t.Context(), Budget{MaxItems: 100})
	if err != nil || len(page.Rows) != 3 || page.More || asked != 1 {
		t.Fatalf("%d rows, more %v, %d asked, %v", len(page.Rows), page.More, asked, err)
	}
}

// TestMergeContinues shows that one merge can be asked for page after page, and then
// reads each row once.
func TestMergeContinues(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"SELECT VALUE c.k FROM c ORDER BY c.k", "SELECT VALUE c.k FROM c ORDER BY c.k DESC OFFSET 5 LIMIT 20", "SELECT VALUE c.k FROM c"} {
		p := mustCompile(t, text)
		docs := numberedDocuments(t, 40)
		m := p.Merge(streams(p, docs.split(3)), Progress{})
		var got, want []string
		for more := true; more; {
			page, _, err := m.Page(t.Context(), Budget{MaxItems: 7})
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range page.Rows {
				got = append(got, string(row.JSON))
			}
			more = page.More
		}
		rows, _, err := all(t.Context(), p, docs.split(3), Budget{})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			want = append(want, string(row.JSON))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%s: got %v, want %v", text, got, want)
		}
	}
}

// TestSortMemory shows that a sort keeps no more rows than a page of bytes.
func TestSortMemory(t *testing.T) {
	t.Parallel()
	h := &rowHeap{bytesMax: 1000}
	for i := range 10_000 {
		key := fmt.Appendf(nil, "%05d", (i*7919)%10_000)
		at := place{key: key, number: uint64(i)}
		if h.admits(at) {
			h.push(sortedRow{place: at, json: make([]byte, 95)})
		}
		if h.bytes > 1000 || len(h.rows) > 10 {
			t.Fatalf("%d rows of %d bytes", len(h.rows), h.bytes)
		}
	}
	for i, row := range h.sorted() {
		if want := fmt.Sprintf("%05d", i); string(row.key) != want {
			t.Fatalf("row %d is %s", i, row.key)
		}
	}
}

// noting is a source that records its requests.
type noting struct {
	list
	need *Need
}

func (n noting) Candidates(ctx context.Context, need Need) iter.Seq2[Candidate, error] {
	*n.need = need
	return n.list.Candidates(ctx, need)
}

// A plan requests only what a page needs if the index finds exactly the documents that
// pass: a number of documents, and a number of bytes if rows are whole documents.
func TestNeedForPage(t *testing.T) {
	t.Parallel()
	ix := shapeIndex(t)
	for _, c := range []struct {
		text        string
		items       int
		want, bytes int
	}{
		{"SELECT * FROM c", 0, 0, 5000},
		{"SELECT * FROM c WHERE c.n = 1", 10, 10, 5000},
		{"SELECT * FROM d WHERE d.n >= 1", 0, 0, 5000},
		{"SELECT VALUE c FROM c WHERE c.n = 1", 0, 0, 5000},
		{"SELECT TOP 3 * FROM c WHERE c.n = 1", 10, 3, 5000},
		{"SELECT c FROM c WHERE c.n = 1", 10, 10, 0},
		{"SELECT VALUE c.n FROM c WHERE c.n = 1", 10, 10, 0},
		{"SELECT VALUE 1 FROM c WHERE c.n = 1", 10, 10, 0},
		{"SELECT * FROM c.m", 10, 10, 0},
		{"SELECT * FROM c WHERE c.n + 1 = 2", 10, 0, 0}, // the filter may reject documents
		{"SELECT VALUE c FROM c JOIN x IN c.a", 10, 0, 0},
	} {
		plan, err := Compile(c.text, nil, ix, Options{})
		if err != nil {
			t.Fatal(c.text, err)
		}
		var need Need
		if _, err := plan.Run(context.Background(), noting{need: &need}, Budget{MaxItems: c.items, MaxBytes: 5000}); err != nil {
			t.Fatal(c.text, err)
		}
		if need.Want != c.want || need.WantBytes != c.bytes {
			t.Errorf("%s: %d documents or %d bytes, want %d or %d", c.text, need.Want, need.WantBytes, c.want, c.bytes)
		}
	}
}

// TestOnePlanManyRuns runs a plan in several goroutines, under the race detector.
func TestOnePlanManyRuns(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, "SELECT c.id, {k: c.k * 2} AS o FROM c WHERE c.k IN (1,2,3,4,5,6,7,8,9) AND RegexMatch(c.id, '^[0-9]') AND c.id LIKE '%' ORDER BY c.k")
	docs := numberedDocuments(t, 40)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			page, err := p.Run(t.Context(), docs, Budget{})
			if err != nil || len(page.Rows) != 9 {
				t.Errorf("%d rows, %v", len(page.Rows), err)
			}
		})
	}
	wg.Wait()
}

// TestFeatures compares the features that a query needs with those that a client
// supports.
func TestFeatures(t *testing.T) {
	t.Parallel()
	for text, sorted := range map[string]bool{
		"SELECT * FROM c": false, "SELECT * FROM c ORDER BY c.a": true, "SELECT DISTINCT c.a FROM c ORDER BY c.a": true,
		"SELECT c.a FROM c GROUP BY c.a": false, "SELECT DISTINCT c.a FROM c": false, "SELECT COUNT(1) FROM c": false,
	} {
		if p := mustCompile(t, text); p.Sorted() != sorted {
			t.Errorf("%s: sorted is %v", text, p.Sorted())
		}
	}
	f := mustCompile(t, "SELECT TOP 1 * FROM c ORDER BY c.a").Needs()
	if got := f.Missing("MultipleOrderBy,OffsetAndLimit,OrderBy,Top"); got != nil {
		t.Errorf("missing %v", got)
	}
	if got := f.Missing("Aggregate, OrderBy, Distinct"); !slices.Equal(got, []string{"Top"}) {
		t.Errorf("missing %v", got)
	}
	if got := f.Missing(""); len(got) != 2 {
		t.Errorf("missing %v", got)
	}
	if err := f.Refuse("OrderBy"); status.CodeOf(err) != status.CodeBadRequest || !strings.Contains(err.Error(), "Query contained Top") {
		t.Error(err)
	}
	if mustCompile(t, "SELECT * FROM c").Needs().Any() {
		t.Error("a plain query needs something")
	}
}
