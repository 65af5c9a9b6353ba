package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// formatVersion numbers the layout of a store: the row families, their contents, and
// Pebble's own format. A change that an older release would misread raises it.
const formatVersion = 1

const (
	// formatFile records the format of a store. It is not a row, because it must be read
	// before Pebble opens the directory.
	formatFile = "FORMAT"
	// tableExt is the extension of tables.
	tableExt = ".sst"
	// lockFile is the file in a data directory that a server locks.
	lockFile = "LOCK"
	// formatLine is the only line of a format file.
	formatLine = "decan store format %d, written by decan %s\n"
	// formatBytesMax bounds how much of a format file is read.
	formatBytesMax = 1 << 10
)

// writeFormat writes and syncs the format file of a new store. The caller syncs
// the directory.
func writeFormat(files vfs.FS, dir, release string) error {
	f, err := files.Create(files.PathJoin(dir, formatFile), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	// A line break in the release would break the line in two.
	release = strings.Join(strings.Fields(release), " ")
	_, err = fmt.Fprintf(f, formatLine, formatVersion, release)
	return errors.Join(err, f.Sync(), f.Close())
}

// checkFormat returns an error if this release may not open the store in dir. It only
// reads.
func checkFormat(files vfs.FS, dir string) error {
	f, err := files.Open(files.PathJoin(dir, formatFile))
	if errors.Is(err, fs.ErrNotExist) {
		if hasStore(files, dir) {
			return &Damage{Dir: dir, File: formatFile, Missing: true, Reason: "the directory has other files of a store, and this file records their format"}
		}
		return fmt.Errorf("there is no store: %w", fs.ErrNotExist)
	}
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(f, formatBytesMax))
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return readFormat(string(text))
}

// hasStore reports whether dir has a manifest or a marker.
func hasStore(files vfs.FS, dir string) bool {
	names, err := files.List(dir)
	return err == nil && slices.ContainsFunc(names, func(base string) bool {
		return strings.HasPrefix(base, manifestPrefix) || strings.HasPrefix(base, markerPrefix)
	})
}

func readFormat(text string) error {
	var version uint32
	rest, isStore := strings.CutPrefix(text, "decan store format ")
	number, release, hasRelease := strings.Cut(rest, ", written by decan ")
	_, err := fmt.Sscanf(number, "%d", &version)
	if !isStore || !hasRelease || err != nil || fmt.Sprint(version) != number || version == 0 {
		return fmt.Errorf("its file %s does not name a format: %w", formatFile, errDamaged)
	}
	if version > formatVersion {
		return fmt.Errorf("it has format %d, written by decan %s, and this release reads formats up to %d: use that release or a newer one",
			version, strings.TrimSpace(release), formatVersion)
	}
	return nil
}

// tableError finds the number of a table in Pebble's error for a table that is missing
// or whose length differs from the manifest's.
var tableError = regexp.MustCompile(`^L[0-9]+: ([0-9]+): (?:file|object) `)

// explainOpening is explain for opening a store whose markers and manifest exist: a
// missing file is damage.
func explainOpening(dir string, err error) error {
	found := tableError.FindStringSubmatch(err.Error())
	switch {
	case found != nil && errors.Is(err, fs.ErrNotExist):
		return &Damage{Dir: dir, File: found[1] + tableExt, Missing: true, Reason: "the manifest names it"}
	case found != nil:
		return &Damage{Dir: dir, File: found[1] + tableExt, Reason: err.Error()}
	}
	return explain(err)
}

// explain rewords errors of Pebble that an operator can act on.
func explain(err error) error {
	switch {
	case err == nil:
		return nil
	case isLocked(err):
		return fmt.Errorf("the store is in use by another process: %w", err)
	case pebble.IsCorruptionError(err):
		return fmt.Errorf("%w: %w", errDamaged, err)
	case errors.Is(err, pebble.ErrDBDoesNotExist), errors.Is(err, pebble.ErrDBNotPristine):
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	return err
}

// directories creates directories that survive a crash: each is synced into its parent,
// up to the root. It remembers what it has synced, because an existing directory may be
// left from an attempt that failed half-way.
type directories struct {
	files vfs.FS

	mu     sync.Mutex
	synced map[string]bool // directories whose entry in the parent is durable
}

func newDirectories(files vfs.FS) *directories {
	return &directories{files: files, synced: map[string]bool{}}
}

// make creates dir and its missing parents.
func (d *directories) make(dir string) error {
	var unknown []string
	for at := dir; ; {
		_, err := d.files.Stat(at)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		there := err == nil
		if there && d.known(at) {
			break
		}
		parent := d.files.PathDir(at)
		if parent == at {
			break
		}
		unknown = append(unknown, at)
		at = parent
	}
	if err := d.files.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, at := range unknown {
		err := syncDir(d.files, d.files.PathDir(at))
		if err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
		// A directory that this process may not open was not created by it.
		d.learn(at)
	}
	return nil
}

func (d *directories) known(dir string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.synced[dir]
}

func (d *directories) learn(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.synced[dir] = true
}

// forget is called when a directory is removed.
func (d *directories) forget(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.synced, dir)
}

func syncDir(files vfs.FS, dir string) error { return syncOpened(files.OpenDir(dir)) }

// syncOpened syncs and closes a directory.
func syncOpened(d vfs.File, err error) error {
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
