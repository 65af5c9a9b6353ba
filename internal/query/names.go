package query

import (
	"maps"
	"slices"
)

// FunctionNames returns the names of the built-in functions in upper case and in order,
// in all spellings that the service accepts.
func FunctionNames() []string { return slices.Sorted(maps.Keys(functions)) }
