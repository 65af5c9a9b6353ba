package azcosmos_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	sdk "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/decandb/decan/resolver"
	"github.com/decandb/decan/resolver/azcosmos"
)

// beforeDelete runs a function before the first deletion of an item is sent.
type beforeDelete struct {
	once sync.Once
	do   func()
}

func (b *beforeDelete) Do(request *policy.Request) (*http.Response, error) {
	if raw := request.Raw(); raw.Method == http.MethodDelete && strings.Contains(raw.URL.Path, "/docs/") {
		b.once.Do(b.do)
	}
	return request.Next()
}

// TestCleanSparesNewItems replaces an old item by another one after the clean
// phase has read it and before it deletes it: same id, same partition key, but a
// key that does not move. The new item must stay. A change of the old item
// itself does not save it.
func TestCleanSparesNewItems(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, region string
		left         int
	}{
		{"another item", "fi", 1},
		{"the old one once more", "no", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			table := func(no string) resolver.Plan {
				return resolver.Plan{Scheme: resolver.Scheme{Kind: resolver.KindLookup, Table: []resolver.LookupSpec{
					{Values: []resolver.Value{text("no")}, Target: no}, {Values: []resolver.Value{text("fi")}, Target: "c0"},
				}}}
			}
			w := newWorld(t, 2, resolver.State{
				Key:     resolver.KeySpec{Paths: []string{"/region"}},
				Targets: []resolver.Target{{Name: "c0", Database: "db", Container: "c0"}, {Name: "c1", Database: "db", Container: "c1"}},
				Current: table("c0"),
			})
			live, err := resolver.Watch(t.Context(), resolver.LiveConfig{Store: w.store, Name: "users", Poll: -1, Lease: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			defer live.Close()
			old, err := connect(t, w.server).NewContainer("db", "c0")
			if err != nil {
				t.Fatal(err)
			}
			hook := &beforeDelete{do: func() {
				item := `{"id":"same","userId":"J","n":2,"region":"` + c.region + `"}`
				if _, err := old.UpsertItem(t.Context(), sdk.NewPartitionKeyString("J"), []byte(item), nil); err != nil {
					t.Error(err)
				}
			}}
			client, err := azcosmos.New(azcosmos.Config{Accounts: map[string]*sdk.Client{"": connect(t, w.server, hook)}, View: live, PartitionKey: []string{"/userId"}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := client.Create(t.Context(), []byte(`{"id":"same","userId":"J","region":"no","n":1}`), nil); err != nil {
				t.Fatal(err)
			}
			mover, err := azcosmos.NewMover(azcosmos.MoverConfig{Client: client, Store: w.store, Name: "users", Settle: azcosmos.SettleClients(client)})
			if err != nil {
				t.Fatal(err)
			}
			if err := mover.Begin(t.Context(), "north", nil, table("c1")); err != nil {
				t.Fatal(err)
			}
			if _, err := mover.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if items := w.contents(w.targets[0]); len(items) != c.left {
				t.Errorf("%d items are left in the old container, want %d: %v", len(items), c.left, items)
			}
			if items := w.contents(w.targets[1]); len(items) != 1 {
				t.Errorf("%d items in the new container, want the one that moved", len(items))
			}
		})
	}
}
