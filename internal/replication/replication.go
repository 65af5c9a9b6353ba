// Package replication gives the effects of each partition one order and makes
// them durable.
//
// A partition evaluates a request into an [Effect], the finished rows it
// writes, and proposes it to its [Group]. The group decides the order, has the
// effect applied by the [StateMachine] on every replica and resolves the
// [Proposal]. [Solo] is the group of a single machine: it keeps no log of its
// own and hands effects straight to the partition's store, many per sync.
//
// # Invariants
//
// The effects of one partition are applied in the order of the calls of
// Propose, each at most once, and never two batches of one partition at the
// same time. An effect whose proposal says applied is durable. One whose
// proposal says unknown may or may not be there, and nobody repeats it.
//
// Effects are opaque here: rows, not meaning. Those that change the shape of a
// partition have a [Kind] and no rows, and their place among the others is all
// that the group sees to. The package knows no storage, no documents and no keys.
//
// Page: docs/storage.md
package replication

import (
	"context"
	"fmt"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// PartitionRef names a partition on this machine. The zero value is the
// catalog, which is partition 0 of its own group.
type PartitionRef struct {
	Container resource.RID
	Partition resource.PartitionID
}

// String returns the container's RID and the partition's id, for logs.
func (r PartitionRef) String() string {
	return fmt.Sprintf("%x/%s", string(r.Container), r.Partition)
}

// Kind says what an effect does. All kinds have their place in the one order of
// a partition, so that a change of its shape comes behind every write before it
// and in front of every write after it, on every replica.
type Kind uint8

// The kinds of effects.
const (
	// Write changes rows.
	Write Kind = iota
	// Follow begins a split: from here on the state machine keeps the effects of
	// the partition for its children.
	Follow
	// Seal ends the writes: those behind it are rejected, until an Unseal.
	Seal
	// Unseal takes a Seal back, when the split has failed.
	Unseal
)

var kindNames = [...]string{"write", "follow", "seal", "unseal"}

// String returns the kind in lower case.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Effect is what one request writes in one partition, finished and ready to be
// applied on any replica, or a change of the partition's shape, which has no
// rows. It is immutable once proposed.
type Effect struct {
	Kind Kind

	// Generation is the partition's generation that the effect was evaluated
	// in. A state machine rejects an effect of another one.
	Generation resource.Generation

	// LSN is the number of the effect among those that change documents; zero
	// for one that changes none.
	LSN resource.LSN

	// Rows are the rows it writes, in the representation of a storage batch.
	Rows []byte

	// Items and Bytes are what the effect adds to the partition's number of
	// documents and to the bytes of user data; negative when it removes.
	Items, Bytes int64
}

// StateMachine applies effects. A group calls it for several partitions at the
// same time, and for one partition never twice at once.
type StateMachine interface {
	// Apply applies the effects of one partition, in order and in one durable
	// step, and makes them visible to readers. It reads no clock, no randomness
	// and no network, so that every replica ends with the same rows.
	//
	// rejected is nil, or has for each effect nil or the reason why it was left
	// out as a no-op. err says that the outcome of the effects that were not
	// rejected is unknown; from then on Apply returns an error for every effect
	// of that partition until it is opened anew.
	//
	// The slice is the caller's and must not be kept; the rows may be.
	Apply(partition PartitionRef, effects []Effect) (rejected []error, err error)
}

// Group orders the effects of the partitions it hosts and makes them durable.
// All methods may be called at the same time from several goroutines.
type Group interface {
	// Propose hands in an effect. The order of calls for one partition is the
	// order of its effects. It does not block: a queue that is full, or a group
	// that is closed, rejects the proposal at once. A context that is done
	// rejects it too; later its end changes nothing any more.
	Propose(ctx context.Context, partition PartitionRef, effect Effect) *Proposal

	// ReadBarrier returns when a read of applied state sees everything that was
	// acknowledged before the call, or an error that is Unavailable when the
	// group cannot say so.
	ReadBarrier(ctx context.Context) error

	// Status describes the group at this moment.
	Status() Status

	// Close takes no more proposals, waits for those under way and returns when
	// all of them are resolved. It may be called again.
	Close() error
}

// Status is what a group says about itself.
type Status struct {
	Leader   bool // this machine decides the order
	Pending  int  // proposals that are not resolved
	Closed   bool
	Applied  uint64 // effects applied since the start
	Batches  uint64 // durable steps since the start, so Applied/Batches effects shared one
	Rejected uint64 // effects left out since the start
	Unknown  uint64 // effects whose outcome is unknown, since the start
}

// Outcome is what became of a proposal.
type Outcome uint8

// The outcomes.
const (
	Pending  Outcome = iota // not decided
	Applied                 // durable and visible on this machine
	Rejected                // certainly not applied
	Unknown                 // may be applied or not; answer 503 and never repeat
)

var outcomeNames = [...]string{"pending", "applied", "rejected", "unknown"}

// String returns the outcome in lower case.
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return fmt.Sprintf("Outcome(%d)", uint8(o))
}

// Proposal is an effect on its way. It resolves once.
type Proposal struct {
	done    chan struct{}
	outcome Outcome // these two are written before done is closed
	err     error
}

// NewProposal returns a proposal that is on its way: for implementations of
// [Group].
func NewProposal() *Proposal { return &Proposal{done: make(chan struct{})} }

// Resolve decides the proposal and wakes who waits. It is called once. err is
// nil for Applied and says why otherwise.
func (p *Proposal) Resolve(outcome Outcome, err error) {
	if outcome == Pending || (outcome == Applied) != (err == nil) {
		panic(fmt.Sprintf("replication: proposal resolved as %s with error %v", outcome, err))
	}
	p.outcome, p.err = outcome, err
	close(p.done)
}

// Done is closed when the proposal is resolved.
func (p *Proposal) Done() <-chan struct{} { return p.done }

// Outcome returns what became of the proposal, Pending before Done.
func (p *Proposal) Outcome() Outcome {
	select {
	case <-p.done:
		return p.outcome
	default:
		return Pending
	}
}

// Err returns why the proposal was not applied: nil when it was, or before
// Done. An unknown outcome is an Unavailable status, a full queue
// TooManyRequests; other rejections are the state machine's own.
func (p *Proposal) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Wait returns Err when the proposal is resolved, or the context's cause. The
// end of the context does not undo the proposal.
func (p *Proposal) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// errUnknown is the error of an effect whose outcome cannot be told.
func errUnknown(cause error) error {
	return status.Unavailable(cause, "The outcome of the write is unknown, because the partition could not make it durable.")
}

// errClosed is the error of a proposal to a closed group.
func errClosed() error {
	return status.Unavailable(nil, "The server is shutting down.")
}
