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

// MergeResult says what a merge has made.
type MergeResult struct {
	Parents [2]resource.PartitionID // in the order of their ranges
	Child   resource.Partition
	Pause   time.Duration // for which writes waited
	Took    time.Duration // in all
}

// Merge replaces two neighbouring partitions, named in either order, by one that
// has the ranges of both, while they serve: reads never wait, and writes for the
// time of three syncs.
//
// Nothing has changed when it answers 404 (no such container or partition), 400
// (the same one twice, no neighbours, more bytes than one partition may hold, or
// throughput that needs both), 409 (one is being split or merged, or its index is
// being rebuilt; or the container was changed or its throughput raised meanwhile),
// 403 (no more ordinals), 410 (the container was dropped meanwhile), or 503
// because of the world's trouble. A context that ends cancels it until the writes
// have been stopped. Only when the catalog's commit could not be stored is the
// outcome unknown: then writes to the range get 503 until the server is started
// anew.
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

// merging is one merge under way. What has two entries is in the order of ranges.
type merging struct {
	*change
	node      *Node
	container resource.RID

	parents [2]*slot
	base    int // the parent of which the child is a checkpoint: the one that takes more room
	plan    catalog.MergePlan
	merge   *partition.Merge // once the parents keep their effects
	child   *child
}

// try finds the two, takes note of the merge and has it run.
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

// find answers for partitions that there are not, or that do not meet.
func (x *merging) find(a, b resource.PartitionID) (low, high resource.Partition, err error) {
	c, ok := x.node.cfg.Catalog.View().ContainerByRID(x.container)
	if !ok {
		return low, high, status.OwnerNotFound()
	}
	return c.Neighbours(a, b)
}

// run is the story of a merge: plan, prepare, switch. What fails is undone.
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
			return result, x.trouble(err)
		}
	}
	result = MergeResult{Parents: x.plan.Parents, Child: x.plan.Child}
	result.Pause, err = x.carryOut(ctx)
	x.conclude(err, x.complete, x.suspend, x.undo)
	return result, err
}

// release gives back the parents that are held.
func (x *merging) release() {
	for _, p := range x.parents {
		if p != nil {
			x.node.leave(p)
		}
	}
}

// fits refuses a child that would have to be split at once: above the storage
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

// share returns what both are given by hand together, 0 when that is nothing, and
// what one partition can serve.
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

// limits are those that hold for the container.
func (x *merging) limits() resource.Limits {
	limits := x.node.cfg.Limits
	if c, ok := x.node.cfg.Catalog.View().ContainerByRID(x.container); ok {
		limits = limits.Of(c.Limits)
	}
	return limits
}

// mergeRoomMin is what a merge of the smallest partitions may write.
const mergeRoomMin = 64 << 20

// hasRoom refuses to begin what would fill the disk or use up the descriptors. The
// files of the base are shared at first and rewritten by and by; the rows of the
// other go through the log into files of their own.
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

// commitPlan reserves the child.
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

// carryOut prepares the child while the parents serve, and switches. It returns
// for how long writes waited.
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
		return 0, x.trouble(err)
	}
	if err := x.node.enterChild(x.child); err != nil {
		return 0, x.trouble(err)
	}
	if share, most := x.share(); share > float64(most) {
		return 0, status.New(status.CodeConflict, 0, "The merge of partitions %s and %s was given up: they have been given %.0f RU/s together meanwhile, and one partition can serve %d.", x.plan.Parents[0], x.plan.Parents[1], share, most)
	}
	finish := catalog.FinishMerge{Container: x.container, Parents: x.plan.Parents, PartitionRUs: x.limits().PartitionRUs}
	if err := x.commitSwitch(ctx, x.node, finish); err != nil {
		return 0, err
	}
	x.merge.Done()
	return time.Since(sealed), nil
}

// prepare makes the child and has it follow the parents until they are sealed. It
// calls caughtUp when little is left to follow, or at its end.
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

// complete lets go of all three. The directory of a parent is removed when its last
// reader has left.
func (x *merging) complete() {
	x.node.marks.note(x.child.slot)
	x.child.slot.partition.Reindex() // A change of the policy may have waited.
	x.child.slot.release()
	for _, p := range x.parents {
		x.node.doom(p)
	}
	x.release()
}

// undo leaves everything as it was before the plan.
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

// suspend leaves it open who owns the range until the catalog's store is opened
// again, see [Node.Mend], or the server is started again. All three directories stay.
// The parents stay open and held: opened again they would take writes.
func (x *merging) suspend(err error) {
	x.merge.Suspend(status.From(err))
	x.node.shut(x.child.slot)
	x.child.slot, x.child.store = nil, nil
	x.node.inDoubt(doubt{
		container: x.container,
		child:     x.plan.Child.ID,
		complete: func() {
			x.merge.Done()
			for _, p := range x.parents {
				x.node.doom(p)
			}
			x.release()
		},
		undo: func() {
			x.node.keep(false, x.parents[:]...)
			x.merge.Resume()
			x.undo()
		},
	}, x.parents[:]...)
}

// trouble makes the world's trouble a status.
func (x *merging) trouble(err error) error {
	if err == nil || known(err) {
		return err
	}
	return status.Unavailable(err, "Partitions %s and %s cannot be merged now%s. They serve as before.", x.refs[0].Partition, x.refs[1].Partition, storage.Because(err))
}
