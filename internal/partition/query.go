package partition

import (
	"context"
	"errors"

	"github.com/decandb/decan/internal/partition/scan"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/partitionkey"
)

// Query asks for one page of the rows of a plan.
type Query struct {
	Plan       *query.Plan
	Generation resource.Generation // of the partition as the caller knows it

	// Range has the keys whose documents count. Any part of it outside the partition
	// belongs to other partitions.
	Range partitionkey.Range

	Budget  query.Budget
	Session resource.LSN      // that the caller has seen; zero for none
	Meter   *throughput.Meter // receives the charge
}

// Query runs a plan for one page of rows. It reads one published state for the whole
// page, and returns the LSN of it, with an error as well. The next page may read a
// later state: no row is repeated or missed, because positions are document numbers.
// Errors are those of the plan, PartitionMoved, SessionNotAvailable, Unavailable, and
// RequestTimeout when ctx ends.
func (p *Partition) Query(ctx context.Context, q Query) (query.Page, resource.LSN, error) {
	now, err := p.acquire()
	if err != nil {
		return query.Page{}, 0, err
	}
	defer p.release(now)
	clip, overlaps := q.Range.Intersect(p.own.Range)
	if q.Generation != p.own.Generation || !overlaps {
		return query.Page{}, now.LSN, status.PartitionMoved(status.SubRangeGone)
	}
	if q.Session > now.LSN {
		return query.Page{}, now.LSN, status.SessionNotAvailable()
	}
	s := p.reader.Source(&now.Snapshot, q.Range, clip)
	defer s.Free()
	page, err := q.Plan.Run(ctx, s.Face(), q.Budget)
	if err != nil && ctx.Err() != nil && status.From(err) == nil {
		err = scan.Ended(ctx)
	}
	if errors.Is(err, query.ErrAgain) {
		return query.Page{}, now.LSN, err
	}
	p.served.queries.Add(1)
	q.Meter.Add(throughput.Query(s.Charged(page, q.Budget.Started)))
	return page, now.LSN, err
}

// Estimate returns how many documents the plan of q is expected to read here, as the
// index tells, and false if only reading can tell. It charges nothing, and uses Plan,
// Generation and Range of q only.
func (p *Partition) Estimate(ctx context.Context, q Query) (n int64, ok bool, err error) {
	now, err := p.acquire()
	if err != nil {
		return 0, false, err
	}
	defer p.release(now)
	clip, overlaps := q.Range.Intersect(p.own.Range)
	if q.Generation != p.own.Generation || !overlaps {
		return 0, false, status.PartitionMoved(status.SubRangeGone)
	}
	s := p.reader.Source(&now.Snapshot, q.Range, clip)
	defer s.Free()
	n, ok, err = q.Plan.Estimate(ctx, s.Face())
	if err != nil && ctx.Err() != nil && status.From(err) == nil {
		err = scan.Ended(ctx)
	}
	return n, ok, err
}
