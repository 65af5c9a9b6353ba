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
	// clearRounds bounds what is deleted of one partition at a time, and so how
	// long others wait for theirs: ten thousand documents.
	clearRounds = 20
	// clearShare is the part of its throughput that a partition spends on what was
	// deleted by partition key, as in the service.
	clearShare = 0.1
)

// clearOpensMax is how many closed partitions one call of Clear opens: after a
// restart there may be many, and others want the disk as well.
const clearOpensMax = 8

// purgingFile stands in the directory of a partition that has documents to be
// cleared away, so that a start finds it without opening all of them. It is empty,
// and a hint: without it the partition goes on when somebody else opens it, and with
// it for nothing it is opened once.
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

// notePurging remembers a partition that has documents to be cleared away. The
// caller holds it.
func (n *Node) notePurging(s *slot) {
	if s.partition.Purging() == 0 || n.purging.set(s.ref, true) {
		return
	}
	if err := n.markPurging(s.ref, true); err != nil {
		n.cfg.Logger.Debug("partition not marked as one to be cleared", "container", s.ref.Container, "partition", s.ref.Partition, "err", err)
	}
}

// forgetPurging is its reverse, for a partition in which nothing is left to clear.
func (n *Node) forgetPurging(s *slot) {
	n.purging.set(s.ref, false)
	if err := n.markPurging(s.ref, false); err != nil && !errors.Is(err, fs.ErrNotExist) {
		n.cfg.Logger.Debug("partition still marked as one to be cleared", "container", s.ref.Container, "partition", s.ref.Partition, "err", err)
	}
	n.notePurging(s) // Somebody may have come between.
}

// markPurging makes or removes the file that a start looks for.
func (n *Node) markPurging(ref replication.PartitionRef, has bool) error {
	files, dir := n.cfg.Pool.FS(), n.partitionDir(ref)
	if !has {
		return files.Remove(files.PathJoin(dir, purgingFile))
	}
	file, err := files.Create(files.PathJoin(dir, purgingFile), "unspecified") // the category that Pebble counts it in
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

// recallPurging remembers a closed partition that is marked.
func (n *Node) recallPurging(ref replication.PartitionRef) {
	files := n.cfg.Pool.FS()
	if _, err := files.Stat(files.PathJoin(n.partitionDir(ref), purgingFile)); err == nil {
		n.purging.set(ref, true)
	}
}

// Clear deletes documents that a Purge has hidden, a bounded number of each
// partition, and returns how many. It opens some of the closed partitions that have
// such documents, also those from before a restart, and no others. It spends a tenth
// of the throughput at most, and where nothing is refused it goes on beyond that for
// nothing. The node does so by itself once in a second.
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
				n.purging.set(ref, false) // It is gone, or goes on when it can be opened.
			}
			continue
		}
		deleted += n.clear(ctx, s)
		if s.partition.Purging() == 0 {
			n.forgetPurging(s)
		}
		s.release()
	}
	return deleted
}

// clear deletes documents of one partition.
func (n *Node) clear(ctx context.Context, s *slot) (deleted int) {
	return n.tidy(ctx, s, "purged documents not cleared", func(ctx context.Context) (deleted int, err error) {
		var meter throughput.Meter
		most, share := s.budget.clearing()
		defer func() { s.budget.spend(min(share, meter.Due())) }()
		for range clearRounds {
			gone, err := s.partition.Clear(ctx, &meter, most-meter.Due())
			if deleted += gone; err != nil || meter.Due() >= most || s.partition.Purging() == 0 {
				return deleted, err
			}
		}
		return deleted, nil
	})
}
