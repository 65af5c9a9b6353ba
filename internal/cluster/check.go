package cluster

import (
	"errors"
	"fmt"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
)

// Report is what [Check] found in a data directory.
type Report struct {
	Databases  int
	Partitions []PartitionReport // in the order of containers and ranges

	// Problems are those beyond single partitions: directories that are missing
	// and partitions that cannot be read.
	Problems []string

	// Leftovers are directories that the catalog does not name: what was being
	// made or removed when a process died. They are no problem, and the next
	// start of a server deletes them.
	Leftovers []string
}

// PartitionReport is what was found in one partition.
type PartitionReport struct {
	Database, Container string // their names
	partition.Report
}

// Clean reports whether nothing is wrong anywhere.
func (r *Report) Clean() bool {
	for i := range r.Partitions {
		if !r.Partitions[i].Clean() {
			return false
		}
	}
	return len(r.Problems) == 0
}

func (r *Report) problem(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

// Check verifies the data directory dir: that the catalog can be read and tiles
// every container, that each partition it names is there and keeps every
// invariant, and that its descriptor says what the catalog says. No server may
// use the directory meanwhile.
//
// It changes no row. Opening a store may replay and rewrite its log, as a
// server's start does.
func Check(dir string) (Report, error) {
	pool, err := storage.NewPool(storage.Options{})
	if err != nil {
		return Report{}, err
	}
	report, err := CheckStores(pool, dir)
	return report, errors.Join(err, pool.Close())
}

// CheckStores is [Check] for a data directory on the file system of a pool, in
// which none of its stores is open.
func CheckStores(pool *storage.Pool, dir string) (Report, error) {
	store, err := pool.Open(pool.FS().PathJoin(dir, catalogDir))
	if err != nil {
		return Report{}, fmt.Errorf("check: %w", err)
	}
	report, err := checkAll(pool, dir, store)
	return report, errors.Join(err, store.Close())
}

func checkAll(pool *storage.Pool, dir string, store *storage.Store) (Report, error) {
	names, err := catalog.Open(store, nil)
	if err != nil {
		return Report{}, fmt.Errorf("check: %w", err)
	}
	n := &Node{cfg: Config{Pool: pool, Dir: dir, Catalog: names}}
	view := names.View()
	report := Report{Databases: len(view.Databases())}
	for _, c := range view.AllContainers() {
		for i := range c.Ranges.Len() {
			n.checkPartition(c, c.Ranges.At(i).Value, &report)
		}
	}
	if report.Leftovers, err = n.unnamed(view); err != nil {
		return report, fmt.Errorf("check: %w", err)
	}
	return report, nil
}

// checkPartition adds one partition to the report.
func (n *Node) checkPartition(c *catalog.Container, p resource.Partition, report *Report) {
	dir := n.partitionDir(replication.PartitionRef{Container: c.RID, Partition: p.ID})
	found, err := n.checkStore(dir, c, p)
	if err != nil {
		report.problem("Partition %s of container '%s' in database '%s' (%s) cannot be read: %v", p.ID, c.ID, c.Database.ID, dir, err)
		return
	}
	report.Partitions = append(report.Partitions, PartitionReport{Database: c.Database.ID, Container: c.ID, Report: found})
}

func (n *Node) checkStore(dir string, c *catalog.Container, p resource.Partition) (partition.Report, error) {
	store, err := n.cfg.Pool.Open(dir)
	if err != nil {
		return partition.Report{}, err
	}
	snapshot := store.Snapshot()
	found, err := partition.Check(snapshot, &c.Container)
	if err == nil && (found.Partition != p.ID || !found.Range.Equal(p.Range)) {
		found.Problems = append(found.Problems, fmt.Sprintf("The store says that it is partition %s of range %v, the catalog that it is %s of %v.",
			found.Partition, found.Range, p.ID, p.Range))
	}
	return found, errors.Join(err, snapshot.Close(), store.Close())
}
