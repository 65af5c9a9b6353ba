package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/partitionkey"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
)

// SplitResult says what a split has made.
type SplitResult struct {
	Parent   resource.PartitionID
	At       partitionkey.EPK
	Children [2]resource.Partition // below the cut, and from it on
	Pause    time.Duration         // for which writes waited
	Took     time.Duration         // in all
}

// Split replaces a partition by two that share its range, while it serves: reads
// never wait, and writes for the time of three syncs. at is where the range is
// cut; empty means where half of the stored bytes lie on either side.
//
// Nothing has changed when it answers 404 (no such container or partition), 400
// (a cut that is no point of the range between two keys, or a partition that
// cannot be divided, with [partition.ErrIndivisible] as the cause), 409 (it is
// being split or merged, or its index is being rebuilt), 403 (no more ordinals), 410 (the
// container was dropped meanwhile), or 503 because of the world's trouble. A
// context that ends cancels it until the writes have been stopped. Only when the
// catalog's commit could not be stored is the outcome unknown: then writes to the
// range get 503 until the server is started anew.
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

// splitting is one split under way.
type splitting struct {
	*change
	node *Node
	ref  replication.PartitionRef

	parent   *slot
	plan     catalog.SplitPlan
	split    *partition.Split // once the parent keeps its effects
	children [2]*child
}

// child is one child of a split or merge while it is made.
type child struct {
	own   resource.Partition
	ref   replication.PartitionRef
	store *storage.Store // nil while it is not open
	slot  *slot          // once it stands in the node; it has the store then
}

// change is a split or merge under way, as the node knows it.
type change struct {
	what   string // that becomes of its partitions: split or merged
	refs   []replication.PartitionRef
	cancel context.CancelCauseFunc

	// doubtful says that nobody knows whether the switch was stored.
	doubtful bool
}

// beginChange takes note of a split or merge, one for each partition.
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

// follow has children prepared, and seals their parents when each has little left
// to follow: it returns when they have followed everything, and when the parents
// were sealed. A child that fails ends the context of the others; the seal ends
// their following.
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

// commitSwitch is the instant of the change, which finish is.
func (x *change) commitSwitch(ctx context.Context, n *Node, finish catalog.Change) error {
	_, err := n.cfg.Catalog.Commit(ctx, finish)
	x.doubtful = catalog.OutcomeUnknown(err)
	if status.CodeOf(err) == status.CodeNotFound {
		return status.PartitionMoved(status.SubNameCacheStale)
	}
	return err
}

// conclude calls what has to follow a change that was carried out with err.
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

// run is the story of a split: plan, prepare, switch. What fails is undone.
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
		return result, x.trouble(err)
	}
	result = SplitResult{Parent: x.ref.Partition, At: at, Children: x.plan.Children}
	result.Pause, err = x.carryOut(ctx)
	x.conclude(err, x.complete, x.suspend, x.undo)
	return result, err
}

// find answers for partitions that there are not.
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

// splitRoomMin is what a split of the smallest partition may write.
const splitRoomMin = 64 << 20

// changeDescriptors is how many files a split or merge may have open at once besides
// the tables it reads: two open stores, and what they flush and compact.
const changeDescriptors = 32

// hasRoom refuses to begin what would fill the disk or use up the descriptors. Files
// are shared at first, and then rewritten by both children before the parent's are
// gone.
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

// commitPlan reserves the children.
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

// carryOut prepares the children while the parent serves, and switches. It
// returns for how long writes waited.
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
		return 0, x.trouble(err)
	}
	if err := x.enter(); err != nil {
		return 0, err
	}
	if err := x.commitSwitch(ctx, x.node, catalog.FinishSplit{Container: x.ref.Container, Parent: x.ref.Partition}); err != nil {
		return 0, err
	}
	x.split.Done()
	return time.Since(sealed), nil
}

// delay waits as long as the settings say, or those of the container.
func (n *Node) delay(ctx context.Context, container resource.RID) error {
	held := n.splitDelay(container)
	if held <= 0 {
		return nil
	}
	wait := time.NewTimer(held)
	defer wait.Stop()
	select {
	case <-wait.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// prepare makes one child and has it follow the parent until that is sealed. It
// calls caughtUp when little is left to follow, or at its end.
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

// enter puts the children into the node, open and held, so that the first
// request that the catalog sends to them need not wait. Nobody knows of them
// before the commit.
func (x *splitting) enter() error {
	for _, c := range x.children {
		if err := x.node.enterChild(c); err != nil {
			return x.trouble(err)
		}
	}
	return nil
}

func (n *Node) enterChild(c *child) error {
	container, ok := n.cfg.Catalog.View().ContainerByRID(c.ref.Container)
	if !ok {
		return status.PartitionMoved(status.SubNameCacheStale)
	}
	p, err := partition.Open(n.partitionConfig(c.store, c.ref, &container.Container))
	if err != nil {
		return err
	}
	if c.slot, err = n.enter(c.ref, p, c.store); err != nil {
		return errors.Join(err, p.Close())
	}
	return nil
}

// enter puts an open partition into the map, held once.
func (n *Node) enter(ref replication.PartitionRef, p *partition.Partition, store *storage.Store) (*slot, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, errShutdown()
	}
	if _, taken := n.slots[ref]; taken {
		return nil, status.PartitionMoved(status.SubNameCacheStale) // Its container is being dropped.
	}
	s := n.hold(ref)
	s.partition, s.store = p, store
	s.weighed.begin(p)
	s.synced.Store(uint64(p.LSN()))
	close(s.ready)
	return s, nil
}

// complete lets go of all three. The directory of the parent is removed when its
// last reader has left; its files live on in those of the children.
func (x *splitting) complete() {
	for _, c := range x.children {
		x.node.marks.note(c.slot)
		c.slot.partition.Reindex() // A change of the policy may have waited.
		x.node.notePurging(c.slot) // It takes over what is to be cleared away.
		c.slot.release()
	}
	x.node.doom(x.parent)
	x.node.leave(x.parent)
}

// undo leaves everything as it was before the plan.
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
	x.node.leave(x.parent)
}

// discard removes a child that nobody came to know.
func (n *Node) discard(c *child) {
	if c.slot != nil {
		n.doom(c.slot)
		n.leave(c.slot)
		return
	}
	if c.store != nil {
		if err := c.store.Close(); err != nil {
			n.cfg.Logger.Debug("store of a child not closed cleanly", "container", c.ref.Container, "partition", c.ref.Partition, "err", err)
		}
	}
	n.removeDir(c.ref)
}

// suspend leaves it open who owns the range until the catalog's store is opened
// again, see [Node.Mend], or the server is started again. All three directories stay.
// The parent stays open and held: opened again it would take writes.
func (x *splitting) suspend(err error) {
	x.split.Suspend(status.From(err))
	for _, c := range x.children {
		x.node.shut(c.slot)
		c.slot, c.store = nil, nil
	}
	x.node.inDoubt(doubt{
		container: x.ref.Container,
		child:     x.plan.Children[0].ID,
		complete: func() {
			x.split.Done()
			x.node.doom(x.parent)
			x.node.leave(x.parent)
		},
		undo: func() {
			x.node.keep(false, x.parent)
			x.split.Resume()
			x.undo()
		},
	}, x.parent)
}

// keep says whether slots are held until a doubt is settled.
func (n *Node) keep(kept bool, slots ...*slot) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range slots {
		s.kept = kept
	}
}

// doom has a held slot removed with its directory when its last holder goes.
func (n *Node) doom(s *slot) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !s.doomed {
		s.doomed, s.moved = true, status.SubRangeGone
	}
}

// shut closes a slot that nobody else holds, and leaves its directory.
func (n *Node) shut(s *slot) {
	n.mu.Lock()
	s.holders--
	closing := s.holders == 0 && n.claim(s)
	n.mu.Unlock()
	if closing {
		n.finish(s)
	}
}

// trouble makes the world's trouble a status.
func (x *splitting) trouble(err error) error {
	if err == nil || known(err) {
		return err
	}
	return status.Unavailable(err, "Partition %s cannot be split now%s. It serves as before.", x.ref.Partition, storage.Because(err))
}

// known reports whether an error is one that a caller may see as it is.
func known(err error) bool {
	return status.From(err) != nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// dropPlans gives up the splits and merges that a restart interrupted: their
// children were unnamed and are gone. On a full disk that is done later.
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
		n.cfg.Logger.Warn("interrupted splits and merges not given up yet", "err", err)
		return nil
	}
	return err
}

// dropLeftPlans drops the plans that are left of before the start.
func (n *Node) dropLeftPlans() error {
	for len(n.plans) > 0 {
		_, err := n.cfg.Catalog.Commit(context.Background(), n.plans[0])
		if err != nil && status.CodeOf(err) != status.CodeNotFound {
			return fmt.Errorf("give up an interrupted split or merge, %+v: %w", n.plans[0], err)
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

// metrics are what a node counts of splits and merges.
type metrics struct {
	splits, splitFailures prometheus.Counter
	splitPause            prometheus.Histogram
	merges, mergeFailures prometheus.Counter
	mergePause            prometheus.Histogram
}

// newMetrics makes the metrics and shows them at r, unless it is nil.
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
