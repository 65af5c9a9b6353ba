package throughput

import (
	"sync"
	"time"
)

// Window lets a number of events through in any span of time of one length, and
// says when the next may come. It is safe for concurrent use. Make one with
// [NewWindow].
type Window struct {
	span time.Duration

	mu sync.Mutex

	// times has when the last events came, in a ring; next is the oldest.
	times []time.Time
	next  int
}

// NewWindow returns a Window that has seen nothing. most is positive.
func NewWindow(most int, span time.Duration) *Window {
	return &Window{span: span, times: make([]time.Time, most)}
}

// Take counts an event and lets it through, or says how long it would have to
// wait; what is refused does not count.
func (w *Window) Take(now time.Time) (wait time.Duration, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if oldest := w.times[w.next]; !oldest.IsZero() {
		if wait = oldest.Add(w.span).Sub(now); wait > 0 {
			return wait, false
		}
	}
	w.times[w.next] = now
	w.next = (w.next + 1) % len(w.times)
	return 0, true
}
