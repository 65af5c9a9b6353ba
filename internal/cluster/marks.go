package cluster

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
)

// Marks record the minimum contents of the stores of a data directory: the version of
// the catalog, and the LSN of each partition. They are stored separately, so that the
// loss of the newest part of a store is detected.
//
// The file is a sequence of records of the same size, to which records are appended.
// Each is a lower bound, so any of them may be missing: a record that cannot be read
// is skipped and does not affect the others. docs/formats/marks.md has the bytes.

const (
	// marksFile is the name of the file in the data directory.
	marksFile = "marks"
	// marksNewFile is the name of its replacement until that is complete.
	marksNewFile = "marks.new"
	// marksVersion is the version of the file's format.
	marksVersion = 1
)

// The kinds of records.
const (
	markHeader    = 'H' // the first record; its value is the version of the format
	markCatalog   = 'C' // its value is the version of the catalog
	markPartition = 'P' // its value is an LSN
	markTime      = 'T' // has only the time when it was written
)

// markClosed is the flag of a partition that was closed after all its writes.
const markClosed = 1

// The layout of a record.
const (
	markBytes       = 128
	markContainerAt = 4
	markPartitionAt = 12
	markValueAt     = 16
	markTimeAt      = 24
	markPositionAt  = 32
	markSumAt       = markBytes - 4
	markPositionMax = markSumAt - markPositionAt
)

var markSums = crc32.MakeTable(crc32.Castagnoli)

// mark is the minimum that one store must contain.
type mark struct {
	value    uint64 // an LSN, or the version of the catalog
	position storage.Position
	at       time.Time // when the mark was made
	closed   bool      // the partition was closed, and not written to since
}

// markRecord is one record of the file.
type markRecord struct {
	kind byte
	ref  replication.PartitionRef // zero unless kind is markPartition
	mark
}

// append appends the bytes of the record.
func (r markRecord) append(dst []byte) []byte {
	var b [markBytes]byte
	b[0] = r.kind
	if r.closed {
		b[1] = markClosed
	}
	copy(b[markContainerAt:markPartitionAt], r.ref.Container)
	binary.BigEndian.PutUint32(b[markPartitionAt:], uint32(r.ref.Partition))
	binary.BigEndian.PutUint64(b[markValueAt:], r.value)
	binary.BigEndian.PutUint64(b[markTimeAt:], uint64(r.at.UnixMilli()))
	if len(r.position) <= markPositionMax { // A longer one is left out; the value remains.
		binary.BigEndian.PutUint16(b[2:], uint16(len(r.position)))
		copy(b[markPositionAt:markSumAt], r.position)
	}
	binary.BigEndian.PutUint32(b[markSumAt:], crc32.Checksum(b[:markSumAt], markSums))
	return append(dst, b[:]...)
}

// decodeMark reads one record, and reports false if it is damaged.
func decodeMark(b []byte) (r markRecord, ok bool) {
	if binary.BigEndian.Uint32(b[markSumAt:]) != crc32.Checksum(b[:markSumAt], markSums) {
		return r, false
	}
	size := int(binary.BigEndian.Uint16(b[2:]))
	if size > markPositionMax {
		return r, false
	}
	r = markRecord{kind: b[0], mark: mark{
		value:    binary.BigEndian.Uint64(b[markValueAt:]),
		position: storage.Position(b[markPositionAt : markPositionAt+size]),
		at:       time.UnixMilli(int64(binary.BigEndian.Uint64(b[markTimeAt:]))),
		closed:   b[1]&markClosed != 0,
	}}
	if r.kind == markPartition {
		r.ref.Container = resource.RID(b[markContainerAt:markPartitionAt])
		r.ref.Partition = resource.PartitionID(binary.BigEndian.Uint32(b[markPartitionAt:]))
	}
	return r, true
}

// markSet is the content of a file of marks.
type markSet struct {
	catalog    mark
	time       time.Time // of the last record of kind markTime; zero for none
	partitions map[replication.PartitionRef]mark

	missing bool // the file does not exist
	damaged int  // records that cannot be read, including one that a crash has cut short
}

// add adds a record to the set.
func (m *markSet) add(r markRecord) {
	switch r.kind {
	case markCatalog:
		if r.value >= m.catalog.value {
			m.catalog = r.mark
		}
	case markTime:
		m.time = r.at
	case markPartition:
		if r.value >= m.partitions[r.ref].value {
			m.partitions[r.ref] = r.mark
		}
	}
}

// records returns the smallest sequence of records that has the content of the set.
func (m *markSet) records() []markRecord {
	all := []markRecord{{kind: markHeader, mark: mark{value: marksVersion}}}
	if m.catalog.value > 0 {
		all = append(all, markRecord{kind: markCatalog, mark: m.catalog})
	}
	if !m.time.IsZero() {
		all = append(all, markRecord{kind: markTime, mark: mark{at: m.time}})
	}
	for _, ref := range slices.SortedFunc(maps.Keys(m.partitions), compareRefs) {
		all = append(all, markRecord{kind: markPartition, ref: ref, mark: m.partitions[ref]})
	}
	return all
}

// latest returns the latest time in the set; zero if it has none.
func (m *markSet) latest() (at time.Time) {
	later := func(t time.Time) {
		if t.After(at) && t.Unix() > 0 {
			at = t
		}
	}
	later(m.time)
	later(m.catalog.at)
	for _, known := range m.partitions {
		later(known.at)
	}
	return at
}

func compareRefs(a, b replication.PartitionRef) int {
	return cmp.Or(cmp.Compare(a.Container, b.Container), cmp.Compare(a.Partition, b.Partition))
}

// clone returns a copy that shares nothing with the set.
func (m *markSet) clone() markSet {
	fresh := *m
	fresh.partitions = maps.Clone(m.partitions)
	return fresh
}

// clean reports whether the marks prove that a partition was closed after all its writes.
// A partition without a mark was never written to.
func (m *markSet) clean(ref replication.PartitionRef) bool {
	known, found := m.partitions[ref]
	return m.damaged == 0 && (!found || known.closed)
}

// readMarks reads the marks of a data directory. Damaged records are counted and are not
// an error. A file with a newer format is an error.
func readMarks(files storage.Files, dir string) (markSet, error) {
	set := markSet{partitions: map[replication.PartitionRef]mark{}}
	name := files.PathJoin(dir, marksFile)
	f, err := files.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		set.missing = true
		return set, nil
	}
	if err != nil {
		return set, fmt.Errorf("read the marks: %w", err)
	}
	content, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return set, fmt.Errorf("read the marks: %w", err)
	}
	for len(content) >= markBytes {
		r, ok := decodeMark(content)
		content = content[markBytes:]
		switch {
		case !ok:
			set.damaged++
		case r.kind == markHeader && r.value > marksVersion:
			return set, fmt.Errorf("%s has format %d, but this release reads formats up to %d: use the release that wrote it, or a later one", name, r.value, marksVersion)
		default:
			set.add(r)
		}
	}
	if len(content) > 0 {
		set.damaged++
	}
	return set, nil
}

// writeMarks durably replaces the marks of a data directory. It returns the file, open for
// appending, and its size.
func writeMarks(files storage.Files, dir string, set *markSet) (f storage.File, size int64, err error) {
	var content []byte
	for _, r := range set.records() {
		content = r.append(content)
	}
	name := files.PathJoin(dir, marksNewFile)
	if f, err = storage.CreateFile(files, name); err != nil {
		return nil, 0, err
	}
	if _, err = f.Write(content); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = files.Rename(name, files.PathJoin(dir, marksFile))
	}
	if err == nil {
		err = syncDir(files, files.PathDir(name))
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, int64(len(content)), nil
}

// syncDir syncs a directory, so that its entries survive a crash.
func syncDir(files storage.Files, dir string) error {
	d, err := files.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
