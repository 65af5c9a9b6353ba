package engine

import (
	"context"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// ContainerLimits are the limits of a container.
type ContainerLimits struct {
	Limits     resource.Limits    // in force: the container's own, and the server's
	SplitDelay time.Duration      // in force
	Own        resource.OwnLimits // set for this container
}

// LimitsOf returns the limits of a container. The error is 404/1003 if it does
// not exist.
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

// ChangeLimits changes the limits that a container has of its own, and returns
// those in force afterwards. It calls change with the current ones, again if
// they were changed concurrently, and returns its error. Invalid limits are 400.
// Documents above a lowered limit stay: a partition that is now too large is
// split, and the documents of a key that is over its limit cannot grow. A
// throughput above a lowered limit stays until it is changed.
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
		e.node.Warm(ctx, fresh) // The size of a closed partition is unknown, and counts as zero.
		e.rebalance(fresh.RID)
	}
	return e.limitsOf(fresh), nil
}
