package azcosmos

import (
	"cmp"
	"context"
	"errors"

	"github.com/decandb/decan/resolver"
)

// Spill looks whether the last container of a spillover scheme is full, and if so makes
// the next one like it, as TemplateOf says, and has it take the writes. It returns the
// container that takes writes in the saved state, and whether this call has made it so.
//
// It saves two states. In the first the new container is opening: clients read it and write
// the full one still, which is why that counts as full early. When every client reads
// the new one, after the lease and the timeout of c together (15 s by default), the second
// state has it written. A program that dies in between leaves the first state; then any call
// of Spill does the rest. Many may do so at once: they make one container.
//
// Call it every now and then, for instance each minute, and after a write was refused
// for lack of room.
func (c *Client) Spill(ctx context.Context, store resolver.Store, name, scheme string) (resolver.Target, bool, error) {
	settled := "" // the container that every client knows
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
				continue // somebody else was faster: look at what there is now
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

// grow makes the next container, if the last one is full, and returns the state that reads
// it.
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

// settle waits until every client with the lease and timeout of this one has seen what the
// store had at the call, and has ended what it began before: one that loaded the state
// before that may begin operations by it for a lease, and each lasts for a timeout at most.
func (c *Client) settle(ctx context.Context) error {
	if err := c.config.View.Refresh(ctx); err != nil {
		return err
	}
	return c.sleep(ctx, cmp.Or(c.config.View.Lease(), resolver.LeaseDefault)+c.config.Timeout)
}
