package replicationtest

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// ErrFlaky is the cause of every failure that a [Flaky] injects.
var ErrFlaky = errors.New("flaky group")

// FlakyOptions says which failures a [Flaky] injects. The zero value injects none, but
// changes the order between partitions. Delay, Lose and LoseAnswer are probabilities of
// each step, which takes a few effects of one partition.
type FlakyOptions struct {
	Seed         uint64
	QueueEffects int     // effects of one partition that may wait; 1,024 by default
	Delay        float64 // the step does nothing
	Lose         float64 // the step's effects and all later ones are lost: unknown, not applied
	LoseAnswer   float64 // the effects are applied but reported as unknown, and the partition stops
	Refuse       float64 // for each proposal: rejected as if the queue were full
}

// Flaky is a [replication.Group] that delays effects, changes the order between
// partitions, and rejects proposals. It loses effects like a group that loses its
// leader, and answers like a store that fails after its sync.
//
// When effects of a partition are lost, writes that were evaluated on top of them are
// rejected, until an effect with the LSN of the first lost one shows that its proposer
// has noticed. In a cluster the term of the log does that. Effects without rows do not
// depend on others and are never rejected for this reason. When answers are lost the
// partition stops until [Flaky.Restart].
type Flaky struct {
	machine replication.StateMachine
	options FlakyOptions
	running sync.WaitGroup

	mu      sync.Mutex
	random  *rand.Rand
	queues  map[replication.PartitionRef]*flakyQueue
	ready   []replication.PartitionRef // partitions with waiting effects
	busy    bool                       // a goroutine runs steps
	status  replication.Status
	trouble int
}

type flakyQueue struct {
	waiting []flakyProposed
	fence   resource.LSN // if nonzero, the only LSN that is accepted
	broken  error
}

type flakyProposed struct {
	effect   replication.Effect
	proposal *replication.Proposal
}

// NewFlaky returns a group that applies with sm the effects that it does not lose.
func NewFlaky(sm replication.StateMachine, options FlakyOptions) *Flaky {
	if options.QueueEffects <= 0 {
		options.QueueEffects = 1024
	}
	return &Flaky{
		machine: sm,
		options: options,
		random:  rand.New(rand.NewPCG(options.Seed, 0)),
		queues:  map[replication.PartitionRef]*flakyQueue{},
		status:  replication.Status{Leader: true},
	}
}

// Propose proposes an effect.
func (f *Flaky) Propose(ctx context.Context, partition replication.PartitionRef, effect replication.Effect) *replication.Proposal {
	p := replication.NewProposal()
	if err := f.enqueue(ctx, partition, flakyProposed{effect, p}); err != nil {
		p.Resolve(replication.Rejected, err)
	}
	return p
}

func (f *Flaky) enqueue(ctx context.Context, partition replication.PartitionRef, p flakyProposed) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	q := f.queues[partition]
	if q == nil {
		q = &flakyQueue{}
		f.queues[partition] = q
	}
	err := f.admitLocked(q, p.effect)
	if err != nil {
		f.status.Rejected++
		return err
	}
	if len(q.waiting) == 0 {
		f.ready = append(f.ready, partition)
	}
	q.waiting = append(q.waiting, p)
	f.status.Pending++
	if !f.busy {
		f.busy = true
		f.running.Go(f.run)
	}
	return nil
}

func (f *Flaky) admitLocked(q *flakyQueue, effect replication.Effect) error {
	switch {
	case f.status.Closed:
		return status.Unavailable(nil, "The server is shutting down.")
	case q.broken != nil:
		return status.Unavailable(q.broken, "The partition has stopped.")
	case q.fence != 0 && effect.LSN != q.fence && effect.Kind == replication.Write:
		return status.Unavailable(ErrFlaky, "The write was evaluated on top of one that was lost.")
	case len(q.waiting) >= f.options.QueueEffects || f.chanceLocked(f.options.Refuse):
		return status.TooManyRequests(status.SubRequestRateTooLarge, time.Millisecond, "Too many writes wait for the partition.")
	}
	if effect.Kind == replication.Write {
		q.fence = 0
	}
	return nil
}

func (f *Flaky) chanceLocked(p float64) bool { return p > 0 && f.random.Float64() < p }

// fate is what a step does with its effects.
type fate uint8

const (
	fateApply fate = iota
	fateLose
	fateLoseAnswer
)

// run runs steps until nothing waits.
func (f *Flaky) run() {
	for {
		partition, batch, fate, more := f.choose()
		if !more {
			return
		}
		if len(batch) == 0 {
			runtime.Gosched()
			continue
		}
		f.step(partition, batch, fate)
	}
}

// choose draws a partition, how many of its effects to take, and their fate. With lost
// effects, all later ones are lost.
func (f *Flaky) choose() (partition replication.PartitionRef, batch []flakyProposed, fate fate, more bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.ready) == 0 {
		f.busy = false
		return partition, nil, 0, false
	}
	if f.chanceLocked(f.options.Delay) {
		return partition, nil, 0, true
	}
	partition = f.ready[f.random.IntN(len(f.ready))]
	q := f.queues[partition]
	n := 1 + f.random.IntN(len(q.waiting))
	switch {
	case f.chanceLocked(f.options.Lose):
		fate, n = fateLose, len(q.waiting)
	case f.chanceLocked(f.options.LoseAnswer):
		fate = fateLoseAnswer
	}
	batch = append(batch, q.waiting[:n]...)
	q.waiting = q.waiting[n:]
	if fate == fateLose {
		f.fenceLocked(q, batch)
	}
	if len(q.waiting) == 0 {
		f.unreadyLocked(partition)
	}
	return partition, batch, fate, true
}

// fenceLocked makes the queue reject effects that were evaluated on top of lost ones.
func (f *Flaky) fenceLocked(q *flakyQueue, lost []flakyProposed) {
	f.trouble++
	for _, p := range lost {
		if p.effect.LSN != 0 {
			q.fence = p.effect.LSN
			return
		}
	}
}

func (f *Flaky) step(partition replication.PartitionRef, batch []flakyProposed, fate fate) {
	var rejected []error
	err := ErrFlaky
	if fate != fateLose {
		effects := make([]replication.Effect, len(batch))
		for i := range batch {
			effects[i] = batch[i].effect
		}
		var applyErr error
		rejected, applyErr = f.apply(partition, effects)
		if fate == fateApply || applyErr != nil {
			err = applyErr
		}
	}
	if fate == fateLoseAnswer {
		batch = append(batch, f.stop(partition)...)
	}
	f.resolve(batch, rejected, err)
}

// stop stops a partition whose answers were lost. It returns the effects that wait,
// which will not be applied.
func (f *Flaky) stop(partition replication.PartitionRef) (waiting []flakyProposed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trouble++
	q := f.queues[partition]
	q.broken = ErrFlaky
	waiting, q.waiting = q.waiting, nil
	f.unreadyLocked(partition)
	return waiting
}

// unreadyLocked removes a partition without waiting effects from the list.
func (f *Flaky) unreadyLocked(partition replication.PartitionRef) {
	if i := slices.Index(f.ready, partition); i >= 0 {
		f.ready[i] = f.ready[len(f.ready)-1]
		f.ready = f.ready[:len(f.ready)-1]
	}
}

// Restart lets a stopped partition accept effects again. The caller has opened it again
// and waited for all earlier proposals.
func (f *Flaky) Restart(partition replication.PartitionRef) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.queues, partition)
	f.unreadyLocked(partition)
}

func (f *Flaky) apply(partition replication.PartitionRef, effects []replication.Effect) (rejected []error, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errors.New("apply panicked: " + string(debug.Stack()))
			f.mu.Lock()
			f.queues[partition].broken = err
			f.mu.Unlock()
		}
	}()
	f.mu.Lock()
	err = f.queues[partition].broken
	f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return f.machine.Apply(partition, effects)
}

func (f *Flaky) resolve(batch []flakyProposed, rejected []error, err error) {
	outcomes := make([]replication.Outcome, len(batch))
	f.mu.Lock()
	f.status.Pending -= len(batch)
	f.status.Batches++
	for i := range batch {
		switch {
		case i < len(rejected) && rejected[i] != nil:
			outcomes[i] = replication.Rejected
			f.status.Rejected++
		case err != nil:
			outcomes[i] = replication.Unknown
			f.status.Unknown++
		default:
			outcomes[i] = replication.Applied
			f.status.Applied++
		}
	}
	f.mu.Unlock()
	for i := range batch {
		switch outcomes[i] {
		case replication.Rejected:
			batch[i].proposal.Resolve(outcomes[i], rejected[i])
		case replication.Unknown:
			batch[i].proposal.Resolve(outcomes[i], status.Unavailable(err, "The outcome of the write is unknown."))
		default:
			batch[i].proposal.Resolve(outcomes[i], nil)
		}
	}
}

// ReadBarrier returns at once.
func (f *Flaky) ReadBarrier(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.status.Closed {
		return status.Unavailable(nil, "The server is shutting down.")
	}
	return context.Cause(ctx)
}

// Status returns the current state of the group.
func (f *Flaky) Status() replication.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status
}

// Trouble returns how often effects or answers were lost, so that a test can check that
// some were.
func (f *Flaky) Trouble() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.trouble
}

// Close rejects further proposals and returns when all earlier ones are resolved.
func (f *Flaky) Close() error {
	f.mu.Lock()
	f.status.Closed = true
	f.mu.Unlock()
	f.running.Wait()
	return nil
}
