package storage_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/storage/storagetest"
)

// watchedPool watches a disk and reserves 1/32 of it.
func watchedPool(t testing.TB, disk *storagetest.Disk) *storage.Pool {
	t.Helper()
	p, err := storage.NewPool(storage.Options{
		FS: disk.FS(), MemTableBytes: 64 << 10, CacheBytes: 1 << 20,
		ReserveDir: "d/reserve", ReserveBytes: storage.ReserveDefault,
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// put writes one row of the given size, unless the disk is full.
func put(s *storage.Store, i, size int) error {
	if err := s.CanGrow(); err != nil {
		return err
	}
	b := s.NewBatch()
	return errors.Join(b.Set(fmt.Appendf(nil, "mrow%05d", i), incompressible(i, size)), s.Apply(b), b.Close())
}

// incompressible returns random bytes, which no table compresses.
func incompressible(seed, size int) []byte {
	text, x := make([]byte, size), uint64(seed)*2654435761+1
	for i := range text {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		text[i] = byte(x)
	}
	return text
}

// take removes a row, for which the disk has space.
func take(s *storage.Store, i int) error {
	b := s.NewBatch()
	return errors.Join(b.Delete(fmt.Appendf(nil, "mrow%05d", i)), s.Apply(b), b.Close())
}

func has(t *testing.T, s *storage.Store, i int) bool {
	t.Helper()
	snapshot := s.Snapshot()
	found, err := snapshot.Has(fmt.Appendf(nil, "mrow%05d", i))
	if err := errors.Join(err, snapshot.Close()); err != nil {
		t.Fatal(err)
	}
	return found
}

// A disk that fills up refuses writes that grow before a failed write stops the store.
// Deletions work and free space; then every write does.
func TestDiskFillsUp(t *testing.T) {
	t.Parallel()
	disk := storagetest.NewCrashable()
	disk.Limit(32 << 20)
	p := watchedPool(t, disk)
	s, err := p.Create("d/s")
	if err != nil {
		t.Fatal(err)
	}
	fill := func(from int) (to int) {
		for i := from; ; i++ {
			err := put(s, i, 60_000)
			if status.CodeOf(err) == status.CodeInsufficientStorage {
				return i
			}
			if err != nil {
				t.Fatalf("row %d: %v", i, err)
			}
		}
	}
	rows := fill(0)
	if used := disk.Used(); used < 26<<20 || used > 31<<20 {
		t.Errorf("refused at %d bytes of 32 MB", used)
	}
	if space := p.CheckSpace(); !space.Full || space.Reserve == 0 || space.Free < 512<<10 {
		t.Errorf("space of a full disk: %+v", space)
	}
	// Another program takes the rest.
	other, err := disk.FS().Create("other", "")
	if err != nil {
		t.Fatal(err)
	}
	rest := p.CheckSpace().Free
	if err := other.Preallocate(0, rest); err != nil {
		t.Fatal(err)
	}
	if space := p.CheckSpace(); space.Free == 0 || space.Reserve >= 1<<20 {
		t.Errorf("no part of the reserve was released: %+v", space)
	}
	if !has(t, s, 0) || !has(t, s, rows-1) {
		t.Error("rows cannot be read on a full disk")
	}
	for i := range rows - 10 {
		if err := take(s, i); err != nil {
			t.Fatalf("delete row %d of %d: %v, %+v", i, rows, err, p.CheckSpace())
		}
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteRange([]byte("mrow00000"), fmt.Appendf(nil, "mrow%05d", rows-10)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(other.Close(), disk.FS().Remove("other"), s.Flush()); err != nil {
		t.Fatal(err)
	}
	within(t, "room after deletions", func() {
		for p.CheckSpace().Full {
			_ = s.Flush()
		}
	})
	again := fill(rows)
	if again < rows+rows/4 {
		t.Errorf("%d rows fitted in after %d of %d were deleted", again-rows, rows-10, rows)
	}
	for i := rows - 10; i < again; i++ {
		if !has(t, s, i) {
			t.Fatalf("row %d is lost", i)
		}
	}
	if err := errors.Join(s.Close(), p.Close()); err != nil {
		t.Fatal(err)
	}
}

// A store on a full disk is opened read-only, also after a crash, and has everything.
// Once there is space it accepts writes again.
func TestOpenOnFullDisk(t *testing.T) {
	t.Parallel()
	for _, reserve := range []int64{0, storage.ReserveDefault} {
		t.Run(fmt.Sprintf("reserve=%d", reserve), func(t *testing.T) {
			t.Parallel()
			disk := storagetest.NewCrashable()
			disk.Limit(64 << 20)
			p := watchedPool(t, disk)
			s, err := p.Create("d/s")
			if err != nil {
				t.Fatal(err)
			}
			for i := range 100 {
				if err := put(s, i, 10_000); err != nil {
					t.Fatal(err)
				}
			}
			crashed := disk.Crash(0, 1)
			if err := errors.Join(s.Close(), p.Close()); err != nil {
				t.Fatal(err)
			}
			if reserve == 0 {
				if err := crashed.FS().RemoveAll("d/reserve"); err != nil {
					t.Fatal(err)
				}
			}
			crashed.Limit(64 << 20)
			other, err := crashed.FS().Create("other", "")
			if err == nil {
				err = errors.Join(other.Preallocate(0, 64<<20-crashed.Used()), other.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
			p = watchedPool(t, crashed)
			if s, err = p.Open("d/s"); err != nil {
				t.Fatal(err)
			}
			if s.ReadOnly() == (reserve > 0) {
				t.Errorf("reserve %d: the store is read-only: %v", reserve, s.ReadOnly())
			}
			for i := range 100 {
				if !has(t, s, i) {
					t.Fatalf("row %d is lost", i)
				}
			}
			if err := put(s, 1000, 10); status.CodeOf(err) != status.CodeInsufficientStorage {
				t.Errorf("a write on a full disk: %v", err)
			}
			if err := take(s, 1); (reserve > 0) != (err == nil) || err != nil && !storage.IsNoSpace(err) {
				t.Errorf("a deletion on a full disk: %v", err)
			}
			if err := errors.Join(s.Close(), p.Close()); err != nil {
				t.Fatal(err)
			}
			if err := crashed.FS().Remove("other"); err != nil {
				t.Fatal(err)
			}
			p = watchedPool(t, crashed)
			if s, err = p.Open("d/s"); err != nil {
				t.Fatal(err)
			}
			if s.ReadOnly() || !has(t, s, 0) || has(t, s, 1) != (reserve == 0) {
				t.Errorf("with free space: read-only %v, row 0 %v, row 1 %v", s.ReadOnly(), has(t, s, 0), has(t, s, 1))
			}
			if err := put(s, 1000, 10); err != nil {
				t.Error(err)
			}
			if err := errors.Join(s.Close(), p.Close()); err != nil {
				t.Fatal(err)
			}
		})
	}
}
