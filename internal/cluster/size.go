package cluster

import (
	"context"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
)

// Size returns the bytes of the documents in a partition. If open is set it opens a
// closed partition; otherwise it returns 0 for it, because a closed partition has not
// grown. The error is that of [Node.Replica].
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

// PartitionSize is a physical partition and the bytes of its documents.
type PartitionSize struct {
	Container resource.RID
	ID        resource.PartitionID
	Bytes     int64
}
