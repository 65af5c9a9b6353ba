package query

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/decandb/decan/partitionkey"
)

// reachedValues are the values of the documents and of the filters of TestReachedRows.
var reachedValues = []string{
	"null", "false", "true", "0", "1", "2", "1.5", "-1", `"a"`, `"ab"`, `"b"`, `""`, `"A"`, "[]", "{}", "[1]", `{"y":1}`, `{"y":"a"}`, `[{"y":2}]`, `["a",true]`,
}

// reachedFilter draws a condition on a few properties.
func reachedFilter(r *rand.Rand, depth int) string {
	v := func() string {
		if r.IntN(12) == 0 {
			return pick(r, []string{"undefined", "NaN", "Infinity", "-Infinity"})
		}
		return pick(r, reachedValues)
	}
	p := func() string {
		return pick(r, []string{"c.pk", "c.pk", "c.x", "c.o.x", "c.pk.y", "c.x.y", "c", "c.pk[0]"})
	}
	if depth > 0 {
		f := func() string { return reachedFilter(r, depth-1) }
		switch r.IntN(20) {
		case 0, 1, 2:
			return "(" + f() + " AND " + f() + ")"
		case 3, 4, 5:
			return "(" + f() + " OR " + f() + ")"
		case 6, 7:
			return "NOT (" + f() + ")"
		case 8:
			return "(" + f() + " ? " + f() + " : " + f() + ")"
		case 9:
			return "(" + f() + " ?? " + f() + ")"
		case 10:
			return "EXISTS(SELECT VALUE " + p() + " WHERE " + f() + ")"
		case 11:
			return "EXISTS(SELECT 1 FROM t IN " + p() + " WHERE " + strings.ReplaceAll(f(), "c.x", "t") + ")"
		case 12:
			return "NOT EXISTS(SELECT VALUE " + f() + ")"
		case 13:
			return "(" + f() + " " + pick(r, []string{"=", "!=", "<", ">="}) + " " + f() + ")"
		case 14:
			return "(SELECT VALUE " + f() + ")"
		case 15:
			return "(LET l = " + f() + " IN (l AND " + f() + "))"
		case 16:
			return "IIF(" + f() + ", " + f() + ", " + f() + ")"
		case 17:
			return "EXISTS(SELECT VALUE " + pick(r, []string{"MAX", "COUNT", "MIN", "MAKELIST"}) + "(" + p() + ") WHERE " + f() + ")"
		case 18:
			return "FIRST(SELECT VALUE " + f() + ")"
		}
	}
	switch r.IntN(16) {
	case 0:
		return p() + pick(r, []string{"", " NOT"}) + " IN (" + v() + ", " + v() + ", " + v() + ")"
	case 1:
		return "(" + p() + pick(r, []string{"", " NOT"}) + " BETWEEN " + v() + " AND " + v() + ")"
	case 2:
		return p() + pick(r, []string{"", " NOT"}) + " LIKE " + pick(r, []string{"'a%'", "'a'", "'%b'", "'_'", "'a_'", "'a%b'", "1"})
	case 3:
		return pick(r, []string{"IS_DEFINED", "IS_NULL", "IS_STRING", "IS_NUMBER", "IS_ARRAY", "IS_OBJECT", "IS_BOOL", "IS_PRIMITIVE", "IS_INTEGER"}) + "(" + p() + ")"
	case 4:
		return pick(r, []string{"STARTSWITH", "STRINGEQUALS", "CONTAINS"}) + "(" + p() + ", " + pick(r, []string{"'a'", "'ab'", "c.x", "'a', true"}) + ")"
	case 5:
		return pick(r, []string{"ARRAY_CONTAINS([1,'a',[1],true], ", "ARRAY_CONTAINS([1,{}], "}) + p() + pick(r, []string{")", ", true)"})
	case 6:
		return p() + pick(r, []string{" = ", " != ", " < ", " >= "}) + p()
	case 7:
		return p()
	case 8:
		return pick(r, []string{"UPPER(", "ABS(", "-(", "LENGTH(", "ToString(", "ARRAY_LENGTH("}) + p() + ")" + pick(r, []string{" = ", " < "}) + v()
	case 9:
		return v()
	case 10:
		return v() + pick(r, []string{" = ", " != ", " < ", " >= "}) + p()
	}
	return p() + pick(r, []string{" = ", " = ", " = ", " != ", " < ", " <= ", " > ", " >= "}) + v()
}

// reachedQuery draws a query whose rows depend on a filter.
func reachedQuery(r *rand.Rand) string {
	f := reachedFilter(r, 3)
	return strings.ReplaceAll(pick(r, []string{
		"SELECT VALUE c.id FROM c WHERE %", "SELECT VALUE c.id FROM c WHERE %", "SELECT VALUE c.id FROM c WHERE %",
		"SELECT VALUE % FROM c", "SELECT VALUE COUNT(%) FROM c", "SELECT COUNTIF(%), COUNT(c.pk.y) FROM c WHERE c.x", "SELECT VALUE MAX(%) FROM c",
		"SELECT VALUE s FROM (SELECT c.pk, c.x, c.o FROM c WHERE %) s WHERE s.pk != 1", "SELECT VALUE s.f FROM (SELECT % AS f FROM c) s WHERE s.f",
		"SELECT s.f FROM (SELECT VALUE {f: %, g: c.pk} FROM c) s WHERE s.g = 1 OR s.f", "SELECT VALUE u FROM (SELECT c.pk, COUNT(1) AS n FROM c WHERE % GROUP BY c.pk) u WHERE u.n < 5",
		"SELECT c.id, t FROM c JOIN t IN c.pk WHERE %", "SELECT c.id FROM c JOIN (SELECT VALUE c.pk WHERE %) t WHERE t = 1", "SELECT VALUE t.id FROM (SELECT VALUE c FROM c) t WHERE (LET c = t IN true) AND t.pk = 1",
		"SELECT DISTINCT VALUE c.x FROM c WHERE %", "SELECT VALUE COUNT(1) FROM (SELECT DISTINCT c.x FROM c WHERE %) d", "SELECT t.id, y FROM c t JOIN (SELECT VALUE MIN(s) FROM s IN t.x) y WHERE t.pk = y",
	}), "%", f)
}

func reachedDocuments(t *testing.T, r *rand.Rand, n int) list {
	var docs list
	for i := range n {
		var b strings.Builder
		fmt.Fprintf(&b, `{"id":"%d"`, i)
		for _, name := range []string{"pk", "x", "o", "a", "b", "c", "y", "n", "tags", "items", "text", "v", "name", "rank", "first"} {
			switch {
			case r.IntN(8) == 0:
			case name == "o":
				fmt.Fprintf(&b, `,"o":{"x":%s}`, pick(r, reachedValues))
			default:
				fmt.Fprintf(&b, `,"%s":%s`, name, pick(r, reachedValues))
			}
		}
		docs = append(docs, newDocument(t, nil, uint64(i+1), b.String()+"}"))
	}
	return docs
}

// TestReachedRows runs random queries over all documents, and over those in the ranges
// that the plan visits: the rows are the same. DECAN_REACH is the number of queries.
func TestReachedRows(t *testing.T) {
	t.Parallel()
	total := 6000
	if n, err := strconv.Atoi(os.Getenv("DECAN_REACH")); err == nil {
		total = n
	}
	seed := rand.Uint64()
	bounded, rows, matched := 0, 0, 0
	for i := range total {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		var q question
		if q.query = reachedQuery(r); i%4 == 0 {
			q = randomQuery(r)
		}
		v := planVector{query: q.query, key: partitionkey.Definition{Paths: []string{"/pk"}}.Normalize()}
		if len(q.key) > 0 {
			v.key = definitionOf(q.key)
		} else if r.IntN(3) == 0 {
			v.key = definitionOf([]string{"/x", "/pk"})
		}
		for _, p := range q.params {
			v.params = append(v.params, Param{Name: p.Name, Value: p.Value})
		}
		p, err := Compile(v.query, v.params, nil, Options{Functions: anyFunction})
		if err != nil || p.query.Rank || variable(v.query) {
			continue
		}
		ranges := p.Ranges(v.key)
		if len(ranges) == 1 && ranges[0].Equal(partitionkey.Full()) {
			continue
		}
		bounded++
		docs := reachedDocuments(t, r, 60)
		var inside list
		for _, doc := range docs {
			key := v.key.Hash(keyOf(v.key, doc.value))
			if slices.ContainsFunc(ranges, func(r partitionkey.Range) bool { return r.Contains(key) }) {
				inside = append(inside, doc)
			}
		}
		want, _, err := all(t.Context(), p, []list{docs}, Budget{})
		if err != nil {
			continue // an error of a document
		}
		got, _, err := all(t.Context(), p, []list{inside}, Budget{})
		if err != nil {
			t.Fatalf("seed %d, query %d: %s: %v", seed, i, v.query, err)
		}
		if a, b := rowsText(got), rowsText(want); a != b {
			t.Fatalf("seed %d, query %d: %s over %v\n got %.300s\nwant %.300s\nranges %v", seed, i, q.request(), v.key.Paths, a, b, ranges)
		}
		if rows += len(want); len(want) > 0 {
			matched++
		}
	}
	t.Logf("%d queries with ranges, %d with rows, %d rows", bounded, matched, rows)
	if bounded < total/8 || matched < bounded/8 {
		t.Errorf("%d queries with ranges, %d with rows, of %d", bounded, matched, total)
	}
}

func rowsText(rows []Row) string {
	var b strings.Builder
	for _, row := range rows {
		b.Write(row.JSON)
		b.WriteByte('\n')
	}
	return b.String()
}

func definitionOf(paths []string) partitionkey.Definition {
	d := partitionkey.Definition{Paths: paths}
	if len(paths) > 1 {
		d.Kind = partitionkey.KindMultiHash
	}
	return d.Normalize()
}
