package cluster

import (
	"context"
	"sync/atomic"

	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/table"
)

// compiled is a table at a version of its definitions.
type compiled struct {
	keyspace, container resource.ETag
	table               *table.Table
}

// isTable reports whether a partition is of a table.
func (n *Node) isTable(ref replication.PartitionRef) bool {
	c, ok := n.cfg.Catalog.View().ContainerByRID(ref.Container)
	return ok && c.IsTable()
}

// collector returns Config.Collect of the partitions of a container, nil if it has
// documents. A table that is not in the catalog, or whose definition cannot be read,
// removes nothing: package table alone knows what its items are.
func (n *Node) collector(container *resource.Container) func(context.Context, partition.Collection) (partition.Collected, error) {
	if !container.IsTable() {
		return nil
	}
	var latest atomic.Pointer[compiled]
	return func(_ context.Context, ask partition.Collection) (partition.Collected, error) {
		view := n.cfg.Catalog.View()
		c, ok := view.ContainerByRID(container.RID)
		if !ok {
			return partition.Collected{}, nil
		}
		now := latest.Load()
		if now == nil || now.keyspace != c.Database.ETag || now.container != c.ETag {
			now = &compiled{keyspace: c.Database.ETag, container: c.ETag}
			if len(c.Database.Keyspace) > 0 {
				if schema := schemaOf(view, c.Database, &Report{}); schema != nil {
					now.table = schema.Keyspace(c.Database.ID).Table(c.ID)
				}
			}
			latest.Store(now)
		}
		if now.table == nil {
			return partition.Collected{}, nil
		}
		found, err := now.table.Collect(ask.Items, ask.Most, ask.Now, ask.Read)
		if err != nil {
			return partition.Collected{}, err
		}
		return partition.Collected{Change: collecting{found}, Items: found.Count()}, nil
	}
}

// collecting is a change of table as the partition evaluates it.
type collecting struct{ *table.Collecting }

// Evaluate implements partition.Change.
func (c collecting) Evaluate(i partition.Items) error { return c.Collecting.Evaluate(i) }
