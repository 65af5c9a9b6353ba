package partition

import (
	"fmt"
	"testing"

	"github.com/decandb/decan/internal/index"
)

// A policy that was asked for and not begun is a progress of nothing, and not of
// all: whoever waits for the new index would go on too early.
func TestProgressBeforeRebuild(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/id"}, ""))
	for i := range 30 {
		if _, err := w.write(Create, w.parse(fmt.Sprintf(`{"id":"%d","n":%d}`, i, i)), nil); err != nil {
			t.Fatal(err)
		}
	}
	p := w.partition.Load()
	p.waitIdle()
	progress := func(want int) {
		t.Helper()
		if got := p.Stats().IndexProgress; got != want {
			t.Errorf("progress %d, want %d", got, want)
		}
	}
	progress(100)
	before := w.container.Load()
	after := *before
	after.Indexing = containerWith(t, 2, []string{"/id"}, `{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/n/?"}]}`).Indexing
	w.container.Store(&after)
	progress(0)
	w.container.Store(before) // taken back before anybody began
	progress(100)
	w.container.Store(&after)
	p.Reindex()
	p.waitIdle()
	progress(100)
}

// A span counts for the charge once, however often it is asked for, both while
// few are compared one by one and when they are in a map.
func TestLookedOnce(t *testing.T) {
	t.Parallel()
	span := func(i int) index.Span {
		low := index.Term(fmt.Sprintf("%05d", i))
		return index.Span{Low: low, High: low + "\x01"}
	}
	for _, spans := range []int{1, lookedFew - 1, lookedFew, lookedFew + 1, lookedFew + 2, 5000} {
		s := new(source)
		for round := range 3 {
			for i := range spans {
				s.look(span(i))
				s.look(span(i / 2))
				if want := int64(i + 1); round == 0 && s.work.Lookups != want {
					t.Fatalf("%d spans count as %d", want, s.work.Lookups)
				}
			}
		}
		if s.work.Lookups != int64(spans) {
			t.Errorf("%d spans three times count as %d", spans, s.work.Lookups)
		}
		if many := s.lookedMany != nil; many != (spans > lookedFew) {
			t.Errorf("%d spans are in a map: %t", spans, many)
		}
		// Both ends tell one span from another.
		wide := span(0)
		wide.High += "\x02"
		if s.look(wide); s.work.Lookups != int64(spans)+1 {
			t.Errorf("a wider span behind %d counts as %d", spans, s.work.Lookups)
		}
	}
}
