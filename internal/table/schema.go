package table

import (
	"cmp"
	"slices"
	"strings"

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

	ID      [16]byte // of the table; a table that is dropped and created again has another
	Options Options
	Indexes []Index // by name
	Dropped []DroppedColumn
	View    *View // nil unless the table is a materialized view

	nextID uint32 // the first id that no column has had
	byName map[string]*Column
}

// Counter says whether the table has counters.
func (t *Table) Counter() bool {
	for _, c := range slices.Concat(t.Static, t.Regular) {
		if c.Type.Kind == row.KindCounter {
			return true
		}
	}
	return false
}

// Index is a secondary index.
type Index struct {
	Name   string
	Column string
	// Target is the part of the column that is indexed, as system_schema has it: the
	// column itself, or one of keys, values, entries and full with it, as in "keys(m)".
	Target  string
	Class   string            // of a custom index; empty for others
	Options map[string]string // of a custom index
	Terms   string            // the definition of its terms, a text of row.Index
}

// RowIndexes returns the definitions of the terms of all indexes, sorted.
func (t *Table) RowIndexes() (definitions []string) {
	for _, i := range t.Indexes {
		definitions = append(definitions, i.Terms)
	}
	slices.Sort(definitions)
	return definitions
}

// has says whether a column outside of the key has an id.
func (t *Table) has(id uint32) bool {
	is := func(c *Column) bool { return c.ID == id }
	return slices.ContainsFunc(t.Regular, is) || slices.ContainsFunc(t.Static, is)
}

// DroppedColumn is a column that the table had.
type DroppedColumn struct {
	Name   string
	Type   *row.Type
	Static bool
	Time   int64 // of the drop, in microseconds since 1970
}

// View says from which table a materialized view is made.
type View struct {
	Base       string // name of the table, in the same keyspace
	BaseID     [16]byte
	AllColumns bool   // the view selects *
	Where      string // the relations of the view

	// Strict says that a column of the view's key is not in the table's key. Then a row
	// exists as long as its marker, whatever its cells are. It follows from the table.
	Strict bool
}

// Keyspace is a keyspace. It is immutable.
type Keyspace struct {
	Name          string
	Replication   map[string]string
	DurableWrites bool
	Types         []*row.Type // the user-defined types, not frozen, by name
	Tables        []*Table    // with the materialized views, by name

	// Throughput in request units per second, given with CREATE or ALTER KEYSPACE, as in
	// [Options].
	Throughput, Autoscale int
}

// Table returns the table or view with a name, nil if there is none.
func (k *Keyspace) Table(name string) *Table {
	i, ok := slices.BinarySearchFunc(k.Tables, name, func(t *Table, name string) int { return strings.Compare(t.Name, name) })
	if !ok {
		return nil
	}
	return k.Tables[i]
}

// Type returns the user-defined type with a name, not frozen, or nil.
func (k *Keyspace) Type(name string) *row.Type {
	i, ok := slices.BinarySearchFunc(k.Types, name, func(t *row.Type, name string) int { return strings.Compare(t.Name, name) })
	if !ok {
		return nil
	}
	return k.Types[i]
}

// Schema is all keyspaces. It is immutable: a change returns another one.
type Schema struct {
	keyspaces []*Keyspace // by name
}

// Keyspaces returns all keyspaces by name. The caller does not change the slice.
func (s *Schema) Keyspaces() []*Keyspace { return s.keyspaces }

// Keyspace returns the keyspace with a name, nil if there is none.
func (s *Schema) Keyspace(name string) *Keyspace {
	i, ok := slices.BinarySearchFunc(s.keyspaces, name, func(k *Keyspace, name string) int { return strings.Compare(k.Name, name) })
	if !ok {
		return nil
	}
	return s.keyspaces[i]
}

// Table returns the table that a statement names. inUse is the keyspace in use, which
// may be empty. The errors are those of statements on data.
func (s *Schema) Table(name cql.Name, inUse string) (*Table, error) {
	if name.Keyspace == "" {
		name.Keyspace = inUse
	}
	if name.Keyspace == "" {
		return nil, noKeyspace()
	}
	k := s.Keyspace(name.Keyspace)
	if k == nil {
		return nil, invalid("keyspace %s does not exist", name.Keyspace)
	}
	t := k.Table(name.Name)
	if t == nil {
		return nil, invalid("table %s does not exist", name.Name)
	}
	return t, nil
}

func noKeyspace() error {
	return invalid("No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename")
}

// UserType finds a user-defined type for the types of a statement. The error is that of
// an unknown type.
func (s *Schema) UserType(keyspace, name string) (*row.Type, error) {
	if k := s.Keyspace(keyspace); k != nil {
		if t := k.Type(name); t != nil {
			return t, nil
		}
	}
	return nil, invalid("Unknown type %s.%s", keyspace, name)
}

// with returns the schema with a keyspace in the place of the one with its name.
func (s *Schema) with(k *Keyspace) *Schema {
	all := slices.DeleteFunc(slices.Clone(s.keyspaces), func(other *Keyspace) bool { return other.Name == k.Name })
	all = append(all, k)
	slices.SortFunc(all, func(a, b *Keyspace) int { return strings.Compare(a.Name, b.Name) })
	return &Schema{keyspaces: all}
}

// without returns the schema without a keyspace.
func (s *Schema) without(name string) *Schema {
	return &Schema{keyspaces: slices.DeleteFunc(slices.Clone(s.keyspaces), func(k *Keyspace) bool { return k.Name == name })}
}

// withTable returns the keyspace with a table in the place of the one with its name.
func (k *Keyspace) withTable(t *Table) *Keyspace {
	changed := k.withoutTable(t.Name)
	changed.Tables = append(changed.Tables, t)
	slices.SortFunc(changed.Tables, func(a, b *Table) int { return strings.Compare(a.Name, b.Name) })
	return changed.linked()
}

func (k *Keyspace) withoutTable(name string) *Keyspace {
	changed := *k
	changed.Tables = slices.DeleteFunc(slices.Clone(k.Tables), func(t *Table) bool { return t.Name == name })
	return &changed
}

// withType returns the keyspace with a user-defined type in the place of the one with
// its name. Other types and columns that have it get its new form.
func (k *Keyspace) withType(t *row.Type) *Keyspace {
	changed := k.withoutType(t.Name)
	changed.Types = append(changed.Types, t)
	slices.SortFunc(changed.Types, func(a, b *row.Type) int { return strings.Compare(a.Name, b.Name) })
	for i, other := range changed.Types {
		if other != t {
			changed.Types[i] = substitute(other, t)
		}
	}
	for i, table := range changed.Tables {
		if !slices.ContainsFunc(table.all(), func(c *Column) bool { return names(c.Type, t.Name) }) {
			continue
		}
		columns := table.all()
		for j, c := range columns {
			column := *c
			column.Type = substitute(c.Type, t)
			columns[j] = &column
		}
		changed.Tables[i] = table.withColumns(columns)
	}
	return changed
}

func (k *Keyspace) withoutType(name string) *Keyspace {
	changed := *k
	changed.Types = slices.DeleteFunc(slices.Clone(k.Types), func(t *row.Type) bool { return t.Name == name })
	changed.Tables = slices.Clone(k.Tables)
	return &changed
}

// names says whether a type is, or has a part that is, the user-defined type with a name.
func names(t *row.Type, name string) bool {
	return t.Kind == row.KindUDT && t.Name == name || slices.ContainsFunc(t.Parts, func(p *row.Type) bool { return names(p, name) })
}

// substitute returns a type in which a user-defined type has a new form.
func substitute(t, changed *row.Type) *row.Type {
	if !names(t, changed.Name) {
		return t
	}
	if t.Kind == row.KindUDT && t.Name == changed.Name {
		if t.Frozen {
			return changed.Freeze()
		}
		return changed
	}
	other := *t
	other.Parts = make([]*row.Type, len(t.Parts))
	for i, p := range t.Parts {
		other.Parts[i] = substitute(p, changed)
	}
	return &other
}

// compareNames orders columns as Apache Cassandra does: by their bytes, but names that begin
// with no ASCII character first.
func compareNames(a, b string) int {
	if a != "" && b != "" {
		if first := cmp.Compare(int8(a[0]), int8(b[0])); first != 0 {
			return first
		}
	}
	return strings.Compare(a, b)
}

// withColumns returns the table with other columns, in any order.
func (t *Table) withColumns(columns []*Column) *Table {
	columns = slices.Clone(columns)
	slices.SortStableFunc(columns, func(a, b *Column) int {
		if order := cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Position, b.Position)); order != 0 {
			return order
		}
		if a.Kind == PartitionKey || a.Kind == Clustering {
			return 0
		}
		return compareNames(a.Name, b.Name)
	})
	changed := *NewTable(t.Keyspace, t.Name, columns)
	changed.ID, changed.Options, changed.Indexes, changed.Dropped = t.ID, t.Options, t.Indexes, t.Dropped
	changed.View, changed.nextID = t.View, t.nextID
	for _, c := range columns {
		changed.nextID = max(changed.nextID, c.ID+1)
	}
	return &changed
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
