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
	// freeTime is how much processor time a request works before it needs a turn. A
	// query that finds a few documents takes less, and pays nothing.
	freeTime = time.Millisecond

	// quantum is how long a query keeps its turn while others wait for one.
	quantum = 50 * time.Millisecond

	// busyTime is for how long after an operation on a single document one processor
	// is kept from heavy queries.
	busyTime = 20 * time.Millisecond

	// turnWait is how long a query waits for its first turn before it is refused.
	turnWait = 10 * time.Second

	// pausedMax is how many goroutines may lose a turn in the middle of their work and
	// wait for another: each keeps its snapshot and its memory.
	pausedMax = 8

	// Bounds of how long a client that is refused is told to wait.
	retryMin, retryMax = 100 * time.Millisecond, 5 * time.Second
)

// turns decides which goroutines may compute for heavy queries at the same time: as
// many as there are processors, and one fewer, but at least one, while operations on
// single documents come in. A query that has used freeTime needs a turn. While none
// is free, queries wait in a line, each container's in the order of their arrival,
// and the containers take turns.
//
// Two kinds wait: those that have given up what they had and begin again with their
// turn, and those that are paused in the middle of their work. Both kinds get every
// second turn that becomes free.
type turns struct {
	processors func() int
	clock      func() time.Duration // monotonic
	yield      func()               // lets goroutines run that wait for a processor
	most       int                  // that wait in the line; more are refused
	refused    func()               // counts a refusal

	points    atomic.Uint64 // operations on single documents so far
	seen      atomic.Uint64 // of them, when a query looked last
	busyUntil atomic.Int64  // on the clock
	waiting   atomic.Int64  // in both lines

	mu sync.Mutex

	held    int // turns
	fresh   line
	paused  []*waiter
	byTurns bool // the next turn is for one that is paused
}

// waiter is a goroutine that waits for a turn.
type waiter struct {
	container resource.RID
	granted   bool          // guarded by turns.mu
	ready     chan struct{} // closed with granted
}

func newTurns(most int, yield func()) *turns {
	if yield == nil {
		yield = runtime.Gosched
	}
	began := time.Now()
	return &turns{
		processors: func() int { return runtime.GOMAXPROCS(0) },
		clock:      func() time.Duration { return time.Since(began) },
		yield:      yield,
		refused:    func() {},
		most:       most,
	}
}

// point notes an operation on a single document.
func (t *turns) point() { t.points.Add(1) }

// busy reports whether there were operations on single documents a moment ago.
func (t *turns) busy(now time.Duration) bool {
	if n := t.points.Load(); n != t.seen.Load() {
		t.seen.Store(n)
		t.busyUntil.Store(int64(now + busyTime))
		return true
	}
	return now < time.Duration(t.busyUntil.Load())
}

// limit is how many turns there are now.
func (t *turns) limit(now time.Duration) int {
	n := t.processors()
	if t.busy(now) {
		n--
	}
	return max(1, n)
}

// takeLocked takes a turn if one is free and nobody waits for it.
func (t *turns) takeLocked(now time.Duration) bool {
	t.admitLocked(now)
	if t.held >= t.limit(now) {
		return false
	}
	t.held++
	return true
}

// release gives a turn back.
func (t *turns) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.releaseLocked(t.clock())
}

// releaseLocked is release with mu locked.
func (t *turns) releaseLocked(now time.Duration) {
	if t.held--; t.held < 0 {
		panic("a turn was given back twice")
	}
	t.admitLocked(now)
}

// admitLocked hands out the turns that are free.
func (t *turns) admitLocked(now time.Duration) {
	for t.waiting.Load() > 0 && t.held < t.limit(now) {
		w := t.nextLocked()
		t.held++
		t.waiting.Add(-1)
		w.granted = true
		close(w.ready)
	}
}

// nextLocked takes the next waiter out of its line. There must be one.
func (t *turns) nextLocked() *waiter {
	t.byTurns = !t.byTurns
	if len(t.paused) > 0 && (!t.byTurns || t.fresh.n == 0) {
		w := t.paused[0]
		t.paused = slices.Delete(t.paused, 0, 1)
		return w
	}
	return t.fresh.pop()
}

// look hands out turns that have become free because there are no operations on
// single documents any more.
func (t *turns) look(now time.Duration) {
	if t.waiting.Load() == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.admitLocked(now)
}

// full is the refusal of a request, a query or a write of a large document, that finds
// too many in the line.
func (t *turns) full() error {
	t.refused()
	return status.TooManyRequests(status.SubSystemBusy, t.retryAfter(),
		"Other requests that take long keep the processors. Try again later, or ask for less: filter for fewer documents, or write a smaller document.")
}

// retryAfter is about when those that wait now have had a turn each.
func (t *turns) retryAfter() time.Duration {
	return min(max(time.Duration(t.waiting.Load())*quantum/time.Duration(t.processors()), retryMin), retryMax)
}

// waitFresh waits for a turn with nothing in hand. It gives up when stop is closed.
func (t *turns) waitFresh(ctx context.Context, stop <-chan struct{}, container resource.RID) error {
	t.mu.Lock()
	if t.takeLocked(t.clock()) {
		t.mu.Unlock()
		return nil
	}
	if t.fresh.n >= t.most {
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
		if t.forsake(w) {
			t.release()
		}
		return ctx.Err()
	case <-stop:
		if t.forsake(w) {
			t.release()
		}
		return context.Canceled
	case <-timer.C:
		if t.forsake(w) {
			return nil // It got one in the same moment, and keeps it.
		}
		return t.full()
	}
}

// forsake takes a waiter out of its line. It reports whether it has a turn, which
// it then keeps if its context has not ended.
func (t *turns) forsake(w *waiter) (granted bool) {
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

// line is waiters in the order in which they get a turn: by container in turns, and
// those of one container in the order in which they came.
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

// pop takes the first waiter out. There must be one.
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

// remove takes a waiter out, if it is there.
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
