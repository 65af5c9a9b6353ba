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

// handover is what a partition does while others prepare to take its range: it
// keeps its effects for them, and ends its writes at one point.
type handover struct {
	parent *Partition
	what   string  // that becomes of it: split or merged
	tails  []*tail // of those who follow
}

// Split is the parent's side of a split under way. Cluster drives it: Split,
// then a checkpoint of the store for each child and Adopt, [Child.Follow] in the
// background until both have caught up, Seal, the catalog's commit, and at the
// end Done, Cancel or Suspend. docs/split.md has the walk.
type Split struct {
	handover // with a tail for each side

	cut   partitionkey.EPK
	bound []byte // the cut as row keys have it, behind the family

	// trimming is held by the child that takes a step of its trim, so that a
	// split never takes more than one processor from those who are served.
	trimming chan struct{}
}

// Split begins a split at a cut that [Partition.SplitPoint] gave: from one point
// in the order of effects on they are kept for the children. What it answers
// with Conflict has changed nothing: another split, or an index rebuild, which a
// split keeps apart from. A change of the policy that comes later waits for the
// end of the split.
func (p *Partition) Split(ctx context.Context, cut partitionkey.EPK) (*Split, error) {
	s := &Split{cut: cut, bound: []byte(cut.Canonical()), trimming: make(chan struct{}, 1)}
	s.handover = handover{parent: p, what: "split", tails: []*tail{left: newTail(), right: newTail()}}
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// begin has the parent keep its effects from one point in their order on. After
// an error nothing has changed.
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

// Seal ends the writes of the parent at one point in the order of effects: they
// wait in its queue, and reads go on. When it returns without an error, all that
// the children have to follow is on its way to them.
func (h *handover) Seal(ctx context.Context) error {
	return h.parent.command(ctx, replication.Seal)
}

// unsealAttempts bounds how often an unseal is proposed. A group refuses it only
// while it is full or has lost its leader.
const unsealAttempts = 200

// Cancel undoes everything: the parent serves on as if there had been nothing.
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
		p.intake.reindex = true // What came meanwhile has waited.
		p.intake.startLocked()
	}
}

// unseal has the writes that come after it applied again. A partition that
// cannot be unsealed stops, since it would refuse each of them without an end.
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

// Done ends the parent, whose children own its range now: requests that wait,
// and all that come, get PartitionMoved. Readers under way finish.
func (h *handover) Done() {
	h.parent.health.retired.Store(true)
	h.parent.intake.end(status.PartitionMoved(status.SubRangeGone))
}

// Suspend ends the writes of the parent when nobody knows whether its children
// own its range: requests that wait, and all that come, get err. Reads go on,
// because what they see is the same on both sides.
func (h *handover) Suspend(err *status.Error) { h.parent.intake.end(err) }

// Resume ends a Suspend whose children do not own the range: Cancel is next, and then
// the parent serves on.
func (h *handover) Resume() {
	h.parent.intake.mu.Lock()
	defer h.parent.intake.mu.Unlock()
	h.parent.intake.ended = nil
}

// order asks the writer for an effect that changes the partition's shape.
type order struct {
	kind     replication.Kind
	taken    chan struct{} // closed when the two below are set
	proposal *replication.Proposal
	err      error
}

// command has the writer propose an effect without rows, and returns when it is
// applied. A context that ends before the writer takes it up withdraws it.
func (p *Partition) command(ctx context.Context, kind replication.Kind) error {
	o := &order{kind: kind, taken: make(chan struct{})}
	p.intake.mu.Lock()
	if p.intake.closed || p.intake.order != nil {
		p.intake.mu.Unlock()
		return errClosed() // There is one handover, which gives one order at a time.
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
	<-o.proposal.Done() // One sync at most is in front of it.
	return o.proposal.Err()
}

// obey carries out the order that waits, if there is one. It stands behind every
// effect that has been evaluated, and in front of all others.
func (p *Partition) obey() {
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

// presentable refuses a handover while the index is not the one that the container
// asks for: the effects of a rebuild are of no one key. A merge is refused while
// documents are purged, too: a mark says by their LSNs which, and those of two
// partitions do not compare.
func (p *Partition) presentable(h *handover) error {
	now, err := p.acquire()
	if err != nil {
		return err
	}
	defer p.release(now)
	if h.what == merging && len(now.Marks) > 0 {
		return purging(p.own.ID)
	}
	if now.Indexing.Phase != layout.Settled || !p.config.Container().Indexing.Equal(now.Indexing.Policy) {
		return status.New(status.CodeConflict, 0, "The index of partition %s is being rebuilt (%d %%). It can be %s afterwards.",
			p.own.ID, now.Indexing.Progress(), h.what)
	}
	return nil
}

// shaping is what the effects without rows have made of a partition so far. It
// belongs to Apply, but for what the writer announces.
type shaping struct {
	announced  atomic.Pointer[handover] // whom the next Follow is for
	handing    *handover                // that receives the effects; nil: none
	sealed     bool
	kept       []replication.Effect
	keptSealed bool // a seal stands behind kept
}

// turn takes an effect without rows at its place in the order.
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

// keep takes note of an effect that is about to be applied.
func (s *shaping) keep(e replication.Effect) {
	if s.handing != nil {
		s.kept = append(s.kept, e)
	}
}

// pass hands what was kept to the children. It waits while they are too far
// behind, so that its memory is bounded: the group's queue fills
// meanwhile, and writers are told to slow down.
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

// abandoned reports whether nobody follows any more.
func (h *handover) abandoned() bool {
	return !slices.ContainsFunc(h.tails, func(t *tail) bool { return !t.abandoned() })
}

// copyEffects copies effects with their rows, whose memory is used again once
// their proposals are resolved.
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

// tail is the effects that one child has still to follow.
type tail struct {
	grown chan struct{} // holds a token when there is something to take

	mu      sync.Mutex
	room    sync.Cond // signalled when the tail gets shorter
	effects []replication.Effect
	bytes   int
	ended   bool // the parent is sealed: nothing is added any more
	lost    bool // nobody takes any more
}

// tailBytesMax bounds the rows that wait for a child: some seconds of writing.
const tailBytesMax = 16 << 20

func newTail() *tail {
	t := &tail{grown: make(chan struct{}, 1)}
	t.room.L = &t.mu
	return t
}

// add appends effects when there is room. What is added is the tail's.
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
	default: // It is known.
	}
}

// end says that nothing comes behind what was added.
func (t *tail) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	t.signal()
}

// abandon drops everything, and whatever comes.
func (t *tail) abandon() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lost, t.effects, t.bytes = true, nil, 0
	t.room.Broadcast()
	t.signal()
}

// size is how many bytes of rows wait.
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

// take returns what was added since the last call, and whether more may come.
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

// ErrIndivisible is the cause of a refusal to split a partition because one full
// key has all of its documents, or its range holds one key only. It stays so
// until other keys are written.
var ErrIndivisible = errors.New("one partition key fills the partition")

func indivisible(id resource.PartitionID, why string) error {
	e := status.New(status.CodeBadRequest, 0, "Partition %s cannot be split: %s. A logical partition is never divided.", id, why)
	e.Cause = ErrIndivisible
	return e
}
