package table

import (
	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/table/cql"
)

// ColumnKind is the part of a table that a column belongs to.
type ColumnKind uint8

// The kinds of columns, in the order of SELECT *.
const (
	PartitionKey ColumnKind = iota
	Clustering
	Static
	Regular
)

// Column is a column of a table.
type Column struct {
	Name string
	Type *row.Type
	Kind ColumnKind

	// Position is the place in the partition key or among the clustering columns, from
	// zero; 0 for other columns.
	Position   int
	Descending bool // of a clustering column

	// ID names the column in stored rows. It is never used again in the table, also after
	// the column was dropped.
	ID uint32
}

// key returns how the values of a clustering column are encoded.
func (c *Column) key() row.KeyColumn { return row.KeyColumn{Type: c.Type, Descending: c.Descending} }

// Table is a table as statements see it. It is immutable.
type Table struct {
	Keyspace, Name string

	// The columns: those of the keys in their order, the others by name.
	Partition, Clustering, Static, Regular []*Column

	byName map[string]*Column
}

// NewTable returns a table with columns, which it keeps. The columns of each kind are in
// the order that [Table] says.
func NewTable(keyspace, name string, columns []*Column) *Table {
	t := &Table{Keyspace: keyspace, Name: name, byName: make(map[string]*Column, len(columns))}
	for _, c := range columns {
		t.byName[c.Name] = c
		switch c.Kind {
		case PartitionKey:
			t.Partition = append(t.Partition, c)
		case Clustering:
			t.Clustering = append(t.Clustering, c)
		case Static:
			t.Static = append(t.Static, c)
		case Regular:
			t.Regular = append(t.Regular, c)
		}
	}
	return t
}

// Column returns the column with a name, nil if there is none.
func (t *Table) Column(name string) *Column { return t.byName[name] }

// undefined is the error of a column that does not exist.
func (t *Table) undefined(name string) error {
	return invalid("Undefined column name %s in table %s.%s", cql.Quote(name), cql.Quote(t.Keyspace), cql.Quote(t.Name))
}

// keyTypes returns the types of the partition key.
func (t *Table) keyTypes() []*row.Type {
	types := make([]*row.Type, len(t.Partition))
	for i, c := range t.Partition {
		types[i] = c.Type
	}
	return types
}

// receiver returns what a value of a statement on the table is for.
func (t *Table) receiver(of *row.Type, name string) receiver {
	return receiver{t: of, name: name, keyspace: t.Keyspace, table: t.Name, keys: t.keyTypes()}
}
