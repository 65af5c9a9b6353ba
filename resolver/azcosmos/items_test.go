package azcosmos_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/decandb/decan/decantest"
	"github.com/decandb/decan/resolver"
	"github.com/decandb/decan/resolver/azcosmos"
)

// asked counts how often the resolver is asked.
type asked struct {
	resolver.Resolver[resolver.Key]

	times atomic.Int64
}

func (a *asked) ForWrite(key resolver.Key) (resolver.Target, error) {
	a.times.Add(1)
	return a.Resolver.ForWrite(key)
}

func (a *asked) ForRead(selection resolver.Selection[resolver.Key]) ([]resolver.Target, error) {
	a.times.Add(1)
	return a.Resolver.ForRead(selection)
}

// TestReturnedItem reads, changes and deletes an item by the Ref that was
// returned with it. The resolver, which does not even route its key, is not
// asked while the item exists (S157).
func TestReturnedItem(t *testing.T) {
	t.Parallel()
	server := decantest.New(t)
	targets := targetsOn(t, server, 2, "/userId", 1)
	extract, err := resolver.Paths("/region")
	if err != nil {
		t.Fatal(err)
	}
	listed, err := resolver.NewLookup(map[string]resolver.Target{"no": targets[0], "se": targets[1]}, nil)
	if err != nil {
		t.Fatal(err)
	}
	count := &asked{Resolver: resolver.ForKeys(listed, 0, 1, resolver.String)}
	account := connect(t, server)
	client := byUser(t, resolver.NewRouting(extract, count), account)
	container, err := account.NewContainer("db", "c1")
	if err != nil {
		t.Fatal(err)
	}
	document := func(n int) []byte { return fmt.Appendf(nil, `{"id":"same","userId":"J","region":"dk","n":%d}`, n) }
	if _, err := container.CreateItem(t.Context(), sdk.NewPartitionKeyString("J"), document(0), nil); err != nil {
		t.Fatal(err)
	}
	ref := inRegion("dk")
	if _, err := client.Read(t.Context(), ref, nil); !errors.Is(err, resolver.ErrNoTarget) {
		t.Errorf("a read by a key that is not listed: %v, want ErrNoTarget", err)
	}
	if _, err := client.Replace(t.Context(), document(1), nil); !errors.Is(err, resolver.ErrNoTarget) {
		t.Errorf("a replacement by a key that is not listed: %v, want ErrNoTarget", err)
	}
	ref.Target = "c1"
	item, err := client.Read(t.Context(), ref, nil)
	if err != nil {
		t.Fatal(err)
	}
	var patch sdk.PatchOperations
	patch.AppendIncrement("/n", 5)
	before := count.times.Load()
	for _, c := range []struct {
		name   string
		n      int // afterwards
		change func() error
	}{
		{"replace", 2, func() error { _, err := client.ReplaceAt(t.Context(), item.Ref, document(2), nil); return err }},
		{"patch", 7, func() error { _, err := client.Patch(t.Context(), item.Ref, patch, nil); return err }},
		{"batch", 12, func() error {
			return execute(t, client, func(b *azcosmos.Batch) { b.Patch(item.Ref, patch, nil) })
		}},
	} {
		err := c.change()
		item, errRead := client.Read(t.Context(), item.Ref, nil)
		var read struct{ N int }
		if errJSON := json.Unmarshal(item.Value, &read); errors.Join(err, errRead, errJSON) != nil || read.N != c.n || item.Ref.Target != "c1" {
			t.Errorf("%s: %s, %v, want n %d", c.name, item.Value, errors.Join(err, errRead, errJSON), c.n)
		}
	}
	if _, err := client.Delete(t.Context(), item.Ref, nil); err != nil {
		t.Errorf("delete: %v", err)
	}
	if times := count.times.Load() - before; times != 0 {
		t.Errorf("the resolver was asked %d times", times)
	}
	for name, err := range map[string]error{
		"read":   func() error { _, err := client.Read(t.Context(), item.Ref, nil); return err }(),
		"delete": func() error { _, err := client.Delete(t.Context(), item.Ref, nil); return err }(),
	} {
		if !isStatus(err, 404) {
			t.Errorf("%s of a deleted item: %v, want 404", name, err)
		}
	}
	if err := execute(t, client, func(b *azcosmos.Batch) { b.Delete(item.Ref, nil) }); err == nil || err.Error() != "404" {
		t.Errorf("a batch with a deleted item: %v, want 404", err)
	}
	if count.times.Load() == before {
		t.Error("the resolver was not asked for a deleted item")
	}
}

// TestReplaceElsewhere checks that a document is not written to a target to
// which its key does not route, now or after the move: no read by its key would
// find it there. Nothing is sent.
func TestReplaceElsewhere(t *testing.T) {
	t.Parallel()
	server := decantest.New(t)
	targets := targetsOn(t, server, 2, "/userId", 1)
	state := regionState(targets, "")
	state.Current.Scheme.Table = append(state.Current.Scheme.Table, resolver.LookupSpec{Values: []resolver.Value{text("dk")}, Target: "c0"})
	next := state.Current
	next.Scheme.Table = []resolver.LookupSpec{
		{Values: []resolver.Value{text("no"), text("fi")}, Target: "c1"}, {Values: []resolver.Value{text("dk"), text("se")}, Target: "c0"},
	}
	count := &counter{}
	account := connect(t, server, count)
	for phase, allowed := range map[resolver.Phase]map[string]bool{
		"":                 {"no": true, "dk": true},
		resolver.Prepare:   {"no": true},
		resolver.DualWrite: {"no": true},
		resolver.Clean:     {"no": true},
	} {
		if phase != "" {
			state.Move = &resolver.Move{ID: "m", Phase: phase, Next: next}
		} else {
			state.Move = nil
		}
		client := byUser(t, opened(t, state), account)
		item, err := client.Upsert(t.Context(), []byte(`{"id":"same","userId":"J","region":"no"}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, region := range []string{"no", "se", "dk", "is", ""} {
			document := fmt.Appendf(nil, `{"id":"same","userId":"J","region":%q,"n":1}`, region)
			if region == "" {
				document = []byte(`{"id":"same","userId":"J"}`)
			}
			before := count.requests.Load()
			_, err := client.ReplaceAt(t.Context(), item.Ref, document, nil)
			if allowed[region] && err != nil || !allowed[region] && !errors.Is(err, resolver.ErrKey) {
				t.Errorf("in phase %q a document of %q: %v", phase, region, err)
			}
			if sent := count.requests.Load() - before; (sent > 0) != allowed[region] {
				t.Errorf("in phase %q a document of %q: %d requests", phase, region, sent)
			}
		}
	}
}

// TestBatchOneKey checks that a batch is refused before anything is sent if it
// spans two partition keys of one container, two containers with one partition
// key, or two routes of a move (S148).
func TestBatchOneKey(t *testing.T) {
	t.Parallel()
	server := decantest.New(t)
	targets := targetsOn(t, server, 2, "/userId", 1)
	count := &counter{}
	account := connect(t, server, count)
	client := func(state resolver.State) *azcosmos.Client { return byUser(t, opened(t, state), account) }
	byRegion := regionState(targets, "")
	merges := regionState(targets, resolver.DualWrite)
	stays := regionState(targets, resolver.DualWrite)
	stays.Current.Scheme.Table[1].Target = "c0"
	stays.Move.Next = regionState(targets, "").Current
	stays.Move.Next.Scheme.Table = []resolver.LookupSpec{
		{Values: []resolver.Value{text("no")}, Target: "c1"}, {Values: []resolver.Value{text("se")}, Target: "c0"},
	}
	for name, c := range map[string]struct {
		client    *azcosmos.Client
		documents []string
	}{
		"two keys":                 {client(ringState("/userId", targets[:1])), []string{`{"id":"a","userId":"J1"}`, `{"id":"a","userId":"J2"}`}},
		"two containers":           {client(byRegion), []string{`{"id":"a","userId":"J","region":"no"}`, `{"id":"b","userId":"J","region":"se"}`}},
		"two containers in a move": {client(merges), []string{`{"id":"a","userId":"J","region":"no"}`, `{"id":"b","userId":"J","region":"se"}`}},
		"two routes":               {client(stays), []string{`{"id":"a","userId":"J","region":"no"}`, `{"id":"b","userId":"J","region":"se"}`}},
	} {
		before := count.requests.Load()
		batch := c.client.NewBatch()
		for _, document := range c.documents {
			batch.Create([]byte(document), nil)
		}
		if _, err := batch.Execute(t.Context(), nil); !errors.Is(err, azcosmos.ErrApart) {
			t.Errorf("%s: %v, want ErrApart", name, err)
		}
		if sent := count.requests.Load() - before; sent != 0 {
			t.Errorf("%s: %d requests were sent", name, sent)
		}
		if err := execute(t, c.client, func(b *azcosmos.Batch) {
			b.Upsert([]byte(c.documents[0]), nil)
			b.Upsert([]byte(strings.Replace(c.documents[0], `"a"`, `"c"`, 1)), nil)
		}); err != nil {
			t.Errorf("%s: a batch that stays: %v", name, err)
		}
	}
}

// TestBatchSpillover puts the items of a key in several containers. A batch goes
// to the container where its items were last seen, and is refused if it does not
// name one.
func TestBatchSpillover(t *testing.T) {
	t.Parallel()
	server := decantest.New(t)
	targets := targetsOn(t, server, 2, "/userId", 1)
	count := &counter{}
	account := map[string]*sdk.Client{"": connect(t, server, count)}
	spillover := func(names ...string) *azcosmos.Client {
		return static(t, resolver.State{
			Key: resolver.KeySpec{Paths: []string{"/userId"}}, Targets: targets,
			Current: resolver.Plan{Scheme: resolver.Scheme{Kind: resolver.KindSpillover, Prefix: "c", Targets: names, MaxDocuments: 10}},
		}, account)
	}
	before, client := spillover("c0"), spillover("c0", "c1")
	document := func(id string, n int) []byte { return fmt.Appendf(nil, `{"id":%q,"userId":"J","n":%d}`, id, n) }
	var old, recent azcosmos.Item
	var err error
	if err = execute(t, before, func(b *azcosmos.Batch) { b.Create(document("old", 0), nil) }); err != nil {
		t.Fatal(err)
	}
	if old, err = client.Read(t.Context(), azcosmos.Ref{Key: resolver.TextKey("J"), ID: "old"}, nil); err != nil {
		t.Fatal(err)
	}
	if recent, err = client.Create(t.Context(), document("recent", 0), nil); err != nil || old.Ref.Target != "c0" || recent.Ref.Target != "c1" {
		t.Fatalf("the items are in %s and %s, %v", old.Ref.Target, recent.Ref.Target, err)
	}
	var patch sdk.PatchOperations
	patch.AppendIncrement("/n", 1)
	nowhere := azcosmos.Ref{Key: resolver.TextKey("J"), ID: "old"}
	sent := count.requests.Load()
	for name, fill := range map[string]func(*azcosmos.Batch){
		"upsert":         func(b *azcosmos.Batch) { b.Upsert(document("old", 1), nil) },
		"create":         func(b *azcosmos.Batch) { b.Create(document("new", 1), nil) },
		"replace":        func(b *azcosmos.Batch) { b.Replace(document("old", 1), nil) },
		"patch":          func(b *azcosmos.Batch) { b.Patch(nowhere, patch, nil) },
		"two containers": func(b *azcosmos.Batch) { b.Patch(old.Ref, patch, nil); b.Delete(recent.Ref, nil) },
		"one of two":     func(b *azcosmos.Batch) { b.Patch(old.Ref, patch, nil); b.Delete(nowhere, nil) },
	} {
		if err := execute(t, client, fill); !errors.Is(err, azcosmos.ErrApart) {
			t.Errorf("%s: %v, want ErrApart", name, err)
		}
	}
	if sent != count.requests.Load() {
		t.Error("a batch that is refused was sent")
	}
	for _, item := range []azcosmos.Item{old, recent} {
		batch := client.NewBatch()
		batch.Patch(item.Ref, patch, nil)
		batch.Read(item.Ref, nil)
		if result, err := batch.Execute(t.Context(), nil); err != nil || !result.Response.Success || result.Target != item.Ref.Target {
			t.Errorf("%s: %+v, %v", item.Ref.ID, result, err)
		}
		// The item is found, whatever target the Ref names.
		batch = client.NewBatch()
		elsewhere := item.Ref
		elsewhere.Target = map[string]string{"c0": "c1", "c1": "c0"}[item.Ref.Target]
		batch.Delete(elsewhere, nil)
		if result, err := batch.Execute(t.Context(), nil); err != nil || !result.Response.Success || result.Target != item.Ref.Target || result.Charge <= float64(result.Response.RequestCharge) {
			t.Errorf("%s: %+v, %v, want the charge of both containers", item.Ref.ID, result, err)
		}
	}
	batch := client.NewBatch()
	batch.Delete(old.Ref, nil)
	if result, err := batch.Execute(t.Context(), nil); err != nil || result.Response.Success || result.Target != "c0" || result.Response.OperationResults[0].StatusCode != 404 {
		t.Errorf("a deleted item: %+v, %v, want 404 of c0", result, err)
	}
}

// profile is an object of an application.
type profile struct {
	ID       string `json:"id"`
	UserID   string `json:"userId"`
	UserName string
	Status   string
}

// handle is a computed routing key that is not a property.
func handle(p profile) (resolver.Key, error) {
	return resolver.TextKey(strings.ToLower(strings.TrimPrefix(p.UserName, "@"))), nil
}

// profiles returns a client of two collections that routes by a function of the
// object, and puts profiles into them.
func profiles(t *testing.T) (client *azcosmos.Client, john []byte, requests *counter) {
	t.Helper()
	server := decantest.New(t)
	requests = &counter{}
	state := ringState("", targetsOn(t, server, 2, "/userId", 1))
	state.Key = resolver.KeySpec{Function: "handle"}
	routing, err := resolver.Open(state, resolver.Registry{Functions: map[string]resolver.Extractor{"handle": resolver.KeyOf(handle)}})
	if err != nil {
		t.Fatal(err)
	}
	client = byUser(t, routing, connect(t, server, requests))
	seen := map[string]bool{}
	for i, name := range []string{"@John", "@Mary", "@Ann", "@Eve", "@Bob", "@Kim", "@Lea", "@Tom"} {
		p := profile{fmt.Sprint("p", i), fmt.Sprint("J", i), name, []string{"Available", "Busy"}[i%2]}
		document, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		item, err := client.Create(t.Context(), document, nil)
		if err != nil {
			t.Fatal(err)
		}
		if seen[item.Ref.Target] = true; i == 0 {
			john = document
		}
	}
	if len(seen) != 2 {
		t.Fatalf("the profiles are in %v, want both collections", seen)
	}
	return client, john, requests
}

// TestProfiles finds the profile with the UserName @John in one collection, by a
// key computed from an object, and all available users in both collections,
// without a key, as one result (S163, S200).
func TestProfiles(t *testing.T) {
	t.Parallel()
	client, john, requests := profiles(t)
	key, err := client.View().Routing().Key(john)
	if err != nil || !key.Equal(resolver.TextKey("john")) {
		t.Fatalf("the key of %s is %v, %v", john, key, err)
	}
	for _, c := range []struct {
		text      string
		selection resolver.Selection[resolver.Key]
		want      []string
		requests  int64
	}{
		{`SELECT VALUE c.UserName FROM c WHERE c.UserName = "@John"`, resolver.Keys(key), []string{`"@John"`}, 1},
		{`SELECT VALUE c.UserName FROM c WHERE c.UserName = "@John"`, resolver.All[resolver.Key](), []string{`"@John"`}, 2},
		{`SELECT VALUE c.UserName FROM c WHERE c.Status = "Available" ORDER BY c.UserName`, resolver.All[resolver.Key](), []string{`"@Ann"`, `"@Bob"`, `"@John"`, `"@Lea"`}, 2},
	} {
		before := requests.requests.Load()
		items, _, err := client.Query(c.text, c.selection, nil).Items(t.Context())
		var rows []string
		for _, item := range items {
			rows = append(rows, string(item))
		}
		if err != nil || !slices.Equal(rows, c.want) {
			t.Errorf("%s: %s, %v, want %s", c.text, rows, err, c.want)
		}
		if sent := requests.requests.Load() - before; (sent == 1) != (c.requests == 1) || sent < c.requests {
			t.Errorf("%s: %d requests, want %d", c.text, sent, c.requests)
		}
	}
}

// TestToldDelay creates containers while the service throttles it. The client
// waits as long as it is told, but at least 10 ms, and 1 s if it is not told
// (S184).
func TestToldDelay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		told   string
		want   time.Duration
	}{
		{http.StatusTooManyRequests, "61234", 61234 * time.Millisecond},
		{http.StatusTooManyRequests, "10", 10 * time.Millisecond},
		{http.StatusTooManyRequests, "9", 10 * time.Millisecond},
		{http.StatusTooManyRequests, "", time.Second},
		{449, "250", 250 * time.Millisecond},
		{http.StatusServiceUnavailable, "", time.Second},
	} {
		template := usersTemplate()
		template.Scripts = nil
		targets, err := template.Numbered(2)
		if err != nil {
			t.Fatal(err)
		}
		left := atomic.Int64{}
		left.Store(3)
		busy := &refusal{status: c.status, retryMilliseconds: c.told}
		busy.refuse(func(request *http.Request) bool {
			return request.Method == http.MethodPost && strings.HasSuffix(request.URL.Path, "/colls") && left.Add(-1) >= 0
		})
		managed := managedOn(t, template, targets, map[string]*decantest.Server{"": decantest.New(t)}, busy)
		clock := &clock{at: time.Unix(0, 0)}
		managed.Client.SetSleep(clock.sleep)
		if err := managed.Ensure(t.Context(), targets); err != nil {
			t.Errorf("%d: %v", c.status, err)
		}
		if want := slices.Repeat([]time.Duration{c.want}, 3); !slices.Equal(clock.sleeps, want) {
			t.Errorf("told %q by %d, the client waits %v, want %v", c.told, c.status, clock.sleeps, want)
		}
	}
}

// TestAnyShape keeps documents of different kinds in the same containers: only
// their key property must be the same (S149).
func TestAnyShape(t *testing.T) {
	t.Parallel()
	server := decantest.New(t)
	client := static(t, ringState("/userId", targetsOn(t, server, 2, "/userId", 1)), map[string]*sdk.Client{"": connect(t, server)})
	for i, document := range []string{
		`{"id":"a","userId":"J","kind":"user","name":{"first":"Ann"},"tags":["x",1,null]}`,
		`{"id":"b","userId":"J","kind":"order","name":5,"lines":[{"price":1.5}]}`,
		`{"id":"c","userId":"J"}`,
		`{"id":"d","userId":"J","name":["of another type"],"kind":false}`,
	} {
		created, err := client.Create(t.Context(), []byte(document), nil)
		if err != nil {
			t.Fatalf("document %d: %v", i, err)
		}
		read, err := client.Read(t.Context(), created.Ref, nil)
		if err != nil {
			t.Fatalf("document %d: %v", i, err)
		}
		if got := string(stripped(t, read.Value)); got != document {
			t.Errorf("document %d: %s, want %s", i, got, document)
		}
	}
	if rows := all(t, client, "SELECT VALUE c.id FROM c WHERE IS_STRING(c.kind) ORDER BY c.id", nil); !slices.Equal(rows, []string{`"a"`, `"b"`}) {
		t.Errorf("of some kind: %v", rows)
	}
}

// stripped returns a document without the properties that the service adds.
func stripped(t *testing.T, document []byte) []byte {
	t.Helper()
	own, _, found := strings.Cut(string(document), `,"_rid"`)
	if !found {
		t.Fatalf("no system properties: %s", document)
	}
	return []byte(own + "}")
}
