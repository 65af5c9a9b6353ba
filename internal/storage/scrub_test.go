package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/decandb/decan/internal/storage/storagetest"
)

// scrubAll scrubs every table of a store, and returns what is damaged and the bytes read.
func scrubAll(t *testing.T, p *Pool, dir string) (damaged []*Damage, read int64) {
	t.Helper()
	tables, err := p.Tables(dir)
	must(t, err)
	for _, table := range tables {
		damage, err := p.Scrub(dir, table, func(bytes int) error { read += int64(bytes); return nil })
		must(t, err)
		if damage != nil {
			damaged = append(damaged, damage)
		}
	}
	return damaged, read
}

// fillTables writes rows to a store, some of them repeatedly, and flushes several
// times.
func fillTables(t testing.TB, s *Store, rounds int) {
	t.Helper()
	random := rand.New(rand.NewPCG(7, 7))
	for round := range rounds {
		b := s.NewBatch()
		for i := range 400 {
			must(t, b.Set(DocumentKeyOf(nil, fmt.Appendf(nil, "%04d", (round*100+i)%1000)), fmt.Appendf(nil, "%x", random.Uint64())))
		}
		must(t, errors.Join(s.Apply(b), b.Close(), s.Flush()))
	}
}

// fillVersions writes a table with two versions of each row, of which the older ones are
// in blocks of values.
func fillVersions(t testing.TB, s *Store) {
	t.Helper()
	var older *Snapshot
	for version := range 2 {
		b := s.NewBatch()
		for i := range 400 {
			must(t, b.Set(DocumentKeyOf(nil, fmt.Appendf(nil, "%04d", i)), fmt.Appendf(nil, "version %d of row %d", version, i)))
		}
		must(t, errors.Join(s.Apply(b), b.Close()))
		if version == 0 {
			older = s.Snapshot()
		}
	}
	must(t, errors.Join(s.Flush(), older.Close()))
}

// Every bit of a table is in a block with a checksum or in the footer. A flipped bit is
// found in its table, whether the store is open or closed; nothing else is reported as
// damaged, and the store continues to work.
func TestScrubFindsFlippedBits(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	p := newPool(t, Options{FS: disk})
	s, err := p.Create("s")
	must(t, err)
	holdCompactions(s) // The tables must stay in use.
	fillTables(t, s, 3)
	fillVersions(t, s)
	damaged, read := scrubAll(t, p, "s")
	if len(damaged) > 0 || read == 0 {
		t.Fatalf("of a whole store %v is damaged, %d bytes were read", damaged, read)
	}
	tables, err := p.Tables("s")
	must(t, err)
	check := func(state string) {
		t.Helper()
		for _, table := range tables {
			name := path.Join("s", table)
			whole := contents(t, disk, "s")[table]
			for at := 0; at < len(whole); at += 1 + len(whole)/40 {
				writeFile(t, disk, name, whole[:at]+string([]byte{whole[at] ^ 4})+whole[at+1:])
				found, _ := scrubAll(t, p, "s")
				if len(found) != 1 || found[0].File != table || !IsCorrupt(found[0]) || found[0].Offset > int64(at) {
					t.Errorf("%s, byte %d of %d of %s: found %v", state, at, len(whole), table, found)
				}
			}
			writeFile(t, disk, name, whole[:len(whole)/2])
			if found, _ := scrubAll(t, p, "s"); len(found) != 1 || found[0].File != table {
				t.Errorf("%s, %s cut in half: found %v", state, table, found)
			}
			writeFile(t, disk, name, whole)
		}
		if found, _ := scrubAll(t, p, "s"); len(found) > 0 {
			t.Errorf("%s, mended: found %v", state, found)
		}
	}
	check("open")
	must(t, s.Err())
	must(t, disk.Remove(path.Join("s", tables[0])))
	if found, err := p.Scrub("s", tables[0], func(int) error { return nil }); err != nil || found == nil || !found.Missing {
		t.Errorf("a missing table that the manifest names: %v, %v", found, err)
	}
	must(t, s.Abandon())
	tables = tables[1:]
	check("closed")
	if found, err := p.Scrub("s", "000099.sst", func(int) error { return nil }); err != nil || found != nil {
		t.Errorf("a missing table: %v, %v", found, err)
	}
	if tables, err := p.Tables("nowhere"); err != nil || len(tables) > 0 {
		t.Errorf("of no store: %v, %v", tables, err)
	}
}

// An error of spend ends a scrub, and is not reported as damage.
func TestScrubStops(t *testing.T) {
	t.Parallel()
	p := newPool(t, Options{FS: vfs.NewMem()})
	s, err := p.Create("s")
	must(t, err)
	fillTables(t, s, 1)
	tables, err := p.Tables("s")
	must(t, err)
	errStop := errors.New("stop")
	for allowed, done := 0, false; !done; allowed++ {
		calls := 0
		damage, err := p.Scrub("s", tables[0], func(int) error {
			if calls++; calls > allowed {
				return errStop
			}
			return nil
		})
		done = err == nil
		if damage != nil || !done && !errors.Is(err, errStop) || allowed < 3 && done {
			t.Errorf("after %d reads: %v, %v", allowed, damage, err)
		}
	}
	must(t, s.Close())
}

// flippingFS flips a bit in the next reads of tables.
type flippingFS struct {
	vfs.FS
	flips *atomic.Int64 // reads left to flip
}

type flippingFile struct {
	vfs.File
	flips *atomic.Int64
}

func (f flippingFS) Open(name string, options ...vfs.OpenOption) (vfs.File, error) {
	file, err := f.FS.Open(name, options...)
	if err != nil || path.Ext(name) != tableExt {
		return file, err
	}
	return flippingFile{file, f.flips}, nil
}

func (f flippingFile) ReadAt(p []byte, offset int64) (int, error) {
	n, err := f.File.ReadAt(p, offset)
	if f.flips.Add(-1) >= 0 {
		p[n/2] ^= 1
	}
	return n, err
}

// Damage is reported only if a second read finds it as well.
func TestScrubReadsTwice(t *testing.T) {
	t.Parallel()
	var flips atomic.Int64
	p := newPool(t, Options{FS: flippingFS{vfs.NewMem(), &flips}})
	s, err := p.Create("s")
	must(t, err)
	holdCompactions(s)
	fillTables(t, s, 1)
	tables, err := p.Tables("s")
	must(t, err)
	for flipped, want := range map[int64]bool{0: false, 1: false, 1 << 40: true} {
		flips.Store(flipped)
		damage, err := p.Scrub("s", tables[0], func(int) error { return nil })
		must(t, err)
		if (damage != nil) != want {
			t.Errorf("the first %d reads are wrong: %v, want damage: %v", flipped, damage, want)
		}
		if flipped == 1 && flips.Load() >= 0 {
			t.Errorf("%d wrong reads were not made", flips.Load()+1)
		}
	}
	flips.Store(0)
	must(t, s.Close())
}

// A scrub that cannot run now returns ErrScrubLater: without descriptors, for a store
// that has failed, and while a directory is in use.
func TestScrubLater(t *testing.T) {
	t.Parallel()
	disk := storagetest.NewCrashable()
	p := newPool(t, Options{FS: disk.FS()})
	s, err := p.Create("s")
	must(t, err)
	fillTables(t, s, 1)
	tables, err := p.Tables("s")
	must(t, err)
	scrub := func() error {
		damage, err := p.Scrub("s", tables[0], func(int) error { return nil })
		if damage != nil {
			t.Errorf("damaged: %v", damage)
		}
		return err
	}
	must(t, scrub())
	disk.Exhaust()
	if err := scrub(); !errors.Is(err, ErrScrubLater) {
		t.Errorf("without descriptors: %v", err)
	}
	disk.Heal()
	must(t, scrub())
	s.guard.fail(errors.New("made to fail"))
	if tables, err := p.Tables("s"); !errors.Is(err, ErrScrubLater) {
		t.Errorf("of a failed store: %q, %v", tables, err)
	}
	_ = s.Close() // It returns the failure.
	must(t, p.claim("s"))
	if tables, err := p.Tables("s"); !errors.Is(err, ErrScrubLater) {
		t.Errorf("of a directory in use: %q, %v", tables, err)
	}
	p.release("s")
	must(t, scrub())
}

// Scrubs find nothing while the store is written to, compacted, closed and opened.
func TestScrubUnderWrites(t *testing.T) {
	t.Parallel()
	p := newPool(t, Options{FS: vfs.NewMem(), MemTableBytes: 64 << 10})
	s, err := p.Create("s")
	must(t, err)
	var scrubs sync.WaitGroup
	end := make(chan struct{})
	total := int64(0)
	scrubs.Go(func() {
		for {
			select {
			case <-end:
				return
			default:
			}
			tables, err := p.Tables("s")
			if err != nil {
				if !errors.Is(err, ErrScrubLater) {
					t.Errorf("tables: %v", err)
				}
				continue
			}
			for _, table := range tables {
				damage, err := p.Scrub("s", table, func(bytes int) error { total += int64(bytes); return nil })
				if damage != nil || err != nil && !errors.Is(err, ErrScrubLater) {
					t.Errorf("%s: %v, %v", table, damage, err)
				}
			}
		}
	})
	for range 6 {
		fillTables(t, s, 5)
		must(t, s.db.Compact(t.Context(), []byte{0}, []byte{255}, true))
		must(t, s.Close())
		s, err = p.Open("s")
		must(t, err)
	}
	close(end)
	scrubs.Wait()
	must(t, s.Close())
	if total == 0 {
		t.Error("nothing was read")
	}
}

// BenchmarkScrub reads rows of the block cache alone, during a scrub of 4 MB per second
// and during one without pauses, in turns. It reports how many times longer a read
// takes during the scrubs.
func BenchmarkScrub(b *testing.B) {
	p := newPool(b, Options{FS: vfs.NewMem()})
	s, err := p.Create("s")
	must(b, err)
	fillTables(b, s, 20)
	snapshot := s.Snapshot()
	read := func() time.Duration {
		began := time.Now()
		for i := range 50_000 {
			if _, _, err := snapshot.Get(nil, DocumentKeyOf(nil, fmt.Appendf(nil, "%04d", i%1000))); err != nil {
				b.Error(err)
			}
		}
		return time.Since(began)
	}
	during := func(rate int) time.Duration {
		var scrub sync.WaitGroup
		errEnd := errors.New("end")
		end := make(chan struct{})
		scrub.Go(func() {
			for owed, err := 0, error(nil); !errors.Is(err, errEnd); {
				tables, _ := p.Tables("s")
				for _, table := range tables {
					_, err = p.Scrub("s", table, func(bytes int) error {
						if owed += bytes; rate > 0 && owed >= 256<<10 {
							time.Sleep(time.Second * time.Duration(owed) / time.Duration(rate))
							owed = 0
						}
						select {
						case <-end:
							return errEnd
						default:
							return nil
						}
					})
				}
			}
		})
		took := read()
		close(end)
		scrub.Wait()
		return took
	}
	read()
	var alone, paced, unpaced time.Duration
	for b.Loop() {
		alone += read()
		paced += during(4 << 20)
		unpaced += during(0)
	}
	b.ReportMetric(paced.Seconds()/alone.Seconds(), "paced/alone")
	b.ReportMetric(unpaced.Seconds()/alone.Seconds(), "unpaced/alone")
	must(b, errors.Join(snapshot.Close(), s.Close()))
}
