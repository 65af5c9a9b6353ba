package partition

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// heldGroup holds every effect until apply or lose is called.
type heldGroup struct {
	replication.Group
	machine replication.StateMachine

	mu   sync.Mutex
	held []heldEffect
}

type heldEffect struct {
	ref      replication.PartitionRef
	effect   replication.Effect
	proposal *replication.Proposal
}

func (g *heldGroup) Propose(_ context.Context, ref replication.PartitionRef, e replication.Effect) *replication.Proposal {
	p := replication.NewProposal()
	g.mu.Lock()
	g.held = append(g.held, heldEffect{ref, e, p})
	g.mu.Unlock()
	return p
}

func (g *heldGroup) Close() error { return nil }

func (g *heldGroup) take() []heldEffect {
	g.mu.Lock()
	defer g.mu.Unlock()
	held := g.held
	g.held = nil
	return held
}

// apply applies all held effects, and returns their number.
func (g *heldGroup) apply(t *testing.T) int {
	t.Helper()
	held := g.take()
	for _, h := range held {
		rejected, err := g.machine.Apply(h.ref, []replication.Effect{h.effect})
		switch {
		case err != nil:
			t.Error(err)
			h.proposal.Resolve(replication.Unknown, err)
		case rejected != nil:
			h.proposal.Resolve(replication.Rejected, rejected[0])
		default:
			h.proposal.Resolve(replication.Applied, nil)
		}
	}
	return len(held)
}

// lose drops all held effects.
func (g *heldGroup) lose() {
	for _, h := range g.take() {
		h.proposal.Resolve(replication.Unknown, errors.New("lost"))
	}
}

// held runs a test on a partition whose effects are held, in a bubble in which
// synctest.Wait returns when all goroutines wait.
func held(t *testing.T, test func(t *testing.T, w *world, g *heldGroup)) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/a", "/b"}, ""))
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var g *heldGroup
		err := w.openWith(func(sm replication.StateMachine) replication.Group {
			g = &heldGroup{machine: sm}
			return g
		})
		if err != nil {
			t.Fatal(err)
		}
		// A failed test must not leave a waiting goroutine in the bubble.
		defer func() {
			synctest.Wait()
			g.lose()
			_ = w.close()
		}()
		test(t, w, g)
		synctest.Wait()
		g.apply(t)
		if report := w.check(); !report.Clean() {
			t.Errorf("%q", report.Problems)
		}
		if err := w.close(); err != nil {
			t.Error(err)
		}
	})
}

// result is the result of a write in the background.
type result struct {
	written Written
	err     error
}

func (w *world) begin(ctx context.Context, op Op, text string) <-chan result {
	done := make(chan result, 1)
	doc := w.parse(text)
	go func() {
		written, err := w.writeContext(ctx, op, doc, nil)
		done <- result{written, err}
	}()
	return done
}

func answered(c <-chan result) bool { return len(c) > 0 }

// TestPipelining shows that the writer continues while effects are proposed, and sees
// their changes.
func TestPipelining(t *testing.T) {
	held(t, func(t *testing.T, w *world, g *heldGroup) {
		first := w.begin(t.Context(), Create, `{"id":"1","a":"x","n":1}`)
		synctest.Wait()
		second := w.begin(t.Context(), Upsert, `{"id":"1","a":"x","n":2}`)
		synctest.Wait()
		third := w.begin(t.Context(), Create, `{"id":"2","a":"x","n":3}`)
		synctest.Wait()
		if answered(first) || answered(second) || answered(third) {
			t.Fatal("a write was answered before it was durable")
		}
		if found, err := w.read(w.container.Load().KeyOf(w.parse(`{"a":"x"}`)), "1", nil); status.CodeOf(err) != status.CodeNotFound {
			t.Errorf("I9: a read shows %s (%v), which is not durable", found.Body, err)
		}
		if n := g.apply(t); n != 3 {
			t.Fatalf("%d effects on their way, want 3", n)
		}
		one, two, three := <-first, <-second, <-third
		if one.err != nil || two.err != nil || three.err != nil {
			t.Fatal(one.err, two.err, three.err)
		}
		if !one.written.Created || two.written.Created || two.written.Number != one.written.Number {
			t.Errorf("the second write did not replace the first: %+v and %+v", one.written, two.written)
		}
		if one.written.LSN != 1 || two.written.LSN != 2 || three.written.LSN != 3 {
			t.Errorf("LSNs %d %d %d, want 1 2 3", one.written.LSN, two.written.LSN, three.written.LSN)
		}
	})
}

// TestRefusalRestsOnEffect shows that a conflict with a document that is not durable
// yet is answered after it, and is dropped if the document is lost (I9).
func TestRefusalRestsOnEffect(t *testing.T) {
	held(t, func(t *testing.T, w *world, g *heldGroup) {
		first := w.begin(t.Context(), Create, `{"id":"1","a":"x"}`)
		synctest.Wait()
		second := w.begin(t.Context(), Create, `{"id":"1","a":"x"}`)
		synctest.Wait()
		if answered(second) {
			t.Fatal("a refusal was answered before what it rests on is durable")
		}
		g.lose()
		for _, c := range []<-chan result{first, second} {
			if r := <-c; status.CodeOf(r.err) != status.CodeUnavailable {
				t.Errorf("got %v, want 503", r.err)
			}
		}
		third := w.begin(t.Context(), Create, `{"id":"1","a":"x"}`)
		synctest.Wait()
		g.apply(t)
		if r := <-third; r.err != nil || r.written.LSN != 1 {
			t.Errorf("got %+v (%v), want LSN 1", r.written, r.err)
		}
	})
}

// TestLostEffectTakesThoseBehind shows that effects evaluated on top of a lost effect
// fail too, even if the group would accept them.
func TestLostEffectTakesThoseBehind(t *testing.T) {
	held(t, func(t *testing.T, w *world, g *heldGroup) {
		first := w.begin(t.Context(), Create, `{"id":"1","a":"x"}`)
		synctest.Wait()
		second := w.begin(t.Context(), Create, `{"id":"2","a":"x"}`)
		synctest.Wait()
		effects := g.take()
		effects[0].proposal.Resolve(replication.Unknown, errors.New("lost"))
		g.held = effects[1:]
		g.apply(t)
		if r := <-first; status.CodeOf(r.err) != status.CodeUnavailable {
			t.Errorf("got %v, want 503", r.err)
		}
		if r := <-second; status.CodeOf(r.err) != status.CodeUnavailable {
			t.Errorf("got %v, want 503", r.err)
		}
		if lsn := w.partition.Load().LSN(); lsn != 0 {
			t.Errorf("LSN %d, want 0", lsn)
		}
	})
}

// TestCancelProposed shows that cancelling the context after the proposal only ends the
// wait.
func TestCancelProposed(t *testing.T) {
	held(t, func(t *testing.T, w *world, g *heldGroup) {
		ctx, cancel := context.WithCancel(t.Context())
		first := w.begin(ctx, Create, `{"id":"1","a":"x"}`)
		synctest.Wait()
		cancel()
		if r := <-first; status.CodeOf(r.err) != status.CodeRequestTimeout {
			t.Errorf("got %v, want 408", r.err)
		}
		g.apply(t)
		if lsn := w.partition.Load().LSN(); lsn != 1 {
			t.Errorf("LSN %d, want 1: the effect was on its way", lsn)
		}
	})
}

// TestQueue shows that a waiting write can be cancelled, and that a full queue refuses
// writes.
func TestQueue(t *testing.T) {
	held(t, func(t *testing.T, w *world, g *heldGroup) {
		w.partition.Load().config.Limits.WriteQueue = 2
		gate := make(chan struct{})
		w.now = func() { <-gate } // The writer stops at its first look at the clock.
		first := w.begin(t.Context(), Create, `{"id":"1","a":"x"}`)
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		second := w.begin(ctx, Create, `{"id":"2","a":"x"}`)
		third := w.begin(t.Context(), Create, `{"id":"3","a":"x"}`)
		synctest.Wait()
		if queued := w.partition.Load().Stats().Queued; queued != 2 {
			t.Errorf("%d writes queued, want 2", queued)
		}
		fourth := <-w.begin(t.Context(), Create, `{"id":"4","a":"x"}`)
		if e := status.From(fourth.err); e == nil || e.Code != status.CodeTooManyRequests || e.RetryAfter == 0 {
			t.Errorf("got %v, want 429 with a time to come back", fourth.err)
		}
		cancel()
		if r := <-second; status.CodeOf(r.err) != status.CodeRequestTimeout {
			t.Errorf("got %v, want 408", r.err)
		}
		close(gate)
		synctest.Wait()
		if n := g.apply(t); n != 2 {
			t.Errorf("%d effects, want 2: the cancelled write has none", n)
		}
		if one, three := <-first, <-third; one.err != nil || three.err != nil {
			t.Error(one.err, three.err)
		}
	})
}

// TestPanicStopsPartition shows that a broken invariant stops only the partition.
func TestPanicStopsPartition(t *testing.T) {
	held(t, func(t *testing.T, w *world, _ *heldGroup) {
		w.now = func() { panic("invariant") }
		if r := <-w.begin(t.Context(), Create, `{"id":"1","a":"x"}`); status.CodeOf(r.err) != status.CodeUnavailable {
			t.Errorf("got %v, want 503", r.err)
		}
		w.now = nil
		if r := <-w.begin(t.Context(), Create, `{"id":"1","a":"x"}`); status.CodeOf(r.err) != status.CodeUnavailable {
			t.Errorf("got %v, want 503", r.err)
		}
		if w.partition.Load().Stats().Failure == nil {
			t.Error("the partition goes on")
		}
	})
}

// TestIdleCostsNothing shows that the writer ends when it has nothing to do.
func TestIdleCostsNothing(t *testing.T) {
	held(t, func(t *testing.T, w *world, g *heldGroup) {
		p := w.partition.Load()
		for range 3 {
			done := w.begin(t.Context(), Upsert, `{"id":"1","a":"x"}`)
			synctest.Wait()
			g.apply(t)
			if r := <-done; r.err != nil {
				t.Fatal(r.err)
			}
			synctest.Wait()
			p.intake.mu.Lock()
			running := p.intake.running
			p.intake.mu.Unlock()
			if running {
				t.Error("the writer's goroutine is still there")
			}
		}
	})
}

// TestCloseWaits shows that Close waits for effects and readers, and that
// it accepts nothing afterwards.
func TestCloseWaits(t *testing.T) {
	held(t, func(t *testing.T, w *world, g *heldGroup) {
		p := w.partition.Load()
		write := w.begin(t.Context(), Create, `{"id":"1","a":"x"}`)
		synctest.Wait()
		reader, err := p.acquire()
		if err != nil {
			t.Fatal(err)
		}
		closed := make(chan error, 1)
		go func() { closed <- p.Close() }()
		synctest.Wait()
		if len(closed) > 0 {
			t.Fatal("Close did not wait for the effect")
		}
		g.apply(t)
		if r := <-write; r.err != nil {
			t.Error(r.err)
		}
		synctest.Wait()
		if len(closed) > 0 {
			t.Fatal("Close did not wait for the reader")
		}
		if _, err := w.write(Create, w.parse(`{"id":"2","a":"x"}`), nil); status.CodeOf(err) != status.CodeUnavailable {
			t.Errorf("write after Close: got %v, want 503", err)
		}
		p.release(reader)
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if _, err := w.read(w.container.Load().KeyOf(w.parse(`{"a":"x"}`)), "1", nil); status.CodeOf(err) != status.CodeUnavailable {
			t.Errorf("read after Close: got %v, want 503", err)
		}
	})
}

// TestRebuildUnderWrites changes the policy while documents at every position change:
// the lists are exact after each step.
func TestRebuildUnderWrites(t *testing.T) {
	held(t, func(t *testing.T, w *world, g *heldGroup) {
		settle := func(c <-chan result) {
			for !answered(c) {
				synctest.Wait()
				if g.apply(t) == 0 && !answered(c) {
					synctest.Wait()
				}
			}
			if r := <-c; r.err != nil {
				t.Fatal(r.err)
			}
		}
		for _, id := range []string{"1", "2", "3"} {
			settle(w.begin(t.Context(), Create, `{"id":"`+id+`","a":"x","n":1,"m":`+id+`}`))
		}
		c := *w.container.Load()
		c.Indexing = resource.IndexingPolicy{Mode: resource.IndexingConsistent, Automatic: true, Included: []string{"/n/?"}, Excluded: []string{"/*"}}
		w.container.Store(&c)
		p := w.partition.Load()
		p.steps.sweepDocuments = 1
		p.Reindex()
		// Between any two steps of the rebuild: update, delete and create.
		texts := []string{`{"id":"1","a":"x","n":2,"m":5}`, `{"id":"3","a":"x","n":3,"m":6}`, `{"id":"4","a":"x","n":4,"m":7}`, `{"id":"2","a":"x","n":5,"m":8}`}
		for i := range 40 {
			synctest.Wait()
			applied := g.apply(t)
			synctest.Wait()
			if report := w.check(); !report.Clean() {
				t.Fatalf("step %d: %q", i, report.Problems)
			}
			if applied == 0 && i >= len(texts) {
				break
			}
			if i < len(texts) {
				next := w.begin(t.Context(), Upsert, texts[i])
				settle(next)
				if report := w.check(); !report.Clean() {
					t.Fatalf("step %d, after the write: %q", i, report.Problems)
				}
			}
		}
		if progress := p.Stats().IndexProgress; progress != 100 {
			t.Errorf("progress %d, want 100", progress)
		}
	})
}
