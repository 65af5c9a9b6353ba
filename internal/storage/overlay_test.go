package storage

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// contents returns the names and contents of the files of a directory.
func contents(t testing.TB, files vfs.FS, dir string) map[string]string {
	t.Helper()
	names, err := files.List(dir)
	must(t, err)
	all := map[string]string{}
	for _, base := range names {
		f, err := files.Open(files.PathJoin(dir, base))
		must(t, err)
		text, err := io.ReadAll(f)
		must(t, errors.Join(err, f.Close()))
		all[base] = string(text)
	}
	return all
}

// killed returns a copy of the disk while a store with this many rows is open: with a
// log to read, and with tables and a second manifest if it was flushed.
func killed(t testing.TB, rows int, flush bool) *vfs.MemFS {
	t.Helper()
	disk := vfs.NewCrashableMem()
	p := newPool(t, Options{FS: disk})
	s, err := p.Create("d/s")
	must(t, err)
	for i := range rows {
		if flush && i == rows/2 {
			must(t, s.Flush())
		}
		must(t, fillRow(s, fmt.Sprintf("mrow%05d", i)))
	}
	copied := disk.CrashClone(vfs.CrashCloneCfg{})
	must(t, s.Close())
	return copied
}

// rowsOf counts the rows of a snapshot.
func rowsOf(s *Snapshot) (int, error) {
	rows := 0
	it := s.Iter([]byte("mrow"), []byte("mrox"))
	for ok := it.First(); ok; ok = it.Next() {
		rows++
	}
	return rows, it.Close()
}

// A store whose verification fails keeps its files unchanged, and no file is removed
// before a successful verification.
func TestOpenVerified(t *testing.T) {
	t.Parallel()
	for _, flush := range []bool{false, true} {
		disk := killed(t, 300, flush)
		p := newPool(t, Options{FS: disk})
		before := contents(t, disk, "d/s")
		cause := errors.New("not this one")
		_, err := p.OpenVerified("d/s", Opening{Verify: func(s *Snapshot) error {
			if n, err := rowsOf(s); err != nil || n != 300 {
				t.Errorf("%d rows, %v", n, err)
			}
			for name, text := range before {
				if now, found := contents(t, disk, "d/s")[name]; !found || now != text {
					t.Errorf("file %s changed before the end of the verification", name)
				}
			}
			return cause
		}})
		if !errors.Is(err, cause) {
			t.Fatalf("open: %v, want that the verification failed", err)
		}
		if after := contents(t, disk, "d/s"); !maps.Equal(before, after) {
			t.Errorf("files %q became %q", slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)))
		}
		s, err := p.Open("d/s")
		must(t, err)
		snapshot := s.Snapshot()
		if n, err := rowsOf(snapshot); err != nil || n != 300 {
			t.Errorf("%d rows after the refusal, %v", n, err)
		}
		must(t, snapshot.Close())
		must(t, fillRow(s, "mrow99999"))
		must(t, s.Close())
		if names := slices.Sorted(maps.Keys(contents(t, disk, "d/s"))); len(names) > len(before)+2 {
			t.Errorf("obsolete files stay: %q", names)
		}
	}
}

// A position distinguishes a store that has lost rows from a complete one.
func TestPosition(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashableMem()
	p := newPool(t, Options{FS: disk})
	s, err := p.Create("d/s")
	must(t, err)
	type moment struct {
		at   Position
		disk *vfs.MemFS
	}
	var moments []moment
	for i := range 60 {
		must(t, fillRow(s, fmt.Sprintf("mrow%05d", i)))
		if i%13 == 12 {
			must(t, s.Flush())
		}
		if i%5 == 0 {
			at := s.Position() // before the copy, which therefore contains it
			moments = append(moments, moment{at, disk.CrashClone(vfs.CrashCloneCfg{})})
		}
	}
	last := s.Position()
	must(t, s.Close())
	for i, at := range moments {
		for j, found := range moments {
			p := newPool(t, Options{FS: found.disk.CrashClone(vfs.CrashCloneCfg{})})
			s, err := p.OpenVerified("d/s", Opening{Contains: at.at})
			switch {
			case i <= j && err != nil:
				t.Errorf("store %d, which has position %d, %s: %v", j, i, at.at, err)
			case i > j && (err == nil || !IsCorrupt(err)):
				t.Errorf("store %d, which does not have position %d, %s: %v", j, i, at.at, err)
			}
			if err == nil {
				must(t, s.Close())
			}
			// A Verify that accepts the rows does not accept a store without the position.
			s, err = p.OpenVerified("d/s", Opening{Contains: at.at, Verify: func(*Snapshot) error { return nil }})
			if i > j && (err == nil || !IsCorrupt(err)) {
				t.Errorf("store %d, whose rows are accepted and which does not have position %d, %s: %v", j, i, at.at, err)
			}
			if err == nil {
				must(t, s.Close())
			}
		}
	}
	// A closed store has no log.
	s, err = p.OpenVerified("d/s", Opening{Contains: last})
	must(t, err)
	must(t, s.Close())
	for _, text := range []string{"x", "manifest 1", "manifest 1:x", "log 1:2", "manifest 1:-2", "manifest 1:2 log 3", "manifest 1:2 what 3:4"} {
		if s, err := p.OpenVerified("d/s", Opening{Contains: Position(text)}); err == nil || !strings.Contains(err.Error(), "position") {
			t.Errorf("position %q: %v, %v", text, s, err)
		}
	}
}

// A position that names a newer or longer manifest than the store has, a log that is
// missing, or a longer one, is refused with the file. Logs below those that the manifest
// needs do not matter.
func TestPositionNamesFile(t *testing.T) {
	t.Parallel()
	disk := killed(t, 300, true)
	e, err := examine(disk, "d/s")
	must(t, err)
	last := e.logs[len(e.logs)-1]
	for name, c := range map[string]struct {
		at   position
		want string // empty if the store contains the position
	}{
		"the same":        {e.position(), ""},
		"older manifest":  {position{manifest: filePosition{e.number - 1, 1 << 20}}, ""},
		"newer manifest":  {position{manifest: filePosition{e.number + 3, 1}}, fmt.Sprintf("file MANIFEST-%06d is missing", e.number+3)},
		"longer manifest": {position{manifest: filePosition{e.number, e.reach + 1}}, fmt.Sprintf("file %s is damaged at byte %d", e.manifest, e.reach)},
		"flushed log":     {position{manifest: filePosition{e.number, 1}, logs: []filePosition{{e.minUnflushed - 1, 1 << 20}}}, ""},
		"missing log":     {position{manifest: filePosition{e.number, 1}, logs: []filePosition{{last.number + 5, 100}}}, fmt.Sprintf("file %06d.log is missing", last.number+5)},
		"longer log":      {position{manifest: filePosition{e.number, 1}, logs: []filePosition{{last.number, last.reach + 1}}}, fmt.Sprintf("file %s is damaged at byte %d", last.base, last.reach)},
	} {
		p := newPool(t, Options{FS: disk.CrashClone(vfs.CrashCloneCfg{})})
		s, err := p.OpenVerified("d/s", Opening{Contains: Position(c.at.String())})
		switch {
		case err == nil:
			must(t, s.Close())
			if c.want != "" {
				t.Errorf("%s: the store opened, want: %s", name, c.want)
			}
		case c.want == "" || !IsCorrupt(err) || !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// removalsFS reports removals, and syncs of directories.
type removalsFS struct {
	vfs.FS
	before func(name string) // a removal
	synced func()            // a directory
}

type syncedDir struct {
	vfs.File
	synced func()
}

func (r removalsFS) Remove(name string) error {
	r.before(name)
	return r.FS.Remove(name)
}

func (r removalsFS) OpenDir(name string) (vfs.File, error) {
	d, err := r.FS.OpenDir(name)
	return syncedDir{d, r.synced}, err
}

func (d syncedDir) Sync() error {
	d.synced()
	return d.File.Sync()
}

// After a failed verification the files that Pebble has created are removed. A power cut
// may bring back any of those whose removal is not synced. The store then opens with all
// rows.
func TestCrashAfterFailedVerification(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5, 6))
	cause := errors.New("not this one")
	for _, flush := range []bool{false, true} {
		disk := killed(t, 300, flush)
		var mu sync.Mutex // Pebble removes files in the background.
		var files map[string]string
		removed := [][]string{nil} // before the first sync, before the second, and so on
		p := newPool(t, Options{FS: removalsFS{disk, func(name string) {
			mu.Lock()
			defer mu.Unlock()
			if files == nil {
				files = contents(t, disk, "d/s")
			}
			removed[len(removed)-1] = append(removed[len(removed)-1], disk.PathBase(name))
		}, func() {
			mu.Lock()
			defer mu.Unlock()
			removed = append(removed, nil)
		}}})
		if _, err := p.OpenVerified("d/s", Opening{Verify: func(*Snapshot) error { return cause }}); !errors.Is(err, cause) {
			t.Fatalf("open: %v", err)
		}
		states := 0
		for _, names := range removed {
			for range 4 * len(names) {
				left := maps.Clone(files)
				for _, name := range names {
					if random.IntN(2) == 0 {
						delete(left, name)
					}
				}
				states++
				cut := vfs.NewMem()
				must(t, cut.MkdirAll("d/s", 0o755))
				for base, text := range left {
					writeFile(t, cut, "d/s/"+base, text)
				}
				p := newPool(t, Options{FS: cut})
				if found, err := p.Examine("d/s", ""); err != nil || len(found) > 0 {
					t.Fatalf("with %q: %v, %v", slices.Sorted(maps.Keys(left)), found, err)
				}
				if n := countRows(t, p, "d/s"); n != 300 {
					t.Fatalf("with %q: %d rows, want 300", slices.Sorted(maps.Keys(left)), n)
				}
			}
			for _, name := range names {
				delete(files, name)
			}
		}
		if states < 12 {
			t.Errorf("only %d states after %q", states, removed)
		}
	}
}

// A store that is opened provisionally and closed keeps its files unchanged. Once it is
// confirmed or written to, it works like any other.
func TestOpenProvisionally(t *testing.T) {
	t.Parallel()
	for _, flush := range []bool{false, true} {
		for _, confirm := range []string{"", "confirmed", "written"} {
			disk := killed(t, 300, flush)
			p := newPool(t, Options{FS: disk})
			before := contents(t, disk, "d/s")
			s, err := p.OpenVerified("d/s", Opening{Provisional: true})
			must(t, err)
			must(t, s.Flush())
			rows := 300
			switch confirm {
			case "confirmed":
				must(t, errors.Join(s.Confirm(), s.Confirm()))
			case "written":
				must(t, fillRow(s, "mrow99999"))
				rows++
			}
			snapshot := s.Snapshot()
			if n, err := rowsOf(snapshot); err != nil || n != rows {
				t.Errorf("%d rows, %v", n, err)
			}
			must(t, errors.Join(snapshot.Close(), s.Close()))
			after := contents(t, disk, "d/s")
			if same := maps.Equal(before, after); same != (confirm == "") {
				t.Errorf("flushed %v, %q: the directory is the same: %v, with %q of %q", flush, confirm, same, slices.Sorted(maps.Keys(after)), slices.Sorted(maps.Keys(before)))
			}
			s, err = p.Open("d/s")
			must(t, err)
			snapshot = s.Snapshot()
			if n, err := rowsOf(snapshot); err != nil || n != rows {
				t.Errorf("opened again: %d rows, %v", n, err)
			}
			must(t, errors.Join(snapshot.Close(), s.Close()))
		}
	}
}
