package query

import (
	"math"
	"strings"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/query/sql"
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

	// direct makes the evaluation of one call that reads places of the document
	// by itself, as their texts; nil, also as a result, leaves the call to run.
	direct func(b binding) func(e *env) value.Value

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
	args  []sql.Expr
	parts []code                              // the compiled arguments; nil when nothing is known
	path  func(x sql.Expr) (index.Path, bool) // the property that an argument is
	ix    *index.Index                        // nil for documents without policies

	making *making // nil when nothing is known
}

// binding returns what the compiler knows of a call.
func (c *compiler) binding(x *sql.CallExpr, parts []code) binding {
	return binding{args: x.Args, parts: parts, ix: c.ix, making: c.making, path: func(x sql.Expr) (index.Path, bool) {
		path, ok := c.path(x)
		return indexPath(path), ok && len(path) > 0
	}}
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
// that the service takes.
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
	var list []function
	for name := range aggregateKinds {
		list = append(list, function{name: name, min: 1, max: 1, aggregate: true})
	}
	return list
}
