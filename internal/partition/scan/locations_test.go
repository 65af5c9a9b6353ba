package scan_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/partition/scan"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/partitionkey"
)

// An entry of the location cache is a hint: a document with a new id, a deleted one,
// and a new one with an old id are found correctly.
func TestLocationsAreHints(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "/pk", "")
	w.reader.Strategy.Force.Way = scan.Looks // look up documents however few there are
	const n = 40
	for i := range n {
		w.write(partition.Create, "", fmt.Sprintf(`{"id":"%02d","pk":"a","n":%d}`, i, i%4))
	}
	ask := func(want ...string) {
		t.Helper()
		got := w.rows("SELECT VALUE c.id FROM c WHERE c.n = 1", partitionkey.Full(), query.Budget{MaxItems: 100}, nil)
		if !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
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
		if w.reader.Location(resource.NewNumber(w.own.Ordinal, counter)) != "" {
			known++
		}
	}
	if known != len(want) {
		t.Fatalf("%d locations are known after %d documents were found", known, len(want))
	}
	ask(want...)

	// The first has another id, the second is deleted, the third is deleted and another
	// document has its id, with the greatest number.
	w.write(partition.Replace, "01", `{"id":"other","pk":"a","n":1}`)
	for _, id := range []string{"05", "09"} {
		w.write(partition.Delete, id, fmt.Sprintf(`{"id":%q,"pk":"a"}`, id))
	}
	w.write(partition.Create, "", `{"id":"09","pk":"a","n":1}`)
	want = append(append([]string{`"other"`}, want[3:]...), `"09"`)
	ask(want...)
	ask(want...)
}
