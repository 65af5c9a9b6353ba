package partition

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/patch"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// Op is the kind of an operation.
type Op uint8

// The operations.
const (
	Create  Op = iota // Conflict if the id exists in the logical partition
	Upsert            // create or replace
	Replace           // NotFound if the document does not exist; may change the id
	Delete            // NotFound if the document does not exist
	Patch             // NotFound if the document does not exist; changes parts of it
	Fetch             // reads, in a Batch; NotFound if the document does not exist
)

// String returns the name of the operation in logs.
func (o Op) String() string {
	switch o {
	case Create:
		return "create"
	case Upsert:
		return "upsert"
	case Replace:
		return "replace"
	case Delete:
		return "delete"
	case Patch:
		return "patch"
	case Fetch:
		return "read"
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// AnyETag is a condition that every version satisfies.
const AnyETag resource.ETag = "*"

// Operation is one operation on one document.
type Operation struct {
	Op Op

	// ID is the id of the document. Empty means the id of Document. In a Replace the
	// two may differ, which renames the document.
	ID string

	// Document is the new content of Create, Upsert and Replace. The caller has
	// checked that its partition key is that of the request. System properties in it
	// are dropped.
	Document value.Value

	Changes *patch.Patch // of Patch
	// Condition is the condition of Patch; nil for none. It is a query that is compiled
	// without an index and has a row if the current version satisfies it. Otherwise the
	// error is PreconditionFailed.
	Condition *query.Plan

	// IfMatch, if not empty, is the etag that the current version must have; AnyETag
	// accepts all. A create, and an upsert that creates, ignore it. A Fetch takes it as
	// another IfNoneMatch.
	IfMatch resource.ETag

	// IfNoneMatch, if not empty, is an etag that the current version must not have;
	// AnyETag refuses all, so that an upsert only creates. The error of a Fetch is
	// NotModified.
	IfNoneMatch resource.ETag
}

// Write asks for an operation, except for Fetch, on one document. Fields with the same
// name are those of [Operation].
type Write struct {
	Op         Op
	Generation resource.Generation // of the partition as the caller knows it

	// Key is the full partition key of the document, and EPK its hash. The caller has
	// checked both.
	Key partitionkey.Key
	EPK partitionkey.EPK

	ID          string
	Document    value.Value
	Changes     *patch.Patch
	Condition   *query.Plan
	IfMatch     resource.ETag
	IfNoneMatch resource.ETag

	// Meter receives the charge, that of a refused write as well.
	Meter *throughput.Meter

	Size int  // of Document in bytes, as received; zero if unknown
	Work Work // admits the work on a large document; nil admits all
}

// Work is called before work that takes long, on a document of [LargeMin] bytes or more.
// The work calls [pacing.Check] regularly with the context that Work returns, and ends
// with its error. end is called after the work with its error, and returns the error
// for the caller.
type Work func(ctx context.Context) (working context.Context, end func(error) error)

// LargeMin is the size in bytes from which work on a document takes long.
const LargeMin = 64 << 10

func (w *Write) operation() Operation {
	return Operation{
		Op: w.Op, ID: w.ID, Document: w.Document, Changes: w.Changes, Condition: w.Condition,
		IfMatch: w.IfMatch, IfNoneMatch: w.IfNoneMatch,
	}
}

// Written is the result of a write.
type Written struct {
	Created bool
	Body    []byte // the complete document, which belongs to the caller; nil after Delete
	ETag    resource.ETag
	LSN     resource.LSN // of the effect; with an error, of the current state
	Number  uint64       // the document number
	Totals  Totals       // of the state after the effect, or of a later one
}

// Write evaluates a write and returns when its effect is durable.
//
// Errors are *status.Error: Conflict, NotFound, PreconditionFailed, TooLarge,
// BadRequest, PartitionMoved, TooManyRequests if the queue is full, and Unavailable if
// the outcome is unknown; a client can find out by reading. A context that ends while
// the write waits in the queue cancels the write. Later it only ends the wait, with
// RequestTimeout and an unknown outcome.
func (p *Partition) Write(ctx context.Context, w Write) (Written, error) {
	r, err := p.newRequest(w.Generation, w.Key, w.EPK, w.Meter)
	if err != nil {
		return Written{LSN: p.LSN()}, err
	}
	op := &r.single[0]
	r.operations, op.ask = r.single[:], w.operation()
	r.size, r.work = w.Size, w.Work
	if err = p.prepare(ctx, r); err == nil {
		err = op.err // It does not depend on what is stored, so the writer is not needed.
		r.meter.Add(op.charge)
	}
	if err == nil {
		err = p.submit(ctx, r)
	}
	if err == nil {
		err = r.err
	}
	if err == nil {
		err = op.err
	}
	if err != nil {
		return Written{LSN: p.LSN()}, err
	}
	p.served.writes.Add(1)
	written, err := p.written(op)
	if err != nil {
		return Written{LSN: p.LSN()}, err
	}
	return written, nil
}

// written returns the result of an operation that was done.
func (p *Partition) written(op *operation) (Written, error) {
	done := Written{Created: op.created, LSN: op.version.LSN, Number: op.version.Number, Totals: p.totals()}
	if op.row == nil {
		return done, nil
	}
	d, err := layout.DecodeDocument(op.row)
	if err != nil {
		return done, fmt.Errorf("partition %v: %w", p.config.Ref, err)
	}
	done.ETag = layout.ETagOf(d.ETag)
	if op.answers() {
		done.Body = p.own.Render.Complete(&d)
	}
	return done, nil
}

// submit passes a request to the writer and waits until its result is certain. The
// error says that it is not, or that the writer did not begin it.
func (p *Partition) submit(ctx context.Context, r *request) error {
	if err := p.pass(ctx, r); err != nil {
		return err
	}
	defer p.passed(r)
	if err := p.enqueue(r); err != nil {
		return err
	}
	return p.await(ctx, r)
}

// await waits until the result of a request in the queue is certain. Errors are those
// of submit.
func (p *Partition) await(ctx context.Context, r *request) error {
	if err := p.begun(ctx, r); err != nil {
		return err
	}
	return p.certain(ctx, r)
}

// begun waits until a request is evaluated. The error says that it will not be.
func (p *Partition) begun(ctx context.Context, r *request) error {
	select {
	case <-r.evaluated:
	case <-ctx.Done():
		if r.stage.CompareAndSwap(waiting, abandoned) {
			return timedOut(ctx, "The write was not begun in time and has had no effect.")
		}
		<-r.evaluated // The writer evaluates it, and waits for one sync at most.
	}
	r.meter.Add(r.charge)
	return nil
}

// certain waits until the result of an evaluated request is durable.
func (p *Partition) certain(ctx context.Context, r *request) error {
	if r.proposal == nil {
		return nil
	}
	select {
	case <-r.proposal.Done():
	case <-ctx.Done():
		return timedOut(ctx, "The outcome of the write is not known yet.")
	}
	// A refusal is certain only if the state that it depends on is durable.
	if err := r.proposal.Err(); err != nil {
		if known := status.From(err); known != nil {
			return known
		}
		return status.Unavailable(err, "The outcome of the write is not known. Read the document to find out.")
	}
	return nil
}

// timedOut is a RequestTimeout with the cause of the end of a context.
func timedOut(ctx context.Context, text string) error {
	e := status.New(status.CodeRequestTimeout, 0, "%s", text)
	e.Cause = context.Cause(ctx)
	return e
}

// The stages of a request. The writer claims it, or its caller abandons it.
const (
	waiting int32 = iota
	claimed
	abandoned
)

// request is one call in the queue: operations on documents of one full key, with what
// the caller has computed for them, and the results of the writer.
type request struct {
	epk        partitionkey.EPK
	key        []byte // canonical
	hash       uint64 // second hash of key
	operations []operation
	single     [1]operation // memory for the operations of a Write
	atomicity  Atomicity
	answerMax  int  // bytes of the documents in the answer; 0 is no limit
	long       bool // the documents of an operation exceed answerMax
	meter      *throughput.Meter
	allowance  allowance            // for conditions, in the caller's goroutine
	lock       *keyLock             // of the LockedTransaction that makes the request; nil if none does
	task       func(*request) error // the writer calls it instead of the operations; may be nil
	change     Change               // of items, instead of the operations; may be nil
	collects   bool                 // the change removes what is not needed, and is no write of a client

	passing *passing // at the gate; nil for a light request
	size    int      // of the documents in bytes, as received; zero if unknown
	work    Work
	working context.Context   // of the work in progress; nil if there is none
	endWork func(error) error // ends it

	stage     atomic.Int32
	evaluated chan struct{} // closed by the writer

	// Written by the writer before evaluated is closed.
	err      error
	refused  bool                  // an operation was refused
	proposal *replication.Proposal // on which the result, or err, depends; may be nil
	lsn      resource.LSN          // of the effect; zero without one
	charge   float64
	keyBytes int64 // of the items of the key after a change
}

// operation is one operation of a request.
type operation struct {
	ask       Operation
	documents [2]string        // see oldKey and newKey
	row       []byte           // the new document row, stamped by the writer; nil for Delete
	indexing  *layout.Indexing // of the keys
	keys      layout.AllKeys
	claims    layout.Claims
	before    guess
	ahead     *ahead // of a heavy write; nil if the writer computes the change
	silent    bool   // the answer has no document
	expires   bool   // the Delete deletes the document only if it is hidden, or an item that is due
	keeps     bool   // the version of the document stays the same
	number    uint64 // expected number, from a LockedTransaction, which sets created as well; or 0

	// Set by the writer, except for an err that does not depend on what is stored.
	err     error
	created bool
	version layout.Version
	charge  float64
}

// guess is the version that the caller has found in a snapshot, with its keys. The
// writer uses the keys if that is still the current version.
type guess struct {
	found   bool
	version layout.Version
	size    int // of the document
	keys    layout.AllKeys
	claims  layout.Claims
	refused *status.Error // the error of a patch of that version; nil if it has none
}

// oldKey is the key of the document's row before the operation, newKey after it. They
// differ only in a rename.
func (op *operation) oldKey() string { return op.documents[0] }
func (op *operation) newKey() string { return op.documents[1] }

func (op *operation) renames() bool { return op.documents[0] != op.documents[1] }

// answers reports whether the result has the document.
func (op *operation) answers() bool { return !op.silent && op.err == nil && op.row != nil }

// size returns the size of the new document, zero for none.
func (op *operation) size() int {
	if op.row == nil {
		return 0
	}
	return len(layout.BodyOf(op.row))
}

// newRequest begins a request for documents of a full key.
func (p *Partition) newRequest(generation resource.Generation, key partitionkey.Key, epk partitionkey.EPK, meter *throughput.Meter) (*request, error) {
	if err := p.admit(generation, key, epk); err != nil {
		return nil, err
	}
	r := &request{epk: epk, meter: meter, evaluated: make(chan struct{})}
	r.key = key.AppendCanonical(nil, p.own.Key)
	if len(r.key) > layout.KeyBytesMax {
		return nil, status.BadRequest("The partition key is %d bytes long. At most %d are allowed.", len(r.key), layout.KeyBytesMax)
	}
	r.hash = layout.KeyHash(r.key)
	return r, nil
}

// prepare checks the operations of a request and does the work that needs no order:
// it encodes documents and computes keys. The error of an operation is its err.
func (p *Partition) prepare(ctx context.Context, r *request) (err error) {
	now, err := p.acquire()
	if err != nil {
		return err
	}
	defer p.release(now)
	r.beginWork(ctx, r.size)
	defer func() { err = r.rest(ctx, err) }()
	for i := range r.operations {
		op := &r.operations[i]
		if op.err != nil {
			continue
		}
		op.indexing = now.Indexing
		err := p.prepareOperation(ctx, r, op, now)
		if err != nil && status.From(err) == nil {
			return err
		}
		op.err = err
	}
	return nil
}

// prepareOperation prepares one operation. now is the state in which it finds the
// version that will probably be replaced.
func (p *Partition) prepareOperation(ctx context.Context, r *request, op *operation, now *published) (err error) {
	ask := &op.ask
	id := ask.ID
	switch ask.Op {
	case Create, Upsert, Replace:
		if id, err = p.prepareDocument(r, op); err != nil {
			return err
		}
	case Patch:
		if path, refused := p.routed(ask.Changes); refused {
			return status.BadRequest("The path %.256s cannot be patched: it is a part of the partition key.", path)
		}
	}
	if ask.ID == "" {
		ask.ID = id
	} else if ask.ID != id && ask.Op != Replace {
		return status.BadRequest("The id of the document is not the one of the request.")
	}
	if err := resource.ValidItemID(ask.ID); err != nil {
		return err
	}
	op.documents[0] = string(storage.DocumentKey(nil, r.epk, r.hash, ask.ID))
	op.documents[1] = op.documents[0]
	if id != ask.ID {
		op.documents[1] = string(storage.DocumentKey(nil, r.epk, r.hash, id))
	}
	if ask.Op == Create || ask.Op == Fetch {
		return nil
	}
	return p.prepareBefore(ctx, r, op, now)
}

// prepareDocument encodes the new content, computes its keys, and returns its id.
func (p *Partition) prepareDocument(r *request, op *operation) (id string, err error) {
	doc := op.ask.Document
	if doc.Kind() != value.KindObject {
		return "", status.BadRequest("A document must be a JSON object.")
	}
	member := doc.Get("id")
	if member.Kind() != value.KindString {
		return "", status.Service("One of the specified inputs is invalid")
	}
	if err := resource.ValidItemID(member.Text()); err != nil {
		return "", err
	}
	return member.Text(), p.encode(op, len(r.epk), r.key, doc.Without(layout.SystemProperties...), r.look())
}

// encode makes the row of a document and computes its keys. look is that of KeysOf.
func (p *Partition) encode(op *operation, epkSize int, key []byte, doc value.Value, look func() error) (err error) {
	if err := p.validTTL(doc); err != nil {
		return err
	}
	row := layout.NewDocumentRow(epkSize, key, doc)
	if size, limit := len(layout.BodyOf(row)), p.config.Limits.DocumentBytes; size > limit {
		return status.TooLarge("The document is %d bytes long. At most %d are allowed.", size, limit)
	}
	op.keys, err = op.indexing.KeysOf(doc, layout.BodyOf(row), layout.ByPolicy, look)
	op.row, op.claims = row, p.uniques.Of(doc)
	return err
}

// prepareBefore finds the version that will probably be replaced, computes its keys,
// and patches it.
func (p *Partition) prepareBefore(ctx context.Context, r *request, op *operation, now *published) error {
	var slow *status.Error
	_, err := now.Rows.View([]byte(op.oldKey()), func(row []byte) error {
		d, err := layout.DecodeDocument(row)
		if err != nil {
			return err
		}
		r.beginWork(ctx, len(d.Body))
		look := r.look()
		if look != nil {
			if err := look(); err != nil {
				return err
			}
		}
		doc, err := value.Parse(d.Body)
		if err != nil {
			return fmt.Errorf("%w: %w", layout.ErrDocument, err)
		}
		k, err := op.indexing.KeysOf(doc, d.Body, d.Directive, look)
		op.before = guess{found: true, version: d.Version, size: len(d.Body), keys: k, claims: p.uniques.Of(doc)}
		if err == nil && op.ask.Op == Patch {
			slow = op.guessPatch(ctx, p, r, &d, doc)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("read document in partition %v: %w", p.config.Ref, err)
	}
	if slow != nil {
		op.charge = throughput.Refused(op.before.size)
		return slow
	}
	return nil
}

// enqueue adds a request to the queue, and starts the writer if necessary.
func (p *Partition) enqueue(r *request) error {
	p.intake.mu.Lock()
	defer p.intake.mu.Unlock()
	if p.intake.closed {
		return errClosed()
	}
	if p.intake.ended != nil {
		return p.intake.ended
	}
	if p.config.Store.ReadOnly() {
		return p.config.Store.CanGrow() // Nothing may be proposed that cannot be applied.
	}
	if len(p.intake.queue)+p.intake.locks.parked >= p.config.Limits.WriteQueue && (r.lock == nil || !r.lock.held) {
		return status.TooManyRequests(0, queueRetryAfter, "%d writes wait for the partition. Try again later.", len(p.intake.queue))
	}
	p.intake.queue = append(p.intake.queue, r)
	if !p.intake.sealed {
		p.intake.startLocked()
	}
	return nil
}
