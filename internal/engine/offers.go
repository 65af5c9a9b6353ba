package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/throughput"
)

// ListOffers returns a page of all offers.
func (e *Engine) ListOffers(ctx context.Context, caller auth.Caller, req QueryRequest) (Feed, error) {
	req.Text, req.Params = listText, nil
	return e.QueryOffers(ctx, caller, req)
}

// QueryOffers runs a query over all offers. Clients find the one of a resource
// by its self link or RID.
func (e *Engine) QueryOffers(ctx context.Context, caller auth.Caller, req QueryRequest) (Feed, error) {
	return e.definitionsOf(ctx, caller, auth.Offer, req, func(view *catalog.View, _ *Feed) ([]definition, error) {
		var all []definition
		for _, t := range view.Offers() {
			all = append(all, definition{rid: t.RID, content: t.Value()})
		}
		return all, nil
	})
}

// ReadOffer returns the offer req.Offer.
func (e *Engine) ReadOffer(ctx context.Context, caller auth.Caller, req OfferRequest) (Resource, error) {
	return e.defineAs(caller, auth.Read, auth.Offer, Link{}, func(out *Resource) error {
		view := e.catalog.View()
		t, err := locateOffer(view, req.Offer)
		if err != nil {
			return err
		}
		scope, err := e.offerScope(ctx, view, t)
		if err != nil {
			return err
		}
		e.describeOffer(t, scope, req, out)
		if err := unmodified(req.IfNoneMatch, t.ETag); err != nil {
			out.Body = nil
			return err
		}
		return nil
	})
}

// ReplaceOffer changes a provisioned throughput, its mode, its throughput
// buckets or how it is divided over physical partitions. A figure that the
// partitions there can carry counts at once. A higher one is stored and pending
// while partitions are split for it: until then each has as much as it can be
// given, and a further rise is 423.
func (e *Engine) ReplaceOffer(ctx context.Context, caller auth.Caller, req OfferRequest) (Resource, error) {
	return e.defineAs(caller, auth.Replace, auth.Offer, Link{}, func(out *Resource) error {
		counted := false // among the changes of throughput, which are bounded
		return onCommit(req.IfMatch != "", func() error {
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
			if !counted && !sameFigures(t, changed) {
				if err := e.control.throughputChange(); err != nil {
					return err
				}
				counted = true
			}
			after, err := e.catalog.Commit(ctx, catalog.PutThroughput{Throughput: changed, Expect: t.ETag})
			if err != nil {
				return err
			}
			stored, ok := after.Throughput(t.Owner)
			if !ok {
				return status.NotFound() // unreachable: after is the view this commit made
			}
			if scope.pending(stored) {
				for _, c := range scope.containers {
					e.rebalance(c.RID)
				}
			}
			e.describeOffer(stored, scope, req, out)
			return nil
		})
	})
}

// sameFigures reports whether two versions of a throughput differ in nothing that
// is provisioned.
func sameFigures(a, b resource.Throughput) bool {
	return a.Manual == b.Manual && a.Max == b.Max && slices.Equal(a.Shares, b.Shares)
}

// replaced is the decision of ReplaceOffer.
func (e *Engine) replaced(t resource.Throughput, scope offerScope, req OfferRequest) (resource.Throughput, error) {
	changed, err := e.edited(t, scope, req)
	if err != nil {
		return changed, err
	}
	if !slices.Equal(changed.Buckets, t.Buckets) {
		if err := e.mayChangeBuckets(t); err != nil {
			return changed, err
		}
		changed.BucketsAt = resource.Timestamp(e.now().Unix())
	}
	if !scope.pending(changed) {
		return changed, nil
	}
	if changed.Total() <= t.Total() && slices.Equal(changed.Shares, t.Shares) {
		return changed, nil // It was pending before, and waits for less now.
	}
	if scope.pending(t) {
		return changed, status.New(status.CodeLocked, 0, "The throughput cannot be raised while another change of it is under way: partitions are being split to reach %d RU/s. Try again when that is done.", t.Total())
	}
	if e.rebalance == nil {
		return changed, scope.notCarried()
	}
	return changed, nil
}

// edited returns a throughput as the request wants it.
func (e *Engine) edited(t resource.Throughput, scope offerScope, req OfferRequest) (resource.Throughput, error) {
	switch {
	case req.MigrateToAutoscale && req.MigrateToManual:
		return t, status.BadRequest("An offer cannot be switched to autoscale and to manual throughput by one request.")
	case (req.MigrateToAutoscale || req.MigrateToManual) && len(t.Shares) > 0:
		return t, resource.DividedByHand()
	case req.MigrateToAutoscale:
		changed := t.ToAutoscale(scope.stored())
		return changed, scope.limits().Valid(changed)
	case req.MigrateToManual:
		return t.ToManual(), nil
	case req.Redistribution != nil:
		return e.redistributed(t, scope, *req.Redistribution)
	}
	return t.Replace(req.Body, scope.minimum(t), scope.limits())
}

// bucketsRest is how long throughput buckets stay as they were changed.
const bucketsRest = 10 * time.Minute

func (e *Engine) mayChangeBuckets(t resource.Throughput) error {
	if wait := time.Unix(int64(t.BucketsAt), 0).Add(bucketsRest).Sub(e.now()); wait > 0 {
		return status.TooManyRequests(status.SubBucketChange, wait, "Throughput buckets can be changed once in %d minutes.", int(bucketsRest.Minutes()))
	}
	return nil
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
	owner      resource.RID // a container, or a database whose containers share the offer
	bytes      int64        // stored documents
	containers []*catalog.Container
	server     resource.Limits
}

func (s offerScope) minimum(t resource.Throughput) int {
	return t.Minimum(s.stored())
}

// stored is what the minimum of a throughput follows from.
func (s offerScope) stored() (gigabytes, containers int) {
	return s.server.Gigabytes(s.bytes), len(s.containers)
}

// limits are those of the container whose offer it is, or the server's for
// containers that share one, however many they are.
func (s offerScope) limits() resource.Limits {
	if len(s.containers) == 0 || s.owner.IsDatabase() {
		return s.server
	}
	return s.server.Of(s.containers[0].Limits)
}

// most is what one partition of a container can be given.
func (s offerScope) most(c *catalog.Container) int { return s.server.Of(c.Limits).PartitionRUs }

// instant returns the highest RU/s that need no split, when every partition is
// given what it can be: containers that share an offer are split alike.
func (s offerScope) instant() int {
	limit := s.limits().ContainerRUs
	for _, c := range s.containers {
		limit = min(limit, c.Ranges.Len()*s.most(c))
	}
	return limit
}

// pending reports whether a throughput waits for partitions to be split.
func (s offerScope) pending(t resource.Throughput) bool {
	return slices.ContainsFunc(s.containers, func(c *catalog.Container) bool {
		return throughput.Pending(t, c.RID, c.Partitions(), s.most(c))
	})
}

// notCarried refuses a throughput by name that the partitions there cannot
// carry, where nobody splits them.
func (s offerScope) notCarried() error {
	return status.Unsupported(fmt.Sprintf("Raising throughput beyond the partitions' limit (%d RU/s with the physical partitions there are)", s.instant()))
}

func (e *Engine) offerScope(ctx context.Context, view *catalog.View, t resource.Throughput) (offerScope, error) {
	s := offerScope{owner: t.Owner, containers: view.Provisioned(t.Owner), server: e.limits}
	for _, c := range s.containers {
		all, err := e.stats(ctx, c)
		if err != nil {
			return s, err
		}
		for _, p := range all {
			s.bytes += p.DocumentBytes
		}
	}
	return s, nil
}

// describeOffer fills the answer in.
func (e *Engine) describeOffer(t resource.Throughput, scope offerScope, req OfferRequest, out *Resource) {
	out.RID, out.ETag = t.RID, t.ETag
	out.Body = t.Value().Append(nil)
	if req.PartitionRUs {
		var names []string
		var shares []float64
		for _, given := range e.distribution(t, scope.containers) {
			names, shares = append(names, given.Name), append(shares, given.RUs)
		}
		out.Body = t.Describe(names, shares).Append(nil)
	}
	out.MinThroughput = scope.minimum(t)
	out.InstantThroughput = scope.instant()
	out.MaxThroughput = scope.limits().ContainerRUs
	out.ReplacePending = scope.pending(t)
}
