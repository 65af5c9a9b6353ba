package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage/storagetest"
)

// TestOpensLazily shows that partitions are opened at their first use, and that the idle
// ones that were used longest ago are closed beyond MaxOpen, without a loss.
func TestOpensLazily(t *testing.T) {
	t.Parallel()
	w, _ := start(t, 3)
	c, err := w.create("c", 8)
	if err != nil {
		t.Fatal(err)
	}
	if got := w.node.Open(); got != 0 {
		t.Errorf("%d partitions open after creation, want 0", got)
	}
	for round := range 3 {
		for id := range resource.PartitionID(8) {
			if err := w.write(c, id, fmt.Sprint(round)); err != nil {
				t.Fatal(err)
			}
			if got := w.node.Open(); got > 3 {
				t.Fatalf("%d partitions open, want at most 3", got)
			}
		}
	}
	for id := range resource.PartitionID(8) {
		if got, err := w.count(c, id); err != nil || got != 3 {
			t.Errorf("partition %s: %d documents (%v), want 3", id, got, err)
		}
	}
	// The partition that was used last is still open.
	if _, open := w.node.LSN(c, 7); !open {
		t.Error("partition 7 is closed")
	}
	if _, open := w.node.LSN(c, 0); open {
		t.Error("partition 0 is open")
	}
}

// TestHeldStaysOpen shows that partitions in use are not closed, even beyond MaxOpen.
func TestHeldStaysOpen(t *testing.T) {
	t.Parallel()
	w, _ := start(t, 1)
	c, err := w.create("c", 4)
	if err != nil {
		t.Fatal(err)
	}
	var releases []func()
	for id := range resource.PartitionID(4) {
		_, release, err := w.node.Replica(context.Background(), c, id)
		if err != nil {
			t.Fatal(err)
		}
		releases = append(releases, release)
	}
	if got := w.node.Open(); got != 4 {
		t.Errorf("%d open, want the 4 in use", got)
	}
	for _, release := range releases {
		release()
	}
	if _, err := w.count(c, 0); err != nil {
		t.Fatal(err)
	}
}

// TestConcurrentUse uses more partitions than may be open from many goroutines, while
// containers are created and dropped.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	w, _ := start(t, 3)
	c, err := w.create("c", 8)
	if err != nil {
		t.Fatal(err)
	}
	var users sync.WaitGroup
	for g := range 8 {
		users.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 0))
			for i := range 30 {
				if err := w.write(c, resource.PartitionID(random.IntN(8)), fmt.Sprintf("%d-%d", g, i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for g := range 2 {
		users.Go(func() {
			for i := range 5 {
				other, err := w.create(fmt.Sprintf("c%d-%d", g, i), 2)
				if err != nil {
					t.Error(err)
					return
				}
				if err := w.write(other, 1, "x"); err != nil {
					t.Error(err)
				}
				if _, err := w.catalog.Commit(context.Background(), catalog.DeleteContainer{RID: other.RID}); err != nil {
					t.Error(err)
				}
				w.node.DropContainer(other.RID)
				if err := w.write(other, 1, "y"); status.CodeOf(err) != status.CodeGone {
					t.Errorf("write to a dropped container: %v", err)
				}
			}
		})
	}
	users.Wait()
	total := int64(0)
	for id := range resource.PartitionID(8) {
		n, err := w.count(c, id)
		if err != nil {
			t.Fatal(err)
		}
		total += n
	}
	if total != 240 {
		t.Errorf("%d documents, want 240", total)
	}
}

// TestClosedUnderLoad has hardly any partition open at a time, so that they are closed
// and opened continuously while documents are written and read and the indexing policy
// changes. No call fails, and every invariant holds afterwards.
func TestClosedUnderLoad(t *testing.T) {
	t.Parallel()
	const partitions = 6
	disk := storagetest.NewCrashable()
	w, err := open(disk, 2)
	if err != nil {
		t.Fatal(err)
	}
	c, err := w.create("c", partitions)
	if err != nil {
		t.Fatal(err)
	}
	var users sync.WaitGroup
	for g := range 6 {
		users.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 1))
			for i := range 40 {
				p, id := resource.PartitionID(random.IntN(partitions)), fmt.Sprintf("%d-%d", g, i)
				if err := errors.Join(w.write(c, p, id), w.read(c, p, id)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	policies := []resource.IndexingPolicy{resource.DefaultIndexing(), resource.DefaultIndexing()}
	policies[1].Excluded = []string{"/id/?"}
	users.Go(func() {
		for i := range 20 {
			changed := c.Container
			changed.Indexing = policies[(i+1)%2]
			view, err := w.catalog.Commit(context.Background(), catalog.ReplaceContainer{Container: changed})
			if err != nil {
				t.Error(err)
				return
			}
			fresh, _ := view.ContainerByRID(c.RID)
			w.node.Reindex(fresh)
			w.node.IndexProgress(context.Background(), fresh)
			w.node.LSN(fresh, resource.PartitionID(i%partitions))
		}
	})
	users.Wait()
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	report := check(t, disk)
	total := int64(0)
	for _, p := range report.Partitions {
		total += p.Documents
	}
	if !report.Clean() || total != 240 {
		t.Errorf("%d documents, want 240: %+v", total, report)
	}
}

// TestDropWaitsForHolders removes a dropped container when its last holder has left, and
// not before.
func TestDropWaitsForHolders(t *testing.T) {
	t.Parallel()
	w, disk := start(t, 10)
	c, err := w.create("c", 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.write(c, 0, "1"); err != nil {
		t.Fatal(err)
	}
	dir := fmt.Sprintf("data/p/%x", string(c.RID))
	replica, release, err := w.node.Replica(context.Background(), c, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.catalog.Commit(context.Background(), catalog.DeleteContainer{RID: c.RID}); err != nil {
		t.Fatal(err)
	}
	w.node.DropContainer(c.RID)
	if got := replica.Stats().Documents; got != 1 {
		t.Errorf("the holder sees %d documents, want 1", got)
	}
	if _, _, err := w.node.Replica(context.Background(), c, 0); status.CodeOf(err) != status.CodeGone {
		t.Errorf("a new call: got %v, want 410", err)
	}
	if _, err := disk.FS().Stat(dir + "/0"); err != nil {
		t.Errorf("the directory in use was removed: %v", err)
	}
	if _, err := disk.FS().Stat(dir + "/1"); err == nil {
		t.Error("the unused directory still exists")
	}
	release()
	awaitGone(t, disk.FS(), dir)
	if got := w.node.Open(); got != 0 {
		t.Errorf("%d partitions open, want 0", got)
	}
}

// nothingLeft verifies that the maintenance removes what a crash left below p and in
// the catalog's record, and that nothing was moved to the quarantine.
func nothingLeft(t *testing.T, w *world, disk *storagetest.Disk) {
	t.Helper()
	if left := w.node.RemoveLeftovers(); left > 0 {
		t.Errorf("%d directories are left", left)
	}
	if names, err := disk.FS().List("data/p"); err == nil && len(names) > 0 {
		t.Errorf("%v is left", names)
	}
	if l := w.catalog.View().Leftovers(); len(l) > 0 {
		t.Errorf("the catalog has %v on record", l)
	}
	if entries, err := cluster.ListQuarantine(disk.FS(), "data"); err != nil || len(entries) > 0 {
		t.Errorf("quarantine: %+v, %v", entries, err)
	}
}

// TestCrashDuringCreation crashes at each operation of a creation: the container exists
// completely or not at all, and no unnamed directory is left.
func TestCrashDuringCreation(t *testing.T) {
	t.Parallel()
	stride := int64(1)
	if raceDetector {
		stride = 5
	}
	for n := int64(1); ; n += stride {
		disk := storagetest.NewCrashable()
		w, err := open(disk, 10)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.prepare("before"); err != nil { // database d exists
			t.Fatal(err)
		}
		disk.FailFrom(n)
		_, createErr := w.create("c", 3)
		_, failed := disk.Operations()
		_ = w.close() // The disk is broken, so errors are expected.
		disk.Heal()

		after := disk.Crash(float64(n%3)/2, uint64(n))
		w, err = open(after, 10)
		if err != nil {
			t.Fatalf("operation %d: open after the crash: %v", n, err)
		}
		c, found := w.catalog.View().Container("d", "c")
		if createErr == nil && !found {
			t.Fatalf("operation %d: the container was acknowledged and is missing", n)
		}
		if found {
			for id := range resource.PartitionID(3) {
				if err := w.write(c, id, "x"); err != nil {
					t.Errorf("operation %d: %v", n, err)
				}
			}
		} else {
			nothingLeft(t, w, after)
		}
		// A second attempt can create it.
		if !found {
			if _, err := w.create("c", 3); err != nil {
				t.Errorf("operation %d: create again: %v", n, err)
			}
		}
		if err := w.close(); err != nil {
			t.Fatal(err)
		}
		if failed == 0 {
			if n < 30 {
				t.Fatalf("only %d operations", n)
			}
			return
		}
	}
}

// TestFailedCreationIsUndone removes everything after a creation that fails or whose
// context ends.
func TestFailedCreationIsUndone(t *testing.T) {
	t.Parallel()
	// The catalog has stored the plan before operation 40. Stores also work in the
	// background, so an operation may be one that the creation does not need.
	n := int64(40)
	for !failedCreationIsUndone(t, n) {
		if n++; n == 60 {
			t.Fatal("no failing operation made the creation fail")
		}
	}
}

// failedCreationIsUndone reports whether operation n was one that the creation needs.
func failedCreationIsUndone(t *testing.T, n int64) bool {
	w, disk := start(t, 10)
	c, err := w.prepare("c")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := w.node.CreatePartitions(ctx, c, tile(c.PartitionKey, 3)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	disk.FailAt(n)
	err = w.node.CreatePartitions(context.Background(), c, tile(c.PartitionKey, 3))
	if err == nil {
		return false
	}
	if !errors.Is(err, storagetest.ErrInjected) || status.CodeOf(err) != status.CodeUnavailable {
		t.Errorf("got %v, want 503 for the injected error", err)
	}
	disk.Heal()
	disk.Fill()
	if err := w.node.CreatePartitions(context.Background(), c, tile(c.PartitionKey, 3)); status.CodeOf(err) != status.CodeUnavailable || !strings.Contains(status.From(err).Message, "the disk is full") {
		t.Errorf("got %v, want 503 that names the full disk", err)
	}
	disk.Heal()
	if names, err := disk.FS().List("data/p"); err == nil && len(names) > 0 {
		t.Errorf("%v is left", names)
	}
	if err := w.node.CreatePartitions(context.Background(), c, tile(c.PartitionKey, 3)); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	return true
}

// TestStartCompares starts a node on a disk with unnamed directories, which it moves to
// the quarantine, and without a directory that the catalog names, which is an error.
func TestStartCompares(t *testing.T) {
	t.Parallel()
	disk := storagetest.NewCrashable()
	w, err := open(disk, 10)
	if err != nil {
		t.Fatal(err)
	}
	c, err := w.create("c", 2)
	if err != nil {
		t.Fatal(err)
	}
	dir := fmt.Sprintf("data/p/%x", string(c.RID))
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	for _, garbage := range []string{dir + "/7", dir + "/00", dir + "/x", "data/p/ff00", "data/p/README"} {
		if err := disk.FS().MkdirAll(garbage+"/inside", 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if w, err = open(disk, 10); err != nil {
		t.Fatal(err)
	}
	if names, _ := disk.FS().List("data/p"); len(names) != 1 {
		t.Errorf("below p: %v", names)
	}
	if names, _ := disk.FS().List(dir); len(names) != 2 {
		t.Errorf("of the container: %v", names)
	}
	entries, err := cluster.ListQuarantine(disk.FS(), "data")
	if err != nil || len(entries) != 5 {
		t.Fatalf("quarantine: %+v, %v", entries, err)
	}
	for _, e := range entries {
		if _, err := disk.FS().Stat("data/quarantine/" + e.Name + "/content/inside"); err != nil || e.Unreadable != "it is not a store" || !strings.HasPrefix(e.From, "p/") || e.Catalog == 0 {
			t.Errorf("entry %+v: %v", e, err)
		}
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	if err := disk.FS().RemoveAll(dir + "/1"); err != nil {
		t.Fatal(err)
	}
	_, err = open(disk, 10)
	if err == nil || !strings.Contains(err.Error(), dir+"/1") || !strings.Contains(err.Error(), "partition 1") {
		t.Errorf("got %v, want the missing directory named", err)
	}
}

// TestStartWithForeignCatalog starts a node with a catalog that never had a commit. The
// partitions then belong to another catalog, and nothing is deleted.
func TestStartWithForeignCatalog(t *testing.T) {
	t.Parallel()
	disk := storagetest.NewCrashable()
	w, err := open(disk, 10)
	if err != nil {
		t.Fatal(err)
	}
	c, err := w.create("c", 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	if err := disk.FS().RemoveAll("data/catalog"); err != nil {
		t.Fatal(err)
	}
	dir := fmt.Sprintf("data/p/%x", string(c.RID))
	if _, err := open(disk, 10); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v, want the directory named", err)
	}
	if names, err := disk.FS().List(dir); err != nil || len(names) != 2 {
		t.Errorf("left of the container: %v %v", names, err)
	}
}

// TestDamagedPartition returns 503 for a partition that cannot be opened, and serves the
// others.
func TestDamagedPartition(t *testing.T) {
	t.Parallel()
	w, disk := start(t, 1)
	c, err := w.create("c", 3)
	if err != nil {
		t.Fatal(err)
	}
	if err := disk.FS().Remove(fmt.Sprintf("data/p/%x/1/FORMAT", string(c.RID))); err != nil {
		names, _ := disk.FS().List(fmt.Sprintf("data/p/%x/1", string(c.RID)))
		t.Fatalf("%v: %v", err, names)
	}
	if err := w.write(c, 1, "x"); status.CodeOf(err) != status.CodeUnavailable {
		t.Errorf("damaged: got %v, want 503", err)
	}
	for _, id := range []resource.PartitionID{0, 2} {
		if err := w.write(c, id, "x"); err != nil {
			t.Errorf("partition %s: %v", id, err)
		}
	}
}

// TestFullDisk returns errors for writes on a full disk and names the reason, while
// other partitions are read. After a restart with free space, every acknowledged write
// is present.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := storagetest.NewCrashable()
	w, err := open(disk, 10)
	if err != nil {
		t.Fatal(err)
	}
	c, err := w.create("c", 3)
	if err != nil {
		t.Fatal(err)
	}
	for id := range resource.PartitionID(2) {
		if err := w.write(c, id, "x"); err != nil {
			t.Fatal(err)
		}
	}
	disk.Fill()
	if err := w.write(c, 0, "lost"); status.CodeOf(err) != status.CodeUnavailable {
		t.Errorf("write: got %v, want 503", err)
	}
	for id, want := range map[resource.PartitionID]status.Code{0: status.CodeUnavailable, 2: status.CodeInsufficientStorage} { // stopped; opened for reading
		if err := w.write(c, id, "refused"); status.CodeOf(err) != want || !strings.Contains(strings.ToLower(status.From(err).Message), "the disk is full") {
			t.Errorf("write to partition %s: got %v, want %d that names the full disk", id, err, want)
		}
	}
	if unwell := w.node.Unwell(); len(unwell) != 2 || unwell[0].Ailment != cluster.AilmentFailed || unwell[1].Ailment != cluster.AilmentReading {
		t.Errorf("unwell partitions: %+v", unwell)
	}
	if n, err := w.count(c, 1); err != nil || n != 1 {
		t.Errorf("another partition: %d documents, %v", n, err)
	}
	_ = w.close() // The error is that the disk is full.
	disk.Heal()
	if w, err = open(disk, 10); err != nil {
		t.Fatal(err)
	}
	for id, want := range []int64{1, 1, 0} {
		if n, err := w.count(c, resource.PartitionID(id)); err != nil || n != want {
			t.Errorf("partition %d: %d documents, %v, want %d", id, n, err, want)
		}
	}
	if err := w.close(); err != nil {
		t.Error(err)
	}
}

// TestClosed shows that a closed node refuses calls.
func TestClosed(t *testing.T) {
	t.Parallel()
	disk := storagetest.NewCrashable()
	w, err := open(disk, 10)
	if err != nil {
		t.Fatal(err)
	}
	c, err := w.create("c", 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.write(c, 0, "x"); err != nil {
		t.Fatal(err)
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.node.Replica(context.Background(), c, 0); status.CodeOf(err) != status.CodeUnavailable {
		t.Errorf("got %v, want 503", err)
	}
}

// TestCheck verifies that Check accepts a valid directory and names what is wrong.
func TestCheck(t *testing.T) {
	t.Parallel()
	disk := storagetest.NewCrashable()
	w, err := open(disk, 10)
	if err != nil {
		t.Fatal(err)
	}
	c, err := w.create("c", 3)
	if err != nil {
		t.Fatal(err)
	}
	for id := range resource.PartitionID(3) {
		if err := w.write(c, id, "x"); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	sound := check(t, disk)
	if !sound.Clean() || len(sound.Leftovers) != 0 || len(sound.Partitions) != 3 || sound.Databases != 1 || sound.Partitions[0].Documents != 1 || sound.Partitions[0].Container != "c" {
		t.Errorf("sound directory: %+v", sound)
	}
	dir := fmt.Sprintf("data/p/%x", string(c.RID))
	if err := errors.Join(disk.FS().MkdirAll(dir+"/9", 0o700), disk.FS().RemoveAll(dir+"/2")); err != nil {
		t.Fatal(err)
	}
	damaged := check(t, disk)
	if damaged.Clean() || len(damaged.Problems) != 1 || len(damaged.Leftovers) != 0 || len(damaged.Unnamed) != 1 || len(damaged.Partitions) != 2 {
		t.Fatalf("damaged directory: %+v", damaged)
	}
	if !strings.Contains(damaged.Problems[0], "Partition 2") {
		t.Errorf("problem %q does not name the missing partition", damaged.Problems[0])
	}
	if !strings.HasSuffix(damaged.Unnamed[0], dir+"/9") {
		t.Errorf("%q does not name the foreign directory", damaged.Unnamed[0])
	}
}

// TestManyEmptyContainers shows that unused containers have no open partition and no
// goroutine.
func TestManyEmptyContainers(t *testing.T) {
	t.Parallel()
	w, _ := start(t, 1000)
	for i := range 50 {
		if _, err := w.create(fmt.Sprint(i), 1); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.node.Open(); got != 0 {
		t.Errorf("%d partitions open", got)
	}
}
