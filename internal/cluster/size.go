package cluster

import (
	"context"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
)

// Size returns the bytes of the documents in a partition. One that is not open
// is opened only when open says so, and counts as empty otherwise: it has not
// grown since it was closed. The error is that of [Node.Replica].
func (n *Node) Size(ctx context.Context, c *catalog.Container, id resource.PartitionID, open bool) (int64, error) {
	ref := replication.PartitionRef{Container: c.RID, Partition: id}
	s := n.opened(ref)
	if s == nil && open {
		var err error
		if s, err = n.acquire(ctx, ref); err != nil {
			return 0, err
		}
	}
	if s == nil {
		return 0, nil
	}
	defer s.release()
	return s.partition.Stats().Bytes, nil
}

// PartitionSize is a physical partition, and the bytes of the documents in it.
type PartitionSize struct {
	Container resource.RID
	ID        resource.PartitionID
	Bytes     int64
}
