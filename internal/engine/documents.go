package engine

import (
	"context"
	"slices"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/patch"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// Create stores a new document. The error is 409 if its key has a document with
// the id.
func (e *Engine) Create(ctx context.Context, caller auth.Caller, req DocumentRequest) (Document, error) {
	return e.write(ctx, caller, partition.Create, auth.Create, req)
}

// Upsert stores a document, and replaces the one with its id and key if there
// is one. IfMatch applies to a replacement only.
func (e *Engine) Upsert(ctx context.Context, caller auth.Caller, req DocumentRequest) (Document, error) {
	return e.write(ctx, caller, partition.Upsert, auth.Upsert, req)
}

// Replace replaces the document that Link and Key name. The error is 404 if it
// does not exist. The id may change, the key may not.
func (e *Engine) Replace(ctx context.Context, caller auth.Caller, req DocumentRequest) (Document, error) {
	return e.write(ctx, caller, partition.Replace, auth.Replace, req)
}

// Delete removes a document. The error is 404 if it does not exist.
func (e *Engine) Delete(ctx context.Context, caller auth.Caller, req DocumentRequest) (Document, error) {
	return e.write(ctx, caller, partition.Delete, auth.Delete, req)
}

// Patch changes parts of the document that Link and Key name. req.Document is
// the body of a PATCH request. The error is 404 if the document does not exist,
// and 412 if it does not fulfil the condition.
func (e *Engine) Patch(ctx context.Context, caller auth.Caller, req DocumentRequest) (Document, error) {
	return e.write(ctx, caller, partition.Patch, auth.Patch, req)
}

// write carries out one write. Once the partition has ordered it, the end of
// ctx does not undo it.
func (e *Engine) write(ctx context.Context, caller auth.Caller, op partition.Op, action auth.Action, req DocumentRequest) (Document, error) {
	e.turns.point()
	meter := req.meter(false)
	var doc Document
	err := e.tryWrite(ctx, caller, op, action, &req, &meter, &doc)
	e.hideSize(caller, req.Link, &doc.Result)
	doc.Charge = meter.Charge()
	if err == nil {
		e.recorder.wrote(doc.OwnerRID, 1)
	}
	return doc, fail(err)
}

func (e *Engine) tryWrite(ctx context.Context, caller auth.Caller, op partition.Op, action auth.Action, req *DocumentRequest, meter *throughput.Meter, doc *Document) error {
	if err := e.allowDocuments(caller, action, req.Link, &req.Options); err != nil {
		return err
	}
	if action == auth.Replace {
		if err := allowID(caller, req.Document); err != nil {
			return err
		}
	}
	if _, err := e.reading(req.Options); err != nil {
		return err
	}
	return e.onContainer(ctx, req.Link, req.IntendedRID, &doc.Result, func(container *catalog.Container) (more bool, err error) {
		w, err := e.writeOf(container, op, req)
		if op == partition.Replace && status.SubOf(err) == status.SubPartitionKeyMismatch {
			return e.replacesNone(ctx, caller, container, req, meter, doc, err)
		}
		if err != nil {
			return false, err
		}
		if err := allowKey(caller, container, w.Key); err != nil {
			return false, err
		}
		w.Meter = meter
		once := e.writeOnce
		if len(req.PreTriggers)+len(req.PostTriggers) > 0 {
			once = func(ctx context.Context, container *catalog.Container, w partition.Write, doc *Document) error {
				return e.writeTriggered(ctx, caller, container, w, req, doc)
			}
		}
		err = once(ctx, container, w, doc)
		if op != partition.Create && op != partition.Upsert && missing(err) {
			if w.ID, err = e.idByRID(ctx, container, w.Key, w.ID, meter); err == nil {
				err = once(ctx, container, w, doc)
			}
		}
		return true, err
	})
}

// replacesNone returns the error of a replace whose key is not that of its document:
// NotFound if there is nothing to replace, as in the service, and otherwise differs.
func (e *Engine) replacesNone(ctx context.Context, caller auth.Caller, container *catalog.Container, req *DocumentRequest, meter *throughput.Meter, doc *Document, differs error) (more bool, err error) {
	key, err := pointKey(container, req.Key)
	if err != nil || allowKey(caller, container, key) != nil {
		return false, differs
	}
	var found Document
	r := partition.Read{EPK: container.PartitionKey.Hash(key), Key: key, ID: req.Link.Document, Meter: meter}
	err = e.readOnce(ctx, container, r, reading{}, &found)
	doc.Partitions, doc.Session, doc.LSN = found.Partitions, found.Session, found.LSN
	if missing(err) {
		_, err = e.idByRID(ctx, container, key, r.ID, meter)
	}
	if err == nil {
		return false, differs
	}
	return true, err
}

// writeOf checks the request against the container and converts it to that of a
// partition.
func (e *Engine) writeOf(container *catalog.Container, op partition.Op, req *DocumentRequest) (w partition.Write, err error) {
	o := partition.Operation{Op: op, ID: req.Link.Document, IfMatch: req.IfMatch, IfNoneMatch: req.IfNoneMatch}
	if w.Key, err = e.operationOf(container, &o, req.Document, req.Size, req.Key); err != nil {
		return w, err
	}
	w.Op, w.ID, w.IfMatch, w.IfNoneMatch = o.Op, o.ID, o.IfMatch, o.IfNoneMatch
	w.Document, w.Changes, w.Condition = o.Document, o.Changes, o.Condition
	w.EPK = container.PartitionKey.Hash(w.Key)
	w.Size, w.Work = req.Size, e.working
	return w, nil
}

// operationOf sets the body of a request in an operation, and returns the key
// of its document. size is the number of bytes of the body as received; asked
// is the key given with the request, or nil.
func (e *Engine) operationOf(container *catalog.Container, o *partition.Operation, body value.Value, size int, asked *partitionkey.Key) (key partitionkey.Key, err error) {
	switch o.Op {
	case partition.Fetch, partition.Delete:
		return pointKey(container, asked)
	case partition.Patch:
		if key, err = pointKey(container, asked); err != nil {
			return key, err
		}
		if o.Changes, err = patch.Parse(body); err == nil && o.Changes.Condition != "" {
			o.Condition, err = e.conditionOf(container, o.Changes)
		}
		return key, err
	case partition.Create, partition.Upsert:
		o.ID = body.Get("id").Text()
	}
	o.Document = body
	return e.documentKey(container, body, size, asked)
}

// conditionOf compiles the condition of a patch. User-defined functions are
// refused, because the writer of the partition waits for the result.
func (e *Engine) conditionOf(container *catalog.Container, p *patch.Patch) (*query.Plan, error) {
	options := e.options()
	options.Computed = container.Indexing.Computed
	return query.Compile(p.ConditionQuery(), nil, nil, options)
}

// documentKey checks a document and returns its key, which must equal the key
// given with the request, if any.
func (e *Engine) documentKey(container *catalog.Container, document value.Value, size int, asked *partitionkey.Key) (partitionkey.Key, error) {
	if size > e.limits.DocumentBytes {
		return partitionkey.Key{}, status.TooLarge("Request size is too large: the document has %d bytes, and at most %d are allowed.", size, e.limits.DocumentBytes)
	}
	if document.Kind() != value.KindObject {
		return partitionkey.Key{}, status.BadRequest("The document must be a JSON object.")
	}
	id := document.Get("id")
	switch id.Kind() {
	case value.KindString:
	case value.KindUndefined:
		return partitionkey.Key{}, status.Service("The input content is invalid because the required properties - 'id; ' - are missing")
	default:
		return partitionkey.Key{}, status.Service("One of the specified inputs is invalid")
	}
	if err := resource.ValidItemID(id.Text()); err != nil {
		return partitionkey.Key{}, err
	}
	own := container.KeyOf(document)
	if err := container.PartitionKey.Check(own, true); err != nil {
		return partitionkey.Key{}, keyError(err)
	}
	if asked == nil {
		return own, nil
	}
	key := given(container.PartitionKey, *asked)
	if err := container.PartitionKey.Check(key, true); err != nil {
		return partitionkey.Key{}, keyError(err)
	}
	if !key.Equal(own) {
		return partitionkey.Key{}, status.Because(status.CodeBadRequest, status.SubPartitionKeyMismatch, status.KeyDiffers{})
	}
	return own, nil
}

// pointKey returns the key given with the request, which must be a whole one.
func pointKey(container *catalog.Container, asked *partitionkey.Key) (partitionkey.Key, error) {
	if asked == nil {
		return partitionkey.Key{}, status.Because(status.CodeBadRequest, status.SubPartitionKeyMismatch, status.KeyMissing{})
	}
	key := given(container.PartitionKey, *asked)
	if err := container.PartitionKey.Check(key, true); err != nil {
		return partitionkey.Key{}, keyError(err)
	}
	return key, nil
}

// writeOnce sends a write to the partition that owns its key.
func (e *Engine) writeOnce(ctx context.Context, container *catalog.Container, w partition.Write, doc *Document) error {
	p := container.Ranges.Locate(w.EPK).Value
	w.Generation = p.Generation
	replica, release, err := e.node.Replica(ctx, container, p.ID)
	if err != nil {
		return err
	}
	defer release()
	e.visit(&doc.Result, p.ID)
	written, err := replica.Write(ctx, w)
	doc.reached(p.ID, written.LSN)
	if err != nil {
		return err
	}
	doc.Body, doc.Created, doc.ETag = written.Body, written.Created, written.ETag
	doc.one(written.LSN, written.Totals)
	return nil
}

// Read returns a document by id and whole key. The error is 404 if it does not
// exist, and 304 if IfNoneMatch names its version.
func (e *Engine) Read(ctx context.Context, caller auth.Caller, req DocumentRequest) (Document, error) {
	e.turns.point()
	var doc Document
	how, err := e.reading(req.Options)
	meter := req.meter(how.level.DoublesReads())
	if err == nil {
		err = e.allowDocuments(caller, auth.Read, req.Link, &req.Options)
	}
	if err == nil {
		err = e.tryRead(ctx, caller, &req, how, &meter, &doc)
	}
	e.hideSize(caller, req.Link, &doc.Result)
	doc.Charge = throughput.AtLevel(meter.Charge(), how.level)
	if err == nil {
		e.recorder.read(doc.OwnerRID, 1)
	}
	return doc, fail(err)
}

func (e *Engine) tryRead(ctx context.Context, caller auth.Caller, req *DocumentRequest, how reading, meter *throughput.Meter, doc *Document) error {
	return e.onContainer(ctx, req.Link, req.IntendedRID, &doc.Result, func(container *catalog.Container) (more bool, err error) {
		key, err := pointKey(container, req.Key)
		if err != nil {
			return false, err
		}
		if err := allowKey(caller, container, key); err != nil {
			return false, err
		}
		r := partition.Read{
			EPK:         container.PartitionKey.Hash(key),
			Key:         key,
			ID:          req.Link.Document,
			IfNoneMatch: req.IfNoneMatch,
			Meter:       meter,
		}
		err = e.readOnce(ctx, container, r, how, doc)
		if missing(err) {
			if r.ID, err = e.idByRID(ctx, container, key, r.ID, meter); err == nil {
				err = e.readOnce(ctx, container, r, how, doc)
			}
		}
		if missing(err) {
			// The LSN of the partition is that of other documents. Clients expect a token, so
			// they get back their own position.
			p := container.Ranges.Locate(r.EPK).Value
			doc.Session = p.ID.SessionToken(shownLSN(how.requiredLSN(p)))
		}
		return true, err
	})
}

func (e *Engine) readOnce(ctx context.Context, container *catalog.Container, r partition.Read, how reading, doc *Document) error {
	p := container.Ranges.Locate(r.EPK).Value
	r.Generation = p.Generation
	r.Session = how.requiredLSN(p)
	replica, release, err := e.node.Replica(ctx, container, p.ID)
	if err != nil {
		return err
	}
	defer release()
	e.visit(&doc.Result, p.ID)
	found, err := retryBehind(ctx, &how, r.Session, func() (partition.Found, error) { return replica.Read(ctx, r) })
	doc.reached(p.ID, found.LSN)
	doc.Body, doc.ETag = found.Body, found.ETag
	if found.ETag != "" {
		doc.one(found.ItemLSN, found.Totals)
	}
	return err
}

// one records what is known about the one document that was read or written.
func (r *Result) one(lsn resource.LSN, totals partition.Totals) {
	r.ItemLSN = lsn
	r.Size = sizeOf(totals)
}

func sizeOf(t partition.Totals) PartitionSize {
	return PartitionSize{Known: true, Documents: t.Items, Bytes: t.Bytes}
}

// hideSize removes the size of the partition for a caller that may not read
// statistics.
func (e *Engine) hideSize(caller auth.Caller, link Link, result *Result) {
	if result.Size.Known && e.allow(caller, auth.Access{Action: auth.Read, On: auth.Statistics}, link) != nil {
		result.Size = PartitionSize{}
	}
}

// visit records in the result and in the metrics that a partition is asked.
func (e *Engine) visit(result *Result, id resource.PartitionID) {
	result.visited(id)
	e.metrics.visits.Inc()
}

// visited records that a partition was asked, and reports whether that was the
// first time.
func (r *Result) visited(id resource.PartitionID) bool {
	if slices.Contains(r.Partitions, id) {
		return false
	}
	r.Partitions = append(r.Partitions, id)
	return true
}

// reached records the LSN that a partition has reached.
func (r *Result) reached(id resource.PartitionID, lsn resource.LSN) {
	r.LSN = shownLSN(lsn)
	r.Session = id.SessionToken(r.LSN)
}
