package azcosmos_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/decandb/decan/decantest"
	"github.com/decandb/decan/resolver"
	"github.com/decandb/decan/resolver/azcosmos"
)

// TestContainerStore saves with compare-and-swap by etag: of many who replace one version,
// or make the first one, one does (S181, S189). What was saved under one prefix is not
// seen under another.
func TestContainerStore(t *testing.T) {
	t.Parallel()
	server := decantest.New(t)
	server.Container("db", `{"id":"meta","partitionKey":{"paths":["/id"],"kind":"Hash","version":2}}`, 2)
	container, err := connect(t, server).NewContainer("db", "meta")
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	store := azcosmos.ContainerStore{Container: container, Prefix: "group-"}
	if _, _, err := store.Load(ctx, "state"); !errors.Is(err, resolver.ErrNotFound) {
		t.Errorf("load of nothing: %v, want ErrNotFound", err)
	}
	if _, err := store.Save(ctx, "state", []byte(`{}`), `"none"`); !errors.Is(err, resolver.ErrChanged) {
		t.Errorf("a version of nothing was replaced: %v, want ErrChanged", err)
	}
	version := ""
	for round := range 10 {
		var wait sync.WaitGroup
		var mu sync.Mutex
		wins := map[string]string{}
		for i := range 4 {
			wait.Go(func() {
				document := fmt.Sprintf(`{"round":%d,"by":%d}`, round, i)
				next, err := store.Save(ctx, "state", []byte(document), version)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					wins[document] = next
				} else if !errors.Is(err, resolver.ErrChanged) {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		document, loaded, err := store.Load(ctx, "state")
		if err != nil || len(wins) != 1 || wins[string(document)] != loaded {
			t.Fatalf("round %d: %s in version %s, %v; saved %v", round, document, loaded, err, wins)
		}
		if _, err := store.Save(ctx, "state", []byte(`{}`), version); !errors.Is(err, resolver.ErrChanged) {
			t.Errorf("an old version was replaced: %v, want ErrChanged", err)
		}
		version = loaded
	}
	other := azcosmos.ContainerStore{Container: container, Prefix: "other-"}
	if _, _, err := other.Load(ctx, "state"); !errors.Is(err, resolver.ErrNotFound) {
		t.Errorf("load under another prefix: %v, want ErrNotFound", err)
	}
	if _, err := store.Save(ctx, "state", []byte(`{"version":2}`), version); err != nil {
		t.Fatal(err)
	}
	if _, _, err := resolver.LoadState(ctx, store, "state"); !errors.Is(err, resolver.ErrConfig) {
		t.Errorf("a state of another version: %v, want ErrConfig", err)
	}
}
