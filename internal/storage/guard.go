package storage

import (
	"io"
	"io/fs"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// guard is the file system of one store. It is between Pebble and the disk because
// Pebble cannot survive an error of its log or manifest: it panics while it holds
// locks, or retries forever.
//
// The first such error fails the store. From then on nothing is written to the disk and
// Pebble sees no error; what it must write and read again, such as a flush, goes to
// memory. Goroutines that wait inside Pebble continue, every Apply returns the failure,
// and Close works as usual. The disk stays as a crash at that moment would have left
// it.
//
// Errors of tables are passed on, because Pebble handles them.
//
// Once the store serves, the files whose failure to open would fail it, and tables that
// are read, get a descriptor of the pool's reserve if no other is free.
type guard struct {
	vfs.FS
	dir     string
	reserve *descriptorReserve
	space   *space
	clock   func() time.Duration // paces flushes
	onFail  func(error)

	failure  atomic.Pointer[failure]
	deferred deferredSyncs
	overlay  overlay
	extents  extents
}

// failure is why a store was cut off from the disk, and where its later tables are
// written.
type failure struct {
	err    error
	memory *vfs.MemFS // tables written after the failure, by base name
}

func newGuard(files vfs.FS, dir string, onFail func(error)) *guard {
	return &guard{FS: files, dir: dir, reserve: new(descriptorReserve), space: new(space), onFail: onFail}
}

// need opens a file that the store cannot work without.
func (g *guard) need(open func() (vfs.File, error)) (vfs.File, error) {
	if !g.inStage(stageServing) {
		return open() // A store that cannot be opened now can be opened later.
	}
	var f vfs.File
	err := g.space.need(func() (err error) {
		f, err = g.reserve.open(0, open)
		return err
	})
	return f, err
}

// fail cuts the store off from the disk. Only the first call counts.
func (g *guard) fail(err error) {
	if g.failure.CompareAndSwap(nil, &failure{err: err, memory: vfs.NewMem()}) {
		g.onFail(err)
	}
}

// err returns why the store was cut off from the disk, nil if it was not.
func (g *guard) err() error {
	if f := g.failure.Load(); f != nil {
		return f.err
	}
	return nil
}

// fileClass is how an error of a file is handled.
type fileClass uint8

const (
	classForeign fileClass = iota // of another store, such as a checkpoint: passed on
	classTable                    // passed on; after the failure the file is written to memory
	classVital                    // fails the store; after the failure the file is not written
)

func (g *guard) class(name string) fileClass {
	if g.PathDir(name) != g.dir {
		return classForeign
	}
	switch path.Ext(g.PathBase(name)) {
	case ".sst", ".blob":
		return classTable
	}
	return classVital
}

// remembered returns the in-memory name of a file that was written after the
// failure.
func (f *failure) remembered(base string) (name string, ok bool) {
	name = "/" + base
	_, err := f.memory.Stat(name)
	return name, err == nil
}

func (g *guard) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	class, failed := g.class(name), g.failure.Load()
	if f, ok := g.writesOptions(name); ok && failed == nil {
		return f, nil
	}
	if err := g.notesCreate(name); err != nil {
		g.fail(err)
		failed = g.failure.Load()
	}
	switch {
	case failed != nil && class == classForeign:
		return nil, failed.err
	case failed != nil && class == classTable:
		return failed.memory.Create("/"+g.PathBase(name), category)
	case failed != nil:
		return discard{}, nil
	case class == classVital:
		f, err := g.need(func() (vfs.File, error) { return g.FS.Create(name, category) })
		if strings.HasPrefix(g.PathBase(name), manifestPrefix) {
			g.manifestBegun()
		}
		if g.isMarker(name) {
			g.deferDirSync() // Pebble removes the older marker before it syncs the directory.
		}
		return g.vital(name, f, err), nil
	case class == classTable && isFlush(category):
		f, err := g.need(func() (vfs.File, error) { return g.create(name, class, category) })
		if err != nil {
			return nil, err
		}
		return &flushedFile{File: f, space: g.space, pacer: pacer{clock: g.clock}}, nil
	}
	return g.create(name, class, category)
}

// create creates a file whose errors are passed on.
func (g *guard) create(name string, class fileClass, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := g.FS.Create(name, category)
	if err == nil && class == classTable && g.inStage(stageBuilding) {
		return &tableFile{File: f, guard: g, name: name}, nil
	}
	if err == nil && class == classTable && !isFlush(category) {
		return &compactedFile{File: f, space: g.space}, nil
	}
	return f, err
}

func (g *guard) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if g.failure.Load() != nil {
		return discard{}, nil
	}
	if g.overlay.hides(oldname) {
		return g.Create(newname, category)
	}
	if err := g.notesCreate(newname); err != nil {
		return nil, err
	}
	g.extents.drop(g.PathBase(oldname))
	renamed := false
	f, err := g.need(func() (vfs.File, error) {
		if renamed {
			return g.FS.OpenReadWrite(newname, category)
		}
		f, err := g.FS.ReuseForWrite(oldname, newname, category)
		if isExhausted(err) { // It may have been renamed before the error.
			_, err := g.FS.Stat(newname)
			renamed = err == nil
		}
		return f, err
	})
	return g.vital(newname, f, err), nil
}

// vital wraps a file whose errors fail the store. If it could not be opened the store
// fails at once.
func (g *guard) vital(name string, f vfs.File, err error) vfs.File {
	if err != nil {
		g.fail(err)
		return discard{}
	}
	return &vitalFile{File: f, guard: g, name: name, extent: g.extents.begin(g.PathBase(name))}
}

func (g *guard) Open(name string, options ...vfs.OpenOption) (vfs.File, error) {
	if failed := g.failure.Load(); failed != nil && g.class(name) == classTable {
		if inner, ok := failed.remembered(g.PathBase(name)); ok {
			return failed.memory.Open(inner, options...)
		}
	}
	if g.class(name) != classTable || !g.inStage(stageServing) {
		return g.FS.Open(name, options...)
	}
	return g.reserve.open(reserveMax-reserveReads, func() (vfs.File, error) { return g.FS.Open(name, options...) })
}

func (g *guard) OpenReadWrite(name string, category vfs.DiskWriteCategory, options ...vfs.OpenOption) (vfs.File, error) {
	if failed := g.failure.Load(); failed != nil {
		return nil, failed.err
	}
	return g.FS.OpenReadWrite(name, category, options...)
}

func (g *guard) OpenDir(name string) (vfs.File, error) {
	f, err := g.FS.OpenDir(name)
	switch {
	case err != nil:
		return f, err
	case g.PathJoin(name) == g.dir:
		return &vitalFile{File: f, guard: g, name: g.dir}, nil
	case !g.inStage(stageServing):
		return idleDir{f}, nil
	}
	return f, nil
}

func (g *guard) Stat(name string) (vfs.FileInfo, error) {
	if failed := g.failure.Load(); failed != nil && g.class(name) == classTable {
		if inner, ok := failed.remembered(g.PathBase(name)); ok {
			return failed.memory.Stat(inner)
		}
	}
	return g.FS.Stat(name)
}

// Remove ignores the removal of obsolete files after the failure: the files on the disk
// may still need them.
func (g *guard) Remove(name string) error {
	failed := g.failure.Load()
	if failed == nil && g.class(name) != classForeign {
		if g.overlay.hides(name) {
			if g.isMarker(name) {
				g.syncOwedDir() // What Pebble creates from now on depends on the newer marker.
			}
			return g.err()
		}
		g.syncOwedDir()
		g.extents.drop(g.PathBase(name))
		g.moved(name, "")
		failed = g.failure.Load()
	}
	if failed == nil || g.class(name) == classForeign {
		return g.FS.Remove(name)
	}
	if inner, ok := failed.remembered(g.PathBase(name)); ok {
		return failed.memory.Remove(inner)
	}
	return nil
}

func (g *guard) Rename(oldname, newname string) error {
	class, failed := g.class(newname), g.failure.Load()
	switch {
	case class != classVital && failed == nil:
		return g.FS.Rename(oldname, newname)
	case class != classVital:
		return failed.err
	case failed != nil:
		return nil
	}
	placed, err := g.renameOptions(oldname, newname)
	if !placed {
		err = g.FS.Rename(oldname, newname)
		g.moved(oldname, newname)
	}
	if err != nil {
		g.fail(err)
	}
	return nil
}

func (g *guard) Link(oldname, newname string) error {
	if failed := g.failure.Load(); failed != nil {
		return failed.err
	}
	return g.FS.Link(oldname, newname)
}

// Unwrap returns the underlying file system.
func (g *guard) Unwrap() vfs.FS { return g.FS }

// vitalFile is a log, a manifest, a marker or the directory itself.
type vitalFile struct {
	vfs.File
	guard         *guard
	name          string
	extent        *extent       // of a log or manifest; nil otherwise
	preallocation preallocation // used by the goroutine that writes the file
}

func (f *vitalFile) Write(p []byte) (int, error) {
	if f.guard.failure.Load() == nil {
		f.guard.space.spend(len(p))
		f.preallocation.reserve(f.File, len(p))
		if _, err := f.guard.space.write(f.File, p); err != nil {
			f.guard.fail(err)
		}
		f.extent.wrote(len(p))
	}
	return len(p), nil
}

func (f *vitalFile) WriteAt(p []byte, offset int64) (int, error) {
	if f.guard.failure.Load() == nil {
		if _, err := f.File.WriteAt(p, offset); err != nil {
			f.guard.fail(err)
		}
	}
	return len(p), nil
}

func (f *vitalFile) Sync() error { return f.sync(f.File.Sync) }

func (f *vitalFile) SyncData() error { return f.sync(f.File.SyncData) }

func (f *vitalFile) sync(sync func() error) error {
	if !f.due() {
		return nil
	}
	end, marked := f.extent.end(), f.guard.extents.unnamed()
	if err := sync(); err != nil {
		f.guard.fail(err)
		return nil
	}
	if f.name == f.guard.dir {
		f.guard.extents.named(marked)
	}
	f.extent.synced(end)
	return nil
}

// due reports whether a sync must be made now, after the deferred ones that must
// precede it.
func (f *vitalFile) due() bool {
	if f.guard.failure.Load() != nil || f.guard.deferSync(f.name) {
		return false
	}
	if f.name != f.guard.dir {
		f.guard.syncOwedDir()
	}
	return f.guard.failure.Load() == nil
}

func (f *vitalFile) SyncTo(length int64) (fullSync bool, err error) {
	if !f.due() {
		return false, nil
	}
	fullSync, err = f.File.SyncTo(length)
	if err != nil {
		f.guard.fail(err)
	}
	return fullSync, nil
}

// Preallocate records a hint that Write follows step by step, see [preallocation].
func (f *vitalFile) Preallocate(offset, length int64) error {
	f.preallocation.request(offset, length)
	return nil
}

// Stat is called for a log that is reused, while Pebble holds its locks.
func (f *vitalFile) Stat() (vfs.FileInfo, error) {
	info, err := f.File.Stat()
	if err != nil {
		f.guard.fail(err)
		return emptyFile{}, nil
	}
	return info, nil
}

func (f *vitalFile) Close() error {
	if err := f.File.Close(); err != nil {
		f.guard.fail(err)
	}
	return nil
}

// discard is a file that discards what is written: a log or manifest after the failure,
// which Pebble does not read back.
type discard struct{}

func (discard) Close() error                           { return nil }
func (discard) Read([]byte) (int, error)               { return 0, io.EOF }
func (discard) ReadAt([]byte, int64) (int, error)      { return 0, io.EOF }
func (discard) Write(p []byte) (int, error)            { return len(p), nil }
func (discard) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }
func (discard) Preallocate(int64, int64) error         { return nil }
func (discard) Stat() (vfs.FileInfo, error)            { return emptyFile{}, nil }
func (discard) Sync() error                            { return nil }
func (discard) SyncTo(int64) (bool, error)             { return false, nil }
func (discard) SyncData() error                        { return nil }
func (discard) Prefetch(int64, int64) error            { return nil }
func (discard) Fd() uintptr                            { return vfs.InvalidFd }

// emptyFile describes a discard.
type emptyFile struct{}

func (emptyFile) Name() string           { return "" }
func (emptyFile) Size() int64            { return 0 }
func (emptyFile) Mode() fs.FileMode      { return 0 }
func (emptyFile) ModTime() time.Time     { return time.Time{} }
func (emptyFile) IsDir() bool            { return false }
func (emptyFile) Sys() any               { return nil }
func (emptyFile) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }

// isLocked reports whether err says that another process or server holds a lock.
func isLocked(err error) bool {
	text := err.Error()
	// Neither the kernel's error nor Pebble's error for one process has a type.
	return isLockRefused(err) || strings.Contains(text, "lock held by current process") || strings.Contains(text, "already locked")
}
