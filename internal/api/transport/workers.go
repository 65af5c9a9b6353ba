package transport

import "sync"

// Task is a request that a connection has read.
type Task interface {
	// Do serves the request.
	Do()
}

// Start does a task in a goroutine, and does not wait for it. A goroutine that has done
// others takes it, if one waits: the stack of a new one would grow several times during each
// request, which was a quarter of the time of serving in BenchmarkDirectMode. A connection
// must not end before its tasks have.
func (s *Server) Start(t Task) { s.workers.start(t) }

// workersKept is the number of goroutines that wait for tasks at most.
const workersKept = 256

// workers does tasks in goroutines that it keeps. The zero value has none. close ends them.
type workers struct {
	running sync.WaitGroup

	mu      sync.Mutex
	waiting []chan Task // guarded by mu: one for each goroutine that waits; the last one began last
	closed  bool        // guarded by mu
}

func (w *workers) start(t Task) {
	w.mu.Lock()
	if n := len(w.waiting); n > 0 {
		to := w.waiting[n-1]
		w.waiting = w.waiting[:n-1]
		w.mu.Unlock()
		to <- t // It has room for one.
		return
	}
	w.mu.Unlock()
	w.running.Go(func() { w.work(t) })
}

// work does a task, and those that follow it.
func (w *workers) work(t Task) {
	next := make(chan Task, 1)
	for ok := true; ok; t, ok = <-next {
		t.Do()
		if !w.wait(next) {
			return
		}
	}
}

// wait makes a goroutine one that waits, unless there are enough.
func (w *workers) wait(next chan Task) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || len(w.waiting) >= workersKept {
		return false
	}
	w.waiting = append(w.waiting, next)
	return true
}

// close ends the goroutines. The caller has waited for all tasks and starts no more.
func (w *workers) close() {
	w.mu.Lock()
	w.closed = true
	for _, next := range w.waiting {
		close(next)
	}
	w.waiting = nil
	w.mu.Unlock()
	w.running.Wait()
}
