// Package storage is the ordered byte store: one Pebble store per partition
// replica, and a small one for the catalog.
//
// Partition, catalog and cluster keep everything they remember here. Learn
// [Pool] first: it holds what all stores of a process share (block cache, file
// cache, compaction budget) and creates, opens and removes them by directory.
// Then [Store] and [Batch], the way in, and [Snapshot], the way out, with
// [Iterator] for rows and [Postings] for sets of document numbers. Every row
// family of the database is laid out in keyspace.go; no other package builds a
// raw prefix.
//
// # Invariants
//
// What [Store.Apply] acknowledged is synced. A batch is whole or absent after a
// crash, and batches that were applied one after the other survive as a prefix.
// A store that has failed to write or sync its log, its manifest or a flush
// takes no further write and changes no further byte on the disk; everything it
// acknowledged is there when it is opened again. A posting list is a set: adding
// twice is adding once, and the last of an add and a remove wins.
//
// The package knows no documents, no JSON and no keys of partitions beyond
// their bytes, and it gives no order to concurrent writers.
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

// Options sets up a [Pool]. The zero value is a pool on the real file system
// with the defaults named at the fields.
type Options struct {
	// FS replaces the real file system: tests hand in one that crashes or
	// fails. It rules over InMemory.
	FS vfs.FS

	// InMemory keeps all stores in memory; they are gone with the pool.
	InMemory bool

	// GroupRead lets the group of the process read the files that the stores make on
	// the real file system; by default their owner alone can.
	GroupRead bool

	// CacheBytes is the size of the block cache that all stores share; 128 MB
	// by default. The write buffers of the stores come on top.
	CacheBytes int64

	// BufferBytes is what the write buffers of all stores may take together, beyond
	// half a megabyte for each open store; by default a part in 32 of CacheBytes, and
	// 128 MB or more. The more stores are busy, the smaller are their buffers. More
	// is taken only for a batch that does not fit in otherwise, and for buffers that
	// iterators still read.
	BufferBytes int64

	// MemTableBytes is how large one write buffer of a store may grow; 16 MB by
	// default. It begins at 256 KB and doubles while the store is busy and the budget
	// has room, so that a thousand quiet stores stay small.
	MemTableBytes uint64

	// MaxOpenFiles is how many table files the stores keep open together; 1,000
	// by default. Each open store needs about eight descriptors besides, and the
	// pool keeps sixteen back.
	MaxOpenFiles int

	// Compactions is how many compactions may run at once, whatever the number
	// of stores; by default half of the processors, at least one.
	Compactions int

	// IdleFlush is for how long a store is not written to until it is flushed, to
	// within as long again; a minute by default, and never when negative. An idle
	// store takes about a fifth of a megabyte.
	IdleFlush time.Duration

	// ReserveDir is a directory for files that keep room on the disk for deletions,
	// below an existing one; it is made when it is needed. With it the pool watches
	// the disk and refuses writes that grow before it is full. Empty: neither.
	ReserveDir string

	// ReserveBytes is how much is kept back, at most a part in 32 of the file system.
	// Zero or less keeps nothing back.
	ReserveBytes int64

	// Release is the name of the program's release, recorded in each store
	// that it creates; "devel" by default.
	Release string

	// Logger receives what Pebble does at debug level and what goes wrong above
	// it. Nil discards.
	Logger *slog.Logger
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
	if o.Release == "" {
		o.Release = "devel"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// validate reports everything that is wrong with the options at once.
func (o Options) validate() error {
	var errs []error
	// Pebble keeps a batch above half of a write buffer outside of it, so a
	// buffer must at least hold an ordinary effect.
	if o.MemTableBytes < 64<<10 || o.MemTableBytes > 1<<30 {
		errs = append(errs, fmt.Errorf("write buffer of %d bytes, want 64 KB to 1 GB", o.MemTableBytes))
	}
	if o.MaxOpenFiles < 16 {
		errs = append(errs, fmt.Errorf("%d open files, want at least 16", o.MaxOpenFiles))
	}
	return errors.Join(errs...)
}

// Pool is what the stores of one process share, and the only way to a store.
// Its methods may be called at the same time from several goroutines.
type Pool struct {
	options   Options
	cache     *pebble.Cache
	files     *pebble.FileCache
	scheduler *scheduler
	dirs      *directories
	spares    spares
	idle      rounds // of flushIdle
	gather    rounds // of flushScattered; none where there are none of flushIdle
	budget    budget // of the write buffers
	reserve   reserve
	space     space

	mu     sync.Mutex
	open   map[string]*Store // by directory; nil while one is created, opened or removed
	giveUp func(*Store) (closed bool)
	closed bool
}

// NewPool makes a pool. It allocates little: caches grow with use.
func NewPool(options Options) (*Pool, error) {
	options = options.withDefaults()
	if err := options.validate(); err != nil {
		return nil, fmt.Errorf("storage options: %w", err)
	}
	settleAllocator()
	p := &Pool{
		options:   options,
		cache:     pebble.NewCache(options.CacheBytes),
		files:     pebble.NewFileCache(runtime.GOMAXPROCS(0), options.MaxOpenFiles),
		scheduler: newScheduler(options.Compactions),
		dirs:      newDirectories(options.FS),
		open:      map[string]*Store{},
		budget:    budget{limit: options.BufferBytes},
		reserve:   reserve{files: options.FS},
		space:     space{files: options.FS, dir: options.ReserveDir, wanted: options.ReserveBytes, logger: options.Logger},
	}
	p.idle.pause, p.idle.look = options.IdleFlush, p.flushIdle
	p.gather.pause, p.gather.look = min(options.IdleFlush, gatherAfter), p.flushScattered
	p.space.pending = p.pending
	p.space.begin()
	return p, nil
}

// FS returns the file system of the pool, for those who keep other files next
// to the stores. It is never nil.
func (p *Pool) FS() vfs.FS { return p.options.FS }

// Close ends the pool. Every store must have been closed before: those that are
// not are named in the error, and the pool stays usable.
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

	p.idle.stop()
	p.gather.stop()
	p.reserve.close()
	p.scheduler.close()
	p.files.Unref()
	p.cache.Unref()
	return nil
}

// claim reserves a directory for one operation, so that no two of them meet in
// it. The caller releases it, or leaves an open store in its place.
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

// Create makes a new store in dir, which must not exist or be empty. The
// directory, the parents it needed and everything in it are synced when Create
// returns. When it fails, what it began is removed as far as possible.
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

// Build makes a new store in dir, which must not exist or be empty, has it filled
// and closes it. What fill applies is not synced by itself: everything is synced
// once, when Build returns, which takes a fraction of the time of [Pool.Create]
// and Apply. Until then a crash leaves garbage. When it fails, what it began is
// removed as far as possible.
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
		return errors.Join(s.guard.dropLogs(), s.guard.built())
	})
	if err != nil {
		return fmt.Errorf("build store %s: %w", dir, err)
	}
	return nil
}

// Rename gives the closed store in one directory another name on the same file
// system, durably.
func (p *Pool) Rename(from, to string) error {
	from, to = p.clean(from), p.clean(to)
	files := p.options.FS
	err := files.Rename(from, to)
	if err == nil {
		p.dirs.forget(from)
		err = errors.Join(syncDir(files, files.PathDir(to)), syncDir(files, files.PathDir(from)))
	}
	if err != nil {
		return fmt.Errorf("rename store %s: %w", from, err)
	}
	return nil
}

func (p *Pool) create(dir string) (s *Store, err error) {
	err = p.fresh(dir, func() error {
		if s, err = p.prepare(dir); err != nil {
			return err
		}
		// The first log of a new Pebble is in a format that does not say what was
		// synced. The next one does.
		if err := errors.Join(explain(s.db.Flush()), s.guard.built()); err != nil {
			return errors.Join(err, s.shut())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// fresh calls make for a directory that is missing or empty, and removes what it
// has left when it fails.
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
		// What is left is garbage that nobody names; the next attempt must not
		// stumble over it.
		if removeErr := files.RemoveAll(dir); removeErr != nil {
			p.options.Logger.Debug("store remains not removed", "dir", dir, "err", removeErr)
		}
	}
	return err
}

// prepare makes a store of which nothing but its directory is synced.
func (p *Pool) prepare(dir string) (*Store, error) {
	if err := p.dirs.make(dir); err != nil {
		return nil, err
	}
	if err := writeFormat(p.options.FS, dir, p.options.Release); err != nil {
		return nil, err
	}
	return p.start(dir)
}

// Open opens the store in dir. A missing store is an error that is
// [fs.ErrNotExist]; one that a newer release wrote, or that cannot be read, is
// refused without touching it. On a disk that is too full for opening it, the store
// can be read only, see [Store.Reading].
func (p *Pool) Open(dir string) (*Store, error) { return p.OpenVerified(dir, Opening{}) }

// Opening is what must hold of a store that is opened. The zero value asks for
// nothing.
type Opening struct {
	// Contains is what the logs and the manifest must at least have, as
	// [Store.Position] told. A store that has less is damaged.
	Contains Position

	// Verify looks at the store before anything on its disk is changed for good: no
	// file that was there is removed or written to before it returns nil. After an
	// error the store is closed, and its directory has the files that it had.
	// Verify must not keep the snapshot. Nil accepts.
	Verify func(*Snapshot) error

	// Writable refuses a store that a full disk leaves for reading only, with the
	// disk's error.
	Writable bool

	// Provisional leaves the directory as Verify finds it until [Store.Confirm] is
	// called or something is written: a store that is closed before has the files that
	// it had. So several stores are verified before any of them is changed.
	Provisional bool
}

// OpenVerified is [Pool.Open] for a store of which something is known.
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
			p.options.Logger.Warn("store opened for reading only, because the disk is full", "store", dir)
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

func (p *Pool) reopen(dir string, o Opening, reading bool) (*Store, error) {
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
		// The store is whole and not the one that it was: what its rows say comes first.
		verify := o.Verify
		o.Verify = func(snapshot *Snapshot) error {
			if verify == nil {
				return lacking
			}
			return errors.Join(verify(snapshot), lacking)
		}
		return p.restart(dir, at, o, reading)
	}
	return p.restart(dir, found.position(), o, reading)
}

// Remove deletes the store in dir and syncs its parent. A store that is not
// there is no error; one that is open is. Whatever goes wrong, as much is deleted as
// can be, and the rest by another call.
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
	// The format file goes first: a removal that a crash cuts short must not
	// leave a store that opens with a part of its files. Who cannot make sure of that
	// goes on all the same: nobody names the directory, and it takes room.
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

// clean gives each directory one name.
func (p *Pool) clean(dir string) string { return p.options.FS.PathJoin(dir) }

// LockDir takes the data directory of a server for this process and creates it
// when it is missing. It fails when another process, or another server of this
// one, has it. Closing the result gives the directory back. A server in memory
// has no directory to lock.
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
