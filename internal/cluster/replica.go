package cluster

import (
	"context"

	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/resource"
)

// Replica is a partition as the engine uses it: here today, on another node
// later. Its methods may be called at the same time from several goroutines.
type Replica interface {
	// Write carries out one document write.
	Write(ctx context.Context, w partition.Write) (partition.Written, error)
	// Read returns one document.
	Read(ctx context.Context, r partition.Read) (partition.Found, error)
	// Query returns a page of a plan's rows, and the LSN that they reflect,
	// also with an error.
	Query(ctx context.Context, q partition.Query) (query.Page, resource.LSN, error)
	// Estimate says how many documents a query expects to read, and false when
	// nothing short of reading can tell.
	Estimate(ctx context.Context, q partition.Query) (int64, bool, error)
	// Stats says how the partition is doing.
	Stats() Stats
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
	return s.partition.Write(ctx, w)
}

func (s *slot) Read(ctx context.Context, r partition.Read) (partition.Found, error) {
	s.reads.Add(1)
	return s.partition.Read(ctx, r)
}

func (s *slot) Query(ctx context.Context, q partition.Query) (query.Page, resource.LSN, error) {
	s.queries.Add(1)
	return s.partition.Query(ctx, q)
}

func (s *slot) Stats() Stats {
	return Stats{
		Stats:   s.partition.Stats(),
		Reads:   s.reads.Load(),
		Writes:  s.writes.Load(),
		Queries: s.queries.Load(),
	}
}
