package azcosmos_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	sdk "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/decandb/decan"
	"github.com/decandb/decan/decantest"
	"github.com/decandb/decan/resolver"
	"github.com/decandb/decan/resolver/azcosmos"
)

func isStatus(err error, status int) bool {
	response, ok := errors.AsType[*azcore.ResponseError](err)
	return ok && response.StatusCode == status
}

// TestItems creates, reads, replaces and deletes items of a group (S150, S156, S157,
// S159, S160).
func TestItems(t *testing.T) {
	t.Parallel()
	server := decantest.New(t)
	list := targetsOn(t, server, 3, "/userId", 1)
	client := static(t, ringState("/userId", list), map[string]*sdk.Client{"": connect(t, server)})
	ctx := t.Context()
	seen := map[string]int{}
	for i := range 60 {
		document := []byte(fmt.Sprintf(`{"id":"u%d","userId":"J%d","n":1}`, i, i))
		item, err := client.Create(ctx, document, nil)
		if err != nil {
			t.Fatal(err)
		}
		routing := client.View().Routing()
		key, err := routing.Key(document)
		if err != nil {
			t.Fatal(err)
		}
		owner, err := routing.ForWrite(key)
		if err != nil || owner.Name != item.Ref.Target || item.Charge <= 0 || item.ETag == "" {
			t.Fatalf("created in %s at %v RU with etag %q, want %s, %v", item.Ref.Target, item.Charge, item.ETag, owner.Name, err)
		}
		seen[owner.Name]++
		if _, err := client.Create(ctx, document, nil); !isStatus(err, 409) {
			t.Fatalf("second create: %v, want 409", err)
		}
		read, err := client.Read(ctx, azcosmos.Ref{Key: resolver.TextKey(fmt.Sprint("J", i)), ID: fmt.Sprint("u", i)}, nil)
		if err != nil || read.Ref.Target != owner.Name {
			t.Fatalf("read: %v from %s", err, read.Ref.Target)
		}
	}
	if len(seen) != 3 {
		t.Errorf("60 items are in %v, want all three containers", seen)
	}
	upserted, err := client.Upsert(ctx, []byte(`{"id":"u1","userId":"J1","n":2}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	stale := azcore.ETag(`"stale"`)
	if _, err := client.Replace(ctx, []byte(`{"id":"u1","userId":"J1","n":3}`), &sdk.ItemOptions{IfMatchEtag: &stale}); !isStatus(err, 412) {
		t.Errorf("replace with a stale etag: %v, want 412", err)
	}
	if _, err := client.Replace(ctx, []byte(`{"id":"u1","userId":"J1","n":3}`), &sdk.ItemOptions{IfMatchEtag: &upserted.ETag}); err != nil {
		t.Error(err)
	}
	if _, err := client.Delete(ctx, upserted.Ref, nil); err != nil {
		t.Error(err)
	}
	if _, err := client.Read(ctx, upserted.Ref, nil); !isStatus(err, 404) {
		t.Errorf("read after delete: %v, want 404", err)
	}
	if _, err := client.Create(ctx, []byte(`{"id":"x"}`), nil); !errors.Is(err, resolver.ErrKey) {
		t.Errorf("create without a key: %v, want ErrKey", err)
	}
	if _, err := client.Create(ctx, []byte(`{"userId":"J1"}`), nil); !errors.Is(err, resolver.ErrKey) {
		t.Errorf("create without an id: %v, want ErrKey", err)
	}
}

// queries run over one container, whose result is the expected one, and over a
// group. If order is false, only the set of rows counts.
var queries = []struct {
	text  string
	order bool
}{
	{"SELECT VALUE c.id FROM c", false},
	{"SELECT c.id, c.n FROM c WHERE c.n > 50", false},
	{"SELECT * FROM c WHERE c.city = 'c3'", false},
	{"SELECT VALUE c.n FROM c WHERE IS_DEFINED(c.n) ORDER BY c.n DESC", true},
	{"select top 5 value c.id from c where c.n >= 10 order by c.n", true},
	{"SELECT r.id, r.n AS number FROM root r WHERE r.n > 20 ORDER BY r.n OFFSET 2 LIMIT 7", true},
	{"SELECT VALUE c.n FROM c WHERE c.n > 3 ORDER BY c.n OFFSET @from LIMIT 4", true},
	{"SELECT DISTINCT VALUE c.city FROM c", false},
	{"SELECT DISTINCT c.city FROM c ORDER BY c.city DESC", true},
	{"SELECT VALUE COUNT(1) FROM c", true},
	{"SELECT COUNT(c.n) AS n, SUM(c.n) AS s, AVG(c.n) AS a, MIN(c.n) AS low, MAX(c.city) AS high FROM c", true},
	{"SELECT VALUE SUM(c.none) FROM c", true},
	{"SELECT VALUE AVG(c.none) FROM c", true},
	{"SELECT VALUE SUM(c.city) FROM c", true},
	{"SELECT MIN(c.none), COUNT(1) FROM c", true},
	{"SELECT VALUE c.id -- ORDER BY\n FROM c -- TOP 1\n WHERE c[\"city\"] = \"c1\"", false},
}

// TestQueries checks that three containers, with 1 and with 4 physical
// partitions each, return what one container returns, so single-partition and
// partitioned containers work alike (S146, S155, S161, S162).
func TestQueries(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 4} {
		server := decantest.New(t)
		account := map[string]*sdk.Client{"": connect(t, server)}
		list := targetsOn(t, server, 4, "/userId", partitions)
		full := decantest.Start(t, decan.Config{CrossPartition: "full"})
		one := static(t, ringState("/userId", targetsOn(t, full, 1, "/userId", 1)), map[string]*sdk.Client{"": connect(t, full)})
		group := static(t, ringState("/userId", list[:3]), account)
		users(t, group, 60)
		users(t, one, 60)
		for _, q := range queries {
			options := &azcosmos.QueryOptions{PageSize: 6, Parameters: []sdk.QueryParameter{{Name: "@from", Value: 1}}}
			want, got := all(t, one, q.text, options), all(t, group, q.text, options)
			paged := byPages(t, group, q.text, *options)
			if strings.Contains(q.text, "*") {
				want, got, paged = plain(t, want), plain(t, got), plain(t, paged)
			}
			if !q.order {
				want, got, paged = sorted(want), sorted(got), sorted(paged)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d partitions: %s\ngives %s\nwant  %s", partitions, q.text, got, want)
			}
			if !slices.Equal(paged, want) {
				t.Errorf("%d partitions: %s\npage by page gives %s\nwant  %s", partitions, q.text, paged, want)
			}
		}
	}
}

// plain removes the system properties from documents.
func plain(t *testing.T, documents []string) []string {
	t.Helper()
	var list []string
	for _, document := range documents {
		var members map[string]any
		if err := json.Unmarshal([]byte(document), &members); err != nil {
			return documents // a COUNT(*) or the like
		}
		for _, name := range []string{"_rid", "_self", "_etag", "_ts", "_attachments"} {
			delete(members, name)
		}
		text, err := json.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, string(text))
	}
	return list
}

// byPages runs a query with a new Pager for each page.
func byPages(t *testing.T, client *azcosmos.Client, text string, options azcosmos.QueryOptions) []string {
	t.Helper()
	var rows []string
	for range 1000 {
		pager := client.Query(text, resolver.All[resolver.Key](), &options)
		page, err := pager.NextPage(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if len(page.Items) > options.PageSize {
			t.Errorf("%s: a page of %d items", text, len(page.Items))
		}
		for _, item := range page.Items {
			rows = append(rows, string(item))
		}
		if !pager.More() {
			return rows
		}
		// The page size may change from page to page.
		options.PageSize = options.PageSize%11 + 1
		if options.Continuation = page.Continuation; options.Continuation == "" {
			t.Fatalf("%s: there is more, but no continuation", text)
		}
	}
	t.Fatalf("%s: the query does not end", text)
	return nil
}

// TestQueryTargets checks that a query asks only the containers of the given
// keys, one after another if wanted, and no more than the caller reads (S152,
// S161, S162).
func TestQueryTargets(t *testing.T) {
	t.Parallel()
	server := decantest.New(t)
	count := &counter{}
	list := targetsOn(t, server, 3, "/userId", 1)
	client := static(t, ringState("/userId", list), map[string]*sdk.Client{"": connect(t, server, count)})
	users(t, client, 30)
	requests := func(selection resolver.Selection[resolver.Key], parallelism, pages int) int64 {
		before := count.requests.Load()
		pager := client.Query("SELECT VALUE c.id FROM c", selection, &azcosmos.QueryOptions{Parallelism: parallelism})
		for range pages {
			if _, err := pager.NextPage(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		return count.requests.Load() - before
	}
	for _, c := range []struct {
		selection          resolver.Selection[resolver.Key]
		parallelism, pages int
		want               int64
	}{
		{resolver.Keys(resolver.TextKey("J1")), 8, 1, 1},
		{resolver.Keys[resolver.Key](), 8, 1, 0},
		{resolver.All[resolver.Key](), 1, 1, 1},
		{resolver.All[resolver.Key](), 2, 1, 2},
		{resolver.All[resolver.Key](), 1, 3, 3},
		{resolver.All[resolver.Key](), 8, 3, 3},
	} {
		if got := requests(c.selection, c.parallelism, c.pages); got != c.want {
			t.Errorf("%d pages at parallelism %d took %d requests, want %d", c.pages, c.parallelism, got, c.want)
		}
	}
	// The rows come container by container, in the order of the targets.
	var want []string
	for _, target := range list {
		want = append(want, all(t, static(t, ringState("/userId", []resolver.Target{target}), map[string]*sdk.Client{"": connect(t, server)}), "SELECT VALUE c.id FROM c", nil)...)
	}
	if got := all(t, client, "SELECT VALUE c.id FROM c", nil); !slices.Equal(got, want) {
		t.Errorf("rows %s, want %s", got, want)
	}
}

// meter adds up the charges in a server's responses.
type meter struct {
	mu    sync.Mutex
	total float64
}

func (m *meter) Do(request *policy.Request) (*http.Response, error) {
	response, err := request.Next()
	if err == nil && strings.Contains(request.Raw().URL.Path, "/docs") {
		charge, _ := strconv.ParseFloat(response.Header.Get("X-Ms-Request-Charge"), 64)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.total += charge
	}
	return response, err
}

func (m *meter) take() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	total := m.total
	m.total = 0
	return total
}

// TestCharges checks that every result has the charge of all its requests: the
// pages of all containers and partitions, the reads in several containers, the
// second copies of a move, and requests that fail.
func TestCharges(t *testing.T) {
	t.Parallel()
	server := decantest.New(t)
	meter := &meter{}
	account := map[string]*sdk.Client{"": connect(t, server, meter)}
	targets := targetsOn(t, server, 3, "/userId", 3)
	state := ringState("/userId", targets)
	client := static(t, state, account)
	users(t, client, 30)
	meter.take()
	same := func(what string, charge float64) {
		t.Helper()
		if sent := meter.take(); math.Abs(charge-sent) > 1e-6 || sent <= 0 {
			t.Errorf("%s: a charge of %v, but the responses add up to %v", what, charge, sent)
		}
	}
	for _, query := range []string{"SELECT * FROM c", "SELECT VALUE c.id FROM c ORDER BY c.n", "SELECT VALUE SUM(c.n) FROM c"} {
		_, charge, err := client.Query(query, resolver.All[resolver.Key](), &azcosmos.QueryOptions{PageSize: 4}).Items(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		same(query, charge)
	}
	state.Targets = targets
	state.Move = &resolver.Move{ID: "m", Phase: resolver.Copy, Next: resolver.Plan{Scheme: resolver.Scheme{Kind: resolver.KindSingle, Targets: []string{"c2"}}}}
	moving := static(t, state, account)
	for i := range 6 {
		item, err := moving.Upsert(t.Context(), fmt.Appendf(nil, `{"id":"u%d","userId":"J%d","n":0}`, i, i), nil)
		if err != nil {
			t.Fatal(err)
		}
		same("an upsert during a move", item.Charge)
	}
	item, err := client.Read(t.Context(), azcosmos.Ref{Key: resolver.TextKey("J1"), ID: "u1", Target: "c2"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	same("a read where it was last seen", item.Charge)
	item, err = client.Create(t.Context(), []byte(`{"id":"u1","userId":"J1"}`), nil)
	if !isStatus(err, 409) {
		t.Errorf("a second create: %v", err)
	}
	same("a create that fails", item.Charge)
}

// TestQueryErrors checks queries that cannot be merged, and invalid tokens.
func TestQueryErrors(t *testing.T) {
	t.Parallel()
	server := decantest.New(t)
	client := static(t, ringState("/userId", targetsOn(t, server, 2, "/userId", 1)), map[string]*sdk.Client{"": connect(t, server)})
	for _, text := range []string{
		"SELECT c.city, COUNT(1) FROM c GROUP BY c.city", "SELECT VALUE 1 + COUNT(1) FROM c", "SELECT c.id, COUNT(1) FROM c",
		"SELECT TOP 1 COUNT(1) FROM c", "SELECT TOP x VALUE 1 FROM c", "UPDATE c", "", "SELECT", "SELECT 'a FROM c", "SELECT (1 FROM c", "SELECT 1) FROM c",
		"SELECT VALUE 1 FROM c OFFSET 1", "SELECT 1 FROM c ORDER", "SELECT , FROM c", "SELECT VALUE 1 ; FROM c",
	} {
		if _, err := client.Query(text, resolver.All[resolver.Key](), nil).NextPage(t.Context()); !errors.Is(err, azcosmos.ErrQuery) {
			t.Errorf("%q: %v, want ErrQuery", text, err)
		}
	}
	for _, token := range []string{"x", "e30", strings.Repeat("A", 1<<21)} {
		pager := client.Query("SELECT VALUE 1 FROM c", resolver.All[resolver.Key](), &azcosmos.QueryOptions{Continuation: token})
		if _, err := pager.NextPage(t.Context()); !errors.Is(err, azcosmos.ErrContinuation) {
			t.Errorf("token %.10q: %v, want ErrContinuation", token, err)
		}
	}
}

// TestForgedTokens changes a token in ways that no query does. The token is
// refused, or the query continues from the position it names.
func TestForgedTokens(t *testing.T) {
	t.Parallel()
	server := decantest.New(t)
	client := static(t, ringState("/userId", targetsOn(t, server, 2, "/userId", 1)), map[string]*sdk.Client{"": connect(t, server)})
	users(t, client, 20)
	options := azcosmos.QueryOptions{PageSize: 3}
	const query = "SELECT VALUE c.id FROM c ORDER BY c.id"
	page, err := client.Query(query, resolver.All[resolver.Key](), &options).NextPage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	token, err := base64.RawURLEncoding.DecodeString(page.Continuation)
	if err != nil {
		t.Fatal(err)
	}
	forge := func(change func(at, place, stream map[string]any)) error {
		var at map[string]any
		if err := json.Unmarshal(token, &at); err != nil {
			t.Fatal(err)
		}
		change(at, at["o"].(map[string]any), at["s"].([]any)[0].(map[string]any))
		forged, err := json.Marshal(at)
		if err != nil {
			t.Fatal(err)
		}
		options := azcosmos.QueryOptions{PageSize: 3, Continuation: base64.RawURLEncoding.EncodeToString(forged)}
		_, err = client.Query(query, resolver.All[resolver.Key](), &options).NextPage(t.Context())
		return err
	}
	for i, c := range []struct {
		want   error
		change func(at, place, stream map[string]any)
	}{
		{nil, func(_, _, _ map[string]any) {}},
		{nil, func(at, _, _ map[string]any) { at["p"] = "another plan" }},
		{azcosmos.ErrRestart, func(at, _, _ map[string]any) { at["p"] = "another plan"; delete(at, "o") }},
		{azcosmos.ErrRestart, func(at, place, _ map[string]any) { at["p"] = "another plan"; place["x"] = true }},
		{azcosmos.ErrContinuation, func(at, place, _ map[string]any) { at["p"] = "another plan"; place["l"] = []any{[]any{1}, []any{2}} }},
		{azcosmos.ErrContinuation, func(_, place, _ map[string]any) { place["l"] = []any{[]any{1, 2}} }},
		{azcosmos.ErrContinuation, func(_, place, _ map[string]any) { place["l"] = []any{"a"} }},
		{azcosmos.ErrContinuation, func(_, place, _ map[string]any) { place["l"] = "a" }},
		{nil, func(_, place, _ map[string]any) { place["e"] = []any{"", "?"} }},
		{azcosmos.ErrContinuation, func(_, _, stream map[string]any) { stream["l"] = []any{[]any{1}, []any{2}} }},
		{azcosmos.ErrContinuation, func(_, _, stream map[string]any) { stream["t"] = "unknown" }},
		{azcosmos.ErrContinuation, func(_, _, stream map[string]any) { stream["r"] = "0"; delete(stream, "k") }},
		{azcosmos.ErrContinuation, func(at, _, _ map[string]any) { delete(at, "m") }},
		{azcosmos.ErrContinuation, func(at, _, _ map[string]any) { at["v"] = 2 }},
		{azcosmos.ErrContinuation, func(at, _, _ map[string]any) { at["n"] = -1 }},
		{nil, func(at, _, _ map[string]any) { at["d"] = "AAAA" }},
	} {
		if err := forge(c.change); !errors.Is(err, c.want) {
			t.Errorf("forgery %d: %v, want %v", i, err, c.want)
		}
	}
}

// TestBatchApart checks that a batch over several containers is refused before
// anything is sent (S148).
func TestBatchApart(t *testing.T) {
	t.Parallel()
	server := decantest.New(t)
	count := &counter{}
	client := static(t, ringState("/userId", targetsOn(t, server, 3, "/userId", 1)), map[string]*sdk.Client{"": connect(t, server, count)})
	batch := client.NewBatch()
	for i := range 6 {
		batch.Create(fmt.Appendf(nil, `{"id":"a","userId":"J%d"}`, i), nil)
	}
	if _, err := batch.Execute(t.Context(), nil); !errors.Is(err, azcosmos.ErrApart) {
		t.Errorf("Execute = %v, want ErrApart", err)
	}
	if _, err := client.NewBatch().Execute(t.Context(), nil); !errors.Is(err, azcosmos.ErrApart) {
		t.Errorf("Execute of an empty batch = %v, want ErrApart", err)
	}
	broken := client.NewBatch()
	broken.Create([]byte(`{"id":"a"}`), nil)
	broken.Upsert([]byte(`{}`), nil)
	if _, err := broken.Execute(t.Context(), nil); !errors.Is(err, resolver.ErrKey) {
		t.Errorf("Execute without a key = %v, want ErrKey", err)
	}
	if n := count.requests.Load(); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

// TestItemCarriesItsTarget replaces and deletes items where they were found,
// without the resolver, which would look in another container (S157).
func TestItemCarriesItsTarget(t *testing.T) {
	t.Parallel()
	server := decantest.New(t)
	targets := targetsOn(t, server, 2, "/userId", 1)
	account := map[string]*sdk.Client{"": connect(t, server)}
	second := static(t, ringState("/userId", targets[1:]), account)
	item, err := second.Create(t.Context(), []byte(`{"id":"x","userId":"J"}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	first := resolver.Plan{Scheme: resolver.Scheme{Kind: resolver.KindLookup, Table: []resolver.LookupSpec{
		{Values: []resolver.Value{text("J")}, Target: "c0"}, {Values: []resolver.Value{text("K")}, Target: "c1"},
	}}}
	client := static(t, resolver.State{Key: resolver.KeySpec{Paths: []string{"/userId"}}, Targets: targets, Current: first}, account)
	if _, err := client.Read(t.Context(), azcosmos.Ref{Key: item.Ref.Key, ID: "x"}, nil); !isStatus(err, 404) {
		t.Errorf("by its key: %v, want 404", err)
	}
	if _, err := client.Read(t.Context(), item.Ref, nil); err != nil {
		t.Errorf("read: %v", err)
	}
	if _, err := client.ReplaceAt(t.Context(), item.Ref, []byte(`{"id":"x","userId":"J","n":1}`), nil); err != nil {
		t.Errorf("replace: %v", err)
	}
	if _, err := client.Delete(t.Context(), item.Ref, nil); err != nil {
		t.Errorf("delete: %v", err)
	}
}

// FuzzStatement parses any text without a panic.
func FuzzStatement(f *testing.F) {
	for _, q := range queries {
		f.Add(q.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if err := azcosmos.ParseStatement(text); err != nil && !errors.Is(err, azcosmos.ErrQuery) {
			t.Errorf("%q: %v, want ErrQuery", text, err)
		}
	})
}

// FuzzContinuation resumes from any token without a panic.
func FuzzContinuation(f *testing.F) {
	f.Add("e30")
	f.Add(base64.RawURLEncoding.EncodeToString([]byte(`{"v":2,"s":[{"t":"c0","r":"1","k":{"a":"","b":"FF"},"l":[[1]],"e":["r"]}]}`)))
	f.Fuzz(func(t *testing.T, token string) {
		if err := azcosmos.ParsePosition(token); err != nil && !errors.Is(err, azcosmos.ErrContinuation) {
			t.Errorf("%q: %v, want ErrContinuation", token, err)
		}
	})
}

// stub answers batches and patches itself and records where they went.
type stub struct{ seen []string }

func (s *stub) Do(request *policy.Request) (*http.Response, error) {
	raw := request.Raw()
	body := `{"id":"a"}`
	switch {
	case raw.Header.Get("X-Ms-Cosmos-Is-Batch-Request") != "":
		body = `[{"statusCode":201,"requestCharge":1},{"statusCode":200,"requestCharge":1}]`
	case raw.Method != http.MethodPatch:
		return request.Next()
	}
	s.seen = append(s.seen, raw.Method+" "+raw.URL.Path+" "+raw.Header.Get("X-Ms-Documentdb-Partitionkey"))
	return &http.Response{StatusCode: http.StatusOK, Request: raw, Header: http.Header{"X-Ms-Request-Charge": {"7"}}, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// TestBatchAndPatchRequests checks that batches and patches go to the owner of
// their key, with the partition key.
func TestBatchAndPatchRequests(t *testing.T) {
	t.Parallel()
	server := decantest.New(t)
	stub := &stub{}
	client := static(t, ringState("/userId", targetsOn(t, server, 3, "/userId", 1)), map[string]*sdk.Client{"": connect(t, server, stub)})
	ref := azcosmos.Ref{Key: resolver.TextKey("J1"), ID: "a"}
	owner, err := client.View().Routing().ForWrite(ref.Key)
	if err != nil {
		t.Fatal(err)
	}
	batch := client.NewBatch()
	batch.Create([]byte(`{"id":"a","userId":"J1"}`), nil)
	batch.Read(ref, nil)
	result, err := batch.Execute(t.Context(), nil)
	if err != nil || !result.Response.Success || result.Target != owner.Name || result.Charge != 7 {
		t.Errorf("batch: %+v, %v", result, err)
	}
	var patch sdk.PatchOperations
	patch.AppendSet("/n", 1)
	item, err := client.Patch(t.Context(), ref, patch, nil)
	if err != nil || item.Ref.Target != owner.Name || item.Charge != 7 {
		t.Errorf("patch: %+v, %v", item, err)
	}
	path := "/dbs/db/colls/" + owner.Container + "/docs"
	if want := []string{"POST " + path + ` ["J1"]`, "PATCH " + path + `/a ["J1"]`}; !slices.Equal(stub.seen, want) {
		t.Errorf("requests %q, want %q", stub.seen, want)
	}
}
