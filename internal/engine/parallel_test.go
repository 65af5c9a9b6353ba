package engine

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Each piece of work is done once, whether or not the caller gets help on the way.
func TestOneByOneDoesEachOnce(t *testing.T) {
	t.Parallel()
	for n := range 12 {
		for slow := range n + 1 { // from this one on help is worth its while
			synctest.Test(t, func(t *testing.T) {
				done := make([]atomic.Int64, n)
				oneByOne(n, func(i int) {
					done[i].Add(1)
					if i >= slow {
						time.Sleep(2 * quickTime)
					}
				})
				for i := range done {
					if got := done[i].Load(); got != 1 {
						t.Errorf("%d of %d, slow from %d on: done %d times", i, n, slow, got)
					}
				}
			})
		}
	}
}

// A panic among the helpers goes on in the caller.
func TestOneByOnePanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		defer func() {
			if r := recover(); r != "five" {
				t.Errorf("recovered %v", r)
			}
		}()
		oneByOne(8, func(i int) {
			time.Sleep(2 * quickTime)
			if i == 5 {
				panic("five")
			}
		})
		t.Error("no panic")
	})
}
