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

// QueryOffers runs a query over all offers. Clients find the offer of a
// resource by self link or RID.
func (e *Engine) QueryOffers(ctx context.Context, caller auth.Caller, req QueryRequest) (Feed, error) {
	return e.definitionsOf(ctx, caller, auth.Offer, req, func(view *catalog.View, _ *Feed) ([]definition, error) {
		var all []definition
		for _, t := range view.Offers() {
			all = append(all, definition{rid: t.RID, content: t.Value()})
		}
		return all, nil
	})
}

// ReadOffer returns an offer.
func (e *Engine) ReadOffer(ctx context.Context, caller auth.Caller, req OfferRequest) (Resource, error) {
	return e.defineAs(caller, auth.Read, auth.Offer, Link{}, func(out *Resource) error {
		view := e.catalog.View()
		t, err := locateOffer(view, req)
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
// buckets or its division over physical partitions. A throughput that the
// present partitions can carry takes effect at once. A higher one is stored and
// pending while partitions are split for it: until then each partition has its
// maximum, and a further increase is 423.
func (e *Engine) ReplaceOffer(ctx context.Context, caller auth.Caller, req OfferRequest) (Resource, error) {
	return e.defineAs(caller, auth.Replace, auth.Offer, Link{}, func(out *Resource) error {
		counted := false // for the bound on changes of throughput, once for all attempts
		return onCommit(req.IfMatch != "", func() error {
			view := e.catalog.View()
			t, err := locateOffer(view, req)
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
			if e.rebalance != nil && scope.pending(stored) {
				for _, c := range scope.containers {
					e.rebalance(c.RID)
				}
			}
			e.describeOffer(stored, scope, req, out)
			return nil
		})
	})
}

// sameFigures reports whether two versions of a throughput provision the same.
func sameFigures(a, b resource.Throughput) bool {
	return a.Manual == b.Manual && a.Max == b.Max && slices.Equal(a.Shares, b.Shares)
}

// replaced returns the new throughput for ReplaceOffer, or the error that
// refuses it.
func (e *Engine) replaced(t resource.Throughput, scope offerScope, req OfferRequest) (resource.Throughput, error) {
	changed, err := e.edited(t, scope, req)
	if err != nil {
		return changed, err
	}
	if !slices.Equal(changed.Buckets, t.Buckets) {
		if err := e.mayChangeBuckets(t); err != nil {
			return changed, err
		}
		changed.BucketsAt = resource.Timestamp(e.guardedNow().Unix())
	}
	if !scope.pending(changed) {
		return changed, nil
	}
	if changed.Total() <= t.Total() && slices.Equal(changed.Shares, t.Shares) {
		return changed, nil // It was pending before, and is pending for less now.
	}
	if scope.pending(t) {
		return changed, status.New(status.CodeLocked, 0, "The throughput cannot be raised while another change of it is in progress: partitions are being split to reach %d RU/s. Try again when that is done.", t.Total())
	}
	if e.rebalance == nil {
		return changed, scope.notCarried()
	}
	return changed, nil
}

// edited returns a throughput with the changes of the request.
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
	case req.Throughput != (ThroughputRequest{}):
		return setThroughput(t, scope, req.Throughput)
	case req.Redistribution != nil:
		return e.redistributed(t, scope, *req.Redistribution)
	}
	return t.Replace(req.Body, scope.minimum(t), scope.limits())
}

// setThroughput returns a throughput with another value, and in its mode.
func setThroughput(t resource.Throughput, scope offerScope, to ThroughputRequest) (resource.Throughput, error) {
	given, err := scope.limits().NewThroughput(to.Manual, to.AutoscaleMax, to.Upgrade)
	if err != nil {
		return t, err
	}
	changed := t
	if given.IsAutoscale() {
		changed = t.ToAutoscale(scope.stored())
		changed.Max = given.Max
	} else {
		changed = t.ToManual()
		changed.Manual = given.Manual
	}
	changed.Highest = t.Highest
	if sameFigures(t, changed) {
		return t, nil
	}
	if len(t.Shares) > 0 {
		return t, resource.DividedByHand()
	}
	return changed.AtLeast(scope.minimum(changed))
}

// bucketsRest is the time between two changes of throughput buckets.
const bucketsRest = 10 * time.Minute

func (e *Engine) mayChangeBuckets(t resource.Throughput) error {
	if wait := time.Unix(int64(t.BucketsAt), 0).Add(bucketsRest).Sub(e.guardedNow()); wait > 0 {
		return status.TooManyRequests(status.SubBucketChange, wait, "Throughput buckets can be changed once in %d minutes.", int(bucketsRest.Minutes()))
	}
	return nil
}

func locateOffer(view *catalog.View, req OfferRequest) (resource.Throughput, error) {
	if req.Offer == "" && req.Owner != (Link{}) {
		return ownOffer(view, req.Owner)
	}
	rid, err := resource.ParseRID(req.Offer)
	if err != nil {
		return resource.Throughput{}, status.NotFound()
	}
	t, ok := view.Offer(rid)
	if !ok {
		return resource.Throughput{}, status.NotFound()
	}
	return t, nil
}

// ownOffer finds the offer of a container or database. The error is 400 if it has none.
func ownOffer(view *catalog.View, owner Link) (resource.Throughput, error) {
	if owner.Container == "" {
		d, ok := view.Database(owner.Database)
		if !ok {
			return resource.Throughput{}, status.NotFound()
		}
		if t, ok := view.Throughput(d.RID); ok {
			return t, nil
		}
		return resource.Throughput{}, status.BadRequest("%s has no throughput that its containers share. It can get one only when it is created.", owner.Database)
	}
	c, ok := view.Container(owner.Database, owner.Container)
	if !ok {
		return resource.Throughput{}, status.NotFound()
	}
	if t, ok := view.Throughput(c.RID); ok {
		return t, nil
	}
	if _, shared := view.Throughput(c.Database.RID); shared {
		return resource.Throughput{}, status.BadRequest("%s.%s has no throughput of its own: it shares that of %s.", owner.Database, owner.Container, owner.Database)
	}
	return resource.Throughput{}, status.BadRequest("Throughput cannot be set: the account is serverless.")
}

// offerScope is the set of containers that an offer provides throughput for.
type offerScope struct {
	owner      resource.RID // a container, or a database whose containers share the offer
	bytes      int64        // stored documents
	containers []*catalog.Container
	server     resource.Limits
}

func (s offerScope) minimum(t resource.Throughput) int {
	return t.Minimum(s.stored())
}

// stored returns the figures from which the minimum of a throughput follows.
func (s offerScope) stored() (gigabytes, containers int) {
	return s.server.Gigabytes(s.bytes), len(s.containers)
}

// limits returns those of the container whose offer it is, or the server's for
// an offer that containers share.
func (s offerScope) limits() resource.Limits {
	if len(s.containers) == 0 || s.owner.IsDatabase() {
		return s.server
	}
	return s.server.Of(s.containers[0].Limits)
}

// partitionMax is the RU/s that one partition of a container can get.
func (s offerScope) partitionMax(c *catalog.Container) int { return s.server.Of(c.Limits).PartitionRUs }

// instant returns the highest RU/s that need no split, with every partition at
// its maximum. Containers that share an offer are split alike.
func (s offerScope) instant() int {
	limit := s.limits().ContainerRUs
	for _, c := range s.containers {
		limit = min(limit, c.Ranges.Len()*s.partitionMax(c))
	}
	return limit
}

// pending reports whether a throughput needs splits that are not done yet.
func (s offerScope) pending(t resource.Throughput) bool {
	return slices.ContainsFunc(s.containers, func(c *catalog.Container) bool {
		return throughput.Pending(t, c.RID, c.Partitions(), s.partitionMax(c))
	})
}

// notCarried returns the error for a throughput that the present partitions
// cannot carry, in a server that does not split them.
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

// describeOffer sets the fields of the answer from an offer.
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
	out.Earlier = t.Earlier
}
