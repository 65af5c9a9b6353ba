package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage/storagetest"
	"github.com/decandb/decan/internal/value"
)

// register is a document that one goroutine writes in steps. It knows which step is
// certainly stored, and which one may be.
type register struct {
	i                  int
	certain, attempted atomic.Int64
}

func (r *register) step(c client) error {
	n := r.attempted.Add(1)
	_, err := c.write(partition.Upsert, item(r.i, int(n)), "")
	if err == nil {
		r.certain.Store(n)
	}
	return err
}

// verify checks that the register is at a step from low to high.
func (r *register) verify(c client, low, high int64) error {
	body, _, err := c.read(item(r.i, 0))
	if err != nil || body == nil {
		if low == 0 && err == nil {
			return nil
		}
		return fmt.Errorf("document %d, step %d or later, is %q: %w", r.i, low, body, err)
	}
	doc, err := value.Parse(body)
	if err != nil {
		return err
	}
	if n, _ := doc.Get("v").Int64(); n < low || n > high {
		return fmt.Errorf("document %d is at step %d, want %d to %d", r.i, n, low, high)
	}
	return nil
}

// moment has the certain writes at a moment, and the possible states of the disk after
// a crash at that moment.
type moment struct {
	low, high []int64
	disks     []*storagetest.Disk
	at        string
}

var keptParts = []float64{0, 0.5, 1}

// take copies the disk after noting which writes are certain and before noting which
// were attempted.
func take(disk *storagetest.Disk, registers []*register, at string) moment {
	m := moment{at: at}
	for _, r := range registers {
		m.low = append(m.low, r.certain.Load())
	}
	for i, kept := range keptParts {
		m.disks = append(m.disks, disk.Crash(kept, uint64(i)))
	}
	for _, r := range registers {
		m.high = append(m.high, r.attempted.Load())
	}
	return m
}

// verify starts a server on each of the copies and compares the registers.
func (m moment) verify(t *testing.T, rid resource.RID, registers []*register) (partitions int) {
	t.Helper()
	for n, disk := range m.disks {
		kept := keptParts[n]
		w, err := open(disk, 0)
		if err != nil {
			t.Fatalf("%s, %v kept: %v", m.at, kept, err)
		}
		c := client{w, rid}
		partitions = c.container().Ranges.Len()
		if len(c.container().Splits)+len(c.container().Merges) > 0 {
			t.Errorf("%s: the plan still exists", m.at)
		}
		for i, r := range registers {
			if err := r.verify(c, m.low[i], m.high[i]); err != nil {
				t.Errorf("%s, %v kept, %d partitions: %v", m.at, kept, partitions, err)
			}
		}
		if left := w.node.RemoveLeftovers(); left > 0 {
			t.Errorf("%s, %v kept: %d directories are left", m.at, kept, left)
		}
		if err := w.close(); err != nil {
			t.Fatalf("%s, %v kept: %v", m.at, kept, err)
		}
		clean(t, disk, partitions)
	}
	return partitions
}

// small is a container whose documents are stored, and a client of it.
func small(t *testing.T, w *world, key string, n int) (client, []*register) {
	t.Helper()
	return smallOf(t, w, key, n, 1)
}

// smallOf returns a small container with some partitions.
func smallOf(t *testing.T, w *world, key string, n, partitions int) (client, []*register) {
	t.Helper()
	created, err := w.createWith("c", key, "", partitions)
	if err != nil {
		t.Fatal(err)
	}
	c := client{w, created.RID}
	var registers []*register
	for i := range n {
		r := &register{i: i}
		if err := r.step(c); err != nil {
			t.Fatal(err)
		}
		registers = append(registers, r)
	}
	return c, registers
}

// TestSplitCrash crashes at many moments of a split under load, and loses any part of the
// writes that are not synced. The next start finds one partition or two, with every
// acknowledged write.
func TestSplitCrash(t *testing.T) { testCrash(t, splitOne) }

// TestMergeCrash does the same with a merge: two partitions, or one.
func TestMergeCrash(t *testing.T) { testCrash(t, mergeTwo) }

func testCrash(t *testing.T, change reshape) {
	t.Parallel()
	for name, key := range everyKind() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testCrashWith(t, key, change)
		})
	}
}

func testCrashWith(t *testing.T, key string, change reshape) {
	_, random := seed(t)
	disk := storagetest.NewCrashable()
	var mu sync.Mutex
	var moments []moment
	var registers []*register
	var armed atomic.Bool
	operations, next := 0, 0
	// A crash may precede any writing operation; a sample of them is tried.
	files := errorfs.Wrap(disk.FS(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if !armed.Load() || op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if operations++; operations >= next {
			next = operations + 1 + random.IntN(24)
			moments = append(moments, take(disk, registers, fmt.Sprintf("operation %d, %v %s", operations, op.Kind, op.Path)))
		}
		return nil
	}))
	w, err := openOn(files, 0)
	if err != nil {
		t.Fatal(err)
	}
	c, all := smallOf(t, w, key, 40, change.before)
	registers = all
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for g := range 3 {
		writers.Go(func() {
			for i := g; ; i += 3 {
				select {
				case <-stop:
					return
				default:
				}
				// The first write has ended before the change begins.
				if err := registers[1+i%(len(registers)-1)].step(c); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	armed.Store(true)
	err = change.do(t.Context(), c)
	for range 20 {
		if err := registers[0].step(c); err != nil {
			t.Error(err)
		}
	}
	armed.Store(false)
	close(stop)
	writers.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	found := map[int]int{}
	for _, m := range moments {
		found[m.verify(t, c.rid, registers)]++
	}
	t.Logf("%d operations, partitions found: %v", operations, found)
	if found[change.before] == 0 || found[change.after] == 0 || len(found) > 2 {
		t.Errorf("found %v partitions, want %d and %d", found, change.before, change.after)
	}
}

// TestSplitFailingDisk fails each operation of the disk during a split: the split is
// done; or it is undone and the parent serves; or the next start determines its
// outcome. No acknowledged write is lost.
func TestSplitFailingDisk(t *testing.T) { testFailingDisk(t, splitOne) }

// TestMergeFailingDisk does the same with a merge.
func TestMergeFailingDisk(t *testing.T) { testFailingDisk(t, mergeTwo) }

func testFailingDisk(t *testing.T, change reshape) {
	t.Parallel()
	_, random := seed(t)
	outcomes := map[string]int{}
	stride := 4
	if raceDetector {
		stride = 20
	}
	for n := int64(1 + random.IntN(3)); ; n += int64(1 + random.IntN(stride)) {
		disk := storagetest.NewCrashable()
		w, err := open(disk, 0)
		if err != nil {
			t.Fatal(err)
		}
		c, registers := smallOf(t, w, keyKinds["three"], 30, change.before)
		disk.FailAt(n)
		changeErr := change.do(t.Context(), c)
		_, failed := disk.Operations()
		disk.Heal()
		outcome := afterFailure(t, c, registers, n, change, changeErr)
		outcomes[outcome]++
		_ = w.close() // A store that has failed returns an error.
		parts := moment{disks: []*storagetest.Disk{disk}, at: fmt.Sprintf("operation %d", n)}
		for _, r := range registers {
			parts.low, parts.high = append(parts.low, r.certain.Load()), append(parts.high, r.attempted.Load())
		}
		if got := parts.verify(t, c.rid, registers); (changeErr == nil || outcome == "again") && got != change.after {
			t.Errorf("operation %d: %s, and there are %d partitions", n, outcome, got)
		}
		if failed == 0 {
			if changeErr != nil || n < 50 {
				t.Fatalf("operation %d: %v", n, changeErr)
			}
			break
		}
	}
	t.Logf("%v", outcomes)
	if outcomes["done"] == 0 || outcomes["again"] == 0 {
		t.Errorf("outcomes %v", outcomes)
	}
}

// afterFailure writes after a change, and repeats the change unless a parent's store or
// the catalog's has failed.
func afterFailure(t *testing.T, c client, registers []*register, n int64, change reshape, changeErr error) string {
	t.Helper()
	if changeErr != nil && status.CodeOf(changeErr) != status.CodeUnavailable {
		t.Errorf("operation %d: %v, want 503", n, changeErr)
	}
	failures := 0
	for _, r := range registers {
		switch err := r.step(c); status.CodeOf(err) {
		case 0:
		case status.CodeUnavailable:
			failures++
		default:
			t.Errorf("operation %d: write: %v, want 503", n, err)
		}
		if _, _, err := c.read(item(r.i, 0)); err != nil && status.CodeOf(err) != status.CodeUnavailable {
			t.Errorf("operation %d: read: %v", n, err)
		}
	}
	switch {
	case changeErr == nil:
		return "done"
	case failures > 0:
		return "stopped" // The store of a parent or of the catalog has failed.
	}
	if err := change.do(t.Context(), c); err != nil {
		if status.CodeOf(err) == status.CodeUnavailable {
			return "catalog stopped"
		}
		t.Errorf("operation %d: again: %v", n, err)
	}
	return "again"
}

// TestSplitWithoutRoom begins a split without room on the disk for the children, or
// without descriptors: the parent serves as if there had been no split.
func TestSplitWithoutRoom(t *testing.T) { testWithoutRoom(t, splitOne, "0") }

// TestMergeWithoutRoom does the same with a merge.
func TestMergeWithoutRoom(t *testing.T) { testWithoutRoom(t, mergeTwo, "0", "1") }

func testWithoutRoom(t *testing.T, change reshape, parents ...string) {
	t.Parallel()
	for name, cause := range map[string]error{"the disk is full": syscall.ENOSPC, "too many files are open": syscall.EMFILE} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := storagetest.NewCrashable()
			var armed atomic.Bool
			var seen, failAt atomic.Int64
			failAt.Store(1)
			files := errorfs.Wrap(disk.FS(), errorfs.InjectorFunc(func(op errorfs.Op) error {
				_, child, in := strings.Cut(op.Path, "data/p/")
				_, child, _ = strings.Cut(child, "/")
				child, _, _ = strings.Cut(child, "/")
				if !armed.Load() || !in || child == "" || slices.Contains(parents, child) {
					return nil
				}
				switch op.Kind {
				case errorfs.OpCreate, errorfs.OpLink, errorfs.OpMkdirAll, errorfs.OpFileWrite:
					if seen.Add(1) >= failAt.Load() {
						return cause
					}
				}
				return nil
			}))
			w, err := openOn(files, 0)
			if err != nil {
				t.Fatal(err)
			}
			c, registers := smallOf(t, w, keyKinds["v2"], 40, change.before)
			refused := 0
			for ; ; failAt.Add(7) {
				seen.Store(0)
				armed.Store(true)
				err := change.do(t.Context(), c)
				armed.Store(false)
				if err == nil {
					break
				}
				refused++
				if known := status.From(err); known == nil || known.Code != status.CodeUnavailable || !strings.Contains(known.Message, name) {
					t.Fatalf("got %v, want 503 that says %q", err, name)
				}
				for _, r := range registers[:5] {
					if err := r.step(c); err != nil {
						t.Fatal(err)
					}
				}
				if n := c.container().Ranges.Len(); n != change.before || len(c.container().Splits)+len(c.container().Merges) > 0 {
					t.Fatalf("%d partitions and plans %v, %v", n, c.container().Splits, c.container().Merges)
				}
			}
			if refused < 3 {
				t.Errorf("refused %d times", refused)
			}
			if err := w.close(); err != nil {
				t.Fatal(err)
			}
			clean(t, disk, change.after)
		})
	}
}

// TestSplitWithoutDescriptors uses up the descriptors of the process before a split or at
// any moment of it: the parent serves as if there had been no split, and nothing is left of
// the children when there are descriptors again.
func TestSplitWithoutDescriptors(t *testing.T) { testWithoutDescriptors(t, splitOne) }

// TestMergeWithoutDescriptors does the same with a merge.
func TestMergeWithoutDescriptors(t *testing.T) { testWithoutDescriptors(t, mergeTwo) }

func testWithoutDescriptors(t *testing.T, change reshape) {
	t.Parallel()
	_, random := seed(t)
	outcomes := map[string]int{}
	stride := 60 // fewer than those between the plan and the switch
	if raceDetector {
		stride = 250
	}
	for n := int64(0); outcomes["reached no more"] == 0; n += int64(1 + random.IntN(stride)) {
		disk := storagetest.NewCrashable()
		var left atomic.Int64 // operations until the descriptors are used up
		left.Store(1 << 60)
		files := errorfs.Wrap(disk.FS(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if left.Add(-1) == 0 {
				disk.Exhaust()
			}
			return nil
		}))
		w, err := openOn(files, 0)
		if err != nil {
			t.Fatal(err)
		}
		c, registers := smallOf(t, w, keyKinds["v2"], 15, change.before)
		version := w.catalog.View().Version()
		if left.Store(n); n == 0 {
			disk.Exhaust()
		}
		err = change.do(t.Context(), c)
		reached := left.Swap(1<<60) <= 0
		for _, r := range registers {
			if err := r.step(c); err != nil {
				t.Fatalf("operation %d: a write meanwhile: %v", n, err)
			}
		}
		disk.Heal()
		switch known := status.From(err); {
		case err == nil && reached:
			outcomes["done"]++
		case err == nil:
			outcomes["reached no more"]++
		case known == nil || known.Code != status.CodeUnavailable || !strings.Contains(known.Message, "too many files are open"):
			t.Errorf("operation %d: %v, want 503 that says why", n, err)
		case w.catalog.View().Version() == version:
			outcomes["refused"]++
		default:
			outcomes["undone"]++
		}
		partitions := change.after
		if err != nil {
			partitions = change.before
		}
		if got := c.container().Ranges.Len(); got != partitions || c.plans() > 0 {
			t.Errorf("operation %d: %d partitions and %d plans, want %d", n, got, c.plans(), partitions)
		}
		for _, r := range registers {
			if err := r.step(c); err != nil {
				t.Fatalf("operation %d, which ended with %v: a write afterwards: %v", n, outcomes, err)
			}
		}
		if got := w.node.RemoveLeftovers(); got > 0 {
			t.Errorf("operation %d: %d directories could not be removed", n, got)
		}
		if err := w.close(); err != nil {
			t.Fatal(err)
		}
		clean(t, disk, partitions)
	}
	t.Logf("%v", outcomes)
	if outcomes["refused"] == 0 || outcomes["undone"] == 0 && !raceDetector {
		t.Errorf("outcomes %v", outcomes)
	}
}

// TestLeftoversAreRemoved fails a split or merge so that its children cannot be removed.
// They are removed as soon as that is possible, without a restart.
func TestLeftoversAreRemoved(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]reshape{"split": splitOne, "merge": mergeTwo} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := storagetest.NewCrashable()
			var failing atomic.Bool
			files := errorfs.Wrap(disk.FS(), errorfs.InjectorFunc(func(op errorfs.Op) error {
				last := op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, "/FORMAT") // of a checkpoint
				if failing.Load() && (last || op.Kind == errorfs.OpRemoveAll) {
					return storagetest.ErrInjected
				}
				return nil
			}))
			w, err := openOn(files, 0)
			if err != nil {
				t.Fatal(err)
			}
			c, _ := smallOf(t, w, keyKinds["v2"], 10, change.before)
			dirs := func() int {
				t.Helper()
				names, err := disk.FS().List(fmt.Sprintf("data/p/%x", string(c.rid)))
				if err != nil {
					t.Fatal(err)
				}
				return len(names)
			}
			failing.Store(true)
			if err := change.do(t.Context(), c); status.CodeOf(err) != status.CodeUnavailable {
				t.Fatalf("got %v, want 503", err)
			}
			if left := w.node.RemoveLeftovers(); left == 0 || dirs() != change.before+left {
				t.Errorf("%d directories are left, and there are %d", left, dirs())
			}
			failing.Store(false)
			if left := w.node.RemoveLeftovers(); left != 0 || dirs() != change.before {
				t.Errorf("%d directories are left, and there are %d", left, dirs())
			}
			if err := w.close(); err != nil {
				t.Fatal(err)
			}
			clean(t, disk, change.before)
		})
	}
}

// crowded is a file system with a given number of free bytes.
type crowded struct {
	vfs.FS
	free atomic.Uint64
}

func (f *crowded) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: f.free.Load()}, nil
}

// TestSplitNeedsRoom does not begin a split that would fill the disk.
func TestSplitNeedsRoom(t *testing.T) { testNeedsRoom(t, splitOne) }

// TestMergeNeedsRoom does the same with a merge.
func TestMergeNeedsRoom(t *testing.T) { testNeedsRoom(t, mergeTwo) }

func testNeedsRoom(t *testing.T, change reshape) {
	t.Parallel()
	files := &crowded{FS: storagetest.NewCrashable().FS()}
	w, err := openOn(files, 0)
	if err != nil {
		t.Fatal(err)
	}
	c, _ := smallOf(t, w, keyKinds["v2"], 40, change.before)
	version := w.catalog.View().Version()
	files.free.Store(64 << 20)
	if err := change.do(t.Context(), c); status.CodeOf(err) != status.CodeUnavailable {
		t.Errorf("got %v, want 503", err)
	}
	if got := w.catalog.View().Version(); got != version {
		t.Errorf("the catalog came from version %d to %d", version, got)
	}
	files.free.Store(80 << 20)
	if err := change.do(t.Context(), c); err != nil {
		t.Error(err)
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
}
