package table

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/decandb/decan/internal/row"
)

// A write of a table with materialized views leaves an outbox in the partition key that it
// changes, in its effect: which rows may differ from their rows in the views, and where
// those were. The caller that settles it reads the rows as they are then, changes the views, and
// removes what it has settled, so it does not matter which writes have left an entry, and
// settling again changes nothing.

// The items of an outbox follow the rows. Readers of rows skip them.
const (
	OutboxItems = "\x03" // a row; its encoded clustering key follows
	OutboxRange = "\x04" // deletions of the partition or of ranges of rows: row.Meta
	OutboxEnd   = "\x05"
)

// MarkedExpiry is the time at which items of an outbox would be removed, beyond that of
// any row: partition.Marked finds them by it.
const MarkedExpiry = math.MaxInt64

// OutboxEntry is an item of an outbox.
type OutboxEntry struct {
	Item   string
	Places []LeftPlace // where rows of views may have to be removed
	Ranges row.Meta    // of OutboxRange

	// Stamp differs from that of any earlier change of the entry, and is greater.
	Stamp int64
}

// LeftPlace is a place that a row may have left when the entry had a stamp.
type LeftPlace struct {
	Place
	Stamp int64
}

// Row returns the item of the row of an entry, empty for that of ranges.
func (e *OutboxEntry) Row() string {
	if e.Item == OutboxRange {
		return ""
	}
	return RowItems + e.Item[len(OutboxItems):]
}

// The encoded form of an entry, version 1: version, stamp, and the ranges, or the number of
// places and of each its stamp, view, routing key and item.
const outboxVersion = 1

func (e *OutboxEntry) encode() []byte {
	dst := binary.AppendVarint([]byte{outboxVersion}, e.Stamp)
	if e.Item == OutboxRange {
		return e.Ranges.Append(dst)
	}
	dst = binary.AppendUvarint(dst, uint64(len(e.Places)))
	for _, p := range e.Places {
		dst = append(binary.AppendVarint(dst, p.Stamp), p.View[:]...)
		dst = appendPart(appendPart(dst, []byte(p.Key)), []byte(p.Item))
	}
	return dst
}

var errOutbox = errors.New("the outbox of a partition key is corrupt")

// DecodeOutbox reads an item of an outbox. It does not keep the bytes.
func DecodeOutbox(item, body []byte) (e OutboxEntry, err error) {
	e.Item = string(item)
	if len(body) == 0 || body[0] != outboxVersion || len(item) == 0 || item[0] != OutboxItems[0] && e.Item != OutboxRange {
		return e, errOutbox
	}
	rest := bytes.Clone(body[1:])
	signed := func() int64 {
		n, used := binary.Varint(rest)
		if used <= 0 {
			err, rest = errOutbox, nil
			return 0
		}
		rest = rest[used:]
		return n
	}
	number := func() uint64 {
		n, used := binary.Uvarint(rest)
		if used <= 0 {
			err, rest = errOutbox, nil
			return 0
		}
		rest = rest[used:]
		return n
	}
	part := func(n uint64) string {
		if n > uint64(len(rest)) {
			err, rest = errOutbox, nil
			return ""
		}
		p := string(rest[:n])
		rest = rest[n:]
		return p
	}
	if e.Stamp = signed(); err == nil && e.Item == OutboxRange {
		e.Ranges, err = row.DecodeMeta(rest)
		return e, err
	}
	for n := number(); n > 0 && err == nil; n-- {
		p := LeftPlace{Stamp: signed()}
		copy(p.View[:], part(uint64(len(p.View))))
		p.Key = part(number())
		p.Item = part(number())
		e.Places = append(e.Places, p)
	}
	if err == nil && len(rest) > 0 {
		err = errOutbox
	}
	return e, err
}

// OutboxDone removes entries that were settled. Of those that have changed since, it
// removes the places that were. The writer of their partition evaluates it.
type OutboxDone []OutboxEntry

// Evaluate makes the change.
func (done OutboxDone) Evaluate(items Items) error {
	for i := range done {
		if err := done[i].settled(items); err != nil {
			return err
		}
	}
	return nil
}

func (e *OutboxEntry) settled(items Items) error {
	body, err := items.Get(e.Item)
	if err != nil || body == nil {
		return err
	}
	now, err := DecodeOutbox([]byte(e.Item), body)
	if err != nil {
		return err
	}
	if now.Stamp == e.Stamp {
		return items.Put(e.Item, nil, 0)
	}
	count := len(now.Places)
	now.Places = slices.DeleteFunc(now.Places, func(p LeftPlace) bool { return p.Stamp <= e.Stamp })
	if len(now.Places) == count {
		return nil
	}
	return items.Put(e.Item, now.encode(), MarkedExpiry)
}

// project adds a changed row to the outbox, if a view has another row for it now. before
// is the row as it was stored, and a deletion of the partition may have covered it.
func (e *evaluation) project(item string, before, after *row.Row, covered row.Deletion) error {
	if len(e.Projections) == 0 || item == StaticItem {
		return nil
	}
	stored, err := e.Table.baseRow(e.Key, item, before)
	if err != nil {
		return err
	}
	shadowed := before.Shadow(covered)
	was, is := stored, stored
	was.row, is.row = &shadowed, after
	if is.clustering, err = e.clusteringAfter(&is, after); err != nil {
		return err
	}
	differs := false
	var left []Place
	for _, p := range e.Projections {
		from, old, had, err := p.image(&was, e.Now)
		if err != nil {
			return err
		}
		to, image, has, err := p.image(&is, e.Now)
		if err != nil {
			return err
		}
		differs = differs || had != has || had && (from != to || !bytes.Equal(old.Append(nil), image.Append(nil)))
		// The view may have a row at a place that the row has no more, and even one that
		// a deletion of the partition covers, if its removal is still in the outbox. A row
		// that was never there has left no place: another row may have it, whose key has
		// other bytes of equal numbers.
		if before.Empty() {
			continue
		}
		place, _, some, err := p.place(&stored)
		if err != nil {
			return err
		}
		if some && (!has || place != to) && p.accepts(&stored) {
			left = append(left, place)
		}
	}
	if !differs && len(left) == 0 {
		return nil
	}
	return e.leave(OutboxItems+item[len(RowItems):], left, row.Meta{})
}

// clusteringAfter returns the values of the clustering columns of a row after a change,
// which may have made it again with values that compare as equal.
func (e *evaluation) clusteringAfter(b *baseRow, after *row.Row) ([][]byte, error) {
	again, err := e.Table.baseRow(b.routing, RowItems+string(b.key), after)
	return again.clustering, err
}

// leave puts an entry into the outbox, with what is there already.
func (e *evaluation) leave(item string, left []Place, ranges row.Meta) error {
	entry := OutboxEntry{Item: item, Ranges: ranges, Stamp: e.items.Micros()}
	body, err := e.items.Get(item)
	if err != nil {
		return err
	}
	for _, p := range left {
		entry.Places = append(entry.Places, LeftPlace{p, entry.Stamp})
	}
	if body != nil {
		old, err := DecodeOutbox([]byte(item), body)
		if err != nil {
			return err
		}
		for _, p := range old.Places {
			if !slices.Contains(left, p.Place) {
				entry.Places = append(entry.Places, p)
			}
		}
		entry.Ranges = row.MergeMeta(&entry.Ranges, &old.Ranges)
		entry.Stamp = max(entry.Stamp, old.Stamp+1)
	}
	e.Projected = true
	return e.items.Put(item, entry.encode(), MarkedExpiry)
}
