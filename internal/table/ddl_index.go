package table

import (
	"slices"
	"strconv"
	"strings"

	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/table/cql"
)

// sasiClass is an index class that a default configuration of Apache Cassandra disables.
const sasiClass = "org.apache.cassandra.index.sasi.SASIIndex"

// createIndex carries out CREATE INDEX. No custom class exists here.
func (d *definer) createIndex(e *cql.CreateIndex) (Change, error) {
	name := e.Table
	k, err := d.keyspaceOf(&name, true)
	if err != nil {
		return Change{}, err
	}
	options, err := indexOptions(e)
	if err != nil {
		return Change{}, err
	}
	if k == nil {
		return Change{}, invalid("Keyspace '%s' doesn't exist", name.Keyspace)
	}
	t := k.Table(name.Name)
	if t == nil {
		return Change{}, invalid("Table '%s' doesn't exist", name.Name)
	}
	if e.Name.Name != "" && k.indexed(e.Name.Name) != nil {
		if e.IfNotExists {
			return d.unchanged(), nil
		}
		return Change{}, invalid("Index '%s' already exists", e.Name.Name)
	}
	index, err := t.indexOn(e)
	if err != nil {
		return Change{}, err
	}
	for _, own := range [...]string{"class_name", "target"} {
		if _, ok := options[own]; ok {
			return Change{}, invalid("Cannot specify %s as a CUSTOM option", own)
		}
	}
	if index.Name = e.Name.Name; index.Name == "" {
		base := t.Name
		if len(e.Targets) == 1 {
			base += "_" + index.Column
		}
		index.Name = k.indexName(base + "_idx")
	}
	for _, other := range t.Indexes {
		if !e.Custom && other.Target == index.Target {
			if e.IfNotExists {
				return d.unchanged(), nil
			}
			return Change{}, invalid("Index %s is a duplicate of existing index %s", index.Name, other.Name)
		}
	}
	if !validIndexName(index.Name) {
		return Change{}, config("Illegal index name %s", index.Name)
	}
	if e.Custom {
		return Change{}, config("Unable to find custom indexer class '%s'", e.Class)
	}
	index.Terms = t.rowIndex(&index).Text()
	changed := *t
	changed.Indexes = append(slices.Clone(t.Indexes), index)
	slices.SortFunc(changed.Indexes, func(a, b Index) int { return strings.Compare(a.Name, b.Name) })
	return d.changed(Updated, "TABLE", k.withTable(&changed), t.Name), nil
}

// indexOptions checks the class and the options of an index.
func indexOptions(e *cql.CreateIndex) (map[string]string, error) {
	options := map[string]string{}
	for _, p := range e.Properties {
		switch {
		case p.Name != "options":
			return nil, syntax("Unknown property '%s'", p.Name)
		case !p.IsMap:
			return nil, syntax("Invalid value for property '%s'. It should be a map.", p.Name)
		}
		for _, entry := range p.Map {
			options[entry.Key] = entry.Value
		}
	}
	switch {
	case e.Custom && e.Class == "":
		return nil, invalid("CUSTOM index requires specifiying the index class")
	case !e.Custom && e.Class != "":
		return nil, invalid("Cannot specify index class for a non-CUSTOM index")
	case !e.Custom && len(e.Properties) > 0:
		return nil, invalid("Cannot specify options for a non-CUSTOM index")
	case e.Class == sasiClass:
		return nil, invalid("SASI indexes are disabled. Enable in cassandra.yaml to use.")
	}
	return options, nil
}

// indexOn checks what an index of a statement is to cover. The result has no name; it has
// a column and a target if the statement has one target.
func (t *Table) indexOn(e *cql.CreateIndex) (index Index, err error) {
	switch {
	case t.Counter():
		return index, invalid("Secondary indexes on counter tables aren't supported")
	case t.View != nil:
		return index, invalid("Secondary indexes on materialized views aren't supported")
	}
	for _, target := range e.Targets {
		if t.Column(target.Column) == nil {
			return index, t.undefined(target.Column)
		}
	}
	switch {
	case len(e.Targets) == 0 && !e.Custom:
		return index, invalid("Only CUSTOM indexes can be created without specifying a target column")
	case len(e.Targets) > 1 && !e.Custom:
		return index, invalid("Only CUSTOM indexes support multiple columns")
	}
	for i, target := range e.Targets {
		if slices.ContainsFunc(e.Targets[:i], func(other cql.IndexTarget) bool { return other.Column == target.Column }) {
			return index, invalid("Duplicate column '%s' in index target list", cql.Quote(target.Column))
		}
	}
	for _, target := range e.Targets {
		if index.Column, index.Target, err = indexTarget(t, target); err != nil {
			return index, err
		}
	}
	return index, nil
}

// validIndexName reports whether a name has only letters, digits and underscores.
func validIndexName(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

// indexTarget checks what an index covers.
func indexTarget(t *Table, e cql.IndexTarget) (column, target string, err error) {
	c := t.Column(e.Column)
	name, collection := cql.Quote(c.Name), c.Type.Collection()
	kinds := [...]string{cql.IndexColumn: "values", cql.IndexValues: "values", cql.IndexKeys: "keys", cql.IndexEntries: "entries", cql.IndexFull: "full"}
	kind := kinds[e.Kind]
	if c.Type.References(row.KindDuration) {
		switch {
		case collection:
			return "", "", invalid("Secondary indexes are not supported on collections containing durations")
		case c.Type.Kind == row.KindTuple:
			return "", "", invalid("Secondary indexes are not supported on tuples containing durations")
		case c.Type.Kind == row.KindUDT:
			return "", "", invalid("Secondary indexes are not supported on UDTs containing durations")
		}
		return "", "", invalid("Secondary indexes are not supported on duration columns")
	}
	switch {
	case c.Kind == PartitionKey && len(t.Partition) == 1:
		return "", "", invalid("Cannot create secondary index on the only partition key column %s", name)
	case e.Kind == cql.IndexFull && !(collection && c.Type.Frozen):
		return "", "", invalid("full() indexes can only be created on frozen collections")
	case !collection && e.Kind != cql.IndexColumn:
		return "", "", invalid("Cannot create %s() index on %s. Non-collection columns only support simple indexes", kind, name)
	case !collection && c.Type.Multicell():
		return "", "", invalid("Cannot create index on non-frozen UDT column %s", name)
	case !collection:
		return c.Name, name, nil
	case c.Type.Frozen && e.Kind != cql.IndexFull:
		return "", "", invalid("Cannot create %s() index on frozen column %s. Frozen collections are immutable and must be fully indexed by using the 'full(%s)' modifier", kind, name, name)
	case (e.Kind == cql.IndexKeys || e.Kind == cql.IndexEntries) && c.Type.Kind != row.KindMap:
		return "", "", invalid("Cannot create index on %s of column %s with non-map type", kind, name)
	}
	return c.Name, kind + "(" + name + ")", nil
}

// Indexed returns the table of an index, nil if there is none. inUse is the keyspace in use.
func (s *Schema) Indexed(index cql.Name, inUse string) *Table {
	if index.Keyspace == "" {
		index.Keyspace = inUse
	}
	if k := s.Keyspace(index.Keyspace); k != nil {
		return k.indexed(index.Name)
	}
	return nil
}

// indexed returns the table that has an index.
func (k *Keyspace) indexed(index string) *Table {
	for _, t := range k.Tables {
		if slices.ContainsFunc(t.Indexes, func(i Index) bool { return i.Name == index }) {
			return t
		}
	}
	return nil
}

// indexName returns a name for an index that has none in its statement.
func (k *Keyspace) indexName(base string) string {
	base = strings.Map(func(r rune) rune {
		if r == '_' || r >= '0' && r <= '9' || r|0x20 >= 'a' && r|0x20 <= 'z' {
			return r
		}
		return -1
	}, base)
	name := base
	for i := 1; k.indexed(name) != nil; i++ {
		name = base + "_" + strconv.Itoa(i)
	}
	return name
}

func (d *definer) dropIndex(e *cql.DropIndex) (Change, error) {
	name := e.Index
	if n := d.qualify(name); unmodifiable(n.Keyspace) != nil {
		return Change{}, invalid("System keyspace '%s' is not user-modifiable", n.Keyspace)
	}
	k, err := d.keyspaceOf(&name, true)
	if err != nil {
		return Change{}, err
	}
	var t *Table
	if k != nil {
		t = k.indexed(name.Name)
	}
	if t == nil {
		if e.IfExists {
			return d.unchanged(), nil
		}
		return Change{}, invalid("Index '%s.%s' doesn't exist'", name.Keyspace, name.Name)
	}
	changed := *t
	changed.Indexes = slices.DeleteFunc(slices.Clone(t.Indexes), func(i Index) bool { return i.Name == name.Name })
	return d.changed(Updated, "TABLE", k.withTable(&changed), t.Name), nil
}
