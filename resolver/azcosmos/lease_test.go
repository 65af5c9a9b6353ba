package azcosmos_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	sdk "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/decandb/decan/resolver"
	"github.com/decandb/decan/resolver/azcosmos"
)

// pauser blocks all requests of a process after a number of requests for items,
// until it is told to continue, like a suspended process. The clock keeps
// running, so requests with a deadline have expired when it continues.
type pauser struct {
	left   atomic.Int64  // requests for items until the pause
	paused chan struct{} // closed at the pause
	goOn   chan struct{} // closed by the test
}

func newPauser(requests int64) *pauser {
	p := &pauser{paused: make(chan struct{}), goOn: make(chan struct{})}
	p.left.Store(requests)
	return p
}

func (p *pauser) Do(request *policy.Request) (*http.Response, error) {
	path := request.Raw().URL.Path
	if strings.Contains(path, "/docs") && !strings.Contains(path, "/meta/") && p.left.Add(-1) == 0 {
		close(p.paused)
	}
	select {
	case <-p.goOn:
		return request.Next()
	default:
	}
	if p.left.Load() <= 0 {
		<-p.goOn
		if _, bounded := request.Raw().Context().Deadline(); bounded {
			return nil, context.DeadlineExceeded
		}
	}
	return request.Next()
}

func (p *pauser) now() time.Time {
	if p.left.Load() <= 0 {
		return time.Now().Add(2 * longLease)
	}
	return time.Now()
}

// longLease does not expire during a test, and needs no second renewal.
const longLease = time.Hour

// tenant returns a world whose movers do not know each other.
func tenant(t *testing.T, documents int) *world {
	t.Helper()
	w := newWorld(t, 2, ringState("/userId", []resolver.Target{{Name: "c0", Database: "db", Container: "c0"}}))
	w.clients = []*azcosmos.Client{w.client()}
	w.fixed(documents)
	return w
}

// leased returns a mover with a lease; its requests pass the policies.
func (w *world) leased(lease time.Duration, config azcosmos.MoverConfig, policies ...policy.Policy) *azcosmos.Mover {
	w.t.Helper()
	account := connect(w.t, w.server, policies...)
	meta, err := account.NewContainer("db", "meta")
	if err != nil {
		w.t.Fatal(err)
	}
	store := azcosmos.ContainerStore{Container: meta, Prefix: "group-"}
	live, err := resolver.Watch(w.t.Context(), resolver.LiveConfig{Store: store, Name: "users", Poll: -1, Lease: lease})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(live.Close)
	config.Client, err = azcosmos.New(azcosmos.Config{Accounts: map[string]*sdk.Client{"": account}, View: live, Timeout: time.Minute})
	if err != nil {
		w.t.Fatal(err)
	}
	config.Store, config.Name, config.PageSize = store, "users", 5
	config.Settle = azcosmos.SettleClients(config.Client)
	mover, err := azcosmos.NewMover(config)
	if err != nil {
		w.t.Fatal(err)
	}
	return mover
}

var toOther = resolver.Plan{Scheme: resolver.Scheme{Kind: resolver.KindSingle, Targets: []string{"c1"}}}

// TestPausedMover suspends a mover at each of its requests in turn, lets another
// mover finish the move, changes every item, and resumes the first mover. It
// must not touch an item any more: it could delete copies whose originals are
// gone, or overwrite new versions with old ones.
func TestPausedMover(t *testing.T) {
	t.Parallel()
	const documents = 1
	for requests := int64(1); ; requests++ {
		w := tenant(t, documents)
		pause := newPauser(requests)
		slow := w.leased(longLease, azcosmos.MoverConfig{Parallelism: 1, Now: pause.now}, pause)
		if err := w.mover(-1).Begin(t.Context(), "move", w.targets, toOther); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := slow.Run(t.Context())
			ended <- err
		}()
		select {
		case <-pause.paused:
		case err := <-ended:
			if err != nil || requests < 12 {
				t.Errorf("a move ended after %d requests: %v", requests, err)
			}
			return
		}
		if _, err := w.leased(longLease, azcosmos.MoverConfig{Takeover: time.Millisecond}).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := azcosmos.SettleClients(w.clients...)(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range documents {
			if _, err := w.clients[0].Replace(t.Context(), fmt.Appendf(nil, `{"id":"f%d","userId":"J%d","changed":true}`, i, i), nil); err != nil {
				t.Fatal(err)
			}
		}
		close(pause.goOn)
		if err := <-ended; err == nil {
			t.Errorf("request %d: the paused mover reports success", requests)
		}
		old, moved := w.contents(w.targets[0]), w.contents(w.targets[1])
		if len(old) != 0 || len(moved) != documents {
			t.Errorf("request %d: after the paused mover came back, there are %d old items and %d moved ones, want 0 and %d", requests, len(old), len(moved), documents)
		}
		for _, item := range moved {
			if !strings.Contains(string(item), `"changed":true`) {
				t.Errorf("request %d: the paused mover reverted a change: %s", requests, item)
			}
		}
	}
}

// TestTwoMovers checks that a second mover is refused while the first one is
// working, and gets the move at once when the first has ended with an error.
func TestTwoMovers(t *testing.T) {
	t.Parallel()
	w := tenant(t, 12)
	if err := w.mover(-1).Begin(t.Context(), "move", w.targets, toOther); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	copying, proceed := make(chan struct{}), make(chan struct{})
	var once sync.Once
	first := w.leased(longLease, azcosmos.MoverConfig{OnProgress: func(p azcosmos.Progress) {
		if p.Phase == resolver.Copy {
			once.Do(func() {
				close(copying)
				<-proceed
			})
		}
	}})
	first.SetRenewInterval(10 * time.Millisecond)
	ended := make(chan error, 1)
	go func() {
		_, err := first.Run(ctx)
		ended <- err
	}()
	<-copying // the first mover blocks in its callback, and still renews its lease
	if _, err := w.leased(100*time.Millisecond, azcosmos.MoverConfig{Takeover: 24 * time.Hour}).Run(t.Context()); !errors.Is(err, resolver.ErrChanged) {
		t.Errorf("a second mover: %v, want ErrChanged", err)
	}
	stop()
	close(proceed)
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the stopped mover: %v", err)
	}
	next := w.leased(longLease, azcosmos.MoverConfig{Takeover: 24 * time.Hour})
	if progress, err := next.Progress(t.Context()); err != nil || progress.Owner != "" {
		t.Fatalf("a mover that has stopped still holds the move: %+v, %v", progress, err)
	}
	if _, err := next.Run(t.Context()); err != nil {
		t.Errorf("the next mover: %v", err)
	}
	if old, moved := w.contents(w.targets[0]), w.contents(w.targets[1]); len(old) != 0 || len(moved) != 12 {
		t.Errorf("%d old items and %d moved ones, want 0 and 12", len(old), len(moved))
	}
}

// TestLostAnswers loses the response to each save of the progress in turn. The
// mover fails but still releases the move, and the next mover continues.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	w := tenant(t, 3)
	if err := w.mover(-1).Begin(t.Context(), "move", w.targets, toOther); err != nil {
		t.Fatal(err)
	}
	errLost := errors.New("the answer is lost")
	for lost := int64(1); ; lost++ {
		var saves atomic.Int64
		mover := w.leased(longLease, azcosmos.MoverConfig{Takeover: 24 * time.Hour}, policyFunc(func(request *policy.Request) (*http.Response, error) {
			response, err := request.Next()
			path, method := request.Raw().URL.Path, request.Raw().Method
			made, replaced := strings.HasSuffix(path, "/meta/docs"), method == http.MethodPut && strings.HasSuffix(path, "-move")
			if (made || replaced) && saves.Add(1) == lost {
				return nil, errLost
			}
			return response, err
		}))
		_, err := mover.Run(t.Context())
		if progress, err := mover.Progress(t.Context()); err != nil || progress.Owner != "" {
			t.Fatalf("save %d: a mover that has stopped still holds the move: %+v, %v", lost, progress, err)
		}
		if err == nil {
			if lost < 5 {
				t.Errorf("the move ended after %d lost answers", lost-1)
			}
			break
		}
		if !errors.Is(err, errLost) {
			t.Fatalf("save %d: %v, want %v", lost, err, errLost)
		}
	}
	if old, moved := w.contents(w.targets[0]), w.contents(w.targets[1]); len(old) != 0 || len(moved) != 3 {
		t.Errorf("%d old items and %d moved ones, want 0 and 3", len(old), len(moved))
	}
}

// TestUndoAtWork undoes a move while a mover is working; the mover then carries
// out the undo.
func TestUndoAtWork(t *testing.T) {
	t.Parallel()
	w := tenant(t, 12)
	if err := w.mover(-1).Begin(t.Context(), "move", w.targets, toOther); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	phases := map[resolver.Phase]bool{}
	mover := w.leased(longLease, azcosmos.MoverConfig{OnProgress: func(p azcosmos.Progress) {
		phases[p.Phase] = true
		if p.Phase == resolver.Verify {
			once.Do(func() {
				if err := w.mover(-1).Undo(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}})
	if _, err := mover.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !phases[resolver.Undo] || phases[resolver.Fence] || phases[resolver.Clean] {
		t.Errorf("the mover went through %v", phases)
	}
	if old, moved := w.contents(w.targets[0]), w.contents(w.targets[1]); len(old) != 12 || len(moved) != 0 {
		t.Errorf("%d old items and %d copies, want 12 and 0", len(old), len(moved))
	}
}

// TestWrongPartitionKey configures a client with another partition key than the
// containers have. Its reads find nothing, so a move would leave every item and
// report success. The move is refused when it begins and when a mover continues
// it.
func TestWrongPartitionKey(t *testing.T) {
	t.Parallel()
	w := tenant(t, 3)
	client, err := azcosmos.New(azcosmos.Config{Accounts: map[string]*sdk.Client{"": connect(t, w.server)}, View: w.clients[0].View(), PartitionKey: []string{"/id"}})
	if err != nil {
		t.Fatal(err)
	}
	wrong, err := azcosmos.NewMover(azcosmos.MoverConfig{Client: client, Store: w.store, Name: "users", Settle: azcosmos.SettleClients(client), Takeover: -1})
	if err != nil {
		t.Fatal(err)
	}
	if err := wrong.Begin(t.Context(), "move", w.targets, toOther); !errors.Is(err, resolver.ErrConfig) || !strings.Contains(err.Error(), "partitioned by /userId, the client by /id") {
		t.Errorf("Begin: %v, want an ErrConfig that names both keys", err)
	}
	right := w.mover(-1)
	if err := right.Begin(t.Context(), "move", w.targets, toOther); err != nil {
		t.Fatal(err)
	}
	for _, phase := range []resolver.Phase{resolver.Prepare, resolver.DualWrite, resolver.Copy} {
		if _, err := wrong.Run(t.Context()); !errors.Is(err, resolver.ErrConfig) || w.phase() != phase {
			t.Errorf("Run: %v, now in phase %s, want an ErrConfig in phase %s", err, w.phase(), phase)
		}
		if _, _, err := w.mover(-1).Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.mover(-1).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if old, moved := w.contents(w.targets[0]), w.contents(w.targets[1]); len(old) != 0 || len(moved) != 3 {
		t.Errorf("%d old items and %d moved ones, want 0 and 3", len(old), len(moved))
	}
}

// TestUndoUnmade undoes a move whose new container was never created.
func TestUndoUnmade(t *testing.T) {
	t.Parallel()
	w := tenant(t, 3)
	next := resolver.Plan{Scheme: resolver.Scheme{Kind: resolver.KindSingle, Targets: []string{"none"}}}
	mover := w.mover(-1)
	if err := mover.Begin(t.Context(), "move", []resolver.Target{{Name: "none", Database: "db", Container: "none"}}, next); err != nil {
		t.Fatal(err)
	}
	if _, err := mover.Run(t.Context()); !errors.Is(err, resolver.ErrConfig) {
		t.Fatalf("Run without the container: %v, want ErrConfig", err)
	}
	if err := mover.Undo(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := mover.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if phase := w.phase(); phase != "" {
		t.Errorf("the state is in phase %s", phase)
	}
}
