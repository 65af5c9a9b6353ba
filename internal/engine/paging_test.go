package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// items creates a container of n partitions with count documents. Values
// repeat, so that orders have ties.
func items(t testing.TB, partitions, count int) (*world, engine.Link) {
	t.Helper()
	w := newWorld(t, nil)
	link := w.container(t, partitions, "/t", "/u")
	random := rand.New(rand.NewPCG(1, uint64(partitions)))
	for i := range count {
		n := fmt.Sprintf(`,"n":%d`, random.IntN(20))
		if i%17 == 0 {
			n = "" // undefined sorts first
		}
		w.create(t, link, fmt.Sprintf(`{"id":"%03d","t":"t%d","u":%d%s}`, i, random.IntN(5), random.IntN(9), n))
	}
	return w, link
}

// A query returns the same rows in pages of any size as in one page: without
// ORDER BY partition by partition, and in full execution also with ORDER BY,
// TOP and LIMIT.
func TestPagingEqualsUnpaged(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 8, 64} {
		t.Run(fmt.Sprint(partitions), func(t *testing.T) {
			t.Parallel()
			w, link := items(t, partitions, 150)
			for _, text := range []string{
				"", // the list of documents
				"SELECT c.id, c.n FROM c",
				"SELECT VALUE c.id FROM c WHERE c.n > 10",
				`SELECT VALUE c.id FROM c WHERE c.t IN ("t1", "t3")`,
				`SELECT VALUE c.id FROM c WHERE c.t = "t2" AND c.u IN (1, 2, 7)`,
				"SELECT VALUE c.id FROM c ORDER BY c.n",
				"SELECT VALUE c.id FROM c ORDER BY c.n DESC",
				`SELECT VALUE c.id FROM c WHERE c.t = "t2" ORDER BY c.id DESC`,
				"SELECT TOP 13 c.id FROM c",
				"SELECT TOP 29 VALUE c.id FROM c ORDER BY c.n DESC",
				"SELECT VALUE c.id FROM c OFFSET 20 LIMIT 31",
				"SELECT VALUE c.id FROM c ORDER BY c.n OFFSET 7 LIMIT 40",
				"SELECT VALUE c.id FROM c ORDER BY c.n OFFSET 140 LIMIT 40",
			} {
				req := engine.QueryRequest{Link: link, Text: text, Cross: true, Full: true}
				want, _ := w.all(t, req)
				if len(want) == 0 {
					t.Errorf("%s: no rows", text)
				}
				for _, size := range []int{1, 7, 1000} {
					req.MaxItems = size
					if got, _ := w.all(t, req); !slices.Equal(got, want) {
						t.Errorf("%s in pages of %d: %d rows, want %d\n%v\n%v", text, size, len(got), len(want), got, want)
					}
				}
			}
		})
	}
}

// Full execution returns all documents sorted, whatever the number of
// partitions. Ties are in the order of document numbers, which differ between
// containers, so only the keys are compared.
func TestFullExecutionSorts(t *testing.T) {
	t.Parallel()
	type doc struct {
		id string
		n  int
	}
	w, link := items(t, 8, 150)
	rows, _ := w.all(t, engine.QueryRequest{Link: link, Text: "SELECT c.id, c.n FROM c", Cross: true})
	var docs []doc
	for _, row := range rows {
		v := parse(t, row)
		n := -1
		if v.Get("n").IsDefined() {
			n = int(v.Get("n").Float())
		}
		docs = append(docs, doc{v.Get("id").Text(), n})
	}
	if len(docs) != 150 {
		t.Fatalf("%d documents, want 150", len(docs))
	}
	keys := func(query string) string {
		got, _ := w.all(t, engine.QueryRequest{Link: link, Text: query, Full: true, MaxItems: 11})
		var b strings.Builder
		for _, row := range got {
			if n := parse(t, row).Get("n"); n.IsDefined() {
				fmt.Fprintf(&b, "%v ", n.Float())
			} else {
				b.WriteString("-1 ")
			}
		}
		return b.String()
	}
	want := func(docs []doc) string {
		var b strings.Builder
		for _, d := range docs {
			fmt.Fprintf(&b, "%d ", d.n)
		}
		return b.String()
	}
	sort.SliceStable(docs, func(i, j int) bool { return docs[i].n < docs[j].n })
	if got := keys("SELECT c.n FROM c ORDER BY c.n"); got != want(docs) {
		t.Errorf("ascending:\n%s\nwant\n%s", got, want(docs))
	}
	if got := keys("SELECT TOP 40 c.n FROM c ORDER BY c.n"); got != want(docs[:40]) {
		t.Errorf("TOP:\n%s\nwant\n%s", got, want(docs[:40]))
	}
	slices.Reverse(docs)
	if got := keys("SELECT c.n FROM c ORDER BY c.n DESC OFFSET 25 LIMIT 50"); got != want(docs[25:75]) {
		t.Errorf("descending:\n%s\nwant\n%s", got, want(docs[25:75]))
	}
}

// A page that is full with the last row is the last one. With TrailingPage an
// empty page follows, unless rows have an order or TOP or LIMIT is reached. If a
// row was written meanwhile, that page has it.
func TestTrailingPage(t *testing.T) {
	t.Parallel()
	for _, trailing := range []bool{false, true} {
		for _, partitions := range []int{1, 8} {
			t.Run(fmt.Sprintf("trailing=%v/partitions=%d", trailing, partitions), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, func(c *engine.Config) { c.TrailingPage = trailing })
				link := w.container(t, partitions, "/t", "/u")
				for i := range 48 {
					w.create(t, link, fmt.Sprintf(`{"id":"%03d","t":"t%d","u":%d,"n":%d,"list":[1,2,3]}`, i, i%4, i, i%12))
				}
				for text, unordered := range map[string]bool{
					"":                                       true, // the list of documents
					"SELECT VALUE c.id FROM c":               true,
					"SELECT VALUE c.id FROM c WHERE c.n < 6": true,
					`SELECT VALUE c.id FROM c WHERE c.t = "t1"`:                true,
					`SELECT VALUE c.id FROM c WHERE c.t = "t1" AND c.u = 5`:    true,
					"SELECT c.id, x FROM c JOIN x IN c.list":                   true,
					"SELECT DISTINCT VALUE c.n FROM c":                         false,
					"SELECT VALUE c.id FROM c OFFSET 8 LIMIT 1000":             true,
					"SELECT VALUE d FROM (SELECT VALUE c.id FROM c) d":         true,
					"SELECT TOP 24 VALUE c.id FROM c":                          false,
					"SELECT VALUE c.id FROM c OFFSET 8 LIMIT 24":               false,
					"SELECT VALUE c.id FROM c ORDER BY c.n":                    false,
					"SELECT VALUE COUNT(1) FROM c":                             false,
					"SELECT c.n, COUNT(1) AS k FROM c GROUP BY c.n":            false,
					"SELECT VALUE c.id FROM c ORDER BY c.n OFFSET 8 LIMIT 100": false,
				} {
					checkTrailing(t, w, engine.QueryRequest{Link: link, Text: text, Cross: true, Full: true}, trailing && unordered)
				}
				checkTrailing(t, w, engine.QueryRequest{Link: link, Text: "SELECT VALUE c.id FROM c", Key: key(t, `["t1"]`)}, trailing)
				checkTrailing(t, w, engine.QueryRequest{Link: link, Text: "SELECT VALUE c.id FROM c", Key: key(t, `["t1",5]`)}, trailing)
				if !trailing {
					return
				}
				req := engine.QueryRequest{Link: link, Text: "SELECT VALUE c.id FROM c", Key: key(t, `["t1",5]`), MaxItems: 1}
				page, err := w.Query(context.Background(), caller, req)
				if err != nil || page.Continuation == "" {
					t.Fatalf("no second page, %v", err)
				}
				w.create(t, link, `{"id":"late","t":"t1","u":5}`)
				req.Continuation = page.Continuation
				if rows, _ := w.all(t, req); !slices.Equal(rows, []string{`"late"`}) {
					t.Errorf("a row that was written meanwhile: got %v", rows)
				}
			})
		}
	}
}

// checkTrailing reads the rows in pages that they fill exactly, and checks
// whether an empty page follows.
func checkTrailing(t *testing.T, w *world, req engine.QueryRequest, follows bool) {
	t.Helper()
	run := w.Query
	if req.Text == "" {
		run = w.List
	}
	want, _ := w.all(t, req)
	for _, pages := range []int{1, 2, len(want)} {
		if len(want)%pages != 0 {
			continue
		}
		req.MaxItems, req.Continuation = len(want)/pages, ""
		wantCounts := slices.Repeat([]int{req.MaxItems}, pages)
		if follows {
			wantCounts = append(wantCounts, 0)
		}
		var got []string
		var counts []int
		for {
			page, err := run(context.Background(), caller, req)
			if err != nil {
				t.Fatalf("%s: %v", req.Text, err)
			}
			for _, row := range page.Rows {
				got = append(got, string(row))
			}
			counts = append(counts, len(page.Rows))
			if req.Continuation = page.Continuation; req.Continuation == "" || len(counts) > 2*len(want)+2 {
				break
			}
		}
		if !slices.Equal(counts, wantCounts) || !slices.Equal(got, want) {
			t.Errorf("%s: pages of %v rows, want %v", req.Text, counts, wantCounts)
		}
	}
}

// A page ends at its size in bytes. A row that is larger is returned alone.
func TestPageBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *engine.Config) { c.Limits.ResponseBytes = 10_000 })
	link := w.container(t, 2, "/pk")
	for i := range 20 {
		w.create(t, link, fmt.Sprintf(`{"id":"%d","pk":%d,"pad":%q}`, i, i, strings.Repeat("x", 1500+i*600)))
	}
	seen := 0
	req := engine.QueryRequest{Link: link, Text: "SELECT * FROM c", Cross: true}
	for {
		page, err := w.Query(context.Background(), caller, req)
		if err != nil {
			t.Fatal(err)
		}
		bytes := 0
		for _, row := range page.Rows {
			bytes += len(row)
		}
		if bytes > 10_000 && len(page.Rows) > 1 {
			t.Errorf("a page of %d rows and %d bytes", len(page.Rows), bytes)
		}
		if seen += len(page.Rows); page.Continuation == "" {
			break
		}
		req.Continuation = page.Continuation
	}
	if seen != 20 {
		t.Errorf("%d rows, want 20", seen)
	}
}

// A token is valid after a restart and after writes, and in each part of a
// scope that a client has divided in two, as after a split.
func TestContinuationSurvives(t *testing.T) {
	t.Parallel()
	w, link := items(t, 8, 120)
	ctx := context.Background()
	req := engine.QueryRequest{Link: link, Text: "SELECT VALUE c.id FROM c", Cross: true}
	want, _ := w.all(t, req)
	req.MaxItems = 40
	page, err := w.Query(ctx, caller, req)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]string, 0, len(want))
	for _, row := range page.Rows {
		got = append(got, string(row))
	}
	w.reopen(t)
	req.Continuation = page.Continuation
	rest, _ := w.all(t, req)
	if !slices.Equal(append(slices.Clone(got), rest...), want) {
		t.Errorf("after a restart: %d and %d rows, want %d", len(got), len(rest), len(want))
	}

	// Both halves of the scope, each with the token of the whole.
	c, _ := w.catalog.View().Container("d", "c")
	whole := c.Ranges.At(0).Range
	whole.Max = c.Ranges.At(c.Ranges.Len() - 1).Range.Max
	middle := c.PartitionKey.Middle(whole)
	low, high := whole, whole
	low.Max, high.Min = middle, middle
	req.Clip = &low
	first, _ := w.all(t, req)
	req.Clip = &high
	second, _ := w.all(t, req)
	if !slices.Equal(append(first, second...), rest) {
		t.Errorf("in two halves: %d and %d rows, want %d", len(first), len(second), len(rest))
	}
}

// Documents that exist during a whole paged query come exactly once, whatever
// is created and deleted meanwhile.
func TestPagingWhileWriting(t *testing.T) {
	t.Parallel()
	w, link := items(t, 4, 100)
	ctx := context.Background()
	for _, text := range []string{"SELECT VALUE c.id FROM c", "SELECT VALUE c.id FROM c ORDER BY c.n DESC"} {
		req := engine.QueryRequest{Link: link, Text: text, Full: true, MaxItems: 9}
		seen := map[string]int{}
		for step := 0; ; step++ {
			page, err := w.Query(ctx, caller, req)
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range page.Rows {
				seen[string(row)]++
			}
			id := fmt.Sprintf("extra %d", step)
			w.create(t, link, fmt.Sprintf(`{"id":%q,"t":"t%d","u":1,"n":%d}`, id, step%5, step))
			if step%2 == 1 {
				req := engine.DocumentRequest{Link: link, Key: key(t, fmt.Sprintf(`["t%d",1]`, (step-1)%5))}
				req.Link.Document = fmt.Sprintf("extra %d", step-1)
				if _, err := w.Delete(ctx, caller, req); err != nil {
					t.Fatal(err)
				}
			}
			if page.Continuation == "" {
				break
			}
			req.Continuation = page.Continuation
		}
		for i := range 100 {
			if id := fmt.Sprintf(`"%03d"`, i); seen[id] != 1 {
				t.Errorf("%s: %s came %d times", text, id, seen[id])
			}
		}
		rows, _ := w.all(t, engine.QueryRequest{Link: link, Text: `SELECT c.id, c.t FROM c WHERE STARTSWITH(c.id, "extra")`, Cross: true})
		for _, row := range rows {
			v := parse(t, row)
			del := engine.DocumentRequest{Link: link, Key: key(t, fmt.Sprintf(`[%q,1]`, v.Get("t").Text()))}
			del.Link.Document = v.Get("id").Text()
			if _, err := w.Delete(ctx, caller, del); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Queries by partition, or by parts of a partition, together return all rows
// once.
func TestScopesTile(t *testing.T) {
	t.Parallel()
	w, link := items(t, 8, 120)
	req := engine.QueryRequest{Link: link, Text: "SELECT VALUE c.id FROM c"}
	cross := req
	cross.Cross = true
	want, _ := w.all(t, cross)
	c, _ := w.catalog.View().Container("d", "c")
	var byPartition, byHalves []string
	for i := range c.Ranges.Len() {
		p := c.Ranges.At(i).Value
		req.Partition, req.Clip = &p.ID, nil
		rows, visited := w.all(t, req)
		if len(visited) != 1 || visited[0] != p.ID {
			t.Errorf("partition %s: visited %v", p.ID, visited)
		}
		byPartition = append(byPartition, rows...)
		middle := c.PartitionKey.Middle(p.Range)
		for _, half := range []struct{ low bool }{{true}, {false}} {
			r := p.Range
			if half.low {
				r.Max = middle
			} else {
				r.Min = middle
			}
			req.Clip = &r
			rows, _ := w.all(t, req)
			byHalves = append(byHalves, rows...)
		}
	}
	if !slices.Equal(byPartition, want) {
		t.Errorf("by partition %d rows, want %d", len(byPartition), len(want))
	}
	slices.Sort(byHalves)
	slices.Sort(want)
	if !slices.Equal(byHalves, want) {
		t.Errorf("by halves %d rows, want %d", len(byHalves), len(want))
	}
}

// A document is found by the RID at the end of its _self, under its own key
// only.
func TestDocumentByRID(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	link := w.container(t, 4, "/pk")
	ctx := context.Background()
	for i := range 10 {
		w.create(t, link, fmt.Sprintf(`{"id":"%d","pk":"a"}`, i))
	}
	rid := parse(t, string(w.create(t, link, `{"id":"x","pk":"a","n":1}`).Body)).Get("_rid").Text()
	req := engine.DocumentRequest{Link: link, Key: key(t, `["a"]`)}
	req.Link.Document = rid
	doc, err := w.Read(ctx, caller, req)
	if err != nil || parse(t, string(doc.Body)).Get("id").Text() != "x" {
		t.Fatalf("read: %s, %v", doc.Body, err)
	}
	other := req
	other.Key = key(t, `["b"]`)
	if _, err := w.Read(ctx, caller, other); status.CodeOf(err) != status.CodeNotFound {
		t.Errorf("by another key: %v", err)
	}
	replace := req
	replace.Document = parse(t, `{"id":"x","pk":"a","n":2}`)
	if _, err := w.Replace(ctx, caller, replace); err != nil {
		t.Errorf("replace: %v", err)
	}
	if _, err := w.Delete(ctx, caller, req); err != nil {
		t.Errorf("delete: %v", err)
	}
	if _, err := w.Read(ctx, caller, req); status.CodeOf(err) != status.CodeNotFound {
		t.Errorf("after the delete: %v", err)
	}
}

// A document is found by its RID. If the budget is exhausted between the look-up by
// name and the one by RID, the answer is 429 and never 404.
func TestDocumentByRIDIsThrottled(t *testing.T) {
	t.Parallel()
	var clock clock // The node reads it, too.
	now := time.Unix(1_700_000_000, 0)
	clock.set(now)
	w := newWorld(t, func(c *engine.Config) { c.Now = clock.now })
	w.throttling = cluster.Throttling{Enforcement: cluster.EnforceOn}
	w.reopen(t)
	link := w.container(t, 1, "/pk")
	rid := parse(t, string(w.create(t, link, `{"id":"x","pk":"a"}`).Body)).Get("_rid").Text()
	named := engine.DocumentRequest{Link: link, Key: key(t, `["a"]`)}
	named.Link.Document = "x"
	byRID := named
	byRID.Link.Document = rid
	const budget = resource.ManualMin
	codes := map[status.Code]int{}
	for spent := budget - 5; spent <= budget; spent++ {
		now = now.Add(10 * time.Second)
		clock.set(now)
		for range spent {
			if _, err := w.Read(t.Context(), caller, named); err != nil {
				t.Fatal(err)
			}
		}
		_, err := w.Read(t.Context(), caller, byRID)
		codes[status.CodeOf(err)]++
	}
	if codes[0] == 0 || codes[status.CodeTooManyRequests] < 2 || len(codes) != 2 {
		t.Errorf("found and refused: %v", codes)
	}
}

// A token of one logical partition is refused in another, and by the query
// without a key: its position is meaningless there.
func TestContinuationOfAnotherKey(t *testing.T) {
	t.Parallel()
	w, link := items(t, 8, 300)
	for _, text := range []string{"SELECT * FROM c", "SELECT * FROM c ORDER BY c.n"} {
		req := engine.QueryRequest{Link: link, Text: text, Key: key(t, `["t1",1]`), Full: true, MaxItems: 1}
		page, err := w.Query(context.Background(), caller, req)
		if err != nil || page.Continuation == "" {
			t.Fatalf("%s: no second page, %v", text, err)
		}
		req.Continuation = page.Continuation
		if page, err := w.Query(context.Background(), caller, req); err != nil || len(page.Rows) != 1 {
			t.Errorf("%s: its own key: %d rows, %v", text, len(page.Rows), err)
		}
		for _, other := range []string{`["t1",2]`, `["t1"]`, ""} {
			req.Key = key(t, other)
			if _, err := w.Query(context.Background(), caller, req); status.CodeOf(err) != status.CodeBadRequest {
				t.Errorf("%s: the token of another key by %q: %v, want 400", text, other, err)
			}
		}
	}
}

// A token is valid only with the parameters and the filter that it was issued
// for, unless the query has ORDER BY: a client that merges itself changes both
// between pages.
func TestContinuationOfOtherParameters(t *testing.T) {
	t.Parallel()
	w, link := items(t, 4, 100)
	for text, free := range map[string]bool{
		"SELECT VALUE c.id FROM c WHERE c.n >= @n":                                   false,
		"SELECT c.n, COUNT(1) AS k FROM c WHERE c.n >= @n GROUP BY c.n":              false,
		"SELECT DISTINCT VALUE c.n FROM c WHERE c.n >= @n":                           false,
		"SELECT VALUE x FROM (SELECT DISTINCT c.n FROM c WHERE c.n >= @n) x":         false,
		"SELECT VALUE c.id FROM c WHERE c.n >= @n ORDER BY c.n":                      true,
		"SELECT DISTINCT VALUE c.n FROM c WHERE c.n >= @n ORDER BY c.n":              true,
		"SELECT c.n, COUNT(1) AS k FROM c WHERE c.n >= @n GROUP BY c.n ORDER BY c.n": true,
	} {
		req := engine.QueryRequest{Link: link, Text: text, Params: params(t, "@n", "3"), Full: true, MaxItems: 2}
		page, err := w.Query(context.Background(), caller, req)
		if err != nil || page.Continuation == "" {
			t.Fatalf("%s: no second page, %v", text, err)
		}
		req.Continuation = page.Continuation
		if _, err := w.Query(context.Background(), caller, req); err != nil {
			t.Errorf("%s: the same again: %v", text, err)
		}
		req.Params = params(t, "@n", "4")
		if _, err := w.Query(context.Background(), caller, req); (err == nil) != free {
			t.Errorf("%s: another parameter: %v", text, err)
		}
		req.Text = strings.Replace(text, ">= @n", ">= 1 + @n", 1)
		if _, err := w.Query(context.Background(), caller, req); (err == nil) != free {
			t.Errorf("%s: another filter: %v", text, err)
		}
	}
}

// A client that merges itself sends the token of a page with a filter that begins
// after it. It gets the same rows as with a token of that filter: those after the
// position in the order, even if the first of them have smaller document numbers.
func TestContinuationBeforeTheFilter(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	link := w.container(t, 1, "/pk")
	const fives = 100
	for i := range fives {
		w.create(t, link, fmt.Sprintf(`{"id":"five %03d","pk":"a","n":5}`, i))
	}
	for _, doc := range []string{`{"id":"first","pk":"a","n":1}`, `{"id":"second","pk":"a","n":1}`, `{"id":"without","pk":"a"}`} {
		w.create(t, link, doc)
	}
	for _, c := range []struct {
		order, filter string
		skipped       int // rows of the first page that the filter would let pass
	}{
		{"c.n", "c.n >= 5", 0},
		{"c.n", "c.n = 5", 0},
		{"c.n", "c.n > 4 OR (c.n = 4 AND c.pk >= 'a')", 0},
		{"c.n", "IS_DEFINED(c.n)", 1},
		{"c.n DESC", "c.n <= 1", 0},
		{"c.n DESC", "c.n = 1", 0},
	} {
		text := func(filter string) string {
			return "SELECT VALUE c.id FROM c WHERE (" + filter + ") ORDER BY " + c.order
		}
		ask := func(req engine.QueryRequest) (rows []string, next string) {
			t.Helper()
			req.Link, req.Full = link, true
			page, err := w.Query(context.Background(), caller, req)
			if err != nil {
				t.Fatalf("%s: %v", req.Text, err)
			}
			for _, row := range page.Rows {
				rows = append(rows, string(row))
			}
			return rows, page.Continuation
		}
		want, _ := ask(engine.QueryRequest{Text: text(c.filter), MaxItems: 1000})
		_, token := ask(engine.QueryRequest{Text: text("true"), MaxItems: 2})
		var got []string
		for token != "" {
			var rows []string
			rows, token = ask(engine.QueryRequest{Text: text(c.filter), MaxItems: 2, Continuation: token})
			got = append(got, rows...)
		}
		if len(want) < 2 || !slices.Equal(got, want[c.skipped:]) {
			t.Errorf("ORDER BY %s: after a page, %s gives %d rows, want %d", c.order, c.filter, len(got), len(want)-c.skipped)
		}
	}
}

// The statistics of a page are correct: in the order of an index, only the documents
// that pass the other conditions are read, and the bytes are those of the rows that
// the client gets.
func TestPagesTellTheirWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	link := w.containerOf(t, 1, `{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},
		"fullTextPolicy":{"defaultLanguage":"en-US","fullTextPaths":[{"path":"/text","language":"en-US"}]},
		"indexingPolicy":{"includedPaths":[{"path":"/*"}],"fullTextIndexes":[{"path":"/text"}],"compositeIndexes":[[{"path":"/a"},{"path":"/b"}]]}}`)
	const documents = 1000
	for i := range documents {
		w.create(t, link, fmt.Sprintf(`{"id":"%04d","pk":"k","a":%d,"b":%d,"text":"word number %d"}`, i, i, i%50, i%7))
	}
	for _, c := range []struct {
		text string
		rows int
		most int64 // documents read; 0 for any number
	}{
		{"SELECT TOP 3 * FROM c WHERE c.b = 5 ORDER BY c.a, c.b", 3, documents / 50},
		{"SELECT TOP 3 * FROM c WHERE c.a = 5 ORDER BY c.a, c.b", 1, 1},
		{"SELECT TOP 5 * FROM c ORDER BY RANK RRF(FullTextScore(c.text, '3'), FullTextScore(c.text, 'word', '5'))", 5, 0},
	} {
		page, err := w.Query(context.Background(), caller, engine.QueryRequest{Link: link, Text: c.text, Full: true})
		if err != nil {
			t.Fatalf("%s: %v", c.text, err)
		}
		bytes := 0
		for _, row := range page.Rows {
			bytes += len(row)
		}
		if got := page.Stats; len(page.Rows) != c.rows || c.most > 0 && got.Retrieved > c.most || got.Output != int64(c.rows) || got.OutputBytes != int64(bytes) {
			t.Errorf("%s: %d rows of %d bytes; said: %d of %d bytes, of %d documents read; want at most %d", c.text, len(page.Rows), bytes, got.Output, got.OutputBytes, got.Retrieved, c.most)
		}
	}
}
