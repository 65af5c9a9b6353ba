// Package resolver decides on the client's side in which container a document
// lives, when one container, database or account is not enough: a region per
// account, a tenant per container, a container per month, or as many containers
// as the load asks for.
//
// A [Resolver] maps keys to targets: exactly one for a write, as many as needed
// for a read. [Ring], [Rendezvous] and [Jump] spread keys by hash, [Range] places
// ordered keys and time, [Lookup] places listed values, [Spillover] fills one
// container after the other, and [Chain] puts resolvers behind resolvers. A
// [State] describes all of that as JSON, which a [Store] keeps and [Live] watches,
// so that every client routes alike. [Transition] and the phases of a [Move] lead
// from one layout to the next while reads and writes go on. Package
// resolver/azcosmos puts this in front of the Go SDK.
//
// # Invariants
//
// Resolvers do not change once built, and many goroutines may use one. A write has
// one target. A read never lists a target twice, unless a legacy option asks for
// it. Adding a target to a hash resolver moves keys to it only, and removing one
// moves only its keys. Hashes depend on the name of a target and never on its
// address or place in a list ([Jump] excepted), so a target may be readdressed.
// An empty selection selects nothing.
//
// The package knows no network and no SDK, and never looks into a document
// further than to the paths of its key.
//
// Page: docs/resolver.md
package resolver

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Resolver maps keys of type K to targets. Implementations are safe for many
// goroutines; package resolver/resolvertest proves the rest of the contract.
type Resolver[K any] interface {
	// ForWrite returns the one target that new documents with the key go to. The
	// error is ErrNoTarget when no rule covers the key, ErrKey when the key is
	// not of a kind that the resolver understands, and ErrMigrating while writes
	// wait for a migration.
	ForWrite(key K) (Target, error)

	// ForRead returns the targets that may hold documents of the selection, each
	// once, in an order that does not change from call to call. A selection that
	// no rule covers gives none and no error. The slice is the caller's.
	ForRead(selection Selection[K]) ([]Target, error)

	// Targets returns every target, in the order in which ForRead gives all. The
	// slice is the caller's.
	Targets() []Target
}

// Target is one container. Resolvers know it by its name; the rest says where it
// is and may change without moving a document.
type Target struct {
	// Name is what hash resolvers hash. For data placed by a legacy SDK it is the
	// collection link that was given to that SDK.
	Name string `json:"name"`

	// Account is the name under which the client knows the account, "" for its
	// only one.
	Account string `json:"account,omitempty"`

	Database  string `json:"database,omitempty"`
	Container string `json:"container,omitempty"`

	// Weight is the target's share among hash targets. 0 counts as 1, and is 1 in a state
	// that was checked.
	Weight float64 `json:"weight,omitempty"`

	// Labels are the user's, for instance a zone. Resolvers share the map and do
	// not read it.
	Labels map[string]string `json:"labels,omitempty"`
}

// weight returns the effective weight.
func (t Target) weight() float64 {
	if t.Weight == 0 {
		return 1
	}
	return t.Weight
}

// TargetsMax is how many targets one resolver or state may have.
const TargetsMax = 10_000

// The errors of this package, to be asked for with errors.Is.
var (
	// ErrNoTarget says that no rule covers a key that is to be written.
	ErrNoTarget = errors.New("no target for the key")

	// ErrKey says that a key is missing, incomplete or of the wrong type.
	ErrKey = errors.New("unusable key")

	// ErrConfig says that a resolver cannot be built as described.
	ErrConfig = errors.New("invalid resolver")

	// ErrOverlap says that two ranges share a key. It is an ErrConfig as well.
	ErrOverlap = fmt.Errorf("%w: ranges overlap", ErrConfig)

	// ErrGap says that a key between two ranges has no target. It is an ErrConfig
	// as well.
	ErrGap = fmt.Errorf("%w: gap between ranges", ErrConfig)

	// ErrMigrating says that the operation waits for a migration and may be tried
	// again; errors.As with a *MigratingError tells when.
	ErrMigrating = errors.New("migration in progress")

	// ErrNotFound says that a store has no such document.
	ErrNotFound = errors.New("not in the store")

	// ErrChanged says that somebody else changed a stored document first: load it
	// again and decide anew.
	ErrChanged = errors.New("changed by somebody else")

	// ErrStale says that the state could not be confirmed in time, so that routing
	// by it might be wrong.
	ErrStale = errors.New("state is stale")
)

// MigratingError is the error of an operation that a migration holds up.
type MigratingError struct {
	// RetryAfter is when to try again.
	RetryAfter time.Duration
}

// Error tells when to try again.
func (e *MigratingError) Error() string {
	return fmt.Sprintf("%v: try again after %v", ErrMigrating, e.RetryAfter)
}

// Is makes the error an ErrMigrating.
func (e *MigratingError) Is(target error) bool { return target == ErrMigrating }

// Selection says which keys a read is for. The zero value selects nothing.
type Selection[K any] struct {
	all       bool
	keys      []K
	intervals []Interval[K]
}

// All selects every key.
func All[K any]() Selection[K] { return Selection[K]{all: true} }

// Keys selects the given keys. It keeps the slice.
func Keys[K any](keys ...K) Selection[K] { return Selection[K]{keys: keys} }

// Between selects the keys of the given intervals. It keeps the slice.
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

// checkTargets returns an ErrConfig when a list of targets is empty or too long,
// or a target lacks a name of its own or a usable weight.
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

// union collects targets, each name once, in the order of arrival.
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
