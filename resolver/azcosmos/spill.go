package azcosmos

import (
	"cmp"
	"context"
	"errors"

	"github.com/decandb/decan/resolver"
)

// Spill checks whether the last container of a spillover scheme is full. If it
// is, Spill creates the next container like it, as TemplateOf describes, and
// directs writes to it. It returns the container that accepts writes in the
// saved state, and whether this call changed it.
//
// Spill saves two states. In the first, the new container is opening: clients
// read it but still write the full one, which is why a container counts as full
// before it reaches its limit. After the lease plus the timeout of c (15 s by
// default) every client reads the new container, and the second state directs
// writes to it. If a program crashes in between, the first state remains, and
// any later call of Spill finishes the work. Several programs may call Spill at
// once; they create one container.
//
// Call it regularly, for instance once a minute, and after a write was refused
// because the container is full.
func (c *Client) Spill(ctx context.Context, store resolver.Store, name, scheme string) (resolver.Target, bool, error) {
	settled := "" // the container that every client reads
	for {
		state, version, err := resolver.LoadState(ctx, store, name)
		if err != nil {
			return resolver.Target{}, false, err
		}
		spillover, err := state.Spillover(scheme)
		if err != nil {
			return resolver.Target{}, false, err
		}
		last, next := spillover.Last(), spillover.Next()
		if !spillover.Opening() {
			var grown bool
			if state, grown, err = c.grow(ctx, state, scheme, spillover); err != nil || !grown {
				return last, false, err
			}
			version, err = resolver.SaveState(ctx, store, name, state, version)
			if errors.Is(err, resolver.ErrChanged) {
				continue // another client was faster: read the new state
			}
			if err != nil {
				return last, false, err
			}
		}
		if settled != next.Name {
			if err := c.settle(ctx); err != nil {
				return last, false, err
			}
			settled = next.Name
		}
		if state, err = state.EndSpill(scheme); err != nil {
			return last, false, err
		}
		_, err = resolver.SaveState(ctx, store, name, state, version)
		if errors.Is(err, resolver.ErrChanged) {
			continue
		}
		if err != nil {
			return last, false, err
		}
		return next, true, nil
	}
}

// grow creates the next container if the last one is full, and returns the state
// in which clients read it.
func (c *Client) grow(ctx context.Context, state resolver.State, scheme string, spillover *resolver.Spillover[resolver.Key]) (resolver.State, bool, error) {
	last := spillover.Last()
	_, usage, err := c.usage(ctx, last)
	if err != nil || !spillover.Full(usage["documentsSize"]*1024, usage["documentsCount"]) {
		return state, false, err
	}
	grown, next, err := state.Spill(scheme)
	if err != nil {
		return state, false, err
	}
	like, err := c.TemplateOf(ctx, last)
	if err != nil {
		return state, false, err
	}
	return grown, true, Managed{c, like}.Ensure(ctx, []resolver.Target{next})
}

// settle waits until every client with the same lease and timeout as this one
// has seen the current state of the store and has finished what it began before.
// A client that loaded an older state may begin operations under it for one
// lease, and each of them lasts for at most one timeout.
func (c *Client) settle(ctx context.Context) error {
	if err := c.config.View.Refresh(ctx); err != nil {
		return err
	}
	return c.sleep(ctx, cmp.Or(c.config.View.Lease(), resolver.LeaseDefault)+c.config.Timeout)
}
