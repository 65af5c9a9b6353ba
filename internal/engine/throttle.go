package engine

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/internal/value"
)

// Redistribution is a request to divide a throughput differently over the
// physical partitions of its container.
type Redistribution = throughput.Redistribution

// ParseRedistribution reads a throughput policy, and lists of physical partitions such
// as [{"id":"0","throughput":400}]. The result is nil for no policy and for the policy
// none, which names no partition. Errors are status 400.
func ParseRedistribution(policy string, targets, sources value.Value) (*Redistribution, error) {
	wish := &Redistribution{}
	none := strings.EqualFold(policy, "none")
	switch {
	case policy == "":
		return nil, nil
	case strings.EqualFold(policy, "equal"):
		wish.Equal = true
	case !none && !strings.EqualFold(policy, "custom"):
		return nil, status.BadRequest("The throughput policy %q is not equal, custom or none.", policy)
	}
	var err error
	if wish.Targets, err = resource.ParseShares(targets); err != nil {
		return nil, err
	}
	if wish.Sources, err = resource.ParseShares(sources); err != nil || !none {
		return wish, err
	}
	if len(wish.Targets)+len(wish.Sources) > 0 {
		return nil, status.BadRequest("With the throughput policy none no partition is named.")
	}
	return nil, nil
}

// Load is what requests have spent in one physical partition, by kind of
// operation.
type Load = cluster.Load

// newThroughput returns the throughput that a client requests at creation.
func (e *Engine) newThroughput(asked ThroughputRequest) (resource.Throughput, error) {
	if e.serverless {
		return resource.Throughput{}, status.BadRequest("Throughput cannot be set: the account is serverless. Leave throughput and autoscale settings out.")
	}
	return e.limits.NewThroughput(asked.Manual, asked.AutoscaleMax, asked.Upgrade)
}

// redistributed divides a throughput as the request says.
func (e *Engine) redistributed(t resource.Throughput, scope offerScope, r Redistribution) (resource.Throughput, error) {
	if len(scope.containers) == 0 {
		return t, status.BadRequest("No container uses the throughput, so there are no physical partitions to divide it over.")
	}
	changed, err := throughput.Redistribute(t, paidBy(scope.containers), r, scope.limits())
	if err != nil || changed.Total() == t.Total() {
		return changed, err
	}
	return changed.AtLeast(scope.minimum(t))
}

// paidBy returns the partitions of containers that share a throughput.
func paidBy(containers []*catalog.Container) []throughput.Paid {
	all := make([]throughput.Paid, len(containers))
	for i, c := range containers {
		all[i] = throughput.Paid{Container: c.RID, Partitions: c.Partitions()}
	}
	return all
}

// distribution returns the share of each partition of a throughput, at most the
// maximum of a partition.
func (e *Engine) distribution(t resource.Throughput, containers []*catalog.Container) []PartitionThroughput {
	all := throughput.Distribution(t, paidBy(containers))
	i := 0
	for _, c := range containers {
		most := float64(e.limits.Of(c.Limits).PartitionRUs)
		for range c.Ranges.Len() {
			all[i].RUs = min(all[i].RUs, most)
			i++
		}
	}
	return all
}

// fractions returns which fraction of the container's throughput each partition
// gets, in range order.
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
	for i, share := range throughput.Shares(t, c.RID, c.Partitions(), math.MaxInt) {
		parts[i] = share / float64(t.Total())
	}
	return parts
}

// OfferOf returns the RID, as text, of the offer of a database or container.
// The error is 404/1003 if that does not exist, and 404 if it has no throughput
// of its own.
func (e *Engine) OfferOf(link Link) (string, error) {
	t, err := throughputAt(e.catalog.View(), link)
	if err != nil {
		return "", err
	}
	return t.RID.String(), nil
}

// throughputAt returns the throughput of a database or container, with the errors of
// OfferOf.
func throughputAt(view *catalog.View, link Link) (resource.Throughput, error) {
	owner := resource.RID("")
	if link.Container == "" {
		d, ok := locateDatabase(view, link)
		if !ok {
			return resource.Throughput{}, status.OwnerNotFound()
		}
		owner = d.RID
	} else {
		c, ok := locateContainer(view, link)
		if !ok {
			return resource.Throughput{}, status.OwnerNotFound()
		}
		owner = c.RID
	}
	t, ok := view.Throughput(owner)
	if !ok {
		return t, status.NotFound()
	}
	return t, nil
}

// PartitionThroughput is the throughput of one physical partition.
type PartitionThroughput = throughput.Given

// ThroughputDistribution returns how the throughput of a container, or of a database
// whose containers share it, is divided over physical partitions, in the order of
// containers and ranges. It returns the partitions in names, or all if that is
// empty. A name is one from an answer, in a container the id. An unknown name is
// 400, and a container or database without a throughput of its own 404.
func (e *Engine) ThroughputDistribution(_ context.Context, caller auth.Caller, link Link, names []string) ([]PartitionThroughput, error) {
	if err := e.allow(caller, auth.Access{Action: auth.Read, On: auth.Offer}, link); err != nil {
		return nil, fail(err)
	}
	view := e.catalog.View()
	t, err := throughputAt(view, link)
	if err != nil {
		return nil, err
	}
	all := e.distribution(t, view.Provisioned(t.Owner))
	for _, name := range names {
		if !slices.ContainsFunc(all, func(g PartitionThroughput) bool { return g.Name == name }) {
			return nil, throughput.NoPartition(name)
		}
	}
	return slices.DeleteFunc(all, func(g PartitionThroughput) bool {
		return len(names) > 0 && !slices.Contains(names, g.Name)
	}), nil
}
