package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/pacing"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/partitionkey"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
)

// SplitResult is the result of a split.
type SplitResult struct {
	Parent   resource.PartitionID
	At       partitionkey.EPK
	Children [2]resource.Partition // with the keys below At, and with At and the keys above
	Pause    time.Duration         // how long writes waited
	Took     time.Duration         // the whole duration
}

// Split replaces a partition with two that divide its range, while it serves. Reads never
// wait, and writes wait for about three syncs. at is where the range is cut; if it is
// empty, the cut halves the stored bytes.
//
// The errors that leave everything unchanged are 404 (no such container or partition),
// 400 (a cut that is not a point of the range between two keys, or a partition that
// cannot be divided, with [partition.ErrIndivisible] as the cause), 409 (the partition is
// being split or merged, or its index is being rebuilt), 403 (no more ordinals), 410 (the
// container was dropped during the split), 507 (the disk is full), and 503 (too little
// room, too few descriptors, or an error of the disk). The end of the context cancels the
// split, unless writes are already stopped.
//
// The outcome is unknown only if the catalog's commit fails. Then writes to the range get
// 503 until the catalog's store is opened again, see [Node.Mend], or the server restarts.
func (n *Node) Split(ctx context.Context, container resource.RID, id resource.PartitionID, at partitionkey.EPK) (SplitResult, error) {
	ref := replication.PartitionRef{Container: container, Partition: id}
	x := &splitting{node: n, ref: ref}
	var err error
	if x.change, ctx, err = n.beginChange(ctx, "split", ref); err != nil {
		return SplitResult{}, err
	}
	defer n.endChange(x.change)
	began := time.Now()
	result, err := x.run(ctx, at)
	result.Took = time.Since(began)
	log := n.cfg.Logger.With("container", container, "partition", id, "took", result.Took)
	if err != nil {
		if cause := context.Cause(ctx); status.From(cause) != nil && !x.doubtful {
			err = cause // The container is dropped, or the server stops.
		}
		n.metrics.splitFailures.Inc()
		log.Warn("partition not split", "err", err.Error())
		return SplitResult{}, err
	}
	n.metrics.splits.Inc()
	n.metrics.splitPause.Observe(result.Pause.Seconds())
	log.Info("partition split", "at", result.At, "left", result.Children[0].ID, "right", result.Children[1].ID, "pause", result.Pause)
	return result, nil
}

// splitting is one split in progress.
type splitting struct {
	*change
	node *Node
	ref  replication.PartitionRef

	parent   *slot
	plan     catalog.SplitPlan
	split    *partition.Split // nil until the parent keeps its effects for the children
	children [2]*child
}

// child is one child of a split or merge in progress.
type child struct {
	own   resource.Partition
	ref   replication.PartitionRef
	store *storage.Store // nil while it is not open
	slot  *slot          // nil until the child is in the node's map; the slot then owns the store
}

// change is a split or merge in progress, as the node registers it.
type change struct {
	what   string // is being done to the partitions: "split" or "merged"
	refs   []replication.PartitionRef
	cancel context.CancelCauseFunc

	// doubtful says that it is unknown whether the catalog has stored the switch.
	doubtful bool
}

// beginChange registers a split or merge. The error is 409 if one of its partitions
// already has one.
func (n *Node) beginChange(ctx context.Context, what string, refs ...replication.PartitionRef) (*change, context.Context, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, nil, errShutdown()
	}
	for _, ref := range refs {
		if other, busy := n.changes[ref]; busy {
			return nil, nil, status.New(status.CodeConflict, 0, "Partition %s is being %s already.", ref.Partition, other.what)
		}
	}
	x := &change{what: what, refs: refs}
	ctx, x.cancel = context.WithCancelCause(ctx)
	for _, ref := range refs {
		n.changes[ref] = x
	}
	n.background.Add(1)
	return x, ctx, nil
}

func (n *Node) endChange(x *change) {
	x.cancel(nil)
	n.mu.Lock()
	for _, ref := range x.refs {
		delete(n.changes, ref)
	}
	n.mu.Unlock()
	n.background.Done()
}

// follow prepares the children at the same time, and seals their parents when each child
// has little left to follow. It returns when the children have followed everything, with
// the time of the seal. A child that fails cancels the others.
func (x *change) follow(ctx context.Context, children []*child, prepare func(context.Context, *child, func()) error, seal func(context.Context) error) (sealed time.Time, err error) {
	group, following := errgroup.WithContext(ctx)
	var caughtUp sync.WaitGroup
	for _, c := range children {
		caughtUp.Add(1)
		group.Go(func() error { return prepare(following, c, sync.OnceFunc(caughtUp.Done)) })
	}
	caughtUp.Wait()
	sealed = time.Now()
	if following.Err() == nil {
		if err := seal(following); err != nil {
			x.cancel(err)
		}
	}
	return sealed, group.Wait()
}

// commitSwitch commits finish to the catalog. That commit is the moment at which the split
// or merge takes effect.
func (x *change) commitSwitch(ctx context.Context, n *Node, finish catalog.Change) error {
	_, err := n.cfg.Catalog.Commit(ctx, finish)
	x.doubtful = catalog.OutcomeUnknown(err)
	if status.CodeOf(err) == status.CodeNotFound {
		return status.PartitionMoved(status.SubNameCacheStale)
	}
	return err
}

// conclude calls the function that ends a change whose switch returned err.
func (x *change) conclude(err error, complete func(), suspend func(error), undo func()) {
	switch {
	case err == nil:
		complete()
	case x.doubtful:
		suspend(err)
	default:
		undo()
	}
}

// run carries out a split: plan, prepare, switch. If a step fails it undoes the others.
func (x *splitting) run(ctx context.Context, at partitionkey.EPK) (result SplitResult, err error) {
	if err := x.find(); err != nil {
		return result, err
	}
	if x.parent, err = x.node.acquire(ctx, x.ref); err != nil {
		return result, err
	}
	if err = x.hasRoom(); err == nil {
		at, err = x.parent.partition.SplitPoint(ctx, at)
	}
	if err == nil {
		err = x.commitPlan(ctx, at)
	}
	if err != nil {
		x.parent.release()
		return result, x.asStatus(err)
	}
	result = SplitResult{Parent: x.ref.Partition, At: at, Children: x.plan.Children}
	result.Pause, err = x.carryOut(ctx)
	x.conclude(err, x.complete, x.suspend, x.undo)
	return result, err
}

// find returns 404 if the container or the partition does not exist.
func (x *splitting) find() error {
	c, ok := x.node.cfg.Catalog.View().ContainerByRID(x.ref.Container)
	if !ok {
		return status.OwnerNotFound()
	}
	if _, ok := c.Partition(x.ref.Partition); !ok {
		return catalog.NoPartition(x.ref.Partition)
	}
	return nil
}

// splitRoomMin is the room in bytes that even a split of the smallest partition needs.
const splitRoomMin = 64 << 20

// changeDescriptors is how many files a split or merge may have open at the same time, not
// counting the tables that it reads: two open stores with their flushes and compactions.
const changeDescriptors = 32

// hasRoom returns an error if the split would fill the disk or use up the descriptors.
// The children share the parent's files at first, and may rewrite them before the parent
// is removed.
func (x *splitting) hasRoom() error {
	if err := x.node.cfg.Pool.CanGrow(); err != nil {
		return err
	}
	if err := x.node.cfg.Pool.CanOpen(changeDescriptors); err != nil {
		return err
	}
	need := splitRoomMin + uint64(x.parent.store.Size())/2
	free, known := x.parent.store.FreeBytes()
	if !known || free >= need {
		return nil
	}
	return status.Unavailable(nil, "Partition %s cannot be split now: that may take %d bytes, and the disk has %d.", x.ref.Partition, need, free)
}

// commitPlan commits the plan of the split, which reserves the children.
func (x *splitting) commitPlan(ctx context.Context, at partitionkey.EPK) error {
	view, err := x.node.cfg.Catalog.Commit(ctx, catalog.PlanSplit{Container: x.ref.Container, Parent: x.ref.Partition, At: at})
	if err != nil {
		return err
	}
	c, _ := view.ContainerByRID(x.ref.Container)
	x.plan, _ = c.Split(x.ref.Partition)
	for i, own := range x.plan.Children {
		x.children[i] = &child{own: own, ref: replication.PartitionRef{Container: x.ref.Container, Partition: own.ID}}
	}
	return nil
}

// carryOut prepares the children while the parent serves, and switches to them. It returns
// how long writes waited.
func (x *splitting) carryOut(ctx context.Context) (pause time.Duration, err error) {
	if err := x.node.delay(ctx, x.ref.Container); err != nil {
		return 0, err
	}
	if x.split, err = x.parent.partition.Split(ctx, x.plan.At); err != nil {
		return 0, err
	}
	x.node.makeRoom()
	sealed, err := x.follow(ctx, x.children[:], x.prepare, x.split.Seal)
	if err != nil {
		return 0, x.asStatus(err)
	}
	if err := x.openChildren(); err != nil {
		return 0, err
	}
	if err := x.commitSwitch(ctx, x.node, catalog.FinishSplit{Container: x.ref.Container, Parent: x.ref.Partition}); err != nil {
		return 0, err
	}
	x.split.Done()
	return time.Since(sealed), nil
}

// delay waits for the configured delay of splits and merges of a container.
func (n *Node) delay(ctx context.Context, container resource.RID) error {
	delay := n.splitDelay(container)
	if delay <= 0 {
		return nil
	}
	return pacing.Sleep(ctx, delay)
}

// prepare creates one child, which then follows the parent until that is sealed. It calls
// caughtUp when little is left to follow, or when it returns.
func (x *splitting) prepare(ctx context.Context, c *child, caughtUp func()) (err error) {
	defer caughtUp()
	dir := x.node.partitionDir(c.ref)
	low, high := x.split.LeftOut(c.own)
	if err := x.parent.store.CheckpointWithout(dir, low, high); err != nil {
		return err
	}
	if c.store, err = x.node.cfg.Pool.OpenVerified(dir, storage.Opening{Writable: true}); err != nil {
		return err
	}
	half, err := x.split.Adopt(c.store, c.own)
	if err != nil {
		return err
	}
	return half.Follow(ctx, caughtUp)
}

// openChildren opens the children and puts them into the node's map, so that the first
// requests to them need not wait. No request is sent to them before the commit.
func (x *splitting) openChildren() error {
	for _, c := range x.children {
		if err := x.node.openChild(c); err != nil {
			return x.asStatus(err)
		}
	}
	return nil
}

func (n *Node) openChild(c *child) error {
	container, ok := n.cfg.Catalog.View().ContainerByRID(c.ref.Container)
	if !ok {
		return status.PartitionMoved(status.SubNameCacheStale)
	}
	p, err := partition.Open(n.partitionConfig(c.store, c.ref, &container.Container))
	if err != nil {
		return err
	}
	if c.slot, err = n.addOpen(c.ref, p, c.store); err != nil {
		return errors.Join(err, p.Close())
	}
	return nil
}

// addOpen puts an open partition into the map, with the caller as its only holder.
func (n *Node) addOpen(ref replication.PartitionRef, p *partition.Partition, store *storage.Store) (*slot, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, errShutdown()
	}
	if _, taken := n.slots[ref]; taken {
		return nil, status.PartitionMoved(status.SubNameCacheStale) // Its container is being dropped.
	}
	s := n.addLocked(ref)
	s.partition, s.store = p, store
	s.beginCounting()
	n.settleLocked(s, nil)
	return s, nil
}

// complete releases the children and the parent. The directory of the parent is removed
// when its last reader has left; the children have links to its files.
func (x *splitting) complete() {
	for _, c := range x.children {
		x.node.marks.note(c.slot)
		c.slot.partition.Reindex() // A change of the policy may wait for the end of the split.
		x.node.notePurging(c.slot) // The child has its part of the documents to be deleted.
		c.slot.release()
	}
	x.node.dropHeld(x.parent)
	x.node.releaseAndWait(x.parent)
}

// undo restores the state before the plan.
func (x *splitting) undo() {
	n := x.node
	if x.split != nil {
		x.split.Cancel()
	}
	for _, c := range x.children {
		n.discard(c)
	}
	_, err := n.cfg.Catalog.Commit(context.Background(), catalog.DropSplit{Container: x.ref.Container, Parent: x.ref.Partition})
	if err != nil && status.CodeOf(err) != status.CodeNotFound {
		n.cfg.Logger.Warn("plan of a split not dropped", "container", x.ref.Container, "partition", x.ref.Partition, "err", err)
	}
	x.node.releaseAndWait(x.parent)
}

// discard closes and removes a child that the catalog does not name.
func (n *Node) discard(c *child) {
	if c.slot != nil {
		n.dropHeld(c.slot)
		n.releaseAndWait(c.slot)
		return
	}
	if c.store != nil {
		if err := c.store.Close(); err != nil {
			n.cfg.Logger.Debug("store of a child not closed cleanly", "container", c.ref.Container, "partition", c.ref.Partition, "err", err)
		}
	}
	n.removeDir(c.ref)
}

// suspend stops writes to the range, because it is unknown whether the parent or the
// children own it, until the catalog's store is opened again, see [Node.Mend], or the
// server restarts. All three directories remain. The split still holds the parent: if it
// were closed and opened again it would accept writes.
func (x *splitting) suspend(err error) {
	x.split.Suspend(status.From(err))
	for _, c := range x.children {
		x.node.retireHeld(c.slot)
		c.slot, c.store = nil, nil
	}
	x.node.inDoubt(doubt{
		container: x.ref.Container,
		child:     x.plan.Children[0].ID,
		complete: func() {
			x.split.Done()
			x.node.dropHeld(x.parent)
			x.node.releaseAndWait(x.parent)
		},
		undo: func() {
			x.node.outOfDoubt(x.parent)
			x.split.Resume()
			x.undo()
		},
	}, x.parent)
}

// outOfDoubt takes note that the outcome for slots is known.
func (n *Node) outOfDoubt(slots ...*slot) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range slots {
		s.inDoubt = false
	}
}

// asStatus returns a 503 for an error that callers must not see as it is.
func (x *splitting) asStatus(err error) error {
	if err == nil || known(err) {
		return err
	}
	return status.Unavailable(err, "Partition %s cannot be split now%s. It serves as before.", x.ref.Partition, storage.Because(err))
}

// known reports whether callers may see an error as it is.
func known(err error) bool {
	return status.From(err) != nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// dropPlans drops the plans of the splits and merges that a restart interrupted. On a full
// disk, Mend does so later.
func (n *Node) dropPlans() error {
	for _, c := range n.cfg.Catalog.View().AllContainers() {
		for _, plan := range c.Splits {
			n.plans = append(n.plans, catalog.DropSplit{Container: c.RID, Parent: plan.Parent})
		}
		for _, plan := range c.Merges {
			n.plans = append(n.plans, catalog.DropMerge{Container: c.RID, Parents: plan.Parents})
		}
	}
	err := n.dropLeftPlans()
	if status.CodeOf(err) == status.CodeInsufficientStorage {
		n.cfg.Logger.Warn("plans of interrupted splits and merges not dropped yet", "err", err)
		return nil
	}
	return err
}

// dropLeftPlans drops the plans that dropPlans has found and that are not dropped yet.
func (n *Node) dropLeftPlans() error {
	for len(n.plans) > 0 {
		_, err := n.cfg.Catalog.Commit(context.Background(), n.plans[0])
		if err != nil && status.CodeOf(err) != status.CodeNotFound {
			return fmt.Errorf("drop the plan of an interrupted split or merge, %+v: %w", n.plans[0], err)
		}
		switch plan := n.plans[0].(type) {
		case catalog.DropSplit:
			n.cfg.Logger.Info("interrupted split given up", "container", plan.Container, "partition", plan.Parent)
		case catalog.DropMerge:
			n.cfg.Logger.Info("interrupted merge given up", "container", plan.Container, "low", plan.Parents[0], "high", plan.Parents[1])
		}
		n.plans = n.plans[1:]
	}
	return nil
}

// metrics are the metrics of splits and merges.
type metrics struct {
	splits, splitFailures prometheus.Counter
	splitPause            prometheus.Histogram
	merges, mergeFailures prometheus.Counter
	mergePause            prometheus.Histogram
}

// newMetrics returns the metrics, and registers them with r unless it is nil.
func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		splits: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "decan_partition_splits_total", Help: "Physical partitions that were replaced by two.",
		}),
		splitFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "decan_partition_split_failures_total", Help: "Splits of physical partitions that were refused or undone.",
		}),
		splitPause: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "decan_partition_split_pause_seconds",
			Help:    "Time for which the writes to a physical partition waited while it was split.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
		}),
		merges: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "decan_partition_merges_total", Help: "Pairs of physical partitions that were replaced by one.",
		}),
		mergeFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "decan_partition_merge_failures_total", Help: "Merges of physical partitions that were refused or undone.",
		}),
		mergePause: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "decan_partition_merge_pause_seconds",
			Help:    "Time for which the writes to two physical partitions waited while they were merged.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
		}),
	}
	if r != nil {
		r.MustRegister(m.splits, m.splitFailures, m.splitPause, m.merges, m.mergeFailures, m.mergePause)
	}
	return m
}
