package storage

import (
	"fmt"
	"math/rand/v2"
	"path"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// watcher is a goroutine that is always ready to use the only processor. It counts how
// often it ran between two steps of the work that it watches.
type watcher struct {
	turns         atomic.Int64 // how often it ran
	last          atomic.Int64 // turns at the last step
	steps, passed atomic.Int64 // steps, and those before which it did not run
}

// step is called by the work.
func (w *watcher) step() {
	now := w.turns.Load()
	w.steps.Add(1)
	if w.last.Swap(now) == now {
		w.passed.Add(1)
	}
}

// watch calls act, which shares one processor with the watcher.
func (w *watcher) watch(t *testing.T, act func() error) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	w.steps.Store(0)
	w.passed.Store(0)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				w.turns.Add(1)
				runtime.Gosched()
			}
		}
	}()
	err := act()
	close(stop)
	<-stopped
	must(t, err)
	steps, passed := w.steps.Load(), w.passed.Load()
	t.Logf("%d steps, the watcher did not run before %d of them", steps, passed)
	if steps < 50 {
		t.Errorf("%d steps are too few for a result", steps)
	}
	if passed > steps/10 {
		t.Errorf("the watcher did not run before %d of %d steps", passed, steps)
	}
}

// watchedFS calls step for every watchedBytes, about two blocks, written to tables.
type watchedFS struct {
	vfs.FS
	by *watcher
}

const watchedBytes = 16 << 10

type watchedFile struct {
	vfs.File
	by      *watcher
	written int // since the last step
}

func (w watchedFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := w.FS.Create(name, category)
	if err != nil || path.Ext(name) != ".sst" {
		return f, err
	}
	return &watchedFile{File: f, by: w.by}, nil
}

func (f *watchedFile) Write(p []byte) (int, error) {
	if f.written += len(p); f.written >= watchedBytes {
		f.written = 0
		f.by.step()
	}
	return f.File.Write(p)
}

// Flushes and compactions let others run after every block they write, and walks and
// copies every few rows. The clock is stopped, so the work never keeps its processor and
// the load of the machine does not matter. This test is not parallel, because it leaves
// the process only one processor.
func TestPacing(t *testing.T) {
	var w watcher
	p := newPool(t, Options{FS: watchedFS{vfs.NewMem(), &w}, clock: func() time.Duration { return 0 }})
	s, err := p.Create("s")
	must(t, err)
	const rows = 20_000
	r := rand.NewChaCha8([32]byte{})
	fill := func() {
		b := s.NewBatch()
		defer b.Close()
		value := make([]byte, 400) // incompressible
		for i := range rows {
			_, _ = r.Read(value) // never fails
			must(t, b.Set(fmt.Appendf(nil, "d%08d", i), value))
			if b.Len() > 1<<16 {
				must(t, s.ApplyNoSync(b))
				b.Reset()
			}
		}
		must(t, s.ApplyNoSync(b))
	}
	low, high := FamilyDocument.Bounds()

	t.Run("flush", func(t *testing.T) {
		w.watch(t, func() error { fill(); return s.Flush() })
	})
	t.Run("compaction", func(t *testing.T) {
		holdCompactions(s) // None may end before it is watched.
		fill()
		must(t, s.Flush())
		w.watch(t, func() error {
			s.compactions.opened()
			return s.db.Compact(t.Context(), low, high, false)
		})
	})
	t.Run("walk", func(t *testing.T) {
		b := s.NewBatch()
		defer b.Close()
		seen := 0
		w.watch(t, func() error {
			_, err := s.Walk(b, low, high, 1<<30, func(_, _ []byte) error {
				if seen++; seen%(2*yieldRows) == 0 {
					w.step()
				}
				return nil
			})
			return err
		})
	})
	t.Run("copy", func(t *testing.T) {
		b := s.NewBatch()
		defer b.Close()
		now := s.Snapshot()
		w.watch(t, func() error {
			for from, more := low, true; more; more = from != nil {
				w.step()
				if from, err = now.CopyTo(b, from, high, 2*yieldRows*400); err != nil {
					return err
				}
				b.Reset()
			}
			return nil
		})
		must(t, now.Close())
	})
	must(t, s.Close())
}

// Paced work keeps a fifth of the time, however long others run, and never keeps the
// processor for longer than the Go scheduler would let it.
func TestPacer(t *testing.T) {
	t.Parallel()
	const piece = 100 * time.Microsecond
	for _, others := range []time.Duration{0, time.Microsecond, piece, time.Millisecond, 30 * time.Millisecond, time.Second} {
		var p pacer
		var now, worked, waited, stretch, longest time.Duration
		for range 100_000 {
			now += piece
			worked += piece
			stretch += piece
			longest = max(longest, stretch)
			p.pause(func() time.Duration { return now }, func() {
				now += others
				waited += others
				stretch = 0
			})
		}
		if most := min(others/pacerShare, pacerKeepMax) + piece; longest > most {
			t.Errorf("others take %v: it kept the processor for %v, want %v at most", others, longest, most)
		}
		if least := (worked + waited) / (1 + pacerShare); others <= pacerShare*pacerKeepMax && worked < least-others {
			t.Errorf("others take %v: it worked for %v of %v", others, worked, worked+waited)
		}
		if others > 0 && waited == 0 {
			t.Errorf("others take %v: it never yielded", others)
		}
	}
}
