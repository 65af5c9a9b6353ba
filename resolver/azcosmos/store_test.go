package azcosmos_test

import (
	"errors"
	"testing"

	"github.com/decandb/decan/decantest"
	"github.com/decandb/decan/resolver"
	"github.com/decandb/decan/resolver/azcosmos"
	"github.com/decandb/decan/resolver/resolvertest"
)

// TestContainerStore is a Store with compare-and-swap by etag (S181, S189). A
// document that was saved with one prefix is invisible with another.
func TestContainerStore(t *testing.T) {
	t.Parallel()
	server := decantest.New(t)
	server.Container("db", `{"id":"meta","partitionKey":{"paths":["/id"],"kind":"Hash","version":2}}`, 2)
	container, err := connect(t, server).NewContainer("db", "meta")
	if err != nil {
		t.Fatal(err)
	}
	for _, prefix := range []string{"group-", "other-"} {
		resolvertest.RunStore(t, azcosmos.ContainerStore{Container: container, Prefix: prefix})
	}
	store := azcosmos.ContainerStore{Container: container}
	if _, err := store.Save(t.Context(), "state", []byte(`{"version":2}`), ""); err != nil {
		t.Fatal(err)
	}
	if _, _, err := resolver.LoadState(t.Context(), store, "state"); !errors.Is(err, resolver.ErrConfig) {
		t.Errorf("a state of another version: %v, want ErrConfig", err)
	}
}
