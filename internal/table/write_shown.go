package table

import (
	"bytes"
	"context"
	"slices"

	"github.com/decandb/decan/internal/row"
)

// What the result of a conditional write shows if it was not applied is what Apache
// Cassandra 4.1 has read for its conditions: the rows with conditions, or without any, the
// first row of the partition; the static row alone if there is no such row; and of these the
// columns of the conditions, and all static or regular columns if the statement writes some.

// fetched are the columns that are read for the conditions of a change.
type fetched struct {
	statics, regulars bool // all of them
	columns           []*Column
}

// fetched returns the columns that are read for the conditions of the statement.
func (w *write) fetched() fetched {
	f := fetched{statics: w.statics, regulars: !w.onlyStatic}
	for i := range w.conditions {
		f.columns = append(f.columns, w.conditions[i].column)
	}
	return f
}

func (f *fetched) add(other fetched) {
	f.statics, f.regulars = f.statics || other.statics, f.regulars || other.regulars
	f.columns = append(f.columns, other.columns...)
}

// has says whether a column is read.
func (f *fetched) has(c *Column) bool {
	return c.Kind == Static && f.statics || c.Kind == Regular && f.regulars || slices.Contains(f.columns, c)
}

// alive says whether the marker or a column that is read makes a row visible.
func (f *fetched) alive(t *Table, r *row.Row, now int64) bool {
	if r.Marker.Live(now) {
		return true
	}
	return slices.ContainsFunc(r.Cells, func(c row.Cell) bool {
		return c.Live(now) && slices.ContainsFunc(t.all(), func(of *Column) bool { return of.ID == c.Column && f.has(of) })
	})
}

// foundRow is a row that the result of a conditional write shows, with the static row.
type foundRow struct {
	key         []byte // encoded clustering key; nil for the static row alone
	row, static row.Row
}

// check evaluates the conditions on the state before all changes: those on static columns
// first, then those on rows in their order.
func (e *evaluation) check() error {
	if len(e.conditions) == 0 {
		return nil
	}
	at := row.Snapshot{Now: e.Now, Covered: e.meta.Deletion}
	static, _, err := e.read(StaticItem)
	if err != nil {
		return err
	}
	var rows []*rowConditions
	for i := range e.conditions {
		if on := &e.conditions[i]; !on.static {
			rows = append(rows, on)
		} else if err := e.hold(on, &static, at); err != nil {
			return err
		}
	}
	slices.SortStableFunc(rows, func(a, b *rowConditions) int { return bytes.Compare(a.key, b.key) })
	for _, on := range rows {
		r, covered, err := e.read(RowItems + string(on.key))
		if err != nil {
			return err
		}
		if err := e.hold(on, &r, row.Snapshot{Now: e.Now, Covered: covered}); err != nil {
			return err
		}
		seen := len(e.found) > 0 && bytes.Equal(e.found[len(e.found)-1].key, on.key)
		if shadowed := r.Shadow(covered); !seen && e.fetched.alive(e.Table, &shadowed, e.Now) {
			e.found = append(e.found, foundRow{key: on.key, row: shadowed, static: static.Shadow(at.Covered)})
		}
	}
	if e.Applied {
		e.found = nil
		return nil
	}
	if static := static.Shadow(at.Covered); len(e.found) == 0 && e.fetched.alive(e.Table, &static, e.Now) {
		e.found = []foundRow{{static: static}}
	}
	return nil
}

// hold evaluates conditions on a row. The first one that does not hold decides, as in Apache
// Cassandra: what is wrong with those after it is not seen.
func (e *evaluation) hold(on *rowConditions, r *row.Row, at row.Snapshot) (err error) {
	if len(e.Table.Dropped) > 0 {
		known := *r
		known.Cells = slices.DeleteFunc(slices.Clone(r.Cells), func(c row.Cell) bool { return !e.Table.has(c.Column) })
		r = &known
	}
	for i := 0; i < len(on.all) && e.Applied; i++ {
		if e.Applied, err = on.all[i].Holds(r, at); err != nil {
			return err
		}
	}
	return nil
}

// ShowsFirst says whether the result of the change, which was evaluated, shows the first row
// of the partition, which [KeyChange.ReadFirst] reads: all of its conditions were on static
// columns, and they did not hold.
func (k *KeyChange) ShowsFirst() bool {
	return k.conditional && !k.Applied && !slices.ContainsFunc(k.conditions, func(on rowConditions) bool { return !on.static })
}

// ReadFirst reads the first row of the partition for the result.
func (k *KeyChange) ReadFirst(ctx context.Context, source Source) error {
	var meta row.Meta
	var static row.Row
	var first *foundRow
	parts := []ItemSlice{{From: MetaItem, To: MetaItem + "\x00"}, {From: StaticItem, To: StaticItem + "\x00"}, {From: RowItems, To: rowsEnd}}
	err := source.Key(ctx, k.Key, parts, func(item, body []byte) (more bool, err error) {
		body = bytes.Clone(body)
		if item[0] == MetaItem[0] {
			meta, err = row.DecodeMeta(body)
			return true, err
		}
		r, err := row.DecodeRow(body)
		if err != nil {
			return false, err
		}
		if item[0] == StaticItem[0] {
			static = r.Shadow(meta.Deletion)
			return true, nil
		}
		if r = r.Shadow(meta.Covering(item[1:])); k.fetched.alive(k.Table, &r, k.Now) {
			first = &foundRow{key: bytes.Clone(item[1:]), row: r}
		}
		return first == nil, nil
	})
	if err != nil || first == nil {
		return err
	}
	if len(k.found) > 0 {
		static = k.found[0].static
	}
	first.static = static
	k.found = []foundRow{*first}
	return nil
}

// Conditional says whether the change has conditions, so that its result has rows.
func (k *KeyChange) Conditional() bool { return k.conditional }

// Result returns the columns and cells of the result of a conditional change that was
// evaluated, and the number of rows: whether it was applied, and if not the rows that the
// conditions were about as they are.
func (p *Prepared) Result(k *KeyChange) (columns []ResultColumn, cells []byte, count int, err error) {
	parts := make([]*write, len(p.writes))
	copy(parts, p.writes)
	return resultOf(k, parts, p.batch != nil)
}

// BatchResult is [Prepared.Result] for a batch of prepared statements.
func BatchResult(k *KeyChange, parts []BatchPart) (columns []ResultColumn, cells []byte, count int, err error) {
	writes := make([]*write, len(parts))
	for i := range parts {
		writes[i] = parts[i].write
	}
	return resultOf(k, writes, true)
}

func resultOf(k *KeyChange, writes []*write, batch bool) (columns []ResultColumn, cells []byte, count int, err error) {
	columns = []ResultColumn{{"[applied]", native(row.KindBoolean)}}
	if k.Applied {
		return columns, appendCell(nil, row.Boolean(true)), 1, nil
	}
	var shown []*Column
	add := func(c *Column) {
		if !slices.Contains(shown, c) {
			shown = append(shown, c)
		}
	}
	whole, some := false, false
	for _, w := range writes {
		whole = whole || w.notExists || w.exists
		some = some || len(w.conditions) > 0
	}
	switch {
	case whole:
		for _, c := range k.Table.all() {
			add(c)
		}
	case some && batch:
		for _, c := range slices.Concat(k.Table.Partition, k.Table.Clustering) {
			add(c)
		}
		fallthrough
	case some:
		for _, w := range writes {
			for _, static := range []bool{false, true} {
				for i := range w.conditions {
					if c := w.conditions[i].column; (c.Kind == Static) == static {
						add(c)
					}
				}
			}
		}
	}
	if len(shown) == 0 || len(k.found) == 0 {
		return columns, appendCell(nil, row.Boolean(false)), 1, nil
	}
	for _, c := range shown {
		columns = append(columns, ResultColumn{c.Name, c.Type})
	}
	for i := range k.found {
		cells = appendCell(cells, row.Boolean(false))
		for _, c := range shown {
			v, err := k.valueOf(&k.found[i], c)
			if err != nil {
				return nil, nil, 0, err
			}
			cells = appendCell(cells, v)
		}
	}
	return columns, cells, len(k.found), nil
}

// valueOf returns the value of a column in a row that the result shows.
func (k *KeyChange) valueOf(f *foundRow, c *Column) ([]byte, error) {
	want := row.Want{Column: c.ID, Type: c.Type}
	at := row.Snapshot{Now: k.Now}
	switch c.Kind {
	case PartitionKey:
		values, err := row.SplitRoutingKey([]byte(k.Key), len(k.Table.Partition))
		if err != nil {
			return nil, err
		}
		return values[c.Position], nil
	case Clustering:
		if f.key == nil {
			return nil, nil
		}
		columns := make([]row.KeyColumn, len(k.Table.Clustering))
		for i, c := range k.Table.Clustering {
			columns[i] = c.key()
		}
		values, err := row.DecodeKey(columns, f.key)
		if err != nil {
			return nil, err
		}
		for _, original := range f.row.Key {
			if original.Column < len(values) {
				values[original.Column] = original.Value
			}
		}
		return values[c.Position], nil
	case Static, Regular:
	}
	if !k.fetched.has(c) {
		return nil, nil
	}
	from := &f.row
	if c.Kind == Static {
		from = &f.static
	}
	v, err := from.Value(want, at)
	return v.Bytes, err
}
