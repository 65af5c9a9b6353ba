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

// eachCrash calls story for every stride-th operation of the disk, which breaks there,
// until a story ends before that operation. The story returns whether the disk broke.
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

// broken returns the disk as it is after a crash at the moment when it begins to fail.
func broken(disk *storagetest.Disk, n int64) (after *storagetest.Disk, broke bool) {
	_, failed := disk.Operations()
	disk.Heal()
	return disk.Crash(float64(n%3)/2, uint64(n)), failed > 0
}

// closeClean closes the world that was opened on a disk after a crash at operation n. It
// verifies that no directory is left to remove, neither on the disk nor on the catalog's
// record, that the quarantine is empty, and that the disk has no problem.
func closeClean(t *testing.T, n int64, w *world, disk *storagetest.Disk) {
	t.Helper()
	if left := w.node.RemoveLeftovers(); left > 0 {
		t.Errorf("operation %d: %d directories are left", n, left)
	}
	if l := w.catalog.View().Leftovers(); len(l) > 0 {
		t.Errorf("operation %d: the catalog has %v on record", n, l)
	}
	if err := w.close(); err != nil {
		t.Error(err)
	}
	if q := quarantined(t, disk); len(q) > 0 {
		t.Errorf("operation %d: quarantine %q", n, q)
	}
	checkClean(t, disk)
}

// TestCrashDuringDrop crashes while a container or a database is dropped: it is
// complete or removed, and nothing else is affected.
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
				again.node.RemoveLeftovers()
				if _, found := again.catalog.View().ContainerByRID(c.RID); found {
					if err == nil {
						t.Errorf("operation %d: it was dropped and still exists", n)
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
					t.Errorf("operation %d: another container exists: %v", n, found)
				} else if found {
					for id := range resource.PartitionID(2) {
						if err := again.read(other, id, "x"); err != nil {
							t.Errorf("operation %d: another container: %v", n, err)
						}
					}
				}
				closeClean(t, n, again, after)
				return broke
			})
		})
	}
}

// splitAndLost returns a disk whose catalog is older than a split. The container's two
// documents are in the children.
func splitAndLost(t *testing.T) (*storagetest.Disk, *catalog.Container) {
	t.Helper()
	w, disk, c := begun(t)
	if _, err := w.node.Split(t.Context(), c.RID, 1, "\x28"); err != nil {
		t.Fatal(err)
	}
	rollBack(t, w, disk)
	return disk, c
}

// children returns the newest entry of the quarantine for each partition that it has.
func children(t *testing.T, disk *storagetest.Disk) (names []string) {
	t.Helper()
	newest := map[string]resource.PartitionID{}
	entries, err := cluster.ListQuarantine(disk.FS(), "data")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Partition == nil || e.Empty {
			continue
		}
		// The newest of each partition wins; within one second, the last one.
		names = slices.DeleteFunc(names, func(name string) bool { return newest[name] == e.Partition.Partition })
		names, newest[e.Name] = append(names, e.Name), e.Partition.Partition
	}
	return names
}

// twoDocuments verifies that both documents of begun exist, in three partitions.
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
	checkClean(t, disk)
}

// withPool calls do with a pool on a disk, closes the pool, and returns the error of do.
func withPool(disk *storagetest.Disk, do func(*storage.Pool) error) error {
	pool, err := storage.NewPool(storage.Options{FS: disk.FS()})
	if err != nil {
		return err
	}
	return errors.Join(do(pool), pool.Close())
}

// acceptBroken accepts the loss on a disk that will fail, so it ignores the error.
func acceptBroken(disk *storagetest.Disk, empty bool) {
	_ = withPool(disk, func(pool *storage.Pool) error {
		_, err := cluster.AcceptLoss(pool, "data", empty)
		return err
	})
}

// TestCrashDuringAcceptance crashes while a loss is accepted: nothing more is lost, the
// loss can be accepted again, and what was moved to the quarantine is complete.
func TestCrashDuringAcceptance(t *testing.T) {
	t.Parallel()
	disk, c := splitAndLost(t)
	eachCrash(t, 1, func(t *testing.T, n int64) bool {
		from := disk.Crash(1, 0)
		from.FailFrom(n)
		acceptBroken(from, false)
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

// TestCrashDuringStartEmpty crashes while a lost partition is replaced with an empty one:
// the partition is lost or replaced, and the others do not change. A second attempt
// completes the first, and nothing of the first is in the quarantine.
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
		acceptBroken(from, true)
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
		closeClean(t, n, again, after)
		return broke
	})
}

// removeDurably removes a directory so that it does not reappear after a crash.
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

// TestCrashDuringRestore crashes during a restore: each partition is in the quarantine or
// in its place, and the same restore completes it.
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
				// The disk has lost half of a rename: the partition is in both places.
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

// TestCrashDuringDeletion crashes while an entry of the quarantine is deleted: nothing else
// changes, and the entry can be deleted again.
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
				t.Errorf("operation %d: it was deleted and still exists", n)
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
