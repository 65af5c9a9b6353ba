package cluster

import (
	"context"
	"math"

	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/status"
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
	for _, ref := range n.purging() {
		deleted += n.clear(ctx, ref)
	}
	return deleted
}

// purging returns the open partitions in which documents wait to be cleared.
func (n *Node) purging() (refs []replication.PartitionRef) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for ref, s := range n.slots {
		select {
		case <-s.ready:
			if s.err == nil && s.partition.Purging() > 0 {
				refs = append(refs, ref)
			}
		default: // It is being opened.
		}
	}
	return refs
}

// clear deletes documents of one partition.
func (n *Node) clear(ctx context.Context, ref replication.PartitionRef) (deleted int) {
	s := n.opened(ref)
	if s == nil {
		return 0
	}
	defer s.release()
	ctx, cancel := context.WithTimeout(ctx, expireWait)
	defer cancel()
	var meter throughput.Meter
	most, share := s.budget.clearing()
	for range clearRounds {
		gone, err := s.partition.Clear(ctx, &meter, most-meter.Due())
		deleted += gone
		if err != nil && status.From(err) == nil {
			n.cfg.Logger.Warn("purged documents not cleared", "container", ref.Container, "partition", ref.Partition, "err", err)
		}
		if err != nil || meter.Due() >= most || s.partition.Purging() == 0 {
			break
		}
	}
	s.budget.spend(min(share, meter.Due()))
	return deleted
}

// clearing returns how many units may be used in this second to clear documents
// away, and how many of them are spent.
func (b *budget) clearing() (most, share float64) {
	now := b.node.cfg.Now()
	share = math.Inf(1)
	for _, own := range b.current(now).budgets() {
		if rate := own.Usage(now).Rate; rate > 0 {
			share = min(share, clearShare*rate)
		}
	}
	if b.node.cfg.Throttling.Enforcement != EnforceOn {
		return math.Inf(1), share
	}
	return share, share
}

// leftover returns how many units the last second has left over of what the
// partition may spend, for work that must not take from what clients want. Where
// nothing is refused it is infinite.
func (b *budget) leftover() float64 {
	left := math.Inf(1)
	if b.node.cfg.Throttling.Enforcement != EnforceOn {
		return left
	}
	now := b.node.cfg.Now()
	for _, own := range b.current(now).budgets() {
		if u := own.Usage(now); u.Rate > 0 {
			left = min(left, max(0, u.Rate-u.Second))
		}
	}
	return left
}

// spend spends units that no request has asked for.
func (b *budget) spend(units float64) {
	now := b.node.cfg.Now()
	for _, own := range b.current(now).budgets() {
		own.Spend(throughput.Spender{Low: true}, units, now)
	}
}

// budgets are those that a partition spends from.
func (t *terms) budgets() []*throughput.Budget {
	if t.shared == nil {
		return []*throughput.Budget{t.own}
	}
	return []*throughput.Budget{t.own, t.shared}
}
