package storage

import (
	"context"
	"fmt"
	"sync"
	"testing"
)

// fillLists writes n rows of the number family and a posting list for each.
func fillLists(t *testing.T, s *Store, n int) {
	t.Helper()
	b := s.NewBatch()
	defer b.Close()
	for i := range n {
		must(t, b.Set(fmt.Appendf(nil, "r%08d", i), fmt.Appendf(nil, "row %d", i)))
		must(t, b.AddPosting(fmt.Appendf(nil, "t%08d", i), uint64(i)))
	}
	must(t, s.ApplyNoSync(b))
}

// sparesOfPool counts the spare iterators of a pool by both ends of its list.
func sparesOfPool(t *testing.T, p *Pool) int {
	t.Helper()
	p.spares.mu.Lock()
	defer p.spares.mu.Unlock()
	forth, back := 0, 0
	for r := p.spares.newest; r != nil; r = r.older {
		forth++
	}
	for r := p.spares.oldest; r != nil; r = r.newer {
		back++
	}
	if forth != back || forth != p.spares.count {
		t.Fatalf("the list of spare iterators has %d from the newest, %d from the oldest and says %d", forth, back, p.spares.count)
	}
	return forth
}

// Spare iterators are limited per snapshot and in the pool, and those of a snapshot are
// closed with it.
func TestSparesAreBounded(t *testing.T) {
	t.Parallel()
	pool := newPool(t, Options{InMemory: true})
	var snapshots []*Snapshot
	for i := range sparesMax/sparesOfOne + 3 {
		s, err := pool.Create(fmt.Sprintf("s%d", i))
		must(t, err)
		defer func() { must(t, s.Close()) }()
		fillLists(t, s, 10)
		snapshots = append(snapshots, s.Snapshot())
		var inUse []*Iterator
		for range sparesOfOne + 2 {
			it := snapshots[i].Iter([]byte("r"), []byte("s"))
			if !it.First() || string(it.Value()) != "row 0" {
				t.Fatal("the first row is missing")
			}
			inUse = append(inUse, it)
		}
		for _, it := range inUse {
			must(t, it.Close())
		}
		if got, want := sparesOfPool(t, pool), min((i+1)*sparesOfOne, sparesMax); got != want {
			t.Fatalf("%d spare iterators after %d snapshots, want %d", got, i+1, want)
		}
	}
	// The iterators of the first snapshots were closed for others and are created again.
	for i, s := range snapshots {
		if found, err := s.Has([]byte("r00000003")); !found || err != nil {
			t.Fatalf("snapshot %d: found %v, %v", i, found, err)
		}
	}
	for _, s := range snapshots {
		must(t, s.Close())
	}
	if got := sparesOfPool(t, pool); got != 0 {
		t.Errorf("%d spare iterators are left of snapshots that have ended", got)
	}
}

// A reused iterator keeps no bounds, position or direction of its last use. Each kind
// of read follows every other kind.
func TestSparesForgetTheirUse(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	const n = 50
	fillLists(t, s, n)
	snapshot := s.Snapshot()
	defer snapshot.Close()
	one := func(i int) []byte { return fmt.Appendf(nil, "t%08d", i) }
	uses := map[string]func(i int) error{
		"view": func(i int) error {
			value, found, err := snapshot.Get(nil, fmt.Appendf(nil, "r%08d", i))
			if err == nil && (!found || string(value) != fmt.Sprintf("row %d", i)) {
				err = fmt.Errorf("found %v: %q", found, value)
			}
			return err
		},
		"absent": func(i int) error {
			found, err := snapshot.Has(fmt.Appendf(nil, "r%08d-", i))
			if found {
				err = fmt.Errorf("found a row that does not exist")
			}
			return err
		},
		"list": func(i int) error {
			set := snapshot.Postings(one(i))
			number, ok := set.Next()
			if _, more := set.Next(); !ok || number != uint64(i) || more {
				return fmt.Errorf("%d, %v, more %v", number, ok, more)
			}
			return set.Close()
		},
		"backward": func(i int) error {
			set := snapshot.Postings(one(i))
			number, ok := set.Prev()
			if _, more := set.Prev(); !ok || number != uint64(i) || more {
				return fmt.Errorf("%d, %v, more %v", number, ok, more)
			}
			return set.Close()
		},
		"range": func(i int) error {
			set, err := snapshot.PostingsRange(context.Background(), one(i), one(n)).Collect(context.Background())
			if err == nil && set.Len() != int64(n-i) {
				err = fmt.Errorf("%d numbers, want %d", set.Len(), n-i)
			}
			return err
		},
		"walk": func(i int) error {
			lists := snapshot.Lists(one(i), one(i+1))
			if !lists.Last() || string(lists.Key()) != string(one(i)) || lists.Prev() {
				return fmt.Errorf("iterator is at %q: %w", lists.Key(), lists.Err())
			}
			return lists.Close()
		},
		"scan": func(i int) error {
			rows := snapshot.Iter(fmt.Appendf(nil, "r%08d", i), nil)
			read := 0
			for valid := rows.First(); valid; valid = rows.Next() {
				read++
			}
			if want := 2*n - i; read != want { // the lists follow the rows
				return fmt.Errorf("%d rows, want %d", read, want)
			}
			return rows.Close()
		},
	}
	for range viewsUntilSpare {
		must(t, uses["view"](0))
	}
	for before, use := range uses {
		for then, useAgain := range uses {
			for i := range n {
				must(t, use((i*7)%n))
				if err := useAgain(i); err != nil {
					t.Fatalf("%s after %s at %d: %v", then, before, i, err)
				}
			}
		}
	}
	if got := sparesOfPool(t, s.pool); got != 1 {
		t.Errorf("%d iterators are spare after consecutive uses, want 1", got)
	}
}

// Readers of several snapshots share the spare iterators while rows are written and
// tables are replaced. Each sees its own state.
func TestSparesAreShared(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	var readers sync.WaitGroup
	for state := range 12 {
		b := s.NewBatch()
		for i := range 200 {
			must(t, b.Set(fmt.Appendf(nil, "r%08d", i), fmt.Appendf(nil, "%d", state)))
		}
		must(t, s.ApplyNoSync(b))
		must(t, b.Close())
		snapshot := s.Snapshot()
		readers.Go(func() {
			var wait sync.WaitGroup
			for g := range 4 {
				wait.Go(func() {
					for i := range 400 {
						value, found, err := snapshot.Get(nil, fmt.Appendf(nil, "r%08d", (g*50+i)%200))
						if err != nil || !found || string(value) != fmt.Sprint(state) {
							t.Errorf("state %d: %q, %v, %v", state, value, found, err)
							return
						}
					}
				})
			}
			wait.Wait()
			if err := snapshot.Close(); err != nil {
				t.Error(err)
			}
		})
		if state%3 == 2 {
			must(t, s.Flush())
		}
	}
	readers.Wait()
	if got := sparesOfPool(t, s.pool); got != 0 {
		t.Errorf("%d spare iterators are left of snapshots that have ended", got)
	}
}

// An iterator over tables that a flush has replaced is not used again.
func TestSparesOfReplacedTablesEnd(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	fillLists(t, s, 10)
	snapshot := s.Snapshot()
	defer snapshot.Close()
	look := func() *reusableIter {
		r, err := snapshot.take(nil, nil)
		must(t, err)
		must(t, r.put())
		return r
	}
	first := look()
	if again := look(); again != first {
		t.Error("a new iterator is created although nothing has changed")
	}
	must(t, s.Flush())
	if again := look(); again == first {
		t.Error("an iterator is used again that keeps a buffer which was flushed")
	}
}

// Write buffers are not part of the block cache, so writing to stores does not evict
// blocks: blocks that were read once are read from the cache.
func TestWriteBuffersLeaveTheCacheAlone(t *testing.T) {
	t.Parallel()
	const buffer = 1 << 20
	pool := newPool(t, Options{InMemory: true, CacheBytes: 4 * buffer, MemTableBytes: buffer})
	var stores []*Store
	for i := range 6 {
		s, err := pool.Create(fmt.Sprintf("s%d", i))
		must(t, err)
		defer func() { must(t, s.Close()) }()
		stores = append(stores, s)
	}
	value := make([]byte, 1<<10)
	for i := range 6 * buffer / len(value) {
		for _, s := range stores {
			put(t, s, fmt.Sprintf("d%08d", i), string(value))
		}
	}
	must(t, stores[0].Flush())
	snapshot := stores[0].Snapshot()
	defer snapshot.Close()
	read := func() (misses int64) {
		before := pool.cache.Metrics().Misses
		for i := range 300 {
			if found, err := snapshot.Has(fmt.Appendf(nil, "d%08d", i)); !found || err != nil {
				t.Fatal(found, err)
			}
		}
		return pool.cache.Metrics().Misses - before
	}
	first := read()
	if second := read(); second > 0 {
		t.Errorf("%d blocks were read again, %d for the first time", second, first)
	}
}
