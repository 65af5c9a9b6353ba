package catalog

import (
	"fmt"
	"maps"
	"slices"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/partitionkey"
)

// SplitPlan is a split in progress. Until it is finished no request is routed to
// the children, and their directories are garbage after a restart.
type SplitPlan struct {
	Parent     resource.PartitionID  `json:"parent"`
	Generation resource.Generation   `json:"generation"` // of the parent
	At         partitionkey.EPK      `json:"at"`         // where its range is cut
	Children   [2]resource.Partition `json:"children"`   // below the cut, and from the cut on
}

// Split returns the plan of the split of a partition in progress.
func (c *Container) Split(parent resource.PartitionID) (SplitPlan, bool) {
	if i := c.plan(parent); i >= 0 {
		return c.Splits[i], true
	}
	return SplitPlan{}, false
}

func (c *Container) plan(parent resource.PartitionID) int {
	return slices.IndexFunc(c.Splits, func(p SplitPlan) bool { return p.Parent == parent })
}

// PlanSplit records that a partition is about to be split and reserves the ids
// and ordinals of its children: 404/1003 without the container, 404 without the
// partition, 409 if it is being split or merged, 400 if At is not inside its
// range, 403 if the container has had as many partitions as there are ordinals.
type PlanSplit struct {
	Container resource.RID
	Parent    resource.PartitionID
	At        partitionkey.EPK
}

func (s PlanSplit) apply(d *draft) error {
	old, ok := d.view.containers[s.Container]
	if !ok {
		return status.OwnerNotFound()
	}
	parent, ok := old.Partition(s.Parent)
	if !ok {
		return NoPartition(s.Parent)
	}
	if err := old.free(s.Parent); err != nil {
		return err
	}
	switch {
	case s.At.Compare(parent.Range.Min) <= 0 || s.At.Compare(parent.Range.Max) >= 0:
		return status.BadRequest("The point %s is not inside the range %s of partition %s.", s.At, parent.Range, s.Parent)
	case uint64(old.NextPartition)+1 > resource.OrdinalMax:
		return status.Forbidden(0, "The container has had %d physical partitions, as many as it can number.", old.NextPartition)
	}
	changed := *old
	plan := SplitPlan{Parent: s.Parent, Generation: parent.Generation, At: s.At}
	ranges := [2]partitionkey.Range{{Min: parent.Range.Min, Max: s.At}, {Min: s.At, Max: parent.Range.Max}}
	for i, r := range ranges {
		plan.Children[i] = resource.Partition{
			ID:         changed.NextPartition,
			Range:      r,
			Parents:    append(slices.Clone(parent.Parents), parent.ID),
			Group:      parent.Group,
			Generation: parent.Generation + 1,
			Ordinal:    uint32(changed.NextPartition),
			CreatedAt:  d.now,
		}
		changed.NextPartition++
	}
	changed.Splits = append(slices.Clone(old.Splits), plan)
	return d.putContainer(&changed)
}

// NoPartition returns the 404 of a container without the given partition.
func NoPartition(id resource.PartitionID) error {
	return status.New(status.CodeNotFound, 0, "The container has no physical partition %s.", id)
}

// FinishSplit replaces the parent of a planned split by its children. The split
// takes effect with this commit: 404 if the container or the plan does not exist.
type FinishSplit struct {
	Container resource.RID
	Parent    resource.PartitionID
}

func (s FinishSplit) apply(d *draft) error {
	changed, plan, err := s.without(d)
	if err != nil {
		return err
	}
	parent, ok := changed.Partition(plan.Parent)
	if !ok || parent.Generation != plan.Generation {
		return fmt.Errorf("finish the split of partition %s of container %s: it is not the one that was planned for", plan.Parent, s.Container)
	}
	var entries []partitionkey.Entry[resource.Partition]
	for _, child := range plan.Children {
		entries = append(entries, partitionkey.Entry[resource.Partition]{Range: child.Range, Value: child})
	}
	if changed.Ranges, err = changed.Ranges.Replace([]partitionkey.Range{parent.Range}, entries); err != nil {
		return fmt.Errorf("finish the split of partition %s of container %s: %w", plan.Parent, s.Container, err)
	}
	if err := d.leave(s.Container, nil, []resource.PartitionID{parent.ID}); err != nil {
		return err
	}
	return d.renew(changed, []resource.Partition{parent}, plan.Children[:])
}

// renew stores the next version of a container's ranges, from a copy of the
// container that has them already. gone are the removed partitions; the new ones
// take over the manual shares of throughput.
func (d *draft) renew(c *Container, gone, made []resource.Partition) error {
	c.Version++
	since := map[resource.PartitionID]uint64{}
	maps.Copy(since, c.Since)
	left := slices.Clone(c.Gone)
	var before, ids []resource.PartitionID
	for _, p := range gone {
		delete(since, p.ID)
		before = append(before, p.ID)
		left = append(left, GonePartition{ID: p.ID, Range: p.Range})
	}
	for _, p := range made {
		since[p.ID] = c.Version
		ids = append(ids, p.ID)
	}
	left = slices.DeleteFunc(left, func(p GonePartition) bool { return slices.Contains(ids, p.ID) }) // adopted again
	c.Since, c.Gone = since, left[max(0, len(left)-goneMax):]
	if err := d.putContainer(c); err != nil {
		return err
	}
	t, _ := d.view.ThroughputOf(c)
	divided, changed := t.Inherited(c.RID, before, ids)
	if !changed {
		return nil
	}
	divided.ETag, divided.TS = d.etag(), d.now
	d.view.offers[divided.Owner] = &divided
	return d.put(offerRow, divided.RID, divided)
}

// lessOne returns a copy of plans without one of them; nil if it was the only
// one.
func lessOne[T any](plans []T, i int) []T {
	if len(plans) == 1 {
		return nil
	}
	return slices.Delete(slices.Clone(plans), i, i+1)
}

// DropSplit removes the plan of a split that is given up; its children become
// leftovers: 404 without a plan.
type DropSplit FinishSplit

func (s DropSplit) apply(d *draft) error {
	changed, plan, err := FinishSplit(s).without(d)
	if err != nil {
		return err
	}
	if err := d.leave(s.Container, []resource.PartitionID{plan.Children[0].ID, plan.Children[1].ID}, nil); err != nil {
		return err
	}
	return d.putContainer(changed)
}

// without returns a copy of the container without the plan, and the plan.
func (s FinishSplit) without(d *draft) (*Container, SplitPlan, error) {
	old, ok := d.view.containers[s.Container]
	if !ok {
		return nil, SplitPlan{}, status.OwnerNotFound()
	}
	i := old.plan(s.Parent)
	if i < 0 {
		return nil, SplitPlan{}, status.New(status.CodeNotFound, 0, "Partition %s is not being split.", s.Parent)
	}
	changed := *old
	changed.Splits = lessOne(old.Splits, i)
	return &changed, old.Splits[i], nil
}
