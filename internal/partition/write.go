package partition

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"sync/atomic"

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

// Op is what a write does.
type Op uint8

// The operations.
const (
	Create  Op = iota // Conflict when the id exists in the logical partition
	Upsert            // create or replace
	Replace           // NotFound when there is none; the id may change
	Delete            // NotFound when there is none
	Patch             // NotFound when there is none; changes parts of it
	Fetch             // reads, in a Batch; NotFound when there is none
)

// String returns the operation as logs name it.
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

// Directive says whether a document is in the index. Each write says it anew. One
// that is not in the index is found by reads, lists and queries that look at all
// documents, and not where the index is asked for those of a filter.
type Directive uint8

// The directives.
const (
	ByPolicy Directive = iota // unless the policy's Automatic is off, as it is now
	Include                   // in any case
	Exclude                   // in no case
)

// ParseDirective reads Default, Include and Exclude in any case, the numbers 0, 2
// and 1 that the Python SDK sends for them, and nothing as Default. The error is
// BadRequest.
func ParseDirective(text string) (Directive, error) {
	switch strings.ToLower(text) {
	case "", "default", "0":
		return ByPolicy, nil
	case "include", "2":
		return Include, nil
	case "exclude", "1":
		return Exclude, nil
	}
	return ByPolicy, status.BadRequest("The indexing directive %.64q is none of Default, Include and Exclude.", text)
}

// AnyETag is the condition "whatever the version".
const AnyETag resource.ETag = "*"

// Operation is what is done to one document.
type Operation struct {
	Op Op

	// ID names the document. Empty means the id of Document, which for Replace
	// may be another one: a rename.
	ID string

	// Document is the new content, of Create, Upsert and Replace. Its key is that
	// of the request, which the caller has checked. System properties in it are
	// dropped.
	Document value.Value

	Changes *patch.Patch // of Patch
	// Condition is of Patch, and nil for none: a query over documents without any
	// index that has a row when the current version fulfils it. Otherwise the
	// answer is PreconditionFailed.
	Condition *query.Plan

	// Directive says whether the new content is indexed; see [Directive].
	Directive Directive

	// IfMatch, when not empty, lets the operation see only the version with that
	// etag; AnyETag any. An upsert that creates and a create ignore it.
	IfMatch resource.ETag

	// IfNoneMatch, when not empty, refuses the version with that etag; AnyETag
	// any, so that an upsert only creates. A Fetch then is NotModified.
	IfNoneMatch resource.ETag
}

// Write asks for one document to be changed: an operation that is no Fetch, and
// the key that the document is under. Its fields are those of [Operation].
type Write struct {
	Op         Op
	Generation resource.Generation // of the partition as the caller knows it

	// Key is the full partition key, and EPK its hash. The caller has checked
	// both.
	Key partitionkey.Key
	EPK partitionkey.EPK

	ID          string
	Document    value.Value
	Changes     *patch.Patch
	Condition   *query.Plan
	Directive   Directive
	IfMatch     resource.ETag
	IfNoneMatch resource.ETag

	// Meter receives the charge, also of a write that is refused.
	Meter *throughput.Meter

	Size int  // bytes of Document as received; zero when nobody knows
	Work Work // of a large document; nil: nothing is asked for it
}

// Work is called in front of work that takes long, on a document of [LargeMin] bytes or
// more. The work calls [pacing.Check] with the context that it returns now and then, and
// ends with its error; end is called behind the work with what came of it, and returns
// what the caller is told.
type Work func(ctx context.Context) (working context.Context, end func(error) error)

// LargeMin is from how many bytes on work on a document takes long.
const LargeMin = 64 << 10

func (w *Write) operation() Operation {
	return Operation{
		Op: w.Op, ID: w.ID, Document: w.Document, Changes: w.Changes, Condition: w.Condition, Directive: w.Directive,
		IfMatch: w.IfMatch, IfNoneMatch: w.IfNoneMatch,
	}
}

// Written says what a write did.
type Written struct {
	Created bool
	Body    []byte // the complete document; nil after Delete; the caller's
	ETag    resource.ETag
	LSN     resource.LSN // of the effect; after an error, of what was seen
	Number  uint64       // the document number
}

// Write evaluates a write and returns when its effect is durable.
//
// Errors are *status.Error: Conflict, NotFound, PreconditionFailed, TooLarge,
// BadRequest, PartitionMoved, TooManyRequests when the queue is full, and
// Unavailable when the outcome is not known, which a client may find out by
// reading. A context that ends while the write waits in the queue cancels it;
// later it only ends the waiting, with RequestTimeout and an unknown outcome.
func (p *Partition) Write(ctx context.Context, w Write) (Written, error) {
	r, err := p.newRequest(w.Generation, w.Key, w.EPK, w.Meter)
	if err != nil {
		return Written{LSN: p.LSN()}, err
	}
	op := &r.single[0]
	r.operations, op.ask = r.single[:], w.operation()
	r.size, r.work = w.Size, w.Work
	if err = p.prepare(ctx, r); err == nil {
		err = op.err // Whatever is stored, so that it need not wait for the writer.
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
	p.writes.Add(1)
	written, err := p.written(op)
	if err != nil {
		return Written{LSN: p.LSN()}, err
	}
	return written, nil
}

// written is the answer to an operation that was done.
func (p *Partition) written(op *operation) (Written, error) {
	done := Written{Created: op.created, LSN: op.version.lsn, Number: op.version.number}
	if op.row == nil {
		return done, nil
	}
	d, err := decodeDocument(op.row)
	if err != nil {
		return done, fmt.Errorf("partition %v: %w", p.config.Ref, err)
	}
	done.ETag = etagOf(d.etag)
	if op.answers() {
		done.Body = p.render.complete(&d)
	}
	return done, nil
}

// submit hands a request to the writer and waits until its result is certain.
// The error says that it is not, or that the writer never began.
func (p *Partition) submit(ctx context.Context, r *request) error {
	leave, err := p.pass(ctx, r)
	if err != nil {
		return err
	}
	if leave != nil {
		defer r.passed(leave)
	}
	if err := p.enqueue(r); err != nil {
		return err
	}
	return p.await(ctx, r)
}

// await waits until the result of a request is certain, as submit says.
func (p *Partition) await(ctx context.Context, r *request) error {
	if err := p.begun(ctx, r); err != nil {
		return err
	}
	return p.certain(ctx, r)
}

// begun waits until a request is evaluated. The error says that it never will be.
func (p *Partition) begun(ctx context.Context, r *request) error {
	select {
	case <-r.evaluated:
	case <-ctx.Done():
		if r.stage.CompareAndSwap(waiting, abandoned) {
			return timedOut(ctx, "The write was not begun in time and has had no effect.")
		}
		<-r.evaluated // The writer has it in hand, and waits for one sync at most.
	}
	r.meter.Add(r.charge)
	return nil
}

// certain waits until what a request was evaluated to is durable.
func (p *Partition) certain(ctx context.Context, r *request) error {
	if r.proposal == nil {
		return nil
	}
	select {
	case <-r.proposal.Done():
	case <-ctx.Done():
		return timedOut(ctx, "The outcome of the write is not known yet.")
	}
	// A refusal is certain only when what it was refused for is.
	if err := r.proposal.Err(); err != nil {
		if known := status.From(err); known != nil {
			return known
		}
		return status.Unavailable(err, "The outcome of the write is not known. Read the document to find out.")
	}
	return nil
}

func timedOut(ctx context.Context, text string) error {
	e := status.New(status.CodeRequestTimeout, 0, "%s", text)
	e.Cause = context.Cause(ctx)
	return e
}

// The stages of a request. The writer and a caller that gives up race for it.
const (
	waiting int32 = iota
	claimed
	abandoned
)

// request is the operations of one call in the queue, on documents of one full
// key: what the caller could work out without the writer, and what the writer
// answers.
type request struct {
	epk        partitionkey.EPK
	key        []byte // canonical
	hash       uint64 // second hash of key
	operations []operation
	single     [1]operation // what operations is of a Write
	unity      Unity
	answerMax  int // bytes of the documents that are answered; 0 for any number
	meter      *throughput.Meter
	patience   patience             // of who prepares it
	lock       *keyLock             // of the Holding whose request it is; nil for everybody else's
	aside      func(*request) error // what the writer does instead of operations; nil: those

	size    int // of the documents as received
	work    Work
	working context.Context   // of the work under way; nil: none
	endWork func(error) error // ends it

	stage     atomic.Int32
	evaluated chan struct{} // closed by the writer

	// Written by the writer before evaluated is closed.
	err      error
	refused  bool                  // an operation was
	proposal *replication.Proposal // to wait for, also with an err that rests on it; nil: none
	lsn      resource.LSN          // of the effect; zero without one
	charge   float64
}

// operation is one operation of a request.
type operation struct {
	ask       Operation
	documents [2]string
	row       []byte    // without stamp until evaluated; nil for Delete
	indexing  *indexing // that the keys belong to
	keys      allKeys
	claims    claims
	before    guess
	ahead     *ahead // of a heavy write; nil: the writer works it out
	silent    bool   // the answer has no document
	expires   bool   // the Delete is for a document that has expired, and for no other
	number    uint64 // of a document that a Holding has seen; then created is set as well. 0: none

	// Written by the writer, but for what is wrong whatever is stored.
	err     error
	created bool
	version version
	charge  float64
}

// guess is the version that the caller found in the snapshot, with its keys.
// The writer uses it when that still is the current version.
type guess struct {
	found   bool
	version version
	size    int // of the document
	keys    allKeys
	claims  claims
	refused *status.Error // why a patch of that version is; nil when it is not
}

// oldKey is the key of the document's row as it is, newKey as it will be; they
// differ only in a rename.
func (op *operation) oldKey() string { return op.documents[0] }
func (op *operation) newKey() string { return op.documents[1] }

func (op *operation) renames() bool { return op.documents[0] != op.documents[1] }

// answers reports whether the answer has the document.
func (op *operation) answers() bool { return !op.silent && op.err == nil && op.row != nil }

// size is that of the document behind the operation, zero for none.
func (op *operation) size() int {
	if op.row == nil {
		return 0
	}
	return len(op.row) - bodyOffset(op.row)
}

// newRequest begins a request for documents of a full key.
func (p *Partition) newRequest(generation resource.Generation, key partitionkey.Key, epk partitionkey.EPK, meter *throughput.Meter) (*request, error) {
	if err := p.admit(generation, key, epk); err != nil {
		return nil, err
	}
	r := &request{epk: epk, meter: meter, evaluated: make(chan struct{})}
	r.key = key.AppendCanonical(nil, p.descriptor.Key)
	if len(r.key) > keyBytesMax {
		return nil, status.BadRequest("The partition key is %d bytes long. At most %d are allowed.", len(r.key), keyBytesMax)
	}
	r.hash = keyHash(r.key)
	return r, nil
}

// prepare checks the operations of a request and does what needs no order:
// encoding and keys. What is wrong with an operation is its err.
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
		op.indexing = now.indexing
		err := p.prepareOperation(ctx, r, op, now)
		if err != nil && status.From(err) == nil {
			return err
		}
		op.err = err
	}
	return nil
}

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

// prepareDocument encodes the new content and computes its keys, and returns
// its id.
func (p *Partition) prepareDocument(r *request, op *operation) (id string, err error) {
	doc := op.ask.Document
	if doc.Kind() != value.KindObject {
		return "", status.BadRequest("A document must be a JSON object.")
	}
	member := doc.Get("id")
	if member.Kind() != value.KindString {
		return "", status.BadRequest("The input content is invalid because the required property 'id' is missing or not a string.")
	}
	if err := resource.ValidItemID(member.Text()); err != nil {
		return "", err
	}
	return member.Text(), p.encode(op, len(r.epk), r.key, doc.Without(systemProperties...), r.look())
}

// encode makes the row of a document and computes its keys. look is that of
// [indexing.keysOf].
func (p *Partition) encode(op *operation, epkSize int, key []byte, doc value.Value, look func() error) (err error) {
	if err := p.validTTL(doc); err != nil {
		return err
	}
	row := newDocumentRow(epkSize, key, doc)
	direct(row, op.ask.Directive)
	if size, limit := len(row)-bodyOffset(row), p.config.Limits.DocumentBytes; size > limit {
		return status.TooLarge("The document is %d bytes long. At most %d are allowed.", size, limit)
	}
	op.keys, err = op.indexing.keysOf(doc, row[bodyOffset(row):], op.ask.Directive, look)
	op.row, op.claims = row, p.uniques.of(doc)
	return err
}

// prepareBefore finds the version that will probably be replaced, and patches it.
func (p *Partition) prepareBefore(ctx context.Context, r *request, op *operation, now *published) error {
	var slow *status.Error
	_, err := now.snapshot.View([]byte(op.oldKey()), func(row []byte) error {
		d, err := decodeDocument(row)
		if err != nil {
			return err
		}
		r.beginWork(ctx, len(d.body))
		look := r.look()
		if look != nil {
			if err := look(); err != nil {
				return err
			}
		}
		doc, err := value.Parse(d.body)
		if err != nil {
			return fmt.Errorf("%w: %w", errDocument, err)
		}
		k, err := op.indexing.keysOf(doc, d.body, d.asked, look)
		op.before = guess{found: true, version: d.version, size: len(d.body), keys: k, claims: p.uniques.of(doc)}
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

// fits reports whether keys computed under x may be used under y.
func (x *indexing) fits(y *indexing) bool {
	return x == y || x.active == y.active && x.other == y.other
}

// keyHash is the second hash of a canonical key. It is a cryptographic one, so
// that nobody can make two keys of one EPK meet at will.
func keyHash(key []byte) uint64 {
	sum := sha256.Sum256(key)
	return binary.BigEndian.Uint64(sum[:8])
}

// enqueue hands a request to the writer, which it starts when it has ended.
func (p *Partition) enqueue(r *request) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errClosed()
	}
	if p.ended != nil {
		return p.ended
	}
	if p.config.Store.ReadOnly() {
		return p.config.Store.CanGrow() // Before anything is proposed that could not be applied.
	}
	if len(p.queue)+p.parked >= p.config.Limits.WriteQueue && (r.lock == nil || !r.lock.held) {
		return status.TooManyRequests(0, queueRetryAfter, "%d writes wait for the partition. Try again later.", len(p.queue))
	}
	p.queue = append(p.queue, r)
	if !p.sealed {
		p.startLocked()
	}
	return nil
}

// startLocked sees to it that the writer looks at the queue.
func (p *Partition) startLocked() {
	if !p.running {
		p.running = true
		p.idle = make(chan struct{})
		go p.run(p.idle)
		return
	}
	select {
	case p.wake <- struct{}{}:
	default: // It has been told already.
	}
}
