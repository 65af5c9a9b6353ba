package cluster

import (
	"context"
	"math"
	"time"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/throughput"
)

// MergeResult is the result of a merge.
type MergeResult struct {
	Parents [2]resource.PartitionID // in the order of their ranges
	Child   resource.Partition
	Pause   time.Duration // how long writes waited
	Took    time.Duration // the whole duration
}

// Merge replaces two adjacent partitions, in any order, with one that has the ranges of
// both, while they serve. Reads never wait, and writes wait for about three syncs.
//
// The errors that leave everything unchanged are 404 (no such container or partition),
// 400 (twice the same partition, partitions that are not adjacent, more bytes than one
// partition may hold, or throughput that needs both), 409 (one is being split or merged,
// or its index is being rebuilt; or the container was changed or its throughput raised
// during the merge), 403 (no more ordinals), 410 (the container was dropped during the
// merge), 507 (the disk is full), and 503 (too little room, too few descriptors, or an
// error of the disk). The end of the context cancels the merge, unless writes are already
// stopped.
//
// The outcome is unknown only if the catalog's commit fails. Then writes to the range get
// 503 until the catalog's store is opened again, see [Node.Mend], or the server restarts.
func (n *Node) Merge(ctx context.Context, container resource.RID, a, b resource.PartitionID) (MergeResult, error) {
	x := &merging{node: n, container: container}
	began := time.Now()
	result, err := x.try(ctx, a, b)
	result.Took = time.Since(began)
	log := n.cfg.Logger.With("container", container, "took", result.Took)
	if err != nil {
		n.metrics.mergeFailures.Inc()
		log.Warn("partitions not merged", "one", a, "other", b, "err", err.Error())
		return MergeResult{}, err
	}
	n.metrics.merges.Inc()
	n.metrics.mergePause.Observe(result.Pause.Seconds())
	log.Info("partitions merged", "low", result.Parents[0], "high", result.Parents[1], "into", result.Child.ID, "pause", result.Pause)
	return result, nil
}

// merging is one merge in progress. Arrays of two are in the order of ranges.
type merging struct {
	*change
	node      *Node
	container resource.RID

	parents [2]*slot
	base    int // the index of the parent with more stored bytes; the child begins as its checkpoint
	plan    catalog.MergePlan
	merge   *partition.Merge // nil until the parents keep their effects for the child
	child   *child
}

// try finds both partitions, registers the merge and runs it.
func (x *merging) try(ctx context.Context, a, b resource.PartitionID) (MergeResult, error) {
	low, high, err := x.find(a, b)
	if err != nil {
		return MergeResult{}, err
	}
	refs := []replication.PartitionRef{{Container: x.container, Partition: low.ID}, {Container: x.container, Partition: high.ID}}
	if x.change, ctx, err = x.node.beginChange(ctx, "merged", refs...); err != nil {
		return MergeResult{}, err
	}
	defer x.node.endChange(x.change)
	result, err := x.run(ctx)
	if err != nil {
		if cause := context.Cause(ctx); status.From(cause) != nil && !x.doubtful {
			err = cause // The container is dropped, or the server stops.
		}
	}
	return result, err
}

// find returns both partitions in the order of their ranges. The error is 404 if the
// container or one of them does not exist, and 400 if they are not adjacent.
func (x *merging) find(a, b resource.PartitionID) (low, high resource.Partition, err error) {
	c, ok := x.node.cfg.Catalog.View().ContainerByRID(x.container)
	if !ok {
		return low, high, status.OwnerNotFound()
	}
	return c.Neighbours(a, b)
}

// run carries out a merge: plan, prepare, switch. If a step fails it undoes the others.
func (x *merging) run(ctx context.Context) (result MergeResult, err error) {
	for i, ref := range x.refs {
		if x.parents[i], err = x.node.acquire(ctx, ref); err != nil {
			x.release()
			return result, err
		}
	}
	if x.parents[1].store.Size() > x.parents[0].store.Size() {
		x.base = 1
	}
	for _, step := range []func(context.Context) error{x.fits, x.hasRoom, x.commitPlan} {
		if err := step(ctx); err != nil {
			x.release()
			return result, x.asStatus(err)
		}
	}
	result = MergeResult{Parents: x.plan.Parents, Child: x.plan.Child}
	result.Pause, err = x.carryOut(ctx)
	x.conclude(err, x.complete, x.suspend, x.undo)
	return result, err
}

// release releases the parents that the merge holds.
func (x *merging) release() {
	for _, p := range x.parents {
		if p != nil {
			x.node.releaseAndWait(p)
		}
	}
}

// fits returns 400 if the child would have to be split immediately: above the storage
// limit, or with a share of throughput that one partition cannot serve.
func (x *merging) fits(context.Context) error {
	limits := x.limits()
	low, high := x.refs[0].Partition, x.refs[1].Partition
	together := x.parents[0].partition.Stats().Bytes + x.parents[1].partition.Stats().Bytes
	if most := limits.PhysicalPartitionBytes; most > 0 && together > most {
		return status.BadRequest("Partitions %s and %s cannot be merged: they hold %d bytes of documents, and one partition may hold %d.", low, high, together, most)
	}
	if share, most := x.share(); share > float64(most) {
		return status.BadRequest("Partitions %s and %s cannot be merged: they are given %.0f RU/s together, and one partition can serve %d.", low, high, share, most)
	}
	return nil
}

// share returns the sum of the throughput shares of both partitions, and the most that
// one partition can serve. The sum is 0 unless the throughput is divided manually.
func (x *merging) share() (rus float64, most int) {
	view := x.node.cfg.Catalog.View()
	c, ok := view.ContainerByRID(x.container)
	if !ok {
		return 0, 0
	}
	t, _ := view.ThroughputOf(c)
	if !throughput.Divided(t, c.RID) {
		return 0, 0
	}
	given := throughput.Shares(t, c.RID, c.Partitions(), math.MaxInt)
	for i, p := range c.Partitions() {
		if p.ID == x.refs[0].Partition || p.ID == x.refs[1].Partition {
			rus += given[i]
		}
	}
	return rus, x.limits().PartitionRUs
}

// limits returns the limits of the container.
func (x *merging) limits() resource.Limits {
	limits := x.node.cfg.Limits
	if c, ok := x.node.cfg.Catalog.View().ContainerByRID(x.container); ok {
		limits = limits.Of(c.Limits)
	}
	return limits
}

// mergeRoomMin is the room in bytes that even a merge of the smallest partitions needs.
const mergeRoomMin = 64 << 20

// hasRoom returns an error if the merge would fill the disk or use up the descriptors.
// The files of the base are shared at first, and compactions rewrite them later; the rows
// of the other parent are written to the log and to new files.
func (x *merging) hasRoom(context.Context) error {
	if err := x.node.cfg.Pool.CanGrow(); err != nil {
		return err
	}
	if err := x.node.cfg.Pool.CanOpen(changeDescriptors); err != nil {
		return err
	}
	base, other := x.parents[x.base].store, x.parents[1-x.base].store
	need := mergeRoomMin + uint64(base.Size())/2 + 2*uint64(other.Size())
	free, known := base.FreeBytes()
	if !known || free >= need {
		return nil
	}
	return status.Unavailable(nil, "Partitions %s and %s cannot be merged now: that may take %d bytes, and the disk has %d.", x.refs[0].Partition, x.refs[1].Partition, need, free)
}

// commitPlan commits the plan of the merge, which reserves the child.
func (x *merging) commitPlan(ctx context.Context) error {
	ids := [2]resource.PartitionID{x.refs[0].Partition, x.refs[1].Partition}
	view, err := x.node.cfg.Catalog.Commit(ctx, catalog.PlanMerge{Container: x.container, Parents: ids, PartitionRUs: x.limits().PartitionRUs})
	if err != nil {
		return err
	}
	c, _ := view.ContainerByRID(x.container)
	x.plan, _ = c.Merge(ids[0])
	x.child = &child{own: x.plan.Child, ref: replication.PartitionRef{Container: x.container, Partition: x.plan.Child.ID}}
	return nil
}

// carryOut prepares the child while the parents serve, and switches to it. It returns how
// long writes waited.
func (x *merging) carryOut(ctx context.Context) (pause time.Duration, err error) {
	if err := x.node.delay(ctx, x.container); err != nil {
		return 0, err
	}
	if x.merge, err = partition.BeginMerge(ctx, x.parents[0].partition, x.parents[1].partition); err != nil {
		return 0, err
	}
	x.node.makeRoom()
	sealed, err := x.follow(ctx, []*child{x.child}, x.prepare, x.merge.Seal)
	if err != nil {
		return 0, x.asStatus(err)
	}
	if err := x.node.openChild(x.child); err != nil {
		return 0, x.asStatus(err)
	}
	if share, most := x.share(); share > float64(most) {
		return 0, status.New(status.CodeConflict, 0, "The merge of partitions %s and %s was given up: they are given %.0f RU/s together now, and one partition can serve %d.", x.plan.Parents[0], x.plan.Parents[1], share, most)
	}
	finish := catalog.FinishMerge{Container: x.container, Parents: x.plan.Parents, PartitionRUs: x.limits().PartitionRUs}
	if err := x.commitSwitch(ctx, x.node, finish); err != nil {
		return 0, err
	}
	x.merge.Done()
	return time.Since(sealed), nil
}

// prepare creates the child, which then follows the parents until they are sealed. It
// calls caughtUp when little is left to follow, or when it returns.
func (x *merging) prepare(ctx context.Context, c *child, caughtUp func()) (err error) {
	defer caughtUp()
	dir := x.node.partitionDir(c.ref)
	if err := x.parents[x.base].store.Checkpoint(dir); err != nil {
		return err
	}
	if c.store, err = x.node.cfg.Pool.OpenVerified(dir, storage.Opening{Writable: true}); err != nil {
		return err
	}
	merged, err := x.merge.Adopt(c.store, c.own, x.refs[x.base].Partition)
	if err != nil {
		return err
	}
	return merged.Follow(ctx, caughtUp)
}

// complete releases the child and the parents. The directory of a parent is removed when
// its last reader has left.
func (x *merging) complete() {
	x.node.marks.note(x.child.slot)
	x.child.slot.partition.Reindex() // A change of the policy may wait for the end of the merge.
	x.node.notePurging(x.child.slot)
	x.child.slot.release()
	for _, p := range x.parents {
		x.node.dropHeld(p)
	}
	x.release()
}

// undo restores the state before the plan.
func (x *merging) undo() {
	n := x.node
	if x.merge != nil {
		x.merge.Cancel()
	}
	n.discard(x.child)
	_, err := n.cfg.Catalog.Commit(context.Background(), catalog.DropMerge{Container: x.container, Parents: x.plan.Parents})
	if err != nil && status.CodeOf(err) != status.CodeNotFound {
		n.cfg.Logger.Warn("plan of a merge not dropped", "container", x.container, "low", x.plan.Parents[0], "high", x.plan.Parents[1], "err", err)
	}
	x.release()
}

// suspend stops writes to the range, because it is unknown whether the parents or the
// child own it, until the catalog's store is opened again, see [Node.Mend], or the server
// restarts. All three directories remain. The merge still holds the parents: if they were
// closed and opened again they would accept writes.
func (x *merging) suspend(err error) {
	x.merge.Suspend(status.From(err))
	x.node.retireHeld(x.child.slot)
	x.child.slot, x.child.store = nil, nil
	x.node.inDoubt(doubt{
		container: x.container,
		child:     x.plan.Child.ID,
		complete: func() {
			x.merge.Done()
			for _, p := range x.parents {
				x.node.dropHeld(p)
			}
			x.release()
		},
		undo: func() {
			x.node.outOfDoubt(x.parents[:]...)
			x.merge.Resume()
			x.undo()
		},
	}, x.parents[:]...)
}

// asStatus returns a 503 for an error that callers must not see as it is.
func (x *merging) asStatus(err error) error {
	if err == nil || known(err) {
		return err
	}
	return status.Unavailable(err, "Partitions %s and %s cannot be merged now%s. They serve as before.", x.refs[0].Partition, x.refs[1].Partition, storage.Because(err))
}
