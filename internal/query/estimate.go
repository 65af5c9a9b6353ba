package query

import (
	"context"
	"math"
)

// Estimate returns the number of documents of src that the plan expects to read, from
// the index alone. It returns false if that would cost as much as reading.
func (p *Plan) Estimate(ctx context.Context, src Source) (n int64, ok bool, err error) {
	indexed, ok := src.(Indexed)
	if !ok || p.base < 0 {
		return 0, false, nil
	}
	if h := p.Hybrid(); h != nil {
		return h.estimate(ctx, src)
	}
	n, _, err = indexed.Count(ctx, p.Access(), math.MaxInt64)
	if n > 0 && err == nil {
		n, err = p.estimateBest(ctx, indexed, n)
	}
	return n, n >= 0, err
}
