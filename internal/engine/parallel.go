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

// helpTime is how much work must be left to be worth help: what another processor
// reads is not in its caches, which costs as much as waking it.
const helpTime = 500 * time.Microsecond

// oneByOne is parallel for work of which most is done before another goroutine
// would have begun with it: the caller does it, and has help as soon as what is
// done so far says that the rest takes longer than helpTime.
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

// openersMax is how many partitions are opened at the same time for one page.
const openersMax = 8

// parallel is workers with as many as there are processors.
func parallel(n int, do func(i int)) { workers(n, runtime.GOMAXPROCS(0), do) }

// workers calls do for each i below n, at most that many at once, and returns
// when all have. A panic in one of them goes on in the caller.
func workers(n, most int, do func(i int)) {
	most = min(n, most)
	if most <= 1 {
		for i := range n {
			do(i)
		}
		return
	}
	var next atomic.Int64
	var group sync.WaitGroup
	var trouble atomic.Pointer[any]
	for range most {
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
