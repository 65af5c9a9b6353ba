package cluster

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/partition/check"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/table"
	"golang.org/x/sync/errgroup"
)

// Report is what [Check] found in a data directory.
type Report struct {
	Databases  int
	Partitions []PartitionReport // in the order of containers and ranges

	// Interrupted says that the context ended before the check was complete. Unchecked
	// has the partitions that it did not finish, in the same order. The report says
	// nothing about them, nor about directories that the catalog does not name.
	Interrupted bool
	Unchecked   []UncheckedPartition

	// Problems lists what is wrong apart from the contents of single partitions:
	// missing directories, partitions that cannot be read or have less than was
	// acknowledged, and a catalog that is older than its partitions.
	Problems []string

	// Leftovers lists the directories that the catalog has on record as garbage,
	// because they were being created or removed when a process ended. The next start
	// of a server deletes them. They are not a problem.
	Leftovers []string

	// Unnamed lists the directories that are unknown to the catalog. The next start of
	// a server moves them to the quarantine.
	Unnamed []string

	// Ahead has one sentence for each partition whose latest _ts is ahead of the clock.
	// The stored data is not wrong because of that.
	Ahead []string

	// Quarantine lists the entries of the quarantine, oldest first.
	Quarantine []Quarantined

	// Losses lists the losses that were accepted, oldest first. They are not a problem.
	Losses []catalog.Loss
}

// PartitionReport is the result for one partition.
type PartitionReport struct {
	Database, Container string // their names
	check.Report
}

// UncheckedPartition is a partition that was not verified.
type UncheckedPartition struct {
	Database, Container string // their names
	Partition           resource.PartitionID
}

// Clean reports whether everything that the check verified is correct.
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

// CheckOptions configures [Check]. The zero value is valid.
type CheckOptions struct {
	// Pool opens the stores. None of them may be open. Nil means a new pool on the real
	// file system.
	Pool *storage.Pool

	// Parallel is how many partitions are verified at the same time; zero means one for
	// each processor. The report does not depend on it.
	Parallel int

	// Now is the time at which readers would see the rows of tables, for those that expire.
	// The zero time is the present.
	Now time.Time

	// Progress is called every few hundred rows, by one goroutine at a time. It must not
	// block. Nil disables the callback.
	Progress func(CheckProgress)
}

// CheckProgress is the progress of a check.
type CheckProgress struct {
	Partitions, Total int     // verified partitions, and all partitions
	Documents         int64   // documents read
	Bytes             int64   // of their JSON without system properties
	Part              float64 // the part of the work done, from 0 to 1, estimated from the sizes of the stores
}

// Check verifies the data directory dir: the catalog can be read and tiles every
// container; each partition that it names exists, meets every invariant, and has a
// descriptor that agrees with the catalog; and everything that the marks have as
// acknowledged is present. No server may use the directory during the check.
//
// Check changes nothing. When ctx ends it returns soon, without an error: the report has
// what was verified until then and names what was not.
func Check(ctx context.Context, dir string, o CheckOptions) (Report, error) {
	if o.Pool != nil {
		return checkPool(ctx, dir, o)
	}
	var err error
	if o.Pool, err = storage.NewPool(storage.Options{}); err != nil {
		return Report{}, err
	}
	report, err := checkPool(ctx, dir, o)
	return report, errors.Join(err, o.Pool.Close())
}

// CheckStores is [Check] for a data directory on the file system of a pool that has none
// of its stores open.
func CheckStores(pool *storage.Pool, dir string) (Report, error) {
	return Check(context.Background(), dir, CheckOptions{Pool: pool})
}

func checkPool(ctx context.Context, dir string, o CheckOptions) (Report, error) {
	report, err := checkStores(ctx, dir, o)
	if err != nil {
		return report, fmt.Errorf("check: %w", err)
	}
	return report, nil
}

func checkStores(ctx context.Context, dir string, o CheckOptions) (report Report, err error) {
	pool := o.Pool
	files := pool.FS()
	set, err := readMarks(files, dir)
	if err != nil {
		return report, err
	}
	if report.Quarantine, err = ListQuarantine(files, dir); err != nil {
		return report, err
	}
	var view *catalog.View
	err = inspect(pool, files.PathJoin(dir, catalogDir), storage.Opening{Contains: set.catalog.position}, func(snapshot *storage.Snapshot) (err error) {
		view, err = catalog.Read(snapshot)
		return err
	})
	if err != nil {
		return report, err
	}
	n := &Node{cfg: Config{Pool: pool, Dir: dir}}
	n.marks.set = set
	report.Databases, report.Losses = len(view.Databases()), view.Losses()
	if err := verifyVersion(view.Version(), set.catalog); err != nil {
		report.problem("%v", err)
	}
	if set.damaged > 0 {
		report.problem("%s of the file %s cannot be read: its other records are still valid, and the next start of a server writes the file again.", counted(set.damaged, "record"), files.PathJoin(dir, marksFile))
	}
	n.checkPartitions(ctx, view, o, &report)
	if report.Interrupted = ctx.Err() != nil; report.Interrupted {
		return report, nil
	}
	return report, n.checkUnnamed(view, &report)
}

// checked is the state of the check of one partition.
type checked struct {
	container *catalog.Container
	partition resource.Partition
	table     *table.Table // of the container; nil if it has documents, or its definition cannot be read
	weight    int64        // bytes of its files

	found check.Report
	err   error // why the partition cannot be read
	done  bool
}

// checkPartitions adds all partitions to the report, or those that are verified when the
// context ends.
func (n *Node) checkPartitions(ctx context.Context, view *catalog.View, o CheckOptions, report *Report) {
	var all []*checked
	progress := checkProgress{tell: o.Progress}
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	views := comparisons{built: map[resource.RID]bool{}}
	tables := map[resource.RID]map[string]*table.Table{}
	for _, c := range view.AllContainers() {
		if _, known := tables[c.Database.RID]; !known && c.IsTable() && !c.Database.IsSystem() {
			schema := schemaOf(view, c.Database, report)
			tables[c.Database.RID] = map[string]*table.Table{}
			if schema == nil {
				continue
			}
			for _, t := range schema.Keyspace(c.Database.ID).Tables {
				tables[c.Database.RID][t.Name] = t
			}
			views.plan(view, c.Database, schema, o.Now.Unix())
		}
	}
	for _, c := range view.AllContainers() {
		for i := range c.Ranges.Len() {
			one := &checked{container: c, partition: c.Ranges.At(i).Value, table: tables[c.Database.RID][c.ID]}
			if o.Progress != nil {
				one.weight = 1 + sizeOfFiles(n.cfg.Pool.FS(), n.partitionDir(one.ref()))
				progress.weight += one.weight
			}
			all = append(all, one)
		}
	}
	progress.now.Total = len(all)
	if o.Parallel <= 0 {
		o.Parallel = runtime.GOMAXPROCS(0)
	}
	var group errgroup.Group
	group.SetLimit(o.Parallel)
	for _, one := range all {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			n.checkStore(ctx, view, one, views.visit(one.container), &progress)
			return nil
		})
	}
	_ = group.Wait() // The errors are in the entries of all.
	views.report(ctx, n, view, all, report)
	for _, one := range all {
		c, id := one.container, one.partition.ID
		switch {
		case !one.done:
			report.Unchecked = append(report.Unchecked, UncheckedPartition{Database: c.Database.ID, Container: c.ID, Partition: id})
		case one.err != nil:
			report.problem("Partition %s of container '%s' in database '%s' (%s) cannot be read: %v", id, c.ID, c.Database.ID, n.partitionDir(one.ref()), one.err)
		default:
			report.Partitions = append(report.Partitions, PartitionReport{Database: c.Database.ID, Container: c.ID, Report: one.found})
			if latest := time.Unix(one.found.Latest, 0); time.Until(latest) > ClockJump {
				report.Ahead = append(report.Ahead, fmt.Sprintf("partition %s of container '%s' in database '%s': its latest _ts is that of %s", id, c.ID, c.Database.ID, clock(latest)))
			}
		}
	}
}

func (c *checked) ref() replication.PartitionRef {
	return replication.PartitionRef{Container: c.container.RID, Partition: c.partition.ID}
}

// checkProgress adds up the progress of the checks of all partitions.
type checkProgress struct {
	tell   func(CheckProgress) // nil disables the callback
	weight int64               // of all partitions

	mu   sync.Mutex
	now  CheckProgress
	done float64 // the weight of the work done
}

// advance updates the progress of one partition from before to at.
func (p *checkProgress) advance(one *checked, before *check.Progress, at check.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now.Documents += at.Documents - before.Documents
	p.now.Bytes += at.Bytes - before.Bytes
	p.done += float64(one.weight) * (at.Part - before.Part)
	if one.done {
		p.now.Partitions++
	}
	p.now.Part = min(1, p.done/float64(p.weight))
	*before = at
	p.tell(p.now)
}

// sizeOfFiles returns the bytes of the files of a directory. It ignores errors.
func sizeOfFiles(files storage.Files, dir string) (bytes int64) {
	names, err := files.List(dir)
	if err != nil {
		return 0
	}
	for _, name := range names {
		if info, err := files.Stat(files.PathJoin(dir, name)); err == nil {
			bytes += info.Size()
		}
	}
	return bytes
}

// checkUnnamed adds the directories that the catalog does not name to the report.
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
		switch summary, err := n.readSummary(d); {
		case err == nil && summary.Catalog > view.Version():
			report.problem("%v", olderCatalog(view, d.dir, summary.Catalog))
		case d.known:
			report.Leftovers = append(report.Leftovers, d.dir)
		default:
			report.Unnamed = append(report.Unnamed, d.dir)
		}
	}
	return nil
}

// schemaOf returns the definitions of a keyspace. It reports those that cannot be read, and
// returns nil.
func schemaOf(view *catalog.View, d resource.Database, report *Report) *table.Schema {
	stored := table.StoredKeyspace{Name: d.ID, Definition: d.Keyspace}
	for _, c := range view.Containers(d.RID) {
		if c.IsTable() {
			stored.Tables = append(stored.Tables, table.StoredTable{Name: c.ID, Definition: c.Table})
		}
	}
	schema, err := table.ReadSchema([]table.StoredKeyspace{stored})
	if err != nil {
		report.problem("The definitions of keyspace '%s' cannot be read: %v", d.ID, err)
		return nil
	}
	return schema
}

// checkStore verifies one partition, unless ctx ends first. visit, if not nil, is called
// with its items.
func (n *Node) checkStore(ctx context.Context, view *catalog.View, one *checked, visit func(key, item, body []byte), progress *checkProgress) {
	var tell func(check.Progress)
	var at check.Progress
	if progress.tell != nil {
		tell = func(now check.Progress) { progress.advance(one, &at, now) }
	}
	dir, p := n.partitionDir(one.ref()), one.partition
	o := check.Options{Tell: tell, Visit: visit}
	if one.table != nil {
		o.Item = one.table.Checker()
	}
	must := openingOf(dir, n.marks.set.partitions[one.ref()], func() *catalog.View { return view })
	one.err = inspect(n.cfg.Pool, dir, must, func(snapshot *storage.Snapshot) (err error) {
		if err := ctx.Err(); err != nil {
			return err
		}
		one.found, err = check.Watch(ctx, snapshot, &one.container.Container, o)
		return err
	})
	if one.err != nil && ctx.Err() != nil {
		return // The end of ctx may be the only reason.
	}
	if found := &one.found; one.err == nil && (found.Partition != p.ID || !found.Range.Equal(p.Range)) {
		found.Problems = append(found.Problems, fmt.Sprintf("The store's descriptor has partition %s with range %v, and the catalog has %s with %v.",
			found.Partition, found.Range, p.ID, p.Range))
	}
	one.done = true
	if tell != nil {
		tell(check.Progress{Documents: one.found.Documents, Bytes: one.found.Bytes, Part: 1})
	}
}
