package table

import (
	"strings"
	"sync"
	"time"

	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/table/cql"
)

// Moment is what the functions of one execution of a statement know about time.
type Moment struct {
	Now time.Time

	// TimeUUID returns a new timeuuid of the present, and UUID a new random uuid. They
	// are called by now() and uuid(), once for each call in each row.
	TimeUUID, UUID func() [16]byte
}

// function is a function of the keyspace system, an arithmetic operation or a cast,
// for arguments of given types.
type function struct {
	name   string // with its case, without the keyspace
	args   []*row.Type
	result *row.Type

	// eval returns the value for arguments of which none is null, unless nulls is set.
	// Its error is an *Error.
	eval  func(m *Moment, args [][]byte) ([]byte, error)
	nulls bool

	aggregate func() aggregator // of an aggregate function, which has no eval
	operator  byte              // of an operation; 0 otherwise
}

// noFunction returns the error of a name that no function has.
func noFunction(name string) error {
	err := invalid("Unknown function '%s'", name)
	err.unknown = name
	return err
}

// call evaluates the function. Null arguments give null, unless the function takes them.
func (f *function) call(m *Moment, args [][]byte) ([]byte, error) {
	if !f.nulls {
		for _, a := range args {
			if a == nil {
				return nil, nil
			}
		}
	}
	return f.eval(m, args)
}

// String returns the signature, as messages list it.
func (f *function) String() string {
	return "system." + cql.Quote(f.name) + " : (" + strings.Join(typeNames(f.args), ", ") + ") -> " + f.result.String()
}

func typeNames(types []*row.Type) []string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = t.String()
	}
	return names
}

// match says whether a value may be passed where a type is expected.
type match uint8

// The matches.
const (
	noMatch match = iota
	weak          // the value can be read as one of the type
	exact         // it has the type
)

// argument is an argument of a function whose overload is to be found.
type argument interface {
	// match says whether the argument may be passed for a type.
	match(t *row.Type) match
	// exactType returns the type of the argument, nil if it depends on what is expected.
	exactType() *row.Type
	// String returns the text of the argument in messages.
	String() string
	// marks says whether the argument is, or contains, a bind marker.
	marks() bool
}

// typeMatch says whether a value of type given may be passed for a type.
func typeMatch(expected, given *row.Type) match {
	switch {
	case expected.Freeze().Equal(given.Freeze()):
		return exact
	case readable(expected, given):
		return weak
	}
	return noMatch
}

// readable says whether bytes of one type are always bytes of another.
func readable(as, given *row.Type) bool {
	if as.Kind == given.Kind && len(as.Parts) == len(given.Parts) && as.Kind >= row.KindList && as.Name == given.Name {
		for i := range as.Parts {
			if typeMatch(as.Parts[i], given.Parts[i]) == noMatch {
				return false
			}
		}
		return true
	}
	switch as.Kind {
	case row.KindBlob:
		return true
	case row.KindText:
		return given.Kind == row.KindASCII
	case row.KindUUID:
		return given.Kind == row.KindTimeUUID
	case row.KindBigInt:
		return given.Kind == row.KindTimestamp
	case row.KindTimestamp, row.KindTime:
		return given.Kind == row.KindBigInt
	case row.KindDate:
		return given.Kind == row.KindInt
	case row.KindVarInt:
		return given.Kind == row.KindInt || given.Kind == row.KindBigInt || given.Kind == row.KindSmallInt || given.Kind == row.KindTinyInt || given.Kind == row.KindTimestamp
	}
	return false
}

// resolveFunction finds the function of a name for arguments. receiver is the type of
// what the result is for, nil if that is not known. partitionKey has the types of the
// partition key of the table in the statement, for token(); nil if there is none.
//
// The order of its checks and their texts are those of Apache Cassandra 4.1.
func resolveFunction(name cql.Name, args []argument, receiver *row.Type, partitionKey []*row.Type) (*function, error) {
	text := name.Name
	if name.Keyspace != "" {
		text = name.Keyspace + "." + name.Name
	}
	if name.Keyspace != "" && name.Keyspace != "system" {
		return nil, noFunction(text)
	}
	switch name.Name {
	case "token":
		if partitionKey == nil {
			break
		}
		f := tokenFunction(partitionKey)
		return f, f.check(args)
	case "tojson":
		return toJSONFunction(args)
	case "fromjson":
		return fromJSONFunction(args, receiver)
	case "count", "min", "max", "sum", "avg":
		if len(args) == 1 && args[0].exactType() != nil {
			if f := aggregateFunction(name.Name, args[0].exactType()); f != nil {
				return f, nil
			}
		}
	}
	candidates := natives()[name.Name]
	if len(candidates) == 0 {
		if name.Name == "sum" || name.Name == "avg" {
			candidates = numericAggregates(name.Name)
		} else {
			return nil, noFunction(text)
		}
	}
	return choose(candidates, args, receiver, func(all []*function) error {
		return invalid("Ambiguous call to function %s (can be matched by following signatures: %s): use type casts to disambiguate", text, signatures(all))
	}, func() error {
		return invalid("Invalid call to function %s, none of its type signatures match (known type signatures: %s)", text, signatures(candidates))
	})
}

// choose returns the candidate that fits the arguments best.
func choose(candidates []*function, args []argument, receiver *row.Type, ambiguous func([]*function) error, none func() error) (*function, error) {
	if len(candidates) == 1 {
		return candidates[0], candidates[0].check(args)
	}
	var fit []*function
	for _, f := range candidates {
		if receiver != nil && typeMatch(receiver, f.result) == noMatch {
			continue
		}
		switch f.matches(args) {
		case exact:
			return f, nil
		case weak:
			fit = append(fit, f)
		}
	}
	switch len(fit) {
	case 0:
		return nil, none()
	case 1:
		return fit[0], nil
	}
	return nil, ambiguous(fit)
}

// check returns the error of arguments for the only function of a name.
func (f *function) check(args []argument) error {
	if len(args) != len(f.args) {
		return invalid("Invalid number of arguments in call to function system.%s: %d required but %d provided", f.name, len(f.args), len(args))
	}
	for i, a := range args {
		if a.match(f.args[i]) == noMatch {
			return invalid("Type error: %s cannot be passed as argument %d of function system.%s of type %s", a, i, f.name, f.args[i])
		}
	}
	return nil
}

// matches says how well arguments fit.
func (f *function) matches(args []argument) match {
	if len(args) != len(f.args) {
		return noMatch
	}
	all := exact
	for i, a := range args {
		all = min(all, a.match(f.args[i]))
	}
	return all
}

func signatures(all []*function) string {
	texts := make([]string, len(all))
	for i, f := range all {
		texts[i] = f.String()
	}
	return strings.Join(texts, ", ")
}

// natives returns the functions that are no aggregates, casts or operations, by name.
var natives = sync.OnceValue(func() map[string][]*function {
	all := map[string][]*function{}
	for _, f := range append(timeFunctions(), blobFunctions()...) {
		all[f.name] = append(all[f.name], f)
	}
	return all
})

// native is a short name for row.Native.
func native(k row.Kind) *row.Type { return row.Native(k) }
