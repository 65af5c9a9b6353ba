// Package resolvertest is the test suite that every resolver.Resolver must pass:
// those of package resolver and those of its users. RunStore is the suite for
// every resolver.Store.
//
//	func TestMine(t *testing.T) {
//		resolvertest.Run(t, resolvertest.Config[string]{
//			New:  func(t *testing.T) resolver.Resolver[string] { return mine.New() },
//			Keys: []string{"a", "b"},
//		})
//	}
//
// Page: docs/resolver.md
package resolvertest

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/decandb/decan/resolver"
)

// Config says what to test.
type Config[K any] struct {
	// New makes the resolver. Two calls must make resolvers that route alike, as
	// in two processes.
	New func(t *testing.T) resolver.Resolver[K]

	// Keys are keys to try, at least one that can be written.
	Keys []K

	// Foreign are keys that every write refuses, for instance values that a
	// look-up does not list. May be empty.
	Foreign []K

	// Intervals are intervals to read, each with keys in it. May be empty.
	Intervals []Interval[K]
}

// Interval is an interval with some of its keys.
type Interval[K any] struct {
	Interval resolver.Interval[K]
	Inside   []K
}

// Run runs the suite as subtests of t.
func Run[K any](t *testing.T, c Config[K]) {
	t.Helper()
	t.Run("targets", c.targets)
	t.Run("write-then-read", c.writeThenRead)
	t.Run("foreign", c.foreign)
	t.Run("empty", c.empty)
	t.Run("all", c.all)
	t.Run("many", c.many)
	t.Run("intervals", c.intervals)
	t.Run("agreement", c.agreement)
	t.Run("ownership", c.ownership)
	t.Run("concurrency", c.concurrency)
}

func names(targets []resolver.Target) []string {
	list := make([]string, len(targets))
	for i, t := range targets {
		list[i] = t.Name
	}
	return list
}

// read returns the names of the targets of a selection. Each must be known and
// listed once.
func read[K any](t *testing.T, r resolver.Resolver[K], s resolver.Selection[K]) []string {
	t.Helper()
	targets, err := r.ForRead(s)
	if err != nil {
		t.Fatalf("ForRead(%v): %v", s, err)
	}
	list := names(targets)
	known := names(r.Targets())
	for i, name := range list {
		if slices.Contains(list[:i], name) {
			t.Errorf("ForRead(%v) lists %q twice: %q", s, name, list)
		}
		if !slices.Contains(known, name) {
			t.Errorf("ForRead(%v) lists %q, which is not among the targets %q", s, name, known)
		}
	}
	return list
}

func (c Config[K]) targets(t *testing.T) {
	list := names(c.New(t).Targets())
	if len(list) == 0 {
		t.Fatal("no targets")
	}
	for i, name := range list {
		if name == "" || slices.Contains(list[:i], name) {
			t.Errorf("target %d is named %q, want a name of its own: %q", i, name, list)
		}
	}
}

// writeThenRead checks that a key is read where it is written.
func (c Config[K]) writeThenRead(t *testing.T) {
	if len(c.Keys) == 0 {
		t.Fatal("the configuration has no keys")
	}
	r := c.New(t)
	for _, key := range c.Keys {
		target, err := r.ForWrite(key)
		if err != nil {
			t.Errorf("ForWrite(%v): %v", key, err)
			continue
		}
		if list := read(t, r, resolver.Keys(key)); !slices.Contains(list, target.Name) {
			t.Errorf("ForWrite(%v) = %q, but it is read from %q", key, target.Name, list)
		}
		if known := names(r.Targets()); !slices.Contains(known, target.Name) {
			t.Errorf("ForWrite(%v) = %q, which is not among the targets %q", key, target.Name, known)
		}
	}
}

func (c Config[K]) foreign(t *testing.T) {
	r := c.New(t)
	for _, key := range c.Foreign {
		if target, err := r.ForWrite(key); !errors.Is(err, resolver.ErrNoTarget) && !errors.Is(err, resolver.ErrKey) {
			t.Errorf("ForWrite(%v) = %q, %v, want ErrNoTarget or ErrKey", key, target.Name, err)
		}
	}
}

// empty checks that reading an empty selection returns no targets.
func (c Config[K]) empty(t *testing.T) {
	for _, s := range []resolver.Selection[K]{{}, resolver.Keys[K](), resolver.Between[K]()} {
		if list := read(t, c.New(t), s); len(list) != 0 {
			t.Errorf("ForRead of an empty selection lists %q", list)
		}
	}
}

func (c Config[K]) all(t *testing.T) {
	r := c.New(t)
	if list, want := read(t, r, resolver.All[K]()), names(r.Targets()); !slices.Equal(list, want) {
		t.Errorf("ForRead(all) = %q, want all targets in their order: %q", list, want)
	}
}

// many checks that a read of several keys asks the targets of each key and no
// others.
func (c Config[K]) many(t *testing.T) {
	r := c.New(t)
	var want []string
	for _, key := range c.Keys {
		want = append(want, read(t, r, resolver.Keys(key))...)
	}
	slices.Sort(want)
	got := read(t, r, resolver.Keys(c.Keys...))
	slices.Sort(got)
	if !slices.Equal(got, slices.Compact(want)) {
		t.Errorf("ForRead of all keys = %q, want %q", got, slices.Compact(want))
	}
}

// intervals checks that reading an interval finds the keys in it.
func (c Config[K]) intervals(t *testing.T) {
	r := c.New(t)
	for _, i := range c.Intervals {
		list := read(t, r, resolver.Between(i.Interval))
		for _, key := range i.Inside {
			if target, err := r.ForWrite(key); err == nil && !slices.Contains(list, target.Name) {
				t.Errorf("%v lies in %v and is written to %q, but the interval is read from %q", key, i.Interval, target.Name, list)
			}
		}
	}
}

// agreement checks that two resolvers of one configuration route alike.
func (c Config[K]) agreement(t *testing.T) {
	a, b := c.New(t), c.New(t)
	for _, key := range c.Keys {
		x, errX := a.ForWrite(key)
		y, errY := b.ForWrite(key)
		if x.Name != y.Name || (errX == nil) != (errY == nil) {
			t.Errorf("two resolvers send %v to %q (%v) and to %q (%v)", key, x.Name, errX, y.Name, errY)
		}
	}
}

// ownership checks that the caller owns the returned slices.
func (c Config[K]) ownership(t *testing.T) {
	r := c.New(t)
	want := names(r.Targets())
	for i, list := 0, r.Targets(); i < len(list); i++ {
		list[i] = resolver.Target{Name: "overwritten"}
	}
	list, err := r.ForRead(resolver.All[K]())
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		list[i] = resolver.Target{Name: "overwritten"}
	}
	if got := names(r.Targets()); !slices.Equal(got, want) {
		t.Errorf("after a caller wrote to its slices, the targets are %q, want %q", got, want)
	}
	if got := read(t, r, resolver.All[K]()); !slices.Equal(got, want) {
		t.Errorf("after a caller wrote to its slices, all is read from %q, want %q", got, want)
	}
}

// concurrency uses one resolver from many goroutines; only -race shows all
// failures.
func (c Config[K]) concurrency(t *testing.T) {
	r := c.New(t)
	want := make([]string, len(c.Keys))
	for i, key := range c.Keys {
		target, err := r.ForWrite(key)
		if err != nil {
			t.Fatal(err)
		}
		want[i] = target.Name
	}
	var done sync.WaitGroup
	for range 8 {
		done.Go(func() {
			for i, key := range c.Keys {
				target, err := r.ForWrite(key)
				if err != nil || target.Name != want[i] {
					t.Errorf("ForWrite(%v) = %q, %v, want %q", key, target.Name, err, want[i])
				}
				if _, err := r.ForRead(resolver.Keys(key)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done.Wait()
}
