package resolver

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// SpilloverFillDefault is the part of its limits at which a container counts as
// full, so that the next one exists before writes are refused.
const SpilloverFillDefault = 0.9

// SpilloverConfig describes containers that are filled one after the other.
type SpilloverConfig struct {
	// Prefix begins the names of the targets; the rest is a decimal number.
	Prefix string

	// Targets are the containers so far, in any order. Not empty.
	Targets []Target

	// MaxBytes and MaxDocuments are what a container is to hold; 0 is no limit.
	MaxBytes, MaxDocuments int64

	// Fill is the part of a limit at which the next container is made, more than
	// 0 and at most 1. Default SpilloverFillDefault.
	Fill float64

	// Opening says that the newest container is read and not yet written, because some
	// clients may not know it: writes go to the one before it, which there has to be.
	Opening bool
}

// Spillover is a Resolver without a scheme: writes go to the last container, and a
// read has to ask all of them. Growing makes a new Spillover; see [State.Spill].
type Spillover[K any] struct {
	config  SpilloverConfig
	numbers []int // of the targets, rising
}

// NewSpillover builds the resolver. The error is an ErrConfig, for instance for a
// target whose name is not the prefix and a number.
func NewSpillover[K any](c SpilloverConfig) (*Spillover[K], error) {
	if err := checkTargets(c.Targets); err != nil {
		return nil, err
	}
	if c.Fill == 0 {
		c.Fill = SpilloverFillDefault
	}
	if !(c.Fill > 0 && c.Fill <= 1) || c.MaxBytes < 0 || c.MaxDocuments < 0 {
		return nil, fmt.Errorf("%w: spillover at %v of %d bytes or %d documents", ErrConfig, c.Fill, c.MaxBytes, c.MaxDocuments)
	}
	if c.Opening && len(c.Targets) < 2 {
		return nil, fmt.Errorf("%w: a spillover that opens its only container", ErrConfig)
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

// number reads the number of a target's name. Only one text stands for each.
func (c *SpilloverConfig) number(name string) (int, bool) {
	digits, found := strings.CutPrefix(name, c.Prefix)
	n, err := strconv.Atoi(digits)
	return n, found && err == nil && n >= 0 && n < math.MaxInt32 && strconv.Itoa(n) == digits
}

// ForWrite returns the container that takes writes, whatever the key.
func (s *Spillover[K]) ForWrite(K) (Target, error) { return s.Last(), nil }

// ForRead returns all containers, because a document may be in any of them, unless
// the selection is empty.
func (s *Spillover[K]) ForRead(selection Selection[K]) ([]Target, error) {
	if selection.IsEmpty() {
		return nil, nil
	}
	return s.Targets(), nil
}

// Targets returns the containers by number.
func (s *Spillover[K]) Targets() []Target { return slices.Clone(s.config.Targets) }

// Last returns the container that takes writes: the newest, or the one before it while that
// is opening.
func (s *Spillover[K]) Last() Target {
	last := len(s.config.Targets) - 1
	if s.config.Opening {
		last--
	}
	return s.config.Targets[last]
}

// Opening reports whether the newest container is read and not yet written.
func (s *Spillover[K]) Opening() bool { return s.config.Opening }

// Full reports whether a container that holds so much is full.
func (s *Spillover[K]) Full(bytes, documents int64) bool {
	full := func(used, limit int64) bool {
		return limit > 0 && float64(used) >= s.config.Fill*float64(limit)
	}
	return full(bytes, s.config.MaxBytes) || full(documents, s.config.MaxDocuments)
}

// Next returns the container that takes writes after the last one: the one that is
// opening, or one to be made. That takes everything but its number from the last one, and
// every client that knows the same last one gets the same answer: of two that make it at
// once, one finds it made.
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
	// A container with a stem of its own keeps it, when its number is the name's.
	if stem, found := strings.CutSuffix(last.Container, digits); found && stem == strings.TrimRight(stem, "0123456789") {
		next.Container = stem + number
	}
	return next
}
