package server

import (
	"sync"
	"testing"
)

// TestGiveWay makes more goroutines yield at once than there are pipes, while the
// pipes are closed: each returns, and no descriptor is left.
func TestGiveWay(t *testing.T) {
	var g givers
	const rounds = 50
	give := func() {
		var wait sync.WaitGroup
		for range 2 * pipesMax {
			wait.Go(func() {
				for range rounds {
					g.giveWay()
				}
			})
		}
		wait.Wait()
	}
	give()
	if g.closed {
		t.Fatal("pipes cannot be waited for here")
	}
	if g.pipes == 0 || g.pipes > pipesMax || g.pipes != len(g.idle) {
		t.Fatalf("%d pipes, of which %d are idle; at most %d are wanted, all idle", g.pipes, len(g.idle), pipesMax)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	give()
	if g.pipes != 0 || len(g.idle) != 0 {
		t.Fatalf("%d pipes are left, %d idle", g.pipes, len(g.idle))
	}
}
