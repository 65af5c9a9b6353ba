package query

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// clientShapes are queries that clients merge. Ordered ones are compared row by
// row, the others as sets.
var clientShapes = []string{
	"SELECT c.id, c.n FROM c WHERE c.n > 2",
	"SELECT TOP 3 c.id FROM c",
	"SELECT c.id FROM c OFFSET 2 LIMIT 4",
	"SELECT c.id FROM c ORDER BY c.k",
	"SELECT * FROM c ORDER BY c.k DESC",
	"SELECT TOP 5 VALUE c.n FROM c WHERE c.flag ORDER BY c.k",
	"SELECT VALUE c.none FROM c ORDER BY c.k",
	"SELECT VALUE c.id FROM c ORDER BY c.k OFFSET 2 LIMIT 4",
	"SELECT c.id FROM c ORDER BY c.k, c.n DESC",
	"SELECT c.id, t FROM c JOIN t IN c.tags ORDER BY c.n",
	"SELECT DISTINCT VALUE c.k FROM c",
	"SELECT DISTINCT c.k, c.flag FROM c",
	"SELECT DISTINCT TOP 2 c.k FROM c",
	"SELECT DISTINCT c.k FROM c OFFSET 1 LIMIT 2",
	"SELECT DISTINCT VALUE t FROM c JOIN t IN c.tags",
	"SELECT DISTINCT VALUE c.k FROM c ORDER BY c.k",
	"SELECT DISTINCT c.k, c.flag FROM c ORDER BY c.flag DESC, c.k DESC",
	"SELECT DISTINCT TOP 2 VALUE c.k FROM c ORDER BY c.k DESC",
	"SELECT DISTINCT VALUE c.flag FROM c ORDER BY c.k",
	"SELECT VALUE COUNT(1) FROM c",
	"SELECT VALUE COUNT(c.k) FROM c WHERE c.flag",
	"SELECT VALUE SUM(c.n) FROM c",
	"SELECT VALUE SUM(c.k) FROM c",
	"SELECT VALUE AVG(c.n) FROM c",
	"SELECT VALUE AVG(c.k) FROM c",
	"SELECT VALUE MIN(c.k) FROM c",
	"SELECT VALUE MAX(c.k) FROM c",
	"SELECT VALUE MIN(c.tags) FROM c",
	"SELECT VALUE MAX(c.none) FROM c",
	"SELECT VALUE COUNTIF(c.flag) FROM c",
	"SELECT VALUE MAKELIST(c.n) FROM c",
	"SELECT VALUE MAKESET(c.k) FROM c",
	"SELECT COUNT(1) FROM c",
	"SELECT COUNT(1) AS n, SUM(c.n), AVG(c.k) AS a, MIN(c.k) AS lo, MAX(c.n) AS hi, COUNTIF(c.flag) AS f, MAKESET(c.flag) AS s, 7 AS seven FROM c",
	"SELECT TOP 1 VALUE COUNT(1) FROM c",
	"SELECT VALUE COUNT(1) FROM c OFFSET 1 LIMIT 1",
	"SELECT VALUE COUNT(1) FROM c JOIN t IN c.tags",
	"SELECT c.k, COUNT(1) AS n FROM c GROUP BY c.k",
	"SELECT c.k, c.flag, SUM(c.n) AS s, AVG(c.n) AS a, MIN(c.n) AS lo, MAX(c.k) AS hi FROM c GROUP BY c.k, c.flag",
	"SELECT COUNT(1) AS n FROM c GROUP BY c.k",
	"SELECT VALUE COUNT(1) FROM c GROUP BY c.k",
	"SELECT VALUE SUM(c.n) FROM c GROUP BY c.flag",
	"SELECT VALUE c.k FROM c GROUP BY c.k",
	`SELECT VALUE {"k": c.k} FROM c GROUP BY c.k`,
	"SELECT UPPER(c.k) AS u, COUNT(1) AS n FROM c GROUP BY UPPER(c.k)",
	"SELECT t, COUNT(1) AS n FROM c JOIN t IN c.tags GROUP BY t",
	"SELECT c.k, MAX(c.n) AS m FROM c GROUP BY c.k OFFSET 1 LIMIT 2",
	"SELECT TOP 2 c.k FROM c GROUP BY c.k",
	"SELECT DISTINCT c.k, COUNT(1) AS n FROM c GROUP BY c.k",
	"SELECT VALUE COUNT(1) FROM (SELECT DISTINCT VALUE c.k FROM c)",
	"SELECT COUNT(1) AS n FROM (SELECT DISTINCT c.k, c.flag FROM c) AS d",
	"SELECT COUNT(1) FROM (SELECT DISTINCT VALUE c.k FROM c) AS d",
	"SELECT c.k FROM c GROUP BY c.k ORDER BY c.k DESC",
	"SELECT VALUE c.k FROM c GROUP BY c.k, c.flag ORDER BY c.flag, c.k",
	"SELECT VALUE MAX(c.n) FROM c ORDER BY c.k",
	"SELECT VALUE SUM((SELECT VALUE COUNT(1) FROM t IN c.tags)) FROM c",
	"SELECT VALUE s.id FROM (SELECT * FROM c) s ORDER BY s.k",
	"SELECT TOP 4 c.id FROM c ORDER BY VectorDistance(c.e, [1, 0])",
	`SELECT c.id FROM c ORDER BY VectorDistance(c.e, [1, 0], true, {"distanceFunction": "euclidean"}) OFFSET 1 LIMIT 3`,
}

// TestClients acts as a client for every shape of query: it asks for a plan, runs
// the text of the plan in each partition separately, and combines the results as
// SDKs do. The result must equal that of the server for the whole query.
func TestClients(t *testing.T) {
	t.Parallel()
	for _, text := range clientShapes {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			for round := range 12 {
				seed := rand.Uint64()
				r := rand.New(rand.NewPCG(seed, 5))
				docs := clientDocuments(t, r)
				c := client{seed: seed, pages: []int{0, 1, 2, 7}[round%4], parts: docs.split(1 + r.IntN(5))}
				c.compare(t, text)
			}
		})
	}
}

// clientDocuments makes documents with few distinct values, so that groups have
// several members.
func clientDocuments(t *testing.T, r *rand.Rand) list {
	var docs list
	keys := []string{`"a"`, `"b"`, "1", "2", "null", "true", ""}
	for i := range r.IntN(25) {
		body := fmt.Sprintf(`{"id":"%d","_rid":"r%03d","n":%d,"tags":[%d,%d],"e":[%d,%d]`, i, i, r.IntN(9), r.IntN(3), r.IntN(3), i+1, 3*i+1)
		if k := keys[r.IntN(len(keys))]; k != "" {
			body += `,"k":` + k
		}
		if r.IntN(3) > 0 {
			body += fmt.Sprintf(`,"flag":%t`, r.IntN(2) == 0)
		}
		docs = append(docs, newDocument(t, nil, uint64(i+1), body+"}"))
	}
	return docs
}

// client merges partitions without the server.
type client struct {
	seed   uint64
	pages  int // rows per page; 0: all
	parts  []list
	params []Param
}

func (c client) compare(t *testing.T, text string) {
	t.Helper()
	c.compareIn(t, text, partitionkey.Definition{Paths: []string{"/id"}}.Normalize())
}

func (c client) compile(t *testing.T, text string) *Plan {
	t.Helper()
	p, err := Compile(text, c.params, nil, Options{Now: time.Unix(0, 0), Functions: anyFunction})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return p
}

func (c client) compareIn(t *testing.T, text string, def partitionkey.Definition) {
	t.Helper()
	p := c.compile(t, text)
	if err := p.Describable(def); err != nil {
		t.Fatal(err)
	}
	info := p.Describe(def).Get("queryInfo")
	got, want := c.merge(t, text, info), c.whole(t, text)
	limited := info.Get("limit").IsDefined() && info.Get("limit").Kind() == value.KindNumber || info.Get("top").Kind() == value.KindNumber
	if info.Get("orderBy").Len() == 0 || info.Get("distinctType").Text() == distinctUnordered || info.Get("groupByExpressions").Len() > 0 {
		if limited {
			// The query does not say which rows to return, but they must be rows
			// of the result.
			every := c.whole(t, unlimited(t, text, c.params))
			for _, row := range got {
				if !slices.Contains(every, row) {
					t.Fatalf("seed %d: row %s is not among %v", c.seed, row, every)
				}
			}
			if len(got) != len(want) {
				t.Fatalf("seed %d: got %d rows, want %d", c.seed, len(got), len(want))
			}
			return
		}
		slices.Sort(got)
		slices.Sort(want)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("seed %d, pages of %d\n got %v\nwant %v\ntext %s", c.seed, c.pages, got, want, info.Get("rewrittenQuery").Text())
	}
}

func unlimited(t *testing.T, text string, params []Param) string {
	declared := map[string]value.Value{}
	for _, p := range params {
		declared[strings.TrimPrefix(p.Name, "@")] = p.Value
	}
	q, err := sql.Parse(text, declared)
	if err != nil {
		t.Fatal(err)
	}
	q.Top, q.Offset, q.Limit = nil, nil, nil
	return q.String()
}

// whole returns the server's result.
func (c client) whole(t *testing.T, text string) []string {
	rows := c.rows(t, text, c.parts)
	out := make([]string, len(rows))
	for i, row := range rows {
		out[i] = canonical(row)
	}
	return out
}

func (c client) rows(t *testing.T, text string, parts []list) []value.Value {
	t.Helper()
	rows, _, err := all(t.Context(), c.compile(t, text), parts, Budget{MaxItems: c.pages})
	if err != nil {
		t.Fatalf("seed %d: %s: %v", c.seed, text, err)
	}
	out := make([]value.Value, len(rows))
	for i, row := range rows {
		if out[i], err = value.Parse(row.JSON); err != nil {
			t.Fatalf("seed %d: %s: row %s: %v", c.seed, text, row.JSON, err)
		}
	}
	return out
}

// merge does what an SDK does with a plan.
func (c client) merge(t *testing.T, text string, info value.Value) []string {
	t.Helper()
	if s := info.Get("rewrittenQuery").Text(); s != "" {
		text = strings.ReplaceAll(s, filterPlaceholder, "true")
	}
	var rows []value.Value
	for _, part := range c.parts {
		rows = append(rows, c.rows(t, text, []list{part})...)
	}
	switch {
	case info.Get("orderBy").Len() > 0:
		rows = clientPayloads(clientOrder(rows, info.Get("orderBy").Items()))
		if info.Get("groupByExpressions").Len() > 0 {
			rows = clientGroups(rows, info)
		}
	case info.Get("groupByExpressions").Len() > 0:
		rows = clientGroups(rows, info)
	case info.Get("aggregates").Len() > 0 || info.Get("groupByAliasToAggregateType").Len() > 0:
		rows = clientTotal(rows, info)
	}
	if info.Get("distinctType").Text() != distinctNone {
		rows = clientDistinct(rows, info.Get("distinctType").Text() == distinctOrdered)
	}
	if counted := info.Get("dCountInfo"); counted.Kind() == value.KindObject {
		total := value.Int(int64(len(rows)))
		if alias := counted.Get("dCountAlias").Text(); alias != "" {
			total = value.Object([]value.Member{{Name: alias, Value: total}})
		}
		rows = []value.Value{total}
	}
	if n, ok := info.Get("offset").Int64(); ok {
		rows = rows[min(int(n), len(rows)):]
	}
	for _, name := range []string{"limit", "top"} {
		if n, ok := info.Get(name).Int64(); ok {
			rows = rows[:min(int(n), len(rows))]
		}
	}
	out := make([]string, len(rows))
	for i, row := range rows {
		out[i] = canonical(row)
	}
	return out
}

// clientOrder orders by the items of rows and then by resource id, in the
// direction of the first.
func clientOrder(rows, ways []value.Value) []value.Value {
	sign := func(i int) int {
		if ways[i].Text() == "Descending" {
			return -1
		}
		return 1
	}
	slices.SortStableFunc(rows, func(a, b value.Value) int {
		for i := range ways {
			item := func(v value.Value) value.Value { return v.Get("orderByItems").Index(i).Get("item") }
			if c := value.CompareOrder(item(a), item(b)); c != 0 {
				return c * sign(i)
			}
		}
		return strings.Compare(a.Get("_rid").Text(), b.Get("_rid").Text()) * sign(0)
	})
	return rows
}

func clientPayloads(rows []value.Value) []value.Value {
	var out []value.Value
	for _, row := range rows {
		if v := row.Get("payload"); v.IsDefined() {
			out = append(out, v)
		}
	}
	return out
}

// clientDistinct drops equal rows; ordered ones are only compared with their
// neighbour.
func clientDistinct(rows []value.Value, ordered bool) []value.Value {
	var out []value.Value
	for _, row := range rows {
		known := out
		if ordered {
			known = out[max(0, len(out)-1):]
		}
		if !slices.ContainsFunc(known, func(v value.Value) bool { return value.Equal(v, row) }) {
			out = append(out, row)
		}
	}
	return out
}

// clientTotal combines aggregates without groups.
func clientTotal(rows []value.Value, info value.Value) []value.Value {
	var parts []value.Value
	for _, row := range rows {
		if info.Get("aggregates").Len() == 0 {
			row = row.Get("payload")
		}
		parts = append(parts, row)
	}
	if v := clientRow(parts, info); v.IsDefined() {
		return []value.Value{v}
	}
	return nil
}

// clientGroups combines the parts of each group.
func clientGroups(rows []value.Value, info value.Value) []value.Value {
	var order []string
	parts := map[string][]value.Value{}
	for _, row := range rows {
		key := string(value.AppendKey(nil, row.Get("groupByItems")))
		if parts[key] == nil {
			order = append(order, key)
		}
		parts[key] = append(parts[key], row.Get("payload"))
	}
	var out []value.Value
	for _, key := range order {
		if v := clientRow(parts[key], info); v.IsDefined() {
			out = append(out, v)
		}
	}
	return out
}

// clientRow makes the result of the parts of one group.
func clientRow(parts []value.Value, info value.Value) value.Value {
	if info.Get("hasSelectValue").IsTrue() {
		if info.Get("aggregates").Len() == 0 {
			return parts[0]
		}
		for i := range parts {
			parts[i] = parts[i].Index(0)
		}
		return clientAggregate(info.Get("aggregates").Index(0).Text(), parts)
	}
	var members []value.Member
	for _, m := range info.Get("groupByAliasToAggregateType").Members() {
		column := make([]value.Value, len(parts))
		for i, part := range parts {
			column[i] = part.Get(m.Name)
		}
		v := column[0]
		if m.Value.Kind() == value.KindString {
			v = clientAggregate(m.Value.Text(), column)
		}
		members = append(members, value.Member{Name: m.Name, Value: v})
	}
	return value.Object(members)
}

// clientAggregate combines the parts of one aggregate.
func clientAggregate(kind string, parts []value.Value) value.Value {
	sum, count := 0.0, 0.0
	best := value.Undefined()
	var items []value.Value
	for _, part := range parts {
		item := part.Get("item")
		switch kind {
		case "Count", "CountIf", "Sum":
			if item.Kind() != value.KindNumber {
				return value.Undefined()
			}
			sum += item.Float()
		case "Average":
			if item.Get("count").Float() > 0 && item.Get("sum").Kind() != value.KindNumber {
				return value.Undefined()
			}
			sum, count = sum+item.Get("sum").Float(), count+item.Get("count").Float()
		case "Min", "Max":
			least, sign := part.Get("item2").Get(strings.ToLower(kind)), 1
			if kind == "Max" {
				sign = -1
			}
			switch {
			case part.Get("item2").Get("count").Float() == 0:
			case !least.IsDefined():
				return value.Undefined()
			case !best.IsDefined() || value.Compare(least, best)*sign < 0:
				best = least
			}
		default:
			items = append(items, item.Items()...)
		}
	}
	switch kind {
	case "Count", "CountIf", "Sum":
		return value.Number(sum)
	case "Average":
		if count == 0 {
			return value.Undefined()
		}
		return value.Number(sum / count)
	case "MakeList":
		return value.Array(items)
	case "MakeSet":
		return value.Array(clientDistinct(items, false))
	}
	return best
}

// canonical writes a row so that equal ones are equal texts: members by name,
// and lists, whose order is that of partitions, sorted.
func canonical(v value.Value) string {
	switch v.Kind() {
	case value.KindArray:
		var items []string
		for _, item := range v.Items() {
			items = append(items, canonical(item))
		}
		slices.Sort(items)
		return "[" + strings.Join(items, ",") + "]"
	case value.KindObject:
		var members []string
		for _, m := range v.Members() {
			members = append(members, m.Name+":"+canonical(m.Value))
		}
		slices.Sort(members)
		return "{" + strings.Join(members, ",") + "}"
	}
	return v.JSON()
}
