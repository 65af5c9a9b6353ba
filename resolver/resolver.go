// Package resolver lets a client decide which container holds a document when
// one container, database or account is not enough: for example an account per
// region, a container per tenant, a container per month, or as many containers
// as the load needs.
//
// A [Resolver] maps keys to targets: exactly one for a write, as many as needed
// for a read. [Ring], [Rendezvous] and [Jump] distribute keys by hash, [Range]
// places ordered keys and times, [Lookup] places listed values, [Spillover]
// fills one container after another, and [Chain] nests resolvers. A [State]
// describes all of that as JSON. A [Store] keeps the state and [Live] watches
// it, so that every client routes alike. [Transition] and the phases of a [Move]
// lead from one layout to the next while reads and writes continue. Package
// resolver/azcosmos applies this to the Go SDK.
//
// # Invariants
//
// Resolvers are immutable and safe for concurrent use. A write has one target. A
// read never lists a target twice, unless a legacy option asks for it. Adding a
// target to a hash resolver moves keys only to that target, and removing one
// moves only its keys. Hashes depend on the name of a target, never on its
// address or its place in the list ([Jump] is the exception), so the address of
// a target may change. An empty selection selects nothing.
//
// The package uses no network and no SDK, and reads nothing of a document except
// the paths of its key.
//
// Page: docs/resolver.md
package resolver

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Resolver maps keys of type K to targets. Implementations must be safe for
// concurrent use; package resolver/resolvertest tests the rest of the contract.
type Resolver[K any] interface {
	// ForWrite returns the one target for new documents with the key. The error
	// is ErrNoTarget if no rule covers the key, ErrKey if the resolver does not
	// support this kind of key, and ErrMigrating while writes wait for a
	// migration.
	ForWrite(key K) (Target, error)

	// ForRead returns the targets that may hold documents of the selection, each
	// once and in an order that never changes. A selection that no rule covers
	// returns no targets and no error. The caller owns the slice.
	ForRead(selection Selection[K]) ([]Target, error)

	// Targets returns all targets, in the order in which ForRead returns them
	// for All. The caller owns the slice.
	Targets() []Target
}

// Target is one container. Resolvers identify it by its name. The other fields
// say where it is and may change without moving a document.
type Target struct {
	// Name is what hash resolvers hash. For data placed by a legacy SDK it must
	// be the collection link that was given to that SDK.
	Name string `json:"name"`

	// Account is the name under which the client knows the account, "" if it has
	// only one.
	Account string `json:"account,omitempty"`

	Database  string `json:"database,omitempty"`
	Container string `json:"container,omitempty"`

	// Weight is the target's share relative to the other hash targets. 0 counts
	// as 1; a checked state contains 1 instead.
	Weight float64 `json:"weight,omitempty"`

	// Labels belong to the user, for instance a zone. Resolvers share the map
	// and do not read it.
	Labels map[string]string `json:"labels,omitempty"`
}

// weight returns the effective weight.
func (t Target) weight() float64 {
	if t.Weight == 0 {
		return 1
	}
	return t.Weight
}

// TargetsMax is the maximum number of targets of a resolver or a state.
const TargetsMax = 10_000

// The errors of this package. Test for them with errors.Is.
var (
	// ErrNoTarget means that no rule covers a key that is to be written.
	ErrNoTarget = errors.New("no target for the key")

	// ErrKey means that a key is missing, incomplete or of the wrong type.
	ErrKey = errors.New("unusable key")

	// ErrConfig means that a resolver cannot be built from its description.
	ErrConfig = errors.New("invalid resolver")

	// ErrOverlap means that two ranges share a key. It is also an ErrConfig.
	ErrOverlap = fmt.Errorf("%w: ranges overlap", ErrConfig)

	// ErrGap means that a key between two ranges has no target. It is also an
	// ErrConfig.
	ErrGap = fmt.Errorf("%w: gap between ranges", ErrConfig)

	// ErrMigrating means that the operation must wait for a migration and may be
	// retried. errors.As with a *MigratingError gives the delay.
	ErrMigrating = errors.New("migration in progress")

	// ErrNotFound means that the store has no document of that name.
	ErrNotFound = errors.New("not in the store")

	// ErrChanged means that another client changed a stored document first. Load
	// it again and decide again.
	ErrChanged = errors.New("changed by another client")

	// ErrStale means that the state could not be confirmed in time, so routing
	// by it might be wrong.
	ErrStale = errors.New("state is stale")
)

// MigratingError is the error of an operation that must wait for a migration.
type MigratingError struct {
	// RetryAfter is how long to wait before a retry.
	RetryAfter time.Duration
}

func (e *MigratingError) Error() string {
	return fmt.Sprintf("%v: try again after %v", ErrMigrating, e.RetryAfter)
}

// Is makes errors.Is(e, ErrMigrating) true.
func (e *MigratingError) Is(target error) bool { return target == ErrMigrating }

// Selection is the set of keys that a read is for. The zero value selects
// nothing.
type Selection[K any] struct {
	all       bool
	keys      []K
	intervals []Interval[K]
}

// All selects every key.
func All[K any]() Selection[K] { return Selection[K]{all: true} }

// Keys selects the given keys. It keeps a reference to the slice.
func Keys[K any](keys ...K) Selection[K] { return Selection[K]{keys: keys} }

// Between selects the keys of the given intervals. It keeps a reference to the
// slice.
func Between[K any](intervals ...Interval[K]) Selection[K] {
	return Selection[K]{intervals: intervals}
}

// IsAll reports whether every key is selected.
func (s Selection[K]) IsAll() bool { return s.all }

// Keys returns the selected keys. The slice must not be changed.
func (s Selection[K]) Keys() []K { return s.keys }

// Intervals returns the selected intervals. The slice must not be changed.
func (s Selection[K]) Intervals() []Interval[K] { return s.intervals }

// IsEmpty reports whether nothing is selected.
func (s Selection[K]) IsEmpty() bool {
	return !s.all && len(s.keys) == 0 && len(s.intervals) == 0
}

// checkTargets returns an ErrConfig if the list is empty or too long, two
// targets share a name, or a target has no name or no usable weight.
func checkTargets(targets []Target) error {
	if len(targets) == 0 {
		return fmt.Errorf("%w: no targets", ErrConfig)
	}
	if len(targets) > TargetsMax {
		return fmt.Errorf("%w: %d targets, at most %d are allowed", ErrConfig, len(targets), TargetsMax)
	}
	seen := make(map[string]bool, len(targets))
	for _, t := range targets {
		switch {
		case t.Name == "":
			return fmt.Errorf("%w: a target has no name", ErrConfig)
		case seen[t.Name]:
			return fmt.Errorf("%w: two targets are named %q", ErrConfig, t.Name)
		case t.Weight < 0 || math.IsNaN(t.Weight) || math.IsInf(t.Weight, 0):
			return fmt.Errorf("%w: target %q has the weight %v, want a positive number", ErrConfig, t.Name, t.Weight)
		}
		seen[t.Name] = true
	}
	return nil
}

// union collects targets in order of arrival, each name once.
type union struct {
	targets []Target
	seen    map[string]bool
}

func (u *union) add(targets ...Target) {
	for _, t := range targets {
		if u.seen[t.Name] {
			continue
		}
		if u.seen == nil {
			u.seen = map[string]bool{}
		}
		u.seen[t.Name] = true
		u.targets = append(u.targets, t)
	}
}
