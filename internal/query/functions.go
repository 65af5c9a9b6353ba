package query

import (
	"math"
	"strings"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/value"
)

// function is a built-in function of the language.
type function struct {
	name     string // as error messages show it
	min, max int    // number of arguments; a max of -1 is any number
	run      runner

	// bind makes a run for one call, whose constant arguments it may look at once
	// and whose properties may have policies. run is then what it makes of no
	// binding at all.
	bind func(b binding) runner

	aggregate bool
	volatile  bool // may differ from row to row with the same arguments
}

// takes reports whether the function takes n arguments.
func (f *function) takes(n int) bool { return n >= f.min && (f.max < 0 || n <= f.max) }

// runner computes a function of evaluated arguments.
type runner func(e *env, args []value.Value) value.Value

// undefinedRun is the function that is undefined whatever the arguments are.
func undefinedRun(*env, []value.Value) value.Value { return value.Undefined() }

// binding is what is known of a call before any document is.
type binding struct {
	args  []Expr
	parts []code                          // the compiled arguments; nil when nothing is known
	path  func(x Expr) (index.Path, bool) // the property that an argument is
	ix    *index.Index                    // nil for documents without policies
}

// bound returns the run of one call: what its function makes of the arguments
// that are constant and of the policies of the container.
func (c *compiler) bound(f *function, x *Call, parts []code, ix *index.Index) runner {
	if f.bind == nil {
		return f.run
	}
	return f.bind(binding{args: x.Args, parts: parts, ix: ix, path: func(x Expr) (index.Path, bool) {
		path, ok := c.path(x)
		return indexPath(path), ok && len(path) > 0
	}})
}

// constant returns argument i when it is the same for all documents.
func (b binding) constant(i int) (value.Value, bool) {
	if i >= len(b.parts) || !b.parts[i].con {
		return value.Undefined(), false
	}
	return b.parts[i].v, true
}

// property returns the property that argument i is.
func (b binding) property(i int) (index.Path, bool) {
	if b.path == nil || i >= len(b.args) {
		return nil, false
	}
	return b.path(b.args[i])
}

// functions holds the functions by their names in upper case, in every spelling
// that the service takes. Those without run are known and not executed yet.
var functions = makeFunctions()

// numberNames are the identifiers that mean a number where no alias has them.
var numberNames = map[string]value.Value{
	"NaN":      value.Number(math.NaN()),
	"Infinity": value.Number(math.Inf(1)),
}

func makeFunctions() map[string]*function {
	m := map[string]*function{}
	for _, group := range [][]function{typeFunctions(), mathFunctions(), stringFunctions(), arrayFunctions(), timeFunctions(), otherFunctions(), spatialFunctions(), textFunctions(), vectorFunctions(), aggregateFunctions()} {
		for i := range group {
			f := &group[i]
			if f.bind != nil {
				f.run = f.bind(binding{})
			}
			for _, name := range strings.Split(f.name, " ") {
				m[strings.ToUpper(name)] = f
			}
			f.name, _, _ = strings.Cut(f.name, " ")
		}
	}
	return m
}

// aggregateFunctions are of several rows: aggregate.go evaluates them.
func aggregateFunctions() []function {
	list := []function{
		{name: "COUNT", min: 1, max: 1, aggregate: true},
		{name: "SUM", min: 1, max: 1, aggregate: true},
		{name: "AVG", min: 1, max: 1, aggregate: true},
		{name: "MIN", min: 1, max: 1, aggregate: true},
		{name: "MAX", min: 1, max: 1, aggregate: true},
		{name: "COUNTIF", min: 1, max: 1, aggregate: true},
		{name: "MAKELIST", min: 1, max: 1, aggregate: true},
		{name: "MAKESET", min: 1, max: 1, aggregate: true},
	}
	return list
}
