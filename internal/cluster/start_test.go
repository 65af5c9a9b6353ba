package cluster_test

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/storage/storagetest"
)

// copyTree replaces a directory of a disk with a copy of another.
func copyTree(t *testing.T, disk *storagetest.Disk, from, to string) {
	t.Helper()
	if err := disk.FS().RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if copied, err := vfs.Clone(disk.FS(), disk.FS(), from, to, vfs.CloneSync); err != nil || !copied {
		t.Fatalf("copy %s: %v, %v", from, copied, err)
	}
	parent, err := disk.FS().OpenDir(disk.FS().PathDir(to))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(parent.Sync(), parent.Close()); err != nil {
		t.Fatal(err)
	}
}

// files returns every file below a directory, with its size and a checksum.
func files(t *testing.T, fs vfs.FS, dir string) (all []string) {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	for _, name := range names {
		name = fs.PathJoin(dir, name)
		info, err := fs.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.IsDir() {
			all = append(all, files(t, fs, name)...)
			continue
		}
		f, err := fs.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(f)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%s %d %08x", name, info.Size(), crc32.ChecksumIEEE(content)))
	}
	return all
}

// refused opens a disk and requires an error that contains each text of want. The disk must
// not change, and a check must find a problem.
func refused(t *testing.T, disk *storagetest.Disk, want ...string) {
	t.Helper()
	const dir = "data"
	before := files(t, disk.FS(), dir)
	w, err := open(disk, 10)
	if err == nil {
		t.Errorf("the start succeeded, want it refused with %q", want)
		_ = w.close()
		return
	}
	for _, part := range want {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("refused with %q, want a text with %q", err, part)
		}
	}
	if after := files(t, disk.FS(), dir); !slices.Equal(before, after) {
		t.Errorf("the refused start changed the files to\n%q\nfrom\n%q", after, before)
	}
	if report := check(t, disk); report.Clean() {
		t.Error("the check finds nothing wrong")
	}
}

// accept accepts the loss on a disk.
func accept(t *testing.T, disk *storagetest.Disk) cluster.Acceptance {
	t.Helper()
	return acceptAll(t, disk, false)
}

// acceptAll is accept with the choice to replace lost partitions with empty ones.
func acceptAll(t *testing.T, disk *storagetest.Disk, empty bool) cluster.Acceptance {
	t.Helper()
	pool, err := storage.NewPool(storage.Options{FS: disk.FS()})
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := cluster.AcceptLoss(pool, "data", empty)
	if err := errors.Join(err, pool.Close()); err != nil {
		t.Fatal(err)
	}
	// The copy of a catalog that is older than its mark is not changed either.
	accepted.Kept = slices.DeleteFunc(accepted.Kept, func(name string) bool { return strings.HasSuffix(name, "-damaged") })
	return accepted
}

// restore restores entries of the quarantine.
func restore(t *testing.T, disk *storagetest.Disk, as string, names ...string) (string, error) {
	t.Helper()
	pool, err := storage.NewPool(storage.Options{FS: disk.FS()})
	if err != nil {
		t.Fatal(err)
	}
	done, err := cluster.Restore(pool, "data", names, as)
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	return done, err
}

// quarantined returns the names of the entries of the quarantine.
func quarantined(t *testing.T, disk *storagetest.Disk) (names []string) {
	t.Helper()
	entries, err := cluster.ListQuarantine(disk.FS(), "data")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return names
}

// begun returns a disk with container c of two partitions with one document each, and with
// a copy of its catalog in old.
func begun(t *testing.T) (*world, *storagetest.Disk, *catalog.Container) {
	t.Helper()
	disk := storagetest.NewCrashable()
	w, err := open(disk, 10)
	if err != nil {
		t.Fatal(err)
	}
	c, err := w.create("c", 2)
	if err != nil {
		t.Fatal(err)
	}
	for id := range resource.PartitionID(2) {
		if err := w.write(c, id, "x"); err != nil {
			t.Fatal(err)
		}
	}
	copyTree(t, disk, "data/catalog", "old")
	return w, disk, c
}

// rollBack closes a world and replaces its catalog with the old one.
func rollBack(t *testing.T, w *world, disk *storagetest.Disk) {
	t.Helper()
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	copyTree(t, disk, "old", "data/catalog")
}

// TestOlderCatalogIsRefused starts with a catalog that is older than the partitions, with
// the marks, without them and with damaged ones, after different changes. The start is
// refused and removes nothing.
func TestOlderCatalogIsRefused(t *testing.T) {
	t.Parallel()
	changes := map[string]func(t *testing.T, w *world, c *catalog.Container){
		"split": func(t *testing.T, w *world, c *catalog.Container) {
			if _, err := w.node.Split(t.Context(), c.RID, 1, "\x28"); err != nil {
				t.Fatal(err)
			}
		},
		"container": func(t *testing.T, w *world, _ *catalog.Container) {
			fresh, err := w.create("new", 2)
			if err != nil {
				t.Fatal(err)
			}
			if err := w.write(fresh, 0, "x"); err != nil {
				t.Fatal(err)
			}
		},
		"empty container": func(t *testing.T, w *world, _ *catalog.Container) {
			if _, err := w.create("new", 2); err != nil {
				t.Fatal(err)
			}
		},
		"merge": func(t *testing.T, w *world, c *catalog.Container) {
			if _, err := w.node.Merge(t.Context(), c.RID, 0, 1); err != nil {
				t.Fatal(err)
			}
		},
		"dropped, and another one written to": func(t *testing.T, w *world, c *catalog.Container) {
			fresh, err := w.create("new", 1)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.catalog.Commit(t.Context(), catalog.DeleteContainer{RID: c.RID}); err != nil {
				t.Fatal(err)
			}
			w.node.DropContainer(c.RID)
			if err := w.write(fresh, 0, "x"); err != nil {
				t.Fatal(err)
			}
		},
		"dropped": func(t *testing.T, w *world, c *catalog.Container) {
			if _, err := w.catalog.Commit(t.Context(), catalog.DeleteContainer{RID: c.RID}); err != nil {
				t.Fatal(err)
			}
			w.node.DropContainer(c.RID)
		},
	}
	for name, change := range changes {
		for _, marks := range []string{"whole", "missing", "damaged"} {
			t.Run(name+"/"+marks, func(t *testing.T) {
				t.Parallel()
				w, disk, c := begun(t)
				change(t, w, c)
				rollBack(t, w, disk)
				switch marks {
				case "missing":
					if err := disk.FS().Remove("data/marks"); err != nil {
						t.Fatal(err)
					}
				case "damaged":
					spoil(t, disk, "data/marks", 0, 1<<20)
				}
				if name == "dropped" && marks != "whole" {
					refused(t, disk, "data/p/") // Nothing else shows the drop.
					return
				}
				refused(t, disk, "catalog is older than", "nothing was changed")
			})
		}
	}
}

// spoil changes a byte of each record of a file between two offsets.
func spoil(t *testing.T, disk *storagetest.Disk, name string, from, to int) {
	t.Helper()
	content := contentOf(t, disk, name)
	for at := from; at < min(to, len(content)); at += cluster.MarkBytes {
		content[at+20] ^= 4
	}
	put(t, disk, name, content)
}

func contentOf(t *testing.T, disk *storagetest.Disk, name string) []byte {
	t.Helper()
	f, err := disk.FS().Open(name)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return content
}

func put(t *testing.T, disk *storagetest.Disk, name string, content []byte) {
	t.Helper()
	f, err := storage.CreateFile(disk.FS(), name)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(content)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestOlderPartitionIsRefused refuses a partition that is older than its mark: after a
// crash the whole start, after a clean stop only the partition. Accepting the loss reports
// what is lost.
func TestOlderPartitionIsRefused(t *testing.T) {
	t.Parallel()
	w, disk, c := begun(t)
	dir := fmt.Sprintf("data/p/%x/0", string(c.RID))
	w.node.WriteMarks()
	copyTree(t, disk, dir, "part")
	for i := range 5 {
		if err := w.write(c, 0, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	w.node.WriteMarks()
	crashed := disk.Crash(0, 1)
	if err := w.close(); err != nil {
		t.Fatal(err)
	}

	copyTree(t, crashed, "part", dir)
	refused(t, crashed, dir, `container "c"`, "LSN 2", "LSN 7 was acknowledged")
	a := accept(t, crashed)
	if len(a.Lost) == 0 || !strings.Contains(strings.Join(a.Lost, " "), "partition 0 of container 'c' in database 'd' has lost its changes 3 to 7;") {
		t.Errorf("lost %q", a.Lost)
	}
	after, err := open(crashed, 10)
	if err != nil {
		t.Fatal(err)
	}
	if err := after.read(c, 0, "x"); err != nil {
		t.Error(err)
	}
	if err := after.close(); err != nil {
		t.Fatal(err)
	}
	checkClean(t, crashed)

	copyTree(t, disk, dir, "part")
	if w, err = open(disk, 10); err != nil {
		t.Fatal(err)
	}
	if err := w.write(c, 0, "last"); err != nil {
		t.Fatal(err)
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	copyTree(t, disk, "part", dir)
	if w, err = open(disk, 10); err != nil {
		t.Fatal(err)
	}
	if err := w.read(c, 0, "x"); status.CodeOf(err) != status.CodeUnavailable {
		t.Errorf("an older partition: %v, want 503", err)
	}
	if err := w.read(c, 1, "x"); err != nil {
		t.Errorf("another partition: %v", err)
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
}

// TestMarksAreRewritten damages, truncates and removes parts of the marks. A start that has
// lost nothing serves; the marks are complete again, and a damaged file is kept.
func TestMarksAreRewritten(t *testing.T) {
	t.Parallel()
	w, disk, c := begun(t)
	w.node.WriteMarks()
	crashed := disk.Crash(0, 1)
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	size := len(contentOf(t, crashed, "data/marks"))
	for n := -1; n <= size; n += 60 {
		for _, cut := range []bool{false, true} {
			at := crashed.Crash(1, 1)
			content := contentOf(t, at, "data/marks")
			switch {
			case n < 0:
				if err := at.FS().Remove("data/marks"); err != nil {
					t.Fatal(err)
				}
			case cut:
				put(t, at, "data/marks", content[:min(n, size)])
			default:
				content[min(n, size-1)] ^= 1
				put(t, at, "data/marks", content)
			}
			w, err := open(at, 10)
			if err != nil {
				t.Fatalf("byte %d, cut %v: %v", n, cut, err)
			}
			for id := range resource.PartitionID(2) {
				if err := errors.Join(w.read(c, id, "x"), w.write(c, id, "y")); err != nil {
					t.Errorf("byte %d, cut %v: %v", n, cut, err)
				}
			}
			if err := w.close(); err != nil {
				t.Fatal(err)
			}
			if damaged, there, err := cluster.MarksIn(at.FS(), "data"); err != nil || damaged > 0 || !there {
				t.Errorf("byte %d, cut %v: %d records damaged, there %v, %v", n, cut, damaged, there, err)
			}
			whole := n < 0 || cut && n%cluster.MarkBytes == 0
			if kept := quarantined(t, at); (len(kept) == 0) != whole {
				t.Errorf("byte %d, cut %v: kept %q", n, cut, kept)
			}
			checkClean(t, at)
		}
	}
}

// TestStartOpensWhatWasNotClosed shows that a start opens no partition after a clean
// stop, and after a crash those that were written to.
func TestStartOpensWhatWasNotClosed(t *testing.T) {
	t.Parallel()
	w, disk, c := begun(t)
	crashed := disk.Crash(0, 1)
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	for want, d := range map[int]*storagetest.Disk{0: disk, 2: crashed} {
		w, err := open(d, 10)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.node.Open(); got != want {
			t.Errorf("%d partitions open, want %d", got, want)
		}
		if err := w.read(c, 1, "x"); err != nil {
			t.Error(err)
		}
		if err := w.close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFreshCatalogIsRefused does not create a new catalog in a data directory that had one.
func TestFreshCatalogIsRefused(t *testing.T) {
	t.Parallel()
	w, disk, c := begun(t)
	if err := cluster.AllowFresh(storagetest.NewCrashable().FS(), "data"); err != nil {
		t.Errorf("an empty directory: %v", err)
	}
	if _, err := w.catalog.Commit(t.Context(), catalog.DeleteContainer{RID: c.RID}); err != nil {
		t.Fatal(err)
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	if err := cluster.AllowFresh(disk.FS(), "data"); err == nil || !strings.Contains(err.Error(), "version 4") {
		t.Errorf("got %v, want the version named", err)
	}
}

// TestOlderPartitionsAreRefused starts with partitions that are older than the catalog,
// after different changes. The error says so and nothing is changed; only partitions that
// the catalog has dropped in between are moved to the quarantine.
func TestOlderPartitionsAreRefused(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"split":     "the partitions are older than the catalog",
		"merge":     "the partitions are older than the catalog",
		"container": "cannot be found",
		"written":   "LSN 3 was acknowledged",
		"dropped":   "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, disk, c := begun(t)
			if err := w.close(); err != nil {
				t.Fatal(err)
			}
			copyTree(t, disk, "data/p", "parts")
			w, err := open(disk, 10)
			if err != nil {
				t.Fatal(err)
			}
			switch name {
			case "split":
				_, err = w.node.Split(t.Context(), c.RID, 1, "\x28")
			case "merge":
				_, err = w.node.Merge(t.Context(), c.RID, 0, 1)
			case "container":
				_, err = w.create("new", 2)
			case "written":
				err = w.write(c, 0, "y")
			case "dropped":
				_, err = w.catalog.Commit(t.Context(), catalog.DeleteContainer{RID: c.RID})
				w.node.DropContainer(c.RID)
				w.node.RemoveLeftovers()
			}
			if err != nil {
				t.Fatal(err)
			}
			// After a crash, the start opens the partitions that were written to.
			w.node.WriteMarks()
			crashed := disk.Crash(1, 1)
			if err := w.close(); err != nil {
				t.Fatal(err)
			}
			copyTree(t, crashed, "parts", "data/p")
			if want != "" {
				refused(t, crashed, want)
				return
			}
			if w, err = open(crashed, 10); err != nil {
				t.Fatal(err)
			}
			if err := w.close(); err != nil {
				t.Fatal(err)
			}
			if got := quarantined(t, crashed); len(got) != 2 {
				t.Errorf("quarantine %q, want both partitions", got)
			}
		})
	}
}

// TestStartEmpty names a partition of which nothing is left, with the remedies. If the
// operator decides so, an empty partition replaces it: its LSNs are above every
// acknowledged one, the loss is on record, and what was left of the partition is kept.
func TestStartEmpty(t *testing.T) {
	t.Parallel()
	for _, harm := range []string{"missing", "unreadable"} {
		t.Run(harm, func(t *testing.T) {
			t.Parallel()
			w, disk, c := begun(t)
			if err := w.close(); err != nil {
				t.Fatal(err)
			}
			dir := fmt.Sprintf("data/p/%x/1", string(c.RID))
			if err := disk.FS().RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			if harm == "unreadable" {
				if err := disk.FS().MkdirAll(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				put(t, disk, dir+"/000002.log", []byte("something"))
			} else {
				refused(t, disk, dir, "nothing was changed")
			}
			a := accept(t, disk)
			if len(a.Remaining) != 1 || !strings.Contains(a.Remaining[0], dir) || !strings.Contains(a.Remaining[0], "--start-empty") || len(a.Lost) > 0 {
				t.Fatalf("accepted %+v", a)
			}
			a = acceptAll(t, disk, true)
			if len(a.Remaining) != 0 || len(a.Lost) != 1 || !strings.Contains(a.Lost[0], "All documents of partition 1 of container 'c' in database 'd'") || !strings.Contains(a.Lost[0], "partition 2") {
				t.Fatalf("accepted %+v", a)
			}
			if kept := len(a.Kept); (kept == 1) != (harm == "unreadable") {
				t.Errorf("kept %q", a.Kept)
			}
			w, err := open(disk, 10)
			if err != nil {
				t.Fatal(err)
			}
			if got := w.catalog.View().Losses(); len(got) != 1 || !slices.Equal(got[0].Lost, a.Lost) {
				t.Errorf("on record %+v", got)
			}
			again, _ := w.catalog.View().ContainerByRID(c.RID)
			p, named := again.Partition(2)
			if !named || !slices.Equal(p.Parents, []resource.PartitionID{1}) {
				t.Fatalf("partitions %+v", again.Partitions())
			}
			if n, err := w.count(again, 2); err != nil || n != 0 {
				t.Errorf("%d documents, %v", n, err)
			}
			if err := errors.Join(w.read(again, 0, "x"), w.write(again, 2, "new"), w.read(again, 2, "new")); err != nil {
				t.Error(err)
			}
			if err := w.read(again, 2, "x"); err == nil {
				t.Error("a lost document exists")
			}
			if err := w.close(); err != nil {
				t.Fatal(err)
			}
			report := check(t, disk)
			if !report.Clean() || len(report.Losses) != 1 {
				t.Errorf("problems %q, losses %v", report.Problems, report.Losses)
			}
			for _, p := range report.Partitions {
				if p.Partition == 2 && p.LSN <= 1<<20 {
					t.Errorf("partition 2 is at LSN %d", p.LSN)
				}
			}
			// A second acceptance loses and records nothing.
			if a = acceptAll(t, disk, true); len(a.Lost)+len(a.Remaining) != 0 {
				t.Errorf("accepted again: %+v", a)
			}
		})
	}
}
