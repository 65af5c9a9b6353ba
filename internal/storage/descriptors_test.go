package storage_test

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/storage/storagetest"
)

// When all descriptors are in use, open stores continue: they begin logs, flush and
// begin manifests with the reserve of the pool. Operations that need other descriptors
// are refused and can be repeated later.
func TestDescriptorsUsedUp(t *testing.T) {
	t.Parallel()
	for _, first := range []int{0, 1, 16, 17, 30} {
		t.Run(fmt.Sprintf("after %d rows", first), func(t *testing.T) {
			t.Parallel()
			disk := storagetest.NewCrashable()
			p := smallPool(t, disk)
			stores := map[string]*storage.Store{}
			for _, dir := range []string{"d/one", "d/other"} {
				s, err := p.Create(dir)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := story(s, first); err != nil {
					t.Fatal(err)
				}
				stores[dir] = s
			}
			disk.Exhaust()
			if err := p.CanOpen(1); !errors.Is(err, syscall.EMFILE) {
				t.Errorf("CanOpen: %v, want EMFILE", err)
			}
			for dir, s := range stores {
				if n, err := story(s, 60); err != nil || s.Err() != nil {
					t.Fatalf("%s, row %d: %v", dir, n, err)
				}
				if err := s.Checkpoint(dir + "-copy"); !errors.Is(err, syscall.EMFILE) || s.Err() != nil {
					t.Errorf("Checkpoint: %v, want EMFILE", err)
				}
			}
			if _, err := p.Create("d/third"); !errors.Is(err, syscall.EMFILE) {
				t.Errorf("Create: %v, want EMFILE", err)
			}
			disk.Heal()
			if err := p.CanOpen(100); err != nil {
				t.Errorf("CanOpen afterwards: %v", err)
			}
			for dir, s := range stores {
				// The first attempt could not remove what it had begun.
				if err := errors.Join(p.Remove(dir+"-copy"), s.Checkpoint(dir+"-copy")); err != nil {
					t.Errorf("Checkpoint afterwards: %v", err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			if n := disk.Open(); n != 0 {
				t.Errorf("%d files are open at the end", n)
			}
			for dir := range stores {
				for _, found := range []string{dir, dir + "-copy"} {
					if err := judge(disk, found, 60); err != nil {
						t.Errorf("%s: %v", found, err)
					}
				}
			}
		})
	}
}

// A removal that fails removes as much as it can and returns the error. Another call
// removes the rest.
func TestRemoveResumes(t *testing.T) {
	t.Parallel()
	disk := storagetest.NewCrashable()
	failing := false
	files := errorfs.Wrap(disk.FS(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if failing && op.Kind == errorfs.OpOpenDir {
			return storagetest.ErrInjected
		}
		return nil
	}))
	p, err := storage.NewPool(storage.Options{FS: files})
	if err != nil {
		t.Fatal(err)
	}
	build := func() {
		t.Helper()
		if err := p.Build("d/s", func(*storage.Store) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	gone := func() bool {
		_, err := disk.FS().Stat("d/s")
		return errors.Is(err, fs.ErrNotExist)
	}
	build()
	failing = true
	if err := p.Remove("d/s"); !errors.Is(err, storagetest.ErrInjected) {
		t.Errorf("directories cannot be synced: %v, want the error of the sync", err)
	}
	if !gone() {
		t.Error("directories cannot be synced: the store is left")
	}
	failing = false
	build()
	disk.Exhaust()
	if err := p.Remove("d/s"); !errors.Is(err, syscall.EMFILE) || gone() {
		t.Errorf("no descriptors: %v, removed: %v, want EMFILE", err, gone())
	}
	disk.Heal()
	if err := p.Remove("d/s"); err != nil || !gone() {
		t.Errorf("afterwards: %v, removed: %v", err, gone())
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}
