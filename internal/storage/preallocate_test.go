package storage

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// reservingFS adds up the preallocated bytes of logs.
type reservingFS struct {
	vfs.FS
	bytes *atomic.Int64
}

type reservingFile struct {
	vfs.File
	bytes *atomic.Int64
}

func (r reservingFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := r.FS.Create(name, category)
	if err != nil || !strings.HasSuffix(name, logExt) {
		return f, err
	}
	return reservingFile{f, r.bytes}, nil
}

func (f reservingFile) Preallocate(offset, length int64) error {
	f.bytes.Add(length)
	return f.File.Preallocate(offset, length)
}

// A store with few rows preallocates little space, regardless of the maximum size of
// its log.
func TestLogsReserveLittle(t *testing.T) {
	t.Parallel()
	disk := reservingFS{vfs.Default, new(atomic.Int64)}
	p := newPool(t, Options{FS: disk})
	s, err := p.Create(t.TempDir() + "/s")
	must(t, err)
	for _, key := range []string{"mrow", "mnext", "mlast"} {
		must(t, fillRow(s, key))
	}
	if got := disk.bytes.Load(); got != preallocateMin {
		t.Errorf("three rows reserve %d bytes, want %d", got, preallocateMin)
	}
	must(t, s.Close())
}

// stepsFile records the end of each preallocation.
type stepsFile struct {
	vfs.File
	t     *testing.T
	steps []int64
}

func (f *stepsFile) Preallocate(offset, length int64) error {
	if n := len(f.steps); n > 0 && f.steps[n-1] != offset || n == 0 && offset != 0 {
		f.t.Errorf("reserved from %d on, after %v", offset, f.steps)
	}
	f.steps = append(f.steps, offset+length)
	return nil
}

func (f *stepsFile) Write(p []byte) (int, error) { return len(p), nil }

func TestPreallocation(t *testing.T) {
	t.Parallel()
	disk := &stepsFile{t: t}
	f := &vitalFile{File: disk, guard: &guard{FS: vfs.NewMem(), dir: "d", space: new(space)}, name: "d/000001.log"}
	write := func(n int) {
		t.Helper()
		if wrote, err := f.Write(make([]byte, n)); wrote != n || err != nil {
			t.Fatal(wrote, err)
		}
	}
	write(10)
	if len(disk.steps) != 0 {
		t.Errorf("reserved up to %v without being asked", disk.steps)
	}
	const block = 17 << 20
	must(t, f.Preallocate(0, block))
	end := int64(10)
	for end < block {
		write(1000)
		end += 1000
		if last := disk.steps[len(disk.steps)-1]; last < min(end, block) || last > max(2*end, preallocateMin) {
			t.Fatalf("reserved up to %d of %d bytes", last, end)
		}
	}
	if n := len(disk.steps); n > 8 || disk.steps[n-1] != block {
		t.Errorf("steps %v, want few up to %d", disk.steps, block)
	}
	must(t, f.Preallocate(block, block))
	write(1000)
	if got := disk.steps[len(disk.steps)-1]; got != 2*block {
		t.Errorf("reserved up to %d of the second block, want %d", got, 2*block)
	}
}
