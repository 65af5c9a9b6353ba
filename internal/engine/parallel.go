package engine

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// quickTime is what work must take to be worth another goroutine: to wake one on
// another processor takes a good part of it.
const quickTime = 200 * time.Microsecond

// oneByOne is parallel for work of which most is done before another goroutine
// would have begun with it: the caller does it, and has help from the moment on
// that it turns out to be more.
func oneByOne(n int, do func(i int)) {
	begun := time.Now()
	for i := range n {
		if i > 0 && i < n-1 && time.Since(begun) > quickTime {
			parallel(n-i, func(j int) { do(i + j) })
			return
		}
		do(i)
	}
}

// parallel calls do for each i below n, as many at once as there are processors,
// and returns when all have. A panic in one of them goes on in the caller.
func parallel(n int, do func(i int)) {
	workers := min(n, runtime.GOMAXPROCS(0))
	if workers <= 1 {
		for i := range n {
			do(i)
		}
		return
	}
	var next atomic.Int64
	var group sync.WaitGroup
	var trouble atomic.Pointer[any]
	for range workers {
		group.Go(func() {
			defer func() {
				if r := recover(); r != nil {
					trouble.CompareAndSwap(nil, &r)
				}
			}()
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				do(int(i))
			}
		})
	}
	group.Wait()
	if r := trouble.Load(); r != nil {
		panic(*r)
	}
}
