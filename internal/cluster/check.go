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

	// Problems are those beyond single partitions: directories that are missing,
	// partitions that cannot be read or have less than was acknowledged, and a catalog
	// that is older than what it names.
	Problems []string

	// Leftovers are directories that the catalog has on record as garbage: what was
	// being made or removed when a process died. They are no problem, and the next
	// start of a server deletes them.
	Leftovers []string

	// Unnamed are directories that the catalog knows nothing of. The next start of a
	// server moves them to the quarantine.
	Unnamed []string

	// Quarantine is what has been moved there.
	Quarantine []Quarantined
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
// invariant, that its descriptor says what the catalog says, and that everything is
// there that the marks say was acknowledged. No server may use the directory meanwhile.
//
// It changes nothing.
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
	report, err := checkStores(pool, dir)
	if err != nil {
		return report, fmt.Errorf("check: %w", err)
	}
	return report, nil
}

func checkStores(pool *storage.Pool, dir string) (report Report, err error) {
	files := pool.FS()
	set, err := readMarks(files, dir)
	if err != nil {
		return report, err
	}
	if report.Quarantine, err = ListQuarantine(files, dir); err != nil {
		return report, err
	}
	var view *catalog.View
	err = look(pool, files.PathJoin(dir, catalogDir), storage.Opening{Contains: set.catalog.position}, func(snapshot *storage.Snapshot) (err error) {
		view, err = catalog.Read(snapshot)
		return err
	})
	if err != nil {
		return report, err
	}
	n := &Node{cfg: Config{Pool: pool, Dir: dir}}
	n.marks.set = set
	report.Databases = len(view.Databases())
	if err := verifyVersion(view.Version(), set.catalog); err != nil {
		report.problem("%v", err)
	}
	if set.damaged > 0 {
		report.problem("%d records of the file %s cannot be read: what it says of other stores still holds, and the next start of a server makes it anew.", set.damaged, files.PathJoin(dir, marksFile))
	}
	for _, c := range view.AllContainers() {
		for i := range c.Ranges.Len() {
			n.checkPartition(view, c, c.Ranges.At(i).Value, &report)
		}
	}
	return report, n.checkUnnamed(view, &report)
}

// checkUnnamed adds to the report what the catalog does not name.
func (n *Node) checkUnnamed(view *catalog.View, report *Report) error {
	all, err := n.unnamed(view)
	if err != nil {
		return err
	}
	for _, d := range all {
		if d.known && !d.planned {
			report.Leftovers = append(report.Leftovers, d.dir)
			continue
		}
		switch about, err := n.readAbout(d); {
		case err == nil && about.Catalog > view.Version():
			report.problem("%v", olderCatalog(view, d.dir, about.Catalog))
		case d.known:
			report.Leftovers = append(report.Leftovers, d.dir)
		default:
			report.Unnamed = append(report.Unnamed, d.dir)
		}
	}
	return nil
}

// checkPartition adds one partition to the report.
func (n *Node) checkPartition(view *catalog.View, c *catalog.Container, p resource.Partition, report *Report) {
	ref := replication.PartitionRef{Container: c.RID, Partition: p.ID}
	dir := n.partitionDir(ref)
	found, err := n.checkStore(view, ref, c, p)
	if err != nil {
		report.problem("Partition %s of container '%s' in database '%s' (%s) cannot be read: %v", p.ID, c.ID, c.Database.ID, dir, err)
		return
	}
	report.Partitions = append(report.Partitions, PartitionReport{Database: c.Database.ID, Container: c.ID, Report: found})
}

func (n *Node) checkStore(view *catalog.View, ref replication.PartitionRef, c *catalog.Container, p resource.Partition) (found partition.Report, err error) {
	dir := n.partitionDir(ref)
	must := openingOf(dir, n.marks.set.partitions[ref], func() *catalog.View { return view })
	err = look(n.cfg.Pool, dir, must, func(snapshot *storage.Snapshot) (err error) {
		found, err = partition.Check(snapshot, &c.Container)
		return err
	})
	if err == nil && (found.Partition != p.ID || !found.Range.Equal(p.Range)) {
		found.Problems = append(found.Problems, fmt.Sprintf("The store says that it is partition %s of range %v, the catalog that it is %s of %v.",
			found.Partition, found.Range, p.ID, p.Range))
	}
	return found, err
}
