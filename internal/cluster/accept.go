package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"slices"
	"time"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
)

// Acceptance is the result of [AcceptLoss].
type Acceptance struct {
	// Lost has one sentence for each loss.
	Lost []string
	// Kept has the names of the new entries of the quarantine: copies of damaged stores,
	// and directories that the catalog does not name.
	Kept []string
	// Remaining has one sentence for each problem that still keeps a server from
	// starting or from serving a partition.
	Remaining []string
}

func (a *Acceptance) lost(format string, args ...any) {
	a.Lost = append(a.Lost, fmt.Sprintf(format, args...))
}

func (a *Acceptance) remains(format string, args ...any) {
	a.Remaining = append(a.Remaining, fmt.Sprintf(format, args...))
}

// AcceptLoss makes a server accept a data directory as it is. It cuts off the damaged
// part of each store and keeps a copy of the store in the quarantine, moves directories
// that the catalog does not name there as well, commits a version of the catalog above
// every known one, and lowers the marks. If empty is set, a partition of which nothing is
// left is replaced by an empty one; otherwise Acceptance.Remaining names it. The catalog
// has a record of each loss afterwards. No server may use the directory during the call.
func AcceptLoss(pool *storage.Pool, dir string, empty bool) (a Acceptance, err error) {
	err = offline(pool, dir, func(n *Node) error { return n.acceptLoss(&a, empty) }, func(n *Node) error {
		return n.cutStore(&a, pool.FS().PathJoin(dir, catalogDir), "the catalog")
	})
	if err != nil {
		return a, fmt.Errorf("accept loss: %w", err)
	}
	return a, nil
}

// offline opens a node that serves nothing, on a data directory that no server uses,
// and calls do with it. If before is set, offline calls before first and then opens the
// catalog without a check. Otherwise it opens and verifies the catalog as a server
// does.
func offline(pool *storage.Pool, dir string, do func(*Node) error, before func(*Node) error) error {
	files := pool.FS()
	set, err := readMarks(files, dir)
	if err != nil {
		return err
	}
	n := &Node{cfg: Config{Pool: pool, Dir: dir, Now: time.Now, Logger: slog.New(slog.DiscardHandler)}}
	n.marks.set = set
	must := storage.Opening{Provisional: true}
	if before == nil {
		must, err = VerifyCatalog(files, dir)
	} else {
		err = before(n)
	}
	if err != nil {
		return err
	}
	store, err := pool.OpenVerified(files.PathJoin(dir, catalogDir), must)
	if err != nil {
		return err
	}
	if n.cfg.Catalog, err = catalog.Open(store, nil); err == nil {
		err = do(n)
	}
	return errors.Join(err, store.Close())
}

// cutStore cuts off the damaged part of a store, and keeps a copy of the store. It does
// not change a store that has no damage, even if it is older than its mark.
func (n *Node) cutStore(a *Acceptance, dir, what string) error {
	pool := n.cfg.Pool
	damages, err := pool.Examine(dir, "")
	if err != nil || len(damages) == 0 {
		return err
	}
	note := Note{Why: "it was damaged, and the loss was accepted: " + damages[0].Error(), From: relative(pool.FS(), n.cfg.Dir, dir), When: n.now()}
	name, err := n.newEntry(path.Base(dir)+"-damaged", note)
	if err != nil {
		return err
	}
	cut, err := pool.AcceptLoss(dir, pool.FS().PathJoin(n.cfg.Dir, quarantineDir, name, contentName), "")
	if err != nil {
		return err
	}
	a.Kept = append(a.Kept, name)
	for _, says := range cut {
		a.lost("Of %s (%s): %s.", what, dir, says)
	}
	return nil
}

func (n *Node) now() time.Time { return n.cfg.Now().UTC().Truncate(time.Second) }

func (n *Node) acceptLoss(a *Acceptance, empty bool) error {
	names, set := n.cfg.Catalog, &n.marks.set
	view := names.View()
	if version := view.Version(); version < set.catalog.value {
		a.lost("The catalog has lost its %s; the last one was acknowledged at %s.", span("version", version+1, set.catalog.value), clock(set.catalog.at))
	}
	over := catalog.Overtake{Version: set.catalog.value}
	fresh := markSet{partitions: map[replication.PartitionRef]mark{}}
	var gone []replication.PartitionRef
	for _, c := range view.AllContainers() {
		for i := range c.Ranges.Len() {
			if !n.acceptPartition(a, c, c.Ranges.At(i).Value, &fresh, &over, empty) {
				gone = append(gone, replication.PartitionRef{Container: c.RID, Partition: c.Ranges.At(i).Value.ID})
			}
		}
	}
	if err := n.acceptUnnamed(a, view, &over); err != nil {
		return err
	}
	if over.Version > view.Version() {
		if _, err := names.Commit(context.Background(), over); err != nil {
			return err
		}
	}
	if err := n.recordLoss(a.Lost...); err != nil {
		return err
	}
	if err := n.startEmpty(a, gone, &fresh); err != nil {
		return err
	}
	if set.damaged > 0 {
		if err := n.keepMarks(); err != nil {
			return err
		}
	}
	fresh.catalog = mark{value: names.View().Version(), at: n.now()}
	f, _, err := writeMarks(n.cfg.Pool.FS(), n.cfg.Dir, &fresh)
	if err != nil {
		return err
	}
	return f.Close()
}

// acceptPartition accepts a partition as it is. It returns false if the partition cannot
// be read and is to start empty.
func (n *Node) acceptPartition(a *Acceptance, c *catalog.Container, p resource.Partition, fresh *markSet, over *catalog.Overtake, empty bool) bool {
	ref := replication.PartitionRef{Container: c.RID, Partition: p.ID}
	dir := n.partitionDir(ref)
	what := fmt.Sprintf("partition %s of container '%s' in database '%s'", p.ID, c.ID, c.Database.ID)
	known := n.marks.set.partitions[ref]
	err := n.cutStore(a, dir, what)
	var summary partition.Summary
	if err == nil {
		summary, err = n.readSummary(unnamed{dir: dir})
	}
	switch {
	case err != nil && empty:
		return false
	case errors.Is(err, fs.ErrNotExist):
		a.remains("Nothing of %s is left: restore %s from a backup, or restore partitions that cover its range with 'decan quarantine restore', or start with an empty one: 'decan check --accept-loss --start-empty'.", what, dir)
		fresh.partitions[ref] = known
		return true
	case err != nil:
		a.remains("Nothing of %s can be read: restore %s from a backup, or start with an empty one: 'decan check --accept-loss --start-empty': %v.", what, dir, err)
		fresh.partitions[ref] = known
		return true
	}
	if uint64(summary.LSN) < known.value {
		a.lost("The store of %s has lost its %s; the last one was acknowledged at %s.", what, span("change", summary.LSN+1, resource.LSN(known.value)), clock(known.at))
	}
	over.Version = max(over.Version, summary.Catalog)
	fresh.partitions[ref] = mark{value: uint64(summary.LSN), at: n.now()}
	return true
}

// emptyGap is the number of LSNs between the last known one of a lost partition and the
// first one of the empty partition that replaces it. The mark may be a second older than
// the last acknowledged write.
const emptyGap = 1 << 20

// startEmpty replaces each lost partition with an empty one, which is its only child:
// clients continue as after a split, their session tokens and continuations remain
// valid, and no number of a lost document is used again.
func (n *Node) startEmpty(a *Acceptance, gone []replication.PartitionRef, fresh *markSet) error {
	if len(gone) == 0 {
		return nil
	}
	if err := n.dropPlans(); err != nil {
		return err
	}
	for _, ref := range gone {
		c, _ := n.cfg.Catalog.View().ContainerByRID(ref.Container)
		lsn := n.highest(ref, fresh) + emptyGap
		id := c.NextPartition
		a.lost("All documents of partition %s of container '%s' in database '%s' are lost; the empty partition %s has its range, and its changes begin after LSN %d.", ref.Partition, c.ID, c.Database.ID, id, lsn)
		if err := n.recordLoss(a.Lost[len(a.Lost)-1]); err != nil {
			return err
		}
		if err := n.replaceByEmpty(c, ref, id, lsn); err != nil {
			return fmt.Errorf("replace partition %s of container '%s' with an empty one: %w", ref.Partition, c.ID, err)
		}
		fresh.partitions[replication.PartitionRef{Container: ref.Container, Partition: id}] = mark{value: uint64(lsn), at: n.now()}
		d := unnamed{dir: n.partitionDir(ref), ref: ref}
		if _, err := n.cfg.Pool.FS().Stat(d.dir); err != nil {
			continue
		}
		name, err := n.quarantine(d, fmt.Sprintf("it cannot be read, and the empty partition %s has replaced it", id))
		if err != nil {
			return err
		}
		a.Kept = append(a.Kept, name)
	}
	return nil
}

// highest returns the highest known LSN of a partition. For a partition without a mark it
// returns the highest one of all partitions of its container.
func (n *Node) highest(of replication.PartitionRef, fresh *markSet) (lsn resource.LSN) {
	if known, found := n.marks.set.partitions[of]; found {
		return resource.LSN(known.value)
	}
	for _, set := range []*markSet{&n.marks.set, fresh} {
		for ref, known := range set.partitions {
			if ref.Container == of.Container {
				lsn = max(lsn, resource.LSN(known.value))
			}
		}
	}
	return lsn
}

// replaceByEmpty creates a partition without documents and commits to the catalog that it
// replaces a lost one. Before that, the catalog has the new directory on record.
func (n *Node) replaceByEmpty(c *catalog.Container, lost replication.PartitionRef, id resource.PartitionID, lsn resource.LSN) error {
	old, _ := c.Partition(lost.Partition)
	p := old
	p.ID, p.Ordinal = id, uint32(id)
	p.Parents = append(slices.Clone(old.Parents), old.ID)
	p.Generation++
	if uint64(p.Ordinal) > resource.OrdinalMax {
		return errors.New("the container has no number left for a partition")
	}
	made := []resource.Partition{p}
	names := n.cfg.Catalog
	if _, err := names.Commit(context.Background(), catalog.PlanContainer{RID: c.RID, Partitions: made}); err != nil {
		return err
	}
	ref := replication.PartitionRef{Container: c.RID, Partition: p.ID}
	root := n.cfg.Pool.FS().PathDir(n.containerDir(c.RID))
	err := n.cfg.Pool.FS().MkdirAll(n.containerDir(c.RID), 0o700)
	if err == nil {
		err = errors.Join(syncDir(n.cfg.Pool.FS(), root), syncDir(n.cfg.Pool.FS(), n.cfg.Dir))
	}
	if err == nil {
		// An interrupted attempt may have created it; the catalog has it on record.
		err = n.cfg.Pool.Remove(n.partitionDir(ref))
	}
	if err == nil {
		err = n.cfg.Pool.Build(n.partitionDir(ref), func(store *storage.Store) error {
			return partition.InitializeAt(n.partitionConfig(store, ref, &c.Container), p, lsn)
		})
	}
	if err == nil {
		_, err = names.Commit(context.Background(), catalog.AdoptPartitions{Container: c.RID, Partitions: made})
	}
	return err
}

// recordLoss commits losses to the catalog, before anything is changed because of them.
func (n *Node) recordLoss(lost ...string) error {
	if len(lost) == 0 {
		return nil
	}
	_, err := n.cfg.Catalog.Commit(context.Background(), catalog.RecordLoss(lost))
	return err
}

// acceptUnnamed moves directories that the catalog does not name to the quarantine. Those
// that it has on record as garbage stay, and a server deletes them, unless a later
// version of the catalog may have named them: a planned directory whose store has a later
// version, or one that cannot be read while the marks do not prove that this catalog is
// the newest.
func (n *Node) acceptUnnamed(a *Acceptance, view *catalog.View, over *catalog.Overtake) error {
	all, err := n.unnamed(view)
	if err != nil {
		return err
	}
	set := &n.marks.set
	newest := !set.missing && set.damaged == 0 && view.Version() >= set.catalog.value
	for _, d := range all {
		summary, err := n.readSummary(d)
		if err == nil {
			over.Version = max(over.Version, summary.Catalog)
			over.Partitions = append(over.Partitions, catalog.Used{Container: summary.Container, Partition: summary.ID})
		}
		if d.known && (!d.planned || err == nil && summary.Catalog <= view.Version() || err != nil && newest) {
			continue
		}
		name, err := n.quarantine(d, "no container of the catalog has this partition")
		if err != nil {
			return err
		}
		a.Kept = append(a.Kept, name)
	}
	return nil
}

// clock formats a time for messages.
func clock(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05Z") }

// counted formats a count for messages: "1 record", "2 records".
func counted[N int | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// span formats a range of numbers for messages: "version 7", "versions 7 to 9".
func span[N uint64 | resource.LSN](noun string, first, last N) string {
	if first == last {
		return fmt.Sprintf("%s %d", noun, first)
	}
	return fmt.Sprintf("%ss %d to %d", noun, first, last)
}
