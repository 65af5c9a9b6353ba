package engine

import (
	"context"
	"slices"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// Create stores a new document: 409 when the id exists under its key.
func (e *Engine) Create(ctx context.Context, caller auth.Caller, req DocumentRequest) (Document, error) {
	return e.write(ctx, caller, partition.Create, auth.Create, req)
}

// Upsert stores a document, new or in place of the one with its id and key.
// IfMatch counts only when there is one.
func (e *Engine) Upsert(ctx context.Context, caller auth.Caller, req DocumentRequest) (Document, error) {
	return e.write(ctx, caller, partition.Upsert, auth.Upsert, req)
}

// Replace stores a document in place of the one that Link and Key name: 404
// when there is none. Its id may change, its key may not.
func (e *Engine) Replace(ctx context.Context, caller auth.Caller, req DocumentRequest) (Document, error) {
	return e.write(ctx, caller, partition.Replace, auth.Replace, req)
}

// Delete removes a document: 404 when there is none.
func (e *Engine) Delete(ctx context.Context, caller auth.Caller, req DocumentRequest) (Document, error) {
	return e.write(ctx, caller, partition.Delete, auth.Delete, req)
}

// write carries out one write. Once the partition has ordered it, the end of
// ctx no longer undoes it.
func (e *Engine) write(ctx context.Context, caller auth.Caller, op partition.Op, action auth.Action, req DocumentRequest) (Document, error) {
	meter := req.meter(false)
	var doc Document
	err := e.tryWrite(ctx, caller, op, action, &req, &meter, &doc)
	doc.Charge = meter.Charge()
	return doc, fail(err)
}

func (e *Engine) tryWrite(ctx context.Context, caller auth.Caller, op partition.Op, action auth.Action, req *DocumentRequest, meter *throughput.Meter, doc *Document) error {
	if err := caller.Allow(action, req.Link.String()); err != nil {
		return err
	}
	if _, err := e.reading(req.Options); err != nil {
		return err
	}
	for attempt := 0; ; attempt++ {
		container, err := e.owner(req.Link, req.IntendedRID, &doc.Result)
		if err != nil {
			return err
		}
		w, err := e.writeOf(container, op, req)
		if err != nil {
			return err
		}
		w.Meter = meter
		err = e.writeOnce(ctx, container, w, doc)
		if op != partition.Create && op != partition.Upsert && missing(err) {
			if id, ok := e.idByRID(ctx, container, w.Key, w.ID, meter); ok {
				w.ID = id
				err = e.writeOnce(ctx, container, w, doc)
			}
		}
		if err != nil && e.moved(ctx, err, attempt, container) {
			continue
		}
		return err
	}
}

// writeOf checks the request against the container and makes it a partition's.
func (e *Engine) writeOf(container *catalog.Container, op partition.Op, req *DocumentRequest) (partition.Write, error) {
	w := partition.Write{Op: op, ID: req.Link.Document, IfMatch: req.IfMatch, IfNoneMatch: req.IfNoneMatch}
	var err error
	if op == partition.Delete {
		w.Key, err = pointKey(container, req.Key)
	} else {
		w.Document = req.Document
		w.Key, err = e.documentKey(container, req)
	}
	if err != nil {
		return w, err
	}
	if op == partition.Create || op == partition.Upsert {
		w.ID = req.Document.Get("id").Text()
	}
	w.EPK = container.PartitionKey.Hash(w.Key)
	return w, nil
}

// documentKey checks a document and returns its key, which must be the one that
// was given, if one was.
func (e *Engine) documentKey(container *catalog.Container, req *DocumentRequest) (partitionkey.Key, error) {
	if req.Size > e.limits.DocumentBytes {
		return partitionkey.Key{}, status.TooLarge("Request size is too large: the document has %d bytes, and at most %d are allowed.", req.Size, e.limits.DocumentBytes)
	}
	if req.Document.Kind() != value.KindObject {
		return partitionkey.Key{}, status.BadRequest("The document must be a JSON object.")
	}
	id := req.Document.Get("id")
	if id.Kind() != value.KindString {
		return partitionkey.Key{}, status.BadRequest("The input content is invalid because the required property 'id' is missing or is not a string.")
	}
	if err := resource.ValidItemID(id.Text()); err != nil {
		return partitionkey.Key{}, err
	}
	own := container.KeyOf(req.Document)
	if err := container.PartitionKey.Check(own, true); err != nil {
		return partitionkey.Key{}, keyError(err)
	}
	if req.Key == nil {
		return own, nil
	}
	key := given(container.PartitionKey, *req.Key)
	if err := container.PartitionKey.Check(key, true); err != nil {
		return partitionkey.Key{}, keyError(err)
	}
	if !key.Equal(own) {
		return partitionkey.Key{}, status.PartitionKeyMismatch("PartitionKey extracted from document doesn't match the one specified in the header.")
	}
	return own, nil
}

// pointKey returns the whole key that an operation without a document needs.
func pointKey(container *catalog.Container, asked *partitionkey.Key) (partitionkey.Key, error) {
	if asked == nil {
		return partitionkey.Key{}, status.PartitionKeyMismatch("The partition key must be supplied in the x-ms-partitionkey header for this operation.")
	}
	key := given(container.PartitionKey, *asked)
	if err := container.PartitionKey.Check(key, true); err != nil {
		return partitionkey.Key{}, keyError(err)
	}
	return key, nil
}

// writeOnce asks the partition that the container's map names.
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
	return nil
}

// Read returns a document by id and whole key: 404 when there is none, 304 when
// IfNoneMatch names its version.
func (e *Engine) Read(ctx context.Context, caller auth.Caller, req DocumentRequest) (Document, error) {
	var doc Document
	how, err := e.reading(req.Options)
	meter := req.meter(how.level.DoublesReads())
	if err == nil {
		err = caller.Allow(auth.Read, req.Link.String())
	}
	if err == nil {
		err = e.tryRead(ctx, &req, how, &meter, &doc)
	}
	doc.Charge = throughput.AtLevel(meter.Charge(), how.level)
	return doc, fail(err)
}

func (e *Engine) tryRead(ctx context.Context, req *DocumentRequest, how reading, meter *throughput.Meter, doc *Document) error {
	for attempt := 0; ; attempt++ {
		container, err := e.owner(req.Link, req.IntendedRID, &doc.Result)
		if err != nil {
			return err
		}
		key, err := pointKey(container, req.Key)
		if err != nil {
			return err
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
			if id, ok := e.idByRID(ctx, container, key, r.ID, meter); ok {
				r.ID = id
				err = e.readOnce(ctx, container, r, how, doc)
			}
		}
		if err != nil && e.moved(ctx, err, attempt, container) {
			continue
		}
		return err
	}
}

func (e *Engine) readOnce(ctx context.Context, container *catalog.Container, r partition.Read, how reading, doc *Document) error {
	p := container.Ranges.Locate(r.EPK).Value
	r.Generation = p.Generation
	r.Session = how.behind(p)
	replica, release, err := e.node.Replica(ctx, container, p.ID)
	if err != nil {
		return err
	}
	defer release()
	e.visit(&doc.Result, p.ID)
	found, err := replica.Read(ctx, r)
	doc.reached(p.ID, found.LSN)
	doc.Body, doc.ETag = found.Body, found.ETag
	return err
}

// visit notes and counts that a partition is asked.
func (e *Engine) visit(result *Result, id resource.PartitionID) {
	result.visited(id)
	e.metrics.visits.Inc()
}

// visited notes that a partition was asked.
func (r *Result) visited(id resource.PartitionID) {
	if !slices.Contains(r.Partitions, id) {
		r.Partitions = append(r.Partitions, id)
	}
}

// reached notes how far a partition has come.
func (r *Result) reached(id resource.PartitionID, lsn resource.LSN) {
	r.LSN = lsn
	r.Session = id.SessionToken(lsn)
}
