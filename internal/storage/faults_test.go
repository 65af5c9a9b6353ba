package storage_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/storage/storagetest"
)

// smallPool returns a pool with write buffers that fill within a test.
func smallPool(t testing.TB, disk *storagetest.Disk) *storage.Pool {
	t.Helper()
	p, err := storage.NewPool(storage.Options{FS: disk.FS(), MemTableBytes: 64 << 10, CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// story writes rows with ascending numbers, one batch each, with flushes in between. It
// returns how many were acknowledged and the first error.
func story(s *storage.Store, rows int) (acknowledged int, err error) {
	return storyOf(s, rows, 2000, 17)
}

// storyOf is story with rows of a given size and a flush after every so many rows,
// given by every.
func storyOf(s *storage.Store, rows, size, every int) (acknowledged int, err error) {
	filler := make([]byte, size)
	for i := range rows {
		b := s.NewBatch()
		err := errors.Join(
			b.Set(fmt.Appendf(nil, "mrow%05d", i), filler),
			b.Set([]byte("mlast"), fmt.Appendf(nil, "%d", i)),
			b.AddPosting([]byte("tlist"), uint64(i)))
		if err != nil {
			return i, err
		}
		err = s.Apply(b)
		_ = b.Close()
		if err != nil {
			return i, err
		}
		if i%every == every-1 {
			if err := s.Flush(); err != nil {
				return i + 1, err
			}
		}
	}
	return rows, nil
}

// judge opens the store and checks that it contains the rows of a prefix of the story,
// at least all that were acknowledged, and each batch as a whole.
func judge(disk *storagetest.Disk, dir string, acknowledged int) (err error) {
	p, err := storage.NewPool(storage.Options{FS: disk.FS()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	s, err := p.Open(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	snapshot := s.Snapshot()
	defer snapshot.Close()

	rows := 0
	it := snapshot.Iter([]byte("mrow"), []byte("mrox"))
	for ok := it.First(); ok; ok = it.Next() {
		if want := fmt.Sprintf("mrow%05d", rows); string(it.Key()) != want {
			return errors.Join(fmt.Errorf("row %s, want %s", it.Key(), want), it.Close())
		}
		rows++
	}
	if err := it.Close(); err != nil {
		return err
	}
	if rows < acknowledged {
		return fmt.Errorf("%d rows, but %d were acknowledged", rows, acknowledged)
	}
	list := snapshot.Postings([]byte("tlist"))
	count, err := list.Count()
	if err := errors.Join(err, list.Close()); err != nil {
		return err
	}
	last, found, err := snapshot.Get(nil, []byte("mlast"))
	if err != nil {
		return err
	}
	if int(count) != rows || (rows > 0) != found || (rows > 0 && string(last) != fmt.Sprint(rows-1)) {
		return fmt.Errorf("%d rows, %d postings, last %q", rows, count, last)
	}
	return nil
}

// within fails the test if work hangs, which no disk error may cause.
func within(t *testing.T, what string, work func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); work() }()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatalf("%s hangs", what)
	}
}

// Every write to the disk fails, once or from then on. No error is lost, no call hangs,
// and every acknowledged write is present afterwards, with or without a power cut.
func TestEveryWriteFails(t *testing.T) {
	t.Parallel()
	const rows = 40
	short := func(s *storage.Store) (int, error) { return story(s, rows) }
	// Writes wait for flushes that they have requested.
	full := func(s *storage.Store) (int, error) { return storyOf(s, rows, 30_000, rows) }
	withoutBudget := func(t testing.TB, disk *storagetest.Disk) *storage.Pool {
		t.Helper()
		p, err := storage.NewPool(storage.Options{FS: disk.FS(), BufferBytes: 1, CacheBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, c := range []struct {
		name string
		step int64
		fail func(disk *storagetest.Disk, n int64)
		pool func(testing.TB, *storagetest.Disk) *storage.Pool
		tell func(*storage.Store) (acknowledged int, err error)
	}{
		{"once", 1, (*storagetest.Disk).FailAt, smallPool, short},
		{"forever", 3, (*storagetest.Disk).FailFrom, smallPool, short},
		{"once, buffers without a budget", 5, (*storagetest.Disk).FailAt, withoutBudget, full},
		{"forever, buffers without a budget", 11, (*storagetest.Disk).FailFrom, withoutBudget, full},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for n := int64(1); ; n += c.step {
				disk := storagetest.NewCrashable()
				p := c.pool(t, disk)
				s, err := p.Create("d/s")
				if err != nil {
					t.Fatal(err)
				}
				c.fail(disk, n)
				var acknowledged int
				var storyErr, closeErr error
				within(t, fmt.Sprintf("story with operation %d failing", n), func() {
					acknowledged, storyErr = c.tell(s)
					closeErr = s.Close()
				})
				_, failed := disk.Operations()
				power := disk.Crash(0, uint64(n))
				if err := p.Close(); err != nil {
					t.Fatalf("operation %d: close pool: %v", n, err)
				}
				disk.Heal()
				for name, d := range map[string]*storagetest.Disk{"reopened": disk, "power cut": power} {
					if err := judge(d, "d/s", acknowledged); err != nil {
						t.Fatalf("operation %d (%d acknowledged, story: %v, close: %v), %s: %v", n, acknowledged, storyErr, closeErr, name, err)
					}
				}
				if storyErr != nil && s.Err() == nil {
					t.Fatalf("operation %d: the story ended with %v but the store has not failed", n, storyErr)
				}
				if storyErr != nil && !errors.Is(storyErr, storagetest.ErrInjected) {
					t.Fatalf("operation %d: the error lost its cause: %v", n, storyErr)
				}
				if failed == 0 {
					if n < 50 {
						t.Fatalf("only %d operations were tried", n)
					}
					return
				}
			}
		})
	}
}

// Every operation of creating and opening a store fails once. Either the call returns
// the error and a later one succeeds, or the call succeeds.
func TestEveryOpenFails(t *testing.T) {
	t.Parallel()
	for n := int64(1); ; n++ {
		disk := storagetest.NewCrashable()
		p := smallPool(t, disk)
		disk.FailAnyAt(n)
		var s *storage.Store
		var err error
		within(t, "Create", func() { s, err = p.Create("d/s") })
		_, failed := disk.Operations()
		disk.Heal()
		if err != nil {
			if s, err = p.Create("d/s"); err != nil {
				t.Fatalf("operation %d: create after a failed create: %v", n, err)
			}
		}
		acknowledged, err := story(s, 20)
		if err != nil {
			if s.Err() == nil {
				t.Fatal(err)
			}
			t.Fatalf("operation %d: the store is unusable: %v", n, err)
		}
		// After a crash, opening reads a log.
		crashed := disk.Crash(0.5, uint64(n))
		if err := errors.Join(s.Close(), p.Close()); err != nil {
			t.Fatal(err)
		}
		p = smallPool(t, crashed)
		crashed.FailAnyAt(n)
		within(t, "Open", func() { s, err = p.Open("d/s") })
		_, failedOpen := crashed.Operations()
		crashed.Heal()
		if err == nil {
			_ = s.Close()
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		if err := judge(crashed, "d/s", acknowledged); err != nil {
			t.Fatalf("operation %d: after a disturbed open: %v", n, err)
		}
		if failed == 0 && failedOpen == 0 {
			return
		}
	}
}

// A crash at any moment loses nothing that was acknowledged, whatever part of the
// unsynced data survives.
func TestCrashAnywhere(t *testing.T) {
	t.Parallel()
	for _, kept := range []float64{0, 0.5, 1} {
		t.Run(fmt.Sprintf("kept=%v", kept), func(t *testing.T) {
			t.Parallel()
			disk := storagetest.NewCrashable()
			p := smallPool(t, disk)
			s, err := p.Create("d/s")
			if err != nil {
				t.Fatal(err)
			}
			filler := make([]byte, 3000)
			for i := range 150 {
				b := s.NewBatch()
				err := errors.Join(
					b.Set(fmt.Appendf(nil, "mrow%05d", i), filler),
					b.Set([]byte("mlast"), fmt.Appendf(nil, "%d", i)),
					b.AddPosting([]byte("tlist"), uint64(i)))
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Apply(b); err != nil {
					t.Fatal(err)
				}
				b.Close()
				if i%7 == 0 {
					if err := judge(disk.Crash(kept, uint64(i)), "d/s", i+1); err != nil {
						t.Fatalf("crash after row %d: %v", i, err)
					}
				}
			}
			if err := errors.Join(s.Close(), p.Close()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A crash while several goroutines write loses no write that was acknowledged to any of
// them.
func TestCrashUnderLoad(t *testing.T) {
	t.Parallel()
	disk := storagetest.NewCrashable()
	p := smallPool(t, disk)
	s, err := p.Create("d/s")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	told := map[string]bool{}
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			for i := range 60 {
				key := fmt.Sprintf("mw%d-%04d", w, i)
				b := s.NewBatch()
				if err := errors.Join(b.Set([]byte(key), make([]byte, 1000)), s.Apply(b), b.Close()); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				told[key] = true
				mu.Unlock()
			}
		})
	}
	for round := range uint64(12) {
		mu.Lock()
		want := make([]string, 0, len(told))
		for key := range told {
			want = append(want, key)
		}
		mu.Unlock()
		crashed := disk.Crash(float64(round%3)/2, round)
		again := smallPool(t, crashed)
		c, err := again.Open("d/s")
		if err != nil {
			t.Fatal(err)
		}
		snapshot := c.Snapshot()
		for _, key := range want {
			if found, err := snapshot.Has([]byte(key)); err != nil || !found {
				t.Errorf("round %d: acknowledged row %s: found %v, %v", round, key, found, err)
			}
		}
		if err := errors.Join(snapshot.Close(), c.Close(), again.Close()); err != nil {
			t.Fatal(err)
		}
	}
	writers.Wait()
	if err := errors.Join(s.Close(), p.Close()); err != nil {
		t.Fatal(err)
	}
}

// Because finds the cause in a wrapped error.
func TestBecause(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{io.ErrUnexpectedEOF, ""},
		{&fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}, " because the disk is full"},
		{fmt.Errorf("flush: %w", syscall.EDQUOT), " because the disk is full"},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.EMFILE}, " because too many files are open"},
		{syscall.ENFILE, " because too many files are open"},
	} {
		if got := storage.Because(c.err); got != c.want {
			t.Errorf("%v: got %q, want %q", c.err, got, c.want)
		}
	}
}

// A full disk fails the store with an error that names the reason. Once there is space,
// the store opens with every row.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := storagetest.NewCrashable()
	p := smallPool(t, disk)
	s, err := p.Create("d/s")
	if err != nil {
		t.Fatal(err)
	}
	acknowledged, err := story(s, 10)
	if err != nil {
		t.Fatal(err)
	}
	disk.Fill()
	b := s.NewBatch()
	if err := b.Set([]byte("mx"), nil); err != nil {
		t.Fatal(err)
	}
	within(t, "Apply on a full disk", func() { err = s.Apply(b) })
	if !storage.IsNoSpace(err) {
		t.Errorf("Apply on a full disk: %v, want that there is no space", err)
	}
	if err := s.Apply(b); !storage.IsNoSpace(err) {
		t.Errorf("second Apply: %v, want the same", err)
	}
	if err := s.Flush(); !storage.IsNoSpace(err) {
		t.Errorf("Flush: %v, want the same", err)
	}
	if err := s.Checkpoint("d/copy"); !storage.IsNoSpace(err) {
		t.Errorf("Checkpoint: %v, want the same", err)
	}
	if _, err := p.Create("d/other"); !storage.IsNoSpace(err) {
		t.Errorf("Create: %v, want the same", err)
	}
	within(t, "Close on a full disk", func() { err = s.Close() })
	if !storage.IsNoSpace(err) {
		t.Errorf("Close: %v, want the same", err)
	}
	if s, err = p.Open("d/s"); err != nil {
		t.Fatalf("Open on a full disk: %v, want a store that can be read", err)
	}
	if err := s.Apply(b); !s.ReadOnly() || !storage.IsNoSpace(err) || status.CodeOf(err) != status.CodeInsufficientStorage {
		t.Errorf("Apply to a store that can be read only (%v): %v", s.ReadOnly(), err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	b.Close()
	disk.Heal()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := judge(disk, "d/s", acknowledged); err != nil {
		t.Error(err)
	}
}

// A checkpoint that fails at any operation leaves the store intact, and no store in the
// new directory.
func TestEveryCheckpointFails(t *testing.T) {
	t.Parallel()
	for n := int64(1); ; n++ {
		disk := storagetest.NewCrashable()
		p := smallPool(t, disk)
		s, err := p.Create("d/s")
		if err != nil {
			t.Fatal(err)
		}
		acknowledged, err := story(s, 20)
		if err != nil {
			t.Fatal(err)
		}
		disk.FailAt(n)
		within(t, "Checkpoint", func() { err = s.Checkpoint("d/copies/one") })
		_, failed := disk.Operations()
		disk.Heal()
		if s.Err() == nil {
			_, storyErr := story(s, 1)
			if storyErr != nil {
				t.Fatalf("operation %d: store after a checkpoint: %v", n, storyErr)
			}
		}
		crashed := disk.Crash(0, uint64(n))
		_ = s.Close()
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		if err == nil {
			if err := judge(crashed, "d/copies/one", acknowledged); err != nil {
				t.Fatalf("operation %d: checkpoint that succeeded: %v", n, err)
			}
		} else if err := judge(disk, "d/copies/one", 0); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("operation %d: checkpoint that failed is a store: %v", n, err)
		}
		if failed == 0 {
			return
		}
	}
}

// Readers get an error for a table that cannot be read, and damage is distinguished
// from other errors.
func TestReadErrors(t *testing.T) {
	t.Parallel()
	disk := storagetest.NewCrashable()
	p, err := storage.NewPool(storage.Options{FS: disk.FS(), CacheBytes: 1 << 10})
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.Create("d/s")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := story(s, 100); err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	read := func() error {
		snapshot := s.Snapshot()
		defer snapshot.Close()
		_, _, err := snapshot.Get(nil, []byte("mrow00000"))
		it := snapshot.Iter(nil, nil)
		for ok := it.First(); ok; ok = it.Next() {
			_ = it.Value()
		}
		list := snapshot.PostingsRange(t.Context(), []byte("t"), []byte("u"))
		_, listErr := list.Count()
		return errors.Join(err, it.Close(), listErr, list.Close())
	}
	failures := 0
	for n := int64(1); n < 200; n++ {
		disk.FailReadAt(n)
		err := read()
		_, failed := disk.Operations()
		disk.Heal()
		if failed == 0 {
			break
		}
		if err != nil {
			failures++
			if !errors.Is(err, storagetest.ErrInjected) || storage.IsCorrupt(err) {
				t.Errorf("operation %d: %v, want the injected error and no corruption", n, err)
			}
		}
	}
	if failures == 0 {
		t.Error("no read failed")
	}
	if err := read(); err != nil {
		t.Errorf("after the disk healed: %v", err)
	}
	if err := errors.Join(s.Close(), p.Close()); err != nil {
		t.Fatal(err)
	}
}
