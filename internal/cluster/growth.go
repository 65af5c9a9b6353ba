package cluster

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/throughput"
)

// growth is by how many bytes the documents of each container have grown since
// somebody looked at all of its partitions. It counts what is open, so a container
// needs no partition opened to be watched. The zero value is empty.
type growth struct {
	mu sync.Mutex

	bytes map[resource.RID]int64 // by container
}

// weighed is what a partition had when it was counted last.
type weighed struct{ lsn, bytes atomic.Int64 }

// begin counts from what an open partition has now.
func (w *weighed) begin(p *partition.Partition) {
	w.lsn.Store(int64(p.LSN()))
	w.bytes.Store(p.Stats().Bytes)
}

// add counts what a partition has grown by since it was counted last. One that was
// not written to costs next to nothing, and one that is closed meanwhile counts as
// not grown.
func (g *growth) add(s *slot) {
	lsn := int64(s.partition.LSN())
	if s.weighed.lsn.Swap(lsn) == lsn {
		return
	}
	now := s.partition.Stats().Bytes
	grown := now - s.weighed.bytes.Swap(now)
	if grown <= 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.bytes == nil {
		g.bytes = map[resource.RID]int64{}
	}
	g.bytes[s.ref.Container] += grown
}

// autoscaleSteps is after which part of what an autoscale maximum stores a
// container is looked at again.
const autoscaleSteps = 32

// Weigh calls Config.Grown for containers with an autoscale maximum that may have to
// be raised: their documents have grown by a 32nd of what it stores since the last
// call for them, or they have an upgrade policy and the maximum was reached. The node
// does so by itself once in a second.
func (n *Node) Weigh() {
	if n.cfg.Grown == nil {
		return
	}
	view := n.cfg.Catalog.View()
	asking := map[resource.RID]bool{}
	for _, s := range n.openSlots() {
		c, ok := view.ContainerByRID(s.ref.Container)
		if !ok {
			continue
		}
		t, _ := view.ThroughputOf(c)
		if !t.IsAutoscale() {
			continue
		}
		n.growth.add(s)
		if !asking[c.RID] && s.budget.reachedMax() && n.mayUpgrade(c, t) {
			asking[c.RID] = true
			n.cfg.Grown(c.RID)
		}
	}
	for _, container := range n.outgrown() {
		if !asking[container] {
			n.cfg.Grown(container)
		}
	}
}

// mayUpgrade reports whether the autoscale maximum of a container would be raised by
// its upgrade policy if it were reached: it has one that is on, can be raised, and
// waits for no partitions.
func (n *Node) mayUpgrade(c *catalog.Container, t resource.Throughput) bool {
	limits := n.cfg.Limits
	if !t.Owner.IsDatabase() {
		limits = limits.Of(c.Limits)
	}
	return t.Upgraded(limits).Max > t.Max && !throughput.Pending(t, c.RID, c.Partitions(), n.cfg.Limits.Of(c.Limits).PartitionRUs)
}

// ReachedMax reports whether the autoscale maximum of a container, or of the database
// whose throughput it shares, is to be raised by its upgrade policy: requests have
// used all that one of its open partitions has for five seconds, in this hour and
// since the maximum is what it is. As in the service, a container follows its hottest
// partition.
func (n *Node) ReachedMax(c *catalog.Container) bool {
	t, found := n.cfg.Catalog.View().ThroughputOf(c)
	if !found || !n.mayUpgrade(c, t) {
		return false
	}
	return slices.ContainsFunc(n.openSlots(), func(s *slot) bool { return s.ref.Container == c.RID && s.budget.reachedMax() })
}

// outgrown returns the containers that have grown enough to be looked at, and
// forgets by how much, as it does for those that need no look.
func (n *Node) outgrown() (all []resource.RID) {
	view := n.cfg.Catalog.View()
	n.growth.mu.Lock()
	defer n.growth.mu.Unlock()
	for rid, bytes := range n.growth.bytes {
		c, ok := view.ContainerByRID(rid)
		if !ok {
			delete(n.growth.bytes, rid)
			continue
		}
		t, _ := view.ThroughputOf(c)
		if !t.IsAutoscale() {
			delete(n.growth.bytes, rid)
			continue
		}
		// Containers that share a throughput grow towards its bound together.
		if step := n.cfg.Limits.Stores(t) / autoscaleSteps / int64(len(view.Provisioned(t.Owner))); bytes > step {
			delete(n.growth.bytes, rid)
			all = append(all, rid)
		}
	}
	return all
}
