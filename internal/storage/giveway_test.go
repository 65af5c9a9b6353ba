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

// watcher is somebody who always wants the only processor, and notes whether it got it
// between two steps of somebody else.
type watcher struct {
	turns         atomic.Int64 // it had
	last          atomic.Int64 // turns at the last step
	steps, passed atomic.Int64 // in all, and without a turn since the one before
}

// step is called by who is watched.
func (w *watcher) step() {
	now := w.turns.Load()
	w.steps.Add(1)
	if w.last.Swap(now) == now {
		w.passed.Add(1)
	}
}

// watch calls act with one processor for act and the watcher together.
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
	t.Logf("%d steps, nobody else ran in front of %d of them", steps, passed)
	if steps < 50 {
		t.Errorf("%d steps say little", steps)
	}
	if passed > steps/10 {
		t.Errorf("nobody else ran in front of %d of %d steps", passed, steps)
	}
}

// watchedFS has every watchedBytes noted that are written to tables: two blocks or so.
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
// copies every few rows. The clock stands still, so that nobody keeps any time: how
// busy the machine is makes no difference. This test is not parallel, because it takes
// all processors but one away from the process.
func TestGivesWay(t *testing.T) {
	clock := courtesyClock
	t.Cleanup(func() { courtesyClock = clock }) // behind the pool's end
	courtesyClock = func() time.Duration { return 0 }
	var w watcher
	p := newPool(t, Options{FS: watchedFS{vfs.NewMem(), &w}})
	s, err := p.Create("s")
	must(t, err)
	const rows = 20_000
	r := rand.NewChaCha8([32]byte{})
	fill := func() {
		b := s.NewBatch()
		defer b.Close()
		value := make([]byte, 400) // that no block makes smaller
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
		holdCompactions(s) // None shall be over before it is watched.
		fill()
		must(t, s.Flush())
		w.watch(t, func() error {
			s.turn.opened()
			return s.db.Compact(t.Context(), low, high, false)
		})
	})
	t.Run("walk", func(t *testing.T) {
		b := s.NewBatch()
		defer b.Close()
		seen := 0
		w.watch(t, func() error {
			_, err := s.Walk(b, low, high, 1<<30, func(_, _ []byte) error {
				if seen++; seen%(2*paceRows) == 0 {
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
				if from, err = now.CopyTo(b, from, high, 2*paceRows*400); err != nil {
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

// Whoever gives way keeps a fifth of the time, however long the others take, and keeps
// the processor for no longer than Go would leave it.
func TestCourtesy(t *testing.T) {
	t.Parallel()
	const piece = 100 * time.Microsecond
	for _, others := range []time.Duration{0, time.Microsecond, piece, time.Millisecond, 30 * time.Millisecond, time.Second} {
		var c courtesy
		var now, worked, waited, stretch, longest time.Duration
		for range 100_000 {
			now += piece
			worked += piece
			stretch += piece
			longest = max(longest, stretch)
			c.give(func() time.Duration { return now }, func() {
				now += others
				waited += others
				stretch = 0
			})
		}
		if most := min(others/courtesyShare, courtesyKeeps) + piece; longest > most {
			t.Errorf("others take %v: it kept the processor for %v, want %v at most", others, longest, most)
		}
		if least := (worked + waited) / (1 + courtesyShare); others <= courtesyShare*courtesyKeeps && worked < least-others {
			t.Errorf("others take %v: it worked for %v of %v", others, worked, worked+waited)
		}
		if others > 0 && waited == 0 {
			t.Errorf("others take %v: it never gave way", others)
		}
	}
}
