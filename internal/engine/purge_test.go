package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/status"
)

// TestDeleteByKeyWhileSplitting fills tenants, each with its users on several
// partitions, and deletes them by tenant and by user while partitions are split:
// after the answer no deleted document is seen, and none that was written later is
// lost.
func TestDeleteByKeyWhileSplitting(t *testing.T) {
	t.Parallel()
	const users, documents = 3, 4
	seed := rand.Uint64()
	w := newWorld(t, func(cfg *engine.Config) { cfg.PrefixDeletes = true })
	link := w.container(t, 1, "/k", "/u")
	var done atomic.Bool
	var deleted, hidden atomic.Int64
	var group sync.WaitGroup
	for side := range 3 {
		group.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(side)))
			for n := 0; !done.Load() || n < 10; n++ {
				tenant := fmt.Sprint("key", side+3*random.IntN(pairs/3)) // Each goroutine has its own.
				for i := range users * documents {
					body := parse(t, fmt.Sprintf(`{"id":"%d","k":%q,"u":%d,"n":%d}`, i/users, tenant, i%users, n))
					if _, err := w.Upsert(t.Context(), caller, engine.DocumentRequest{Link: link, Document: body}); err != nil {
						t.Errorf("seed %d: %v", seed, err)
						return
					}
				}
				name, want := fmt.Sprintf(`[%q]`, tenant), 0
				if random.IntN(2) == 0 {
					name, want = fmt.Sprintf(`[%q,1]`, tenant), (users-1)*documents
				}
				got, err := w.DeleteByKey(t.Context(), caller, engine.KeyRequest{Link: link, Key: key(t, name)})
				if err != nil || got.Session == "" || got.Charge == 0 {
					t.Errorf("seed %d: %+v, %v", seed, got, err)
					return
				}
				for _, text := range []string{"SELECT VALUE c.id FROM c", "SELECT VALUE c.id FROM c WHERE c.n >= 0 ORDER BY c.n"} {
					req := engine.QueryRequest{Link: link, Key: key(t, fmt.Sprintf(`[%q]`, tenant)), Text: text, Cross: true, Full: true}
					if rows, _ := w.all(t, req); len(rows) != want {
						t.Errorf("seed %d: %d documents of %s after the deletion of %s, want %d", seed, len(rows), tenant, name, want)
						return
					}
				}
				deleted.Add(1)
				hidden.Add(int64(purging(t, w, link))) // The node removes them once a second.
			}
		})
	}
	splits := splitAtRandom(t, w, rand.New(rand.NewPCG(seed, 100)), 5)
	done.Store(true)
	group.Wait()
	if splits < 5 || deleted.Load() < 30 {
		t.Errorf("seed %d: %d splits, %d deletions", seed, splits, deleted.Load())
	}
	if hidden.Load() == 0 {
		t.Error("nothing was left to be cleared: the test shows too little")
	}
	for purging(t, w, link) > 0 {
		w.node.Clear(t.Context())
	}
	w.check(t)
}

// purging returns how many marks the partitions of a container have.
func purging(t *testing.T, w *world, link engine.Link) (n int) {
	t.Helper()
	all, err := w.PartitionStats(t.Context(), caller, link)
	if err != nil {
		t.Error(err)
	}
	for _, p := range all {
		n += p.Purging
	}
	return n
}

// TestDeleteByKeyRefused sends invalid keys.
func TestDeleteByKeyRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(cfg *engine.Config) { cfg.PrefixDeletes = true })
	link := w.container(t, 2, "/k", "/u")
	for text, want := range map[string]status.Code{
		"": status.CodeBadRequest, `[]`: status.CodeBadRequest, `["a","b","c"]`: status.CodeBadRequest, `["a"]`: 0, `["a",{}]`: 0, `[null,1]`: 0,
	} {
		_, err := w.DeleteByKey(t.Context(), caller, engine.KeyRequest{Link: link, Key: key(t, text)})
		if status.CodeOf(err) != want {
			t.Errorf("%s: %v, want %d", text, err, want)
		}
	}
	gone := engine.KeyRequest{Link: engine.Link{Database: "d", Container: "none"}, Key: key(t, `["a"]`)}
	if _, err := w.DeleteByKey(context.Background(), caller, gone); status.CodeOf(err) != status.CodeNotFound {
		t.Errorf("no container: %v", err)
	}
	gone = engine.KeyRequest{Link: link, Key: key(t, `["a"]`), Options: engine.Options{IntendedRID: "AAAA"}}
	if _, err := w.DeleteByKey(context.Background(), caller, gone); status.SubOf(err) != status.SubContainerRecreated {
		t.Errorf("another container: %v", err)
	}
}
