package storage

import (
	"fmt"
	"testing"
	"time"
)

// A store is backlogged only while many tables wait for a compaction, and it is so
// before its writers have to wait.
func TestBacklogged(t *testing.T) {
	t.Parallel()
	pool := newPool(t, Options{InMemory: true})
	s, err := pool.Create("s")
	must(t, err)
	defer func() { must(t, s.Close()) }()
	holdCompactions(s)
	for i := range l0Stop / 3 {
		if s.Backlogged() {
			t.Fatalf("backlogged with %d tables", i)
		}
		for _, key := range []string{"d0", fmt.Sprint("d", i), "d9"} {
			put(t, s, key, "x")
		}
		must(t, s.Flush())
	}
	if !s.Backlogged() {
		t.Fatalf("not backlogged with %d overlapping tables", l0Stop/3)
	}
	s.compactions.opened()
	for s.Backlogged() {
		time.Sleep(time.Millisecond)
	}
}

// holdCompactions prevents compactions of a store until s.compactions.opened is called.
func holdCompactions(s *Store) {
	s.compactions.s.mu.Lock()
	defer s.compactions.s.mu.Unlock()
	s.compactions.opening = true
}
