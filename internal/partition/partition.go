// Package partition is the heart: one key range of one container, with its
// documents, their index, their feed entries and their counters. Cluster opens
// a partition on a store and a replication group, and engine sends it requests
// for keys of its range.
//
// Learn [Partition] first, with [Partition.Write], [Partition.Read] and
// [Partition.Query]. A write is evaluated by the partition's one writer into an
// effect, the exact rows to change; the group orders the effects and hands them
// back to [Partition.Apply], which commits them. Reads use the snapshot that
// was published after the last commit, and take no lock. [Check] verifies all
// of the below from the bytes alone.
//
// # Invariants
//
//   - I1: Apply reads no clock and nothing random. Same effects, same rows.
//   - I2: a document, its index terms, its feed entry, its number and the
//     counters change in one batch.
//   - I4: only keys of the partition's range in its generation are served;
//     everything else is PartitionMoved.
//   - I5: LSNs rise by one per effect that changes documents.
//   - I9: what is answered or read is durable.
//   - Each live document has exactly one row in 'd', one in 'r' and one in 'f'.
//
// Absent: the package knows no protocol, no other partition and no catalog. It
// keeps the quota of a logical partition; of its own it only tells, see
// Config.Grown.
//
// Page: docs/partition.md
package partition

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/partitionkey"
)

// Config is what a partition works with. The store stays the caller's: it is
// open before Open and is closed after Close.
type Config struct {
	Store *storage.Store
	Group replication.Group
	Ref   replication.PartitionRef

	// Container returns the current version of the container. It is called by
	// several goroutines.
	Container func() *resource.Container

	// Limits of documents and queues; the zero value means the defaults.
	Limits resource.Limits

	// Grown is called when the partition is opened above its storage limit, when
	// it passes that, and now and then while it grows on. It must not block. Nil
	// means that nobody wants to know.
	Grown func()

	// ConditionTime is how long the conditions of the patches of one request may
	// take all together, first where it is prepared and then again in the writer,
	// where all others wait. Zero means 250 ms.
	ConditionTime time.Duration

	// CatalogVersion returns the version of the catalog, which the partition records
	// with what it changes: a catalog that is older than its partitions is found by
	// it. It is called by several goroutines. Nil means that none is recorded.
	CatalogVersion func() uint64

	// Rosters is the room for rosters, shared by the partitions of a process. Nil
	// means a small one of its own.
	Rosters *Rosters

	// Now is the time that a write is given as _ts. Certain is the time by which
	// documents expire and versions in the complete feed become too old, and Removal
	// that by which they are deleted. A clock that may be wrong is ahead of both, and
	// Removal is never ahead of Certain. Nil means time.Now, Now and Certain. They
	// are called by several goroutines.
	Now     func() time.Time
	Certain func() time.Time
	Removal func() time.Time

	Logger *slog.Logger // nil discards
}

func (c Config) withDefaults() Config {
	if c.Limits == (resource.Limits{}) {
		c.Limits = resource.DefaultLimits()
	}
	if c.ConditionTime <= 0 {
		c.ConditionTime = conditionTime
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Certain == nil {
		c.Certain = c.Now
	}
	if c.Removal == nil {
		c.Removal = c.Certain
	}
	if c.Rosters == nil {
		c.Rosters = NewRosters(rostersBytes)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Partition serves one key range. Its methods may be called by any number of
// goroutines, except Apply, which belongs to the group.
type Partition struct {
	config     Config
	descriptor descriptor
	epkWidth   int    // bytes of a full EPK; zero when it varies
	low, high  []byte // bound the keys of all rows behind the family
	render     renderer
	strategy   strategy
	uniques    uniques

	// elapsed is the clock that says how long something takes; tests have their own.
	elapsed func() time.Duration

	// current is what readers see; nil after Close. Apply alone replaces it.
	current atomic.Pointer[published]

	// heard is the size from which on Grown is called again. Apply's, once the
	// partition is open.
	heard int64

	// open counts the published states that hold a snapshot.
	open sync.WaitGroup

	sources sync.Pool // of *source
	places  places
	rosters rosters
	moves   moves // of Apply

	// lasting is a time in seconds: what was written before it never expires, or
	// has a row in 'x'. It only rises.
	lasting atomic.Int64

	// clearing is how far Clear has come; nil before it has begun.
	clearing atomic.Pointer[clearing]

	// reads, writes and queries count what was answered since Open, cleared the
	// documents that Clear has deleted.
	reads, writes, queries, cleared atomic.Int64

	// failure is why the partition stopped; nil while it serves. It never
	// changes once set.
	failure atomic.Pointer[failure]

	// retired says that children own the range: nothing is served any more.
	retired atomic.Bool

	heavy  gate    // in front of the writer's queue
	writer writer  // of the writer's goroutine
	shape  shaping // of Apply

	mu sync.Mutex

	queue   []*request    // waiting to be evaluated
	spare   []*request    // room for the next queue
	running bool          // the writer's goroutine is there
	closed  bool          // no request enters any more
	reindex bool          // the policy is to be compared with the container's
	order   *order        // waiting to be carried out; nil: none
	handing *handover     // a split or merge under way; nil: none
	sealed  bool          // the writer takes no request
	ended   *status.Error // what every write gets; nil while the partition writes
	idle    chan struct{} // closed when the goroutine ends; nil before the first start

	locks   map[string]*keyLock // by the logical partition that each keeps others away from
	holders int                 // of locks, or who want one
	parked  int                 // requests that wait for a lock

	// wake tells a writer that waits for a proposal that the queue has grown.
	wake chan struct{}
}

type failure struct{ err error }

// Initialize writes the descriptor of a fresh partition into an empty store, with
// the container's indexing policy, and syncs it. Config needs a Store and a
// Container.
func Initialize(cfg Config, p resource.Partition) error { return InitializeAt(cfg, p, 0) }

// InitializeAt is Initialize for a partition that takes the place of one which is lost:
// its changes follow an LSN that the lost one had not reached.
func InitializeAt(cfg Config, p resource.Partition, lsn resource.LSN) error {
	container := cfg.Container()
	d := descriptor{Version: metaVersion, Container: container.RID, Key: container.PartitionKey, Partition: p}
	row, err := d.append()
	if err == nil {
		_, err = decodeDescriptor(row)
	}
	if err != nil {
		return fmt.Errorf("initialize partition %s: %w", p.ID, err)
	}
	x, err := indexRow{Version: metaVersion, Policy: container.Indexing}.append()
	if err != nil {
		return fmt.Errorf("initialize partition %s: %w", p.ID, err)
	}
	batch := cfg.Store.NewBatch()
	defer batch.Close()
	err = errors.Join(
		batch.Set(storage.MetaKey(nil, metaDescriptor), row),
		batch.Set(storage.MetaKey(nil, metaState), state{lsn: lsn}.append(nil)),
		batch.Set(storage.MetaKey(nil, metaIndex), x),
		cfg.putCatalog(batch),
	)
	if err == nil {
		err = cfg.Store.Apply(batch)
	}
	if err != nil {
		return fmt.Errorf("initialize partition %s: %w", p.ID, err)
	}
	return nil
}

// Open starts serving the partition in cfg.Store. It starts no goroutine. Once
// the group can reach the partition, call [Partition.Reindex], which goes on
// with a change of policy that was under way.
func Open(cfg Config) (*Partition, error) {
	opened := time.Now()
	p := &Partition{config: cfg.withDefaults(), wake: make(chan struct{}, 1), elapsed: func() time.Duration { return time.Since(opened) }}
	snapshot := cfg.Store.Snapshot()
	if err := p.load(snapshot); err != nil {
		return nil, errors.Join(fmt.Errorf("open partition %v: %w", cfg.Ref, err), snapshot.Close())
	}
	return p, nil
}

// load reads the meta rows and publishes the first state.
func (p *Partition) load(snapshot *storage.Snapshot) error {
	d, s, row, err := readMeta(snapshot)
	if err != nil {
		return err
	}
	if container := p.config.Container(); container.RID != d.Container {
		return fmt.Errorf("the store belongs to container %s, not to %s", d.Container, container.RID)
	}
	x, err := compileIndexing(row, nil)
	if err != nil {
		return err
	}
	marks, err := readPurges(snapshot, s)
	if err != nil {
		return err
	}
	under, err := readCatalog(snapshot)
	if err != nil {
		return err
	}
	if p.uniques, err = compileUniques(p.config.Container().UniqueKeys); err != nil {
		return err
	}
	p.descriptor = d
	p.epkWidth = epkWidth(d.Key)
	p.low, p.high = keyBounds(d.Range, p.epkWidth)
	p.render = newRenderer(d.Container)
	p.strategy = defaultStrategy()
	p.rosters.shared, p.rosters.keys = p.config.Rosters, map[string]*roster{}
	p.writer = writer{next: s, overlay: newOverlay(), catalog: under}
	p.publish(&published{snapshot: snapshot, state: s, indexing: x, purges: marks})
	p.weigh(s.bytes)
	return nil
}

// epkWidth returns the bytes of a full EPK under a definition, zero when they
// vary.
func epkWidth(d partitionkey.Definition) int {
	const hashBytes = 16
	switch {
	case d.Kind == partitionkey.KindMultiHash:
		return hashBytes * d.Levels()
	case d.Normalize().Version == 2:
		return hashBytes
	}
	return 0
}

// Close stops taking requests, waits for the effects on their way and for
// everyone who reads, and ends the writer. The group must still work, and must
// not call Apply afterwards.
func (p *Partition) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	idle := p.idle
	p.mu.Unlock()
	if idle != nil {
		<-idle
	}
	p.publish(nil)
	p.open.Wait()
	p.rosters.clear(0, true)
	return nil
}

// Descriptor returns what the partition is.
func (p *Partition) Descriptor() resource.Partition { return p.descriptor.Partition }

// LSN returns the LSN of the last effect that readers can see, zero after Close.
func (p *Partition) LSN() resource.LSN {
	if now := p.current.Load(); now != nil {
		return now.lsn
	}
	return 0
}

// Latest returns the latest time that a write was given, in seconds since 1970; zero
// before the first one and after Close.
func (p *Partition) Latest() int64 {
	if now := p.current.Load(); now != nil {
		return now.ts
	}
	return 0
}

// published is a durable state of the partition. It is immutable but for the
// count of those who use it.
type published struct {
	state
	snapshot *storage.Snapshot
	indexing *indexing
	purges   purges

	// users counts the readers, and one for being current. At zero the snapshot
	// is closed, and users never rises again.
	users atomic.Int64
}

// publish makes next what readers see; nil when there is nothing to see any more.
func (p *Partition) publish(next *published) {
	if next != nil {
		next.users.Store(1)
		p.open.Add(1)
	}
	if before := p.current.Swap(next); before != nil {
		p.release(before)
	}
}

// acquire returns the current state; release it. The error is Unavailable.
func (p *Partition) acquire() (*published, error) {
	if err := p.err(); err != nil {
		return nil, err
	}
	for {
		now := p.current.Load()
		if now == nil {
			return nil, errClosed()
		}
		users := now.users.Load()
		if users > 0 && now.users.CompareAndSwap(users, users+1) {
			return now, nil
		}
	}
}

func (p *Partition) release(s *published) {
	if s.users.Add(-1) > 0 {
		return
	}
	if err := s.snapshot.Close(); err != nil {
		p.config.Logger.Warn("snapshot not closed", "partition", p.descriptor.ID, "err", err)
	}
	p.open.Done()
}

func errClosed() error {
	return status.Unavailable(nil, "The partition is being closed. Try again.")
}

// fail stops the partition for good: whoever opens it again starts from the
// bytes. Others are not affected.
func (p *Partition) fail(err error) {
	if p.failure.CompareAndSwap(nil, &failure{err}) {
		p.config.Logger.Error("partition stopped", "partition", p.descriptor.ID, "container", p.descriptor.Container, "err", err)
	}
}

// err returns why the partition does not serve, as Unavailable, or as
// PartitionMoved when others serve its range.
func (p *Partition) err() error {
	if p.retired.Load() {
		return status.PartitionMoved(status.SubRangeGone)
	}
	if f := p.failure.Load(); f != nil {
		if because := storage.Because(f.err); because != "" {
			return status.Unavailable(f.err, "The partition has stopped%s. It serves again when that is mended.", because)
		}
		return status.Unavailable(f.err, "The partition has stopped after a failure. The server's log has the reason.")
	}
	return nil
}

// Failure returns why the partition has stopped, nil while it has not.
func (p *Partition) Failure() error {
	if f := p.failure.Load(); f != nil {
		return f.err
	}
	return nil
}

// contain turns a panic of ours into a stopped partition. Use it deferred.
func (p *Partition) contain(err *error) {
	if cause := recover(); cause != nil {
		p.fail(fmt.Errorf("broken invariant: %v\n%s", cause, debug.Stack()))
		*err = p.err()
	}
}

// admit checks that a full key belongs to this partition (I4).
func (p *Partition) admit(generation resource.Generation, key partitionkey.Key, epk partitionkey.EPK) error {
	// S90: a prefix of a key names no document. Rows tell keys apart by their
	// width, so this must never pass.
	if key.Len() != p.descriptor.Key.Levels() || p.epkWidth > 0 && len(epk) != p.epkWidth {
		return status.PartitionKeyMismatch("The partition key has %d components, the container has %d levels.", key.Len(), p.descriptor.Key.Levels())
	}
	if generation != p.descriptor.Generation || !p.descriptor.Range.Contains(epk) {
		return status.PartitionMoved(status.SubRangeGone)
	}
	return nil
}
