// Package replicationtest contains the suite that every replication.Group must pass,
// and a group that injects failures.
//
// Implementations run [Conformance]. Packages that propose effects run their tests on a
// [Flaky] as well as on the real group. [Recorder] is a complete state machine that
// records its effects.
//
// # Invariants
//
// The suite depends only on the documented interface of a group.
//
// Page: docs/storage.md
package replicationtest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// Ref names partition n of a test container.
func Ref(n int) replication.PartitionRef {
	return replication.PartitionRef{Container: "test", Partition: resource.PartitionID(n)}
}

// Effect returns effect number n of a partition: its LSN is n and its rows encode n.
func Effect(n int) replication.Effect {
	return replication.Effect{LSN: resource.LSN(n), Rows: binary.BigEndian.AppendUint64(nil, uint64(n)), Items: 1, Bytes: 8}
}

// Recorder is a state machine that records the numbers of the effects that it applied.
// The zero value is ready for use.
type Recorder struct {
	// Before, if set, is called at the start of each Apply: it may wait, panic, reject or
	// fail. It must not change while a group is in use.
	Before func(replication.PartitionRef, []replication.Effect) (rejected []error, err error)

	mu      sync.Mutex
	applied map[replication.PartitionRef][]int
	busy    map[replication.PartitionRef]bool
	batches int
	broken  []string
}

// Apply records the effects that Before did not reject.
func (r *Recorder) Apply(partition replication.PartitionRef, effects []replication.Effect) (rejected []error, err error) {
	r.enter(partition, effects)
	defer r.leave(partition)
	if r.Before != nil {
		if rejected, err = r.Before(partition, effects); err != nil {
			return rejected, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, e := range effects {
		if e.Kind == replication.Write && (rejected == nil || rejected[i] == nil) {
			r.applied[partition] = append(r.applied[partition], int(binary.BigEndian.Uint64(e.Rows)))
		}
	}
	return rejected, nil
}

func (r *Recorder) enter(partition replication.PartitionRef, effects []replication.Effect) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.applied == nil {
		r.applied = map[replication.PartitionRef][]int{}
		r.busy = map[replication.PartitionRef]bool{}
	}
	if r.busy[partition] {
		r.broken = append(r.broken, fmt.Sprintf("two calls of Apply for partition %s at once", partition))
	}
	if len(effects) == 0 {
		r.broken = append(r.broken, "Apply without effects")
	}
	r.busy[partition] = true
	r.batches++
}

func (r *Recorder) leave(partition replication.PartitionRef) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy[partition] = false
}

// Applied returns the numbers of the applied effects of a partition, in order.
func (r *Recorder) Applied(partition replication.PartitionRef) []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.applied[partition])
}

// Batches returns how often Apply was called.
func (r *Recorder) Batches() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.batches
}

// Check reports violations of the contract by the caller of the state machine.
func (r *Recorder) Check(t testing.TB) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, text := range r.broken {
		t.Error(text)
	}
}

// Conformance runs the suite. make returns a new group whose queue holds queueEffects
// effects of one partition; each group is used for one test, which closes it.
func Conformance(t *testing.T, make func(sm replication.StateMachine, queueEffects int) replication.Group) {
	s := suite{make}
	t.Run("order", s.order)
	t.Run("kinds", s.kinds)
	t.Run("gathering", s.gathering)
	t.Run("full queue", s.fullQueue)
	t.Run("rejected", s.rejected)
	t.Run("unknown", s.unknown)
	t.Run("context", s.context)
	t.Run("close", s.close)
	t.Run("panic", s.panic)
	t.Run("read barrier", s.readBarrier)
}

type suite struct {
	make func(sm replication.StateMachine, queueEffects int) replication.Group
}

func (s suite) start(t *testing.T, r *Recorder, queueEffects int) replication.Group {
	t.Helper()
	g := s.make(r, queueEffects)
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		r.Check(t)
	})
	return g
}

// order: many partitions at the same time, each with effects in ascending order.
func (s suite) order(t *testing.T) {
	t.Parallel()
	const partitions, effects = 9, 300
	var r Recorder
	g := s.start(t, &r, 1<<20)
	var writers sync.WaitGroup
	for p := range partitions {
		writers.Go(func() {
			proposals := []*replication.Proposal{}
			for n := 1; n <= effects; n++ {
				proposals = append(proposals, g.Propose(t.Context(), Ref(p), Effect(n)))
				if n%37 == 0 {
					<-proposals[n-1].Done()
				}
			}
			for n, proposal := range proposals {
				if err := proposal.Wait(t.Context()); err != nil || proposal.Outcome() != replication.Applied {
					t.Errorf("partition %d, effect %d: %s, %v", p, n+1, proposal.Outcome(), err)
				}
			}
			if got := r.Applied(Ref(p)); len(got) != effects || !slices.IsSorted(got) {
				t.Errorf("partition %d applied %d effects, sorted %v", p, len(got), slices.IsSorted(got))
			}
		})
	}
	writers.Wait()
	if got := g.Status(); got.Pending != 0 || got.Applied != partitions*effects || got.Closed {
		t.Errorf("status when idle = %+v", got)
	}
}

// kinds: an effect of any kind keeps its place among the writes, with or without rows
// and an LSN.
func (s suite) kinds(t *testing.T) {
	t.Parallel()
	const writes = 60
	var got []string
	r := Recorder{Before: func(_ replication.PartitionRef, effects []replication.Effect) ([]error, error) {
		for _, e := range effects {
			got = append(got, fmt.Sprint(e.Kind, e.LSN))
		}
		return nil, nil
	}}
	g := s.start(t, &r, 1<<20)
	var want []string
	var last *replication.Proposal
	for n := 1; n <= writes; n++ {
		g.Propose(t.Context(), Ref(1), Effect(n))
		want = append(want, fmt.Sprint(replication.Write, n))
		if kind := replication.Kind(n % 4); kind != replication.Write {
			last = g.Propose(t.Context(), Ref(1), replication.Effect{Kind: kind})
			want = append(want, fmt.Sprint(kind, 0))
		}
	}
	if err := g.Propose(t.Context(), Ref(1), Effect(writes+1)).Wait(t.Context()); err != nil || last.Outcome() != replication.Applied {
		t.Fatalf("%v, and the last without rows is %s", err, last.Outcome())
	}
	want = append(want, fmt.Sprint(replication.Write, writes+1))
	if !slices.Equal(got, want) {
		t.Errorf("applied %v\nwant %v", got, want)
	}
}

// gate blocks Apply until the test opens it.
type gate struct {
	entered chan struct{}
	open    chan struct{}
}

func newGate() gate { return gate{entered: make(chan struct{}, 1<<16), open: make(chan struct{})} }

func (g gate) wait(replication.PartitionRef, []replication.Effect) ([]error, error) {
	g.entered <- struct{}{}
	<-g.open
	return nil, nil
}

// gathering: Propose does not wait for Apply, and effects that queue up are applied
// together.
func (s suite) gathering(t *testing.T) {
	t.Parallel()
	gate := newGate()
	r := Recorder{Before: gate.wait}
	g := s.start(t, &r, 1<<20)
	proposals := []*replication.Proposal{g.Propose(t.Context(), Ref(1), Effect(1))}
	<-gate.entered
	for n := 2; n <= 100; n++ {
		proposals = append(proposals, g.Propose(t.Context(), Ref(1), Effect(n)))
	}
	for n, p := range proposals {
		if got := p.Outcome(); got != replication.Pending || p.Err() != nil {
			t.Fatalf("effect %d is %s while Apply waits", n+1, got)
		}
	}
	if got := g.Status().Pending; got != 100 {
		t.Errorf("%d proposals are pending, want 100", got)
	}
	close(gate.open)
	for _, p := range proposals {
		if err := p.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if got := r.Batches(); got > 20 {
		t.Errorf("100 effects took %d durable steps", got)
	}
}

// fullQueue: a full queue rejects proposals, of its partition only.
func (s suite) fullQueue(t *testing.T) {
	t.Parallel()
	const limit = 10
	gate := newGate()
	r := Recorder{Before: gate.wait}
	g := s.start(t, &r, limit)
	first := g.Propose(t.Context(), Ref(1), Effect(1))
	<-gate.entered
	var taken, refused int
	for n := 2; n < 50; n++ {
		p := g.Propose(t.Context(), Ref(1), Effect(n))
		if p.Outcome() == replication.Pending {
			taken++
			continue
		}
		refused++
		if status.CodeOf(p.Err()) != status.CodeTooManyRequests || p.Outcome() != replication.Rejected || status.From(p.Err()).RetryAfter <= 0 {
			t.Fatalf("effect %d: %s, %v", n, p.Outcome(), p.Err())
		}
	}
	if taken != limit || refused != 48-limit {
		t.Errorf("%d effects were taken and %d refused, want %d and %d", taken, refused, limit, 48-limit)
	}
	other := g.Propose(t.Context(), Ref(2), Effect(1))
	close(gate.open)
	for _, p := range []*replication.Proposal{first, other} {
		if err := p.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// rejected: effects that the state machine skips are rejected with its error, and the
// others are applied.
func (s suite) rejected(t *testing.T) {
	t.Parallel()
	odd := errors.New("odd")
	r := Recorder{Before: func(_ replication.PartitionRef, effects []replication.Effect) ([]error, error) {
		rejected := make([]error, len(effects))
		for i, e := range effects {
			if e.LSN%2 == 1 {
				rejected[i] = odd
			}
		}
		return rejected, nil
	}}
	g := s.start(t, &r, 1<<20)
	var proposals []*replication.Proposal
	for n := 1; n <= 40; n++ {
		proposals = append(proposals, g.Propose(t.Context(), Ref(1), Effect(n)))
	}
	for i, p := range proposals {
		want, wantErr := replication.Applied, error(nil)
		if (i+1)%2 == 1 {
			want, wantErr = replication.Rejected, odd
		}
		if err := p.Wait(t.Context()); !errors.Is(err, wantErr) || p.Outcome() != want {
			t.Errorf("effect %d: %s, %v, want %s, %v", i+1, p.Outcome(), err, want, wantErr)
		}
	}
	if got := r.Applied(Ref(1)); len(got) != 20 {
		t.Errorf("%d effects were applied, want 20", len(got))
	}
}

// unknown: an error of the state machine makes outcomes unknown, in that partition
// only.
func (s suite) unknown(t *testing.T) {
	t.Parallel()
	cause := errors.New("disk on fire")
	r := Recorder{Before: func(partition replication.PartitionRef, effects []replication.Effect) ([]error, error) {
		if partition == Ref(1) && effects[len(effects)-1].LSN > 1 {
			return nil, cause
		}
		return nil, nil
	}}
	g := s.start(t, &r, 1<<20)
	if err := g.Propose(t.Context(), Ref(1), Effect(1)).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := g.Propose(t.Context(), Ref(1), Effect(2))
	err := p.Wait(t.Context())
	if p.Outcome() != replication.Unknown || status.CodeOf(err) != status.CodeUnavailable || !errors.Is(err, cause) {
		t.Errorf("outcome %s, error %v, want an unknown outcome, 503 and the cause", p.Outcome(), err)
	}
	if err := g.Propose(t.Context(), Ref(2), Effect(2)).Wait(t.Context()); err != nil {
		t.Errorf("another partition: %v", err)
	}
	if got := g.Status(); got.Unknown != 1 || got.Applied != 2 {
		t.Errorf("status = %+v, want 1 unknown and 2 applied", got)
	}
}

// context: a context that has ended rejects the proposal; one that ends later has no
// influence.
func (s suite) context(t *testing.T) {
	t.Parallel()
	gate := newGate()
	r := Recorder{Before: gate.wait}
	g := s.start(t, &r, 1<<20)
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if p := g.Propose(done, Ref(1), Effect(1)); p.Outcome() != replication.Rejected || !errors.Is(p.Err(), context.Canceled) {
		t.Errorf("with a context that is done: %s, %v", p.Outcome(), p.Err())
	}
	later, cancel := context.WithCancel(t.Context())
	p := g.Propose(later, Ref(1), Effect(2))
	<-gate.entered
	cancel()
	if err := p.Wait(later); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait with a cancelled context: %v", err)
	}
	close(gate.open)
	if err := p.Wait(t.Context()); err != nil {
		t.Errorf("after its context was cancelled: %v", err)
	}
	if got := r.Applied(Ref(1)); !slices.Equal(got, []int{2}) {
		t.Errorf("applied %v, want 2 alone", got)
	}
}

// close: proposals in progress are resolved, later ones are rejected.
func (s suite) close(t *testing.T) {
	t.Parallel()
	gate := newGate()
	r := Recorder{Before: gate.wait}
	g := s.start(t, &r, 1<<20)
	var proposals []*replication.Proposal
	for n := 1; n <= 20; n++ {
		proposals = append(proposals, g.Propose(t.Context(), Ref(n%3), Effect(n)))
	}
	<-gate.entered
	closed := make(chan error)
	go func() { closed <- g.Close() }()
	for !g.Status().Closed {
		select {
		case err := <-closed:
			t.Fatalf("Close returned %v with proposals in progress", err)
		default:
		}
	}
	late := g.Propose(t.Context(), Ref(1), Effect(21))
	if late.Outcome() != replication.Rejected || status.CodeOf(late.Err()) != status.CodeUnavailable {
		t.Errorf("proposal after Close: %s, %v", late.Outcome(), late.Err())
	}
	close(gate.open)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	for n, p := range proposals {
		if p.Outcome() == replication.Pending {
			t.Errorf("effect %d is pending after Close", n+1)
		}
	}
	if err := g.ReadBarrier(t.Context()); status.CodeOf(err) != status.CodeUnavailable {
		t.Errorf("read barrier after Close: %v", err)
	}
}

// panic: a state machine that panics stops only its partition.
func (s suite) panic(t *testing.T) {
	t.Parallel()
	r := Recorder{Before: func(partition replication.PartitionRef, _ []replication.Effect) ([]error, error) {
		if partition == Ref(1) {
			panic("invariant broken")
		}
		return nil, nil
	}}
	g := s.start(t, &r, 1<<20)
	if p := g.Propose(t.Context(), Ref(1), Effect(1)); p.Wait(t.Context()) == nil || p.Outcome() != replication.Unknown {
		t.Errorf("effect that panics: %s, %v", p.Outcome(), p.Err())
	}
	if p := g.Propose(t.Context(), Ref(1), Effect(2)); status.CodeOf(p.Wait(t.Context())) != status.CodeUnavailable {
		t.Errorf("effect after a panic: %s, %v", p.Outcome(), p.Err())
	}
	if err := g.Propose(t.Context(), Ref(2), Effect(1)).Wait(t.Context()); err != nil {
		t.Errorf("another partition: %v", err)
	}
	if got := r.Applied(Ref(1)); len(got) != 0 {
		t.Errorf("applied %v after a panic", got)
	}
}

// readBarrier: after it, what was acknowledged is applied.
func (s suite) readBarrier(t *testing.T) {
	t.Parallel()
	var r Recorder
	g := s.start(t, &r, 1<<20)
	if err := g.Propose(t.Context(), Ref(1), Effect(1)).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := g.ReadBarrier(t.Context()); err != nil {
		t.Error(err)
	}
	if got := r.Applied(Ref(1)); len(got) != 1 {
		t.Errorf("applied %v after the barrier", got)
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.ReadBarrier(done); !errors.Is(err, context.Canceled) {
		t.Errorf("barrier with a context that is done: %v", err)
	}
}
