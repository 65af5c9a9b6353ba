package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/value"
)

// explained returns the explanation of a query.
func (w *world) explained(t *testing.T, link engine.Link, text string) value.Value {
	t.Helper()
	page, err := w.Query(t.Context(), caller, engine.QueryRequest{Link: link, Text: text, Cross: true, Full: true, Explain: true})
	if err != nil || len(page.Rows) != 1 {
		t.Fatalf("%s: %d rows, %v", text, len(page.Rows), err)
	}
	return parse(t, string(page.Rows[0]))
}

// stepNamed returns the first step of a plan with this name.
func stepNamed(plan value.Value, name string) value.Value {
	if plan.Get("step").Text() == name {
		return plan
	}
	for _, below := range plan.Get("of").Items() {
		if found := stepNamed(below, name); found.IsDefined() {
			return found
		}
	}
	return value.Undefined()
}

// An explanation lists the spans of the index if they are few, and always has
// their number.
func TestExplainedSpans(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	link := w.container(t, 2, "/pk")
	w.create(t, link, `{"id":"1","pk":1,"n":1}`)
	list := func(n int) string {
		values := make([]string, n)
		for i := range values {
			values[i] = fmt.Sprint(i)
		}
		return strings.Join(values, ", ")
	}
	for n, step := range map[int]string{1: "term", 2: "terms", 16: "terms", 17: "terms", 200: "terms"} {
		e := w.explained(t, link, "SELECT * FROM c WHERE c.n IN ("+list(n)+")")
		s := stepNamed(e.Get("plan"), step)
		if got := s.Get("count").JSON(); got != fmt.Sprint(n) {
			t.Errorf("%d values: count %s in %s", n, got, e.Get("plan").JSON())
		}
		spans := s.Get("spans").Items()
		if n > 16 && len(spans) > 0 || n <= 16 && len(spans) != n {
			t.Errorf("%d values: %d spans", n, len(spans))
		}
		for i, span := range spans {
			if span.Text() != fmt.Sprint(i) {
				t.Errorf("%d values: span %d is %s", n, i, span.JSON())
			}
		}
		if lines := strings.Count(e.Get("text").Text(), "\n"); lines > 7 {
			t.Errorf("%d values take %d lines", n, lines)
		}
	}
	if e := w.explained(t, link, "SELECT * FROM c WHERE c.n > 1"); stepNamed(e.Get("plan"), "range").Get("spans").Len() != 1 {
		t.Errorf("no bounds in %s", e.Get("plan").JSON())
	}
}

// While the index is rebuilt, an explanation has its progress, and no index
// hits. Before and after that, it has no progress.
func TestExplainedRebuild(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	link := w.container(t, 2, "/pk")
	for i := range 40 {
		w.create(t, link, fmt.Sprintf(`{"id":"%d","pk":%d,"a":%d,"b":%d}`, i, i, i%4, i%4))
	}
	const text = "SELECT * FROM c WHERE c.a = 1 AND c.b = 1"
	if e := w.explained(t, link, text); e.Get("indexProgress").IsDefined() || e.Get("indexHits").JSON() != "10" {
		t.Fatalf("before: %s", e.JSON())
	}
	during := 0
	for round := range 200 {
		policy := `{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/x` + fmt.Sprint(round) + `/*"}]}`
		body := parse(t, `{"id":"`+link.Container+`","partitionKey":{"paths":["/pk"]},"indexingPolicy":`+policy+`}`)
		if _, err := w.ReplaceContainer(t.Context(), caller, engine.ContainerRequest{Link: link, Body: body}); err != nil {
			t.Fatal(err)
		}
		e := w.explained(t, link, text)
		if got := e.Get("returnedRows").JSON(); got != "10" {
			t.Fatalf("%s rows while the index is rebuilt", got)
		}
		if p := e.Get("indexProgress"); p.IsDefined() {
			if p.Float() < 0 || p.Float() >= 100 {
				t.Fatalf("progress %s", p.JSON())
			}
			during++
		}
		if during > 3 {
			return
		}
	}
	t.Errorf("%d of 200 explanations right after a new policy show that the index is being rebuilt", during)
}
