package engine_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/script"
	"github.com/decandb/decan/internal/status"
)

// scriptWorld creates a world that runs scripts.
func scriptWorld(t testing.TB) *world {
	t.Helper()
	// The race detector makes the JavaScript engines slow: filling their memory takes
	// long, and pages that end early cost more.
	return limitedWorld(t, script.Limits{Time: time.Minute, MemoryBytes: 16 << 20})
}

// limitedWorld creates a world that runs scripts with these limits.
func limitedWorld(t testing.TB, limits script.Limits) *world {
	t.Helper()
	runner := script.New(limits)
	t.Cleanup(runner.Close)
	return newWorld(t, func(c *engine.Config) { c.Scripts = runner })
}

// function creates or replaces a function.
func (w *world) function(t testing.TB, link engine.Link, id, body string) engine.Resource {
	t.Helper()
	req := engine.ScriptRequest{Kind: resource.Function, Link: link, Body: parse(t, fmt.Sprintf(`{"id":%q,"body":%q}`, id, body))}
	r, err := w.CreateScript(t.Context(), caller, req)
	if status.CodeOf(err) == status.CodeConflict {
		req.Script = id
		r, err = w.ReplaceScript(t.Context(), caller, req)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// rows reads a query in pages of two, and returns one row per line.
func (w *world) rows(t testing.TB, link engine.Link, text string) (string, error) {
	t.Helper()
	var out []string
	for continuation := ""; ; {
		page, err := w.Query(t.Context(), caller, engine.QueryRequest{Link: link, Text: text, Full: true, MaxItems: 2, Continuation: continuation})
		if err != nil {
			return strings.Join(out, " "), err
		}
		for _, row := range page.Rows {
			out = append(out, string(row))
		}
		if continuation = page.Continuation; continuation == "" {
			return strings.Join(out, " "), nil
		}
	}
}

// TestFunctionChanges shows that cached plans follow each change of a function:
// a new body, a new name, its deletion, and its second creation.
func TestFunctionChanges(t *testing.T) {
	t.Parallel()
	w := scriptWorld(t)
	link := w.container(t, 3, "/pk")
	for i := range 9 {
		w.create(t, link, fmt.Sprintf(`{"id":"%d","pk":"%d","n":%d}`, i, i, i))
	}
	const text = "SELECT VALUE SUM(udf.f(c.n)) FROM c"
	check := func(want string) {
		t.Helper()
		for range 3 {
			if got, err := w.rows(t, link, text); err != nil || got != want {
				t.Errorf("got %s, %v, want %s", got, err, want)
			}
		}
	}
	missing := func() {
		t.Helper()
		if _, err := w.rows(t, link, text); status.CodeOf(err) != status.CodeBadRequest || !strings.Contains(err.Error(), "udf.f") {
			t.Errorf("got %v, want 400 that names udf.f", err)
		}
	}
	missing()
	w.function(t, link, "f", "function (n) { return n; }")
	check("36")
	w.function(t, link, "other", "function (n) { return 0; }")
	check("36")
	w.function(t, link, "f", "function (n) { return 2 * n; }")
	check("72")
	w.reopen(t)
	check("72")
	if _, err := w.ReplaceScript(t.Context(), caller, engine.ScriptRequest{Kind: resource.Function, Link: link, Script: "f", Body: parse(t, `{"id":"g","body":"n => 1"}`)}); err != nil {
		t.Fatal(err)
	}
	missing()
	if _, err := w.DeleteScript(t.Context(), caller, engine.ScriptRequest{Kind: resource.Function, Link: link, Script: "g"}); err != nil {
		t.Fatal(err)
	}
	missing()
	w.function(t, link, "f", "n => 3")
	check("27")

	// Another container has functions of its own.
	body := parse(t, `{"id":"e","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}`)
	if _, err := w.CreateContainer(t.Context(), caller, engine.ContainerRequest{Link: engine.Link{Database: "d"}, Body: body}); err != nil {
		t.Fatal(err)
	}
	link.Container = "e"
	missing()
}

// TestFunctionsOverPartitions runs queries with a function over all partitions:
// with an order, with groups and in pages.
func TestFunctionsOverPartitions(t *testing.T) {
	t.Parallel()
	w := scriptWorld(t)
	link := w.container(t, 4, "/pk")
	for i := range 20 {
		w.create(t, link, fmt.Sprintf(`{"id":"%02d","pk":"%d","n":%d}`, i, i, i))
	}
	w.function(t, link, "odd", "function (n) { total = n; return total % 2 === 1; }")
	w.function(t, link, "fail", "function (n) { if (n === 7) throw new Error(418, 'seven'); return n; }")
	for text, want := range map[string]string{
		"SELECT VALUE c.n FROM c WHERE udf.odd(c.n) AND c.n < 10 ORDER BY c.n DESC":                                     "9 7 5 3 1",
		"SELECT VALUE COUNT(1) FROM c WHERE udf.odd(c.n)":                                                               "10",
		"SELECT udf.odd(c.n) AS odd, COUNT(1) AS n FROM c GROUP BY udf.odd(c.n)":                                        `{"odd":false,"n":10} {"odd":true,"n":10}`,
		"SELECT DISTINCT VALUE udf.odd(c.n) FROM c":                                                                     "false true",
		"SELECT TOP 3 VALUE udf.odd(c.n) ? 'odd' : 'even' FROM c ORDER BY c.n":                                          `"even" "odd" "even"`,
		"SELECT VALUE udf.fail(c.n) FROM c WHERE c.n < 3 ORDER BY c.n OFFSET 1 LIMIT 1":                                 "1",
		"SELECT VALUE c.n FROM c WHERE c.n IN (4, 5) AND NOT udf.odd(c.n)":                                              "4",
		"SELECT VALUE (SELECT VALUE COUNT(1) FROM x IN (SELECT VALUE [1, 2, 3]) WHERE udf.odd(x)) FROM c WHERE c.n = 0": "2",
	} {
		if got, err := w.rows(t, link, text); err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", text, got, err, want)
		}
	}
	if _, err := w.rows(t, link, "SELECT VALUE udf.fail(c.n) FROM c"); status.CodeOf(err) != status.CodeBadRequest || status.SubOf(err) != 418 {
		t.Errorf("got %v, want 400/418", err)
	}
	var asking sync.WaitGroup
	for range 4 {
		asking.Go(func() {
			for range 5 {
				if got, err := w.rows(t, link, "SELECT VALUE SUM(udf.fail(c.n)) FROM c WHERE c.n != 7"); err != nil || got != "183" {
					t.Errorf("got %s, %v", got, err)
				}
			}
		})
	}
	asking.Wait()
}

// TestFunctionLimits creates as many functions as a container may have: another
// one is refused, and so is a caller without permission.
func TestFunctionLimits(t *testing.T) {
	t.Parallel()
	w := scriptWorld(t)
	link := w.container(t, 1, "/pk")
	for i := range resource.Function.Max() {
		w.function(t, link, fmt.Sprint("f", i), "x => x")
	}
	req := engine.ScriptRequest{Kind: resource.Function, Link: link, Body: parse(t, `{"id":"more","body":"x => x"}`)}
	if _, err := w.CreateScript(t.Context(), caller, req); status.CodeOf(err) != status.CodeForbidden {
		t.Errorf("got %v, want 403", err)
	}
	if _, err := w.CreateScript(t.Context(), anonymous, req); status.CodeOf(err) != status.CodeForbidden && status.CodeOf(err) != status.CodeUnauthorized {
		t.Errorf("anonymous: got %v", err)
	}
	req.Script = "f0"
	if r, err := w.ReadScript(t.Context(), caller, req); err != nil || r.ETag == "" || r.Charge == 0 {
		t.Errorf("got %v, %v", r, err)
	}
	page, err := w.ListScripts(t.Context(), caller, resource.Function, engine.QueryRequest{Link: link, MaxItems: -1})
	if err != nil || len(page.Rows) != resource.Function.Max() || !strings.Contains(string(page.Rows[0]), `"id":"f0"`) {
		t.Errorf("got %d functions, %v", len(page.Rows), err)
	}
}

// TestNoScripts shows that an engine without a script runner refuses scripts
// with a sentence that says so.
func TestNoScripts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	link := w.container(t, 1, "/pk")
	if _, err := w.rows(t, link, "SELECT VALUE udf.f(1) FROM c"); status.CodeOf(err) != status.CodeBadRequest || !strings.Contains(err.Error(), "not supported") {
		t.Errorf("got %v", err)
	}
	req := engine.ScriptRequest{Kind: resource.Function, Link: link, Body: parse(t, `{"id":"f","body":"x => x"}`)}
	if _, err := w.CreateScript(t.Context(), caller, req); status.CodeOf(err) != status.CodeBadRequest || !strings.Contains(err.Error(), "not supported") {
		t.Errorf("got %v", err)
	}
}
