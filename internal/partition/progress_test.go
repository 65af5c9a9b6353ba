package partition

import (
	"fmt"
	"testing"
)

// A policy whose rebuild was requested but has not begun is reported as 0 %, not as 100
// %: a client that waits for the new index would continue too early.
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
	w.container.Store(before) // withdrawn before it began
	progress(100)
	w.container.Store(&after)
	p.Reindex()
	p.waitIdle()
	progress(100)
}
