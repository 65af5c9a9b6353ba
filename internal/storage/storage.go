// Package storage is the ordered byte store: one Pebble store per partition replica,
// and a small one for the catalog.
//
// Packages partition, catalog and cluster keep all their durable data here. Learn
// [Pool] first: it holds what all stores of a process share (block cache, file cache,
// compaction budget) and creates, opens and removes stores by directory. Then [Store]
// and [Batch] for writes, and [Snapshot] for reads, with [Iterator] for rows and
// [Postings] for sets of document numbers. keyspace.go lays out every row family of the
// database; no other package builds a raw key prefix.
//
// # Invariants
//
// What [Store.Apply] acknowledged is synced. After a crash a batch is whole or absent,
// and of batches that were applied one after another a prefix survives. A store that
// failed to write or sync its log, its manifest or a flush accepts no further write and
// changes no further byte on the disk; everything it acknowledged is present when it is
// opened again. A posting list is a set: adding a number twice is adding it once, and
// the later of an add and a remove wins.
//
// The package knows no documents, no JSON, and of partition keys only their bytes. It
// does not order concurrent writers.
//
// Page: docs/storage.md
package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Options configures a [Pool]. The zero value is a pool on the real file system with
// the defaults that the fields name.
type Options struct {
	// FS replaces the real file system: tests pass one that crashes or fails. It overrides
	// InMemory.
	FS vfs.FS

	// InMemory keeps all stores in memory. They are lost when the pool is closed.
	InMemory bool

	// GroupRead lets the group of the process read the files that the stores create on the
	// real file system. By default only their owner can.
	GroupRead bool

	// CacheBytes is the size of the block cache that all stores share; 128 MB by default.
	// The write buffers of the stores are not part of it.
	CacheBytes int64

	// BufferBytes limits the write buffers of all stores together, not counting half a
	// megabyte for each open store. The default is 1/32 of CacheBytes, and at least 128
	// MB. The more stores are busy, the smaller their buffers are. The limit is exceeded
	// only for a batch that does not fit otherwise, and for buffers that iterators still
	// read.
	BufferBytes int64

	// MemTableBytes limits one write buffer of a store; 16 MB by default. A buffer begins
	// at 256 KB and doubles while the store is busy and the budget allows it, so a
	// thousand quiet stores stay small.
	MemTableBytes uint64

	// MaxOpenFiles is how many table files the stores keep open together; 1,000 by
	// default. In addition each open store needs about eight descriptors, and the pool
	// reserves sixteen.
	MaxOpenFiles int

	// Compactions is how many compactions may run at the same time, whatever the number of
	// stores. The default is half of the processors, at least one.
	Compactions int

	// IdleFlush is how long no write must reach a store before it is flushed; the flush
	// comes up to as much later. The default is a minute; a negative value disables it. An
	// idle store takes about 0.3 MB.
	IdleFlush time.Duration

	// ReserveDir is a directory for files that reserve disk space for deletions. It is
	// created when it is needed; its parent must exist. With it the pool watches the disk,
	// and refuses writes that grow before the disk is full. Empty disables both.
	ReserveDir string

	// ReserveBytes is how much space is reserved, at most 1/32 of the file system. Zero or
	// less reserves none.
	ReserveBytes int64

	// Release is the program's release, recorded in each store that it creates; "devel" by
	// default.
	Release string

	// Logger receives Pebble's messages at debug level and problems above it. Nil discards
	// them.
	Logger *slog.Logger

	// clock is the monotonic clock that paces background work. Tests replace it.
	clock func() time.Duration
}

func (o Options) withDefaults() Options {
	if o.FS == nil && o.InMemory {
		o.FS = vfs.NewMem()
	}
	if o.FS == nil {
		o.FS = newPrivate(o.GroupRead)
	}
	if o.CacheBytes <= 0 {
		o.CacheBytes = 128 << 20
	}
	if o.BufferBytes <= 0 {
		o.BufferBytes = max(128<<20, o.CacheBytes/32)
	}
	if o.MemTableBytes == 0 {
		o.MemTableBytes = 16 << 20
	}
	if o.MaxOpenFiles <= 0 {
		o.MaxOpenFiles = 1000
	}
	if o.Compactions <= 0 {
		o.Compactions = max(1, runtime.GOMAXPROCS(0)/2)
	}
	if o.IdleFlush == 0 {
		o.IdleFlush = idleDefault
	}
	if o.clock == nil {
		o.clock = sinceStart
	}
	if o.Release == "" {
		o.Release = "devel"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// validate returns everything that is wrong with the options as one error.
func (o Options) validate() error {
	var errs []error
	// Pebble keeps a batch larger than half of a write buffer outside the buffer, so a
	// buffer must hold at least an ordinary effect.
	if o.MemTableBytes < 64<<10 || o.MemTableBytes > 1<<30 {
		errs = append(errs, fmt.Errorf("write buffer of %d bytes, want 64 KB to 1 GB", o.MemTableBytes))
	}
	if o.MaxOpenFiles < 16 {
		errs = append(errs, fmt.Errorf("%d open files, want at least 16", o.MaxOpenFiles))
	}
	return errors.Join(errs...)
}

// Pool is what the stores of a process share, and the only way to open a store. Its
// methods are safe for concurrent use.
type Pool struct {
	options         Options
	cache           *pebble.Cache
	files           *pebble.FileCache
	scheduler       *scheduler
	dirs            *directories
	spares          spares
	idleFlush       periodic // runs flushIdle
	fragmentedFlush periodic // runs flushFragmented; off if idleFlush is off
	budget          budget   // of the write buffers
	reserve         descriptorReserve
	space           space

	mu     sync.Mutex
	open   map[string]*Store // by directory; nil while a store is being created, opened or removed
	evict  func(*Store) (closed bool)
	closed bool
}

// NewPool returns a pool. It allocates little: caches grow with use.
func NewPool(options Options) (*Pool, error) {
	options = options.withDefaults()
	if err := options.validate(); err != nil {
		return nil, fmt.Errorf("storage options: %w", err)
	}
	configureAllocator()
	p := &Pool{
		options:   options,
		cache:     pebble.NewCache(options.CacheBytes),
		files:     pebble.NewFileCache(runtime.GOMAXPROCS(0), options.MaxOpenFiles),
		scheduler: newScheduler(options.Compactions),
		dirs:      newDirectories(options.FS),
		open:      map[string]*Store{},
		budget:    budget{limit: options.BufferBytes},
		reserve:   descriptorReserve{files: options.FS},
		space:     space{files: options.FS, dir: options.ReserveDir, wanted: options.ReserveBytes, logger: options.Logger},
	}
	p.idleFlush.pause, p.idleFlush.run = options.IdleFlush, p.flushIdle
	p.fragmentedFlush.pause, p.fragmentedFlush.run = min(options.IdleFlush, fragmentedAfter), p.flushFragmented
	p.space.pending = p.pending
	p.space.begin()
	return p, nil
}

// FS returns the file system of the pool, for packages that keep other files next to
// the stores. It is never nil.
func (p *Pool) FS() vfs.FS { return p.options.FS }

// Close closes the pool. If stores are open it returns an error that names them, and
// the pool stays usable.
func (p *Pool) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	if len(p.open) > 0 {
		var names []string
		for dir := range p.open {
			names = append(names, dir)
		}
		p.mu.Unlock()
		return fmt.Errorf("close storage: %d stores are still open: %q", len(names), names)
	}
	p.closed = true
	p.mu.Unlock()

	p.idleFlush.stop()
	p.fragmentedFlush.stop()
	p.reserve.close()
	p.scheduler.close()
	p.files.Unref()
	p.cache.Unref()
	return nil
}

// claim reserves a directory for one operation, so that no two operations use it at the
// same time. The caller releases it, or puts an open store in its place.
func (p *Pool) claim(dir string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errors.New("the storage is closed")
	}
	if _, taken := p.open[dir]; taken {
		return errors.New("the store is in use")
	}
	p.open[dir] = nil
	return nil
}

func (p *Pool) release(dir string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, dir)
}

func (p *Pool) occupy(dir string, s *Store) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[dir] = s
}

// Create creates a store in dir, which must be missing or empty. When Create returns,
// the directory, the parents it needed and everything in it are synced. After an error
// it removes what it created as far as possible.
func (p *Pool) Create(dir string) (*Store, error) {
	dir = p.clean(dir)
	if err := p.claim(dir); err != nil {
		return nil, fmt.Errorf("create store %s: %w", dir, err)
	}
	s, err := p.create(dir)
	if err != nil {
		p.release(dir)
		return nil, fmt.Errorf("create store %s: %w", dir, err)
	}
	p.occupy(dir, s)
	return s, nil
}

// Build creates a store in dir, which must be missing or empty, calls fill and closes
// the store. What fill applies is synced only once, before Build returns, which takes a
// fraction of the time of [Pool.Create] and Apply. A crash before that leaves garbage.
// After an error Build removes what it created as far as possible.
func (p *Pool) Build(dir string, fill func(*Store) error) error {
	dir = p.clean(dir)
	if err := p.claim(dir); err != nil {
		return fmt.Errorf("build store %s: %w", dir, err)
	}
	defer p.release(dir)
	err := p.fresh(dir, func() error {
		s, err := p.prepare(dir)
		if err != nil {
			return err
		}
		if err := errors.Join(fill(s), s.Flush(), s.shut()); err != nil {
			return err
		}
		return errors.Join(s.guard.dropLogs(), s.guard.finishBuild())
	})
	if err != nil {
		return fmt.Errorf("build store %s: %w", dir, err)
	}
	return nil
}

// Rename renames the directory of a closed store durably. Both names must be on the
// same file system.
func (p *Pool) Rename(from, to string) error {
	from, to = p.clean(from), p.clean(to)
	for _, dir := range []string{from, to} {
		if err := p.claim(dir); err != nil {
			return fmt.Errorf("rename store %s to %s: %w", from, to, err)
		}
		defer p.release(dir)
	}
	files := p.options.FS
	err := files.Rename(from, to)
	if err == nil {
		p.dirs.forget(from)
		err = errors.Join(syncDir(files, files.PathDir(to)), syncDir(files, files.PathDir(from)))
	}
	if err != nil {
		return fmt.Errorf("rename store %s to %s: %w", from, to, err)
	}
	return nil
}

func (p *Pool) create(dir string) (s *Store, err error) {
	err = p.fresh(dir, func() error {
		if s, err = p.prepare(dir); err != nil {
			return err
		}
		// The first log of a new Pebble store uses a format that does not record what was
		// synced. The next log does record it.
		if err := errors.Join(explain(s.db.Flush()), s.guard.finishBuild()); err != nil {
			return errors.Join(err, s.shut())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// fresh calls make for a directory that is missing or empty. If make fails, fresh
// removes the files that make created.
func (p *Pool) fresh(dir string, make func() error) error {
	files := p.options.FS
	switch names, err := files.List(dir); {
	case err == nil && len(names) > 0:
		return fmt.Errorf("the directory is not empty: %w", fs.ErrExist)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	err := make()
	if err != nil {
		p.dirs.forget(dir)
		// Nothing refers to what is left, but the next attempt must find the directory empty.
		if removeErr := files.RemoveAll(dir); removeErr != nil {
			p.options.Logger.Debug("store remains not removed", "dir", dir, "err", removeErr)
		}
	}
	return err
}

// prepare creates a store of which only the directory is synced.
func (p *Pool) prepare(dir string) (*Store, error) {
	if err := p.dirs.make(dir); err != nil {
		return nil, err
	}
	if err := writeFormat(p.options.FS, dir, p.options.Release); err != nil {
		return nil, err
	}
	return p.start(dir)
}

// Open opens the store in dir. If there is none the error is [fs.ErrNotExist]. A store
// that a newer release wrote, or that cannot be read, is refused and left as it is. If
// the disk is too full to open the store for writing, it is opened read-only, see
// [Store.ReadOnly].
func (p *Pool) Open(dir string) (*Store, error) { return p.OpenVerified(dir, Opening{}) }

// Opening is what a store must satisfy to be opened. The zero value requires nothing.
type Opening struct {
	// Contains is what the logs and the manifest must contain at least: a result of
	// [Store.Position]. A store that contains less is damaged.
	Contains Position

	// Verify checks the store before anything on its disk changes permanently: until it
	// returns nil no existing file is removed or written to. After an error the store
	// is closed and its directory has the files that it had. Verify must not keep the
	// snapshot. Nil accepts every store.
	Verify func(*Snapshot) error

	// Writable refuses a store that a full disk would make read-only. The error is that of
	// the disk.
	Writable bool

	// Provisional keeps the directory as Verify found it until [Store.Confirm] is called
	// or something is written. A store that is closed before that has the files that it
	// had. With it a caller verifies several stores before it changes any of them.
	Provisional bool
}

// OpenVerified is [Pool.Open] with requirements.
func (p *Pool) OpenVerified(dir string, o Opening) (*Store, error) {
	dir = p.clean(dir)
	if err := p.claim(dir); err != nil {
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	var s *Store
	err := p.space.need(func() (err error) {
		s, err = p.reopen(dir, o, false)
		return err
	})
	if IsNoSpace(err) && !o.Writable {
		full := err
		if s, err = p.reopen(dir, o, true); err == nil {
			p.options.Logger.Warn("store opened read-only, because the disk is full", "store", dir)
		} else {
			err = errors.Join(full, err)
		}
	}
	if err != nil {
		p.release(dir)
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	p.occupy(dir, s)
	return s, nil
}

func (p *Pool) reopen(dir string, o Opening, readOnly bool) (*Store, error) {
	found, err := p.examine(dir, "")
	if err != nil {
		return nil, err
	}
	if err := found.err(); err != nil {
		return nil, err
	}
	least, err := o.Contains.parse()
	if err != nil {
		return nil, err
	}
	at := found.position()
	found.contain(least)
	if lacking := found.err(); lacking != nil {
		// The store is consistent, but older than it should be. The error of Verify
		// takes precedence.
		verify := o.Verify
		o.Verify = func(snapshot *Snapshot) error {
			if verify == nil {
				return lacking
			}
			return errors.Join(verify(snapshot), lacking)
		}
		return p.restart(dir, at, o, readOnly)
	}
	return p.restart(dir, found.position(), o, readOnly)
}

// Remove deletes the store in dir and syncs its parent. A missing store is no error; an
// open one is. After an error as much as possible is deleted, and another call deletes
// the rest.
func (p *Pool) Remove(dir string) error {
	dir = p.clean(dir)
	if err := p.claim(dir); err != nil {
		return fmt.Errorf("remove store %s: %w", dir, err)
	}
	defer p.release(dir)
	p.dirs.forget(dir)
	files := p.options.FS
	if _, err := files.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	// The format file is removed first: if a crash interrupts the removal, the rest must
	// not open as a store. If that step fails, the other files are deleted nevertheless:
	// nothing refers to the directory, and it takes space.
	err := files.Remove(files.PathJoin(dir, formatFile))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil {
		err = syncDir(files, dir)
	}
	err = errors.Join(err, files.RemoveAll(dir), syncDir(files, files.PathDir(dir)))
	if err != nil {
		return fmt.Errorf("remove store %s: %w", dir, err)
	}
	return nil
}

// clean returns the one name of a directory.
func (p *Pool) clean(dir string) string { return p.options.FS.PathJoin(dir) }

// LockDir locks the data directory of a server for this process and creates it if it is
// missing. It fails if another process, or another server of this process, holds the
// lock. Close the result to release the lock. A server in memory has no directory to
// lock.
func LockDir(dir string) (io.Closer, error) { return lockDir(newPrivate(false), dir) }

func lockDir(files vfs.FS, dir string) (io.Closer, error) {
	dir = files.PathJoin(dir)
	if err := newDirectories(files).make(dir); err != nil {
		return nil, fmt.Errorf("data directory %s: %w", dir, err)
	}
	lock, err := files.Lock(files.PathJoin(dir, lockFile))
	if err != nil {
		if isLocked(err) {
			return nil, fmt.Errorf("data directory %s is in use by another decan process", dir)
		}
		return nil, fmt.Errorf("lock data directory %s: %w", dir, err)
	}
	return lock, nil
}
