package resolver

import (
	"fmt"
	"slices"
	"strconv"
)

// Template describes containers that are made as needed.
type Template struct {
	// Target is the target of a container but for its name and container, which get
	// the container's number appended.
	Target Target

	// Definition is the container's JSON without its id: partition key, indexing
	// policy, unique keys and so on.
	Definition []byte

	// Throughput is the RU/s of a new container, or the maximum when Autoscale is
	// set. 0 leaves it to the database.
	Throughput int32
	Autoscale  bool

	// Scripts are registered in each new container.
	Scripts []Script
}

// Script is a stored procedure, trigger or user-defined function.
type Script struct {
	Kind ScriptKind
	ID   string
	Body string

	// TriggerType is Pre or Post, TriggerOperation All, Create, Replace, Update or
	// Delete. Triggers only.
	TriggerType, TriggerOperation string
}

// ScriptKind says where a script is registered.
type ScriptKind string

// The kinds of scripts, as they stand in their links.
const (
	StoredProcedure     ScriptKind = "sprocs"
	Trigger             ScriptKind = "triggers"
	UserDefinedFunction ScriptKind = "udfs"
)

// Numbered returns the targets number 0 to count-1 of the template. The error is an
// ErrConfig.
func (t Template) Numbered(count int) ([]Target, error) {
	if count < 1 || count > TargetsMax {
		return nil, fmt.Errorf("%w: %d containers, want 1 to %d", ErrConfig, count, TargetsMax)
	}
	targets := make([]Target, count)
	for i := range targets {
		targets[i] = t.Target
		targets[i].Name += strconv.Itoa(i)
		targets[i].Container += strconv.Itoa(i)
	}
	return targets, nil
}

// Missing returns which of the wanted targets do not exist: what has to be made. It
// compares addresses, because names are the clients' own.
func Missing(wanted, existing []Target) []Target {
	return slices.DeleteFunc(slices.Clone(wanted), func(t Target) bool {
		return slices.ContainsFunc(existing, func(have Target) bool { return t.SameAddress(have) })
	})
}

// SameAddress reports whether both targets are one container.
func (t Target) SameAddress(o Target) bool {
	return t.Account == o.Account && t.Database == o.Database && t.Container == o.Container
}
