package engine

import (
	"context"
	"sync"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// Atomicity tells what a refused operation means for the others of its batch.
type Atomicity = partition.Atomicity

// The kinds of atomicity.
const (
	Atomic = partition.Atomic // all operations or none
	UpTo   = partition.UpTo   // the operations before the first that is refused
	Each   = partition.Each   // every operation that is not refused
)

// BatchMax is the largest number of operations of a batch.
const BatchMax = partition.BatchMax

// BatchLength returns nil if a batch may have n operations, else BadRequest.
func BatchLength(n int) error { return partition.BatchLength(n) }

// BatchRequest is a request for several operations on documents of one
// container. A batch that is not Atomic may have operations of several keys.
type BatchRequest struct {
	Link       Link                  // of the container
	Key        *partitionkey.Key     // of all operations; nil: each has its own
	Partition  *resource.PartitionID // that every key of the operations must be in; nil: any
	Atomicity  Atomicity
	Operations []BatchOperation
	Options
}

// BatchOperation is one operation of a batch.
type BatchOperation struct {
	Action      auth.Action       // Create, Upsert, Replace, Delete, Patch or Read
	ID          string            // of the document; not used by Create and Upsert
	Key         *partitionkey.Key // as given with the operation; nil: none
	Body        value.Value       // the document, or the body of a PATCH request
	Size        int               // bytes of Body as received
	IfMatch     resource.ETag
	IfNoneMatch resource.ETag
	Silent      bool // leave the document out of the answer to a write

	// Wrong is the error that the caller found when it read the operation; nil
	// for none. The operation is then refused with it.
	Wrong error
}

// BatchResult is the answer to a batch. Results has one element for each
// operation.
type BatchResult struct {
	Result
	Results []OperationResult
	Refused bool // at least one operation was refused
}

// OperationResult is the answer to one operation of a batch.
type OperationResult struct {
	Body    []byte // complete JSON with system properties; nil if there is none. The caller owns it
	ETag    resource.ETag
	Created bool
	Charge  float64 // request units, rounded to two decimals

	// Err tells why the operation was not done; nil if it was. It is
	// status.CodeFailedDependency if another operation is the reason, and
	// status.CodeNotModified for a Read whose IfMatch or IfNoneMatch names the
	// version.
	Err *status.Error
}

// Batch carries out operations in their order. Those of one key are one effect in
// their partition, which readers see whole or not at all. The error is about the
// batch itself; errors of single operations are in the results.
func (e *Engine) Batch(ctx context.Context, caller auth.Caller, req BatchRequest) (BatchResult, error) {
	e.turns.point()
	b := batch{engine: e, caller: caller, req: &req, meter: req.meter(false)}
	err := b.run(ctx)
	b.out.Charge = b.meter.Charge()
	b.out.Session = b.seen.token(req.SessionList)
	e.hideSize(caller, req.Link, &b.out.Result)
	b.record()
	return b.out, fail(err)
}

// record counts the operations that are done, if the workload is recorded.
func (b *batch) record() {
	if b.engine.recorder.of(b.out.OwnerRID) == nil {
		return
	}
	for i := range b.out.Results {
		switch {
		case b.out.Results[i].Err != nil:
		case b.req.Operations[i].Action == auth.Read:
			b.engine.recorder.read(b.out.OwnerRID, 1)
		default:
			b.engine.recorder.wrote(b.out.OwnerRID, 1)
		}
	}
}

// batch is the state of a running [Engine.Batch].
type batch struct {
	engine *Engine
	caller auth.Caller
	req    *BatchRequest
	how    reading // of the shares that read
	out    BatchResult

	mu    sync.Mutex // guards the fields below and out: several keys are processed at the same time
	meter throughput.Meter
	seen  seen
}

// share is the part of a batch with one key, which its partition carries out
// together.
type share struct {
	positions []int // of its operations, in the batch
	key       *partitionkey.Key
}

func (b *batch) run(ctx context.Context) error {
	e := b.engine
	if err := BatchLength(len(b.req.Operations)); err != nil {
		return err
	}
	if err := b.allow(); err != nil {
		return err
	}
	var err error
	if b.how, err = e.reading(b.req.Options); err != nil {
		return err
	}
	container, err := e.owner(b.req.Link, b.req.IntendedRID, &b.out.Result)
	if err != nil {
		return err
	}
	if b.req.Partition != nil {
		if _, ok := container.Partition(*b.req.Partition); !ok {
			return status.PartitionMoved(status.SubRangeGone)
		}
	}
	if b.req.Key != nil || b.req.Atomicity == Atomic {
		key, err := pointKey(container, b.req.Key)
		if err == nil {
			err = allowKey(b.caller, container, key)
		}
		if err != nil {
			return err
		}
	}
	b.out.Results = make([]OperationResult, len(b.req.Operations))
	shares := b.shares(container)
	if b.req.Atomicity != Each {
		return b.inOrder(ctx, shares)
	}
	parallel(len(shares), func(i int) { _ = b.carryOut(ctx, &shares[i]) }) // The errors are in the results.
	return nil
}

// allow checks that the caller may do each of the operations.
func (b *batch) allow() error {
	for i := range b.req.Operations {
		o := &b.req.Operations[i]
		link := b.req.Link
		if o.Action != auth.Create && o.Action != auth.Upsert {
			link.Document = o.ID
		}
		if err := b.engine.allowDocuments(b.caller, o.Action, link, &b.req.Options); err != nil {
			return err
		}
		if o.Action == auth.Replace {
			if err := allowID(b.caller, o.Body); err != nil {
				return err
			}
		}
	}
	return nil
}

// inOrder carries out shares up to the first that is refused, and refuses the
// rest.
func (b *batch) inOrder(ctx context.Context, shares []share) error {
	for i := range shares {
		if err := b.carryOut(ctx, &shares[i]); err != nil && len(shares) == 1 {
			return err
		}
		if !b.out.Refused {
			continue
		}
		for _, rest := range shares[i+1:] {
			b.refuse(&rest, status.New(status.CodeFailedDependency, 0, "An operation before this one was refused, so this one was not done."))
		}
		return nil
	}
	return nil
}

// shares divides the operations by key: all of one key together or, if the order
// of all operations matters, runs of one key. An operation whose key cannot be
// determined is refused alone.
func (b *batch) shares(container *catalog.Container) (shares []share) {
	if b.req.Key != nil {
		all := share{key: b.req.Key}
		for i := range b.req.Operations {
			all.positions = append(all.positions, i)
		}
		return []share{all}
	}
	byKey := map[string]int{}
	for i := range b.req.Operations {
		key, err := b.key(container, &b.req.Operations[i])
		if err != nil {
			b.req.Operations[i].Wrong = err
			shares = append(shares, share{positions: []int{i}})
			continue
		}
		name := string(key.Canonical(container.PartitionKey))
		at, known := byKey[name]
		if !known || b.req.Atomicity != Each && at != len(shares)-1 {
			at = len(shares)
			shares = append(shares, share{key: &key})
			byKey[name] = at
		}
		shares[at].positions = append(shares[at].positions, i)
	}
	return shares
}

// key returns the key of an operation that has one of its own.
func (b *batch) key(container *catalog.Container, o *BatchOperation) (key partitionkey.Key, err error) {
	switch {
	case o.Wrong != nil:
		return key, o.Wrong
	case o.Key == nil && (o.Action == auth.Create || o.Action == auth.Upsert || o.Action == auth.Replace):
		key = container.KeyOf(o.Body)
		if err := container.PartitionKey.Check(key, true); err != nil {
			return key, keyError(err)
		}
	default:
		if key, err = pointKey(container, o.Key); err != nil {
			return key, err
		}
	}
	if err := allowKey(b.caller, container, key); err != nil {
		return key, err
	}
	if b.req.Partition != nil && container.Ranges.Locate(container.PartitionKey.Hash(key)).Value.ID != *b.req.Partition {
		return key, status.PartitionMoved(status.SubRangeGone)
	}
	return key, nil
}

// carryOut sends a share to its partition. An error is that of all its
// operations.
func (b *batch) carryOut(ctx context.Context, s *share) error {
	if s.key == nil {
		err := b.req.Operations[s.positions[0]].Wrong
		b.refuse(s, err)
		return err
	}
	meter := b.req.meter(false)
	err := b.tryShare(ctx, s, &meter)
	b.mu.Lock()
	b.meter.Merge(&meter)
	b.mu.Unlock()
	if err != nil {
		b.refuse(s, err)
	}
	return err
}

// refuse sets err as the result of all operations of a share.
func (b *batch) refuse(s *share, err error) {
	err = fail(err)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out.Refused = true
	for _, position := range s.positions {
		b.out.Results[position] = OperationResult{Err: status.From(err)}
	}
}

func (b *batch) tryShare(ctx context.Context, s *share, meter *throughput.Meter) error {
	e := b.engine
	var owner Result
	return e.onContainer(ctx, b.req.Link, b.req.IntendedRID, &owner, func(container *catalog.Container) (more bool, err error) {
		ask := partition.Batch{Atomicity: b.req.Atomicity, Meter: meter, Work: e.working}
		if ask.Key, err = pointKey(container, s.key); err != nil {
			return false, err
		}
		ask.EPK = container.PartitionKey.Hash(ask.Key)
		ask.Operations = make([]partition.BatchOperation, len(s.positions))
		for i, position := range s.positions {
			ask.Operations[i] = b.operation(container, &b.req.Operations[position], s.key)
			ask.Size += b.req.Operations[position].Size
		}
		return true, b.ask(ctx, container, ask, s)
	})
}

// operation converts an operation of a batch to that of a partition.
func (b *batch) operation(container *catalog.Container, o *BatchOperation, key *partitionkey.Key) (ask partition.BatchOperation) {
	ask.Operation = partition.Operation{Op: operations[o.Action], ID: o.ID, IfMatch: o.IfMatch, IfNoneMatch: o.IfNoneMatch}
	ask.Silent = o.Silent
	err := o.Wrong
	if err == nil && o.Key != nil && !given(container.PartitionKey, *o.Key).Equal(given(container.PartitionKey, *key)) {
		err = status.PartitionKeyMismatch("The partition key of an operation is not the one of its batch.")
	}
	if err == nil {
		_, err = b.engine.operationOf(container, &ask.Operation, o.Body, o.Size, key)
	}
	if err != nil {
		ask.Wrong = status.From(fail(err))
	}
	return ask
}

var operations = map[auth.Action]partition.Op{
	auth.Create: partition.Create, auth.Upsert: partition.Upsert, auth.Replace: partition.Replace,
	auth.Delete: partition.Delete, auth.Patch: partition.Patch, auth.Read: partition.Fetch,
}

// ask sends a share to the partition that owns its key.
func (b *batch) ask(ctx context.Context, container *catalog.Container, ask partition.Batch, s *share) error {
	e := b.engine
	p := container.Ranges.Locate(ask.EPK).Value
	ask.Generation = p.Generation
	ask.Session = b.how.requiredLSN(p)
	replica, release, err := e.node.Replica(ctx, container, p.ID)
	if err != nil {
		return err
	}
	defer release()
	done, err := retryBehind(ctx, &b.how, ask.Session, func() (partition.Batched, error) { return replica.Batch(ctx, ask) })
	b.mu.Lock()
	defer b.mu.Unlock()
	e.visit(&b.out.Result, p.ID)
	b.out.Size = PartitionSize{} // of no partition if there are several
	b.seen.reached(p.ID, done.LSN)
	b.out.LSN = shownLSN(done.LSN)
	if err != nil {
		return err
	}
	if len(b.out.Partitions) == 1 {
		b.out.Size = sizeOf(done.Totals)
	}
	b.out.Refused = b.out.Refused || done.Refused
	for i, position := range s.positions {
		r := &done.Results[i]
		meter := throughput.Meter{}
		meter.Add(r.Charge)
		b.out.Results[position] = OperationResult{Body: r.Body, ETag: r.ETag, Created: r.Created, Charge: meter.Charge(), Err: r.Err}
	}
	return nil
}
