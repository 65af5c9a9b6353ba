package partition

import (
	"context"
	"slices"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/partitionkey"
)

// BatchMax is the greatest number of operations of a batch, as in the service.
const BatchMax = 100

// BatchLength returns nil if a batch may have n operations: 1 to BatchMax. The error is
// BadRequest.
func BatchLength(n int) error {
	switch {
	case n == 0:
		return status.Service("Batch request has no operations.")
	case n > BatchMax:
		return status.Service("Batch request has more operations than what is supported.")
	}
	return nil
}

// Atomicity says what a refused operation means for the others of its batch.
type Atomicity uint8

// The kinds of atomicity.
const (
	Atomic Atomicity = iota // all operations are done, or none
	UpTo                    // those before the first refused one are done
	Each                    // all that are not refused are done
)

// Batch asks for operations on documents of one full partition key. They are done in
// their order, and each sees the results of those before it. Together they are one
// effect, whatever the atomicity.
type Batch struct {
	Atomicity  Atomicity
	Generation resource.Generation // of the partition as the caller knows it

	// Key is the full partition key, and EPK its hash. The caller has checked
	// both.
	Key partitionkey.Key
	EPK partitionkey.EPK

	Operations []BatchOperation // 1 to BatchMax

	// Session is the LSN that the partition must have reached if there is a Fetch. As
	// in the service, a batch that only writes ignores it.
	Session resource.LSN

	// Meter receives the charge, that of a refused batch as well.
	Meter *throughput.Meter

	Size int  // of the documents in bytes, as received; zero if unknown
	Work Work // admits the work on large documents; nil admits all
}

// reads reports whether an operation of the batch is a Fetch.
func (b *Batch) reads() bool {
	return slices.ContainsFunc(b.Operations, func(o BatchOperation) bool { return o.Op == Fetch })
}

// BatchOperation is one operation of a batch.
type BatchOperation struct {
	Operation

	// Wrong is an error that the caller has found. The operation is refused with it,
	// whatever is stored. Nil if there is none.
	Wrong *status.Error

	// Silent says that the result of a write needs no document.
	Silent bool
}

// Batched is the result of a batch.
type Batched struct {
	// Results has one for each operation, in their order.
	Results []BatchResult

	// Refused says that an operation was refused; its result has the error. The errors
	// of operations that were not done because of it are FailedDependency. In an Atomic
	// batch those are all others.
	Refused bool

	LSN resource.LSN // of the effect, or of the state that was read; set with an error as well

	Totals Totals // of the state after the effect, or of a later one
}

// BatchResult is the result of one operation.
type BatchResult struct {
	Written // of a Fetch: the document at that point of the batch

	// Err is why the operation was not done; nil if it was. That of a Fetch whose
	// IfMatch or IfNoneMatch is the etag of the version is NotModified, which is no
	// refusal. If the documents of an Atomic batch are too long for its answer, the
	// last operation has the error.
	Err *status.Error

	Charge float64 // request units, not rounded
}

// Batch evaluates a batch and returns when its effect is durable. All its changes have
// one LSN, and readers see all of them or none.
//
// Refused operations are in the results, and are no error of Batch. Its errors are
// *status.Error: BadRequest for a batch that is empty or too long, SessionNotAvailable,
// and PartitionMoved, TooManyRequests, Unavailable and RequestTimeout as in
// [Partition.Write].
func (p *Partition) Batch(ctx context.Context, b Batch) (Batched, error) {
	if err := BatchLength(len(b.Operations)); err != nil {
		return Batched{LSN: p.LSN()}, err
	}
	r, err := p.newRequest(b.Generation, b.Key, b.EPK, b.Meter)
	if err != nil {
		return Batched{LSN: p.LSN()}, err
	}
	if lsn := p.LSN(); b.Session > lsn && b.reads() {
		return Batched{LSN: lsn}, status.SessionNotAvailable()
	}
	r.size, r.work = b.Size, b.Work
	r.operations, r.atomicity, r.answerMax = make([]operation, len(b.Operations)), b.Atomicity, p.config.Limits.ResponseBytes
	for i := range b.Operations {
		o := &b.Operations[i]
		op := &r.operations[i]
		op.ask, op.silent = o.Operation, o.Silent && o.Op != Fetch
		if o.Wrong != nil {
			op.err = o.Wrong
		}
	}
	if err = p.prepare(ctx, r); err == nil {
		r.chargeInvalid()
		err = p.submit(ctx, r)
	}
	if err == nil {
		err = r.err
	}
	if err != nil {
		return Batched{LSN: p.LSN()}, err
	}
	if r.lsn != 0 {
		p.served.writes.Add(1)
	}
	return p.batched(r)
}

// chargeInvalid charges the operations that are refused whatever is stored as those
// that are refused because of what is stored.
func (r *request) chargeInvalid() {
	for i := range r.operations {
		if op := &r.operations[i]; op.err != nil {
			op.charge = throughput.Refused(0)
		}
	}
}

// batched returns the result of a batch when it is certain.
func (p *Partition) batched(r *request) (Batched, error) {
	done := Batched{Results: make([]BatchResult, len(r.operations)), Refused: r.refused, LSN: r.lsn, Totals: p.totals()}
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

// dependent refuses operations because of another one that was refused.
func dependent(operations []operation) {
	for i := range operations {
		operations[i].charge = 0
		operations[i].err = status.New(status.CodeFailedDependency, 0, "Another operation of the batch was refused, so this one was not done.")
	}
}
