package statement

import (
	door "github.com/decandb/decan/internal/api/cql"
	"github.com/decandb/decan/internal/table/cql"
)

// verbOf returns what a statement does and the table or keyspace that it names, for the
// audit log. Types, indexes and functions count as their keyspace. keyspace is the one in
// use.
func verbOf(s cql.Statement, keyspace string) (string, door.Table) {
	verb, of := verbAndName(s)
	if _, ofAll := s.(*cql.RoleStatement); of.Keyspace == "" && !ofAll {
		of.Keyspace = keyspace
	}
	return verb, door.Table{Keyspace: of.Keyspace, Name: of.Name}
}

func verbAndName(s cql.Statement) (string, cql.Name) {
	switch s := s.(type) {
	case *cql.Select:
		return "SELECT", s.From
	case *cql.Insert:
		return "INSERT", s.Table
	case *cql.Update:
		return "UPDATE", s.Table
	case *cql.Delete:
		return "DELETE", s.Table
	case *cql.Batch:
		if len(s.Statements) == 0 {
			return "BATCH", cql.Name{}
		}
		_, of := verbAndName(s.Statements[0])
		return "BATCH", of
	case *cql.Use:
		return "USE", cql.Name{Keyspace: s.Keyspace}
	case *cql.Truncate:
		return "TRUNCATE", s.Table
	case *cql.Describe:
		return "DESCRIBE", s.Name
	case *cql.CreateKeyspace:
		return "CREATE KEYSPACE", cql.Name{Keyspace: s.Keyspace}
	case *cql.AlterKeyspace:
		return "ALTER KEYSPACE", cql.Name{Keyspace: s.Keyspace}
	case *cql.DropKeyspace:
		return "DROP KEYSPACE", cql.Name{Keyspace: s.Keyspace}
	case *cql.CreateTable:
		return "CREATE TABLE", s.Table
	case *cql.AlterTable:
		return "ALTER TABLE", s.Table
	case *cql.DropTable:
		return "DROP TABLE", s.Table
	case *cql.CreateType:
		return "CREATE TYPE", cql.Name{Keyspace: s.Type.Keyspace}
	case *cql.AlterUserType:
		return "ALTER TYPE", cql.Name{Keyspace: s.Type.Keyspace}
	case *cql.DropType:
		return "DROP TYPE", cql.Name{Keyspace: s.Type.Keyspace}
	case *cql.CreateIndex:
		return "CREATE INDEX", s.Table
	case *cql.DropIndex:
		return "DROP INDEX", cql.Name{Keyspace: s.Index.Keyspace}
	case *cql.CreateView:
		return "CREATE MATERIALIZED VIEW", s.View
	case *cql.AlterView:
		return "ALTER MATERIALIZED VIEW", s.View
	case *cql.DropView:
		return "DROP MATERIALIZED VIEW", s.View
	case *cql.CreateFunction:
		return "CREATE FUNCTION", cql.Name{Keyspace: s.Function.Keyspace}
	case *cql.CreateAggregate:
		return "CREATE AGGREGATE", cql.Name{Keyspace: s.Aggregate.Keyspace}
	case *cql.DropFunction:
		return "DROP FUNCTION", cql.Name{Keyspace: s.Function.Keyspace}
	case *cql.CreateTrigger:
		return "CREATE TRIGGER", s.Table
	case *cql.DropTrigger:
		return "DROP TRIGGER", s.Table
	case *cql.RoleStatement:
		return s.Verb + " " + s.Object, cql.Name{}
	}
	return "", cql.Name{}
}
