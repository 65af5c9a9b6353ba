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

// space watches how much room the disk has, so that writes are refused while there
// is still room for what has to be written whatever happens: the logs and flushes of
// what was admitted before, and deletions. It keeps room back for the latter in files
// of a directory, because other programs fill disks too.
//
//	free room   |0 ........ floor ......... low ........ high ......|
//	            deletions from        deletions     every write
//	            the reserve,          only          again, once the
//	            no compaction                       reserve is whole
//
// What is in the write buffers comes on top of the low and the high mark.
//
// Without a directory nothing is watched, and only an error of a write tells.
type space struct {
	files  vfs.FS
	dir    string // of the reserve; empty: nothing is watched
	wanted int64  // bytes to keep back
	logger *slog.Logger

	// pending returns how many bytes are in write buffers. Writing them to tables takes
	// as much of the disk, before their logs are removed.
	pending func() int64

	full   atomic.Bool  // writes that grow are refused
	scarce atomic.Bool  // nothing is left for compactions
	unseen atomic.Int64 // bytes that may be written before the next look
	given  atomic.Int64 // how many files of the reserve were given up so far

	mu sync.Mutex

	known    bool     // the file system says how much is free
	free     int64    // at the last look
	total    int64    // size of the file system
	segments []string // of the reserve, by base name
}

const (
	// reserveSegments is how many files the reserve consists of: it is given up and
	// taken again file by file.
	reserveSegments = 8
	// reserveShare is the largest part of a file system that the reserve takes.
	reserveShare = 32
	// reserveSegmentMin is the smallest file worth keeping.
	reserveSegmentMin = 64 << 10
	// reserveExt is how the names of the files end.
	reserveExt = ".reserve"
)

// ReserveDefault is how many bytes a server keeps back unless it is told otherwise.
const ReserveDefault = 64 << 20

// Space is how much room the disk of a [Pool] has.
type Space struct {
	Known   bool  // the file system says so, and the pool watches it
	Free    int64 // bytes that the process may take
	Reserve int64 // bytes kept back on the disk
	Low     int64 // below this many free bytes writes that grow are refused
	Full    bool  // they are refused now
}

// segment is the size of one file of the reserve, also where none is kept. The
// caller has mu.
func (s *space) segment() int64 {
	wanted := s.wanted
	if wanted <= 0 {
		wanted = ReserveDefault
	}
	return max(reserveSegmentMin, min(wanted, s.total/reserveShare)/reserveSegments)
}

// The marks of the picture above. The low one leaves as much again as the write
// buffers of all stores may hold by default, with a reserve of the default size.
func (s *space) floor() int64 { return s.segment() * reserveSegments / 2 }
func (s *space) low() int64   { return 2 * s.segment() * reserveSegments }
func (s *space) high() int64  { return s.low() + s.low()/4 }

// begin looks for the first time.
func (s *space) begin() {
	if s.dir == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	names, err := s.files.List(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.logger.Warn("reserve of the disk not read", "dir", s.dir, "err", err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, reserveExt) {
			s.segments = append(s.segments, name)
		}
	}
	s.lookLocked()
}

// look asks the file system how much is free, and acts on it: it admits or refuses
// writes that grow, and gives up or takes parts of the reserve.
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

// measure asks the file system. The directory of the reserve may not be there yet.
func (s *space) measure() {
	usage, err := s.files.GetDiskUsage(s.files.PathDir(s.dir))
	s.known = err == nil && usage.TotalBytes > 0
	if s.known {
		s.free, s.total = clip(usage.AvailBytes), clip(usage.TotalBytes)
	}
}

func clip(n uint64) int64 { return int64(min(n, 1<<62)) }

// adjust gives up or takes as much of the reserve as the free room asks for.
func (s *space) adjust() {
	for s.free < s.floor() && s.giveLocked() {
		continue
	}
	for len(s.segments) < reserveSegments && s.wanted > 0 && s.free-s.segment() >= s.low() {
		if err := s.take(); err != nil {
			s.logger.Warn("reserve of the disk not taken", "dir", s.dir, "err", err)
			return
		}
		s.measure()
	}
}

// take makes one more file of the reserve.
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

// fill gives a file room on the disk that is really its own. Where the file system
// cannot promise that, it is written, with what no file system makes smaller.
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

// yield gives up a part of the reserve for what had no room just now, and reports
// whether to try that again: also when another caller has given up one since there
// were so many given.
func (s *space) yield(given int64) bool {
	if s.dir == "" {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.given.Load() == given {
		s.measure()
		s.giveLocked()
	}
	s.lookLocked()
	return s.given.Load() != given
}

// giveLocked gives up one file of the reserve, if there is one.
func (s *space) giveLocked() bool {
	last := len(s.segments) - 1
	if last < 0 {
		return false
	}
	if err := s.files.Remove(s.files.PathJoin(s.dir, s.segments[last])); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.logger.Error("reserve of the disk not given up", "dir", s.dir, "err", err)
		return false
	}
	s.segments = s.segments[:last]
	s.given.Add(1)
	s.logger.Warn("part of the disk's reserve given up for deletions", "left", int64(last)*s.segment(), "free", s.free)
	s.measure()
	return true
}

// write writes what a store cannot do without, with the room of the reserve when
// there is no other.
func (s *space) write(f io.Writer, p []byte) (n int, err error) {
	for {
		given := s.given.Load()
		wrote, err := f.Write(p[n:])
		n += wrote
		if !IsNoSpace(err) || !s.yield(given) {
			return n, err
		}
	}
}

// need does what a store cannot do without, likewise.
func (s *space) need(do func() error) error {
	for {
		given := s.given.Load()
		if err := do(); !IsNoSpace(err) || !s.yield(given) {
			return err
		}
	}
}

// tell logs that writes are refused, or admitted again.
func (s *space) tell(full bool) {
	if full {
		s.logger.Error("disk is full: writes are refused, reads and deletions go on", "dir", s.files.PathDir(s.dir), "free", s.free, "low", s.low())
		return
	}
	s.logger.Info("disk has room again: writes are taken", "dir", s.files.PathDir(s.dir), "free", s.free)
}

// spend counts bytes that are about to be written, and looks again now and then.
func (s *space) spend(n int) {
	if s.dir != "" && s.unseen.Add(-int64(n)) < 0 {
		s.look()
	}
}

// canGrow returns why a write that takes room is refused, nil when it is not.
func (s *space) canGrow() error {
	if s.full.Load() {
		return errFull()
	}
	return nil
}

func errFull() *status.Error {
	return status.InsufficientStorage("The disk is full. Reads and deletions go on. Delete data, or give the disk more room; then writes are taken again without a restart.")
}

// CanGrow returns why writes that take more room than they free are refused now, as
// a *status.Error that is InsufficientStorage, and nil when they are not. Deletions
// need not ask. It costs nanoseconds.
func (p *Pool) CanGrow() error { return p.space.canGrow() }

// LookAtSpace asks the file system how much room there is, admits or refuses writes
// accordingly, and gives up or takes parts of the reserve. On a full disk it flushes
// what is in memory, as long as there is room for that. Call it about once in a
// second; the pool looks by itself while much is written.
func (p *Pool) LookAtSpace() Space {
	found := p.space.look()
	if found.Full && p.flushAll() {
		found = p.space.look()
	}
	return found
}

// Space is [Pool.LookAtSpace] without a flush: it costs a call of the file system.
func (p *Pool) Space() Space { return p.space.look() }

// flushAll flushes the stores that hold much in memory, and reports whether there was
// one.
func (p *Pool) flushAll() (any bool) {
	p.space.mu.Lock()
	segment := p.space.segment()
	p.space.mu.Unlock()
	for _, s := range p.borrow() {
		if s.buffers.pending() > segment/2 && s.Err() == nil {
			any = true
			if err := s.Flush(); err != nil {
				p.options.Logger.Debug("store not flushed on a full disk", "store", s.dir, "err", err)
			}
		}
		s.use.Done()
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

// pending returns how many bytes the buffers hold, about.
func (q *buffers) pending() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	held := q.used
	if q.waiting {
		held += max(0, q.taken-q.size)
	}
	return held
}

// CanGrow returns why the store takes no write but deletions, or none at all, as a
// *status.Error that is InsufficientStorage; nil when it takes every write. It costs
// nanoseconds.
func (s *Store) CanGrow() error {
	if s.reading {
		return errReading()
	}
	return s.pool.space.canGrow()
}

// errReading is why a store takes no write at all.
func errReading() *status.Error {
	e := status.InsufficientStorage("The disk is full, and the room that was kept back for deletions is used up. Reads go on. Give the disk more room; then writes are taken again without a restart.")
	e.Cause = syscall.ENOSPC
	return e
}

// compactedFile is a table that a compaction writes. It gets none of the room that
// logs and flushes need: a compaction that fails is tried again later.
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
