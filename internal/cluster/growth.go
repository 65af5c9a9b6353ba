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

// growth counts by how many bytes the documents of each container have grown since the
// last call of Config.Grown for it. It counts in open partitions only, so no partition is
// opened for it. The zero value is empty.
type growth struct {
	mu sync.Mutex

	bytes map[resource.RID]int64 // by container
}

// weighed has the LSN and the size of a partition when it was last counted.
type weighed struct{ lsn, bytes atomic.Int64 }

// begin sets both to those of an open partition.
func (w *weighed) begin(p *partition.Partition) {
	w.lsn.Store(int64(p.LSN()))
	w.bytes.Store(p.Stats().Bytes)
}

// add counts by how much a partition has grown since it was last counted. This is cheap
// for a partition without a new write. A partition that is being closed counts as not
// grown.
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

// autoscaleSteps is the number of steps into which the storage of an autoscale maximum is
// divided: after growing by one step, a container is checked.
const autoscaleSteps = 32

// CheckGrowth calls Config.Grown for containers whose autoscale maximum may have to be
// raised: their documents have grown by a 32nd of what the maximum can store since the
// last call, or they have an upgrade policy and the load has reached the maximum. It is a
// maintenance task.
func (n *Node) CheckGrowth() {
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

// mayUpgrade reports whether the upgrade policy of a container would raise its autoscale
// maximum if the load reached it: the policy is enabled, the maximum can be raised, and
// no earlier rise is pending.
func (n *Node) mayUpgrade(c *catalog.Container, t resource.Throughput) bool {
	limits := n.cfg.Limits
	if !t.Owner.IsDatabase() {
		limits = limits.Of(c.Limits)
	}
	return t.Upgraded(limits).Max > t.Max && !throughput.Pending(t, c.RID, c.Partitions(), n.cfg.Limits.Of(c.Limits).PartitionRUs)
}

// ReachedMax reports whether the upgrade policy of a container, or of the database whose
// throughput it shares, raises its autoscale maximum now. That is the case if requests
// have used the full share of one of its open partitions for five seconds, in this hour
// and since the maximum was last changed. As in the service, a container follows its
// hottest partition.
func (n *Node) ReachedMax(c *catalog.Container) bool {
	t, found := n.cfg.Catalog.View().ThroughputOf(c)
	if !found || !n.mayUpgrade(c, t) {
		return false
	}
	return slices.ContainsFunc(n.openSlots(), func(s *slot) bool { return s.ref.Container == c.RID && s.budget.reachedMax() })
}

// outgrown returns the containers that have grown by a step, and resets their counts and
// those of containers without an autoscale maximum.
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
		// Containers that share a throughput also share what its maximum can store.
		if step := n.cfg.Limits.Stores(t) / autoscaleSteps / int64(len(view.Provisioned(t.Owner))); bytes > step {
			delete(n.growth.bytes, rid)
			all = append(all, rid)
		}
	}
	return all
}
