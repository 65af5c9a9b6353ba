// Package cluster is this node's share of the database: it opens and closes
// partitions as the catalog says, builds and removes their directories, and
// carries calls to them.
//
// The engine asks [Node.Replica] for the partition that a key belongs to and
// gives it back when the call is done. [Node.CreatePartitions] and
// [Node.DropContainer] bracket the catalog's commits. [Node.Split] replaces a
// partition by two while it serves, [Node.Merge] two by one. [Check] verifies a
// data directory that no server uses.
//
// # Invariants
//
// A partition directory counts only if the catalog names it: it is built and
// synced before the commit that names it, and removed after the commit that no
// longer does. What cannot be removed then is tried again until it is. A directory is
// deleted only if the catalog has it on record as a leftover, which each commit writes
// that leaves one; any other that it does not name is moved to the quarantine. A
// directory that is named and missing stops the start. A split or merge has one
// commit, before which its children are garbage and after which their parents are.
// What was acknowledged is marked apart from the stores, at most a second later; a
// store or a catalog that has less is not served from.
// A partition is open at most once, and closed only while nobody holds it.
// An open partition that nobody uses costs memory and descriptors, but no
// goroutine of this package and no timer.
//
// The package routes nothing: whoever asks names the partition.
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
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
)

// Config says what a node works on. Pool, Dir and Catalog are required.
type Config struct {
	Pool    *storage.Pool
	Dir     string // the data directory; partitions live below its p
	Catalog *catalog.Catalog
	Limits  resource.Limits
	Now     func() time.Time // nil: time.Now; not used with a Clock
	Clock   *Clock           // nil: one with the defaults that reads Now
	Logger  *slog.Logger     // nil: discard

	// Throttling says how budgets of request units are kept to.
	Throttling Throttling

	Registerer prometheus.Registerer // nil: metrics are shown nowhere

	// Grown is called with a container that has a partition above its storage
	// limit, or whose documents may have outgrown its autoscale maximum. It must not
	// block. Nil means that nobody wants to know.
	Grown func(container resource.RID)

	// SplitDelay holds each split and merge between its plan and its beginning, to
	// imitate the hours that the service takes.
	SplitDelay time.Duration

	// Chores is the time between two calls that the node makes by itself of Expire,
	// Clear, Weigh and RemoveLeft. Zero means one second, a negative time that it
	// makes none: these are its owner's to call.
	Chores time.Duration

	// ScrubRate is how many bytes of stored tables are read each second to compare
	// their checksums, see [Node.Scrub]. Zero or less: the node does not do so by itself.
	ScrubRate int64

	// ConditionTime bounds the conditions of patches, see [partition.Config].
	ConditionTime time.Duration

	// MendCatalog opens the catalog's store again if it has failed and there is room.
	// It is called about once in a second. Nil: there is nothing to mend.
	MendCatalog func() error

	// MaxOpen bounds the open partitions. Zero means Limits.OpenStores, lowered
	// to what the descriptor limit of the process allows.
	MaxOpen int

	// Descriptors is how many file descriptors the open partitions may take besides
	// those of their tables. Zero means what the limit of the process leaves when 512
	// are kept for everything else.
	Descriptors int
}

// Node holds the open partitions of one process. It is safe for concurrent use.
type Node struct {
	cfg   Config
	group *replication.Solo

	mu     sync.Mutex
	slots  map[replication.PartitionRef]*slot
	idle   list.List // of *slot that nobody holds, least recently used first
	closed bool

	rosters   *partition.Rosters // of all partitions
	shared    sharedBudgets
	throttled throttled
	growth    growth
	purging   refSet     // have documents that wait for Clear
	left      refSet     // have a directory that could not be removed
	gone      refSet     // had one, which the catalog may still have on its record
	removing  sync.Mutex // held by RemoveLeft

	changes map[replication.PartitionRef]*change // splits and merges under way, by their parents
	doubts  []doubt                              // splits and merges that ended without a known outcome
	refused map[replication.PartitionRef]string  // partitions that could not be opened, and why
	ahead   map[replication.PartitionRef]int64   // the latest _ts of those where it is ahead of the clock
	plans   []catalog.Change                     // to drop, of before the start; of Start and then of Mend

	background sync.WaitGroup       // of Reindex, Split, Merge, giveBack and the chores
	stop       context.CancelFunc   // ends the chores
	reindexing map[resource.RID]int // containers whose partitions are being told

	metrics *metrics
	marks   marking
	scrub   scrubbing

	beginning atomic.Bool // what is opened stays as it is until everything is verified
}

// rostersBytes is the memory for the numbers of the documents of keys that queries ask
// for, in all partitions together: about a million documents with their ids.
const rostersBytes = 32 << 20

// slot is a partition that is open, being opened, or being closed.
type slot struct {
	ref       replication.PartitionRef
	partition *partition.Partition
	store     *storage.Store
	release   func() // gives the slot back; made once, because every call needs it

	// ready is closed when the slot is open or err is set.
	ready chan struct{}
	err   error

	reads, writes, queries atomic.Int64
	weighed                weighed
	budget                 budget

	synced atomic.Uint64 // the LSN up to which everything is on the disk
	noted  atomic.Bool   // its mark is due

	// Guarded by Node.mu.
	holders int
	doomed  bool          // removed when the last holder goes
	moved   status.Sub    // what is said of a doomed one
	gone    chan struct{} // non-nil while closing; closed when the slot is out of the map
	place   *list.Element // in Node.idle
	leaving bool          // whoever gives it back last closes it; gone is there already
	kept    bool          // held by nobody in particular until a doubt is settled

	opened time.Time // when its partition was
}

// refSet is a set of partitions. The zero value is empty.
type refSet struct {
	mu sync.Mutex

	refs map[replication.PartitionRef]struct{}
}

// set adds or removes a partition and reports whether it was in there before.
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

// all returns them in order.
func (r *refSet) all() []replication.PartitionRef {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.SortedFunc(maps.Keys(r.refs), compareRefs)
}

// Start compares the data directory with the catalog, see [Node.begin], gives up the
// splits and merges that a restart interrupted, and returns a node that opens each
// partition when it is first asked for. It refuses a directory in which something
// acknowledged is missing, and has changed nothing then.
func Start(cfg Config) (*Node, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Clock == nil {
		cfg.Clock = NewClock(ClockConfig{Now: cfg.Now, Logger: cfg.Logger, Registerer: cfg.Registerer})
	}
	cfg.Now = cfg.Clock.Even
	if cfg.Chores == 0 {
		cfg.Chores = choresEvery
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
	n.scrub.pacer = pacer{rate: cfg.ScrubRate, now: time.Now, sleep: sleep}
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(n.throttled.requests, loads{n}, spaces{n}, &n.scrub, behindMetrics{n})
	}
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	if err := n.begin(ctx); err != nil {
		return nil, fmt.Errorf("start node: %w", errors.Join(err, n.Close()))
	}
	cfg.Pool.EvictIdle(n.giveUp)
	if cfg.Chores > 0 {
		n.background.Go(func() { n.chores(ctx) })
	}
	if cfg.ScrubRate > 0 {
		n.background.Go(func() { n.scrubs(ctx) })
	}
	return n, nil
}

// Close cancels splits and merges, waits for the effects under way and closes every
// partition. Nobody may hold a replica any more. Later calls of Replica answer
// 503.
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
	// Each flushes its store and waits for syncs, which the disk takes together.
	var closers errgroup.Group
	closers.SetLimit(buildersMax)
	var closed atomic.Int64
	tick := time.NewTicker(closingEvery)
	told := n.tellClosing(tick.C, &closed, len(slots))
	for _, s := range slots {
		closers.Go(func() error {
			n.end(s)
			closed.Add(1)
			return nil
		})
	}
	_ = closers.Wait() // what a closer could not close it has logged
	tick.Stop()
	told()
	n.RemoveLeft() // A node that is closed soon after its start has not come to it.
	n.cfg.Catalog.Mark(nil)
	n.marks.close(n.cfg.Clock.cfg.Jump)
	return n.group.Close()
}

// closingEvery is the time between two lines in the log about how far closing is.
const closingEvery = time.Second

// tellClosing logs at each tick how many partitions are closed, until the function that
// it returns is called; that one logs the end, if there was a tick.
func (n *Node) tellClosing(tick <-chan time.Time, closed *atomic.Int64, total int) (end func()) {
	over := make(chan struct{})
	var teller sync.WaitGroup
	teller.Go(func() {
		began := n.cfg.Now()
		for lines := 0; ; lines++ {
			select {
			case <-tick:
				n.cfg.Logger.Info("partitions are being closed", "closed", closed.Load(), "of", total)
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
		teller.Wait()
	}
}

// end closes a slot, or waits for whoever does.
func (n *Node) end(s *slot) {
	<-s.ready
	n.mu.Lock()
	closing := n.claim(s)
	n.mu.Unlock()
	if closing {
		n.finish(s)
	} else {
		<-s.gone
	}
}

// Replica returns the partition id of a container, opening it if need be, and
// a function that gives it back: call it exactly once, when the call and all
// use of its results' iterators is over. The error is 410 when the catalog does
// not name the partition any more, and 503 when it cannot be opened.
func (n *Node) Replica(ctx context.Context, container *catalog.Container, id resource.PartitionID) (Replica, func(), error) {
	s, err := n.acquire(ctx, replication.PartitionRef{Container: container.RID, Partition: id})
	if err != nil {
		return nil, nil, err
	}
	return s, s.release, nil
}

// acquire returns an open slot that the caller holds.
func (n *Node) acquire(ctx context.Context, ref replication.PartitionRef) (*slot, error) {
	for {
		n.mu.Lock()
		if n.closed {
			n.mu.Unlock()
			return nil, errShutdown()
		}
		s, found := n.slots[ref]
		if !found {
			s = n.hold(ref)
			n.mu.Unlock()
			return n.open(s)
		}
		if s.doomed {
			n.mu.Unlock()
			return nil, status.PartitionMoved(s.moved)
		}
		if s.gone != nil {
			gone := s.gone
			n.mu.Unlock()
			if err := wait(ctx, gone); err != nil {
				return nil, err
			}
			continue
		}
		n.take(s)
		n.mu.Unlock()
		if err := wait(ctx, s.ready); err != nil {
			n.giveBack(s)
			return nil, err
		}
		if s.err != nil {
			n.giveBack(s)
			return nil, s.err
		}
		return s, nil
	}
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

// hold puts a new slot into the map, held once. The caller has mu, and opens it
// without.
func (n *Node) hold(ref replication.PartitionRef) *slot {
	s := &slot{ref: ref, ready: make(chan struct{}), holders: 1}
	s.release = func() { n.giveBack(s) }
	s.budget.node, s.budget.slot = n, s
	n.slots[ref] = s
	return s
}

// take adds a holder. The caller has mu.
func (n *Node) take(s *slot) {
	s.holders++
	if s.place != nil {
		n.idle.Remove(s.place)
		s.place = nil
	}
}

// open opens the partition of a fresh slot, and makes room for it.
func (n *Node) open(s *slot) (*slot, error) {
	n.makeRoom()
	s.opened = n.cfg.Now()
	s.partition, s.store, s.err = n.openPartition(s.ref)
	n.noteOpened(s.ref, s.err)
	close(s.ready)
	if s.err != nil {
		n.giveBack(s)
		return nil, s.err
	}
	n.noteLatest(s)
	s.weighed.begin(s.partition)
	s.synced.Store(uint64(s.partition.LSN()))
	n.notePurging(s)
	// Effects reach it from here on, so it may go on with a change of policy.
	s.partition.Reindex()
	return s, nil
}

// giveBack removes a holder. The last one leaves the slot idle, or has carried out in
// the background what was waiting for it, which can take long: closing a partition,
// and deleting its files.
func (n *Node) giveBack(s *slot) {
	n.mu.Lock()
	closing := n.letGo(s)
	if closing && !n.closed {
		n.background.Go(func() { n.finish(s) })
		closing = false
	}
	n.mu.Unlock()
	if closing {
		n.finish(s)
	}
}

// leave is giveBack for a split or merge, which carries out itself what was waiting.
func (n *Node) leave(s *slot) {
	n.mu.Lock()
	closing := n.letGo(s)
	n.mu.Unlock()
	if closing {
		n.finish(s)
	}
}

// letGo removes a holder and reports whether the caller has to finish the slot. The
// caller has mu.
func (n *Node) letGo(s *slot) (closing bool) {
	s.holders--
	if s.holders > 0 {
		return false
	}
	if s.err == nil && !s.doomed && !s.leaving {
		s.place = n.idle.PushBack(s)
		return false
	}
	return n.claim(s)
}

// claim makes the caller the one that closes the slot. The caller has mu.
func (n *Node) claim(s *slot) bool {
	if s.leaving {
		s.leaving = false
		return true
	}
	if s.gone != nil {
		return false
	}
	s.gone = make(chan struct{})
	if s.place != nil {
		n.idle.Remove(s.place)
		s.place = nil
	}
	return true
}

// finish closes a claimed slot, takes it out of the map, and removes the
// directory of a doomed one. The slot stays reachable for Apply until its
// effects are done.
func (n *Node) finish(s *slot) {
	if s.err == nil {
		n.growth.add(s)
		n.closePartition(s)
	}
	n.mu.Lock()
	delete(n.slots, s.ref)
	doomed := s.doomed
	n.mu.Unlock()
	if doomed {
		n.removeDir(s.ref)
	}
	close(s.gone)
}

// closePartition closes the partition of a claimed slot, and marks it as closed.
func (n *Node) closePartition(s *slot) {
	n.mu.Lock()
	doomed := s.doomed
	n.mu.Unlock()
	closeStore := s.store.Close
	if doomed {
		closeStore = s.store.Abandon
	}
	if err := errors.Join(s.partition.Close(), closeStore()); err != nil {
		n.cfg.Logger.Warn("partition not closed cleanly", "container", s.ref.Container, "partition", s.ref.Partition, "err", err)
		return
	}
	if !doomed {
		n.marks.noteClosed(s.ref, mark{value: s.synced.Load(), position: s.store.Position()})
	}
}

// giveUp closes the partition of an idle store that nobody holds, and reports
// whether there is none any more.
func (n *Node) giveUp(store *storage.Store) bool {
	n.mu.Lock()
	for place := n.idle.Front(); place != nil; place = place.Next() {
		if s := place.Value.(*slot); s.store == store {
			n.claim(s)
			n.mu.Unlock()
			n.finish(s)
			return true
		}
	}
	n.mu.Unlock()
	return false
}

// Open all of them at once, and the disk or the processors only make each other
// wait: this many keep both busy.
const openersMax = 8

// Warm opens those of a container's partitions that are closed, several at a
// time, for a caller who is about to ask all of them. What cannot be opened says
// so when it is asked.
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
	_ = openers.Wait() // none has an error
}

// isOpen reports whether a partition is open, or about to be.
func (n *Node) isOpen(ref replication.PartitionRef) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	s, found := n.slots[ref]
	return found && s.gone == nil
}

// IsOpen reports whether a partition of a container is open, or about to be.
func (n *Node) IsOpen(c *catalog.Container, id resource.PartitionID) bool {
	return n.isOpen(replication.PartitionRef{Container: c.RID, Partition: id})
}

// makeRoom closes the least recently used idle partition while there are more
// than MaxOpen. When none is idle the bound is exceeded: refusing would fail
// requests that descriptors may still allow.
func (n *Node) makeRoom() {
	for {
		n.mu.Lock()
		oldest := n.idle.Front()
		if len(n.slots) <= n.cfg.MaxOpen || oldest == nil {
			n.mu.Unlock()
			return
		}
		s := oldest.Value.(*slot)
		n.claim(s)
		n.mu.Unlock()
		n.finish(s)
	}
}
