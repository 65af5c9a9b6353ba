package table

import (
	"reflect"
	"slices"
	"strings"

	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/table/cql"
)

// primaryKey returns the columns of the primary key of CREATE TABLE.
func primaryKey(e *cql.CreateTable) (key cql.PrimaryKey, err error) {
	table := e.Table.Name
	seen := map[string]bool{}
	keys := slices.Clone(e.Keys)
	for _, c := range e.Columns {
		if seen[c.Name] {
			return key, invalid("Duplicate column '%s' declaration for table '%s'", c.Name, table)
		}
		seen[c.Name] = true
		if c.Primary {
			keys = append(keys, cql.PrimaryKey{Partition: []string{c.Name}})
		}
	}
	switch len(keys) {
	case 0:
		return key, invalid("No PRIMARY KEY specifed for table '%s' (exactly one required)", table)
	case 1:
	default:
		return key, invalid("Multiple PRIMARY KEY specified for table '%s' (exactly one required)", table)
	}
	return keys[0], nil
}

func (d *definer) createTable(e *cql.CreateTable) (Change, error) {
	key, err := primaryKey(e)
	if err != nil {
		return Change{}, err
	}
	name := e.Table
	k, err := d.keyspaceOf(&name, false)
	if err != nil {
		return Change{}, err
	}
	if k.Table(name.Name) != nil {
		if e.IfNotExists {
			return d.unchanged(), nil
		}
		return Change{}, existing(name)
	}
	t := &Table{Keyspace: k.Name, Name: name.Name}
	if t.Options, err = DefaultOptions().apply(e.Properties, false); err != nil {
		return Change{}, err
	}
	columns, err := d.columns(e, key, k.Name)
	if err != nil {
		return Change{}, err
	}
	if err := order(columns, e.Order, name.Name); err != nil {
		return Change{}, err
	}
	for i, c := range columns {
		c.ID = uint32(i + 1)
	}
	t.ID = d.env.NewID()
	if t = t.withColumns(columns); t.Counter() && t.Options.DefaultTTL > 0 {
		return Change{}, invalid("Cannot set default_time_to_live on a table with counters")
	}
	if !validName(name.Name) {
		return Change{}, config("%s.%s: Table name must not be empty, more than 48 characters long, or contain non-alphanumeric-underscore characters (got \"%s\")", k.Name, name.Name, name.Name)
	}
	return d.changed(Created, "TABLE", k.withTable(t), name.Name), nil
}

func existing(n cql.Name) error {
	return &Error{Class: Exists, Text: `Cannot add already existing table "` + n.Name + `" to keyspace "` + n.Keyspace + `"`, Keyspace: n.Keyspace, Table: n.Name}
}

// columns makes the columns of CREATE TABLE, those of the key first.
func (d *definer) columns(e *cql.CreateTable, key cql.PrimaryKey, keyspace string) (all []*Column, err error) {
	table := e.Table.Name
	types := map[string]*row.Type{}
	for _, c := range e.Columns {
		if types[c.Name], err = d.typeOf(c.Type, keyspace); err != nil {
			return nil, err
		}
		if err := nestedCells(types[c.Name]); err != nil {
			return nil, err
		}
	}
	seen := map[string]bool{}
	add := func(names []string, kind ColumnKind) error {
		for i, name := range names {
			t := types[name]
			switch {
			case t == nil:
				return invalid("Unknown column '%s' referenced in PRIMARY KEY for table '%s'", name, table)
			case seen[name]:
				return invalid("Duplicate column '%s' in PRIMARY KEY clause for table '%s'", name, table)
			}
			seen[name] = true
			all = append(all, &Column{Name: name, Type: t, Kind: kind, Position: i})
		}
		return nil
	}
	if err := add(key.Partition, PartitionKey); err != nil {
		return nil, err
	}
	if err := add(key.Clustering, Clustering); err != nil {
		return nil, err
	}
	for _, c := range all {
		if err := keyType(c); err != nil {
			return nil, err
		}
	}
	counters, others := 0, 0
	for _, c := range e.Columns {
		switch {
		case c.Static && len(key.Clustering) == 0:
			return nil, invalid("Static columns are only useful (and thus allowed) if the table has at least one clustering column")
		case c.Static && seen[c.Name]:
			return nil, invalid("Static column '%s' cannot be part of the PRIMARY KEY", c.Name)
		case seen[c.Name]:
			continue
		}
		kind := Regular
		if c.Static {
			kind = Static
		}
		if types[c.Name].Kind == row.KindCounter {
			counters++
		} else {
			others++
		}
		all = append(all, &Column{Name: c.Name, Type: types[c.Name], Kind: kind})
	}
	if counters > 0 && others > 0 {
		return nil, invalid("Cannot mix counter and non counter columns in the same table")
	}
	return all, nil
}

// nestedCells refuses a user-defined type of cells that has a collection of cells.
func nestedCells(t *row.Type) error {
	if t.Kind == row.KindUDT && !t.Frozen && slices.ContainsFunc(t.Parts, (*row.Type).Multicell) {
		return invalid("Non-frozen UDTs with nested non-frozen collections are not supported")
	}
	return nil
}

// keyType refuses the types that a column of a key cannot have.
func keyType(c *Column) error {
	switch {
	case c.Type.Kind == row.KindUDT && !c.Type.Frozen:
		return invalid("Invalid non-frozen user-defined type \"%s.%s\" for PRIMARY KEY column '%s'", c.Type.Keyspace, c.Type.Name, c.Name)
	case c.Type.Multicell():
		return invalid("Invalid non-frozen collection type %s for PRIMARY KEY column '%s'", c.Type, c.Name)
	case c.Type.Kind == row.KindCounter:
		return invalid("counter type is not supported for PRIMARY KEY column '%s'", c.Name)
	case c.Type.References(row.KindDuration):
		return invalid("duration type is not supported for PRIMARY KEY column '%s'", c.Name)
	}
	return nil
}

// order applies CLUSTERING ORDER BY, which names clustering columns in order from the first.
func order(columns []*Column, orders []cql.ClusteringOrder, table string) error {
	if len(orders) == 0 {
		return nil
	}
	var clustering []*Column
	for _, c := range columns {
		if c.Kind == Clustering {
			clustering = append(clustering, c)
		}
	}
	var unknown []string
	for i, o := range orders {
		if slices.ContainsFunc(orders[:i], func(p cql.ClusteringOrder) bool { return p.Column == o.Column }) {
			return invalid("Duplicate column '%s' in CLUSTERING ORDER BY clause for table '%s'", o.Column, table)
		}
		if !slices.ContainsFunc(clustering, func(c *Column) bool { return c.Name == o.Column }) {
			unknown = append(unknown, cql.Quote(o.Column))
		}
	}
	if len(unknown) > 0 {
		return invalid("Only clustering key columns can be defined in CLUSTERING ORDER directive: [%s] are not clustering columns", strings.Join(unknown, ", "))
	}
	for i, c := range clustering {
		switch {
		case i >= len(orders):
			return nil // the other columns ascend
		case orders[i].Column != c.Name:
			if slices.ContainsFunc(orders, func(o cql.ClusteringOrder) bool { return o.Column == c.Name }) {
				return invalid("The order of columns in the CLUSTERING ORDER directive must match that of the clustering columns (%s must appear before %s)", cql.Quote(c.Name), cql.Quote(orders[i].Column))
			}
			return invalid("Missing CLUSTERING ORDER for column %s", cql.Quote(c.Name))
		}
		c.Descending = orders[i].Descending
	}
	return nil
}

// tableOf finds the table of ALTER and DROP. It is nil without an error if there is none
// and missing is set.
func (d *definer) tableOf(n *cql.Name, missing bool) (*Keyspace, *Table, error) {
	k, err := d.keyspaceOf(n, true)
	if err != nil {
		return nil, nil, err
	}
	if k != nil {
		if t := k.Table(n.Name); t != nil {
			return k, t, nil
		}
	}
	if missing {
		return nil, nil, nil
	}
	return nil, nil, invalid("Table '%s.%s' doesn't exist", n.Keyspace, n.Name)
}

func (d *definer) alterTable(e *cql.AlterTable) (Change, error) {
	name := e.Table
	k, t, err := d.tableOf(&name, e.IfExists)
	if err != nil || t == nil {
		return d.unchanged(), err
	}
	if t.View != nil {
		return Change{}, invalid("Cannot use ALTER TABLE on a materialized view; use ALTER MATERIALIZED VIEW instead")
	}
	a := &alteration{definer: d, keyspace: k, table: t, columns: t.all(), e: e}
	switch e.Kind {
	case cql.AlterType:
		err = invalid("Altering column types is no longer supported")
	case cql.AddColumns:
		err = a.add()
	case cql.DropColumns:
		err = a.drop()
	case cql.RenameColumns:
		err = a.rename()
	case cql.DropCompactStorage:
		err = invalid("DROP COMPACT STORAGE is disabled. Enable in cassandra.yaml to use.")
	case cql.AlterProperties:
		changed := *t
		if changed.Options, err = t.Options.apply(e.Properties, true); err == nil && t.Counter() && changed.Options.DefaultTTL > 0 {
			err = invalid("Cannot set default_time_to_live on a table with counters")
		}
		if err == nil && changed.Options.GCGraceSeconds == 0 && k.hasViews(t.Name) {
			err = invalid("Cannot alter gc_grace_seconds of the base table of a materialized view to 0%s", undelivered)
		}
		if err == nil && reflect.DeepEqual(changed.Options, t.Options) {
			return d.unchanged(), nil
		}
		a.table = &changed
	}
	if err != nil {
		return Change{}, err
	}
	if e.Kind != cql.AlterProperties && slices.Equal(a.columns, t.all()) {
		return d.unchanged(), nil // because of IF [NOT] EXISTS
	}
	return d.changed(Updated, "TABLE", a.keyspace.withTable(a.table.withColumns(a.columns)), t.Name), nil
}

// alteration is one ALTER TABLE.
type alteration struct {
	*definer
	keyspace *Keyspace
	table    *Table
	columns  []*Column
	e        *cql.AlterTable
}

func (a *alteration) find(name string) *Column {
	i := slices.IndexFunc(a.columns, func(c *Column) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return a.columns[i]
}

func (a *alteration) add() error {
	t := a.table
	counter := t.Counter()
	next := t.nextID
	for _, e := range a.e.Columns {
		of, err := a.typeOf(e.Type, t.Keyspace)
		if err != nil {
			return err
		}
		if a.find(e.Name) != nil {
			if a.e.IfColumn {
				continue
			}
			return invalid("Column with name '%s' already exists", e.Name)
		}
		switch {
		case e.Static && len(t.Clustering) == 0:
			return invalid("Static columns are only useful (and thus allowed) if the table has at least one clustering column")
		case of.Kind == row.KindCounter && !counter:
			return config("%s.%s: Cannot have a counter column (\"%s\") in a non counter table", t.Keyspace, t.Name, e.Name)
		case of.Kind != row.KindCounter && counter && len(t.Static)+len(t.Regular) > 0:
			return config("%s.%s: Cannot have a non counter column (\"%s\") in a counter table", t.Keyspace, t.Name, e.Name)
		}
		if err := nestedCells(of); err != nil {
			return err
		}
		if err := a.again(e.Name, of, e.Static); err != nil {
			return err
		}
		kind := Regular
		if e.Static {
			kind = Static
		}
		a.columns = append(a.columns, &Column{Name: e.Name, Type: of, Kind: kind, ID: next})
		next++
	}
	return nil
}

// again checks a column that has the name of a dropped one. It gets a new id, so the old
// cells stay invisible.
func (a *alteration) again(name string, of *row.Type, static bool) error {
	i := slices.IndexFunc(a.table.Dropped, func(c DroppedColumn) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	dropped := a.table.Dropped[i]
	if !dropped.Type.Freeze().Equal(of.Freeze()) && typeMatch(of, dropped.Type) == noMatch || dropped.Type.Multicell() != of.Multicell() {
		return invalid("Cannot re-add previously dropped column '%s' of type %s, incompatible with previous type %s", name, of, dropped.Type)
	}
	if dropped.Static != static {
		kinds := map[bool]string{true: "STATIC", false: "REGULAR"}
		return invalid("Cannot re-add previously dropped column '%s' of kind %s, incompatible with previous kind %s", name, kinds[static], kinds[dropped.Static])
	}
	return nil
}

func (a *alteration) drop() error {
	changed := *a.table
	changed.Dropped = slices.Clone(changed.Dropped)
	for _, name := range a.e.Drop {
		c := a.find(name)
		if c == nil {
			if a.e.IfColumn {
				continue
			}
			return invalid("Column %s was not found in table '%s.%s'", cql.Quote(name), changed.Keyspace, changed.Name)
		}
		if c.Kind == PartitionKey || c.Kind == Clustering {
			return invalid("Cannot drop PRIMARY KEY column %s", cql.Quote(name))
		}
		if dependent := changed.indexesOn(name); len(dependent) > 0 {
			return invalid("Cannot drop column %s because it has dependent secondary indexes (%s)", cql.Quote(name), strings.Join(dependent, ", "))
		}
		if a.keyspace.hasViews(changed.Name) {
			return invalid("Cannot drop column %s on base table %s with materialized views", cql.Quote(name), changed.Name)
		}
		time := a.env.Now
		if a.e.HasTimestamp {
			time = a.e.Timestamp
		}
		changed.Dropped = slices.DeleteFunc(changed.Dropped, func(d DroppedColumn) bool { return d.Name == name })
		changed.Dropped = append(changed.Dropped, DroppedColumn{Name: name, Type: c.Type, Static: c.Kind == Static, Time: time})
		a.columns = slices.DeleteFunc(slices.Clone(a.columns), func(o *Column) bool { return o == c })
	}
	a.table = &changed
	return nil
}

func (a *alteration) rename() error {
	t := a.table
	for _, r := range a.e.Renames {
		c := a.find(r.From)
		switch {
		case c == nil && a.e.IfColumn:
			continue
		case c == nil:
			return t.undefined(r.From)
		case c.Kind != PartitionKey && c.Kind != Clustering:
			return invalid("Cannot rename non PRIMARY KEY column %s", cql.Quote(r.From))
		case a.find(r.To) != nil:
			return invalid("Cannot rename column %s to %s in table '%s.%s'; another column with that name already exists", cql.Quote(r.From), cql.Quote(r.To), t.Keyspace, t.Name)
		case len(t.indexesOn(r.From)) > 0:
			return invalid("Can't rename column %s because it has dependent secondary indexes (%s)", cql.Quote(r.From), strings.Join(t.indexesOn(r.From), ", "))
		}
		renamed := *c
		renamed.Name = r.To
		a.columns = slices.Clone(a.columns)
		a.columns[slices.Index(a.columns, c)] = &renamed
		if err := a.renameInViews(r.From, r.To); err != nil {
			return err
		}
	}
	return nil
}

// renameInViews changes the WHERE clauses of the views of the table.
func (a *alteration) renameInViews(from, to string) error {
	for _, v := range a.keyspace.Tables {
		if v.View == nil || v.View.Base != a.table.Name {
			continue
		}
		view, err := v.View.renamed(from, to)
		if err != nil {
			return err
		}
		changed := *v
		changed.View = view
		a.keyspace = a.keyspace.withTable(&changed)
	}
	return nil
}

// hasViews says whether a table has views.
func (k *Keyspace) hasViews(base string) bool {
	return slices.ContainsFunc(k.Tables, func(t *Table) bool { return t.View != nil && t.View.Base == base })
}

func (d *definer) dropTable(e *cql.DropTable) (Change, error) {
	name := e.Table
	k, t, err := d.tableOf(&name, e.IfExists)
	if err != nil || t == nil {
		return d.unchanged(), err
	}
	if t.View != nil {
		return Change{}, invalid("Cannot use DROP TABLE on a materialized view. Please use DROP MATERIALIZED VIEW instead.")
	}
	if k.hasViews(t.Name) { // Apache Cassandra names the keyspace in the place of the views.
		return Change{}, invalid("Cannot drop a table when materialized views still depend on it (%s)", k.Name)
	}
	return d.changed(Dropped, "TABLE", k.withoutTable(t.Name), t.Name), nil
}
