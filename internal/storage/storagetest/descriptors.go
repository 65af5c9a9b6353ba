package storagetest

import (
	"io"
	"io/fs"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// descriptors counts the open files of a disk and can limit them.
type descriptors struct {
	vfs.FS

	mu      sync.Mutex
	open    int
	limited bool
	limit   int
}

// Exhaust limits open files to the current number, like a process without free
// descriptors: opening another one fails with EMFILE, until Heal. Listing and removing
// a directory need a descriptor for their duration.
func (d *Disk) Exhaust() { d.files.restrict(true) }

// Open returns how many files and directories are open.
func (d *Disk) Open() int {
	d.files.mu.Lock()
	defer d.files.mu.Unlock()
	return d.files.open
}

func (d *descriptors) restrict(limited bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.limited, d.limit = limited, d.open
}

// take counts one more open file, or fails.
func (d *descriptors) take(op, name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.limited && d.open >= d.limit {
		return &fs.PathError{Op: op, Path: name, Err: syscall.EMFILE}
	}
	d.open++
	return nil
}

func (d *descriptors) give() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open--
}

// opening counts a file while it is open.
func (d *descriptors) opening(name string, open func() (vfs.File, error)) (vfs.File, error) {
	if err := d.take("open", name); err != nil {
		return nil, err
	}
	f, err := open()
	if err != nil {
		d.give()
		return nil, err
	}
	return &openFile{File: f, give: sync.OnceFunc(d.give)}, nil
}

type openFile struct {
	vfs.File
	give func()
}

func (f *openFile) Close() error {
	defer f.give()
	return f.File.Close()
}

func (d *descriptors) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return d.opening(name, func() (vfs.File, error) { return d.FS.Create(name, category) })
}

func (d *descriptors) Open(name string, options ...vfs.OpenOption) (vfs.File, error) {
	return d.opening(name, func() (vfs.File, error) { return d.FS.Open(name, options...) })
}

func (d *descriptors) OpenReadWrite(name string, category vfs.DiskWriteCategory, options ...vfs.OpenOption) (vfs.File, error) {
	return d.opening(name, func() (vfs.File, error) { return d.FS.OpenReadWrite(name, category, options...) })
}

func (d *descriptors) OpenDir(name string) (vfs.File, error) {
	return d.opening(name, func() (vfs.File, error) { return d.FS.OpenDir(name) })
}

// ReuseForWrite renames the file even if no descriptor is free to open it, like the
// real file system.
func (d *descriptors) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := d.take("open", newname); err != nil {
		if renameErr := d.Rename(oldname, newname); renameErr != nil {
			return nil, renameErr
		}
		return nil, err
	}
	d.give()
	return d.opening(newname, func() (vfs.File, error) { return d.FS.ReuseForWrite(oldname, newname, category) })
}

func (d *descriptors) Lock(name string) (io.Closer, error) {
	if err := d.take("open", name); err != nil {
		return nil, err
	}
	lock, err := d.FS.Lock(name)
	if err != nil {
		d.give()
		return nil, err
	}
	return &heldLock{lock, sync.OnceFunc(d.give)}, nil
}

type heldLock struct {
	io.Closer
	give func()
}

func (l *heldLock) Close() error {
	defer l.give()
	return l.Closer.Close()
}

func (d *descriptors) List(dir string) ([]string, error) {
	if err := d.take("open", dir); err != nil {
		return nil, err
	}
	defer d.give()
	return d.FS.List(dir)
}

func (d *descriptors) RemoveAll(dir string) error {
	if err := d.take("open", dir); err != nil {
		return err
	}
	defer d.give()
	return d.FS.RemoveAll(dir)
}

// Unwrap returns the underlying file system.
func (d *descriptors) Unwrap() vfs.FS { return d.FS }
