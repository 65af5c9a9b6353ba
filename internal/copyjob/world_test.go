package copyjob

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/pacing"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// world is an engine in memory with the database d, and its jobs.
type world struct {
	*engine.Engine
	catalog *catalog.Catalog
	jobs    *Jobs
	cfg     Config
}

var owner = auth.Owner()

func newWorld(t testing.TB, throttling cluster.Throttling) *world {
	t.Helper()
	return newWorldAt(t, throttling, nil)
}

// newWorldAt uses a clock for the budgets; nil is the real clock.
func newWorldAt(t testing.TB, throttling cluster.Throttling, now func() time.Time) *world {
	t.Helper()
	pool, err := storage.NewPool(storage.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	store, err := pool.Create("data/catalog")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{}
	if w.catalog, err = catalog.Open(store, nil); err != nil {
		t.Fatal(err)
	}
	limits := resource.DefaultLimits()
	limits.PageTime = time.Minute // so that a page does not end early on a slow machine
	node, err := cluster.Start(cluster.Config{Pool: pool, Dir: "data", Catalog: w.catalog, Limits: limits, Throttling: throttling, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	w.Engine = engine.New(engine.Config{Catalog: w.catalog, Node: node, Account: resource.Account{ID: "test", Consistency: resource.Session}, Limits: limits})
	w.cfg = Config{Catalog: w.catalog, Engine: w.Engine, Checkpoint: time.Hour, Poll: time.Millisecond, PageItems: 7}
	w.open(t, nil)
	t.Cleanup(func() {
		w.jobs.Close()
		if err := errors.Join(node.Close(), store.Close(), pool.Close()); err != nil {
			t.Error(err)
		}
	})
	if _, err := w.CreateDatabase(t.Context(), owner, engine.DatabaseRequest{Body: parse(t, `{"id":"d"}`)}); err != nil {
		t.Fatal(err)
	}
	return w
}

// open opens the jobs again, like a server that starts.
func (w *world) open(t testing.TB, step func(string) error) {
	t.Helper()
	w.cfg.step = step
	jobs, err := Open(w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.jobs = jobs
	jobs.Start()
}

func parse(t testing.TB, text string) value.Value {
	t.Helper()
	v, err := value.ParseString(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// container makes a container of d.
func (w *world) container(t testing.TB, name string, partitions int, paths ...string) {
	t.Helper()
	kind := "MultiHash"
	if len(paths) == 1 {
		kind = "Hash"
	}
	body := fmt.Sprintf(`{"id":%q,"partitionKey":{"paths":["%s"],"kind":%q,"version":2}}`, name, strings.Join(paths, `","`), kind)
	_, err := w.CreateContainer(context.Background(), owner, engine.ContainerRequest{Link: engine.Link{Database: "d"}, Body: parse(t, body), Partitions: partitions})
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) upsert(t testing.TB, container, text string) {
	t.Helper()
	if err := w.tryUpsert(container, parse(t, text)); err != nil {
		t.Fatalf("upsert %.200s: %v", text, err)
	}
}

func (w *world) tryUpsert(container string, doc value.Value) error {
	_, err := w.Upsert(context.Background(), owner, engine.DocumentRequest{
		Link: engine.Link{Database: "d", Container: container}, Document: doc, Size: len(doc.Append(nil)),
	})
	return err
}

// delete removes the document with the id and key in text.
func (w *world) delete(t testing.TB, container, text string) {
	t.Helper()
	doc := parse(t, text)
	c, _ := w.catalog.View().Container("d", container)
	key := c.KeyOf(doc)
	_, err := w.Delete(context.Background(), owner, engine.DocumentRequest{
		Link: engine.Link{Database: "d", Container: container, Document: doc.Get("id").Text()}, Key: &key,
	})
	if err != nil {
		t.Fatalf("delete %s: %v", text, err)
	}
}

// admitted repeats request while it is refused because of its throughput.
func (w *world) admitted(t testing.TB, request func() error) {
	t.Helper()
	for {
		err := request()
		if status.CodeOf(err) == status.CodeTooManyRequests && pacing.Sleep(t.Context(), status.From(err).RetryAfter) == nil {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
}

// documents returns the documents of a container, without system properties,
// sorted.
func (w *world) documents(t testing.TB, container string) []string {
	t.Helper()
	var all []string
	req := engine.QueryRequest{Link: engine.Link{Database: "d", Container: container}, MaxItems: -1}
	for {
		var page engine.Feed
		w.admitted(t, func() (err error) {
			page, err = w.List(context.Background(), owner, req)
			return err
		})
		for _, row := range page.Rows {
			all = append(all, parse(t, string(row)).Without(systemProperties...).JSON())
		}
		if page.Continuation == "" {
			slices.Sort(all)
			return all
		}
		req.Continuation = page.Continuation
	}
}

// same fails the test when two containers differ.
func (w *world) same(t testing.TB, source, target string) {
	t.Helper()
	want, got := w.documents(t, source), w.documents(t, target)
	if len(want) != len(got) {
		t.Errorf("%s has %d documents and %s %d", source, len(want), target, len(got))
	}
	for _, doc := range want {
		if !slices.Contains(got, doc) {
			t.Errorf("%s lacks %.300s", target, doc)
			return
		}
	}
	for _, doc := range got {
		if !slices.Contains(want, doc) {
			t.Errorf("%s has %.300s, which %s has not", target, doc, source)
			return
		}
	}
}

// copies returns a request to copy d/source to d/target.
func copies(name, source, target string, change ...func(*resource.CopyJob)) resource.CopyJob {
	asked := resource.CopyJob{Name: name, Tasks: []resource.CopyTask{{
		Source: resource.CopyEnd{Database: "d", Container: source},
		Target: resource.CopyEnd{Database: "d", Container: target},
	}}}
	for _, c := range change {
		c(&asked)
	}
	return asked
}

func online(j *resource.CopyJob) { j.Mode = resource.CopyOnline }
func mirror(j *resource.CopyJob) { j.Mirror = true }
func skip(j *resource.CopyJob)   { j.Skip = true }

func (w *world) create(t testing.TB, asked resource.CopyJob) {
	t.Helper()
	if _, err := w.jobs.Create(t.Context(), owner, asked); err != nil {
		t.Fatal(err)
	}
}

// wait waits until a job is not active and returns it.
func (w *world) wait(t testing.TB, name string) resource.CopyJob {
	t.Helper()
	for {
		w.jobs.mu.Lock()
		one := w.jobs.jobs[name]
		current := one.run
		state := one.state.Clone()
		w.jobs.mu.Unlock()
		switch {
		case current != nil:
			<-current.done
		case state.Status == resource.CopyPending:
			t.Fatalf("the job %s is not started", name)
		default:
			return state
		}
	}
}

// completed waits for a job and fails the test unless it has completed.
func (w *world) completed(t testing.TB, name string) resource.CopyJob {
	t.Helper()
	state := w.wait(t, name)
	if state.Status != resource.CopyCompleted {
		t.Fatalf("the job %s is %s: %+v", name, state.Status, state.Error)
	}
	if state.Processed() != state.Total() {
		t.Errorf("the job %s has completed with %d of %d", name, state.Processed(), state.Total())
	}
	return state
}

// split splits every partition of a container at half of its bytes, except those
// that cannot be divided.
func (w *world) split(t testing.TB, container string) (done int) {
	t.Helper()
	c, _ := w.catalog.View().Container("d", container)
	for _, p := range c.Partitions() {
		_, err := w.SplitPartition(context.Background(), owner, engine.SplitRequest{
			Link: engine.Link{Database: "d", Container: container}, Partition: p.ID,
		})
		if err == nil {
			done++
		} else if code := status.CodeOf(err); code != status.CodeBadRequest && code != status.CodeGone {
			t.Errorf("split %s of %s: %v", p.ID, container, err)
		}
	}
	return done
}

func keyOf(t testing.TB, text string) *partitionkey.Key {
	t.Helper()
	k, err := partitionkey.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return &k
}
