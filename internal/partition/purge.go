package partition

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/partitionkey"
)

// A purge deletes all documents of a partition key, or of a prefix of one, that
// are there at its place in the order of effects. Few of one full key are deleted
// in that one effect. Otherwise the effect leaves a mark, which hides them from
// everyone at once, as a time to live that is over does, and Clear deletes them
// some time later and then the mark.

// Purge asks for all documents of a key to be deleted.
type Purge struct {
	Generation resource.Generation // of the partition as the caller knows it

	// Key is a full partition key or a prefix of one, and Range holds the hashed
	// keys of its documents. What of it lies outside the partition is another
	// partition's. The caller has checked both.
	Key   partitionkey.Key
	Range partitionkey.Range

	// Meter receives the charge of what is deleted at once, or of the mark. What
	// Clear deletes is charged there.
	Meter *throughput.Meter
}

// Purged is what came of a Purge.
type Purged struct {
	Deleted int          // documents that were deleted at once
	Marked  bool         // those there are have been hidden, and wait for Clear
	LSN     resource.LSN // of the effect, or of what was seen when there is none; also set with an error
}

const (
	// purgeBytesMax is how many bytes of documents are deleted at once: little
	// beside what may be on its way.
	purgeBytesMax = 4 << 20

	// purgesMax is how many marks a partition has: each reader of a document
	// compares it with all of them.
	purgesMax = 256

	// purgeRetryAfter is what a client is told when there are as many: Clear is
	// called about once in a second.
	purgeRetryAfter = time.Second
)

// Purge deletes the documents of a key and returns when that is durable: no read
// and no query that begins afterwards sees them, and what is written under the key
// from then on stays. Errors are those of [Partition.Write], and TooManyRequests
// while very many keys wait for Clear.
func (p *Partition) Purge(ctx context.Context, ask Purge) (Purged, error) {
	extent, overlaps := ask.Range.Intersect(p.descriptor.Range)
	if ask.Generation != p.descriptor.Generation || !overlaps {
		return Purged{LSN: p.LSN()}, status.PartitionMoved(status.SubRangeGone)
	}
	mark := purge{extent: extent, key: ask.Key.AppendCanonical(nil, p.descriptor.Key)}
	full := ask.Key.Len() == p.descriptor.Key.Levels()
	var done Purged
	r := p.alone(mark, func(r *request, now *published) error { return p.purge(r, now, mark, full, &done) })
	r.epk, r.meter, r.unity = ask.Range.Min, ask.Meter, Each // The bytes of the EPK, as rows have it.
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
		p.writes.Add(1)
	}
	return done, nil
}

// alone returns a request that has the writer do something while nothing is on its
// way: what is published has everything before it.
func (p *Partition) alone(mark purge, do func(r *request, now *published) error) *request {
	r := &request{epk: mark.extent.Min, key: mark.key, hash: keyHash(mark.key), evaluated: make(chan struct{})}
	r.aside = func(r *request) error {
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
func (p *Partition) purge(r *request, now *published, mark purge, full bool, done *Purged) error {
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

// purgeable reports whether there are documents of a key, and whether they are few
// and of one full key.
func (p *Partition) purgeable(now *published, r *request, mark *purge, full bool) (some, few bool, err error) {
	if full {
		row, found, err := now.snapshot.Get(nil, r.logical())
		if err != nil || !found {
			return false, false, err
		}
		t, err := decodeTotals(row)
		return t.items > 0, t.items <= p.strategy.purgeMax && t.bytes <= purgeBytesMax, err
	}
	low, high := mark.bounds(p, storage.FamilyLogical)
	rows := now.snapshot.Iter(low, high)
	some = rows.First()
	return some, false, rows.Close()
}

// purgeFew deletes the documents of a full key in one effect. Those that are
// hidden already are left to whoever hides them.
func (p *Partition) purgeFew(now *published, r *request) (err error) {
	prefix := storage.DocumentKey(nil, r.epk, r.hash, "")
	rows := now.snapshot.Iter(prefix, after(prefix))
	hidden := p.horizon(now)
	for valid := rows.First(); valid; valid = rows.Next() {
		d, err := decodeDocument(rows.Value())
		if err != nil {
			return errors.Join(fmt.Errorf("partition %v: %w", p.config.Ref, err), rows.Close())
		}
		if hidden.passed(&d) {
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

// deletion is the operation that deletes the document of a row.
func deletion(key string, now *published) operation {
	op := operation{documents: [2]string{key, key}, indexing: now.indexing, silent: true}
	op.ask.Op = Delete
	return op
}

// mark adds a mark to those of the partition, in the place of those that it
// covers.
func (p *Partition) mark(now *published, r *request, mark purge) error {
	mark.lsn = p.writer.next.lsn + 1
	next := slices.DeleteFunc(slices.Clone(now.purges), func(old purge) bool { return bytes.HasPrefix(old.key, mark.key) })
	if len(next) >= purgesMax {
		return status.TooManyRequests(0, purgeRetryAfter, "The documents of %d partition keys are being deleted. Try again later.", len(next))
	}
	r.charge = throughput.Delete(0, 0)
	return p.setPurges(r, now, append(next, mark))
}

// setPurges proposes an effect that changes the marks and no document, and waits
// for it. Nothing else may be on its way.
func (p *Partition) setPurges(r *request, now *published, list purges) error {
	w := &p.writer
	if err := p.knowKept(now); err != nil {
		return err
	}
	next := w.next
	next.lsn++
	if next.purged = next.lsn; len(list) == 0 {
		next.purged = 0
	}
	b := builder{batch: p.config.Store.NewBatch(), writer: w}
	w.key = storage.MetaKey(w.key[:0], metaPurges)
	if len(list) == 0 {
		b.check(b.batch.Delete(w.key))
	} else {
		b.check(b.batch.Set(w.key, list.append(nil)))
	}
	b.state(next)
	keeping := w.keeping
	if p.config.Container().Retention > 0 {
		keeping.list = p.keptBefore(keeping.list, next.lsn)
		b.kept(w.keeping.list, keeping.list)
	}
	b.under(p)
	if b.err != nil {
		return errors.Join(b.err, b.batch.Close())
	}
	f := p.propose(b.batch, next.lsn, 0, 0)
	w.next, w.keeping = next, keeping
	r.proposal, r.lsn = f.proposal, next.lsn
	<-f.proposal.Done()
	p.reap()
	return nil
}

// Purging returns how many keys, and prefixes of keys, have documents that wait
// for Clear.
func (p *Partition) Purging() int {
	now, err := p.acquire()
	if err != nil {
		return 0
	}
	defer p.release(now)
	return len(now.purges)
}

// Clear deletes documents that a Purge has hidden, for about that many request
// units, which are infinite for no limit, and returns how many it has deleted. At
// most ExpireMax are in one call, and when there are none any more of a key its
// mark goes as well. Each key's are one effect, as any write makes, so they wait
// with all others in the queue. meter receives the charge; nil drops it.
//
// Errors are those of [Partition.Write]; what could not be deleted stays hidden
// and is found again by the next call.
func (p *Partition) Clear(ctx context.Context, meter *throughput.Meter, units float64) (deleted int, err error) {
	now, err := p.acquire()
	if err != nil {
		return 0, err
	}
	defer p.release(now)
	most := affordable(units)
	if len(now.purges) == 0 || most == 0 {
		return 0, nil
	}
	mark := now.purges[0]
	all := deletions{now: now, meter: meter}
	next, err := p.marked(ctx, now, &mark, most, &all)
	if err != nil {
		return 0, fmt.Errorf("clear documents of partition %v: %w", p.config.Ref, err)
	}
	if deleted, err = p.carryOut(ctx, all.requests); err != nil {
		return deleted, err
	}
	p.cleared.Add(int64(deleted))
	if next == nil {
		return deleted, p.unmark(ctx, mark)
	}
	p.clearing.Store(&clearing{lsn: mark.lsn, at: next})
	return deleted, nil
}

// clearing is how far Clear has come with the mark of an LSN: nothing that it
// hides is left below a row key.
type clearing struct {
	lsn resource.LSN
	at  []byte
}

// marked gathers documents that a mark hides, at most so many, and returns the row
// key to go on at, nil when there are no more. Clear never looks again at what it
// has passed: what is written since has a later LSN.
func (p *Partition) marked(ctx context.Context, now *published, mark *purge, most int, all *deletions) (next []byte, err error) {
	low, high := mark.bounds(p, storage.FamilyDocument)
	if c := p.clearing.Load(); c != nil && c.lsn == mark.lsn {
		low = c.at
	}
	rows := now.snapshot.Iter(low, high)
	defer func() { err = errors.Join(err, rows.Close()) }()
	found, n := 0, 0
	for valid := rows.First(); valid; valid = rows.Next() {
		if n++; stopped(ctx, n) != nil {
			return nil, stopped(ctx, n)
		}
		d, err := decodeDocument(rows.Value())
		if err != nil {
			return nil, err
		}
		if !mark.hides(&d) {
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

// unmark takes a mark away that hides nothing any more.
func (p *Partition) unmark(ctx context.Context, mark purge) error {
	r := p.alone(mark, func(r *request, now *published) error {
		// Another may have taken its place meanwhile.
		rest := slices.DeleteFunc(slices.Clone(now.purges), func(m purge) bool { return m.lsn == mark.lsn })
		if len(rest) == len(now.purges) {
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

// purge is a mark: documents of a key that changed last at an LSN or before it are
// hidden.
type purge struct {
	extent partitionkey.Range // of the hashed keys; a part may be another partition's since a split
	key    []byte             // canonical: of all levels, or of the first ones
	lsn    resource.LSN
}

// hides reports whether a document is to be deleted. Canonical components end
// themselves, so one key begins with another only where its levels do.
func (m *purge) hides(d *document) bool {
	return d.lsn <= m.lsn && bytes.HasPrefix(d.key, m.key)
}

// bounds returns the bounds of the rows of a family, whose keys begin with the
// EPK, that the mark is about. Under version 1 they hold a few more.
func (m *purge) bounds(p *Partition, f storage.Family) (low, high []byte) {
	extent, overlaps := m.extent.Intersect(p.descriptor.Range)
	if !overlaps {
		return []byte{byte(f)}, []byte{byte(f)}
	}
	low, high = keyBounds(extent, p.epkWidth)
	return append([]byte{byte(f)}, low...), append([]byte{byte(f)}, high...)
}

// purges are the marks of a partition, the oldest first.
type purges []purge

// hide reports whether one of the marks hides a document.
func (l purges) hide(d *document) bool {
	for i := range l {
		if l[i].hides(d) {
			return true
		}
	}
	return false
}

// concern reports whether documents of a canonical key may be hidden.
func (l purges) concern(key []byte) bool {
	return slices.ContainsFunc(l, func(m purge) bool { return bytes.HasPrefix(key, m.key) })
}

// overlap reports whether documents of a range may be hidden.
func (l purges) overlap(r partitionkey.Range) bool {
	return slices.ContainsFunc(l, func(m purge) bool { return m.extent.Overlaps(r) })
}

func (l purges) append(dst []byte) []byte {
	dst = append(dst, metaVersion)
	for _, m := range l {
		dst = binary.BigEndian.AppendUint64(dst, uint64(m.lsn))
		for _, part := range [][]byte{[]byte(m.extent.Min), []byte(m.extent.Max), m.key} {
			dst = binary.BigEndian.AppendUint16(dst, uint16(len(part)))
			dst = append(dst, part...)
		}
	}
	return dst
}

// decodePurges returns the marks in a row, whose bytes they share.
func decodePurges(row []byte) (l purges, err error) {
	const lsnBytes = 8
	damaged := fmt.Errorf("purges %.64x: %w", row, errMeta)
	if len(row) < 2 || row[0] != metaVersion {
		return nil, damaged
	}
	for rest := row[1:]; len(rest) > 0; {
		if len(rest) < lsnBytes {
			return nil, damaged
		}
		m := purge{lsn: resource.LSN(binary.BigEndian.Uint64(rest))}
		rest = rest[lsnBytes:]
		var parts [3][]byte
		for i := range parts {
			if len(rest) < 2 || len(rest)-2 < int(binary.BigEndian.Uint16(rest)) {
				return nil, damaged
			}
			end := 2 + int(binary.BigEndian.Uint16(rest))
			parts[i], rest = rest[2:end:end], rest[end:]
		}
		m.extent = partitionkey.Range{Min: partitionkey.EPK(parts[0]), Max: partitionkey.EPK(parts[1])}
		m.key = parts[2]
		if m.lsn == 0 || len(m.key) == 0 || m.extent.Empty() {
			return nil, damaged
		}
		l = append(l, m)
	}
	return l, nil
}

// readPurges reads the marks that a state says there are.
func readPurges(r reader, s state) (purges, error) {
	if s.purged == 0 {
		return nil, nil
	}
	row, found, err := r.Get(nil, storage.MetaKey(nil, metaPurges))
	if err == nil && !found {
		err = fmt.Errorf("row %s is missing: %w", metaPurges, errMeta)
	}
	if err != nil {
		return nil, err
	}
	return decodePurges(row)
}
