package server

import (
	"sync"
	"testing"
)

// TestYield makes more goroutines yield at once than there are pipes, while the
// pipes are closed: each returns, and no descriptor is left.
func TestYield(t *testing.T) {
	var y yielder
	const rounds = 50
	give := func() {
		var wait sync.WaitGroup
		for range 2 * pipesMax {
			wait.Go(func() {
				for range rounds {
					y.yield()
				}
			})
		}
		wait.Wait()
	}
	give()
	if y.closed {
		t.Fatal("this system cannot wait for pipes")
	}
	if y.pipes == 0 || y.pipes > pipesMax || y.pipes != len(y.idle) {
		t.Fatalf("%d pipes, of which %d are idle; at most %d are wanted, all idle", y.pipes, len(y.idle), pipesMax)
	}
	if err := y.Close(); err != nil {
		t.Fatal(err)
	}
	give()
	if y.pipes != 0 || len(y.idle) != 0 {
		t.Fatalf("%d pipes are left, %d idle", y.pipes, len(y.idle))
	}
}
