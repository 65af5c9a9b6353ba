package partition

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/partitionkey"
)

// handover is the parent's part of a split or merge. While children are prepared to take
// over its range, the parent keeps its effects for them, and it ends its writes at one
// point in their order.
type handover struct {
	parent *Partition
	what   string  // what happens to the parent: split or merged
	tails  []*tail // one for each child that follows
}

// Split is the parent's side of a split in progress. Cluster calls Partition.Split, makes
// a checkpoint of the store for each child and calls Adopt, calls [Child.Follow] in the
// background until both children have caught up, then Seal, commits to the catalog, and
// calls Done, Cancel or Suspend. docs/split.md describes the steps.
type Split struct {
	handover // with a tail for each side

	cut   partitionkey.EPK
	bound []byte // the cut in row keys, without the family

	// trimming is held by the child that makes a step of its trim, so that a split uses
	// at most one processor.
	trimming chan struct{}
}

// Split begins a split at a cut of [Partition.SplitPoint]: from one point in the order
// of effects on, the partition keeps them for the children. The error is Conflict, with
// no change, during another split or merge, and during an index rebuild. A later change
// of the policy waits for the end of the split.
func (p *Partition) Split(ctx context.Context, cut partitionkey.EPK) (*Split, error) {
	s := &Split{cut: cut, bound: []byte(cut.Canonical()), trimming: make(chan struct{}, 1)}
	s.handover = handover{parent: p, what: "split", tails: []*tail{left: newTail(), right: newTail()}}
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// begin makes the parent keep its effects from one point in their order on. An error
// leaves no change.
func (h *handover) begin(ctx context.Context) error {
	p := h.parent
	p.intake.mu.Lock()
	if busy := p.intake.handing; busy != nil {
		p.intake.mu.Unlock()
		return status.New(status.CodeConflict, 0, "Partition %s is being %s already.", p.own.ID, busy.what)
	}
	p.intake.handing = h
	p.intake.mu.Unlock()
	err := p.command(ctx, replication.Follow)
	if err != nil {
		h.Cancel()
	}
	return err
}

// Seal ends the writes of the parent at one point in the order of effects. Later writes
// wait in its queue; reads continue. When Seal returns without an error, the tails have
// all effects that the children have to follow.
func (h *handover) Seal(ctx context.Context) error {
	return h.parent.command(ctx, replication.Seal)
}

// unsealAttempts is the greatest number of attempts to unseal. A group refuses one only
// while it is full or has no leader.
const unsealAttempts = 200

// Cancel undoes everything: the parent serves as before.
func (h *handover) Cancel() {
	p := h.parent
	for _, t := range h.tails {
		t.abandon()
	}
	p.intake.mu.Lock()
	sealed := p.intake.sealed
	p.intake.mu.Unlock()
	if sealed {
		h.unseal()
	}
	p.intake.mu.Lock()
	defer p.intake.mu.Unlock()
	p.intake.handing, p.intake.sealed = nil, false
	if !p.intake.closed {
		p.intake.reindex = true // Changes of the policy have waited.
		p.intake.startLocked()
	}
}

// unseal makes Apply accept writes again. A partition that cannot be unsealed stops,
// because it would refuse all writes.
func (h *handover) unseal() {
	p := h.parent
	var err error
	for attempt := range unsealAttempts {
		if err = p.command(context.Background(), replication.Unseal); err == nil || p.health.err() != nil {
			return
		}
		time.Sleep(time.Duration(attempt) * time.Millisecond)
	}
	p.fail(fmt.Errorf("unseal a partition that could not be %s: %w", h.what, err))
}

// Done ends the parent, because its children own its range now. Waiting and later
// requests get PartitionMoved. Reads in progress finish.
func (h *handover) Done() {
	h.parent.health.retired.Store(true)
	h.parent.intake.end(status.PartitionMoved(status.SubRangeGone))
}

// Suspend ends the writes of the parent when it is unknown whether its children own its
// range. Waiting and later writes get err. Reads continue, because parent and children
// have the same documents.
func (h *handover) Suspend(err *status.Error) { h.parent.intake.end(err) }

// Resume ends a Suspend if the children do not own the range. The caller calls Cancel
// next, and then the parent serves as before.
func (h *handover) Resume() {
	h.parent.intake.mu.Lock()
	defer h.parent.intake.mu.Unlock()
	h.parent.intake.ended = nil
}

// order asks the writer for an effect that changes the partition's shape.
type order struct {
	kind     replication.Kind
	taken    chan struct{} // closed when the fields below are set
	proposal *replication.Proposal
	err      error
}

// command makes the writer propose an effect without rows, and returns when it is
// applied. If ctx ends before the writer takes the order, the order is withdrawn.
func (p *Partition) command(ctx context.Context, kind replication.Kind) error {
	o := &order{kind: kind, taken: make(chan struct{})}
	p.intake.mu.Lock()
	if p.intake.closed || p.intake.order != nil {
		p.intake.mu.Unlock()
		return errClosed() // An order waits only if the partition is being closed: a handover gives one at a time.
	}
	p.intake.order = o
	p.intake.startLocked()
	p.intake.mu.Unlock()
	select {
	case <-o.taken:
	case <-ctx.Done():
		p.intake.mu.Lock()
		withdrawn := p.intake.order == o
		if withdrawn {
			p.intake.order = nil
		}
		p.intake.mu.Unlock()
		if withdrawn {
			return context.Cause(ctx)
		}
		<-o.taken
	}
	if o.err != nil {
		return o.err
	}
	<-o.proposal.Done() // It waits for one sync at most.
	return o.proposal.Err()
}

// executeOrder executes the waiting order, if there is one: after all effects that have been
// evaluated, and before all others.
func (p *Partition) executeOrder() {
	p.intake.mu.Lock()
	o, h := p.intake.order, p.intake.handing
	p.intake.order = nil
	if o != nil && o.kind == replication.Seal {
		p.intake.sealed = true
	}
	p.intake.mu.Unlock()
	if o == nil {
		return
	}
	defer close(o.taken)
	if o.kind == replication.Follow {
		if o.err = p.presentable(h); o.err != nil {
			return
		}
		p.apply.shape.announced.Store(h)
	}
	o.proposal = p.config.Group.Propose(context.Background(), p.config.Ref, replication.Effect{Kind: o.kind, Generation: p.own.Generation})
}

// presentable refuses a handover while the index is not the one that the container asks
// for, or may lack documents, because the effects of a rebuild have rows of several keys. It also refuses a
// merge while documents are purged, because a mark compares LSNs, and those of two
// partitions cannot be compared.
func (p *Partition) presentable(h *handover) error {
	now, err := p.acquire()
	if err != nil {
		return err
	}
	defer p.release(now)
	if h.what == merging && len(now.Marks) > 0 {
		return purging(p.own.ID)
	}
	if now.Indexing.Phase != layout.Settled || now.Indexing.Directives || !now.Indexing.Current(p.config.Container().Indexing) {
		return status.New(status.CodeConflict, 0, "The index of partition %s is being rebuilt (%d %%). It can be %s afterwards.",
			p.own.ID, now.Indexing.Progress(), h.what)
	}
	return nil
}

// shaping is the result of the effects without rows so far. It belongs to Apply, except
// for announced, which the writer sets.
type shaping struct {
	announced  atomic.Pointer[handover] // of the next Follow
	handing    *handover                // that receives the effects; nil if there is none
	sealed     bool
	kept       []replication.Effect
	keptSealed bool // a seal follows kept
}

// turn applies an effect without rows.
func (s *shaping) turn(kind replication.Kind) {
	switch kind {
	case replication.Follow:
		s.handing, s.kept, s.keptSealed = s.announced.Swap(nil), nil, false
	case replication.Seal:
		s.sealed, s.keptSealed = true, true
	case replication.Unseal:
		s.sealed, s.handing, s.kept = false, nil, nil
	}
}

// keep keeps an effect for the children.
func (s *shaping) keep(e replication.Effect) {
	if s.handing != nil {
		s.kept = append(s.kept, e)
	}
}

// pass passes the kept effects to the children. It waits while a tail is full, so that
// memory is bounded: the queue of the group fills, and writers get TooManyRequests.
func (s *shaping) pass() {
	if s.handing == nil {
		return
	}
	if s.handing.abandoned() {
		s.handing, s.kept, s.keptSealed = nil, nil, false // It was cancelled.
		return
	}
	if len(s.kept) > 0 {
		kept := copyEffects(s.kept)
		clear(s.kept)
		s.kept = s.kept[:0]
		for _, t := range s.handing.tails {
			t.add(kept)
		}
	}
	if s.keptSealed {
		for _, t := range s.handing.tails {
			t.end()
		}
		s.handing, s.kept, s.keptSealed = nil, nil, false
	}
}

// abandoned reports whether no child follows any more.
func (h *handover) abandoned() bool {
	return !slices.ContainsFunc(h.tails, func(t *tail) bool { return !t.abandoned() })
}

// copyEffects copies effects with their rows, whose memory is reused after their
// proposals are resolved.
func copyEffects(effects []replication.Effect) []replication.Effect {
	size := 0
	for i := range effects {
		size += len(effects[i].Rows)
	}
	rows := make([]byte, 0, size)
	kept := make([]replication.Effect, len(effects))
	for i, e := range effects {
		start := len(rows)
		rows = append(rows, e.Rows...)
		e.Rows = rows[start:len(rows):len(rows)]
		kept[i] = e
	}
	return kept
}

// tail has the effects that one child has to follow.
type tail struct {
	grown chan struct{} // has a token if there is something to take

	mu      sync.Mutex
	room    sync.Cond // signalled when the tail gets shorter
	effects []replication.Effect
	bytes   int
	ended   bool // the parent is sealed: nothing is added any more
	lost    bool // the child does not follow any more
}

// tailBytesMax bounds the rows that wait for a child: the writes of some seconds.
const tailBytesMax = 16 << 20

func newTail() *tail {
	t := &tail{grown: make(chan struct{}, 1)}
	t.room.L = &t.mu
	return t
}

// add waits until the tail is not full and appends effects, which belong to the tail
// then.
func (t *tail) add(effects []replication.Effect) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.bytes > tailBytesMax && !t.lost {
		t.room.Wait()
	}
	if t.lost {
		return
	}
	t.effects = append(t.effects, effects...)
	for i := range effects {
		t.bytes += len(effects[i].Rows)
	}
	t.signal()
}

func (t *tail) signal() {
	select {
	case t.grown <- struct{}{}:
	default: // There is one already.
	}
}

// end says that no effects follow.
func (t *tail) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	t.signal()
}

// abandon drops all effects, and all that are added later.
func (t *tail) abandon() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lost, t.effects, t.bytes = true, nil, 0
	t.room.Broadcast()
	t.signal()
}

// size returns the number of bytes of rows that wait.
func (t *tail) size() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bytes
}

func (t *tail) abandoned() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lost
}

// take returns the effects that were added since the last call, and whether more may
// come.
func (t *tail) take() (effects []replication.Effect, more bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost {
		return nil, false, errCancelled
	}
	effects = t.effects
	t.effects, t.bytes = nil, 0
	t.room.Broadcast()
	return effects, !t.ended, nil
}

var errCancelled = errors.New("the handover was cancelled")

// ErrIndivisible is the cause of the error of a split because one full key has all
// documents of the partition, or the range contains one key only. A split is possible
// after other keys were written.
var ErrIndivisible = errors.New("one partition key fills the partition")

func indivisible(id resource.PartitionID, why string) error {
	e := status.New(status.CodeBadRequest, 0, "Partition %s cannot be split: %s. A logical partition is never divided.", id, why)
	e.Cause = ErrIndivisible
	return e
}
