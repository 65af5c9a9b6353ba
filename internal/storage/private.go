package storage

import (
	"io"
	"io/fs"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Modes of the files and directories that stores create on the real file system.
const (
	ownerFile fs.FileMode = 0o600
	ownerDir  fs.FileMode = 0o700
	groupFile fs.FileMode = 0o640
	groupDir  fs.FileMode = 0o750
)

// private is the real file system, on which only the owner can read the files that a
// store creates, whatever the umask of the process: stores contain documents, and the
// catalog contains account keys.
//
// The mode of a file is set after the file is created, because the underlying file
// system chooses the first mode. In between only the mode of the directory protects the
// file, as on a file system without modes: failing to set a mode is no error here.
// Package server refuses a data directory that others can read.
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

// MkdirAll creates directories with the mode for directories and ignores perm.
func (p private) MkdirAll(dir string, _ os.FileMode) error { return p.FS.MkdirAll(dir, p.dir) }

// Unwrap returns the file system below.
func (p private) Unwrap() vfs.FS { return p.FS }
