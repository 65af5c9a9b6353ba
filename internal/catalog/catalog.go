// Package catalog knows what exists: databases, containers, their throughput,
// and which physical partition owns which key range.
//
// The engine routes by it, cluster opens the partitions it names, and both see
// it only as an immutable [View]. A [Change] handed to [Catalog.Commit] makes
// the next one.
//
// # Invariants
//
// I3: in every version the partitions of a container tile the key space; a
// change that would break that is refused before it is written.
// Versions, RIDs and partition ids only rise, and none is used twice, whatever
// was dropped in between.
// A commit is one synced batch: after a crash the catalog holds a prefix of the
// commits, and every one that was acknowledged.
//
// The package opens no partition and decides nothing about placement. A view
// may lag behind the newest; the partition's own descriptor has the last word.
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

// Catalog is the one owner of the catalog's store. It is safe for concurrent
// use: readers take a view and no lock, commits come one after the other.
type Catalog struct {
	view atomic.Pointer[View]
	now  func() time.Time

	mu     sync.Mutex
	marks  func(version uint64, at storage.Position) // called before a commit is acknowledged; may be nil
	store  *storage.Store
	next   counters // at least what is stored: reserved numbers need not be
	failed error    // sticky: after a failed sync nobody knows what is stored
}

// counters are the next numbers to hand out.
type counters struct {
	Database  uint32 `json:"database"`
	Container uint32 `json:"container"`
	Offer     uint32 `json:"offer"`
	User      uint32 `json:"user,omitempty"` // the last one handed out
}

// Open reads the catalog from its store, which may be a fresh one. The store
// stays the caller's to close, after the last commit. now stamps resources; nil
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

// Confirm lets the store change its directory, if it was opened provisionally: the
// catalog belongs to what else there is.
func (c *Catalog) Confirm() error { return c.store.Confirm() }

// View returns the newest version.
func (c *Catalog) View() *View { return c.view.Load() }

// ReserveContainer returns the RID of a container that is about to be created
// in a database, so that its directories can be built before a commit names
// them. An unused one is lost, which harms nobody.
func (c *Catalog) ReserveContainer(database resource.RID) resource.RID {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.next.Container
	c.next.Container++
	return resource.ContainerRID(database, n)
}

// Commit checks change against the newest version, stores it and publishes the
// version that it makes. The error is a *status.Error when the change does not
// fit what exists now (it names what it expects, so commits compare and set),
// and then nothing has changed. A change that could not be made durable answers
// 503, and so does every later one, because its outcome is unknown until the
// catalog is opened again, see [Catalog.Mend]. While the disk is full most changes
// that take room are refused with 507.
//
// A context that ends before the commit begins stops it; later it does not.
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

// Mark has mark called with the version of each commit from now on, and with what the
// store has then, after it is stored and before it is seen or acknowledged; nil ends
// that. Other commits wait meanwhile.
func (c *Catalog) Mark(mark func(version uint64, at storage.Position)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.marks = mark
}

var errUnknown = errors.New("the outcome of the commit is unknown")

// OutcomeUnknown reports whether err says of a commit that it may or may not be
// stored, which the next start will tell. After any other error it is not.
func OutcomeUnknown(err error) bool { return errors.Is(err, errUnknown) }
