package partition

import (
	"bytes"
	"errors"

	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/partitionkey"
)

// The complete feed has every version of every document, deletions included, in 'v'
// rows, which are written while the container keeps all versions. Effects of later
// writes delete the oldest of them when their time is over. One row tells from which
// position on the feed has every change, so that a reader that comes too late gets an
// error.

// remembered is a row of the complete feed that a transaction will write.
type remembered struct {
	seq uint32
	row []byte
}

// joined returns the list of the child of two adjacent partitions. A parent without a
// list has every change after its last LSN.
func joined(low, high *Partition, lowest, highest parting) layout.KeptList {
	var both layout.KeptList
	for _, side := range []struct {
		p *Partition
		parting
	}{{low, lowest}, {high, highest}} {
		// After a split, a list can have parts beyond the range of the partition.
		own := side.p.own.Range
		if len(side.kept) == 0 {
			both = append(both, layout.Kept{Max: own.Max.Canonical(), After: side.state.LSN})
			continue
		}
		for _, k := range side.kept {
			if own.Min.Compare(k.Max) >= 0 {
				continue
			}
			if k.Max.Compare(own.Max) >= 0 {
				both = append(both, layout.Kept{Max: own.Max.Canonical(), After: k.After})
				break
			}
			both = append(both, k)
		}
	}
	return both
}

// keeping is the writer's state of the complete feed after all proposed effects.
type keeping struct {
	known bool
	list  layout.KeptList
	rows  bool         // there may be rows at front or after it
	front resource.LSN // there are no rows before it
	next  int64        // the first row is not older than this time
}

// remember adds a change to the complete feed, if the container keeps all versions.
func (tx *transaction) remember(op *operation, before *current, v layout.Version) {
	if tx.retention == 0 || tx.w != &tx.p.writer {
		return
	}
	e := layout.Revision{Change: layout.Replaced, TS: v.TS, EPKSize: len(tx.epk), Current: op.row, Previous: before.row}
	key := op.newKey()
	switch {
	case op.row == nil:
		e.Change, key = layout.Deleted, op.oldKey()
		if tx.horizon.Expired(&before.Document) {
			e.Change = layout.Expired
		}
	case !before.exists:
		e.Change, e.Previous = layout.Created, nil
	}
	e.Suffix = []byte(key)[1:]
	tx.revisions = append(tx.revisions, remembered{seq: v.Seq, row: e.Append(nil)})
}

// dropMax is the number of old rows of the complete feed that a write deletes for each
// row that it adds, and the same number in addition: old rows are deleted after half as many writes as
// have added them.
const dropMax = 2

// complete writes the entries of a transaction, and deletes some whose time is over. It
// returns the state after the effect.
func (b *builder) complete(tx *transaction) keeping {
	k := b.writer.keeping
	retention := tx.retention
	if retention == 0 && len(k.list) == 0 && !k.rows {
		return k
	}
	before := k.list
	switch {
	case retention == 0:
		k.list = nil
	default:
		k.list = tx.p.beginKept(k.list, tx.next.LSN)
	}
	if k.rows && (retention == 0 || k.next < tx.over) {
		b.check(b.drop(tx, &k, tx.over, retention == 0))
	}
	if retention > 0 {
		for _, e := range tx.revisions {
			w := b.writer
			w.key = storage.CompleteKey(w.key[:0], uint64(tx.next.LSN), tx.p.own.Ordinal, e.seq)
			b.check(b.batch.Set(w.key, e.row))
		}
		if !k.rows {
			k.rows, k.next = true, tx.next.TS
		}
	}
	b.kept(before, k.list)
	return k
}

// beginKept returns the list after an effect of a container that keeps all versions.
// The first such effect begins it, whatever the effect changes: otherwise a reader at
// the LSN before it would be refused as too late.
func (p *Partition) beginKept(list layout.KeptList, lsn resource.LSN) layout.KeptList {
	if len(list) > 0 {
		return list
	}
	return layout.KeptList{{Max: p.own.Range.Max.Canonical(), After: lsn - 1}}
}

// drop deletes the oldest rows of the complete feed, and updates k.
func (b *builder) drop(tx *transaction, k *keeping, horizon int64, all bool) (err error) {
	most := dropMax * (1 + int(tx.versions))
	list := append(layout.KeptList(nil), k.list...)
	rows := tx.now.Rows.Iter(storage.CompleteBounds(uint64(k.front)))
	defer func() { err = errors.Join(err, rows.Close()) }()
	gone := 0
	var last resource.LSN
	for valid := rows.First(); valid; valid = rows.Next() {
		at, _, _, err := storage.DecodeCompleteKey(rows.Key())
		if err != nil {
			return err
		}
		e, err := layout.DecodeRevision(rows.Value())
		if err != nil {
			return err
		}
		// Rows of one LSN are deleted together, because a list has LSNs only.
		if !all && e.TS >= horizon || gone >= most && resource.LSN(at) != last {
			k.front, k.next, k.list = resource.LSN(at), e.TS, list
			return nil
		}
		if err := b.batch.Delete(rows.Key()); err != nil {
			return err
		}
		if part := list.At(partitionkey.EPK(e.Suffix[:e.EPKSize])); part != nil && tx.p.own.Within(e.Suffix) {
			part.After = max(part.After, resource.LSN(at))
		}
		last = resource.LSN(at)
		gone++
	}
	// Proposed effects can have added rows, which are about a second old at most.
	k.front, k.next, k.list = tx.now.LSN+1, tx.now.TS, list
	k.rows = tx.next.LSN > tx.now.LSN+1
	return nil
}

// kept writes the row of the list if it differs.
func (b *builder) kept(before, after layout.KeptList) {
	w := b.writer
	w.key = storage.MetaKey(w.key[:0], layout.MetaKept)
	if len(after) == 0 {
		if len(before) > 0 {
			b.check(b.batch.Delete(w.key))
		}
		return
	}
	w.cell = after.Append(w.cell[:0])
	if len(before) == 0 || !bytes.Equal(w.cell, before.Append(nil)) {
		b.check(b.batch.Set(w.key, w.cell))
	}
}

// loadKept reads the state of the complete feed, if the writer does not have it.
func (p *Partition) loadKept(now *published) error {
	k := &p.writer.keeping
	if k.known {
		return nil
	}
	list, err := layout.ReadKept(now.Rows)
	if err != nil {
		return err
	}
	rows := now.Rows.Iter(storage.FamilyComplete.Bounds())
	found := rows.First()
	if err := rows.Close(); err != nil {
		return err
	}
	*k = keeping{known: true, list: list, rows: found}
	return nil
}
