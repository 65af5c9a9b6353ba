package engine

import (
	"context"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/partitionkey"
)

// SplitRequest is a request to split a physical partition into two.
type SplitRequest struct {
	Link      Link // of the container
	Partition resource.PartitionID

	// At is where the range is divided. If it is empty, half of the stored
	// bytes are on either side.
	At partitionkey.EPK
}

// SplitPartition splits a partition while it serves, and returns when both
// children serve. The caller must be an administrator. Errors are those of
// [cluster.Node.Split], and 404/1003 when the container does not exist.
func (e *Engine) SplitPartition(ctx context.Context, caller auth.Caller, req SplitRequest) (cluster.SplitResult, error) {
	if err := caller.Allow(auth.Administer, req.Link.path()); err != nil {
		return cluster.SplitResult{}, fail(err)
	}
	c, ok := locateContainer(e.catalog.View(), req.Link)
	if !ok {
		return cluster.SplitResult{}, status.OwnerNotFound()
	}
	result, err := e.node.Split(ctx, c.RID, req.Partition, req.At)
	return result, fail(err)
}
