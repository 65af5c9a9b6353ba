package partition

import (
	"context"
	"fmt"
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

// manyTerms are enough for the rows of the index to be made ahead and for a write to
// be heavy.
const manyTerms = 5000

// smallDocument is in the container of held.
func smallDocument(n int) value.Value {
	return value.Object([]value.Member{
		{Name: "id", Value: value.String(fmt.Sprint("s", n))},
		{Name: "a", Value: value.String("small")},
		{Name: "b", Value: value.Int(int64(n))},
	})
}

// TestHugeDocumentsPassOneByOne has eight clients write huge documents, of which the
// first is not durable yet: a small write of another key is the next effect behind it,
// in front of the seven others that came before.
func TestHugeDocumentsPassOneByOne(t *testing.T) {
	held(t, func(t *testing.T, w *world, g *heldGroup) {
		const clients = 8
		var writes sync.WaitGroup
		for i := range clients {
			writes.Go(func() {
				doc := hugeDocument(fmt.Sprint("h", i), hugeTerms/4, uint64(i)).With("b", value.Int(1))
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
		// Some may pass together as long as their weight is small.
		if most := heavyBytes / (hugeTerms / 4 * termWeight); huge == 0 || huge > most || len(rows) != 1 {
			t.Errorf("%d large effects and then %v are on their way; at most %d and one small one should be", huge, rows, most)
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

// stopContext blocks whoever looks at its error, once it is armed.
type stopContext struct {
	context.Context
	looks   atomic.Int64
	stopped chan struct{} // closed by the first who looks
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
// middle: a small write of another key goes through meanwhile.
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
	if got := w.partition.Load().heavy.anew.Load(); got != 0 {
		t.Errorf("the writer has worked out %d huge documents itself", got)
	}
	clean(t, w)
}

// TestHugeDocumentCharges writes documents with many terms in every way, beside each
// other and beside small writes of the same documents: the index is that of the
// documents, and charges are those of the terms that differ.
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
			k, err := x.KeysOfBody(body, ByPolicy)
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

// clean checks everything that is stored.
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

// TestHugeDocumentRace has several clients write one huge document and its neighbours
// in every way at once, and small ones beside them.
func TestHugeDocumentRace(t *testing.T) {
	w := newWorld(t, containerWith(t, 2, []string{"/a"}, ""))
	var clients sync.WaitGroup
	for i := range 4 {
		clients.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 5))
			for range 12 {
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

// TestGate keeps the order of arrival and the bound, and forgets who gives up.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		var passed []int
		var mu sync.Mutex
		enter := func(ctx context.Context, name, weight int) {
			go func() {
				if err := g.enter(ctx, weight); err == nil {
					mu.Lock()
					defer mu.Unlock()
					passed = append(passed, name)
				} else if status.CodeOf(err) != status.CodeRequestTimeout {
					t.Error(err)
				}
			}()
			synctest.Wait()
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		enter(t.Context(), 1, 3*heavyBytes) // Alone.
		enter(short, 2, heavyBytes)
		enter(t.Context(), 3, heavyBytes/2)
		enter(t.Context(), 4, heavyBytes/2)
		enter(t.Context(), 5, heavyBytes)
		time.Sleep(2 * time.Second)
		want := func(names ...int) {
			t.Helper()
			synctest.Wait()
			got := slices.Sorted(slices.Values(passed)) // Who passes together does so in any order.
			if !slices.Equal(got, names) {
				t.Errorf("passed: %v, want %v", got, names)
			}
		}
		want(1)
		g.leave(3 * heavyBytes)
		want(1, 3, 4)
		g.leave(heavyBytes / 2)
		want(1, 3, 4)
		g.leave(heavyBytes / 2)
		want(1, 3, 4, 5)
		for n := range heavyWaiting {
			enter(short, 6+n, 1)
		}
		for n := range heavyWaiting {
			enter(t.Context(), 100+n, 1)
		}
		if err := g.enter(t.Context(), 1); status.CodeOf(err) != status.CodeTooManyRequests {
			t.Errorf("got %v with %d in front of the gate, want 429", err, heavyWaiting)
		}
		g.leave(heavyBytes)
		synctest.Wait()
		if len(passed) != 4+heavyWaiting {
			t.Errorf("%d have passed, want all", len(passed))
		}
		g.leave(heavyWaiting)
		if g.passed != 0 || len(g.line) != 0 {
			t.Errorf("%d behind, %d in front", g.passed, len(g.line))
		}
	})
}

// TestRenumber has rows of posting lists change another document.
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
	for round := range uint64(3) {
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
