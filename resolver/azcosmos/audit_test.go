package azcosmos_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/decandb/decan/decantest"
	"github.com/decandb/decan/resolver"
	"github.com/decandb/decan/resolver/azcosmos"
)

// TestAudit follows the counts and hashes of a move from phase to phase: the
// total never changes, and both sides are equal from Fence to Switch. It then
// checks that an audit finds a missing copy, a different one, a surplus one and
// a stray.
func TestAudit(t *testing.T) {
	t.Parallel()
	w := tenant(t, 20)
	client := w.clients[0]
	audit := func() azcosmos.Audit {
		t.Helper()
		a, err := client.Audit(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	before := audit()
	if before.Total.Items != 20 || before.Total.Hash == 0 || len(before.Containers) != 1 || len(before.Pairs) != 0 || before.Charge <= 0 {
		t.Errorf("before the move: %+v", before)
	}
	mover := w.mover(-1)
	if err := mover.Begin(t.Context(), "move", w.targets, resolver.Plan{Scheme: resolver.Scheme{Kind: resolver.KindRing, Targets: []string{"c0", "c1"}}}); err != nil {
		t.Fatal(err)
	}
	for phase := w.phase(); phase != ""; phase = w.phase() {
		a := audit()
		if a.Total != before.Total || a.Phase != phase {
			t.Errorf("in phase %s: %+v in phase %s, want %+v", phase, a.Total, a.Phase, before.Total)
		}
		compared := len(a.Pairs) == 1 && a.Pairs[0].From == "c0" && a.Pairs[0].To == "c1"
		if !compared {
			t.Errorf("in phase %s: pairs %+v", phase, a.Pairs)
		} else if settled := phase == resolver.Verify || phase == resolver.Fence || phase == resolver.Switch || phase == resolver.Clean; a.Pairs[0].Equal() != settled {
			t.Errorf("in phase %s: %+v, equal %v, want %v", phase, a.Pairs[0], a.Pairs[0].Equal(), settled)
		}
		if phase == resolver.Fence {
			w.damage(client, audit)
		}
		if _, _, err := mover.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.View().Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := audit(); after.Total != before.Total || len(after.Pairs) != 0 || len(after.Containers) != 2 || after.Fingerprint == before.Fingerprint {
		t.Errorf("after the move: %+v", after)
	}
	stray := fmt.Appendf(nil, `{"id":"stray","userId":"J0"}`)
	owner, err := client.View().Routing().ForWrite(resolver.TextKey("J0"))
	if err != nil {
		t.Fatal(err)
	}
	for i, target := range w.targets {
		if target.Name == owner.Name {
			continue
		}
		if _, err := w.raw(target).CreateItem(t.Context(), sdk.NewPartitionKeyString("J0"), stray, nil); err != nil {
			t.Fatal(err)
		}
		if a := audit(); a.Containers[i].Strays != 1 || a.Containers[i].Example != "stray" || a.Total != before.Total {
			t.Errorf("with a stray in %s: %+v", target.Name, a)
		}
	}
}

// damage changes copies without the client, checks that the audit finds it, and
// restores them.
func (w *world) damage(client *azcosmos.Client, audit func() azcosmos.Audit) {
	w.t.Helper()
	copies := w.raw(w.targets[1])
	number := -1
	for i := range 20 {
		from, to, err := client.View().Routing().Moves(resolver.TextKey(fmt.Sprint("J", i)))
		if err != nil {
			w.t.Fatal(err)
		}
		if from.Name != to.Name {
			number = i
		}
	}
	key, id := sdk.NewPartitionKeyString(fmt.Sprint("J", number)), fmt.Sprint("f", number)
	original := fmt.Appendf(nil, `{"id":%q,"userId":"J%d","fixed":true}`, id, number)
	for _, c := range []struct {
		name      string
		do, back  func() error
		fewer     int64
		different bool
	}{
		{
			name: "a different copy", different: true,
			do: func() error {
				_, err := copies.ReplaceItem(w.t.Context(), key, id, fmt.Appendf(nil, `{"id":%q,"userId":"J%d","fixed":false}`, id, number), nil)
				return err
			},
			back: func() error {
				_, err := copies.ReplaceItem(w.t.Context(), key, id, original, nil)
				return err
			},
		},
		{
			name: "a missing copy", fewer: 1,
			do: func() error {
				_, err := copies.DeleteItem(w.t.Context(), key, id, nil)
				return err
			},
			back: func() error {
				_, err := copies.CreateItem(w.t.Context(), key, original, nil)
				return err
			},
		},
		{
			name: "a surplus copy", fewer: -1,
			do: func() error {
				_, err := copies.CreateItem(w.t.Context(), key, fmt.Appendf(nil, `{"id":"new","userId":"J%d"}`, number), nil)
				return err
			},
			back: func() error {
				_, err := copies.DeleteItem(w.t.Context(), key, "new", nil)
				return err
			},
		},
	} {
		if err := c.do(); err != nil {
			w.t.Fatal(err)
		}
		pair := audit().Pairs[0]
		if pair.Equal() || pair.Items.Items-pair.Copies.Items != c.fewer {
			w.t.Errorf("%s: %+v", c.name, pair)
		}
		if err := c.back(); err != nil {
			w.t.Fatal(err)
		}
		if pair := audit().Pairs[0]; !pair.Equal() {
			w.t.Errorf("%s repaired: %+v", c.name, pair)
		}
	}
}

// raw returns the SDK's client of a target.
func (w *world) raw(target resolver.Target) *sdk.ContainerClient {
	w.t.Helper()
	container, err := connect(w.t, w.server).NewContainer(target.Database, target.Container)
	if err != nil {
		w.t.Fatal(err)
	}
	return container
}

// TestAuditRestart changes the state during an audit.
func TestAuditRestart(t *testing.T) {
	t.Parallel()
	w := tenant(t, 3)
	begun := false
	_, err := w.clients[0].Audit(t.Context(), func(string, int64) {
		if begun {
			return
		}
		begun = true
		if err := w.mover(-1).Begin(t.Context(), "move", w.targets, toOther); err != nil {
			t.Error(err)
		}
	})
	if !errors.Is(err, azcosmos.ErrRestart) || !begun {
		t.Errorf("an audit over a change of the state: %v, want ErrRestart", err)
	}
}

// TestAuditSpillover checks that items in every container of a spillover are
// accepted.
func TestAuditSpillover(t *testing.T) {
	t.Parallel()
	w := tenant(t, 4)
	state := resolver.State{Key: resolver.KeySpec{Paths: []string{"/userId"}}, Targets: w.targets, Current: resolver.Plan{Scheme: resolver.Scheme{
		Kind: resolver.KindSpillover, Prefix: "c", Targets: []string{"c0", "c1"}, MaxDocuments: 5,
	}}}
	audit, err := static(t, state, map[string]*sdk.Client{"": connect(t, w.server)}).Audit(t.Context(), nil)
	if err != nil || audit.Total.Items != 4 || audit.Containers[0].Strays != 0 {
		t.Errorf("%+v, %v, want 4 items and no strays", audit, err)
	}
}

// TestAuditUnrouted checks that items are counted by the plan used for reads. An
// item that only the next plan routes is unrouted before the switch; after it,
// the item is in its place, or a stray in the old container.
func TestAuditUnrouted(t *testing.T) {
	t.Parallel()
	server := decantest.New(t)
	targets := targetsOn(t, server, 2, "/userId", 1)
	account := map[string]*sdk.Client{"": connect(t, server)}
	lookup := func(target string, keys ...string) resolver.Plan {
		row := resolver.LookupSpec{Target: target}
		for _, key := range keys {
			row.Values = append(row.Values, text(key))
		}
		return resolver.Plan{Scheme: resolver.Scheme{Kind: resolver.KindLookup, Table: []resolver.LookupSpec{row}}}
	}
	state := resolver.State{Key: resolver.KeySpec{Paths: []string{"/userId"}}, Targets: targets}
	for _, put := range [][2]string{{"c0", "J"}, {"c0", "K"}, {"c1", "J"}, {"c1", "K"}, {"c1", "L"}} {
		state.Current = lookup(put[0], put[1])
		if _, err := static(t, state, account).Create(t.Context(), fmt.Appendf(nil, `{"id":"x","userId":%q}`, put[1]), nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		phase                 resolver.Phase
		total                 int64
		straysOld, straysNew  int64
		unroutedOld, unrouted int64
	}{
		{resolver.Verify, 1, 0, 0, 1, 2},
		{resolver.Switch, 2, 1, 0, 0, 1},
		{resolver.Clean, 2, 1, 0, 0, 1},
	} {
		state.Current, state.Move = lookup("c0", "J"), &resolver.Move{ID: "m", Phase: c.phase, Next: lookup("c1", "J", "K")}
		a, err := static(t, state, account).Audit(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		old, next := a.Containers[0], a.Containers[1]
		if a.Total.Items != c.total || old.Strays != c.straysOld || next.Strays != c.straysNew || old.Unrouted != c.unroutedOld || next.Unrouted != c.unrouted {
			t.Errorf("%s: %d items; old %+v, new %+v, want %+v", c.phase, a.Total.Items, old, next, c)
		}
	}
}

// TestConnect checks that invalid accounts are refused, and that Reason makes
// errors of the service readable.
func TestConnect(t *testing.T) {
	t.Parallel()
	w := tenant(t, 1)
	clients, err := azcosmos.Connect(map[string]azcosmos.Account{"eu": {Endpoint: w.server.Endpoint(), Key: w.server.Key()}})
	if err != nil || clients["eu"] == nil {
		t.Fatalf("Connect: %v, %v", clients, err)
	}
	container, err := clients["eu"].NewContainer("db", "none")
	if err != nil {
		t.Fatal(err)
	}
	_, err = container.ReadItem(t.Context(), sdk.NewPartitionKeyString("x"), "x", nil)
	text := azcosmos.Reason(fmt.Errorf("read it: %w", err))
	if !strings.HasPrefix(text, "read it: GET http") || !strings.Contains(text, "/docs/x: 404 Not Found: ") || strings.ContainsAny(text, "\r\n{") {
		t.Errorf("Reason = %q", text)
	}
	if text := azcosmos.Reason(errors.New("two\nlines")); text != "two lines" {
		t.Errorf("Reason = %q", text)
	}
	for _, bad := range []azcosmos.Account{
		{}, {Endpoint: "127.0.0.1:8081", Key: "AAAA"}, {Endpoint: "ftp://x", Key: "AAAA"}, {Endpoint: "http://", Key: "AAAA"}, {Endpoint: "http://x", Key: "no base64!"},
	} {
		if _, err := azcosmos.Connect(map[string]azcosmos.Account{"bad": bad}); !errors.Is(err, resolver.ErrConfig) || !strings.Contains(err.Error(), `account "bad"`) {
			t.Errorf("%+v: %v, want an ErrConfig that names the account", bad, err)
		}
	}
	failing := &http.Client{Transport: refusing{}}
	if clients, err = azcosmos.ConnectWith(map[string]azcosmos.Account{"eu": {Endpoint: w.server.Endpoint(), Key: w.server.Key()}}, failing); err != nil {
		t.Fatal(err)
	}
	if container, err = clients["eu"].NewContainer("db", "none"); err != nil {
		t.Fatal(err)
	}
	if _, err = container.ReadItem(t.Context(), sdk.NewPartitionKeyString("x"), "x", nil); !errors.Is(err, errRefusing) {
		t.Errorf("with a transport of its own: %v", err)
	}
}

// refusing is a transport that sends nothing.
type refusing struct{}

var errRefusing = errors.New("this transport sends nothing")

func (refusing) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, lasting{errRefusing}
}

// lasting is an error that the SDK does not try again.
type lasting struct{ error }

func (lasting) NonRetriable() {}

func (e lasting) Unwrap() error { return e.error }

// TestTemplateOf creates a missing container like an existing one.
func TestTemplateOf(t *testing.T) {
	t.Parallel()
	w := tenant(t, 1)
	like := w.targets[0]
	wanted := []resolver.Target{like, {Name: "n", Database: "other", Container: "n"}}
	template, err := w.clients[0].TemplateOf(t.Context(), like)
	if err != nil {
		t.Fatal(err)
	}
	managed := azcosmos.Managed{Client: w.clients[0], Template: template}
	for _, made := range []int{1, 0} {
		changes, err := managed.Plan(t.Context(), wanted)
		if err != nil || len(changes) != made {
			t.Fatalf("the plan is %v, %v, want %d changes", changes, err, made)
		}
		if err := managed.Apply(t.Context(), changes); err != nil {
			t.Fatal(err)
		}
	}
	paths, err := w.clients[0].PartitionKeyPaths(t.Context(), wanted[1])
	if err != nil || len(paths) != 1 || paths[0] != "/userId" {
		t.Errorf("the new container is partitioned by %v, %v", paths, err)
	}
	if n, err := w.clients[0].Items(t.Context(), like); err != nil || n != 1 {
		t.Errorf("Items = %d, %v, want 1", n, err)
	}
}
