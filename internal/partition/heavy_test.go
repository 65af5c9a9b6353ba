package partition

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/patch"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/internal/value"
)

// manyTerms is a number of terms for which the index rows are computed ahead and a
// write is heavy.
const manyTerms = 5000

// smallDocument is a document of the container of held.
func smallDocument(n int) value.Value {
	return value.Object([]value.Member{
		{Name: "id", Value: value.String(fmt.Sprint("s", n))},
		{Name: "a", Value: value.String("small")},
		{Name: "b", Value: value.Int(int64(n))},
	})
}

// TestHugeDocumentsPassOneByOne has several clients write huge documents. While the first
// ones are not durable yet, a small write of another key is the next effect after them,
// before the other writes, which arrived earlier.
func TestHugeDocumentsPassOneByOne(t *testing.T) {
	held(t, func(t *testing.T, w *world, g *heldGroup) {
		const clients = 5
		w.partition.Load().heavy.max = 2 * heavyDocument * termWeight
		var writes sync.WaitGroup
		for i := range clients {
			writes.Go(func() {
				doc := hugeDocument(fmt.Sprint("h", i), heavyDocument, uint64(i)).With("b", value.Int(1))
				if _, err := w.write(Create, doc, nil); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		writes.Go(func() {
			if _, err := w.write(Create, smallDocument(1), nil); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		g.mu.Lock()
		var rows []int
		for _, h := range g.held {
			rows = append(rows, len(h.effect.Rows))
		}
		g.mu.Unlock()
		huge := 0
		for len(rows) > 0 && rows[0] > heavyMin {
			huge++
			rows = rows[1:]
		}
		// Some may pass together while their weight is small.
		if huge == 0 || huge > 2 || len(rows) != 1 {
			t.Errorf("%d large effects and then %v are on their way; at most two and one small one should be", huge, rows)
		}
		for range clients {
			g.apply(t)
			synctest.Wait()
		}
		writes.Wait()
		if g.apply(t) != 0 || w.partition.Load().heavy.passed != 0 {
			t.Error("something is left behind the gate")
		}
	})
}

// stopContext blocks the first call of Err until goOn is closed.
type stopContext struct {
	context.Context
	looks   atomic.Int64
	stopped chan struct{} // closed by the first call of Err
	goOn    chan struct{}
}

func (c *stopContext) Err() error {
	if c.looks.Add(1) == 1 {
		close(c.stopped)
	}
	<-c.goOn
	return c.Context.Err()
}

// TestHugeDocumentIsEvaluatedAside stops the evaluation of a huge document in the
// middle: meanwhile a small write of another key succeeds.
func TestHugeDocumentIsEvaluatedAside(t *testing.T) {
	w := newWorld(t, containerWith(t, 2, []string{"/a", "/b"}, ""))
	for round := range 2 {
		ctx := &stopContext{Context: t.Context(), stopped: make(chan struct{}), goOn: make(chan struct{})}
		done := make(chan error, 1)
		go func() {
			_, err := w.writeContext(ctx, Upsert, hugeDocument("h", hugeTerms/10, uint64(round)).With("b", value.Int(1)), nil)
			done <- err
		}()
		select {
		case <-ctx.stopped:
		case err := <-done:
			t.Fatalf("the document was evaluated where nobody can look: %v", err)
		}
		if _, err := w.write(Upsert, smallDocument(1), nil); err != nil {
			t.Fatal(err)
		}
		close(ctx.goOn)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if got := w.partition.Load().heavy.recomputed.Load(); got != 0 {
		t.Errorf("the writer has worked out %d huge documents itself", got)
	}
	clean(t, w)
}

// TestHugeDocumentCharges writes documents with many terms in every way, together with
// small writes of the same documents: the index matches the documents, and charges
// count the terms that differ.
func TestHugeDocumentCharges(t *testing.T) {
	for _, policy := range []string{
		"",
		`{"includedPaths":[{"path":"/*"}],"excludedPaths":[],"compositeIndexes":[[{"path":"/a"},{"path":"/_ts","order":"descending"}]]}`,
		`{"indexingMode":"none","automatic":false}`,
	} {
		w := newWorld(t, containerWith(t, 2, []string{"/a"}, policy))
		p := w.partition.Load()
		x := p.states.current.Load().Indexing
		random := rand.New(rand.NewPCG(1, 2))
		terms := func(doc value.Value, ts int64) layout.Keys {
			body := doc.Append(nil)
			k, err := x.KeysOfStored(&layout.Document{Body: body}, nil)
			if err != nil {
				t.Fatal(err)
			}
			return x.Stored(k, 1, ts)
		}
		var before value.Value
		var beforeTS int64
		for step := range 40 {
			if step%3 == 0 {
				w.clock.Add(1)
			}
			now := w.clock.Load()
			size := []int{3, manyTerms, manyTerms + 7}[random.IntN(3)]
			doc := hugeDocument("h", size, uint64(random.IntN(3)))
			exists := before.Kind() == value.KindObject
			var meter throughput.Meter
			var want float64
			bytes := func(d value.Value) int { return len(d.Append(nil)) }
			op := []Op{Create, Upsert, Replace, Delete, Patch}[random.IntN(5)]
			edit := func(r *Write) { r.Meter = &meter }
			switch {
			case op == Create && exists, op != Create && op != Upsert && !exists:
				op = Upsert
			case op == Delete:
				edit = func(r *Write) { r.Meter, r.ID, r.Document = &meter, "h", value.Undefined() }
				want = throughput.Delete(bytes(before), len(terms(before, beforeTS).Terms))
			case op == Patch:
				changes, err := patch.Parse(mustParse(t, `{"operations":[{"op":"set","path":"/list","value":["one"]}]}`))
				if err != nil {
					t.Fatal(err)
				}
				doc = before.With("list", value.Array([]value.Value{value.String("one")}))
				edit = func(r *Write) { r.Meter, r.ID, r.Document, r.Changes = &meter, "h", value.Undefined(), changes }
			}
			if want == 0 && exists {
				c := layout.Diff(terms(before, beforeTS), terms(doc, now))
				want = throughput.Replace(bytes(before), bytes(doc), len(c.Removed)+len(c.Added))
			} else if want == 0 {
				want = throughput.Insert(bytes(doc), len(terms(doc, now).Terms))
			}
			if _, err := w.write(op, doc, edit); err != nil {
				t.Fatalf("%s: %v", op, err)
			}
			if got := meter.Charge(); got != roundCharge(want) {
				t.Errorf("step %d: %s with %d terms costs %v, want %v", step, op, size, got, want)
			}
			if before, beforeTS = doc, now; op == Delete {
				before = value.Undefined()
			}
			if step%8 == 7 {
				clean(t, w)
			}
		}
		clean(t, w)
	}
}

// clean checks the whole store.
func clean(t *testing.T, w *world) {
	t.Helper()
	if report := w.check(); !report.Clean() {
		t.Errorf("%.2000q", report.Problems)
	}
}

func roundCharge(c float64) float64 {
	var m throughput.Meter
	m.Add(c)
	return m.Charge()
}

// TestHugeDocumentRace has several clients write one huge document, its neighbours and
// small documents in every way at once.
func TestHugeDocumentRace(t *testing.T) {
	w := newWorld(t, containerWith(t, 2, []string{"/a"}, ""))
	rounds := 12
	if raceDetector {
		rounds = 4
	}
	var clients sync.WaitGroup
	for i := range 4 {
		clients.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 5))
			for range rounds {
				size := []int{2, manyTerms}[random.IntN(2)]
				doc := hugeDocument("h", size, uint64(random.IntN(4)))
				op := []Op{Upsert, Upsert, Create, Delete}[random.IntN(4)]
				_, err := w.write(op, doc, func(r *Write) {
					if op == Delete {
						r.ID, r.Document = "h", value.Undefined()
					}
				})
				if code := status.CodeOf(err); err != nil && code != status.CodeConflict && code != status.CodeNotFound {
					t.Error(err)
				}
				if _, err := w.write(Upsert, hugeDocument(fmt.Sprint("s", i), 2, uint64(random.IntN(9))), nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	clients.Wait()
	clean(t, w)
	if left := w.partition.Load().heavy.passed; left != 0 {
		t.Errorf("a weight of %d is left behind the gate", left)
	}
}

// TestGate shows that the gate keeps the order of arrival and its bound, and drops
// requests that are cancelled.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate{max: heavyBytes}
		var mu sync.Mutex
		passed := map[int]*passing{}
		enter := func(ctx context.Context, name, weight int, owner bool) {
			go func() {
				me, err := g.enter(ctx, weight, owner)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					passed[name] = me
				} else if status.CodeOf(err) != status.CodeRequestTimeout {
					t.Error(err)
				}
			}()
			synctest.Wait()
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		enter(t.Context(), 1, 3*heavyBytes, false) // Alone.
		enter(short, 2, heavyBytes, false)
		enter(t.Context(), 3, heavyBytes/2, false)
		enter(t.Context(), 4, heavyBytes/2, false)
		enter(t.Context(), 5, heavyBytes, false)
		time.Sleep(2 * time.Second)
		want := func(names ...int) {
			t.Helper()
			synctest.Wait()
			got := slices.Sorted(maps.Keys(passed)) // Requests that pass together do so in any order.
			if !slices.Equal(got, names) {
				t.Errorf("passed: %v, want %v", got, names)
			}
		}
		want(1)
		g.leave(passed[1])
		want(1, 3, 4)
		g.leave(passed[3])
		want(1, 3, 4)

		// The owner of a lock passes before requests that arrived earlier, and does not
		// wait for parked requests, whatever the order of the calls.
		enter(t.Context(), 6, heavyBytes, true)
		want(1, 3, 4)
		g.unpark([]*request{{passing: passed[4]}, {}})
		g.park([]*request{{passing: passed[4]}})
		want(1, 3, 4)
		g.park([]*request{{passing: passed[4]}})
		want(1, 3, 4, 6)
		g.unpark([]*request{{passing: passed[4]}})
		g.leave(passed[6])
		want(1, 3, 4, 6)
		g.leave(passed[4])
		want(1, 3, 4, 5, 6)
		g.park([]*request{{passing: passed[4]}}) // It has left.

		for n := range heavyWaiting {
			enter(short, 7+n, 1, false)
		}
		for n := range heavyWaiting {
			enter(t.Context(), 100+n, 1, false)
		}
		if _, err := g.enter(t.Context(), 1, false); status.CodeOf(err) != status.CodeTooManyRequests {
			t.Errorf("got %v with %d before the gate, want 429", err, heavyWaiting)
		}
		g.leave(passed[5])
		synctest.Wait()
		if len(passed) != 5+heavyWaiting {
			t.Errorf("%d have passed, want all", len(passed))
		}
		for n := range heavyWaiting {
			g.park([]*request{{passing: passed[100+n]}})
			g.leave(passed[100+n])
		}
		if g.passed != 0 || g.parked != 0 || len(g.line)+len(g.owners) != 0 {
			t.Errorf("%d after the gate, %d of them parked, %d and %d before it", g.passed, g.parked, len(g.line), len(g.owners))
		}
	})
}

// heavyDocument is a number of terms that makes a write heavy.
const heavyDocument = 2 * heavyMin / termWeight

// hugeHold holds the key of a huge document of an id, and upserts the document.
func hugeHold(ctx context.Context, w *world, id string, terms int, round uint64, during func()) error {
	doc := hugeDocument(id, terms, round).With("b", value.Int(1))
	_, err := w.locked(ctx, w.container.Load().KeyOf(doc), nil, func(h *LockedTransaction) error {
		_, err := h.Do(ctx, Operation{Op: Upsert, Document: doc})
		if during != nil {
			during()
		}
		return err
	})
	return err
}

// TestHugeDocumentsOfScriptsPassOneByOne has four transactions that hold keys commit
// huge documents. The first effect is not durable yet: a small write of another key is
// the next effect after it, before the three other transactions.
func TestHugeDocumentsOfScriptsPassOneByOne(t *testing.T) {
	held(t, func(t *testing.T, w *world, g *heldGroup) {
		const clients = 4
		w.partition.Load().heavy.max = heavyMin // Each passes alone.
		var writes sync.WaitGroup
		for i := range clients {
			writes.Go(func() {
				if err := hugeHold(t.Context(), w, fmt.Sprint("h", i), heavyDocument, uint64(i), nil); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		writes.Go(func() {
			if _, err := w.write(Create, smallDocument(1), nil); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		huge, small := g.sizes()
		if huge != 1 || small != 1 {
			t.Errorf("%d large effects and then %d small ones are proposed; want one and one", huge, small)
		}
		for range clients {
			g.apply(t)
			synctest.Wait()
		}
		writes.Wait()
		p := w.partition.Load()
		if g.apply(t) != 0 || p.heavy.passed != 0 {
			t.Error("a request is left at the gate")
		}
		if recomputed := p.heavy.recomputed.Load(); recomputed != 0 {
			t.Errorf("the writer has computed the changes of %d huge documents", recomputed)
		}
	})
}

// sizes returns the number of large effects that are held, and of those after them.
func (g *heldGroup) sizes() (huge, rest int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, h := range g.held {
		if rest == 0 && len(h.effect.Rows) > heavyMin {
			huge++
		} else {
			rest++
		}
	}
	return huge, rest
}

// TestHugeDocumentWaitsForLock has a huge write wait for a key that a transaction has
// locked. Then the transaction commits a huge document. Neither waits for the other at
// the gate, and a small write of another key waits for neither.
func TestHugeDocumentWaitsForLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, containerWith(t, 2, []string{"/a", "/b"}, ""))
		w.partition.Load().heavy.max = heavyMin // Each passes alone.
		var other sync.WaitGroup
		err := hugeHold(t.Context(), w, "h", heavyDocument, 1, func() {
			other.Go(func() {
				doc := hugeDocument("h", heavyDocument, 2).With("b", value.Int(1))
				if _, err := w.write(Upsert, doc, nil); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
			if p := w.partition.Load(); p.heavy.parked == 0 || p.intake.locks.parked != 1 {
				t.Errorf("a weight of %d is parked, and %d requests", p.heavy.parked, p.intake.locks.parked)
			}
			if _, err := w.write(Create, smallDocument(1), nil); err != nil {
				t.Error(err)
			}
		})
		if err != nil {
			t.Error(err)
		}
		other.Wait()
		if g := &w.partition.Load().heavy; g.passed != 0 || g.parked != 0 {
			t.Errorf("a weight of %d is left after the gate, %d of it parked", g.passed, g.parked)
		}
		clean(t, w)
	})
}

// TestHugeBatchIsEvaluatedAside stops the evaluation of a batch of huge documents, and
// of a transaction that commits them, in the middle: small writes of other keys proceed,
// and the writer does not compute the changes of the index.
func TestHugeBatchIsEvaluatedAside(t *testing.T) {
	w := newWorld(t, containerWith(t, 2, []string{"/a"}, ""))
	key := w.container.Load().KeyOf(hugeDocument("h", 1, 1))
	document := func(id string, round uint64) value.Value {
		return hugeDocument("h", manyTerms, round).With("id", value.String(id))
	}
	batch := func(ctx context.Context, op Op, round uint64) error {
		b := w.batchOf(key, Atomic)
		for i, id := range []string{"h", "i", "j"} {
			ask := Operation{Op: op, ID: id}
			if op != Delete {
				ask.Document = document(id, round+uint64(i))
			}
			b.Operations = append(b.Operations, BatchOperation{Operation: ask, Silent: true})
		}
		done, err := w.partition.Load().Batch(ctx, b)
		if err == nil && done.Refused {
			err = done.Results[0].Err
		}
		return err
	}
	script := func(ctx context.Context, round uint64) error {
		_, err := w.locked(ctx, key, nil, func(h *LockedTransaction) error {
			for i, id := range []string{"h", "i"} {
				if _, err := h.Do(t.Context(), Operation{Op: Upsert, Document: document(id, round+uint64(i))}); err != nil {
					return err
				}
			}
			return nil
		})
		return err
	}
	for name, do := range map[string]func(ctx context.Context) error{
		"batch":  func(ctx context.Context) error { return batch(ctx, Upsert, 1) },
		"again":  func(ctx context.Context) error { return batch(ctx, Upsert, 5) },
		"script": func(ctx context.Context) error { return script(ctx, 9) },
	} {
		ctx := &stopContext{Context: t.Context(), stopped: make(chan struct{}), goOn: make(chan struct{})}
		done := make(chan error, 1)
		go func() { done <- do(ctx) }()
		select {
		case <-ctx.stopped:
		case err := <-done:
			t.Fatalf("%s: nothing was evaluated outside of the writer: %v", name, err)
		}
		for i := range 3 {
			if _, err := w.write(Upsert, smallDocument(i), nil); err != nil {
				t.Fatal(err)
			}
		}
		close(ctx.goOn)
		if err := <-done; err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		clean(t, w)
	}
	if err := batch(t.Context(), Delete, 0); err != nil {
		t.Fatal(err)
	}
	clean(t, w)
	if recomputed := w.partition.Load().heavy.recomputed.Load(); recomputed != 0 {
		t.Errorf("the writer has computed the changes of %d huge documents", recomputed)
	}
}

// TestRenumber changes the document number in rows of posting lists.
func TestRenumber(t *testing.T) {
	b := storage.NewBatchOf(100)
	for _, list := range []string{"ta", "tb"} {
		if err := b.AddPosting([]byte(list), 1); err != nil {
			t.Fatal(err)
		}
	}
	const number = 0x0123456789ABCD
	if err := b.Renumber(number); err != nil {
		t.Fatal(err)
	}
	err := storage.ReadRows(b.Repr(), func(r storage.Row) error {
		if list, got, added, err := r.Posting(); err != nil || got != number || !added {
			t.Errorf("%s: %x %v %v", list, got, added, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestHugeDocumentsInBatch changes huge documents several times in one effect.
func TestHugeDocumentsInBatch(t *testing.T) {
	w := newWorld(t, containerWith(t, 2, []string{"/a"}, ""))
	key := w.container.Load().KeyOf(hugeDocument("h", 1, 1))
	other := func(size int, round uint64) value.Value {
		return hugeDocument("h", size, round).With("id", value.String("other"))
	}
	rounds := uint64(3)
	if raceDetector {
		rounds = 1
	}
	for round := range rounds {
		done, err := w.partition.Load().Batch(t.Context(), Batch{
			Generation: w.own.Generation, Key: key, EPK: w.container.Load().PartitionKey.Hash(key),
			Operations: []BatchOperation{
				{Operation: Operation{Op: Upsert, ID: "h", Document: hugeDocument("h", manyTerms, round)}},
				{Operation: Operation{Op: Upsert, ID: "other", Document: other(manyTerms, round+7)}},
				{Operation: Operation{Op: Upsert, ID: "h", Document: hugeDocument("h", manyTerms+int(round), round+1)}},
				{Operation: Operation{Op: Delete, ID: "other"}},
				{Operation: Operation{Op: Create, ID: "other", Document: other(manyTerms, round+8)}},
			},
		})
		if err != nil || done.Refused {
			t.Fatalf("%v, %+v", err, done.Results)
		}
		clean(t, w)
	}
}
