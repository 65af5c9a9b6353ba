package cluster

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/decandb/decan/internal/pacing"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/storage"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	// scrubFirst is the time between the start of a node and its first pass.
	scrubFirst = time.Minute
	// scrubEvery is the time between the beginnings of two passes. It is longer if a pass
	// takes longer.
	scrubEvery = 24 * time.Hour
	// scrubDebt is how far reading may be ahead of the pace: a pause for each block would
	// cost more than reading the block.
	scrubDebt = 50 * time.Millisecond
)

// scrubbing is the state of the scrubs of a node.
type scrubbing struct {
	pacer pacer

	mu      sync.Mutex
	damaged map[replication.PartitionRef]map[string]error // by file; the catalog's files under the zero reference
	bytes   int64                                         // read since the start
	last    time.Time                                     // the end of the last complete pass
}

// pacer limits the bytes per second of some work. One goroutine uses it.
type pacer struct {
	rate  int64 // bytes per second; zero or less for no limit
	now   func() time.Time
	sleep func(ctx context.Context, d time.Duration) error

	paid time.Time // when all bytes so far would have been read at the rate
}

// spend waits until that many bytes may be read. The error is that of ctx.
func (p *pacer) spend(ctx context.Context, bytes int) error {
	if p.rate > 0 {
		now := p.now()
		if p.paid.Before(now) {
			p.paid = now
		}
		p.paid = p.paid.Add(time.Duration(float64(bytes) / float64(p.rate) * float64(time.Second)))
		if ahead := p.paid.Sub(now); ahead > scrubDebt {
			return p.sleep(ctx, ahead)
		}
	}
	return ctx.Err()
}

// scrubLoop scrubs once per day until ctx ends.
func (n *Node) scrubLoop(ctx context.Context) {
	for pause := scrubFirst; ; {
		if pacing.Sleep(ctx, pause) != nil {
			return
		}
		began := time.Now()
		if err := n.Scrub(ctx); err != nil && ctx.Err() == nil {
			n.cfg.Logger.Warn("scrub ended early", "err", err)
		}
		pause = max(time.Second, scrubEvery-time.Since(began))
	}
}

// Scrub reads the tables of the catalog and of every partition, in the order of
// containers and partitions, one file at a time and at Config.ScrubRate, and compares
// their checksums. A damaged file is logged and counted, and its partition is in
// [Node.Unwell], until the file is found undamaged or is no longer used. Scrub skips
// partitions that are being opened or closed. The node calls it once per day if
// Config.ScrubRate is set. Only one goroutine may call it at a time.
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

// scrubStore scrubs the tables of one store; the zero reference means the catalog's. The
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

// keep removes the damage of all other stores.
func (s *scrubbing) keep(refs []replication.PartitionRef) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.damaged, func(ref replication.PartitionRef, _ map[string]error) bool {
		_, found := slices.BinarySearchFunc(refs, ref, compareRefs)
		return !found
	})
}

// used removes the damage of files that a store no longer uses.
func (s *scrubbing) used(ref replication.PartitionRef, tables []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.damaged[ref], func(file string, _ error) bool { return !slices.Contains(tables, file) })
}

// found records whether a file is damaged, and reports whether the damage is new.
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

// unwell returns the damage of one file for each partition that has damaged files.
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
	scrubBytesDesc   = prometheus.NewDesc("decan_scrub_bytes_total", "Bytes of stored tables that scrubs have read to compare their checksums.", nil, nil)
	scrubDamagedDesc = prometheus.NewDesc("decan_scrub_damaged_files", "Stored tables in use whose checksums were wrong when they were last read.", nil, nil)
	scrubLastDesc    = prometheus.NewDesc("decan_scrub_last_pass_timestamp_seconds", "When the last scrub of all stored tables ended, in seconds since 1970; 0 for none since the start.", nil, nil)
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
