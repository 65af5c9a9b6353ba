package storage

import (
	"fmt"
	"testing"
	"time"
)

// A store is crowded while tables wait to be compacted, before its writers have to
// wait, and no longer than that.
func TestCrowded(t *testing.T) {
	t.Parallel()
	pool := newPool(t, Options{InMemory: true})
	s, err := pool.Create("s")
	must(t, err)
	defer func() { must(t, s.Close()) }()
	holdCompactions(s)
	for i := range l0Stop / 3 {
		if s.Crowded() {
			t.Fatalf("crowded by %d tables", i)
		}
		for _, key := range []string{"d0", fmt.Sprint("d", i), "d9"} {
			put(t, s, key, "x")
		}
		must(t, s.Flush())
	}
	if !s.Crowded() {
		t.Fatalf("not crowded by %d tables, one over the other", l0Stop/3)
	}
	s.turn.opened()
	for s.Crowded() {
		time.Sleep(time.Millisecond)
	}
}

// holdCompactions keeps a store from compacting until it is opened, by s.turn.opened.
func holdCompactions(s *Store) {
	s.turn.s.mu.Lock()
	defer s.turn.s.mu.Unlock()
	s.turn.opening = true
}
