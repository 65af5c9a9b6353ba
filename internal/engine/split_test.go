package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// split is an engine with container c of n partitions, and documents in all.
func split(t *testing.T, n int) (*Engine, *catalog.Container) {
	t.Helper()
	pool, err := storage.NewPool(storage.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	store, err := pool.Create("catalog")
	if err != nil {
		t.Fatal(err)
	}
	names, err := catalog.Open(store, nil)
	if err != nil {
		t.Fatal(err)
	}
	limits := resource.DefaultLimits()
	node, err := cluster.Start(cluster.Config{Pool: pool, Catalog: names, Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(node.Close(), store.Close(), pool.Close()); err != nil {
			t.Error(err)
		}
	})
	e := New(Config{Catalog: names, Node: node, Account: resource.Account{Consistency: resource.Session}, Limits: limits})
	ctx, caller := context.Background(), auth.Owner()
	if _, err := e.CreateDatabase(ctx, caller, ResourceRequest{Body: parse(t, `{"id":"d"}`)}); err != nil {
		t.Fatal(err)
	}
	build(t, e, parse(t, splitDefinition), n)
	for i := range 60 {
		doc := parse(t, splitDocument(i))
		if _, err := e.Create(ctx, caller, DocumentRequest{Link: Link{Database: "d", Container: "c"}, Document: doc}); err != nil {
			t.Fatal(err)
		}
	}
	c, _ := names.View().Container("d", "c")
	return e, c
}

// parse is value.ParseString for text that is right.
func parse(t *testing.T, text string) value.Value {
	t.Helper()
	v, err := value.ParseString(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

const splitDefinition = `{"id":"c","partitionKey":{"paths":["/pk"]},"indexingPolicy":{"includedPaths":[{"path":"/*"}],"compositeIndexes":[[{"path":"/n"},{"path":"/long","order":"descending"}]]}}`

// splitDocument has numbers and texts that several share, texts longer than
// positions hold, and arrays of different lengths, which are missing here and
// there.
func splitDocument(i int) string {
	text := fmt.Sprintf(`{"id":"%02d","pk":%d,"n":%d,"v":[%d,1]`, i, i, i%7, i)
	if i%5 > 0 {
		text += fmt.Sprintf(`,"long":"%s%d"`, strings.Repeat("x", 150), i%11)
	}
	if i%6 > 0 {
		text += `,"tags":[` + strings.TrimSuffix(strings.Repeat(fmt.Sprintf(`%d,"t",`, i%4), i%3), ",") + `]`
	}
	return text + "}"
}

// build makes a container whose documents are not numbered in the order of its
// partitions, as it is when some of those came out of others.
func build(t *testing.T, e *Engine, body value.Value, n int) {
	t.Helper()
	definition, err := resource.ParseContainer(body)
	if err != nil {
		t.Fatal(err)
	}
	database, _ := e.catalog.View().Database("d")
	definition.RID = e.catalog.ReserveContainer(database.RID)
	partitions := e.tile(definition.PartitionKey, n)
	for i := range partitions {
		partitions[i].Ordinal = uint32(i*5+3) % uint32(n) // n is no multiple of 5
	}
	if err := e.build(context.Background(), catalog.CreateContainer{Container: definition, Partitions: partitions}, new(Resource)); err != nil {
		t.Fatal(err)
	}
}

// A token that was issued for one partition is good when several own its range:
// their rows come in the order of numbers, behind the position, each once, and
// then what lies behind the range.
func TestTokenOfRangeThatWasSplit(t *testing.T) {
	t.Parallel()
	e, c := split(t, 4)
	ctx, caller := context.Background(), auth.Owner()
	req := QueryRequest{Link: Link{Database: "d", Container: "c"}, Text: "SELECT c.id, c._rid FROM c", Cross: true}
	plan, err := e.compile(req.Text, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		text   string
		number uint64
	}
	collect := func(req QueryRequest) (rows []row) {
		for {
			page, err := e.Query(ctx, caller, req)
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range page.Rows {
				v, err := value.Parse(text)
				if err != nil {
					t.Fatal(err)
				}
				rid, err := resource.ParseRID(v.Get("_rid").Text())
				if err != nil {
					t.Fatal(err)
				}
				rows = append(rows, row{string(text), rid.Number()})
			}
			if page.Continuation == "" {
				return rows
			}
			req.Continuation = page.Continuation
		}
	}
	all := collect(req)
	// The first three partitions as if they had been one, at each of its rows.
	parent := partitionkey.Range{Min: c.Ranges.At(0).Range.Min, Max: c.Ranges.At(2).Range.Max}
	last := uint64(c.Ranges.At(3).Value.Ordinal)
	var inside, behind []row
	for _, r := range all {
		if r.number>>40 != last {
			inside = append(inside, r)
		} else {
			behind = append(behind, r)
		}
	}
	slices.SortFunc(inside, func(a, b row) int { return int(a.number) - int(b.number) })
	if len(inside) < 20 || len(behind) < 5 {
		t.Fatalf("%d and %d rows", len(inside), len(behind))
	}
	for at := range len(inside) {
		token := continuation{
			Query: fingerprint(c.RID, plan, &req), Range: parent,
			Started: true, Position: query.Position{Number: inside[at].number},
		}
		for _, size := range []int{1, 5, 1000} {
			resumed := req
			resumed.Continuation, resumed.MaxItems = token.String(), size
			want := append(slices.Clone(inside[at+1:]), behind...)
			if got := collect(resumed); !slices.Equal(got, want) {
				t.Fatalf("behind row %d in pages of %d: %d rows, want %d", at, size, len(got), len(want))
			}
		}
	}
}

// A container of 1,000 partitions of which a prefix overlaps five: five tasks,
// each cut to the prefix (S40).
func TestPrefixOverThousandPartitions(t *testing.T) {
	t.Parallel()
	d := partitionkey.Definition{Paths: []string{"/t", "/u"}, Kind: partitionkey.KindMultiHash, Version: 2}
	prefix, err := d.Prefix(partitionkey.NewKey(partitionkey.String("tenant")))
	if err != nil {
		t.Fatal(err)
	}
	// 995 partitions of other tenants around five that share this one.
	var bounds []partitionkey.EPK
	for _, r := range d.Divide(996)[1:] {
		bounds = append(bounds, r.Min)
	}
	for _, cut := range []string{"\x08", "\x10", "\x20", "\x30"} {
		bounds = append(bounds, prefix.Min+partitionkey.EPK(cut+strings.Repeat("\x00", 15)))
	}
	slices.SortFunc(bounds, partitionkey.EPK.Compare)
	var entries []partitionkey.Entry[resource.Partition]
	low := partitionkey.MinEPK
	for i, high := range append(bounds, partitionkey.MaxEPK) {
		r := partitionkey.Range{Min: low, Max: high}
		entries = append(entries, partitionkey.Entry[resource.Partition]{Range: r, Value: resource.Partition{ID: resource.PartitionID(i), Range: r}})
		low = high
	}
	ranges, err := partitionkey.NewRangeMap(entries)
	if err != nil {
		t.Fatal(err)
	}
	c := &catalog.Container{Container: resource.Container{PartitionKey: d}, Ranges: ranges}
	if ranges.Len() != 1000 {
		t.Fatalf("%d partitions", ranges.Len())
	}
	list := tasks(c, []partitionkey.Range{prefix})
	if len(list) != 5 {
		t.Fatalf("%d tasks, want 5", len(list))
	}
	if list[0].clip.Min != prefix.Min || list[4].clip.Max != prefix.Max {
		t.Errorf("clipped to %v and %v, want the prefix %v", list[0].clip, list[4].clip, prefix)
	}
	for _, one := range list {
		if one.asked != prefix {
			t.Errorf("asked for %v, want the prefix", one.asked)
		}
	}
	if list := tasks(c, []partitionkey.Range{partitionkey.Full()}); len(list) != 1000 {
		t.Errorf("%d tasks for everything, want 1000", len(list))
	}
}

// Ranges of one partition become one task from the first to the last.
func TestTasksJoin(t *testing.T) {
	t.Parallel()
	d := partitionkey.Definition{Paths: []string{"/t"}, Version: 2}
	var entries []partitionkey.Entry[resource.Partition]
	for i, r := range d.Divide(2) {
		entries = append(entries, partitionkey.Entry[resource.Partition]{Range: r, Value: resource.Partition{ID: resource.PartitionID(i), Range: r}})
	}
	ranges, err := partitionkey.NewRangeMap(entries)
	if err != nil {
		t.Fatal(err)
	}
	c := &catalog.Container{Container: resource.Container{PartitionKey: d}, Ranges: ranges}
	at := func(low, high string) partitionkey.Range {
		return partitionkey.Range{Min: partitionkey.EPK(low), Max: partitionkey.EPK(high)}
	}
	list := tasks(c, []partitionkey.Range{at("\x01", "\x02"), at("\x03", "\x04"), at("\x1f", "\x21"), at("\x30", "\x31")})
	if len(list) != 2 {
		t.Fatalf("%d tasks, want 2", len(list))
	}
	if got, want := list[0].clip, at("\x01", string(entries[0].Range.Max)); got != want {
		t.Errorf("first: %v, want %v", got, want)
	}
	if got, want := list[1].clip, at(string(entries[1].Range.Min), "\x31"); got != want || list[1].asked != want {
		t.Errorf("second: %v asked %v, want %v", got, list[1].asked, want)
	}
}

// splitShapes are queries of every kind whose rows have positions.
var splitShapes = []string{
	"SELECT VALUE c.id FROM c",
	"SELECT * FROM c WHERE c.n > 2",
	"SELECT VALUE c.id FROM c WHERE c.n IN (1, 4) OFFSET 3 LIMIT 9",
	"SELECT TOP 17 VALUE c.id FROM c",
	"SELECT VALUE c.id FROM c ORDER BY c.n",
	"SELECT VALUE c.id FROM c ORDER BY c.n DESC OFFSET 5 LIMIT 40",
	"SELECT VALUE c.id FROM c ORDER BY c.long",
	"SELECT VALUE c.id FROM c WHERE c.n != 3 ORDER BY c.long DESC",
	"SELECT VALUE c.id FROM c ORDER BY c.n, c.long DESC",
	"SELECT VALUE c.id FROM c ORDER BY c.n DESC, c.long",
	"SELECT VALUE c.id FROM c WHERE c.n = 3 ORDER BY c.long",
	"SELECT VALUE c.id FROM c ORDER BY VectorDistance(c.v, [20, 1], true, {distanceFunction: 'euclidean'})",
	"SELECT c.id, t FROM c JOIN t IN c.tags",
	"SELECT c.id, t, u FROM c JOIN t IN c.tags JOIN u IN c.tags WHERE u != 2",
	"SELECT TOP 30 c.id, t FROM c JOIN t IN c.tags WHERE t != 1",
	"SELECT c.id, t FROM c JOIN t IN c.tags ORDER BY c.n DESC",
	"SELECT c.id, t FROM c JOIN t IN c.tags ORDER BY c.long OFFSET 2 LIMIT 30",
	"SELECT VALUE t FROM t IN c.tags",
	"SELECT c.n, COUNT(1) AS n, MAX(c.id) AS id FROM c GROUP BY c.n",
	"SELECT c.long, COUNT(1) AS n FROM c GROUP BY c.long",
	"SELECT c.n, c.long, SUM(c.pk) AS s FROM c GROUP BY c.n, c.long",
	"SELECT c.long, AVG(c.pk) AS s FROM c GROUP BY c.long ORDER BY c.long DESC",
	"SELECT t, COUNT(1) AS n FROM c JOIN t IN c.tags GROUP BY t OFFSET 1 LIMIT 3",
	"SELECT VALUE COUNT(1) FROM c WHERE c.n > 3",
	"SELECT COUNT(1) AS n, AVG(c.n) AS a FROM c",
	"SELECT DISTINCT VALUE c.n FROM c",
	"SELECT DISTINCT c.n, c.long FROM c",
	"SELECT DISTINCT VALUE c.long FROM c ORDER BY c.long DESC",
	"SELECT DISTINCT VALUE c.n FROM c ORDER BY c.long",
	"SELECT DISTINCT TOP 3 VALUE t FROM c JOIN t IN c.tags",
	"SELECT DISTINCT VALUE COUNT(1) FROM c GROUP BY c.n",
	"SELECT VALUE x.n FROM (SELECT c.n, COUNT(1) AS m FROM c GROUP BY c.n) x WHERE x.m > 8 ORDER BY x.n DESC",
	"SELECT VALUE COUNT(1) FROM (SELECT DISTINCT VALUE c.long FROM c) x",
}

// A position of any shape that was reached when six partitions were still one is
// good when they are six: what comes behind it is what would have come.
func TestPositionsOverSplit(t *testing.T) {
	t.Parallel()
	e, c := split(t, 8)
	past := before(t, e, c, 6)
	for _, text := range splitShapes {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			want, _ := past.pages(t, text, 0)
			rows := slices.Concat(want...)
			if len(rows) == 0 {
				t.Fatal("no rows")
			}
			tried := 0
			for _, size := range []int{1, 3, 7} {
				pages, tokens := past.pages(t, text, size)
				if got := slices.Concat(pages...); !slices.Equal(got, rows) {
					t.Fatalf("in pages of %d before the split: %v, want %v", size, got, rows)
				}
				var served []string
				for i, token := range tokens {
					served = append(served, pages[i]...)
					then := 10 * size // rows of the pages behind it
					rest := past.resume(t, text, token, then)
					if got := append(slices.Clone(served), rest...); !slices.Equal(got, rows) {
						t.Fatalf("split behind %d of %d rows, then pages of %d:\ngot  %v\nwant %v", len(served), len(rows), then, got, rows)
					}
					tried++
				}
			}
			if tried == 0 && len(rows) > 1 {
				t.Error("no position")
			}
		})
	}
}

// unsplit is a container as it was when its first partitions were one.
type unsplit struct {
	e      *Engine
	c      *catalog.Container
	parent partitionkey.Range
	docs   numbered // of the parent
}

// numbered are documents by number.
type numbered []query.Candidate

// Candidates yields those with greater numbers than need.After.
func (l numbered) Candidates(_ context.Context, need query.Need) iter.Seq2[query.Candidate, error] {
	return func(yield func(query.Candidate, error) bool) {
		for _, d := range l {
			if d.Number > need.After && !yield(d, nil) {
				return
			}
		}
	}
}

func before(t *testing.T, e *Engine, c *catalog.Container, n int) unsplit {
	t.Helper()
	u := unsplit{e: e, c: c, parent: partitionkey.Range{Min: c.Ranges.At(0).Range.Min, Max: c.Ranges.At(n - 1).Range.Max}}
	for _, text := range u.all(t, QueryRequest{Text: "SELECT * FROM c", Clip: &u.parent}) {
		v, err := value.ParseString(text)
		if err != nil {
			t.Fatal(err)
		}
		rid, err := resource.ParseRID(v.Get("_rid").Text())
		if err != nil {
			t.Fatal(err)
		}
		u.docs = append(u.docs, query.Candidate{Number: rid.Number(), Body: []byte(text)})
	}
	if slices.IsSortedFunc(u.docs, func(a, b query.Candidate) int { return cmp.Compare(a.Number, b.Number) }) {
		t.Fatal("the documents are numbered in the order of partitions")
	}
	slices.SortFunc(u.docs, func(a, b query.Candidate) int { return cmp.Compare(a.Number, b.Number) })
	return u
}

// all returns the rows of a request as the container is now.
func (u unsplit) all(t *testing.T, req QueryRequest) (rows []string) {
	t.Helper()
	req.Link, req.Full = Link{Database: "d", Container: "c"}, true
	for {
		page, err := u.e.Query(context.Background(), auth.Owner(), req)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, texts(page)...)
		if req.Continuation = page.Continuation; req.Continuation == "" {
			return rows
		}
	}
}

func texts(page Feed) (rows []string) {
	for _, row := range page.Rows {
		rows = append(rows, string(row))
	}
	return rows
}

func (u unsplit) resume(t *testing.T, text, token string, size int) []string {
	t.Helper()
	return u.all(t, QueryRequest{Text: text, Continuation: token, MaxItems: size})
}

// pages serves a query as the container was, and returns the tokens behind all
// pages but the last.
func (u unsplit) pages(t *testing.T, text string, size int) (pages [][]string, tokens []string) {
	t.Helper()
	req := QueryRequest{Link: Link{Database: "d", Container: "c"}, Text: text, MaxItems: size}
	plan, _, err := u.e.planOf(u.c, text, nil)
	if err != nil {
		t.Fatal(err)
	}
	for {
		at, err := u.e.resume(&req, u.c.RID, plan, "")
		if err != nil {
			t.Fatal(err)
		}
		q := pageOf{engine: u.e, req: &req}
		if err := u.e.serve(context.Background(), &req, plan, u.streams(&q, plan, &at), at, &q.out); err != nil {
			t.Fatal(err)
		}
		pages = append(pages, texts(q.out))
		if req.Continuation = q.out.Continuation; req.Continuation == "" {
			return pages, tokens
		}
		tokens = append(tokens, req.Continuation)
	}
}

// streams returns the parent and the partitions behind it, from a position on.
func (u unsplit) streams(q *pageOf, plan *query.Plan, at *continuation) []stream {
	if !plan.Ordered() && at.Range.Min.Compare(u.parent.Max) >= 0 {
		return q.streams(u.c, plan, scope{ranges: []partitionkey.Range{partitionkey.Full()}}, at)
	}
	run := func(ctx context.Context, b query.Budget) (query.Page, error) { return plan.Run(ctx, u.docs, b) }
	rest := tasks(u.c, []partitionkey.Range{{Min: u.parent.Max, Max: partitionkey.MaxEPK}})
	return append([]stream{{run: run, clip: u.parent}}, q.each(u.c, plan, rest)...)
}
