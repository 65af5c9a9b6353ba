package cluster

import (
	"context"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/throughput"
)

// expireRounds bounds how many documents of one partition a call of Expire deletes, and
// so how long the other partitions wait.
const expireRounds = 4

// Expire deletes expired documents in the open partitions of all containers with a time
// to live, a bounded number of each, and returns how many it has deleted. If a budget is
// enforced, it uses only what was not spent in the last second. It is a maintenance task.
// The expired documents of a closed partition are deleted after it is opened again; they
// are hidden from the moment when they expire.
func (n *Node) Expire(ctx context.Context) (deleted int) {
	for _, ref := range n.openOf(expires) {
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
	return n.deleteSome(ctx, s, "documents not expired", func(ctx context.Context) (deleted int, err error) {
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
