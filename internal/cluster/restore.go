package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/value"
)

// returning is a partition that comes back out of the quarantine.
type returning struct {
	name  string // of the entry
	about partition.About
	there bool // an attempt before has moved it to its place
}

// Restore brings partitions of one container back out of the quarantine of a data
// directory that no server uses, and returns what it has done, in words. They go where
// the catalog names them, or take the place of partitions that they have come out of
// and that were not written to since, or become a container, which is called as, with
// the names of database and container. Otherwise nothing is changed.
func Restore(pool *storage.Pool, dir string, names []string, as string) (done string, err error) {
	err = offline(pool, dir, func(n *Node) (err error) {
		done, err = n.restore(names, as)
		return err
	}, nil)
	if err != nil {
		return "", fmt.Errorf("restore from the quarantine: %w", err)
	}
	return done, nil
}

func (n *Node) restore(names []string, as string) (string, error) {
	var all []returning
	for _, name := range names {
		if err := entryThere(n.cfg.Pool.FS(), n.cfg.Dir, name); err != nil {
			return "", err
		}
		about, err := aboutQuarantined(n.cfg.Pool, n.cfg.Dir, name)
		there := errors.Is(err, fs.ErrNotExist)
		if there {
			about, err = n.aboutMoved(name)
		}
		if err != nil {
			return "", fmt.Errorf("%s is no partition that can be read: %w", name, err)
		}
		if len(all) > 0 && about.Container != all[0].about.Container {
			return "", fmt.Errorf("%s belongs to container %s, and %s to container %s: restore them one after the other", name, about.Container, all[0].name, all[0].about.Container)
		}
		all = append(all, returning{name, about, there})
	}
	if len(all) == 0 {
		return "", errors.New("no entry is named")
	}
	view := n.cfg.Catalog.View()
	for _, r := range all {
		if r.about.Catalog > view.Version() {
			return "", olderCatalog(view, r.name, r.about.Catalog)
		}
		if r.there {
			continue
		}
		if _, err := n.cfg.Pool.FS().Stat(n.dirOf(r)); !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("%s would replace %s, which is there: %w", r.name, n.dirOf(r), fs.ErrExist)
		}
	}
	c, found := view.ContainerByRID(all[0].about.Container)
	switch {
	case !found:
		return n.adoptContainer(all, as)
	case as != "":
		return "", fmt.Errorf("the partitions belong to container '%s' in database '%s', which the catalog has: leave out the name", c.ID, c.Database.ID)
	case !c.PartitionKey.Equal(all[0].about.Key):
		return "", fmt.Errorf("container '%s' has another partition key than the partitions", c.ID)
	}
	return n.replace(c, all)
}

// aboutMoved reads what a partition says of itself that was in an entry whose restore was
// cut short: it is where it belongs already.
func (n *Node) aboutMoved(name string) (about partition.About, err error) {
	files := n.cfg.Pool.FS()
	note, err := readNote(files, files.PathJoin(n.cfg.Dir, quarantineDir, name, noteFile))
	if err != nil {
		return about, err
	}
	if note.Says == nil {
		return about, fs.ErrNotExist
	}
	ref := replication.PartitionRef{Container: note.Says.Container, Partition: note.Says.Partition}
	return n.readAbout(unnamed{dir: n.partitionDir(ref)})
}

// dirOf is where a partition belongs.
func (n *Node) dirOf(r returning) string {
	return n.partitionDir(replication.PartitionRef{Container: r.about.Container, Partition: r.about.ID})
}

// replace brings partitions back to their container.
func (n *Node) replace(c *catalog.Container, all []returning) (string, error) {
	var others []returning // that the catalog does not name
	for _, r := range all {
		switch p, named := c.Partition(r.about.ID); {
		case !named:
			others = append(others, r)
		case !p.Range.Equal(r.about.Range) || p.Generation != r.about.Generation:
			return "", fmt.Errorf("%s has the range %v, and the catalog has %v for partition %s", r.name, r.about.Range, p.Range, p.ID)
		}
	}
	if len(others) == 0 {
		return fmt.Sprintf("%d partitions of container '%s' are back in their place", len(all), c.ID), n.bringBack(all)
	}
	if len(others) != len(all) {
		return "", errors.New("the catalog names some of the partitions and not the others: restore those that it names first")
	}
	partitions := partitionsOf(all)
	gone := c.Replaced(partitions)
	for _, id := range gone {
		if err := n.replaceable(c, id, all); err != nil {
			return "", err
		}
	}
	change := catalog.AdoptPartitions{Container: c.RID, Partitions: partitions}
	return fmt.Sprintf("partitions %v of container '%s' are replaced by %v", gone, c.ID, idsOf(all)), n.adopt(all, change, func() error {
		for _, id := range gone {
			d := unnamed{ref: replication.PartitionRef{Container: c.RID, Partition: id}}
			d.dir = n.partitionDir(d.ref)
			if _, err := n.cfg.Pool.FS().Stat(d.dir); errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if _, err := n.quarantine(d, fmt.Sprintf("partitions %v were restored in its place", idsOf(all))); err != nil {
				return err
			}
		}
		return nil
	})
}

// replaceable refuses a partition that has rows which those that come back do not have.
func (n *Node) replaceable(c *catalog.Container, id resource.PartitionID, by []returning) error {
	p, _ := c.Partition(id)
	for _, r := range by {
		if r.about.Range.Overlaps(p.Range) && !slices.Contains(r.about.Parents, id) {
			return fmt.Errorf("%s has not come out of partition %s of container '%s', which has a part of its range", r.name, id, c.ID)
		}
	}
	ref := replication.PartitionRef{Container: c.RID, Partition: id}
	has, err := n.readAbout(unnamed{dir: n.partitionDir(ref)})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("partition %s of container '%s', which would be replaced, cannot be read: %w", id, c.ID, err)
	}
	for _, r := range by {
		if r.about.Range.Overlaps(p.Range) && (has.LSN > r.about.LSN || has.Catalog > r.about.Catalog) {
			return fmt.Errorf("partition %s of container '%s' was written to after %s came out of it: its changes would be lost", id, c.ID, r.name)
		}
	}
	return nil
}

// adoptContainer makes a container of partitions that tile the key space.
func (n *Node) adoptContainer(all []returning, as string) (string, error) {
	database, name, ok := strings.Cut(as, "/")
	if !ok || database == "" || name == "" {
		return "", fmt.Errorf("the catalog does not have container %s: give it a name with --as DATABASE/CONTAINER", all[0].about.Container)
	}
	if _, taken := n.cfg.Catalog.View().Container(database, name); taken {
		return "", fmt.Errorf("database '%s' has a container '%s': give another name with --as DATABASE/CONTAINER", database, name)
	}
	first := all[0].about
	for _, r := range all {
		switch {
		case !r.about.Key.Equal(first.Key) || !r.about.Policy.Equal(first.Policy):
			return "", fmt.Errorf("%s and %s have different partition keys or indexing policies", all[0].name, r.name)
		case r.about.HasUniqueKeys:
			return "", fmt.Errorf("%s has unique keys, which only a catalog defines: restore the catalog", r.name)
		}
	}
	container, err := definition(name, first)
	if err != nil {
		return "", err
	}
	change := catalog.AdoptContainer{Database: database, Container: container, Partitions: partitionsOf(all)}
	if _, shared := n.cfg.Catalog.View().Throughput(first.Container.Database()); !shared {
		change.Throughput = &resource.Throughput{Manual: resource.ManualMin, Highest: resource.ManualMin}
	}
	done := fmt.Sprintf("container '%s' in database '%s' is made of partitions %v; its time to live, scripts, permissions and throughput are those of a new container", name, database, idsOf(all))
	return done, n.adopt(all, change, func() error { return nil })
}

// definition is that of a container of which only a partition is left.
func definition(name string, about partition.About) (resource.Container, error) {
	key, err := json.Marshal(about.Key)
	if err != nil {
		return resource.Container{}, err
	}
	id, err := json.Marshal(name)
	if err != nil {
		return resource.Container{}, err
	}
	body, err := value.ParseString(fmt.Sprintf(`{"id":%s,"partitionKey":%s}`, id, key))
	if err != nil {
		return resource.Container{}, err
	}
	c, err := resource.ParseContainer(body)
	c.RID, c.PartitionKey, c.Indexing = about.Container, about.Key, about.Policy
	return c, err
}

// adopt moves partitions into place and has the catalog name them. When that is refused
// they go back. after is called when they are named.
func (n *Node) adopt(all []returning, change catalog.Change, after func() error) error {
	for i, r := range all {
		if err := n.moveIn(r); err != nil {
			return errors.Join(err, n.moveOut(all[:i]))
		}
	}
	if _, err := n.cfg.Catalog.Commit(context.Background(), change); err != nil {
		if catalog.OutcomeUnknown(err) {
			return err
		}
		return errors.Join(err, n.moveOut(all))
	}
	return errors.Join(after(), n.removeEntries(all))
}

// bringBack moves partitions to where the catalog names them.
func (n *Node) bringBack(all []returning) error {
	for _, r := range all {
		if err := n.moveIn(r); err != nil {
			return err
		}
	}
	return n.removeEntries(all)
}

func (n *Node) contentOf(r returning) string {
	return n.cfg.Pool.FS().PathJoin(n.cfg.Dir, quarantineDir, r.name, contentName)
}

func (n *Node) moveIn(r returning) error {
	if r.there {
		return nil
	}
	files := n.cfg.Pool.FS()
	parent := n.containerDir(r.about.Container)
	if err := files.MkdirAll(parent, 0o700); err != nil {
		return err
	}
	root := files.PathDir(parent)
	if err := errors.Join(syncDir(files, root), syncDir(files, files.PathDir(root))); err != nil {
		return err
	}
	return moveDurably(files, n.contentOf(r), n.dirOf(r))
}

func (n *Node) moveOut(all []returning) (err error) {
	for _, r := range all {
		err = errors.Join(err, moveDurably(n.cfg.Pool.FS(), n.dirOf(r), n.contentOf(r)), n.removeEmpty(n.containerDir(r.about.Container)))
	}
	return err
}

// removeEntries removes the notes of what has been moved out of the quarantine.
func (n *Node) removeEntries(all []returning) (err error) {
	for _, r := range all {
		err = errors.Join(err, n.cfg.Pool.FS().RemoveAll(n.cfg.Pool.FS().PathJoin(n.cfg.Dir, quarantineDir, r.name)))
	}
	return err
}

// DeleteQuarantined deletes one entry of the quarantine, with what is in it, for good.
func DeleteQuarantined(files storage.Files, dir, name string) error {
	if err := entryThere(files, dir, name); err != nil {
		return err
	}
	root := files.PathJoin(dir, quarantineDir)
	if err := errors.Join(files.RemoveAll(files.PathJoin(root, name)), syncDir(files, root)); err != nil {
		return fmt.Errorf("delete %s from the quarantine: %w", name, err)
	}
	return nil
}

// entryThere refuses what is no name of an entry.
func entryThere(files storage.Files, dir, name string) error {
	names, err := files.List(files.PathJoin(dir, quarantineDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the quarantine: %w", err)
	}
	if !slices.Contains(names, name) {
		return fmt.Errorf("the quarantine has no entry '%s': give the whole name, as 'decan quarantine list' prints it", name)
	}
	return nil
}

func partitionsOf(all []returning) (partitions []resource.Partition) {
	for _, r := range all {
		partitions = append(partitions, r.about.Partition)
	}
	return partitions
}

func idsOf(all []returning) (ids []resource.PartitionID) {
	for _, r := range all {
		ids = append(ids, r.about.ID)
	}
	return ids
}
