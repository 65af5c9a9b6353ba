package table

import (
	"slices"
	"strings"

	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/table/cql"
)

const (
	undelivered = ", since this value is used to TTL undelivered updates. Setting gc_grace_seconds too low might cause undelivered updates to expire before being replayed."
	sameEnd     = " for a materialized view. Data in a materialized view always expire at the same time than the corresponding data in the parent table."
)

func (d *definer) createView(e *cql.CreateView) (Change, error) {
	if slices.ContainsFunc(e.Where, func(r cql.Relation) bool { return marks(r.Value) }) {
		return Change{}, invalid("Bind variables are not allowed in CREATE MATERIALIZED VIEW statements")
	}
	name, base := d.qualify(e.View), e.Base
	if base.Keyspace == "" {
		base.Keyspace = name.Keyspace
	}
	if name.Keyspace != "" && base.Keyspace != name.Keyspace {
		return Change{}, invalid("Cannot create a materialized view on a table in a different keyspace")
	}
	k, err := d.keyspaceOf(&name, false)
	if err != nil {
		return Change{}, err
	}
	if taken := k.Table(name.Name); taken != nil {
		switch {
		case e.IfNotExists && taken.View != nil:
			return d.unchanged(), nil
		case e.IfNotExists:
			return Change{}, invalid("Cannot create materialized view '%s' - a table with the same name already exists", name.Name)
		}
		return Change{}, existing(name)
	}
	t := k.Table(base.Name)
	switch {
	case t == nil || t.View != nil:
		return Change{}, invalid("Base table '%s' doesn't exist", base.Name)
	case t.Counter():
		return Change{}, invalid("Materialized views are not supported on counter tables")
	case t.Options.GCGraceSeconds == 0:
		return Change{}, invalid("Cannot create materialized view '%s' for base table '%s' with gc_grace_seconds of 0%s", name.Name, t.Name, undelivered)
	}
	v := &Table{Keyspace: k.Name, Name: name.Name, View: &View{Base: t.Name, BaseID: t.ID, AllColumns: len(e.Selectors) == 0, Where: cql.FormatWhere(e.Where)}}
	if v.Options, err = DefaultOptions().apply(e.Properties, false); err != nil {
		return Change{}, err
	}
	columns, err := viewColumns(e, t)
	if err != nil {
		return Change{}, err
	}
	if err := orderView(columns, e.Order, name.Name); err != nil {
		return Change{}, err
	}
	v = v.withColumns(columns)
	if err := d.checkViewWhere(e, v, t); err != nil {
		return Change{}, err
	}
	if v.Options.DefaultTTL > 0 {
		return Change{}, invalid("Cannot set default_time_to_live%s", sameEnd)
	}
	if !validName(name.Name) {
		return Change{}, config("%s.%s: Table name must not be empty, more than 48 characters long, or contain non-alphanumeric-underscore characters (got \"%s\")", k.Name, name.Name, name.Name)
	}
	v.ID = d.env.NewID()
	return d.changed(Created, "TABLE", k.withTable(v), name.Name), nil
}

// viewColumns makes the columns of a view. They have the ids of the base table. As in
// Cassandra, a clustering column keeps the order that it has there.
func viewColumns(e *cql.CreateView, base *Table) (all []*Column, err error) {
	selected, err := viewSelection(e, base)
	if err != nil {
		return nil, err
	}
	inKey := map[string]bool{}
	var regular []string
	add := func(names []string, kind ColumnKind) error {
		for i, name := range names {
			c := base.Column(name)
			switch {
			case c == nil || !selected[name]:
				return invalid("Unknown column '%s' referenced in PRIMARY KEY for materialized view '%s'", name, e.View.Name)
			case inKey[name]:
				return invalid("Duplicate column '%s' in PRIMARY KEY clause for materialized view '%s'", name, e.View.Name)
			case c.Kind == Regular:
				regular = append(regular, cql.Quote(name))
			}
			if c.Type.Multicell() {
				what := "collection type"
				if c.Type.Kind == row.KindUDT {
					what = "user-defined type"
				}
				return invalid("Invalid non-frozen %s '%s' for PRIMARY KEY column '%s'", what, c.Type.ClassName(), c.Name)
			}
			if err := keyType(c); err != nil {
				return err
			}
			inKey[name] = true
			column := *c
			column.Kind, column.Position = kind, i
			column.Descending = c.Descending && kind == Clustering
			all = append(all, &column)
		}
		return nil
	}
	if err := add(e.Key.Partition, PartitionKey); err != nil {
		return nil, err
	}
	if err := add(e.Key.Clustering, Clustering); err != nil {
		return nil, err
	}
	var missing []string
	for _, c := range slices.Concat(base.Partition, base.Clustering) {
		if !inKey[c.Name] {
			missing = append(missing, cql.Quote(c.Name))
		}
	}
	if len(missing) > 0 {
		return nil, invalid("Cannot create materialized view '%s' without primary key columns %s from base table '%s'", e.View.Name, strings.Join(missing, ", "), base.Name)
	}
	if len(regular) > 1 {
		return nil, invalid("Cannot include more than one non-primary key column in materialized view primary key (got %s)", strings.Join(regular, ", "))
	}
	for _, c := range base.Regular {
		if selected[c.Name] && !inKey[c.Name] {
			all = append(all, c)
		}
	}
	return all, nil
}

// viewSelection returns the names of the columns that a view selects.
func viewSelection(e *cql.CreateView, base *Table) (map[string]bool, error) {
	selected := map[string]bool{}
	for _, s := range e.Selectors {
		c, ok := s.Expr.(*cql.Column)
		if !ok {
			return nil, invalid("Can only select columns by name when defining a materialized view (got %s)", s.Expr)
		}
		if s.Alias != "" {
			return nil, invalid("Cannot use aliases when defining a materialized view (got %s AS %s)", s.Expr, s.Alias)
		}
		if base.Column(c.Name) == nil {
			return nil, base.undefined(c.Name)
		}
		selected[c.Name] = true
	}
	for _, c := range base.all() {
		if len(e.Selectors) == 0 {
			selected[c.Name] = true
		}
		if selected[c.Name] && c.Kind == Static {
			return nil, invalid("Cannot include static column '%s' in materialized view '%s'", c.Name, e.View.Name)
		}
	}
	return selected, nil
}

// orderView applies CLUSTERING ORDER BY, which names all clustering columns.
func orderView(columns []*Column, orders []cql.ClusteringOrder, view string) error {
	if len(orders) == 0 {
		return nil
	}
	for i, o := range orders {
		if slices.ContainsFunc(orders[:i], func(p cql.ClusteringOrder) bool { return p.Column == o.Column }) {
			return invalid("Duplicate column '%s' in CLUSTERING ORDER BY clause for view '%s'", o.Column, view)
		}
	}
	clustering := slices.DeleteFunc(slices.Clone(columns), func(c *Column) bool { return c.Kind != Clustering })
	for i, c := range clustering {
		if len(orders) != len(clustering) || orders[i].Column != c.Name {
			return invalid("Clustering key columns must exactly match columns in CLUSTERING ORDER BY directive")
		}
		c.Descending = orders[i].Descending
	}
	if len(clustering) == 0 {
		return invalid("Clustering key columns must exactly match columns in CLUSTERING ORDER BY directive")
	}
	return nil
}

// checkViewWhere checks the relations of a view.
func (d *definer) checkViewWhere(e *cql.CreateView, view, base *Table) error {
	restricted := map[string]bool{}
	var illegal []string
	for i := range e.Where {
		r := &e.Where[i]
		switch r.Kind {
		case cql.OnToken:
			return invalid("Cannot use token relation when defining a materialized view")
		case cql.OnIndex:
			return invalid("Cannot use custom index expressions when defining a materialized view")
		case cql.OnFeed:
			return invalid("%s() is a restriction of SELECT only", strings.ToUpper(r.Columns[0]))
		case cql.OnColumn, cql.OnElement, cql.OnTuple:
		}
		for _, name := range r.Columns {
			c := base.Column(name)
			if c == nil {
				return base.undefined(name)
			}
			if (c.Kind == Regular || c.Kind == Static) && r.Operator != cql.IsNotNull && !slices.Contains(illegal, cql.Quote(name)) {
				illegal = append(illegal, cql.Quote(name))
			}
			restricted[name] = true
		}
	}
	if _, err := d.projection(view, base); err != nil {
		return err
	}
	var open []string
	for _, c := range slices.Concat(view.Partition, view.Clustering) {
		if !restricted[c.Name] {
			open = append(open, cql.Quote(c.Name))
		}
	}
	if len(open) > 0 {
		return invalid("Primary key columns %s must be restricted with 'IS NOT NULL' or otherwise", strings.Join(open, ", "))
	}
	if len(illegal) > 0 {
		return invalid("Non-primary key columns can only be restricted with 'IS NOT NULL' (got: %s restricted illegally)", strings.Join(illegal, ", "))
	}
	return nil
}

// linked returns the keyspace with views whose columns have the names and types that they
// have in their tables, and with the new columns of those that have all.
func (k *Keyspace) linked() *Keyspace {
	changed := *k
	changed.Tables = slices.Clone(k.Tables)
	for i, t := range k.Tables {
		if t.View == nil {
			continue
		}
		if base := k.Table(t.View.Base); base != nil {
			changed.Tables[i] = t.linked(base)
		}
	}
	return &changed
}

// linked returns a view with the columns of its table as they are.
func (t *Table) linked(base *Table) *Table {
	view := *t.View
	view.Strict = false
	var columns []*Column
	for _, c := range t.all() {
		at := slices.IndexFunc(base.all(), func(b *Column) bool { return b.ID == c.ID })
		if at < 0 {
			continue
		}
		from, column := base.all()[at], *c
		column.Name, column.Type = from.Name, from.Type
		columns = append(columns, &column)
		view.Strict = view.Strict || c.Kind != Regular && from.Kind == Regular
	}
	for _, c := range base.Regular {
		if view.AllColumns && !slices.ContainsFunc(columns, func(v *Column) bool { return v.ID == c.ID }) {
			columns = append(columns, c)
		}
	}
	changed := *t
	changed.View = &view
	return changed.withColumns(columns)
}

// renamed returns the WHERE clause of a view in which a column has another name.
func (v *View) renamed(from, to string) (*View, error) {
	relations, err := parseWhere(v.Where)
	if err != nil {
		return nil, err
	}
	for i := range relations {
		for j, name := range relations[i].Columns {
			if name == from {
				relations[i].Columns[j] = to
			}
		}
	}
	changed := *v
	changed.Where = cql.FormatWhere(relations)
	return &changed, nil
}

func (d *definer) viewOf(n *cql.Name, missing bool) (*Keyspace, *Table, error) {
	k, err := d.keyspaceOf(n, true)
	if err != nil {
		return nil, nil, err
	}
	if k != nil {
		if t := k.Table(n.Name); t != nil && t.View != nil {
			return k, t, nil
		}
	}
	if missing {
		return nil, nil, nil
	}
	return nil, nil, invalid("Materialized view '%s.%s' doesn't exist", n.Keyspace, n.Name)
}

func (d *definer) alterView(e *cql.AlterView) (Change, error) {
	name := e.View
	k, t, err := d.viewOf(&name, e.IfExists)
	if err != nil || t == nil {
		return d.unchanged(), err
	}
	changed := *t
	if changed.Options, err = t.Options.apply(e.Properties, true); err != nil {
		return Change{}, err
	}
	switch {
	case changed.Options.GCGraceSeconds == 0:
		return Change{}, invalid("Cannot alter gc_grace_seconds of a materialized view to 0%s", undelivered)
	case changed.Options.DefaultTTL > 0:
		return Change{}, invalid("Forbidden default_time_to_live detected%s default_time_to_live must be set to zero, see CASSANDRA-12868 for more information", sameEnd)
	}
	return d.changed(Updated, "TABLE", k.withTable(&changed), t.Name), nil
}

func (d *definer) dropView(e *cql.DropView) (Change, error) {
	name := e.View
	k, t, err := d.viewOf(&name, e.IfExists)
	if err != nil || t == nil {
		return d.unchanged(), err
	}
	return d.changed(Dropped, "TABLE", k.withoutTable(t.Name), t.Name), nil
}
