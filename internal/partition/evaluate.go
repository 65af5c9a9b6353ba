package partition

import (
	"context"
	"errors"
	"fmt"

	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/partitionkey"
)

// evaluate evaluates a request and proposes its effect. The results are in its
// operations, and are certain when its proposal is, if it has one. The error is that of
// a request that failed, not of a refused operation.
func (p *Partition) evaluate(r *request, now *published) error {
	if r.task != nil {
		return r.task(r)
	}
	if r.change != nil {
		return p.changeItems(r, now)
	}
	return p.transact(r, now)
}

// transact executes the operations of a request and proposes the effect.
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

// do executes the operations as the atomicity of the request says, and reports whether
// there is a change to commit.
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
		switch r.atomicity {
		case Atomic:
			r.refuseAll(i)
			return false, nil
		case UpTo:
			dependent(r.operations[i+1:])
			return tx.versions > 0, nil
		}
	}
	return tx.versions > 0, nil
}

// refuseAll undoes an atomic request because of the operation at a position. If the
// answer is too long, the last operation has the error, as in the service, and the
// charge of all that were executed.
func (r *request) refuseAll(at int) {
	op := &r.operations[at]
	if !r.long {
		r.charge = op.charge
	} else {
		err := op.err
		at = len(r.operations) - 1
		op = &r.operations[at]
		op.err, op.charge = err, r.charge
	}
	dependent(r.operations[:at])
	dependent(r.operations[at+1:])
}

// one executes one operation. room is the number of bytes that documents may still have
// in the answer. An operation that cannot be undone may exceed it.
func (r *request) one(tx *transaction, op *operation, room *int) error {
	if r.answerMax == 0 {
		return tx.do(op)
	}
	long := func() error {
		r.long = true
		return status.TooLarge("Response size is too large: the documents of the answer are longer than %d bytes.", r.answerMax)
	}
	if *room <= 0 {
		return long()
	}
	if err := tx.do(op); err != nil {
		return err
	}
	if op.answers() {
		*room -= tx.p.own.Render.Size(op.size(), op.version.TS)
	}
	if *room < 0 && (r.atomicity == Atomic || op.ask.Op == Fetch) {
		return long()
	}
	return nil
}

// propose proposes rows to the group and keeps them until their result is known.
func (p *Partition) propose(batch *storage.Batch, lsn resource.LSN, items, bytes int64) *flight {
	f := &flight{lsn: lsn, batch: batch}
	// The effect does not belong to a caller any more, so no context may end it.
	f.proposal = p.config.Group.Propose(context.Background(), p.config.Ref, replication.Effect{
		Generation: p.own.Generation,
		LSN:        lsn,
		Rows:       batch.Repr(),
		Items:      items,
		Bytes:      bytes,
	})
	p.writer.overlay.add(f)
	return f
}

// quota refuses a write by which a logical partition would exceed its limit: grown is
// its growth, bytes its size after the write. A write without growth is accepted, so
// that documents can be deleted or shortened after the limit was lowered.
func (p *Partition) quota(grown, bytes int64) *status.Error {
	limit := p.limits().LogicalPartitionBytes
	if grown <= 0 || bytes <= limit {
		return nil
	}
	return status.Forbidden(status.SubPartitionKeyQuota,
		"Partition key reached maximum size of %s. The documents of one full partition key would have %d bytes, and at most %d are allowed. Delete some, or use a key with more values, such as a further level of a hierarchical key.",
		sizeText(limit), bytes, limit)
}

// sizeText returns a size with a unit, such as 20 GB.
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

// cost returns the charge of a change. A vector counts as a term, and so do the values
// of a unique key.
func (op *operation) cost(before *current, m *move) float64 {
	c := &m.change
	removed, added := len(c.Removed)+len(c.Dropped)+m.freed, len(c.Added)+len(c.Put)+m.claimed
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
	err    error
}

// check keeps the first error.
func (b *builder) check(err error) {
	if b.err == nil {
		b.err = err
	}
}

// remove deletes the rows of the version before a transaction.
func (b *builder) remove(tx *transaction, e *edit) {
	if !e.existed {
		return
	}
	w := b.writer
	w.key = storage.FeedKey(w.key[:0], uint64(e.before.LSN), e.before.Ordinal, e.before.Seq)
	b.check(b.batch.Delete(w.key))
	if at, ok := e.before.Expiry(); ok {
		w.key = storage.ExpiryKey(w.key[:0], at, e.Number)
		b.check(b.batch.Delete(w.key))
	}
	if e.leaves() {
		w.key = append(w.key[:0], e.beforeKey...)
		b.check(b.batch.Delete(w.key))
	}
	if e.row == nil {
		w.key = storage.RIDKey(w.key[:0], e.Number)
		b.check(b.batch.Delete(w.key))
		b.prefixes(tx.epk, e.Number, tx.p, b.batch.RemovePosting)
	}
}

// enter writes the rows of the version after a transaction: 'd', 'r', 'l' and 'f', and
// 'x' if it has its own time to live, and changes the index. A document that the
// transaction has created and deleted has none.
func (b *builder) enter(tx *transaction, e *edit) {
	w := b.writer
	if e.row != nil {
		w.key = append(w.key[:0], e.key...)
		b.check(b.batch.Set(w.key, e.row))
		b.expiry(e)
		if !e.existed || e.leaves() {
			w.cell = append(w.cell[:0], e.key[1:]...)
			w.key = storage.RIDKey(w.key[:0], e.Number)
			b.check(b.batch.Set(w.key, w.cell))
		}
		if !e.existed {
			b.prefixes(tx.epk, e.Number, tx.p, b.batch.AddPosting)
		}
		w.key = storage.FeedKey(w.key[:0], uint64(e.LSN), e.Ordinal, e.Seq)
		w.cell = layout.AppendFeedValue(w.cell[:0], e.Number, string(tx.epk), tx.p.own.Width)
		b.check(b.batch.Set(w.key, w.cell))
	}
	c := e.moved()
	if e.ahead == nil && len(c.Removed)+len(c.Added) >= heavyTerms {
		var err error
		e.ahead, err = apart(&c, e.Number)
		b.check(err)
	}
	b.keys(e.Number, c)
}

// expiry writes the 'x' row of a document with its own time to live.
func (b *builder) expiry(e *edit) {
	d, err := layout.DecodeDocument(e.row)
	b.check(err)
	if at, ok := d.Expiry(); ok {
		b.writer.key = storage.ExpiryKey(b.writer.key[:0], at, e.Number)
		b.check(b.batch.Set(b.writer.key, nil))
	}
}

// prefixes changes the posting lists of the levels above the full key.
func (b *builder) prefixes(epk partitionkey.EPK, number uint64, p *Partition, change func(list []byte, number uint64) error) {
	for level := 1; level*layout.LevelBytes < p.own.Width; level++ {
		b.writer.key = storage.PrefixKey(b.writer.key[:0], level, epk[:level*layout.LevelBytes])
		b.check(change(b.writer.key, number))
	}
}

// keys changes the posting lists of index terms and the vectors of a document.
func (b *builder) keys(number uint64, c layout.Change) {
	for _, term := range c.Removed {
		b.writer.key = storage.TermKey(b.writer.key[:0], term)
		b.check(b.batch.RemovePosting(b.writer.key, number))
	}
	for _, term := range c.Added {
		b.writer.key = storage.TermKey(b.writer.key[:0], term)
		b.check(b.batch.AddPosting(b.writer.key, number))
	}
	for _, id := range c.Dropped {
		b.writer.key = storage.VectorKey(b.writer.key[:0], id, number)
		b.check(b.batch.Delete(b.writer.key))
	}
	for _, v := range c.Put {
		b.writer.key = storage.VectorKey(b.writer.key[:0], v.ID, number)
		b.check(b.batch.Set(b.writer.key, v.Stored))
	}
}

// splice adds the rows of the edits' aheads.
func (b *builder) splice(tx *transaction) {
	var aheads []*ahead
	for i := range tx.edits {
		e := &tx.edits[i]
		if e.ahead == nil {
			continue
		}
		b.check(e.ahead.renumber(e.Number))
		aheads = append(aheads, e.ahead)
	}
	if len(aheads) == 0 || b.err != nil {
		return
	}
	all, err := splice(b.batch, aheads)
	b.check(errors.Join(err, b.batch.Close()))
	b.batch = all
}

// totals writes the 'q' row, or deletes that of an empty logical partition.
func (b *builder) totals(tx *transaction) {
	w := b.writer
	w.key = storage.LogicalKey(w.key[:0], tx.epk, tx.hash)
	if tx.total.Items == 0 {
		b.check(b.batch.Delete(w.key))
		return
	}
	w.cell = tx.total.Append(w.cell[:0])
	b.check(b.batch.Set(w.key, w.cell))
}

// state writes the state.
func (b *builder) state(s layout.State) {
	w := b.writer
	w.key = storage.MetaKey(w.key[:0], layout.MetaState)
	w.cell = s.Append(w.cell[:0])
	b.check(b.batch.Set(w.key, w.cell))
}
