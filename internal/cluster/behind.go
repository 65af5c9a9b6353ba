package cluster

import (
	"time"

	"github.com/decandb/decan/internal/replication"
	"github.com/prometheus/client_golang/prometheus"
)

// LookAtClock looks for jumps of the clock, and for partitions whose latest _ts is ahead
// of it. The node does so by itself once in a second.
func (n *Node) LookAtClock() {
	n.cfg.Clock.Look()
	for _, s := range n.openSlots() {
		n.noteLatest(s)
	}
	n.forgetLatest()
}

// Clock returns the clock of the node.
func (n *Node) Clock() *Clock { return n.cfg.Clock }

// noteLatest takes note of a partition whose latest _ts is ahead of the clock. New
// writes do not get a later one until the clock has come there.
func (n *Node) noteLatest(s *slot) {
	ts := s.partition.Latest()
	by := n.cfg.Clock.Behind(ts)
	if by == 0 {
		return
	}
	n.mu.Lock()
	_, known := n.ahead[s.ref]
	if n.ahead == nil {
		n.ahead = map[replication.PartitionRef]int64{}
	}
	n.ahead[s.ref] = ts
	count := len(n.ahead)
	n.mu.Unlock()
	const named = 10 // in the log; the metric has their number
	if !known && count <= named {
		n.cfg.Logger.Warn("the latest _ts of a partition is ahead of the clock, and its writes get no later one: "+remedyClock,
			"container", s.ref.Container, "partition", s.ref.Partition, "latest", clock(time.Unix(ts, 0)), "by", by.Round(time.Second).String())
	}
}

// forgetLatest forgets partitions that the clock has come up to, and those that are no
// more.
func (n *Node) forgetLatest() {
	view := n.cfg.Catalog.View()
	n.mu.Lock()
	defer n.mu.Unlock()
	for ref, ts := range n.ahead {
		c, named := view.ContainerByRID(ref.Container)
		if named {
			_, named = c.Partition(ref.Partition)
		}
		if !named || n.cfg.Clock.Behind(ts) == 0 {
			delete(n.ahead, ref)
		}
	}
}

// behind returns by how much the latest time that the node knows of is ahead of the
// clock; zero for not at all.
func (n *Node) behind() time.Duration {
	most := n.cfg.Clock.Status().Behind
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, ts := range n.ahead {
		most = max(most, n.cfg.Clock.Behind(ts))
	}
	return most
}

// behindMetrics shows by how much the clock is behind what the stores have.
type behindMetrics struct{ n *Node }

var behindDesc = prometheus.NewDesc("decan_clock_behind_seconds",
	"By how much the latest time that is known, of a write in an open partition or of the start, is ahead of the clock; 0 for not at all.", nil, nil)

// Describe implements prometheus.Collector.
func (behindMetrics) Describe(to chan<- *prometheus.Desc) { to <- behindDesc }

// Collect implements prometheus.Collector.
func (m behindMetrics) Collect(to chan<- prometheus.Metric) {
	to <- prometheus.MustNewConstMetric(behindDesc, prometheus.GaugeValue, m.n.behind().Seconds())
}
