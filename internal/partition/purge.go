package partition

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/partition/scan"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/partitionkey"
)

// A purge deletes all documents of a partition key, or of a prefix of one, that exist
// at its place in the order of effects. If they are few and of one full key, the effect
// of the purge deletes them. Otherwise the effect writes a mark, which hides them at
// once as expiry does, and Clear deletes them later and then the mark.

// Purge asks for the deletion of all documents of a key.
type Purge struct {
	Generation resource.Generation // of the partition as the caller knows it

	// Key is a full partition key or a prefix of one, and Range has the hashed keys of
	// its documents. Any part of it outside the partition belongs to other partitions.
	// The caller has checked both.
	Key   partitionkey.Key
	Range partitionkey.Range

	// Meter receives the charge of the documents that are deleted at once, or of the
	// mark. Clear charges what it deletes.
	Meter *throughput.Meter
}

// Purged is the result of a Purge.
type Purged struct {
	Deleted int          // documents that were deleted at once
	Marked  bool         // the documents are hidden, and Clear will delete them
	LSN     resource.LSN // of the effect, or of the state that was read; set with an error as well
}

const (
	// purgeBytesMax is the greatest size of documents that are deleted at once. It is
	// small compared with the size of the proposed effects.
	purgeBytesMax = 4 << 20

	// purgesMax is the greatest number of marks: each reader compares each document
	// with all of them.
	purgesMax = 256

	// purgeRetryAfter is the retry time for a client when there are so many: Clear is
	// called about once per second.
	purgeRetryAfter = time.Second
)

// Purge deletes the documents of a key and returns when that is durable: no later read
// or query sees them, and later writes to the key stay. Errors are those of
// [Partition.Write], and TooManyRequests while too many keys wait for Clear.
func (p *Partition) Purge(ctx context.Context, ask Purge) (Purged, error) {
	extent, overlaps := ask.Range.Intersect(p.own.Range)
	if ask.Generation != p.own.Generation || !overlaps {
		return Purged{LSN: p.LSN()}, status.PartitionMoved(status.SubRangeGone)
	}
	mark := layout.Mark{Extent: extent, Key: ask.Key.AppendCanonical(nil, p.own.Key)}
	full := ask.Key.Len() == p.own.Key.Levels()
	var done Purged
	r := p.alone(mark, func(r *request, now *published) error { return p.purge(r, now, mark, full, &done) })
	r.epk, r.meter, r.atomicity = ask.Range.Min, ask.Meter, Each // The bytes of the EPK, as rows have it.
	err := p.submit(ctx, r)
	if err == nil {
		err = r.err
	}
	if err != nil {
		return Purged{LSN: p.LSN()}, err
	}
	if done.LSN = r.lsn; done.LSN == 0 {
		done.LSN = p.LSN()
	} else {
		p.served.writes.Add(1)
	}
	return done, nil
}

// alone returns a request for which the writer calls do when it has no proposed effects:
// the published state then has all earlier writes.
func (p *Partition) alone(mark layout.Mark, do func(r *request, now *published) error) *request {
	r := &request{epk: mark.Extent.Min, key: mark.Key, hash: layout.KeyHash(mark.Key), evaluated: make(chan struct{})}
	r.task = func(r *request) error {
		p.drain()
		now, err := p.acquire()
		if err != nil {
			return err
		}
		defer p.release(now)
		return do(r, now)
	}
	return r
}

// purge deletes the documents of a key, or marks them.
func (p *Partition) purge(r *request, now *published, mark layout.Mark, full bool, done *Purged) error {
	some, few, err := p.purgeable(now, r, &mark, full)
	switch {
	case err != nil:
		return fmt.Errorf("partition %v: %w", p.config.Ref, err)
	case !some:
		r.charge = throughput.Miss
		return nil
	case few:
		err := p.purgeFew(now, r)
		done.Deleted = len(r.operations)
		return err
	}
	done.Marked = true
	return p.mark(now, r, mark)
}

// purgeable reports whether a key has documents, and whether they are few and of one
// full key.
func (p *Partition) purgeable(now *published, r *request, mark *layout.Mark, full bool) (some, few bool, err error) {
	if full {
		row, found, err := now.Rows.Get(nil, r.logical())
		if err != nil || !found {
			return false, false, err
		}
		t, err := layout.DecodeTotals(row)
		return t.Items > 0, t.Items <= p.steps.purgeMax && t.Bytes <= purgeBytesMax, err
	}
	low, high := mark.Bounds(p.own.Range, p.own.Width, storage.FamilyLogical)
	rows := now.Rows.Iter(low, high)
	some = rows.First()
	return some, false, rows.Close()
}

// purgeFew deletes the documents of a full key in one effect, except for hidden ones,
// which Expire or Clear deletes.
func (p *Partition) purgeFew(now *published, r *request) (err error) {
	prefix := storage.DocumentKey(nil, r.epk, r.hash, "")
	rows := now.Rows.Iter(prefix, layout.PrefixEnd(prefix))
	hidden := p.reader.Horizon(&now.Snapshot)
	for valid := rows.First(); valid; valid = rows.Next() {
		d, err := layout.DecodeDocument(rows.Value())
		if err != nil {
			return errors.Join(fmt.Errorf("partition %v: %w", p.config.Ref, err), rows.Close())
		}
		if hidden.Hides(&d) {
			continue
		}
		r.operations = append(r.operations, deletion(string(rows.Key()), now))
	}
	if err := rows.Close(); err != nil {
		return fmt.Errorf("partition %v: %w", p.config.Ref, err)
	}
	if len(r.operations) == 0 {
		r.charge = throughput.Miss
		return nil
	}
	return p.transact(r, now)
}

// deletion returns an operation that deletes the document with a row key.
func deletion(key string, now *published) operation {
	op := operation{documents: [2]string{key, key}, indexing: now.Indexing, silent: true}
	op.ask.Op = Delete
	return op
}

// mark adds a mark to those of the partition, and removes those that it covers.
func (p *Partition) mark(now *published, r *request, mark layout.Mark) error {
	mark.LSN = p.writer.next.LSN + 1
	next := slices.DeleteFunc(slices.Clone(now.Marks), func(old layout.Mark) bool { return bytes.HasPrefix(old.Key, mark.Key) })
	if len(next) >= purgesMax {
		return status.TooManyRequests(0, purgeRetryAfter, "The documents of %d partition keys are being deleted. Try again later.", len(next))
	}
	r.charge = throughput.Delete(0, 0)
	return p.setPurges(r, now, append(next, mark))
}

// setPurges proposes an effect that changes the marks and no document, and waits for
// it. There must be no other proposed effects.
func (p *Partition) setPurges(r *request, now *published, list layout.Marks) error {
	w := &p.writer
	if err := p.loadKept(now); err != nil {
		return err
	}
	next := w.next
	next.LSN++
	if next.Purged = next.LSN; len(list) == 0 {
		next.Purged = 0
	}
	b := builder{batch: p.config.Store.NewBatch(), writer: w}
	w.key = storage.MetaKey(w.key[:0], layout.MetaPurges)
	if len(list) == 0 {
		b.check(b.batch.Delete(w.key))
	} else {
		b.check(b.batch.Set(w.key, list.Append(nil)))
	}
	b.state(next)
	keeping := w.keeping
	if p.config.Container().Retention > 0 {
		keeping.list = p.beginKept(keeping.list, next.LSN)
		b.kept(w.keeping.list, keeping.list)
	}
	b.under(p)
	if b.err != nil {
		return errors.Join(b.err, b.batch.Close())
	}
	f := p.propose(b.batch, next.LSN, 0, 0)
	w.next, w.keeping = next, keeping
	r.proposal, r.lsn = f.proposal, next.LSN
	<-f.proposal.Done()
	p.reap()
	return nil
}

// Purging returns the number of keys, and prefixes of keys, whose documents wait for
// Clear.
func (p *Partition) Purging() int {
	now, err := p.acquire()
	if err != nil {
		return 0
	}
	defer p.release(now)
	return len(now.Marks)
}

// Clear deletes documents that a Purge has hidden, for about units request units;
// infinity is no limit. It returns the number of deleted documents, at most ExpireMax.
// When a mark hides no more documents, Clear removes it. The documents of each key are
// one effect, which waits in the queue like other writes. meter receives the charge;
// nil drops it.
//
// Errors are those of [Partition.Write]. Documents that were not deleted stay hidden,
// and the next call finds them again.
func (p *Partition) Clear(ctx context.Context, meter *throughput.Meter, units float64) (deleted int, err error) {
	now, err := p.acquire()
	if err != nil {
		return 0, err
	}
	defer p.release(now)
	most := affordable(units)
	if len(now.Marks) == 0 || most == 0 {
		return 0, nil
	}
	mark := now.Marks[0]
	all := deletions{now: now, meter: meter}
	next, err := p.marked(ctx, now, &mark, most, &all)
	if err != nil {
		return 0, fmt.Errorf("clear documents of partition %v: %w", p.config.Ref, err)
	}
	if deleted, err = p.delete(ctx, all.requests); err != nil {
		return deleted, err
	}
	p.served.cleared.Add(int64(deleted))
	if next == nil {
		return deleted, p.unmark(ctx, mark)
	}
	p.clearing.Store(&clearing{lsn: mark.LSN, at: next})
	return deleted, nil
}

// clearing is the progress of Clear with the mark of an LSN: the mark hides no
// documents below the row key at.
type clearing struct {
	lsn resource.LSN
	at  []byte
}

// marked adds at most most documents that a mark hides to all. It returns the row key
// at which the next call continues, nil if there are no more. It does not read rows
// again that Clear has passed, because later writes have later LSNs.
func (p *Partition) marked(ctx context.Context, now *published, mark *layout.Mark, most int, all *deletions) (next []byte, err error) {
	low, high := mark.Bounds(p.own.Range, p.own.Width, storage.FamilyDocument)
	if c := p.clearing.Load(); c != nil && c.lsn == mark.LSN {
		low = c.at
	}
	rows := now.Rows.Iter(low, high)
	defer func() { err = errors.Join(err, rows.Close()) }()
	found, n := 0, 0
	for valid := rows.First(); valid; valid = rows.Next() {
		if n++; scan.Stopped(ctx, n) != nil {
			return nil, scan.Stopped(ctx, n)
		}
		d, err := layout.DecodeDocument(rows.Value())
		if err != nil {
			return nil, err
		}
		if !mark.Hides(&d) {
			continue
		}
		if found++; found > most {
			return bytes.Clone(rows.Key()), nil
		}
		if err := all.add(rows.Key(), &d); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// unmark removes a mark that hides no documents any more.
func (p *Partition) unmark(ctx context.Context, mark layout.Mark) error {
	r := p.alone(mark, func(r *request, now *published) error {
		// Another mark may have replaced it.
		rest := slices.DeleteFunc(slices.Clone(now.Marks), func(m layout.Mark) bool { return m.LSN == mark.LSN })
		if len(rest) == len(now.Marks) {
			return nil
		}
		return p.setPurges(r, now, rest)
	})
	err := p.submit(ctx, r)
	if err == nil {
		err = r.err
	}
	return err
}
