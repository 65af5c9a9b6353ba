package cluster

import (
	"time"

	"github.com/decandb/decan/internal/replication"
	"github.com/prometheus/client_golang/prometheus"
)

// CheckClock looks for jumps of the clock, and for open partitions whose latest _ts is
// ahead of it. It is a maintenance task.
func (n *Node) CheckClock() {
	n.cfg.Clock.Check()
	for _, s := range n.openSlots() {
		n.noteLatest(s)
	}
	n.forgetLatest()
}

// Clock returns the clock of the node.
func (n *Node) Clock() *Clock { return n.cfg.Clock }

// noteLatest records a partition whose latest _ts is ahead of the clock. New writes get
// the same _ts until the clock reaches it.
func (n *Node) noteLatest(s *slot) {
	ts := s.partition.Latest()
	by := n.cfg.Clock.Ahead(ts)
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
	const named = 10 // partitions in the log; the metric has their number
	if !known && count <= named {
		n.cfg.Logger.Warn("the latest _ts of a partition is ahead of the clock, and its writes get no later one: "+remedyClock,
			"container", s.ref.Container, "partition", s.ref.Partition, "latest", clock(time.Unix(ts, 0)), "by", by.Round(time.Second).String())
	}
}

// forgetLatest removes the records of partitions whose latest _ts the clock has reached,
// and of those that the catalog no longer names.
func (n *Node) forgetLatest() {
	view := n.cfg.Catalog.View()
	n.mu.Lock()
	defer n.mu.Unlock()
	for ref, ts := range n.ahead {
		c, named := view.ContainerByRID(ref.Container)
		if named {
			_, named = c.Partition(ref.Partition)
		}
		if !named || n.cfg.Clock.Ahead(ts) == 0 {
			delete(n.ahead, ref)
		}
	}
}

// lag returns by how much the latest time that the node knows is ahead of the clock;
// zero if it is not.
func (n *Node) lag() time.Duration {
	most := n.cfg.Clock.Status().Behind
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, ts := range n.ahead {
		most = max(most, n.cfg.Clock.Ahead(ts))
	}
	return most
}

// aheadMetrics exports by how much stored times are ahead of the clock.
type aheadMetrics struct{ n *Node }

var behindDesc = prometheus.NewDesc("decan_clock_behind_seconds",
	"By how much the latest known time is ahead of the clock: that of a write in an open partition, or the last known time at the start; 0 if it is not ahead.", nil, nil)

// Describe implements prometheus.Collector.
func (aheadMetrics) Describe(to chan<- *prometheus.Desc) { to <- behindDesc }

// Collect implements prometheus.Collector.
func (m aheadMetrics) Collect(to chan<- prometheus.Metric) {
	to <- prometheus.MustNewConstMetric(behindDesc, prometheus.GaugeValue, m.n.lag().Seconds())
}
