// Package catalog records what exists: databases, containers, their throughput,
// and which physical partition owns which key range.
//
// The engine routes requests by it, and cluster opens the partitions that it
// names. Both read it only as an immutable [View]. [Catalog.Commit] applies a
// [Change], which makes the next view.
//
// # Invariants
//
//   - I3: in every version the partitions of a container tile the key space; a
//     change that would break that is refused before it is written.
//   - Versions, RIDs and partition ids only rise, and none is used twice, whatever
//     was dropped in between.
//   - A commit is one synced batch: after a crash the catalog holds a prefix of the
//     commits, and every one that was acknowledged.
//
// The package opens no partition and decides nothing about placement. A view may
// be older than the newest version; the partition's own descriptor is
// authoritative.
//
// Page: docs/catalog.md
package catalog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
)

// Catalog owns the catalog's store. It is safe for concurrent use: readers take a
// view without a lock, and commits are applied one after another.
type Catalog struct {
	view atomic.Pointer[View]
	now  func() time.Time

	mu     sync.Mutex
	marks  func(version uint64, at storage.Position) // called before a commit is acknowledged; may be nil
	store  *storage.Store
	next   counters // at least the stored values: reserved numbers may be missing from the store
	failed error    // sticky: after a failed sync the stored state is unknown
}

// counters are the next numbers to assign.
type counters struct {
	Database  uint32 `json:"database"`
	Container uint32 `json:"container"`
	Offer     uint32 `json:"offer"`
	User      uint32 `json:"user,omitempty"` // the last one assigned
}

// Open reads the catalog from its store, which may be empty. The caller closes
// the store after the last commit. now provides the time stamps of resources; nil
// means time.Now.
func Open(store *storage.Store, now func() time.Time) (*Catalog, error) {
	if now == nil {
		now = time.Now
	}
	snapshot := store.Snapshot()
	view, next, err := load(snapshot)
	if err := errors.Join(err, snapshot.Close()); err != nil {
		return nil, fmt.Errorf("open catalog: %w", err)
	}
	c := &Catalog{now: now, store: store, next: next}
	c.view.Store(view)
	return c, nil
}

// Confirm allows a store that was opened provisionally to change its directory,
// once the caller knows that the catalog belongs to the rest of the data.
func (c *Catalog) Confirm() error { return c.store.Confirm() }

// View returns the newest version.
func (c *Catalog) View() *View { return c.view.Load() }

// ReserveContainer returns the RID of a container that is about to be created in
// a database, so that its directories can be built before a commit names them. A
// RID that no commit uses is lost, which does no harm.
func (c *Catalog) ReserveContainer(database resource.RID) resource.RID {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.next.Container
	c.next.Container++
	return resource.ContainerRID(database, n)
}

// Commit checks change against the newest version, stores it and publishes the
// version that it makes. If the change does not fit the newest version, the error
// is a *status.Error and nothing has changed: changes name what they expect, so
// commits compare and set. If the change could not be made durable, its outcome
// is unknown: Commit returns 503, and so does every later one, until the catalog
// is opened again, see [Catalog.Mend]. While the disk is full, most changes that
// need space are refused with 507.
//
// Cancelling the context before the commit begins stops it; later it has no
// effect.
func (c *Catalog) Commit(ctx context.Context, change Change) (*View, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if c.failed != nil {
		return nil, status.Unavailable(c.failed, "The catalog has stopped after a failed write%s. It takes changes again when that is mended, without a restart where the disk was full.", storage.Because(c.failed))
	}
	d := newDraft(c.View(), c.next, resource.Timestamp(c.now().Unix()))
	if err := change.apply(d); err != nil {
		return nil, err
	}
	if err := c.admit(change); err != nil {
		return nil, err
	}
	if err := d.commit(c.store); err != nil {
		c.failed = err
		return nil, status.Unavailable(errors.Join(errUnknown, err), "The catalog could not store the change%s; its outcome is unknown.", storage.Because(err))
	}
	if c.marks != nil {
		c.marks(d.view.version, c.store.Position())
	}
	c.next = d.next
	c.view.Store(d.view)
	return d.view, nil
}

// Mark sets a callback for each commit from now on; nil removes it. After a
// commit is stored, and before it is visible or acknowledged, Mark's callback
// receives its version and the position of the store. Other commits wait for it.
func (c *Catalog) Mark(mark func(version uint64, at storage.Position)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.marks = mark
}

var errUnknown = errors.New("the outcome of the commit is unknown")

// OutcomeUnknown reports whether err means that a commit may or may not be
// stored, which the next start will show. After any other error it is not stored.
func OutcomeUnknown(err error) bool { return errors.Is(err, errUnknown) }
