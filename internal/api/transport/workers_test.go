package transport

import (
	"runtime"
	"sync"
	"testing"
)

// task reports the goroutine that does it.
type task struct {
	done sync.WaitGroup
	in   chan string
	hold chan struct{} // nil for a task that does not wait
}

func (k *task) Do() {
	defer k.done.Done()
	stack := make([]byte, 64)
	k.in <- string(stack[:runtime.Stack(stack, false)])
	if k.hold != nil {
		<-k.hold
	}
}

// TestWorkersAreKept: tasks that follow each other need few goroutines, tasks at the same
// time one each, and close leaves none.
func TestWorkersAreKept(t *testing.T) {
	s := New(Config{})
	k := &task{in: make(chan string, workersKept*2)}
	seen := map[string]bool{}
	const n = 200
	for range n {
		k.done.Add(1)
		s.Start(k)
		seen[<-k.in] = true
		k.done.Wait()
	}
	if len(seen) > n/4 {
		t.Errorf("%d goroutines for %d tasks, one after another", len(seen), n)
	}

	held := &task{in: make(chan string, workersKept*2), hold: make(chan struct{})}
	held.done.Add(workersKept * 2)
	for range workersKept * 2 {
		s.Start(held)
	}
	for range workersKept * 2 {
		<-held.in // All run at the same time.
	}
	close(held.hold)
	held.done.Wait()
	s.workers.close()
	if n := len(s.workers.waiting); n != 0 {
		t.Errorf("%d goroutines wait after close", n)
	}
}
