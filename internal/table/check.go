package table

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/decandb/decan/internal/row"
)

// CheckItem returns why a stored item cannot be one of the table, or nil: its name and
// body can be read, the columns of its cells exist or were dropped and belong to its kind,
// and the values are valid.
func (t *Table) CheckItem(item, body []byte) error {
	switch {
	case string(item) == MetaItem:
		meta, err := row.DecodeMeta(body)
		if err == nil && meta.Empty() {
			err = fmt.Errorf("the deletions of the partition are stored, and there are none")
		}
		return err
	case string(item) == StaticItem:
		r, err := row.DecodeRow(body)
		if err != nil {
			return err
		}
		if r.Marker.Present || len(r.Key) > 0 {
			return fmt.Errorf("the static row has a marker or clustering values")
		}
		return t.checkCells(&r, Static)
	case t.View == nil && len(item) > 0 && (item[0] == OutboxItems[0] || string(item) == OutboxRange):
		_, err := DecodeOutbox(item, body)
		return err
	case len(item) == 0 || item[0] != RowItems[0]:
		return fmt.Errorf("its name %x is not that of an item", item)
	}
	columns := make([]row.KeyColumn, len(t.Clustering))
	for i, c := range t.Clustering {
		columns[i] = c.key()
	}
	values, err := row.DecodeKey(columns, item[1:])
	if err != nil {
		return err
	}
	r, err := row.DecodeRow(body)
	if err != nil {
		return err
	}
	for _, original := range r.Key {
		if original.Column >= len(values) {
			return fmt.Errorf("it has a value of clustering column %d", original.Column)
		}
		values[original.Column] = original.Value
	}
	for i, c := range t.Clustering {
		if err := c.Type.Validate(values[i]); err != nil {
			return fmt.Errorf("clustering column %s: %w", c.Name, err)
		}
	}
	if again := row.EncodeKey(columns, values); !bytes.Equal(again, item[1:]) {
		return fmt.Errorf("its clustering key is %x, its values make %x", item[1:], again)
	}
	return t.checkCells(&r, Regular)
}

// checkCells checks the cells of a row of a kind.
func (t *Table) checkCells(r *row.Row, kind ColumnKind) error {
	columns := t.all()
	for i := range r.Cells {
		cell := &r.Cells[i]
		at := slices.IndexFunc(columns, func(c *Column) bool { return c.ID == cell.Column })
		if at < 0 {
			if cell.Column >= t.nextID {
				return fmt.Errorf("it has a cell of column %d, which never existed", cell.Column)
			}
			continue // The column was dropped.
		}
		c := columns[at]
		if c.Kind != kind {
			return fmt.Errorf("it has a cell of column %s, which is of another kind", c.Name)
		}
		if several := cell.Path != nil || cell.Kind == row.CellDeletion; several != c.Type.Multicell() {
			return fmt.Errorf("the cell of column %s is an element: %t", c.Name, several)
		}
		if counter := cell.Kind == row.CellCounter; counter != (c.Type.Kind == row.KindCounter) && cell.Kind != row.CellTombstone {
			return fmt.Errorf("the cell of column %s is a counter: %t", c.Name, counter)
		}
	}
	for _, c := range columns {
		if c.Kind != kind {
			continue
		}
		v, err := r.Value(row.Want{Column: c.ID, Type: c.Type}, row.Snapshot{})
		if err == nil {
			err = c.Type.ValidateStored(v.Bytes)
		}
		if err != nil {
			return fmt.Errorf("column %s: %w", c.Name, err)
		}
	}
	return nil
}
