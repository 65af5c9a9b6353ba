package storagetest

import (
	"io/fs"
	"path"
	"strings"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// blockBytes is the unit in which a disk allocates space to files.
const blockBytes = 4096

// capacity counts the space of the files of a disk, in blocks and with what they
// preallocate, and can limit it. A write that does not fit is made in part.
type capacity struct {
	vfs.FS

	mu      sync.Mutex
	extents map[string]*extent // by path
	used    int64
	limited bool
	limit   int64
}

// extent is the space of one file, which may have several names.
type extent struct {
	size, reserved int64
	names          int
}

func (e *extent) blocks() int64 {
	return (max(e.size, e.reserved) + blockBytes - 1) / blockBytes * blockBytes
}

// Limit sets the size of the disk in bytes. From now on what does not fit fails with
// ENOSPC, and [vfs.FS.GetDiskUsage] reports the free space. A negative size removes the
// limit.
func (d *Disk) Limit(size int64) {
	d.room.mu.Lock()
	defer d.room.mu.Unlock()
	d.room.limited, d.room.limit = size >= 0, size
}

// Used returns how many bytes the files of the disk take.
func (d *Disk) Used() int64 {
	d.room.mu.Lock()
	defer d.room.mu.Unlock()
	return d.room.used
}

func newCapacity(below vfs.FS) *capacity {
	c := &capacity{FS: below, extents: map[string]*extent{}}
	c.find("/")
	return c
}

// find records the existing files.
func (c *capacity) find(dir string) {
	names, err := c.FS.List(dir)
	if err != nil {
		return
	}
	for _, name := range names {
		at := path.Join(dir, name)
		info, err := c.FS.Stat(at)
		switch {
		case err != nil:
		case info.IsDir():
			c.find(at)
		default:
			e := &extent{size: info.Size(), names: 1}
			c.extents[at] = e
			c.used += e.blocks()
		}
	}
}

// inherit copies what the files have preallocated.
func (c *capacity) inherit(from *capacity) {
	from.mu.Lock()
	defer from.mu.Unlock()
	for name, e := range c.extents {
		if old, ok := from.extents[name]; ok {
			c.used -= e.blocks()
			e.reserved = old.reserved
			c.used += e.blocks()
		}
	}
}

func clean(name string) string { return path.Clean("/" + name) }

// leftLocked returns how many bytes are free.
func (c *capacity) leftLocked() int64 {
	if !c.limited {
		return 1 << 62
	}
	return max(0, c.limit-c.used)
}

// growLocked grows a file if there is space.
func (c *capacity) growLocked(e *extent, size, reserved int64) bool {
	next := extent{size: max(e.size, size), reserved: max(e.reserved, reserved)}
	more := next.blocks() - e.blocks()
	if e.names > 0 && more > c.leftLocked() {
		return false
	}
	if e.names > 0 {
		c.used += more
	}
	e.size, e.reserved = next.size, next.reserved
	return true
}

// dropLocked removes a name.
func (c *capacity) dropLocked(name string) {
	e, ok := c.extents[name]
	if !ok {
		return
	}
	delete(c.extents, name)
	if e.names--; e.names == 0 {
		c.used -= e.blocks()
	}
}

func noSpace(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: syscall.ENOSPC} }

func (c *capacity) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leftLocked() < blockBytes {
		return nil, noSpace("create", name)
	}
	f, err := c.FS.Create(name, category)
	if err != nil {
		return nil, err
	}
	c.dropLocked(clean(name))
	e := &extent{names: 1}
	c.extents[clean(name)] = e
	return &roomyFile{File: f, disk: c, extent: e, name: name}, nil
}

func (c *capacity) MkdirAll(dir string, mode fs.FileMode) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.FS.Stat(dir); err != nil && c.leftLocked() < blockBytes {
		return noSpace("mkdir", dir)
	}
	return c.FS.MkdirAll(dir, mode)
}

func (c *capacity) OpenReadWrite(name string, category vfs.DiskWriteCategory, options ...vfs.OpenOption) (vfs.File, error) {
	f, err := c.FS.OpenReadWrite(name, category, options...)
	return c.wrap(name, f, err)
}

func (c *capacity) wrap(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.extents[clean(name)]
	if !ok {
		e = &extent{names: 1}
		c.extents[clean(name)] = e
	}
	return &roomyFile{File: f, disk: c, extent: e, name: name}, nil
}

func (c *capacity) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	// The ReuseForWrite of vfs.MemFS takes a lock twice, and does not return if Disk.Crash
	// comes in between.
	var f vfs.File
	err := c.FS.Rename(oldname, newname)
	if err == nil {
		f, err = c.FS.OpenReadWrite(newname, category)
	}
	if err == nil {
		c.mu.Lock()
		c.moveLocked(oldname, newname)
		c.mu.Unlock()
	}
	return c.wrap(newname, f, err)
}

func (c *capacity) moveLocked(oldname, newname string) {
	from, to := clean(oldname), clean(newname)
	if e, ok := c.extents[from]; ok && from != to {
		c.dropLocked(to)
		delete(c.extents, from)
		c.extents[to] = e
	}
	for name, e := range c.extents { // files in a renamed directory
		if rest, ok := strings.CutPrefix(name, from+"/"); ok {
			delete(c.extents, name)
			c.extents[to+"/"+rest] = e
		}
	}
}

func (c *capacity) Rename(oldname, newname string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.FS.Rename(oldname, newname); err != nil {
		return err
	}
	c.moveLocked(oldname, newname)
	return nil
}

func (c *capacity) Link(oldname, newname string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leftLocked() < blockBytes {
		return noSpace("link", newname)
	}
	if err := c.FS.Link(oldname, newname); err != nil {
		return err
	}
	if e, ok := c.extents[clean(oldname)]; ok {
		e.names++
		c.extents[clean(newname)] = e
	}
	return nil
}

func (c *capacity) Remove(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.FS.Remove(name); err != nil {
		return err
	}
	c.dropLocked(clean(name))
	return nil
}

func (c *capacity) RemoveAll(dir string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.FS.RemoveAll(dir); err != nil {
		return err
	}
	for name := range c.extents {
		if name == clean(dir) || strings.HasPrefix(name, clean(dir)+"/") {
			c.dropLocked(name)
		}
	}
	return nil
}

func (c *capacity) GetDiskUsage(name string) (vfs.DiskUsage, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.limited {
		return c.FS.GetDiskUsage(name)
	}
	return vfs.DiskUsage{AvailBytes: uint64(c.leftLocked()), TotalBytes: uint64(c.limit), UsedBytes: uint64(c.used)}, nil
}

// Unwrap returns the underlying file system.
func (c *capacity) Unwrap() vfs.FS { return c.FS }

// roomyFile is a file that is open for writing.
type roomyFile struct {
	vfs.File
	disk   *capacity
	extent *extent
	name   string
	at     int64 // offset of the next Write
}

// room allocates space for n bytes at an offset, and returns how many of them fit.
func (f *roomyFile) room(offset int64, n int) int {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.disk.growLocked(f.extent, offset+int64(n), 0) {
		return n
	}
	fits := min(max(0, f.extent.blocks()+f.disk.leftLocked()/blockBytes*blockBytes-offset), int64(n))
	f.disk.growLocked(f.extent, offset+fits, 0)
	return int(fits)
}

func (f *roomyFile) Write(p []byte) (int, error) {
	fits := f.room(f.at, len(p))
	n, err := f.File.Write(p[:fits])
	f.at += int64(n)
	if err == nil && fits < len(p) {
		err = noSpace("write", f.name)
	}
	return n, err
}

func (f *roomyFile) WriteAt(p []byte, offset int64) (int, error) {
	fits := f.room(offset, len(p))
	n, err := f.File.WriteAt(p[:fits], offset)
	if err == nil && fits < len(p) {
		err = noSpace("write", f.name)
	}
	return n, err
}

func (f *roomyFile) Preallocate(offset, length int64) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if !f.disk.growLocked(f.extent, 0, offset+length) {
		return noSpace("fallocate", f.name)
	}
	return nil
}
