package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/decandb/decan/internal/status"
)

// space watches the free space of the disk, so that writes are refused while there is
// still space for mandatory writes: the logs and flushes of writes that were admitted
// before, and deletions. It reserves space for deletions in files of a directory,
// because other programs fill disks too.
//
//	free space  |0 ........ floor ......... low ........ high ......|
//	            deletions from        deletions     every write
//	            the reserve,          only          again, once the
//	            no compaction                       reserve is whole
//
// The size of the write buffers is added to the low and the high mark.
//
// Without a directory nothing is watched, and only a failed write shows that the disk is
// full.
type space struct {
	files  vfs.FS
	dir    string // of the reserve; empty: nothing is watched
	wanted int64  // bytes to reserve
	logger *slog.Logger

	// pending returns how many bytes are in write buffers. As tables they take as much
	// disk space, before their logs are removed.
	pending func() int64

	full     atomic.Bool  // writes that grow are refused
	scarce   atomic.Bool  // compactions must not write
	unseen   atomic.Int64 // bytes that may be written before the next look
	released atomic.Int64 // segments of the reserve released so far

	mu sync.Mutex

	known    bool     // the file system reports its free space
	free     int64    // at the last look
	total    int64    // size of the file system
	segments []string // of the reserve, by base name
}

const (
	// reserveSegments is the number of files of the reserve, which is released and
	// restored file by file.
	reserveSegments = 8
	// reserveShare limits the reserve to this fraction of the file system.
	reserveShare = 32
	// reserveSegmentMin is the smallest useful file.
	reserveSegmentMin = 64 << 10
	// reserveExt is the extension of the files.
	reserveExt = ".reserve"
)

// ReserveDefault is how many bytes a server reserves by default.
const ReserveDefault = 64 << 20

// Space describes the disk of a [Pool].
type Space struct {
	Known   bool  // the pool watches the disk, and the file system reports its free space
	Free    int64 // bytes that the process can use
	Reserve int64 // reserved bytes
	Low     int64 // below this many free bytes, writes that grow are refused
	Full    bool  // they are refused now
}

// segment returns the size of one file of the reserve, even if there is none. The
// caller holds mu.
func (s *space) segment() int64 {
	wanted := s.wanted
	if wanted <= 0 {
		wanted = ReserveDefault
	}
	return max(reserveSegmentMin, min(wanted, s.total/reserveShare)/reserveSegments)
}

// The marks of the picture above. With a reserve of the default size, the low mark
// leaves as much again as the write buffers of all stores may take by default.
func (s *space) floor() int64 { return s.segment() * reserveSegments / 2 }
func (s *space) low() int64   { return 2 * s.segment() * reserveSegments }
func (s *space) high() int64  { return s.low() + s.low()/4 }

// begin reads the reserve and the free space for the first time.
func (s *space) begin() {
	if s.dir == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	names, err := s.files.List(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.logger.Warn("disk reserve not read", "dir", s.dir, "err", err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, reserveExt) {
			s.segments = append(s.segments, name)
		}
	}
	s.lookLocked()
}

// look reads the free space, admits or refuses writes that grow accordingly, and
// releases or restores segments of the reserve.
func (s *space) look() Space {
	if s.dir == "" {
		return Space{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lookLocked()
}

func (s *space) lookLocked() Space {
	s.measure()
	if s.known {
		s.adjust()
	}
	pending := int64(0)
	if s.pending != nil {
		pending = s.pending()
	}
	full := s.known && (s.free < s.low()+pending || s.full.Load() && s.free < s.high()+pending)
	if s.full.Swap(full) != full {
		s.tell(full)
	}
	s.scarce.Store(s.known && s.free < s.floor())
	s.unseen.Store(max(s.segment()/2, 32<<10))
	return Space{Known: s.known, Free: s.free, Reserve: int64(len(s.segments)) * s.segment(), Low: s.low() + pending, Full: full}
}

// measure reads the free space. The directory of the reserve may not exist yet.
func (s *space) measure() {
	usage, err := s.files.GetDiskUsage(s.files.PathDir(s.dir))
	s.known = err == nil && usage.TotalBytes > 0
	if s.known {
		s.free, s.total = clip(usage.AvailBytes), clip(usage.TotalBytes)
	}
}

func clip(n uint64) int64 { return int64(min(n, 1<<62)) }

// adjust releases or restores segments of the reserve as the free space requires.
func (s *space) adjust() {
	for s.free < s.floor() && s.releaseLocked() {
		continue
	}
	for len(s.segments) < reserveSegments && s.wanted > 0 && s.free-s.segment() >= s.low() {
		if err := s.take(); err != nil {
			s.logger.Warn("disk reserve not restored", "dir", s.dir, "err", err)
			return
		}
		s.measure()
	}
}

// take creates one segment of the reserve.
func (s *space) take() (err error) {
	if len(s.segments) == 0 {
		if err := newDirectories(s.files).make(s.dir); err != nil {
			return err
		}
	}
	have := map[string]bool{}
	for _, name := range s.segments {
		have[name] = true
	}
	name := ""
	for n := 1; name == "" || have[name]; n++ {
		name = fmt.Sprintf("%d%s", n, reserveExt)
	}
	file := s.files.PathJoin(s.dir, name)
	f, err := s.files.Create(file, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	err = fill(f, s.segment())
	if err := errors.Join(err, f.Sync(), f.Close(), syncDir(s.files, s.dir)); err != nil {
		return errors.Join(err, s.files.Remove(file))
	}
	s.segments = append(s.segments, name)
	return nil
}

// fill allocates disk space for a file. If the file system cannot, it writes data that
// no file system can compress.
func fill(f vfs.File, size int64) error {
	err := f.Preallocate(0, size)
	if err == nil || IsNoSpace(err) {
		return err
	}
	noise, block := rand.NewChaCha8([32]byte{}), make([]byte, 64<<10)
	for written := int64(0); written < size; written += int64(len(block)) {
		_, _ = noise.Read(block) // It never fails.
		if _, err := f.Write(block[:min(int64(len(block)), size-written)]); err != nil {
			return err
		}
	}
	return nil
}

// retry releases a segment of the reserve for an operation that found no space, and
// reports whether to repeat the operation. It releases none if another caller has
// released one since released was read.
func (s *space) retry(released int64) bool {
	if s.dir == "" {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released.Load() == released {
		s.measure()
		s.releaseLocked()
	}
	s.lookLocked()
	return s.released.Load() != released
}

// releaseLocked releases one segment of the reserve, if there is one.
func (s *space) releaseLocked() bool {
	last := len(s.segments) - 1
	if last < 0 {
		return false
	}
	if err := s.files.Remove(s.files.PathJoin(s.dir, s.segments[last])); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.logger.Error("disk reserve not released", "dir", s.dir, "err", err)
		return false
	}
	s.segments = s.segments[:last]
	s.released.Add(1)
	s.logger.Warn("part of the disk reserve released for deletions", "left", int64(last)*s.segment(), "free", s.free)
	s.measure()
	return true
}

// write makes a write that a store cannot work without. If the disk is full it uses the
// reserve.
func (s *space) write(f io.Writer, p []byte) (n int, err error) {
	for {
		released := s.released.Load()
		wrote, err := f.Write(p[n:])
		n += wrote
		if !IsNoSpace(err) || !s.retry(released) {
			return n, err
		}
	}
}

// need calls do, without which a store cannot work. If the disk is full it uses the
// reserve.
func (s *space) need(do func() error) error {
	for {
		released := s.released.Load()
		if err := do(); !IsNoSpace(err) || !s.retry(released) {
			return err
		}
	}
}

// tell logs that writes are refused, or that they are admitted again.
func (s *space) tell(full bool) {
	if full {
		s.logger.Error("disk is full: writes are refused, reads and deletions continue", "dir", s.files.PathDir(s.dir), "free", s.free, "low", s.low())
		return
	}
	s.logger.Info("disk has space again: writes are accepted", "dir", s.files.PathDir(s.dir), "free", s.free)
}

// spend counts bytes that are about to be written, and looks at the disk again after
// some of them.
func (s *space) spend(n int) {
	if s.dir != "" && s.unseen.Add(-int64(n)) < 0 {
		s.look()
	}
}

// canGrow returns why writes that take space are refused, nil if they are not.
func (s *space) canGrow() error {
	if s.full.Load() {
		return errFull()
	}
	return nil
}

func errFull() *status.Error {
	return status.InsufficientStorage("The disk is full. Reads and deletions still work. Delete data or free disk space; the server then accepts writes again without a restart.")
}

// CanGrow returns nil if writes may take more space than they free. Otherwise it
// returns a *status.Error that is InsufficientStorage. Deletions need not ask. It costs
// nanoseconds.
func (p *Pool) CanGrow() error { return p.space.canGrow() }

// CheckSpace reads the free space, admits or refuses writes accordingly, and releases
// or restores segments of the reserve. On a full disk it flushes what is in memory
// while there is space for that. Call it about once a second; in between the pool
// checks by itself as it writes.
func (p *Pool) CheckSpace() Space {
	found := p.space.look()
	if found.Full && p.flushAll() {
		found = p.space.look()
	}
	return found
}

// Space is [Pool.CheckSpace] without a flush: it costs one system call.
func (p *Pool) Space() Space { return p.space.look() }

// flushAll flushes the stores with much data in memory, and reports whether any store
// had much.
func (p *Pool) flushAll() (any bool) {
	p.space.mu.Lock()
	segment := p.space.segment()
	p.space.mu.Unlock()
	for _, s := range p.pinAll() {
		if s.buffers.pending() > segment/2 && s.Err() == nil {
			any = true
			if err := s.Flush(); err != nil {
				p.options.Logger.Debug("store not flushed on a full disk", "store", s.dir, "err", err)
			}
		}
		s.pinned.Done()
	}
	return any
}

// pending returns how many bytes are in the write buffers of all stores.
func (p *Pool) pending() (bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.open {
		if s != nil && s.dirty.Load() {
			bytes += s.buffers.pending()
		}
	}
	return bytes
}

// pending estimates how many bytes the buffers contain.
func (q *buffers) pending() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	held := q.used
	if q.waiting {
		held += max(0, q.taken-q.size)
	}
	return held
}

// CanGrow returns nil if the store accepts every write. Otherwise it accepts only
// deletions, or no write at all, and CanGrow returns a *status.Error that is
// InsufficientStorage. It costs nanoseconds.
func (s *Store) CanGrow() error {
	if s.readOnly {
		return errReadOnly()
	}
	return s.pool.space.canGrow()
}

// errReadOnly says why a store accepts no write at all.
func errReadOnly() *status.Error {
	e := status.InsufficientStorage("The disk is full, and the space reserved for deletions is used up. Reads still work. Free disk space; the server then accepts writes again without a restart.")
	e.Cause = syscall.ENOSPC
	return e
}

// compactedFile is a table that a compaction writes. It must not take the space that
// logs and flushes need: a failed compaction is repeated later.
type compactedFile struct {
	vfs.File
	space *space
}

func (f *compactedFile) Write(p []byte) (int, error) {
	f.space.spend(len(p))
	if f.space.scarce.Load() {
		return 0, &fs.PathError{Op: "compact", Path: path.Base(f.space.dir), Err: syscall.ENOSPC}
	}
	return f.File.Write(p)
}
