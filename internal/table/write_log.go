package table

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/decandb/decan/internal/row"
)

// Settle fixes everything that the changes depend on, so that making them again changes
// nothing, and so that they can be encoded: places in lists by the numbers of sequence,
// which rise, and elements of lists that are named by index or value as they are now. The
// error is an *Error, or one of the source.
func (k *KeyChange) Settle(ctx context.Context, source Source, sequence func() int64) error {
	if k.conditional {
		return errors.New("settle a change: it has conditions")
	}
	for i := range k.changes {
		c := &k.changes[i]
		if c.serverTime {
			return errors.New("settle a change: it has no timestamp")
		}
		c.mutation.Sequence = sequence()
		if !c.mutation.Reads() {
			continue
		}
		var before row.Row
		at := row.Snapshot{Now: k.Now}
		parts := []ItemSlice{{From: MetaItem, To: MetaItem + "\x00"}, {From: c.item, To: c.item + "\x00"}}
		err := source.Key(ctx, k.Key, parts, func(item, body []byte) (more bool, err error) {
			if string(item) != MetaItem {
				before, err = row.DecodeRow(bytes.Clone(body))
				return true, err
			}
			meta, err := row.DecodeMeta(bytes.Clone(body))
			if at.Covered = meta.Deletion; c.item != StaticItem {
				at.Covered = meta.Covering([]byte(c.item[len(RowItems):]))
			}
			return true, err
		})
		if err != nil {
			return err
		}
		if c.mutation, err = c.mutation.Settle(&before, at); err != nil {
			return fail(err)
		}
	}
	return nil
}

// ReadsLists says whether the change names elements of lists by index or value, or counts.
func (k *KeyChange) ReadsLists() bool {
	return slices.ContainsFunc(k.changes, func(c rowChange) bool { return c.mutation.Reads() })
}

// Stale says whether a change is so old that the table may have forgotten deletions after
// it. Made again, it might bring back what they have deleted. now is in seconds since
// 1970.
func (k *KeyChange) Stale(now int64) bool {
	return now-k.Now > k.Table.grace()
}

// The encoded form of a change, version 1: version, time in seconds, routing key, number
// of changes, and of each its kind, names and mutation.
const changeVersion = 1

const (
	changeOfRow = iota
	changeOfRange
	changeOfPartition
)

// Append appends the encoded form of a change that was settled. [DecodeKeyChange] reads
// it.
func (k *KeyChange) Append(dst []byte) []byte {
	dst = binary.AppendVarint(append(dst, changeVersion), k.Now)
	dst = appendPart(dst, []byte(k.Key))
	dst = binary.AppendUvarint(dst, uint64(len(k.changes)))
	for i := range k.changes {
		c := &k.changes[i]
		switch {
		case c.partition:
			dst = append(dst, changeOfPartition)
		case c.deletion != nil:
			dst = appendPart(appendPart(append(dst, changeOfRange), c.deletion.start), c.deletion.end)
		default:
			dst = appendPart(append(dst, changeOfRow), []byte(c.item))
		}
		dst = appendPart(dst, c.mutation.Append(nil))
	}
	return dst
}

func appendPart(dst, part []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(part))), part...)
}

var errChange = errors.New("the encoded change of a partition key is corrupt")

// DecodeKeyChange reads a change of a table.
func DecodeKeyChange(t *Table, encoded []byte) (*KeyChange, error) {
	rest, bad := encoded, false
	number := func() uint64 {
		n, used := binary.Uvarint(rest)
		if used <= 0 {
			bad = true
			return 0
		}
		rest = rest[used:]
		return n
	}
	part := func() []byte {
		n := number()
		if n > uint64(len(rest)) {
			bad = true
			return nil
		}
		p := rest[:n:n]
		rest = rest[n:]
		return p
	}
	if len(rest) == 0 || rest[0] != changeVersion {
		return nil, errChange
	}
	now, used := binary.Varint(rest[1:])
	if used <= 0 {
		return nil, errChange
	}
	rest = rest[1+used:]
	k := &KeyChange{Table: t, Now: now, Key: string(part())}
	for n := number(); n > 0 && !bad; n-- {
		var c rowChange
		switch number() {
		case changeOfPartition:
			c.partition = true
		case changeOfRange:
			c.deletion = &span{start: part(), end: part()}
		case changeOfRow:
			c.item = string(part())
			bad = bad || c.item != StaticItem && (c.item == "" || c.item[:1] != RowItems)
		default:
			bad = true
		}
		encoded := part()
		if bad {
			break
		}
		var err error
		if c.mutation, err = row.DecodeMutation(encoded); err != nil {
			return nil, err
		}
		k.changes = append(k.changes, c)
	}
	if bad || len(rest) > 0 || k.Key == "" {
		return nil, errChange
	}
	return k, nil
}
