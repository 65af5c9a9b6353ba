package query

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// functionsOfTest are the functions of the container in testdata/udf. Some have
// names of built-in functions, with which they must not be confused.
var functionsOfTest = map[string]Function{
	"twice": func(_ context.Context, args []value.Value) (value.Value, error) {
		return value.Number(2 * args[0].Float()), nil
	},
	"count": func(_ context.Context, args []value.Value) (value.Value, error) {
		return value.Int(int64(len(args))), nil
	},
	"kinds":      kindsOfTest,
	"none":       func(context.Context, []value.Value) (value.Value, error) { return value.Value{}, nil },
	"yes":        func(context.Context, []value.Value) (value.Value, error) { return value.Bool(true), nil },
	"contains":   func(context.Context, []value.Value) (value.Value, error) { return value.Bool(true), nil },
	"IS_DEFINED": func(context.Context, []value.Value) (value.Value, error) { return value.Bool(false), nil },
	"SUM":        func(_ context.Context, args []value.Value) (value.Value, error) { return args[0], nil },
	"refuse": func(context.Context, []value.Value) (value.Value, error) {
		return value.Value{}, status.BadRequest("Refused.")
	},
	"large": func(context.Context, []value.Value) (value.Value, error) {
		return value.String(strings.Repeat("x", builtMax)), nil
	},
	"list": func(_ context.Context, args []value.Value) (value.Value, error) {
		return value.Array([]value.Value{args[0], value.Int(0)}), nil
	},
}

func kindsOfTest(_ context.Context, args []value.Value) (value.Value, error) {
	var kinds []value.Value
	for _, arg := range args {
		kinds = append(kinds, value.String(arg.Kind().String()))
	}
	return value.Array(kinds), nil
}

func findOfTest(name string) (Function, bool) {
	f, found := functionsOfTest[name]
	return f, found
}

// TestFunctions runs testdata/udf. load takes documents, one per line; query and
// access take a query, which is run over one partition and over two, in pages of
// two rows and in one.
func TestFunctions(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/udf", func(t *testing.T, path string) {
		ix := newIndex(t)
		var docs list
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "load" {
				docs = nil
				for line := range strings.Lines(d.Input) {
					docs = append(docs, newDocument(t, ix, uint64(len(docs)+1), strings.TrimSpace(line)))
				}
				return ""
			}
			p, err := Compile(d.Input, nil, ix, Options{Functions: findOfTest})
			if err != nil {
				return failure(err)
			}
			switch d.Cmd {
			case "access":
				return fmt.Sprint(p.Access())
			case "query":
				return functionRows(t, p, docs)
			}
			t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
			return ""
		})
	})
}

// functionRows runs a plan in several ways that must give the same result.
func functionRows(t *testing.T, p *Plan, docs list) string {
	var first string
	shapes := [][]list{{docs}, {docs[:len(docs)/2], docs[len(docs)/2:]}}
	if p.base < 0 {
		shapes = shapes[:1] // Its one row is in one partition.
	}
	for i, parts := range shapes {
		for _, items := range []int{0, 2} {
			rows, _, err := all(t.Context(), p, parts, Budget{MaxItems: items})
			var out []string
			for _, row := range rows {
				out = append(out, string(row.JSON))
			}
			if err != nil {
				out = append(out, failure(err))
			}
			text := strings.Join(out, "\n")
			if i == 0 && items == 0 {
				first = text
			} else if text != first {
				t.Errorf("%d partitions, pages of %d: got %s, want %s", len(parts), items, text, first)
			}
		}
	}
	return first
}

// TestFunctionEndsQuery tests a function whose error ends the query at once, and
// one that notices that the context is cancelled.
func TestFunctionEndsQuery(t *testing.T) {
	t.Parallel()
	ix := newIndex(t)
	var docs list
	for i := range 10 {
		docs = append(docs, newDocument(t, ix, uint64(i+1), fmt.Sprintf(`{"id":"%d"}`, i)))
	}
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	functions := func(string) (Function, bool) {
		return func(ctx context.Context, _ []value.Value) (value.Value, error) {
			if calls++; calls == 3 {
				cancel()
			}
			return value.Bool(true), ctx.Err()
		}, true
	}
	p, err := Compile("SELECT * FROM c WHERE udf.f(c.id)", nil, ix, Options{Functions: functions})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Run(ctx, docs, Budget{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if calls != 3 {
		t.Errorf("called %d times, want 3", calls)
	}
}

// TestFunctionsAndClock checks that a page ends after one document when the time is over
// and any document may take long.
func TestFunctionsAndClock(t *testing.T) {
	t.Parallel()
	ix := newIndex(t)
	var docs list
	for i := range 5 {
		docs = append(docs, newDocument(t, ix, uint64(i+1), fmt.Sprintf(`{"id":"%d"}`, i)))
	}
	p, err := Compile("SELECT VALUE udf.count(c.id) FROM c", nil, ix, Options{Functions: findOfTest})
	if err != nil {
		t.Fatal(err)
	}
	page, err := p.Run(t.Context(), docs, Budget{Deadline: time.Now().Add(-time.Second)})
	if err != nil || len(page.Rows) != 1 || !page.More {
		t.Errorf("got %d rows, more %v, %v, want one row and more", len(page.Rows), page.More, err)
	}
}

// TestRefusedFunctions shows that functions are refused by name where none are
// defined.
func TestRefusedFunctions(t *testing.T) {
	t.Parallel()
	_, err := Compile("SELECT VALUE udf.f(1)", nil, nil, Options{})
	if e := status.From(err); e == nil || !strings.Contains(e.Message, "udf.f is not supported") {
		t.Errorf("got %v", err)
	}
}

// TestFunctionsCalledOnce counts the calls of a function that occurs several
// times in a query, as in rewritten queries: one call for each document and
// different argument, not counting the calls that a later page repeats.
func TestFunctionsCalledOnce(t *testing.T) {
	t.Parallel()
	ix := newIndex(t)
	var docs list
	for i, text := range []string{`{"n":1}`, `{"n":1,"t":[1,1,2]}`, `{"m":3}`, `{"n":{"a":1,"b":2},"t":[{"b":2,"a":1}]}`} {
		docs = append(docs, newDocument(t, ix, uint64(i+1), text))
	}
	calls := int64(0)
	functions := func(string) (Function, bool) {
		return func(_ context.Context, args []value.Value) (value.Value, error) {
			calls++
			return args[0], nil
		}, true
	}
	original, err := Compile("SELECT VALUE udf.f(c.n) FROM c ORDER BY c.n", nil, ix, Options{Functions: functions})
	if err != nil {
		t.Fatal(err)
	}
	def := partitionkey.Definition{Paths: []string{"/n"}}.Normalize()
	rewritten := original.Describe(def).Get("queryInfo").Get("rewrittenQuery").Text()
	rewritten = strings.ReplaceAll(rewritten, filterPlaceholder, "true")
	if strings.Count(rewritten, "udf.f") != 2 {
		t.Fatalf("want two calls in %s", rewritten)
	}
	for _, c := range []struct {
		text  string
		calls int64
	}{
		{rewritten, 4},
		{"SELECT VALUE udf.f(c.n) FROM c", 4},
		{"SELECT udf.f(c.n) AS a, udf.f(c.n) AS b FROM c WHERE udf.f(c.n) != 9", 4}, // a call for undefined counts, too
		{"SELECT udf.f(c.n) AS a, udf.f(c.m) AS b FROM c", 8},
		{"SELECT udf.f(c.n) AS a, udf.g(c.n) AS b FROM c", 8},
		{"SELECT VALUE udf.f(t) FROM c JOIN t IN c.t", 3},                   // [1,1,2] and an object
		{"SELECT VALUE [udf.f(c.n), udf.f(t)] FROM c JOIN t IN c.t", 2 + 3}, // a call for each argument
		{"SELECT VALUE udf.f(COUNT(1)) FROM c GROUP BY c.n", 3},
		{"SELECT COUNT(udf.f(c.n)) AS n, SUM(udf.f(c.n)) AS s FROM c", 4},
	} {
		p, err := Compile(c.text, nil, ix, Options{Functions: functions})
		if err != nil {
			t.Fatalf("%s: %v", c.text, err)
		}
		for _, parts := range [][]list{{docs}, docs.split(3)} {
			calls = 0
			page, _, err := p.Merge(streams(p, parts), Progress{}).Page(t.Context(), Budget{})
			if err != nil {
				t.Fatalf("%s: %v", c.text, err)
			}
			if calls != c.calls || page.Stats.Calls != calls {
				t.Errorf("%s over %d lists: called %d times, want %d; counted %d", c.text, len(parts), calls, c.calls, page.Stats.Calls)
			}
		}
	}
	// A document whose rows did not fit in a page is evaluated again, and counts
	// on the next page.
	p, err := Compile("SELECT VALUE udf.f(c.n) FROM c", nil, ix, Options{Functions: functions})
	if err != nil {
		t.Fatal(err)
	}
	calls = 0
	counted, b := int64(0), Budget{MaxBytes: 2}
	for more := true; more; {
		page, err := p.Run(t.Context(), docs, b)
		if err != nil {
			t.Fatal(err)
		}
		counted, more = counted+page.Stats.Calls, page.More
		b.After, b.Started = page.Next, true
	}
	if counted != 4 || calls < 4 {
		t.Errorf("pages count %d calls of %d, want 4", counted, calls)
	}
}
