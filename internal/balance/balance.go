// Package balance carries out what package placement decides. It splits physical
// partitions when they exceed their storage limit or a container's throughput
// needs more of them, merges partitions on request, and raises an autoscale
// maximum that is too low for the stored documents.
//
// Begin with [Balancer.Wake]: a caller reports that something may have to be
// done for a container, and the balancer checks, decides, acts and checks again
// until nothing is left to do.
//
// # Invariants
//
// Each container has at most one goroutine, which ends when there is nothing to
// do: an idle server has none. A split that fails is retried with increasing
// delays; the container continues to serve. The package stores nothing that a
// restart needs: [Balancer.Start] finds what is left to do.
//
// The package decides nothing, and does not split or merge itself: see placement
// and cluster.
//
// Page: docs/placement.md
package balance

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"runtime"
	"sync"
	"time"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/pacing"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/placement"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/partitionkey"
	"golang.org/x/sync/errgroup"
)

// Config configures a balancer. Catalog and Node are required.
type Config struct {
	Catalog *catalog.Catalog
	Node    *cluster.Node
	Limits  resource.Limits
	Logger  *slog.Logger // nil discards the log

	// Parallel is the number of concurrent splits and merges. Zero means half
	// the number of processors, because the partitions continue to serve.
	Parallel int

	// Retry is the delay before the second attempt; each further delay doubles,
	// up to retryMax. Zero means one second.
	Retry time.Duration
}

// retryMax is the longest delay between two attempts.
const retryMax = time.Minute

// Balancer splits and merges the partitions of a node's containers. It is safe
// for concurrent use.
type Balancer struct {
	cfg Config

	ctx  context.Context
	stop context.CancelFunc

	// slots bounds the concurrent splits and merges of all containers.
	slots chan struct{}

	mu      sync.Mutex
	workers map[resource.RID]*worker
	running sync.WaitGroup
	whole   map[ref]whole
}

// ref identifies a partition.
type ref struct {
	container resource.RID
	id        resource.PartitionID
}

// whole describes a partition that one key fills.
type whole struct {
	bytes int64 // its size when this was found
	stuck bool  // not even its range can be divided
}

// worker is the goroutine of one container.
type worker struct {
	again bool // Wake was called since it last checked
}

// New returns a balancer that does nothing until Start or Wake is called.
func New(cfg Config) *Balancer {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Retry <= 0 {
		cfg.Retry = time.Second
	}
	if cfg.Parallel <= 0 {
		cfg.Parallel = max(1, runtime.GOMAXPROCS(0)/2)
	}
	b := &Balancer{
		cfg:     cfg,
		slots:   make(chan struct{}, cfg.Parallel),
		workers: map[resource.RID]*worker{},
		whole:   map[ref]whole{},
	}
	b.ctx, b.stop = context.WithCancel(context.Background())
	return b
}

// Start wakes the containers whose throughput needs more partitions than they
// have, because a restart may have interrupted a split. Partitions that are too
// full are found when they are opened.
func (b *Balancer) Start() {
	view := b.cfg.Catalog.View()
	for _, c := range view.AllContainers() {
		t, _ := view.ThroughputOf(c)
		if throughput.Pending(t, c.RID, c.Partitions(), b.limitsOf(c).Throughput) {
			b.Wake(c.RID)
		}
	}
}

// Close stops all work and waits until it has ended. Splits in progress are
// undone.
func (b *Balancer) Close() {
	b.mu.Lock()
	b.stop()
	b.mu.Unlock()
	b.running.Wait()
}

// Wake reports that something may have to be done for a container. It returns
// immediately.
func (b *Balancer) Wake(container resource.RID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx.Err() != nil {
		return
	}
	if w, found := b.workers[container]; found {
		w.again = true
		return
	}
	w := new(worker)
	b.workers[container] = w
	b.running.Go(func() { b.look(container, w) })
}

// look is the goroutine of a container.
func (b *Balancer) look(container resource.RID, w *worker) {
	pause := b.cfg.Retry
	for {
		err := b.reconcile(b.ctx, container)
		b.mu.Lock()
		if b.ctx.Err() != nil || err == nil && !w.again {
			delete(b.workers, container)
			b.mu.Unlock()
			return
		}
		w.again = false
		b.mu.Unlock()
		if err == nil {
			pause = b.cfg.Retry
			continue
		}
		b.cfg.Logger.Warn("partitions not split, will retry", "container", container, "in", pause, "err", err)
		if pacing.Sleep(b.ctx, pause) != nil {
			continue // the context has ended, which the loop checks
		}
		pause = min(2*pause, retryMax)
	}
}

// reconcile acts until nothing is left to do for the container.
func (b *Balancer) reconcile(ctx context.Context, rid resource.RID) error {
	for {
		view := b.cfg.Catalog.View()
		c, found := view.ContainerByRID(rid)
		if !found {
			b.forget(rid)
			return nil
		}
		raised, err := b.raise(ctx, view, c)
		if err != nil {
			return err
		}
		if raised {
			continue
		}
		state, err := b.state(ctx, view, c)
		if err != nil {
			return err
		}
		splits := placement.Splits(state, b.limitsOf(c))
		if len(splits) == 0 {
			return nil
		}
		if err := b.splitAll(ctx, c, state, splits); err != nil {
			return err
		}
	}
}

// splitAll splits several partitions concurrently. It records a partition that
// cannot be divided, and ignores one that has been split already.
func (b *Balancer) splitAll(ctx context.Context, c *catalog.Container, state placement.Container, splits []placement.Split) error {
	var failures []error
	var mu sync.Mutex
	var group errgroup.Group
	for _, s := range splits {
		group.Go(func() error {
			err := b.split(ctx, c, s, "")
			if errors.Is(err, partition.ErrIndivisible) {
				known := whole{bytes: bytesOf(state, s.ID)}
				if s.Reason != placement.Storage {
					// One key fills it, but throughput is divided by range.
					err = b.split(ctx, c, s, middle(c, s.ID))
					known.stuck = status.CodeOf(err) == status.CodeBadRequest
				}
				b.remember(ref{c.RID, s.ID}, known)
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case status.CodeOf(err) == status.CodeBadRequest: // recorded in b.whole
			case err != nil && status.CodeOf(err) != status.CodeGone:
				failures = append(failures, err)
			}
			return nil
		})
	}
	_ = group.Wait() // failures has all of them
	return errors.Join(failures...)
}

func (b *Balancer) split(ctx context.Context, c *catalog.Container, s placement.Split, at partitionkey.EPK) error {
	leave, err := b.enter(ctx, c)
	if err != nil {
		return err
	}
	defer leave()
	b.cfg.Logger.Info("splitting a partition", "container", c.RID, "partition", s.ID, "reason", s.Reason)
	_, err = b.cfg.Node.Split(ctx, c.RID, s.ID, at)
	return err
}

// enter waits for a slot to split or merge partitions of a container; leave
// releases it. A container whose limits delay its splits needs no slot, because
// it does no work during the delay, which may be hours.
func (b *Balancer) enter(ctx context.Context, c *catalog.Container) (leave func(), err error) {
	if held := c.Limits.SplitDelay; held != nil && *held > 0 {
		return func() {}, nil
	}
	select {
	case b.slots <- struct{}{}:
		return func() { <-b.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-b.ctx.Done():
		return nil, status.Unavailable(nil, "The server is shutting down.")
	}
}

// middle returns the point halfway through a partition's range.
func middle(c *catalog.Container, id resource.PartitionID) partitionkey.EPK {
	p, _ := c.Partition(id)
	return c.PartitionKey.Middle(p.Range)
}

// state collects the input of the decision. Closed partitions are opened only if
// the container needs more partitions for its throughput, because a closed
// partition does not grow.
func (b *Balancer) state(ctx context.Context, view *catalog.View, c *catalog.Container) (placement.Container, error) {
	t, _ := view.ThroughputOf(c)
	return b.stateOf(ctx, view, c, placement.Needed(t.Total(), b.limitsOf(c)) > c.Ranges.Len())
}

// stateOf is state with all partitions opened, or only with those that are open.
func (b *Balancer) stateOf(ctx context.Context, view *catalog.View, c *catalog.Container, all bool) (placement.Container, error) {
	t, _ := view.ThroughputOf(c)
	parts := c.Partitions()
	state := placement.Container{Throughput: t.Total(), Partitions: make([]placement.Partition, len(parts))}
	given := throughput.Shares(t, c.RID, parts, math.MaxInt)
	for i, p := range parts {
		bytes, err := b.cfg.Node.Size(ctx, c, p.ID, all)
		if err != nil {
			return state, err
		}
		known, isWhole := b.known(ref{c.RID, p.ID}, bytes, b.limitsOf(c).Bytes)
		state.Partitions[i] = placement.Partition{ID: p.ID, Bytes: bytes, Whole: isWhole, Indivisible: known.stuck}
		if throughput.Divided(t, c.RID) {
			state.Partitions[i].Throughput = int(given[i])
		}
	}
	return state, nil
}

// limitsOf returns the limits of one partition of a container.
func (b *Balancer) limitsOf(c *catalog.Container) placement.Limits {
	l := b.cfg.Limits.Of(c.Limits)
	return placement.Limits{Bytes: l.PhysicalPartitionBytes, Throughput: l.PartitionRUs}
}

func bytesOf(state placement.Container, id resource.PartitionID) int64 {
	for _, p := range state.Partitions {
		if p.ID == id {
			return p.Bytes
		}
	}
	return 0
}

// remember records that one key fills a partition.
func (b *Balancer) remember(r ref, w whole) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.whole[r] = w
	b.cfg.Logger.Warn("one partition key owns everything in a partition, which is never divided",
		"container", r.container, "partition", r.id, "bytes", w.bytes)
}

// changeSteps is the fraction of the storage limit, as a divisor, by which a
// partition that one key fills must change before it is checked again.
const changeSteps = 16

// known returns what is recorded about a partition that one key fills. If its
// size has changed enough, it must be checked again.
func (b *Balancer) known(r ref, bytes, most int64) (w whole, isWhole bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w, isWhole = b.whole[r]
	if changed := most / changeSteps; isWhole && (bytes > w.bytes+changed || bytes < w.bytes-changed) {
		delete(b.whole, r)
		return whole{}, false
	}
	return w, isWhole
}

// forget drops the records about a container that no longer exists.
func (b *Balancer) forget(container resource.RID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for r := range b.whole {
		if r.container == container {
			delete(b.whole, r)
		}
	}
}
