package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// Readers, writers, queries, changes of the policy and creation and deletion of
// containers run concurrently, with more partitions than may be open. Every
// session token is valid, afterwards no document is missing, and every
// invariant holds.
func TestConcurrentRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	link := w.container(t, 8, "/t", "/u")
	// Fewer stores than partitions may be open, so that they are closed and opened
	// all the time.
	w.maxOpen = 5
	w.reopen(t)
	ctx := context.Background()
	var users sync.WaitGroup
	for g := range 6 {
		users.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 7))
			for i := range 25 {
				id, k := fmt.Sprintf("%d-%d", g, i), fmt.Sprintf(`["t%d",%d]`, random.IntN(4), random.IntN(9))
				doc := fmt.Sprintf(`{"id":%q,"t":%s,"u":%s,"n":%d}`, id, k[1:5], k[6:7], i)
				made, err := w.Create(ctx, caller, engine.DocumentRequest{Link: link, Document: parse(t, doc)})
				if err != nil {
					t.Errorf("create %s: %v", doc, err)
					return
				}
				// The session token guarantees that the write is visible.
				read := engine.DocumentRequest{Link: link, Key: key(t, k), Options: engine.Options{Session: made.Session}}
				read.Link.Document = id
				got, err := w.Read(ctx, caller, read)
				if err != nil || string(got.Body) != string(made.Body) {
					t.Errorf("read %s: %s, %v", id, got.Body, err)
				}
				if i%5 == 0 {
					_, err := w.Query(ctx, caller, engine.QueryRequest{Link: link, Text: "SELECT TOP 5 * FROM c ORDER BY c.n", Full: true})
					if err != nil {
						t.Errorf("query: %v", err)
					}
				}
			}
		})
	}
	users.Go(func() {
		for i := range 6 {
			body := fmt.Sprintf(`{"id":"c","partitionKey":{"paths":["/t","/u"],"kind":"MultiHash"},"indexingPolicy":{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/x%d/?"}]}}`, i)
			if _, err := w.ReplaceContainer(ctx, caller, engine.ContainerRequest{Link: link, Body: parse(t, body)}); err != nil {
				t.Errorf("replace container: %v", err)
			}
		}
	})
	users.Go(func() {
		for i := range 5 {
			name := fmt.Sprintf("other%d", i)
			_, err := w.CreateContainer(ctx, caller, engine.ContainerRequest{Link: engine.Link{Database: "d"}, Body: parse(t, fmt.Sprintf(`{"id":%q,"partitionKey":{"paths":["/pk"]}}`, name)), Partitions: 2})
			if err != nil {
				t.Errorf("create container: %v", err)
			}
			other := engine.Link{Database: "d", Container: name}
			w.create(t, other, `{"id":"1","pk":"a"}`)
			var inner sync.WaitGroup
			for range 3 {
				inner.Go(func() {
					_, err := w.List(ctx, caller, engine.QueryRequest{Link: other})
					if err != nil && status.SubOf(err) != status.SubOwnerNotFound {
						t.Errorf("list while it is deleted: %v", err)
					}
				})
			}
			if _, err := w.DeleteContainer(ctx, caller, engine.ContainerRequest{Link: other}); err != nil {
				t.Errorf("delete container: %v", err)
			}
			inner.Wait()
		}
	})
	users.Wait()
	rows, _ := w.all(t, engine.QueryRequest{Link: link, Text: "SELECT VALUE c.id FROM c", Cross: true, MaxItems: 10})
	if len(rows) != 150 {
		t.Errorf("%d documents, want 150", len(rows))
	}
	w.check(t)
}

// check closes the stores of the world, verifies all of them, and opens them
// again.
func (w *world) check(t testing.TB) {
	t.Helper()
	if err := errors.Join(w.node.Close(), w.store.Close()); err != nil {
		t.Fatal(err)
	}
	report, err := cluster.CheckStores(w.pool, "data")
	if err != nil || !report.Clean() {
		text := fmt.Sprintf("%+v", report)
		t.Errorf("check: %v %s", err, text[:min(len(text), 2000)])
	}
	if w.store, err = w.pool.Open("data/catalog"); err != nil {
		t.Fatal(err)
	}
	w.open(t)
}

// A query gives the same answer before, during and after a change of the
// policy, and the index transformation completes.
func TestIndexingPolicyChange(t *testing.T) {
	t.Parallel()
	w, link := items(t, 4, 200)
	ctx := context.Background()
	const text = "SELECT VALUE c.id FROM c WHERE c.n = 7"
	want, _ := w.all(t, engine.QueryRequest{Link: link, Text: text, Cross: true})
	for _, policy := range []string{
		`{"indexingMode":"consistent","includedPaths":[{"path":"/t/?"}],"excludedPaths":[{"path":"/*"}]}`,
		`{"indexingMode":"none","automatic":false}`,
		`{"indexingMode":"consistent","includedPaths":[{"path":"/*"}]}`,
	} {
		body := `{"id":"c","partitionKey":{"paths":["/t","/u"],"kind":"MultiHash"},"indexingPolicy":` + policy + `}`
		_, err := w.ReplaceContainer(ctx, caller, engine.ContainerRequest{Link: link, Body: parse(t, body)})
		if err != nil {
			t.Fatal(err)
		}
		deadline := time.Now().Add(2 * time.Minute)
		for progress := 0; progress < 100; {
			got, _ := w.all(t, engine.QueryRequest{Link: link, Text: text, Cross: true})
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("at %d %%: %d rows, want %d", progress, len(got), len(want))
			}
			r, err := w.ReadContainer(ctx, caller, engine.ContainerRequest{Link: link})
			if err != nil {
				t.Fatal(err)
			}
			if progress = r.IndexProgress; time.Now().After(deadline) {
				t.Fatalf("still at %d %%", progress)
			}
		}
		w.check(t)
	}
}

// A request whose context has ended returns 408 and has no effect.
func TestCancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	link := w.container(t, 2, "/pk")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	req := engine.DocumentRequest{Link: link, Key: key(t, `["a"]`), Document: parse(t, `{"id":"1","pk":"a"}`)}
	if _, err := w.Create(ctx, caller, req); status.CodeOf(err) != status.CodeRequestTimeout {
		t.Errorf("create: %v", err)
	}
	req.Link.Document = "1"
	if _, err := w.Read(ctx, caller, req); status.CodeOf(err) != status.CodeRequestTimeout {
		t.Errorf("read: %v", err)
	}
	if _, err := w.Query(ctx, caller, engine.QueryRequest{Link: link, Text: "SELECT * FROM c", Cross: true}); status.CodeOf(err) != status.CodeRequestTimeout {
		t.Errorf("query: %v", err)
	}
	body := parse(t, `{"id":"late","partitionKey":{"paths":["/pk"]}}`)
	if _, err := w.CreateContainer(ctx, caller, engine.ContainerRequest{Link: engine.Link{Database: "d"}, Body: body}); status.CodeOf(err) != status.CodeRequestTimeout {
		t.Errorf("create container: %v", err)
	}
	rows, _ := w.all(t, engine.QueryRequest{Link: link, Text: "SELECT VALUE c.id FROM c", Cross: true})
	if len(rows) != 0 {
		t.Errorf("rows %v", rows)
	}
	w.check(t)
}

// Of several concurrent creations of one name one succeeds. The others get 409
// and leave nothing on disk.
func TestCreationRace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.container(t, 1, "/pk")
	ctx := context.Background()
	var made, refused int
	var mu sync.Mutex
	var users sync.WaitGroup
	for range 6 {
		users.Go(func() {
			_, err := w.CreateContainer(ctx, caller, engine.ContainerRequest{Link: engine.Link{Database: "d"}, Body: parse(t, `{"id":"same","partitionKey":{"paths":["/pk"]}}`), Partitions: 3})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				made++
			case status.CodeOf(err) == status.CodeConflict:
				refused++
			default:
				t.Error(err)
			}
		})
	}
	users.Wait()
	if made != 1 || refused != 5 {
		t.Errorf("%d created and %d refused, want 1 and 5", made, refused)
	}
	w.check(t)
}

// Concurrent upserts of one new user or permission all succeed, and one of them
// creates it. An upsert also succeeds if another client deletes the user meanwhile.
func TestConcurrentUpserts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.container(t, 1, "/pk")
	ctx, link := context.Background(), engine.Link{Database: "d"}
	race := func(what string, wanted int, calls ...func() (bool, error)) {
		t.Helper()
		var created atomic.Int64
		start := make(chan struct{})
		var group sync.WaitGroup
		for _, call := range calls {
			group.Go(func() {
				<-start
				made, err := call()
				if err != nil {
					t.Errorf("%s: %v", what, err)
				}
				if made {
					created.Add(1)
				}
			})
		}
		close(start)
		group.Wait()
		if n := int(created.Load()); wanted >= 0 && n != wanted {
			t.Errorf("%s: created %d times, want %d", what, n, wanted)
		}
	}
	for i := range 100 {
		name := fmt.Sprintf("u%d", i)
		user := func() (bool, error) {
			_, created, err := w.UpsertUser(ctx, caller, engine.UserRequest{Link: link, Body: parse(t, `{"id":"`+name+`"}`)})
			return created, err
		}
		permission := func() (bool, error) {
			body := parse(t, `{"id":"p","permissionMode":"Read","resource":"dbs/d/colls/c"}`)
			_, created, err := w.UpsertPermission(ctx, caller, engine.PermissionRequest{Link: link, User: name, Body: body})
			return created, err
		}
		remove := func() (bool, error) {
			_, err := w.DeleteUser(ctx, caller, engine.UserRequest{Link: link, User: name})
			return false, err
		}
		race("new user", 1, user, user, user, user)
		race("new permission", 1, permission, permission, permission, permission)
		race("user deleted meanwhile", -1, user, remove)
	}
}

// A caller without permissions is refused by every operation.
func TestPermission(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	link := w.container(t, 1, "/pk")
	ctx := context.Background()
	doc := engine.DocumentRequest{Link: link, Key: key(t, `["a"]`), Document: parse(t, `{"id":"1","pk":"a"}`)}
	doc.Link.Document = "1"
	def := engine.ContainerRequest{Link: link, Body: parse(t, `{"id":"x","partitionKey":{"paths":["/pk"]}}`)}
	q := engine.QueryRequest{Link: link, Text: "SELECT * FROM c", Cross: true}
	for name, call := range map[string]func() error{
		"create":  func() error { _, err := w.Create(ctx, anonymous, doc); return err },
		"upsert":  func() error { _, err := w.Upsert(ctx, anonymous, doc); return err },
		"replace": func() error { _, err := w.Replace(ctx, anonymous, doc); return err },
		"delete":  func() error { _, err := w.Delete(ctx, anonymous, doc); return err },
		"read":    func() error { _, err := w.Read(ctx, anonymous, doc); return err },
		"query":   func() error { _, err := w.Query(ctx, anonymous, q); return err },
		"list":    func() error { _, err := w.List(ctx, anonymous, q); return err },
		"plan": func() error {
			_, err := w.QueryPlan(ctx, anonymous, engine.PlanRequest{Link: link, Text: q.Text})
			return err
		},
		"ranges": func() error { _, err := w.Ranges(ctx, anonymous, def); return err },
		"stats":  func() error { _, err := w.PartitionStats(ctx, anonymous, link); return err },
		"create database": func() error {
			_, err := w.CreateDatabase(ctx, anonymous, engine.DatabaseRequest{Body: def.Body})
			return err
		},
		"read database": func() error { _, err := w.ReadDatabase(ctx, anonymous, engine.DatabaseRequest{Link: link}); return err },
		"delete database": func() error {
			_, err := w.DeleteDatabase(ctx, anonymous, engine.DatabaseRequest{Link: link})
			return err
		},
		"list databases":    func() error { _, err := w.ListDatabases(ctx, anonymous, q); return err },
		"query databases":   func() error { _, err := w.QueryDatabases(ctx, anonymous, q); return err },
		"create container":  func() error { _, err := w.CreateContainer(ctx, anonymous, def); return err },
		"read container":    func() error { _, err := w.ReadContainer(ctx, anonymous, def); return err },
		"replace container": func() error { _, err := w.ReplaceContainer(ctx, anonymous, def); return err },
		"delete container":  func() error { _, err := w.DeleteContainer(ctx, anonymous, def); return err },
		"list containers":   func() error { _, err := w.ListContainers(ctx, anonymous, q); return err },
		"query containers":  func() error { _, err := w.QueryContainers(ctx, anonymous, q); return err },
		"list offers":       func() error { _, err := w.ListOffers(ctx, anonymous, q); return err },
		"query offers":      func() error { _, err := w.QueryOffers(ctx, anonymous, q); return err },
		"read offer":        func() error { _, err := w.ReadOffer(ctx, anonymous, engine.OfferRequest{}); return err },
		"replace offer":     func() error { _, err := w.ReplaceOffer(ctx, anonymous, engine.OfferRequest{}); return err },
	} {
		if err := call(); status.CodeOf(err) != status.CodeUnauthorized {
			t.Errorf("%s: got %v, want 401", name, err)
		}
	}
}

// PartitionStats counts documents and calls of each partition.
func TestPartitionStats(t *testing.T) {
	t.Parallel()
	w, link := tenants(t, 8)
	stats, err := w.PartitionStats(context.Background(), caller, link)
	if err != nil {
		t.Fatal(err)
	}
	if len(stats) != 8 {
		t.Fatalf("%d partitions, want 8", len(stats))
	}
	var documents, writes int64
	var lsn resource.LSN
	for _, s := range stats {
		documents, writes, lsn = documents+s.Documents, writes+s.Writes, lsn+s.LSN
	}
	if documents != 120 || writes != 120 || lsn != 128 {
		t.Errorf("%d documents, %d writes, LSNs of %d, want 120, 120, and one LSN more for each partition", documents, writes, lsn)
	}
}
