package cluster

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/storage"
)

const (
	// marksEvery is the time from a write to its mark, without the time of the sync.
	// One append and one sync mark all partitions that were written to in that time.
	marksEvery = 500 * time.Millisecond
	// marksBytesMax is the size above which the file is rewritten, if that at least
	// halves its size.
	marksBytesMax = 1 << 20
)

// marking keeps the marks of a data directory up to date, see markSet. It has no timer
// and writes nothing while no partition changes. It is safe for concurrent use.
//
// A mark is a lower bound. Only the catalog waits for its marks; if the marks of
// partitions cannot be written, the server continues to serve and retries.
type marking struct {
	files storage.Files
	dir   string
	now   func() time.Time
	log   *slog.Logger

	off     atomic.Bool // no marks are made: during the start, and in benchmarks
	pending sync.WaitGroup

	mu sync.Mutex

	set    markSet       // what the file contains or is about to contain
	due    []*slot       // written to since they were last marked
	closed []closedStore // closed since the last write of the file
	timer  *time.Timer   // runs while a mark is due; nil otherwise
	ended  bool

	writing sync.Mutex // held while the file is written; guards the fields below

	file    storage.File // nil: the next write replaces the file
	size    int64
	failing bool // the last write failed
}

// closedStore is a partition that was closed after all its writes.
type closedStore struct {
	ref  replication.PartitionRef
	mark mark
}

// note schedules the mark of a partition that was written to.
func (m *marking) note(s *slot) {
	if s.noted.Load() || m.off.Load() || s.noted.Swap(true) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.due = append(m.due, s)
	m.armLocked()
}

// noteClosed schedules the mark of a partition that was closed after all its writes. A
// start after a crash need not open such a partition.
func (m *marking) noteClosed(ref replication.PartitionRef, known mark) {
	if m.off.Load() {
		return // During a start, closing may undo what opening the store has changed.
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	before, found := m.set.partitions[ref]
	if !found && known.value == 0 || found && before.closed && before.value == known.value {
		return
	}
	known.closed, known.at = true, m.now()
	m.closed = append(m.closed, closedStore{ref, known})
	m.armLocked()
}

// armLocked starts the timer for the next write, if it is not running. The caller has mu.
func (m *marking) armLocked() {
	if m.timer != nil || m.ended {
		return
	}
	m.pending.Add(1)
	m.timer = time.AfterFunc(marksEvery, func() {
		defer m.pending.Done()
		m.write()
	})
}

// write writes the marks that are due.
func (m *marking) write() {
	m.writing.Lock()
	defer m.writing.Unlock()
	m.mu.Lock()
	m.timer = nil
	due, closed := m.due, m.closed
	m.due, m.closed = nil, nil
	m.mu.Unlock()
	var records []markRecord
	now := m.now()
	for _, s := range due {
		s.noted.Store(false) // This precedes reading the LSN, so a later effect is noted again.
		lsn := uint64(s.synced.Load())
		records = append(records, markRecord{kind: markPartition, ref: s.ref, mark: mark{value: lsn, position: s.store.Position(), at: now}})
	}
	for _, c := range closed {
		records = append(records, markRecord{kind: markPartition, ref: c.ref, mark: c.mark})
	}
	m.record(records)
}

// markCatalog marks a version of the catalog. It returns when the mark is durable or its
// write has failed.
func (m *marking) markCatalog(version uint64, at storage.Position) {
	m.writing.Lock()
	defer m.writing.Unlock()
	m.record([]markRecord{{kind: markCatalog, mark: mark{value: version, position: at, at: m.now()}}})
}

// record adds records to the set and writes them to the file. The caller holds writing.
func (m *marking) record(records []markRecord) {
	m.mu.Lock()
	kept := records[:0]
	for _, r := range records {
		if before, found := m.set.partitions[r.ref]; r.kind == markPartition && found && before.value == r.value && before.closed == r.closed {
			continue
		}
		m.set.add(r)
		kept = append(kept, r)
	}
	// Records whose write failed are in the set, which the next write writes whole.
	if len(kept) == 0 && !m.failing {
		m.mu.Unlock()
		return
	}
	var whole *markSet
	if m.file == nil || m.size > marksBytesMax && m.size > 2*markBytes*int64(len(m.set.partitions)+2) {
		set := m.set.clone()
		whole = &set
	}
	m.mu.Unlock()
	m.afterWrite(m.store(kept, whole))
}

// store appends records to the file, or replaces the file with the whole set. The caller
// holds writing.
func (m *marking) store(records []markRecord, whole *markSet) error {
	if whole != nil {
		f, size, err := writeMarks(m.files, m.dir, whole)
		if err != nil {
			return err
		}
		before := m.file
		m.file, m.size = f, size
		if before != nil {
			return before.Close()
		}
		return nil
	}
	var content []byte
	for _, r := range records {
		content = r.append(content)
	}
	if _, err := m.file.Write(content); err != nil {
		return err
	}
	m.size += int64(len(content))
	return m.file.SyncData()
}

// afterWrite handles the result of a write. A file whose write or sync has failed is not
// used again, because its contents are unknown; the next write replaces it.
func (m *marking) afterWrite(err error) {
	if err == nil {
		if m.failing {
			m.log.Info("marks of acknowledged writes can be written again")
		}
		m.failing = false
		return
	}
	if m.file != nil {
		err = errors.Join(err, m.file.Close())
		m.file = nil
	}
	if !m.failing {
		m.failing = true
		m.log.Warn("marks of acknowledged writes not written, will retry", "err", err.Error())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.armLocked()
}

// of returns the mark of a partition.
func (m *marking) of(ref replication.PartitionRef) (mark, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, found := m.set.partitions[ref]
	return known, found
}

// forget removes the mark of a partition that the catalog no longer names.
func (m *marking) forget(ref replication.PartitionRef) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.set.partitions, ref)
}

// markTime marks the time of the shutdown, so that the next start knows for how long no
// server was running. It does nothing if the latest marked time is at most older ago.
func (m *marking) markTime(older time.Duration) {
	m.writing.Lock()
	defer m.writing.Unlock()
	now := m.now()
	m.mu.Lock()
	last, known := m.set.latest(), m.set.catalog.value > 0
	m.mu.Unlock()
	if known && !m.off.Load() && now.Sub(last).Abs() > older {
		m.record([]markRecord{{kind: markTime, mark: mark{at: now}}})
	}
}

// close writes the marks that are due and closes the file.
func (m *marking) close(older time.Duration) {
	m.mu.Lock()
	m.ended = true
	if m.timer != nil && m.timer.Stop() {
		m.pending.Done()
	}
	m.mu.Unlock()
	m.pending.Wait()
	m.write()
	m.markTime(older)
	m.writing.Lock()
	defer m.writing.Unlock()
	if m.file != nil {
		if err := m.file.Close(); err != nil {
			m.log.Debug("marks not closed", "err", err.Error())
		}
		m.file = nil
	}
}
