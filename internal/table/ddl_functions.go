package table

import (
	"strings"

	"github.com/decandb/decan/internal/table/cql"
)

// withoutFunctions answers statements about functions, aggregates and triggers as an Apache
// Cassandra 4.1 in which there are none: functions are disabled, and no class of a trigger
// can be loaded. It refuses those about roles.
func (d *definer) withoutFunctions(statement cql.Statement) (Change, error) {
	switch e := statement.(type) {
	case *cql.CreateFunction:
		return Change{}, invalid("User-defined functions are disabled in cassandra.yaml - set user_defined_functions_enabled=true to enable")
	case *cql.CreateAggregate:
		return Change{}, d.createAggregate(e)
	case *cql.DropFunction:
		return d.dropFunction(e)
	case *cql.CreateTrigger:
		return Change{}, d.createTrigger(e)
	case *cql.DropTrigger:
		if e.IfExists {
			return d.unchanged(), nil
		}
		n := d.qualify(e.Table)
		return Change{}, invalid("Trigger '%s' on '%s.%s' doesn't exist", e.Trigger, n.Keyspace, n.Name)
	case *cql.RoleStatement:
		return Change{}, invalid("%s %s is not supported: the keys of the account decide who may do what", e.Verb, e.Object)
	}
	return Change{}, invalid("The statement defines nothing")
}

// createAggregate returns the error of CREATE AGGREGATE, whose state function cannot exist.
func (d *definer) createAggregate(e *cql.CreateAggregate) error {
	n := d.qualify(e.Aggregate)
	switch {
	case e.OrReplace && e.IfNotExists:
		return invalid("Cannot use both 'OR REPLACE' and 'IF NOT EXISTS' directives")
	case n.Keyspace == "":
		return noKeyspace()
	case d.Keyspace(n.Keyspace) == nil:
		return &Error{Class: Config, Text: "Keyspace " + n.Keyspace + " doesn't exist"}
	}
	return invalid("State function %s.%s(%s) doesn't exist", n.Keyspace, e.State, typeList(append([]*cql.Type{e.StateType}, e.Arguments...)))
}

func (d *definer) dropFunction(e *cql.DropFunction) (Change, error) {
	n := d.qualify(e.Function)
	if n.Keyspace == "" {
		return Change{}, noKeyspace()
	}
	if e.IfExists {
		return d.unchanged(), nil
	}
	kind, arguments := "Function", ""
	if e.Aggregate {
		kind = "Aggregate"
	}
	if e.HasArguments {
		arguments = "(" + typeList(e.Arguments) + ")"
	}
	return Change{}, invalid("%s '%s.%s%s' doesn't exist", kind, n.Keyspace, n.Name, arguments)
}

// createTrigger returns the error of CREATE TRIGGER: no class can be loaded.
func (d *definer) createTrigger(e *cql.CreateTrigger) error {
	n := d.qualify(e.Table)
	if n.Keyspace == "" {
		return noKeyspace()
	}
	k := d.Keyspace(n.Keyspace)
	switch {
	case k == nil:
		return invalid("Keyspace '%s' doesn't exist", n.Keyspace)
	case k.Table(n.Name) == nil:
		return invalid("Table '%s' doesn't exist", n.Name)
	case k.Table(n.Name).View != nil:
		return invalid("Cannot CREATE TRIGGER for a materialized view")
	}
	return invalid("Trigger class '%s' couldn't be loaded", e.Class)
}

// typeList prints types as messages about functions have them.
func typeList(types []*cql.Type) string {
	texts := make([]string, len(types))
	for i, t := range types {
		texts[i] = t.String()
	}
	return strings.Join(texts, ", ")
}
