package cluster_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/storage/storagetest"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// wrongYears is how many years the clock of poisoned is ahead.
const wrongYears = 5

// poisoned returns the disk of a node whose clock was years ahead for a while. The disk
// has one container with three partitions from before that time, two of which were
// written to during it, and one container from that time. now is the right time at the
// end.
func poisoned(t *testing.T) (disk *storagetest.Disk, now time.Time) {
	t.Helper()
	disk = storagetest.NewCrashable()
	w, err := open(disk, 0)
	if err != nil {
		t.Fatal(err)
	}
	m := newMachine(time.Now().Truncate(time.Second)) // Other nodes of the test use the real clock.
	at := func() time.Time { return m.now() }
	reopen := func(meanwhile func()) {
		t.Helper()
		if err := w.node.Close(); err != nil {
			t.Fatal(err)
		}
		meanwhile()
		var err error
		if w.catalog, err = catalog.Open(w.store, at); err != nil {
			t.Fatal(err)
		}
		config := w.config()
		config.Clock, config.Maintenance = cluster.NewClock(m.config()), -1
		if w.node, err = cluster.Start(config); err != nil {
			t.Fatal(err)
		}
		m.registry = newMachine(machineStart).registry
	}
	write := func(name string, ids ...resource.PartitionID) {
		t.Helper()
		c, _ := w.catalog.View().Container("d", name)
		for _, id := range ids {
			for n := range 3 {
				if err := w.write(c, id, fmt.Sprint(name, n, m.now().Unix())); err != nil {
					t.Fatal(err)
				}
				m.pass(time.Second)
			}
		}
	}
	reopen(func() {})
	if _, err := w.create("before", 3); err != nil {
		t.Fatal(err)
	}
	write("before", 0, 1, 2)
	reopen(func() { m.set(wrongYears * 365 * day) })
	if _, err := w.create("under", 1); err != nil {
		t.Fatal(err)
	}
	write("before", 0, 1)
	write("under", 0)
	reopen(func() { m.set(-wrongYears * 365 * day) })
	write("before", 1, 2)
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	return disk, m.now()
}

// repairOn repairs the times on a disk.
func repairOn(disk *storagetest.Disk, now time.Time) (done cluster.ClockRepair, err error) {
	pool, err := storage.NewPool(storage.Options{FS: disk.FS()})
	if err != nil {
		return done, err
	}
	done, err = cluster.RepairClock(pool, "data", now)
	return done, errors.Join(err, pool.Close())
}

// contents returns every row of every store on a disk, without empty posting lists.
func contents(t *testing.T, disk *storagetest.Disk) map[string]string {
	t.Helper()
	pool, err := storage.NewPool(storage.Options{FS: disk.FS()})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	var visit func(dir string)
	visit = func(dir string) {
		names, err := disk.FS().List(dir)
		if err != nil {
			return // It is a file.
		}
		for _, name := range names {
			path := disk.FS().PathJoin(dir, name)
			if name != "FORMAT" {
				visit(path)
				continue
			}
			store, err := pool.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			snapshot := store.Snapshot()
			rows := snapshot.Iter(nil, nil)
			for valid := rows.First(); valid; valid = rows.Next() {
				if len(rows.Value()) != 1 || rows.Value()[0] != 0 {
					all[dir+string(rows.Key())] = string(rows.Value())
				}
			}
			if err := errors.Join(rows.Close(), snapshot.Close(), store.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
	visit("data")
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestRepairClock repairs a directory that was written to with a clock years ahead. After
// that no time is ahead of the clock, and a start logs nothing.
func TestRepairClock(t *testing.T) {
	t.Parallel()
	disk, now := poisoned(t)
	report := check(t, disk)
	if !report.Clean() {
		t.Fatalf("before: %q", report.Problems)
	}
	if len(report.Ahead) != 3 {
		t.Errorf("ahead before: %q", report.Ahead)
	}
	done, err := repairOn(disk, now)
	if err != nil {
		t.Fatal(err)
	}
	// Three in each of two partitions, three in the new container, and three that were
	// written later to a partition whose time did not go back.
	if done.Partitions != 3 || done.Documents != 12 {
		t.Errorf("repaired: %+v", done)
	}
	for _, want := range []string{"the catalog: ", "partition 1 of container 'before' in database 'd': 6 documents", "the marks: "} {
		if !strings.Contains(strings.Join(done.Done, "\n"), want) {
			t.Errorf("%q is not in %q", want, done.Done)
		}
	}
	if report = check(t, disk); !report.Clean() || len(report.Ahead) != 0 {
		t.Errorf("after: %q, ahead %q", report.Problems, report.Ahead)
	}
	for _, p := range report.Partitions {
		if p.Latest > now.Unix() {
			t.Errorf("the time of partition %s of %s is %d, %d seconds ahead", p.Partition, p.Container, p.Latest, p.Latest-now.Unix())
		}
	}
	if again, err := repairOn(disk, now); err != nil || len(again.Done) != 0 {
		t.Errorf("again: %+v, %v", again, err)
	}

	w, err := open(disk, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	m := newMachine(now)
	w.withClock(t, m)
	if st := w.node.Clock().Status(); st.Trouble != "" || strings.Contains(m.log.String(), "WARN") {
		t.Errorf("status %+v, log: %s", st, m.log.String())
	}
	for name, n := range map[string]int{"before": 3, "under": 1} {
		c, _ := w.catalog.View().Container("d", name)
		if int64(c.TS) > now.Unix() {
			t.Errorf("container %s has the time %d", name, c.TS)
		}
		for p := range n {
			if err := w.write(c, c.Ranges.At(p).Value.ID, "after"); err != nil {
				t.Error(err)
			}
		}
	}
	if unwell := w.node.Unwell(); len(unwell) != 0 {
		t.Errorf("unwell: %+v", unwell)
	}
}

// TestRepairClockRefuses returns an error for a clock that cannot be right.
func TestRepairClockRefuses(t *testing.T) {
	t.Parallel()
	disk, _ := poisoned(t)
	before := contents(t, disk)
	if _, err := repairOn(disk, time.Unix(1000, 0)); err == nil || !strings.Contains(err.Error(), "set the clock first") {
		t.Errorf("got %v", err)
	}
	after := contents(t, disk)
	for key, row := range before {
		if after[key] != row {
			t.Errorf("row %q was changed", key)
		}
	}
}

// TestRepairClockEndsAnywhere ends the repair of a directory with a power failure at every
// fourth operation of the disk (TestRepairEndsAnywhere of package partition tests each
// operation). A server can open the directory then, and a second repair produces the same
// rows as one that was not interrupted.
func TestRepairClockEndsAnywhere(t *testing.T) {
	t.Parallel()
	start, now := poisoned(t)
	disk := start.Crash(1, 0)
	if _, err := repairOn(disk, now); err != nil {
		t.Fatal(err)
	}
	want := contents(t, disk)
	for n := int64(1); ; n += 4 {
		disk := start.Crash(1, 0)
		disk.FailFrom(n)
		_, repairErr := repairOn(disk, now)
		_, failed := disk.Operations()
		if failed > 0 {
			disk = disk.Crash(float64(n%3)/2, uint64(n))
		}
		disk.Heal()
		if report := check(t, disk); !report.Clean() {
			t.Fatalf("operation %d: %q", n, report.Problems)
		}
		if n%8 == 1 { // A server may use the directory in between.
			w, err := open(disk, 0)
			if err != nil {
				t.Fatalf("operation %d: %v", n, err)
			}
			if err := w.close(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := repairOn(disk, now); err != nil {
			t.Fatalf("operation %d: again: %v", n, err)
		}
		got := contents(t, disk)
		if len(got) != len(want) {
			t.Fatalf("operation %d: %d rows, want %d", n, len(got), len(want))
		}
		for key, row := range want {
			if got[key] != row {
				t.Fatalf("operation %d: row %q is %q, want %q", n, key, got[key], row)
			}
		}
		if report := check(t, disk); !report.Clean() || len(report.Ahead) > 0 {
			t.Fatalf("operation %d: at the end %q, ahead %q", n, report.Problems, report.Ahead)
		}
		if failed == 0 {
			if repairErr != nil {
				t.Fatal(repairErr)
			}
			return
		}
	}
}

// spread writes a document for each of the keys, in the partition of the key.
func (w *world) spread(t *testing.T, name string, keys int, note string) {
	t.Helper()
	c, _ := w.catalog.View().Container("d", name)
	for i := range keys {
		k := partitionkey.NewKey(partitionkey.String(fmt.Sprint("spread", i)))
		epk := c.PartitionKey.Hash(k)
		p := c.Ranges.Locate(epk).Value
		replica, release, err := w.node.Replica(t.Context(), c, p.ID)
		if err != nil {
			t.Fatal(err)
		}
		doc := value.Object([]value.Member{{Name: "id", Value: value.String("d")}, {Name: "pk", Value: value.String(k.At(0).Text())}, {Name: "note", Value: value.String(note)}})
		_, err = replica.Write(t.Context(), partition.Write{Op: partition.Upsert, Generation: p.Generation, Key: k, EPK: epk, ID: "d", Document: doc})
		release()
		if err != nil {
			t.Fatal(err)
		}
	}
}

// from returns how many documents the change feed of a container has since a time.
func (w *world) from(t *testing.T, name string, since int64) (n int) {
	t.Helper()
	c, _ := w.catalog.View().Container("d", name)
	for i := range c.Ranges.Len() {
		p := c.Ranges.At(i).Value
		replica, release, err := w.node.Replica(t.Context(), c, p.ID)
		if err != nil {
			t.Fatal(err)
		}
		page, err := replica.Feed(t.Context(), partition.Feed{Since: since, Generation: p.Generation, Range: p.Range})
		release()
		if err != nil || page.More {
			t.Fatalf("more %v: %v", page.More, err)
		}
		n += len(page.Documents)
	}
	return n
}

// TestReshapeAround splits and merges partitions, some with times ahead of the clock, with
// and without a repair in between. The feed from a time returns every document since that
// time, and after the last repair no time is ahead.
func TestReshapeAround(t *testing.T) {
	t.Parallel()
	for name, repairs := range map[string][2]bool{"never": {}, "before": {true, false}, "between": {false, true}} {
		t.Run("repaired "+name, func(t *testing.T) {
			t.Parallel()
			disk, now := poisoned(t)
			m := newMachine(now)
			session := func(repaired bool, do func(w *world, c *catalog.Container)) {
				t.Helper()
				if repaired {
					if _, err := repairOn(disk, m.now()); err != nil {
						t.Fatal(err)
					}
				}
				w, err := open(disk, 0)
				if err != nil {
					t.Fatal(err)
				}
				w.withClock(t, m)
				c, _ := w.catalog.View().Container("d", "before")
				do(w, c)
				m.pass(time.Second)
				w.spread(t, "before", 30, name)
				// The feed has the last version of each document, whatever its time is.
				if got := w.from(t, "before", 1); got != 30+21 {
					t.Errorf("the feed has %d documents, want %d", got, 30+21)
				}
				if got := w.from(t, "before", m.now().Unix()); got < 30 {
					t.Errorf("the feed from now has %d documents, want those 30 of now at least", got)
				}
				if err := w.close(); err != nil {
					t.Fatal(err)
				}
				if report := check(t, disk); !report.Clean() {
					t.Fatalf("%q", report.Problems)
				}
			}
			session(repairs[0], func(w *world, c *catalog.Container) {
				w.spread(t, "before", 30, "first")
				if _, err := w.node.Split(t.Context(), c.RID, 1, ""); err != nil {
					t.Fatal(err)
				}
			})
			session(repairs[1], func(w *world, c *catalog.Container) {
				for c.Ranges.Len() > 1 { // The partitions with times ahead come first.
					n := c.Ranges.Len()
					if _, err := w.node.Merge(t.Context(), c.RID, c.Ranges.At(n-2).Value.ID, c.Ranges.At(n-1).Value.ID); err != nil {
						t.Fatal(err)
					}
					c, _ = w.catalog.View().Container("d", "before")
				}
			})
			m.pass(time.Second)
			session(true, func(w *world, c *catalog.Container) {
				m.pass(time.Second)
				w.spread(t, "before", 5, "last")
				if got := w.from(t, "before", m.now().Unix()); got != 5 {
					t.Errorf("the feed from the repair on has %d documents, want the 5 that were written since", got)
				}
				m.pass(time.Second)
				if unwell := w.node.Unwell(); len(unwell) != 0 {
					t.Errorf("unwell: %+v", unwell)
				}
			})
			if report := check(t, disk); len(report.Ahead) > 0 {
				t.Errorf("ahead: %q", report.Ahead)
			}
		})
	}
}
