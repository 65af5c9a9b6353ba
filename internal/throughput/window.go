package throughput

import (
	"sync"
	"time"
)

// Window admits a number of events in any time span of a given length, and
// returns when the next may come. It is safe for concurrent use. Create it with
// [NewWindow].
type Window struct {
	span time.Duration

	mu sync.Mutex

	// times is a ring with the times of the last events; next is the oldest.
	times []time.Time
	next  int
}

// NewWindow returns a Window without events. most must be positive.
func NewWindow(most int, span time.Duration) *Window {
	return &Window{span: span, times: make([]time.Time, most)}
}

// Take admits and counts an event, or returns how long it would have to wait; a
// refused event does not count.
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
