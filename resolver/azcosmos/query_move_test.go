package azcosmos_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	sdk "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

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

// TestLongPage has a move end while a page is being read: the page would lack what was
// deleted by then, so it is refused.
func TestLongPage(t *testing.T) {
	t.Parallel()
	for _, moves := range []bool{false, true} {
		w := tenant(t, 5)
		var once sync.Once
		live, err := resolver.Watch(t.Context(), resolver.LiveConfig{Store: w.store, Name: "users", Poll: -1, Lease: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(live.Close)
		slow := connect(t, w.server, beforeItems(func() {
			once.Do(func() {
				if !moves {
					return
				}
				mover := w.mover(-1)
				if err := mover.Begin(t.Context(), "move", w.targets, toOther); err != nil {
					t.Error(err)
				}
				if _, err := mover.Run(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}))
		client, err := azcosmos.New(azcosmos.Config{Accounts: map[string]*sdk.Client{"": slow}, View: live, Timeout: time.Nanosecond})
		if err != nil {
			t.Fatal(err)
		}
		pager := client.Query("SELECT * FROM c", resolver.All[resolver.Key](), nil)
		for range 2 {
			page, err := pager.NextPage(t.Context())
			if moves != isRestart(err) || !moves && err != nil {
				t.Errorf("with a move %v: %d items, %v", moves, len(page.Items), err)
			}
		}
	}
}

// TestTokenAcrossMove begins queries in each phase of a move and goes on with them in all
// later ones, by their tokens and by their pagers, until what they read is deleted.
func TestTokenAcrossMove(t *testing.T) {
	t.Parallel()
	state := ringState("/userId", []resolver.Target{{Name: "c0", Database: "db", Container: "c0"}, {Name: "c1", Database: "db", Container: "c1"}, {Name: "c2", Database: "db", Container: "c2"}})
	w := newWorld(t, 3, state)
	client := w.client()
	w.clients = []*azcosmos.Client{client}
	var want []string
	for i := range 60 {
		if _, err := client.Create(t.Context(), fmt.Appendf(nil, `{"id":"%02d","userId":"J%d","city":"c%d"}`, i, i, i%4), nil); err != nil {
			t.Fatal(err)
		}
		want = append(want, fmt.Sprintf(`"%02d"`, i))
	}
	texts := []string{"SELECT VALUE c.id FROM c", "SELECT VALUE c.id FROM c ORDER BY c.id", "SELECT TOP 60 VALUE c.id FROM c ORDER BY c.city"}
	options := azcosmos.QueryOptions{PageSize: 7}
	type begun struct {
		phase resolver.Phase
		text  string
		pager *azcosmos.Pager
		token string
		rows  []string
	}
	var open []begun
	// Shrinking brings copies into containers that the queries read.
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
			gone := i >= len(order)-2 && b.phase != resolver.Switch && b.phase != resolver.Clean
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
