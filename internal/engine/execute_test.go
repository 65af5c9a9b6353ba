package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/script"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// script creates a script in a container.
func (w *world) script(t *testing.T, link engine.Link, kind resource.ScriptKind, definition string) {
	t.Helper()
	if _, err := w.CreateScript(t.Context(), caller, engine.ScriptRequest{Kind: kind, Link: link, Body: parse(t, definition)}); err != nil {
		t.Fatal(err)
	}
}

func (w *world) procedure(t *testing.T, link engine.Link, id, body string) {
	t.Helper()
	w.script(t, link, resource.Procedure, fmt.Sprintf(`{"id":%q,"body":%q}`, id, body))
}

// put stores a document.
func (w *world) put(t *testing.T, link engine.Link, doc string) {
	t.Helper()
	if _, err := w.Upsert(t.Context(), caller, engine.DocumentRequest{Link: link, Document: parse(t, doc), Size: len(doc)}); err != nil {
		t.Fatal(err)
	}
}

// execute runs a procedure under a key, both as JSON.
func (w *world) execute(t *testing.T, link engine.Link, id, keyText, args string) (engine.Executed, error) {
	t.Helper()
	return w.Execute(t.Context(), caller, engine.ExecuteRequest{Link: link, Procedure: id, Key: key(t, keyText), Args: parse(t, args).Items(), Log: true})
}

// sum returns the sum of the accounts of a key.
func (w *world) sum(t *testing.T, link engine.Link, keyText string) string {
	t.Helper()
	page, err := w.Query(t.Context(), caller, engine.QueryRequest{Link: link, Text: "SELECT VALUE SUM(c.n) FROM c", Key: key(t, keyText)})
	if err != nil || len(page.Rows) != 1 {
		t.Fatalf("%q, %v", page.Rows, err)
	}
	return string(page.Rows[0])
}

const transfer = `function transfer(from, to, amount) {
  const all = getContext().getCollection(), link = all.getAltLink() + "/docs/";
  all.readDocument(link + from, (e, a) => {
    if (e) throw e;
    all.readDocument(link + to, (e, b) => {
      if (e) throw e;
      a.n -= amount;
      b.n += amount;
      all.replaceDocument(a._self, a, { etag: a._etag }, (e) => {
        if (e) throw e;
        if (a.n < 0) throw new Error("not enough");
        all.replaceDocument(b._self, b, { etag: b._etag }, (e) => {
          if (e) throw e;
          getContext().getResponse().setBody([a.n, b.n]);
        });
      });
    });
  });
}`

// TestBank has several clients move money between the accounts of one key by a
// procedure that throws halfway if the balance is too low: readers always see
// the same total, and it is the same in the end.
func TestBank(t *testing.T) {
	t.Parallel()
	w := scriptWorld(t)
	link := w.container(t, 2, "/pk")
	w.procedure(t, link, "transfer", transfer)
	const accounts, clients = 4, 4
	transfers := 20
	if engine.RaceDetector {
		transfers = 4
	}
	for i := range accounts {
		w.put(t, link, fmt.Sprintf(`{"id":"a%d","pk":"p","n":10}`, i))
	}
	var all sync.WaitGroup
	refused := make([]int, clients)
	for c := range clients {
		all.Go(func() {
			for i := range transfers {
				args := fmt.Sprintf(`["a%d","a%d",%d]`, (c+i)%accounts, (c+i+1+i%3)%accounts, 1+(i*7+c)%9)
				_, err := w.execute(t, link, "transfer", `["p"]`, args)
				if err != nil && !strings.Contains(err.Error(), "not enough") {
					t.Errorf("%s: %v", args, err)
					return
				}
				if err != nil {
					refused[c]++
				}
				if got := w.sum(t, link, `["p"]`); got != "40" {
					t.Errorf("the total is %s", got)
				}
			}
		})
	}
	all.Wait()
	if got := w.sum(t, link, `["p"]`); got != "40" {
		t.Errorf("the total is %s after %v refused transfers", got, refused)
	}
}

// TestFinalVersions compares the documents that a script returns with the stored
// ones: RIDs, links, etags and times are equal.
func TestFinalVersions(t *testing.T) {
	t.Parallel()
	w := scriptWorld(t)
	link := w.container(t, 1, "/pk")
	w.procedure(t, link, "make", `function (ids) {
	  const all = getContext().getCollection(), made = [];
	  ids.forEach((id) => all.createDocument(all.getSelfLink(), { id, pk: "p" }, (e, d) => {
	    if (e) throw e;
	    all.replaceDocument(d._self, { ...d, n: 1, made: d._rid }, { etag: d._etag }, (e, d) => {
	      if (e) throw e;
	      console.log(d._etag);
	      made.push(d);
	      getContext().getResponse().setBody(made);
	    });
	  }));
	}`)
	done, err := w.execute(t, link, "make", `["p"]`, `[["a","b","c"]]`)
	if err != nil {
		t.Fatal(err)
	}
	for _, said := range parse(t, string(done.Body)).Items() {
		id := said.Get("id").Text()
		stored, err := w.Read(t.Context(), caller, engine.DocumentRequest{Link: engine.Link{Database: link.Database, Container: link.Container, Document: id}, Key: key(t, `["p"]`)})
		if err != nil {
			t.Fatal(err)
		}
		if got := said.JSON(); got != string(stored.Body) {
			t.Errorf("the script returned %s, stored is %s", got, stored.Body)
		}
		if said.Get("made").Text() != said.Get("_rid").Text() || !strings.Contains(done.Log, string(stored.ETag)) {
			t.Errorf("%s: the log is %s", said.JSON(), done.Log)
		}
	}
	if n := len(parse(t, string(done.Body)).Items()); n != 3 || done.Session == "" || done.Charge < 3 {
		t.Errorf("%d documents, session %q, charge %v", n, done.Session, done.Charge)
	}
}

// TestScriptsAreAllOrNothing runs procedures that fail in every way: none of their
// writes is stored.
func TestScriptsAreAllOrNothing(t *testing.T) {
	t.Parallel()
	w := scriptWorld(t)
	link := w.container(t, 1, "/pk")
	const first = `const all = getContext().getCollection(); all.createDocument(all.getSelfLink(), {id: "x", pk: "p"}, (e) => { if (e) throw e; `
	for name, c := range map[string]struct {
		body string
		code status.Code
		text string
	}{
		"throws":       {first + `throw new Error("stop"); })`, 400, "stop"},
		"conflict":     {first + `all.createDocument(all.getSelfLink(), {id: "x", pk: "p"}); })`, 400, "409"},
		"another key":  {first + `all.createDocument(all.getSelfLink(), {id: "y", pk: "q"}); })`, 400, "partition keys other than"},
		"no key":       {first + `all.createDocument(all.getSelfLink(), {id: "y"}); })`, 400, "partition keys other than"},
		"missing":      {first + `all.deleteDocument(all.getAltLink() + "/docs/none"); })`, 400, "404"},
		"wrong etag":   {first + `all.replaceDocument(all.getAltLink() + "/docs/x", {id: "x", pk: "p"}, {etag: "none"}); })`, 400, "412"},
		"recursion":    {first + `(function f() { f(); })(); })`, 400, "stack overflow"},
		"memory":       {first + `const a = []; for (;;) a.push("x".repeat(1 << 20) + a.length); })`, 400, "out of memory"},
		"huge body":    {first + `getContext().getResponse().setBody("x".repeat(5 << 20)); })`, 400, "too large"},
		"continuation": {first + `all.readDocuments(all.getSelfLink(), {continuation: "x".repeat(100000)}); })`, 400, "Continuation"},
		"hybrid":       {first + `all.queryDocuments(all.getSelfLink(), "SELECT * FROM c WHERE"); })`, 400, "Syntax"},
		"not a script": {`nothing(`, 400, ""},
	} {
		t.Run(name, func(t *testing.T) {
			id := strings.ReplaceAll(name, " ", "-")
			_, err := w.CreateScript(t.Context(), caller, engine.ScriptRequest{
				Kind: resource.Procedure, Link: link,
				Body: parse(t, fmt.Sprintf(`{"id":%q,"body":%q}`, id, "function () { "+c.body+" }")),
			})
			if err == nil {
				_, err = w.execute(t, link, id, `["p"]`, `[]`)
			}
			if status.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want %d with %q", err, c.code, c.text)
			}
			if got, err := w.rows(t, link, "SELECT VALUE c.id FROM c"); err != nil || got != "" {
				t.Errorf("%s is there, %v", got, err)
			}
		})
	}
}

// TestTimeOfScriptsBoundsQueries runs a stored procedure with a query that takes
// longer than any request may. The query ends when the time of the script is
// over, and earlier writes of the script are undone.
func TestTimeOfScriptsBoundsQueries(t *testing.T) {
	t.Parallel()
	w := limitedWorld(t, script.Limits{Time: 50 * time.Millisecond, AcceptTime: time.Hour})
	link := w.container(t, 1, "/pk")
	documents := 200 // with five million pairs of elements each
	if engine.RaceDetector {
		documents = 40
	}
	array := "[" + strings.TrimSuffix(strings.Repeat("1,", 2200), ",") + "]"
	for i := range documents {
		w.put(t, link, fmt.Sprintf(`{"id":"%d","pk":"p","a":%s}`, i, array))
	}
	w.procedure(t, link, "pairs", `function () {
	  __.createDocument(__.getSelfLink(), { id: "new", pk: "p" }, (e) => {
	    if (e) throw e;
	    __.queryDocuments(__.getSelfLink(), "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a JOIN y IN c.a", () => getContext().getResponse().setBody("went on"));
	  });
	}`)
	done, err := w.execute(t, link, "pairs", `["p"]`, `[]`)
	if status.CodeOf(err) != status.CodeRequestTimeout || !strings.Contains(err.Error(), "did not end within 50ms") {
		t.Errorf("got %s, %v, want 408 for the time of the script", done.Body, err)
	}
	if got, err := w.rows(t, link, "SELECT VALUE COUNT(1) FROM c"); err != nil || got != fmt.Sprint(documents) {
		t.Errorf("%s documents, %v, want %d", got, err, documents)
	}
	w.put(t, link, `{"id":"new","pk":"p"}`) // The key is not locked any more.
}

// TestOwnWritesInQueries compares queries of a script after its own writes with
// those of a client after the script.
func TestOwnWritesInQueries(t *testing.T) {
	t.Parallel()
	w := scriptWorld(t)
	link := w.container(t, 1, "/pk")
	for i := range 12 {
		w.put(t, link, fmt.Sprintf(`{"id":"%02d","pk":"p","n":%d,"s":"old"}`, i, i))
	}
	w.procedure(t, link, "change", `function (texts, size) {
	  const all = getContext().getCollection(), link = all.getAltLink() + "/docs/", out = [];
	  for (let i = 0; i < 12; i += 3) all.upsertDocument(all.getSelfLink(), { id: String(i).padStart(2, "0"), pk: "p", n: 100 - i, s: "new" });
	  all.deleteDocument(link + "01");
	  all.replaceDocument(link + "02", { id: "renamed", pk: "p", n: 2.5, s: "new" });
	  all.createDocument(all.getSelfLink(), { id: "created", pk: "p", n: 4.5, s: "new" });
	  all.createDocument(all.getSelfLink(), { id: "came", pk: "p" }, () => all.deleteDocument(link + "came", () => ask(0, [], undefined)));
	  function ask(i, rows, continuation) {
	    if (i === texts.length) return getContext().getResponse().setBody(out);
	    if (!all.queryDocuments(all.getSelfLink(), texts[i], { pageSize: size, continuation }, (e, page, o) => {
	      if (e) throw e;
	      rows = rows.concat(page);
	      if (o.continuation) return ask(i, rows, o.continuation);
	      out.push(rows);
	      ask(i + 1, [], undefined);
	    })) throw new Error("not accepted");
	  }
	}`)
	queries := []string{
		"SELECT VALUE c.id FROM c",
		"SELECT VALUE c.id FROM c WHERE c.s = 'new'",
		"SELECT VALUE c.id FROM c WHERE c.s = 'old' AND c.n > 3",
		"SELECT VALUE [c.id, c.n] FROM c ORDER BY c.n DESC",
		"SELECT VALUE COUNT(1) FROM c",
		"SELECT c.s, SUM(c.n) AS n FROM c GROUP BY c.s",
		"SELECT VALUE c._rid FROM c ORDER BY c.id",
		"SELECT DISTINCT VALUE c.s FROM c",
		"SELECT TOP 3 VALUE c.id FROM c WHERE c.n < 90 ORDER BY c.n",
		"SELECT VALUE c.id FROM c OFFSET 2 LIMIT 3",
	}
	var texts []value.Value
	for _, q := range queries {
		texts = append(texts, value.String(q))
	}
	done, err := w.Execute(t.Context(), caller, engine.ExecuteRequest{Link: link, Procedure: "change", Key: key(t, `["p"]`), Args: []value.Value{value.Array(texts), value.Int(3)}})
	if err != nil {
		t.Fatal(err)
	}
	for i, q := range queries {
		want, err := w.rows(t, link, q)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, row := range parse(t, string(done.Body)).Index(i).Items() {
			got = append(got, row.JSON())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: the script gets\n%s\nand a client after it\n%s", q, strings.Join(got, " "), want)
		}
	}
}

// TestExecuteWhileSplitting runs procedures that count in documents of many keys
// while the partition is split: each run counts once.
func TestExecuteWhileSplitting(t *testing.T) {
	t.Parallel()
	w := scriptWorld(t)
	link := w.container(t, 1, "/pk")
	w.procedure(t, link, "count", `function (pk) {
	  const all = getContext().getCollection();
	  all.readDocument(all.getAltLink() + "/docs/count", (e, d) => {
	    if (e && e.number !== 404) throw e;
	    all.upsertDocument(all.getSelfLink(), { id: "count", pk, n: (d ? d.n : 0) + 1 });
	  });
	}`)
	const keys = 6
	rounds := 15
	if engine.RaceDetector {
		rounds = 4
	}
	var all sync.WaitGroup
	for k := range keys {
		all.Go(func() {
			for range rounds {
				if _, err := w.execute(t, link, "count", fmt.Sprintf(`["%d"]`, k), fmt.Sprintf(`["%d"]`, k)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	if _, err := w.SplitPartition(context.Background(), caller, engine.SplitRequest{Link: link, Partition: 0}); err != nil && status.CodeOf(err) != status.CodeBadRequest && status.CodeOf(err) != status.CodeConflict {
		t.Error(err)
	}
	all.Wait()
	if got, err := w.rows(t, link, "SELECT VALUE SUM(c.n) FROM c"); err != nil || got != fmt.Sprint(keys*rounds) {
		t.Errorf("%s, %v, want %d", got, err, keys*rounds)
	}
}
