package cql

import (
	"context"
	"sync"
)

// budget bounds the bytes of all requests and answers in memory. It is first come,
// first served, so that small requests do not overtake large ones.
type budget struct {
	mu sync.Mutex

	limit   int64
	used    int64     // guarded by mu
	waiting []*waiter // guarded by mu, in their order
}

type waiter struct {
	bytes int64
	ready chan struct{} // closed when the bytes are taken
}

func newBudget(limit int64) *budget { return &budget{limit: limit} }

// fitsLocked reports whether n bytes may be taken now. One request always may.
func (b *budget) fitsLocked(n int64) bool { return b.used == 0 || b.used+n <= b.limit }

// try takes n bytes if they are free.
func (b *budget) try(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) > 0 || !b.fitsLocked(n) {
		return false
	}
	b.used += n
	return true
}

// take takes n bytes, and waits for them until ctx ends.
func (b *budget) take(ctx context.Context, n int64) error {
	if b.try(n) {
		return nil
	}
	w := &waiter{bytes: n, ready: make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, w)
	b.wakeLocked() // Bytes may have been released since.
	b.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, other := range b.waiting {
		if other == w {
			b.waiting = append(b.waiting[:i], b.waiting[i+1:]...)
			b.wakeLocked()
			return ctx.Err()
		}
	}
	// The bytes were taken in the meantime.
	b.used -= n
	b.wakeLocked()
	return ctx.Err()
}

// add takes n bytes whether they are free or not: for answers, which exist already.
func (b *budget) add(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used += n
}

// release returns n bytes.
func (b *budget) release(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	if b.used < 0 {
		panic("cql: more bytes were released than taken")
	}
	b.wakeLocked()
}

func (b *budget) wakeLocked() {
	for len(b.waiting) > 0 && b.fitsLocked(b.waiting[0].bytes) {
		b.used += b.waiting[0].bytes
		close(b.waiting[0].ready)
		b.waiting[0] = nil
		b.waiting = b.waiting[1:]
	}
}

// taken returns how many bytes are taken.
func (b *budget) taken() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}
