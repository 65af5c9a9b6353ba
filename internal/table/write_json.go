package table

import (
	"slices"

	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/table/cql"
)

// jsonValues are the values of INSERT JSON: a text with an object, whose members are
// columns.
type jsonValues struct {
	table *Table
	text  term
}

// decode returns the values of the columns that the object names; nil is null. All of them
// are decoded before the names of other columns, and before the key is looked at.
func (j *jsonValues) decode(b *binding) (map[string][]byte, error) {
	if members, ok := b.members[j]; ok {
		return members, nil
	}
	text, err := j.text.bind(b)
	if err != nil {
		return nil, err
	}
	if text == nil && !j.text.unset(b) {
		return nil, invalid("Got null for INSERT JSON values")
	}
	list, err := row.ParseJSONRow(string(text))
	if err != nil {
		return nil, invalid("%s", err.Error())
	}
	named := make(map[string]row.JSON, len(list))
	for _, m := range list {
		named[m.Name] = m.Value
	}
	members := make(map[string][]byte, len(list))
	for _, c := range j.table.all() {
		value, ok := named[c.Name]
		if !ok {
			continue
		}
		if members[c.Name] = nil; value.Null() {
			continue
		}
		v, err := c.Type.FromJSON(value)
		if ofDuration(err) {
			return nil, invalid("%s", err.Error())
		}
		if err != nil {
			return nil, invalid("Error decoding JSON value for %s: %s", c.Name, err.Error())
		}
		members[c.Name] = c.Type.Normalize(v)
	}
	for _, m := range list {
		if j.table.Column(m.Name) == nil {
			return nil, invalid("JSON values map contains unrecognized column: %s", m.Name)
		}
	}
	if b.members == nil {
		b.members = map[*jsonValues]map[string][]byte{}
	}
	b.members[j] = members
	return members, nil
}

// jsonColumn is the value of one column of INSERT JSON.
type jsonColumn struct {
	*jsonValues
	column *Column
	skip   bool // a column that the object does not name is unset
}

func (c *jsonColumn) bind(b *binding) ([]byte, error) {
	members, err := c.decode(b)
	return members[c.column.Name], err
}

func (c *jsonColumn) unset(b *binding) bool {
	if !c.skip {
		return false
	}
	members, err := c.decode(b)
	_, ok := members[c.column.Name]
	return err == nil && !ok
}

// insertJSON compiles INSERT JSON. All columns take part.
func (w *write) insertJSON(a *terms, s *cql.Insert) error {
	text, err := a.compile(s.JSON, w.table.receiver(native(row.KindText), "[json]"))
	if err != nil {
		return err
	}
	w.json = &jsonValues{table: w.table, text: text}
	if _, ok := text.(constant); ok {
		if _, err := w.json.decode(&binding{}); err != nil {
			return err
		}
	}
	t := w.table
	w.where = &where{table: t, partition: make([]*restriction, len(t.Partition)), clustering: make([]*restriction, len(t.Clustering))}
	for _, c := range t.all() {
		value := &jsonColumn{jsonValues: w.json, column: c, skip: s.DefaultUnset}
		switch c.Kind {
		case PartitionKey, Clustering:
			one := &restriction{columns: []*Column{c}, operator: cql.Equal, value: value, text: c.Name}
			if c.Kind == PartitionKey {
				w.where.partition[c.Position] = one
			} else {
				w.where.clustering[c.Position] = one
			}
		default:
			w.assign(assignment{column: c, terms: []term{value}, op: func(values [][]byte) (row.Op, error) {
				return row.SetColumn(c.ID, c.Type, values[0]), nil
			}})
		}
	}
	w.statics = slices.ContainsFunc(w.assigned, func(x assignment) bool { return x.column.Kind == Static })
	return w.where.finishClustering(false, false, false)
}
