package cluster_test

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/storage/storagetest"
)

// eachCrash calls story with every stride-th operation of the disk at which it may
// break, until the story ends before that. The story returns whether the disk broke.
func eachCrash(t *testing.T, stride int64, story func(t *testing.T, n int64) (broke bool)) {
	t.Helper()
	if raceDetector {
		stride = 7
	}
	for n := int64(1); story(t, n); n += stride {
		if t.Failed() {
			t.Fatalf("operation %d", n)
		}
	}
}

// broken returns the disk as a crash leaves it that came at the operation at which the
// disk began to fail.
func broken(disk *storagetest.Disk, n int64) (after *storagetest.Disk, broke bool) {
	_, failed := disk.Operations()
	disk.Heal()
	return disk.Crash(float64(n%3)/2, uint64(n)), failed > 0
}

// A crash at any moment of dropping a container or a database leaves it whole or gone,
// and takes nothing else along.
func TestCrashDuringDrop(t *testing.T) {
	t.Parallel()
	for _, database := range []bool{false, true} {
		t.Run(map[bool]string{false: "container", true: "database"}[database], func(t *testing.T) {
			t.Parallel()
			eachCrash(t, 1, func(t *testing.T, n int64) bool {
				w, disk, c := begun(t)
				other, err := w.create("other", 2)
				if err != nil {
					t.Fatal(err)
				}
				for id := range resource.PartitionID(2) {
					if err := w.write(other, id, "x"); err != nil {
						t.Fatal(err)
					}
				}
				disk.FailFrom(n)
				if database {
					if _, err = w.catalog.Commit(t.Context(), catalog.DeleteDatabase{RID: c.Database.RID}); err == nil {
						w.node.DropDatabase(c.Database.RID)
					}
				} else if _, err = w.catalog.Commit(t.Context(), catalog.DeleteContainer{RID: c.RID}); err == nil {
					w.node.DropContainer(c.RID)
				}
				w.node.RemoveLeftovers()
				after, broke := broken(disk, n)
				_ = w.close()

				again, openErr := open(after, 10)
				if openErr != nil {
					t.Errorf("operation %d: %v", n, openErr)
					return false
				}
				if left := again.node.RemoveLeftovers(); left > 0 {
					t.Errorf("operation %d: %d directories are left", n, left)
				}
				if _, found := again.catalog.View().ContainerByRID(c.RID); found {
					if err == nil {
						t.Errorf("operation %d: it was dropped and is there", n)
					}
					for id := range resource.PartitionID(2) {
						if err := again.read(c, id, "x"); err != nil {
							t.Errorf("operation %d: %v", n, err)
						}
					}
				} else if _, err := after.FS().Stat(fmt.Sprintf("data/p/%x", string(c.RID))); err == nil {
					t.Errorf("operation %d: its directory is left", n)
				}
				if _, found := again.catalog.View().ContainerByRID(other.RID); found != (!database || err != nil) && err == nil {
					t.Errorf("operation %d: another container is there: %v", n, found)
				} else if found {
					for id := range resource.PartitionID(2) {
						if err := again.read(other, id, "x"); err != nil {
							t.Errorf("operation %d: another container: %v", n, err)
						}
					}
				}
				if l := again.catalog.View().Leftovers(); len(l) > 0 {
					t.Errorf("operation %d: the catalog has %v on record", n, l)
				}
				if err := again.close(); err != nil {
					t.Error(err)
				}
				if q := quarantined(t, after); len(q) > 0 {
					t.Errorf("operation %d: quarantine %q", n, q)
				}
				clean2(t, after)
				return broke
			})
		})
	}
}

// splitAndLost is a disk whose catalog is older than a split, with its two documents in
// the children.
func splitAndLost(t *testing.T) (*storagetest.Disk, *catalog.Container) {
	t.Helper()
	w, disk, c := begun(t)
	if _, err := w.node.Split(t.Context(), c.RID, 1, "\x28"); err != nil {
		t.Fatal(err)
	}
	rollBack(t, w, disk)
	return disk, c
}

// children returns the entries of the quarantine that hold partitions, the newest of
// each.
func children(t *testing.T, disk *storagetest.Disk) (names []string) {
	t.Helper()
	newest := map[string]resource.PartitionID{}
	entries, err := cluster.ListQuarantine(disk.FS(), "data")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Says == nil || e.Empty {
			continue
		}
		// The newest of each, and of those of one second the last one.
		names = slices.DeleteFunc(names, func(name string) bool { return newest[name] == e.Says.Partition })
		names, newest[e.Name] = append(names, e.Name), e.Says.Partition
	}
	return names
}

// twoDocuments verifies that both documents of begun are there, in three partitions.
func twoDocuments(t *testing.T, disk *storagetest.Disk, c *catalog.Container) {
	t.Helper()
	w, err := open(disk, 10)
	if err != nil {
		t.Error(err)
		return
	}
	again, _ := w.catalog.View().ContainerByRID(c.RID)
	documents := int64(0)
	for _, p := range again.Partitions() {
		n, err := w.count(again, p.ID)
		if err != nil {
			t.Error(err)
		}
		documents += n
	}
	if documents != 2 || again.Ranges.Len() != 3 {
		t.Errorf("%d documents in %d partitions, want 2 in 3", documents, again.Ranges.Len())
	}
	if err := w.close(); err != nil {
		t.Error(err)
	}
	clean2(t, disk)
}

// withPool calls do with a pool of a disk, and returns its error; the pool is closed.
func withPool(disk *storagetest.Disk, do func(*storage.Pool) error) error {
	pool, err := storage.NewPool(storage.Options{FS: disk.FS()})
	if err != nil {
		return err
	}
	return errors.Join(do(pool), pool.Close())
}

// A crash at any moment of accepting a loss loses nothing more: it is accepted again,
// and what was moved to the quarantine comes back whole.
func TestCrashDuringAcceptance(t *testing.T) {
	t.Parallel()
	disk, c := splitAndLost(t)
	eachCrash(t, 1, func(t *testing.T, n int64) bool {
		from := disk.Crash(1, 0)
		from.FailFrom(n)
		_ = withPool(from, func(pool *storage.Pool) error {
			_, err := cluster.AcceptLoss(pool, "data", false)
			return err
		})
		after, broke := broken(from, n)
		accept(t, after)
		names := children(t, after)
		if len(names) != 2 {
			t.Errorf("operation %d: quarantine %q, want both children", n, names)
			return false
		}
		if _, err := restore(t, after, "", names...); err != nil {
			t.Errorf("operation %d: %v", n, err)
		}
		twoDocuments(t, after, c)
		return broke
	})
}

// A crash at any moment of letting a partition begin empty leaves it lost or replaced,
// and the others as they are. The second attempt ends what the first began, and nothing
// of that comes to the quarantine.
func TestCrashDuringStartEmpty(t *testing.T) {
	t.Parallel()
	w, disk, c := begun(t)
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	removeDurably(t, disk, fmt.Sprintf("data/p/%x/1", string(c.RID)))
	eachCrash(t, 1, func(t *testing.T, n int64) bool {
		from := disk.Crash(1, 0)
		from.FailFrom(n)
		_ = withPool(from, func(pool *storage.Pool) error {
			_, err := cluster.AcceptLoss(pool, "data", true)
			return err
		})
		after, broke := broken(from, n)
		if a := acceptAll(t, after, true); len(a.Remaining) > 0 {
			t.Errorf("operation %d: %+v", n, a)
		}
		again, err := open(after, 10)
		if err != nil {
			t.Errorf("operation %d: %v", n, err)
			return false
		}
		found, _ := again.catalog.View().ContainerByRID(c.RID)
		if err := errors.Join(again.read(found, 0, "x"), again.write(found, 2, "y")); err != nil || found.Ranges.Len() != 2 {
			t.Errorf("operation %d: %d partitions, %v", n, found.Ranges.Len(), err)
		}
		if len(again.catalog.View().Losses()) == 0 {
			t.Errorf("operation %d: nothing is on record", n)
		}
		if left := again.node.RemoveLeftovers(); left > 0 {
			t.Errorf("operation %d: %d directories are left", n, left)
		}
		if err := again.close(); err != nil {
			t.Error(err)
		}
		if q := quarantined(t, after); len(q) > 0 {
			t.Errorf("operation %d: quarantine %q", n, q)
		}
		clean2(t, after)
		return broke
	})
}

// removeDurably removes a directory so that a crash does not bring it back.
func removeDurably(t *testing.T, disk *storagetest.Disk, dir string) {
	t.Helper()
	if err := disk.FS().RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	parent, err := disk.FS().OpenDir(disk.FS().PathDir(dir))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(parent.Sync(), parent.Close()); err != nil {
		t.Fatal(err)
	}
}

// A crash at any moment of a restore leaves the partitions in the quarantine or back in
// their place, and the same restore finishes what is left.
func TestCrashDuringRestore(t *testing.T) {
	t.Parallel()
	disk, c := splitAndLost(t)
	accept(t, disk)
	names := children(t, disk)
	eachCrash(t, 3, func(t *testing.T, n int64) bool {
		from := disk.Crash(1, 0)
		from.FailFrom(n)
		err := withPool(from, func(pool *storage.Pool) error {
			_, err := cluster.Restore(pool, "data", names, "")
			return err
		})
		after, broke := broken(from, n)
		if err == nil {
			if broke {
				t.Errorf("operation %d: restored on a broken disk", n)
			}
			twoDocuments(t, after, c)
			return broke
		}
		left := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !slices.Contains(quarantined(t, after), name) })
		if len(left) > 0 {
			_, err := restore(t, after, "", left...)
			if errors.Is(err, fs.ErrExist) {
				// The disk has forgotten a half of a rename: it is in both places.
				accept(t, after)
				left = children(t, after)
				_, err = restore(t, after, "", left...)
			}
			if err != nil {
				t.Errorf("operation %d: again with %q: %v", n, left, err)
			}
		}
		twoDocuments(t, after, c)
		return broke
	})
}

// A crash at any moment of deleting an entry of the quarantine leaves everything else,
// and the entry can be deleted again.
func TestCrashDuringDeletion(t *testing.T) {
	t.Parallel()
	disk, c := splitAndLost(t)
	dir := fmt.Sprintf("data/p/%x/unknown", string(c.RID))
	if err := disk.FS().MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, disk, dir+"/file", []byte("something"))
	accept(t, disk)
	names := children(t, disk)
	eachCrash(t, 1, func(t *testing.T, n int64) bool {
		from := disk.Crash(1, 0)
		gone, err := cluster.ListQuarantine(from.FS(), "data")
		if err != nil {
			t.Fatal(err)
		}
		entry := gone[slices.IndexFunc(gone, func(q cluster.Quarantined) bool { return strings.HasSuffix(q.Name, "-unknown") })].Name
		from.FailFrom(n)
		err = cluster.DeleteQuarantined(from.FS(), "data", entry)
		after, broke := broken(from, n)
		if slices.Contains(quarantined(t, after), entry) {
			if err == nil {
				t.Errorf("operation %d: it was deleted and is there", n)
			}
			if err := cluster.DeleteQuarantined(after.FS(), "data", entry); err != nil {
				t.Errorf("operation %d: again: %v", n, err)
			}
		}
		if got := quarantined(t, after); len(got) != len(gone)-1 {
			t.Errorf("operation %d: quarantine %q", n, got)
		}
		if _, err := restore(t, after, "", names...); err != nil {
			t.Errorf("operation %d: %v", n, err)
		}
		twoDocuments(t, after, c)
		return broke
	})
}
