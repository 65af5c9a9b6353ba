package server

import (
	"errors"
	"fmt"
	"sync"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/storage"
)

// catalogStore owns the store of the catalog, which can be closed and opened
// again while the server runs.
type catalogStore struct {
	pool *storage.Pool
	dir  string

	mu sync.Mutex

	store *storage.Store // nil while closed
}

// mend reopens the store of the catalog if a full disk has stopped it or made it
// read-only, and space is available now.
func (c *catalogStore) mend(names *catalog.Catalog) error {
	failed := names.Failed()
	if failed == nil && !c.reading() {
		return nil
	}
	if failed != nil && storage.Because(failed) == "" {
		return failed // The operator must resolve this.
	}
	if space := c.pool.Space(); space.Known && space.Free < space.Low/2 {
		return errors.New("the disk has no room for the catalog's store")
	}
	return names.Mend(c.reopen)
}

func (c *catalogStore) reading() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.store != nil && c.store.ReadOnly()
}

// reopen closes the store and opens it again.
func (c *catalogStore) reopen() (*storage.Store, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.store != nil {
		_ = c.store.Close() // The error of a failed store is already known.
		c.store = nil
	}
	store, err := c.pool.Open(c.dir)
	if err != nil {
		return nil, err
	}
	c.store = store
	return store, nil
}

func (c *catalogStore) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.store == nil {
		return nil
	}
	return c.store.Close()
}

// diskHealth describes the disk's problem; it is empty if there is none.
func diskHealth(pool *storage.Pool) string {
	if space := pool.Space(); space.Full {
		return fmt.Sprintf("full: %d bytes are free; writes are refused, reads and deletions work", space.Free)
	}
	return ""
}
