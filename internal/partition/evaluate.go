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

// evaluate decides what a request does and proposes the effect. The answers are
// in its operations, and certain when its proposal is, if it has one. An error is
// the world's trouble.
func (p *Partition) evaluate(r *request, now *published) error {
	if r.aside != nil {
		return r.aside(r)
	}
	return p.transact(r, now)
}

// transact carries out the operations of a request and proposes the effect.
func (p *Partition) transact(r *request, now *published) error {
	tx := &p.writer.tx
	tx.begin(p, now, r.epk, r.key, r.hash)
	defer tx.end()
	commits, err := r.do(tx)
	if err == nil && commits {
		f, err := tx.commit()
		if err == nil {
			r.proposal, r.lsn = f.proposal, f.lsn
		}
		return err
	}
	if tx.rests != nil {
		r.proposal = tx.rests.proposal
	}
	return err
}

// do carries out the operations as far as the unity of the request goes, and
// reports whether there is something to commit.
func (r *request) do(tx *transaction) (commits bool, err error) {
	room := r.answerMax
	for i := range r.operations {
		op := &r.operations[i]
		if op.err == nil {
			op.err = r.one(tx, op, &room)
		}
		if op.err != nil && status.From(op.err) == nil {
			return false, op.err
		}
		r.charge += op.charge
		if op.err == nil || status.CodeOf(op.err) == status.CodeNotModified {
			continue
		}
		r.refused = true
		switch r.unity {
		case Atomic:
			r.charge = op.charge
			dependent(r.operations[:i])
			dependent(r.operations[i+1:])
			return false, nil
		case UpTo:
			dependent(r.operations[i+1:])
			return tx.versions > 0, nil
		}
	}
	return tx.versions > 0, nil
}

// one carries out one operation. room is what the answer still has for documents:
// one operation may go beyond it when it cannot be undone.
func (r *request) one(tx *transaction, op *operation, room *int) error {
	if r.answerMax == 0 {
		return tx.do(op)
	}
	long := func() error {
		return status.TooLarge("Response size is too large: the documents of the answer are longer than %d bytes.", r.answerMax)
	}
	if *room <= 0 {
		return long()
	}
	if err := tx.do(op); err != nil {
		return err
	}
	if op.answers() {
		*room -= tx.p.render.size(op.size(), op.version.ts)
	}
	if *room < 0 && (r.unity == Atomic || op.ask.Op == Fetch) {
		return long()
	}
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

// quota refuses a write that makes a logical partition larger than it may be.
// One that does not make it larger goes ahead, so that a full one, or one from
// the time of a higher limit, can be emptied.
func (p *Partition) quota(grown, bytes int64) *status.Error {
	limit := p.limits().LogicalPartitionBytes
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

// cost is the charge of a change. A vector counts as a term, and so do the values
// of a unique key.
func (op *operation) cost(before *current, m *move) float64 {
	c := &m.change
	removed, added := len(c.removed)+len(c.dropped)+m.freed, len(c.added)+len(c.put)+m.claimed
	if m.ahead != nil {
		removed, added = removed+m.ahead.removed, added+m.ahead.added
	}
	switch {
	case !before.exists:
		return throughput.Insert(op.size(), added)
	case op.row == nil:
		return throughput.Delete(before.size(), removed)
	}
	return throughput.Replace(before.size(), op.size(), removed+added)
}

// builder writes the rows of an effect.
type builder struct {
	batch  *storage.Batch
	writer *writer // for its scratch
	sorted bool    // the rows of an edit are kept apart, in the order of their keys
	err    error
}

func (b *builder) check(err error) {
	if b.err == nil {
		b.err = err
	}
}

// remove takes away the rows of the version in front of a transaction.
func (b *builder) remove(tx *transaction, e *edit) {
	if !e.existed {
		return
	}
	w := b.writer
	w.key = storage.FeedKey(w.key[:0], uint64(e.before.lsn), e.before.ordinal, e.before.seq)
	b.check(b.batch.Delete(w.key))
	if at, ok := e.before.expiry(); ok {
		w.key = storage.ExpiryKey(w.key[:0], at, e.number)
		b.check(b.batch.Delete(w.key))
	}
	if e.leaves() {
		w.key = append(w.key[:0], e.beforeKey...)
		b.check(b.batch.Delete(w.key))
	}
	if e.row == nil {
		w.key = storage.RIDKey(w.key[:0], e.number)
		b.check(b.batch.Delete(w.key))
		b.prefixes(tx.epk, e.number, tx.p, b.batch.RemovePosting)
	}
}

// enter writes the rows of the version behind a transaction: 'd', 'r', 'l' and
// 'f', and 'x' if it has a time to live, and changes the index. A document that came and went leaves no row.
func (b *builder) enter(tx *transaction, e *edit) {
	w := b.writer
	if e.row != nil {
		w.key = append(w.key[:0], e.key...)
		b.check(b.batch.Set(w.key, e.row))
		b.expiry(e)
		if !e.existed || e.leaves() {
			w.cell = append(w.cell[:0], e.key[1:]...)
			w.key = storage.RIDKey(w.key[:0], e.number)
			b.check(b.batch.Set(w.key, w.cell))
		}
		if !e.existed {
			b.prefixes(tx.epk, e.number, tx.p, b.batch.AddPosting)
		}
		w.key = storage.FeedKey(w.key[:0], uint64(e.lsn), e.ordinal, e.seq)
		w.cell = appendFeedValue(w.cell[:0], e.number, string(tx.epk), tx.p.epkWidth)
		b.check(b.batch.Set(w.key, w.cell))
	}
	c := e.moved()
	if e.ahead == nil && !b.sorted && len(c.removed)+len(c.added) >= heavyTerms {
		var err error
		e.ahead, err = c.apart(e.number)
		b.check(err)
	}
	b.sorted = b.sorted || e.ahead != nil
	b.keys(e.number, c)
}

// expiry writes the 'x' row of a document with a time to live of its own.
func (b *builder) expiry(e *edit) {
	d, err := decodeDocument(e.row)
	b.check(err)
	if at, ok := d.expiry(); ok {
		b.writer.key = storage.ExpiryKey(b.writer.key[:0], at, e.number)
		b.check(b.batch.Set(b.writer.key, nil))
	}
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

// splice adds the rows that were made ahead.
func (b *builder) splice(tx *transaction) {
	for i := range tx.edits {
		e := &tx.edits[i]
		if e.ahead == nil || b.err != nil {
			continue
		}
		all, err := e.ahead.splice(b.batch, e.number)
		b.check(errors.Join(err, b.batch.Close()))
		b.batch = all
	}
}

// totals writes the 'q' row, which a logical partition without documents has not.
func (b *builder) totals(tx *transaction) {
	w := b.writer
	w.key = storage.LogicalKey(w.key[:0], tx.epk, tx.hash)
	if tx.total.items == 0 {
		b.check(b.batch.Delete(w.key))
		return
	}
	w.cell = tx.total.append(w.cell[:0])
	b.check(b.batch.Set(w.key, w.cell))
}

func (b *builder) state(s state) {
	w := b.writer
	w.key = storage.MetaKey(w.key[:0], metaState)
	w.cell = s.append(w.cell[:0])
	b.check(b.batch.Set(w.key, w.cell))
}
