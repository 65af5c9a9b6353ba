package partition

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/replication/replicationtest"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
)

// Shared by the tests of splits and merges.

// testEveryFamily fails if a child does not handle a family of rows.
func testEveryFamily(t *testing.T, known []storage.Family) {
	t.Helper()
	for b := range 256 {
		f, exists := storage.FamilyOf([]byte{byte(b)})
		if exists && !slices.Contains(known, f) {
			t.Errorf("nobody has said what becomes of the rows of family %s", f)
		}
	}
}

// everyIndex is a policy with vectors, full text, composite and spatial indexes and
// computed properties.
const everyIndex = `{"indexingPolicy":{"includedPaths":[{"path":"/*"},{"path":"/twice/?"}],"excludedPaths":[{"path":"/v/*"}],` +
	`"compositeIndexes":[[{"path":"/n"},{"path":"/m","order":"descending"}]],"spatialIndexes":[{"path":"/g/*","types":["Point"]}],` +
	`"fullTextIndexes":[{"path":"/text"}],"vectorIndexes":[{"path":"/v","type":"quantizedFlat"}]},` +
	`"vectorEmbeddingPolicy":{"vectorEmbeddings":[{"path":"/v","dataType":"float32","dimensions":3,"distanceFunction":"cosine"}]},` +
	`"fullTextPolicy":{"defaultLanguage":"en-US","fullTextPaths":[{"path":"/text","language":"en-US"}]},` +
	`"computedProperties":[{"name":"twice","query":"SELECT VALUE c.n * 2 FROM c"}]}`

// everyIndexKey is the key of the documents that writeIndexed writes.
var everyIndexKey = []string{"/a", "/b", "/c"}

// writeIndexed upserts documents of so many tenants that are in indexes of every
// kind, begins, and upserts some of them again and some more. They are 160.
func writeIndexed(t *testing.T, write func(text string) error, tenants int, begin func()) {
	t.Helper()
	one := func(i, v int) {
		t.Helper()
		err := write(fmt.Sprintf(`{"id":"%d","a":"t%d","b":%d,"c":null,"n":%d,"m":%d,"v":[%d,2,3],"text":"the %d quick foxes","g":{"type":"Point","coordinates":[%d,%d]}}`,
			i, i%tenants, i%3, v%7, i%5, v, v, i%90, v%80))
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 120 {
		one(i, i)
	}
	begin()
	for i := range 40 {
		one(i, i+1)
		one(200+i, i)
	}
}

// flaky opens the partition again with a group that loses effects, refuses and delays
// them.
func (w *world) flaky(t *testing.T, seed uint64) {
	t.Helper()
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	err := w.openWith(func(sm replication.StateMachine) replication.Group {
		return replicationtest.NewFlaky(sm, replicationtest.FlakyOptions{Seed: seed, Delay: 0.2, Lose: 0.05, Refuse: 0.02})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// bearable fails the test on an error that such a group does not cause.
func bearable(t *testing.T, err error) {
	t.Helper()
	switch status.CodeOf(err) {
	case 0, status.CodeUnavailable, status.CodeTooManyRequests:
	default:
		t.Errorf("got %v, want 429 or 503", err)
	}
}

// sealOften begins, seals and cancels sixty times, and fails the test if no seal
// succeeds.
func sealOften[H interface {
	Seal(context.Context) error
	Cancel()
}](t *testing.T, begin func() (H, error)) {
	t.Helper()
	sealed := 0
	for range 60 {
		h, err := begin()
		if err != nil {
			continue
		}
		if err = h.Seal(context.Background()); err == nil {
			sealed++
		}
		h.Cancel()
	}
	if sealed == 0 {
		t.Error("nothing was sealed")
	}
}
