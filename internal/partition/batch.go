package partition

import (
	"context"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/partitionkey"
)

// BatchMax is how many operations a batch has at most, as in the service.
const BatchMax = 100

// BatchLength returns nil when a batch may have n operations: 1 to BatchMax. The
// error is a BadRequest.
func BatchLength(n int) error {
	switch {
	case n == 0:
		return status.BadRequest("A batch has at least one operation.")
	case n > BatchMax:
		return status.BadRequest("Batch request has more operations than what is supported: at most %d are allowed.", BatchMax)
	}
	return nil
}

// Unity says what a refused operation means for the others of its batch.
type Unity uint8

// The unities.
const (
	Atomic Unity = iota // all operations or none
	UpTo                // those in front of the first that is refused
	Each                // all that are not refused
)

// Batch asks for several operations on documents of one full partition key, in
// their order, each of which sees what those before it have done. Together they
// are one effect, whatever their unity.
type Batch struct {
	Unity      Unity
	Generation resource.Generation // of the partition as the caller knows it

	// Key is the full partition key, and EPK its hash. The caller has checked
	// both.
	Key partitionkey.Key
	EPK partitionkey.EPK

	Operations []BatchOperation // 1 to BatchMax

	// Meter receives the charge, also of a batch that is refused.
	Meter *throughput.Meter

	Size int  // bytes of the documents as received; zero when nobody knows
	Work Work // of large documents; nil: nothing is asked for it
}

// BatchOperation is one operation of a batch.
type BatchOperation struct {
	Operation

	// Wrong is why the operation is refused whatever is stored, as the caller
	// found out. Nil when nothing is wrong.
	Wrong *status.Error

	// Silent says that nobody wants the document after a write.
	Silent bool
}

// Batched is the answer to a batch.
type Batched struct {
	// Results has one for each operation, in their order.
	Results []BatchResult

	// Refused says that an operation was refused: its result has the reason. The
	// results of operations that were not done because of it are FailedDependency,
	// of an Atomic batch those of all others.
	Refused bool

	LSN resource.LSN // of the effect, or of what was seen when there is none; also set with an error
}

// BatchResult is the answer to one operation.
type BatchResult struct {
	Written // of a Fetch: the document as it was in its place among the operations

	// Err is why the operation is not done; nil when it is. A Fetch whose
	// IfNoneMatch names the version is NotModified, which refuses nothing.
	Err *status.Error

	Charge float64 // request units, not rounded
}

// Batch evaluates a batch and returns when its one effect is durable. What it
// changes has one LSN, and readers see all of it or nothing.
//
// A refused operation is in the results and no error. Errors are *status.Error:
// BadRequest for a batch that is empty or too long, PartitionMoved,
// TooManyRequests and Unavailable, and RequestTimeout, as [Partition.Write] has
// them.
func (p *Partition) Batch(ctx context.Context, b Batch) (Batched, error) {
	if err := BatchLength(len(b.Operations)); err != nil {
		return Batched{LSN: p.LSN()}, err
	}
	r, err := p.newRequest(b.Generation, b.Key, b.EPK, b.Meter)
	if err != nil {
		return Batched{LSN: p.LSN()}, err
	}
	r.size, r.work = b.Size, b.Work
	r.operations, r.unity, r.answerMax = make([]operation, len(b.Operations)), b.Unity, p.config.Limits.ResponseBytes
	for i := range b.Operations {
		o := &b.Operations[i]
		op := &r.operations[i]
		op.ask, op.silent = o.Operation, o.Silent && o.Op != Fetch
		if o.Wrong != nil {
			op.err = o.Wrong
		}
	}
	if err = p.prepare(ctx, r); err == nil {
		err = p.submit(ctx, r)
	}
	if err == nil {
		err = r.err
	}
	if err != nil {
		return Batched{LSN: p.LSN()}, err
	}
	if r.lsn != 0 {
		p.writes.Add(1)
	}
	return p.batched(r)
}

// batched makes the answer to a batch whose result is certain.
func (p *Partition) batched(r *request) (Batched, error) {
	done := Batched{Results: make([]BatchResult, len(r.operations)), Refused: r.refused, LSN: r.lsn}
	if r.lsn == 0 {
		done.LSN = p.LSN()
	}
	for i := range r.operations {
		op, result := &r.operations[i], &done.Results[i]
		result.Charge, result.Err = op.charge, status.From(op.err)
		if result.Err != nil && result.Err.Code != status.CodeNotModified {
			continue
		}
		var err error
		if result.Written, err = p.written(op); err != nil {
			return Batched{LSN: p.LSN()}, err
		}
	}
	return done, nil
}

// dependent gives the operations of a request up because of one that was
// refused.
func dependent(operations []operation) {
	for i := range operations {
		operations[i].charge = 0
		operations[i].err = status.New(status.CodeFailedDependency, 0, "Another operation of the batch was refused, so this one was not done.")
	}
}
