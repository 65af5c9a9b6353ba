package cluster

import (
	"errors"
	"fmt"

	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
)

var _ replication.StateMachine = (*Node)(nil)

// Apply passes effects that the group has ordered to their partition. The partition is
// open, because closing it waits for the effects in progress, including those whose
// caller no longer waits.
func (n *Node) Apply(ref replication.PartitionRef, effects []replication.Effect) (rejected []error, err error) {
	n.mu.Lock()
	s, found := n.slots[ref]
	n.mu.Unlock()
	if !found {
		return nil, fmt.Errorf("apply to partition %v: %w", ref, errNotOpen)
	}
	<-s.ready
	if s.err != nil {
		return nil, fmt.Errorf("apply to partition %v: %w", ref, errors.Join(errNotOpen, s.err))
	}
	if rejected, err = s.partition.Apply(effects); err == nil {
		s.synced.Store(uint64(s.partition.LSN()))
		n.marks.note(s)
	}
	return rejected, err
}

var errNotOpen = errors.New("the partition is not open")

// partitionConfig returns the configuration of a partition of this node.
func (n *Node) partitionConfig(store *storage.Store, ref replication.PartitionRef, container *resource.Container) partition.Config {
	return partition.Config{
		Store:     store,
		Group:     n.group,
		Ref:       ref,
		Container: n.current(container),
		Limits:    n.cfg.Limits,
		Grown:     n.grown(container.RID),
		Now:       n.cfg.Clock.Now,
		Certain:   n.cfg.Clock.Certain,
		Removal:   n.cfg.Clock.Removal,
		Logger:    n.cfg.Logger,
		Rosters:   n.rosters,
		Collect:   n.collector(container),

		ConditionTime: n.cfg.ConditionTime,

		CatalogVersion: func() uint64 { return n.cfg.Catalog.View().Version() },
	}
}

// grown returns the function that a partition of a container calls when it is too large.
func (n *Node) grown(container resource.RID) func() {
	if n.cfg.Grown == nil {
		return nil
	}
	return func() { n.cfg.Grown(container) }
}

// current returns a function that returns the newest version of a container in the
// catalog. Before the catalog has the container, and after it is dropped, the function
// returns the given one.
func (n *Node) current(container *resource.Container) func() *resource.Container {
	return func() *resource.Container {
		if c, ok := n.cfg.Catalog.View().ContainerByRID(container.RID); ok {
			return &c.Container
		}
		return container
	}
}
