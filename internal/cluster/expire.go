package cluster

import (
	"context"
	"time"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/throughput"
)

const (
	// expireEvery is how often documents that have expired are looked for: they
	// are hidden already, so nobody waits for it.
	expireEvery = time.Second
	// expireRounds bounds what is deleted of one partition at a time, and so how
	// long others wait for theirs.
	expireRounds = 4
	// expireWait bounds how long one partition may hold up the others, such as
	// one that is about to be split.
	expireWait = 10 * time.Second
)

// expiring deletes expired and purged documents, and watches what grows, until the context
// ends.
func (n *Node) expiring(ctx context.Context) {
	tick := time.NewTicker(expireEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			n.Expire(ctx)
			n.Clear(ctx)
			n.Weigh()
		case <-ctx.Done():
			return
		}
	}
}

// Expire deletes documents that have expired in the open partitions of all
// containers with a time to live, a bounded number of each, and returns how many.
// Where a budget is enforced, it uses what the last second has left over of it. The
// node does so by itself once in a second; a partition that is closed hides
// its expired documents when it is next opened, and loses them then.
func (n *Node) Expire(ctx context.Context) (deleted int) {
	for _, ref := range n.where(expires) {
		deleted += n.expire(ctx, ref)
	}
	return deleted
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

func expires(c *catalog.Container) bool { return c.DefaultTTL != 0 }

// expire deletes expired documents of one partition.
func (n *Node) expire(ctx context.Context, ref replication.PartitionRef) (deleted int) {
	s := n.opened(ref)
	if s == nil {
		return 0
	}
	defer s.release()
	ctx, cancel := context.WithTimeout(ctx, expireWait)
	defer cancel()
	var meter throughput.Meter
	units := s.budget.leftover()
	for range expireRounds {
		gone, err := s.partition.Expire(ctx, &meter, units-meter.Due())
		deleted += gone
		if err != nil && status.From(err) == nil {
			n.cfg.Logger.Warn("documents not expired", "container", ref.Container, "partition", ref.Partition, "err", err)
		}
		if err != nil || gone < partition.ExpireMax {
			break
		}
	}
	return deleted
}
