package azcosmos_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	sdk "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/decandb/decan/decantest"
	"github.com/decandb/decan/resolver"
	"github.com/decandb/decan/resolver/azcosmos"
)

// TestUndo turns a move back from every phase before Switch, with crashes, and
// checks that it is refused later.
func TestUndo(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, seed))
	two := []resolver.Target{{Name: "c0", Database: "db", Container: "c0"}, {Name: "c1", Database: "db", Container: "c1"}}
	state := ringState("/userId", two)
	w := newWorld(t, 3, state)
	w.clients = []*azcosmos.Client{w.client()}
	w.fixed(fixedItems)
	next := resolver.Plan{Scheme: resolver.Scheme{Kind: resolver.KindRing, Targets: []string{"c0", "c1", "c2"}}}
	for _, phase := range []resolver.Phase{resolver.Prepare, resolver.DualWrite, resolver.Copy, resolver.Verify, resolver.Fence, resolver.Switch} {
		if err := w.mover(-1).Begin(t.Context(), "to-"+string(phase), w.targets, next); err != nil {
			t.Fatal(err)
		}
		mover := w.mover(-1)
		for w.phase() != phase {
			if _, more, err := mover.Step(t.Context()); err != nil || !more {
				t.Fatalf("before phase %s: %v", phase, err)
			}
			if err := azcosmos.SettleClients(w.clients...)(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := w.look(t.Context(), w.clients[0]); err != nil {
				t.Fatalf("in phase %s: %v", w.phase(), err)
			}
		}
		err := mover.Undo(t.Context())
		if phase == resolver.Switch {
			if !errors.Is(err, resolver.ErrConfig) {
				t.Errorf("undo after the switch: %v, want ErrConfig", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		w.run(r, 40)
		w.settled(nil)
	}
}

func (w *world) phase() resolver.Phase {
	w.t.Helper()
	state, _, err := resolver.LoadState(w.t.Context(), w.store, "users")
	if err != nil {
		w.t.Fatal(err)
	}
	if state.Move == nil {
		return ""
	}
	return state.Move.Phase
}

// TestVerifyRepairs damages copies in every way and checks that Verify finds and
// repairs them.
func TestVerifyRepairs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, ringState("/userId", []resolver.Target{{Name: "c0", Database: "db", Container: "c0"}}))
	w.clients = []*azcosmos.Client{w.client()}
	w.fixed(fixedItems)
	mover := w.mover(-1)
	if err := mover.Begin(t.Context(), "move", w.targets, resolver.Plan{Scheme: resolver.Scheme{Kind: resolver.KindSingle, Targets: []string{"c1"}}}); err != nil {
		t.Fatal(err)
	}
	for w.phase() != resolver.Verify {
		if _, _, err := mover.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	copies, err := connect(t, w.server).NewContainer("db", "c1")
	if err != nil {
		t.Fatal(err)
	}
	damage := []error{}
	_, err = copies.DeleteItem(t.Context(), sdk.NewPartitionKeyString("J1"), "f1", nil)
	damage = append(damage, err)
	_, err = copies.ReplaceItem(t.Context(), sdk.NewPartitionKeyString("J2"), "f2", []byte(`{"id":"f2","userId":"J2","fixed":false}`), nil)
	damage = append(damage, err)
	_, err = copies.CreateItem(t.Context(), sdk.NewPartitionKeyString("J99"), []byte(`{"id":"f99","userId":"J99"}`), nil)
	if err := errors.Join(append(damage, err)...); err != nil {
		t.Fatal(err)
	}
	progress, _, err := mover.Step(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(progress.Pairs) != 1 || progress.Repaired != 3 {
		t.Fatalf("progress = %+v, want one pair and 3 repairs", progress)
	}
	pair := progress.Pairs[0]
	if pair.Items != fixedItems || pair.HashFrom != pair.HashTo || pair.HashFrom == 0 || pair.Missing != 1 || pair.Different != 1 || pair.Surplus != 1 {
		t.Errorf("pair = %+v, want %d equal items, one missing, one different, one surplus", pair, fixedItems)
	}
	if _, err := mover.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.settled(nil)
}

// TestFence checks that a write of a key that moves waits at the fence and
// succeeds after it, while keys that stay are written. A caller that does not
// wait gets ErrMigrating.
func TestFence(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, ringState("/userId", []resolver.Target{{Name: "c0", Database: "db", Container: "c0"}}))
	w.clients = []*azcosmos.Client{w.client()}
	mover := w.mover(-1)
	next := resolver.Plan{Scheme: resolver.Scheme{Kind: resolver.KindRing, Targets: []string{"c0", "c1"}}}
	if err := mover.Begin(t.Context(), "move", w.targets, next); err != nil {
		t.Fatal(err)
	}
	for w.phase() != resolver.Fence {
		if _, _, err := mover.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := azcosmos.SettleClients(w.clients...)(t.Context()); err != nil {
		t.Fatal(err)
	}
	var moves, stays []byte
	for i := 0; moves == nil || stays == nil; i++ {
		document := fmt.Appendf(nil, `{"id":"x%d","userId":"J%d"}`, i, i)
		from, to, err := w.clients[0].View().Routing().Moves(resolver.TextKey(fmt.Sprint("J", i)))
		if err != nil {
			t.Fatal(err)
		}
		if from.Name == to.Name {
			stays = document
		} else {
			moves = document
		}
	}
	if _, err := w.clients[0].Create(t.Context(), stays, nil); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.clients[0].Create(ctx, moves, nil); !errors.Is(err, resolver.ErrMigrating) {
		t.Errorf("a write at the fence: %v, want ErrMigrating", err)
	}
	written := make(chan error)
	go func() {
		_, err := w.clients[0].Create(t.Context(), moves, nil)
		written <- err
	}()
	if _, err := mover.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil {
		t.Errorf("the write that waited: %v", err)
	}
}

// TestCollision stops a move that would put an item in the place of another one.
func TestCollision(t *testing.T) {
	t.Parallel()
	state := resolver.State{
		Key:     resolver.KeySpec{Paths: []string{"/region"}},
		Targets: []resolver.Target{{Name: "c0", Database: "db", Container: "c0"}, {Name: "c1", Database: "db", Container: "c1"}},
		Current: resolver.Plan{Scheme: resolver.Scheme{Kind: resolver.KindLookup, Table: []resolver.LookupSpec{
			{Values: []resolver.Value{text("no")}, Target: "c0"}, {Values: []resolver.Value{text("se")}, Target: "c1"},
		}}},
	}
	w := newWorld(t, 2, state)
	live, err := resolver.Watch(t.Context(), resolver.LiveConfig{Store: w.store, Name: "users", Poll: -1, Lease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	client, err := azcosmos.New(azcosmos.Config{Accounts: map[string]*sdk.Client{"": connect(t, w.server)}, View: live, PartitionKey: []string{"/userId"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, region := range []string{"no", "se"} {
		if _, err := client.Create(t.Context(), fmt.Appendf(nil, `{"id":"same","userId":"J","region":%q}`, region), nil); err != nil {
			t.Fatal(err)
		}
	}
	mover, err := azcosmos.NewMover(azcosmos.MoverConfig{Client: client, Store: w.store, Name: "users", Settle: azcosmos.SettleClients(client)})
	if err != nil {
		t.Fatal(err)
	}
	if err := mover.Begin(t.Context(), "merge", nil, resolver.Plan{Scheme: resolver.Scheme{Kind: resolver.KindSingle, Targets: []string{"c1"}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := mover.Run(t.Context()); !errors.Is(err, azcosmos.ErrCollision) {
		t.Fatalf("Run = %v, want ErrCollision", err)
	}
	if err := mover.Undo(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := mover.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, target := range w.targets {
		if items := w.contents(target); len(items) != 1 {
			t.Errorf("%s holds %d items after the undo, want its one", target.Name, len(items))
		}
	}
}

// TestDualWrite checks that every acknowledged change is in both containers from
// DualWrite to Switch, and in one of them before and after.
func TestDualWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, ringState("/userId", []resolver.Target{{Name: "c0", Database: "db", Container: "c0"}}))
	w.clients = []*azcosmos.Client{w.client()}
	client := w.clients[0]
	mover := w.mover(-1)
	if err := mover.Begin(t.Context(), "move", w.targets, resolver.Plan{Scheme: resolver.Scheme{Kind: resolver.KindSingle, Targets: []string{"c1"}}}); err != nil {
		t.Fatal(err)
	}
	want := map[resolver.Phase][2]int{
		resolver.Prepare: {1, 0}, resolver.DualWrite: {1, 1}, resolver.Copy: {1, 1}, resolver.Verify: {1, 1},
		resolver.Switch: {1, 1}, resolver.Clean: {0, 1}, "": {0, 1},
	}
	for {
		if err := azcosmos.SettleClients(client)(t.Context()); err != nil {
			t.Fatal(err)
		}
		phase := w.phase()
		if counts, written := want[phase]; written {
			w.changes(client, phase, counts)
			delete(want, phase)
		}
		if phase == "" {
			break
		}
		if _, _, err := mover.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(want) != 0 {
		t.Errorf("these phases were not reached: %v", want)
	}
}

// changes creates, replaces and deletes an item, and checks both containers
// after each change.
func (w *world) changes(client *azcosmos.Client, phase resolver.Phase, counts [2]int) {
	w.t.Helper()
	ref := azcosmos.Ref{Key: resolver.TextKey("J"), ID: "x"}
	for version, change := range []func() error{
		func() error {
			_, err := client.Create(w.t.Context(), []byte(`{"id":"x","userId":"J","version":0}`), nil)
			return err
		},
		func() error {
			_, err := client.Replace(w.t.Context(), []byte(`{"id":"x","userId":"J","version":1}`), nil)
			return err
		},
		func() error {
			_, err := client.Upsert(w.t.Context(), []byte(`{"id":"x","userId":"J","version":2}`), nil)
			return err
		},
		func() error {
			_, err := client.Delete(w.t.Context(), ref, nil)
			return err
		},
	} {
		if err := change(); err != nil {
			w.t.Fatalf("in phase %s: %v", phase, err)
		}
		for i, target := range w.targets {
			items := w.contents(target)
			deleted := version == 3
			if deleted && len(items) != 0 || !deleted && len(items) != counts[i] {
				w.t.Errorf("in phase %s after change %d, %s holds %d items", phase, version, target.Name, len(items))
			}
			for _, item := range items {
				var got struct{ Version int }
				if err := json.Unmarshal(item, &got); err != nil || got.Version != version {
					w.t.Errorf("in phase %s after change %d, %s holds %s", phase, version, target.Name, item)
				}
			}
		}
	}
}

// TestReadModes reads an item of which both containers hold a version (S183).
func TestReadModes(t *testing.T) {
	t.Parallel()
	server := decantest.New(t)
	targets := targetsOn(t, server, 2, "/userId", 1)
	account := map[string]*sdk.Client{"": connect(t, server)}
	state := ringState("/userId", targets[:1])
	state.Targets = targets
	next := resolver.Plan{Scheme: resolver.Scheme{Kind: resolver.KindSingle, Targets: []string{"c1"}}}
	for i, name := range []string{"old", "new"} {
		in := resolver.Plan{Scheme: resolver.Scheme{Kind: resolver.KindSingle, Targets: []string{targets[i].Name}}}
		alone := static(t, resolver.State{Key: state.Key, Targets: targets, Current: in}, account)
		for _, id := range []string{"both", name} {
			if _, err := alone.Create(t.Context(), fmt.Appendf(nil, `{"id":%q,"userId":"J","side":%q}`, id, name), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		phase resolver.Phase
		read  resolver.ReadMode
		rows  []string
	}{
		{resolver.Copy, "", []string{`"both-old"`, `"old-old"`}},
		{resolver.Switch, "", []string{`"both-new"`, `"new-new"`}},
		{resolver.Verify, resolver.ReadBoth, []string{`"both-new"`, `"new-new"`, `"old-old"`}},
		{resolver.Verify, resolver.ReadNone, nil},
	} {
		state.Move = &resolver.Move{ID: "m", Phase: c.phase, Read: c.read, Next: next}
		client := static(t, state, account)
		query := client.Query("SELECT VALUE CONCAT(c.id, '-', c.side) FROM c ORDER BY c.id", resolver.All[resolver.Key](), nil)
		items, _, err := query.Items(t.Context())
		var rows []string
		for _, item := range items {
			rows = append(rows, string(item))
		}
		if !slices.Equal(rows, c.rows) || errors.Is(err, resolver.ErrMigrating) != (c.read == resolver.ReadNone) {
			t.Errorf("%s %s: rows %s, %v, want %s", c.phase, c.read, rows, err, c.rows)
		}
		_, err = client.Read(t.Context(), azcosmos.Ref{Key: resolver.TextKey("J"), ID: "old"}, nil)
		if isStatus(err, 404) != (c.phase == resolver.Switch) || errors.Is(err, resolver.ErrMigrating) != (c.read == resolver.ReadNone) {
			t.Errorf("%s %s: read of the old item: %v", c.phase, c.read, err)
		}
	}
}

// sides creates two containers, an old one and a new one, with the given items,
// and returns a function that opens a client in a phase of the move from one to
// the other.
func sides(t *testing.T, old, next []string) func(phase resolver.Phase, read resolver.ReadMode, policies ...policy.Policy) *azcosmos.Client {
	t.Helper()
	server := decantest.New(t)
	targets := targetsOn(t, server, 2, "/userId", 1)
	single := func(i int) resolver.Plan {
		return resolver.Plan{Scheme: resolver.Scheme{Kind: resolver.KindSingle, Targets: []string{targets[i].Name}}}
	}
	state := resolver.State{Key: resolver.KeySpec{Paths: []string{"/userId"}}, Targets: targets}
	account := map[string]*sdk.Client{"": connect(t, server)}
	for i, ids := range [][]string{old, next} {
		state.Current = single(i)
		for _, id := range ids {
			document := fmt.Appendf(nil, `{"id":%q,"userId":"J","side":%q}`, id, []string{"old", "new"}[i])
			if _, err := static(t, state, account).Create(t.Context(), document, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	return func(phase resolver.Phase, read resolver.ReadMode, policies ...policy.Policy) *azcosmos.Client {
		t.Helper()
		state.Current, state.Move = single(0), &resolver.Move{ID: "m", Phase: phase, Read: read, Next: single(1)}
		return static(t, state, map[string]*sdk.Client{"": connect(t, server, policies...)})
	}
}

// TestReadBothEnds has a copy whose item was deleted after writes to its side
// ended. In the last phases it must not be read, even if the read mode asks for
// both copies (S183).
func TestReadBothEnds(t *testing.T) {
	t.Parallel()
	in := sides(t, []string{"item", "left-old"}, []string{"item", "left-new"})
	for _, c := range []struct {
		phase resolver.Phase
		gone  string
		rows  []string
	}{
		{resolver.Clean, "left-old", []string{`"item-new"`, `"left-new-new"`}},
		{resolver.Undo, "left-new", []string{`"item-old"`, `"left-old-old"`}},
	} {
		client := in(c.phase, resolver.ReadBoth)
		if item, err := client.Read(t.Context(), azcosmos.Ref{Key: resolver.TextKey("J"), ID: c.gone}, nil); !isStatus(err, 404) {
			t.Errorf("%s: %s is read as %s, %v, want 404", c.phase, c.gone, item.Value, err)
		}
		if rows := all(t, client, "SELECT VALUE CONCAT(c.id, '-', c.side) FROM c ORDER BY c.id", nil); !slices.Equal(rows, c.rows) {
			t.Errorf("%s: rows %s, want %s", c.phase, rows, c.rows)
		}
	}
}

// stamped sets the timestamp of the items of a container in responses.
func stamped(container string, second int) policyFunc {
	times := regexp.MustCompile(`"(_ts|t)":\d+`)
	return func(request *policy.Request) (*http.Response, error) {
		response, err := request.Next()
		if err != nil || !strings.Contains(request.Raw().URL.Path, "/colls/"+container+"/docs") {
			return response, err
		}
		body, err := io.ReadAll(response.Body)
		if err := errors.Join(err, response.Body.Close()); err != nil {
			return nil, err
		}
		body = times.ReplaceAll(body, fmt.Appendf(nil, `"$1":%d`, second))
		response.Body = io.NopCloser(bytes.NewReader(body))
		return response, nil
	}
}

// TestNewerCopy reads both copies of an item: the one with the later timestamp
// counts, or the one of the next plan if they are equal (S183).
func TestNewerCopy(t *testing.T) {
	t.Parallel()
	in := sides(t, []string{"both"}, []string{"both"})
	for _, c := range []struct {
		old, next int
		want      string
	}{{100, 101, "new"}, {101, 100, "old"}, {100, 100, "new"}} {
		client := in(resolver.Fence, resolver.ReadBoth, stamped("c0", c.old), stamped("c1", c.next))
		if rows := all(t, client, "SELECT VALUE c.side FROM c", nil); !slices.Equal(rows, []string{fmt.Sprintf("%q", c.want)}) {
			t.Errorf("of %d and %d a query gives %s, want %s", c.old, c.next, rows, c.want)
		}
		item, err := client.Read(t.Context(), azcosmos.Ref{Key: resolver.TextKey("J"), ID: "both"}, nil)
		if err != nil || !strings.Contains(string(item.Value), fmt.Sprintf(`"side":%q`, c.want)) {
			t.Errorf("of %d and %d a read gives %s, %v, want %s", c.old, c.next, item.Value, err, c.want)
		}
	}
}

// TestMoveHierarchical moves items of containers with a hierarchical partition
// key, in two accounts, between a ring that uses one level of the key and one
// that uses both.
func TestMoveHierarchical(t *testing.T) {
	t.Parallel()
	targets := []resolver.Target{{Name: "h0", Database: "db", Container: "h0"}, {Name: "h1", Account: "second", Database: "db", Container: "h1"}, {Name: "h2", Database: "db", Container: "h2"}}
	first := 0
	state := resolver.State{
		Key: resolver.KeySpec{Paths: []string{"/tenant", "/user"}}, Targets: targets[:2],
		Current: resolver.Plan{Scheme: resolver.Scheme{Kind: resolver.KindRing, Level: &first, Targets: []string{"h0", "h1"}}},
	}
	w := newWorld(t, 0, state)
	w.others["second"] = decantest.New(t)
	for i, server := range []*decantest.Server{w.server, w.others["second"], w.server} {
		server.Container("db", fmt.Sprintf(`{"id":%q,"partitionKey":{"paths":["/tenant","/user"],"kind":"MultiHash","version":2}}`, targets[i].Container), 2)
	}
	w.targets = targets
	client := w.client()
	w.clients = []*azcosmos.Client{client}
	for i := range fixedItems {
		if _, err := client.Create(t.Context(), fmt.Appendf(nil, `{"id":"f%d","tenant":"t%d","user":%d}`, i, i%4, i), nil); err != nil {
			t.Fatal(err)
		}
	}
	next := resolver.Plan{Scheme: resolver.Scheme{Kind: resolver.KindRing, Targets: []string{"h0", "h1", "h2"}}}
	if err := w.move("both-levels", next); err != nil {
		t.Fatal(err)
	}
	if err := azcosmos.SettleClients(client)(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.settled(nil)
	one := resolver.TextKey("t1")
	options := azcosmos.QueryOptions{PartitionKey: &one}
	items, _, err := client.Query("SELECT VALUE c.id FROM c", resolver.Keys(one), &options).Items(t.Context())
	if err != nil || len(items) != fixedItems/4 {
		t.Errorf("tenant t1 has %d items, %v, want %d", len(items), err, fixedItems/4)
	}
}
