package cluster

import (
	"context"
	"errors"
	"io/fs"

	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/throughput"
)

const (
	// clearRounds bounds how many documents of one partition a call of Clear deletes, and
	// so how long the other partitions wait: ten thousand documents.
	clearRounds = 20
	// clearShare is the part of its throughput that a partition spends on deleting the
	// documents of deleted partition keys, as in the service.
	clearShare = 0.1
)

// clearOpensMax is the maximum number of closed partitions that one call of Clear
// opens. After a restart there may be many, and requests need the disk too.
const clearOpensMax = 8

// purgingFile is a file in the directory of a partition that has documents for Clear to
// delete, so that a start finds the partition without opening it. The file is empty. It
// is only a hint: if it is missing, Clear deletes the documents after a request has
// opened the partition, and if it exists without such documents, Clear opens the
// partition once.
const purgingFile = "PURGING"

func (s *slot) Purge(ctx context.Context, ask partition.Purge) (partition.Purged, error) {
	s.writes.Add(1)
	p, err := s.budget.admit(ask.Meter)
	if err != nil {
		return partition.Purged{LSN: s.partition.LSN()}, err
	}
	done, err := s.partition.Purge(ctx, ask)
	p.billRange(ask.Range)
	s.budget.node.notePurging(s)
	return done, err
}

// clearable reports whether a partition has something for Clear to delete: documents that
// a Purge has hidden, or items of a table that are due.
func (n *Node) clearable(s *slot) bool {
	return s.partition.Purging() > 0 || n.isTable(s.ref) && s.partition.Due()
}

// notePurging remembers a partition that has documents for Clear to delete. The caller is
// a holder of its slot.
func (n *Node) notePurging(s *slot) {
	if !n.clearable(s) || n.purging.set(s.ref, true) {
		return
	}
	if err := n.markPurging(s.ref, true); err != nil {
		n.cfg.Logger.Debug("partition not marked for the deletion of purged documents", "container", s.ref.Container, "partition", s.ref.Partition, "err", err)
	}
}

// forgetPurging is the reverse of notePurging, for a partition without such documents.
func (n *Node) forgetPurging(s *slot) {
	n.purging.set(s.ref, false)
	if err := n.markPurging(s.ref, false); err != nil && !errors.Is(err, fs.ErrNotExist) {
		n.cfg.Logger.Debug("partition still marked for the deletion of purged documents", "container", s.ref.Container, "partition", s.ref.Partition, "err", err)
	}
	n.notePurging(s) // A Purge may have happened in between.
}

// markPurging creates or removes the file that a start looks for.
func (n *Node) markPurging(ref replication.PartitionRef, has bool) error {
	files, dir := n.cfg.Pool.FS(), n.partitionDir(ref)
	if !has {
		return files.Remove(files.PathJoin(dir, purgingFile))
	}
	file, err := files.Create(files.PathJoin(dir, purgingFile), "unspecified") // the category of writes for Pebble's statistics
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	parent, err := files.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(parent.Sync(), parent.Close())
}

// loadPurging remembers a closed partition that has the file.
func (n *Node) loadPurging(ref replication.PartitionRef) {
	files := n.cfg.Pool.FS()
	if _, err := files.Stat(files.PathJoin(n.partitionDir(ref), purgingFile)); err == nil {
		n.purging.set(ref, true)
	}
}

// Clear deletes documents that a Purge has hidden, and rows that the deletion of a range or
// of a partition of a table covers, a bounded number of each partition,
// and returns how many it has deleted. It opens a few of the closed partitions that have
// such documents, including those from before a restart. It spends at most a tenth of the
// throughput; unless budgets are enforced, it works beyond that without spending more. It
// is a maintenance task.
func (n *Node) Clear(ctx context.Context) (deleted int) {
	opens := 0
	for _, ref := range n.purging.all() {
		if !n.isOpen(ref) {
			if opens++; opens > clearOpensMax {
				continue
			}
		}
		s, err := n.acquire(ctx, ref)
		if err != nil {
			if ctx.Err() == nil {
				n.purging.set(ref, false) // It is gone, or noted again when it is opened.
			}
			continue
		}
		deleted += n.clear(ctx, s)
		if !n.clearable(s) {
			n.forgetPurging(s)
		}
		s.release()
	}
	return deleted
}

// clear deletes such documents of one partition.
func (n *Node) clear(ctx context.Context, s *slot) (deleted int) {
	return n.deleteSome(ctx, s, "purged documents not cleared", func(ctx context.Context) (deleted int, err error) {
		var meter throughput.Meter
		most, share := s.budget.clearing()
		defer func() { s.budget.spend(min(share, meter.Due())) }()
		for range clearRounds {
			if s.partition.Purging() == 0 {
				break
			}
			gone, err := s.partition.Clear(ctx, &meter, most-meter.Due())
			if deleted += gone; err != nil || meter.Due() >= most {
				return deleted, err
			}
		}
		for range clearRounds {
			if !n.isTable(s.ref) {
				break
			}
			gone, err := s.partition.Expire(ctx, &meter, most-meter.Due())
			if deleted += gone; err != nil || meter.Due() >= most || gone < partition.ExpireMax {
				return deleted, err
			}
		}
		return deleted, nil
	})
}
