package cluster

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/storage"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	// scrubFirst is how long after its start a node begins to scrub.
	scrubFirst = time.Minute
	// scrubEvery is the time between the beginnings of two passes, or more where the
	// pace has one take longer.
	scrubEvery = 24 * time.Hour
	// scrubDebt is how long the pace may be exceeded for: a pause for each block
	// would cost more than reading it.
	scrubDebt = 50 * time.Millisecond
)

// scrubbing is what a node knows of the checksums of its stored files.
type scrubbing struct {
	pacer pacer

	mu      sync.Mutex
	damaged map[replication.PartitionRef]map[string]error // by file; the catalog's under the empty reference
	bytes   int64                                         // read so far
	last    time.Time                                     // when the last whole pass ended
}

// pacer keeps work to so many bytes each second. One goroutine uses it.
type pacer struct {
	rate  int64 // bytes each second; zero or less for any number
	now   func() time.Time
	sleep func(ctx context.Context, d time.Duration)

	paid time.Time // until when what was read has been paid for
}

// spend waits until so many bytes may be read. The error is that of ctx.
func (p *pacer) spend(ctx context.Context, bytes int) error {
	if p.rate > 0 {
		now := p.now()
		if p.paid.Before(now) {
			p.paid = now
		}
		p.paid = p.paid.Add(time.Duration(float64(bytes) / float64(p.rate) * float64(time.Second)))
		if ahead := p.paid.Sub(now); ahead > scrubDebt {
			p.sleep(ctx, ahead)
		}
	}
	return ctx.Err()
}

// sleep waits for a time, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// scrubs scrubs once in a day until ctx ends.
func (n *Node) scrubs(ctx context.Context) {
	for pause := scrubFirst; ; {
		if sleep(ctx, pause); ctx.Err() != nil {
			return
		}
		began := time.Now()
		if err := n.Scrub(ctx); err != nil && ctx.Err() == nil {
			n.cfg.Logger.Warn("scrub ended early", "err", err)
		}
		pause = max(time.Second, scrubEvery-time.Since(began))
	}
}

// Scrub reads the tables of every partition and of the catalog, in the order of
// containers and partitions, one file at a time and at the pace of Config.ScrubRate, and
// compares their checksums. What is damaged is logged, counted, and in [Node.Unwell]
// until it is found whole or not used any more. What is only being opened or closed is
// left to the next pass. The node does so by itself once in a day. One goroutine calls it.
func (n *Node) Scrub(ctx context.Context) error {
	began, files := time.Now(), 0
	refs := []replication.PartitionRef{{}}
	for _, c := range n.cfg.Catalog.View().AllContainers() {
		for i := range c.Ranges.Len() {
			refs = append(refs, replication.PartitionRef{Container: c.RID, Partition: c.Ranges.At(i).Value.ID})
		}
	}
	slices.SortFunc(refs, compareRefs)
	n.scrub.keep(refs)
	for _, ref := range refs {
		scrubbed, err := n.scrubStore(ctx, ref)
		if err != nil {
			return err
		}
		files += scrubbed
	}
	n.scrub.mu.Lock()
	n.scrub.last = n.cfg.Now()
	damaged := n.scrub.damagedLocked()
	n.scrub.mu.Unlock()
	n.cfg.Logger.Info("scrub ended", "files", files, "damaged", damaged, "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// scrubStore scrubs the tables of one store, the catalog's for the empty reference. The
// error is that of ctx.
func (n *Node) scrubStore(ctx context.Context, ref replication.PartitionRef) (files int, err error) {
	dir := n.partitionDir(ref)
	if ref == (replication.PartitionRef{}) {
		dir = n.cfg.Pool.FS().PathJoin(n.cfg.Dir, catalogDir)
	}
	tables, err := n.cfg.Pool.Tables(dir)
	if err != nil {
		n.cfg.Logger.Debug("store not scrubbed", "store", dir, "err", err)
		return 0, ctx.Err()
	}
	n.scrub.used(ref, tables)
	for _, table := range tables {
		damage, err := n.cfg.Pool.Scrub(dir, table, func(bytes int) error {
			n.scrub.read(bytes)
			return n.scrub.pacer.spend(ctx, bytes)
		})
		switch {
		case ctx.Err() != nil:
			return files, ctx.Err()
		case errors.Is(err, storage.ErrScrubLater):
			continue
		case err != nil:
			n.cfg.Logger.Warn("file not scrubbed", "store", dir, "file", table, "err", err)
			continue
		}
		files++
		if n.scrub.found(ref, table, damage) {
			n.cfg.Logger.Error("stored file is damaged", "store", dir, "file", table, "container", ref.Container, "partition", ref.Partition, "err", damage)
		}
	}
	return files, nil
}

// keep forgets what is damaged of other stores.
func (s *scrubbing) keep(refs []replication.PartitionRef) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.damaged, func(ref replication.PartitionRef, _ map[string]error) bool {
		_, found := slices.BinarySearchFunc(refs, ref, compareRefs)
		return !found
	})
}

// used forgets what is damaged of files that a store does not use any more.
func (s *scrubbing) used(ref replication.PartitionRef, tables []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.damaged[ref], func(file string, _ error) bool { return !slices.Contains(tables, file) })
}

// found notes whether a file is damaged, and reports whether that is news.
func (s *scrubbing) found(ref replication.PartitionRef, file string, damage *storage.Damage) (news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.damaged[ref][file]
	switch {
	case damage == nil:
		delete(s.damaged[ref], file)
		return false
	case s.damaged == nil:
		s.damaged = map[replication.PartitionRef]map[string]error{}
	}
	if s.damaged[ref] == nil {
		s.damaged[ref] = map[string]error{}
	}
	s.damaged[ref][file] = damage
	return !known
}

func (s *scrubbing) read(bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes += int64(bytes)
}

func (s *scrubbing) damagedLocked() (files int) {
	for _, list := range s.damaged {
		files += len(list)
	}
	return files
}

// unwell returns one damaged file of each partition that has one, and why.
func (s *scrubbing) unwell() map[replication.PartitionRef]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[replication.PartitionRef]string{}
	for ref, files := range s.damaged {
		if len(files) == 0 {
			continue
		}
		first := slices.MinFunc(slices.Collect(maps.Keys(files)), cmp.Compare[string])
		all[ref] = files[first].Error()
	}
	return all
}

var (
	scrubBytesDesc   = prometheus.NewDesc("decan_scrub_bytes_total", "Bytes of stored tables that were read in the background to compare their checksums.", nil, nil)
	scrubDamagedDesc = prometheus.NewDesc("decan_scrub_damaged_files", "Stored tables whose checksums were wrong when they were read last, and that are in use.", nil, nil)
	scrubLastDesc    = prometheus.NewDesc("decan_scrub_last_pass_timestamp_seconds", "When the last pass over all stored tables ended, in seconds since 1970; 0 for none since the start.", nil, nil)
)

// Describe implements prometheus.Collector.
func (s *scrubbing) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{scrubBytesDesc, scrubDamagedDesc, scrubLastDesc} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (s *scrubbing) Collect(to chan<- prometheus.Metric) {
	s.mu.Lock()
	bytes, damaged, last := s.bytes, s.damagedLocked(), 0.0
	if !s.last.IsZero() {
		last = float64(s.last.Unix())
	}
	s.mu.Unlock()
	to <- prometheus.MustNewConstMetric(scrubBytesDesc, prometheus.CounterValue, float64(bytes))
	to <- prometheus.MustNewConstMetric(scrubDamagedDesc, prometheus.GaugeValue, float64(damaged))
	to <- prometheus.MustNewConstMetric(scrubLastDesc, prometheus.GaugeValue, last)
}
