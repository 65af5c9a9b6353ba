package storage

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// countingFS counts syncs.
type countingFS struct {
	vfs.FS
	syncs *atomic.Int64
}

type countingFile struct {
	vfs.File
	syncs *atomic.Int64
}

func (c countingFS) wrap(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return countingFile{f, c.syncs}, nil
}

func (c countingFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return c.wrap(c.FS.Create(name, category))
}

func (c countingFS) OpenReadWrite(name string, category vfs.DiskWriteCategory, options ...vfs.OpenOption) (vfs.File, error) {
	return c.wrap(c.FS.OpenReadWrite(name, category, options...))
}

func (c countingFS) OpenDir(name string) (vfs.File, error) { return c.wrap(c.FS.OpenDir(name)) }

func (f countingFile) Sync() error {
	f.syncs.Add(1)
	return f.File.Sync()
}

func (f countingFile) SyncData() error {
	f.syncs.Add(1)
	return f.File.SyncData()
}

func (f countingFile) SyncTo(length int64) (bool, error) {
	f.syncs.Add(1)
	return f.File.SyncTo(length)
}

// fillRow applies one row.
func fillRow(s *Store, key string) error {
	b := s.NewBatch()
	defer b.Close()
	return errors.Join(b.Set([]byte(key), []byte("x")), s.Apply(b))
}

// Opening a closed store makes no sync. Building one makes a sync for each file and two
// for directories.
func TestSyncsOfOpening(t *testing.T) {
	t.Parallel()
	disk := countingFS{vfs.NewMem(), new(atomic.Int64)}
	p := newPool(t, Options{FS: disk})
	since := func(work func()) int64 {
		before := disk.syncs.Load()
		work()
		return disk.syncs.Load() - before
	}
	must(t, p.Build("d/first", func(s *Store) error { return fillRow(s, "m") })) // creates d
	built := since(func() { must(t, p.Build("d/s", func(s *Store) error { return fillRow(s, "mrow") })) })
	files, err := disk.List("d/s")
	must(t, err)
	if most := int64(len(files) + 2); built > most {
		t.Errorf("building a store of %d files took %d syncs, want at most %d", len(files), built, most)
	}
	for _, name := range files {
		if strings.HasSuffix(name, logExt) {
			t.Errorf("a built store has a log: %q", files)
		}
	}
	for range 3 {
		var s *Store
		opened := since(func() {
			var err error
			s, err = p.Open("d/s")
			must(t, err)
			snapshot := s.Snapshot()
			if found, err := snapshot.Has([]byte("mrow")); err != nil || !found {
				t.Errorf("row: %v, %v", found, err)
			}
			must(t, snapshot.Close())
		})
		if opened != 0 {
			t.Errorf("opening and reading took %d syncs", opened)
		}
		must(t, s.Close())
	}
	// The first synced row also syncs the directory.
	s, err := p.Open("d/s")
	must(t, err)
	if n := since(func() { must(t, fillRow(s, "mnext")) }); n < 2 {
		t.Errorf("the first row took %d syncs, want the directory's and its own", n)
	}
	if n := since(func() { must(t, fillRow(s, "mlast")) }); n != 1 {
		t.Errorf("the second row took %d syncs", n)
	}
	must(t, s.Close())
}

// A checkpoint of a store that was opened and never written to opens.
func TestCheckpointOfUntouched(t *testing.T) {
	t.Parallel()
	p := newPool(t, Options{InMemory: true})
	must(t, p.Build("d/s", func(s *Store) error { return fillRow(s, "mrow") }))
	s, err := p.Open("d/s")
	must(t, err)
	must(t, s.Checkpoint("d/copy"))
	must(t, s.Close())
	c, err := p.Open("d/copy")
	must(t, err)
	snapshot := c.Snapshot()
	if found, err := snapshot.Has([]byte("mrow")); err != nil || !found {
		t.Errorf("row: %v, %v", found, err)
	}
	must(t, snapshot.Close())
	must(t, c.Close())
}

// A crash at any moment after Build has returned leaves the whole store, however much
// unsynced data is lost. A failed Build leaves nothing.
func TestBuildIsDurable(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashableMem()
	p := newPool(t, Options{FS: disk})
	must(t, p.Build("d/s", func(s *Store) error {
		for i := range 50 {
			if err := fillRow(s, fmt.Sprintf("m%02d", i)); err != nil {
				return err
			}
		}
		return nil
	}))
	cause := errors.New("no")
	if err := p.Build("d/t", func(*Store) error { return cause }); !errors.Is(err, cause) {
		t.Errorf("a failing build: %v", err)
	}
	if _, err := disk.Stat("d/t"); err == nil {
		t.Error("a failing build leaves its directory")
	}
	crashed := newPool(t, Options{FS: disk.CrashClone(vfs.CrashCloneCfg{})})
	s, err := crashed.Open("d/s")
	must(t, err)
	snapshot := s.Snapshot()
	for i := range 50 {
		if found, err := snapshot.Has(fmt.Appendf(nil, "m%02d", i)); err != nil || !found {
			t.Fatalf("row %d: %v, %v", i, found, err)
		}
	}
	must(t, snapshot.Close())
	must(t, s.Close())
}
