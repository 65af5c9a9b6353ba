package partition

import (
	"fmt"
	"slices"
	"testing"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/partitionkey"
)

// An entry of the location cache is a hint: a document with a new id, a deleted one,
// and a new one with an old id are found as they are.
func TestLocationsAreHints(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/pk"}, ""))
	w.partition.Load().reader.Strategy.force.way = looks // look documents up however few there are
	const n = 40
	for i := range n {
		if _, err := w.write(Create, w.parse(fmt.Sprintf(`{"id":"%02d","pk":"a","n":%d}`, i, i%4)), nil); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(want ...string) {
		t.Helper()
		got, _, err := w.rows("SELECT VALUE c.id FROM c WHERE c.n = 1", partitionkey.Full(), 100, new(throughput.Meter))
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("got %v, %v, want %v", got, err, want)
		}
	}
	ids := func() (list []string) {
		for i := 1; i < n; i += 4 {
			list = append(list, fmt.Sprintf("%q", fmt.Sprintf("%02d", i)))
		}
		return list
	}
	want := ids()
	ask(want...)
	known := 0
	for counter := range uint64(n + 1) {
		if w.partition.Load().reader.locations.of(resource.NewNumber(w.own.Ordinal, counter)) != "" {
			known++
		}
	}
	if known != len(want) {
		t.Fatalf("%d locations are known after %d documents were found", known, len(want))
	}
	ask(want...)

	// The first has another id, the second is gone, the third is gone and another
	// document has its id, with a number behind all others.
	if _, err := w.write(Replace, w.parse(`{"id":"other","pk":"a","n":1}`), func(r *Write) { r.ID = "01" }); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"05", "09"} {
		if _, err := w.write(Delete, w.parse(fmt.Sprintf(`{"id":%q,"pk":"a"}`, id)), func(r *Write) { r.ID = id }); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.write(Create, w.parse(`{"id":"09","pk":"a","n":1}`), nil); err != nil {
		t.Fatal(err)
	}
	want = append(append([]string{`"other"`}, want[3:]...), `"09"`)
	ask(want...)
	ask(want...)
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
