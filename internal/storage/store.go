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
// formatVersion: an older release could not open the store any more.
const formatMajor = pebble.FormatTableFormatV6

// Store is one ordered set of rows in one directory, open in this process. All
// methods but Close may be called at the same time from several goroutines.
type Store struct {
	pool  *Pool
	dir   string
	db    *pebble.DB
	guard *guard
	turn  *turn // this store's place in the pool's scheduler

	reading bool // it cannot be written to, see [Store.Reading]

	provisional atomic.Bool // its directory is kept as it was, see [Opening.Provisional]
	confirming  sync.Mutex  // held while that ends

	// applying is held for reading while a batch is applied, and for writing by
	// the sweeper, which must not meet one.
	applying sync.RWMutex
	sweeper  sweeper

	// dirty says that rows may have come in since the last flush began, touched the
	// same of the last look for idle stores, and stirred that for scattered ones.
	dirty, touched, stirred atomic.Bool
	resting
	scattered

	listing sync.Mutex // held while tables are listed
	ended   bool       // Pebble is being closed or was; guarded by listing

	buffers buffers
	// tables counts flushes and compactions, so that iterators that keep what
	// they have replaced can be told from newer ones.
	tables atomic.Uint64
}

// start opens Pebble in a directory that has been prepared, which must have no files
// of Pebble's. The caller then calls [guard.built].
func (p *Pool) start(dir string) (*Store, error) {
	s := p.newStore(dir)
	s.guard.during(stageBuilding)
	if err := s.begin(true); err != nil {
		return nil, err
	}
	s.turn.opened()
	return s, nil
}

// restart opens Pebble in the directory of an existing store. Until it is verified
// no file of it is removed or changed, and after an error the directory is as it
// was. With reading Pebble reads the log into memory and writes nothing.
func (p *Pool) restart(dir string, at position, o Opening, reading bool) (*Store, error) {
	s := p.newStore(dir)
	s.reading = reading
	s.guard.during(stageOpening)
	s.guard.hold()
	s.guard.extents.found(at)
	if err := s.begin(false); err != nil {
		return nil, errors.Join(err, s.guard.rollback())
	}
	if o.Verify != nil {
		snapshot := s.Snapshot()
		if err := errors.Join(o.Verify(snapshot), snapshot.Close()); err != nil {
			return nil, errors.Join(err, s.shut(), s.guard.rollback())
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

// Confirm ends the time in which a store that was opened with [Opening.Provisional]
// keeps its directory as it was. It does nothing for any other. After an error the
// store has failed.
func (s *Store) Confirm() error {
	s.confirming.Lock()
	defer s.confirming.Unlock()
	if !s.provisional.Load() {
		return nil
	}
	s.provisional.Store(false)
	if err := s.guard.release(); err != nil {
		s.guard.fail(err)
		return s.Err()
	}
	s.guard.during(stageServing)
	s.turn.opened()
	return nil
}

// newStore returns a store without its Pebble.
func (p *Pool) newStore(dir string) *Store {
	logger := p.options.Logger.With("store", dir)
	s := &Store{pool: p, dir: dir, turn: p.scheduler.newTurn()}
	s.buffers.begin(p)
	s.guard = newGuard(p.options.FS, dir, func(err error) {
		// As text: Pebble's errors, logged as values, bring their stacks along.
		logger.Error("store failed", "err", err.Error())
		s.turn.fail()
	})

	p.reserve.begin(dir)
	s.guard.reserve, s.guard.space = &p.reserve, &p.space
	return s
}

// begin opens Pebble. After an error the store is closed.
func (s *Store) begin(fresh bool) error {
	options := s.pool.pebbleOptions(s, s.pool.options.Logger.With("store", s.dir))
	options.ErrorIfExists, options.ErrorIfNotExists = fresh, !fresh
	options.ReadOnly = s.reading
	db, err := pebble.Open(s.dir, options)
	if err != nil {
		s.turn.Unregister()
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

// tableFilter is the filter of keys in each table.
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
		Merger:                      newMerger(s.sweeper.hint, s.scatter),
		Logger:                      pebbleLogger{logger: logger, guard: s.guard},
		EventListener:               s.listener(logger),
	}
	o.Experimental.CompactionScheduler = s.turn
	for i := range o.Levels {
		// A filter saves the search in every level but the last for keys that
		// are not there, which each insert asks for once.
		o.Levels[i].FilterPolicy = tableFilter
		o.Levels[i].BlockSize = 8 << 10
		o.Levels[i].IndexBlockSize = 64 << 10
	}
	return o
}

// listener turns Pebble's events into the store's failure and the scheduler's
// patience. Most are called under Pebble's main lock, so they only take notes.
func (s *Store) listener(logger *slog.Logger) *pebble.EventListener {
	// flushErr is how the last flush ended, guarded by Pebble's lock. A flush
	// of nothing ends with an error too, but is no background error.
	var flushErr error
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			logger.Warn("background work failed", "err", err.Error())
			// Pebble would try the flush again at once and for ever. After the
			// failure it succeeds into memory and lets waiting writers go.
			if flushErr != nil && errors.Is(err, flushErr) {
				s.guard.fail(fmt.Errorf("flush: %w", err))
			}
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			s.guard.fail(fmt.Errorf("file %s is damaged: %w", info.Path, info.Details))
		},
		WALCreated: func(pebble.WALCreateInfo) {
			s.buffers.begun.Add(1) // With each log begins a buffer.
			s.buffers.changed.Store(true)
		},
		FlushBegin: func(pebble.FlushInfo) { s.gathering.Add(1) },
		FlushEnd: func(info pebble.FlushInfo) {
			s.gathering.Add(-1)
			flushErr = info.Err
			s.buffers.changed.Store(true)
			s.tables.Add(1)
		},
		CompactionBegin: func(pebble.CompactionInfo) { s.gathering.Add(1) },
		CompactionEnd: func(info pebble.CompactionInfo) {
			s.gathering.Add(-1)
			s.tables.Add(1)
			s.turn.report(info.Err)
		},
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			logger.Debug("writes wait", "reason", info.Reason)
			s.turn.stall(true)
		},
		WriteStallEnd: func() { s.turn.stall(false) },
	}
}

// Dir returns the store's directory.
func (s *Store) Dir() string { return s.dir }

// Err returns why the store takes no more writes, nil while it does. Once set
// it stays: close the store and open it again, when the cause is gone, to get
// back every batch that was acknowledged. What the store shows until then may
// include batches that were not.
func (s *Store) Err() error {
	if err := s.guard.err(); err != nil {
		return fmt.Errorf("store %s has failed: %w", s.dir, err)
	}
	return nil
}

// Apply commits the batch and returns when it is synced; concurrent calls share
// a sync. Pebble shows the rows to new snapshots a moment earlier. After an
// error the outcome is unknown and the store has failed, see [Store.Err]. The
// batch may be reset or closed afterwards.
func (s *Store) Apply(b *Batch) error { return s.apply(b, pebble.Sync) }

// ApplyNoSync commits the batch without waiting for the disk: for work that is
// repeated after a crash, such as trimming. A later Apply or Flush makes it
// durable too. Errors are those of Apply.
func (s *Store) ApplyNoSync(b *Batch) error { return s.apply(b, pebble.NoSync) }

func (s *Store) apply(b *Batch, sync *pebble.WriteOptions) error {
	if err := s.Err(); err != nil {
		return err
	}
	if s.reading {
		return errReading()
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
	// The guard keeps errors of the log away from Pebble, which has no way back
	// from them, so the answer is here.
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

// written notes that rows come in.
func (s *Store) written() {
	if !s.touched.Load() {
		s.touched.Store(true)
	}
	if !s.stirred.Load() {
		s.stirred.Store(true)
	}
	if !s.dirty.Load() && !s.dirty.Swap(true) {
		s.pool.idle.begin()
	}
}

// DeleteRange removes the rows with low <= key < high, synced.
func (s *Store) DeleteRange(low, high []byte) error {
	b := s.NewBatch()
	defer b.Close()
	if err := b.DeleteRange(low, high); err != nil {
		return err
	}
	return s.Apply(b)
}

// Snapshot returns an unchanging view of everything applied so far. Close it:
// an open snapshot keeps old rows from being removed. It costs about a
// microsecond.
func (s *Store) Snapshot() *Snapshot {
	return &Snapshot{at: s.db.NewSnapshot(), db: s.db, pool: s.pool, tables: &s.tables, sweeper: &s.sweeper}
}

// Flush writes what is in memory to tables and returns when they are synced.
// A quiet store is left as it is.
func (s *Store) Flush() error {
	if err := s.Err(); err != nil || s.reading || s.provisional.Load() {
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

// l0Stop is at how many layers of tables that no compaction has sorted yet writers
// wait. Each is another place where a reader looks.
const l0Stop = 24

// Crowded reports whether compactions are behind so far that whoever copies into the
// store should wait for them: a third of the way to where writers wait. A store that
// has failed is not: nothing would make it better.
func (s *Store) Crowded() bool {
	return s.Err() == nil && s.db.Metrics().Levels[0].Sublevels >= l0Stop/3
}

// Gathering reports whether write buffers are being flushed, or compactions are
// behind as [Store.Crowded] says: who has megabytes to write had better wait, because
// all who write behind would wait with it. It costs tens of microseconds.
func (s *Store) Gathering() bool {
	if s.Err() != nil {
		return false
	}
	m := s.db.Metrics()
	return m.Flush.NumInProgress > 0 || m.Levels[0].Sublevels >= l0Stop/3
}

// Size returns how many bytes the store's files take on the disk. It costs tens
// of microseconds.
func (s *Store) Size() int64 { return int64(s.db.Metrics().DiskSpaceUsage()) }

// Close flushes the store and closes it. All its snapshots and iterators must
// have been closed, and no other call may be under way. Of a store that has
// failed it returns the failure, and has closed it all the same.
func (s *Store) Close() error {
	s.leave()
	defer s.pool.release(s.dir)
	if s.provisional.Load() {
		if err := errors.Join(s.shut(), s.guard.rollback()); err != nil {
			return fmt.Errorf("close store %s: %w", s.dir, err)
		}
		return nil
	}
	err := s.Flush()
	closeErr := s.shut()
	if err != nil {
		// What Pebble says while it closes a failed store is an echo.
		return fmt.Errorf("close store: %w", err)
	}
	if closeErr == nil && !s.reading {
		closeErr = s.guard.dropLogs()
	}
	if closeErr != nil {
		return fmt.Errorf("close store %s: %w", s.dir, closeErr)
	}
	return nil
}

// Abandon closes a store that is to be removed: like Close, but without a flush.
// What was not flushed stays in the store's log.
func (s *Store) Abandon() error {
	s.leave()
	defer s.pool.release(s.dir)
	err := s.shut()
	if s.provisional.Load() {
		err = errors.Join(err, s.guard.rollback())
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

// pebbleLogger passes Pebble's log on. Fatal calls must not end the process:
// they fail the store, which cuts it off from the disk before anything can be
// damaged further.
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
