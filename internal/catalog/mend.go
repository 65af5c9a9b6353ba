package catalog

import (
	"errors"
	"fmt"

	"github.com/decandb/decan/internal/storage"
)

// grows reports whether a change is refused while the disk is full. What frees room,
// what ends a split or merge, and what an operator changes to get out of trouble,
// such as throughput, limits and keys, is not.
func grows(change Change) bool {
	switch change.(type) {
	case CreateDatabase, CreateContainer, ReplaceContainer, CreateUser, CreatePermission,
		CreateScript, ReplaceScript, PutRole, PutRoleAssignment, PlanSplit, PlanMerge:
		return true
	}
	return false
}

// admit returns why a change is refused on a full disk. The caller holds mu.
func (c *Catalog) admit(change Change) error {
	if grows(change) || c.store.Reading() {
		return c.store.CanGrow()
	}
	return nil
}

// Failed returns why the catalog takes no changes, nil while it does.
func (c *Catalog) Failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// Mend has a catalog whose store has failed, or can be read only, go on with what
// reopen returns: the same store, closed and opened again. What became of a commit
// whose outcome was unknown is known then. It calls reopen while no commit is under
// way. A catalog that is well is left alone.
//
// An error leaves the catalog without changes until the next call. reopen must work
// again after an error of its own, and after one of Mend.
func (c *Catalog) Mend(reopen func() (*storage.Store, error)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed == nil && !c.store.Reading() {
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
	// Numbers that were reserved since then are not handed out again.
	next.Database, next.Container = max(next.Database, c.next.Database), max(next.Container, c.next.Container)
	next.Offer, next.User = max(next.Offer, c.next.Offer), max(next.User, c.next.User)
	c.next, c.failed = next, nil
	if view.version != c.View().version {
		c.view.Store(view)
	}
	return nil
}
