// Package storagetest is a disk for tests: one that loses what was not synced,
// fails at a chosen operation, is full, or has no descriptor left.
//
// Tests of storage and of every package above it put a [Disk]'s FS into
// storage.Options. [Disk.Crash] is what a machine finds after its power failed;
// [Disk.FailAt] fails one operation, and a test that repeats its story with
// every n has tried each place where a disk can break.
//
// # Invariants
//
// A crashed disk is a copy: the original goes on, and neither sees the other's
// changes. The same seed crashes in the same way.
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

// ErrInjected is the error of an operation that was told to fail.
var ErrInjected = errors.New("injected disk error")

// Disk is a file system in memory that remembers what was synced. It is safe
// for concurrent use.
type Disk struct {
	memory *vfs.MemFS
	files  *descriptors
	room   *capacity

	mu     sync.Mutex
	done   int64 // operations since FailAt or the start
	failAt int64 // zero: none
	last   int64 // the last operation that fails
	counts counts
	full   bool
	failed int64 // operations that failed
}

// counts says which operations count for FailAt and its kin.
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

// Crash returns the disk as it may be found after a crash at this moment:
// everything that was synced, and of each piece that was not, kept with the
// given probability between 0 and 1. The copy has no errors set.
func (d *Disk) Crash(kept float64, seed uint64) *Disk {
	crashed := newDisk(d.memory.CrashClone(vfs.CrashCloneCfg{
		UnsyncedDataPercent: int(kept*100 + 0.5),
		RNG:                 rand.New(rand.NewPCG(seed, 0)),
	}))
	crashed.room.inherit(d.room)
	return crashed
}

// FailAt makes operation n from now fail, the next one being number 1, and
// starts counting anew. Only operations that write count. The rest succeed.
func (d *Disk) FailAt(n int64) { d.fail(n, n, countWrites) }

// FailFrom makes every writing operation from number n on fail.
func (d *Disk) FailFrom(n int64) { d.fail(n, 1<<62, countWrites) }

// FailReadAt is [Disk.FailAt] for operations that read.
func (d *Disk) FailReadAt(n int64) { d.fail(n, n, countReads) }

// FailAnyAt is [Disk.FailAt] for operations of both kinds.
func (d *Disk) FailAnyAt(n int64) { d.fail(n, n, countAll) }

// Heal ends all errors.
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

// Fill makes every operation that needs space fail as a full disk does, until
// Heal.
func (d *Disk) Fill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full = true
}

// Operations returns how many operations there were since FailAt and its kin,
// or since the start, and how many of them failed. A test that repeats its
// story with a rising n ends when none failed.
func (d *Disk) Operations() (done, failed int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.done, d.failed
}

// inject decides about one operation before it happens.
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
