package catalog_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/storage/storagetest"
)

// onDisk opens or creates the catalog on a disk. The returned function closes it
// and ignores errors of a failing disk.
func onDisk(disk *storagetest.Disk) (*catalog.Catalog, func(), error) {
	pool, err := storage.NewPool(storage.Options{FS: disk.FS()})
	if err != nil {
		return nil, nil, err
	}
	store, err := pool.Open("data/catalog")
	if err != nil {
		store, err = pool.Create("data/catalog")
	}
	if err != nil {
		_ = pool.Close()
		return nil, nil, err
	}
	shut := func() { _, _ = store.Close(), pool.Close() }
	c, err := catalog.Open(store, clock)
	if err != nil {
		shut()
		return nil, nil, err
	}
	return c, shut, nil
}

// opened is onDisk for a disk that works; the end of the test closes it.
func opened(t testing.TB, disk *storagetest.Disk) *catalog.Catalog {
	t.Helper()
	c, shut, err := onDisk(disk)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(shut)
	return c
}

// step commits change number n of the crash stories: databases with a container
// of four partitions and an offer; every third one is deleted again.
func step(t testing.TB, c *catalog.Catalog, n int) error {
	t.Helper()
	ctx := context.Background()
	name := fmt.Sprintf("d%d", n/3)
	database, found := c.View().Database(name)
	switch {
	case n%3 == 0:
		_, err := c.Commit(ctx, catalog.CreateDatabase{Database: resource.Database{ID: name}})
		return err
	case !found:
		return fmt.Errorf("step %d: database %s is missing", n, name)
	case n%3 == 1:
		container := parseContainer(t, "c")
		container.RID = c.ReserveContainer(database.RID)
		_, err := c.Commit(ctx, catalog.CreateContainer{
			Container:  container,
			Partitions: tile(container.PartitionKey, 4),
			Throughput: &resource.Throughput{Manual: 400},
		})
		return err
	case n%9 == 8:
		_, err := c.Commit(ctx, catalog.DeleteDatabase{RID: database.RID})
		return err
	}
	container, _ := c.View().Container(name, "c")
	_, err := c.Commit(ctx, catalog.PutThroughput{Throughput: resource.Throughput{Owner: container.RID, Manual: 500}})
	return err
}

// Whatever unsynced data a crash loses, the catalog opens with every acknowledged
// commit, and with nothing that was not committed.
func TestCrashKeepsEveryCommit(t *testing.T) {
	t.Parallel()
	disk := storagetest.NewCrashable()
	c := opened(t, disk)
	for n := range 18 {
		if err := step(t, c, n); err != nil {
			t.Fatal(err)
		}
		want := text(c.View())
		for _, kept := range []float64{0, 0.5, 1} {
			after, shut, err := onDisk(disk.Crash(kept, uint64(n)))
			if err != nil {
				t.Fatalf("step %d, %v kept: %v", n, kept, err)
			}
			if got := text(after.View()); got != want {
				t.Errorf("step %d, %v kept:\n%s\nwant:\n%s", n, kept, got, want)
			}
			shut()
		}
	}
}

// On a full disk a commit answers 503 with that reason, also after space is
// available again, until the catalog is opened again.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := storagetest.NewCrashable()
	c, shut, err := onDisk(disk)
	if err != nil {
		t.Fatal(err)
	}
	if err := step(t, c, 0); err != nil {
		t.Fatal(err)
	}
	before := text(c.View())
	disk.Fill()
	for range 2 {
		err := step(t, c, 3)
		if known := status.From(err); known == nil || known.Code != status.CodeUnavailable || !strings.Contains(known.Message, "the disk is full") {
			t.Errorf("got %v, want 503 that names the full disk", err)
		}
		disk.Heal()
	}
	if got := text(c.View()); got != before {
		t.Errorf("the view shows what was not stored:\n%s", got)
	}
	shut()
	c = opened(t, disk)
	if got := text(c.View()); got != before {
		t.Errorf("got\n%s\nwant\n%s", got, before)
	}
	if err := step(t, c, 3); err != nil {
		t.Error(err)
	}
}

// Whichever disk operation fails: an acknowledged commit is there after a
// restart, one that was not is wholly there or wholly absent, and after a failure
// the catalog accepts no more commits.
func TestFailingDisk(t *testing.T) {
	t.Parallel()
	const steps = 7
	for n := int64(1); ; n++ {
		disk := storagetest.NewCrashable()
		disk.FailAt(n)
		var allowed []string // the summaries that are allowed after a restart
		c, shut, err := onDisk(disk)
		if err == nil {
			allowed = runUntilFailure(t, c, steps)
			shut()
		}
		if _, failed := disk.Operations(); failed == 0 {
			if n < 20 {
				t.Fatalf("only %d operations: the disk fails nothing", n)
			}
			return
		}
		disk.Heal()
		after, shut, err := onDisk(disk.Crash(0, uint64(n)))
		if err != nil {
			t.Fatalf("operation %d: open after the failure: %v", n, err)
		}
		got := text(after.View())
		shut()
		if len(allowed) == 0 {
			continue // it failed before the first commit
		}
		found := false
		for _, want := range allowed {
			found = found || got == want
		}
		if !found {
			t.Fatalf("operation %d: found\n%s\nwant one of %q", n, got, allowed)
		}
	}
}

// runUntilFailure commits steps until one fails, and returns the states allowed
// after a restart: the one acknowledged last, and the one that the failed step
// would make.
func runUntilFailure(t *testing.T, c *catalog.Catalog, steps int) []string {
	t.Helper()
	acknowledged := text(c.View())
	for n := range steps {
		err := step(t, c, n)
		if err == nil {
			acknowledged = text(c.View())
			continue
		}
		if status.CodeOf(err) != status.CodeUnavailable {
			t.Fatalf("step %d: got %v, want 503", n, err)
		}
		if text(c.View()) != acknowledged {
			t.Fatalf("step %d failed and changed the view", n)
		}
		if err := step(t, c, n); status.CodeOf(err) != status.CodeUnavailable {
			t.Fatalf("step %d again: got %v, want 503", n, err)
		}
		return []string{acknowledged, intended(t, n)}
	}
	return []string{acknowledged}
}

// intended is the summary after steps 0 to n on a disk that works.
func intended(t *testing.T, n int) string {
	t.Helper()
	c := opened(t, storagetest.NewCrashable())
	for i := range n + 1 {
		if err := step(t, c, i); err != nil {
			t.Fatal(err)
		}
	}
	return text(c.View())
}
