package catalog

import (
	"cmp"
	"maps"
	"slices"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// leftoverRow is the kind of the rows of directories that may be deleted; the RID of
// the container follows.
const leftoverRow = "leftover/"

// Leftover names the directory of a partition that the catalog knows to be
// garbage: no container names the partition, and none will. A directory that is
// neither a container's nor a leftover is unknown, and nothing may delete it.
type Leftover struct {
	Container resource.RID
	Partition resource.PartitionID

	// Planned means that no container has named the partition up to this version:
	// a change that is in progress or was given up planned it. A later version
	// may have it as a partition. Otherwise it was a partition, and is
	// permanently retired.
	Planned bool
}

// leftovers are those of one container.
type leftovers struct {
	Container resource.RID           `json:"container"`
	Planned   []resource.PartitionID `json:"planned,omitempty"`
	Retired   []resource.PartitionID `json:"retired,omitempty"`
}

// Leftovers returns the directories that may be deleted, in order. It does not
// return those of splits and merges in progress, which their plans name.
func (v *View) Leftovers() []Leftover {
	var all []Leftover
	for _, l := range v.leftovers {
		for _, id := range l.Planned {
			all = append(all, Leftover{Container: l.Container, Partition: id, Planned: true})
		}
		for _, id := range l.Retired {
			all = append(all, Leftover{Container: l.Container, Partition: id})
		}
	}
	slices.SortFunc(all, func(a, b Leftover) int {
		return cmp.Or(cmp.Compare(a.Container, b.Container), cmp.Compare(a.Partition, b.Partition))
	})
	return all
}

// leave records directories as leftovers: planned ones, or retired partitions.
func (d *draft) leave(container resource.RID, planned, retired []resource.PartitionID) error {
	l := d.view.leftovers[container]
	return d.putLeftovers(leftovers{
		Container: container,
		Planned:   union(l.Planned, planned),
		Retired:   union(l.Retired, retired),
	})
}

// claim removes directories from the leftovers, because they have become
// partitions or are deleted.
func (d *draft) claim(container resource.RID, ids ...resource.PartitionID) error {
	l, found := d.view.leftovers[container]
	if !found {
		return nil
	}
	return d.putLeftovers(leftovers{Container: container, Planned: less(l.Planned, ids), Retired: less(l.Retired, ids)})
}

func (d *draft) putLeftovers(l leftovers) error {
	d.view.leftovers = maps.Clone(d.view.leftovers)
	if len(l.Planned)+len(l.Retired) == 0 {
		delete(d.view.leftovers, l.Container)
		d.remove(leftoverRow, l.Container)
		return nil
	}
	if d.view.leftovers == nil {
		d.view.leftovers = map[resource.RID]leftovers{}
	}
	d.view.leftovers[l.Container] = l
	return d.put(leftoverRow, l.Container, l)
}

// union returns the ids of both, in order.
func union(a, b []resource.PartitionID) []resource.PartitionID {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// less returns the ids that are not in the second list.
func less(ids, taken []resource.PartitionID) []resource.PartitionID {
	return slices.DeleteFunc(slices.Clone(ids), func(id resource.PartitionID) bool { return slices.Contains(taken, id) })
}

// loadLeftovers adds a stored row to the view.
func (v *View) loadLeftovers(stored leftovers) error {
	if v.leftovers == nil {
		v.leftovers = map[resource.RID]leftovers{}
	}
	v.leftovers[stored.Container] = stored
	return nil
}

// PlanContainer records the partitions of a container whose directories are about
// to be made: they are leftovers until CreateContainer names them. 404/1003
// without the database.
type PlanContainer struct {
	RID        resource.RID // from ReserveContainer
	Partitions []resource.Partition
}

func (c PlanContainer) apply(d *draft) error {
	if _, ok := d.view.byRID[c.RID.Database()]; !ok {
		return status.OwnerNotFound()
	}
	ids := make([]resource.PartitionID, len(c.Partitions))
	for i, p := range c.Partitions {
		ids[i] = p.ID
	}
	return d.leave(c.RID, ids, nil)
}

// ForgetLeftovers removes the leftovers whose directories are deleted. It ignores
// directories that are not leftovers.
type ForgetLeftovers []Leftover

func (f ForgetLeftovers) apply(d *draft) error {
	for _, l := range f {
		if err := d.claim(l.Container, l.Partition); err != nil {
			return err
		}
	}
	return nil
}
