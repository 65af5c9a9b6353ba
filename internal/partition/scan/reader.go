package scan

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
)

// Config configures a [Reader].
type Config struct {
	// Name is the name of the partition in errors.
	Name string

	Own layout.Identity

	// Container returns the current version of the container, and Certain the time by
	// which documents expire and changes become too old to be kept. Several goroutines
	// call them.
	Container func() *resource.Container
	Certain   func() time.Time

	// Rosters is the memory for rosters. Partitions can share it.
	Rosters *Rosters
}

// Reader holds what the sources of one partition share: its identity, what earlier
// sources have learned, and the numbers that decide between ways of reading. Any
// number of goroutines may use it.
type Reader struct {
	name      string
	own       layout.Identity
	container func() *resource.Container
	certain   func() time.Time

	sources   sync.Pool // of *source
	locations locations
	rosters   rosters

	// lasting is a time in seconds since 1970: each document that was written before
	// it either never expires or has a row in 'x'. It only rises.
	lasting atomic.Int64

	// Strategy is what decides between the ways of reading. Only tests change it.
	Strategy Strategy
}

// NewReader returns the reader of a partition. Close it, when no source is in use
// any more.
func NewReader(c Config) *Reader {
	return &Reader{
		name: c.Name, own: c.Own, container: c.Container, certain: c.Certain,
		rosters:  rosters{shared: c.Rosters, keys: map[string]*roster{}},
		Strategy: DefaultStrategy(),
	}
}

// Close gives the memory of the rosters back.
func (r *Reader) Close() { r.rosters.clear(0, true) }

// Note takes notice of the documents that an effect creates and deletes. It must be
// called for each effect, in their order, before a source can see the effect.
func (r *Reader) Note(lsn resource.LSN, m *Moves) { r.rosters.note(lsn, m) }

// Snapshot is a storage snapshot of a partition with the meta rows that were read from
// it. It is immutable.
type Snapshot struct {
	layout.State
	Rows     *storage.Snapshot
	Indexing *layout.Indexing
	Marks    layout.Marks
}

// ReadSnapshot reads the meta rows of a snapshot.
func ReadSnapshot(rows *storage.Snapshot) (layout.Descriptor, Snapshot, error) {
	d, s, row, err := layout.ReadMeta(rows)
	if err != nil {
		return d, Snapshot{}, err
	}
	now := Snapshot{State: s, Rows: rows}
	if now.Indexing, err = layout.CompileIndexing(row, nil); err == nil {
		now.Marks, err = layout.ReadMarks(rows, s)
	}
	return d, now, err
}

// Document returns the document with a number and the key of its row, nil if there
// is none.
func (now *Snapshot) Document(number uint64) (key []byte, d *layout.Document, err error) {
	suffix, found, err := now.Rows.Get(nil, storage.RIDKey(nil, number))
	if err != nil || !found {
		return nil, nil, err
	}
	key = storage.DocumentKeyOf(nil, suffix)
	row, found, err := now.Rows.Get(nil, key)
	if err != nil || !found {
		return nil, nil, err
	}
	at, err := layout.DecodeDocument(row)
	return key, &at, err
}

// Horizon tells which documents of a snapshot are hidden now.
func (r *Reader) Horizon(now *Snapshot) layout.Horizon { return r.HorizonAt(now, r.certain) }

// HorizonAt is Horizon by another clock.
func (r *Reader) HorizonAt(now *Snapshot, clock func() time.Time) layout.Horizon {
	h := layout.Horizon{Marks: now.Marks}
	if ttl := r.container().DefaultTTL; ttl != 0 {
		h.TTL, h.Now = int64(ttl), clock().Unix()
	}
	return h
}
