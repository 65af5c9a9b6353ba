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

// stage says how much of what Pebble syncs has to be on the disk at once.
type stage uint32

const (
	stageServing  stage = iota // all of it
	stageOpening               // an existing store is being opened: its directory may wait
	stageBuilding              // a store that nothing names yet: all of it may wait
)

// late is the part of a guard that puts syncs off. An open of Pebble's syncs its
// directory three times and a file once, a fresh store a dozen times, and the
// disk takes most of a millisecond for each. None of them is needed when it is
// asked for:
//
//   - While a store is built nothing names its directory, so all files are
//     synced once, when it is done (see [guard.built]).
//   - What an open adds to the directory matters from the first synced row on,
//     so the directory is synced before the first file is, and before a file is
//     removed that something new may have replaced (see [guard.settle]).
//   - The file of options that Pebble writes at each open is the one that is
//     there, unless the release or an option is another.
type late struct {
	stage atomic.Uint32 // a stage
	owed  atomic.Bool   // entries of the directory are not synced

	// listed says that Pebble has begun a manifest. An open with no log to read
	// goes on without one until the first flush.
	listed atomic.Bool

	mu sync.Mutex // held while the directory is synced

	unsynced map[string]bool // files built, by name
	options  *optionsFile    // written and not yet named
}

// during sets the stage. One goroutine opens a store.
func (g *guard) during(s stage) { g.late.stage.Store(uint32(s)) }

func (g *guard) at(s stage) bool { return stage(g.late.stage.Load()) == s }

// putOff reports whether the sync of a file, or of the directory, has time. If
// so it is noted.
func (g *guard) putOff(name string) bool {
	switch {
	case g.at(stageBuilding):
		g.late.mu.Lock()
		defer g.late.mu.Unlock()
		if g.late.unsynced == nil {
			g.late.unsynced = map[string]bool{}
		}
		if name != g.dir {
			g.late.unsynced[name] = true
		}
		return true
	case g.at(stageOpening) && name == g.dir:
		g.late.owed.Store(true)
		return true
	}
	return false
}

// settle syncs the directory if that was put off. When it returns the entries
// are on the disk, or the store has failed.
func (g *guard) settle() {
	if !g.late.owed.Load() {
		return
	}
	g.late.mu.Lock()
	defer g.late.mu.Unlock()
	if !g.late.owed.Load() || g.failure.Load() != nil {
		return
	}
	marked := g.extents.unnamed()
	if err := syncOpened(g.need(func() (vfs.File, error) { return g.FS.OpenDir(g.dir) })); err != nil {
		g.fail(err)
		return
	}
	g.extents.named(marked)
	g.late.owed.Store(false)
}

// moved takes note that a file that was built has another name, or, with an empty
// one, is gone.
func (g *guard) moved(from, to string) {
	g.late.mu.Lock()
	defer g.late.mu.Unlock()
	if g.late.unsynced[from] {
		delete(g.late.unsynced, from)
		if to != "" {
			g.late.unsynced[to] = true
		}
	}
}

// built syncs everything that was built. From here on syncs are what they say.
func (g *guard) built() error {
	if err := g.err(); err != nil {
		return err
	}
	g.late.mu.Lock()
	defer g.late.mu.Unlock()
	for name := range g.late.unsynced {
		f, err := g.FS.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	g.late.unsynced = nil
	g.during(stageServing)
	if err := syncDir(g.FS, g.dir); err != nil {
		return err
	}
	g.extents.allSynced()
	return nil
}

// list has Pebble begin a manifest if there is none: its checkpoints copy the
// one that it writes to.
func (s *Store) list() error {
	if s.guard.late.listed.Load() {
		return nil
	}
	return explain(s.db.Flush())
}

// begunManifest takes note of a new manifest. Pebble syncs it and then makes a
// marker that points to it; the directory is synced in between, so that no crash
// keeps the marker alone.
func (g *guard) begunManifest() {
	g.late.listed.Store(true)
	g.owe()
}

// owe has the directory synced before anything depends on its entries.
func (g *guard) owe() {
	if !g.at(stageBuilding) {
		g.late.owed.Store(true)
	}
}

// manifestPrefix is how the names of manifests begin.
const manifestPrefix = "MANIFEST-"

// tableFile is a table of a store that is being built.
type tableFile struct {
	vfs.File
	guard *guard
	name  string
}

func (f *tableFile) Sync() error {
	if f.guard.putOff(f.name) {
		return nil
	}
	return f.File.Sync()
}

func (f *tableFile) SyncData() error {
	if f.guard.putOff(f.name) {
		return nil
	}
	return f.File.SyncData()
}

func (f *tableFile) SyncTo(length int64) (fullSync bool, err error) {
	if f.guard.putOff(f.name) {
		return false, nil
	}
	return f.File.SyncTo(length)
}

// idleDir is a directory above the store. Who made it has synced it.
type idleDir struct{ vfs.File }

func (idleDir) Sync() error { return nil }

// Pebble writes its options to a temporary file, which it then gives its name.
const (
	temporaryExt  = ".dbtmp"
	optionsPrefix = "OPTIONS-"
)

// optionsFile holds options until it is known whether they are new.
type optionsFile struct {
	discard
	name string
	text bytes.Buffer
}

func (f *optionsFile) Write(p []byte) (int, error) { return f.text.Write(p) }

// writesOptions takes a file that is created while a store is opened, if it is
// the one of options.
func (g *guard) writesOptions(name string) (*optionsFile, bool) {
	if !g.at(stageOpening) || path.Ext(name) != temporaryExt {
		return nil, false
	}
	g.late.options = &optionsFile{name: name}
	return g.late.options, true
}

// placesOptions gives the options their name, if they are what is renamed: the
// file that says the same is given the new name, or they are written.
func (g *guard) placesOptions(from, to string) (placed bool, err error) {
	f := g.late.options
	if f == nil || f.name != from {
		return false, nil
	}
	g.late.options = nil
	same, err := g.sameOptions(f.text.Bytes())
	if err != nil || g.held.holdsOptions(f, same, to) {
		return true, err
	}
	return true, g.placeOptions(f, same, to)
}

// placeOptions gives options the name to: by renaming the file same, or by writing
// them if that is empty.
func (g *guard) placeOptions(f *optionsFile, same, to string) error {
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

// sameOptions returns the file of options that has this text, empty for none.
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

// A log that was closed without a batch holds a trailer at most; a batch takes
// more than that for its own header and its chunk's.
const (
	logExt      = ".log"
	emptyLogMax = 17
)

// dropLogs removes the logs of a store that is flushed and closed, if the newest
// of them has no batch. Opening it then has no log to read, which would cost it a
// flush and a new manifest.
func (g *guard) dropLogs() error {
	names, err := g.FS.List(g.dir)
	if err != nil {
		return err
	}
	logs := slices.DeleteFunc(names, func(base string) bool { return path.Ext(base) != logExt })
	if len(logs) == 0 {
		return nil
	}
	// Numbers have six digits and grow longer beyond.
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
