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
	name     string // as in error messages
	min, max int    // number of arguments; a max of -1 means no limit
	run      runner

	// bind returns a runner for one call. It may evaluate constant arguments once and
	// use the policies of properties. run is then the runner without a binding.
	bind func(b binding) runner

	// direct returns an evaluation of one call that reads places of the document as
	// text. If direct is nil or returns nil, run evaluates the call.
	direct func(b binding) func(e *env) value.Value

	aggregate bool
	volatile  bool // its result may differ from row to row for the same arguments
}

// takes reports whether the function takes n arguments.
func (f *function) takes(n int) bool { return n >= f.min && (f.max < 0 || n <= f.max) }

// runner computes a function of evaluated arguments.
type runner func(e *env, args []value.Value) value.Value

// undefinedRun is the function that is always undefined.
func undefinedRun(*env, []value.Value) value.Value { return value.Undefined() }

// binding is what is known about a call at compile time.
type binding struct {
	args  []sql.Expr
	parts []code                              // the compiled arguments; nil if nothing is known
	path  func(x sql.Expr) (index.Path, bool) // the property that an argument denotes
	ix    *index.Index                        // nil for documents without a policy

	compilation *compilation // nil if nothing is known
}

// binding returns what the compiler knows about a call.
func (c *compiler) binding(x *sql.CallExpr, parts []code) binding {
	return binding{args: x.Args, parts: parts, ix: c.ix, compilation: c.compilation, path: func(x sql.Expr) (index.Path, bool) {
		path, ok := c.path(x)
		return indexPath(path), ok && len(path) > 0
	}}
}

// constant returns argument i if it is constant.
func (b binding) constant(i int) (value.Value, bool) {
	if i >= len(b.parts) || !b.parts[i].con {
		return value.Undefined(), false
	}
	return b.parts[i].v, true
}

// property returns the property that argument i denotes.
func (b binding) property(i int) (index.Path, bool) {
	if b.path == nil || i >= len(b.args) {
		return nil, false
	}
	return b.path(b.args[i])
}

// functions maps upper-case names, in all spellings that the service accepts, to
// functions.
var functions = makeFunctions()

// numberNames are the identifiers that denote numbers unless they are aliases.
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

// aggregateFunctions combine several rows; aggregate.go evaluates them.
func aggregateFunctions() []function {
	var list []function
	for name := range aggregateKinds {
		list = append(list, function{name: name, min: 1, max: 1, aggregate: true})
	}
	return list
}
