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

// The directories in the data directory that contain stores.
const (
	catalogDir    = "catalog"
	partitionsDir = "p"
)

// buildersMax bounds the partitions that are created at the same time for one
// container, or closed at the same time by Close. Each of them waits for several syncs,
// which a disk can combine.
const buildersMax = 16

// containerDir returns the directory of a container's partitions. Its name is hexadecimal:
// RIDs as text may differ in case only, which some file systems ignore.
func (n *Node) containerDir(rid resource.RID) string {
	return n.cfg.Pool.FS().PathJoin(n.cfg.Dir, partitionsDir, hex.EncodeToString([]byte(rid)))
}

func (n *Node) partitionDir(ref replication.PartitionRef) string {
	return n.cfg.Pool.FS().PathJoin(n.containerDir(ref.Container), ref.Partition.String())
}

// CreatePartitions creates the partition directories of a container that the catalog does
// not name yet, with their descriptors, and syncs them. The catalog has them on record as
// leftovers until a commit names them. If one fails, all are removed. The error is 507 if
// the disk is full, that of the context if it has ended, 404 if the database does not
// exist, and 503 otherwise.
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
		return status.Unavailable(err, "The partitions of the container cannot be created now%s.", storage.Because(err))
	}
	return nil
}

// probeBytes is the size of the file that probe writes. One partition needs more.
const probeBytes = 64 << 10

// planContainer commits to the catalog which directories will be created. Before that,
// it verifies that the disk has room: a catalog that cannot store a commit refuses all
// later ones.
func (n *Node) planContainer(ctx context.Context, rid resource.RID, partitions []resource.Partition) error {
	err := n.probe(rid)
	if err != nil {
		return status.Unavailable(err, "The partitions of the container cannot be created now%s.", storage.Because(err))
	}
	_, err = n.cfg.Catalog.Commit(ctx, catalog.PlanContainer{RID: rid, Partitions: partitions})
	return err
}

// ProbePrefix begins the names of the files that test whether the disk has room. They are
// in [InflightDir], and a crash may leave one there.
const ProbePrefix = "probe-"

// InflightDir is the directory in the data directory for files and stores that are not
// in use yet.
const InflightDir = "inflight"

// probe verifies that the disk has room for a container.
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
		return partition.InitializeAt(n.partitionConfig(store, ref, &container), p, FirstLSN)
	})
}

// DiscardPartitions removes the directories that CreatePartitions has created, if no
// commit will name them.
func (n *Node) DiscardPartitions(rid resource.RID, partitions []resource.Partition) {
	for _, p := range partitions {
		n.removeDir(replication.PartitionRef{Container: rid, Partition: p.ID})
	}
}

// DropContainer closes and removes the partitions of a container that the catalog no
// longer names: all of them that it has on record as leftovers. A partition in use is
// removed when its last holder releases it; new calls get 410.
func (n *Node) DropContainer(rid resource.RID) {
	n.dropLeftovers(func(of resource.RID) bool { return of == rid })
}

// DropDatabase drops every container of a database that the catalog no longer names,
// including containers that were being created.
func (n *Node) DropDatabase(rid resource.RID) {
	n.dropLeftovers(func(of resource.RID) bool { return of.Database() == rid })
}

// dropLeftovers drops the partitions that the catalog has on record as leftovers of the
// containers for which drops returns true.
func (n *Node) dropLeftovers(drops func(resource.RID) bool) {
	for _, l := range n.cfg.Catalog.View().Leftovers() {
		if drops(l.Container) {
			n.dropPartition(replication.PartitionRef{Container: l.Container, Partition: l.Partition})
		}
	}
}

// dropPartition closes and removes one partition, now or when its last holder leaves. Its
// slot is in the map until then, so that no call opens the directory again.
func (n *Node) dropPartition(ref replication.PartitionRef) {
	n.mu.Lock()
	s, found := n.slots[ref]
	if !found {
		s = n.addLocked(ref)
		n.settleLocked(s, status.PartitionMoved(status.SubNameCacheStale))
	}
	closes := n.dropLocked(s, status.SubNameCacheStale)
	if !found {
		closes = n.leaveLocked(s)
	}
	if x, busy := n.changes[ref]; busy {
		x.cancel(status.PartitionMoved(status.SubNameCacheStale))
	}
	n.mu.Unlock()
	if closes {
		n.finish(s)
	}
}

// removeDir deletes the directory of a partition that the catalog does not name. If that
// fails, RemoveLeftovers retries it.
func (n *Node) removeDir(ref replication.PartitionRef) {
	if err := n.tryRemove(ref); err != nil && !n.left.set(ref, true) {
		n.cfg.Logger.Warn("partition directory not removed, will retry", "container", ref.Container, "partition", ref.Partition, "err", err)
	}
}

func (n *Node) tryRemove(ref replication.PartitionRef) error {
	if err := n.cfg.Pool.Remove(n.partitionDir(ref)); err != nil {
		return err
	}
	n.marks.forget(ref)
	n.gone.set(ref, true)
	return n.removeEmptyDir(n.containerDir(ref.Container))
}

// RemoveLeftovers retries to delete the directories that could not be deleted, and returns
// how many are left. It commits to the catalog which leftovers are deleted. It is a
// maintenance task, which also frees room on a full disk.
func (n *Node) RemoveLeftovers() (left int) {
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

// forgetGone removes deleted directories from the catalog's record, with one commit. If
// that fails, the next call tries again.
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
			n.cfg.Logger.Debug("removed directories are still on the catalog's record", "err", err)
			return
		}
	}
	for _, ref := range gone {
		c, found := view.ContainerByRID(ref.Container)
		if found && slices.Contains(c.Planned(), ref.Partition) {
			continue // Dropping the plan, which comes next, records a leftover.
		}
		n.gone.set(ref, false)
	}
}

// removeEmptyDir removes the directory of a container if it has no partition.
func (n *Node) removeEmptyDir(dir string) error {
	files := n.cfg.Pool.FS()
	names, err := files.List(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(names) > 0 {
		return nil
	}
	if err != nil {
		return err
	}
	// Another goroutine may have removed it with another partition of the container.
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
	must.Provisional = n.verifying.Load()
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

// notOpened logs an error of opening a partition and returns it as a 503. The other
// partitions continue to serve.
func (n *Node) notOpened(ref replication.PartitionRef, err error) error {
	n.cfg.Logger.Error("partition not opened", "container", ref.Container, "partition", ref.Partition, "err", err)
	return status.Unavailable(fmt.Errorf("open partition %s of container %s: %w", ref.Partition, ref.Container, err),
		"Partition %s cannot be opened now%s.", ref.Partition, storage.Because(err))
}

// FirstLSN is the LSN of a partition that was never written. Clients of direct mode take
// 0 for the absence of an LSN.
const FirstLSN = 1
