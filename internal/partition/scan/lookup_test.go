package scan

import (
	"fmt"
	"testing"

	"github.com/decandb/decan/internal/index"
)

// A span is charged once, however often it is read, both while there are few spans,
// which are compared one by one, and when they are in a map.
func TestLookedOnce(t *testing.T) {
	t.Parallel()
	span := func(i int) index.Span {
		low := index.Term(fmt.Sprintf("%05d", i))
		return index.Span{Low: low, High: low + "\x01"}
	}
	for _, spans := range []int{1, lookedFew - 1, lookedFew, lookedFew + 1, lookedFew + 2, 5000} {
		s := new(Source)
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
		// Two spans differ if either end differs.
		wide := span(0)
		wide.High += "\x02"
		if s.look(wide); s.work.Lookups != int64(spans)+1 {
			t.Errorf("a wider span behind %d counts as %d", spans, s.work.Lookups)
		}
	}
}

// Numbers that share a slot replace each other, and are not confused. A key that is
// too long is not cached.
func TestLocationsShareSlots(t *testing.T) {
	t.Parallel()
	var p locations
	if got := p.of(5); got != "" {
		t.Errorf("an empty cache has %q", got)
	}
	p.keep(5, []byte("five"))
	p.keep(5+locationsMax, []byte("another"))
	if a, b := p.of(5), p.of(5+locationsMax); a != "" || b != "another" {
		t.Errorf("got %q and %q", a, b)
	}
	p.keep(6, make([]byte, locationBytesMax+1))
	p.keep(7, make([]byte, locationBytesMax))
	if a, b := p.of(6), p.of(7); a != "" || len(b) != locationBytesMax {
		t.Errorf("keys of %d and %d bytes are cached", len(a), len(b))
	}
}
