package engine_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/throughput"
)

// charged returns the charge of all pages of a query, and the number of its
// rows.
func (w *world) charged(t *testing.T, link engine.Link, text string, items int) (charge float64, rows int) {
	t.Helper()
	for continuation := ""; ; {
		page, err := w.Query(t.Context(), caller, engine.QueryRequest{Link: link, Text: text, Cross: true, Full: true, MaxItems: items, Continuation: continuation})
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		charge, rows = charge+page.Charge, rows+len(page.Rows)
		if continuation = page.Continuation; continuation == "" {
			return charge, rows
		}
	}
}

// TestFunctionsAreCharged compares queries with and without a user-defined
// function. Each call costs the same, in any clause, for any number of pages,
// and for any number of calls in a query.
func TestFunctionsAreCharged(t *testing.T) {
	t.Parallel()
	w := scriptWorld(t)
	link := w.container(t, 3, "/pk")
	const documents, values = 60, 4
	for i := range documents {
		w.create(t, link, fmt.Sprintf(`{"id":"%d","pk":%d,"n":%d}`, i, i, i%values))
	}
	w.function(t, link, "f", "function(x) { return x; }")
	for _, c := range []struct {
		with, without string
		items, calls  int
	}{
		{"SELECT VALUE udf.f(c.n) FROM c", "SELECT VALUE c.n FROM c", 0, documents},
		{"SELECT VALUE udf.f(c.n) FROM c", "SELECT VALUE c.n FROM c", 7, documents},
		{"SELECT VALUE udf.f(c.id) FROM c WHERE udf.f(c.id) = c.id", "SELECT VALUE c.id FROM c WHERE c.n + c.pk >= 0", 0, documents},
		{
			"SELECT c._rid, [{item: c.id}] AS orderByItems, udf.f(c.n) AS payload FROM c WHERE (IS_DEFINED(udf.f(c.n)) AND (true)) ORDER BY c.id",
			"SELECT c._rid, [{item: c.id}] AS orderByItems, c.n AS payload FROM c WHERE (c.n + c.pk >= 0 AND (true)) ORDER BY c.id", 0, documents,
		},
		{"SELECT SUM(udf.f(c.n)) AS s FROM c WHERE c.n + c.pk >= 0", "SELECT SUM(c.n) AS s FROM c WHERE c.n + c.pk >= 0", 0, documents},
		// One row of a group calls it once, even if several partitions have a
		// part of the group.
		{"SELECT VALUE udf.f(c.n) FROM c GROUP BY c.n", "SELECT VALUE c.n FROM c GROUP BY c.n", 0, values},
		{"SELECT VALUE udf.f(1)", "SELECT VALUE 1", 0, 1},
	} {
		with, rows := w.charged(t, link, c.with, c.items)
		without, other := w.charged(t, link, c.without, c.items)
		if want := throughput.Calls(int64(c.calls)); math.Abs(with-without-want) > 0.011 || rows != other {
			t.Errorf("%s in pages of %d: %.2f for %d rows, %.2f for %d without the function; want %.2f more", c.with, c.items, with, rows, without, other, want)
		}
	}
}

// TestVectorsAreCharged compares a search over all vectors with a search over a
// tenth of them: the difference in charge is that of the additional vectors,
// and a repeated search costs the same.
func TestVectorsAreCharged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	const documents = 4800
	link := searchable(t, w, documents)
	const search = "SELECT TOP 10 c.id FROM c %s ORDER BY VectorDistance(c.v, [0.5, -0.25, 1, 0])"
	all, _ := w.charged(t, link, fmt.Sprintf(search, ""), 0)
	again, _ := w.charged(t, link, fmt.Sprintf(search, ""), 0)
	some, rows := w.charged(t, link, fmt.Sprintf(search, "WHERE c.n = 3"), 0)
	if all != again || rows != 10 {
		t.Errorf("%v and then %v for the same search, %d rows", all, again, rows)
	}
	// The filter is one more look-up in each of four partitions.
	more := throughput.Query(throughput.Work{Vectors: documents - documents/10}) - throughput.Query(throughput.Work{Lookups: 4})
	if math.Abs(all-some-more) > 0.25 {
		t.Errorf("%.2f for all vectors and %.2f for a tenth of them, want about %.2f more", all, some, more)
	}
}
