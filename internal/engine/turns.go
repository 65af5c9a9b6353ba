package engine

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

const (
	// freeTime is the processor time that a request may use before it needs a turn.
	// A query that finds a few documents takes less, so admission costs it nothing.
	freeTime = time.Millisecond

	// quantum is how long a query keeps its turn while others wait for one.
	quantum = 50 * time.Millisecond

	// busyTime is for how long after an operation on a single document one processor
	// is reserved for such operations.
	busyTime = 20 * time.Millisecond

	// turnWait is how long a query waits for its first turn before it is refused.
	turnWait = 10 * time.Second

	// pausedMax bounds pauses after a quantum: a goroutine keeps its turn while so
	// many are paused, because each of those keeps its snapshot and its memory.
	pausedMax = 8

	// Bounds of the retry time that a refused client gets.
	retryMin, retryMax = 100 * time.Millisecond, 5 * time.Second
)

// turns decides which goroutines may compute for heavy queries at the same time: as
// many as there are processors, and one fewer, but at least one, while operations on
// single documents come in. A query that has used freeTime needs a turn. If none is
// free, it waits in a line. The containers are served in rotation, and the queries
// of one container in the order of their arrival.
//
// There are two kinds of waiters: queries that have given up their results and
// start again with a turn, and goroutines that are paused in the middle of their
// work. Each kind gets every second turn that becomes free.
type turns struct {
	processors func() int
	clock      func() time.Duration // monotonic
	yield      func()               // yields to goroutines that wait for a processor
	lineMax    int                  // waiters in each line at most; more are refused
	refused    func()               // counts a refusal

	points    atomic.Uint64 // operations on single documents so far
	seen      atomic.Uint64 // value of points at the latest call of busy
	busyUntil atomic.Int64  // on the clock
	waiting   atomic.Int64  // in both lines

	mu sync.Mutex

	held       int // turns
	fresh      line
	paused     []*waiter
	pausedNext bool // the next turn is for a paused waiter
}

// waiter is a goroutine that waits for a turn.
type waiter struct {
	container resource.RID
	granted   bool          // guarded by turns.mu
	ready     chan struct{} // closed with granted
}

func newTurns(lineMax int, yield func()) *turns {
	if yield == nil {
		yield = runtime.Gosched
	}
	began := time.Now()
	return &turns{
		processors: func() int { return runtime.GOMAXPROCS(0) },
		clock:      func() time.Duration { return time.Since(began) },
		yield:      yield,
		refused:    func() {},
		lineMax:    lineMax,
	}
}

// point counts an operation on a single document.
func (t *turns) point() { t.points.Add(1) }

// busy reports whether an operation on a single document came in within
// busyTime.
func (t *turns) busy(now time.Duration) bool {
	if n := t.points.Load(); n != t.seen.Load() {
		t.seen.Store(n)
		t.busyUntil.Store(int64(now + busyTime))
		return true
	}
	return now < time.Duration(t.busyUntil.Load())
}

// limit returns how many turns there are now.
func (t *turns) limit(now time.Duration) int {
	n := t.processors()
	if t.busy(now) {
		n--
	}
	return max(1, n)
}

// takeLocked takes a turn if one is free and there are no waiters.
func (t *turns) takeLocked(now time.Duration) bool {
	t.admitLocked(now)
	if t.held >= t.limit(now) {
		return false
	}
	t.held++
	return true
}

// release returns a turn.
func (t *turns) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.releaseLocked(t.clock())
}

// releaseLocked is release with mu locked.
func (t *turns) releaseLocked(now time.Duration) {
	if t.held--; t.held < 0 {
		panic("turn returned twice")
	}
	t.admitLocked(now)
}

// admitLocked gives the free turns to waiters.
func (t *turns) admitLocked(now time.Duration) {
	for t.waiting.Load() > 0 && t.held < t.limit(now) {
		w := t.nextLocked()
		t.held++
		t.waiting.Add(-1)
		w.granted = true
		close(w.ready)
	}
}

// nextLocked removes the next waiter from its line and returns it. There must
// be one.
func (t *turns) nextLocked() *waiter {
	t.pausedNext = !t.pausedNext
	if len(t.paused) > 0 && (!t.pausedNext || t.fresh.n == 0) {
		w := t.paused[0]
		t.paused = slices.Delete(t.paused, 0, 1)
		return w
	}
	return t.fresh.pop()
}

// look gives waiters the turn that has become free because operations on single
// documents have ended.
func (t *turns) look(now time.Duration) {
	if t.waiting.Load() == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.admitLocked(now)
}

// full returns the error of a query or a write of a large document that finds the line
// full.
func (t *turns) full() error {
	t.refused()
	return status.TooManyRequests(status.SubSystemBusy, t.retryAfter(),
		"Other requests that take long are using the processors. Try again later, or ask for less: filter for fewer documents, or write a smaller document.")
}

// retryAfter estimates when each of the present waiters has had a turn.
func (t *turns) retryAfter() time.Duration {
	return min(max(time.Duration(t.waiting.Load())*quantum/time.Duration(t.processors()), retryMin), retryMax)
}

// waitFresh waits for a turn before any work, for at most turnWait. It also ends
// when stop is closed.
func (t *turns) waitFresh(ctx context.Context, stop <-chan struct{}, container resource.RID) error {
	t.mu.Lock()
	if t.takeLocked(t.clock()) {
		t.mu.Unlock()
		return nil
	}
	if t.fresh.n >= t.lineMax {
		t.mu.Unlock()
		return t.full()
	}
	w := &waiter{container: container, ready: make(chan struct{})}
	t.fresh.push(w)
	t.waiting.Add(1)
	t.mu.Unlock()
	timer := time.NewTimer(turnWait)
	defer timer.Stop()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		if t.abandon(w) {
			t.release()
		}
		return ctx.Err()
	case <-stop:
		if t.abandon(w) {
			t.release()
		}
		return context.Canceled
	case <-timer.C:
		if t.abandon(w) {
			return nil // It got a turn at the same moment.
		}
		return t.full()
	}
}

// abandon removes a waiter from its line. It reports true if the waiter got a
// turn meanwhile: the caller then has that turn.
func (t *turns) abandon(w *waiter) (granted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.granted {
		return true
	}
	if !t.fresh.remove(w) {
		t.paused = slices.DeleteFunc(t.paused, func(o *waiter) bool { return o == w })
	}
	t.waiting.Add(-1)
	return false
}

// line is a queue of waiters. The containers are served in rotation, and the
// waiters of one container in the order of their arrival.
type line struct {
	n          int
	containers []resource.RID // that have waiters, the next one first
	waiters    map[resource.RID][]*waiter
}

func (l *line) push(w *waiter) {
	if l.waiters == nil {
		l.waiters = map[resource.RID][]*waiter{}
	}
	list := l.waiters[w.container]
	if len(list) == 0 {
		l.containers = append(l.containers, w.container)
	}
	l.waiters[w.container] = append(list, w)
	l.n++
}

// pop removes and returns the first waiter. There must be one.
func (l *line) pop() *waiter {
	container := l.containers[0]
	list := l.waiters[container]
	w := list[0]
	l.containers = l.containers[1:]
	l.n--
	if len(list) == 1 {
		delete(l.waiters, container)
		return w
	}
	l.waiters[container] = list[1:]
	l.containers = append(l.containers, container)
	return w
}

// remove removes a waiter, and reports whether it was in the line.
func (l *line) remove(w *waiter) bool {
	list := l.waiters[w.container]
	i := slices.Index(list, w)
	if i < 0 {
		return false
	}
	l.n--
	if list = slices.Delete(list, i, i+1); len(list) > 0 {
		l.waiters[w.container] = list
		return true
	}
	delete(l.waiters, w.container)
	l.containers = slices.DeleteFunc(l.containers, func(c resource.RID) bool { return c == w.container })
	return true
}
