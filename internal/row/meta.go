package row

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
)

// Meta is the metadata of a partition: what was deleted in it other than single
// rows. The zero value is a partition without deletions. Those made by
// [DecodeMeta] share memory with the encoded bytes.
type Meta struct {
	// Deletion covers the whole partition, its static row too.
	Deletion Deletion
	// Ranges cover rows. They are in the order of their keys, do not overlap, and
	// none of them is covered by Deletion. Neighbours without a gap differ in
	// timestamp or second.
	Ranges []RangeDeletion
	// Sweep is the removal of what the deletions cover. [MergeMeta] leaves it out.
	Sweep Sweep
}

// Sweep is the progress of the removal of rows that the deletions of a partition
// cover. The zero value is no removal: nothing is left that they cover.
type Sweep struct {
	// Pending says that there may be covered rows.
	Pending bool
	// Round counts the deletions since the partition had none to remove.
	Round uint64
	// From is the encoded clustering key before which no row is covered. If it is
	// empty, the static row may be covered too.
	From []byte
}

// Sweeps notes a new deletion, which covers rows from an encoded clustering key on.
func (m *Meta) Sweeps(from []byte) {
	if s := &m.Sweep; !s.Pending || bytes.Compare(from, s.From) < 0 {
		s.From = from
	}
	m.Sweep.Pending = true
	m.Sweep.Round++
}

// RangeDeletion deletes the rows whose encoded clustering keys are in [Start,
// End); make the bounds with [Span].
type RangeDeletion struct {
	Start, End []byte
	Timestamp  int64
	Local      int64
}

func (r RangeDeletion) deletion() Deletion {
	return Deletion{Present: true, Timestamp: r.Timestamp, Local: r.Local}
}

// Empty says whether the partition has no deletions: there is nothing to store.
func (m *Meta) Empty() bool { return !m.Deletion.Present && len(m.Ranges) == 0 }

// Covering returns the deletion that covers the row with an encoded clustering
// key, of the partition or of a range.
func (m *Meta) Covering(key []byte) Deletion {
	at, _ := slices.BinarySearchFunc(m.Ranges, key, func(r RangeDeletion, key []byte) int {
		if bytes.Compare(r.End, key) <= 0 {
			return -1
		}
		return 1
	})
	if at < len(m.Ranges) && bytes.Compare(m.Ranges[at].Start, key) <= 0 {
		return m.Deletion.Or(m.Ranges[at].deletion())
	}
	return m.Deletion
}

// MergeMeta returns the metadata that has the deletions of both. It is
// commutative, associative and idempotent. The result shares memory with both.
func MergeMeta(a, b *Meta) Meta {
	merged := Meta{Deletion: a.Deletion.Or(b.Deletion)}
	add := func(start, end []byte, d RangeDeletion) {
		if merged.Deletion.Covers(d.Timestamp) || bytes.Compare(start, end) >= 0 {
			return
		}
		if n := len(merged.Ranges); n > 0 {
			last := &merged.Ranges[n-1]
			if bytes.Equal(last.End, start) && last.Timestamp == d.Timestamp && last.Local == d.Local {
				last.End = end
				return
			}
		}
		merged.Ranges = append(merged.Ranges, RangeDeletion{Start: start, End: end, Timestamp: d.Timestamp, Local: d.Local})
	}
	heads := [2][]RangeDeletion{slices.Clone(a.Ranges), slices.Clone(b.Ranges)}
	for len(heads[0]) > 0 && len(heads[1]) > 0 {
		x, y := &heads[0][0], &heads[1][0]
		if bytes.Compare(x.Start, y.Start) > 0 {
			x, y = y, x
		}
		// The part of x before y is that of x alone.
		if bytes.Compare(x.Start, y.Start) < 0 {
			end := x.End
			if bytes.Compare(y.Start, end) < 0 {
				end = y.Start
			}
			add(x.Start, end, *x)
			x.Start = end
		} else {
			end := x.End
			if bytes.Compare(y.End, end) < 0 {
				end = y.End
			}
			winner := *x
			if x.deletion().Or(y.deletion()) == y.deletion() {
				winner = *y
			}
			add(x.Start, end, winner)
			x.Start, y.Start = end, end
		}
		for i, head := range heads {
			if bytes.Compare(head[0].Start, head[0].End) >= 0 {
				heads[i] = head[1:]
			}
		}
	}
	for _, r := range append(heads[0], heads[1]...) {
		add(r.Start, r.End, r)
	}
	return merged
}

// Due returns the second from which Purge with before = now-grace removes something.
// It returns false if there are no deletions.
func (m *Meta) Due(grace int64) (second int64, ok bool) {
	if m.Deletion.Present {
		second, ok = m.Deletion.Local, true
	}
	for _, r := range m.Ranges {
		if !ok || r.Local < second {
			second, ok = r.Local, true
		}
	}
	return second + grace + 1, ok
}

// Purge returns the metadata without the deletions made before a second. Older
// writes that arrive after a purge may reappear, and so does what the deletions cover
// and the sweep has not removed. It returns false if nothing changes.
func (m *Meta) Purge(before int64) (purged Meta, changed bool) {
	purged.Sweep = m.Sweep
	if !m.Deletion.Present || m.Deletion.Local >= before {
		purged.Deletion = m.Deletion
	} else {
		changed = true
	}
	for _, r := range m.Ranges {
		if r.Local < before {
			changed = true
			continue
		}
		purged.Ranges = append(purged.Ranges, r)
	}
	return purged, changed
}

// The encoded form of metadata: version, 1 if there is a deletion of the partition,
// its timestamp and second, the number of ranges, and of each start, end, timestamp
// and second. Version 2 is that of metadata with a pending sweep; its round and its
// place follow.
const (
	metaVersion      = 1
	metaSweepVersion = 2
)

// Append appends the encoded form of the metadata, which [DecodeMeta] reads.
func (m *Meta) Append(dst []byte) []byte {
	version := byte(metaVersion)
	if m.Sweep.Pending {
		version = metaSweepVersion
	}
	dst = append(dst, version)
	if m.Deletion.Present {
		dst = binary.AppendVarint(append(dst, 1), m.Deletion.Timestamp)
		dst = binary.AppendVarint(dst, m.Deletion.Local)
	} else {
		dst = append(dst, 0)
	}
	dst = binary.AppendUvarint(dst, uint64(len(m.Ranges)))
	for _, r := range m.Ranges {
		dst = appendBytes(appendBytes(dst, r.Start), r.End)
		dst = binary.AppendVarint(binary.AppendVarint(dst, r.Timestamp), r.Local)
	}
	if m.Sweep.Pending {
		dst = appendBytes(binary.AppendUvarint(dst, m.Sweep.Round), m.Sweep.From)
	}
	return dst
}

// DecodeMeta reads encoded metadata. It returns an error that wraps ErrCorrupt if
// the ranges are not as [Meta] says.
func DecodeMeta(encoded []byte) (Meta, error) {
	c := &cursor{rest: encoded}
	m := Meta{}
	version, present := c.byte(), c.byte()
	if version != metaVersion && version != metaSweepVersion || present > 1 {
		c.fail()
	}
	if present == 1 {
		m.Deletion = Deletion{Present: true, Timestamp: c.varint(), Local: c.varint()}
	}
	n := c.count()
	if n > 0 {
		m.Ranges = make([]RangeDeletion, 0, n)
	}
	for range n {
		r := RangeDeletion{Start: c.bytes(), End: c.bytes(), Timestamp: c.varint(), Local: c.varint()}
		if c.bad || bytes.Compare(r.Start, r.End) >= 0 || m.Deletion.Covers(r.Timestamp) ||
			len(m.Ranges) > 0 && !m.Ranges[len(m.Ranges)-1].precedes(r) {
			return Meta{}, corruptMeta()
		}
		m.Ranges = append(m.Ranges, r)
	}
	if version == metaSweepVersion {
		m.Sweep = Sweep{Pending: true, Round: c.uvarint(), From: c.bytes()}
	}
	if c.bad || len(c.rest) > 0 {
		return Meta{}, corruptMeta()
	}
	return m, nil
}

// precedes says whether a range may be the one before another one.
func (r RangeDeletion) precedes(next RangeDeletion) bool {
	order := bytes.Compare(r.End, next.Start)
	return order < 0 || order == 0 && (r.Timestamp != next.Timestamp || r.Local != next.Local)
}

func corruptMeta() error { return fmt.Errorf("%w: partition metadata", ErrCorrupt) }
