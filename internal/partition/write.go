package partition

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"sync/atomic"

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
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// AnyETag is the condition "whatever the version".
const AnyETag resource.ETag = "*"

// Write asks for one document to be changed.
type Write struct {
	Op         Op
	Generation resource.Generation // of the partition as the caller knows it

	// Key is the full partition key, the one of Document where there is one,
	// and EPK its hash. The caller has checked both.
	Key partitionkey.Key
	EPK partitionkey.EPK

	// ID names the document. Empty means the id of Document, which for Replace
	// may be another one: a rename.
	ID string

	// Document is the new content. System properties in it are dropped. Unused
	// by Delete.
	Document value.Value

	// IfMatch, when not empty, lets the write replace or delete only the
	// version with that etag; AnyETag any. An upsert that creates and a create
	// ignore it.
	IfMatch resource.ETag

	// IfNoneMatch, when not empty, refuses to replace or delete the version
	// with that etag; AnyETag any, so that an upsert only creates.
	IfNoneMatch resource.ETag

	// Meter receives the charge, also of a write that is refused.
	Meter *throughput.Meter
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
	r, err := p.prepare(&w)
	if err == nil {
		err = p.enqueue(r)
	}
	if err == nil {
		err = p.await(ctx, r)
	}
	if err != nil {
		return Written{LSN: p.LSN()}, err
	}
	p.writes.Add(1)
	written := Written{Created: r.created, LSN: r.version.lsn, Number: r.version.number}
	if w.Op != Delete {
		d, err := decodeDocument(r.row)
		if err != nil {
			return Written{LSN: p.LSN()}, fmt.Errorf("partition %v: %w", p.config.Ref, err)
		}
		written.Body, written.ETag = p.render.complete(&d), etagOf(d.etag)
	}
	return written, nil
}

// await waits until the result of a request is certain.
func (p *Partition) await(ctx context.Context, r *request) error {
	select {
	case <-r.evaluated:
	case <-ctx.Done():
		if r.stage.CompareAndSwap(waiting, abandoned) {
			return timedOut(ctx, "The write was not begun in time and has had no effect.")
		}
		<-r.evaluated // The writer has it in hand, and waits for one sync at most.
	}
	r.write.Meter.Add(r.charge)
	if r.proposal == nil {
		return r.err
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
	return r.err
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

// request is a write in the queue: what the caller could work out without the
// writer, and what the writer answers.
type request struct {
	write     *Write
	key       []byte // canonical
	hash      uint64 // second hash of key
	documents [2]string
	row       []byte    // without stamp until evaluated; nil for Delete
	indexing  *indexing // that the keys belong to
	keys      allKeys
	before    guess

	stage     atomic.Int32
	evaluated chan struct{} // closed by the writer

	// Written by the writer before evaluated is closed.
	err      error
	proposal *replication.Proposal // to wait for, also with an err that rests on it; nil: none
	created  bool
	version  version
	charge   float64
}

// guess is the version that the caller found in the snapshot, with its keys.
// The writer uses it when that still is the current version.
type guess struct {
	found   bool
	version version
	keys    allKeys
}

// oldKey is the key of the document's row as it is, newKey as it will be; they
// differ only in a rename.
func (r *request) oldKey() string { return r.documents[0] }
func (r *request) newKey() string { return r.documents[1] }

// prepare checks a write and does what needs no order: encoding and keys.
func (p *Partition) prepare(w *Write) (*request, error) {
	if err := p.admit(w.Generation, w.Key, w.EPK); err != nil {
		return nil, err
	}
	now, err := p.acquire()
	if err != nil {
		return nil, err
	}
	defer p.release(now)

	r := &request{write: w, indexing: now.indexing, evaluated: make(chan struct{})}
	r.key = w.Key.AppendCanonical(nil, p.descriptor.Key)
	if len(r.key) > keyBytesMax {
		return nil, status.BadRequest("The partition key is %d bytes long. At most %d are allowed.", len(r.key), keyBytesMax)
	}
	r.hash = keyHash(r.key)
	id := w.ID
	if w.Op != Delete {
		if id, err = p.prepareDocument(r); err != nil {
			return nil, err
		}
	}
	if w.ID == "" {
		w.ID = id
	} else if w.ID != id && w.Op != Replace {
		return nil, status.BadRequest("The id of the document is not the one of the request.")
	}
	if err := resource.ValidItemID(w.ID); err != nil {
		return nil, err
	}
	r.documents[0] = string(storage.DocumentKey(nil, w.EPK, r.hash, w.ID))
	r.documents[1] = r.documents[0]
	if id != w.ID {
		r.documents[1] = string(storage.DocumentKey(nil, w.EPK, r.hash, id))
	}
	if w.Op == Create {
		return r, nil
	}
	return r, p.prepareBefore(r, now)
}

// prepareDocument encodes the new content and computes its keys, and returns
// its id.
func (p *Partition) prepareDocument(r *request) (id string, err error) {
	doc := r.write.Document
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
	doc = doc.Without(systemProperties...)
	r.row = newDocumentRow(len(r.write.EPK), r.key, doc)
	if size, limit := len(r.row)-bodyOffset(r.row), p.config.Limits.DocumentBytes; size > limit {
		return "", status.TooLarge("The document is %d bytes long. At most %d are allowed.", size, limit)
	}
	r.keys, err = r.indexing.keysOf(doc, r.row[bodyOffset(r.row):])
	return member.Text(), err
}

// prepareBefore finds the version that will probably be replaced.
func (p *Partition) prepareBefore(r *request, now *published) error {
	_, err := now.snapshot.View([]byte(r.oldKey()), func(row []byte) error {
		d, err := decodeDocument(row)
		if err != nil {
			return err
		}
		k, err := r.indexing.keysOfBody(d.body)
		r.before = guess{found: true, version: d.version, keys: k}
		return err
	})
	if err != nil {
		return fmt.Errorf("read document in partition %v: %w", p.config.Ref, err)
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
	if len(p.queue) >= p.config.Limits.WriteQueue {
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
