package storage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
)

// formatMajor pins the format of Pebble's files. It may rise only together with
// formatVersion, because an older release could no longer open the store.
const formatMajor = pebble.FormatTableFormatV6

// Store is an ordered set of rows in one directory, open in this process. All methods
// but Close are safe for concurrent use.
type Store struct {
	pool        *Pool
	dir         string
	db          *pebble.DB
	guard       *guard
	compactions *schedulerClient

	readOnly bool // see [Store.ReadOnly]

	provisional atomic.Bool // the directory is kept as it was, see [Opening.Provisional]
	confirming  sync.Mutex  // held by Confirm

	// applying is held for reading while a batch is applied, and for writing by the
	// sweeper, which must not run at the same time.
	applying sync.RWMutex
	sweeper  sweeper

	// dirty says that rows may have been written since the last flush began,
	// writtenSinceIdle since the last flushIdle, and writtenSinceRead since a fragmented
	// row was read or the last flushFragmented.
	dirty, writtenSinceIdle, writtenSinceRead atomic.Bool
	pins
	fragmented

	listing sync.Mutex // held while tables are listed
	ended   bool       // Pebble is closed, or about to be; guarded by listing

	buffers buffers
	// tables counts flushes and compactions: an iterator made before one keeps the files
	// that it replaced.
	tables atomic.Uint64
}

// start opens Pebble in a prepared directory without files of Pebble's. The caller then
// calls [guard.finishBuild].
func (p *Pool) start(dir string) (*Store, error) {
	s := p.newStore(dir)
	s.guard.setStage(stageBuilding)
	if err := s.begin(true); err != nil {
		return nil, err
	}
	s.compactions.opened()
	return s, nil
}

// restart opens Pebble in the directory of an existing store. Until the store is
// verified none of its files is removed or changed, and after an error the directory is
// as it was. If readOnly is true Pebble reads the log into memory and writes nothing.
func (p *Pool) restart(dir string, at position, o Opening, readOnly bool) (*Store, error) {
	s := p.newStore(dir)
	s.readOnly = readOnly
	s.guard.setStage(stageOpening)
	s.guard.startOverlay()
	s.guard.extents.found(at)
	if err := s.begin(false); err != nil {
		return nil, errors.Join(err, s.guard.discardOverlay())
	}
	if o.Verify != nil {
		snapshot := s.Snapshot()
		if err := errors.Join(o.Verify(snapshot), snapshot.Close()); err != nil {
			return nil, errors.Join(err, s.shut(), s.guard.discardOverlay())
		}
	}
	s.provisional.Store(true)
	if o.Provisional {
		return s, nil
	}
	if err := s.Confirm(); err != nil {
		return nil, errors.Join(err, s.shut())
	}
	return s, nil
}

// Confirm ends the provisional state of a store that was opened with
// [Opening.Provisional]: from now on its directory may change. It does nothing for
// other stores. After an error the store has failed.
func (s *Store) Confirm() error {
	s.confirming.Lock()
	defer s.confirming.Unlock()
	if !s.provisional.Load() {
		return nil
	}
	s.provisional.Store(false)
	if err := s.guard.commitOverlay(); err != nil {
		s.guard.fail(err)
		return s.Err()
	}
	s.guard.setStage(stageServing)
	s.compactions.opened()
	return nil
}

// newStore returns a store whose Pebble is not open yet.
func (p *Pool) newStore(dir string) *Store {
	logger := p.options.Logger.With("store", dir)
	s := &Store{pool: p, dir: dir, compactions: p.scheduler.newClient()}
	s.buffers.begin(p)
	s.guard = newGuard(p.options.FS, dir, func(err error) {
		// As text: Pebble's errors, logged as values, include their stacks.
		logger.Error("store failed", "err", err.Error())
		s.compactions.fail()
	})

	p.reserve.begin(dir)
	s.guard.reserve, s.guard.space, s.guard.clock = &p.reserve, &p.space, p.options.clock
	s.compactions.pacer.clock = p.options.clock
	return s
}

// begin opens Pebble. After an error the store is closed.
func (s *Store) begin(fresh bool) error {
	options := s.pool.pebbleOptions(s, s.pool.options.Logger.With("store", s.dir))
	options.ErrorIfExists, options.ErrorIfNotExists = fresh, !fresh
	options.ReadOnly = s.readOnly
	db, err := pebble.Open(s.dir, options)
	if err != nil {
		s.compactions.Unregister()
		if failure := s.guard.err(); failure != nil {
			err = failure
		}
		if fresh {
			return explain(err)
		}
		return explainOpening(s.dir, err)
	}
	s.db = db
	s.settle()
	if s.guard.err() != nil {
		return s.shut()
	}
	return nil
}

// tableFilter is the Bloom filter of the keys of each table.
var tableFilter = bloom.FilterPolicy(10)

func (p *Pool) pebbleOptions(s *Store, logger *slog.Logger) *pebble.Options {
	o := &pebble.Options{
		Cache:              p.cache,
		FileCache:          p.files,
		FS:                 s.guard,
		FormatMajorVersion: formatMajor,
		MemTableSize:       p.options.MemTableBytes,
		// Two buffers may wait while the disk is slow; then writers wait.
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       l0Stop,
		Merger:                      newMerger(s.sweeper.hint, s.noteFragmented),
		Logger:                      pebbleLogger{logger: logger, guard: s.guard},
		EventListener:               s.listener(logger),
	}
	o.Experimental.CompactionScheduler = s.compactions
	for i := range o.Levels {
		// A filter saves the search for missing keys in every level but the last. Each insert
		// looks one up.
		o.Levels[i].FilterPolicy = tableFilter
		o.Levels[i].BlockSize = 8 << 10
		o.Levels[i].IndexBlockSize = 64 << 10
	}
	return o
}

// listener turns Pebble's events into failures of the store and into signals to the
// scheduler. Pebble calls most of them while it holds its main lock, so they only
// record what happened.
func (s *Store) listener(logger *slog.Logger) *pebble.EventListener {
	// flushErr is the result of the last flush, guarded by Pebble's lock. An empty
	// flush also ends with an error, but Pebble does not report it as a background
	// error.
	var flushErr error
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			logger.Warn("background work failed", "err", err.Error())
			// Pebble would retry the flush at once and forever. Once the store has failed, the
			// flush succeeds in memory, and waiting writers continue.
			if flushErr != nil && errors.Is(err, flushErr) {
				s.guard.fail(fmt.Errorf("flush: %w", err))
			}
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			s.guard.fail(fmt.Errorf("file %s is damaged: %w", info.Path, info.Details))
		},
		WALCreated: func(pebble.WALCreateInfo) {
			s.buffers.begun.Add(1) // Each log begins with a new buffer.
			s.buffers.changed.Store(true)
		},
		FlushBegin: func(pebble.FlushInfo) { s.rewriting.Add(1) },
		FlushEnd: func(info pebble.FlushInfo) {
			s.rewriting.Add(-1)
			flushErr = info.Err
			s.buffers.changed.Store(true)
			s.tables.Add(1)
		},
		CompactionBegin: func(pebble.CompactionInfo) { s.rewriting.Add(1) },
		CompactionEnd: func(info pebble.CompactionInfo) {
			s.rewriting.Add(-1)
			s.tables.Add(1)
			s.compactions.report(info.Err)
		},
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			logger.Debug("writes wait", "reason", info.Reason)
			s.compactions.stall(true)
		},
		WriteStallEnd: func() { s.compactions.stall(false) },
	}
}

// Dir returns the store's directory.
func (s *Store) Dir() string { return s.dir }

// Err returns why the store accepts no writes, and nil while it accepts them. An error
// is permanent: when its cause is gone, close the store and open it again to get every
// batch that was acknowledged. Until then the store may show batches that were not
// acknowledged.
func (s *Store) Err() error {
	if err := s.guard.err(); err != nil {
		return fmt.Errorf("store %s has failed: %w", s.dir, err)
	}
	return nil
}

// Apply commits the batch and returns when it is synced. Concurrent calls share a sync.
// New snapshots may see the rows a moment earlier. After an error the outcome is
// unknown and the store has failed, see [Store.Err]. The batch may be reset or closed
// afterwards.
func (s *Store) Apply(b *Batch) error { return s.apply(b, pebble.Sync) }

// ApplyNoSync commits the batch without waiting for the disk, for work that is repeated
// after a crash, such as trimming. A later Apply or Flush makes it durable. Errors are
// those of Apply.
func (s *Store) ApplyNoSync(b *Batch) error { return s.apply(b, pebble.NoSync) }

func (s *Store) apply(b *Batch, sync *pebble.WriteOptions) error {
	if err := s.Err(); err != nil {
		return err
	}
	if s.readOnly {
		return errReadOnly()
	}
	if b.rows.Empty() {
		return nil
	}
	if s.provisional.Load() {
		if err := s.Confirm(); err != nil {
			return err
		}
	}
	if s.sweeper.due() {
		if err := s.sweep(sweepTime); err != nil {
			s.pool.options.Logger.Debug("empty posting rows not swept", "store", s.dir, "err", err)
		}
	}
	err := s.commit(b, sync)
	// The guard hides errors of the log from Pebble, which cannot recover from them, so
	// the result is known here.
	if failure := s.Err(); failure != nil {
		return failure
	}
	if err != nil {
		return fmt.Errorf("apply to store %s: %w", s.dir, err)
	}
	return nil
}

func (s *Store) commit(b *Batch, sync *pebble.WriteOptions) error {
	s.applying.RLock()
	defer s.applying.RUnlock()
	s.written()
	if err := s.room(b); err != nil {
		return err
	}
	err := s.db.Apply(b.rows, sync)
	if s.buffers.changed.Load() {
		s.settle()
	}
	return err
}

// written records that rows are written.
func (s *Store) written() {
	if !s.writtenSinceIdle.Load() {
		s.writtenSinceIdle.Store(true)
	}
	if !s.writtenSinceRead.Load() {
		s.writtenSinceRead.Store(true)
	}
	if !s.dirty.Load() && !s.dirty.Swap(true) {
		s.pool.idleFlush.schedule()
	}
}

// DeleteRange removes the rows with low <= key < high and syncs.
func (s *Store) DeleteRange(low, high []byte) error {
	b := s.NewBatch()
	defer b.Close()
	if err := b.DeleteRange(low, high); err != nil {
		return err
	}
	return s.Apply(b)
}

// Snapshot returns an immutable view of everything applied so far. Close it: an open
// snapshot keeps replaced rows on the disk. It costs about a microsecond.
func (s *Store) Snapshot() *Snapshot {
	return &Snapshot{at: s.db.NewSnapshot(), db: s.db, pool: s.pool, tables: &s.tables, sweeper: &s.sweeper}
}

// Flush writes the rows in memory to tables and returns when they are synced. It does
// nothing if nothing was written since the last flush.
func (s *Store) Flush() error {
	if err := s.Err(); err != nil || s.readOnly || s.provisional.Load() {
		return err
	}
	s.sweepAll()
	if !s.dirty.Swap(false) {
		return nil
	}
	err := s.db.Flush()
	s.settle()
	s.pool.reserve.refill()
	if err != nil {
		s.dirty.Store(true)
		return fmt.Errorf("flush store %s: %w", s.dir, err)
	}
	return s.Err()
}

// l0Stop is the number of unsorted layers of tables (level 0) at which writers wait. A
// reader looks into each of them.
const l0Stop = 24

// Backlogged reports whether compactions lag so far that a caller that copies rows into
// the store should wait: at a third of the limit at which writers wait. It is false for
// a store that has failed, which no compaction would improve.
func (s *Store) Backlogged() bool {
	return s.Err() == nil && s.db.Metrics().Levels[0].Sublevels >= l0Stop/3
}

// Busy reports whether write buffers are being flushed or compactions lag as
// [Store.Backlogged] says. A caller with megabytes to write should wait, because all
// writers after it would wait with it. It costs tens of microseconds.
func (s *Store) Busy() bool {
	if s.Err() != nil {
		return false
	}
	m := s.db.Metrics()
	return m.Flush.NumInProgress > 0 || m.Levels[0].Sublevels >= l0Stop/3
}

// Size returns how many bytes the store's files take on the disk. It costs tens of
// microseconds.
func (s *Store) Size() int64 { return int64(s.db.Metrics().DiskSpaceUsage()) }

// Close flushes and closes the store. All its snapshots and iterators must be closed,
// and no other call may be in progress. If the store has failed Close returns the
// failure; the store is closed nevertheless.
func (s *Store) Close() error {
	s.awaitUnpinned()
	defer s.pool.release(s.dir)
	if s.provisional.Load() {
		if err := errors.Join(s.shut(), s.guard.discardOverlay()); err != nil {
			return fmt.Errorf("close store %s: %w", s.dir, err)
		}
		return nil
	}
	err := s.Flush()
	closeErr := s.shut()
	if err != nil {
		// The errors of a failed store's Close only repeat the failure.
		return fmt.Errorf("close store: %w", err)
	}
	if closeErr == nil && !s.readOnly {
		closeErr = s.guard.dropLogs()
	}
	if closeErr != nil {
		return fmt.Errorf("close store %s: %w", s.dir, closeErr)
	}
	return nil
}

// Abandon closes a store that is to be removed: like Close, but without a flush. Rows
// that were not flushed stay in the store's log.
func (s *Store) Abandon() error {
	s.awaitUnpinned()
	defer s.pool.release(s.dir)
	err := s.shut()
	if s.provisional.Load() {
		err = errors.Join(err, s.guard.discardOverlay())
	}
	if err != nil {
		return fmt.Errorf("close store %s: %w", s.dir, err)
	}
	return nil
}

// shut closes Pebble and returns the store's failure, if it has failed.
func (s *Store) shut() error {
	s.listing.Lock()
	s.ended = true
	s.listing.Unlock()
	err := s.db.Close()
	s.buffers.end()
	if failure := s.guard.err(); failure != nil {
		return failure
	}
	return err
}

// pebbleLogger passes Pebble's messages on. Its Fatalf must not end the process: it
// fails the store, which cuts it off from the disk before anything more is damaged.
type pebbleLogger struct {
	logger *slog.Logger
	guard  *guard
}

func (l pebbleLogger) Infof(format string, args ...any) { l.log(format, args) }

func (l pebbleLogger) Errorf(format string, args ...any) { l.log(format, args) }

func (l pebbleLogger) log(format string, args []any) {
	if !l.logger.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	l.logger.Debug("pebble", "text", fmt.Sprintf(format, args...))
}

func (l pebbleLogger) Fatalf(format string, args ...any) {
	l.guard.fail(fmt.Errorf(format, args...))
}
