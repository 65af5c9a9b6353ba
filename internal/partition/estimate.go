package partition

import (
	"context"

	"github.com/decandb/decan/internal/status"
)

// Estimate returns how many documents the plan of q expects to read here, by the
// index alone, and false when nothing short of reading can tell. It costs
// nothing that a meter counts, and looks at Plan, Generation and Range of q only.
func (p *Partition) Estimate(ctx context.Context, q Query) (n int64, ok bool, err error) {
	now, err := p.acquire()
	if err != nil {
		return 0, false, err
	}
	defer p.release(now)
	clip, overlaps := q.Range.Intersect(p.descriptor.Range)
	if q.Generation != p.descriptor.Generation || !overlaps {
		return 0, false, status.PartitionMoved(status.SubRangeGone)
	}
	s := newSource(p, now, q.Range, clip)
	defer s.free()
	n, ok, err = q.Plan.Estimate(ctx, s.face())
	if err != nil && ctx.Err() != nil && status.From(err) == nil {
		err = ended(ctx)
	}
	return n, ok, err
}
