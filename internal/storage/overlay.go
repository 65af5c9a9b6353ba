package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// markerPrefix begins the names of marker files, whose contents are their names.
const markerPrefix = "marker."

// overlay defers Pebble's changes to the directory of an existing store until the store
// is verified. While Pebble opens a store it removes files: markers that a newer one
// replaces, and files that the manifest does not name. If the manifest is not the
// newest, those files may be the only copies of acknowledged rows.
//
// Until then Pebble sees the directory as if its removals had happened. Then
// [guard.commitOverlay] makes them, or [guard.discardOverlay] removes what was added.
type overlay struct {
	mu sync.Mutex

	on      bool
	removed []string // names that Pebble has removed, in order
	created []string // names that Pebble has created, in order
	options *optionsFile
	renamed string // the existing options file that gets the name to; empty for none
	to      string // the name of the new options file
}

// startOverlay begins to defer changes.
func (g *guard) startOverlay() {
	g.overlay.mu.Lock()
	defer g.overlay.mu.Unlock()
	g.overlay.on = true
}

// hides defers the removal of a file. It returns false if the file may be removed now.
func (o *overlay) hides(name string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.on || slices.Contains(o.created, name) {
		return false
	}
	if !slices.Contains(o.removed, name) {
		o.removed = append(o.removed, name)
	}
	return true
}

// notesCreate records that a file is about to be created. It returns an error if that
// would overwrite an existing one.
func (g *guard) notesCreate(name string) error {
	o := &g.overlay
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.on || g.class(name) == classForeign || slices.Contains(o.created, name) {
		return nil
	}
	if _, err := g.FS.Stat(name); err == nil {
		return fmt.Errorf("file %s would be overwritten while the store is opened: %w", g.PathBase(name), fs.ErrExist)
	}
	o.created = append(o.created, name)
	return nil
}

// defersOptions defers the new options file until commitOverlay, which renames the file
// same or, if that is empty, writes it. It returns false if nothing is deferred.
func (o *overlay) defersOptions(f *optionsFile, same, to string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.on {
		o.options, o.renamed, o.to = f, same, to
	}
	return o.on
}

// List returns the directory with Pebble's changes.
func (g *guard) List(dir string) ([]string, error) {
	names, err := g.FS.List(dir)
	if err != nil || g.PathJoin(dir) != g.dir {
		return names, err
	}
	o := &g.overlay
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.on {
		return names, nil
	}
	return slices.DeleteFunc(names, func(base string) bool {
		name := g.PathJoin(g.dir, base)
		return name == o.renamed || slices.Contains(o.removed, name)
	}), nil
}

// commitOverlay makes the deferred changes.
func (g *guard) commitOverlay() error {
	o := &g.overlay
	o.mu.Lock()
	removed, options, same, to := o.removed, o.options, o.renamed, o.to
	o.on, o.removed, o.created, o.options = false, nil, nil, nil
	o.mu.Unlock()

	if options != nil {
		if err := g.installOptions(options, same, to); err != nil {
			return err
		}
	}
	for _, name := range removed {
		if err := g.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return g.err()
}

// discardOverlay removes the files that Pebble has created and keeps the others. Pebble
// must be closed. Nothing was acknowledged while the store was opened, so this is also
// correct for a store that has failed. Otherwise each failed attempt to open a store
// would leave files.
func (g *guard) discardOverlay() error {
	o := &g.overlay
	o.mu.Lock()
	created := o.created
	o.on, o.removed, o.created, o.options = false, nil, nil, nil
	o.mu.Unlock()
	// Each step is durable before the next, because a power cut may bring back what was
	// removed and not synced: a log that comes back next to the older manifest would look
	// like the successor of a log that was never closed, and a marker would name a removed
	// manifest. Other files that come back are not referred to.
	first := func(matches func(name string) bool) error {
		var matched []string
		created = slices.DeleteFunc(created, func(name string) bool {
			if matches(name) {
				matched = append(matched, name)
				return true
			}
			return false
		})
		if len(matched) == 0 {
			return nil
		}
		return errors.Join(removeAll(g.FS, matched), syncDir(g.FS, g.dir))
	}
	if err := first(func(name string) bool { return path.Ext(name) == logExt }); err != nil {
		return err
	}
	if err := first(g.isMarker); err != nil {
		return err
	}
	return removeAll(g.FS, created)
}

func (g *guard) isMarker(name string) bool { return strings.HasPrefix(g.PathBase(name), markerPrefix) }

// removeAll removes files, in reverse order. Missing files are no error.
func removeAll(files vfs.FS, names []string) error {
	var errs []error
	for _, name := range slices.Backward(names) {
		if err := files.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
