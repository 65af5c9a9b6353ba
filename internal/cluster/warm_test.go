package cluster_test

import (
	"context"
	"testing"
)

// Warm opens all partitions of a container, or about as many as may be open: those
// that are opened at the same time are all in use.
func TestWarm(t *testing.T) {
	t.Parallel()
	for _, most := range []int{0, 3} {
		w, _ := start(t, most)
		c, err := w.create("c", 20)
		if err != nil {
			t.Fatal(err)
		}
		other, err := w.create("other", 2)
		if err != nil {
			t.Fatal(err)
		}
		w.node.Warm(context.Background(), c)
		open := 0
		for _, p := range c.Partitions() {
			if w.node.IsOpen(c, p.ID) {
				open++
			}
		}
		if most == 0 && open < 20 || most > 0 && open > most+8 || open == 0 {
			t.Errorf("at most %d open: %d of 20 are", most, open)
		}
		if w.node.IsOpen(other, 0) {
			t.Error("a partition of another container was opened")
		}
		// Whoever ends at once opens none and hangs nowhere.
		cancelled, cancel := context.WithCancel(context.Background())
		cancel()
		w.node.Warm(cancelled, other)
	}
}
