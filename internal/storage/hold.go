package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// markerPrefix is how the names of marker files begin; what they say is in the name.
const markerPrefix = "marker."

// holding keeps the files of an existing store as they are until the store has been
// verified. Pebble removes files while it opens a store: markers that a newer one
// replaces, and what the manifest does not name. If the manifest is not the newest,
// those may be the only copies of acknowledged rows.
//
// While files are held, Pebble sees the directory as if its removals had happened.
// Then [guard.release] makes them, or [guard.rollback] removes what was added.
type holding struct {
	mu sync.Mutex

	on      bool
	removed []string // names that Pebble has removed, in its order
	made    []string // names that Pebble has created, in its order
	options *optionsFile
	renamed string // the file of options that is to get the name optionsTo; empty for none
	to      string // the name of options once they are placed
}

// hold begins to keep what is in the directory.
func (g *guard) hold() {
	g.held.mu.Lock()
	defer g.held.mu.Unlock()
	g.held.on = true
}

// keeps takes note of a removal that has to wait. It returns false if the file may
// be removed now.
func (h *holding) keeps(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.on || slices.Contains(h.made, name) {
		return false
	}
	if !slices.Contains(h.removed, name) {
		h.removed = append(h.removed, name)
	}
	return true
}

// makes takes note of a file that is about to be created. It is an error if that
// would overwrite one.
func (g *guard) makes(name string) error {
	h := &g.held
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.on || g.class(name) == classForeign || slices.Contains(h.made, name) {
		return nil
	}
	if _, err := g.FS.Stat(name); err == nil {
		return fmt.Errorf("file %s would be overwritten while the store is opened: %w", g.PathBase(name), fs.ErrExist)
	}
	h.made = append(h.made, name)
	return nil
}

// holdsOptions keeps the file of options as it is: it is renamed or written at
// release. same is the file that says the same, empty for none.
func (h *holding) holdsOptions(f *optionsFile, same, to string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.on {
		h.options, h.renamed, h.to = f, same, to
	}
	return h.on
}

// List shows the directory as Pebble has left it.
func (g *guard) List(dir string) ([]string, error) {
	names, err := g.FS.List(dir)
	if err != nil || g.PathJoin(dir) != g.dir {
		return names, err
	}
	h := &g.held
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.on {
		return names, nil
	}
	return slices.DeleteFunc(names, func(base string) bool {
		name := g.PathJoin(g.dir, base)
		return name == h.renamed || slices.Contains(h.removed, name)
	}), nil
}

// release makes the changes that were held back.
func (g *guard) release() error {
	h := &g.held
	h.mu.Lock()
	removed, options, same, to := h.removed, h.options, h.renamed, h.to
	h.on, h.removed, h.made, h.options = false, nil, nil, nil
	h.mu.Unlock()

	if options != nil {
		if err := g.placeOptions(options, same, to); err != nil {
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

// rollback removes the files that Pebble has added and leaves those that were
// there. Pebble must be closed. Nothing was acknowledged while the store was opened,
// so this is right for a store that has failed as well: otherwise each failed attempt
// to open it would leave its files, and the next attempt would have more to do.
func (g *guard) rollback() error {
	h := &g.held
	h.mu.Lock()
	made := h.made
	h.on, h.removed, h.made, h.options = false, nil, nil, nil
	h.mu.Unlock()
	if len(made) == 0 {
		return nil
	}
	// Markers go first, durably: one that came back after a crash would name a
	// manifest that is gone.
	markers := slices.DeleteFunc(slices.Clone(made), func(name string) bool { return !g.isMarker(name) })
	if len(markers) > 0 {
		if err := errors.Join(removeAll(g.FS, markers), syncDir(g.FS, g.dir)); err != nil {
			return err
		}
	}
	return removeAll(g.FS, slices.DeleteFunc(made, g.isMarker))
}

func (g *guard) isMarker(name string) bool { return strings.HasPrefix(g.PathBase(name), markerPrefix) }

// removeAll removes files, the last one first. Those that are missing are no error.
func removeAll(files vfs.FS, names []string) error {
	var errs []error
	for _, name := range slices.Backward(names) {
		if err := files.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
