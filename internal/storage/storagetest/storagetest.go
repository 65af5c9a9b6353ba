// Package storagetest is a disk for tests: it can lose what was not synced, fail a
// chosen operation, be full, or be out of descriptors.
//
// Tests of storage and of the packages above it pass the FS of a [Disk] in
// storage.Options. [Disk.Crash] returns what a machine finds after a power failure.
// [Disk.FailAt] fails one operation; a test that repeats its story for every n covers
// each place where a disk can fail.
//
// # Invariants
//
// A crashed disk is a copy: the original continues to work, and neither sees the
// other's changes. The same seed crashes in the same way.
//
// Page: docs/storage.md
package storagetest

import (
	"errors"
	"math/rand/v2"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// ErrInjected is the error of an injected failure.
var ErrInjected = errors.New("injected disk error")

// Disk is a file system in memory that tracks what was synced. It is safe for
// concurrent use.
type Disk struct {
	memory *vfs.MemFS
	files  *descriptors
	room   *capacity

	mu     sync.Mutex
	done   int64 // operations since FailAt or the start
	failAt int64 // zero: none
	last   int64 // last operation that fails
	counts counts
	full   bool
	failed int64 // failed operations
}

// counts says which operations FailAt and the like count.
type counts uint8

const (
	countAll counts = iota
	countWrites
	countReads
)

// NewCrashable returns an empty disk.
func NewCrashable() *Disk { return newDisk(vfs.NewCrashableMem()) }

func newDisk(memory *vfs.MemFS) *Disk {
	d := &Disk{memory: memory}
	d.room = newCapacity(memory)
	d.files = &descriptors{FS: errorfs.Wrap(d.room, errorfs.InjectorFunc(d.inject))}
	return d
}

// FS returns the file system, for storage.Options.
func (d *Disk) FS() vfs.FS { return d.files }

// Crash returns the disk as a crash at this moment may leave it: everything synced, and
// each unsynced piece with a probability of kept, between 0 and 1. The copy injects no
// failures.
func (d *Disk) Crash(kept float64, seed uint64) *Disk {
	crashed := newDisk(d.memory.CrashClone(vfs.CrashCloneCfg{
		UnsyncedDataPercent: int(kept*100 + 0.5),
		RNG:                 rand.New(rand.NewPCG(seed, 0)),
	}))
	crashed.room.inherit(d.room)
	return crashed
}

// FailAt makes writing operation n from now fail, where the next one is number 1. The
// others succeed.
func (d *Disk) FailAt(n int64) { d.fail(n, n, countWrites) }

// FailFrom makes every writing operation from number n on fail.
func (d *Disk) FailFrom(n int64) { d.fail(n, 1<<62, countWrites) }

// FailReadAt is [Disk.FailAt] for operations that read.
func (d *Disk) FailReadAt(n int64) { d.fail(n, n, countReads) }

// FailAnyAt is [Disk.FailAt] for operations of both kinds.
func (d *Disk) FailAnyAt(n int64) { d.fail(n, n, countAll) }

// Heal ends all injected failures.
func (d *Disk) Heal() {
	d.fail(0, 0, countAll)
	d.files.restrict(false)
	d.Limit(-1)
}

func (d *Disk) fail(n, last int64, counts counts) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.done, d.failAt, d.last, d.counts, d.full = 0, n, last, counts, false
	d.failed = 0
}

// Fill makes every operation that needs space fail as on a full disk, until Heal.
func (d *Disk) Fill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full = true
}

// Operations returns how many operations were counted since FailAt and the like, or
// since the start, and how many of them failed. A test that repeats its story for every
// n ends when none failed.
func (d *Disk) Operations() (done, failed int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.done, d.failed
}

// inject decides whether an operation fails, before it is made.
func (d *Disk) inject(op errorfs.Op) error {
	writes := op.Kind.ReadOrWrite() == errorfs.OpIsWrite
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.full && needsSpace(op.Kind) {
		d.failed++
		return syscall.ENOSPC
	}
	if d.counts == countWrites && !writes || d.counts == countReads && writes {
		return nil
	}
	d.done++
	if d.failAt == 0 || d.done < d.failAt || d.done > d.last {
		return nil
	}
	d.failed++
	return ErrInjected
}

func needsSpace(kind errorfs.OpKind) bool {
	switch kind {
	case errorfs.OpCreate, errorfs.OpMkdirAll, errorfs.OpLink, errorfs.OpFileWrite, errorfs.OpFileWriteAt, errorfs.OpFilePreallocate:
		return true
	}
	return false
}
