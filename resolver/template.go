package resolver

import (
	"fmt"
	"slices"
	"strconv"
)

// Template describes containers that are created on demand.
type Template struct {
	// Target is the target of every container. The container's number is
	// appended to its name and its container.
	Target Target

	// Definition is the container's JSON without its id: partition key, indexing
	// policy, unique keys and so on.
	Definition []byte

	// Throughput is the RU/s of a new container, or its maximum if Autoscale is
	// set. 0 leaves the throughput to the database.
	Throughput int32
	Autoscale  bool

	// Scripts are created in each new container.
	Scripts []Script
}

// Script is a stored procedure, trigger or user-defined function.
type Script struct {
	Kind ScriptKind
	ID   string
	Body string

	// TriggerType is Pre or Post. TriggerOperation is All, Create, Replace,
	// Update or Delete. Both apply to triggers only.
	TriggerType, TriggerOperation string
}

// ScriptKind says which kind of resource a script is.
type ScriptKind string

// The kinds of scripts, as written in their links.
const (
	StoredProcedure     ScriptKind = "sprocs"
	Trigger             ScriptKind = "triggers"
	UserDefinedFunction ScriptKind = "udfs"
)

// Numbered returns the targets of the template with the numbers 0 to count-1.
// The error is an ErrConfig.
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

// Missing returns the wanted targets that do not exist yet. It compares
// addresses, because each client chooses its own names.
func Missing(wanted, existing []Target) []Target {
	return slices.DeleteFunc(slices.Clone(wanted), func(t Target) bool {
		return slices.ContainsFunc(existing, func(have Target) bool { return t.SameAddress(have) })
	})
}

// SameAddress reports whether both targets are the same container.
func (t Target) SameAddress(o Target) bool {
	return t.Account == o.Account && t.Database == o.Database && t.Container == o.Container
}
