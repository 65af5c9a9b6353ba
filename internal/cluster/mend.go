package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/prometheus/client_golang/prometheus"
)

// mendEvery is the time between two attempts to open a store for writing that is open for
// reading only, if the file system does not say how much room it has.
const mendEvery = 2 * time.Second

// Ailment says what is wrong with a partition.
type Ailment string

// The ailments.
const (
	AilmentFailed  Ailment = "failed"  // it has stopped and returns 503
	AilmentReading Ailment = "reading" // the disk was too full to open it for writing; reads work
	AilmentRefused Ailment = "refused" // the last attempt to open it failed
	AilmentDamaged Ailment = "damaged" // it serves, but a scrub has found one of its files damaged
	AilmentAhead   Ailment = "ahead"   // its latest _ts is ahead of the clock
)

// Unwell is a partition with an ailment.
type Unwell struct {
	Database, Container string // their names
	Partition           resource.PartitionID
	Ailment             Ailment
	Reason              string // for people
}

// Unwell returns the partitions with ailments, ordered by database, container, id and
// ailment.
func (n *Node) Unwell() []Unwell {
	view := n.cfg.Catalog.View()
	var all []Unwell
	add := func(ref replication.PartitionRef, a Ailment, reason string) {
		if c, ok := view.ContainerByRID(ref.Container); ok {
			if _, named := c.Partition(ref.Partition); named {
				all = append(all, Unwell{Database: c.Database.ID, Container: c.ID, Partition: ref.Partition, Ailment: a, Reason: reason})
			}
		}
	}
	for _, s := range n.openSlots() {
		if err := s.partition.Failure(); err != nil {
			add(s.ref, AilmentFailed, err.Error())
		} else if s.store.ReadOnly() {
			add(s.ref, AilmentReading, "the disk is full")
		}
	}
	n.mu.Lock()
	for ref, reason := range n.refused {
		if _, open := n.slots[ref]; !open {
			add(ref, AilmentRefused, reason)
		}
	}
	for ref, ts := range n.ahead {
		if by := n.cfg.Clock.Ahead(ts); by > 0 {
			add(ref, AilmentAhead, fmt.Sprintf("its latest _ts is %s ahead of the clock: %s", by, remedyClock))
		}
	}
	n.mu.Unlock()
	for ref, reason := range n.scrub.unwell() {
		add(ref, AilmentDamaged, reason)
	}
	slices.SortFunc(all, func(a, b Unwell) int {
		return cmp.Or(cmp.Compare(a.Database, b.Database), cmp.Compare(a.Container, b.Container), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Ailment, b.Ailment))
	})
	return all
}

// noteOpened records whether a partition could be opened.
func (n *Node) noteOpened(ref replication.PartitionRef, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err == nil || status.CodeOf(err) == status.CodeGone {
		delete(n.refused, ref)
		return
	}
	if n.refused == nil {
		n.refused = map[replication.PartitionRef]string{}
	}
	n.refused[ref] = err.Error()
}

// Mend measures the free space of the disk. When there is space again, it closes
// partitions that have stopped because the disk was full or too many files were open,
// and those that are open for reading only; the next request opens them again. It does
// the same for the catalog's store, see Config.MendCatalog. It is a maintenance task.
func (n *Node) Mend() {
	before := n.cfg.Pool.CanGrow()
	space := n.cfg.Pool.CheckSpace()
	if n.cfg.MendCatalog != nil {
		if err := n.cfg.MendCatalog(); err != nil {
			n.cfg.Logger.Debug("catalog not reopened", "err", err)
		} else {
			n.resolveInDoubt()
		}
	}
	if err := n.dropLeftPlans(); err != nil {
		n.cfg.Logger.Debug("plans not dropped", "err", err)
	}
	now := n.cfg.Now()
	for _, s := range n.openSlots() {
		switch failure := s.partition.Failure(); {
		case failure != nil && storage.Because(failure) != "" && s.store.Err() != nil:
			n.reopen(s, failure)
		case failure == nil && s.store.ReadOnly() && n.mayWrite(s, space, now):
			n.reopen(s, nil)
		case before != nil && !space.Full:
			s.partition.Reindex() // A rebuild of the index may have waited for room.
		}
	}
}

// mayWrite reports whether to try to open a store for writing that is open for reading
// only.
func (n *Node) mayWrite(s *slot, space storage.Space, now time.Time) bool {
	if space.Known {
		return space.Free >= space.Low/2
	}
	return now.Sub(s.opened) >= mendEvery
}

// reopen closes a slot when its last holder leaves, so that the next call opens the
// partition again; calls until then wait. A split or merge of it is canceled first.
func (n *Node) reopen(s *slot, failure error) {
	n.mu.Lock()
	if x, busy := n.changes[s.ref]; busy {
		x.cancel(status.Unavailable(failure, "The partition is being opened again."))
		n.mu.Unlock()
		return
	}
	if n.closed || s.inDoubt || s.state != slotHeld && s.state != slotIdle {
		n.mu.Unlock()
		return
	}
	if n.retireLocked(s) {
		n.background.Go(func() { n.finish(s) })
	}
	n.mu.Unlock()
	n.cfg.Logger.Info("partition is opened again at the next request", "container", s.ref.Container, "partition", s.ref.Partition)
}

// doubt is a split or merge with an unknown outcome: the catalog's commit may be stored
// or not.
type doubt struct {
	container resource.RID
	child     resource.PartitionID // the catalog names it if the commit is stored
	complete  func()               // called if it is
	undo      func()               // called if it is not
}

// inDoubt remembers a split or merge until the catalog's store is open again, and keeps
// its parents open until then.
func (n *Node) inDoubt(d doubt, parents ...*slot) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range parents {
		s.inDoubt = true
	}
	n.doubts = append(n.doubts, d)
}

// resolveInDoubt completes or undoes the splits and merges with an unknown outcome. The
// catalog's store has been opened again, so its view has the outcome.
func (n *Node) resolveInDoubt() {
	n.mu.Lock()
	doubts := n.doubts
	n.doubts = nil
	n.mu.Unlock()
	for _, d := range doubts {
		c, ok := n.cfg.Catalog.View().ContainerByRID(d.container)
		if ok {
			_, ok = c.Partition(d.child)
		}
		n.cfg.Logger.Info("outcome of a split or merge is known now", "container", d.container, "stored", ok)
		if ok {
			d.complete()
		} else {
			d.undo()
		}
	}
}

// spaces exports how much room the disk has and how many partitions have an ailment.
type spaces struct{ n *Node }

var (
	freeDesc    = prometheus.NewDesc("decan_storage_free_bytes", "Free bytes of the file system of the data directory; 0 if they are not known.", nil, nil)
	reserveDesc = prometheus.NewDesc("decan_storage_reserve_bytes", "Bytes of the disk that are reserved for deletions.", nil, nil)
	fullDesc    = prometheus.NewDesc("decan_storage_full", "1 while the disk is full and writes other than deletions are refused, else 0.", nil, nil)
	unwellDesc  = prometheus.NewDesc("decan_partitions_unwell", "Physical partitions with a problem, by its kind.", []string{"ailment"}, nil)
)

// Describe implements prometheus.Collector.
func (spaces) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{freeDesc, reserveDesc, fullDesc, unwellDesc} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (s spaces) Collect(to chan<- prometheus.Metric) {
	space := s.n.cfg.Pool.Space()
	full := 0.0
	if space.Full {
		full = 1
	}
	to <- prometheus.MustNewConstMetric(freeDesc, prometheus.GaugeValue, float64(space.Free))
	to <- prometheus.MustNewConstMetric(reserveDesc, prometheus.GaugeValue, float64(space.Reserve))
	to <- prometheus.MustNewConstMetric(fullDesc, prometheus.GaugeValue, full)
	count := map[Ailment]int{}
	for _, u := range s.n.Unwell() {
		count[u.Ailment]++
	}
	for _, a := range []Ailment{AilmentFailed, AilmentReading, AilmentRefused, AilmentDamaged, AilmentAhead} {
		to <- prometheus.MustNewConstMetric(unwellDesc, prometheus.GaugeValue, float64(count[a]), string(a))
	}
}
