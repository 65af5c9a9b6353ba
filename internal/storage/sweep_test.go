package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
)

// Sweeping during writes removes no number.
func TestSweepDuringWrites(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	const lists = 8
	stop := make(chan struct{})
	var sweeping, writers sync.WaitGroup
	sweeping.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			for l := range lists {
				s.sweeper.hint(appendChunk(fmt.Appendf(nil, "tlist%d", l), 0))
			}
			if err := s.sweep(0); err != nil {
				t.Error(err)
				return
			}
			runtime.Gosched()
		}
	})
	for w := range uint64(3) {
		writers.Go(func() {
			// The numbers of this writer are its own, so it knows which are in the list.
			r := rand.New(rand.NewPCG(w, 0))
			in := map[int]bool{}
			for range 1500 {
				l := r.IntN(lists)
				list := fmt.Appendf(nil, "tlist%d", l)
				b := s.NewBatch()
				var err error
				if in[l] {
					err = b.RemovePosting(list, w)
				} else {
					err = b.AddPosting(list, w)
				}
				in[l] = !in[l]
				if err := errors.Join(err, s.ApplyNoSync(b), b.Close()); err != nil {
					t.Error(err)
					return
				}
				snapshot := s.Snapshot()
				set := snapshot.Postings(list)
				found := false
				for n, ok := set.Next(); ok; n, ok = set.Next() {
					found = found || n == w
				}
				if err := errors.Join(set.Close(), snapshot.Close()); err != nil {
					t.Error(err)
					return
				}
				if found != in[l] {
					t.Errorf("writer %d: number in list %d: %v, want %v", w, l, found, in[l])
					return
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	sweeping.Wait()
}

// Hints are limited, and each is kept once.
func TestSweeperHints(t *testing.T) {
	t.Parallel()
	var w sweeper
	for i := range sweepMax + 100 {
		key := fmt.Appendf(nil, "%d", i)
		w.hint(key)
		w.hint(key)
	}
	if !w.due() {
		t.Error("a sweep is not due with the maximum of hints")
	}
	total := 0
	for keys := w.take(); len(keys) > 0; keys = w.take() {
		if len(keys) > sweepBatch {
			t.Errorf("%d hints at once", len(keys))
		}
		total += len(keys)
	}
	if total != sweepMax || w.due() {
		t.Errorf("%d hints, want %d", total, sweepMax)
	}
}
