package engine

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// quickTime is how long work must take to be worth another goroutine: waking one
// on another processor takes a large part of that.
const quickTime = 200 * time.Microsecond

// helpTime is how much work must be left to be worth other goroutines: their
// processors have to fill their caches, which costs as much as waking them.
const helpTime = 500 * time.Microsecond

// oneByOne is parallel for work of which most is done before another goroutine
// could begin. The caller does it alone until the time taken so far suggests
// that the rest takes longer than helpTime; then it does the rest in parallel.
func oneByOne(n int, do func(i int)) {
	begun := time.Now()
	for i := range n {
		if i > 0 && i < n-1 && time.Since(begun)/time.Duration(i)*time.Duration(n-i) > helpTime {
			parallel(n-i, func(j int) { do(i + j) })
			return
		}
		do(i)
	}
}

// openersMax is how many partitions are opened at the same time for one page,
// at most.
const openersMax = 8

// parallel is workers with one goroutine per processor.
func parallel(n int, do func(i int)) { workers(n, runtime.GOMAXPROCS(0), do) }

// workers calls do for each i below n, in at most limit goroutines, and returns
// when all calls have. A panic in one of them is raised again in the caller.
func workers(n, limit int, do func(i int)) {
	limit = min(n, limit)
	if limit <= 1 {
		for i := range n {
			do(i)
		}
		return
	}
	var next atomic.Int64
	var group sync.WaitGroup
	var trouble atomic.Pointer[any]
	for range limit {
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
