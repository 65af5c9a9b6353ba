// Package partition is one key range of one container: its documents, their index, their
// feed entries and their counters. Cluster opens a partition on a store and a replication
// group, and engine sends it requests for keys of its range.
//
// Learn [Partition] first, with [Partition.Write], [Partition.Read] and
// [Partition.Query]. The partition's one writer evaluates a write into an effect, the
// exact rows to change. The group orders the effects and passes them to
// [Partition.Apply], which commits them. Reads use the snapshot that was published after
// the last commit, and take no lock.
//
// Package layout has the formats of rows, scan the reading, and check the judge, which
// verifies the invariants below from the bytes alone.
//
// # Invariants
//
//   - I1: Apply reads no clock and nothing random. Same effects, same rows.
//   - I2: a document, its index terms, its feed entry, its number and the
//     counters change in one batch.
//   - I4: the partition serves only keys of its range in its generation; the error for
//     others is PartitionMoved.
//   - I5: LSNs rise by one per effect that changes documents.
//   - I9: results of writes and reads are durable.
//   - Each live document has exactly one row in 'd', one in 'r' and one in 'f'.
//
// Absent: the package knows no protocol, no other partition and no catalog. It enforces
// the size limit of a logical partition, and only reports its own: see Config.Grown.
//
// Page: docs/partition.md
package partition

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/partition/scan"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/partitionkey"
)

// Config configures a partition. The store belongs to the caller, who opens it before
// Open and closes it after Close.
type Config struct {
	Store *storage.Store
	Group replication.Group
	Ref   replication.PartitionRef

	// Container returns the current version of the container. Several goroutines
	// call it.
	Container func() *resource.Container

	// Limits are those of documents and queues. The default value is
	// resource.DefaultLimits.
	Limits resource.Limits

	// Grown is called when the partition is opened with more bytes than its storage
	// limit, when it exceeds the limit, and again as it grows further. It must not
	// block. Nil disables the callback.
	Grown func()

	// ConditionTime bounds the time that the conditions of all patches of one request
	// take together, in the caller's goroutine and again in the writer. The default
	// value is 250 ms.
	ConditionTime time.Duration

	// CatalogVersion returns the version of the catalog. The partition records it with
	// its changes, so that a catalog that is older than its partitions is detected.
	// Several goroutines call it. Nil records no version.
	CatalogVersion func() uint64

	// Rosters is the memory for rosters, which partitions of a process share. The
	// default value is a small one for this partition.
	Rosters *Rosters

	// Now is the time of a write, its _ts. Certain is the time by which documents
	// expire and versions in the complete feed become too old, and Removal that by
	// which they are deleted. While the clock may be wrong, Certain and Removal are
	// earlier than Now; Removal is never later than Certain. The default values are
	// time.Now, Now and Certain. Several goroutines call them.
	Now     func() time.Time
	Certain func() time.Time
	Removal func() time.Time

	// Collect returns a change that removes what is not needed any more from items of
	// a table. [Partition.Expire] calls it. Nil removes items that are due.
	Collect func(context.Context, Collection) (Collected, error)

	Logger *slog.Logger // nil discards all messages
}

// Rosters is memory for rosters, as [scan.Rosters] says.
type Rosters = scan.Rosters

// NewRosters returns memory for rosters of so many bytes in total.
func NewRosters(bytes int64) *Rosters { return scan.NewRosters(bytes) }

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
		c.Rosters = NewRosters(scan.RostersBytes)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Partition serves one key range. Any number of goroutines may call its methods,
// except for Apply, which belongs to the group.
type Partition struct {
	config  Config
	own     layout.Identity
	uniques layout.Uniques
	reader  *scan.Reader
	steps   steps

	// elapsed returns the time since Open. Tests replace it.
	elapsed func() time.Duration

	health health   // whether the partition serves
	states states   // what readers see
	served counters // what was served so far
	apply  applied  // belongs to Apply

	heavy  gate   // bounds the heavy writes in the intake and the writer
	intake intake // passes requests to the writer
	writer writer // belongs to the writer's goroutine

	// clearing is the progress of Clear; nil before it has begun.
	clearing atomic.Pointer[clearing]

	urgent atomic.Bool // see Urgent
}

// Initialize writes the meta rows of a new partition, with the container's indexing
// policy, into an empty store, and syncs it. Config needs a Store and a Container.
func Initialize(cfg Config, p resource.Partition) error { return InitializeAt(cfg, p, 0) }

// InitializeAt is Initialize for a partition that replaces a lost one. Its changes
// follow lsn, which must not be below any LSN of the lost partition.
func InitializeAt(cfg Config, p resource.Partition, lsn resource.LSN) error {
	container := cfg.Container()
	d := layout.Descriptor{Version: layout.MetaVersion, Container: container.RID, Key: container.PartitionKey, Partition: p}
	row, err := d.Append()
	if err == nil {
		_, err = layout.DecodeDescriptor(row)
	}
	if err != nil {
		return fmt.Errorf("initialize partition %s: %w", p.ID, err)
	}
	x, err := layout.NewIndexRow(container.Indexing).Append()
	if err != nil {
		return fmt.Errorf("initialize partition %s: %w", p.ID, err)
	}
	batch := cfg.Store.NewBatch()
	defer batch.Close()
	err = errors.Join(
		batch.Set(storage.MetaKey(nil, layout.MetaDescriptor), row),
		batch.Set(storage.MetaKey(nil, layout.MetaState), layout.State{LSN: lsn}.Append(nil)),
		batch.Set(storage.MetaKey(nil, layout.MetaIndex), x),
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

// Open starts serving the partition in cfg.Store. It starts no goroutine. When the
// group can reach the partition, call [Partition.Reindex], which continues a change of
// policy that was in progress.
func Open(cfg Config) (*Partition, error) {
	opened := time.Now()
	p := &Partition{config: cfg.withDefaults(), steps: defaultSteps(), elapsed: func() time.Duration { return time.Since(opened) }}
	p.intake.start, p.intake.wake = p.run, make(chan struct{}, 1)
	p.heavy.max = heavyBytes
	p.states.closing = func(err error) {
		p.config.Logger.Warn("snapshot not closed", "partition", p.own.ID, "err", err)
	}
	snapshot := cfg.Store.Snapshot()
	if err := p.load(snapshot); err != nil {
		return nil, errors.Join(fmt.Errorf("open partition %v: %w", cfg.Ref, err), snapshot.Close())
	}
	return p, nil
}

// load reads the meta rows and publishes the first state.
func (p *Partition) load(snapshot *storage.Snapshot) error {
	d, now, err := scan.ReadSnapshot(snapshot)
	if err != nil {
		return err
	}
	container := p.config.Container()
	if container.RID != d.Container {
		return fmt.Errorf("the store belongs to container %s, not to %s", d.Container, container.RID)
	}
	under, err := layout.ReadCatalog(snapshot)
	if err != nil {
		return err
	}
	if p.uniques, err = layout.CompileUniques(container.UniqueKeys); err != nil {
		return err
	}
	p.own = layout.NewIdentity(d)
	p.reader = scan.NewReader(scan.Config{
		Name: fmt.Sprint(p.config.Ref), Own: p.own, Container: p.config.Container, Certain: p.config.Certain, Rosters: p.config.Rosters,
	})
	p.writer = writer{next: now.State, overlay: newOverlay(), catalog: under}
	p.states.publish(&published{Snapshot: now})
	p.weigh(now.Bytes)
	return nil
}

// Close refuses further requests, waits for the effects that are proposed and for all
// readers, and ends the writer. The group must still work, and must not call Apply
// afterwards.
func (p *Partition) Close() error {
	p.intake.mu.Lock()
	if p.intake.closed {
		p.intake.mu.Unlock()
		return nil
	}
	p.intake.closed = true
	idle := p.intake.idle
	p.intake.mu.Unlock()
	if idle != nil {
		<-idle
	}
	p.states.publish(nil)
	p.states.open.Wait()
	p.reader.Close()
	return nil
}

// Descriptor returns the identity, the range and the ancestry of the partition.
func (p *Partition) Descriptor() resource.Partition { return p.own.Partition }

// LSN returns the LSN of the last effect that readers can see, zero after Close.
func (p *Partition) LSN() resource.LSN { return p.states.lsn() }

// Totals are the documents of a partition.
type Totals struct {
	Items int64 // live documents, exactly
	Bytes int64 // of their stored JSON without system properties, exactly
}

// totals returns the totals of the current state, zero after Close.
func (p *Partition) totals() Totals {
	if now := p.states.current.Load(); now != nil {
		return Totals{Items: now.Items, Bytes: now.Bytes}
	}
	return Totals{}
}

// Latest returns the latest time of a write, in seconds since 1970. It is zero before
// the first write and after Close.
func (p *Partition) Latest() int64 {
	if now := p.states.current.Load(); now != nil {
		return now.TS
	}
	return 0
}

// acquire returns the current state. The caller releases it. The error is Unavailable
// or PartitionMoved.
func (p *Partition) acquire() (*published, error) {
	if err := p.health.err(); err != nil {
		return nil, err
	}
	if now := p.states.acquire(); now != nil {
		return now, nil
	}
	return nil, errClosed()
}

func (p *Partition) release(now *published) { p.states.release(now) }

func errClosed() error {
	return status.Unavailable(nil, "The partition is being closed. Try again.")
}

// fail stops the partition until it is opened again, from what is stored. Other
// partitions continue to serve.
func (p *Partition) fail(err error) {
	if p.health.fail(err) {
		p.config.Logger.Error("partition stopped", "partition", p.own.ID, "container", p.own.Container, "err", err)
	}
}

// Failure returns why the partition has stopped, nil while it serves.
func (p *Partition) Failure() error { return p.health.cause() }

// contain stops the partition after a panic in the calling function, which defers it.
func (p *Partition) contain(err *error) {
	if cause := recover(); cause != nil {
		p.fail(fmt.Errorf("broken invariant: %v\n%s", cause, debug.Stack()))
		*err = p.health.err()
	}
}

// admit checks that a full key belongs to this partition (I4).
func (p *Partition) admit(generation resource.Generation, key partitionkey.Key, epk partitionkey.EPK) error {
	// S90: a prefix of a key identifies no document. Rows distinguish keys by their
	// width, so a prefix must never pass.
	if key.Len() != p.own.Key.Levels() || p.own.Width > 0 && len(epk) != p.own.Width {
		return status.PartitionKeyMismatch("The partition key has %d components, the container has %d levels.", key.Len(), p.own.Key.Levels())
	}
	if generation != p.own.Generation || !p.own.Range.Contains(epk) {
		return status.PartitionMoved(status.SubRangeGone)
	}
	return nil
}
