package engine

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/partitionkey"
)

// ReplaceTables changes the definitions of a table and of its materialized views in one
// commit. The error is 404 if one does not exist, and 412 if one has another version.
func (e *Engine) ReplaceTables(ctx context.Context, caller auth.Caller, all []TableRequest) (Resource, error) {
	return e.define(caller, auth.Replace, all[0].link(), func(*Resource) error {
		var changes catalog.Together
		for i := range all {
			c, err := e.table(all[i].link())
			if err != nil {
				return err
			}
			changed := c.Container
			changed.Table, changed.Indexing.Rows = all[i].Definition, all[i].Indexes
			changes = append(changes, catalog.ReplaceContainer{Container: changed, Expect: all[i].Version})
		}
		_, err := e.catalog.Commit(ctx, changes)
		return err
	})
}

// TruncateTable removes the rows of a table and of its materialized views: one commit
// replaces their partitions by new ones without rows. They get new RIDs and keep their
// throughput. The error is 404 if one does not exist.
func (e *Engine) TruncateTable(ctx context.Context, caller auth.Caller, req TableRequest) (Resource, error) {
	return e.define(caller, auth.Replace, req.link(), func(out *Resource) error {
		t := truncation{engine: e}
		for _, name := range append([]string{req.Name}, req.Views...) {
			c, err := e.table(Link{Database: req.Keyspace, Container: name})
			if err == nil {
				err = t.add(ctx, c)
			}
			if err != nil {
				t.discard()
				return err
			}
		}
		view, err := e.catalog.Commit(ctx, t.changes)
		if status.CodeOf(err) == status.CodeUnavailable {
			return err // The commit may be durable.
		}
		if err != nil {
			t.discard()
			return err
		}
		for i, old := range t.old {
			e.node.DropContainer(old)
			e.logger.Info("table truncated", "container", old, "now", t.fresh[i])
		}
		if now, ok := view.ContainerByRID(t.fresh[0]); ok {
			out.container(view, now)
		}
		return nil
	})
}

// truncation is one call of TruncateTable.
type truncation struct {
	engine     *Engine
	changes    catalog.Together
	old, fresh []resource.RID
	partitions [][]resource.Partition // of fresh
}

// add creates the partitions that replace those of a table.
func (t *truncation) add(ctx context.Context, c *catalog.Container) error {
	fresh := c.Container
	fresh.RID = t.engine.catalog.ReserveContainer(c.Database.RID)
	partitions := t.engine.tile(c.PartitionKey, c.Ranges.Len())
	for i := range partitions {
		partitions[i].Range = c.Ranges.At(i).Range
	}
	if err := t.engine.node.CreatePartitions(ctx, fresh, partitions); err != nil {
		return err
	}
	t.changes = append(t.changes, catalog.TruncateContainer{RID: c.RID, Expect: c.ETag, Container: fresh, Partitions: partitions})
	t.old, t.fresh, t.partitions = append(t.old, c.RID), append(t.fresh, fresh.RID), append(t.partitions, partitions)
	return nil
}

// discard removes the partitions that were created.
func (t *truncation) discard() {
	for i, rid := range t.fresh {
		t.engine.node.DiscardPartitions(rid, t.partitions[i])
	}
}

// Barrier returns when all effects of a table are published that were evaluated before the
// call. So a change that every later evaluation sees, such as a new materialized view, can
// rely on a later read for what the earlier ones have written.
func (e *Engine) Barrier(ctx context.Context, table resource.RID) error {
	c, ok := e.catalog.View().ContainerByRID(table)
	if !ok || !c.IsTable() {
		return status.OwnerNotFound()
	}
	// A key of each partition. One that splits meanwhile has published its effects.
	keys := map[resource.PartitionID]string{}
	for n := uint64(0); len(keys) < c.Ranges.Len(); n++ {
		key := string(binary.BigEndian.AppendUint64(nil, n))
		id := c.Ranges.Locate(c.PartitionKey.Hash(partitionkey.NewKey(partitionkey.Bytes(key)))).Value.ID
		keys[id] = key
	}
	var all []WriteItemsRequest
	for _, key := range keys {
		all = append(all, WriteItemsRequest{Table: table, Key: key, Change: barrier{}})
	}
	_, errs := e.WriteAllItems(ctx, auth.Owner(), all)
	return errors.Join(errs...)
}

// barrier is an effect that leaves nothing.
type barrier struct{}

const barrierItem = "\xfe"

// Evaluate implements partition.Change.
func (barrier) Evaluate(items partition.Items) error {
	if err := items.Put(barrierItem, []byte{0}, 0); err != nil {
		return err
	}
	return items.Put(barrierItem, nil, 0)
}
