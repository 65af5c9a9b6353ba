package engine

import (
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Each piece of work is done once, whether or not other goroutines help.
func TestOneByOneDoesEachOnce(t *testing.T) {
	t.Parallel()
	for n := range 12 {
		for slow := range n + 1 { // from this one on, help is worth its cost
			synctest.Test(t, func(t *testing.T) {
				done := make([]atomic.Int64, n)
				oneByOne(n, func(i int) {
					done[i].Add(1)
					if i >= slow {
						time.Sleep(helpTime)
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

// Only work that takes long gets help from other goroutines.
func TestOneByOneHelp(t *testing.T) {
	t.Parallel()
	for each, want := range map[time.Duration]bool{helpTime / 10: false, helpTime / 2: true} {
		synctest.Test(t, func(t *testing.T) {
			var running, most atomic.Int64
			oneByOne(8, func(int) {
				now := running.Add(1)
				defer running.Add(-1)
				time.Sleep(each)
				for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
				}
			})
			if helped := most.Load() > 1; helped != want && runtime.GOMAXPROCS(0) > 1 {
				t.Errorf("8 times %v: help %v, want %v", each, helped, want)
			}
		})
	}
}

// A panic in a helping goroutine is raised again in the caller.
func TestOneByOnePanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		defer func() {
			if r := recover(); r != "five" {
				t.Errorf("recovered %v", r)
			}
		}()
		oneByOne(8, func(i int) {
			time.Sleep(helpTime)
			if i == 5 {
				panic("five")
			}
		})
		t.Error("no panic")
	})
}
