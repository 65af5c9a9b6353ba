package partition

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/decandb/decan/internal/pacing"
	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/storage"
)

// Lookup limits a visit of items to those that a secondary index of the table finds. It
// may visit others: the index has the terms of cells that have expired, and a partition
// that does not have all terms of the index, because it builds them, visits all items that
// were asked for. The order is that of the items.
type Lookup struct {
	Definition string // of the index: a text of package row
	Value      []byte // the beginning of the terms of what is looked for

	// First are the names of items that are visited before the first one of a key that the
	// index finds, if they exist. Slices that are points are visited as well.
	First []string

	// Whole says that all items of a key count if the index finds one of them.
	Whole bool
}

// usable reports whether the state has all terms of the index.
func (f *Lookup) usable(now *published) bool {
	return f != nil && now.Indexing.HasRowIndex(f.Definition)
}

// HasRowIndex reports whether a secondary index with a definition has all rows of the
// partition.
func (p *Partition) HasRowIndex(definition string) bool {
	now, err := p.acquire()
	if err != nil {
		return false
	}
	defer p.release(now)
	return now.Indexing.HasRowIndex(definition)
}

// termKey returns the key of the list of the item with a row key.
func (f *Lookup) termKey(row []byte) []byte {
	key := storage.TermKey(nil, f.Value)
	return append(key, row[1:]...)
}

// rowKey returns the key of the row of a list's only item.
func (f *Lookup) rowKey(list []byte) []byte {
	return storage.DocumentKeyOf(nil, list[1+len(f.Value):])
}

// groupBytes is the length of the part of a row key that the items of one partition key
// have in common.
const groupBytes = 1 + layout.LevelBytes + storage.HashBytes

// finds reports whether the index finds an item between two row keys.
func (v *itemVisit) finds(low, high []byte) (found bool, err error) {
	v.lookups++
	lists := v.now.Rows.Lists(v.ask.Lookup.termKey(low), v.ask.Lookup.termKey(high))
	found = lists.First()
	return found, lists.Close()
}

// found visits the items between two row keys that the index finds. begins is called
// with the first one of each partition key; if it returns next, the items of the key are
// done.
func (v *itemVisit) found(ctx context.Context, low, high []byte, begins func(row []byte) (next, more bool, err error)) (more bool, err error) {
	f := v.ask.Lookup
	if string(low) >= string(high) {
		return true, nil
	}
	v.lookups++
	lists := v.now.Rows.Lists(f.termKey(low), f.termKey(high))
	defer func() {
		if closed := lists.Close(); err == nil {
			err = closed
		}
	}()
	var group []byte
	n := 0
	for valid := lists.First(); valid; {
		if n++; n%itemsBetweenChecks == 0 {
			if err := pacing.Check(ctx); err != nil {
				return false, err
			}
		}
		v.hits++
		row := f.rowKey(lists.Key())
		if !bytes.Equal(row[:groupBytes], group) {
			group = row[:groupBytes:groupBytes]
			done, more, err := begins(row)
			if err != nil || !more {
				return false, err
			}
			if done {
				valid = lists.SeekGE(f.termKey(layout.PrefixEnd(group)))
				continue
			}
		}
		if !slices.Contains(f.First, string(row[groupBytes:])) {
			found, more, err := v.look(row)
			if err == nil && !found {
				err = fmt.Errorf("%w: index term %x is of no row", layout.ErrDocument, lists.Key()[1:])
			}
			if err != nil || !more {
				return false, err
			}
		}
		valid = lists.Next()
	}
	return true, lists.Err()
}

// look visits the item with a row key, if there is one.
func (v *itemVisit) look(row []byte) (found, more bool, err error) {
	more = true
	found, err = v.now.Rows.View(row, func(text []byte) (err error) {
		more, err = v.visit(row, text)
		return err
	})
	return found, more, err
}

// foundInRange visits the items of a range of keys that the index finds.
func (v *itemVisit) foundInRange(ctx context.Context, low, high []byte) error {
	from := low
	if v.ask.Lookup.Whole && len(low) > groupBytes {
		from = low[:groupBytes:groupBytes] // The item that the index finds may be an earlier one of the key.
	}
	_, err := v.found(ctx, from, high, func(row []byte) (next, more bool, err error) {
		group := row[:groupBytes:groupBytes]
		if v.ask.Lookup.Whole {
			start := group
			if string(start) < string(low) {
				start = low
			}
			more, err := v.scan(ctx, start, layout.PrefixEnd(group), false)
			return true, more, err
		}
		for _, name := range v.ask.Lookup.First {
			if _, more, err := v.look(append(group, name...)); err != nil || !more {
				return false, false, err
			}
		}
		return false, true, nil
	})
	return err
}
