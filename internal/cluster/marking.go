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
	// marksEvery is how long what was acknowledged may go unmarked, less the time that
	// the disk takes for one sync. One append and one sync mark all partitions that
	// were written to in between.
	marksEvery = 500 * time.Millisecond
	// marksBytesMax is the size from which on the file is written anew, if that makes it
	// half as large or smaller.
	marksBytesMax = 1 << 20
)

// marking keeps the marks of a data directory up to date, see markSet. Nothing runs
// and nothing is written while nothing changes. It is safe for concurrent use.
//
// Marks are lower bounds that nobody waits for but the catalog: when they cannot be
// written the server serves on, and tries again until they are.
type marking struct {
	files storage.Files
	dir   string
	now   func() time.Time
	log   *slog.Logger

	off     atomic.Bool // nothing is marked: benchmarks compare
	pending sync.WaitGroup

	mu sync.Mutex

	set    markSet       // what the file has or is about to have
	due    []*slot       // were written to since they were marked
	closed []closedStore // were closed since
	timer  *time.Timer   // runs while something is due; nil otherwise
	ended  bool

	writing sync.Mutex // held while the file is written; guards what follows

	file    storage.File // nil: it is written anew the next time
	size    int64
	failing bool // the last attempt failed
}

// closedStore is a partition that was closed after all its writes.
type closedStore struct {
	ref  replication.PartitionRef
	mark mark
}

// note takes note that a partition was written to, and is marked soon.
func (m *marking) note(s *slot) {
	if s.noted.Load() || m.off.Load() || s.noted.Swap(true) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.due = append(m.due, s)
	m.armLocked()
}

// noteClosed takes note that a partition was closed after all its writes: an unclean
// stop of the server need not look into it.
func (m *marking) noteClosed(ref replication.PartitionRef, known mark) {
	if m.off.Load() {
		return // The store may have gone back to what it was.
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

// armLocked has the marks written in a moment.
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

// write marks what is due.
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
		s.noted.Store(false) // Before its LSN is read: a later effect notes it again.
		lsn := uint64(s.synced.Load())
		records = append(records, markRecord{kind: markPartition, ref: s.ref, mark: mark{value: lsn, position: s.store.Position(), at: now}})
	}
	for _, c := range closed {
		records = append(records, markRecord{kind: markPartition, ref: c.ref, mark: c.mark})
	}
	m.record(records)
}

// markCatalog marks a version of the catalog, and returns when that is on the disk or
// has failed.
func (m *marking) markCatalog(version uint64, at storage.Position) {
	m.writing.Lock()
	defer m.writing.Unlock()
	m.record([]markRecord{{kind: markCatalog, mark: mark{value: version, position: at, at: m.now()}}})
}

// record takes records in and writes them. Whoever calls it holds writing.
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
	// What could not be written is in the set, and is written with it.
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
	m.settle(m.store(kept, whole))
}

// store writes records, or the whole set in a new file. Whoever calls it holds writing.
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

// settle takes note of how an attempt to write has ended. A file that could not be
// written or synced is not written to again: nobody knows what it has.
func (m *marking) settle(err error) {
	if err == nil {
		if m.failing {
			m.log.Info("marks of acknowledged writes are written again")
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
		m.log.Warn("marks of acknowledged writes not written; trying again", "err", err.Error())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.armLocked()
}

// of returns what is known of a partition.
func (m *marking) of(ref replication.PartitionRef) (mark, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, found := m.set.partitions[ref]
	return known, found
}

// forget takes partitions out that the catalog has ceased to name.
func (m *marking) forget(ref replication.PartitionRef) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.set.partitions, ref)
}

// markTime marks the time of the end, unless a time that is at most so much older has
// been marked: the next start knows for how long nothing ran.
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

// close marks what is due and closes the file.
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
