package resolver_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/decandb/decan/resolver"
	"github.com/decandb/decan/resolver/resolvertest"
)

// regionState routes by region first and then by user (S190).
const regionState = `{
  "version": 1, "revision": 7,
  "key": {"paths": ["/region", "/userId"]},
  "targets": [{"name": "no1", "labels": {"zone": "x", "zone2": "y"}}, {"name": "no2", "account": "north", "database": "d", "container": "c"}, {"name": "south"}],
  "current": {
    "scheme": {"kind": "lookup", "level": 0, "table": [{"values": ["Norway", "Denmark", "Sweden"], "target": "scandinavia"}, {"values": ["Italy", 7, null], "target": "south"}]},
    "behind": {"scandinavia": {"kind": "ring", "level": 1, "targets": ["no1", "no2"]}}
  }
}`

func regions(t testing.TB) *resolver.Routing {
	t.Helper()
	state, err := resolver.ParseState([]byte(regionState))
	if err != nil {
		t.Fatal(err)
	}
	routing, err := resolver.Open(state, resolver.Registry{})
	if err != nil {
		t.Fatal(err)
	}
	return routing
}

// TestChain resolves lookup by region and then hash by user (S190).
func TestChain(t *testing.T) {
	routing := regions(t)
	read := func(s resolver.Selection[resolver.Key]) []string {
		return names(must[[]resolver.Target](t)(routing.ForRead(s)))
	}
	seen := map[string]bool{}
	for i := range 50 {
		key := resolver.TextKey("Norway", fmt.Sprint("J", i))
		owner := must[resolver.Target](t)(routing.ForWrite(key)).Name
		if seen[owner] = true; !slices.Equal(read(resolver.Keys(key)), []string{owner}) {
			t.Errorf("%v is written to %s and read from %q", key, owner, read(resolver.Keys(key)))
		}
	}
	if len(seen) != 2 || !seen["no1"] || !seen["no2"] {
		t.Errorf("users of Norway are in %v", seen)
	}
	for _, c := range []struct {
		name      string
		selection resolver.Selection[resolver.Key]
		want      []string
	}{
		{"all", resolver.All[resolver.Key](), []string{"no1", "no2", "south"}},
		{"a prefix", resolver.Keys(resolver.TextKey("Norway")), []string{"no1", "no2"}},
		{"a prefix with nothing below it", resolver.Keys(resolver.TextKey("Italy")), []string{"south"}},
		{"unknown", resolver.Keys(resolver.TextKey("Mars", "x")), []string{}},
		{"an interval", resolver.Between(resolver.Closed(resolver.TextKey("Norway", "a"), resolver.TextKey("Norway", "b"))), []string{"no1", "no2", "south"}},
	} {
		if got := read(c.selection); !slices.Equal(got, c.want) {
			t.Errorf("%s is read from %q, want %q", c.name, got, c.want)
		}
	}
	if _, err := routing.ForWrite(resolver.TextKey("Norway")); !errors.Is(err, resolver.ErrKey) {
		t.Errorf("writing a prefix: %v, want ErrKey", err)
	}
	long := resolver.TextKey("Norway", "J1", "more")
	if _, err := routing.ForWrite(long); !errors.Is(err, resolver.ErrKey) {
		t.Errorf("writing a key of three levels: %v, want ErrKey", err)
	}
	if _, err := routing.ForRead(resolver.Keys(long)); !errors.Is(err, resolver.ErrKey) {
		t.Errorf("reading a key of three levels: %v, want ErrKey", err)
	}
}

// TestStateRoundTrip writes and reads states: the bytes are canonical, defaults
// are explicit, and 10,000 keys route alike (S181, S189, S195).
func TestStateRoundTrip(t *testing.T) {
	for _, text := range []string{
		regionState,
		`{"key":{"paths":["/u"]},"targets":[{"name":"b","weight":2},{"name":"a"}],"current":{"scheme":{"kind":"ring","targets":["b","a"]}}}`,
		`{"version":1,"key":{"paths":["/u"]},"targets":[{"name":"a"},{"name":"b"}],"current":{"scheme":{"kind":"ring","targets":["a","b"],"hash":"murmur3-32","layout":"chain-predecessor","virtualNodes":16}}}`,
		`{"key":{"paths":["/u"]},"targets":[{"name":"a"},{"name":"b"}],"current":{"scheme":{"kind":"rendezvous","targets":["a","b"]}},"move":{"id":"m","phase":"copy","read":"both","next":{"scheme":{"kind":"jump","targets":["a"]}}}}`,
		`{"key":{"paths":["/u"]},"targets":[{"name":"a"},{"name":"b"}],"current":{"scheme":{"kind":"range","type":"string","ranges":[{"high":"m","target":"a"},{"low":"m","target":"b"}]}}}`,
		`{"key":{"paths":["/u"]},"targets":[{"name":"l-1"}],"current":{"scheme":{"kind":"spillover","prefix":"l-","targets":["l-1"],"maxDocuments":5}}}`,
	} {
		state, err := resolver.ParseState([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		canonical := must[[]byte](t)(state.Append(nil))
		again := must[resolver.State](t)(resolver.ParseState(canonical))
		if second := must[[]byte](t)(again.Append(nil)); !bytes.Equal(second, canonical) {
			t.Errorf("canonical forms differ:\n%s\n%s", canonical, second)
		}
		a, b := must[*resolver.Routing](t)(resolver.Open(state, resolver.Registry{})), must[*resolver.Routing](t)(resolver.Open(again, resolver.Registry{}))
		if a.Fingerprint != b.Fingerprint || len(a.Fingerprint) != 32 {
			t.Errorf("fingerprints %s and %s", a.Fingerprint, b.Fingerprint)
		}
		for i := range 10_000 {
			key := resolver.TextKey([]string{"Norway", "Italy"}[i%2], fmt.Sprint("J", i))
			if state.Key.Paths[0] == "/u" {
				key = resolver.TextKey(fmt.Sprint("J", i))
			}
			x, errX := a.ForWrite(key)
			y, errY := b.ForWrite(key)
			if x.Name != y.Name || errX != nil || errY != nil {
				t.Fatalf("%v goes to %s, %v and %s, %v", key, x.Name, errX, y.Name, errY)
			}
		}
	}
	state := must[resolver.State](t)(resolver.ParseState([]byte(`{"key":{"paths":["/u"]},"targets":[{"name":"a"}],"current":{"scheme":{"kind":"ring","targets":["a"]}}}`)))
	want := `{"version":1,"revision":0,"key":{"paths":["/u"]},"targets":[{"name":"a","weight":1}],"current":{"scheme":{"kind":"ring","targets":["a"],"hash":"xxhash64","layout":"spread","virtualNodes":128}}}`
	if got := string(must[[]byte](t)(state.Append(nil))); got != want {
		t.Errorf("canonical form %s\nwant %s", got, want)
	}
	first := must[string](t)(state.Fingerprint())
	state.Revision = 9
	if again := must[string](t)(state.Fingerprint()); again != first {
		t.Error("the revision is in the fingerprint")
	}
	weighted := state
	weighted.Targets = []resolver.Target{{Name: "a", Weight: 1}}
	if again := must[string](t)(weighted.Fingerprint()); again != first {
		t.Error("a weight of 1 and the default have two fingerprints")
	}
	if state.Targets[0].Weight = 0; must[string](t)(state.Fingerprint()) != first || state.Targets[0].Weight != 0 {
		t.Error("the fingerprint of a state without weights differs, or computing it changed the state")
	}
	state.Current.Scheme.VirtualNodes = 16
	if other := must[string](t)(state.Fingerprint()); other == first {
		t.Error("the virtual nodes are not in the fingerprint")
	}
}

// TestStateRefusals checks that a state which is not understood completely is
// rejected.
func TestStateRefusals(t *testing.T) {
	good := `{"version":1,"key":{"paths":["/u"]},"targets":[{"name":"a"},{"name":"b"}],"current":{"scheme":{"kind":"ring","targets":["a","b"]}}}`
	for _, fine := range []string{good, strings.Replace(good, `"targets":["a","b"]}`, `"targets":["a","b"]},"behind":{"unnamed":{"kind":"single","targets":["b"]}}`, 1)} {
		must[*resolver.Routing](t)(resolver.Open(must[resolver.State](t)(resolver.ParseState([]byte(fine))), resolver.Registry{}))
	}
	for _, c := range [][2]string{
		{`"version":1`, `"version":2`},
		{`"version":1`, `"version":1,"extra":1`},
		{`"version":1`, `"version":1,"version":1`},
		{`"version":1`, `"Version":1`},
		{`"kind":"ring"`, `"kind":"circle"`},
		{`"kind":"ring"`, `"kind":"ring","hash":"sha1"`},
		{`"kind":"ring"`, `"kind":"ring","layout":"square"`},
		{`"kind":"ring"`, `"kind":"ring","table":[{"values":["x"],"target":"a"}]`},
		{`"kind":"ring"`, `"kind":"ring","virtualNodes":-1`},
		{`"kind":"ring"`, `"kind":"ring","level":9`},
		{`"kind":"ring"`, `"kind":"ring","level":1`},
		{`"version":1`, `"version":1,"moves":-1`},
		{`{"paths":["/u"]},"targets":[{"name":"a"},{"name":"b"}],"current":{"scheme":{"kind":"ring","targets":["a","b"]}`, `{"paths":["/u","/v"]},"targets":[{"name":"a"}],"current":{"scheme":{"kind":"lookup","default":"a"}`},
		{`{"paths":["/u"]},"targets":[{"name":"a"},{"name":"b"}],"current":{"scheme":{"kind":"ring","targets":["a","b"]}`, `{"paths":["/u","/v"]},"targets":[{"name":"a"}],"current":{"scheme":{"kind":"range","type":"string","ranges":[{"target":"a"}]}`},
		{`["a","b"]`, `["a","c"]`},
		{`["a","b"]`, `[]`},
		{`{"name":"b"}`, `{"name":"a"}`},
		{`{"name":"b"}`, `{"name":"b","weight":-1}`},
		{`{"name":"b"}`, `{"name":""}`},
		{`{"paths":["/u"]}`, `{}`},
		{`{"paths":["/u"]}`, `{"paths":["/u"],"function":"f"}`},
		{`{"paths":["/u"]}`, `{"paths":["u"]}`},
		{`{"paths":["/u"]}`, `{"function":"f"}`},
		{`"current":`, `"move":{"id":"m","phase":"jump","next":{"scheme":{"kind":"single","targets":["a"]}}},"current":`},
		{`"current":`, `"move":{"id":"","phase":"copy","next":{"scheme":{"kind":"single","targets":["a"]}}},"current":`},
		{`"current":`, `"move":{"id":"m","phase":"copy","read":"next","next":{"scheme":{"kind":"single","targets":["a"]}}},"current":`},
		{`"current":`, `"move":{"id":"m","phase":"copy","next":{"scheme":{"kind":"single","targets":["a","b"]}}},"current":`},
		{`"current":`, `"move":{"id":"m","phase":"copy","next":{"scheme":{"kind":"spillover","prefix":"","targets":["a"]}}},"current":`},
		{`"kind":"ring","targets":["a","b"]}`, `"kind":"single","targets":["loop"]},"behind":{"loop":{"kind":"single","targets":["loop"]}}`},
		{`"kind":"ring","targets":["a","b"]}`, `"kind":"single","targets":["a"]},"behind":{"a":{"kind":"single","targets":["b"]}}`},
		{`"targets":["a","b"]}`, `"targets":["a","b"]},"behind":{"unnamed":{"kind":"single","targets":["nowhere"]}}`},
		{`"targets":["a","b"]}`, `"targets":["a","b"]},"behind":{"x":{"kind":"single","targets":["y"]},"y":{"kind":"single","targets":["x"]}}`},
		{`"targets":["a","b"]}`, `"targets":["a","b"],"opening":true}`},
		{`"kind":"ring","targets":["a","b"]`, `"kind":"spillover","prefix":"","targets":["a"]`},
		{`{"name":"a"},{"name":"b"}],"current":{"scheme":{"kind":"ring","targets":["a","b"]`, `{"name":"l-0"}],"current":{"scheme":{"kind":"spillover","prefix":"l-","opening":true,"targets":["l-0"]`},
		{`"kind":"ring","targets":["a","b"]`, `"kind":"range","type":"number","ranges":[{"low":"x","target":"a"}]`},
		{`"kind":"ring","targets":["a","b"]`, `"kind":"range","type":"date","ranges":[{"target":"a"}]`},
		{`"kind":"ring","targets":["a","b"]`, `"kind":"range","type":"number","ranges":[{"high":2,"target":"a"},{"low":3,"target":"b"}]`},
		{`"kind":"ring","targets":["a","b"]`, `"kind":"lookup","table":[{"values":["x","x"],"target":"a"}]`},
		{`"kind":"ring","targets":["a","b"]`, `"kind":"lookup","table":[{"values":[{"x":1}],"target":"a"}]`},
		{good, `{`},
		{good, ``},
		{good, `null`},
		{good, good + good},
		{good, strings.Repeat(`[`, 100) + strings.Repeat(`]`, 100)},
		{good, strings.Repeat(" ", resolver.StateBytesMax) + good},
	} {
		text := strings.Replace(good, c[0], c[1], 1)
		state, err := resolver.ParseState([]byte(text))
		if err == nil {
			_, err = resolver.Open(state, resolver.Registry{})
		}
		if !errors.Is(err, resolver.ErrConfig) {
			t.Errorf("%.300s: %v, want ErrConfig", text, err)
		}
	}
}

// TestRegistry opens states that name a function and a hash of the user (S168,
// S169).
func TestRegistry(t *testing.T) {
	state := resolver.State{
		Key: resolver.KeySpec{Function: "tenant"}, Targets: numbered(3),
		Current: resolver.Plan{Scheme: resolver.Scheme{Kind: resolver.KindRing, Hash: "fnv1a-128", Targets: []string{"c0", "c1", "c2"}}},
	}
	registry := resolver.Registry{
		Hashes: []resolver.Hash{fnvHash{}},
		Functions: map[string]resolver.Extractor{"tenant": resolver.KeyOf(func(d document) (resolver.Key, error) {
			return resolver.TextKey(strings.ToLower(d.UserID)), nil
		})},
	}
	routing := must[*resolver.Routing](t)(resolver.Open(state, registry))
	a := must[resolver.Key](t)(routing.Key([]byte(`{"userId":"J1"}`)))
	b := must[resolver.Key](t)(routing.Key([]byte(`{"userId":"j1"}`)))
	if !a.Equal(b) {
		t.Errorf("keys %v and %v", a, b)
	}
	ring := mustRing(t, resolver.RingConfig{Targets: numbered(3), Hash: fnvHash{}})
	if got := must[resolver.Target](t)(routing.ForWrite(a)); got.Name != ring.Owner("j1").Name {
		t.Errorf("%v goes to %s, want %s", a, got.Name, ring.Owner("j1").Name)
	}
}

// TestMoveStates begins, advances and ends moves.
func TestMoveStates(t *testing.T) {
	state := resolver.State{
		Key: resolver.KeySpec{Paths: []string{"/u"}}, Targets: numbered(3),
		Current: resolver.Plan{Scheme: resolver.Scheme{Kind: resolver.KindRing, Targets: []string{"c0", "c1", "c2"}}},
	}
	next := must[resolver.Plan](t)(state.Current.WithTargets("", "c1", "c2", "c3"))
	state = must[resolver.State](t)(state.Begin("m", numbered(4), next))
	if _, err := state.Begin("n", nil, next); !errors.Is(err, resolver.ErrConfig) {
		t.Errorf("a second move: %v", err)
	}
	if _, err := state.Finish(); !errors.Is(err, resolver.ErrConfig) {
		t.Errorf("finish in prepare: %v", err)
	}
	undone := must[resolver.State](t)(must[resolver.State](t)(state.Advance(resolver.Undo)).Finish())
	if got := names(undone.Targets); !slices.Equal(got, []string{"c0", "c1", "c2"}) || undone.Move != nil {
		t.Errorf("after an undo the targets are %q", got)
	}
	for state.Move.Phase != resolver.Clean {
		if _, err := state.Advance(resolver.Clean); state.Move.Phase != resolver.Switch && !errors.Is(err, resolver.ErrConfig) {
			t.Errorf("from %s to clean: %v", state.Move.Phase, err)
		}
		before := state.Revision
		state = must[resolver.State](t)(state.Advance(state.Move.Phase.Following()))
		if state.Revision != before+1 {
			t.Errorf("revision %d after %d", state.Revision, before)
		}
	}
	done := must[resolver.State](t)(state.Finish())
	if undone.Moves != 0 || done.Moves != 1 {
		t.Errorf("%d moves after an undo and %d after a move, want 0 and 1", undone.Moves, done.Moves)
	}
	again := done
	again.Moves, again.Revision = 7, 70
	if must[string](t)(again.Fingerprint()) != must[string](t)(done.Fingerprint()) {
		t.Error("the fingerprint depends on how many moves there were")
	}
	if got := names(done.Targets); !slices.Equal(got, []string{"c1", "c2", "c3"}) || !slices.Equal(done.Current.Scheme.Targets, got) {
		t.Errorf("after the move the targets are %q", got)
	}
}

// TestMoveModes checks that documents are read and written as the phase of a
// move says, or as its read mode says. In the last phases the other copy is not
// read, because it is no longer written (S183).
func TestMoveModes(t *testing.T) {
	state := resolver.State{
		Key: resolver.KeySpec{Paths: []string{"/u"}}, Targets: numbered(2),
		Current: resolver.Plan{Scheme: resolver.Scheme{Kind: resolver.KindSingle, Targets: []string{"c0"}}},
	}
	next := resolver.Plan{Scheme: resolver.Scheme{Kind: resolver.KindSingle, Targets: []string{"c1"}}}
	for _, phase := range []resolver.Phase{resolver.Prepare, resolver.DualWrite, resolver.Copy, resolver.Verify, resolver.Fence, resolver.Switch, resolver.Clean, resolver.Undo} {
		for _, read := range []resolver.ReadMode{"", resolver.ReadBoth, resolver.ReadNone} {
			want, wantWrite := phase.Modes()
			if read == resolver.ReadNone || read == resolver.ReadBoth && phase != resolver.Clean && phase != resolver.Undo {
				want = read
			}
			state.Move = &resolver.Move{ID: "m", Phase: phase, Read: read, Next: next}
			routing := must[*resolver.Routing](t)(resolver.Open(state, resolver.Registry{}))
			if got, write := routing.Modes(); got != want || write != wantWrite {
				t.Errorf("%s with read %q: reads %s, writes %s, want %s and %s", phase, read, got, write, want, wantWrite)
			}
			if !routing.Copies() {
				t.Errorf("%s with read %q: no copies, but a client in the next phase may make some", phase, read)
			}
		}
	}
}

// TestSpillStates adds containers to a spillover. Clients read them before they
// write them.
func TestSpillStates(t *testing.T) {
	for _, scheme := range []string{"", "logs"} {
		spill := resolver.Scheme{Kind: resolver.KindSpillover, Prefix: "logs-", Targets: []string{"logs-0"}, MaxDocuments: 5}
		state := resolver.State{Key: resolver.KeySpec{Paths: []string{"/u"}}, Targets: targets("logs-0"), Current: resolver.Plan{Scheme: spill}}
		if scheme != "" {
			state.Current = resolver.Plan{Scheme: resolver.Scheme{Kind: resolver.KindSingle, Targets: []string{scheme}}, Behind: map[string]resolver.Scheme{scheme: spill}}
		}
		check := func(state resolver.State, write string, read ...string) {
			t.Helper()
			state = must[resolver.State](t)(resolver.ParseState(must[[]byte](t)(state.Append(nil))))
			routing := must[*resolver.Routing](t)(resolver.Open(state, resolver.Registry{}))
			owner := must[resolver.Target](t)(routing.ForWrite(resolver.TextKey("x")))
			readable := must[[]resolver.Target](t)(routing.ForRead(resolver.Keys(resolver.TextKey("x"))))
			if owner.Name != write || !slices.Equal(names(readable), read) {
				t.Errorf("revision %d writes %s and reads %q, want %s and %q", state.Revision, owner.Name, names(readable), write, read)
			}
		}
		check(state, "logs-0", "logs-0")
		if _, err := state.EndSpill(scheme); !errors.Is(err, resolver.ErrConfig) {
			t.Errorf("EndSpill before Spill: %v, want ErrConfig", err)
		}
		opening, next, err := state.Spill(scheme)
		if err != nil || next.Name != "logs-1" || opening.Revision != 1 {
			t.Fatalf("Spill: %+v in revision %d, %v", next, opening.Revision, err)
		}
		check(opening, "logs-0", "logs-0", "logs-1")
		spillover := must[*resolver.Spillover[resolver.Key]](t)(opening.Spillover(scheme))
		if !spillover.Opening() || spillover.Last().Name != "logs-0" || spillover.Next().Name != "logs-1" {
			t.Errorf("opening %v, last %s, next %s", spillover.Opening(), spillover.Last().Name, spillover.Next().Name)
		}
		if _, _, err := opening.Spill(scheme); !errors.Is(err, resolver.ErrConfig) {
			t.Errorf("Spill while a container is opening: %v, want ErrConfig", err)
		}
		done := must[resolver.State](t)(opening.EndSpill(scheme))
		check(done, "logs-1", "logs-0", "logs-1")
		check(opening, "logs-0", "logs-0", "logs-1") // states are not changed
		if again, next, err := done.Spill(scheme); err != nil || next.Name != "logs-2" {
			t.Errorf("the next one is %s, %v", next.Name, err)
		} else {
			check(again, "logs-1", "logs-0", "logs-1", "logs-2")
		}
		_, _, errSpill := state.Spill("other")
		if _, err := state.EndSpill("other"); !errors.Is(err, resolver.ErrConfig) || !errors.Is(errSpill, resolver.ErrConfig) {
			t.Errorf("a scheme that is not there: %v and %v, want ErrConfig", errSpill, err)
		}
	}
}

// TestFileStore runs the suite for stores, and checks that a few old files are
// kept and that names cannot be paths.
func TestFileStore(t *testing.T) {
	store := resolver.FileStore{Dir: filepath.Join(t.TempDir(), "sub")}
	resolvertest.RunStore(t, store)
	files, err := filepath.Glob(filepath.Join(store.Dir, "swap.*.json"))
	if err != nil || len(files) != 8 {
		t.Errorf("%d old files are left, %v, want 8", len(files), err)
	}
	if _, _, err := store.Load(t.Context(), "../x"); !errors.Is(err, resolver.ErrConfig) {
		t.Errorf("a name with a path: %v, want ErrConfig", err)
	}
}

// TestLive checks that a client switches when the stored state changes, refuses
// to act on a state it cannot confirm, and waits for operations under the old
// one (S158, S181, S189).
func TestLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memory{}
		state := resolver.State{
			Key: resolver.KeySpec{Paths: []string{"/u"}}, Targets: numbered(2),
			Current: resolver.Plan{Scheme: resolver.Scheme{Kind: resolver.KindSingle, Targets: []string{"c0"}}},
		}
		version := must[string](t)(resolver.SaveState(t.Context(), store, "s", state, ""))
		var changes []string
		live, err := resolver.Watch(t.Context(), resolver.LiveConfig{
			Store: store, Name: "s", Poll: time.Second, Lease: 5 * time.Second,
			OnChange: func(r *resolver.Routing) { changes = append(changes, r.Fingerprint) }, OnError: func(error) {},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer live.Close()
		owner := func() string {
			routing, done, err := live.Begin(t.Context())
			if err != nil {
				return err.Error()
			}
			defer done()
			return must[resolver.Target](t)(routing.ForWrite(resolver.TextKey("x"))).Name
		}
		if owner() != "c0" {
			t.Errorf("owner %s, want c0", owner())
		}
		held, done, err := live.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		state.Current.Scheme.Targets, state.Revision = []string{"c1"}, 1
		version = must[string](t)(resolver.SaveState(t.Context(), store, "s", state, version))
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		if owner() != "c1" || len(changes) != 1 {
			t.Errorf("after a poll the owner is %s, with %d changes", owner(), len(changes))
		}
		if got := must[resolver.Target](t)(held.ForWrite(resolver.TextKey("x"))); got.Name != "c0" {
			t.Errorf("an operation saw its routing change to %s", got.Name)
		}
		refreshed := make(chan error, 1)
		go func() { refreshed <- live.Refresh(t.Context()) }()
		synctest.Wait()
		select {
		case err := <-refreshed:
			t.Errorf("Refresh returned %v before the operation under the old state", err)
		default:
		}
		done()
		if err := <-refreshed; err != nil {
			t.Error(err)
		}
		store.fail(errors.New("down"))
		time.Sleep(4 * time.Second)
		if owner() != "c1" {
			t.Errorf("within the lease the owner is %s", owner())
		}
		time.Sleep(2 * time.Second)
		if _, _, err := live.Begin(t.Context()); !errors.Is(err, resolver.ErrStale) {
			t.Errorf("after the lease: %v, want ErrStale", err)
		}
		store.fail(nil)
		state.Revision = 0
		must[string](t)(resolver.SaveState(t.Context(), store, "s", state, version))
		if err := live.Refresh(t.Context()); !errors.Is(err, resolver.ErrStale) {
			t.Errorf("an older state: %v, want ErrStale", err)
		}
	})
}

// memory is a Store in memory.
type memory struct {
	mu       sync.Mutex
	document []byte
	version  int
	err      error
}

func (m *memory) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

func (m *memory) Load(context.Context, string) ([]byte, string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return nil, "", m.err
	}
	return m.document, fmt.Sprint(m.version), nil
}

func (m *memory) Save(_ context.Context, _ string, document []byte, _ string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.document = document
	m.version++
	return fmt.Sprint(m.version), m.err
}

// FuzzParseState parses any text without a panic. Every accepted text has a
// canonical form.
func FuzzParseState(f *testing.F) {
	f.Add([]byte(regionState))
	f.Add([]byte(`{"version":1,"key":{"paths":["/u"]},"targets":[{"name":"a"}],"current":{"scheme":{"kind":"range","type":"time","ranges":[{"low":"2015-04-01","high":1e9,"closed":true,"target":"a"}]}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		state, err := resolver.ParseState(text)
		if err != nil {
			if !errors.Is(err, resolver.ErrConfig) {
				t.Fatalf("%v is no ErrConfig", err)
			}
			return
		}
		canonical, err := state.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		again, err := resolver.ParseState(canonical)
		if err != nil {
			t.Fatalf("%s: %v", canonical, err)
		}
		if second, err := again.Append(nil); err != nil || !bytes.Equal(second, canonical) {
			t.Fatalf("%s\n%s, %v", canonical, second, err)
		}
		if state.Current.Scheme.VirtualNodes > 1000 {
			return
		}
		if routing, err := resolver.Open(state, resolver.Registry{}); err == nil {
			_, _ = routing.ForWrite(resolver.TextKey("x"))
			_, _ = routing.ForRead(resolver.All[resolver.Key]())
		}
	})
}
