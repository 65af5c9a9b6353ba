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

// returning is a partition that is restored from the quarantine.
type returning struct {
	name    string // of the entry
	summary partition.Summary
	there   bool // an interrupted restore has already moved it to its place
}

// Restore moves partitions of one container from the quarantine back to a data directory
// that no server uses, and returns a sentence on what it has done. There are three cases.
// If the catalog names the partitions, they return to their directories. If they are
// descendants of partitions that were not written to since, they replace those. If the
// catalog does not have the container, a container is created for them with the name as,
// which is DATABASE/CONTAINER. In all other cases Restore returns an error and changes
// nothing.
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
		if err := checkEntry(n.cfg.Pool.FS(), n.cfg.Dir, name); err != nil {
			return "", err
		}
		summary, err := summaryOfQuarantined(n.cfg.Pool, n.cfg.Dir, name)
		there := errors.Is(err, fs.ErrNotExist)
		if there {
			summary, err = n.summaryOfMoved(name)
		}
		if err != nil {
			return "", fmt.Errorf("%s is not a partition that can be read: %w", name, err)
		}
		if len(all) > 0 && summary.Container != all[0].summary.Container {
			return "", fmt.Errorf("%s belongs to container %s, and %s to container %s: restore them separately", name, summary.Container, all[0].name, all[0].summary.Container)
		}
		all = append(all, returning{name, summary, there})
	}
	if len(all) == 0 {
		return "", errors.New("name at least one entry")
	}
	view := n.cfg.Catalog.View()
	for _, r := range all {
		if r.summary.Catalog > view.Version() {
			return "", olderCatalog(view, r.name, r.summary.Catalog)
		}
		if r.there {
			continue
		}
		if _, err := n.cfg.Pool.FS().Stat(n.dirOf(r)); !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("%s would replace %s: %w", r.name, n.dirOf(r), fs.ErrExist)
		}
	}
	c, found := view.ContainerByRID(all[0].summary.Container)
	switch {
	case !found:
		return n.adoptContainer(all, as)
	case as != "":
		return "", fmt.Errorf("the partitions belong to container '%s' in database '%s', which exists: omit --as", c.ID, c.Database.ID)
	case !c.PartitionKey.Equal(all[0].summary.Key):
		return "", fmt.Errorf("the partition key of container '%s' differs from that of the partitions", c.ID)
	}
	return n.replace(c, all)
}

// summaryOfMoved reads the descriptor of a partition whose restore was interrupted after it
// was moved from its entry to its directory.
func (n *Node) summaryOfMoved(name string) (summary partition.Summary, err error) {
	files := n.cfg.Pool.FS()
	note, err := readNote(files, files.PathJoin(n.cfg.Dir, quarantineDir, name, noteFile))
	if err != nil {
		return summary, err
	}
	if note.Partition == nil {
		return summary, fs.ErrNotExist
	}
	ref := replication.PartitionRef{Container: note.Partition.Container, Partition: note.Partition.Partition}
	return n.readSummary(unnamed{dir: n.partitionDir(ref)})
}

// dirOf returns the directory of a partition outside the quarantine.
func (n *Node) dirOf(r returning) string {
	return n.partitionDir(replication.PartitionRef{Container: r.summary.Container, Partition: r.summary.ID})
}

// replace restores partitions of an existing container.
func (n *Node) replace(c *catalog.Container, all []returning) (string, error) {
	var others []returning // the catalog does not name them
	for _, r := range all {
		switch p, named := c.Partition(r.summary.ID); {
		case !named:
			others = append(others, r)
		case !p.Range.Equal(r.summary.Range) || p.Generation != r.summary.Generation:
			return "", fmt.Errorf("%s has the range %v, and the catalog has %v for partition %s", r.name, r.summary.Range, p.Range, p.ID)
		}
	}
	if len(others) == 0 {
		return fmt.Sprintf("container '%s' has %s back", c.ID, counted(len(all), "partition")), n.bringBack(all)
	}
	if len(others) != len(all) {
		return "", errors.New("the catalog names some of the partitions but not all: restore those that it names first")
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

// replaceable returns an error if a partition may have rows that the restored ones do not
// have.
func (n *Node) replaceable(c *catalog.Container, id resource.PartitionID, by []returning) error {
	p, _ := c.Partition(id)
	for _, r := range by {
		if r.summary.Range.Overlaps(p.Range) && !slices.Contains(r.summary.Parents, id) {
			return fmt.Errorf("%s is not a descendant of partition %s of container '%s', which has a part of its range", r.name, id, c.ID)
		}
	}
	ref := replication.PartitionRef{Container: c.RID, Partition: id}
	has, err := n.readSummary(unnamed{dir: n.partitionDir(ref)})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("partition %s of container '%s', which would be replaced, cannot be read: %w", id, c.ID, err)
	}
	for _, r := range by {
		if r.summary.Range.Overlaps(p.Range) && (has.LSN > r.summary.LSN || has.Catalog > r.summary.Catalog) {
			return fmt.Errorf("partition %s of container '%s' was written to after %s was split off or merged from it: these changes would be lost", id, c.ID, r.name)
		}
	}
	return nil
}

// adoptContainer creates a container from partitions that tile the key space.
func (n *Node) adoptContainer(all []returning, as string) (string, error) {
	database, name, ok := strings.Cut(as, "/")
	if !ok || database == "" || name == "" {
		return "", fmt.Errorf("the catalog does not have container %s: give it a name with --as DATABASE/CONTAINER", all[0].summary.Container)
	}
	if _, taken := n.cfg.Catalog.View().Container(database, name); taken {
		return "", fmt.Errorf("database '%s' has a container '%s': give another name with --as DATABASE/CONTAINER", database, name)
	}
	first := all[0].summary
	for _, r := range all {
		switch {
		case !r.summary.Key.Equal(first.Key) || !r.summary.Policy.Equal(first.Policy):
			return "", fmt.Errorf("%s and %s have different partition keys or indexing policies", all[0].name, r.name)
		case r.summary.HasUniqueKeys:
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

// definition returns the part of a container's definition that a partition stores.
func definition(name string, summary partition.Summary) (resource.Container, error) {
	key, err := json.Marshal(summary.Key)
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
	c.RID, c.PartitionKey, c.Indexing = summary.Container, summary.Key, summary.Policy
	return c, err
}

// adopt moves partitions into place, commits the change that names them, and calls after.
// If the catalog refuses the change, it moves them back.
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

// bringBack moves partitions to the directories that the catalog has for them.
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
	parent := n.containerDir(r.summary.Container)
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
		err = errors.Join(err, moveDurably(n.cfg.Pool.FS(), n.dirOf(r), n.contentOf(r)), n.removeEmptyDir(n.containerDir(r.summary.Container)))
	}
	return err
}

// removeEntries removes the entries whose content has been moved away.
func (n *Node) removeEntries(all []returning) (err error) {
	for _, r := range all {
		err = errors.Join(err, n.cfg.Pool.FS().RemoveAll(n.cfg.Pool.FS().PathJoin(n.cfg.Dir, quarantineDir, r.name)))
	}
	return err
}

// DeleteQuarantined deletes one entry of the quarantine with its content. That cannot be
// undone.
func DeleteQuarantined(files storage.Files, dir, name string) error {
	if err := checkEntry(files, dir, name); err != nil {
		return err
	}
	root := files.PathJoin(dir, quarantineDir)
	if err := errors.Join(files.RemoveAll(files.PathJoin(root, name)), syncDir(files, root)); err != nil {
		return fmt.Errorf("delete %s from the quarantine: %w", name, err)
	}
	return nil
}

// checkEntry returns an error if name is not an entry of the quarantine.
func checkEntry(files storage.Files, dir, name string) error {
	names, err := files.List(files.PathJoin(dir, quarantineDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the quarantine: %w", err)
	}
	if !slices.Contains(names, name) {
		return fmt.Errorf("the quarantine has no entry '%s': give the full name, as 'decan quarantine list' prints it", name)
	}
	return nil
}

func partitionsOf(all []returning) (partitions []resource.Partition) {
	for _, r := range all {
		partitions = append(partitions, r.summary.Partition)
	}
	return partitions
}

func idsOf(all []returning) (ids []resource.PartitionID) {
	for _, r := range all {
		ids = append(ids, r.summary.ID)
	}
	return ids
}
