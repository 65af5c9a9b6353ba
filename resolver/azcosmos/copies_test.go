package azcosmos_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	sdk "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/decandb/decan/decantest"
	"github.com/decandb/decan/resolver"
	"github.com/decandb/decan/resolver/azcosmos"
)

// refusal answers the selected requests itself, with a status and optionally a
// sub-status and a delay in milliseconds.
type refusal struct {
	of                           atomic.Pointer[func(*http.Request) bool]
	status                       int
	subStatus, retryMilliseconds string
}

// refuse sets which requests are refused; nil refuses none.
func (r *refusal) refuse(of func(*http.Request) bool) {
	if of == nil {
		r.of.Store(nil)
		return
	}
	r.of.Store(&of)
}

func (r *refusal) Do(request *policy.Request) (*http.Response, error) {
	if of := r.of.Load(); of == nil || !(*of)(request.Raw()) {
		return request.Next()
	}
	header := http.Header{}
	for name, value := range map[string]string{"X-Ms-Substatus": r.subStatus, "X-Ms-Retry-After-Ms": r.retryMilliseconds} {
		if value != "" {
			header.Set(name, value)
		}
	}
	return &http.Response{StatusCode: r.status, Request: request.Raw(), Header: header, Body: io.NopCloser(strings.NewReader(`{"code":"refused"}`))}, nil
}

// about selects the requests for items of a container.
func about(container string) func(*http.Request) bool {
	return func(request *http.Request) bool {
		return strings.Contains(request.URL.Path, "/colls/"+container+"/docs")
	}
}

// regionState routes by region: "no" to c0, "se" to c1. With a phase, the state
// has a move of everything to c1 in that phase.
func regionState(targets []resolver.Target, phase resolver.Phase) resolver.State {
	state := resolver.State{
		Key: resolver.KeySpec{Paths: []string{"/region"}}, Targets: targets,
		Current: resolver.Plan{Scheme: resolver.Scheme{Kind: resolver.KindLookup, Table: []resolver.LookupSpec{
			{Values: []resolver.Value{text("no")}, Target: "c0"}, {Values: []resolver.Value{text("se")}, Target: "c1"},
		}}},
	}
	if phase != "" {
		state.Move = &resolver.Move{ID: "merge", Phase: phase, Next: toOther}
	}
	return state
}

// byUser returns a client of a state that never changes. Its containers are
// partitioned by user, whatever the routing key is.
func byUser(t testing.TB, routing *resolver.Routing, account *sdk.Client) *azcosmos.Client {
	t.Helper()
	client, err := azcosmos.New(azcosmos.Config{Accounts: map[string]*sdk.Client{"": account}, View: resolver.Static(routing), PartitionKey: []string{"/userId"}})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// opened builds the routing of a state.
func opened(t testing.TB, state resolver.State) *resolver.Routing {
	t.Helper()
	routing, err := resolver.Open(state, resolver.Registry{})
	if err != nil {
		t.Fatal(err)
	}
	return routing
}

// inRegion returns the Ref of the item "same" of the user J in a region.
func inRegion(region string) azcosmos.Ref {
	return azcosmos.Ref{Key: resolver.TextKey(region), PartitionKey: resolver.TextKey("J"), ID: "same"}
}

// TestForeignCopy changes an item that moves to where another item has the same
// id and partition key; the other item stays there, or the two change places.
// The other item is not the copy: a delete does not touch it, even in a batch or
// repeated; a replacement is a collision.
func TestForeignCopy(t *testing.T) {
	t.Parallel()
	swapped := regionState(nil, "").Current
	swapped.Scheme.Table[0].Target, swapped.Scheme.Table[1].Target = "c1", "c0"
	for name, next := range map[string]resolver.Plan{"merge": toOther, "swap": swapped} {
		server := decantest.New(t)
		targets := targetsOn(t, server, 2, "/userId", 1)
		account := connect(t, server)
		client := func(phase resolver.Phase, read resolver.ReadMode) *azcosmos.Client {
			state := regionState(targets, phase)
			if state.Move != nil {
				state.Move.Next, state.Move.Read = next, read
			}
			return byUser(t, opened(t, state), account)
		}
		before, moving, readsBoth := client("", ""), client(resolver.DualWrite, ""), client(resolver.DualWrite, resolver.ReadBoth)
		create := func(region string) {
			t.Helper()
			if _, err := before.Create(t.Context(), fmt.Appendf(nil, `{"id":"same","userId":"J","region":%q}`, region), nil); err != nil {
				t.Fatal(err)
			}
		}
		stands := func(after string) {
			t.Helper()
			item, err := moving.Read(t.Context(), inRegion("se"), nil)
			if err != nil || !strings.Contains(string(item.Value), `"se"`) {
				t.Errorf("%s: after %s the other item is %s, %v", name, after, item.Value, err)
			}
			if _, err := moving.Read(t.Context(), inRegion("no"), nil); !isStatus(err, 404) {
				t.Errorf("%s: after %s the item is read: %v, want 404", name, after, err)
			}
			if item, err := readsBoth.Read(t.Context(), inRegion("no"), nil); !isStatus(err, 404) {
				t.Errorf("%s: after %s, reading both sides finds %s, %v, want 404", name, after, item.Value, err)
			}
		}
		create("se")
		create("no")
		if _, err := moving.Replace(t.Context(), []byte(`{"id":"same","userId":"J","region":"no","n":1}`), nil); !errors.Is(err, azcosmos.ErrCollision) {
			t.Errorf("%s: a replacement: %v, want ErrCollision", name, err)
		}
		if _, err := moving.Delete(t.Context(), inRegion("no"), nil); err != nil {
			t.Errorf("%s: delete: %v", name, err)
		}
		stands("a delete")
		if _, err := moving.Delete(t.Context(), inRegion("no"), nil); !isStatus(err, 404) {
			t.Errorf("%s: a second delete: %v, want 404", name, err)
		}
		stands("a second delete")
		create("no")
		if err := execute(t, moving, func(b *azcosmos.Batch) { b.Delete(inRegion("no"), nil) }); err != nil {
			t.Errorf("%s: delete in a batch: %v", name, err)
		}
		stands("a delete in a batch")
	}
}

// TestRepeatedChange makes the second container fail after the first one has
// made a change. The change is not acknowledged. The first container refuses the
// repetition because the change is made already; the copy must be updated before
// that refusal is returned.
func TestRepeatedChange(t *testing.T) {
	t.Parallel()
	server := decantest.New(t)
	targets := targetsOn(t, server, 2, "/userId", 1)
	state := movingState(targets, resolver.Verify)
	down := &refusal{status: http.StatusForbidden}
	client := static(t, state, map[string]*sdk.Client{"": connect(t, server, down)})
	var etag *sdk.ItemOptions // of the item before the change
	ref := azcosmos.Ref{Key: resolver.TextKey("J"), ID: "x"}
	document := func(n int) []byte { return fmt.Appendf(nil, `{"id":"x","userId":"J","n":%d}`, n) }
	remove := sdk.PatchOperations{}
	remove.AppendRemove("/n")
	for _, c := range []struct {
		name   string
		exists bool
		refuse int // the status of the repetition
		change func() error
	}{
		{"create", false, 409, func() error { _, err := client.Create(t.Context(), document(2), nil); return err }},
		{"replace", true, 412, func() error { _, err := client.Replace(t.Context(), document(2), etag); return err }},
		{"patch", true, 400, func() error { _, err := client.Patch(t.Context(), ref, remove, nil); return err }},
		{"delete", true, 404, func() error { _, err := client.Delete(t.Context(), ref, nil); return err }},
		{"batch", true, 404, func() error { return execute(t, client, func(b *azcosmos.Batch) { b.Delete(ref, nil) }) }},
		{"batch with others", true, 409, func() error {
			return execute(t, client, func(b *azcosmos.Batch) {
				b.Upsert(document(2), nil)
				b.Create([]byte(`{"id":"y","userId":"J"}`), nil)
			})
		}},
	} {
		if c.exists {
			item, err := client.Upsert(t.Context(), document(1), nil)
			if err != nil {
				t.Fatal(err)
			}
			etag = &sdk.ItemOptions{IfMatchEtag: &item.ETag}
		}
		down.refuse(about("c1"))
		for _, attempt := range []string{"first", "second"} {
			if err := c.change(); err == nil || isStatus(err, c.refuse) || !isStatus(err, 403) {
				t.Errorf("%s, %s attempt without the second container: %v, want its 403", c.name, attempt, err)
			}
		}
		down.refuse(nil)
		if err := c.change(); !isStatus(err, c.refuse) && err.Error() != fmt.Sprint(c.refuse) {
			t.Errorf("%s, repeated: %v, want %d", c.name, err, c.refuse)
		}
		sides := [2]string{}
		for i, target := range targets {
			sides[i] = held(t, server, target)
		}
		if sides[0] != sides[1] {
			t.Errorf("%s: the containers hold %s and %s", c.name, sides[0], sides[1])
		}
		for _, id := range []string{"x", "y"} {
			if _, err := client.Delete(t.Context(), azcosmos.Ref{Key: ref.Key, ID: id}, nil); err != nil && !isStatus(err, 404) {
				t.Fatal(err)
			}
		}
	}
}

// execute runs a batch. If the service refuses it, the text of the error is the
// status of the operation that failed.
func execute(t *testing.T, client *azcosmos.Client, fill func(*azcosmos.Batch)) error {
	t.Helper()
	batch := client.NewBatch()
	fill(batch)
	result, err := batch.Execute(t.Context(), nil)
	if err != nil || result.Response.Success {
		return err
	}
	for _, operation := range result.Response.OperationResults {
		if operation.StatusCode != http.StatusFailedDependency {
			return errors.New(fmt.Sprint(operation.StatusCode))
		}
	}
	return errors.New("a batch that failed without a reason")
}

// held returns the documents of a target's container as text, sorted.
func held(t *testing.T, server *decantest.Server, target resolver.Target) string {
	t.Helper()
	w := &world{t: t, server: server}
	var list []string
	for _, document := range w.contents(target) {
		list = append(list, string(document))
	}
	return strings.Join(sorted(plain(t, list)), " ")
}

// TestSessionNotAvailable answers that the session is not available yet, or that
// the container is gone. Neither means that the item is gone, so its copy stays
// and no other container is asked.
func TestSessionNotAvailable(t *testing.T) {
	t.Parallel()
	server := decantest.New(t)
	targets := targetsOn(t, server, 2, "/userId", 1)
	state := movingState(targets, resolver.DualWrite)
	for _, subStatus := range []string{"1002", "1003"} {
		behind := &refusal{status: http.StatusNotFound, subStatus: subStatus}
		account := map[string]*sdk.Client{"": connect(t, server, behind)}
		client := static(t, state, account)
		if _, err := client.Upsert(t.Context(), []byte(`{"id":"x","userId":"J","n":1}`), nil); err != nil {
			t.Fatal(err)
		}
		behind.refuse(func(request *http.Request) bool {
			return request.Method == http.MethodGet && about("c0")(request)
		})
		if _, err := client.Upsert(t.Context(), []byte(`{"id":"x","userId":"J","n":2}`), nil); err == nil || isStatus(err, 404) || !strings.Contains(err.Error(), "404") {
			t.Errorf("sub-status %s: %v, want it reported, but not as the status of the item", subStatus, err)
		}
		if held(t, server, targets[1]) == "" {
			t.Errorf("sub-status %s: the copy is deleted", subStatus)
		}
		ref := azcosmos.Ref{Key: resolver.TextKey("J"), ID: "x", Target: "c0"}
		elsewhere := static(t, resolver.State{Key: state.Key, Targets: targets, Current: resolver.Plan{Scheme: resolver.Scheme{
			Kind: resolver.KindLookup, Default: "c0", Table: []resolver.LookupSpec{{Values: []resolver.Value{text("J")}, Target: "c1"}},
		}}}, account)
		if item, err := elsewhere.Read(t.Context(), ref, nil); !isStatus(err, 404) {
			t.Errorf("sub-status %s: a read gives %s, %v, want 404", subStatus, item.Value, err)
		}
	}
}

// TestExactCopies replaces an integer by the next one, which is the same double.
// The copy must change too.
func TestExactCopies(t *testing.T) {
	t.Parallel()
	server := decantest.New(t)
	targets := targetsOn(t, server, 2, "/userId", 1)
	state := movingState(targets, resolver.DualWrite)
	client := static(t, state, map[string]*sdk.Client{"": connect(t, server)})
	for _, n := range []string{"9007199254740992", "9007199254740993", "-9223372036854775807", "-9223372036854775808"} {
		if _, err := client.Upsert(t.Context(), fmt.Appendf(nil, `{"id":"x","userId":"J","deep":[{"n":%s}]}`, n), nil); err != nil {
			t.Fatal(err)
		}
		items := (&world{t: t, server: server}).contents(targets[1])
		if len(items) != 1 || !strings.Contains(string(items[0]), n) {
			t.Errorf("the copy of %s is %s", n, items)
		}
	}
}

// TestEqualDocuments compares what users wrote by value, not by text; integers
// are exact up to 64 bits. Documents are equal if and only if their hashes are.
func TestEqualDocuments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b  string
		equal bool
	}{
		{`{"n":1}`, `{"n":1.0}`, true},
		{`{"n":1}`, `{"n":1e0}`, true},
		{`{"n":0}`, `{"n":-0.0}`, true},
		{`{"n":100}`, `{"n":1E2}`, true},
		{`{"n":0.1}`, `{"n":0.10000000000000001}`, true},
		{`{"n":1}`, `{"n":"1"}`, false},
		{`{"n":1}`, `{"n":2}`, false},
		{`{"n":1.5}`, `{"n":1.25}`, false},
		{`{"n":9007199254740992}`, `{"n":9007199254740993}`, false},
		{`{"n":9007199254740992}`, `{"n":9007199254740992.0}`, true},
		{`{"n":9223372036854775807}`, `{"n":9223372036854775806}`, false},
		{`{"n":9223372036854775807}`, `{"n":9223372036854775808}`, false},
		{`{"n":9223372036854775808}`, `{"n":9223372036854775809}`, true},
		{`{"n":-9223372036854775808}`, `{"n":-9.223372036854775808e18}`, true},
		{`{"n":1e308}`, `{"n":10e307}`, true},
		{`{"n":[1,{"m":2}]}`, `{"n":[1.0,{"m":2.0}]}`, true},
		{`{"n":[1,2]}`, `{"n":[2,1]}`, false},
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`, true},
		{`{"a":1,"_ts":1,"_etag":"x","_rid":"r","_self":"s","_attachments":"a"}`, `{"a":1}`, true},
		{`{"a":{"_ts":1}}`, `{"a":{"_ts":2}}`, false},
		{`{"a":null}`, `{}`, false},
		{`{"a":"\u00e9"}`, `{"a":"é"}`, true},
		{`{"n":1e999}`, `{"n":1e998}`, false},
		{`{}`, ``, false},
		{``, ``, true},
		{`no JSON`, `no JSON`, true},
		{`[1]`, `[1]`, true},
	} {
		bytesOf := func(text string) []byte {
			if text == "" {
				return nil
			}
			return []byte(text)
		}
		a, b := bytesOf(c.a), bytesOf(c.b)
		if got := azcosmos.EqualDocuments(a, b); got != c.equal {
			t.Errorf("%s and %s: equal %v, want %v", c.a, c.b, got, c.equal)
		}
		if got := azcosmos.DocumentHash(a) == azcosmos.DocumentHash(b); got != c.equal {
			t.Errorf("the hashes of %s and %s: equal %v, want %v", c.a, c.b, got, c.equal)
		}
	}
}

// TestPatchAndBatchCopies checks that both containers have patches and batches
// when they are acknowledged, and neither has those that the service refuses.
func TestPatchAndBatchCopies(t *testing.T) {
	t.Parallel()
	server := decantest.New(t)
	targets := targetsOn(t, server, 2, "/userId", 1)
	for _, c := range []struct {
		phase resolver.Phase
		sides int // with the item
	}{{resolver.Prepare, 1}, {resolver.DualWrite, 2}, {resolver.Switch, 2}, {resolver.Clean, 1}} {
		state := movingState(targets, c.phase)
		meter := &meter{}
		client := static(t, state, map[string]*sdk.Client{"": connect(t, server, meter)})
		key := resolver.TextKey("J" + string(c.phase))
		ref, log := azcosmos.Ref{Key: key, ID: "x"}, azcosmos.Ref{Key: key, ID: "log"}
		document := func(id string, n int) []byte {
			return fmt.Appendf(nil, `{"id":%q,"userId":"J%s","n":%d}`, id, c.phase, n)
		}
		run := func(fill func(*azcosmos.Batch)) azcosmos.BatchResult {
			t.Helper()
			meter.take()
			batch := client.NewBatch()
			fill(batch)
			result, err := batch.Execute(t.Context(), nil)
			if err != nil {
				t.Fatalf("in phase %s: %v", c.phase, err)
			}
			// The SDK rounds the charge of a batch to 32 bits.
			if sent := meter.take(); result.Charge < sent*0.999 || result.Charge > sent*1.001 {
				t.Errorf("in phase %s a batch has a charge of %v, and the answers say %v", c.phase, result.Charge, sent)
			}
			return result
		}
		want := func(after, text string) {
			t.Helper()
			found := 0
			for _, target := range targets {
				for _, document := range strings.Split(held(t, server, target), " ") {
					var of struct{ UserID string }
					if json.Unmarshal([]byte(document), &of) != nil || of.UserID != "J"+string(c.phase) {
						continue
					}
					found++
					if !strings.Contains(text, document) {
						t.Errorf("in phase %s after %s, %s holds %s, want %s", c.phase, after, target.Name, document, text)
					}
				}
			}
			if documents := strings.Count(text, "{") * c.sides; found != documents {
				t.Errorf("in phase %s after %s there are %d documents, want %d", c.phase, after, found, documents)
			}
		}
		first := run(func(b *azcosmos.Batch) {
			b.Create(document("x", 1), nil)
			b.Upsert(document("log", 1), nil)
			b.Read(ref, nil)
		})
		a, l := fmt.Sprintf(`"userId":"J%s"}`, c.phase), `{"id":"log","n":1,`
		if !first.Response.Success {
			t.Fatalf("in phase %s: %+v", c.phase, first)
		}
		want("a batch", `{"id":"x","n":1,`+a+l+a)
		var patch sdk.PatchOperations
		patch.AppendIncrement("/n", 4)
		if _, err := client.Patch(t.Context(), ref, patch, nil); err != nil {
			t.Fatal(err)
		}
		want("a patch", `{"id":"x","n":5,`+a+l+a)
		if refused := run(func(b *azcosmos.Batch) {
			b.Patch(ref, patch, nil)
			b.Create(document("log", 7), nil)
		}); refused.Response.Success {
			t.Errorf("in phase %s: %+v", c.phase, refused)
		}
		want("a batch that is refused", `{"id":"x","n":5,`+a+l+a)
		run(func(b *azcosmos.Batch) {
			b.Patch(ref, patch, nil)
			b.Patch(ref, patch, nil)
			b.Delete(log, nil)
		})
		want("a batch that patches and deletes", `{"id":"x","n":13,`+a)
	}
}

// oneChange lets a process change one item and then kills it.
type oneChange struct{ dead atomic.Bool }

func (o *oneChange) Do(request *policy.Request) (*http.Response, error) {
	if o.dead.Load() {
		return nil, errKilled
	}
	o.dead.Store(request.Raw().Method != http.MethodGet)
	return request.Next()
}

// TestKilledClient kills clients between the two copies of a change that was not
// acknowledged, after Verify has passed the items. Fence updates the copies. It
// detects a deleted item because its copy is recent.
func TestKilledClient(t *testing.T) {
	t.Parallel()
	w := tenant(t, 2)
	mover := w.mover(-1)
	if err := mover.Begin(t.Context(), "move", w.targets, toOther); err != nil {
		t.Fatal(err)
	}
	ref := func(n int) azcosmos.Ref {
		return azcosmos.Ref{Key: resolver.TextKey(fmt.Sprint("J", n)), ID: fmt.Sprint("f", n)}
	}
	died := false
	kill := func(progress azcosmos.Progress) {
		if progress.Phase != resolver.Verify || len(progress.Scans) == 0 || !progress.Scans[len(progress.Scans)-1].Done || died {
			return
		}
		died = true
		for name, change := range map[string]func(*azcosmos.Client) error{
			"create": func(c *azcosmos.Client) error {
				_, err := c.Create(t.Context(), []byte(`{"id":"new","userId":"J9"}`), nil)
				return err
			},
			"replace": func(c *azcosmos.Client) error {
				_, err := c.Replace(t.Context(), []byte(`{"id":"f0","userId":"J0","changed":true}`), nil)
				return err
			},
			"delete": func(c *azcosmos.Client) error { _, err := c.Delete(t.Context(), ref(1), nil); return err },
		} {
			if err := change(w.client(&oneChange{})); !errors.Is(err, errKilled) {
				t.Errorf("%s: %v, want a dead client", name, err)
			}
		}
		if a, b := held(t, w.server, w.targets[0]), held(t, w.server, w.targets[1]); strings.Count(a, "{") != 2 || !strings.Contains(a, "new") || !strings.Contains(a, "changed") || strings.Contains(b, "new") || strings.Contains(b, "changed") {
			t.Errorf("the dead clients left %s and %s", a, b)
		}
	}
	if _, err := w.following(kill).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !died {
		t.Fatal("verify does not end")
	}
	want := `{"changed":true,"id":"f0","userId":"J0"} {"id":"new","userId":"J9"}`
	if a, b := held(t, w.server, w.targets[0]), held(t, w.server, w.targets[1]); a != "" || b != want {
		t.Errorf("after the move the containers hold %s and %s, want %s", a, b, want)
	}
}

// following returns a mover that reports its progress.
func (w *world) following(onProgress func(azcosmos.Progress)) *azcosmos.Mover {
	w.t.Helper()
	client := w.client()
	mover, err := azcosmos.NewMover(azcosmos.MoverConfig{
		Client: client, Store: w.store, Name: "users", Takeover: -1, OnProgress: onProgress,
		Settle: azcosmos.SettleClients(append(w.clients, client)...),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return mover
}
