package cluster

import (
	"context"

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

func (s *slot) Purge(ctx context.Context, ask partition.Purge) (partition.Purged, error) {
	s.writes.Add(1)
	p, err := s.budget.admit(ask.Meter)
	if err != nil {
		return partition.Purged{LSN: s.partition.LSN()}, err
	}
	done, err := s.partition.Purge(ctx, ask)
	p.billRange(ask.Range)
	return done, err
}

// Clear deletes documents that a Purge has hidden in the open partitions, a
// bounded number of each, and returns how many. It spends a tenth of the
// throughput at most, and where nothing is refused it goes on beyond that for
// nothing. The node does so by itself once in a second; a partition that is closed
// goes on when it is next opened.
func (n *Node) Clear(ctx context.Context) (deleted int) {
	for _, s := range n.openSlots() {
		if s.partition.Purging() > 0 {
			deleted += n.clear(ctx, s.ref)
		}
	}
	return deleted
}

// clear deletes documents of one partition.
func (n *Node) clear(ctx context.Context, ref replication.PartitionRef) (deleted int) {
	return n.tidy(ctx, ref, "purged documents not cleared", func(ctx context.Context, s *slot) (deleted int, err error) {
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
