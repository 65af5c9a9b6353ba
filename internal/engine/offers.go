package engine

import (
	"context"
	"fmt"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// ListOffers returns a page of all offers.
func (e *Engine) ListOffers(ctx context.Context, caller auth.Caller, req QueryRequest) (Feed, error) {
	req.Text, req.Params = listText, nil
	return e.QueryOffers(ctx, caller, req)
}

// QueryOffers runs a query over all offers. Clients find the one of a resource
// by its self link or RID.
func (e *Engine) QueryOffers(ctx context.Context, caller auth.Caller, req QueryRequest) (Feed, error) {
	return e.definitions(ctx, caller, req, func(view *catalog.View, _ *Feed) ([]definition, error) {
		var all []definition
		for _, t := range view.Offers() {
			all = append(all, definition{rid: t.RID, content: t.Value()})
		}
		return all, nil
	})
}

// ReadOffer returns the offer req.Offer.
func (e *Engine) ReadOffer(ctx context.Context, caller auth.Caller, req ResourceRequest) (Resource, error) {
	return e.define(caller, auth.Read, Link{}, func(out *Resource) error {
		view := e.catalog.View()
		t, err := locateOffer(view, req.Offer)
		if err != nil {
			return err
		}
		scope, err := e.offerScope(ctx, view, t)
		if err != nil {
			return err
		}
		out.offer(t)
		out.MinThroughput = scope.minimum(t)
		if err := unmodified(req.IfNoneMatch, t.ETag); err != nil {
			out.Body = nil
			return err
		}
		return nil
	})
}

// ReplaceOffer changes a provisioned throughput, or its mode. The change is
// complete when it returns. It refuses a figure that the physical partitions
// there are cannot be given, because they are not split for throughput yet.
func (e *Engine) ReplaceOffer(ctx context.Context, caller auth.Caller, req ResourceRequest) (Resource, error) {
	return e.define(caller, auth.Replace, Link{}, func(out *Resource) error {
		for attempt := 0; ; attempt++ {
			view := e.catalog.View()
			t, err := locateOffer(view, req.Offer)
			if err != nil {
				return err
			}
			if err := matches(req.IfMatch, t.ETag); err != nil {
				return err
			}
			scope, err := e.offerScope(ctx, view, t)
			if err != nil {
				return err
			}
			changed, err := e.replaced(t, scope, req)
			if err != nil {
				return err
			}
			after, err := e.catalog.Commit(ctx, catalog.PutThroughput{Throughput: changed, Expect: t.ETag})
			if status.CodeOf(err) == status.CodePreconditionFailed && req.IfMatch == "" && attempt < attemptsMax {
				continue
			}
			if err != nil {
				return err
			}
			stored, ok := after.Throughput(t.Owner)
			if !ok {
				return status.NotFound() // unreachable: after is the view this commit made
			}
			out.offer(stored)
			out.MinThroughput = scope.minimum(stored)
			return nil
		}
	})
}

// replaced is the decision of ReplaceOffer.
func (e *Engine) replaced(t resource.Throughput, scope offerScope, req ResourceRequest) (resource.Throughput, error) {
	var changed resource.Throughput
	var err error
	switch {
	case req.MigrateToAutoscale && req.MigrateToManual:
		return changed, status.BadRequest("An offer cannot be switched to autoscale and to manual throughput by one request.")
	case req.MigrateToAutoscale:
		changed = t.ToAutoscale(scope.bytes)
	case req.MigrateToManual:
		changed = t.ToManual()
	default:
		changed, err = t.Replace(req.Body, scope.minimum(t))
	}
	if err != nil {
		return changed, err
	}
	if most := scope.partitions * e.limits.PartitionRUs; changed.Total() > most && changed.Total() > t.Total() {
		return changed, status.Unsupported(fmt.Sprintf("Raising throughput beyond the partitions' limit (%d RU/s with the physical partitions there are)", most))
	}
	return changed, nil
}

func locateOffer(view *catalog.View, text string) (resource.Throughput, error) {
	rid, err := resource.ParseRID(text)
	if err != nil {
		return resource.Throughput{}, status.NotFound()
	}
	t, ok := view.Offer(rid)
	if !ok {
		return resource.Throughput{}, status.NotFound()
	}
	return t, nil
}

// offerScope is what an offer pays for.
type offerScope struct {
	bytes      int64 // stored documents
	containers int   // that share it
	partitions int   // of the container that has fewest
}

func (s offerScope) minimum(t resource.Throughput) int { return t.Minimum(s.bytes, s.containers) }

func (e *Engine) offerScope(ctx context.Context, view *catalog.View, t resource.Throughput) (offerScope, error) {
	var s offerScope
	sharing := sharers(view, t.Owner)
	if c, ok := view.ContainerByRID(t.Owner); ok {
		sharing = []*catalog.Container{c}
	}
	s.containers = len(sharing)
	s.partitions = partitionsMax
	for _, c := range sharing {
		s.partitions = min(s.partitions, c.Ranges.Len())
		err := e.eachStats(ctx, c, func(p PartitionStats) { s.bytes += p.DocumentBytes })
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

// offer fills the answer in.
func (r *Resource) offer(t resource.Throughput) {
	r.Body, r.RID, r.ETag = t.Value().Append(nil), t.RID, t.ETag
}
