package cluster

import (
	"context"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
)

// opened returns the slot of a partition that is open now, held; nil when it is
// not, or is closing. Nothing is opened for the sake of looking at it.
func (n *Node) opened(ref replication.PartitionRef) *slot {
	n.mu.Lock()
	defer n.mu.Unlock()
	s, found := n.slots[ref]
	if !found || s.doomed || s.gone != nil {
		return nil
	}
	select {
	case <-s.ready:
	default:
		return nil
	}
	if s.err != nil {
		return nil
	}
	n.take(s)
	return s
}

// LSN returns how far a partition has come, and false when it is not open.
func (n *Node) LSN(c *catalog.Container, id resource.PartitionID) (resource.LSN, bool) {
	s := n.opened(replication.PartitionRef{Container: c.RID, Partition: id})
	if s == nil {
		return 0, false
	}
	defer s.release()
	return s.partition.LSN(), true
}

// Open returns how many partitions are open, being opened or being closed.
func (n *Node) Open() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.slots)
}

// Reindex has every partition of a container follow its indexing policy, in the
// background. Those that are closed meanwhile go on when they are next opened.
func (n *Node) Reindex(c *catalog.Container) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return
	}
	n.reindexing[c.RID]++
	n.background.Go(func() {
		n.reindex(c)
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.reindexing[c.RID]--; n.reindexing[c.RID] == 0 {
			delete(n.reindexing, c.RID)
		}
	})
}

func (n *Node) reindex(c *catalog.Container) {
	for i := range c.Ranges.Len() {
		// Opening begins it; one that was open is told.
		s, err := n.acquire(context.Background(), replication.PartitionRef{Container: c.RID, Partition: c.Ranges.At(i).Value.ID})
		if err != nil {
			continue // dropped, closing, or damaged and reported as such
		}
		s.partition.Reindex()
		s.release()
	}
}

// IndexProgress is how far the partitions of a container have come with a change
// of its indexing policy, in percent: that of the slowest, 100 when none is at
// work. It opens those that are closed, which begins what a restart had
// interrupted; one that cannot be opened does not count.
func (n *Node) IndexProgress(ctx context.Context, c *catalog.Container) int {
	n.mu.Lock()
	_, telling := n.reindexing[c.RID]
	n.mu.Unlock()
	if telling {
		return 0
	}
	slowest := 100
	for i := range c.Ranges.Len() {
		s, err := n.acquire(ctx, replication.PartitionRef{Container: c.RID, Partition: c.Ranges.At(i).Value.ID})
		if err != nil {
			continue
		}
		slowest = min(slowest, s.partition.Stats().IndexProgress)
		s.release()
	}
	return slowest
}
