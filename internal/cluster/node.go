// Package cluster is this node's part of the database: it opens and closes the
// partitions that the catalog names, creates and removes their directories, and passes
// calls on to them.
//
// The engine asks [Node.Replica] for the partition that a key belongs to and
// releases it when the call has ended. [Node.CreatePartitions] runs before the catalog
// commits a new container, [Node.DropContainer] after it commits that one is deleted.
// [Node.Split] replaces a partition with two while it serves, [Node.Merge] two with one.
// [Check] verifies a data directory that no server uses.
//
// # Invariants
//
// A partition directory counts only if the catalog names it. It is created and
// synced before the commit that names it, and removed after the commit that no
// longer does; a removal that fails is retried until it succeeds.
//
// A directory is deleted only if the catalog has it on record as a leftover. The commit
// that leaves a directory writes that record. Any other directory that the catalog does
// not name is moved to the quarantine. A missing directory that it names stops the start.
//
// A split or merge takes effect with one commit. Before it the children are garbage,
// after it the parents are.
//
// The marks, which are at most a second old and not part of the stores, record what was
// acknowledged. A store or a catalog with less than that is not served.
//
// A partition is open at most once, and is closed only while it has no holder. An open
// partition that is not used costs memory and descriptors, but no goroutine of this
// package and no timer.
//
// The package does no routing: the caller names the partition.
//
// Page: docs/cluster.md
package cluster

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/pacing"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
)

// Config configures a node. Pool, Dir and Catalog are required.
type Config struct {
	Pool    *storage.Pool
	Dir     string // the data directory; partitions are in its directory p
	Catalog *catalog.Catalog
	Limits  resource.Limits
	Now     func() time.Time // nil: time.Now; ignored if Clock is set
	Clock   *Clock           // nil: a Clock with defaults that reads Now
	Logger  *slog.Logger     // nil: discard

	// Throttling says how the budgets of request units are enforced.
	Throttling Throttling

	Registerer prometheus.Registerer // nil: the metrics are not registered

	// Grown is called with a container that has a partition above its storage
	// limit, or whose documents may have outgrown its autoscale maximum. It must not
	// block. Nil disables the call.
	Grown func(container resource.RID)

	// SplitDelay delays each split and merge after its plan is committed, to imitate the
	// hours that the service takes.
	SplitDelay time.Duration

	// Maintenance is the time between two runs of the maintenance tasks: CheckClock, Mend,
	// Expire, Clear, CheckGrowth and RemoveLeftovers. Zero means one second. With a
	// negative time the node runs none, and its owner calls these methods.
	Maintenance time.Duration

	// ScrubRate is how many bytes of stored tables the node reads each second to compare
	// their checksums, see [Node.Scrub]. With zero or less the node does not scrub.
	ScrubRate int64

	// ConditionTime bounds the conditions of patches, see [partition.Config].
	ConditionTime time.Duration

	// MendCatalog reopens the catalog's store if it has failed and the disk has room
	// again. The maintenance calls it. Nil disables the call.
	MendCatalog func() error

	// MaxOpen bounds the open partitions. Zero means Limits.OpenStores, or fewer if the
	// descriptor limit of the process allows fewer.
	MaxOpen int

	// Descriptors is how many file descriptors the open partitions may use, not counting
	// those of their tables. Zero means the limit of the process less 512 for everything
	// else.
	Descriptors int
}

// Node manages the partitions of one process. It is safe for concurrent use.
type Node struct {
	cfg   Config
	group *replication.Solo

	mu     sync.Mutex
	slots  map[replication.PartitionRef]*slot
	idle   list.List // of *slot in state idle, least recently used first
	closed bool

	rosters   *partition.Rosters // of all partitions
	shared    sharedBudgets
	throttled throttled
	warned    warnings
	growth    growth
	purging   refSet     // partitions with documents for Clear to delete
	left      refSet     // partitions whose directory could not be removed yet
	gone      refSet     // partitions whose directory is removed, but not the catalog's record of it
	removing  sync.Mutex // held by RemoveLeftovers

	changes map[replication.PartitionRef]*change // splits and merges in progress, by their parents
	doubts  []doubt                              // splits and merges that ended with an unknown outcome
	refused map[replication.PartitionRef]string  // partitions that could not be opened, and why
	ahead   map[replication.PartitionRef]int64   // the latest _ts of partitions where it is ahead of the clock
	plans   []catalog.Change                     // drop the plans that a restart interrupted; used by Start, then by Mend

	background sync.WaitGroup       // Reindex, Split, Merge, release and the maintenance
	stop       context.CancelFunc   // ends the maintenance and the scrubs
	reindexing map[resource.RID]int // calls of Reindex in progress, by container

	metrics *metrics
	marks   marking
	scrub   scrubbing

	verifying atomic.Bool // set during the start: stores are opened provisionally
}

// rostersBytes is the memory of all partitions together for the rosters of keys that
// queries use. It is enough for about a million documents with their ids.
const rostersBytes = 32 << 20

// refSet is a set of partitions. It is safe for concurrent use. The zero value is empty.
type refSet struct {
	mu sync.Mutex

	refs map[replication.PartitionRef]struct{}
}

// set adds or removes a partition and reports whether the set had it before.
func (r *refSet) set(ref replication.PartitionRef, in bool) (was bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, was = r.refs[ref]; was == in {
		return was
	}
	if !in {
		delete(r.refs, ref)
		return was
	}
	if r.refs == nil {
		r.refs = map[replication.PartitionRef]struct{}{}
	}
	r.refs[ref] = struct{}{}
	return was
}

// all returns the partitions in order.
func (r *refSet) all() []replication.PartitionRef {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.SortedFunc(maps.Keys(r.refs), compareRefs)
}

// Start compares the data directory with the catalog (see [Node.begin]), drops the
// splits and merges that a restart interrupted, and returns a node that opens each
// partition at its first use. If acknowledged data is missing, Start returns an error and
// leaves the directory unchanged.
func Start(cfg Config) (*Node, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Clock == nil {
		cfg.Clock = NewClock(ClockConfig{Now: cfg.Now, Logger: cfg.Logger, Registerer: cfg.Registerer})
	}
	cfg.Now = cfg.Clock.Monotonic
	if cfg.Maintenance == 0 {
		cfg.Maintenance = maintenanceEvery
	}
	if cfg.MaxOpen <= 0 {
		cfg.MaxOpen = maxOpen(cfg.Limits.OpenStores, cfg.Descriptors, partitions(cfg.Catalog.View()), cfg.Logger)
	}
	n := &Node{
		cfg:        cfg,
		slots:      map[replication.PartitionRef]*slot{},
		changes:    map[replication.PartitionRef]*change{},
		reindexing: map[resource.RID]int{},
		metrics:    newMetrics(cfg.Registerer),
	}
	n.rosters = partition.NewRosters(rostersBytes)
	n.group = replication.NewSolo(n)
	n.throttled = newThrottled()
	n.scrub.pacer = pacer{rate: cfg.ScrubRate, now: time.Now, sleep: pacing.Sleep}
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(n.throttled.requests, loads{n}, spaces{n}, &n.scrub, aheadMetrics{n})
	}
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	if err := n.begin(ctx); err != nil {
		return nil, fmt.Errorf("start node: %w", errors.Join(err, n.Close()))
	}
	cfg.Pool.EvictIdle(n.giveUp)
	if cfg.Maintenance > 0 {
		n.background.Go(func() { n.maintain(ctx) })
	}
	if cfg.ScrubRate > 0 {
		n.background.Go(func() { n.scrubLoop(ctx) })
	}
	return n, nil
}

// Close cancels splits and merges, waits for the effects in progress and closes every
// partition. The caller has released every replica. Later calls of Replica return 503.
func (n *Node) Close() error {
	n.mu.Lock()
	n.closed = true
	for _, x := range n.changes {
		x.cancel(errShutdown())
	}
	n.mu.Unlock()
	n.stop()
	n.background.Wait()
	n.cfg.Pool.EvictIdle(nil)
	n.mu.Lock()
	slots := make([]*slot, 0, len(n.slots))
	for _, s := range n.slots {
		slots = append(slots, s)
	}
	n.mu.Unlock()
	// Each partition flushes its store and waits for syncs, which a disk can combine.
	var closers errgroup.Group
	closers.SetLimit(buildersMax)
	var closed atomic.Int64
	tick := time.NewTicker(closingEvery)
	endLog := n.logClosing(tick.C, &closed, len(slots))
	for _, s := range slots {
		closers.Go(func() error {
			n.shutDown(s)
			closed.Add(1)
			return nil
		})
	}
	_ = closers.Wait() // Errors are logged where they occur.
	tick.Stop()
	endLog()
	n.RemoveLeftovers() // The maintenance may not have run yet.
	n.cfg.Catalog.Mark(nil)
	n.marks.close(n.cfg.Clock.cfg.Jump)
	return n.group.Close()
}

// closingEvery is the time between two log lines about the progress of Close.
const closingEvery = time.Second

// logClosing logs at each tick how many partitions are closed, until the returned
// function is called. After at least one tick it logs the end as well.
func (n *Node) logClosing(tick <-chan time.Time, closed *atomic.Int64, total int) (end func()) {
	over := make(chan struct{})
	var logger sync.WaitGroup
	logger.Go(func() {
		began := n.cfg.Now()
		for lines := 0; ; lines++ {
			select {
			case <-tick:
				n.cfg.Logger.Info("closing partitions", "closed", closed.Load(), "of", total)
			case <-over:
				if lines > 0 {
					n.cfg.Logger.Info("partitions closed", "closed", closed.Load(), "took", n.cfg.Now().Sub(began).Round(time.Millisecond))
				}
				return
			}
		}
	})
	return func() {
		close(over)
		logger.Wait()
	}
}

// Replica returns a partition of a container, which it opens if necessary, and a function
// that releases it. The caller calls that function exactly once, when it no longer uses
// the replica or an iterator of its results. The error is 410 if the catalog no longer
// names the partition, and 503 if it cannot be opened.
func (n *Node) Replica(ctx context.Context, container *catalog.Container, id resource.PartitionID) (Replica, func(), error) {
	s, err := n.acquire(ctx, replication.PartitionRef{Container: container.RID, Partition: id})
	if err != nil {
		return nil, nil, err
	}
	return s, s.release, nil
}

// acquire returns an open slot and makes the caller a holder. It opens the partition if
// necessary, and waits while another call opens or closes it.
func (n *Node) acquire(ctx context.Context, ref replication.PartitionRef) (*slot, error) {
	for {
		s, found, err := n.join(ref)
		switch {
		case err != nil:
			return nil, err
		case found == slotAdded:
			return n.openSlot(s)
		case found == slotLeaves:
			if err := wait(ctx, s.gone); err != nil {
				return nil, err
			}
			continue
		}
		if err := wait(ctx, s.ready); err != nil {
			n.release(s)
			return nil, err
		}
		if s.err != nil {
			n.release(s)
			return nil, s.err
		}
		return s, nil
	}
}

// joined is the result of a call of join.
type joined uint8

const (
	slotTaken  joined = iota // the caller is a holder, and waits until the slot is ready
	slotAdded                // the caller is the only holder, and opens the slot
	slotLeaves               // the caller is no holder, and tries again when the slot is gone
)

// join makes the caller a holder of a partition's slot, if the slot is not about to be
// closed. The error is 410 for a dropping slot, and 503 when the node is closed.
func (n *Node) join(ref replication.PartitionRef) (*slot, joined, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, 0, errShutdown()
	}
	s, found := n.slots[ref]
	switch {
	case !found:
		return n.addLocked(ref), slotAdded, nil
	case s.dropping:
		return nil, 0, status.PartitionMoved(s.moved)
	case s.state == slotRetiring || s.state == slotClosing:
		return s, slotLeaves, nil
	}
	n.takeLocked(s)
	return s, slotTaken, nil
}

func errShutdown() error { return status.Unavailable(nil, "The server is shutting down.") }

func wait(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	default:
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// openersMax bounds the partitions that are opened at the same time for one call. This
// many keep disk and processors busy; more only compete for them.
const openersMax = 8

// Warm opens the closed partitions of a container, several at a time, for a caller that
// is about to use all of them. It ignores errors: a partition that cannot be opened
// returns its error when it is used.
func (n *Node) Warm(ctx context.Context, c *catalog.Container) {
	var openers errgroup.Group
	openers.SetLimit(openersMax)
	for i := range c.Ranges.Len() {
		ref := replication.PartitionRef{Container: c.RID, Partition: c.Ranges.At(i).Value.ID}
		if n.isOpen(ref) {
			continue
		}
		openers.Go(func() error {
			if s, err := n.acquire(ctx, ref); err == nil {
				s.release()
			}
			return nil
		})
	}
	_ = openers.Wait() // No opener returns an error.
}

// isOpen reports whether a partition is open or being opened.
func (n *Node) isOpen(ref replication.PartitionRef) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	s, found := n.slots[ref]
	return found && s.state != slotRetiring && s.state != slotClosing
}

// IsOpen reports whether a partition of a container is open or being opened.
func (n *Node) IsOpen(c *catalog.Container, id resource.PartitionID) bool {
	return n.isOpen(replication.PartitionRef{Container: c.RID, Partition: id})
}
