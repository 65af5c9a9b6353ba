package engine

import (
	"context"
	"math"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/throughput"
)

// Redistribution asks for another division of a throughput over the physical
// partitions of its container.
type Redistribution = throughput.Redistribution

// Load is what requests have spent in one physical partition, on what.
type Load = cluster.Load

// newThroughput returns the throughput that a client asks for at creation.
func (e *Engine) newThroughput(asked ThroughputRequest) (resource.Throughput, error) {
	if e.serverless {
		return resource.Throughput{}, status.BadRequest("Throughput cannot be set: the account is serverless. Leave throughput and autoscale settings out.")
	}
	return e.limits.NewThroughput(asked.Manual, asked.AutoscaleMax)
}

// redistributed divides a throughput anew.
func (e *Engine) redistributed(t resource.Throughput, scope offerScope, r Redistribution) (resource.Throughput, error) {
	if t.Owner.IsDatabase() {
		return t, status.Unsupported("Redistribution of the throughput that containers of a database share")
	}
	if len(scope.containers) != 1 {
		return t, status.NotFound()
	}
	changed, err := throughput.Redistribute(t, scope.containers[0].Partitions(), r, scope.limits())
	if err != nil || changed.Total() == t.Total() {
		return changed, err
	}
	return changed.AtLeast(scope.minimum(t))
}

// fractions returns which part of its throughput each partition of a container
// is given, in range order.
func (e *Engine) fractions(c *catalog.Container) []float64 {
	n := c.Ranges.Len()
	parts := make([]float64, n)
	for i := range parts {
		parts[i] = 1 / float64(n)
	}
	t, own := e.catalog.View().Throughput(c.RID)
	if !own || len(t.Shares) == 0 {
		return parts
	}
	for i, share := range throughput.Shares(t, c.Partitions(), math.MaxInt) {
		parts[i] = share / float64(t.Total())
	}
	return parts
}

// OfferOf returns the RID, as text, of the offer of a database or container:
// 404/1003 when that does not exist, 404 when it has no throughput of its own.
func (e *Engine) OfferOf(link Link) (string, error) {
	view := e.catalog.View()
	owner := resource.RID("")
	if link.Container == "" {
		d, ok := locateDatabase(view, link)
		if !ok {
			return "", status.OwnerNotFound()
		}
		owner = d.RID
	} else {
		c, ok := locateContainer(view, link)
		if !ok {
			return "", status.OwnerNotFound()
		}
		owner = c.RID
	}
	t, ok := view.Throughput(owner)
	if !ok {
		return "", status.NotFound()
	}
	return t.RID.String(), nil
}

// PartitionThroughput is what one physical partition is given.
type PartitionThroughput struct {
	ID  resource.PartitionID
	RUs float64 // RU/s
}

// ThroughputDistribution returns how the throughput of a container is divided
// over its physical partitions, in range order: over those that are named, or
// all when none is. A name that is none of its partitions is 400, and a
// container without a throughput of its own 404.
func (e *Engine) ThroughputDistribution(_ context.Context, caller auth.Caller, link Link, ids []resource.PartitionID) ([]PartitionThroughput, error) {
	if err := e.allow(caller, auth.Wish{Action: auth.Read, On: auth.Offer}, link); err != nil {
		return nil, fail(err)
	}
	view := e.catalog.View()
	c, ok := locateContainer(view, link)
	if !ok {
		return nil, status.OwnerNotFound()
	}
	t, ok := view.Throughput(c.RID)
	if !ok {
		return nil, status.NotFound()
	}
	wanted := map[resource.PartitionID]bool{}
	for _, id := range ids {
		if _, ok := c.Partition(id); !ok {
			return nil, status.BadRequest("The container has no physical partition %s.", id)
		}
		wanted[id] = true
	}
	partitions := c.Partitions()
	var all []PartitionThroughput
	for i, share := range throughput.Shares(t, partitions, e.limits.Of(c.Limits).PartitionRUs) {
		if id := partitions[i].ID; len(ids) == 0 || wanted[id] {
			all = append(all, PartitionThroughput{ID: id, RUs: share})
		}
	}
	return all, nil
}
