package copyjob

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// distinct reports whether documents with different keys or ids in the source
// also differ in the target: every path of the source's key is a path of the
// target's. Otherwise, such as from /tenant,/user to /tenant, two documents may
// become one.
func distinct(source, target *catalog.Container) bool {
	for _, path := range source.PartitionKey.Paths {
		if path != "/id" && !slices.Contains(target.PartitionKey.Paths, path) {
			return false
		}
	}
	return true
}

// systemProperties are the properties that the target sets again.
var systemProperties = []string{"_rid", "_self", "_etag", "_attachments", "_ts"}

// parseRow parses a document of the feed and removes the _lsn that the feed adds
// at its end; the document may have its own.
func parseRow(row []byte) (value.Value, error) {
	if at := bytes.LastIndex(row, []byte(`,"_lsn":`)); at >= 0 {
		row = append(row[:at:at], '}')
	}
	doc, err := value.Parse(row)
	if err != nil {
		return doc, fmt.Errorf("read a document of the feed: %w", err)
	}
	return doc, nil
}

// copier returns the function that copies a document of a task.
func (w *worker) copier(t *task) func(context.Context, []byte) (outcome, error) {
	return func(ctx context.Context, row []byte) (outcome, error) {
		var d outcome
		doc, err := parseRow(row)
		if err != nil {
			return d, err
		}
		doc = doc.Without(systemProperties...)
		if t.distinct {
			d.writeCharge, err = w.upsert(ctx, t, doc, "")
		} else {
			d.writeCharge, err = w.upsertCautiously(ctx, t, doc)
		}
		if err == nil || ctx.Err() != nil || !ofDocument(err) {
			return d, err
		}
		failed := resource.CopyFailure{
			Task: t.index, ID: doc.Get("id").Text(), Key: t.source.KeyOf(doc).String(),
			Code: status.CodeOf(err).String(), Message: reason(err),
		}
		if !w.skip {
			e := status.New(status.CodeOf(err), status.SubOf(err), "The document with id %q and partition key %s of %s/%s cannot be copied: %s",
				failed.ID, failed.Key, t.source.Database.ID, t.source.ID, failed.Message)
			return d, e
		}
		d.failure = &failed
		return d, nil
	}
}

// ofDocument reports whether an error is about the document itself, instead of
// about the target or a temporary condition.
func ofDocument(err error) bool {
	switch status.CodeOf(err) {
	case status.CodeBadRequest:
		return status.SubOf(err) != status.SubContainerRecreated
	case status.CodeForbidden, status.CodeConflict, status.CodeTooLarge:
		return true
	}
	return false
}

// request returns a write of doc to the target of a task.
func (t *task) request(doc value.Value) engine.DocumentRequest {
	return engine.DocumentRequest{
		Link: linkOf(t.target), Document: doc, Size: len(doc.Append(nil)), Options: optionsOf(t.target),
	}
}

// upsert writes a document. If an etag is given, it replaces only that version.
func (w *worker) upsert(ctx context.Context, t *task, doc value.Value, in resource.ETag) (charge float64, err error) {
	req := t.request(doc)
	req.IfMatch = in
	err = w.retryTransient(ctx, func() error {
		written, err := w.cfg.Engine.Upsert(ctx, auth.Owner(), req)
		charge += written.Charge
		return err
	})
	return charge, err
}

// upsertCautiously writes a document, but does not overwrite the copy of another
// one. The body of a copy shows whose copy it is: it has the key of the source.
func (w *worker) upsertCautiously(ctx context.Context, t *task, doc value.Value) (charge float64, err error) {
	for {
		err = w.retryTransient(ctx, func() error {
			written, err := w.cfg.Engine.Create(ctx, auth.Owner(), t.request(doc))
			charge += written.Charge
			return err
		})
		if status.CodeOf(err) != status.CodeConflict {
			return charge, err
		}
		key, id := t.target.KeyOf(doc), doc.Get("id").Text()
		there, spent, err := w.read(ctx, t.target, engine.DocumentRequest{Key: &key, Link: engine.Link{Document: id}})
		charge += spent
		if status.CodeOf(err) == status.CodeNotFound && status.SubOf(err) == 0 {
			continue // it was deleted in between
		}
		if err != nil {
			return charge, err
		}
		if other := t.source.KeyOf(there); !other.Equal(t.source.KeyOf(doc)) {
			return charge, status.New(status.CodeConflict, 0, "The destination has another document with this id under the partition key %s: the one that has the key %s in the source. Give the destination a partition key with all paths of the source's.", key, other)
		}
		spent, err = w.upsert(ctx, t, doc, resource.ETag(there.Get("_etag").Text()))
		charge += spent
		if status.CodeOf(err) != status.CodePreconditionFailed {
			return charge, err
		}
	}
}

// read returns the document of a container that req names.
func (w *worker) read(ctx context.Context, c *catalog.Container, req engine.DocumentRequest) (doc value.Value, charge float64, err error) {
	req.Link.Database, req.Link.Container, req.Options = c.Database.ID, c.ID, optionsOf(c)
	var found engine.Document
	err = w.retryTransient(ctx, func() error {
		found, err = w.cfg.Engine.Read(ctx, auth.Owner(), req)
		charge += found.Charge
		return err
	})
	if err != nil {
		return doc, charge, err
	}
	doc, err = value.Parse(found.Body)
	return doc, charge, err
}

// sweeper returns the function that removes a document of a task's target if the
// source no longer has it: it was deleted, or has another key now.
func (w *worker) sweeper(t *task) func(context.Context, []byte) (outcome, error) {
	return func(ctx context.Context, row []byte) (outcome, error) {
		var d outcome
		doc, err := parseRow(row)
		if err != nil {
			return d, err
		}
		id, key := doc.Get("id").Text(), t.source.KeyOf(doc)
		original, spent, err := w.read(ctx, t.source, engine.DocumentRequest{Key: &key, Link: engine.Link{Document: id}})
		d.readCharge = spent
		switch {
		case err == nil && t.target.KeyOf(original).Equal(t.target.KeyOf(doc)):
			return d, nil
		case err != nil && (status.CodeOf(err) != status.CodeNotFound || status.SubOf(err) != 0):
			return d, err
		}
		there := t.target.KeyOf(doc)
		err = w.retryTransient(ctx, func() error {
			deleted, err := w.cfg.Engine.Delete(ctx, auth.Owner(), engine.DocumentRequest{
				Link: engine.Link{Database: t.target.Database.ID, Container: t.target.ID, Document: id},
				Key:  &there, IfMatch: resource.ETag(doc.Get("_etag").Text()), Options: optionsOf(t.target),
			})
			d.writeCharge += deleted.Charge
			return err
		})
		switch status.CodeOf(err) {
		case status.CodeNotFound, status.CodePreconditionFailed:
			return d, nil // another client has changed it on purpose
		}
		d.removed = err == nil
		return d, err
	}
}
