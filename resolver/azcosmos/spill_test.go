package azcosmos_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/decandb/decan/decantest"
	"github.com/decandb/decan/resolver"
	"github.com/decandb/decan/resolver/azcosmos"
)

// logs is a spillover that begins with one container.
type logs struct {
	t       *testing.T
	account *sdk.Client
	store   resolver.Store
}

func newLogs(t *testing.T, scheme resolver.Scheme) *logs {
	t.Helper()
	server := decantest.New(t)
	server.Container("db", `{"id":"logs-0","partitionKey":{"paths":["/userId"],"kind":"Hash","version":2}}`, 1)
	scheme.Kind, scheme.Prefix, scheme.Targets = resolver.KindSpillover, "logs-", []string{"logs-0"}
	state := resolver.State{
		Key:     resolver.KeySpec{Paths: []string{"/userId"}},
		Targets: []resolver.Target{{Name: "logs-0", Database: "db", Container: "logs-0"}},
		Current: resolver.Plan{Scheme: scheme},
	}
	l := &logs{t, connect(t, server), resolver.FileStore{Dir: t.TempDir()}}
	if _, err := resolver.SaveState(t.Context(), l.store, "logs", state, ""); err != nil {
		t.Fatal(err)
	}
	return l
}

// client returns a client that reloads the state only when told to, and does not
// wait for other clients.
func (l *logs) client() *azcosmos.Client {
	l.t.Helper()
	live, err := resolver.Watch(l.t.Context(), resolver.LiveConfig{Store: l.store, Name: "logs", Poll: -1, Lease: time.Hour})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(live.Close)
	client, err := azcosmos.New(azcosmos.Config{Accounts: map[string]*sdk.Client{"": l.account}, View: live})
	if err != nil {
		l.t.Fatal(err)
	}
	client.SetSleep(func(ctx context.Context, _ time.Duration) error { return ctx.Err() })
	return client
}

// spill calls Spill and checks which container accepts writes, and whether the
// call changed it.
func (l *logs) spill(client *azcosmos.Client, wantTarget string, wantMade bool) {
	l.t.Helper()
	target, made, err := client.Spill(l.t.Context(), l.store, "logs", "")
	if err != nil || target.Name != wantTarget || made != wantMade {
		l.t.Errorf("Spill = %s, %v, %v, want %s, %v", target.Name, made, err, wantTarget, wantMade)
	}
}

// create creates an item and checks its container.
func (l *logs) create(client *azcosmos.Client, id, want string) {
	l.t.Helper()
	item, err := client.Create(l.t.Context(), fmt.Appendf(nil, `{"id":%q,"userId":"J"}`, id), nil)
	if err != nil || item.Ref.Target != want {
		l.t.Errorf("%s was created in %s, %v, want %s", id, item.Ref.Target, err, want)
	}
}

// knows checks that a client finds an item of another client where it is, and
// writes it nowhere else.
func (l *logs) knows(client *azcosmos.Client, id, want string) {
	l.t.Helper()
	document := fmt.Appendf(nil, `{"id":%q,"userId":"J"}`, id)
	if item, err := client.Read(l.t.Context(), azcosmos.Ref{Key: resolver.TextKey("J"), ID: id}, nil); err != nil || item.Ref.Target != want {
		l.t.Errorf("%s is read from %s, %v, want %s", id, item.Ref.Target, err, want)
	}
	if item, err := client.Create(l.t.Context(), document, nil); !isStatus(err, 409) {
		l.t.Errorf("%s was created again in %s, %v, want 409", id, item.Ref.Target, err)
	}
	if item, err := client.Upsert(l.t.Context(), document, nil); err != nil || item.Ref.Target != want {
		l.t.Errorf("%s was upserted in %s, %v, want %s", id, item.Ref.Target, err, want)
	}
}

// TestSpillover fills containers with two clients that call Spill at once: one
// new container appears, writes go there, and reads ask all containers (S180).
func TestSpillover(t *testing.T) {
	t.Parallel()
	l := newLogs(t, resolver.Scheme{MaxDocuments: 10})
	clients := []*azcosmos.Client{l.client(), l.client()}
	for i := range 25 {
		l.create(clients[i%2], fmt.Sprint("l", i), fmt.Sprint("logs-", i/9)) // 9 of 10 is full
		var wait sync.WaitGroup
		for _, client := range clients {
			wait.Go(func() {
				if _, _, err := client.Spill(t.Context(), l.store, "logs", ""); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		for _, client := range clients {
			if err := client.View().Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := names(clients[0].View().Routing().Targets()); !slices.Equal(got, []string{"logs-0", "logs-1", "logs-2"}) {
		t.Errorf("targets %q", got)
	}
	if rows := all(t, clients[0], "SELECT VALUE COUNT(1) FROM c", nil); !slices.Equal(rows, []string{"25"}) {
		t.Errorf("count %s, want 25", rows)
	}
	// An item in an old container is found, changed and deleted there.
	ref := azcosmos.Ref{Key: resolver.TextKey("J"), ID: "l3"}
	for _, op := range []func() (azcosmos.Item, error){
		func() (azcosmos.Item, error) { return clients[0].Read(t.Context(), ref, nil) },
		func() (azcosmos.Item, error) {
			return clients[0].Upsert(t.Context(), []byte(`{"id":"l3","userId":"J","n":1}`), nil)
		},
		func() (azcosmos.Item, error) {
			return clients[0].Replace(t.Context(), []byte(`{"id":"l3","userId":"J","n":2}`), nil)
		},
		func() (azcosmos.Item, error) { return clients[0].Delete(t.Context(), ref, nil) },
	} {
		if item, err := op(); err != nil || item.Ref.Target != "logs-0" {
			t.Errorf("an old item: %s, %v, want logs-0", item.Ref.Target, err)
		}
	}
}

// TestSpillUnequalViews has two clients, one of which has the next state of a
// spillover already. Each finds what the other writes and writes it nowhere else
// (S180). A query that began earlier continues in the container where it began.
func TestSpillUnequalViews(t *testing.T) {
	t.Parallel()
	l := newLogs(t, resolver.Scheme{MaxDocuments: 5})
	ahead, late := l.client(), l.client()
	for i := range 5 {
		l.create(ahead, fmt.Sprint("l", i), "logs-0")
	}
	const query = "SELECT VALUE c.id FROM c ORDER BY c.id"
	pager := late.Query(query, resolver.All[resolver.Key](), &azcosmos.QueryOptions{PageSize: 2})
	begun, err := pager.NextPage(t.Context())
	if err != nil || len(begun.Items) != 2 {
		t.Fatalf("the first page has %d rows, %v", len(begun.Items), err)
	}
	settled := time.Duration(0)
	ahead.SetSleep(func(_ context.Context, d time.Duration) error {
		settled += d
		// ahead has the first of the two states, late has neither.
		l.create(ahead, "opening", "logs-0")
		l.knows(late, "opening", "logs-0")
		l.create(late, "unaware", "logs-0")
		l.knows(ahead, "unaware", "logs-0")
		return late.View().Refresh(t.Context()) // as it would within the lease
	})
	l.spill(ahead, "logs-1", true)
	if want := time.Hour + azcosmos.TimeoutDefault; settled != want {
		t.Errorf("between the states Spill waits %v, want lease and timeout, %v", settled, want)
	}
	if err := ahead.View().Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	// ahead has the second state, late has the first.
	l.create(ahead, "open", "logs-1")
	l.knows(late, "open", "logs-1")
	l.create(late, "late", "logs-0")
	l.knows(ahead, "late", "logs-0")
	want := []string{`"l0"`, `"l1"`, `"l2"`, `"l3"`, `"l4"`, `"late"`, `"open"`, `"opening"`, `"unaware"`}
	for name, client := range map[string]*azcosmos.Client{"ahead": ahead, "late": late} {
		if rows := all(t, client, query, nil); !slices.Equal(rows, want) {
			t.Errorf("%s reads %s, want %s", name, rows, want)
		}
	}
	if err := late.View().Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, pager := range []*azcosmos.Pager{pager, late.Query(query, resolver.All[resolver.Key](), &azcosmos.QueryOptions{Continuation: begun.Continuation})} {
		rest, _, err := pager.Items(t.Context())
		if want := want[2:]; err != nil || len(rest) != len(want)-1 || slices.Contains(appendRows(nil, rest), `"open"`) {
			t.Errorf("the query from before gives %s, %v, want %s without the items of the new container", rest, err, want)
		}
	}
}

// TestSpillDies crashes a program between the two states of a spillover. The
// full container continues to accept writes, and the next call of Spill finishes
// the work. A program that waits during that finds it finished.
func TestSpillDies(t *testing.T) {
	t.Parallel()
	l := newLogs(t, resolver.Scheme{MaxDocuments: 3})
	first, second, third := l.client(), l.client(), l.client()
	for i := range 3 {
		l.create(first, fmt.Sprint("l", i), "logs-0")
	}
	first.SetSleep(func(context.Context, time.Duration) error { return errKilled })
	if target, made, err := first.Spill(t.Context(), l.store, "logs", ""); !errors.Is(err, errKilled) || made || target.Name != "logs-0" {
		t.Fatalf("Spill that dies = %s, %v, %v", target.Name, made, err)
	}
	if err := second.View().Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.create(second, "more", "logs-0")
	second.SetSleep(func(context.Context, time.Duration) error {
		l.spill(third, "logs-1", true)
		return nil
	})
	l.spill(second, "logs-1", false)
	l.spill(third, "logs-1", false)
	if err := third.View().Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.create(third, "new", "logs-1")
}

// TestSpillBytes fills containers by the size that the server reports (S180).
func TestSpillBytes(t *testing.T) {
	t.Parallel()
	const kib, most = 1 << 10, 64
	l := newLogs(t, resolver.Scheme{MaxBytes: most * kib})
	client := l.client()
	filler := strings.Repeat("x", 4*kib)
	count := map[string]int{}
	for i := range 40 {
		item, err := client.Create(t.Context(), fmt.Appendf(nil, `{"id":"l%d","userId":"J","filler":%q}`, i, filler), nil)
		if err != nil {
			t.Fatal(err)
		}
		count[item.Ref.Target]++
		if _, _, err := client.Spill(t.Context(), l.store, "logs", ""); err != nil {
			t.Fatal(err)
		}
		if err := client.View().Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	// Full is 0.9 of 64 KiB, and a document is a little more than 4 KiB.
	if n := count["logs-0"]; n < 13 || n > 15 || count["logs-1"] != n || count["logs-2"] != 40-2*n {
		t.Errorf("documents by container: %v, want 13 to 15 in each but the last", count)
	}
}
