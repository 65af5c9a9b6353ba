package cluster

import (
	"context"
	"time"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/status"
)

// The maintenance tasks of a node, see Config.Maintenance: they compare the clock, reopen
// partitions that a full disk has stopped, delete documents that are already hidden, watch
// the growth of containers, and retry to delete directories.

const (
	// maintenanceEvery is the default time between two runs. No request waits for a
	// run.
	maintenanceEvery = time.Second
	// maintenanceWait bounds how long one partition may delay the others, for example
	// one that is about to be split.
	maintenanceWait = 10 * time.Second
)

// maintain runs the tasks until the context ends.
func (n *Node) maintain(ctx context.Context) {
	tick := time.NewTicker(n.cfg.Maintenance)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			n.CheckClock()
			n.Mend()
			n.Expire(ctx)
			n.Clear(ctx)
			n.CheckGrowth()
			n.RemoveLeftovers()
		case <-ctx.Done():
			return
		}
	}
}

// openOf returns the open partitions of the containers that match.
func (n *Node) openOf(matches func(*catalog.Container) bool) (refs []replication.PartitionRef) {
	view := n.cfg.Catalog.View()
	n.mu.Lock()
	defer n.mu.Unlock()
	for ref := range n.slots {
		if c, ok := view.ContainerByRID(ref.Container); ok && matches(c) {
			refs = append(refs, ref)
		}
	}
	return refs
}

// deleteSome calls do, which deletes documents of a slot that the caller holds, with a
// bound of maintenanceWait. It logs errors other than statuses, with the text failed.
func (n *Node) deleteSome(ctx context.Context, s *slot, failed string, do func(context.Context) (deleted int, err error)) (deleted int) {
	ctx, cancel := context.WithTimeout(ctx, maintenanceWait)
	defer cancel()
	deleted, err := do(ctx)
	if err != nil && status.From(err) == nil {
		n.cfg.Logger.Warn(failed, "container", s.ref.Container, "partition", s.ref.Partition, "err", err)
	}
	return deleted
}
