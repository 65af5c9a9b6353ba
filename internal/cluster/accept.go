package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"time"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
)

// Acceptance is what [AcceptLoss] has done.
type Acceptance struct {
	// Lost says what is gone, a sentence each.
	Lost []string
	// Kept names the entries of the quarantine that were made: damaged stores as they
	// were, and directories that the catalog does not name.
	Kept []string
	// Remaining is what still keeps a server from starting or from serving a partition,
	// a sentence each.
	Remaining []string
}

func (a *Acceptance) lost(format string, args ...any) {
	a.Lost = append(a.Lost, fmt.Sprintf(format, args...))
}

func (a *Acceptance) remains(format string, args ...any) {
	a.Remaining = append(a.Remaining, fmt.Sprintf(format, args...))
}

// AcceptLoss makes what is there all that there must be: it cuts off what is damaged,
// of which it keeps a copy in the quarantine, moves what the catalog does not name
// there as well, makes a version of the catalog above every one that is known of, and
// lowers the marks. No server may use the directory meanwhile.
func AcceptLoss(pool *storage.Pool, dir string) (a Acceptance, err error) {
	err = offline(pool, dir, func(n *Node) error { return n.acceptLoss(&a) }, func(n *Node) error {
		return n.cutStore(&a, pool.FS().PathJoin(dir, catalogDir), "the catalog")
	})
	if err != nil {
		return a, fmt.Errorf("accept loss: %w", err)
	}
	return a, nil
}

// offline calls do with a node that serves nothing, for a data directory that no server
// uses. before is called before the catalog is opened; nil opens it as a server does.
func offline(pool *storage.Pool, dir string, do func(*Node) error, before func(*Node) error) error {
	files := pool.FS()
	set, err := readMarks(files, dir)
	if err != nil {
		return err
	}
	n := &Node{cfg: Config{Pool: pool, Dir: dir, Now: time.Now, Logger: slog.New(slog.DiscardHandler)}}
	n.marks.set = set
	must := storage.Opening{}
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

// cutStore cuts off what is damaged of a store, and keeps a copy. A store that is whole
// and older than its mark is taken as it is.
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

func (n *Node) acceptLoss(a *Acceptance) error {
	names, set := n.cfg.Catalog, &n.marks.set
	view := names.View()
	if version := view.Version(); version < set.catalog.value {
		a.lost("The catalog has lost its versions %d to %d, the last of which was acknowledged at %s.", version+1, set.catalog.value, clock(set.catalog.at))
	}
	over := catalog.Overtake{Version: set.catalog.value}
	fresh := markSet{partitions: map[replication.PartitionRef]mark{}}
	for _, c := range view.AllContainers() {
		for i := range c.Ranges.Len() {
			n.acceptPartition(a, c, c.Ranges.At(i).Value, &fresh, &over)
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

// acceptPartition takes a partition as it is.
func (n *Node) acceptPartition(a *Acceptance, c *catalog.Container, p resource.Partition, fresh *markSet, over *catalog.Overtake) {
	ref := replication.PartitionRef{Container: c.RID, Partition: p.ID}
	dir := n.partitionDir(ref)
	what := fmt.Sprintf("partition %s of container '%s' in database '%s'", p.ID, c.ID, c.Database.ID)
	known := n.marks.set.partitions[ref]
	err := n.cutStore(a, dir, what)
	var about partition.About
	if err == nil {
		about, err = n.readAbout(unnamed{dir: dir})
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		a.remains("Of %s nothing is there: restore %s from a backup, or partitions that cover its range with 'decan quarantine restore'.", what, dir)
		fresh.partitions[ref] = known
		return
	case err != nil:
		a.remains("Of %s nothing can be read: restore %s from a backup: %v.", what, dir, err)
		fresh.partitions[ref] = known
		return
	}
	if uint64(about.LSN) < known.value {
		a.lost("The changes %d to %d of %s are lost, the last of which was acknowledged at %s.", about.LSN+1, known.value, what, clock(known.at))
	}
	over.Version = max(over.Version, about.Catalog)
	fresh.partitions[ref] = mark{value: uint64(about.LSN), at: n.now()}
}

// acceptUnnamed moves what the catalog does not name to the quarantine. What it has on
// record as garbage stays for the chores, unless a later catalog had it as a partition.
func (n *Node) acceptUnnamed(a *Acceptance, view *catalog.View, over *catalog.Overtake) error {
	all, err := n.unnamed(view)
	if err != nil {
		return err
	}
	for _, d := range all {
		about, err := n.readAbout(d)
		if err == nil {
			over.Version = max(over.Version, about.Catalog)
			over.Partitions = append(over.Partitions, catalog.Used{Container: about.Container, Partition: about.ID})
		}
		if d.known && (!d.planned || err == nil && about.Catalog <= view.Version()) {
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

// clock writes a time as messages have it.
func clock(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05Z") }
