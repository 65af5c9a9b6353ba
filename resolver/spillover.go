package resolver

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// SpilloverFillDefault is the fraction of its limits at which a container counts
// as full. It is below 1 so that the next container exists before writes are
// refused.
const SpilloverFillDefault = 0.9

// SpilloverConfig describes containers that are filled one after another.
type SpilloverConfig struct {
	// Prefix begins the name of every target; the rest of the name is a decimal
	// number.
	Prefix string

	// Targets are the existing containers, at least one, in any order.
	Targets []Target

	// MaxBytes and MaxDocuments are the limits of one container; 0 means no
	// limit.
	MaxBytes, MaxDocuments int64

	// Fill is the fraction of a limit at which the next container is made, more
	// than 0 and at most 1. Default SpilloverFillDefault.
	Fill float64

	// Opening means that clients read the newest container but do not write it
	// yet, because some clients may not know it. Writes go to the container
	// before it, so there must be at least two.
	Opening bool
}

// Spillover is a Resolver that ignores the key: writes go to the last container,
// and a read asks all of them. To add a container, build a new Spillover; see
// [State.Spill].
type Spillover[K any] struct {
	config  SpilloverConfig
	numbers []int // of the targets, ascending
}

// NewSpillover builds the resolver. The error is an ErrConfig, for instance if
// the name of a target is not the prefix and a number.
func NewSpillover[K any](c SpilloverConfig) (*Spillover[K], error) {
	if err := checkTargets(c.Targets); err != nil {
		return nil, err
	}
	if c.Fill == 0 {
		c.Fill = SpilloverFillDefault
	}
	if !(c.Fill > 0 && c.Fill <= 1) || c.MaxBytes < 0 || c.MaxDocuments < 0 {
		return nil, fmt.Errorf("%w: spillover with fill %v, %d bytes and %d documents: fill must be above 0 and at most 1, limits must not be negative", ErrConfig, c.Fill, c.MaxBytes, c.MaxDocuments)
	}
	if c.Opening && len(c.Targets) < 2 {
		return nil, fmt.Errorf("%w: a spillover cannot open its only container", ErrConfig)
	}
	c.Targets = slices.Clone(c.Targets)
	for _, t := range c.Targets {
		if _, ok := c.number(t.Name); !ok {
			return nil, fmt.Errorf("%w: the spillover target %q is not named %q and a number", ErrConfig, t.Name, c.Prefix)
		}
	}
	slices.SortFunc(c.Targets, func(a, b Target) int {
		x, _ := c.number(a.Name)
		y, _ := c.number(b.Name)
		return x - y
	})
	s := &Spillover[K]{config: c}
	for _, t := range c.Targets {
		n, _ := c.number(t.Name)
		s.numbers = append(s.numbers, n)
	}
	return s, nil
}

// number parses the number in a target's name. It accepts only the canonical
// form, so that two names never have the same number.
func (c *SpilloverConfig) number(name string) (int, bool) {
	digits, found := strings.CutPrefix(name, c.Prefix)
	n, err := strconv.Atoi(digits)
	return n, found && err == nil && n >= 0 && n < math.MaxInt32 && strconv.Itoa(n) == digits
}

// ForWrite returns the container that accepts writes, whatever the key is.
func (s *Spillover[K]) ForWrite(K) (Target, error) { return s.Last(), nil }

// ForRead returns all containers, because a document may be in any of them. It
// returns none for an empty selection.
func (s *Spillover[K]) ForRead(selection Selection[K]) ([]Target, error) {
	if selection.IsEmpty() {
		return nil, nil
	}
	return s.Targets(), nil
}

// Targets returns the containers in ascending order of their numbers.
func (s *Spillover[K]) Targets() []Target { return slices.Clone(s.config.Targets) }

// Last returns the container that accepts writes: the newest one, or the one
// before it while the newest is opening.
func (s *Spillover[K]) Last() Target {
	last := len(s.config.Targets) - 1
	if s.config.Opening {
		last--
	}
	return s.config.Targets[last]
}

// Opening reports whether the newest container is read but not written yet.
func (s *Spillover[K]) Opening() bool { return s.config.Opening }

// Full reports whether a container with this many bytes and documents counts as
// full.
func (s *Spillover[K]) Full(bytes, documents int64) bool {
	full := func(used, limit int64) bool {
		return limit > 0 && float64(used) >= s.config.Fill*float64(limit)
	}
	return full(bytes, s.config.MaxBytes) || full(documents, s.config.MaxDocuments)
}

// Next returns the container that accepts writes after the last one: the one
// that is opening, or a container that does not exist yet. A new container
// copies everything except its number from the last one. Clients that know the
// same last container get the same result; if two create it at once, the second
// finds it.
func (s *Spillover[K]) Next() Target {
	if s.config.Opening {
		return s.config.Targets[len(s.config.Targets)-1]
	}
	last := s.Last()
	next := last
	number := strconv.Itoa(s.numbers[len(s.numbers)-1] + 1)
	next.Name = s.config.Prefix + number
	digits := strings.TrimPrefix(last.Name, s.config.Prefix)
	next.Container = next.Name
	// If the container's name ends in the same number as the target's, only the
	// number changes.
	if stem, found := strings.CutSuffix(last.Container, digits); found && stem == strings.TrimRight(stem, "0123456789") {
		next.Container = stem + number
	}
	return next
}
