package table

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/table/cql"
	"github.com/decandb/decan/partitionkey"
)

// Projection is how the rows of a table appear in one of its materialized views. It is
// immutable.
//
// A row of the table has at most one row in the view, and that is a function of the row
// and the time: the rules are those of Apache Cassandra 4.1. The key of the view has all
// columns of the table's key, so no two rows of the table have the same row in the view.
type Projection struct {
	View *Table
	base *Table

	partition, clustering []*Column // of base, in the order of the view's key
	extra                 *Column   // the column of partition or clustering that is not in base's key; may be nil
	regular               map[uint32]bool
	encoding              []row.KeyColumn // of clustering

	// Which rows the WHERE clause accepts. It names columns of the base's key only.
	where            *where
	keys             []string // routing keys; only if where is keyed
	least, greatest  int64    // tokens
	spans            []span
	filters          []filter
	restrictsNothing bool
}

// Projections returns how the rows of a table appear in its views.
func (s *Schema) Projections(base *Table) (all []*Projection, err error) {
	k := s.Keyspace(base.Keyspace)
	if k == nil || base.View != nil {
		return nil, nil
	}
	for _, t := range k.Tables {
		if t.View == nil || t.View.Base != base.Name {
			continue
		}
		p, err := s.projection(t, base)
		if err != nil {
			return nil, fmt.Errorf("view %s.%s: %w", t.Keyspace, t.Name, err)
		}
		all = append(all, p)
	}
	return all, nil
}

// projection returns how the rows of base appear in a view. The error is an *Error if the
// WHERE clause of the view is not valid.
func (s *Schema) projection(view, base *Table) (*Projection, error) {
	p := &Projection{View: view, base: base, regular: map[uint32]bool{}}
	source := func(all []*Column) (columns []*Column) {
		for _, c := range all {
			from := base.Column(c.Name)
			if from.Kind == Regular {
				p.extra = from
			}
			columns = append(columns, from)
		}
		return columns
	}
	p.partition, p.clustering = source(view.Partition), source(view.Clustering)
	for _, c := range view.Clustering {
		p.encoding = append(p.encoding, c.key())
	}
	for _, c := range view.Regular {
		p.regular[c.ID] = true
	}
	return p, s.restrictView(p)
}

// restrictView compiles the WHERE clause. Relations of columns that are not in base's key
// are all IS NOT NULL, and say nothing about columns outside of the view's key.
func (s *Schema) restrictView(p *Projection) error {
	relations, err := parseWhere(p.View.View.Where)
	if err != nil {
		return err
	}
	relations = slices.DeleteFunc(relations, func(r cql.Relation) bool { return r.Operator == cql.IsNotNull })
	p.restrictsNothing = len(relations) == 0
	a, b := newTerms(cql.Parsed{}, s.UserType), &binding{moment: &Moment{}}
	if p.where, err = a.restrict(p.base, relations, true, false); err != nil {
		return err
	}
	if p.where.keyed() {
		p.keys, err = p.where.keys(b)
	} else {
		p.least, p.greatest, err = p.where.tokenRange(b)
	}
	if err != nil {
		return err
	}
	if p.spans, err = p.where.spans(b); err != nil {
		return err
	}
	for _, r := range p.where.filters {
		f, err := r.bindFilter(b)
		if err != nil {
			return err
		}
		p.filters = append(p.filters, f)
	}
	return nil
}

// parseWhere returns the relations of a WHERE clause, without the keyword.
func parseWhere(text string) ([]cql.Relation, error) {
	if text == "" {
		return nil, nil
	}
	parsed, err := cql.Parse("SELECT * FROM t WHERE " + text)
	if err != nil {
		return nil, err
	}
	s, ok := parsed.Statement.(*cql.Select)
	if !ok {
		return nil, fmt.Errorf("%q is no WHERE clause", text)
	}
	return s.Where, nil
}

// baseRow is a row of the table of a view.
type baseRow struct {
	routing    string
	partition  [][]byte // values of the partition key
	key        []byte   // encoded clustering key
	clustering [][]byte // values of the clustering columns
	row        *row.Row
}

// baseRow returns a row with the values of its key.
func (t *Table) baseRow(routing string, item string, r *row.Row) (b baseRow, err error) {
	b = baseRow{routing: routing, key: []byte(item[len(RowItems):]), row: r}
	if b.partition, err = row.SplitRoutingKey([]byte(routing), len(t.Partition)); err != nil {
		return b, err
	}
	columns := make([]row.KeyColumn, len(t.Clustering))
	for i, c := range t.Clustering {
		columns[i] = c.key()
	}
	if b.clustering, err = row.DecodeKey(columns, b.key); err != nil {
		return b, err
	}
	for _, original := range r.Key {
		if original.Column < len(b.clustering) {
			b.clustering[original.Column] = original.Value
		}
	}
	return b, nil
}

// accepts says whether the WHERE clause accepts a row.
func (p *Projection) accepts(b *baseRow) bool {
	if p.restrictsNothing {
		return true
	}
	if p.where.keyed() {
		if !slices.Contains(p.keys, b.routing) {
			return false
		}
	} else if token := partitionkey.Token([]byte(b.routing)); token < p.least || token > p.greatest {
		return false
	}
	v := view{key: b.partition, clustering: b.clustering, slot: func(*Column) int { return -1 }}
	return within(p.spans, b.key) && !slices.ContainsFunc(p.filters, func(f filter) bool { return !f.accepts(&v) })
}

// Place is where a row of a view is.
type Place struct {
	View [16]byte // id of the view
	Key  string   // routing key
	Item string
}

// place returns where the row of the view for a row of the table is, or was while it was
// live: false if the row has no value for the key of the view.
func (p *Projection) place(b *baseRow) (at Place, originals []row.KeyValue, ok bool, err error) {
	value := func(c *Column) []byte {
		switch c.Kind {
		case PartitionKey:
			return b.partition[c.Position]
		case Clustering:
			return b.clustering[c.Position]
		case Static, Regular:
		}
		if cell := b.extraCell(c); cell != nil && (cell.Kind == row.CellLive || cell.Kind == row.CellExpiring) {
			return nonNil(cell.Value)
		}
		return nil
	}
	partition, clustering := make([][]byte, len(p.partition)), make([][]byte, len(p.clustering))
	for i, c := range p.partition {
		if partition[i] = value(c); partition[i] == nil {
			return at, nil, false, nil
		}
	}
	for i, c := range p.clustering {
		if clustering[i] = value(c); clustering[i] == nil {
			return at, nil, false, nil
		}
		if original := c.Type.Original(clustering[i]); original != nil {
			originals = append(originals, row.KeyValue{Column: i, Value: original})
		}
	}
	routing, err := row.RoutingKey(partition...)
	if err != nil {
		return at, nil, false, invalid("%s", err.Error())
	}
	if len(routing) == 0 {
		return at, nil, false, nil // No partition has an empty key.
	}
	return Place{View: p.View.ID, Key: string(routing), Item: RowItems + string(row.EncodeKey(p.encoding, clustering))}, originals, true, nil
}

func nonNil(v []byte) []byte {
	if v == nil {
		return []byte{}
	}
	return v
}

// extraCell returns the cell of a column that is not multi-cell, nil if there is none.
func (b *baseRow) extraCell(c *Column) *row.Cell {
	for i := range b.row.Cells {
		if cell := &b.row.Cells[i]; cell.Column == c.ID {
			return cell
		}
	}
	return nil
}

// image returns the row of the view for a row of the table without what is deleted, and
// its place. It returns false if the view has none at that time.
func (p *Projection) image(b *baseRow, now int64) (at Place, image row.Row, ok bool, err error) {
	if image.Marker, ok = p.marker(b, now); !ok || !p.accepts(b) {
		return at, image, false, nil
	}
	if at, image.Key, ok, err = p.place(b); err != nil || !ok {
		return at, image, false, err
	}
	for i := range b.row.Cells {
		if c := &b.row.Cells[i]; p.regular[c.Column] && c.Live(now) {
			image.Cells = append(image.Cells, *c)
		}
	}
	return at, image, true, nil
}

// marker returns the marker of the row of the view, and whether there is a row. If a
// column of the view's key is not in the table's key, the row exists as long as that
// column has a value. If not, it exists as long as the row of the table, which may exist
// because of columns that the view does not have.
func (p *Projection) marker(b *baseRow, now int64) (row.Liveness, bool) {
	if p.extra != nil {
		c := b.extraCell(p.extra)
		if c == nil || !c.Live(now) {
			return row.Liveness{}, false
		}
		return livenessOf(c), true
	}
	if !b.row.Alive(now) {
		return row.Liveness{}, false
	}
	own := b.row.Marker
	live := own.Live(now)
	if !live {
		own = row.Liveness{}
	}
	var last *row.Cell // the one that expires last, or never
	latest, some := own.Timestamp, own.Present
	for i := range b.row.Cells {
		c := &b.row.Cells[i]
		if p.regular[c.Column] || !c.Live(now) {
			continue
		}
		if !some || c.Timestamp > latest {
			latest, some = c.Timestamp, true
		}
		if last == nil || last.Kind == row.CellExpiring && (c.Kind != row.CellExpiring || c.Local > last.Local) {
			last = c
		}
	}
	switch {
	case last == nil:
		return own, true
	case live && own.TTL == 0 || last.Kind != row.CellExpiring:
		return row.Liveness{Present: true, Timestamp: latest}, true
	case !live || last.Local > own.Expiry:
		return row.Liveness{Present: true, Timestamp: latest, TTL: last.TTL, Expiry: last.Local}, true
	}
	return own, true
}

// livenessOf returns the marker of a row that exists as long as a cell.
func livenessOf(c *row.Cell) row.Liveness {
	l := row.Liveness{Present: true, Timestamp: c.Timestamp}
	if c.Kind == row.CellExpiring {
		l.TTL, l.Expiry = c.TTL, c.Local
	}
	return l
}

// ViewChange is a change of rows of one partition key of a view: data that the writer of
// its partition evaluates, as one effect. Making it again changes nothing.
type ViewChange struct {
	View *Table
	Key  string // routing key
	rows []viewRow
}

// viewRow is a row of a view as it must be.
type viewRow struct {
	item    string
	body    []byte // nil for none
	expires int64
}

// Evaluate makes the change.
func (c *ViewChange) Evaluate(items Items) error {
	for _, r := range c.rows {
		body, err := items.Get(r.item)
		if err != nil {
			return err
		}
		if bytes.Equal(body, r.body) && (body == nil) == (r.body == nil) {
			continue
		}
		if err := items.Put(r.item, r.body, -r.expires); err != nil {
			return err
		}
	}
	return nil
}

// StoredRow is an item of a table that is a row.
type StoredRow struct{ Item, Body string }

// Projected collects the rows of views for rows of one partition key of a table.
type Projected struct {
	base        *Table
	projections []*Projection
	key         string // routing key of the table
	now         int64
	rows        map[Place]viewRow
}

// Project returns an empty collection. now is in seconds since 1970.
func Project(base *Table, projections []*Projection, key string, now int64) *Projected {
	return &Projected{base: base, projections: projections, key: key, now: now, rows: map[Place]viewRow{}}
}

// Leave says that a row of a view is to be removed, unless a row of the table has it.
func (d *Projected) Leave(at Place) {
	if _, known := d.rows[at]; !known {
		d.rows[at] = viewRow{item: at.Item}
	}
}

// Add adds the rows of the views for a stored row, which a deletion of the partition may
// cover. An empty body is a row that is not there any more.
func (d *Projected) Add(stored StoredRow, meta *row.Meta) error {
	if stored.Body == "" {
		return nil
	}
	r, err := row.DecodeRow([]byte(stored.Body))
	if err != nil {
		return err
	}
	b, err := d.base.baseRow(d.key, stored.Item, &r)
	if err != nil {
		return err
	}
	shown := r.Shadow(meta.Covering(b.key))
	live := b
	live.row = &shown
	for _, p := range d.projections {
		was, _, some, err := p.place(&b)
		if err != nil {
			return err
		}
		if some {
			d.Leave(was)
		}
		at, image, ok, err := p.image(&live, d.now)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		one := viewRow{item: at.Item, body: image.Append(nil)}
		if p.extra != nil && image.Marker.TTL > 0 {
			one.expires = image.Marker.Expiry + lateWrites
		} else if second, expires := image.Expiry(); expires && p.extra == nil {
			one.expires = second + lateWrites
		}
		d.rows[at] = one
	}
	return nil
}

// Len returns the number of rows of views.
func (d *Projected) Len() int { return len(d.rows) }

// Changes returns the changes of the views, one for each of their partition keys. Those of
// views that are dropped are left out.
func (d *Projected) Changes() (all []*ViewChange) {
	at := map[Place]*ViewChange{}
	for place, r := range d.rows {
		key := Place{View: place.View, Key: place.Key}
		c := at[key]
		if c == nil {
			i := slices.IndexFunc(d.projections, func(p *Projection) bool { return p.View.ID == place.View })
			if i < 0 {
				continue
			}
			c = &ViewChange{View: d.projections[i].View, Key: place.Key}
			at[key] = c
			all = append(all, c)
		}
		c.rows = append(c.rows, r)
	}
	for _, c := range all {
		slices.SortFunc(c.rows, func(a, b viewRow) int { return cmp.Compare(a.item, b.item) })
	}
	slices.SortFunc(all, func(a, b *ViewChange) int {
		return cmp.Or(cmp.Compare(a.View.Name, b.View.Name), cmp.Compare(a.Key, b.Key))
	})
	return all
}
