package partition

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
)

// A clock that was ahead leaves times in the store that are ahead, and the time of
// writes does not go back: see docs/clock.md. RepairTimes sets all times after a time
// that is known to be right to that time, so times still rise with the LSN.

// RepairedTimes is the result of [RepairTimes].
type RepairedTimes struct {
	Documents int64 // whose _ts was changed
	Versions  int64 // in the complete feed that were changed
	Latest    int64 // the latest _ts before, in seconds since 1970
}

// repairBatch is the size in bytes from which a batch of changes is written.
const repairBatch = 1 << 20

// RepairTimes sets each time in the store of a partition that is later than now, in
// seconds since 1970, to now, and updates all rows that depend on it. Nothing else may
// use the store during the call.
//
// It writes several batches, in the order of LSNs, and the time of the partition last.
// After each batch all invariants hold, so the call may be interrupted at any moment
// and repeated, with the same time or a later one.
func RepairTimes(store *storage.Store, now int64) (RepairedTimes, error) {
	return repairTimes(store, now, repairBatch)
}

func repairTimes(store *storage.Store, now int64, batchBytes int) (RepairedTimes, error) {
	snapshot := store.Snapshot()
	r := timesRepair{store: store, snapshot: snapshot, now: now, batchBytes: batchBytes, b: builder{batch: store.NewBatch(), writer: new(writer)}}
	err := errors.Join(r.run(), r.b.batch.Close(), snapshot.Close())
	if err != nil {
		return r.done, fmt.Errorf("repair the times of partition %s: %w", r.descriptor.ID, err)
	}
	return r.done, nil
}

// timesRepair is one call of RepairTimes.
type timesRepair struct {
	store    *storage.Store
	snapshot *storage.Snapshot
	now      int64
	b        builder
	done     RepairedTimes

	batchBytes int // size from which a batch is written

	descriptor layout.Descriptor
	indexing   *layout.Indexing
	low, high  []byte // bounds of the partition's row keys, without the family
	key, row   []byte
}

func (r *timesRepair) run() error {
	d, s, policy, err := layout.ReadMeta(r.snapshot)
	if err != nil {
		return err
	}
	r.descriptor, r.done.Latest = d, s.TS
	if s.TS <= r.now {
		return nil // No time in the store is later than this one.
	}
	if r.indexing, err = layout.CompileIndexing(policy, nil); err != nil {
		return err
	}
	r.low, r.high = layout.KeyBounds(d.Range, layout.EPKWidth(d.Key))
	m, err := layout.ReadMergeMark(r.snapshot)
	if err != nil {
		return err
	}
	if err := r.each(storage.FamilyFeed, r.document); err != nil {
		return err
	}
	if err := r.each(storage.FamilyComplete, r.version); err != nil {
		return err
	}
	if err := r.write(); err != nil {
		return err
	}
	s.TS = r.now
	r.b.state(s)
	if m.TS > r.now {
		m.TS = r.now
		r.b.check(r.b.batch.Set(storage.MetaKey(nil, layout.MetaMerged), m.Append(nil)))
	}
	return r.write()
}

// each calls repair for every row of a family, and writes full batches.
func (r *timesRepair) each(f storage.Family, repair func(key, row []byte) error) error {
	rows := r.snapshot.Iter(f.Bounds())
	for valid := rows.First(); valid; valid = rows.Next() {
		err := repair(rows.Key(), rows.Value())
		if err == nil && !r.b.batch.Empty() && r.b.batch.Len() >= r.batchBytes {
			err = r.write()
		}
		if err != nil {
			return errors.Join(err, rows.Close())
		}
	}
	return rows.Close()
}

// write writes the batch and syncs it.
func (r *timesRepair) write() error {
	if r.b.err != nil || r.b.batch.Empty() {
		return r.b.err
	}
	if err := r.store.Apply(r.b.batch); err != nil {
		return err
	}
	r.b.batch.Reset()
	return nil
}

// document repairs the document of a feed row, with its terms, its expiry row and its
// last change in the complete feed. It skips rows of other partitions.
func (r *timesRepair) document(feed, value []byte) error {
	lsn, ordinal, seq, err := storage.DecodeFeedKey(feed)
	if err != nil {
		return err
	}
	number, _, err := layout.DecodeFeedValue(value)
	if err != nil {
		return err
	}
	r.key = storage.RIDKey(r.key[:0], number)
	suffix, found, err := r.snapshot.Get(nil, r.key)
	if err != nil || !found || bytes.Compare(suffix, r.low) < 0 || bytes.Compare(suffix, r.high) >= 0 {
		return err
	}
	key := storage.DocumentKeyOf(nil, suffix)
	r.row, found, err = r.snapshot.Get(r.row[:0], key)
	if err == nil && !found {
		err = fmt.Errorf("document %d is missing: %w", number, layout.ErrDocument)
	}
	if err != nil {
		return err
	}
	before, err := layout.DecodeDocument(r.row)
	if err != nil || before.TS <= r.now || before.LSN != resource.LSN(lsn) || before.Ordinal != ordinal || before.Seq != seq {
		return err
	}
	k, err := r.indexing.KeysOfStored(&before, key)
	if err != nil {
		return err
	}
	again := layout.AllKeys{Active: k.Active.Clone(), Other: k.Other.Clone()}
	r.b.keys(number, layout.Diff(r.indexing.Stored(k, number, before.TS), r.indexing.Stored(again, number, r.now)))
	after := before
	after.TS = r.now
	if at, ok := before.Expiry(); ok {
		r.b.check(r.b.batch.Delete(storage.ExpiryKey(nil, at, number)))
		at, _ = after.Expiry()
		r.b.check(r.b.batch.Set(storage.ExpiryKey(nil, at, number), nil))
	}
	layout.Restamp(r.row, r.now)
	r.b.check(r.b.batch.Set(key, r.row))
	r.done.Documents++
	r.key = storage.CompleteKey(r.key[:0], lsn, ordinal, seq)
	change, found, err := r.snapshot.Get(nil, r.key)
	if err == nil && found {
		_, err = r.revise(r.key, change)
	}
	return err
}

// version repairs an entry of the complete feed. The entry of a document's last change
// was repaired with the document, and gets the same bytes again.
func (r *timesRepair) version(key, row []byte) error {
	changed, err := r.revise(key, bytes.Clone(row))
	if changed {
		r.done.Versions++
	}
	return err
}

// revise repairs an entry in place: its time, and those of the documents in it.
func (r *timesRepair) revise(key, row []byte) (changed bool, err error) {
	e, err := layout.DecodeRevision(row)
	if err != nil {
		return false, err
	}
	if e.TS > r.now {
		layout.SetRevisionTime(row, r.now)
		changed = true
	}
	for _, document := range [][]byte{e.Current, e.Previous} {
		if len(document) == 0 {
			continue
		}
		d, err := layout.DecodeDocument(document)
		if err != nil {
			return false, err
		}
		if d.TS > r.now {
			layout.Restamp(document, r.now)
			changed = true
		}
	}
	if changed {
		r.b.check(r.b.batch.Set(key, row))
	}
	return changed, nil
}
