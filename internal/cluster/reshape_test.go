package cluster_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
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

// reshape is a change of the first partitions of a container, for tests that splits and
// merges share: split one, or merge two.
type reshape struct {
	before, after int   // number of partitions
	operations    int64 // of the disk, approximately
	do            func(ctx context.Context, c client) error
}

var splitOne = reshape{before: 1, after: 2, operations: 700, do: func(ctx context.Context, c client) error {
	_, err := c.w.node.Split(ctx, c.rid, 0, "")
	return err
}}

var mergeTwo = reshape{before: 2, after: 1, operations: 500, do: func(ctx context.Context, c client) error {
	_, err := c.w.node.Merge(ctx, c.rid, 0, 1)
	return err
}}

// plans returns how many splits and merges of the container are in progress.
func (c client) plans() int {
	found := c.container()
	if found == nil {
		return 0
	}
	return len(found.Splits) + len(found.Merges)
}

// testModel reshapes a container while it is written, read and queried, and compares it
// with what the writers have stored at the end.
func testModel(t *testing.T, key string, partitions int, reshaper func(t *testing.T, c client, random *rand.Rand) (changes int)) {
	t.Helper()
	start, random := seed(t)
	disk := storagetest.NewCrashable()
	w, err := open(disk, 0)
	if err != nil {
		t.Fatal(err)
	}
	created, err := w.createWith("c", key, "", partitions)
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
	changes := reshaper(t, c, random)
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
	if changes == 0 {
		t.Error("nothing was changed")
	}
	n := c.container().Ranges.Len()
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	clean(t, disk, n)
}

// planned begins a change and returns when its plan is stored.
func planned(t *testing.T, c client, change reshape) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- change.do(context.Background(), c) }()
	for c.container() != nil && c.plans() == 0 {
		select {
		case err := <-done:
			t.Fatalf("the change ended with %v", err)
		default:
			runtime.Gosched()
		}
	}
	return done
}

// testWaits delays a change after its plan, verifies the state of that time, and ends the
// change: by a crash, by dropping its container, and by stopping the server.
func testWaits(t *testing.T, change reshape, partitions int, meanwhile func(c client, registers []*register)) {
	t.Helper()
	disk := storagetest.NewCrashable()
	w := delayed(t, disk.FS(), time.Hour)
	c, registers := smallOf(t, w, keyKinds["v2"], 20, partitions)
	done := planned(t, c, change)
	next := c.container().NextPartition
	meanwhile(c, registers)
	after, err := open(disk.Crash(0, 1), 0)
	if err != nil {
		t.Fatal(err)
	}
	if left := (client{after, c.rid}); left.plans() != 0 || left.container().NextPartition != next || left.container().Ranges.Len() != partitions {
		t.Errorf("after a crash: %d plans, %d partitions, next %s, want %s", left.plans(), left.container().Ranges.Len(), left.container().NextPartition, next)
	}
	if err := after.close(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.catalog.Commit(t.Context(), catalog.DeleteContainer{RID: c.rid}); err != nil {
		t.Fatal(err)
	}
	w.node.DropContainer(c.rid)
	if err := <-done; status.CodeOf(err) != status.CodeGone {
		t.Errorf("the container was dropped: %v, want 410", err)
	}
	c, _ = smallOf(t, w, keyKinds["v2"], 20, partitions)
	done = planned(t, c, change)
	if err := w.node.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; status.CodeOf(err) != status.CodeUnavailable {
		t.Errorf("the server stops: %v, want 503", err)
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	clean(t, disk, partitions)
}

// testAndDrop drops the container at each moment of a change.
func testAndDrop(t *testing.T, change reshape) {
	t.Helper()
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
		c, _ := smallOf(t, w, keyKinds["v2"], 20, change.before)
		rid = c.rid
		left.Store(1 + random.Int64N(change.operations))
		err = change.do(t.Context(), c)
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

// testInDoubt makes the disk fail while the switch is stored.
func testInDoubt(t *testing.T, change reshape) {
	t.Helper()
	disk := storagetest.NewCrashable()
	var syncs atomic.Int64
	syncs.Store(1 << 60)
	w, err := openOn(watchSwitch(disk, &syncs, func() error { return storagetest.ErrInjected }), 0)
	if err != nil {
		t.Fatal(err)
	}
	c, registers := smallOf(t, w, keyKinds["v2"], 20, change.before)
	syncs.Store(1)
	if err := change.do(t.Context(), c); status.CodeOf(err) != status.CodeUnavailable || !catalog.OutcomeUnknown(err) {
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
	_ = w.close() // The catalog has failed, so an error is expected.
	for i, kept := range keptParts {
		certain.disks = append(certain.disks, disk.Crash(kept, uint64(i)))
	}
	certain.verify(t, c.rid, registers)
}

// testNamed sends writes to the parents by name while the switch is stored. They wait for
// it and then get the error that the range has moved. Reads do not wait.
func testNamed(t *testing.T, change reshape) {
	t.Helper()
	disk := storagetest.NewCrashable()
	var syncs atomic.Int64
	syncs.Store(1 << 60)
	storing, stored := make(chan struct{}), make(chan struct{})
	begins := sync.OnceFunc(func() { close(storing) })
	w, err := openOn(watchSwitch(disk, &syncs, func() error {
		begins()
		<-stored
		return nil
	}), 0)
	if err != nil {
		t.Fatal(err)
	}
	c, registers := smallOf(t, w, keyKinds["v2"], 20, change.before)
	before := c.container()
	syncs.Store(1)
	done := make(chan error, 1)
	go func() { done <- change.do(t.Context(), c) }()
	<-storing
	answers := make([]chan error, len(registers))
	var releases []func()
	for i, r := range registers {
		key := before.KeyOf(item(r.i, 0))
		epk := before.PartitionKey.Hash(key)
		p := before.Ranges.Locate(epk).Value
		replica, release, err := w.node.Replica(t.Context(), before, p.ID)
		if err != nil {
			t.Fatal(err)
		}
		releases = append(releases, release)
		if err := r.verify(c, 1, 1); err != nil {
			t.Errorf("while writes wait: %v", err)
		}
		queued := replica.Stats().Queued
		answers[i] = make(chan error, 1)
		go func() {
			_, err := replica.Write(t.Context(), partition.Write{Op: partition.Upsert, Generation: p.Generation, Key: key, EPK: epk, Document: item(r.i, 2)})
			answers[i] <- err
		}()
		for replica.Stats().Queued == queued && len(answers[i]) == 0 {
			runtime.Gosched()
		}
	}
	for i, answer := range answers {
		if len(answer) > 0 {
			t.Errorf("write %d did not wait", i)
		}
	}
	close(stored)
	if err := <-done; err != nil {
		t.Error(err)
	}
	for i, answer := range answers {
		if err := <-answer; status.CodeOf(err) != status.CodeGone || status.SubOf(err) != status.SubRangeGone {
			t.Errorf("write %d: %v, want 410/1002", i, err)
		}
		releases[i]()
		if err := registers[i].verify(c, 1, 1); err != nil {
			t.Error(err)
		}
	}
	if err := w.close(); err != nil {
		t.Error(err)
	}
}

// watchSwitch is a disk that calls store before the catalog syncs the switch of a change.
// The test sets syncs to 1 before the change: the plan is one sync, the switch the next.
func watchSwitch(disk *storagetest.Disk, syncs *atomic.Int64, store func() error) vfs.FS {
	return errorfs.Wrap(disk.FS(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if strings.HasPrefix(op.Path, "data/catalog/") && (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData) && syncs.Add(-1) < 0 {
			return store()
		}
		return nil
	}))
}

// testMetrics makes one change, and then two that are refused.
func testMetrics(t *testing.T, change reshape, name string) {
	t.Helper()
	w, _ := start(t, 0)
	registry := prometheus.NewRegistry()
	w.restart(t, func(c *cluster.Config) { c.Registerer = registry })
	c, _ := smallOf(t, w, keyKinds["v2"], 20, change.before)
	for range 3 {
		_ = change.do(t.Context(), c) // The second and third fail: the partition no longer exists.
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
	for suffix, want := range map[string]float64{"s_total": 1, "_failures_total": 2, "_pause_seconds": 1} {
		if n := "decan_partition_" + name + suffix; got[n] != want {
			t.Errorf("%s is %v, want %v", n, got[n], want)
		}
	}
}

// changes reads a page of a partition's change feed, and also returns the ids.
func (c client) changes(t *testing.T, p resource.Partition, r partitionkey.Range, after resource.LSN, most int) (partition.FeedPage, []string) {
	t.Helper()
	replica, release, err := c.w.node.Replica(t.Context(), c.container(), p.ID)
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
