package azcosmos_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	sdk "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/decandb/decan/decantest"
	"github.com/decandb/decan/resolver"
	"github.com/decandb/decan/resolver/azcosmos"
)

// errKilled is the error of every request of a killed process.
var errKilled = errors.New("the process is dead")

// killer lets a number of requests pass and none after them, like a process that
// crashes. Half of the crashes come after the request was sent.
type killer struct{ left atomic.Int64 }

func (k *killer) Do(request *policy.Request) (*http.Response, error) {
	left := k.left.Add(-1)
	if left < 0 {
		return nil, errKilled
	}
	response, err := request.Next()
	if left == 0 && len(request.Raw().URL.Path)%2 == 0 {
		return nil, errKilled
	}
	return response, err
}

// world is a group of containers, on one server or several. Its state is stored
// in a container of the first server.
type world struct {
	t       *testing.T
	server  *decantest.Server
	others  map[string]*decantest.Server // by the account of their targets
	store   resolver.Store
	targets []resolver.Target
	clients []*azcosmos.Client
}

func newWorld(t *testing.T, containers int, state resolver.State) *world {
	t.Helper()
	server := decantest.New(t)
	w := &world{t: t, server: server, others: map[string]*decantest.Server{}, targets: targetsOn(t, server, containers, "/userId", 2)}
	server.Container("db", `{"id":"meta","partitionKey":{"paths":["/id"],"kind":"Hash","version":2}}`, 1)
	meta, err := connect(t, server).NewContainer("db", "meta")
	if err != nil {
		t.Fatal(err)
	}
	w.store = azcosmos.ContainerStore{Container: meta, Prefix: "group-"}
	if _, err := resolver.SaveState(t.Context(), w.store, "users", state, ""); err != nil {
		t.Fatal(err)
	}
	return w
}

// on moves a target to a server of its own account.
func (w *world) on(account string, i int) {
	w.t.Helper()
	if w.others[account] == nil {
		w.others[account] = decantest.New(w.t)
	}
	target := &w.targets[i]
	target.Account = account
	w.others[account].Container(target.Database, fmt.Sprintf(`{"id":%q,"partitionKey":{"paths":["/userId"],"kind":"Hash","version":2}}`, target.Container), 2)
}

// accounts returns clients of all servers.
func (w *world) accounts(policies ...policy.Policy) map[string]*sdk.Client {
	w.t.Helper()
	all := map[string]*sdk.Client{"": connect(w.t, w.server, policies...)}
	for account, server := range w.others {
		all[account] = connect(w.t, server, policies...)
	}
	return all
}

// client returns a client that follows the state, like one in a separate
// process.
func (w *world) client(policies ...policy.Policy) *azcosmos.Client {
	w.t.Helper()
	live, err := resolver.Watch(w.t.Context(), resolver.LiveConfig{Store: w.store, Name: "users", Poll: -1, Lease: time.Hour})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(live.Close)
	client, err := azcosmos.New(azcosmos.Config{Accounts: w.accounts(policies...), View: live, Timeout: time.Minute, FenceWait: 10 * time.Minute})
	if err != nil {
		w.t.Fatal(err)
	}
	return client
}

// mover returns a mover that crashes after a number of requests; a negative
// number disables the crash.
func (w *world) mover(requests int64) *azcosmos.Mover {
	w.t.Helper()
	var policies []policy.Policy
	store := w.store
	if requests >= 0 {
		k := &killer{}
		k.left.Store(requests)
		policies = append(policies, k)
		meta, err := connect(w.t, w.server, k).NewContainer("db", "meta")
		if err != nil {
			w.t.Fatal(err)
		}
		store = azcosmos.ContainerStore{Container: meta, Prefix: "group-"}
	}
	client := w.client(policies...)
	mover, err := azcosmos.NewMover(azcosmos.MoverConfig{
		Client: client, Store: store, Name: "users", PageSize: 7, Parallelism: 3,
		Settle:   azcosmos.SettleClients(append(slices.Clone(w.clients), client)...),
		Takeover: -1, // the previous movers are dead
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return mover
}

// run carries a move to its end with movers that crash repeatedly.
func (w *world) run(r *rand.Rand, most int64) azcosmos.Progress {
	w.t.Helper()
	for deaths := 0; ; deaths++ {
		requests := r.Int64N(most)
		if deaths > 400 {
			requests = -1
		}
		progress, err := w.mover(requests).Run(w.t.Context())
		if err == nil {
			w.t.Logf("%d deaths", deaths)
			return progress
		}
		if !errors.Is(err, errKilled) {
			w.t.Fatalf("after %d deaths: %v", deaths, err)
		}
	}
}

// writer changes its own items, one at a time, and checks after each change that
// every client sees it.
type writer struct {
	world  *world
	number int
	random *rand.Rand
	model  map[string]int // acknowledged versions by id
}

func (w *writer) step(ctx context.Context) error {
	n := w.random.IntN(20)
	name := fmt.Sprintf("w%d-%d", w.number, n)
	client := w.world.clients[w.random.IntN(len(w.world.clients))]
	version, exists := w.model[name]
	ref := azcosmos.Ref{Key: resolver.TextKey("J" + name), ID: name}
	document := fmt.Appendf(nil, `{"id":%q,"userId":"J%s","version":%d,"big":1.50,"z":{"b":[],"a":"\u00e9"}}`, name, name, version+1)
	var err error
	switch {
	case !exists:
		_, err = client.Create(ctx, document, nil)
	case w.random.IntN(3) == 0:
		_, err = client.Delete(ctx, ref, nil)
	case w.random.IntN(2) == 0:
		_, err = client.Replace(ctx, document, nil)
	default:
		_, err = client.Upsert(ctx, document, nil)
	}
	if err != nil {
		return fmt.Errorf("change %s: %w", name, err)
	}
	_, err = client.Read(ctx, ref, nil)
	if exists && isStatus(err, 404) {
		delete(w.model, name)
	} else {
		w.model[name] = version + 1
	}
	return w.check(ctx, name, ref)
}

// check reads an item with every client.
func (w *writer) check(ctx context.Context, name string, ref azcosmos.Ref) error {
	version, exists := w.model[name]
	for _, client := range w.world.clients {
		item, err := client.Read(ctx, ref, nil)
		if !exists {
			if !isStatus(err, 404) {
				return fmt.Errorf("%s is deleted, but read as %s", name, item.Value)
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		var got struct{ Version int }
		if json.Unmarshal(item.Value, &got) != nil || got.Version != version {
			return fmt.Errorf("%s in version %d is read as %s", name, version, item.Value)
		}
	}
	return nil
}

// fixedItems is how many items do not change during the test.
const fixedItems = 40

// look queries everything and checks that every fixed item is returned exactly
// once.
func (w *world) look(ctx context.Context, client *azcosmos.Client) error {
	items, _, err := client.Query("SELECT VALUE c.id FROM c ORDER BY c.id", resolver.All[resolver.Key](), &azcosmos.QueryOptions{PageSize: 9}).Items(ctx)
	if err != nil {
		return fmt.Errorf("query: %w", err)
	}
	fixed, last := 0, ""
	for _, item := range items {
		id := string(item)
		still := id[1] == 'f'
		// Between two pages a writer may delete an item and create another one
		// in its place.
		if id < last || id == last && still {
			return fmt.Errorf("%s comes after %s", id, last)
		}
		if last = id; still {
			fixed++
		}
	}
	if fixed != fixedItems {
		return fmt.Errorf("%d of %d items were found", fixed, fixedItems)
	}
	counts, _, err := client.Query("SELECT VALUE COUNT(1) FROM c WHERE c.fixed", resolver.All[resolver.Key](), nil).Items(ctx)
	if err != nil {
		return fmt.Errorf("count: %w", err)
	}
	if string(counts[0]) != fmt.Sprint(fixedItems) {
		return fmt.Errorf("count of fixed items: %s", counts)
	}
	return nil
}

// TestMoveUnderFire moves from three containers on three servers to four and
// back while two clients create, change, delete, read and query items, and while
// the movers crash every few requests. Nothing is lost, duplicated or reverted,
// and at the end every item is where the ring says and nowhere else (S182, S183,
// S188).
func TestMoveUnderFire(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, seed))
	state := ringState("/userId", []resolver.Target{
		{Name: "c0", Database: "db", Container: "c0"},
		{Name: "c1", Account: "second", Database: "db", Container: "c1"},
		{Name: "c2", Account: "third", Database: "db", Container: "c2"},
	})
	w := newWorld(t, 4, state)
	w.on("second", 1)
	w.on("third", 2)
	w.on("second", 3)
	w.clients = []*azcosmos.Client{w.client(), w.client()}
	w.fixed(fixedItems)
	f := w.fire(seed)
	four := resolver.Plan{Scheme: resolver.Scheme{Kind: resolver.KindRing, Targets: []string{"c0", "c1", "c2", "c3"}}}
	for _, move := range []struct {
		id   string
		next resolver.Plan
	}{{"grow", four}, {"shrink", state.Current}} {
		if err := w.mover(-1).Begin(t.Context(), move.id, w.targets, move.next); err != nil {
			t.Fatal(err)
		}
		w.run(r, 60)
		if f.ctx.Err() != nil {
			break
		}
	}
	f.end()
}

// TestUndoUnderFire undoes moves in each phase while two clients create, change,
// delete, read and query items, and while the movers crash every few requests.
// Nothing is lost, duplicated or reverted, and no copy remains (S182, S183).
func TestUndoUnderFire(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, seed))
	w := newWorld(t, 3, ringState("/userId", []resolver.Target{{Name: "c0", Database: "db", Container: "c0"}, {Name: "c1", Database: "db", Container: "c1"}}))
	w.clients = []*azcosmos.Client{w.client(), w.client()}
	w.fixed(fixedItems)
	f := w.fire(seed)
	next := resolver.Plan{Scheme: resolver.Scheme{Kind: resolver.KindRing, Targets: []string{"c0", "c2"}}}
	phases := []resolver.Phase{resolver.Copy, resolver.Fence}
	if raceDetector {
		phases = phases[1:]
	}
	for _, phase := range phases {
		mover := w.mover(-1)
		if err := mover.Begin(t.Context(), "to-"+string(phase), w.targets, next); err != nil {
			t.Fatal(err)
		}
		for w.phase() != phase {
			if _, _, err := mover.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := azcosmos.SettleClients(w.clients...)(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := mover.Undo(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.run(r, 60)
		if f.ctx.Err() != nil {
			break
		}
	}
	f.end()
}

// TestThousand adds a container to three and removes it again: none of 1,000
// items is lost, and each is where the ring says and nowhere else (S182).
func TestThousand(t *testing.T) {
	t.Parallel()
	users, each := 100, 10
	if raceDetector {
		users, each = 20, 3
	}
	documents := users * each
	three := ringState("/userId", []resolver.Target{{Name: "c0", Database: "db", Container: "c0"}, {Name: "c1", Database: "db", Container: "c1"}, {Name: "c2", Database: "db", Container: "c2"}})
	w := newWorld(t, 4, three)
	client := w.client()
	w.clients = []*azcosmos.Client{client}
	for i := range users {
		batch := client.NewBatch()
		for n := range each {
			batch.Create(fmt.Appendf(nil, `{"id":"f%d","userId":"J%d","fixed":true}`, n, i), nil)
		}
		if result, err := batch.Execute(t.Context(), nil); err != nil || !result.Response.Success {
			t.Fatalf("batch %d: %+v, %v", i, result, err)
		}
	}
	mover, err := azcosmos.NewMover(azcosmos.MoverConfig{
		Client: client, Store: w.store, Name: "users", Settle: azcosmos.SettleClients(client), PageSize: 500,
		Now: func() time.Time { return time.Now().Add(time.Hour) }, // the fence then has nothing recent to compare again
	})
	if err != nil {
		t.Fatal(err)
	}
	four := resolver.Plan{Scheme: resolver.Scheme{Kind: resolver.KindRing, Targets: names(w.targets)}}
	for _, next := range []resolver.Plan{four, three.Current} {
		if err := mover.Begin(t.Context(), fmt.Sprint("to-", len(next.Scheme.Targets)), w.targets, next); err != nil {
			t.Fatal(err)
		}
		progress, err := mover.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n := int64(documents); progress.Copied < n/8 || progress.Copied > n/2 || progress.Deleted != progress.Copied {
			t.Errorf("of %d items %d were copied and %d deleted, want about a quarter", n, progress.Copied, progress.Deleted)
		}
		w.placed(documents)
		if rows := all(t, client, "SELECT VALUE COUNT(1) FROM c WHERE c.fixed", nil); rows[0] != fmt.Sprint(documents) {
			t.Errorf("the containers together count %s items, want %d", rows, documents)
		}
	}
}

// fixed creates items that do not change during a test.
func (w *world) fixed(n int) {
	w.t.Helper()
	var wait sync.WaitGroup
	slots := make(chan struct{}, 8)
	for i := range n {
		slots <- struct{}{}
		wait.Go(func() {
			if _, err := w.clients[0].Create(w.t.Context(), fmt.Appendf(nil, `{"id":"f%d","userId":"J%d","fixed":true}`, i, i), nil); err != nil {
				w.t.Error(err)
			}
			<-slots
		})
	}
	wait.Wait()
}

// fire runs writers and readers until one of them reports an error.
type fire struct {
	world        *world
	writers      []*writer
	ctx          context.Context // ends with the first error as its cause
	stop         context.CancelCauseFunc
	wait         sync.WaitGroup
	steps, looks atomic.Int64
}

// fire starts writing, reading and querying with the clients of the world.
func (w *world) fire(seed uint64) *fire {
	f := &fire{world: w}
	f.ctx, f.stop = context.WithCancelCause(w.t.Context())
	forever := func(count *atomic.Int64, work func() error) {
		f.wait.Go(func() {
			for f.ctx.Err() == nil {
				if err := work(); err != nil {
					f.stop(err)
				}
				count.Add(1)
			}
		})
	}
	for i := range 2 {
		writer := &writer{w, i, rand.New(rand.NewPCG(seed, uint64(i))), map[string]int{}}
		f.writers = append(f.writers, writer)
		forever(&f.steps, func() error { return writer.step(w.t.Context()) })
	}
	forever(&f.looks, func() error { return w.look(w.t.Context(), w.clients[0]) })
	return f
}

// end stops the work, fails on its error, and checks the contents of every
// container.
func (f *fire) end() {
	f.world.t.Helper()
	f.stop(nil)
	f.wait.Wait()
	if err := context.Cause(f.ctx); !errors.Is(err, context.Canceled) {
		f.world.t.Fatal(err)
	}
	f.world.t.Logf("%d changes and %d looks", f.steps.Load(), f.looks.Load())
	if f.steps.Load() == 0 || f.looks.Load() == 0 {
		f.world.t.Error("nothing happened during the moves")
	}
	f.world.settled(f.writers)
}

// settled checks that every container holds what the ring says and nothing else.
func (w *world) settled(writers []*writer) {
	w.t.Helper()
	want := fixedItems
	for _, writer := range writers {
		want += len(writer.model)
		for name := range writer.model {
			if err := writer.check(w.t.Context(), name, azcosmos.Ref{Key: resolver.TextKey("J" + name), ID: name}); err != nil {
				w.t.Error(err)
			}
		}
	}
	w.placed(want)
}

// placed checks that the containers hold that many items, each in its place, and
// no move is in progress.
func (w *world) placed(want int) {
	w.t.Helper()
	routing := w.clients[0].View().Routing()
	if routing.State.Move != nil {
		w.t.Errorf("the move is in phase %s", routing.State.Move.Phase)
	}
	got := 0
	for _, target := range w.targets {
		for _, document := range w.contents(target) {
			key, err := routing.Key(document)
			if err != nil {
				w.t.Fatal(err)
			}
			owner, err := routing.ForWrite(key)
			if err != nil || owner.Name != target.Name {
				w.t.Errorf("%s holds %s of %s, %v", target.Name, document, owner.Name, err)
			}
			got++
		}
	}
	if got != want {
		w.t.Errorf("the containers hold %d items, want %d", got, want)
	}
}

// contents reads a container without a resolver.
func (w *world) contents(target resolver.Target) [][]byte {
	w.t.Helper()
	container, err := w.accounts()[target.Account].NewContainer(target.Database, target.Container)
	if err != nil {
		w.t.Fatal(err)
	}
	var items [][]byte
	pager := container.NewQueryItemsPager("SELECT * FROM c", sdk.NewPartitionKey(), nil)
	for pager.More() {
		page, err := pager.NextPage(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		items = append(items, page.Items...)
	}
	return items
}
