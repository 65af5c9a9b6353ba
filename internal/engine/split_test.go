package engine

import (
	"context"
	"errors"
	"fmt"
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
	parse := func(text string) value.Value {
		v, err := value.ParseString(text)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if _, err := e.CreateDatabase(ctx, caller, ResourceRequest{Body: parse(`{"id":"d"}`)}); err != nil {
		t.Fatal(err)
	}
	container := ResourceRequest{Link: Link{Database: "d"}, Body: parse(`{"id":"c","partitionKey":{"paths":["/pk"]}}`), Partitions: n}
	if _, err := e.CreateContainer(ctx, caller, container); err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		doc := parse(fmt.Sprintf(`{"id":"%02d","pk":%d}`, i, i))
		if _, err := e.Create(ctx, caller, DocumentRequest{Link: Link{Database: "d", Container: "c"}, Document: doc}); err != nil {
			t.Fatal(err)
		}
	}
	c, _ := names.View().Container("d", "c")
	return e, c
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
	var inside, behind []row
	for _, r := range all {
		if r.number>>40 < 3 {
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
