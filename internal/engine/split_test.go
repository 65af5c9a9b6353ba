package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// split creates an engine with a container c that is split from one partition
// into n. Half of the documents are older than the splits, so document numbers
// are not in the order of partitions.
func split(t *testing.T, n int) (*Engine, *catalog.Container) {
	t.Helper()
	e := build(t)
	fill(t, e, 0, 30)
	divide(t, e, partitionkey.Full(), n)
	return e, fill(t, e, 30, 60)
}

// build creates an engine with an empty container c of one partition.
func build(t *testing.T) *Engine {
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
	limits.PageTime = time.Minute // A slow machine must not end a page early.
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
	if _, err := e.CreateDatabase(ctx, caller, DatabaseRequest{Body: parse(t, `{"id":"d"}`)}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.CreateContainer(ctx, caller, ContainerRequest{Link: Link{Database: "d"}, Body: parse(t, splitDefinition), Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	return e
}

// fill creates the documents with numbers from one to another.
func fill(t *testing.T, e *Engine, from, to int) *catalog.Container {
	t.Helper()
	for i := from; i < to; i++ {
		req := DocumentRequest{Link: Link{Database: "d", Container: "c"}, Document: parse(t, splitDocument(i))}
		if _, err := e.Create(context.Background(), auth.Owner(), req); err != nil {
			t.Fatal(err)
		}
	}
	c, _ := e.catalog.View().Container("d", "c")
	return c
}

// divide splits the partitions in a range, the oldest first, until there are n.
func divide(t *testing.T, e *Engine, r partitionkey.Range, n int) *catalog.Container {
	t.Helper()
	for {
		c, _ := e.catalog.View().Container("d", "c")
		inside := c.Ranges.Overlapping(r)
		if len(inside) >= n {
			return c
		}
		oldest := slices.MinFunc(inside, func(a, b partitionkey.Entry[resource.Partition]) int { return cmp.Compare(a.Value.ID, b.Value.ID) })
		if _, err := e.node.Split(context.Background(), c.RID, oldest.Value.ID, ""); err != nil {
			t.Fatal(err)
		}
	}
}

// parse is value.ParseString for valid text.
func parse(t *testing.T, text string) value.Value {
	t.Helper()
	v, err := value.ParseString(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

const splitDefinition = `{"id":"c","partitionKey":{"paths":["/pk"]},"indexingPolicy":{"includedPaths":[{"path":"/*"}],"compositeIndexes":[[{"path":"/n"},{"path":"/long","order":"descending"}]]}}`

// splitDocument returns a document with numbers and texts that several share,
// texts longer than a position stores, and arrays of different lengths, some of
// them missing.
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

// A token issued for one partition is valid when several own its range: their
// rows after the position come once each, in the order of numbers, and then
// those after the range.
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
	parent := before(t, c)
	req.Clip = &parent
	inside := collect(req)
	req.Clip = &partitionkey.Range{Min: parent.Max, Max: partitionkey.MaxEPK}
	behind := collect(req)
	req.Clip = nil
	byNumber := func(a, b row) int { return cmp.Compare(a.number, b.number) }
	if slices.IsSortedFunc(inside, byNumber) {
		t.Fatal("the documents are numbered in the order of partitions")
	}
	slices.SortFunc(inside, byNumber)
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
				t.Fatalf("after row %d in pages of %d: %d rows, want %d", at, size, len(got), len(want))
			}
		}
	}
}

// In a container of 1,000 partitions, a prefix that overlaps five of them has
// five tasks, each clipped to the prefix (S40).
func TestPrefixOverThousandPartitions(t *testing.T) {
	t.Parallel()
	d := partitionkey.Definition{Paths: []string{"/t", "/u"}, Kind: partitionkey.KindMultiHash, Version: 2}
	prefix, err := d.Prefix(partitionkey.NewKey(partitionkey.String("tenant")))
	if err != nil {
		t.Fatal(err)
	}
	// Five partitions share this tenant; 995 have other tenants.
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

// Several ranges in one partition are one task, from the first range to the
// last.
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

// splitShapes has a query of every kind whose rows have positions.
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
	"SELECT c.n, COUNT(1) AS m, MAX(c.id) AS id FROM c GROUP BY c.n",
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

// before returns the range of the first partition's ancestor that was a child
// of the original partition: that of all its descendants.
func before(t *testing.T, c *catalog.Container) partitionkey.Range {
	t.Helper()
	parents := c.Ranges.At(0).Value.Parents
	if len(parents) < 2 || parents[0] != 0 {
		t.Fatalf("the first partition has parents %v", parents)
	}
	r := partitionkey.Range{Min: c.Ranges.At(0).Range.Min}
	for i := range c.Ranges.Len() {
		if at := c.Ranges.At(i); slices.Contains(at.Value.Parents, parents[1]) {
			r.Max = at.Range.Max
		}
	}
	return r
}

// reached is a position of a query, and the rows served up to it in pages of a
// size.
type reached struct {
	rows  []string
	size  int
	token string
}

// A position of any query that was reached in one partition is valid after its
// split into six: the same rows follow.
func TestPositionsOverSplit(t *testing.T) {
	t.Parallel()
	e := build(t)
	fill(t, e, 0, 30)
	first := divide(t, e, partitionkey.Full(), 2).Ranges.At(0)
	fill(t, e, 30, 60)
	want := map[string][]string{}
	positions := map[string][]reached{}
	for _, text := range splitShapes {
		want[text], _ = pages(t, e, QueryRequest{Text: text})
		for _, size := range []int{1, 3, 7} {
			rows, list := pages(t, e, QueryRequest{Text: text, MaxItems: size})
			if !slices.Equal(rows, want[text]) {
				t.Fatalf("%s in pages of %d before the split: %v, want %v", text, size, rows, want[text])
			}
			positions[text] = append(positions[text], list...)
		}
	}
	c := divide(t, e, first.Range, 6)
	if c.Ranges.Len() != 7 || !before(t, c).Equal(first.Range) {
		t.Fatalf("%d partitions, of which those of %v were one, want 7 and %v", c.Ranges.Len(), before(t, c), first.Range)
	}
	for _, text := range splitShapes {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			if len(want[text]) == 0 {
				t.Fatal("no rows")
			}
			if len(positions[text]) == 0 && len(want[text]) > 1 {
				t.Error("no position")
			}
			for i, at := range positions[text] {
				if RaceDetector && i%4 != 0 {
					continue // The others reach no other code.
				}
				then := 10 * at.size // rows of the pages after it
				rest, _ := pages(t, e, QueryRequest{Text: text, Continuation: at.token, MaxItems: then})
				if got := slices.Concat(at.rows, rest); !slices.Equal(got, want[text]) {
					t.Fatalf("split after %d of %d rows, then pages of %d:\ngot  %v\nwant %v", len(at.rows), len(want[text]), then, got, want[text])
				}
			}
		})
	}
}

// pages returns all rows of a query of c, and the position after each page.
func pages(t *testing.T, e *Engine, req QueryRequest) (rows []string, behind []reached) {
	t.Helper()
	req.Link, req.Full = Link{Database: "d", Container: "c"}, true
	for {
		page, err := e.Query(context.Background(), auth.Owner(), req)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, texts(page)...)
		if req.Continuation = page.Continuation; req.Continuation == "" {
			return rows, behind
		}
		behind = append(behind, reached{slices.Clone(rows), req.MaxItems, req.Continuation})
	}
}

func texts(page Feed) (rows []string) {
	for _, row := range page.Rows {
		rows = append(rows, string(row))
	}
	return rows
}
