package azcosmos

import (
	"context"
	"errors"

	"github.com/decandb/decan/resolver"
)

// Spill looks whether the last container of a spillover scheme is full, and if so makes
// the next one like it, as TemplateOf says, and saves the state that writes there. It returns the container
// that takes writes in the saved state, and whether that is a new one. Clients follow
// as they see the state; until then they write to the full one, which is why it counts
// as full early. Two clients may do so at once: they make one container.
//
// Call it every now and then, for instance each minute, and after a write was refused
// for lack of room.
func (c *Client) Spill(ctx context.Context, store resolver.Store, name, scheme string) (resolver.Target, bool, error) {
	for {
		state, version, err := resolver.LoadState(ctx, store, name)
		if err != nil {
			return resolver.Target{}, false, err
		}
		spillover, err := state.Spillover(scheme)
		if err != nil {
			return resolver.Target{}, false, err
		}
		last := spillover.Last()
		_, usage, err := c.usage(ctx, last)
		if err != nil || !spillover.Full(usage["documentsSize"]*1024, usage["documentsCount"]) {
			return last, false, err
		}
		grown, next, err := state.Spill(scheme)
		if err != nil {
			return last, false, err
		}
		like, err := c.TemplateOf(ctx, last)
		if err != nil {
			return last, false, err
		}
		if err := (Managed{c, like}).Ensure(ctx, []resolver.Target{next}); err != nil {
			return last, false, err
		}
		_, err = resolver.SaveState(ctx, store, name, grown, version)
		if errors.Is(err, resolver.ErrChanged) {
			continue // somebody else was faster: look at what there is now
		}
		return next, err == nil, err
	}
}
