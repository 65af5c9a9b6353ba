package table

import (
	"strings"

	"github.com/decandb/decan/internal/table/cql"
)

// textOf returns a value as messages of Apache Cassandra 4.1 have it: operations and casts
// are calls of their functions, quotes in strings are not doubled, and a marker has no name.
func textOf(e cql.Expr) string {
	list := func(all []cql.Expr) string {
		texts := make([]string, len(all))
		for i, one := range all {
			texts[i] = textOf(one)
		}
		return strings.Join(texts, ", ")
	}
	switch e := e.(type) {
	case *cql.Literal:
		if e.Kind == cql.StringLiteral {
			return "'" + e.Text + "'"
		}
	case *cql.Marker:
		return "?"
	case *cql.ListLiteral:
		return "[" + list(e.Elements) + "]"
	case *cql.SetLiteral:
		return "{" + list(e.Elements) + "}"
	case *cql.MapLiteral:
		var entries []string
		for _, m := range e.Entries {
			entries = append(entries, textOf(m.Key)+": "+textOf(m.Value))
		}
		return "{" + strings.Join(entries, ", ") + "}"
	case *cql.UDTLiteral:
		var fields []string
		for _, f := range e.Fields {
			fields = append(fields, f.Name+": "+textOf(f.Value))
		}
		return "{" + strings.Join(fields, ", ") + "}"
	case *cql.TupleLiteral:
		return "(" + list(e.Elements) + ")"
	case *cql.Call:
		name := e.Function.Name
		if e.Function.Keyspace != "" {
			name = e.Function.Keyspace + "." + name
		}
		return name + "(" + list(e.Args) + ")"
	case *cql.TypeHint:
		return "(" + e.Type.String() + ")" + textOf(e.Value)
	case *cql.Cast:
		return `system."castAs` + capital(e.Type.Name) + `"(` + textOf(e.Value) + ")"
	case *cql.Binary:
		return `system."` + operationNames[e.Op] + `"(` + textOf(e.Left) + ", " + textOf(e.Right) + ")"
	case *cql.Negation:
		return `system."_negate"(` + textOf(e.Value) + ")"
	}
	return e.String()
}

// relationText returns a relation as messages have it.
func relationText(r *cql.Relation) string {
	if r.Value == nil || r.Kind == cql.OnElement {
		return r.String()
	}
	return strings.TrimSuffix(r.String(), r.Value.String()) + textOf(r.Value)
}

// capital returns a name with a capital letter at its beginning.
func capital(name string) string { return strings.ToUpper(name[:1]) + name[1:] }
