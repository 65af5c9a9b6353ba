package partition

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// A document expires a number of seconds after its last change: its own ttl, or
// else the container's default. It is gone for everyone from that second on, by
// a comparison with the clock, and Expire deletes it some time later.

// ttlProperty is the property in which a document has its own time to live.
const ttlProperty = "ttl"

// ttlOf returns the own time to live of a document: seconds, -1 for never, and
// zero when it has none. valid is false for a value that is neither.
func ttlOf(doc value.Value) (ttl int32, valid bool) {
	v := doc.Get(ttlProperty)
	if v.Kind() == value.KindUndefined {
		return 0, true
	}
	if !resource.ValidTTL(v) {
		return 0, false
	}
	n, _ := v.Int64()
	return int32(n), true
}

// validTTL refuses a time to live that means nothing, where one means something.
func (p *Partition) validTTL(doc value.Value) error {
	if _, valid := ttlOf(doc); valid || p.config.Container().DefaultTTL == 0 {
		return nil
	}
	return status.BadRequest("The value of 'ttl' of the document is not valid. It must be -1 or a positive integer of at most %d.", resource.TTLMax)
}

// horizon says which documents are hidden at one moment: those that have expired,
// and those that were purged. The zero value says that none is.
type horizon struct {
	ttl    int64 // of documents without one of their own; -1 for never, 0 when nothing expires
	now    int64 // seconds since 1970
	purges purges
}

func (p *Partition) horizon(now *published) horizon { return p.horizonAt(now, p.config.Certain) }

func (p *Partition) horizonAt(now *published, clock func() time.Time) horizon {
	h := horizon{purges: now.purges}
	if ttl := p.config.Container().DefaultTTL; ttl != 0 {
		h.ttl, h.now = int64(ttl), clock().Unix()
	}
	return h
}

// passed reports whether a document is there for nobody.
func (h *horizon) passed(d *document) bool {
	return len(h.purges) > 0 && h.purges.hide(d) || h.expired(d)
}

// expired reports whether the time to live of a document is over.
func (h *horizon) expired(d *document) bool {
	if h.ttl == 0 {
		return false
	}
	ttl := int64(d.ttl)
	if ttl == 0 {
		ttl = h.ttl
	}
	return ttl > 0 && d.ts+ttl <= h.now
}

// expiry is when a document with a time to live of its own expires, and false
// for one without, or that never does. Those have a row in 'x'.
func (d *document) expiry() (seconds uint64, ok bool) {
	return uint64(d.ts + int64(d.ttl)), d.ttl > 0
}

// expired returns the numbers of documents that have expired and are still there,
// at most so many. Those with a time to live of their own are found by their rows
// in 'x', the others by the terms of their times.
func (p *Partition) expired(ctx context.Context, now *published, h horizon, most int) (numbers []uint64, err error) {
	if h.ttl == 0 || most == 0 {
		return nil, nil
	}
	if numbers, err = expiredRows(now, h, most); err != nil || len(numbers) == most || h.ttl < 0 {
		return numbers, err
	}
	return p.expiredTerms(ctx, now, h, numbers, most)
}

// expiredRows looks at the rows of documents with a time to live of their own.
func expiredRows(now *published, h horizon, most int) (numbers []uint64, err error) {
	low, _ := storage.FamilyExpiry.Bounds()
	rows := now.snapshot.Iter(low, storage.ExpiryKey(nil, uint64(h.now)+1, 0))
	defer func() { err = errors.Join(err, rows.Close()) }()
	for valid := rows.First(); valid && len(numbers) < most; valid = rows.Next() {
		_, number, err := storage.DecodeExpiryKey(rows.Key())
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, number)
	}
	return numbers, nil
}

// expiredTerms looks at the documents that were written so long ago that those
// without a time to live of their own have expired. Where there are none any more
// it does not look again: whatever is written from now on has a later time.
func (p *Partition) expiredTerms(ctx context.Context, now *published, h horizon, numbers []uint64, most int) (_ []uint64, err error) {
	from, to := p.lasting.Load(), h.now-h.ttl
	low, indexed := now.indexing.active.Timestamp(from)
	high, _ := now.indexing.active.Timestamp(to + 1)
	if !indexed || now.indexing.Phase != settled || from > to {
		return numbers, nil
	}
	lists := now.snapshot.Lists(storage.TermKey(nil, low), storage.TermKey(nil, high))
	defer func() { err = errors.Join(err, lists.Close()) }()
	oldest := from // no document is older that may expire
	found := false
	for valid := lists.First(); valid; valid = lists.Next() {
		if ctx.Err() != nil {
			return numbers, context.Cause(ctx)
		}
		ts, exact := index.DecodeTerm(index.Term(lists.Key()[1:]))
		if at, ok := ts.Int64(); exact && ok && !found {
			oldest = at
		}
		before := len(numbers)
		if numbers, err = p.expiredOf(now, h, lists.Numbers(), numbers, most); err != nil {
			return numbers, err
		}
		found = found || len(numbers) > before
		if len(numbers) == most {
			break
		}
	}
	if !found {
		oldest = min(to+1, now.ts)
	}
	if oldest > from {
		p.lasting.CompareAndSwap(from, oldest)
	}
	return numbers, lists.Err()
}

// expiredOf appends the members of a set that have expired.
func (p *Partition) expiredOf(now *published, h horizon, set *storage.Postings, numbers []uint64, most int) (_ []uint64, err error) {
	defer func() { err = errors.Join(err, set.Close()) }()
	for number, ok := set.Next(); ok && len(numbers) < most; number, ok = set.Next() {
		_, d, err := p.documentOf(now, number)
		if err != nil {
			return numbers, err
		}
		if d != nil && d.ttl == 0 && h.expired(d) {
			numbers = append(numbers, number)
		}
	}
	return numbers, nil
}

// documentOf returns the document of a number and the key of its row, nil for
// none.
func (p *Partition) documentOf(now *published, number uint64) (key []byte, d *document, err error) {
	suffix, found, err := now.snapshot.Get(nil, storage.RIDKey(nil, number))
	if err != nil || !found {
		return nil, nil, err
	}
	key = storage.DocumentKeyOf(nil, suffix)
	row, found, err := now.snapshot.Get(nil, key)
	if err != nil || !found {
		return nil, nil, err
	}
	at, err := decodeDocument(row)
	return key, &at, err
}

// stale reports whether there are documents that have expired or been purged and
// still are in the index. Then its counts are too high. A failure counts as one:
// reading the documents will name it.
func (s *source) stale() bool {
	if s.now.purges.overlap(s.clip) {
		return true
	}
	numbers, err := s.p.expired(context.Background(), s.now, s.horizon, 1)
	return err != nil || len(numbers) > 0
}

// ExpireMax is how many documents one call of [Partition.Expire] deletes at most.
const ExpireMax = 500

// Expire deletes documents that have expired by Config.Removal, those with a time to live of their
// own first, for about that many request units, which are infinite for no limit. It
// returns how many it has deleted, ExpireMax when there may be more. Each key's are
// one effect, as any write makes, so they wait with all others in the queue. meter
// receives what clients would have been charged for the deletions; nil drops it. In
// a container where nothing expires it costs nothing.
//
// Errors are those of [Partition.Write]; what could not be deleted stays hidden
// and is found again by the next call.
func (p *Partition) Expire(ctx context.Context, meter *throughput.Meter, units float64) (deleted int, err error) {
	now, err := p.acquire()
	if err != nil {
		return 0, err
	}
	defer p.release(now)
	numbers, err := p.expired(ctx, now, p.horizonAt(now, p.config.Removal), affordable(units))
	if err != nil {
		return 0, fmt.Errorf("expire documents of partition %v: %w", p.config.Ref, err)
	}
	all := deletions{now: now, meter: meter}
	for _, number := range numbers {
		key, d, err := p.documentOf(now, number)
		if err == nil && d == nil {
			err = fmt.Errorf("document %d is missing: %w", number, errDocument)
		}
		if err == nil {
			err = all.add(key, d)
		}
		if err != nil {
			return 0, fmt.Errorf("expire documents of partition %v: %w", p.config.Ref, err)
		}
	}
	return p.carryOut(ctx, all.requests)
}

// affordable returns how many documents may be deleted for that many units.
func affordable(units float64) int {
	return int(math.Ceil(min(ExpireMax, max(0, units)/throughput.Delete(0, 0))))
}

// deletions gathers documents that nobody sees any more by their keys, which are
// written apart.
type deletions struct {
	now      *published
	meter    *throughput.Meter
	byKey    map[string]*request
	requests []*request
}

// add adds the document of a row, whose bytes it does not keep.
func (a *deletions) add(key []byte, d *document) error {
	epk, hash, _, err := storage.DecodeDocumentKey(key, d.epkSize)
	if err != nil {
		return err
	}
	logical := string(storage.LogicalKey(nil, epk, hash))
	r := a.byKey[logical]
	if r == nil {
		r = &request{epk: partitionkey.EPK(epk), key: bytes.Clone(d.key), hash: hash, unity: Each, meter: a.meter, evaluated: make(chan struct{})}
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

// carryOut hands requests of deletions to the writer, one behind the other, and
// returns how many documents are deleted.
func (p *Partition) carryOut(ctx context.Context, requests []*request) (deleted int, err error) {
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

// expire deletes a document that has expired. It is as if nobody had asked when
// it has not, as when it was written again.
func (tx *transaction) expire(op *operation, before *current) error {
	if !before.expired {
		return nil
	}
	before.exists = true
	return tx.change(op, before)
}

// erase takes a document that has expired out of the way of an operation that
// needs its id or its values. Its deletion has a place in the effect of its own.
func (tx *transaction) erase(key string, expired *current) error {
	row := append([]byte(nil), expired.row...) // The scratch is of others.
	d, err := decodeDocument(row)
	if err != nil {
		return fmt.Errorf("partition %v: %w", tx.p.config.Ref, err)
	}
	op := &operation{documents: [2]string{key, key}, indexing: tx.now.indexing}
	op.ask.Op = Delete
	return tx.change(op, &current{document: d, exists: true, row: row, edit: expired.edit})
}

// clearWay erases the expired documents that are in the way of an operation: that
// of its id, and those with values of unique keys that it wants.
func (tx *transaction) clearWay(op *operation, before *current) error {
	if tx.horizon.ttl == 0 && len(tx.horizon.purges) == 0 {
		return nil
	}
	if before.expired {
		if err := tx.erase(op.oldKey(), before); err != nil {
			return err
		}
		*before = current{edit: gone}
	}
	for i := range tx.p.uniques {
		wanted := op.claimed().at(i)
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

// eraseHolder erases a document if it has expired. One that is on its way still
// has not.
func (tx *transaction) eraseHolder(number uint64) error {
	key, d, err := tx.p.documentOf(tx.now, number)
	if err != nil {
		return fmt.Errorf("partition %v: %w", tx.p.config.Ref, err)
	}
	if d == nil {
		return nil
	}
	var scratch []byte
	found, err := tx.find(string(key), &scratch)
	if err != nil || !found.expired || found.number != number {
		return err
	}
	return tx.erase(string(key), &found)
}
