package storage

import (
	"errors"
	"testing"
	"time"
)

// pieces adds numbers to the list "tlist", each in its own batch.
func pieces(t *testing.T, s *Store, from, to uint64) {
	t.Helper()
	for n := from; n < to; n++ {
		b := s.NewBatch()
		must(t, errors.Join(b.AddPosting([]byte("tlist"), n), s.ApplyNoSync(b), b.Close()))
	}
}

// count reads the list "tlist".
func count(t *testing.T, s *Snapshot) int64 {
	t.Helper()
	list := s.Postings([]byte("tlist"))
	n, err := list.Count()
	must(t, errors.Join(err, list.Close()))
	return n
}

// read reads the list "tlist" and checks how many numbers it has, and whether the store
// is fragmented afterwards.
func read(t *testing.T, s *Store, want int64, fragmented bool) {
	t.Helper()
	snapshot := s.Snapshot()
	defer snapshot.Close()
	if n := count(t, snapshot); n != want || s.isFragmented.Load() != fragmented {
		t.Fatalf("%d numbers, fragmented %v; want %d, %v", n, s.isFragmented.Load(), want, fragmented)
	}
}

// A store in which a row was read in many pieces is flushed once no writes arrive.
// Later readers, even of an older snapshot, find the row in one piece.
func TestFragmentedStoresAreFlushed(t *testing.T) {
	t.Parallel()
	p := newPool(t, Options{InMemory: true, IdleFlush: -1})
	s, err := p.Create("s")
	must(t, err)
	defer s.Close()
	pieces(t, s, 0, piecesMany-1)
	read(t, s, piecesMany-1, false)
	pieces(t, s, piecesMany-1, piecesMany)
	older := s.Snapshot()
	read(t, s, piecesMany, true)

	// Another read starts no second timer; a write delays the flush.
	read(t, s, piecesMany, true)
	pieces(t, s, piecesMany, piecesMany+1)
	if left := p.flushFragmented(); !left || !s.dirty.Load() || !s.isFragmented.Load() {
		t.Fatalf("at the run after a write: left %v, dirty %v", left, s.dirty.Load())
	}
	if left := p.flushFragmented(); left || s.dirty.Load() || s.isFragmented.Load() {
		t.Fatalf("at the second run: left %v, dirty %v", left, s.dirty.Load())
	}
	if n := count(t, older); n != piecesMany || s.isFragmented.Load() {
		t.Fatalf("an older snapshot: %d numbers, fragmented %v", n, s.isFragmented.Load())
	}
	must(t, older.Close())
}

// A table has a row in one piece, and a flush that merges many pieces does not count as
// a reader.
func TestFragmentedRows(t *testing.T) {
	t.Parallel()
	p := newPool(t, Options{InMemory: true, IdleFlush: -1})
	s, err := p.Create("s")
	must(t, err)
	defer s.Close()
	pieces(t, s, 0, piecesMany)
	must(t, s.Flush())
	if s.isFragmented.Load() {
		t.Error("a flush counts as a reader")
	}
	pieces(t, s, 1000, 1000+piecesMany-2)
	read(t, s, 2*piecesMany-2, false)
	pieces(t, s, 2000, 2001)
	read(t, s, 2*piecesMany-1, true)
}

// The timer flushes the store, and stops afterwards.
func TestFragmentedStoresAreFlushedByThemselves(t *testing.T) {
	t.Parallel()
	p := newPool(t, Options{InMemory: true, IdleFlush: time.Hour})
	s, err := p.Create("s")
	must(t, err)
	defer s.Close()
	pieces(t, s, 0, piecesMany)
	snapshot := s.Snapshot()
	defer snapshot.Close()
	count(t, snapshot)
	for s.dirty.Load() {
		time.Sleep(time.Millisecond)
	}
	p.fragmentedFlush.running.Wait()
	p.fragmentedFlush.mu.Lock()
	defer p.fragmentedFlush.mu.Unlock()
	if p.fragmentedFlush.timer != nil {
		t.Error("the timer runs while no store is fragmented")
	}
}
