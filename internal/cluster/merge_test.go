package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage/storagetest"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
)

// pair returns the ids of the partition at a place in the order of ranges and of
// the one behind it.
func (c client) pair(at int) (low, high resource.PartitionID) {
	ranges := c.container().Ranges
	return ranges.At(at).Value.ID, ranges.At(at + 1).Value.ID
}

// Partitions become fewer until one is left, of documents that an ancestor and the
// partitions themselves have numbered, and then more again: documents, counts,
// prefixes that span partitions, and order are as before (S111).
func TestMergeQuiet(t *testing.T) {
	t.Parallel()
	for name, key := range everyKind() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, random := seed(t)
			disk := storagetest.NewCrashable()
			w, err := open(disk, 0)
			if err != nil {
				t.Fatal(err)
			}
			created, err := w.createWith("c", key, "", 3)
			if err != nil {
				t.Fatal(err)
			}
			c := client{w, created.RID}
			m := map[int]int{}
			write := func(from, to, version int) {
				t.Helper()
				for i := from; i < to; i++ {
					if _, err := c.write(partition.Upsert, item(i, version), ""); err != nil {
						t.Fatal(err)
					}
					m[i] = version
				}
			}
			write(0, 300, 0)
			for range 3 {
				for range 3 {
					ranges := c.container().Ranges
					if _, err := w.node.Split(t.Context(), c.rid, ranges.At(random.IntN(ranges.Len())).Value.ID, ""); err != nil && !errors.Is(err, partition.ErrIndivisible) {
						t.Fatal(err)
					}
				}
				write(100, 200, 1+len(m))
				for c.container().Ranges.Len() > 1 {
					before := c.container()
					low, high := c.pair(random.IntN(before.Ranges.Len() - 1))
					result, err := w.node.Merge(t.Context(), c.rid, high, low)
					if err != nil {
						t.Fatal(err)
					}
					mergedFrom(t, before, result)
					if err := c.verify(m); err != nil {
						t.Fatalf("%d partitions: %v", c.container().Ranges.Len(), err)
					}
					write(len(m), len(m)+20, 0)
					write(0, 30, 1+len(m))
				}
			}
			if err := c.verify(m); err != nil {
				t.Fatal(err)
			}
			if err := w.close(); err != nil {
				t.Fatal(err)
			}
			clean(t, disk, 1)
		})
	}
}

// mergedFrom checks what a child says of itself: the ranges of both parents, and
// all their ancestors.
func mergedFrom(t *testing.T, before *catalog.Container, result cluster.MergeResult) {
	t.Helper()
	low, _ := before.Partition(result.Parents[0])
	high, _ := before.Partition(result.Parents[1])
	child := result.Child
	for _, p := range []resource.Partition{low, high} {
		for _, id := range append(slices.Clone(p.Parents), p.ID) {
			if !slices.Contains(child.Parents, id) {
				t.Errorf("child %+v does not name %s", child, id)
			}
		}
		if child.Generation <= p.Generation {
			t.Errorf("child %+v of generation %d", child, p.Generation)
		}
	}
	if child.Range.Min != low.Range.Min || child.Range.Max != high.Range.Max {
		t.Errorf("child %+v of %s and %s", child, low.Range, high.Range)
	}
	if unique := slices.Compact(slices.Sorted(slices.Values(child.Parents))); len(unique) != len(child.Parents) {
		t.Errorf("parents %v", child.Parents)
	}
}

// Partitions are split and merged again and again while they are written, read and
// queried: each acknowledged write is there once, what a query can know for
// certain it says at every moment, and every store is clean (S111).
func TestMergeModel(t *testing.T) {
	t.Parallel()
	for name, key := range everyKind() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testMergeModel(t, key)
		})
	}
}

func testMergeModel(t *testing.T, key string) {
	start, random := seed(t)
	disk := storagetest.NewCrashable()
	w, err := open(disk, 0)
	if err != nil {
		t.Fatal(err)
	}
	created, err := w.createWith("c", key, "", 2)
	if err != nil {
		t.Fatal(err)
	}
	c := client{w, created.RID}
	static := map[int]int{}
	for i := 0; i < modelItems; i += modelStatic {
		if _, err := c.write(partition.Create, item(i, 0), ""); err != nil {
			t.Fatal(err)
		}
		static[i] = 0
	}
	const writers = 6
	models := make([]map[int]int, writers)
	stop := make(chan struct{})
	var group errgroup.Group
	for g := range writers {
		models[g] = map[int]int{}
		group.Go(func() error { return modelWriter(c, models[g], g, writers, start, stop) })
	}
	group.Go(func() error { return modelReader(c, static, stop) })
	merges := modelMerger(t, c, random)
	close(stop)
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	all := static
	for _, m := range models {
		for i, version := range m {
			all[i] = version
		}
	}
	if err := c.verify(all); err != nil {
		t.Error(err)
	}
	if merges < modelSplits {
		t.Errorf("%d merges", merges)
	}
	n := c.container().Ranges.Len()
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	clean(t, disk, n)
}

// modelMerger splits and merges in turn, at random, also two pairs at once.
func modelMerger(t *testing.T, c client, random *rand.Rand) (merges int) {
	for merges < modelSplits {
		ranges := c.container().Ranges
		if ranges.Len() < 2 || ranges.Len() < 6 && random.IntN(2) == 0 {
			p := ranges.At(random.IntN(ranges.Len())).Value
			if _, err := c.w.node.Split(t.Context(), c.rid, p.ID, ""); err != nil && status.CodeOf(err) != status.CodeBadRequest {
				t.Fatalf("split %s: %v", p.ID, err)
			}
			continue
		}
		var group errgroup.Group
		var done atomic.Int64
		at := random.IntN(ranges.Len() - 1)
		for ; at+1 < ranges.Len() && at < 4; at += 2 {
			low, high := ranges.At(at).Value.ID, ranges.At(at+1).Value.ID
			group.Go(func() error {
				_, err := c.w.node.Merge(t.Context(), c.rid, low, high)
				if err == nil {
					done.Add(1)
				}
				return err
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatalf("merge: %v", err)
		}
		merges += int(done.Load())
	}
	return merges
}

// mergePlanned begins to merge partitions 0 and 1 and returns when the plan is
// there.
func mergePlanned(t *testing.T, c client) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := c.w.node.Merge(context.Background(), c.rid, 0, 1)
		done <- err
	}()
	for c.container() != nil && len(c.container().Merges) == 0 {
		select {
		case err := <-done:
			t.Fatalf("the merge ended with %v", err)
		default:
			runtime.Gosched()
		}
	}
	return done
}

// While a merge waits, both serve, its plan can be seen, and neither is split nor
// merged a second time. A container that is dropped, and a server that stops, end
// it; a start gives it up.
func TestMergeWaits(t *testing.T) {
	t.Parallel()
	disk := storagetest.NewCrashable()
	w := delayed(t, disk.FS(), time.Hour)
	c, registers := smallOf(t, w, keyKinds["v2"], 20, 3)
	done := mergePlanned(t, c)
	plan, ok := c.container().Merge(1)
	if !ok || plan.Child.ID != 3 || c.container().NextPartition != 4 {
		t.Errorf("plan %+v, next %s", plan, c.container().NextPartition)
	}
	for _, r := range registers {
		if err := r.step(c); err != nil {
			t.Error(err)
		}
	}
	for what, change := range map[string]func() error{
		"the same merge":  func() error { _, err := w.node.Merge(t.Context(), c.rid, 1, 0); return err },
		"another merge":   func() error { _, err := w.node.Merge(t.Context(), c.rid, 1, 2); return err },
		"a split of one":  func() error { _, err := w.node.Split(t.Context(), c.rid, 0, ""); return err },
		"that of another": func() error { _, err := w.node.Split(t.Context(), c.rid, 1, ""); return err },
	} {
		if err := change(); status.CodeOf(err) != status.CodeConflict || !strings.Contains(err.Error(), "being merged already") {
			t.Errorf("%s: %v, want 409", what, err)
		}
	}
	crashed := disk.Crash(0, 1)
	after, err := open(crashed, 0)
	if err != nil {
		t.Fatal(err)
	}
	if left := (client{after, c.rid}).container(); len(left.Merges) != 0 || left.NextPartition != 4 || left.Ranges.Len() != 3 {
		t.Errorf("after a crash: plans %v, next %s", left.Merges, left.NextPartition)
	}
	if err := after.close(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.catalog.Commit(t.Context(), catalog.DeleteContainer{RID: c.rid}); err != nil {
		t.Fatal(err)
	}
	w.node.DropContainer(c.rid)
	if err := <-done; status.CodeOf(err) != status.CodeGone {
		t.Errorf("a merge of a container that was dropped: %v, want 410", err)
	}
	c, _ = smallOf(t, w, keyKinds["v2"], 20, 2)
	done = mergePlanned(t, c)
	if err := w.node.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; status.CodeOf(err) != status.CodeUnavailable {
		t.Errorf("a merge in a server that stops: %v, want 503", err)
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	clean(t, disk, 2)
}

// Dropping a container at any moment of a merge leaves nothing of it.
func TestMergeAndDrop(t *testing.T) {
	t.Parallel()
	_, random := seed(t)
	ends := map[status.Code]int{}
	for range 25 {
		disk := storagetest.NewCrashable()
		var w *world
		var rid resource.RID
		var left atomic.Int64
		var dropped sync.WaitGroup
		left.Store(1 << 60)
		files := errorfs.Wrap(disk.FS(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if left.Add(-1) == 0 {
				dropped.Go(func() {
					if _, err := w.catalog.Commit(context.Background(), catalog.DeleteContainer{RID: rid}); err != nil {
						t.Error(err)
					}
					w.node.DropContainer(rid)
				})
			}
			return nil
		}))
		w, err := openOn(files, 0)
		if err != nil {
			t.Fatal(err)
		}
		c, _ := smallOf(t, w, keyKinds["v2"], 20, 2)
		rid = c.rid
		left.Store(1 + random.Int64N(500))
		_, err = w.node.Merge(t.Context(), c.rid, 0, 1)
		ends[status.CodeOf(err)]++
		if code := status.CodeOf(err); err != nil && code != status.CodeGone && code != status.CodeNotFound {
			t.Errorf("got %v, want 410", err)
		}
		left.Store(1 << 60)
		dropped.Wait()
		if err := w.close(); err != nil {
			t.Fatal(err)
		}
		if report := check(t, disk); !report.Clean() {
			t.Errorf("problems %q", report.Problems)
		} else if len(report.Partitions) == 0 && len(report.Leftovers) > 0 {
			t.Errorf("left over: %q", report.Leftovers)
		}
	}
	t.Logf("%v", ends)
	if len(ends) < 2 {
		t.Errorf("all ended alike: %v", ends)
	}
}

// When nobody knows whether the switch was stored, writes to both ranges are
// refused and reads served, until a start finds out.
func TestMergeInDoubt(t *testing.T) {
	t.Parallel()
	disk := storagetest.NewCrashable()
	var syncs atomic.Int64
	syncs.Store(1 << 60)
	files := errorfs.Wrap(disk.FS(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		// The plan is one sync of the catalog, the switch the next.
		if strings.HasPrefix(op.Path, "data/catalog/") && (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData) && syncs.Add(-1) < 0 {
			return storagetest.ErrInjected
		}
		return nil
	}))
	w, err := openOn(files, 0)
	if err != nil {
		t.Fatal(err)
	}
	c, registers := smallOf(t, w, keyKinds["v2"], 20, 2)
	syncs.Store(1)
	if _, err := w.node.Merge(t.Context(), c.rid, 0, 1); status.CodeOf(err) != status.CodeUnavailable || !catalog.OutcomeUnknown(err) {
		t.Fatalf("got %v, want 503 and an unknown outcome", err)
	}
	certain := moment{at: "in doubt"}
	for _, r := range registers {
		if err := r.verify(c, 1, 1); err != nil {
			t.Error(err)
		}
		if err := r.step(c); status.CodeOf(err) != status.CodeUnavailable {
			t.Errorf("a write: %v, want 503", err)
		}
		certain.low, certain.high = append(certain.low, 1), append(certain.high, 1)
	}
	_ = w.close() // the catalog has failed
	for i, kept := range keptParts {
		certain.disks = append(certain.disks, disk.Crash(kept, uint64(i)))
	}
	certain.verify(t, c.rid, registers)
}

// Whoever holds a parent when it is merged reads on, and its directory goes when it
// is given back. The child has come further than both.
func TestMergeWhileHeld(t *testing.T) {
	t.Parallel()
	w, disk := start(t, 0)
	c, _ := smallOf(t, w, keyKinds["v2"], 20, 2)
	replica, release, err := w.node.Replica(t.Context(), c.container(), 1)
	if err != nil {
		t.Fatal(err)
	}
	before := c.container()
	var furthest resource.LSN
	for id := range resource.PartitionID(2) {
		lsn, _ := w.node.LSN(before, id)
		furthest = max(furthest, lsn)
	}
	result, err := w.node.Merge(t.Context(), c.rid, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	if replica.Stats().Failure != nil {
		t.Error("the parent failed")
	}
	dirs := func() (left []string) {
		for _, name := range []string{"0", "1", "2"} {
			if _, err := disk.FS().Stat(fmt.Sprintf("data/p/%x/%s", string(c.rid), name)); err == nil {
				left = append(left, name)
			} else if !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
		}
		return left
	}
	if got := dirs(); !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("while one parent is held there are %v", got)
	}
	release()
	if got := dirs(); !slices.Equal(got, []string{"2"}) {
		t.Errorf("when it was given back there are %v", got)
	}
	for id := range resource.PartitionID(2) {
		if _, _, err := w.node.Replica(t.Context(), before, id); status.CodeOf(err) != status.CodeGone || status.SubOf(err) != status.SubRangeGone {
			t.Errorf("parent %s by an old view: %v, want 410/1002", id, err)
		}
		if _, err := w.node.Merge(t.Context(), c.rid, id, result.Child.ID); status.CodeOf(err) != status.CodeNotFound {
			t.Errorf("parent %s is merged again: %v, want 404", id, err)
		}
	}
	if lsn, open := w.node.LSN(c.container(), result.Child.ID); !open || lsn != furthest+1 {
		t.Errorf("child: LSN %d, open %v, want %d", lsn, open, furthest+1)
	}
}

// A position in a parent's change feed is good for its part of the child's: what was
// changed later comes once, and nothing else.
func TestMergeFeed(t *testing.T) {
	t.Parallel()
	w, _ := start(t, 0)
	c, registers := smallOf(t, w, keyKinds["two"], 60, 2)
	read := func(p resource.Partition, r partitionkey.Range, after resource.LSN, most int) (partition.FeedPage, []string) {
		t.Helper()
		replica, release, err := w.node.Replica(t.Context(), c.container(), p.ID)
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		page, err := replica.Feed(t.Context(), partition.Feed{Generation: p.Generation, Range: r, After: after, MaxItems: most})
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, text := range page.Documents {
			doc, err := value.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, doc.Get("id").Text())
		}
		return page, ids
	}
	parents := c.container().Partitions()
	seen := map[string]bool{}
	var after [2]resource.LSN
	for i, p := range parents {
		page, ids := read(p, p.Range, 0, 9+i)
		after[i] = page.Position
		for _, id := range ids {
			seen[id] = true
		}
	}
	if len(seen) != 19 {
		t.Fatalf("%d documents were seen", len(seen))
	}
	result, err := w.node.Merge(t.Context(), c.rid, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for i, r := range registers {
		changed := i%7 == 0
		if changed {
			if err := r.step(c); err != nil {
				t.Fatal(err)
			}
		}
		if id := fmt.Sprint(r.i); changed || !seen[id] {
			want = append(want, id)
		}
	}
	var got []string
	for i, p := range parents {
		for at, more := after[i], true; more; {
			page, ids := read(result.Child, p.Range, at, 4)
			got = append(got, ids...)
			at, more = page.Position, page.More
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the feed behind %v has %q, want %q", after, got, want)
	}
}

// Merges are counted, those that failed apart, with their pauses.
func TestMergeMetrics(t *testing.T) {
	t.Parallel()
	w, _ := start(t, 0)
	if err := w.node.Close(); err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	var err error
	w.node, err = cluster.Start(cluster.Config{Pool: w.pool, Dir: "data", Catalog: w.catalog, Limits: resource.DefaultLimits(), Registerer: registry})
	if err != nil {
		t.Fatal(err)
	}
	c, _ := smallOf(t, w, keyKinds["v2"], 20, 2)
	for range 3 {
		_, _ = w.node.Merge(t.Context(), c.rid, 0, 1)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		m := f.GetMetric()[0]
		got[f.GetName()] = m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
	}
	for name, want := range map[string]float64{"decan_partition_merges_total": 1, "decan_partition_merge_failures_total": 2, "decan_partition_merge_pause_seconds": 1} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}
