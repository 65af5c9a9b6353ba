package storage

import (
	"errors"
	"testing"
	"time"
)

// pieces adds numbers to the list "tlist", each in a batch of its own.
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

// read reads the list "tlist", and wants so many numbers, and that a reader has seen it
// scattered by then or not.
func read(t *testing.T, s *Store, want int64, scattered bool) {
	t.Helper()
	snapshot := s.Snapshot()
	defer snapshot.Close()
	if n := count(t, snapshot); n != want || s.seen.Load() != scattered {
		t.Fatalf("%d numbers, scattered %v; want %d, %v", n, s.seen.Load(), want, scattered)
	}
}

// A store in which a row is read in many pieces is flushed once nobody writes, and
// who reads it then, even an older state of it, finds the row in one.
func TestScatteredStoresAreFlushed(t *testing.T) {
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

	// Another look does not start another timer; a write puts the flush off.
	read(t, s, piecesMany, true)
	pieces(t, s, piecesMany, piecesMany+1)
	if left := p.flushScattered(); !left || !s.dirty.Load() || !s.seen.Load() {
		t.Fatalf("at the look after a write: left %v, dirty %v", left, s.dirty.Load())
	}
	if left := p.flushScattered(); left || s.dirty.Load() || s.seen.Load() {
		t.Fatalf("at the second look: left %v, dirty %v", left, s.dirty.Load())
	}
	if n := count(t, older); n != piecesMany || s.seen.Load() {
		t.Fatalf("an older state: %d numbers, scattered %v", n, s.seen.Load())
	}
	must(t, older.Close())
}

// What is in a table is one piece of a row, and a flush that meets many is no reader.
func TestScatteredRows(t *testing.T) {
	t.Parallel()
	p := newPool(t, Options{InMemory: true, IdleFlush: -1})
	s, err := p.Create("s")
	must(t, err)
	defer s.Close()
	pieces(t, s, 0, piecesMany)
	must(t, s.Flush())
	if s.seen.Load() {
		t.Error("a flush counts as a reader")
	}
	pieces(t, s, 1000, 1000+piecesMany-2)
	read(t, s, 2*piecesMany-2, false)
	pieces(t, s, 2000, 2001)
	read(t, s, 2*piecesMany-1, true)
}

// The timer does it without anybody's help, and stands still afterwards.
func TestScatteredStoresAreFlushedByThemselves(t *testing.T) {
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
	p.gather.running.Wait()
	p.gather.mu.Lock()
	defer p.gather.mu.Unlock()
	if p.gather.timer != nil {
		t.Error("the timer runs while no store is scattered")
	}
}
