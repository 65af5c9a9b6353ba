package resolver

import (
	"fmt"
	"maps"
	"slices"
)

// Chain puts resolvers behind a resolver: where the outer one names a target for
// which there is an inner one, the inner one decides. So a Lookup by region may
// lead to one Ring of users per region, or a Lookup of large tenants to a Ring of
// the others as its default.
type Chain[K any] struct {
	outer Resolver[K]
	inner map[string]Resolver[K]
	all   []Target
}

// NewChain builds a chain. It keeps a copy of the map. The error is an ErrConfig
// when an inner resolver stands behind no target of the outer one.
func NewChain[K any](outer Resolver[K], inner map[string]Resolver[K]) (*Chain[K], error) {
	c := &Chain[K]{outer: outer, inner: maps.Clone(inner)}
	left := maps.Clone(inner)
	var all union
	for _, t := range outer.Targets() {
		delete(left, t.Name)
		if next := inner[t.Name]; next != nil {
			all.add(next.Targets()...)
		} else {
			all.add(t)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		return nil, fmt.Errorf("%w: the chain has a resolver behind %q, which is no target of the outer one", ErrConfig, name)
	}
	c.all = all.targets
	return c, nil
}

// ForWrite asks the outer resolver and then the inner one behind its answer.
func (c *Chain[K]) ForWrite(key K) (Target, error) {
	t, err := c.outer.ForWrite(key)
	if err != nil {
		return t, err
	}
	if next := c.inner[t.Name]; next != nil {
		return next.ForWrite(key)
	}
	return t, nil
}

// ForRead puts in the place of each target of the outer resolver those of the inner
// one behind it. Keys are asked for one by one, so that an inner resolver sees only
// the keys that are its own.
func (c *Chain[K]) ForRead(selection Selection[K]) ([]Target, error) {
	var found union
	for i := range selection.keys {
		if err := c.read(&found, Keys(selection.keys[i])); err != nil {
			return nil, err
		}
	}
	selection.keys = nil
	if !selection.IsEmpty() {
		if err := c.read(&found, selection); err != nil {
			return nil, err
		}
	}
	return found.targets, nil
}

func (c *Chain[K]) read(found *union, selection Selection[K]) error {
	targets, err := c.outer.ForRead(selection)
	if err != nil {
		return err
	}
	for _, t := range targets {
		next := c.inner[t.Name]
		if next == nil {
			found.add(t)
			continue
		}
		behind, err := next.ForRead(selection)
		if err != nil {
			return err
		}
		found.add(behind...)
	}
	return nil
}

// Targets returns the targets that writes can reach, in the order of the outer
// resolver.
func (c *Chain[K]) Targets() []Target { return slices.Clone(c.all) }

// Single is a Resolver that sends everything to one target.
type Single[K any] struct{ Target Target }

// ForWrite returns the target.
func (s Single[K]) ForWrite(K) (Target, error) { return s.Target, nil }

// ForRead returns the target unless the selection is empty.
func (s Single[K]) ForRead(selection Selection[K]) ([]Target, error) {
	if selection.IsEmpty() {
		return nil, nil
	}
	return []Target{s.Target}, nil
}

// Targets returns the target.
func (s Single[K]) Targets() []Target { return []Target{s.Target} }
