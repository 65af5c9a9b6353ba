package resolver

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Lookup is a Resolver for listed values, such as regions and tenants. Several
// values may share a target.
type Lookup[K comparable] struct {
	table    map[K]Target
	fallback *Target
	targets  []Target
}

// NewLookup builds the resolver. Values that are not in the table go to
// fallback. If fallback is nil, writing such a value is ErrNoTarget and reading
// it returns no target. The error is an ErrConfig.
func NewLookup[K comparable](table map[K]Target, fallback *Target) (*Lookup[K], error) {
	l := &Lookup[K]{table: maps.Clone(table)}
	var all union
	for value, target := range table {
		if target.Name == "" {
			return nil, fmt.Errorf("%w: the target of %v has no name", ErrConfig, value)
		}
		all.add(target)
	}
	// Map iteration has no order, but the result needs one.
	slices.SortFunc(all.targets, func(a, b Target) int { return cmp.Compare(a.Name, b.Name) })
	if fallback != nil {
		if fallback.Name == "" {
			return nil, fmt.Errorf("%w: the default target has no name", ErrConfig)
		}
		t := *fallback
		l.fallback = &t
		all.add(t)
	}
	if len(all.targets) == 0 || len(all.targets) > TargetsMax {
		return nil, fmt.Errorf("%w: %d targets, want 1 to %d", ErrConfig, len(all.targets), TargetsMax)
	}
	l.targets = all.targets
	return l, nil
}

// ForWrite returns the value's target, else the default target, else
// ErrNoTarget.
func (l *Lookup[K]) ForWrite(key K) (Target, error) {
	if t, found := l.table[key]; found {
		return t, nil
	}
	if l.fallback == nil {
		return Target{}, fmt.Errorf("%w: %v is not in the table", ErrNoTarget, key)
	}
	return *l.fallback, nil
}

// ForRead returns the targets of the selected values sorted by name, the default
// target last. The table has no order, so the keys of an interval may be in any
// target.
func (l *Lookup[K]) ForRead(selection Selection[K]) ([]Target, error) {
	if selection.all || len(selection.intervals) > 0 {
		return l.Targets(), nil
	}
	wanted := map[string]bool{}
	for _, key := range selection.keys {
		if t, err := l.ForWrite(key); err == nil {
			wanted[t.Name] = true
		}
	}
	var found []Target
	for _, t := range l.targets {
		if wanted[t.Name] {
			found = append(found, t)
		}
	}
	return found, nil
}

// Targets returns the targets sorted by name, the default target last.
func (l *Lookup[K]) Targets() []Target { return slices.Clone(l.targets) }
