package partition

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/partitionkey"
)

// evaluate decides what a request does, proposes the effect and notes it in the
// overlay. The result is a refusal, or nil when there is a proposal to wait for.
func (p *Partition) evaluate(r *request, now *published) error {
	before, from, err := p.find(r.oldKey(), now, &p.writer.row)
	if err != nil {
		return err
	}
	if before != nil && string(before.key) != string(r.key) {
		return fmt.Errorf("partition %v: two partition keys have one hash", p.config.Ref)
	}
	if err := r.conditions(before); err != nil {
		size := 0
		if before != nil {
			size = len(before.body)
		}
		r.charge = throughput.Refused(size)
		return r.refusedBy(from, err)
	}
	if r.oldKey() != r.newKey() {
		if other, from, err := p.find(r.newKey(), now, &p.writer.other); err != nil {
			return err
		} else if other != nil {
			r.charge = throughput.Refused(len(other.body))
			return r.refusedBy(from, status.Conflict())
		}
	}
	return p.change(r, before, now)
}

// conditions checks a request against the current version, nil when there is
// none.
func (r *request) conditions(before *document) *status.Error {
	w := r.write
	if before == nil {
		if w.Op == Replace || w.Op == Delete {
			return status.NotFound()
		}
		return nil
	}
	if w.Op == Create {
		return status.Conflict()
	}
	if w.IfMatch != "" && w.IfMatch != AnyETag && !before.matches(w.IfMatch) {
		return status.PreconditionFailed()
	}
	if w.IfNoneMatch == AnyETag || w.IfNoneMatch != "" && before.matches(w.IfNoneMatch) {
		return status.PreconditionFailed()
	}
	return nil
}

// find returns the latest version of a document, nil when there is none, and
// the effect it rests on when that is on its way. The version may share buf.
func (p *Partition) find(key string, now *published, buf *[]byte) (*document, *flight, error) {
	w := &p.writer
	row, from := []byte(nil), (*flight)(nil)
	if pending, ok := w.overlay.documents[key]; ok {
		if pending.row == nil {
			return nil, pending.flight, nil
		}
		row, from = pending.row, pending.flight
	} else {
		w.key = append(w.key[:0], key...)
		found := false
		var err error
		*buf, found, err = now.snapshot.Get((*buf)[:0], w.key)
		if err != nil {
			return nil, nil, fmt.Errorf("read document in partition %v: %w", p.config.Ref, err)
		}
		if !found {
			return nil, nil, nil
		}
		row = *buf
	}
	d, err := decodeDocument(row)
	if err != nil {
		return nil, nil, fmt.Errorf("partition %v: %w", p.config.Ref, err)
	}
	return &d, from, nil
}

// change builds and proposes the effect of a request that may go ahead.
func (p *Partition) change(r *request, before *document, now *published) error {
	next := p.writer.next
	next.lsn++
	next.ts = max(next.ts, p.config.Now().Unix())
	v := version{lsn: next.lsn, ordinal: p.descriptor.Ordinal, ts: next.ts}
	if before != nil {
		v.number = before.number
	} else {
		if next.counter+1 >= resource.NumbersMax {
			return status.Forbidden(0, "The partition has given out all its document numbers.")
		}
		next.counter++
		v.number = resource.NewNumber(p.descriptor.Ordinal, next.counter)
	}
	known, err := p.knownPaths(now)
	if err != nil {
		return err
	}
	changed, complete, err := r.keyChanges(before, v, now.indexing, known, p.writer.next.items == 0)
	if err != nil {
		return fmt.Errorf("partition %v: %w", p.config.Ref, err)
	}
	total, from, err := p.totalsOf(r, now)
	if err != nil {
		return err
	}
	var items, bytes int64
	if before != nil {
		items, bytes = items-1, bytes-int64(len(before.body))
	}
	if r.row != nil {
		items, bytes = items+1, bytes+int64(len(r.row)-bodyOffset(r.row))
		stamp(r.row, v)
	}
	next.items, next.bytes = next.items+items, next.bytes+bytes
	total.items, total.bytes = total.items+items, total.bytes+bytes
	if err := p.quota(bytes, total.bytes); err != nil {
		r.charge = throughput.Refused(0)
		if before != nil {
			r.charge = throughput.Refused(len(before.body))
		}
		return r.refusedBy(from, err)
	}
	if total.items < 0 || total.bytes < 0 || next.items < 0 || next.bytes < 0 {
		panic(fmt.Sprintf("partition %v: totals below zero: %+v in %+v", p.config.Ref, total, next))
	}

	b := builder{batch: p.config.Store.NewBatch(), writer: &p.writer}
	b.document(r, before, v, p)
	b.keys(v.number, changed)
	b.paths(known, complete)
	b.totals(r, total)
	b.state(next)
	if b.err != nil {
		return errors.Join(b.err, b.batch.Close())
	}
	r.version, r.created = v, before == nil
	r.charge = r.cost(before, changed)
	f := p.propose(b.batch, next.lsn, items, bytes)
	r.proposal = f.proposal
	p.writer.next, p.writer.paths = next, complete
	p.note(f, r, before, total)
	return nil
}

// propose hands rows to the group and keeps them until the result is known.
func (p *Partition) propose(batch *storage.Batch, lsn resource.LSN, items, bytes int64) *flight {
	f := &flight{lsn: lsn, batch: batch}
	// The effect is no longer the caller's: nobody's context may end it.
	f.proposal = p.config.Group.Propose(context.Background(), p.config.Ref, replication.Effect{
		Generation: p.descriptor.Generation,
		LSN:        lsn,
		Rows:       batch.Repr(),
		Items:      items,
		Bytes:      bytes,
	})
	p.writer.overlay.add(f)
	return f
}

// note puts what an effect changes into the overlay.
func (p *Partition) note(f *flight, r *request, before *document, total totals) {
	o := &p.writer.overlay
	f.keys[0], f.keys[1] = r.oldKey(), r.newKey()
	if before != nil && (r.row == nil || r.oldKey() != r.newKey()) {
		o.documents[r.oldKey()] = pendingDocument{flight: f}
	}
	if r.row != nil {
		o.documents[r.newKey()] = pendingDocument{row: r.row, flight: f}
	}
	f.keys[2] = string(storage.LogicalKey(p.writer.key[:0], r.write.EPK, r.hash))
	o.logical[f.keys[2]] = pendingTotals{totals: total, flight: f}
}

// quota refuses a write that makes a logical partition larger than it may be.
// One that does not make it larger goes ahead, so that a full one, or one from
// the time of a higher limit, can be emptied.
func (p *Partition) quota(grown, bytes int64) *status.Error {
	limit := p.config.Limits.LogicalPartitionBytes
	if grown <= 0 || bytes <= limit {
		return nil
	}
	return status.Forbidden(status.SubPartitionKeyQuota,
		"Partition key reached maximum size of %s. The documents of one full partition key would have %d bytes, and at most %d are allowed. Delete some, or use a key with more values, such as a further level of a hierarchical key.",
		sizeText(limit), bytes, limit)
}

// sizeText writes a size as people read it, such as 20 GB.
func sizeText(bytes int64) string {
	for _, unit := range []struct {
		name string
		size int64
	}{{"GB", 1 << 30}, {"MB", 1 << 20}, {"KB", 1 << 10}} {
		if bytes >= unit.size && bytes%unit.size == 0 {
			return fmt.Sprintf("%d %s", bytes/unit.size, unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", bytes)
}

// totalsOf returns the current totals of the request's logical partition, and
// the effect they rest on when that is on its way.
func (p *Partition) totalsOf(r *request, now *published) (totals, *flight, error) {
	w := &p.writer
	w.key = storage.LogicalKey(w.key[:0], r.write.EPK, r.hash)
	if pending, ok := w.overlay.logical[string(w.key)]; ok {
		return pending.totals, pending.flight, nil
	}
	var found bool
	var err error
	w.cell, found, err = now.snapshot.Get(w.cell[:0], w.key)
	if err != nil || !found {
		return totals{}, nil, err
	}
	t, err := decodeTotals(w.cell)
	return t, nil, err
}

// keyChanges compares what the old and the new version can be found by, and
// returns which paths are complete with the new one. v holds the number that both
// share, and first says that there is no other document.
func (r *request) keyChanges(before *document, v version, x *indexing, known paths, first bool) (change, paths, error) {
	var old, new keys
	if before != nil {
		k, err := r.before.keys, error(nil)
		if !r.before.found || r.before.version != before.version || !r.indexing.fits(x) {
			if k, err = x.keysOfBody(before.body); err != nil {
				return change{}, known, err
			}
		}
		old = x.stored(k, before.number, before.ts)
	}
	if r.row != nil {
		k, err := r.keys, error(nil)
		if !r.indexing.fits(x) {
			if k, err = x.keysOfBody(r.row[bodyOffset(r.row):]); err != nil {
				return change{}, known, err
			}
		}
		known = known.behind(x, &k, first)
		new = x.stored(k, v.number, v.ts)
	}
	return diff(old, new), known, nil
}

// cost is the charge of a write that goes ahead. A vector counts as a term.
func (r *request) cost(before *document, c change) float64 {
	removed, added := len(c.removed)+len(c.dropped), len(c.added)+len(c.put)
	switch {
	case before == nil:
		return throughput.Insert(len(r.row)-bodyOffset(r.row), added)
	case r.row == nil:
		return throughput.Delete(len(before.body), removed)
	}
	return throughput.Replace(len(before.body), len(r.row)-bodyOffset(r.row), removed+added)
}

// builder writes the rows of an effect.
type builder struct {
	batch  *storage.Batch
	writer *writer // for its scratch
	err    error
}

func (b *builder) check(err error) {
	if b.err == nil {
		b.err = err
	}
}

// document writes the rows of the document itself: 'd', 'r', 'l' and 'f'.
func (b *builder) document(r *request, before *document, v version, p *Partition) {
	w := b.writer
	epk := r.write.EPK
	renamed := r.oldKey() != r.newKey()
	if before != nil {
		w.key = storage.FeedKey(w.key[:0], uint64(before.lsn), before.ordinal, before.seq)
		b.check(b.batch.Delete(w.key))
		if r.row == nil || renamed {
			w.key = append(w.key[:0], r.oldKey()...)
			b.check(b.batch.Delete(w.key))
		}
	}
	if r.row == nil {
		w.key = storage.RIDKey(w.key[:0], v.number)
		b.check(b.batch.Delete(w.key))
		b.prefixes(epk, v.number, p, b.batch.RemovePosting)
		return
	}
	w.key = append(w.key[:0], r.newKey()...)
	b.check(b.batch.Set(w.key, r.row))
	if before == nil || renamed {
		w.cell = append(w.cell[:0], r.newKey()[1:]...)
		w.key = storage.RIDKey(w.key[:0], v.number)
		b.check(b.batch.Set(w.key, w.cell))
	}
	if before == nil {
		b.prefixes(epk, v.number, p, b.batch.AddPosting)
	}
	w.key = storage.FeedKey(w.key[:0], uint64(v.lsn), v.ordinal, v.seq)
	w.cell = appendFeedValue(w.cell[:0], v.number, string(epk), p.epkWidth)
	b.check(b.batch.Set(w.key, w.cell))
}

// hashBytes is the width of one level of an EPK of version 2.
const hashBytes = 16

// prefixes changes the posting lists of the levels above the full key.
func (b *builder) prefixes(epk partitionkey.EPK, number uint64, p *Partition, change func(list []byte, number uint64) error) {
	for level := 1; level*hashBytes < p.epkWidth; level++ {
		b.writer.key = storage.PrefixKey(b.writer.key[:0], level, epk[:level*hashBytes])
		b.check(change(b.writer.key, number))
	}
}

// appendFeedValue appends what a feed row says: the number of the document and
// its short EPK, so that a reader of a key range can skip it. The short EPK has
// 8 bytes of the first level and 4 of each further one.
func appendFeedValue(dst []byte, number uint64, epk string, width int) []byte {
	const firstBytes, furtherBytes = 8, 4
	dst = binary.BigEndian.AppendUint64(dst, number)
	var first [firstBytes]byte
	copy(first[:], epk)
	dst = append(dst, first[:]...)
	for at := hashBytes; at < width; at += hashBytes {
		dst = append(dst, epk[at:at+furtherBytes]...)
	}
	return dst
}

// keys changes the posting lists of index terms and the vectors of a document.
func (b *builder) keys(number uint64, c change) {
	for _, term := range c.removed {
		b.writer.key = storage.TermKey(b.writer.key[:0], term)
		b.check(b.batch.RemovePosting(b.writer.key, number))
	}
	for _, term := range c.added {
		b.writer.key = storage.TermKey(b.writer.key[:0], term)
		b.check(b.batch.AddPosting(b.writer.key, number))
	}
	for _, id := range c.dropped {
		b.writer.key = storage.VectorKey(b.writer.key[:0], id, number)
		b.check(b.batch.Delete(b.writer.key))
	}
	for _, v := range c.put {
		b.writer.key = storage.VectorKey(b.writer.key[:0], v.ID, number)
		b.check(b.batch.Set(b.writer.key, v.Stored))
	}
}

// totals writes the 'q' row, which a logical partition without documents has not.
func (b *builder) totals(r *request, t totals) {
	w := b.writer
	w.key = storage.LogicalKey(w.key[:0], r.write.EPK, r.hash)
	if t.items == 0 {
		b.check(b.batch.Delete(w.key))
		return
	}
	w.cell = t.append(w.cell[:0])
	b.check(b.batch.Set(w.key, w.cell))
}

func (b *builder) state(s state) {
	w := b.writer
	w.key = storage.MetaKey(w.key[:0], metaState)
	w.cell = s.append(w.cell[:0])
	b.check(b.batch.Set(w.key, w.cell))
}
