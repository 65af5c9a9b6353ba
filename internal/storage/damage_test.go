package storage

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// hookedFS calls before whenever a file or directory is about to be synced.
type hookedFS struct {
	vfs.FS
	before func()
}

type hookedFile struct {
	vfs.File
	before func()
}

func (h hookedFS) wrap(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return hookedFile{f, h.before}, nil
}

func (h hookedFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return h.wrap(h.FS.Create(name, category))
}

// ReuseForWrite does in two steps what that of vfs.MemFS does in one: that one takes a lock
// twice, and does not return if a copy of the disk is made in between.
func (h hookedFS) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := h.FS.Rename(from, to); err != nil {
		return nil, err
	}
	return h.wrap(h.FS.OpenReadWrite(to, category))
}

func (h hookedFS) OpenDir(name string) (vfs.File, error) { return h.wrap(h.FS.OpenDir(name)) }

func (f hookedFile) Sync() error {
	f.before()
	return f.File.Sync()
}

func (f hookedFile) SyncData() error {
	f.before()
	return f.File.SyncData()
}

// cutAt is a power cut: the disk at that moment, and the rows that must be on it.
type cutAt struct {
	disk *vfs.MemFS
	told []string
	at   Position
}

// The power fails while writers wait for a sync and many pages are not on the disk. Any
// of those pages and directory entries may have reached it, in any order. This is never
// reported as damage, and every acknowledged row is present. The same holds if the
// power fails again while the store is opened.
func TestPagesOutOfOrder(t *testing.T) {
	t.Parallel()
	memory := vfs.NewCrashableMem()
	var (
		mu     sync.Mutex
		told   []string
		syncs  int
		cuts   []cutAt
		store  *Store
		random = rand.New(rand.NewPCG(3, 4))
	)
	p := newPool(t, Options{MemTableBytes: 256 << 10, FS: hookedFS{memory, func() {
		mu.Lock()
		defer mu.Unlock()
		if syncs++; store == nil || syncs%7 != 0 {
			return
		}
		at := store.Position()
		for _, kept := range []int{20, 50, 80} {
			clone := memory.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: kept, RNG: random})
			cuts = append(cuts, cutAt{clone, slices.Clone(told), at})
		}
	}}})
	s, err := p.Create("d/s")
	must(t, err)
	mu.Lock()
	store = s
	mu.Unlock()
	var writers sync.WaitGroup
	for w := range 6 {
		writers.Go(func() {
			for i := range 25 {
				key := fmt.Sprintf("mw%d-%03d", w, i)
				b := s.NewBatch()
				must(t, b.Set([]byte(key), fmt.Appendf(nil, "%*d", 10+i*i*40, i)))
				if w == 5 { // These rows are not synced.
					must(t, errors.Join(s.ApplyNoSync(b), b.Close()))
					continue
				}
				must(t, errors.Join(s.Apply(b), b.Close()))
				mu.Lock()
				told = append(told, key)
				mu.Unlock()
			}
		})
	}
	writers.Wait()
	must(t, s.Close())
	for i, c := range cuts {
		again := reopenedAt(t, c, random)
		if i%8 != 0 {
			continue
		}
		for _, deeper := range again {
			reopenedAt(t, deeper, random)
		}
	}
	if len(cuts) < 20 {
		t.Errorf("only %d power cuts", len(cuts))
	}
}

// reopenedAt opens a store after a power cut and checks its rows. It returns power cuts
// during the opening.
func reopenedAt(t *testing.T, c cutAt, random *rand.Rand) []cutAt {
	t.Helper()
	var mu sync.Mutex // Pebble removes files in the background.
	var again []cutAt
	p := newPool(t, Options{FS: hookedFS{c.disk, func() {
		mu.Lock()
		defer mu.Unlock()
		clone := c.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: random})
		again = append(again, cutAt{clone, c.told, c.at})
	}}})
	s, err := p.OpenVerified("d/s", Opening{Contains: c.at})
	if err != nil {
		t.Fatalf("with %d rows at %s: %v", len(c.told), c.at, err)
	}
	mu.Lock()
	opened := again
	mu.Unlock()
	snapshot := s.Snapshot()
	for _, key := range c.told {
		if found, err := snapshot.Has([]byte(key)); err != nil || !found {
			t.Fatalf("acknowledged row %s at %s: %v, %v", key, c.at, found, err)
		}
	}
	must(t, snapshot.Close())
	must(t, s.Close())
	return opened
}

// damagedDisk returns a killed store with 150 rows in a table and a log in which one
// byte is changed, and how many rows precede that byte.
func damagedDisk(t *testing.T, flush bool) (disk *vfs.MemFS, log string, rows int) {
	t.Helper()
	disk = killed(t, 300, flush)
	e, err := examine(disk, "d/s")
	must(t, err)
	log = e.logs[len(e.logs)-1].base
	text := contents(t, disk, "d/s")[log]
	at := len(text) / 2
	writeFile(t, disk, "d/s/"+log, text[:at]+string(text[at]^1)+text[at+1:])
	number, _ := logNumber(log)
	rows = scanLog(t, []byte(text[:at]), uint32(number)).records
	if flush {
		rows += 150
	}
	return disk, log, rows
}

// A store with a damaged log is refused; the error names the file, and nothing is
// changed. Once the loss is accepted, the store opens with the rows before the damage,
// and the original files are kept.
func TestAcceptLoss(t *testing.T) {
	t.Parallel()
	for _, flush := range []bool{false, true} {
		disk, log, rows := damagedDisk(t, flush)
		p := newPool(t, Options{FS: disk})
		before := contents(t, disk, "d/s")
		for range 2 {
			_, err := p.Open("d/s")
			if err == nil || !IsCorrupt(err) || !strings.Contains(err.Error(), log) || !strings.Contains(err.Error(), "--accept-loss") {
				t.Fatalf("open: %v, want that %s is damaged", err, log)
			}
			if after := contents(t, disk, "d/s"); !maps.Equal(before, after) {
				t.Fatal("the refusal changed files")
			}
		}
		found, err := p.Examine("d/s", "")
		if err != nil || len(found) != 1 || found[0].File != log || found[0].Offset == 0 {
			t.Errorf("examine: %+v, %v", found, err)
		}
		cut, err := p.AcceptLoss("d/s", "d/kept", "")
		if err != nil || len(cut) != 1 || !strings.Contains(cut[0], log) {
			t.Fatalf("accepted: %q, %v", cut, err)
		}
		if kept := contents(t, disk, "d/kept"); !maps.Equal(before, kept) {
			t.Errorf("kept are %q of %q", slices.Sorted(maps.Keys(kept)), slices.Sorted(maps.Keys(before)))
		}
		if n := countRows(t, p, "d/s"); n != rows {
			t.Errorf("%d rows, want the %d before the damage", n, rows)
		}
		if kept := contents(t, disk, "d/kept"); !maps.Equal(before, kept) {
			t.Error("a write to the store changed the kept files")
		}
		if cut, err := p.AcceptLoss("d/s", "d/other", ""); err != nil || len(cut) != 0 {
			t.Errorf("nothing to accept: %q, %v", cut, err)
		}
		if _, err := disk.Stat("d/other"); err == nil {
			t.Error("files are kept although nothing was cut")
		}
	}
}

// countRows opens the store, counts its rows and closes it.
func countRows(t *testing.T, p *Pool, dir string) int {
	t.Helper()
	s, err := p.Open(dir)
	must(t, err)
	snapshot := s.Snapshot()
	n, err := rowsOf(snapshot)
	must(t, errors.Join(err, snapshot.Close(), s.Close()))
	return n
}

// tableFS calls before whenever a table is about to be created.
type tableFS struct {
	vfs.FS
	before func()
}

func (f tableFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if path.Ext(name) == tableExt {
		f.before()
	}
	return f.FS.Create(name, category)
}

// threeLogs returns a copy of the disk while a store needs three logs with 100, 50 and 50
// rows: two closed ones whose rows are in no table yet, and the current one.
func threeLogs(t *testing.T) (disk *vfs.MemFS, logs []examinedLog) {
	t.Helper()
	memory := vfs.NewCrashableMem()
	var flushing func()
	p := newPool(t, Options{FS: tableFS{memory, func() {
		if flushing != nil {
			flushing()
		}
	}}})
	s, err := p.Create("d/s")
	must(t, err)
	fill := func(from, to int) {
		for i := from; i < to; i++ {
			must(t, fillRow(s, fmt.Sprintf("mrow%05d", i)))
		}
	}
	fill(0, 100)
	var once sync.Once
	flushing = func() {
		once.Do(func() {
			fill(100, 150)
			_, err := s.db.AsyncFlush()
			must(t, err)
			fill(150, 200)
			disk = memory.CrashClone(vfs.CrashCloneCfg{})
		})
	}
	must(t, s.Flush())
	must(t, s.Close())
	e, err := examine(disk, "d/s")
	must(t, errors.Join(err, e.err()))
	if len(e.logs) != 3 || !e.logs[0].closed || !e.logs[1].closed || e.logs[0].records != 100 || e.logs[1].records != 50 || e.logs[2].records != 50 {
		t.Fatalf("logs: %+v", e.logs)
	}
	return disk, e.logs
}

// A log that is not the newest was synced to its end, so it is damaged if its end is
// missing, although nothing in it follows. Accepting the loss removes the newer logs.
func TestOlderLogIsDamaged(t *testing.T) {
	t.Parallel()
	good, logs := threeLogs(t)
	if n := countRows(t, newPool(t, Options{FS: good.CrashClone(vfs.CrashCloneCfg{})}), "d/s"); n != 200 {
		t.Fatalf("the undamaged store has %d rows, want 200", n)
	}
	older := logs[0]
	text := contents(t, good, "d/s")[older.base]
	for _, cut := range []int64{older.end - 1, older.end - numberedHeader, older.end / 2, 1, 0} {
		disk := good.CrashClone(vfs.CrashCloneCfg{})
		writeFile(t, disk, "d/s/"+older.base, text[:cut])
		p := newPool(t, Options{FS: disk})
		if _, err := p.Open("d/s"); err == nil || !IsCorrupt(err) || !strings.Contains(err.Error(), older.base+" is damaged") || !strings.Contains(err.Error(), logs[1].base) {
			t.Errorf("cut at byte %d of %d: open: %v, want that %s is damaged", cut, older.end, err, older.base)
		}
		rows := scanLog(t, []byte(text[:cut]), uint32(older.number)).records
		acceptLogs(t, p, rows, logs[1:])
	}
}

// acceptLogs accepts the loss of a store, which removes logs and leaves the given number
// of rows.
func acceptLogs(t *testing.T, p *Pool, rows int, removed []examinedLog) {
	t.Helper()
	cut, err := p.AcceptLoss("d/s", "d/kept", "")
	must(t, err)
	for _, log := range removed {
		if !slices.ContainsFunc(cut, func(says string) bool { return strings.HasPrefix(says, "remove log "+log.base) }) {
			t.Errorf("%q, want that %s is removed", cut, log.base)
		}
	}
	if n := countRows(t, p, "d/s"); n != rows {
		t.Errorf("%d rows after %q, want %d", n, cut, rows)
	}
}

// A missing log between two others is noticed by the sequence numbers.
func TestMissingLogLeavesGap(t *testing.T) {
	t.Parallel()
	disk, logs := threeLogs(t)
	must(t, disk.Remove("d/s/"+logs[1].base))
	p := newPool(t, Options{FS: disk})
	if _, err := p.Open("d/s"); err == nil || !IsCorrupt(err) || !strings.Contains(err.Error(), "a log before "+logs[2].base+" is missing") {
		t.Errorf("open: %v, want that a log before %s is missing", err, logs[2].base)
	}
	acceptLogs(t, p, 100, logs[2:])
}

// Accepting the loss of a damaged manifest leaves a store that opens with a prefix of
// its rows, or is refused with a named file. A refused acceptance changes nothing.
func TestAcceptLossOfManifest(t *testing.T) {
	t.Parallel()
	good := killed(t, 300, true)
	e, err := examine(good, "d/s")
	must(t, err)
	text := contents(t, good, "d/s")[e.manifest]
	damaged, opened := 0, 0
	for at := 0; at < len(text); at += 3 {
		disk := good.CrashClone(vfs.CrashCloneCfg{})
		writeFile(t, disk, "d/s/"+e.manifest, text[:at]+string([]byte{text[at] ^ 4})+text[at+1:])
		p := newPool(t, Options{FS: disk})
		before := contents(t, disk, "d/s")
		found, err := p.Examine("d/s", "")
		must(t, err)
		if len(found) == 0 {
			continue
		}
		damaged++
		if found[0].File != e.manifest {
			t.Errorf("byte %d: damage in %s", at, found[0].File)
		}
		if _, err := p.AcceptLoss("d/s", "d/kept", ""); err != nil {
			if after := contents(t, disk, "d/s"); !maps.Equal(before, after) {
				t.Errorf("byte %d: %v, but files changed", at, err)
			}
			continue
		}
		if kept := contents(t, disk, "d/kept"); !maps.Equal(before, kept) {
			t.Errorf("byte %d: kept are %q", at, slices.Sorted(maps.Keys(kept)))
		}
		s, err := p.Open("d/s")
		if err != nil {
			if d := new(Damage); !errors.As(err, &d) {
				t.Errorf("byte %d: %v, want an error that names a file", at, err)
			}
			continue
		}
		opened++
		snapshot := s.Snapshot()
		n, err := rowsOf(snapshot)
		must(t, err)
		for i := range n {
			if found, err := snapshot.Has(fmt.Appendf(nil, "mrow%05d", i)); err != nil || !found {
				t.Errorf("byte %d: %d rows, but row %d is missing: %v", at, n, i, err)
			}
		}
		must(t, errors.Join(snapshot.Close(), s.Close()))
	}
	if damaged == 0 {
		t.Errorf("no flip in %s is damage", e.manifest)
	}
	t.Logf("%d damaged manifests of %d bytes, %d stores opened", damaged, len(text), opened)
}

// For each missing file the error names it and nothing is changed. A store that can be
// repaired opens again.
func TestMissingFiles(t *testing.T) {
	t.Parallel()
	good := killed(t, 300, true)
	e, err := examine(good, "d/s")
	must(t, err)
	at := Position(e.position().String())
	for base := range contents(t, good, "d/s") {
		disk := good.CrashClone(vfs.CrashCloneCfg{})
		must(t, disk.Remove("d/s/"+base))
		before := contents(t, disk, "d/s")
		p := newPool(t, Options{FS: disk})
		number, isLog := logNumber(base)
		if base == "LOCK" || strings.HasPrefix(base, optionsPrefix) || isLog && number < e.minUnflushed {
			if _, err := p.AcceptLoss("d/s", "d/kept", at); err != nil {
				t.Errorf("%s: %v", base, err)
			}
			if n := countRows(t, p, "d/s"); n != 300 {
				t.Errorf("without %s: %d rows", base, n)
			}
			continue
		}
		_, err := p.OpenVerified("d/s", Opening{Contains: at})
		name := base
		if strings.HasPrefix(base, markerPrefix) {
			name = base[:strings.Index(base[len(markerPrefix):], ".")+len(markerPrefix)]
		}
		if err == nil || !IsCorrupt(err) || !strings.Contains(err.Error(), strings.TrimSuffix(name, ".sst")) {
			t.Errorf("without %s: %v", base, err)
		}
		if after := contents(t, disk, "d/s"); !maps.Equal(before, after) {
			t.Errorf("without %s: files %q became %q", base, slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)))
		}
		cut, err := p.AcceptLoss("d/s", "d/kept", at)
		switch {
		case strings.HasPrefix(base, markerPrefix):
			if err != nil || len(cut) != 1 {
				t.Errorf("without %s: %q, %v", base, cut, err)
			} else if n := countRows(t, p, "d/s"); n != 300 {
				t.Errorf("without %s: %d rows, %q", base, n, cut)
			}
		case isLog:
			if err != nil || countRows(t, p, "d/s") != 150 {
				t.Errorf("without %s: %q, %v", base, cut, err)
			}
		case strings.HasPrefix(base, manifestPrefix), base == formatFile:
			if err == nil {
				t.Errorf("without %s: accepted, %q", base, cut)
			}
			if after := contents(t, disk, "d/s"); !maps.Equal(before, after) {
				t.Errorf("without %s: files changed", base)
			}
		}
	}
}

// An unreadable options file is named. Accepting its loss loses no row.
func TestDamagedOptions(t *testing.T) {
	t.Parallel()
	disk := killed(t, 300, true)
	for base, text := range contents(t, disk, "d/s") {
		if strings.HasPrefix(base, optionsPrefix) {
			writeFile(t, disk, "d/s/"+base, strings.Replace(text, "=", "-", 1))
		}
	}
	p := newPool(t, Options{FS: disk})
	if _, err := p.Open("d/s"); err == nil || !IsCorrupt(err) || !strings.Contains(err.Error(), optionsPrefix) {
		t.Errorf("open: %v", err)
	}
	if cut, err := p.AcceptLoss("d/s", "d/kept", ""); err != nil || len(cut) != 1 {
		t.Errorf("accepted: %q, %v", cut, err)
	}
	if n := countRows(t, p, "d/s"); n != 300 {
		t.Errorf("%d rows", n)
	}
}
