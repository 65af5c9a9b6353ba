package partition

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/decandb/decan/internal/partition/scan"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/partitionkey"
)

// tenant is a prefix of the keys of these tests.
func tenant(name string) partitionkey.Key { return partitionkey.NewKey(partitionkey.String(name)) }

// fill creates documents of a tenant, each under a key of its own.
func (w *world) fill(t *testing.T, tenant string, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if _, err := w.write(Create, w.parse(fmt.Sprintf(`{"id":"%d","a":%q,"b":%d}`, i, tenant, i)), nil); err != nil {
			t.Fatal(err)
		}
	}
}

// clearAll clears until nothing is left to do, and returns the number of deleted
// documents.
func (w *world) clearAll(t *testing.T) (deleted int) {
	t.Helper()
	for p := w.partition.Load(); p.Purging() > 0; {
		n, err := p.Clear(t.Context(), nil, 50)
		if err != nil {
			t.Fatal(err)
		}
		deleted += n
	}
	return deleted
}

// seen returns how many documents queries find, by reading and by counting.
func (w *world) seen(t *testing.T) int {
	t.Helper()
	rows, _, err := w.rows("SELECT VALUE c.id FROM c", partitionkey.Full(), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	count, _, err := w.rows("SELECT VALUE COUNT(1) FROM c", partitionkey.Full(), 0, nil)
	if err != nil || len(count) != 1 || count[0] != fmt.Sprint(len(rows)) {
		t.Errorf("%d documents are found, and counted %s (%v)", len(rows), count, err)
	}
	return len(rows)
}

// A reader of all versions, which begins when the container keeps them and has no
// writes since, gets the deletions by prefix: the mark is the first effect, and changes
// no document.
func TestPurgeBeginsCompleteFeed(t *testing.T) {
	t.Parallel()
	c := containerWith(t, 2, []string{"/a", "/b"}, "")
	w := newWorld(t, c)
	w.fill(t, "x", 0, 3)
	c.Retention = testRetention
	w.container.Store(c)
	ask := Feed{Complete: true, Generation: w.own.Generation, Range: partitionkey.Full(), Now: true}
	read := func() scan.FeedPage {
		t.Helper()
		page, err := w.partition.Load().Feed(t.Context(), ask)
		if err != nil {
			t.Fatal(err)
		}
		ask.Now, ask.After = false, page.Position
		return page
	}
	read()
	begun := ask.After
	if done, err := w.purge(tenant("x"), nil); err != nil || !done.Marked || done.LSN != begun+1 {
		t.Fatalf("%+v, %v: want a mark behind %d", done, err, begun)
	}
	if page := read(); len(page.Documents) > 0 || page.Position != begun+1 {
		t.Errorf("the mark is told as %q, up to %d", page.Documents, page.Position)
	}
	if n := w.clearAll(t); n != 3 {
		t.Fatalf("%d documents are cleared", n)
	}
	if err := w.crash(0, 1); err != nil {
		t.Fatal(err)
	}
	for _, after := range []resource.LSN{ask.After, begun} { // Also a reader that has not read since.
		ask.After = after
		if page := read(); len(page.Documents) != 3 {
			t.Errorf("behind %d: %q", after, page.Documents)
		}
	}
	ask.After = begun - 1
	if _, err := w.partition.Load().Feed(t.Context(), ask); status.CodeOf(err) != status.CodeBadRequest {
		t.Errorf("what was written before is not kept, and a reader got %v", err)
	}
	if report := w.check(); !report.Clean() {
		t.Errorf("%q", report.Problems)
	}
}

// The feed of all versions returns each deletion and the feed of latest versions none,
// whether documents are deleted at once or later.
func TestPurgeInCompleteFeed(t *testing.T) {
	t.Parallel()
	c := containerWith(t, 2, []string{"/a", "/b"}, `{"indexingPolicy":null,"defaultTtl":10}`)
	c.Retention = testRetention
	w := newWorld(t, c)
	w.fill(t, "x", 0, 3)
	w.fill(t, "y", 3, 4)
	if got, err := w.purge(tenant("x").Append(partitionkey.Number(1)), nil); err != nil || got.Deleted != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	if got, err := w.purge(tenant("x"), nil); err != nil || !got.Marked {
		t.Fatalf("%+v, %v", got, err)
	}
	feed := func(complete bool) (ids []string) {
		page, err := w.partition.Load().Feed(t.Context(), Feed{Complete: complete, Generation: w.own.Generation, Range: partitionkey.Full()})
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range page.Documents {
			v := w.parse(string(text))
			id := v.Get("id").Text()
			if facts := v.Get("metadata"); facts.IsDefined() {
				id = facts.Get("operationType").Text() + v.Get("current").Get("id").Text() + facts.Get("id").Text() + facts.Get("timeToLiveExpired").JSON()
			}
			ids = append(ids, id)
		}
		return ids
	}
	if got := feed(false); fmt.Sprint(got) != "[3]" {
		t.Errorf("the feed has %s", got)
	}
	if n := w.clearAll(t); n != 2 {
		t.Errorf("%d documents cleared", n)
	}
	if got, want := fmt.Sprint(feed(true)), "[create0 create1 create2 create3 delete1 delete0 delete2]"; got != want && got != "[create0 create1 create2 create3 delete1 delete2 delete0]" {
		t.Errorf("the complete feed has %s, want %s", got, want)
	}
	w.verify(t)
}

// serve opens a child of a split as a partition.
func (w *world) serve(t *testing.T, h half) *world {
	t.Helper()
	child := &world{tb: t, disk: w.disk, pool: w.pool, store: h.store, own: h.own, limits: w.limits}
	child.container.Store(w.container.Load())
	child.clock.Store(w.clock.Load())
	child.group = replication.NewSolo(child)
	p, err := Open(child.config())
	if err != nil {
		t.Fatal(err)
	}
	child.partition.Store(p)
	t.Cleanup(func() {
		if err := errors.Join(p.Close(), child.group.Close(), h.store.Close()); err != nil {
			t.Error(err)
		}
	})
	return child
}

// Children inherit the marks that concern their documents: those made before a split,
// and those added and removed during it.
func TestPurgeSplit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/a", "/b"}, ""))
	for i, name := range []string{"early", "gone", "late", "stays"} {
		w.fill(t, name, 100*i, 100*i+20)
	}
	purge := func(name string) {
		t.Helper()
		if got, err := w.purge(tenant(name), nil); err != nil || !got.Marked {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	purge("early")
	purge("gone")
	at := w.container.Load().PartitionKey.Hash(tenant("late").Append(partitionkey.Number(207)))
	s, halves := w.halve(t, at)
	if _, err := w.partition.Load().Clear(t.Context(), nil, 30); err != nil { // A part of the first mark.
		t.Fatal(err)
	}
	purge("late")
	w.fill(t, "late", 300, 305)
	if err := follow(t, s, halves); err != nil {
		t.Fatal(err)
	}
	s.Done()
	seen, deleted := 0, 0
	for _, h := range halves {
		child := w.serve(t, h)
		seen += child.seen(t)
		deleted += child.clearAll(t)
		child.verify(t)
		if got := child.seen(t); int64(got) != child.partition.Load().Stats().Documents {
			t.Errorf("child %s has %d documents, of which %d are seen", h.own.ID, child.partition.Load().Stats().Documents, got)
		}
	}
	if seen != 25 || deleted != 54 {
		t.Errorf("the children show %d documents and cleared %d, want 25 and 54", seen, deleted)
	}
}

// purgeOne purges a tenant that has documents in one of the two.
func (n *neighbours) purgeOne(w *world) {
	n.t.Helper()
	for i := range 8 {
		r, err := w.container.Load().PartitionKey.Prefix(tenant(fmt.Sprint("t", i)))
		if err != nil {
			n.t.Fatal(err)
		}
		if !r.Overlaps(w.own.Range) {
			continue
		}
		got, err := w.purge(tenant(fmt.Sprint("t", i)), nil)
		if err != nil {
			n.t.Fatal(err)
		}
		if got.Marked {
			return
		}
	}
	n.t.Fatal("nothing is left to purge")
}

// A merge does not run during a purge: LSNs of two partitions are not comparable.
func TestPurgeEndsMerge(t *testing.T) {
	t.Parallel()
	n := newNeighbours(t, containerWith(t, 2, []string{"/a", "/b"}, ""))
	for i := range 40 {
		if err := n.write(Create, fmt.Sprintf(`{"id":"%d","a":"t%d","b":%d}`, i, i%8, i)); err != nil {
			t.Fatal(err)
		}
	}
	m, child := n.begin(0)
	n.purgeOne(n.worlds[1])
	caughtUp, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- child.Follow(t.Context(), sync.OnceFunc(func() { close(caughtUp) })) }()
	<-caughtUp
	if err := m.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; status.CodeOf(err) != status.CodeConflict {
		t.Errorf("the merge ends with %v", err)
	}
	m.Cancel()
	if err := n.store.Close(); err != nil {
		t.Fatal(err)
	}
	low, high := n.worlds[0].partition.Load(), n.worlds[1].partition.Load()
	if _, err := BeginMerge(t.Context(), low, high); status.CodeOf(err) != status.CodeConflict {
		t.Errorf("a merge begins with %v", err)
	}
	n.worlds[1].clearAll(t)
	for _, w := range n.worlds {
		w.verify(t)
	}
	// A purge that began and ended during the split does not affect the child, although
	// its checkpoint has the mark.
	m, err := BeginMerge(t.Context(), low, high)
	if err != nil {
		t.Fatal(err)
	}
	n.purgeOne(n.worlds[1])
	child = n.adopt(m, 1)
	n.worlds[1].clearAll(t)
	n.finish(m, child)
	want := int64(0)
	for _, w := range n.worlds {
		report := w.check()
		want += report.Documents
	}
	if got := n.check().Documents; got != want || want == 0 {
		t.Errorf("%d documents, want %d", got, want)
	}
	if err := n.store.Close(); err != nil {
		t.Error(err)
	}
}

// A mark takes effect when it is durable, and not if it is lost.
func TestPurgeIsCertain(t *testing.T) {
	held(t, func(t *testing.T, w *world, g *heldGroup) {
		created := w.begin(t.Context(), Create, `{"id":"1","a":"x","b":1}`)
		synctest.Wait()
		purge := func() <-chan error {
			done := make(chan error, 1)
			go func() {
				got, err := w.purge(tenant("x"), nil)
				if err == nil && !got.Marked {
					err = fmt.Errorf("%+v", got)
				}
				done <- err
			}()
			synctest.Wait()
			return done
		}
		purged := purge() // It waits for the creation.
		n := g.apply(t)
		if synctest.Wait(); n != 1 || !answered(created) {
			t.Fatalf("%d effects are on their way, and the creation is answered: %v", n, answered(created))
		}
		behind := w.begin(t.Context(), Replace, `{"id":"1","a":"x","b":1}`)
		synctest.Wait()
		g.lose()
		synctest.Wait()
		if err := <-purged; status.CodeOf(err) != status.CodeUnavailable {
			t.Errorf("a lost purge gets %v", err)
		}
		g.apply(t)
		if got := <-behind; got.err != nil {
			t.Errorf("the write behind it gets %v", got.err)
		}
		purged = purge()
		if len(purged) > 0 {
			t.Error("the purge is answered before it is durable")
		}
		gone := w.begin(t.Context(), Replace, `{"id":"1","a":"x","b":1}`)
		synctest.Wait()
		g.apply(t)
		if err := <-purged; err != nil {
			t.Error(err)
		}
		if got := <-gone; status.CodeOf(got.err) != status.CodeNotFound {
			t.Errorf("the write behind it gets %v", got.err)
		}
	})
}

// A transaction that has locked a key when a purge of a prefix deletes it has not seen
// that, so it must be retried. A purge of the full key waits.
func TestPurgeWhileHeld(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/a", "/b"}, ""))
	w.fill(t, "x", 0, 2)
	key := tenant("x").Append(partitionkey.Number(1))
	_, err := w.locked(t.Context(), key, nil, func(h *LockedTransaction) error {
		if _, err := h.Do(t.Context(), Operation{Op: Replace, ID: "1", Document: w.parse(`{"id":"1","a":"x","b":1,"n":1}`)}); err != nil {
			return err
		}
		_, err := w.purge(tenant("x"), nil)
		return err
	})
	if status.CodeOf(err) != status.CodeRetryWith {
		t.Errorf("who holds the key gets %v", err)
	}
	waits := make(chan error, 1)
	_, err = w.locked(t.Context(), key, nil, func(h *LockedTransaction) error {
		if err := w.put(h, `{"id":"1","a":"x","b":1,"n":2}`); err != nil {
			return err
		}
		go func() {
			_, err := w.purge(key, nil)
			waits <- err
		}()
		w.fill(t, "z", 10, 15) // Other keys are not locked.
		return nil
	})
	if err := errors.Join(err, <-waits); err != nil {
		t.Fatal(err)
	}
	if got := w.seen(t); got != 5 && got != 6 { // The purge may have been first.
		t.Errorf("%d documents are seen", got)
	}
	w.clearAll(t)
	w.verify(t)
}

// The number of marks is limited, and a mark that covers others replaces them.
func TestPurgesMax(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/a", "/b"}, `{"indexingMode":"none"}`))
	p := w.partition.Load()
	p.steps.purgeMax = 0
	w.fill(t, "x", 0, purgesMax+1)
	for i := range purgesMax + 1 {
		_, err := w.purge(tenant("x").Append(partitionkey.Number(float64(i))), nil)
		if want := i == purgesMax; (status.CodeOf(err) == status.CodeTooManyRequests) != want || !want && err != nil {
			t.Fatalf("purge %d: %v", i, err)
		}
	}
	if got := w.seen(t); got != 1 {
		t.Errorf("%d documents are seen", got)
	}
	if _, err := w.purge(tenant("x"), nil); err != nil || p.Purging() != 1 {
		t.Errorf("%d marks, %v", p.Purging(), err)
	}
	if _, err := p.Clear(t.Context(), nil, math.Inf(1)); err != nil || p.Stats().Documents != 0 || p.Purging() != 0 {
		t.Errorf("%+v, %v", p.Stats(), err)
	}
	w.verify(t)
}

// Requests for keys of other partitions, or with another generation, are refused.
func TestPurgeMoved(t *testing.T) {
	t.Parallel()
	n := newNeighbours(t, containerWith(t, 2, []string{"/a"}, ""))
	doc := n.worlds[0].parse(`{"a":"x"}`)
	own := n.owner(doc)
	for _, w := range n.worlds {
		for generation, here := range map[resource.Generation]bool{w.own.Generation: w == own, w.own.Generation + 1: false} {
			key := w.container.Load().KeyOf(doc)
			r, err := w.container.Load().PartitionKey.Prefix(key)
			if err == nil {
				_, err = w.partition.Load().Purge(t.Context(), Purge{Generation: generation, Key: key, Range: r})
			}
			if here && err != nil || !here && status.CodeOf(err) != status.CodeGone {
				t.Errorf("partition %s in generation %d: %v", w.own.ID, generation, err)
			}
		}
	}
}
