package scan

import (
	"context"
	"errors"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/storage"
)

// Expired returns the numbers of at most most documents that have expired and are
// not deleted yet. Documents with their own time to live are found by their rows in
// 'x', the others by the terms of their times.
func (r *Reader) Expired(ctx context.Context, now *Snapshot, h layout.Horizon, most int) (numbers []uint64, err error) {
	if h.TTL == 0 || most == 0 {
		return nil, nil
	}
	if numbers, err = expiredRows(now, h, most); err != nil || len(numbers) == most || h.TTL < 0 {
		return numbers, err
	}
	return r.expiredTerms(ctx, now, h, numbers, most)
}

// expiredRows returns the expired documents with their own time to live.
func expiredRows(now *Snapshot, h layout.Horizon, most int) (numbers []uint64, err error) {
	low, _ := storage.FamilyExpiry.Bounds()
	rows := now.Rows.Iter(low, storage.ExpiryKey(nil, uint64(h.Now)+1, 0))
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

// expiredTerms appends expired documents without their own time to live: those that
// were written long enough ago. It does not read times again at which it has found
// none, because all later writes have later times.
func (r *Reader) expiredTerms(ctx context.Context, now *Snapshot, h layout.Horizon, numbers []uint64, most int) (_ []uint64, err error) {
	from, to := r.lasting.Load(), h.Now-h.TTL
	low, indexed := now.Indexing.Active.Timestamp(from)
	high, _ := now.Indexing.Active.Timestamp(to + 1)
	if !indexed || now.Indexing.Phase != layout.Settled || from > to {
		return numbers, nil
	}
	lists := now.Rows.Lists(storage.TermKey(nil, low), storage.TermKey(nil, high))
	defer func() { err = errors.Join(err, lists.Close()) }()
	oldest := from // no older document can expire
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
		if numbers, err = expiredOf(now, h, lists.Numbers(), numbers, most); err != nil {
			return numbers, err
		}
		found = found || len(numbers) > before
		if len(numbers) == most {
			break
		}
	}
	if !found {
		oldest = min(to+1, now.TS)
	}
	if oldest > from {
		r.lasting.CompareAndSwap(from, oldest)
	}
	return numbers, lists.Err()
}

// expiredOf appends the members of a set that have expired.
func expiredOf(now *Snapshot, h layout.Horizon, set *storage.Postings, numbers []uint64, most int) (_ []uint64, err error) {
	defer func() { err = errors.Join(err, set.Close()) }()
	for number, ok := set.Next(); ok && len(numbers) < most; number, ok = set.Next() {
		_, d, err := now.Document(number)
		if err != nil {
			return numbers, err
		}
		if d != nil && d.TTL == 0 && h.Expired(d) {
			numbers = append(numbers, number)
		}
	}
	return numbers, nil
}

// stale reports whether the index still has documents that have expired or were
// purged. Its counts are too high then. An error counts as such a document: reading
// the documents returns it again.
func (s *Source) stale() bool {
	if s.now.Marks.Overlap(s.clip) {
		return true
	}
	numbers, err := s.r.Expired(context.Background(), s.now, s.horizon, 1)
	return err != nil || len(numbers) > 0
}
