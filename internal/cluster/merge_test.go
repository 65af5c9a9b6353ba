package cluster_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage/storagetest"
	"golang.org/x/sync/errgroup"
)

// pair returns the ids of the partition at an index in the order of ranges and of the
// next one.
func (c client) pair(at int) (low, high resource.PartitionID) {
	ranges := c.container().Ranges
	return ranges.At(at).Value.ID, ranges.At(at + 1).Value.ID
}

// TestMergeQuiet merges the partitions of a container until one is left, and splits it
// again. Its documents have numbers from an ancestor and from the partitions themselves.
// Documents, counts, prefixes that span partitions, and order do not change (S111).
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

// mergedFrom verifies the descriptor of a child: it has the ranges of both parents and all
// their ancestors.
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

// TestMergeModel splits and merges partitions continuously while they are written, read
// and queried: each acknowledged write exists once, queries always return what is
// certainly stored at that moment, and every store is clean (S111).
func TestMergeModel(t *testing.T) {
	t.Parallel()
	for name, key := range everyKind() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testModel(t, key, 2, modelMerger)
		})
	}
}

// modelMerger randomly splits and merges in turn, also two pairs at the same time.
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

// TestMergeWaits delays a merge: both partitions serve, its plan is visible, and neither
// can be split or merged by another change. Dropping the container or stopping the server
// ends the merge, and a start drops its plan.
func TestMergeWaits(t *testing.T) {
	t.Parallel()
	testWaits(t, mergeTwo, 3, func(c client, registers []*register) {
		node := c.w.node
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
			"the same merge":  func() error { _, err := node.Merge(t.Context(), c.rid, 1, 0); return err },
			"another merge":   func() error { _, err := node.Merge(t.Context(), c.rid, 1, 2); return err },
			"a split of one":  func() error { _, err := node.Split(t.Context(), c.rid, 0, ""); return err },
			"that of another": func() error { _, err := node.Split(t.Context(), c.rid, 1, ""); return err },
		} {
			if err := change(); status.CodeOf(err) != status.CodeConflict || !strings.Contains(err.Error(), "being merged already") {
				t.Errorf("%s: %v, want 409", what, err)
			}
		}
	})
}

// TestMergeAndDrop drops the container at any moment of a merge, and nothing is left.
func TestMergeAndDrop(t *testing.T) {
	t.Parallel()
	testAndDrop(t, mergeTwo)
}

// TestMergeInDoubt leaves it unknown whether the switch is stored: writes to both
// ranges are refused and reads are served until a start determines the outcome.
func TestMergeInDoubt(t *testing.T) {
	t.Parallel()
	testInDoubt(t, mergeTwo)
}

// TestMergeHasWritesWait sends requests to a parent while the switch is being stored: they
// wait for it, and then get 410/1002.
func TestMergeHasWritesWait(t *testing.T) {
	t.Parallel()
	testNamed(t, mergeTwo)
}

// TestMergeWhileHeld keeps a holder of a parent during a merge: the holder can still read,
// and the directory is removed when it leaves. The child's LSN is above both parents'.
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
		t.Errorf("while one parent is held, these remain: %v", got)
	}
	release()
	awaitGone(t, disk.FS(), fmt.Sprintf("data/p/%x/1", string(c.rid)))
	if got := dirs(); !slices.Equal(got, []string{"2"}) {
		t.Errorf("after its release, these remain: %v", got)
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

// TestMergeFeed continues from positions in the parents' change feeds: each is valid for
// its part of the child's feed, which returns each later change once and nothing else.
func TestMergeFeed(t *testing.T) {
	t.Parallel()
	w, _ := start(t, 0)
	c, registers := smallOf(t, w, keyKinds["two"], 60, 2)
	parents := c.container().Partitions()
	seen := map[string]bool{}
	var after [2]resource.LSN
	for i, p := range parents {
		page, ids := c.changes(t, p, p.Range, 0, 9+i)
		after[i] = page.Position
		for _, id := range ids {
			seen[id] = true
		}
	}
	if len(seen) != 19 {
		t.Fatalf("%d documents were returned", len(seen))
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
			page, ids := c.changes(t, result.Child, p.Range, at, 4)
			got = append(got, ids...)
			at, more = page.Position, page.More
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the feed after %v has %q, want %q", after, got, want)
	}
}

// TestMergeMetrics counts merges, failed merges and their pauses.
func TestMergeMetrics(t *testing.T) {
	t.Parallel()
	testMetrics(t, mergeTwo, "merge")
}
