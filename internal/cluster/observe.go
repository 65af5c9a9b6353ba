package cluster

import (
	"context"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/prometheus/client_golang/prometheus"
)

// opened returns the slot of a partition and makes the caller a holder, if the partition
// is open. Otherwise, also while it is being opened or closed, it returns nil.
func (n *Node) opened(ref replication.PartitionRef) *slot {
	n.mu.Lock()
	defer n.mu.Unlock()
	s, found := n.slots[ref]
	if !found || s.dropping || s.state != slotHeld && s.state != slotIdle {
		return nil
	}
	n.takeLocked(s)
	return s
}

// LSN returns the LSN of a partition, and false if the partition is not open.
func (n *Node) LSN(c *catalog.Container, id resource.PartitionID) (resource.LSN, bool) {
	s := n.opened(replication.PartitionRef{Container: c.RID, Partition: id})
	if s == nil {
		return 0, false
	}
	defer s.release()
	return s.partition.LSN(), true
}

// Open returns how many partitions are open, being opened or being closed.
func (n *Node) Open() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.slots)
}

// Reindex makes every partition of a container apply a change of its indexing policy, in
// the background. A partition that is closed before it is done continues when it is opened
// again.
func (n *Node) Reindex(c *catalog.Container) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return
	}
	n.reindexing[c.RID]++
	n.background.Go(func() {
		n.reindex(c)
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.reindexing[c.RID]--; n.reindexing[c.RID] == 0 {
			delete(n.reindexing, c.RID)
		}
	})
}

func (n *Node) reindex(c *catalog.Container) {
	n.Warm(context.Background(), c)
	for i := range c.Ranges.Len() {
		// Opening a partition starts the rebuild. One that was open needs the call.
		s, err := n.acquire(context.Background(), replication.PartitionRef{Container: c.RID, Partition: c.Ranges.At(i).Value.ID})
		if err != nil {
			continue // It is dropped, or cannot be opened, which is logged.
		}
		s.partition.Reindex()
		s.release()
	}
}

// IndexProgress returns the progress of a container's partitions with a change of its
// indexing policy, in percent: that of the slowest one, 100 if none is rebuilding its
// index. It opens closed partitions, which continues the rebuilds that a restart has
// interrupted. It ignores partitions that cannot be opened.
func (n *Node) IndexProgress(ctx context.Context, c *catalog.Container) int {
	n.mu.Lock()
	_, starting := n.reindexing[c.RID]
	n.mu.Unlock()
	if starting {
		return 0
	}
	n.Warm(ctx, c)
	slowest := 100
	for i := range c.Ranges.Len() {
		s, err := n.acquire(ctx, replication.PartitionRef{Container: c.RID, Partition: c.Ranges.At(i).Value.ID})
		if err != nil {
			continue
		}
		slowest = min(slowest, s.partition.Stats().IndexProgress)
		s.release()
	}
	return slowest
}

// HasRowIndex reports whether a secondary index of a table has the rows of all partitions.
// It opens closed partitions, which continues a build that a restart has interrupted.
func (n *Node) HasRowIndex(ctx context.Context, c *catalog.Container, definition string) bool {
	n.Warm(ctx, c)
	for i := range c.Ranges.Len() {
		s, err := n.acquire(ctx, replication.PartitionRef{Container: c.RID, Partition: c.Ranges.At(i).Value.ID})
		if err != nil {
			return false
		}
		complete := s.partition.HasRowIndex(definition)
		s.release()
		if !complete {
			return false
		}
	}
	return true
}

// throttled counts requests over a budget.
type throttled struct {
	requests *prometheus.CounterVec

	// The counters of requests for each reason: warned, refused. They are fields because
	// looking up labels is too slow under load.
	budget, bucket [2]prometheus.Counter
}

func newThrottled() throttled {
	t := throttled{requests: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "decan_throttled_requests_total",
		Help: "Requests over the throughput of a physical partition or over the cap of a throughput bucket, by whether they were refused with 429 or went ahead with a warning.",
	}, []string{"reason", "outcome"})}
	for i, outcome := range []string{"warned", "refused"} {
		t.budget[i] = t.requests.WithLabelValues("budget", outcome)
		t.bucket[i] = t.requests.WithLabelValues("bucket", outcome)
	}
	return t
}

func (t *throttled) count(sub status.Sub, e Enforcement) {
	outcome := 0
	if e == EnforceOn {
		outcome = 1
	}
	if sub == status.SubBucketExceeded {
		t.bucket[outcome].Inc()
		return
	}
	t.budget[outcome].Inc()
}

// loads exports what the open partitions of a node contain and spend.
type loads struct{ n *Node }

var (
	partitionLabels = []string{"database", "container", "partition"}

	normalizedDesc = prometheus.NewDesc("decan_partition_normalized_ru",
		"Largest part of the throughput of each open physical partition that one second of this minute or the one before has used, in percent.", partitionLabels, nil)
	shareDesc = prometheus.NewDesc("decan_partition_throughput_rus",
		"Request units per second that each open physical partition is given; 0 for no limit.", partitionLabels, nil)
	spentDesc = prometheus.NewDesc("decan_partition_charge_total",
		"Request units spent in each open physical partition since it was opened.", partitionLabels, nil)
	bytesDesc = prometheus.NewDesc("decan_partition_document_bytes",
		"Bytes of the documents in each open physical partition, as its storage limit counts them.", partitionLabels, nil)
	documentsDesc = prometheus.NewDesc("decan_partition_documents",
		"Documents in each open physical partition.", partitionLabels, nil)
)

// Describe implements prometheus.Collector.
func (loads) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{normalizedDesc, shareDesc, spentDesc, bytesDesc, documentsDesc} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (l loads) Collect(to chan<- prometheus.Metric) {
	view := l.n.cfg.Catalog.View()
	for _, s := range l.n.openSlots() {
		now := l.n.cfg.Now()
		if c, ok := view.ContainerByRID(s.ref.Container); ok {
			u, has := s.budget.current(now).own.Usage(now), s.partition.Stats()
			labels := []string{c.Database.ID, c.ID, s.ref.Partition.String()}
			to <- prometheus.MustNewConstMetric(normalizedDesc, prometheus.GaugeValue, u.Normalized, labels...)
			to <- prometheus.MustNewConstMetric(shareDesc, prometheus.GaugeValue, u.Rate, labels...)
			to <- prometheus.MustNewConstMetric(spentDesc, prometheus.CounterValue, u.Total, labels...)
			to <- prometheus.MustNewConstMetric(bytesDesc, prometheus.GaugeValue, float64(has.Bytes), labels...)
			to <- prometheus.MustNewConstMetric(documentsDesc, prometheus.GaugeValue, float64(has.Documents), labels...)
		}
	}
}

// openSlots returns the open slots. The caller does not become a holder, so it may use
// only their budgets and the methods that a partition allows after Close.
func (n *Node) openSlots() []*slot {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []*slot
	for _, s := range n.slots {
		if s.state == slotHeld || s.state == slotIdle {
			all = append(all, s)
		}
	}
	return all
}
