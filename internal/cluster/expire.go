package cluster

import (
	"context"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/throughput"
)

// expireRounds bounds what is deleted of one partition at a time, and so how long
// others wait for theirs.
const expireRounds = 4

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

func expires(c *catalog.Container) bool { return c.DefaultTTL != 0 }

// expire deletes expired documents of one partition, if it is open.
func (n *Node) expire(ctx context.Context, ref replication.PartitionRef) (deleted int) {
	s := n.opened(ref)
	if s == nil {
		return 0
	}
	defer s.release()
	return n.tidy(ctx, s, "documents not expired", func(ctx context.Context) (deleted int, err error) {
		var meter throughput.Meter
		units := s.budget.leftover()
		for range expireRounds {
			gone, err := s.partition.Expire(ctx, &meter, units-meter.Due())
			if deleted += gone; err != nil || gone < partition.ExpireMax {
				return deleted, err
			}
		}
		return deleted, nil
	})
}
