package cluster

import (
	"context"

	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/resource"
)

// Replica is a partition as the engine uses it: here today, on another node
// later. Its methods may be called at the same time from several goroutines.
//
// What a call costs is spent from the partition's budget, as its meter says; one
// that meets a budget which is used up may be refused with TooManyRequests, and
// then it has done and cost nothing.
type Replica interface {
	// Write carries out one document write.
	Write(ctx context.Context, w partition.Write) (partition.Written, error)
	// Batch carries out several operations on documents of one key, all or none.
	Batch(ctx context.Context, b partition.Batch) (partition.Batched, error)
	// Hold has work done with the documents of one key, all of it or nothing,
	// while others wait for the key.
	Hold(ctx context.Context, h partition.Hold, work func(*partition.Holding) error) (partition.Held, error)
	// Purge deletes all documents of a key, or of a prefix of one.
	Purge(ctx context.Context, p partition.Purge) (partition.Purged, error)
	// Read returns one document.
	Read(ctx context.Context, r partition.Read) (partition.Found, error)
	// Query returns a page of a plan's rows, and the LSN that they reflect,
	// also with an error.
	Query(ctx context.Context, q partition.Query) (query.Page, resource.LSN, error)
	// Feed returns a page of the change feed.
	Feed(ctx context.Context, f partition.Feed) (partition.FeedPage, error)
	// Estimate says how many documents a query expects to read, and false when
	// nothing short of reading can tell.
	Estimate(ctx context.Context, q partition.Query) (int64, bool, error)
	// Stats says how the partition is doing.
	Stats() Stats
	// Load says what calls have spent since the partition was opened.
	Load() Load
}

// Stats is what a replica says about itself.
type Stats struct {
	partition.Stats

	// Calls since the partition was opened here.
	Reads, Writes, Queries int64
}

var _ Replica = (*slot)(nil)

func (s *slot) Estimate(ctx context.Context, q partition.Query) (int64, bool, error) {
	return s.partition.Estimate(ctx, q)
}

func (s *slot) Write(ctx context.Context, w partition.Write) (partition.Written, error) {
	s.writes.Add(1)
	p, err := s.budget.admit(w.Meter)
	if err != nil {
		return partition.Written{LSN: s.partition.LSN()}, err
	}
	written, err := s.partition.Write(ctx, w)
	p.bill(w.EPK, &w.Key)
	return written, err
}

func (s *slot) Batch(ctx context.Context, b partition.Batch) (partition.Batched, error) {
	s.writes.Add(1)
	p, err := s.budget.admit(b.Meter)
	if err != nil {
		return partition.Batched{LSN: s.partition.LSN()}, err
	}
	done, err := s.partition.Batch(ctx, b)
	p.bill(b.EPK, &b.Key)
	return done, err
}

func (s *slot) Hold(ctx context.Context, h partition.Hold, work func(*partition.Holding) error) (partition.Held, error) {
	s.writes.Add(1)
	p, err := s.budget.admit(h.Meter)
	if err != nil {
		return partition.Held{LSN: s.partition.LSN()}, err
	}
	held, err := s.partition.Hold(ctx, h, work)
	p.bill(h.EPK, &h.Key)
	return held, err
}

func (s *slot) Read(ctx context.Context, r partition.Read) (partition.Found, error) {
	s.reads.Add(1)
	p, err := s.budget.admit(r.Meter)
	if err != nil {
		return partition.Found{LSN: s.partition.LSN()}, err
	}
	found, err := s.partition.Read(ctx, r)
	p.bill(r.EPK, &r.Key)
	return found, err
}

func (s *slot) Query(ctx context.Context, q partition.Query) (query.Page, resource.LSN, error) {
	s.queries.Add(1)
	p, err := s.budget.admit(q.Meter)
	if err != nil {
		return query.Page{}, s.partition.LSN(), err
	}
	page, lsn, err := s.partition.Query(ctx, q)
	p.billRange(q.Range)
	return page, lsn, err
}

func (s *slot) Feed(ctx context.Context, f partition.Feed) (partition.FeedPage, error) {
	s.queries.Add(1)
	p, err := s.budget.admit(f.Meter)
	if err != nil {
		return partition.FeedPage{LSN: s.partition.LSN()}, err
	}
	page, err := s.partition.Feed(ctx, f)
	p.billRange(f.Range)
	return page, err
}

func (s *slot) Load() Load { return s.budget.load() }

func (s *slot) Stats() Stats {
	return Stats{
		Stats:   s.partition.Stats(),
		Reads:   s.reads.Load(),
		Writes:  s.writes.Load(),
		Queries: s.queries.Load(),
	}
}
