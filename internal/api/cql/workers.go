package cql

import "sync"

// workersKept is the number of goroutines that wait for requests at most.
const workersKept = 256

// workers runs requests in goroutines that it keeps: the stack of a new goroutine would
// grow several times during each request. The zero value has none. close ends those that
// wait.
type workers struct {
	running sync.WaitGroup

	mu      sync.Mutex
	waiting []chan *request // guarded by mu: one for each goroutine that waits; the last one began last
	closed  bool            // guarded by mu
}

// start runs a request in a goroutine.
func (w *workers) start(r *request) {
	w.mu.Lock()
	if n := len(w.waiting); n > 0 {
		to := w.waiting[n-1]
		w.waiting = w.waiting[:n-1]
		w.mu.Unlock()
		to <- r // It has room for one.
		return
	}
	w.mu.Unlock()
	w.running.Go(func() { w.work(r) })
}

// work runs a request, and those that follow it.
func (w *workers) work(r *request) {
	next := make(chan *request, 1)
	for ok := true; ok; r, ok = <-next {
		r.run()
		r.connection.running.Done()
		if !w.wait(next) {
			return
		}
	}
}

// wait makes a goroutine one that waits, unless there are enough.
func (w *workers) wait(next chan *request) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || len(w.waiting) >= workersKept {
		return false
	}
	w.waiting = append(w.waiting, next)
	return true
}

// close ends the goroutines. The caller has ended all requests and starts no more.
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
