package copyjob

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/pacing"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// TestS100CopyToHierarchicalKey copies a container with the key /TenantId to a
// container with a hierarchical key, the way that S100 and S104 name: counts and
// bodies are equal, and requests are routed by the new key.
func TestS100CopyToHierarchicalKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster.Throttling{})
	w.container(t, "old", 3, "/TenantId")
	w.container(t, "new", 4, "/TenantId", "/UserId", "/SessionId")
	for i := range 150 {
		w.upsert(t, "old", fmt.Sprintf(`{"id":"%d","TenantId":"t%d","UserId":"u%d","SessionId":"s%d","n":%d}`, i%40, i/40, i%7, i, i))
	}
	// Values that are easily lost in a copy.
	odd := []string{
		`{"id":"integers","TenantId":"t","UserId":1,"SessionId":true,"big":9223372036854775807,"small":-9223372036854775808}`,
		`{"id":"doubles","TenantId":"t","UserId":1.5,"SessionId":null,"a":0.1,"b":1.7976931348623157e308,"c":5e-324,"d":-0.0}`,
		`{"id":"text","TenantId":"t","UserId":"ü","SessionId":"\u0000\u001f","s":"\ud83d\ude00 \" \\ / \u2028"}`,
		`{"id":"nested","TenantId":"t","UserId":"u","SessionId":"s","a":[[],{},[null,{"b":[1,2,{"c":""}]}]],"z":1,"y":2}`,
		`{"id":"lsn","TenantId":"t","UserId":"u","SessionId":"s","_lsn":"mine","ttl":-1,"in":{"_rid":"mine","_lsn":7}}`,
		`{"id":"no session","TenantId":"t","UserId":"u"}`,
		`{"id":"no user","TenantId":"t","SessionId":{"an":"object"}}`,
		`{"id":"nothing"}`,
	}
	for _, text := range odd {
		w.upsert(t, "old", text)
	}
	w.create(t, copies("j", "old", "new"))
	state := w.completed(t, "j")
	if got := state.Processed(); got != 158 {
		t.Errorf("processed %d, want 158", got)
	}
	if task := state.Tasks[0]; task.ReadCharge < 158 || task.WriteCharge < 5*158 {
		t.Errorf("the charges %.2f and %.2f are too low for 158 documents", task.ReadCharge, task.WriteCharge)
	}
	w.same(t, "old", "new")

	// One tenant is in one partition, and a full key finds its document.
	page, err := w.Query(t.Context(), owner, engine.QueryRequest{
		Link: engine.Link{Database: "d", Container: "new"}, Text: "SELECT VALUE c.n FROM c WHERE c.TenantId = 't1'", Cross: true, MaxItems: -1,
	})
	if err != nil || len(page.Partitions) != 1 || len(page.Rows) != 40 {
		t.Errorf("the query by tenant has %d rows from the partitions %v: %v", len(page.Rows), page.Partitions, err)
	}
	if _, err := w.Read(t.Context(), owner, engine.DocumentRequest{
		Link: engine.Link{Database: "d", Container: "new", Document: "5"}, Key: keyOf(t, `["t1","u3","s45"]`),
	}); err != nil {
		t.Errorf("the point read: %v", err)
	}
}

// TestS99KeyIsFixed shows why a job is needed: a replace cannot change the key
// (S99, S104).
func TestS99KeyIsFixed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster.Throttling{})
	w.container(t, "c", 1, "/a", "/b")
	for _, key := range []string{
		`{"paths":["/a","/c"],"kind":"MultiHash","version":2}`, `{"paths":["/b","/a"],"kind":"MultiHash","version":2}`,
		`{"paths":["/a","/b","/c"],"kind":"MultiHash","version":2}`, `{"paths":["/a"],"kind":"Hash","version":2}`,
	} {
		_, err := w.ReplaceContainer(t.Context(), owner, engine.ContainerRequest{
			Link: engine.Link{Database: "d", Container: "c"}, Body: parse(t, `{"id":"c","partitionKey":`+key+`}`),
		})
		if status.CodeOf(err) != status.CodeBadRequest {
			t.Errorf("%s: %v, want 400", key, err)
		}
	}
}

var errKilled = errors.New("killed")

// TestResumeAfterKillAtEveryStep crashes a job at each of its steps in turn,
// sometimes with the loss of unsynced data, and continues it on a new server.
// The target is equal every time, whatever was split in the meantime.
func TestResumeAfterKillAtEveryStep(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]struct {
		change []func(*resource.CopyJob)
		target []string
	}{
		"offline": {nil, []string{"/a", "/b"}},
		"merging": {nil, []string{"/b"}}, // the target's key is coarser: creations, then conflicts with itself
		"mirror":  {[]func(*resource.CopyJob){online, mirror}, []string{"/a", "/b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stride := 1
			if raceDetector {
				stride = 7
			}
			for at := 1; ; at += stride {
				if steps := killAt(t, at, how.change, how.target); steps < at {
					t.Logf("%d steps", steps)
					if steps < 10 {
						t.Errorf("only %d steps: too few to show anything", steps)
					}
					return
				}
				if t.Failed() {
					t.Fatalf("killed at step %d", at)
				}
			}
		})
	}
}

// killAt runs a job that crashes at a step, then the same job to its end, and
// returns how many steps the first run took.
func killAt(t *testing.T, at int, change []func(*resource.CopyJob), target []string) (steps int) {
	w := newWorld(t, cluster.Throttling{})
	w.jobs.Close()
	w.container(t, "s", 2, "/a")
	w.container(t, "t", 1, target...)
	for i := range 20 {
		w.upsert(t, "s", fmt.Sprintf(`{"id":"%d","a":"%d","b":"b%d","v":0}`, i, i%5, i%3))
	}
	asked := copies("j", "s", "t", change...)
	var mu sync.Mutex
	dead := make(chan struct{})
	finished := make(chan struct{})
	w.cfg.Checkpoint = time.Millisecond // so that a page may or may not be stored
	w.open(t, func(name string) error {
		mu.Lock()
		defer mu.Unlock()
		if steps++; steps == at {
			close(dead)
		}
		if steps >= at {
			return errKilled
		}
		if name == "copied" {
			close(finished)
		}
		return nil
	})
	_, err := w.jobs.Create(t.Context(), owner, asked)
	if err == nil && asked.Mode == resource.CopyOnline {
		select {
		case <-w.becomesCaughtUp(asked.Name, dead):
			w.afterTheFact(t)
			_, err = w.jobs.Complete(t.Context(), owner, asked.Name)
		case <-dead:
		}
	}
	if err != nil {
		select {
		case <-dead: // then any response may be lost
		default:
			t.Fatal(err)
		}
	}
	select {
	case <-dead:
	case <-finished:
		w.wait(t, asked.Name)
	}
	w.jobs.Close() // stores nothing after the crash
	mu.Lock()
	taken := steps
	mu.Unlock()
	if taken >= at {
		w.split(t, "s")
		w.split(t, "t")
	}
	w.open(t, nil)
	if _, err := w.jobs.Create(t.Context(), owner, asked); err != nil { // repeat a request whose response was lost
		t.Fatal(err)
	}
	if asked.Mode == resource.CopyOnline {
		if state, _ := w.jobs.Get(owner, asked.Name); !state.Completing {
			<-w.becomesCaughtUp(asked.Name, nil)
			w.afterTheFact(t)
			if _, err := w.jobs.Complete(t.Context(), owner, asked.Name); err != nil && status.CodeOf(err) != status.CodeConflict {
				t.Fatal(err)
			}
		}
	}
	w.completed(t, asked.Name)
	w.same(t, "s", "t")
	return taken
}

// afterTheFact changes the source of an online job that has caught up; a second
// call changes nothing more.
func (w *world) afterTheFact(t *testing.T) {
	for i := range 4 {
		w.upsert(t, "s", fmt.Sprintf(`{"id":"%d","a":"%d","b":"moved","v":1}`, i, i%5))
	}
	c, _ := w.catalog.View().Container("d", "s")
	key := c.KeyOf(parse(t, `{"a":"4"}`))
	_, err := w.Delete(t.Context(), owner, engine.DocumentRequest{Link: engine.Link{Database: "d", Container: "s", Document: "4"}, Key: &key})
	if err != nil && status.CodeOf(err) != status.CodeNotFound {
		t.Fatal(err)
	}
}

// becomesCaughtUp returns a channel that is closed when a job has caught up, or
// when stop is closed.
func (w *world) becomesCaughtUp(name string, stop <-chan struct{}) <-chan struct{} {
	done := make(chan struct{})
	jobs := w.jobs
	go func() {
		ticker := time.NewTicker(time.Millisecond)
		defer ticker.Stop()
		for {
			if state, err := jobs.Get(owner, name); err == nil && (state.CaughtUp || !state.Status.Active()) {
				close(done)
				return
			}
			select {
			case <-stop:
				return
			case <-ticker.C:
			}
		}
	}()
	return done
}

// TestOnlineCopyUnderWrites copies a container while writers change it and both
// containers are split, and compares them at the end. Writers also change keys
// of the target and delete, which a mirror repairs.
func TestOnlineCopyUnderWrites(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for _, exact := range []bool{false, true} {
		t.Run(fmt.Sprintf("mirror=%t", exact), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, cluster.Throttling{})
			w.container(t, "s", 2, "/a")
			w.container(t, "t", 2, "/a", "/b")
			asked := copies("j", "s", "t", online)
			asked.Mirror = exact
			w.create(t, asked)
			var writers sync.WaitGroup
			for n := range 3 {
				writers.Go(func() { w.churn(t, rand.New(rand.NewPCG(seed, uint64(n))), n, exact) })
			}
			splits := 0
			for range 2 {
				<-w.becomesCaughtUp("j", nil)
				splits += w.split(t, "s") + w.split(t, "t")
			}
			writers.Wait()
			splits += w.split(t, "s")
			if _, err := w.jobs.Complete(t.Context(), owner, "j"); err != nil {
				t.Fatal(err)
			}
			state := w.completed(t, "j")
			w.same(t, "s", "t")
			if splits == 0 || exact && state.Tasks[0].Removed == 0 {
				t.Errorf("%d splits and %d documents removed: too few to show anything", splits, state.Tasks[0].Removed)
			}
		})
	}
}

// churn writes 300 times to its own documents.
func (w *world) churn(t *testing.T, random *rand.Rand, n int, deletes bool) {
	there := map[int]string{}
	for version := range 300 {
		i := random.IntN(30)
		b := i % 4
		if deletes {
			b = random.IntN(4)
		}
		text := fmt.Sprintf(`{"id":"%d-%d","a":"a%d","b":"b%d","v":%d}`, n, i, i%9, b, version)
		if old, found := there[i]; deletes && found && random.IntN(4) == 0 {
			w.delete(t, "s", old)
			delete(there, i)
			continue
		}
		w.upsert(t, "s", text)
		there[i] = text
	}
}

// TestOfflineEnds checks that an offline job ends while its source is written to
// continuously, and that it has copied everything that existed when it began.
func TestOfflineEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster.Throttling{})
	w.container(t, "s", 1, "/a")
	w.container(t, "t", 1, "/a")
	for i := range 50 {
		w.upsert(t, "s", fmt.Sprintf(`{"id":"%d","a":"x"}`, i))
	}
	// Each page that is read creates more documents than the next one reads.
	n := 50
	w.jobs.Close()
	w.open(t, func(name string) error {
		if name == "page read" {
			for range 10 {
				w.upsert(t, "s", fmt.Sprintf(`{"id":"%d","a":"x"}`, n))
				n++
			}
		}
		return nil
	})
	w.create(t, copies("j", "s", "t"))
	w.completed(t, "j")
	got := w.documents(t, "t")
	for i := range 50 {
		if !slices.Contains(got, fmt.Sprintf(`{"id":"%d","a":"x"}`, i)) {
			t.Errorf("document %d is missing", i)
		}
	}
}

// TestBudgetsAreKept copies with throughput enforced: refused requests are
// retried, and the job completes. The clock of the budgets stops until a request
// was refused, because the documents cost more than one second allows.
func TestBudgetsAreKept(t *testing.T) {
	t.Parallel()
	var second atomic.Int64
	second.Store(1_700_000_000)
	// A refused request waits for the end of the second, which is near.
	now := func() time.Time { return time.Unix(second.Load(), 990_000_000) }
	w := newWorldAt(t, cluster.Throttling{Enforcement: cluster.EnforceOn}, now)
	w.container(t, "s", 1, "/a")
	w.container(t, "t", 1, "/a")
	for i := range 100 {
		w.upsert(t, "s", fmt.Sprintf(`{"id":"%d","a":"%d"}`, i, i))
		second.Add(1)
	}
	w.create(t, copies("j", "s", "t", func(j *resource.CopyJob) { j.Workers = 1 }))
	refused := func() bool {
		stats, err := w.PartitionStats(t.Context(), owner, engine.Link{Database: "d", Container: "t"})
		return err == nil && stats[0].Load.Throttled > 0
	}
	active := func() bool {
		state, err := w.jobs.Get(owner, "j")
		return err == nil && state.Status.Active()
	}
	for !refused() && pacing.Sleep(t.Context(), time.Millisecond) == nil {
		if !active() {
			t.Fatal("the job has ended, and nothing was refused")
		}
	}
	for active() && pacing.Sleep(t.Context(), time.Millisecond) == nil {
		second.Add(1)
	}
	w.completed(t, "j")
	second.Add(1)
	w.same(t, "s", "t")
}

// TestCollision checks that two documents of the source that would be one in the
// target fault the job, and that it continues when one of them is deleted.
func TestCollision(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster.Throttling{})
	w.container(t, "s", 1, "/a", "/b")
	w.container(t, "t", 1, "/a")
	w.upsert(t, "s", `{"id":"1","a":"x","b":"first"}`)
	w.upsert(t, "s", `{"id":"1","a":"x","b":"second"}`)
	w.create(t, copies("j", "s", "t"))
	state := w.wait(t, "j")
	if state.Status != resource.CopyFaulted || state.Error.Code != "Conflict" ||
		!strings.Contains(state.Error.Message, `id "1"`) || !strings.Contains(state.Error.Message, "another document with this id") {
		t.Fatalf("%s: %+v", state.Status, state.Error)
	}
	if n := len(w.documents(t, "t")); n != 1 {
		t.Errorf("the target has %d documents, want the first", n)
	}
	w.delete(t, "t", w.documents(t, "t")[0])
	w.delete(t, "s", `{"id":"1","a":"x","b":"second"}`)
	if _, err := w.jobs.Resume(t.Context(), owner, "j"); err != nil {
		t.Fatal(err)
	}
	w.completed(t, "j")
	w.same(t, "s", "t")
}

// TestBadDocuments copies documents that the target refuses: the first one
// faults the job, or all are skipped and counted.
func TestBadDocuments(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster.Throttling{})
	w.container(t, "s", 1, "/a")
	w.container(t, "t", 1, "/a", "/long")
	long := strings.Repeat("x", 2049)
	const bad = resource.CopyFailuresMax + 3
	for i := range bad {
		w.upsert(t, "s", fmt.Sprintf(`{"id":"bad %d","a":"x","long":%q}`, i, long))
	}
	w.upsert(t, "s", fmt.Sprintf(`{"id":"good","a":"x","long":%q}`, long[1:]))
	w.create(t, copies("j", "s", "t"))
	state := w.wait(t, "j")
	if state.Status != resource.CopyFaulted || !strings.Contains(state.Error.Message, `id "bad `) || !strings.Contains(state.Error.Message, "2049 bytes long") {
		t.Errorf("%s: %+v", state.Status, state.Error)
	}
	if _, err := w.jobs.Cancel(t.Context(), owner, "j"); err != nil {
		t.Fatal(err)
	}
	w.create(t, copies("k", "s", "t", skip))
	state = w.completed(t, "k")
	if state.Skipped != bad || len(state.Failures) != resource.CopyFailuresMax || state.Failures[0].Code != "BadRequest" || state.Failures[0].Key != `["x"]` {
		t.Errorf("%d skipped, %d kept, the first %+v", state.Skipped, len(state.Failures), state.Failures[0])
	}
	if got := w.documents(t, "t"); len(got) != 1 || !strings.Contains(got[0], `"good"`) {
		t.Errorf("the target has %.100q", got)
	}
}

// TestDroppedContainers checks that a job is faulted if its containers are
// dropped, or created again with the same name.
func TestDroppedContainers(t *testing.T) {
	t.Parallel()
	for _, which := range []string{"s", "t"} {
		for _, again := range []bool{false, true} {
			w := newWorld(t, cluster.Throttling{})
			w.container(t, "s", 1, "/a")
			w.container(t, "t", 1, "/a")
			w.create(t, copies("j", "s", "t", online))
			<-w.becomesCaughtUp("j", nil)
			if _, err := w.DeleteContainer(t.Context(), owner, engine.ContainerRequest{Link: engine.Link{Database: "d", Container: which}}); err != nil {
				t.Fatal(err)
			}
			if again {
				w.container(t, which, 1, "/a")
			}
			if which == "t" {
				w.upsert(t, "s", `{"id":"1","a":"x"}`)
			}
			if state := w.wait(t, "j"); state.Status != resource.CopyFaulted {
				t.Errorf("%s dropped, made again %t: %s", which, again, state.Status)
			}
			if n := len(w.documentsIfAny(t, which)); n != 0 && which == "t" {
				t.Errorf("a container of the same name was given %d documents", n)
			}
		}
	}
}

// documentsIfAny is documents, but returns nothing for a container that does not
// exist.
func (w *world) documentsIfAny(t *testing.T, container string) []string {
	if _, found := w.catalog.View().Container("d", container); !found {
		return nil
	}
	return w.documents(t, container)
}

// TestLife tries every operation on a job in each of its states.
func TestLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster.Throttling{})
	w.container(t, "s", 1, "/a")
	w.upsert(t, "s", `{"id":"1","a":"x"}`)
	for i := range 8 {
		w.container(t, fmt.Sprintf("t%d", i), 1, "/a")
	}
	ctx := t.Context()
	type verb = func(context.Context, auth.Caller, string) (resource.CopyJob, error)
	expect := func(what string, do verb, name string, code status.Code, want resource.CopyStatus) {
		t.Helper()
		got, err := do(ctx, owner, name)
		if status.CodeOf(err) != code || err == nil && got.Status != want {
			t.Errorf("%s %s: %s, %v; want %s and %d", what, name, got.Status, err, want, code)
		}
	}
	// A job that has ended.
	w.create(t, copies("ended", "s", "t0"))
	w.completed(t, "ended")
	expect("pause", w.jobs.Pause, "ended", 409, "")
	expect("resume", w.jobs.Resume, "ended", 409, "")
	expect("cancel", w.jobs.Cancel, "ended", 409, "")
	expect("complete", w.jobs.Complete, "ended", 400, "")
	// A job that follows changes.
	w.create(t, copies("live", "s", "t1", online))
	<-w.becomesCaughtUp("live", nil)
	expect("resume", w.jobs.Resume, "live", 0, resource.CopyRunning)
	expect("pause", w.jobs.Pause, "live", 0, resource.CopyPaused)
	expect("pause", w.jobs.Pause, "live", 0, resource.CopyPaused)
	expect("complete", w.jobs.Complete, "live", 409, "")
	w.upsert(t, "s", `{"id":"2","a":"x"}`)
	expect("resume", w.jobs.Resume, "live", 0, resource.CopyRunning)
	expect("complete", w.jobs.Complete, "live", 0, resource.CopyRunning)
	w.completed(t, "live")
	w.same(t, "s", "t1")
	// A job that is cancelled while paused.
	w.create(t, copies("given up", "s", "t2", online, func(j *resource.CopyJob) { j.Name = "given-up" }))
	expect("pause", w.jobs.Pause, "given-up", 0, resource.CopyPaused)
	expect("cancel", w.jobs.Cancel, "given-up", 0, resource.CopyCancelled)
	expect("cancel", w.jobs.Cancel, "given-up", 0, resource.CopyCancelled)
	expect("resume", w.jobs.Resume, "given-up", 409, "")
	expect("cancel", w.jobs.Cancel, "nobody", 404, "")

	// Creation.
	for name, c := range map[string]struct {
		asked resource.CopyJob
		want  status.Code
	}{
		"the same again":       {copies("ended", "s", "t0"), 0},
		"another of that name": {copies("ended", "s", "t3"), 409},
		"no source":            {copies("x", "none", "t3"), 404},
		"no target":            {copies("x", "s", "none"), 404},
		"into itself":          {copies("x", "s", "s"), 400},
		"a mirror over data":   {copies("x", "s", "t0", mirror), 409},
	} {
		if _, err := w.jobs.Create(ctx, owner, c.asked); status.CodeOf(err) != c.want {
			t.Errorf("%s: %v, want %d", name, err, c.want)
		}
	}
	w.create(t, copies("first", "s", "t4", online))
	if _, err := w.jobs.Create(ctx, owner, copies("second", "s", "t4")); status.CodeOf(err) != 409 {
		t.Errorf("two jobs into one container: %v", err)
	}
	for what, do := range map[string]func() error{
		"create": func() error { _, err := w.jobs.Create(ctx, auth.Caller{}, copies("x", "s", "t5")); return err },
		"get":    func() error { _, err := w.jobs.Get(auth.Caller{}, "ended"); return err },
		"list":   func() error { _, err := w.jobs.List(auth.Caller{}); return err },
		"cancel": func() error { _, err := w.jobs.Cancel(ctx, auth.Caller{}, "first"); return err },
	} {
		if err := do(); status.CodeOf(err) != 401 {
			t.Errorf("%s without credentials: %v", what, err)
		}
	}
}

// TestOneAfterTheOther checks that jobs wait for each other, that a job that
// follows changes does not block others, and that the order survives a restart.
func TestOneAfterTheOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster.Throttling{})
	w.container(t, "s", 1, "/a")
	w.upsert(t, "s", `{"id":"1","a":"x"}`)
	for i := range 3 {
		w.container(t, fmt.Sprintf("t%d", i), 1, "/a")
	}
	w.create(t, copies("live", "s", "t0", online))
	<-w.becomesCaughtUp("live", nil)
	w.jobs.Close()

	// The first offline job blocks after its page is read; the second waits.
	reached, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var armed sync.Mutex
	blocking := false
	w.open(t, func(name string) error {
		armed.Lock()
		stand := blocking && name == "laid out"
		armed.Unlock()
		if stand {
			once.Do(func() { close(reached); <-release })
		}
		return nil
	})
	armed.Lock()
	blocking = true
	armed.Unlock()
	w.create(t, copies("one", "s", "t1"))
	<-reached
	w.create(t, copies("two", "s", "t2"))
	if state, _ := w.jobs.Get(owner, "two"); state.Status != resource.CopyPending {
		t.Errorf("the second job is %s, want Pending", state.Status)
	}
	list, err := w.jobs.List(owner)
	if err != nil || len(list) != 3 || list[0].Name != "live" || list[1].Name != "one" || list[2].Name != "two" {
		t.Errorf("the list is %v, %v", list, err)
	}
	close(release)
	w.completed(t, "one")
	w.completed(t, "two")
	w.same(t, "s", "t2")
	if state, _ := w.jobs.Get(owner, "live"); state.Status != resource.CopyRunning {
		t.Errorf("the job that follows is %s", state.Status)
	}
}

// TestSeveralTasks copies two containers in one job.
func TestSeveralTasks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster.Throttling{})
	asked := resource.CopyJob{Name: "j"}
	for i := range 2 {
		source, target := fmt.Sprintf("s%d", i), fmt.Sprintf("t%d", i)
		w.container(t, source, 1, "/a")
		w.container(t, target, 1, "/a", "/id")
		for n := range 10 * (i + 1) {
			w.upsert(t, source, fmt.Sprintf(`{"id":"%d","a":"x"}`, n))
		}
		asked.Tasks = append(asked.Tasks, copies("", source, target).Tasks...)
	}
	w.create(t, asked)
	state := w.completed(t, "j")
	if state.Tasks[0].Processed != 10 || state.Tasks[1].Processed != 20 {
		t.Errorf("processed %d and %d", state.Tasks[0].Processed, state.Tasks[1].Processed)
	}
	w.same(t, "s0", "t0")
	w.same(t, "s1", "t1")
}

// TestJobsAreForgotten checks that only the allowed number of jobs is kept, the
// newest.
func TestJobsAreForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster.Throttling{})
	w.container(t, "s", 1, "/a")
	w.container(t, "t", 1, "/a")
	for i := range resource.CopyJobsMax + 2 {
		w.create(t, copies(fmt.Sprintf("j%d", i), "s", "t"))
		w.completed(t, fmt.Sprintf("j%d", i))
	}
	w.jobs.Close()
	w.open(t, nil)
	list, err := w.jobs.List(owner)
	if err != nil || len(list) != resource.CopyJobsMax || list[0].Name != "j2" {
		t.Errorf("%d jobs, %v, the first %s", len(list), err, list[0].Name)
	}
}

// TestParseRow checks that only the feed's _lsn is removed.
func TestParseRow(t *testing.T) {
	t.Parallel()
	for row, want := range map[string]string{
		`{"id":"1","_ts":5,"_lsn":7}`:              `{"id":"1","_ts":5}`,
		`{"_lsn":1,"id":"1","_ts":5,"_lsn":7}`:     `{"_lsn":1,"id":"1","_ts":5}`,
		`{"id":",\"_lsn\":3","_ts":5,"_lsn":7}`:    `{"id":",\"_lsn\":3","_ts":5}`,
		`{"id":"1","a":{"b":1,"_lsn":2},"_lsn":7}`: `{"id":"1","a":{"b":1,"_lsn":2}}`,
	} {
		got, err := parseRow([]byte(row))
		if err != nil || !value.Equal(got, parse(t, want)) {
			t.Errorf("%s is %s, %v", row, got.JSON(), err)
		}
	}
}

// TestTotal checks that a job knows the number of documents before it reads its
// first page, over several partitions and with documents that have changed: each
// is one row of the feed, whatever its LSN is.
func TestTotal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster.Throttling{})
	w.container(t, "s", 3, "/a")
	w.container(t, "t", 1, "/a")
	for i := range 90 {
		w.upsert(t, "s", fmt.Sprintf(`{"id":"%d","a":"%d"}`, i%40, i%40))
	}
	w.jobs.Close()
	var once sync.Once
	var first resource.CopyJob
	w.open(t, func(name string) error {
		if name == "page read" {
			once.Do(func() { first, _ = w.jobs.Get(owner, "j") })
		}
		return nil
	})
	w.create(t, copies("j", "s", "t"))
	if done := w.completed(t, "j"); done.Processed() != 40 {
		t.Errorf("processed %d documents, want 40", done.Processed())
	}
	if first.Processed() != 0 || first.Total() != 40 {
		t.Errorf("before the first page %d of %d, want 0 of 40", first.Processed(), first.Total())
	}
}
