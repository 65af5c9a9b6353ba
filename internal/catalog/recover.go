package catalog

import (
	"fmt"
	"slices"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/partitionkey"
)

// These are changes that an operator makes to a catalog that no server uses,
// after a part of the data directory was lost: they bring back partitions that
// the catalog does not name, and numbers that a lost version had used.

// Overtake makes a version above a lost one, some of which was acknowledged, and
// prevents the numbers that the lost version may have used from being used again.
type Overtake struct {
	Version    uint64 // the highest known version
	Partitions []Used // the known partitions
}

// Used is a partition that exists or did.
type Used struct {
	Container resource.RID
	Partition resource.PartitionID
}

func (o Overtake) apply(d *draft) error {
	d.view.version = max(d.view.version, o.Version+1)
	for _, used := range o.Partitions {
		if err := d.use(used); err != nil {
			return err
		}
	}
	return nil
}

// use prevents the numbers of a partition from being assigned.
func (d *draft) use(used Used) error {
	database, container := used.Container.Numbers()
	d.next.Database = max(d.next.Database, database+1)
	d.next.Container = max(d.next.Container, container+1)
	c, ok := d.view.containers[used.Container]
	if !ok || used.Partition < c.NextPartition {
		return nil
	}
	changed := *c
	changed.NextPartition = used.Partition + 1
	return d.putContainer(&changed)
}

// AdoptPartitions replaces partitions of a container by ones that the catalog
// does not name: 404/1003 without the container, 409 if one of them is being
// split or merged, 400 if the ranges differ. The replaced partitions are no
// longer named and are not leftovers either: the caller keeps them.
type AdoptPartitions struct {
	Container  resource.RID
	Partitions []resource.Partition
}

func (a AdoptPartitions) apply(d *draft) error {
	old, ok := d.view.containers[a.Container]
	if !ok {
		return status.OwnerNotFound()
	}
	ids := old.Replaced(a.Partitions)
	var gone []resource.Partition
	var ranges []partitionkey.Range
	for _, id := range ids {
		if err := old.free(id); err != nil {
			return err
		}
		p, _ := old.Partition(id)
		gone, ranges = append(gone, p), append(ranges, p.Range)
	}
	entries := make([]partitionkey.Entry[resource.Partition], len(a.Partitions))
	for i, p := range a.Partitions {
		if _, named := old.Partition(p.ID); named {
			return status.BadRequest("The catalog names partition %s of container '%s' already.", p.ID, old.ID)
		}
		entries[i] = partitionkey.Entry[resource.Partition]{Range: p.Range, Value: p}
	}
	changed := *old
	var err error
	if changed.Ranges, err = old.Ranges.Replace(ranges, entries); err != nil {
		return status.BadRequest("The partitions do not cover the same range as partitions %v of container '%s': %v.", ids, old.ID, err)
	}
	for _, p := range a.Partitions {
		changed.NextPartition = max(changed.NextPartition, p.ID+1, resource.PartitionID(p.Ordinal)+1)
		if err := d.claim(a.Container, p.ID); err != nil {
			return err
		}
	}
	return d.renew(&changed, gone, a.Partitions)
}

// Replaced returns the partitions whose ranges overlap those of others, in the
// order of ranges.
func (c *Container) Replaced(others []resource.Partition) (ids []resource.PartitionID) {
	for i := range c.Ranges.Len() {
		p := c.Ranges.At(i).Value
		if slices.ContainsFunc(others, func(o resource.Partition) bool { return o.Range.Overlaps(p.Range) }) {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// AdoptContainer creates a container from partitions that the catalog does not
// name, with their RID, and its database if that does not exist. 409 if another
// resource has the name of either; an error if the partitions do not tile the key
// space.
type AdoptContainer struct {
	Database   string
	Container  resource.Container // with its RID; ETag and TS are set by the commit
	Partitions []resource.Partition
	Throughput *resource.Throughput // nil: it shares its database's, or has none
}

func (a AdoptContainer) apply(d *draft) error {
	rid := a.Container.RID
	if c, taken := d.view.containers[rid]; taken {
		return status.New(status.CodeConflict, 0, "The catalog has the container already, as '%s' in database '%s'.", c.ID, c.Database.ID)
	}
	if err := d.adoptDatabase(a.Database, rid.Database()); err != nil {
		return err
	}
	for _, p := range a.Partitions {
		if err := d.use(Used{Container: rid, Partition: p.ID}); err != nil {
			return err
		}
	}
	return CreateContainer{Container: a.Container, Partitions: a.Partitions, Throughput: a.Throughput}.apply(d)
}

// adoptDatabase creates the database with a RID and a name unless it exists.
func (d *draft) adoptDatabase(name string, rid resource.RID) error {
	if is, found := d.view.byRID[rid]; found {
		if is.ID != name {
			return status.New(status.CodeConflict, 0, "The container belongs to database '%s', not to '%s'.", is.ID, name)
		}
		return nil
	}
	if _, taken := d.view.databases[name]; taken {
		return status.New(status.CodeConflict, 0, "The container belongs to a database that the catalog does not have, and another one is called '%s': give it a name that is free.", name)
	}
	database := resource.Database{ID: name, RID: rid, ETag: d.etag(), TS: d.now}
	if err := d.putDatabase(database, map[string]*Container{}); err != nil {
		return fmt.Errorf("adopt database %s: %w", rid, err)
	}
	return nil
}
