package server

import (
	"errors"
	"fmt"
	"sync"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/storage"
)

// catalogStore owns the store of the catalog, which may be closed and opened again
// while the server runs.
type catalogStore struct {
	pool *storage.Pool
	dir  string

	mu sync.Mutex

	store *storage.Store // nil when it is closed
}

// mend has the catalog go on with its store opened again, if a full disk has stopped
// it or left it open for reading only, and there is room now.
func (c *catalogStore) mend(names *catalog.Catalog) error {
	failed := names.Failed()
	if failed == nil && !c.reading() {
		return nil
	}
	if failed != nil && storage.Because(failed) == "" {
		return failed // Whoever reads the log has to decide.
	}
	if space := c.pool.Space(); space.Known && space.Free < space.Low/2 {
		return errors.New("the disk has no room for the catalog's store")
	}
	return names.Mend(c.reopen)
}

func (c *catalogStore) reading() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.store != nil && c.store.Reading()
}

// reopen closes the store and opens it again.
func (c *catalogStore) reopen() (*storage.Store, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.store != nil {
		_ = c.store.Close() // What a failed store says when it is closed is known.
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

// diskHealth says what is wrong with the disk; empty for nothing.
func diskHealth(pool *storage.Pool) string {
	if space := pool.Space(); space.Full {
		return fmt.Sprintf("full: %d bytes are free; writes are refused, reads and deletions go on", space.Free)
	}
	return ""
}
