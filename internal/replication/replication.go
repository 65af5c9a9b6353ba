// Package replication orders the effects of each partition and makes them durable.
//
// A partition evaluates a request into an [Effect], which contains the rows to write,
// and proposes it to its [Group]. The group decides the order, lets the [StateMachine]
// on every replica apply the effect, and resolves the [Proposal]. [Solo] is the group
// of a single machine. It has no log of its own: it passes effects to the partition's
// store, many per sync.
//
// # Invariants
//
// The effects of one partition are applied in the order of the calls of Propose, each
// at most once, and never two batches of one partition at the same time. An effect
// whose proposal is Applied is durable. An effect whose proposal is Unknown may or may
// not be applied, and is never repeated.
//
// The group does not interpret effects. Those that change the shape of a partition have
// a [Kind] and no rows; the group only keeps their place in the order. The package
// knows no storage, no documents and no keys.
//
// Page: docs/storage.md
package replication

import (
	"context"
	"fmt"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// PartitionRef names a partition on this machine. The zero value names the catalog,
// which is partition 0 of its own group.
type PartitionRef struct {
	Container resource.RID
	Partition resource.PartitionID
}

// String returns the container's RID in hexadecimal and the partition's id, for logs.
func (r PartitionRef) String() string {
	return fmt.Sprintf("%x/%s", string(r.Container), r.Partition)
}

// Kind says what an effect does. Effects of all kinds share one order, so on every
// replica a change of a partition's shape comes after every write proposed before it
// and before every write proposed after it.
type Kind uint8

// The kinds of effects.
const (
	// Write changes rows.
	Write Kind = iota
	// Follow begins a split: from now on the state machine keeps the effects of the
	// partition for its children.
	Follow
	// Seal ends the writes: later ones are rejected until an Unseal.
	Seal
	// Unseal reverts a Seal after a failed split.
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

// Effect is the result of one request in one partition, ready to be applied on any
// replica: the rows to write, or a change of the partition's shape, which has no rows.
// It must not change once it is proposed.
type Effect struct {
	Kind Kind

	// Generation is the generation of the partition in which the effect was evaluated. A
	// state machine rejects an effect of another generation.
	Generation resource.Generation

	// LSN numbers the effects that change documents; zero for other effects.
	LSN resource.LSN

	// Rows are the rows to write, as storage.Batch.Repr returns them.
	Rows []byte

	// Items and Bytes are added to the partition's number of documents and bytes of user
	// data; negative for removals.
	Items, Bytes int64
}

// StateMachine applies effects. A group calls it concurrently for different partitions,
// but never for the same one.
type StateMachine interface {
	// Apply applies the effects of one partition, in order and in one durable step, and
	// makes them visible to readers. It uses no clock, no randomness and no network, so
	// every replica gets the same rows.
	//
	// rejected is nil, or has for each effect nil or the reason why it was skipped. err
	// says that the outcome of the effects that were not rejected is unknown; from then on
	// Apply returns an error for every effect of that partition until the partition is
	// opened again.
	//
	// The caller owns the slice, which must not be kept; the rows may be kept.
	Apply(partition PartitionRef, effects []Effect) (rejected []error, err error)
}

// Group orders the effects of its partitions and makes them durable. All methods are
// safe for concurrent use.
type Group interface {
	// Propose proposes an effect. The order of calls for one partition is the order of its
	// effects. Propose does not block: a full queue or a closed group rejects the proposal
	// at once, as does a context that has ended. A context that ends later has no
	// influence.
	Propose(ctx context.Context, partition PartitionRef, effect Effect) *Proposal

	// ReadBarrier returns when a read of applied state sees everything that was
	// acknowledged before the call. If the group cannot tell, it returns an Unavailable
	// error.
	ReadBarrier(ctx context.Context) error

	// Status returns the current state of the group.
	Status() Status

	// Close rejects further proposals and returns when all earlier ones are resolved. It
	// may be called again.
	Close() error
}

// Status is the state of a group.
type Status struct {
	Leader   bool // this machine decides the order
	Pending  int  // unresolved proposals
	Closed   bool
	Applied  uint64 // effects applied since the start
	Batches  uint64 // durable steps since the start; on average Applied/Batches effects share one
	Rejected uint64 // effects rejected since the start
	Unknown  uint64 // effects whose outcome is unknown, since the start
}

// Outcome is the result of a proposal.
type Outcome uint8

// The outcomes.
const (
	Pending  Outcome = iota // not resolved yet
	Applied                 // durable and visible on this machine
	Rejected                // certainly not applied
	Unknown                 // applied or not; return 503 and never repeat the effect
)

var outcomeNames = [...]string{"pending", "applied", "rejected", "unknown"}

// String returns the outcome in lower case.
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return fmt.Sprintf("Outcome(%d)", uint8(o))
}

// Proposal is a proposed effect. It is resolved once.
type Proposal struct {
	done    chan struct{}
	outcome Outcome // outcome and err are written before done is closed
	err     error
}

// NewProposal returns an unresolved proposal, for implementations of [Group].
func NewProposal() *Proposal { return &Proposal{done: make(chan struct{})} }

// Resolve sets the outcome and wakes the waiting goroutines. It must be called once.
// err must be nil for Applied, and the reason otherwise.
func (p *Proposal) Resolve(outcome Outcome, err error) {
	if outcome == Pending || (outcome == Applied) != (err == nil) {
		panic(fmt.Sprintf("replication: proposal resolved as %s with error %v", outcome, err))
	}
	p.outcome, p.err = outcome, err
	close(p.done)
}

// Done is closed when the proposal is resolved.
func (p *Proposal) Done() <-chan struct{} { return p.done }

// Outcome returns the result of the proposal, Pending before Done is closed.
func (p *Proposal) Outcome() Outcome {
	select {
	case <-p.done:
		return p.outcome
	default:
		return Pending
	}
}

// Err returns why the proposal was not applied. It is nil if it was applied, and before
// Done is closed. For an unknown outcome it is an Unavailable status, for a full queue
// TooManyRequests; other rejections are the state machine's.
func (p *Proposal) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Wait returns Err once the proposal is resolved, or the cause of the context's end.
// The end of the context does not cancel the proposal.
func (p *Proposal) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// errUnknown is the error of an effect whose outcome is unknown.
func errUnknown(cause error) error {
	return status.Unavailable(cause, "The outcome of the write is unknown, because the partition could not make it durable.")
}

// errClosed is the error of a proposal to a closed group.
func errClosed() error {
	return status.Unavailable(nil, "The server is shutting down.")
}
