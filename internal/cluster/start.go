package cluster

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"golang.org/x/sync/errgroup"
)

// errLost marks a store that has less than was acknowledged.
var errLost = errors.New("acknowledged data is missing")

// remedy tells an operator what to do about lost data.
const remedy = "restore it from a backup, or accept the loss with 'decan check --accept-loss'"

// begin compares the data directory with the catalog, and the stores with the marks of
// what was acknowledged. It changes the directory only if nothing is missing: it moves
// unknown directories to the quarantine, and drops the plans of interrupted splits and
// merges.
func (n *Node) begin(ctx context.Context) error {
	cfg := &n.cfg
	n.marks.files, n.marks.dir, n.marks.now, n.marks.log = cfg.Pool.FS(), cfg.Dir, cfg.Clock.Certain, cfg.Logger
	n.marks.off.Store(true)
	set, err := readMarks(n.marks.files, cfg.Dir)
	if err != nil {
		return err
	}
	n.marks.set = set.clone()
	cfg.Clock.begin(set.latest())
	view := cfg.Catalog.View()
	if err := n.checkNamed(view); err != nil {
		return err
	}
	all, err := n.unnamed(view)
	if err != nil {
		return err
	}
	// The first commit creates a database. No partition is created before it.
	if view.Version() == 0 && len(all) > 0 {
		return fmt.Errorf("the catalog is empty, but there are partitions, for example %s: restore the catalog from a backup", all[0].dir)
	}
	if err := verifyVersion(view.Version(), set.catalog); err != nil {
		return err
	}
	unknown, err := n.unknown(view, all)
	if err != nil {
		return err
	}
	n.verifying.Store(true)
	err = n.verifyUnclean(ctx, view, &set)
	n.verifying.Store(false)
	if err == nil {
		err = n.confirm()
	}
	if err != nil {
		return err
	}
	if err := n.renewMarks(view, &set); err != nil {
		return err
	}
	for _, d := range unknown {
		if _, err := n.quarantine(d, "no container of the catalog has this partition"); err != nil {
			return err
		}
	}
	if err := n.dropPlans(); err != nil {
		return err
	}
	n.queueLeftovers()
	n.logLosses()
	return n.removeEmptyDirs()
}

// lossReminder is the time after its acceptance in which each start logs a loss.
const lossReminder = 7 * 24 * time.Hour

// logLosses logs the losses that were accepted recently.
func (n *Node) logLosses() {
	for _, loss := range n.cfg.Catalog.View().Losses() {
		if at := time.Unix(int64(loss.TS), 0); n.cfg.Now().Sub(at) < lossReminder {
			n.cfg.Logger.Warn("a loss was accepted", "at", clock(at), "lost", loss.Lost)
		}
	}
}

// removeEmptyDirs removes empty directories of containers. A crash after the removal of
// the last partition leaves such a directory.
func (n *Node) removeEmptyDirs() error {
	files := n.cfg.Pool.FS()
	root := files.PathJoin(n.cfg.Dir, partitionsDir)
	names, err := files.List(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, name := range names {
		if _, ok := containerNamed(name); ok {
			err = errors.Join(err, n.removeEmptyDir(files.PathJoin(root, name)))
		}
	}
	return err
}

// checkNamed returns an error if a directory that the catalog names does not exist. The
// error says which of the two is older, if that can be told.
func (n *Node) checkNamed(view *catalog.View) error {
	var missing []string
	var gone []replication.PartitionRef
	for _, c := range view.AllContainers() {
		for i := range c.Ranges.Len() {
			id := c.Ranges.At(i).Value.ID
			ref := replication.PartitionRef{Container: c.RID, Partition: id}
			dir := n.partitionDir(ref)
			if _, err := n.cfg.Pool.FS().Stat(dir); errors.Is(err, fs.ErrNotExist) {
				gone = append(gone, ref)
				missing = append(missing, fmt.Sprintf("partition %s of container %q in database %q, in %s", id, c.ID, c.Database.ID, dir))
			} else if err != nil {
				return fmt.Errorf("look for partition %s of container %q in database %q: %w", id, c.ID, c.Database.ID, err)
			}
			n.loadPurging(ref)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if err := n.checkNewerPartitions(view, missing); err != nil {
		return err
	}
	if descendants := n.descendants(view, gone); len(descendants) > 0 {
		return fmt.Errorf("the catalog is older than its partitions: directories that it names are gone: %s; and it does not name those that have replaced them: %s: %w: restore the newer catalog, or accept the loss of what it had with 'decan check --accept-loss'; nothing was changed",
			someOf(missing), someOf(descendants), errLost)
	}
	if parents := n.parentsThere(view, gone); len(parents) > 0 {
		return fmt.Errorf("the partitions are older than the catalog: directories that it names cannot be found: %s; and those that they have replaced still exist: %s: restore the partitions from the time of the catalog, or the catalog and the file of marks from the time of the partitions; nothing was changed: %w", someOf(missing), someOf(parents), fs.ErrNotExist)
	}
	return fmt.Errorf("directories that the catalog names cannot be found: %s: restore them from a backup; nothing was changed: %w", someOf(missing), fs.ErrNotExist)
}

// checkNewerPartitions returns an error if a partition was changed under a later version
// of the catalog: then the catalog is wrong, and not the directories that it misses.
func (n *Node) checkNewerPartitions(view *catalog.View, missing []string) error {
	later := func(dir string) error {
		summary, err := n.readSummary(unnamed{dir: dir})
		if err == nil && summary.Catalog > view.Version() {
			return fmt.Errorf("directories that the catalog names are gone: %s: %w", someOf(missing), olderCatalog(view, dir, summary.Catalog))
		}
		return nil
	}
	for _, c := range view.AllContainers() {
		for i := range c.Ranges.Len() {
			if err := later(n.partitionDir(replication.PartitionRef{Container: c.RID, Partition: c.Ranges.At(i).Value.ID})); err != nil {
				return err
			}
		}
	}
	all, err := n.unnamed(view)
	if err != nil {
		return err
	}
	for _, d := range all {
		if err := later(d.dir); err != nil {
			return err
		}
	}
	return nil
}

// parentsThere returns the existing directories of the ancestors of missing partitions.
func (n *Node) parentsThere(view *catalog.View, gone []replication.PartitionRef) (dirs []string) {
	for _, ref := range gone {
		c, _ := view.ContainerByRID(ref.Container)
		p, _ := c.Partition(ref.Partition)
		for _, id := range p.Parents {
			dir := n.partitionDir(replication.PartitionRef{Container: ref.Container, Partition: id})
			if _, err := n.cfg.Pool.FS().Stat(dir); err == nil && !slices.Contains(dirs, dir) {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}

// descendants returns the directories that the catalog does not name and whose partitions
// come from the given ones, by splits and merges.
func (n *Node) descendants(view *catalog.View, of []replication.PartitionRef) (dirs []string) {
	all, err := n.unnamed(view)
	if err != nil {
		return nil
	}
	for _, d := range all {
		summary, err := n.readSummary(d)
		if err == nil && slices.ContainsFunc(of, func(ref replication.PartitionRef) bool {
			return summary.Container == ref.Container && slices.Contains(summary.Parents, ref.Partition)
		}) {
			dirs = append(dirs, d.dir)
		}
	}
	return dirs
}

// someOf joins the first few of many texts, and says how many more there are.
func someOf(all []string) string {
	const most = 5
	if more := len(all) - most; more > 0 {
		return fmt.Sprintf("%s, and %d more", strings.Join(all[:most], "; "), more)
	}
	return strings.Join(all, "; ")
}

// verifyVersion returns an error if a version of the catalog is older than the marked one.
func verifyVersion(version uint64, marked mark) error {
	if version >= marked.value {
		return nil
	}
	return fmt.Errorf("the catalog is older than what was acknowledged: it is at version %d, and version %d was acknowledged at %s: %w: restore the newer catalog, or accept the loss with 'decan check --accept-loss'; nothing was changed",
		version, marked.value, clock(marked.at), errLost)
}

// VerifyCatalog returns what the catalog's store of a data directory must contain
// according to the marks. The store is opened provisionally: its files do not change
// before [Start] has verified everything.
func VerifyCatalog(files storage.Files, dir string) (storage.Opening, error) {
	set, err := readMarks(files, dir)
	if err != nil {
		return storage.Opening{}, err
	}
	return storage.Opening{
		Contains:    set.catalog.position,
		Provisional: true,
		Verify: func(snapshot *storage.Snapshot) error {
			version, err := catalog.StoredVersion(snapshot)
			if err != nil {
				return err
			}
			return verifyVersion(version, set.catalog)
		},
	}, nil
}

// AllowFresh returns an error if a data directory without a catalog had one before, so
// that a server must not create a new one.
func AllowFresh(files storage.Files, dir string) error {
	set, err := readMarks(files, dir)
	if err == nil && set.catalog.value > 0 {
		err = fmt.Errorf("the catalog is missing, and version %d of it was acknowledged at %s: %w: restore it from a backup; nothing was changed",
			set.catalog.value, clock(set.catalog.at), errLost)
	}
	return err
}

// unnamed is a directory or file below p that the catalog does not name.
type unnamed struct {
	dir string
	ref replication.PartitionRef // zero unless dir has the name of a partition's directory

	// known says that the catalog has the directory on record as garbage. planned says
	// that the record comes from a plan, so that a later version of the catalog may have
	// named the directory.
	known, planned bool
}

// unknown returns those of the unnamed directories that the catalog does not have on
// record. It returns an error if one of them was changed under a later version of the
// catalog, because then the catalog is older than the directory.
func (n *Node) unknown(view *catalog.View, all []unnamed) (unknown []unnamed, err error) {
	for _, d := range all {
		if d.known && !d.planned {
			continue
		}
		summary, err := n.readSummary(d)
		if err == nil && summary.Catalog > view.Version() {
			return nil, olderCatalog(view, d.dir, summary.Catalog)
		}
		// A planned partition may be incomplete, so it may be unreadable. The marks prove
		// that the catalog is the newest one, unless they are damaged.
		if !d.known || err != nil && n.marks.set.damaged > 0 {
			unknown = append(unknown, d)
		}
	}
	return unknown, nil
}

// olderCatalog returns the error for a partition that was changed under a later version of
// the catalog.
func olderCatalog(view *catalog.View, dir string, version uint64) error {
	return fmt.Errorf("the catalog is older than its partitions: it is at version %d, and %s was last changed under version %d: %w: restore the newer catalog, or accept the loss of what it had with 'decan check --accept-loss'; nothing was changed",
		view.Version(), dir, version, errLost)
}

// unnamed returns the directories and files below p that the catalog does not name.
func (n *Node) unnamed(view *catalog.View) ([]unnamed, error) {
	files := n.cfg.Pool.FS()
	root := files.PathJoin(n.cfg.Dir, partitionsDir)
	containers, err := files.List(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	garbage := n.garbage(view)
	var all []unnamed
	for _, name := range containers {
		dir := files.PathJoin(root, name)
		rid, ok := containerNamed(name)
		ids, err := files.List(dir)
		if !ok || err != nil {
			all = append(all, unnamed{dir: dir})
			continue
		}
		if len(ids) == 0 {
			continue // It is empty.
		}
		container, _ := view.ContainerByRID(rid)
		for _, base := range ids {
			d := unnamed{dir: files.PathJoin(dir, base)}
			id, ok := partitionNamed(base)
			if ok {
				if d.ref = (replication.PartitionRef{Container: rid, Partition: id}); container != nil {
					if _, named := container.Partition(id); named {
						continue
					}
				}
				d.planned, d.known = garbage[d.ref]
			}
			all = append(all, d)
		}
	}
	return all, nil
}

// garbage returns the directories that the catalog has on record as garbage, leftovers and
// children of plans, and whether the record of each comes from a plan.
func (n *Node) garbage(view *catalog.View) map[replication.PartitionRef]bool {
	planned := map[replication.PartitionRef]bool{}
	for _, l := range view.Leftovers() {
		planned[replication.PartitionRef{Container: l.Container, Partition: l.Partition}] = l.Planned
	}
	for _, c := range view.AllContainers() {
		for _, id := range c.Planned() {
			planned[replication.PartitionRef{Container: c.RID, Partition: id}] = true
		}
	}
	return planned
}

// containerNamed returns the container whose directory has the given name, and false if no
// container's directory can have it.
func containerNamed(name string) (resource.RID, bool) {
	rid, err := hex.DecodeString(name)
	if err != nil || hex.EncodeToString(rid) != name || !resource.RID(rid).IsContainer() {
		return "", false
	}
	return resource.RID(rid), true
}

// partitionNamed returns the partition whose directory has the given name, and false if no
// partition's directory can have it.
func partitionNamed(name string) (resource.PartitionID, bool) {
	id, err := strconv.ParseUint(name, 10, 32)
	if err != nil || resource.PartitionID(id).String() != name {
		return 0, false
	}
	return resource.PartitionID(id), true
}

// errInspected ends the opening of a store by inspect, so that the store does not change
// its directory.
var errInspected = errors.New("inspected")

// inspect calls see with a snapshot of a closed store, and leaves the store unchanged.
func inspect(pool *storage.Pool, dir string, o storage.Opening, see func(*storage.Snapshot) error) error {
	verify := o.Verify
	o.Verify = func(snapshot *storage.Snapshot) error {
		if verify != nil {
			if err := verify(snapshot); err != nil {
				return err
			}
		}
		if err := see(snapshot); err != nil {
			return err
		}
		return errInspected
	}
	_, err := pool.OpenVerified(dir, o)
	if errors.Is(err, errInspected) {
		return nil
	}
	return err
}

// readSummary reads the descriptor of the partition in a directory.
func (n *Node) readSummary(d unnamed) (summary partition.Summary, err error) {
	err = inspect(n.cfg.Pool, d.dir, storage.Opening{}, func(snapshot *storage.Snapshot) (err error) {
		summary, err = partition.ReadSummary(snapshot)
		return err
	})
	return summary, err
}

// opening returns what the store of a partition must contain before it is served.
func (n *Node) opening(ref replication.PartitionRef) storage.Opening {
	known, _ := n.marks.of(ref)
	return openingOf(n.partitionDir(ref), known, n.cfg.Catalog.View)
}

// openingOf returns what the store of a partition must contain according to its mark: at
// least the marked LSN, and nothing from a later version of the catalog.
func openingOf(dir string, known mark, view func() *catalog.View) storage.Opening {
	return storage.Opening{
		Contains: known.position,
		Verify: func(snapshot *storage.Snapshot) error {
			summary, err := partition.ReadSummary(snapshot)
			if err != nil {
				return err
			}
			if view := view(); summary.Catalog > view.Version() {
				return olderCatalog(view, dir, summary.Catalog)
			}
			if uint64(summary.LSN) < known.value {
				return fmt.Errorf("it ends at LSN %d, and LSN %d was acknowledged at %s: %w: %s",
					summary.LSN, known.value, clock(known.at), errLost, remedy)
			}
			return nil
		},
	}
}

// verifyUnclean opens the partitions that were not closed after their last write, and
// keeps them open. It returns an error if one of them has lost acknowledged data. A
// partition that was closed cleanly is verified when it is first opened.
func (n *Node) verifyUnclean(ctx context.Context, view *catalog.View, set *markSet) error {
	var refs []replication.PartitionRef
	for _, c := range view.AllContainers() {
		for i := range c.Ranges.Len() {
			ref := replication.PartitionRef{Container: c.RID, Partition: c.Ranges.At(i).Value.ID}
			logged, err := n.cfg.Pool.Logged(n.partitionDir(ref))
			if err != nil || logged || !set.clean(ref) {
				refs = append(refs, ref)
			}
		}
	}
	lost := make([]error, len(refs))
	var openers errgroup.Group
	openers.SetLimit(openersMax)
	for i, ref := range refs {
		openers.Go(func() error {
			lost[i] = n.verifyOne(ctx, view, ref)
			return nil
		})
	}
	_ = openers.Wait() // The errors are in lost.
	lost = slices.DeleteFunc(lost, func(err error) bool { return err == nil })
	if len(lost) > verdictsMax {
		more := len(lost) - verdictsMax
		lost = append(lost[:verdictsMax], fmt.Errorf("and %s more", counted(more, "partition")))
	}
	return errors.Join(lost...)
}

// confirm allows the provisionally opened stores to change their directories, because all
// are verified.
func (n *Node) confirm() error {
	err := n.cfg.Catalog.Confirm()
	for _, s := range n.openSlots() {
		if err := s.store.Confirm(); err != nil {
			n.cfg.Logger.Warn("store not confirmed", "store", s.store.Dir(), "err", err)
		}
	}
	return err
}

// verdictsMax is how many damaged partitions the error of a start names.
const verdictsMax = 10

// verifyOne opens a partition, and returns an error if it has lost acknowledged data. It
// ignores other errors: the requests for the partition will get them.
func (n *Node) verifyOne(ctx context.Context, view *catalog.View, ref replication.PartitionRef) error {
	s, err := n.acquire(ctx, ref)
	if err == nil {
		s.release()
		return nil
	}
	if !isLoss(err) {
		return nil
	}
	if e := status.From(err); e != nil && e.Cause != nil {
		err = e.Cause
	}
	c, _ := view.ContainerByRID(ref.Container)
	return fmt.Errorf("container %q in database %q: %w", c.ID, c.Database.ID, err)
}

// isLoss reports whether a store could not be opened because it is damaged or has less
// than was acknowledged.
func isLoss(err error) bool { return storage.IsCorrupt(err) || errors.Is(err, errLost) }

// renewMarks enables the marks. It drops those of partitions that the catalog no longer
// names, and copies a damaged file of marks to the quarantine.
func (n *Node) renewMarks(view *catalog.View, set *markSet) error {
	named := func(ref replication.PartitionRef) bool {
		c, found := view.ContainerByRID(ref.Container)
		if found {
			_, found = c.Partition(ref.Partition)
		}
		return found
	}
	for ref := range set.partitions {
		if !named(ref) {
			n.marks.forget(ref)
		}
	}
	switch {
	case set.missing && view.Version() > 0:
		n.cfg.Logger.Warn("file of marks of acknowledged writes is missing, writing a new one", "dir", n.cfg.Dir)
	case set.damaged > 0:
		n.cfg.Logger.Warn("file of marks of acknowledged writes is damaged, writing a new one with the valid records", "dir", n.cfg.Dir, "damaged", set.damaged)
		if err := n.keepMarks(); err != nil {
			return err
		}
	}
	n.marks.off.Store(false)
	n.cfg.Catalog.Mark(n.marks.markCatalog)
	if set.missing || set.damaged > 0 || view.Version() > set.catalog.value {
		n.marks.markCatalog(view.Version(), "")
	}
	for _, s := range n.openSlots() {
		n.marks.note(s)
	}
	return nil
}

// queueLeftovers schedules the removal of the directories that the catalog has on record
// as leftovers.
func (n *Node) queueLeftovers() {
	files := n.cfg.Pool.FS()
	for _, l := range n.cfg.Catalog.View().Leftovers() {
		ref := replication.PartitionRef{Container: l.Container, Partition: l.Partition}
		if _, err := files.Stat(n.partitionDir(ref)); errors.Is(err, fs.ErrNotExist) {
			n.gone.set(ref, true)
			continue
		}
		n.left.set(ref, true)
	}
}
