package resolver

import (
	"fmt"
	"maps"
	"slices"
)

// Chain nests resolvers: if there is an inner resolver for the target that the
// outer one returns, the inner resolver decides. For example, a Lookup by region
// can lead to one Ring of users per region, or a Lookup of large tenants can
// have a Ring for all other tenants as its default.
type Chain[K any] struct {
	outer Resolver[K]
	inner map[string]Resolver[K]
	all   []Target
}

// NewChain builds a chain from an outer resolver and inner resolvers by the name
// of the outer target that they replace. It copies the map. The error is an
// ErrConfig if a name is not a target of the outer resolver.
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
		return nil, fmt.Errorf("%w: the chain has an inner resolver for %q, which is not a target of the outer resolver", ErrConfig, name)
	}
	c.all = all.targets
	return c, nil
}

// ForWrite asks the outer resolver, and then the inner resolver of the target
// that it returns.
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

// ForRead replaces each target of the outer resolver that has an inner resolver
// with the targets of that resolver. It routes keys one by one, so that an inner
// resolver sees only its own keys.
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
