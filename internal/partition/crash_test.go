package partition

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/replication/replicationtest"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// register is one document that one goroutine writes in steps: after step n the
// document contains n, or does not exist if n is a multiple of deleteEvery.
type register struct {
	id        string
	key       partitionkey.Key
	attempted atomic.Int64
	certain   atomic.Int64 // the last step that was acknowledged or read
}

const deleteEvery = 5

func newRegisters(n int) []*register {
	list := make([]*register, n)
	for i := range list {
		list[i] = &register{id: fmt.Sprint("doc", i), key: partitionkey.NewKey(partitionkey.String(fmt.Sprint("tenant", i%3)), partitionkey.Number(float64(i%5)))}
	}
	return list
}

func (r *register) document(n int64) value.Value {
	return value.Object([]value.Member{
		{Name: "id", Value: value.String(r.id)},
		{Name: "a", Value: value.String(r.key.At(0).Text())},
		{Name: "b", Value: value.Number(r.key.At(1).Float())},
		{Name: "n", Value: value.Int(n)},
		{Name: "tags", Value: value.Array([]value.Value{value.Int(n % 3), value.String("every")})},
	})
}

// step performs the next step and returns its error.
func (r *register) step(w *world) error {
	n := r.attempted.Add(1)
	op, doc := Upsert, r.document(n)
	if n%deleteEvery == 0 {
		op = Delete
	}
	_, err := w.write(op, doc, func(request *Write) { request.ID = r.id })
	// A delete returns NotFound if the step that should have created the document was
	// lost.
	if err == nil || op == Delete && status.CodeOf(err) == status.CodeNotFound {
		r.certain.Store(n)
		return nil
	}
	return err
}

// observe reads the register. A state that was read must never be undone.
func (r *register) observe(w *world) error {
	found, err := w.read(r.key, r.id, nil)
	if status.CodeOf(err) == status.CodeNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	doc, err := value.Parse(found.Body)
	if err != nil {
		return err
	}
	n, _ := doc.Get("n").Int64()
	for {
		if before := r.certain.Load(); before >= n || r.certain.CompareAndSwap(before, n) {
			return nil
		}
	}
}

// verify checks that the register is at a step between two given ones.
func (r *register) verify(w *world, low, high int64) error {
	found, err := w.read(r.key, r.id, nil)
	if status.CodeOf(err) == status.CodeNotFound {
		if low == 0 || low%deleteEvery == 0 || high/deleteEvery > low/deleteEvery {
			return nil
		}
		return fmt.Errorf("%s is lost: it was certain at step %d, and no delete was tried up to step %d", r.id, low, high)
	}
	if err != nil {
		return err
	}
	doc, err := value.Parse(found.Body)
	if err != nil {
		return err
	}
	if n, _ := doc.Get("n").Int64(); n < low || n > high || n%deleteEvery == 0 {
		return fmt.Errorf("%s is at step %d, want %d to %d", r.id, n, low, high)
	}
	return nil
}

// TestPowerFailure crashes under load, at random moments and with random losses, and
// checks the result: no write that was acknowledged or read is lost, nothing is
// incomplete, and the partition continues to serve.
func TestPowerFailure(t *testing.T) {
	t.Parallel()
	for _, kept := range []float64{0, 0.5, 1} {
		for seed := range uint64(4) {
			t.Run(fmt.Sprintf("kept=%v/seed=%d", kept, seed), func(t *testing.T) {
				t.Parallel()
				powerFailure(t, kept, seed)
			})
		}
	}
}

func powerFailure(t *testing.T, kept float64, seed uint64) {
	w := newWorld(t, containerWith(t, 2, []string{"/a", "/b"}, ""))
	registers := newRegisters(8)
	var done atomic.Bool
	var group sync.WaitGroup
	steps := make(chan struct{}, 1<<16)
	for _, r := range registers {
		group.Go(func() {
			for n := 0; !done.Load(); n++ {
				if err := r.step(w); err != nil {
					t.Error(err)
					return
				}
				if n%7 == 0 {
					if err := r.observe(w); err != nil {
						t.Error(err)
						return
					}
				}
				select {
				case steps <- struct{}{}:
				default:
				}
			}
		})
	}
	if seed%2 == 1 { // Half of the runs change the indexing policy at the same time.
		c := *w.container.Load()
		c.Indexing = containerWith(t, 2, []string{"/a"}, `{"includedPaths":[{"path":"/n/?"}],"excludedPaths":[{"path":"/*"}]}`).Indexing
		w.container.Store(&c)
		w.partition.Load().Reindex()
	}
	for range 20 + rand.New(rand.NewPCG(seed, 1)).IntN(200) {
		<-steps
	}
	low := make([]int64, len(registers))
	for i, r := range registers {
		low[i] = r.certain.Load()
	}
	after := w.disk.Crash(kept, seed)
	high := make([]int64, len(registers))
	for i, r := range registers {
		high[i] = r.attempted.Load()
	}
	done.Store(true)
	group.Wait()
	if err := w.close(); err != nil {
		t.Fatal(err)
	}

	w.disk = after
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
	if report := w.check(); !report.Clean() {
		t.Fatalf("after the crash: %q", report.Problems)
	}
	for i, r := range registers {
		if err := r.verify(w, low[i], high[i]); err != nil {
			t.Error(err)
		}
	}
	// The rebuild that was in progress continues, and so do the writes.
	w.partition.Load().Reindex()
	for _, r := range registers {
		if err := r.step(w); err != nil {
			t.Error(err)
		}
	}
	w.partition.Load().waitIdle()
	if st := w.partition.Load().Stats(); st.IndexProgress != 100 {
		t.Errorf("index progress %d", st.IndexProgress)
	}
	if report := w.check(); !report.Clean() {
		t.Errorf("after going on: %q", report.Problems)
	}
}

// TestDiskErrors fails each single disk operation in turn: the failure is returned as
// an error, stops the partition, and loses no acknowledged write.
func TestDiskErrors(t *testing.T) {
	t.Parallel()
	for n := int64(1); ; n++ {
		w := newWorld(t, containerWith(t, 2, []string{"/a", "/b"}, ""))
		w.disk.FailAt(n)
		registers := newRegisters(3)
		var first error
		for range 4 {
			for _, r := range registers {
				err := r.step(w)
				if err != nil && first == nil {
					first = err
				}
				if err == nil && first != nil && w.partition.Load().Stats().Failure == nil {
					t.Fatalf("operation %d: the partition goes on after %v", n, first)
				}
				if err != nil && status.CodeOf(err) != status.CodeUnavailable {
					t.Fatalf("operation %d: got %v, want 503", n, err)
				}
			}
		}
		_, failed := w.disk.Operations()
		if failed == 0 {
			if first != nil {
				t.Fatalf("no operation failed, but a write did: %v", first)
			}
			return
		}
		closeErr := w.close()
		if first == nil && closeErr == nil {
			// The operation belonged to background work that was repeated; nothing may
			// be missing.
			t.Logf("operation %d failed without consequence", n)
		}
		w.disk.Heal()
		if err := w.open(); err != nil {
			t.Fatalf("operation %d: open: %v", n, err)
		}
		if report := w.check(); !report.Clean() {
			t.Fatalf("operation %d: %q", n, report.Problems)
		}
		for _, r := range registers {
			if err := r.verify(w, r.certain.Load(), r.attempted.Load()); err != nil {
				t.Fatalf("operation %d: %v", n, err)
			}
		}
		if err := w.close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFailureStops shows that a partition whose store failed answers 503 to
// everything, and does not hang.
func TestFailureStops(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/a", "/b"}, ""))
	r := newRegisters(1)[0]
	if err := r.step(w); err != nil {
		t.Fatal(err)
	}
	w.disk.FailFrom(1)
	if err := r.step(w); status.CodeOf(err) != status.CodeUnavailable {
		t.Fatalf("write on a broken disk: got %v, want 503", err)
	}
	w.disk.Heal()
	if err := r.step(w); status.CodeOf(err) != status.CodeUnavailable {
		t.Errorf("write after the failure: got %v, want 503", err)
	} else if text := status.From(err).Message; !strings.Contains(text, "log has the reason") {
		t.Errorf("write after the failure: %q does not say where the reason is", text)
	}
	if _, err := w.read(r.key, r.id, nil); status.CodeOf(err) != status.CodeUnavailable {
		t.Errorf("read after the failure: got %v, want 503", err)
	}
	if st := w.partition.Load().Stats(); st.Failure == nil {
		t.Error("the statistics say nothing of the failure")
	}
	if err := w.close(); err == nil {
		t.Error("closing a failed store is no error")
	}
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
	if err := r.verify(w, r.certain.Load(), r.attempted.Load()); err != nil {
		t.Error(err)
	}
}

// TestFlakyGroup runs on a group that delays, refuses and loses effects and answers:
// every failure is a 429 or 503, and all other results are exact.
func TestFlakyGroup(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			flakyGroup(t, seed)
		})
	}
}

func flakyGroup(t *testing.T, seed uint64) {
	w := newWorld(t, containerWith(t, 2, []string{"/a", "/b"}, ""))
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	err := w.openWith(func(sm replication.StateMachine) replication.Group {
		return replicationtest.NewFlaky(sm, replicationtest.FlakyOptions{Seed: seed, Delay: 0.2, Lose: 0.05, LoseAnswer: 0.05, Refuse: 0.02})
	})
	if err != nil {
		t.Fatal(err)
	}
	registers := newRegisters(8)
	var group sync.WaitGroup
	var refused, acknowledged atomic.Int64
	for _, r := range registers {
		group.Go(func() {
			for range 60 {
				err := r.step(w)
				switch status.CodeOf(err) {
				case 0:
					acknowledged.Add(1)
				case status.CodeUnavailable, status.CodeTooManyRequests:
					refused.Add(1)
				default:
					t.Errorf("got %v, want 429 or 503", err)
				}
				if err := r.observe(w); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	w.partition.Load().waitIdle()
	if refused.Load() == 0 || acknowledged.Load() == 0 {
		t.Errorf("%d writes acknowledged and %d refused; the test wants both", acknowledged.Load(), refused.Load())
	}
	for _, r := range registers {
		if err := r.verify(w, r.certain.Load(), r.attempted.Load()); err != nil {
			t.Error(err)
		}
	}
	if report := w.check(); !report.Clean() {
		t.Errorf("%q", report.Problems)
	}
}

// TestApplyRefuses shows what Apply skips without an error: an effect of another
// generation, and one after a gap. An LSN that already exists stops the partition.
func TestApplyRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/a", "/b"}, ""))
	r := newRegisters(1)[0]
	for range 2 {
		if err := r.step(w); err != nil {
			t.Fatal(err)
		}
	}
	p := w.partition.Load()
	batch := w.store.NewBatch()
	defer batch.Close()
	if err := batch.Set([]byte("m unknown"), nil); err != nil {
		t.Fatal(err)
	}
	rows := batch.Repr()
	rejected, err := p.Apply([]replication.Effect{
		{Generation: w.own.Generation - 1, LSN: 3, Rows: rows},
		{Generation: w.own.Generation, LSN: 4, Rows: rows},
	})
	if err != nil || len(rejected) != 2 || status.CodeOf(rejected[0]) != status.CodeGone || status.CodeOf(rejected[1]) != status.CodeUnavailable {
		t.Errorf("got %v, %v, want 410 and 503", rejected, err)
	}
	if p.LSN() != 2 {
		t.Errorf("LSN %d, want 2", p.LSN())
	}
	if report := w.check(); !report.Clean() {
		t.Errorf("a refused effect left a trace: %q", report.Problems)
	}
	if _, err := p.Apply([]replication.Effect{{Generation: w.own.Generation, LSN: 2, Rows: rows}}); err == nil {
		t.Error("an LSN that was there is no error")
	}
	if st := p.Stats(); st.Failure == nil {
		t.Error("the partition goes on after a broken invariant")
	}
	if err := r.step(w); status.CodeOf(err) != status.CodeUnavailable {
		t.Errorf("got %v, want 503", err)
	}
}

// TestApplyDamagedRows shows that unreadable rows stop the partition.
func TestApplyDamagedRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/a", "/b"}, ""))
	p := w.partition.Load()
	if _, err := p.Apply([]replication.Effect{{Generation: w.own.Generation, LSN: 1, Rows: []byte("no rows")}}); err == nil {
		t.Error("damaged rows are no error")
	}
	if st := p.Stats(); st.Failure == nil {
		t.Error("the partition goes on")
	}
	if report := w.check(); !report.Clean() {
		t.Errorf("%q", report.Problems)
	}
}

// TestOpenRefuses shows that the store of another partition is refused.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/a", "/b"}, ""))
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	c := *w.container.Load()
	c.RID = resource.ContainerRID(resource.DatabaseRID(1), 2)
	w.container.Store(&c)
	if err := w.open(); err == nil {
		t.Error("the store of another container was opened")
	}
}
