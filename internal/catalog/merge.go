package catalog

import (
	"fmt"
	"slices"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/partitionkey"
)

// MergePlan is a merge in progress. Until it is finished no request is routed to
// the child, and its directory is garbage after a restart.
type MergePlan struct {
	Parents     [2]resource.PartitionID `json:"parents"`     // in the order of their ranges
	Generations [2]resource.Generation  `json:"generations"` // of the parents
	ETag        resource.ETag           `json:"etag"`        // of the container when the merge was planned
	Child       resource.Partition      `json:"child"`
}

// Merge returns the plan of the merge that includes a partition.
func (c *Container) Merge(parent resource.PartitionID) (MergePlan, bool) {
	i := slices.IndexFunc(c.Merges, func(p MergePlan) bool { return slices.Contains(p.Parents[:], parent) })
	if i < 0 {
		return MergePlan{}, false
	}
	return c.Merges[i], true
}

// Change returns the change of a partition that is in progress, "split" or
// "merge"; empty for none.
func (c *Container) Change(id resource.PartitionID) string {
	if c.plan(id) >= 0 {
		return "split"
	}
	if _, busy := c.Merge(id); busy {
		return "merge"
	}
	return ""
}

// free refuses a partition that is being split or merged, with 409.
func (c *Container) free(id resource.PartitionID) error {
	if c.plan(id) >= 0 {
		return status.New(status.CodeConflict, 0, "Partition %s is being split already.", id)
	}
	if _, busy := c.Merge(id); busy {
		return status.New(status.CodeConflict, 0, "Partition %s is being merged already.", id)
	}
	return nil
}

// PlanMerge records that two neighbours, in either order, are about to be merged,
// and reserves the id and ordinal of their child: 404/1003 without the container,
// 404 without one of the partitions, 400 if they are the same or not neighbours,
// or if the container's throughput needs all its partitions, 409 if one is being
// split or merged, 403 if the container has had as many partitions as there are
// ordinals.
type PlanMerge struct {
	Container    resource.RID
	Parents      [2]resource.PartitionID
	PartitionRUs int // RU/s that one partition can serve
}

func (m PlanMerge) apply(d *draft) error {
	old, ok := d.view.containers[m.Container]
	if !ok {
		return status.OwnerNotFound()
	}
	low, high, err := old.Neighbours(m.Parents[0], m.Parents[1])
	if err != nil {
		return err
	}
	for _, p := range []resource.Partition{low, high} {
		if err := old.free(p.ID); err != nil {
			return err
		}
	}
	if needed, left := d.needed(old, m.PartitionRUs), old.Ranges.Len()-len(old.Merges)-1; left < needed {
		return status.BadRequest("Partitions %s and %s cannot be merged: the throughput of the container needs %d partitions, and %d would be left.",
			low.ID, high.ID, needed, left)
	}
	if uint64(old.NextPartition) > resource.OrdinalMax {
		return status.Forbidden(0, "The container has had %d physical partitions, as many as it can number.", old.NextPartition)
	}
	changed := *old
	ancestors := slices.Concat(low.Parents, high.Parents, []resource.PartitionID{low.ID, high.ID})
	slices.Sort(ancestors)
	changed.Merges = append(slices.Clone(old.Merges), MergePlan{
		Parents:     [2]resource.PartitionID{low.ID, high.ID},
		Generations: [2]resource.Generation{low.Generation, high.Generation},
		ETag:        old.ETag,
		Child: resource.Partition{
			ID:         changed.NextPartition,
			Range:      partitionkey.Range{Min: low.Range.Min, Max: high.Range.Max},
			Parents:    slices.Compact(ancestors),
			Group:      low.Group,
			Generation: max(low.Generation, high.Generation) + 1,
			Ordinal:    uint32(changed.NextPartition),
			CreatedAt:  d.now,
		},
	})
	changed.NextPartition++
	return d.putContainer(&changed)
}

// Neighbours returns two partitions whose ranges meet, in the order of the
// ranges: 404 if a partition does not exist, 400 if they are the same or do not
// meet.
func (c *Container) Neighbours(a, b resource.PartitionID) (low, high resource.Partition, err error) {
	low, ok := c.Partition(a)
	if !ok {
		return low, high, NoPartition(a)
	}
	if high, ok = c.Partition(b); !ok {
		return low, high, NoPartition(b)
	}
	if high.Range.Min.Compare(low.Range.Min) < 0 {
		low, high = high, low
	}
	switch {
	case a == b:
		return low, high, status.BadRequest("Partition %s cannot be merged with itself.", a)
	case low.Range.Max.Compare(high.Range.Min) != 0:
		return low, high, status.BadRequest("Partitions %s and %s cannot be merged: their ranges %s and %s do not meet.", low.ID, high.ID, low.Range, high.Range)
	case low.Group != high.Group:
		return low, high, status.BadRequest("Partitions %s and %s cannot be merged: they are in different groups.", low.ID, high.ID)
	}
	return low, high, nil
}

// needed returns how many partitions the throughput of a container needs, its own
// or the one that it shares with its database.
func (d *draft) needed(c *Container, partitionRUs int) int {
	t, ok := d.view.ThroughputOf(c)
	if !ok || partitionRUs <= 0 {
		return 1
	}
	return max(1, (t.Total()+partitionRUs-1)/partitionRUs)
}

// FinishMerge replaces the parents of a planned merge by their child. The merge
// takes effect with this commit: 404 if the container or the plan does not exist,
// 409 if the container has changed since the plan, or if its raised throughput
// now needs the partitions.
type FinishMerge struct {
	Container    resource.RID
	Parents      [2]resource.PartitionID // in the order of their ranges
	PartitionRUs int                     // RU/s that one partition can serve
}

func (m FinishMerge) apply(d *draft) error {
	changed, plan, err := m.without(d)
	if err != nil {
		return err
	}
	var gone []resource.Partition
	var ranges []partitionkey.Range
	for i, id := range plan.Parents {
		p, ok := changed.Partition(id)
		if !ok || p.Generation != plan.Generations[i] {
			return fmt.Errorf("finish the merge of partitions %v of container %s: %s is not the one that was planned for", plan.Parents, m.Container, id)
		}
		gone, ranges = append(gone, p), append(ranges, p.Range)
	}
	if changed.ETag != plan.ETag {
		return status.New(status.CodeConflict, 0, "The merge of partitions %s and %s was given up: the container has been changed meanwhile.", plan.Parents[0], plan.Parents[1])
	}
	if changed.Ranges.Len()-1 < d.needed(changed, m.PartitionRUs) {
		return status.New(status.CodeConflict, 0, "The merge of partitions %s and %s was given up: the throughput of the container was raised, and needs them.", plan.Parents[0], plan.Parents[1])
	}
	child := []partitionkey.Entry[resource.Partition]{{Range: plan.Child.Range, Value: plan.Child}}
	if changed.Ranges, err = changed.Ranges.Replace(ranges, child); err != nil {
		return fmt.Errorf("finish the merge of partitions %v of container %s: %w", plan.Parents, m.Container, err)
	}
	if err := d.leave(m.Container, nil, plan.Parents[:]); err != nil {
		return err
	}
	return d.renew(changed, gone, []resource.Partition{plan.Child})
}

// DropMerge removes the plan of a merge that is given up; its child becomes a
// leftover: 404 without a plan.
type DropMerge struct {
	Container resource.RID
	Parents   [2]resource.PartitionID // in the order of their ranges
}

func (m DropMerge) apply(d *draft) error {
	changed, plan, err := FinishMerge{Container: m.Container, Parents: m.Parents}.without(d)
	if err != nil {
		return err
	}
	if err := d.leave(m.Container, []resource.PartitionID{plan.Child.ID}, nil); err != nil {
		return err
	}
	return d.putContainer(changed)
}

// without returns a copy of the container without the plan, and the plan.
func (m FinishMerge) without(d *draft) (*Container, MergePlan, error) {
	old, ok := d.view.containers[m.Container]
	if !ok {
		return nil, MergePlan{}, status.OwnerNotFound()
	}
	i := slices.IndexFunc(old.Merges, func(p MergePlan) bool { return p.Parents == m.Parents })
	if i < 0 {
		return nil, MergePlan{}, status.New(status.CodeNotFound, 0, "Partitions %s and %s are not being merged.", m.Parents[0], m.Parents[1])
	}
	changed := *old
	changed.Merges = lessOne(old.Merges, i)
	return &changed, old.Merges[i], nil
}
