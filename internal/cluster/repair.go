package cluster

import (
	"errors"
	"fmt"
	"time"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
)

// ClockRepair is the result of [RepairClock].
type ClockRepair struct {
	Now  time.Time // what later times were set to
	Done []string  // what was repaired, one phrase for each store

	Partitions int   // repaired partitions
	Documents  int64 // documents whose _ts was later
}

func (r *ClockRepair) did(format string, args ...any) {
	r.Done = append(r.Done, fmt.Sprintf(format, args...))
}

// RepairClock sets each time in a data directory that is later than now to now: the times
// of documents and of everything that depends on them, of the catalog, and of the marks.
// No server may use the directory during the call.
//
// The directory is valid after each write of RepairClock, so it may be interrupted at any
// moment and called again.
func RepairClock(pool *storage.Pool, dir string, now time.Time) (r ClockRepair, err error) {
	r.Now = now.UTC().Truncate(time.Second)
	if now.Before(clockPlausible) {
		return r, fmt.Errorf("repair times: the clock says %s, which cannot be right: set the clock first", clock(now))
	}
	err = r.catalog(pool, dir)
	if err == nil {
		err = offline(pool, dir, func(n *Node) error { return n.repairClock(&r) }, nil)
	}
	if err != nil {
		return r, fmt.Errorf("repair times: %w", err)
	}
	return r, nil
}

// catalog repairs the times in the catalog.
func (r *ClockRepair) catalog(pool *storage.Pool, dir string) error {
	must, err := VerifyCatalog(pool.FS(), dir)
	if err != nil {
		return err
	}
	store, err := pool.OpenVerified(pool.FS().PathJoin(dir, catalogDir), must)
	if err != nil {
		return err
	}
	rows, latest, err := catalog.RepairTimes(store, resource.Timestamp(r.Now.Unix()))
	if err := errors.Join(err, store.Close()); err != nil || rows == 0 {
		return err
	}
	r.did("the catalog: %s (databases, containers, partitions and others), the latest of %s", counted(rows, "row"), clock(time.Unix(int64(latest), 0)))
	return nil
}

func (n *Node) repairClock(r *ClockRepair) error {
	view := n.cfg.Catalog.View()
	for _, c := range view.AllContainers() {
		for i := range c.Ranges.Len() {
			if err := n.repairPartition(r, view, c, c.Ranges.At(i).Value); err != nil {
				return err
			}
		}
	}
	return n.repairMarks(r)
}

// repairPartition repairs the times of a partition if its latest time is later than now.
func (n *Node) repairPartition(r *ClockRepair, view *catalog.View, c *catalog.Container, p resource.Partition) (err error) {
	ref := replication.PartitionRef{Container: c.RID, Partition: p.ID}
	dir := n.partitionDir(ref)
	must := openingOf(dir, n.marks.set.partitions[ref], func() *catalog.View { return view })
	var summary partition.Summary
	err = inspect(n.cfg.Pool, dir, must, func(snapshot *storage.Snapshot) (err error) {
		summary, err = partition.ReadSummary(snapshot)
		return err
	})
	if err != nil || summary.Latest <= r.Now.Unix() {
		return err
	}
	store, err := n.cfg.Pool.OpenVerified(dir, must)
	if err != nil {
		return err
	}
	done, err := partition.RepairTimes(store, r.Now.Unix())
	if err := errors.Join(err, store.Close()); err != nil {
		return fmt.Errorf("container %q in database %q: %w", c.ID, c.Database.ID, err)
	}
	r.Partitions++
	r.Documents += done.Documents
	r.did("partition %s of container '%s' in database '%s': %s and %s in the change feed, the latest of %s",
		p.ID, c.ID, c.Database.ID, counted(done.Documents, "document"), counted(done.Versions, "version"), clock(time.Unix(done.Latest, 0)))
	return nil
}

// repairMarks repairs the times in the marks.
func (n *Node) repairMarks(r *ClockRepair) error {
	set := n.marks.set.clone()
	latest, changed := set.latest(), 0
	repaired := func(at *time.Time) {
		if at.After(r.Now) {
			*at = r.Now
			changed++
		}
	}
	repaired(&set.time)
	repaired(&set.catalog.at)
	for ref, known := range set.partitions {
		repaired(&known.at)
		set.partitions[ref] = known
	}
	if changed == 0 {
		return nil
	}
	if set.damaged > 0 {
		r.did("not the marks: some of them cannot be read; the next start of a server writes the others to a new file, and after that the repair can be run again")
		return nil
	}
	f, _, err := writeMarks(n.cfg.Pool.FS(), n.cfg.Dir, &set)
	if err != nil {
		return err
	}
	r.did("the marks: %s, the latest of %s", counted(changed, "time"), clock(latest))
	return f.Close()
}
