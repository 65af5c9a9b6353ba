package query

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// TestEFCore runs queries of the kinds that EF Core writes, in testdata/efcore: one a
// line, followed by its parameters after a tab. Each query must return the rows of the
// second evaluator: from documents and from the index, over one partition and four
// merged by the server, and over one and four merged by a client from the rewritten
// text.
func TestEFCore(t *testing.T) {
	t.Parallel()
	ix := efIndex(t)
	docs := efDocuments(t, ix)
	data, err := os.ReadFile("testdata/efcore/queries.txt")
	if err != nil {
		t.Fatal(err)
	}
	queries, rows := 0, 0
	for line := range strings.Lines(string(data)) {
		text, given, _ := strings.Cut(strings.TrimSpace(line), "\t")
		n := second{params: map[string]value.Value{}}
		var params []Param
		if given != "" {
			v, err := value.ParseString(given)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range v.Members() {
				params = append(params, Param{Name: m.Name, Value: m.Value})
				n.params[m.Name[1:]] = m.Value
			}
		}
		for _, d := range docs {
			n.docs = append(n.docs, d.value)
		}
		queries++
		rows += compareEF(t, n, docs, ix, text, params)
	}
	t.Logf("%d queries, %d rows", queries, rows)
	if queries < 200 || rows < 1000 {
		t.Error("the corpus is too small")
	}
}

// efIndex is a policy with the composite indexes that the corpus orders by.
func efIndex(t *testing.T) *index.Index {
	t.Helper()
	ix, err := index.Compile(resource.IndexingPolicy{
		Mode: resource.IndexingConsistent, Automatic: true, Included: []string{"/*"},
		Composite: [][]resource.CompositePath{{{Path: "/Line"}, {Path: "/Name"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return ix
}

func efDocuments(t *testing.T, ix *index.Index) list {
	t.Helper()
	data, err := os.ReadFile("testdata/efcore/documents.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var docs list
	for line := range strings.Lines(string(data)) {
		v, err := value.ParseString(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		v = v.With("_rid", value.String("r"+v.Get("id").Text()))
		docs = append(docs, newDocument(t, ix, uint64(len(docs)+1), v.JSON()))
	}
	return docs
}

// compareEF runs a query in every way and returns the number of its rows.
func compareEF(t *testing.T, n second, docs list, ix *index.Index, text string, params []Param) int {
	t.Helper()
	q, err := sql.Parse(text, n.params)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	want := n.rows(q)
	whole := n.rows(withoutLimits(q))
	check := func(way string, got []string) {
		t.Helper()
		expected := want
		switch {
		case len(q.OrderBy) > 0:
		case len(want) < len(whole): // The query does not determine which rows.
			if len(got) == len(want) && !slices.ContainsFunc(got, func(row string) bool { return !slices.Contains(whole, row) }) {
				return
			}
		default:
			expected, got = slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(got))
		}
		if !slices.Equal(got, expected) {
			t.Errorf("%s\n%s has %v\nwant %v", text, way, got, expected)
		}
	}
	for name, ix := range map[string]*index.Index{"the plain path": nil, "the index": ix} {
		p, err := Compile(text, params, ix, Options{Now: time.Unix(0, 0)})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			return 0
		}
		for parts, way := range map[int]string{1: " over one partition", 4: " over four partitions"} {
			check(name+way, efRows(t, p, docs.split(parts), ix != nil))
		}
	}
	def := partitionkey.Definition{Paths: []string{"/id"}}.Normalize()
	for _, parts := range []int{1, 4} {
		c := client{pages: 3, parts: docs.split(parts), params: params}
		check("a client", c.merge(t, text, c.compile(t, text).Describe(def).Get("queryInfo")))
	}
	return len(want)
}

// efRows pages through a plan over partitions.
func efRows(t *testing.T, p *Plan, parts []list, indexes bool) []string {
	t.Helper()
	all := streams(p, parts)
	if indexes {
		for i, part := range parts {
			all[i] = func(ctx context.Context, b Budget) (Page, error) { return p.Run(ctx, indexed{part}, b) }
		}
	}
	var rows []string
	for from, more := (Progress{}), true; more; {
		page, next, err := p.Merge(all, from).Page(t.Context(), Budget{MaxItems: 3, MaxBytes: 1 << 20})
		if err != nil {
			t.Fatalf("%s: %v", p.query, err)
		}
		for _, row := range page.Rows {
			v, err := value.Parse(row.JSON)
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, canonical(v))
		}
		from, more = next, page.More
	}
	return rows
}

// rows returns the rows of a query in the order of ORDER BY, after OFFSET, LIMIT and TOP.
func (n second) rows(q *sql.Select) []string {
	var rows []value.Value
	if len(q.OrderBy) == 0 {
		rows = n.query(q, nil, true)
	} else {
		rows = n.ordered(q)
	}
	if q.Offset != nil {
		rows = rows[min(int(n.expr(q.Offset, nil).Float()), len(rows)):]
	}
	for _, most := range []sql.Expr{q.Limit, q.Top} {
		if most != nil {
			rows = rows[:min(int(n.expr(most, nil).Float()), len(rows))]
		}
	}
	out := make([]string, len(rows))
	for i, row := range rows {
		out[i] = canonical(row)
	}
	return out
}

// ordered evaluates the keys of ORDER BY with each row, and sorts.
func (n second) ordered(q *sql.Select) []value.Value {
	wrapped := withoutLimits(q)
	wrapped.Distinct, wrapped.OrderBy, wrapped.Star, wrapped.Items = false, nil, false, nil
	row := q.Value
	if q.Star {
		row = &sql.Ident{Name: q.From.Inputs[0].Name()}
	}
	wrapped.Value = &sql.ObjectLiteral{Members: []sql.Property{{Name: "row", Expr: row}}}
	for i, key := range q.OrderBy {
		wrapped.Value.(*sql.ObjectLiteral).Members = append(wrapped.Value.(*sql.ObjectLiteral).Members, sql.Property{Name: "k" + string(rune('0'+i)), Expr: key.Expr})
	}
	sorted := n.query(wrapped, nil, true)
	sign := func(i int) int {
		if q.OrderBy[i].Desc {
			return -1
		}
		return 1
	}
	if sign(0) < 0 { // Equal rows are in the direction of the first key.
		slices.Reverse(sorted)
	}
	slices.SortStableFunc(sorted, func(a, b value.Value) int {
		for i := range q.OrderBy {
			name := "k" + string(rune('0'+i))
			if c := value.CompareOrder(a.Get(name), b.Get(name)); c != 0 {
				return c * sign(i)
			}
		}
		return 0
	})
	var rows []value.Value
	for _, v := range sorted {
		if row := v.Get("row"); row.IsDefined() {
			rows = append(rows, row)
		}
	}
	if q.Distinct {
		return n.distinct(rows)
	}
	return rows
}

// withoutLimits returns a query without TOP, OFFSET and LIMIT.
func withoutLimits(q *sql.Select) *sql.Select {
	one := *q
	one.Top, one.Offset, one.Limit = nil, nil, nil
	return &one
}
