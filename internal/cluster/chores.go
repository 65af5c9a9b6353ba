package cluster

import (
	"context"
	"time"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/status"
)

// What a node does by itself, see Config.Chores: delete documents that are hidden
// already and directories that could not be deleted before, watch what grows and how
// much room there is, and open again what a full disk had stopped.

const (
	// choresEvery is how often the chores are done unless the configuration says
	// otherwise: nobody waits for them.
	choresEvery = time.Second
	// choreWait bounds how long one partition may hold up the others, such as one
	// that is about to be split.
	choreWait = 10 * time.Second
)

// chores does them until the context ends.
func (n *Node) chores(ctx context.Context) {
	tick := time.NewTicker(n.cfg.Chores)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			n.LookAtClock()
			n.Mend()
			n.Expire(ctx)
			n.Clear(ctx)
			n.Weigh()
			n.RemoveLeft()
		case <-ctx.Done():
			return
		}
	}
}

// where returns the open partitions of the containers of which something holds.
func (n *Node) where(holds func(*catalog.Container) bool) (refs []replication.PartitionRef) {
	view := n.cfg.Catalog.View()
	n.mu.Lock()
	defer n.mu.Unlock()
	for ref := range n.slots {
		if c, ok := view.ContainerByRID(ref.Container); ok && holds(c) {
			refs = append(refs, ref)
		}
	}
	return refs
}

// tidy has documents of a partition that is held deleted, and logs what goes wrong
// in the partition itself.
func (n *Node) tidy(ctx context.Context, s *slot, failed string, do func(context.Context) (deleted int, err error)) (deleted int) {
	ctx, cancel := context.WithTimeout(ctx, choreWait)
	defer cancel()
	deleted, err := do(ctx)
	if err != nil && status.From(err) == nil {
		n.cfg.Logger.Warn(failed, "container", s.ref.Container, "partition", s.ref.Partition, "err", err)
	}
	return deleted
}
