package table

import (
	"slices"
	"strings"

	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/table/cql"
)

// Refused returns the error of a statement that the service's documentation says it does
// not support, and that Apache Cassandra allows; nil for others. Checks of everyone come
// first: the statement is one that could be executed otherwise. inUse is the keyspace in
// use, which may be empty.
//
// Sources are the pages on the support of CQL, on indexes, lightweight transactions and
// materialized views in the documentation of Azure Cosmos DB for Apache Cassandra. The
// texts are ours, except for those of lightweight transactions.
func (s *Schema) Refused(statement cql.Statement, inUse string) error {
	switch e := statement.(type) {
	case *cql.Select:
		t, _ := s.Table(e.From, inUse)
		return refusedSelect(e, t)
	case *cql.Insert:
		return refusedIn(e.Values...)
	case *cql.Update:
		return s.refusedUpdate(e, inUse)
	case *cql.Delete:
		return s.refusedDelete(e, inUse)
	case *cql.Batch:
		return s.refusedBatch(e, inUse)
	case *cql.CreateKeyspace:
		return refusedOptions(e.Properties)
	case *cql.AlterKeyspace:
		if !slices.ContainsFunc(e.Properties, func(p cql.Property) bool { return strings.HasPrefix(p.Name, "cosmosdb_") }) {
			return refused("ALTER KEYSPACE of anything but throughput is")
		}
		return refusedOptions(e.Properties)
	case *cql.CreateTable:
		return refusedOptions(e.Properties)
	case *cql.AlterTable:
		return refusedOptions(e.Properties)
	case *cql.AlterUserType:
		return refused("ALTER TYPE is")
	case *cql.CreateIndex:
		return s.refusedIndex(e, inUse)
	case *cql.CreateView:
		return s.refusedView(e, inUse)
	case *cql.CreateFunction:
		return refused("CREATE FUNCTION is")
	case *cql.CreateAggregate:
		return refused("CREATE AGGREGATE is")
	case *cql.CreateTrigger:
		return refused("CREATE TRIGGER is")
	}
	return nil
}

func refused(what string) error { return invalid("%s not supported", what) }

// RefusedBatch is Refused for a batch of the native protocol.
func RefusedBatch(kind cql.BatchKind) error {
	if kind == cql.Logged {
		return refused("LOGGED batch is")
	}
	return nil
}

func (s *Schema) refusedBatch(e *cql.Batch, inUse string) error {
	if err := RefusedBatch(e.Kind); err != nil {
		return err
	}
	for _, one := range e.Statements {
		if err := s.Refused(one, inUse); err != nil {
			return err
		}
	}
	return nil
}

// aggregateNames are the aggregates of CQL.
var aggregateNames = []string{"count", "min", "max", "avg", "sum"}

func refusedSelect(e *cql.Select, t *Table) error {
	if e.Distinct {
		return refused("DISTINCT is")
	}
	for _, selector := range e.Selectors {
		if err := refusedIn(selector.Expr); err != nil {
			return err
		}
		var err error
		walk(selector.Expr, func(x cql.Expr) {
			call, ok := x.(*cql.Call)
			if !ok || !slices.Contains(aggregateNames, call.Function.Name) || t == nil {
				return
			}
			if t.View != nil {
				err = refused("An aggregate over a materialized view is")
			}
			for _, a := range call.Args {
				if c, ok := a.(*cql.Column); ok && t.Column(c.Name) != nil && t.Column(c.Name).Kind == Clustering {
					err = refused("An aggregate of a clustering column is")
				}
			}
		})
		if err != nil {
			return err
		}
	}
	return refusedWhere(e.Where)
}

func refusedWhere(all []cql.Relation) error {
	for _, r := range all {
		if err := refusedIn(r.Value); err != nil {
			return err
		}
	}
	return nil
}

// refusedIn looks at functions and casts.
func refusedIn(all ...cql.Expr) (err error) {
	for _, e := range all {
		walk(e, func(x cql.Expr) {
			switch x := x.(type) {
			case *cql.Call:
				switch x.Function.Name {
				case "fromjson", "tojson":
					err = refused("The function " + x.Function.Name + " is")
				case "token":
					if !slices.ContainsFunc(x.Args, func(a cql.Expr) bool { _, ok := a.(*cql.Column); return ok }) {
						err = refused("token() of constants is")
					}
				}
			case *cql.Cast:
				walk(x.Value, func(inner cql.Expr) {
					if _, ok := inner.(*cql.Cast); ok {
						err = refused("A cast of a cast is")
					}
				})
			}
		})
	}
	return err
}

// walk visits an expression and its parts.
func walk(e cql.Expr, visit func(cql.Expr)) {
	if e == nil {
		return
	}
	visit(e)
	all := func(parts ...cql.Expr) {
		for _, p := range parts {
			walk(p, visit)
		}
	}
	switch e := e.(type) {
	case *cql.ListLiteral:
		all(e.Elements...)
	case *cql.SetLiteral:
		all(e.Elements...)
	case *cql.TupleLiteral:
		all(e.Elements...)
	case *cql.MapLiteral:
		for _, m := range e.Entries {
			all(m.Key, m.Value)
		}
	case *cql.UDTLiteral:
		for _, f := range e.Fields {
			all(f.Value)
		}
	case *cql.Call:
		all(e.Args...)
	case *cql.Cast:
		all(e.Value)
	case *cql.TypeHint:
		all(e.Value)
	case *cql.Binary:
		all(e.Left, e.Right)
	case *cql.Negation:
		all(e.Value)
	case *cql.Field:
		all(e.Value)
	case *cql.Element:
		all(e.Value, e.Key)
	case *cql.Slice:
		all(e.Value, e.From, e.To)
	}
}

// refusedUpdate looks at the values, and at conditions on other columns than static ones.
func (s *Schema) refusedUpdate(e *cql.Update, inUse string) error {
	var columns []string
	for _, a := range e.Assignments {
		if err := refusedIn(a.Value); err != nil {
			return err
		}
		columns = append(columns, a.Target.Column)
	}
	if len(e.Conditions) > 0 {
		if err := s.mixed(e.Table, columns, e.Conditions, inUse); err != nil {
			return err
		}
	}
	return refusedWhere(e.Where)
}

func (s *Schema) refusedDelete(e *cql.Delete, inUse string) error {
	if len(e.Selection) == 0 && (e.IfExists || len(e.Conditions) > 0) {
		return refused("Conditional delete of an entire row is")
	}
	var columns []string
	for _, t := range e.Selection {
		columns = append(columns, t.Column)
	}
	if len(e.Conditions) > 0 {
		if err := s.mixed(e.Table, columns, e.Conditions, inUse); err != nil {
			return err
		}
	}
	return refusedWhere(e.Where)
}

// mixed refuses static and regular columns together in a conditional statement.
func (s *Schema) mixed(name cql.Name, columns []string, conditions []cql.Condition, inUse string) error {
	t, _ := s.Table(name, inUse)
	if t == nil {
		return nil // Checks of everyone find it.
	}
	for _, c := range conditions {
		columns = append(columns, c.Target.Column)
	}
	kinds := map[ColumnKind]bool{}
	for _, name := range columns {
		if c := t.Column(name); c != nil {
			kinds[c.Kind] = true
		}
	}
	if kinds[Static] && kinds[Regular] {
		return invalid("Conditions and assignments containing combination of Static and Regular columns are not supported.")
	}
	return nil
}

func refusedOptions(props []cql.Property) error {
	for _, p := range props {
		switch {
		case p.Name == "gc_grace_seconds" && p.Value != "0":
			return refused("A gc_grace_seconds other than 0 is")
		case p.Name == "durable_writes" && strings.EqualFold(p.Value, "false"):
			return refused("durable_writes = false is")
		}
	}
	return nil
}

func (s *Schema) refusedIndex(e *cql.CreateIndex, inUse string) error {
	if e.Custom {
		return refused("CREATE CUSTOM INDEX is")
	}
	t, _ := s.Table(e.Table, inUse)
	if t == nil {
		return nil // Checks of everyone find it.
	}
	for _, target := range e.Targets {
		c := t.Column(target.Column)
		switch {
		case c == nil:
		case c.Kind == Static:
			return refused("An index on a static column is")
		case c.Type.Kind == row.KindDecimal || c.Type.Kind == row.KindVarInt:
			return refused("An index on a column of type " + c.Type.String() + " is")
		case c.Type.Collection() && c.Type.Frozen:
			return refused("An index on a frozen collection is")
		}
	}
	return nil
}

// viewsMax is the greatest number of views of a table.
const viewsMax = 5

func (s *Schema) refusedView(e *cql.CreateView, inUse string) error {
	t, _ := s.Table(e.Base, inUse)
	if t == nil {
		return nil // Checks of everyone find it.
	}
	if len(t.Static) > 0 {
		return refused("A materialized view of a table with static columns is")
	}
	n := 0
	for _, other := range s.Keyspace(t.Keyspace).Tables {
		if other.View != nil && other.View.Base == t.Name {
			n++
		}
	}
	if n >= viewsMax {
		return refused("More than 5 materialized views of a table are")
	}
	return refusedWhere(e.Where)
}
