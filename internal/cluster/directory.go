package cluster

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"golang.org/x/sync/errgroup"
)

// The directories below the data directory that hold stores.
const (
	catalogDir    = "catalog"
	partitionsDir = "p"
)

// buildersMax bounds the partitions that are built at the same time for one
// container, or closed at the same time at the end: each waits for several
// syncs, which the disk takes together.
const buildersMax = 16

// containerDir is where the partitions of a container live. The name is
// hexadecimal because RIDs as text differ in case, and not every file system
// does.
func (n *Node) containerDir(rid resource.RID) string {
	return n.cfg.Pool.FS().PathJoin(n.cfg.Dir, partitionsDir, hex.EncodeToString([]byte(rid)))
}

func (n *Node) partitionDir(ref replication.PartitionRef) string {
	return n.cfg.Pool.FS().PathJoin(n.containerDir(ref.Container), ref.Partition.String())
}

// CreatePartitions builds the directories of a container that the catalog does
// not name yet: each has its descriptor and is synced when it returns. When one
// fails all are removed, and the error is 503 unless the context has ended.
func (n *Node) CreatePartitions(ctx context.Context, container resource.Container, partitions []resource.Partition) error {
	builders, ctx := errgroup.WithContext(ctx)
	builders.SetLimit(buildersMax)
	for _, p := range partitions {
		builders.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := n.createPartition(container, p); err != nil {
				return fmt.Errorf("create partition %s of container %s: %w", p.ID, container.RID, err)
			}
			return nil
		})
	}
	if err := builders.Wait(); err != nil {
		n.DiscardPartitions(container.RID, partitions)
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		return status.Unavailable(err, "The partitions of the container cannot be made now%s.", storage.Because(err))
	}
	return nil
}

func (n *Node) createPartition(container resource.Container, p resource.Partition) error {
	ref := replication.PartitionRef{Container: container.RID, Partition: p.ID}
	return n.cfg.Pool.Build(n.partitionDir(ref), func(store *storage.Store) error {
		return partition.Initialize(n.partitionConfig(store, ref, &container), p)
	})
}

// DiscardPartitions removes the directories of a container that no commit came
// to name.
func (n *Node) DiscardPartitions(rid resource.RID, partitions []resource.Partition) {
	for _, p := range partitions {
		n.removeDir(replication.PartitionRef{Container: rid, Partition: p.ID})
	}
}

// DropContainer closes and removes the partitions of a container that the
// catalog has ceased to name, whichever it had last. Those in use go when their
// last holder gives them back; new calls get 410.
func (n *Node) DropContainer(rid resource.RID) {
	names, err := n.cfg.Pool.FS().List(n.containerDir(rid))
	if err != nil {
		n.cfg.Logger.Warn("container directory not removed", "container", rid, "err", err)
		return
	}
	for _, name := range names {
		if id, err := strconv.ParseUint(name, 10, 32); err == nil {
			n.drop(replication.PartitionRef{Container: rid, Partition: resource.PartitionID(id)})
		}
	}
}

// DropDatabase drops every container of a database that the catalog has ceased
// to name, those included that were being created meanwhile.
func (n *Node) DropDatabase(rid resource.RID) {
	files := n.cfg.Pool.FS()
	names, err := files.List(files.PathJoin(n.cfg.Dir, partitionsDir))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			n.cfg.Logger.Warn("database directories not removed", "database", rid, "err", err)
		}
		return
	}
	for _, name := range names {
		if c, err := hex.DecodeString(name); err == nil && resource.RID(c).Database() == rid {
			n.DropContainer(resource.RID(c))
		}
	}
}

// drop removes one partition, now or when it is given back. The slot stands in
// the map meanwhile, so nobody opens the directory anew.
func (n *Node) drop(ref replication.PartitionRef) {
	n.mu.Lock()
	s, found := n.slots[ref]
	if !found {
		s = n.hold(ref)
		s.err = status.PartitionMoved(status.SubNameCacheStale)
		close(s.ready)
		s.holders = 0
	}
	s.doomed, s.moved = true, status.SubNameCacheStale
	if x, ok := n.changes[ref]; ok {
		x.cancel(status.PartitionMoved(status.SubNameCacheStale))
	}
	// Whoever closes it, now or when it is given back, sees that it is doomed.
	closing := s.holders == 0 && n.claim(s)
	n.mu.Unlock()
	if closing {
		n.finish(s)
	}
}

// removeDir deletes a directory that the catalog does not name. What it cannot delete
// now RemoveLeft deletes later.
func (n *Node) removeDir(ref replication.PartitionRef) {
	if err := n.tryRemove(ref); err != nil && !n.left.set(ref, true) {
		n.cfg.Logger.Warn("partition directory not removed; trying again", "container", ref.Container, "partition", ref.Partition, "err", err)
	}
}

func (n *Node) tryRemove(ref replication.PartitionRef) error {
	if err := n.cfg.Pool.Remove(n.partitionDir(ref)); err != nil {
		return err
	}
	return n.removeEmpty(n.containerDir(ref.Container))
}

// RemoveLeft deletes the directories that could not be deleted when the catalog had
// ceased to name them, or came not to, and returns how many are left. The node does so
// by itself once in a second: a full disk gets its room back.
func (n *Node) RemoveLeft() (left int) {
	n.removing.Lock()
	defer n.removing.Unlock()
	for _, ref := range n.left.all() {
		if n.tryRemove(ref) != nil {
			left++
			continue
		}
		n.left.set(ref, false)
		n.cfg.Logger.Info("partition directory removed", "container", ref.Container, "partition", ref.Partition)
	}
	return left
}

// removeEmpty removes the directory of a container once its last partition is gone.
func (n *Node) removeEmpty(dir string) error {
	files := n.cfg.Pool.FS()
	names, err := files.List(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(names) > 0 {
		return nil
	}
	if err != nil {
		return err
	}
	// Another partition of the same container may have been quicker.
	if err := files.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// sweep compares the directories with the catalog: what it does not name is
// deleted, what it names and is missing is fatal. So is a catalog that has never
// named anything next to directories: it is not theirs.
func (n *Node) sweep() error {
	view := n.cfg.Catalog.View()
	unnamed, err := n.unnamed(view)
	if err != nil {
		return err
	}
	// Nobody can have built a partition before the first commit made a database.
	if view.Version() == 0 && len(unnamed) > 0 {
		return fmt.Errorf("the catalog is empty and there are partitions, such as %s: restore the catalog from a backup", unnamed[0])
	}
	for _, dir := range unnamed {
		n.cfg.Logger.Info("unnamed partition directory deleted", "dir", dir)
		if err := n.cfg.Pool.FS().RemoveAll(dir); err != nil {
			return err
		}
	}
	for _, c := range view.AllContainers() {
		for i := range c.Ranges.Len() {
			id := c.Ranges.At(i).Value.ID
			ref := replication.PartitionRef{Container: c.RID, Partition: id}
			dir := n.partitionDir(ref)
			if _, err := n.cfg.Pool.FS().Stat(dir); err != nil {
				return fmt.Errorf("partition %s of container %q in database %q: its directory %s is named by the catalog and cannot be found: restore it from a backup: %w",
					id, c.ID, c.Database.ID, dir, err)
			}
			n.recallPurging(ref)
		}
	}
	return nil
}

// unnamed returns the directories below p that the catalog does not name: of
// whole containers, or of partitions of a container that it does name.
func (n *Node) unnamed(view *catalog.View) ([]string, error) {
	files := n.cfg.Pool.FS()
	root := files.PathJoin(n.cfg.Dir, partitionsDir)
	containers, err := files.List(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var dirs []string
	for _, name := range containers {
		dir := files.PathJoin(root, name)
		container := containerOf(view, name)
		if container == nil {
			dirs = append(dirs, dir)
			continue
		}
		ids, err := files.List(dir)
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			if !names(container, id) {
				dirs = append(dirs, files.PathJoin(dir, id))
			}
		}
	}
	return dirs, nil
}

// containerOf returns the container whose directory has this name, or nil.
func containerOf(view *catalog.View, name string) *catalog.Container {
	rid, err := hex.DecodeString(name)
	if err != nil || hex.EncodeToString(rid) != name {
		return nil
	}
	container, _ := view.ContainerByRID(resource.RID(rid))
	return container
}

// names reports whether a container has a partition whose directory has this name.
func names(container *catalog.Container, name string) bool {
	id, err := strconv.ParseUint(name, 10, 32)
	if err != nil || resource.PartitionID(id).String() != name {
		return false
	}
	_, named := container.Partition(resource.PartitionID(id))
	return named
}

// openPartition opens a partition that the newest view names.
func (n *Node) openPartition(ref replication.PartitionRef) (*partition.Partition, *storage.Store, error) {
	container, ok := n.cfg.Catalog.View().ContainerByRID(ref.Container)
	if !ok {
		return nil, nil, status.PartitionMoved(status.SubNameCacheStale)
	}
	if _, ok := container.Partition(ref.Partition); !ok {
		return nil, nil, status.PartitionMoved(status.SubRangeGone)
	}
	store, err := n.cfg.Pool.Open(n.partitionDir(ref))
	if err != nil {
		return nil, nil, n.notOpened(ref, err)
	}
	p, err := partition.Open(n.partitionConfig(store, ref, &container.Container))
	if err != nil {
		return nil, nil, n.notOpened(ref, errors.Join(err, store.Close()))
	}
	return p, store, nil
}

// notOpened reports the world's trouble with one partition: the others serve on.
func (n *Node) notOpened(ref replication.PartitionRef, err error) error {
	n.cfg.Logger.Error("partition not opened", "container", ref.Container, "partition", ref.Partition, "err", err)
	return status.Unavailable(fmt.Errorf("open partition %s of container %s: %w", ref.Partition, ref.Container, err),
		"Partition %s cannot be opened now%s.", ref.Partition, storage.Because(err))
}
