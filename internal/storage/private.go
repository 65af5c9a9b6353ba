package storage

import (
	"io"
	"io/fs"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Modes of what the stores make on the real file system.
const (
	ownerFile fs.FileMode = 0o600
	ownerDir  fs.FileMode = 0o700
	groupFile fs.FileMode = 0o640
	groupDir  fs.FileMode = 0o750
)

// private is the real file system, on which every file that a store makes belongs
// to its owner alone, whatever the umask of the process: the stores hold documents,
// and the catalog holds account keys.
//
// The mode of a file is set after the file is made, because the file system below
// names the mode itself. In between only the mode of the directory protects the
// file, as it does on a file system that has no modes: a mode that cannot be set
// is no error here. Package server refuses a data directory that others can read.
type private struct {
	vfs.FS
	file, dir fs.FileMode
}

func newPrivate(groupRead bool) vfs.FS {
	if groupRead {
		return private{FS: vfs.Default, file: groupFile, dir: groupDir}
	}
	return private{FS: vfs.Default, file: ownerFile, dir: ownerDir}
}

func (p private) restrict(name string) { _ = os.Chmod(name, p.file) }

func (p private) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := p.FS.Create(name, category)
	if err == nil {
		p.restrict(name)
	}
	return f, err
}

func (p private) OpenReadWrite(name string, category vfs.DiskWriteCategory, options ...vfs.OpenOption) (vfs.File, error) {
	f, err := p.FS.OpenReadWrite(name, category, options...)
	if err == nil {
		p.restrict(name)
	}
	return f, err
}

func (p private) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := p.FS.ReuseForWrite(oldname, newname, category)
	if err == nil {
		p.restrict(newname)
	}
	return f, err
}

func (p private) Lock(name string) (io.Closer, error) {
	lock, err := p.FS.Lock(name)
	if err == nil {
		p.restrict(name)
	}
	return lock, err
}

// MkdirAll makes directories of the mode for directories; perm does not count.
func (p private) MkdirAll(dir string, _ os.FileMode) error { return p.FS.MkdirAll(dir, p.dir) }

// Unwrap returns the file system below.
func (p private) Unwrap() vfs.FS { return p.FS }
