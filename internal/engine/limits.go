package engine

import (
	"context"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// ContainerLimits says which limits hold for a container.
type ContainerLimits struct {
	Limits     resource.Limits    // in force: the container's own, and the server's
	SplitDelay time.Duration      // in force
	Own        resource.OwnLimits // what the container has of its own
}

// LimitsOf returns the limits of a container: 404/1003 when it does not exist.
func (e *Engine) LimitsOf(caller auth.Caller, link Link) (ContainerLimits, error) {
	if err := caller.Allow(auth.Read, link.path()); err != nil {
		return ContainerLimits{}, fail(err)
	}
	c, ok := locateContainer(e.catalog.View(), link)
	if !ok {
		return ContainerLimits{}, status.OwnerNotFound()
	}
	return e.limitsOf(c), nil
}

func (e *Engine) limitsOf(c *catalog.Container) ContainerLimits {
	all := ContainerLimits{Limits: e.limits.Of(c.Limits), SplitDelay: e.node.SplitDelay(), Own: c.Limits}
	if own := c.Limits.SplitDelay; own != nil {
		all.SplitDelay = *own
	}
	return all
}

// ChangeLimits has change edit the limits that a container has of its own, and
// returns those in force from then on. change may be called several times, when
// others change them meanwhile; its error is returned. Limits that cannot be had
// are 400. Documents above a lowered limit stay: a partition that is too large
// now is split, and of a full key no document grows. A throughput above what the
// container may have stays, too, until it is changed.
func (e *Engine) ChangeLimits(ctx context.Context, caller auth.Caller, link Link, change func(*resource.OwnLimits) error) (ContainerLimits, error) {
	if err := caller.Allow(auth.Replace, link.path()); err != nil {
		return ContainerLimits{}, fail(err)
	}
	var fresh *catalog.Container
	err := onCommit(false, func() error {
		c, ok := locateContainer(e.catalog.View(), link)
		if !ok {
			return status.OwnerNotFound()
		}
		wanted := c.Limits
		if err := change(&wanted); err != nil {
			return err
		}
		if err := wanted.Validate(e.limits); err != nil {
			return err
		}
		view, err := e.catalog.Commit(ctx, catalog.PutLimits{RID: c.RID, Limits: wanted, Expected: c.Limits})
		if err != nil {
			return err
		}
		if fresh, ok = view.ContainerByRID(c.RID); !ok {
			return status.OwnerNotFound() // unreachable: view is the one this commit made
		}
		return nil
	})
	if err != nil {
		return ContainerLimits{}, fail(err)
	}
	e.logger.Info("limits of container changed", "container", fresh.RID)
	if e.rebalance != nil {
		e.node.Warm(ctx, fresh) // Closed partitions count as empty.
		e.rebalance(fresh.RID)
	}
	return e.limitsOf(fresh), nil
}
