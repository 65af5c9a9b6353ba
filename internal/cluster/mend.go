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

// mendEvery is the time between two attempts to open the store of a partition as
// usual that could not be, where the file system does not say how much room it has.
const mendEvery = 2 * time.Second

// Ailment says what is wrong with a partition.
type Ailment string

// The ailments.
const (
	AilmentFailed  Ailment = "failed"  // it has stopped and answers 503
	AilmentReading Ailment = "reading" // the disk was too full to open it for writing; reads go on
	AilmentRefused Ailment = "refused" // it could not be opened when it was last asked for
	AilmentDamaged Ailment = "damaged" // it serves, and a scrub has found one of its files damaged
	AilmentAhead   Ailment = "ahead"   // its latest _ts is ahead of the clock
)

// Unwell is a partition that does not serve as it should.
type Unwell struct {
	Database, Container string // their names
	Partition           resource.PartitionID
	Ailment             Ailment
	Reason              string // for people
}

// Unwell returns the partitions that do not serve as they should, in order.
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
		if by := n.cfg.Clock.Behind(ts); by > 0 {
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

// noteOpened takes note of whether a partition could be opened.
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

// Mend looks at the room on the disk, and has partitions opened again that stopped
// because the disk was full or too many files were open, or that can be read only,
// once there is room: it closes them, and the next request opens them. The catalog's
// store likewise, see Config.MendCatalog. The node does so by itself once in a second.
func (n *Node) Mend() {
	before := n.cfg.Pool.CanGrow()
	space := n.cfg.Pool.CheckSpace()
	if n.cfg.MendCatalog != nil {
		if err := n.cfg.MendCatalog(); err != nil {
			n.cfg.Logger.Debug("catalog not mended", "err", err)
		} else {
			n.settleDoubts()
		}
	}
	if err := n.dropLeftPlans(); err != nil {
		n.cfg.Logger.Debug("plans not dropped", "err", err)
	}
	now := n.cfg.Now()
	for _, s := range n.openSlots() {
		switch failure := s.partition.Failure(); {
		case failure != nil && storage.Because(failure) != "" && s.store.Err() != nil:
			n.retire(s, failure)
		case failure == nil && s.store.ReadOnly() && n.mayWrite(s, space, now):
			n.retire(s, nil)
		case before != nil && !space.Full:
			s.partition.Reindex() // It may have waited for room.
		}
	}
}

// mayWrite reports whether a store that can be read only may be opened for writing.
func (n *Node) mayWrite(s *slot, space storage.Space, now time.Time) bool {
	if space.Known {
		return space.Free >= space.Low/2
	}
	return now.Sub(s.opened) >= mendEvery
}

// retire has a slot closed when its last holder gives it back; who asks for its
// partition meanwhile waits for that. A split or merge of it is given up first.
func (n *Node) retire(s *slot, failure error) {
	n.mu.Lock()
	if x, busy := n.changes[s.ref]; busy {
		x.cancel(status.Unavailable(failure, "The partition is being opened again."))
		n.mu.Unlock()
		return
	}
	if s.gone != nil || s.kept {
		n.mu.Unlock()
		return
	}
	if s.holders > 0 {
		s.gone, s.leaving = make(chan struct{}), true
		n.mu.Unlock()
		return
	}
	closing := n.claim(s) && !n.closed
	if closing {
		n.background.Go(func() { n.finish(s) })
	}
	n.mu.Unlock()
	n.cfg.Logger.Info("partition is opened again at the next request", "container", s.ref.Container, "partition", s.ref.Partition)
}

// doubt is a split or merge of which nobody knew whether the catalog had stored it.
type doubt struct {
	container resource.RID
	child     resource.PartitionID // named by the catalog if it has
	complete  func()
	undo      func()
}

// inDoubt remembers a split or merge until the catalog's store is open again.
func (n *Node) inDoubt(d doubt, parents ...*slot) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range parents {
		s.kept = true
	}
	n.doubts = append(n.doubts, d)
}

// settleDoubts ends the splits and merges of which the catalog knows now what became
// of them.
func (n *Node) settleDoubts() {
	n.mu.Lock()
	doubts := n.doubts
	n.doubts = nil
	n.mu.Unlock()
	for _, d := range doubts {
		c, ok := n.cfg.Catalog.View().ContainerByRID(d.container)
		if ok {
			_, ok = c.Partition(d.child)
		}
		n.cfg.Logger.Info("split or merge in doubt settled", "container", d.container, "stored", ok)
		if ok {
			d.complete()
		} else {
			d.undo()
		}
	}
}

// spaces shows how much room the disk has, and which partitions are not well.
type spaces struct{ n *Node }

var (
	freeDesc    = prometheus.NewDesc("decan_storage_free_bytes", "Bytes that the file system of the data directory has free, as far as it says so.", nil, nil)
	reserveDesc = prometheus.NewDesc("decan_storage_reserve_bytes", "Bytes of the disk that are kept back for deletions.", nil, nil)
	fullDesc    = prometheus.NewDesc("decan_storage_full", "1 while the disk is full and writes other than deletions are refused, else 0.", nil, nil)
	unwellDesc  = prometheus.NewDesc("decan_partitions_unwell", "Physical partitions that do not serve as they should, by what is wrong.", []string{"ailment"}, nil)
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
