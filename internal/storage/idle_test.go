package storage

import (
	"fmt"
	"testing"
	"time"
)

// armed reports whether the timer for idle stores runs.
func armed(p *Pool) bool {
	p.idleFlush.mu.Lock()
	defer p.idleFlush.mu.Unlock()
	return p.idleFlush.timer != nil
}

// A store is flushed at the second run after its last write, and no timer runs while
// there is nothing to flush.
func TestIdleStoresAreFlushed(t *testing.T) {
	t.Parallel()
	p := newPool(t, Options{InMemory: true, IdleFlush: time.Hour})
	s, err := p.Create("s")
	must(t, err)
	other, err := p.Create("other")
	must(t, err)
	defer other.Close()
	defer s.Close()
	if armed(p) {
		t.Error("the timer runs before anything is written")
	}
	must(t, fillRow(s, "mrow"))
	must(t, fillRow(other, "mrow"))
	if !armed(p) {
		t.Error("no timer runs after a write")
	}
	if left := p.flushIdle(); !left || !s.dirty.Load() {
		t.Errorf("flushed at the first run: left %v, dirty %v", left, s.dirty.Load())
	}
	must(t, fillRow(other, "mnext"))
	if left := p.flushIdle(); !left || s.dirty.Load() || !other.dirty.Load() {
		t.Errorf("at the second run: left %v, the idle one dirty %v, the busy one dirty %v", left, s.dirty.Load(), other.dirty.Load())
	}
	if left := p.flushIdle(); left || other.dirty.Load() {
		t.Errorf("at the third run: left %v, dirty %v", left, other.dirty.Load())
	}
	p.idleFlush.fire()
	if armed(p) {
		t.Error("the timer runs although no store needs a flush")
	}
	must(t, fillRow(s, "magain"))
	if !armed(p) {
		t.Error("no timer runs after another write")
	}
}

// A store with large buffers is passed to the callback until it is closed; one with
// small buffers is not.
func TestIdleStoresAreEvicted(t *testing.T) {
	t.Parallel()
	p := newPool(t, Options{InMemory: true, IdleFlush: time.Hour})
	large, err := p.Create("large")
	must(t, err)
	small, err := p.Create("small")
	must(t, err)
	defer small.Close()
	must(t, fillRow(small, "mrow"))
	for i := 0; large.buffered() <= idleBuffersMax; i++ {
		b := large.NewBatch()
		must(t, b.Set(fmt.Appendf(nil, "m%06d", i), make([]byte, 10_000)))
		must(t, large.Apply(b))
		must(t, b.Close())
	}
	var offered []*Store
	give := func(closes bool) func(*Store) bool {
		return func(s *Store) bool {
			offered = append(offered, s)
			if closes {
				must(t, s.Close())
			}
			return closes
		}
	}
	p.EvictIdle(give(false))
	p.flushIdle()
	if len(offered) > 0 {
		t.Fatal("offered while it is not flushed")
	}
	if left := p.flushIdle(); !left || len(offered) != 1 || offered[0] != large {
		t.Fatalf("left %v, offered %d stores", left, len(offered))
	}
	p.EvictIdle(give(true))
	if left := p.flushIdle(); left || len(offered) != 2 {
		t.Fatalf("left %v, offered %d times", left, len(offered))
	}
	if left := p.flushIdle(); left || len(offered) != 2 {
		t.Fatalf("closed: left %v, offered %d times", left, len(offered))
	}
}
