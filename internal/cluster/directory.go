package cluster

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"

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
// not name yet: each has its descriptor and is synced when it returns. The catalog has
// them on record as leftovers until a commit names them. When one fails all are
// removed, and the error is 507 if the disk is full, else 503 unless the context has
// ended or the database is gone.
func (n *Node) CreatePartitions(ctx context.Context, container resource.Container, partitions []resource.Partition) error {
	if err := n.cfg.Pool.CanGrow(); err != nil {
		return err
	}
	if err := n.planContainer(ctx, container.RID, partitions); err != nil {
		return err
	}
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

// probeBytes is less than what one partition takes.
const probeBytes = 64 << 10

// planContainer has the catalog record the directories that are about to be made. A
// disk without room is found out before, because a catalog that cannot store a commit
// takes no further one.
func (n *Node) planContainer(ctx context.Context, rid resource.RID, partitions []resource.Partition) error {
	err := n.probe(rid)
	if err != nil {
		return status.Unavailable(err, "The partitions of the container cannot be made now%s.", storage.Because(err))
	}
	_, err = n.cfg.Catalog.Commit(ctx, catalog.PlanContainer{RID: rid, Partitions: partitions})
	return err
}

// ProbePrefix is how the names of files begin that are made to find out whether there is
// room. They are below [InflightDir], and a crash may leave one.
const ProbePrefix = "probe-"

// InflightDir is the directory of the data directory for what does not count yet.
const InflightDir = "inflight"

// probe finds out whether there is room on the disk for a container.
func (n *Node) probe(rid resource.RID) error {
	files := n.cfg.Pool.FS()
	dir := files.PathJoin(n.cfg.Dir, InflightDir)
	if err := files.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	name := files.PathJoin(dir, ProbePrefix+hex.EncodeToString([]byte(rid)))
	f, err := storage.CreateFile(files, name)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, probeBytes))
	return errors.Join(err, f.Close(), files.Remove(name))
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
	n.dropLeftovers(func(of resource.RID) bool { return of == rid })
}

// DropDatabase drops every container of a database that the catalog has ceased
// to name, those included that were being created meanwhile.
func (n *Node) DropDatabase(rid resource.RID) {
	n.dropLeftovers(func(of resource.RID) bool { return of.Database() == rid })
}

// dropLeftovers drops what the catalog has on record as leftovers of containers.
func (n *Node) dropLeftovers(drops func(resource.RID) bool) {
	for _, l := range n.cfg.Catalog.View().Leftovers() {
		if drops(l.Container) {
			n.drop(replication.PartitionRef{Container: l.Container, Partition: l.Partition})
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
	n.marks.forget(ref)
	n.gone.set(ref, true)
	return n.removeEmpty(n.containerDir(ref.Container))
}

// RemoveLeft deletes the directories that could not be deleted when the catalog had
// ceased to name them, or came not to, and returns how many are left. It has the
// catalog forget those that are gone. The node does so by itself once in a second: a
// full disk gets its room back.
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
	n.forgetGone()
	return left
}

// forgetGone takes the directories off the catalog's record that are gone. One commit
// does for all of them; if it fails they are forgotten later.
func (n *Node) forgetGone() {
	gone := n.gone.all()
	if len(gone) == 0 {
		return
	}
	var forget catalog.ForgetLeftovers
	view := n.cfg.Catalog.View()
	for _, l := range view.Leftovers() {
		if slices.Contains(gone, replication.PartitionRef{Container: l.Container, Partition: l.Partition}) {
			forget = append(forget, l)
		}
	}
	if len(forget) > 0 {
		if _, err := n.cfg.Catalog.Commit(context.Background(), forget); err != nil {
			n.cfg.Logger.Debug("removed directories not forgotten", "err", err)
			return
		}
	}
	for _, ref := range gone {
		c, found := view.ContainerByRID(ref.Container)
		if found && slices.Contains(c.Planned(), ref.Partition) {
			continue // The plan is about to be dropped, which records it.
		}
		n.gone.set(ref, false)
	}
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

// openPartition opens a partition that the newest view names.
func (n *Node) openPartition(ref replication.PartitionRef) (*partition.Partition, *storage.Store, error) {
	container, ok := n.cfg.Catalog.View().ContainerByRID(ref.Container)
	if !ok {
		return nil, nil, status.PartitionMoved(status.SubNameCacheStale)
	}
	if _, ok := container.Partition(ref.Partition); !ok {
		return nil, nil, status.PartitionMoved(status.SubRangeGone)
	}
	must := n.opening(ref)
	must.Provisional = n.beginning.Load()
	store, err := n.cfg.Pool.OpenVerified(n.partitionDir(ref), must)
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
