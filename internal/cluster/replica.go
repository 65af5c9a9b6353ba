package cluster

import (
	"context"

	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/resource"
)

// Replica is a partition as the engine uses it. The only implementation is a partition of
// this node. Its methods may be called from several goroutines at the same time.
//
// A call spends what its meter counts from the partition's budget. If the budget is used
// up, the call may be refused with TooManyRequests; then it has done nothing and costs
// nothing.
type Replica interface {
	// Write carries out one document write.
	Write(ctx context.Context, w partition.Write) (partition.Written, error)
	// Batch carries out several operations on documents of one key. Its Atomicity says what a
	// refused operation means for the others.
	Batch(ctx context.Context, b partition.Batch) (partition.Batched, error)
	// Transact runs work as a transaction on the documents of one key. Other writes to the key
	// wait for its end.
	Transact(ctx context.Context, h partition.Transact, work func(*partition.LockedTransaction) error) (partition.Committed, error)
	// Purge deletes all documents of a key, or of a prefix of one.
	Purge(ctx context.Context, p partition.Purge) (partition.Purged, error)
	// Read returns one document.
	Read(ctx context.Context, r partition.Read) (partition.Found, error)
	// Query returns a page of a plan's rows, and the LSN that they reflect. The LSN is
	// valid also with an error.
	Query(ctx context.Context, q partition.Query) (query.Page, resource.LSN, error)
	// Feed returns a page of the change feed.
	Feed(ctx context.Context, f partition.Feed) (partition.FeedPage, error)
	// Estimate returns how many documents a query is expected to read, and false if that
	// is not known without reading them.
	Estimate(ctx context.Context, q partition.Query) (int64, bool, error)
	// WriteItems changes items of one key of a table. The LSN is valid also with an error.
	WriteItems(ctx context.Context, w partition.WriteItems) (resource.LSN, error)
	// ReadItems visits items of a table. The LSN is valid also with an error.
	ReadItems(ctx context.Context, r *partition.ReadItems) (resource.LSN, error)
	// Stats returns the statistics of the partition.
	Stats() Stats
	// Load returns what calls have spent since the partition was opened.
	Load() Load
}

// Stats has the statistics of a replica.
type Stats struct {
	partition.Stats

	// Calls since the partition was opened on this node.
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

func (s *slot) Transact(ctx context.Context, h partition.Transact, work func(*partition.LockedTransaction) error) (partition.Committed, error) {
	s.writes.Add(1)
	p, err := s.budget.admit(h.Meter)
	if err != nil {
		return partition.Committed{LSN: s.partition.LSN()}, err
	}
	committed, err := s.partition.Transact(ctx, h, work)
	p.bill(h.EPK, &h.Key)
	return committed, err
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

func (s *slot) WriteItems(ctx context.Context, w partition.WriteItems) (resource.LSN, error) {
	s.writes.Add(1)
	p, err := s.budget.admit(w.Meter)
	if err != nil {
		return s.partition.LSN(), err
	}
	lsn, err := s.partition.WriteItems(ctx, w)
	p.bill(w.EPK, &w.Key)
	if s.partition.Urgent() {
		s.budget.node.notePurging(s)
	}
	return lsn, err
}

func (s *slot) ReadItems(ctx context.Context, r *partition.ReadItems) (resource.LSN, error) {
	calls := &s.queries
	if r.Key.Len() > 0 {
		calls = &s.reads
	}
	calls.Add(1)
	p, err := s.budget.admit(r.Meter)
	if err != nil {
		return s.partition.LSN(), err
	}
	lsn, err := s.partition.ReadItems(ctx, r)
	if r.Key.Len() > 0 {
		p.bill(r.EPK, &r.Key)
	} else {
		p.billRange(r.Range)
	}
	return lsn, err
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
