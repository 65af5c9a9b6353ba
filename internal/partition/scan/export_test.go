package scan

import (
	"context"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/partitionkey"
)

// This file exports internals to the tests of package scan_test, which write with
// package partition, an importer of this package.

// Choose returns the way that a source chooses.
func (s *Source) Choose(ctx context.Context, access index.Expr, need query.Need) (Way, error) {
	r, err := s.choose(ctx, access, need)
	if r.set != nil {
		_ = r.set.Close()
	}
	return r.way, err
}

// Enroll returns the numbers of the clip, and keeps the roster of its key.
func (s *Source) Enroll(ctx context.Context) (*storage.Numbers, error) { return s.enroll(ctx) }

// Seat makes the source use the seats of the roster of its key.
func (s *Source) Seat() { s.seats = s.r.rosters.of(s.only(), s.now.LSN).seats }

// Each passes the rows of the clip.
func (s *Source) Each(ctx context.Context, use func(d *layout.Document) (more bool)) error {
	return s.each(ctx, func(_, _ []byte, d *layout.Document) bool { return use(d) })
}

// Sort passes the rows of the clip, and yields them in the order of their numbers.
func (s *Source) Sort(ctx context.Context, yield func(query.Candidate, error) bool) error {
	return s.scan(ctx, nil, 0, yield)
}

// LookUp looks up documents.
func (s *Source) LookUp(ctx context.Context, numbers []uint64, yield func(query.Candidate, error) bool) error {
	return s.walkList(ctx, numbers, 0, yield)
}

// Combine returns the set of an expression.
func (s *Source) Combine(ctx context.Context, e index.Expr) (set *storage.Postings, none bool) {
	return s.combine(ctx, e)
}

// MeanBytes returns the mean size of the documents of the clip.
func (s *Source) MeanBytes(ctx context.Context) (float64, error) {
	x, err := s.extent(ctx)
	return x.bytes, err
}

// Effort returns the number of terms and documents that the source has read.
func (s *Source) Effort() int64 { return s.passed + s.work.Documents }

// DocumentBounds returns the bounds of the documents of the clip.
func (s *Source) DocumentBounds() (low, high []byte) { return s.bounds(storage.FamilyDocument) }

// RosterCount returns the number of rosters of the partition.
func (r *Reader) RosterCount() int64 { return r.rosters.count.Load() }

// Roster returns the documents of a key, and their mean size, in the state with an
// LSN. It is not ok without a roster.
func (r *Reader) Roster(epk partitionkey.EPK, at resource.LSN) (set *storage.Postings, mean float64, ok bool) {
	e := r.rosters.of(epk, at)
	if e.numbers == nil {
		return nil, 0, false
	}
	return e.postings(), e.mean, true
}

// DropRosters drops all rosters.
func (r *Reader) DropRosters() { r.rosters.clear(0, false) }

// DropRosterChanges drops the changes of a roster.
func (r *Reader) DropRosterChanges(epk partitionkey.EPK) { r.rosters.keys[string(epk)].changes = nil }

// SetMax changes the memory for rosters.
func (s *Rosters) SetMax(bytes int64) { s.max = bytes }

// Used returns the bytes that rosters take.
func (s *Rosters) Used() int64 { return s.bytes }

// Location returns an entry of the location cache, empty if there is none.
func (r *Reader) Location(number uint64) string { return r.locations.of(number) }

// DropLocations empties the location cache.
func (r *Reader) DropLocations() { r.locations.slots.Store(nil) }
