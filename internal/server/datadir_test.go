package server

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/storage/storagetest"
)

// TestFirstCommitSurvivesPowerFailure cuts the power after the first acknowledged
// commit of a new data directory: its catalog, which was created under another
// name, is still found under its final name.
func TestFirstCommitSurvivesPowerFailure(t *testing.T) {
	t.Parallel()
	disk := storagetest.NewCrashable()
	names, shut := openNames(t, disk)
	if _, err := names.Commit(context.Background(), catalog.CreateDatabase{Database: resource.Database{ID: "d"}}); err != nil {
		t.Fatal(err)
	}
	after := disk.Crash(0, 1)
	shut()
	names, shut = openNames(t, after)
	defer shut()
	if _, found := names.View().Database("d"); !found {
		t.Error("an acknowledged database is missing")
	}
}

// openNames opens the catalog of a data directory on a disk as a server does.
func openNames(t *testing.T, disk *storagetest.Disk) (*catalog.Catalog, func()) {
	t.Helper()
	pool, err := storage.NewPool(storage.Options{FS: disk.FS()})
	if err != nil {
		t.Fatal(err)
	}
	store, err := openCatalogStore(pool, "data")
	if err != nil {
		t.Fatal(err)
	}
	names, err := catalog.Open(store, nil)
	if err != nil {
		t.Fatal(err)
	}
	return names, func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestMissingCatalog removes the catalog: neither a start nor a check may treat
// every partition as garbage.
func TestMissingCatalog(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := start(t, Config{Data: data})
	if err := s.CreateContainer(t.Context(), "d", `{"id":"c","partitionKey":{"paths":["/pk"]}}`, 2); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before := listing(t, data)
	kept := filepath.Join(t.TempDir(), "catalog")
	if err := os.Rename(filepath.Join(data, "catalog"), kept); err != nil {
		t.Fatal(err)
	}
	if again, err := Start(t.Context(), Config{Data: data, Ports: PortOptions{Data: "127.0.0.1:0", Admin: noListener}}); err == nil {
		again.Close()
		t.Error("started without its catalog")
	} else if !strings.Contains(err.Error(), "catalog") {
		t.Errorf("got %q, want it to name the catalog", err)
	}
	if _, err := Check(data); err == nil {
		t.Error("a directory without its catalog was checked")
	}
	// With the catalog back everything is as before.
	if err := os.Rename(kept, filepath.Join(data, "catalog")); err != nil {
		t.Fatal(err)
	}
	if after := listing(t, data); after != before {
		t.Errorf("got\n%s\nwant\n%s", after, before)
	}
	start(t, Config{Data: data})
}

// listing returns every file below a directory.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var names []string
	if err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		names = append(names, path)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return strings.Join(names, "\n")
}
