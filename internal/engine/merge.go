package engine

import (
	"context"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// MergeRequest is a request to merge two neighbouring physical partitions into
// one.
type MergeRequest struct {
	Link       Link                    // of the container
	Partitions [2]resource.PartitionID // in either order
}

// MergePartitions merges two partitions while they serve, and returns when their
// child serves. The caller must be an administrator. Errors are those of
// [cluster.Node.Merge], and 404/1003 when the container does not exist.
func (e *Engine) MergePartitions(ctx context.Context, caller auth.Caller, req MergeRequest) (cluster.MergeResult, error) {
	if err := caller.Allow(auth.Administer, req.Link.path()); err != nil {
		return cluster.MergeResult{}, fail(err)
	}
	c, ok := locateContainer(e.catalog.View(), req.Link)
	if !ok {
		return cluster.MergeResult{}, status.OwnerNotFound()
	}
	result, err := e.node.Merge(ctx, c.RID, req.Partitions[0], req.Partitions[1])
	return result, fail(err)
}

// MergeAll merges the physical partitions of a container, or of all containers
// that share the throughput of a database, as far as their throughput and bytes
// allow, and returns the partitions that remain. If dry is true, it changes
// nothing and returns those that would remain. Merges done before an error
// stay. The caller must be an administrator. Errors are those of
// [cluster.Node.Merge], 404/1003 when the container or database does not exist,
// and 400 for a database that provides no throughput and in a serverless
// account.
func (e *Engine) MergeAll(ctx context.Context, caller auth.Caller, link Link, dry bool) ([]cluster.PartitionSize, error) {
	if err := caller.Allow(auth.Administer, link.path()); err != nil {
		return nil, fail(err)
	}
	containers, err := e.mergeable(link)
	if err != nil {
		return nil, err
	}
	if e.serverless {
		return nil, status.BadRequest("The partitions of a container cannot be merged as its throughput allows: the account is serverless. Two neighbours that are named can be merged.")
	}
	if e.mergeAll == nil {
		return nil, status.Unsupported("Merging a whole container")
	}
	all := []cluster.PartitionSize{}
	for _, c := range containers {
		left, err := e.mergeAll(ctx, c.RID, dry)
		if err != nil {
			return nil, fail(err)
		}
		all = append(all, left...)
	}
	return all, nil
}

// mergeable returns the container that a link names, or the containers that
// share the throughput of the database that it names.
func (e *Engine) mergeable(link Link) ([]*catalog.Container, error) {
	view := e.catalog.View()
	if link.Container != "" {
		c, ok := locateContainer(view, link)
		if !ok {
			return nil, status.OwnerNotFound()
		}
		return []*catalog.Container{c}, nil
	}
	d, ok := locateDatabase(view, link)
	if !ok {
		return nil, status.OwnerNotFound()
	}
	if _, shares := view.Throughput(d.RID); !shares {
		return nil, status.BadRequest("The database provides no throughput that its containers share. Merge the partitions of each container.")
	}
	return view.Provisioned(d.RID), nil
}
