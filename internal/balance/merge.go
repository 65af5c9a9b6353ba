package balance

import (
	"context"
	"slices"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/placement"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// Merge merges the partitions of a container as far as [placement.Merges]
// allows, pair by pair, and returns the remaining partitions; with dry it only
// returns those that would remain. It opens all partitions. It decides again
// after each round, so throughput that is raised in the meantime ends it. Merges
// that succeeded before an error stay. Errors are those of [cluster.Node.Merge].
func (b *Balancer) Merge(ctx context.Context, container resource.RID, dry bool) ([]cluster.PartitionSize, error) {
	for {
		view := b.cfg.Catalog.View()
		c, found := view.ContainerByRID(container)
		if !found {
			return nil, status.OwnerNotFound()
		}
		state, err := b.stateOf(ctx, view, c, true)
		if err != nil {
			return nil, err
		}
		for i, p := range state.Partitions {
			state.Partitions[i].Busy = c.Change(p.ID) != "" // the change may be undone, or make other partitions
		}
		merges := placement.Merges(state, b.limitsOf(c))
		if dry {
			return sizes(container, b.simulate(c, state)), nil
		}
		if len(merges) == 0 {
			return sizes(container, state.Partitions), nil
		}
		if err := b.mergeAll(ctx, c, merges); err != nil {
			return nil, err
		}
	}
}

// mergeAll merges pairs one after another.
func (b *Balancer) mergeAll(ctx context.Context, c *catalog.Container, merges []placement.Merge) error {
	for _, m := range merges {
		if err := b.merge(ctx, c, m); err != nil {
			return err
		}
	}
	return nil
}

func (b *Balancer) merge(ctx context.Context, c *catalog.Container, m placement.Merge) error {
	leave, err := b.enter(ctx, c)
	if err != nil {
		return err
	}
	defer leave()
	b.cfg.Logger.Info("merging partitions", "container", c.RID, "low", m.Low, "high", m.High)
	_, err = b.cfg.Node.Merge(ctx, c.RID, m.Low, m.High)
	return err
}

// simulate returns the partitions after merges, with the ids that the children
// would have if nothing else took one.
func (b *Balancer) simulate(c *catalog.Container, state placement.Container) []placement.Partition {
	next := c.NextPartition
	for {
		merges := placement.Merges(state, b.limitsOf(c))
		if len(merges) == 0 {
			return state.Partitions
		}
		for _, m := range merges {
			at := slices.IndexFunc(state.Partitions, func(p placement.Partition) bool { return p.ID == m.Low })
			low, high := state.Partitions[at], state.Partitions[at+1]
			child := placement.Partition{ID: next, Bytes: low.Bytes + high.Bytes, Throughput: low.Throughput + high.Throughput}
			state.Partitions = slices.Replace(state.Partitions, at, at+2, child)
			next++
		}
	}
}

func sizes(container resource.RID, all []placement.Partition) []cluster.PartitionSize {
	list := make([]cluster.PartitionSize, len(all))
	for i, p := range all {
		list[i] = cluster.PartitionSize{Container: container, ID: p.ID, Bytes: p.Bytes}
	}
	return list
}
