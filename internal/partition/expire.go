package partition

import (
	"bytes"
	"context"
	"fmt"
	"math"

	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// A document expires a number of seconds after its last change: its own ttl, or else
// the container's default. From that second on no call finds it, because each compares
// the clock. Expire deletes it later.

// validTTL refuses an invalid time to live. If documents of the container cannot
// expire, it refuses only zero and negative integers: any other value may have
// another purpose.
func (p *Partition) validTTL(doc value.Value) error {
	if _, valid := layout.TTLOf(doc); valid {
		return nil
	}
	given := doc.Get("ttl")
	if n, whole := given.Int64(); p.config.Container().DefaultTTL == 0 && (!whole || n > 0) {
		return nil
	}
	return status.BadRequest("The input ttl '%s' is invalid. Ensure to provide a nonzero positive integer value less than or equal to '%d', or -1 for no expiry.",
		status.Clip(given.JSON(), ttlCharsShown), resource.TTLMax)
}

// ttlCharsShown is how much of an invalid time to live a message shows.
const ttlCharsShown = 32

// ExpireMax is the greatest number of documents that one call of [Partition.Expire]
// deletes.
const ExpireMax = 500

// Expire deletes documents that have expired according to Config.Removal, those with
// their own time to live first, for about units request units; infinity is no limit.
// It returns the number of deleted documents, which is ExpireMax if there may be more.
// The documents of each key are one effect, which waits in the queue like other writes.
// meter receives what a client would be charged for the deletions; nil drops it. In a
// container without expiry the call costs nothing. Of the items of a table that are due it
// removes what Config.Collect says; each counts as one document.
//
// Errors are those of [Partition.Write]. Documents that were not deleted stay hidden,
// and the next call finds them again.
func (p *Partition) Expire(ctx context.Context, meter *throughput.Meter, units float64) (deleted int, err error) {
	now, err := p.acquire()
	if err != nil {
		return 0, err
	}
	defer p.release(now)
	numbers, err := p.reader.Expired(ctx, &now.Snapshot, p.reader.HorizonAt(&now.Snapshot, p.config.Removal), affordable(units))
	if err != nil {
		return 0, fmt.Errorf("expire documents of partition %v: %w", p.config.Ref, err)
	}
	all := deletions{now: now, meter: meter}
	var items collections
	for _, number := range numbers {
		key, d, err := now.Document(number)
		if err == nil && d == nil {
			err = fmt.Errorf("document %d is missing: %w", number, layout.ErrDocument)
		}
		switch {
		case err != nil:
		case d.Item && !d.Whole && p.config.Collect != nil:
			err = items.add(key, d)
		default:
			err = all.add(key, d)
		}
		if err != nil {
			return 0, fmt.Errorf("expire documents of partition %v: %w", p.config.Ref, err)
		}
	}
	deleted, err = p.delete(ctx, all.requests)
	if err == nil && len(items.keys) > 0 {
		var collected int
		collected, err = p.collect(ctx, now, items, affordable(units), meter)
		deleted += collected
	}
	return min(deleted, ExpireMax), err
}

// affordable returns the number of documents that can be deleted for so many units.
func affordable(units float64) int {
	return int(math.Ceil(min(ExpireMax, max(0, units)/throughput.Delete(0, 0))))
}

// deletions collects hidden documents to delete, in one request for each key.
type deletions struct {
	now      *published
	meter    *throughput.Meter
	byKey    map[string]*request
	requests []*request
}

// add adds the document of a row. It does not keep the bytes of the row.
func (a *deletions) add(key []byte, d *layout.Document) error {
	epk, hash, _, err := storage.DecodeDocumentKey(key, d.EPKSize)
	if err != nil {
		return err
	}
	logical := string(storage.LogicalKey(nil, epk, hash))
	r := a.byKey[logical]
	if r == nil {
		r = &request{epk: partitionkey.EPK(epk), key: bytes.Clone(d.Key), hash: hash, atomicity: Each, meter: a.meter, evaluated: make(chan struct{})}
		if a.byKey == nil {
			a.byKey = map[string]*request{}
		}
		a.byKey[logical] = r
		a.requests = append(a.requests, r)
	}
	op := deletion(string(key), a.now)
	op.expires = true
	r.operations = append(r.operations, op)
	return nil
}

// delete submits requests of deletions, one after another, and returns the number of
// deleted documents.
func (p *Partition) delete(ctx context.Context, requests []*request) (deleted int, err error) {
	for _, r := range requests {
		err := p.submit(ctx, r)
		if err == nil {
			err = r.err
		}
		if err != nil {
			return deleted, err
		}
		deleted += len(r.operations)
	}
	return deleted, nil
}

// expire deletes a hidden document. It does nothing if the document is not hidden any
// more, because it was written again.
func (tx *transaction) expire(op *operation, before *current) error {
	if !before.expired && !(before.exists && before.Item && tx.horizon.Due(&before.Document)) {
		return nil
	}
	before.exists = true
	return tx.change(op, before)
}

// erase deletes a hidden document whose id, or values of unique keys, an operation
// needs. The deletion has its own position in the effect.
func (tx *transaction) erase(key string, expired *current) error {
	row := append([]byte(nil), expired.row...) // The scratch is used again.
	d, err := layout.DecodeDocument(row)
	if err != nil {
		return fmt.Errorf("partition %v: %w", tx.p.config.Ref, err)
	}
	op := &operation{documents: [2]string{key, key}, indexing: tx.now.Indexing}
	op.ask.Op = Delete
	return tx.change(op, &current{Document: d, exists: true, row: row, edit: expired.edit})
}

// clearWay erases the hidden documents that conflict with an operation: the one with
// its id, and those with its values of unique keys.
func (tx *transaction) clearWay(op *operation, before *current) error {
	if tx.horizon.TTL == 0 && len(tx.horizon.Marks) == 0 {
		return nil
	}
	if before.expired {
		if err := tx.erase(op.oldKey(), before); err != nil {
			return err
		}
		*before = current{edit: gone}
	}
	for i := range tx.p.uniques {
		wanted := op.claimed().At(i)
		if wanted == nil {
			continue
		}
		holder, err := tx.holder(tx.uniqueKey(i, wanted))
		if err == nil && holder != 0 {
			err = tx.eraseHolder(holder)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// eraseHolder erases a document if it is hidden. A proposed version is not hidden yet.
func (tx *transaction) eraseHolder(number uint64) error {
	key, d, err := tx.now.Document(number)
	if err != nil {
		return fmt.Errorf("partition %v: %w", tx.p.config.Ref, err)
	}
	if d == nil {
		return nil
	}
	var scratch []byte
	found, err := tx.find(string(key), &scratch)
	if err != nil || !found.expired || found.Number != number {
		return err
	}
	return tx.erase(string(key), &found)
}
