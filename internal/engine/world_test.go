package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// world is an engine on stores in memory, which can be opened again.
type world struct {
	*engine.Engine
	pool    *storage.Pool
	store   *storage.Store
	catalog *catalog.Catalog
	node    *cluster.Node
	cfg     engine.Config
	maxOpen int

	throttling cluster.Throttling // takes effect at the next opening
}

// caller is a caller with all permissions.
var caller = auth.Owner()

// anonymous is a caller without any permission.
var anonymous auth.Caller

// newWorld opens a world. change edits the defaults.
func newWorld(t testing.TB, change func(*engine.Config)) *world {
	t.Helper()
	pool, err := storage.NewPool(storage.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{pool: pool, cfg: engine.Config{
		Account: resource.Account{ID: "test", Consistency: resource.Session},
		Limits:  resource.DefaultLimits(),
	}}
	w.cfg.Limits.PageTime = time.Minute // A slow machine must not end a page early.
	if change != nil {
		change(&w.cfg)
	}
	if w.store, err = pool.Create("data/catalog"); err != nil {
		t.Fatal(err)
	}
	w.open(t)
	t.Cleanup(func() {
		if err := errors.Join(w.node.Close(), w.store.Close(), pool.Close()); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) open(t testing.TB) {
	t.Helper()
	var err error
	if w.catalog, err = catalog.Open(w.store, w.cfg.Now); err != nil {
		t.Fatal(err)
	}
	w.node, err = cluster.Start(cluster.Config{
		Pool: w.pool, Dir: "data", Catalog: w.catalog, Limits: w.cfg.Limits, MaxOpen: w.maxOpen, Now: w.cfg.Now,
		Throttling: w.throttling,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.cfg.Catalog, w.cfg.Node = w.catalog, w.node
	w.Engine = engine.New(w.cfg)
}

func (w *world) reopen(t testing.TB) {
	t.Helper()
	if err := errors.Join(w.node.Close(), w.store.Close()); err != nil {
		t.Fatal(err)
	}
	var err error
	if w.store, err = w.pool.Open("data/catalog"); err != nil {
		t.Fatal(err)
	}
	w.open(t)
}

// clock is a time that a test sets while the node reads it. It is never before
// 1970.
type clock struct{ nanos atomic.Int64 }

func (c *clock) set(now time.Time) { c.nanos.Store(now.UnixNano()) }

func (c *clock) now() time.Time { return time.Unix(0, c.nanos.Load()) }

// parse is value.ParseString for valid text.
func parse(t testing.TB, text string) value.Value {
	t.Helper()
	v, err := value.ParseString(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// key parses a key in its wire form. An empty text is no key.
func key(t testing.TB, text string) *partitionkey.Key {
	t.Helper()
	if text == "" {
		return nil
	}
	k, err := partitionkey.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return &k
}

// container creates database d, and in it container c with the key paths, of
// kind MultiHash unless there is one path.
func (w *world) container(t testing.TB, partitions int, paths ...string) engine.Link {
	t.Helper()
	kind := "MultiHash"
	if len(paths) == 1 {
		kind = "Hash"
	}
	return w.containerOf(t, partitions, fmt.Sprintf(`{"id":"c","partitionKey":{"paths":["%s"],"kind":%q,"version":2}}`, strings.Join(paths, `","`), kind))
}

// containerOf creates database d, and in it the container c that body defines.
func (w *world) containerOf(t testing.TB, partitions int, body string) engine.Link {
	t.Helper()
	ctx := context.Background()
	if _, err := w.CreateDatabase(ctx, caller, engine.DatabaseRequest{Body: parse(t, `{"id":"d"}`)}); err != nil {
		t.Fatal(err)
	}
	_, err := w.CreateContainer(ctx, caller, engine.ContainerRequest{Link: engine.Link{Database: "d"}, Body: parse(t, body), Partitions: partitions})
	if err != nil {
		t.Fatal(err)
	}
	return engine.Link{Database: "d", Container: "c"}
}

// create stores a document, or fails the test.
func (w *world) create(t testing.TB, link engine.Link, doc string) engine.Document {
	t.Helper()
	d, err := w.Create(context.Background(), caller, engine.DocumentRequest{Link: link, Document: parse(t, doc), Size: len(doc)})
	if err != nil {
		t.Fatalf("create %s: %v", doc, err)
	}
	return d
}

// all reads all pages of a query, and returns the rows and the partitions
// visited, sorted.
func (w *world) all(t testing.TB, req engine.QueryRequest) (rows []string, visited []resource.PartitionID) {
	t.Helper()
	run := w.Query
	if req.Text == "" {
		run = w.List
	}
	for range 100_000 {
		page, err := run(context.Background(), caller, req)
		if err != nil {
			t.Fatalf("%s: %v", req.Text, err)
		}
		for _, row := range page.Rows {
			rows = append(rows, string(row))
		}
		if req.MaxItems > 0 && len(page.Rows) > req.MaxItems {
			t.Fatalf("%s: a page of %d rows, want at most %d", req.Text, len(page.Rows), req.MaxItems)
		}
		for _, id := range page.Partitions {
			if !slices.Contains(visited, id) {
				visited = append(visited, id)
			}
		}
		if page.Continuation == "" {
			slices.Sort(visited)
			return rows, visited
		}
		if len(page.Continuation) >= 1024 {
			t.Fatalf("continuation of %d bytes", len(page.Continuation))
		}
		req.Continuation = page.Continuation
	}
	t.Fatalf("%s: no end", req.Text)
	return nil, nil
}

// param returns the parameters of a query.
func params(t testing.TB, pairs ...string) []query.Param {
	t.Helper()
	var list []query.Param
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, query.Param{Name: pairs[i], Value: parse(t, pairs[i+1])})
	}
	return list
}
