package balance

import (
	"context"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/status"
)

// raise raises the autoscale maximum of a container, or of the database whose
// throughput it shares, as the stored documents and the upgrade policy require.
// It reports whether anything changed in the meantime. It opens all their
// partitions.
func (b *Balancer) raise(ctx context.Context, view *catalog.View, c *catalog.Container) (changed bool, err error) {
	t, found := view.ThroughputOf(c)
	if !found || !t.IsAutoscale() {
		return false, nil
	}
	bytes := int64(0)
	limits := b.cfg.Limits
	for _, paid := range view.Provisioned(t.Owner) {
		b.cfg.Node.Warm(ctx, paid)
		for _, p := range paid.Partitions() {
			size, err := b.cfg.Node.Size(ctx, paid, p.ID, true)
			if status.CodeOf(err) == status.CodeGone {
				return true, nil // it was split, merged or dropped: check again
			}
			if err != nil {
				return false, err
			}
			bytes += size
		}
	}
	if !t.Owner.IsDatabase() {
		limits = limits.Of(c.Limits)
	}
	raised, cause := t.Fitting(b.cfg.Limits.Gigabytes(bytes), limits), "data stored"
	if raised.Max == t.Max && b.cfg.Node.ReachedMax(c) {
		raised, cause = t.Upgraded(limits), "load"
	}
	if raised.Max == t.Max {
		return false, nil
	}
	_, err = b.cfg.Catalog.Commit(ctx, catalog.PutThroughput{Throughput: raised, Expect: t.ETag})
	if code := status.CodeOf(err); code == status.CodePreconditionFailed || code == status.CodeNotFound {
		return true, nil // another change came first
	}
	if err != nil {
		return false, err
	}
	b.cfg.Logger.Info("autoscale maximum raised", "cause", cause, "owner", t.Owner, "from", t.Max, "to", raised.Max, "bytes", bytes)
	for _, paid := range view.Provisioned(t.Owner) {
		if paid.RID != c.RID {
			b.Wake(paid.RID) // it may need more partitions now
		}
	}
	return true, nil
}
