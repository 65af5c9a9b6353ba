package catalog

import (
	"errors"
	"fmt"
	"slices"

	"github.com/decandb/decan/internal/storage"
)

// grows reports whether a change is refused while the disk is full. Changes that
// free space, that end a split or merge, or by which an operator solves the
// problem, such as throughput, limits and keys, are not refused.
func grows(change Change) bool {
	switch change := change.(type) {
	case Together:
		return slices.ContainsFunc(change, grows)
	case CreateDatabase, CreateContainer, ReplaceContainer, CreateUser, CreatePermission,
		CreateScript, ReplaceScript, PutRole, PutRoleAssignment, PlanSplit, PlanMerge:
		return true
	}
	return false
}

// admit returns why a change is refused on a full disk. The caller holds mu.
func (c *Catalog) admit(change Change) error {
	if grows(change) || c.store.ReadOnly() {
		return c.store.CanGrow()
	}
	return nil
}

// Failed returns why the catalog accepts no changes, or nil if it does.
func (c *Catalog) Failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// Mend lets a catalog whose store has failed, or is read-only, continue with the
// result of reopen: the same store, closed and opened again. Opening it settles
// commits whose outcome was unknown. It calls reopen while no commit is in
// progress. It does nothing if the catalog is healthy.
//
// After an error the catalog accepts no changes until the next call. reopen must
// be callable again after its own error and after one of Mend.
func (c *Catalog) Mend(reopen func() (*storage.Store, error)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed == nil && !c.store.ReadOnly() {
		return nil
	}
	store, err := reopen()
	if err != nil {
		c.failed = err
		return fmt.Errorf("mend the catalog: %w", err)
	}
	c.store = store
	snapshot := store.Snapshot()
	view, next, err := load(snapshot)
	err = errors.Join(err, snapshot.Close())
	if before := c.View().version; err == nil && view.version != before && view.version != before+1 {
		err = fmt.Errorf("version %d is stored, after version %d", view.version, before)
	}
	if err != nil {
		c.failed = err
		return fmt.Errorf("mend the catalog: %w", err)
	}
	// Numbers reserved since then are not assigned again.
	next.Database, next.Container = max(next.Database, c.next.Database), max(next.Container, c.next.Container)
	next.Offer, next.User = max(next.Offer, c.next.Offer), max(next.User, c.next.User)
	c.next, c.failed = next, nil
	if view.version != c.View().version {
		c.view.Store(view)
	}
	return nil
}
