package azcosmos_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	sdk "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/decandb/decan/decantest"
	"github.com/decandb/decan/resolver"
	"github.com/decandb/decan/resolver/azcosmos"
)

func isRestart(err error) bool { return errors.Is(err, azcosmos.ErrRestart) }

// beforeItems is a policy that calls f before each request for items.
func beforeItems(f func()) policyFunc {
	return func(request *policy.Request) (*http.Response, error) {
		if strings.HasSuffix(request.Raw().URL.Path, "/docs") {
			f()
		}
		return request.Next()
	}
}

// TestLongPage ends a move while the second page of a query is being read. The
// page could lack items that were deleted by then, so it is refused. The token
// of the first page still works if the query has an order.
func TestLongPage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text           string
		moves, resumes bool
	}{
		{"SELECT VALUE c.id FROM c ORDER BY c.id", false, true},
		{"SELECT VALUE c.id FROM c ORDER BY c.id", true, true},
		{"SELECT VALUE c.id FROM c", true, false},
	} {
		w := tenant(t, 5)
		live, err := resolver.Watch(t.Context(), resolver.LiveConfig{Store: w.store, Name: "users", Poll: -1, Lease: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(live.Close)
		var moves atomic.Bool
		slow := connect(t, w.server, beforeItems(func() {
			if moves.CompareAndSwap(true, false) {
				if err := w.move("move", toOther); err != nil {
					t.Error(err)
				}
			}
		}))
		client, err := azcosmos.New(azcosmos.Config{Accounts: map[string]*sdk.Client{"": slow}, View: live, Timeout: time.Nanosecond})
		if err != nil {
			t.Fatal(err)
		}
		options := azcosmos.QueryOptions{PageSize: 2}
		pager := client.Query(c.text, resolver.All[resolver.Key](), &options)
		first, err := pager.NextPage(t.Context())
		if err != nil || len(first.Items) != 2 {
			t.Fatalf("%s: %d items, %v", c.text, len(first.Items), err)
		}
		moves.Store(c.moves)
		for range 2 {
			if page, err := pager.NextPage(t.Context()); isRestart(err) != c.moves || !c.moves && err != nil {
				t.Errorf("%s with a move %v: %d items, %v", c.text, c.moves, len(page.Items), err)
			}
		}
		options.Continuation = first.Continuation
		rest, _, err := client.Query(c.text, resolver.All[resolver.Key](), &options).Items(t.Context())
		if isRestart(err) == c.resumes || c.resumes && (err != nil || len(rest) != 3) {
			t.Errorf("%s with a move %v: by the token %d items, %v", c.text, c.moves, len(rest), err)
		}
	}
}

// TestTokenAcrossMove begins queries in each phase of a move and continues them
// in all later phases, with their tokens and with their pagers: those with ORDER
// BY to their end, others until what they read is deleted.
func TestTokenAcrossMove(t *testing.T) {
	t.Parallel()
	state := ringState("/userId", []resolver.Target{{Name: "c0", Database: "db", Container: "c0"}, {Name: "c1", Database: "db", Container: "c1"}, {Name: "c2", Database: "db", Container: "c2"}})
	w := newWorld(t, 3, state)
	client := w.client()
	w.clients = []*azcosmos.Client{client}
	var want []string
	for i := range 30 {
		if _, err := client.Create(t.Context(), fmt.Appendf(nil, `{"id":"%02d","userId":"J%d","city":"c%d"}`, i, i, i%4), nil); err != nil {
			t.Fatal(err)
		}
		want = append(want, fmt.Sprintf(`"%02d"`, i))
	}
	unordered := "SELECT VALUE c.id FROM c"
	texts := []string{unordered, "SELECT VALUE c.id FROM c ORDER BY c.id", "SELECT TOP 30 VALUE c.id FROM c ORDER BY c.city"}
	options := azcosmos.QueryOptions{PageSize: 9}
	type begun struct {
		phase resolver.Phase
		text  string
		pager *azcosmos.Pager
		token string
		rows  []string
	}
	var open []begun
	// Shrinking creates copies in containers that the queries read.
	mover := w.mover(-1)
	next := resolver.Plan{Scheme: resolver.Scheme{Kind: resolver.KindRing, Targets: []string{"c0", "c1"}}}
	order := []resolver.Phase{"", resolver.Prepare, resolver.DualWrite, resolver.Copy, resolver.Verify, resolver.Fence, resolver.Switch, resolver.Clean, ""}
	for i, phase := range order {
		if got := w.phase(); got != phase {
			t.Fatalf("the move is in phase %q, want %q", got, phase)
		}
		if err := azcosmos.SettleClients(client)(t.Context()); err != nil {
			t.Fatal(err)
		}
		for n, b := range open {
			gone := b.text == unordered && i >= len(order)-2 && b.phase != resolver.Switch && b.phase != resolver.Clean
			page, err := b.pager.NextPage(t.Context())
			if isRestart(err) != gone || !gone && err != nil {
				t.Fatalf("%s begun in phase %q, in phase %q: %v", b.text, b.phase, phase, err)
			}
			resumed := options
			resumed.Continuation = b.token
			_, err = client.Query(b.text, resolver.All[resolver.Key](), &resumed).NextPage(t.Context())
			if isRestart(err) != gone || !gone && err != nil {
				t.Fatalf("%s begun in phase %q, in phase %q by its token: %v", b.text, b.phase, phase, err)
			}
			if gone {
				continue
			}
			got := append(slices.Clone(b.rows), byPages(t, client, b.text, resumed)...)
			if !slices.Equal(sorted(got), want) {
				t.Errorf("%s begun in phase %q, in phase %q: %s", b.text, b.phase, phase, got)
			}
			open[n].rows, open[n].token = appendRows(b.rows, page.Items), page.Continuation
		}
		for _, text := range texts {
			b := begun{phase: phase, text: text, pager: client.Query(text, resolver.All[resolver.Key](), &azcosmos.QueryOptions{PageSize: 2})}
			page, err := b.pager.NextPage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			b.rows, b.token = appendRows(nil, page.Items), page.Continuation
			open = append(open, b)
		}
		if i == 0 {
			if err := mover.Begin(t.Context(), "shrink", nil, next); err != nil {
				t.Fatal(err)
			}
		} else if phase != "" {
			if _, _, err := mover.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// composite gives a container an index for queries with these terms.
func (w *world) composite(target resolver.Target, terms ...sdk.CompositeIndex) {
	w.t.Helper()
	container := w.raw(target)
	read, err := container.Read(w.t.Context(), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	properties := *read.ContainerProperties
	properties.IndexingPolicy.CompositeIndexes = append(properties.IndexingPolicy.CompositeIndexes, terms)
	if _, err := container.Replace(w.t.Context(), properties, nil); err != nil {
		w.t.Fatal(err)
	}
}

// move carries out a whole move.
func (w *world) move(id string, next resolver.Plan) error {
	mover := w.mover(-1)
	if err := mover.Begin(w.t.Context(), id, w.targets, next); err != nil {
		return err
	}
	_, err := mover.Run(w.t.Context())
	return err
}

// TestQueryFollows continues queries after whole moves since the last page. A
// query with ORDER BY still returns each row once, in a pager and with a token,
// even if it has many equal rows, if its items were moved away and back, or if
// it read one container alone. Other queries fail, because they have no place in
// the order of rows.
func TestQueryFollows(t *testing.T) {
	t.Parallel()
	ring := func(targets ...string) resolver.Plan {
		return resolver.Plan{Scheme: resolver.Scheme{Kind: resolver.KindRing, Targets: targets}}
	}
	one, many := ring("c0"), ring("c0", "c1", "c2")
	w := newWorld(t, 3, ringState("/userId", []resolver.Target{{Name: "c0", Database: "db", Container: "c0"}}))
	for _, target := range w.targets {
		w.composite(target, sdk.CompositeIndex{Path: "/n", Order: sdk.CompositeIndexAscending}, sdk.CompositeIndex{Path: "/city", Order: sdk.CompositeIndexDescending})
		w.composite(target, sdk.CompositeIndex{Path: "/id", Order: sdk.CompositeIndexAscending}, sdk.CompositeIndex{Path: "/_ts", Order: sdk.CompositeIndexAscending})
	}
	client := w.client()
	w.clients = []*azcosmos.Client{client}
	for i := range 30 {
		document := fmt.Appendf(nil, `{"id":"%02d","userId":"J%d","city":"c%d","n":%d,"list":[%d],"tags":["x","x","t%d"]}`, i, i, i%4, i%7, i, i)
		if i%10 == 3 {
			document = fmt.Appendf(nil, `{"id":"%02d","userId":"J%d","city":"c%d","tags":["x"]}`, i, i, i%4)
		}
		if _, err := client.Create(t.Context(), document, nil); err != nil {
			t.Fatal(err)
		}
	}
	cases := []struct {
		text    string
		order   bool // no two rows are equal
		restart bool
	}{
		{"SELECT VALUE c.id FROM c ORDER BY c.id DESC", true, false},
		{"SELECT VALUE c.id FROM c ORDER BY c.city", false, false},
		{"SELECT VALUE c.id FROM c ORDER BY c.n, c.city DESC", false, false},
		{"SELECT c.id FROM c WHERE c.n > 1 ORDER BY c.id OFFSET 2 LIMIT 12", true, false},
		{"SELECT TOP 21 VALUE c.id FROM c ORDER BY c.id", true, false},
		{"SELECT DISTINCT VALUE c.n FROM c ORDER BY c.n", true, false},
		{"SELECT VALUE t FROM c JOIN t IN c.tags ORDER BY c.city", false, false},
		{"SELECT VALUE c.id FROM c", false, true},
		{"SELECT DISTINCT VALUE c.id FROM c", false, true},
		{"SELECT VALUE c.id FROM c ORDER BY c._ts", false, true},
		{`SELECT VALUE c.id FROM c ORDER BY c.id, c["_t\u0073"]`, false, true},
		{"SELECT VALUE c.id FROM c ORDER BY c.list", false, true},
	}
	for round, moves := range [][]resolver.Plan{{many}, {one, many}, {one}} {
		type begun struct {
			pager *azcosmos.Pager
			token string
			rows  []string
			want  []string
		}
		var open []begun
		for _, c := range cases {
			b := begun{want: all(t, client, c.text, nil), pager: client.Query(c.text, resolver.All[resolver.Key](), &azcosmos.QueryOptions{PageSize: 3})}
			for range 2 {
				page, err := b.pager.NextPage(t.Context())
				if err != nil || page.Continuation == "" {
					t.Fatalf("%s: %v, token %q", c.text, err, page.Continuation)
				}
				b.rows, b.token = appendRows(b.rows, page.Items), page.Continuation
			}
			open = append(open, b)
		}
		for i, plan := range moves {
			if err := w.move(fmt.Sprint("move-", round, "-", i), plan); err != nil {
				t.Fatal(err)
			}
		}
		if err := azcosmos.SettleClients(client)(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, c := range cases {
			b := open[i]
			rest, _, err := b.pager.Items(t.Context())
			if c.restart {
				if !isRestart(err) {
					t.Errorf("round %d: %s: the pager: %v, want ErrRestart", round, c.text, err)
				}
				options := azcosmos.QueryOptions{Continuation: b.token}
				if _, err := client.Query(c.text, resolver.All[resolver.Key](), &options).NextPage(t.Context()); !isRestart(err) {
					t.Errorf("round %d: %s: the token: %v, want ErrRestart", round, c.text, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("round %d: %s: %v", round, c.text, err)
			}
			for who, got := range map[string][]string{
				"the pager": appendRows(slices.Clone(b.rows), rest),
				"the token": append(slices.Clone(b.rows), byPages(t, client, c.text, azcosmos.QueryOptions{PageSize: 9, Continuation: b.token})...),
			} {
				want := b.want
				if !c.order {
					got, want = sorted(got), sorted(want)
				}
				if !slices.Equal(got, want) {
					t.Errorf("round %d: %s: %s gives %d rows %s\nwant %d %s", round, c.text, who, len(got), got, len(want), want)
				}
			}
		}
	}
}

// TestManyEqualRows continues a query across a move at a place among up to 2,048
// equal rows, and after them. Among more equal rows the place is lost.
func TestManyEqualRows(t *testing.T) {
	t.Parallel()
	w := tenant(t, 0)
	client := w.client()
	w.clients = []*azcosmos.Client{client}
	tags := strings.TrimSuffix(strings.Repeat(`"x",`, 2100), ",")
	for i, list := range []string{tags, `"y","y","y"`} {
		if _, err := client.Create(t.Context(), fmt.Appendf(nil, `{"id":"%d","userId":"J%d","city":%d,"tags":[%s]}`, i, i, i, list), nil); err != nil {
			t.Fatal(err)
		}
	}
	const all = 2103
	given := []int{2048, 2049, 2101}
	var pagers []*azcosmos.Pager
	for _, rows := range given {
		pager := client.Query("SELECT VALUE t FROM c JOIN t IN c.tags ORDER BY c.city", resolver.All[resolver.Key](), &azcosmos.QueryOptions{PageSize: rows})
		if page, err := pager.NextPage(t.Context()); err != nil || len(page.Items) != rows {
			t.Fatalf("%d rows, %v, want %d", len(page.Items), err, rows)
		}
		pagers = append(pagers, pager)
	}
	if err := w.move("away", toOther); err != nil {
		t.Fatal(err)
	}
	if err := azcosmos.SettleClients(client)(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, pager := range pagers {
		rest, _, err := pager.Items(t.Context())
		if lost := given[i] == 2049; isRestart(err) != lost || !lost && (err != nil || len(rest) != all-given[i]) {
			t.Errorf("after %d rows: %d more, %v", given[i], len(rest), err)
		}
	}
}

// among are queries whose result changes if a copy is treated as an item.
var among = []struct {
	text  string
	order bool
}{
	{"SELECT VALUE COUNT(1) FROM c", true},
	{"SELECT COUNT(c.n) AS n, SUM(c.n) AS s, AVG(c.n) AS a, MIN(c.n) AS low, MAX(c.city) AS high FROM c", true},
	{"SELECT VALUE COUNT(1) FROM c JOIN t IN c.tags", true},
	{"SELECT VALUE SUM(c.n) FROM c WHERE c.n > 5", true},
	{"SELECT DISTINCT VALUE c.city FROM c", false},
	{"SELECT DISTINCT c.city FROM c ORDER BY c.city DESC", true},
	{"SELECT VALUE c.n FROM c WHERE IS_DEFINED(c.n) ORDER BY c.n OFFSET 3 LIMIT 9", true},
	{"SELECT TOP 11 VALUE c.n FROM c WHERE IS_DEFINED(c.n) ORDER BY c.n DESC", true},
	{"SELECT VALUE c.id FROM c", false},
}

// TestCopiesCountOnce runs aggregates, DISTINCT, TOP and OFFSET LIMIT in every
// phase of a move while copies are in a container that the query reads,
// including copies that another client made in dual-write while this client is
// still in prepare. Each item counts once, also with a computed key and when
// both copies are read (S183).
func TestCopiesCountOnce(t *testing.T) {
	t.Parallel()
	server := decantest.New(t)
	account := map[string]*sdk.Client{"": connect(t, server)}
	targets := targetsOn(t, server, 3, "/userId", 1)
	one := static(t, ringState("/userId", targets[2:]), account)
	users(t, one, 30)
	byPath := ringState("/userId", targets[:2])
	byFunction := byPath
	byFunction.Key = resolver.KeySpec{Function: "user"}
	extract, err := resolver.Paths("/userId")
	if err != nil {
		t.Fatal(err)
	}
	in := func(state resolver.State, phase resolver.Phase, read resolver.ReadMode) *azcosmos.Client {
		state.Move = &resolver.Move{ID: "shrink", Phase: phase, Read: read, Next: resolver.Plan{Scheme: resolver.Scheme{Kind: resolver.KindRing, Targets: []string{"c0"}}}}
		routing, err := resolver.Open(state, resolver.Registry{Functions: map[string]resolver.Extractor{"user": extract}})
		if err != nil {
			t.Fatal(err)
		}
		client, err := azcosmos.New(azcosmos.Config{Accounts: account, View: resolver.Static(routing), PartitionKey: []string{"/userId"}})
		if err != nil {
			t.Fatal(err)
		}
		return client
	}
	users(t, in(byPath, resolver.DualWrite, ""), 30)
	want := map[string][]string{}
	for _, q := range among {
		want[q.text] = all(t, one, q.text, nil)
	}
	check := func(client *azcosmos.Client, who string) {
		t.Helper()
		for _, q := range among {
			got, want := all(t, client, q.text, &azcosmos.QueryOptions{PageSize: 7}), want[q.text]
			if !q.order {
				got, want = sorted(got), sorted(want)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %s\ngives %s\nwant  %s", who, q.text, got, want)
			}
		}
		if rows, _, err := client.Query("SELECT VALUE t FROM t IN c.tags", resolver.All[resolver.Key](), nil).Items(t.Context()); !errors.Is(err, azcosmos.ErrQuery) {
			t.Errorf("%s: FROM without a name gives %d rows, %v, want ErrQuery", who, len(rows), err)
		}
	}
	for _, phase := range []resolver.Phase{resolver.Prepare, resolver.DualWrite, resolver.Copy, resolver.Verify, resolver.Fence, resolver.Switch, resolver.Clean, resolver.Undo} {
		check(in(byPath, phase, ""), string(phase))
	}
	check(in(byFunction, resolver.Prepare, ""), "prepare by a function")
	check(in(byFunction, resolver.Switch, ""), "switch by a function")
	check(in(byPath, resolver.Fence, resolver.ReadBoth), "fence, both copies")
	check(in(byPath, resolver.Switch, resolver.ReadBoth), "switch, both copies")
}

// TestRestartAtPrepare continues a DISTINCT, which requests no keys, after a
// move has begun. Other clients may have made copies by then, so the query must
// start again.
func TestRestartAtPrepare(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, ringState("/userId", []resolver.Target{{Name: "c0", Database: "db", Container: "c0"}, {Name: "c1", Database: "db", Container: "c1"}}))
	client := w.client()
	w.clients = []*azcosmos.Client{client}
	users(t, client, 20)
	pager := client.Query("SELECT DISTINCT VALUE c.id FROM c", resolver.All[resolver.Key](), &azcosmos.QueryOptions{PageSize: 2})
	for range 2 {
		if page, err := pager.NextPage(t.Context()); err != nil || len(page.Items) == 0 {
			t.Fatalf("%d rows, %v", len(page.Items), err)
		}
	}
	if err := w.mover(-1).Begin(t.Context(), "shrink", nil, resolver.Plan{Scheme: resolver.Scheme{Kind: resolver.KindRing, Targets: []string{"c0"}}}); err != nil {
		t.Fatal(err)
	}
	if err := azcosmos.SettleClients(client)(t.Context()); err != nil {
		t.Fatal(err)
	}
	if page, err := pager.NextPage(t.Context()); !isRestart(err) {
		t.Errorf("in prepare: %d rows, %v, want ErrRestart", len(page.Items), err)
	}
}
