package storage

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// stage is which of Pebble's syncs must be made at once.
type stage uint32

const (
	stageServing  stage = iota // all of it
	stageOpening               // an existing store is being opened: the directory may be synced later
	stageBuilding              // nothing refers to the store yet: all may be made later
)

// deferredSyncs is the part of a guard that makes some syncs later than Pebble requests
// them. When Pebble opens a store it syncs the directory three times and a file once,
// for a new store a dozen times, and each sync takes the disk most of a millisecond.
// None is needed at that moment:
//
//   - While a store is built nothing refers to its directory, so all files are synced
//     once, at the end (see [guard.finishBuild]).
//   - What an open adds to the directory matters from the first synced row on. So the
//     directory is synced before the first file is, and before a file is removed that
//     a new one may have replaced (see [guard.syncOwedDir]).
//   - The options file that Pebble writes at each open equals the existing one, unless
//     the release or an option has changed.
type deferredSyncs struct {
	stage   atomic.Uint32 // a stage
	dirOwed atomic.Bool   // entries of the directory are not synced

	// hasManifest says that Pebble has begun a manifest. A store that is opened without a
	// log begins one with its first flush.
	hasManifest atomic.Bool

	mu sync.Mutex // held while the directory is synced, and for the fields below

	unsynced map[string]bool // built files, by name
	options  *optionsFile    // written, and not renamed yet
}

// setStage sets the stage. One goroutine opens a store.
func (g *guard) setStage(s stage) { g.deferred.stage.Store(uint32(s)) }

func (g *guard) inStage(s stage) bool { return stage(g.deferred.stage.Load()) == s }

// deferSync reports whether the sync of a file, or of the directory, may be made later,
// and records it.
func (g *guard) deferSync(name string) bool {
	switch {
	case g.inStage(stageBuilding):
		g.deferred.mu.Lock()
		defer g.deferred.mu.Unlock()
		if g.deferred.unsynced == nil {
			g.deferred.unsynced = map[string]bool{}
		}
		if name != g.dir {
			g.deferred.unsynced[name] = true
		}
		return true
	case g.inStage(stageOpening) && name == g.dir:
		g.deferred.dirOwed.Store(true)
		return true
	}
	return false
}

// syncOwedDir syncs the directory if that was deferred. When it returns the entries are
// durable, or the store has failed.
func (g *guard) syncOwedDir() {
	if !g.deferred.dirOwed.Load() {
		return
	}
	g.deferred.mu.Lock()
	defer g.deferred.mu.Unlock()
	if !g.deferred.dirOwed.Load() || g.failure.Load() != nil {
		return
	}
	marked := g.extents.unnamed()
	if err := syncOpened(g.need(func() (vfs.File, error) { return g.FS.OpenDir(g.dir) })); err != nil {
		g.fail(err)
		return
	}
	g.extents.named(marked)
	g.deferred.dirOwed.Store(false)
}

// moved records that a built file was renamed or, if to is empty, removed.
func (g *guard) moved(from, to string) {
	g.deferred.mu.Lock()
	defer g.deferred.mu.Unlock()
	if g.deferred.unsynced[from] {
		delete(g.deferred.unsynced, from)
		if to != "" {
			g.deferred.unsynced[to] = true
		}
	}
}

// finishBuild syncs everything that was built. From then on no sync is deferred.
func (g *guard) finishBuild() error {
	if err := g.err(); err != nil {
		return err
	}
	g.deferred.mu.Lock()
	defer g.deferred.mu.Unlock()
	for name := range g.deferred.unsynced {
		f, err := g.FS.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	g.deferred.unsynced = nil
	g.setStage(stageServing)
	if err := syncDir(g.FS, g.dir); err != nil {
		return err
	}
	g.extents.allSynced()
	return nil
}

// ensureManifest makes Pebble begin a manifest if there is none: Pebble's checkpoints
// copy the current one.
func (s *Store) ensureManifest() error {
	if s.guard.deferred.hasManifest.Load() {
		return nil
	}
	return explain(s.db.Flush())
}

// manifestBegun records a new manifest. Pebble syncs it and then creates a marker that
// names it. The directory is synced in between, so that no crash keeps only the marker.
func (g *guard) manifestBegun() {
	g.deferred.hasManifest.Store(true)
	g.deferDirSync()
}

// deferDirSync requests a sync of the directory before anything depends on its entries.
func (g *guard) deferDirSync() {
	if !g.inStage(stageBuilding) {
		g.deferred.dirOwed.Store(true)
	}
}

// manifestPrefix begins the names of manifests.
const manifestPrefix = "MANIFEST-"

// tableFile is a table of a store that is being built.
type tableFile struct {
	vfs.File
	guard *guard
	name  string
}

func (f *tableFile) Sync() error {
	if f.guard.deferSync(f.name) {
		return nil
	}
	return f.File.Sync()
}

func (f *tableFile) SyncData() error {
	if f.guard.deferSync(f.name) {
		return nil
	}
	return f.File.SyncData()
}

func (f *tableFile) SyncTo(length int64) (fullSync bool, err error) {
	if f.guard.deferSync(f.name) {
		return false, nil
	}
	return f.File.SyncTo(length)
}

// idleDir is a directory above the store. Its creator has synced it.
type idleDir struct{ vfs.File }

func (idleDir) Sync() error { return nil }

// Pebble writes its options to a temporary file and then renames it.
const (
	temporaryExt  = ".dbtmp"
	optionsPrefix = "OPTIONS-"
)

// optionsFile buffers options until it is known whether they are new.
type optionsFile struct {
	discard
	name string
	text bytes.Buffer
}

func (f *optionsFile) Write(p []byte) (int, error) { return f.text.Write(p) }

// writesOptions returns a buffer for a file that is created while a store is opened, if
// it is the options file.
func (g *guard) writesOptions(name string) (*optionsFile, bool) {
	if !g.inStage(stageOpening) || path.Ext(name) != temporaryExt {
		return nil, false
	}
	g.deferred.options = &optionsFile{name: name}
	return g.deferred.options, true
}

// renameOptions renames the options file, if from is its name. An existing file with
// the same contents gets the new name; otherwise the options are written.
func (g *guard) renameOptions(from, to string) (placed bool, err error) {
	f := g.deferred.options
	if f == nil || f.name != from {
		return false, nil
	}
	g.deferred.options = nil
	same, err := g.sameOptions(f.text.Bytes())
	if err != nil || g.overlay.defersOptions(f, same, to) {
		return true, err
	}
	return true, g.installOptions(f, same, to)
}

// installOptions gives the options the name to: it renames the file same, or writes
// them if same is empty.
func (g *guard) installOptions(f *optionsFile, same, to string) error {
	if same != "" {
		return g.FS.Rename(same, to)
	}
	out, err := g.FS.Create(f.name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = out.Write(f.text.Bytes())
	if err := errors.Join(err, out.Sync(), out.Close()); err != nil {
		return err
	}
	return g.FS.Rename(f.name, to)
}

// sameOptions returns the options file with this text, empty for none.
func (g *guard) sameOptions(text []byte) (string, error) {
	names, err := g.FS.List(g.dir)
	if err != nil {
		return "", err
	}
	slices.Sort(names)
	for _, base := range slices.Backward(names) {
		if !strings.HasPrefix(base, optionsPrefix) {
			continue
		}
		name := g.PathJoin(g.dir, base)
		f, err := g.FS.Open(name)
		if err != nil {
			return "", err
		}
		have, err := io.ReadAll(io.LimitReader(f, int64(len(text))+1))
		if err := errors.Join(err, f.Close()); err != nil {
			return "", err
		}
		if bytes.Equal(have, text) {
			return name, nil
		}
	}
	return "", nil
}

// A log that was closed without a batch contains at most a trailer. The headers of a
// batch and its chunk alone are longer.
const (
	logExt      = ".log"
	emptyLogMax = 17
)

// dropLogs removes the logs of a flushed and closed store, if the newest has no batch.
// Then opening the store reads no log, which would cost a flush and a new manifest.
func (g *guard) dropLogs() error {
	names, err := g.FS.List(g.dir)
	if err != nil {
		return err
	}
	logs := slices.DeleteFunc(names, func(base string) bool { return path.Ext(base) != logExt })
	if len(logs) == 0 {
		return nil
	}
	// Numbers have six digits or more.
	newest := slices.MaxFunc(logs, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
	info, err := g.FS.Stat(g.PathJoin(g.dir, newest))
	if err != nil || info.Size() > emptyLogMax {
		return err
	}
	for _, base := range logs {
		if err := g.Remove(g.PathJoin(g.dir, base)); err != nil {
			return err
		}
	}
	return nil
}
