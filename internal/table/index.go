package table

import (
	"slices"
	"strings"

	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/table/cql"
)

// rowIndex returns the definition of the terms of an index.
func (t *Table) rowIndex(i *Index) *row.Index {
	c := t.Column(i.Column)
	x := &row.Index{Of: i.of(), Types: []row.KeyColumn{{Type: c.Type.Structure()}}}
	switch c.Kind {
	case PartitionKey:
		x.Part, x.Position, x.Columns = row.IndexPartition, c.Position, len(t.Partition)
	case Clustering:
		x.Part, x.Position, x.Types = row.IndexClustering, c.Position, nil
		for _, c := range t.Clustering[:c.Position+1] {
			x.Types = append(x.Types, row.KeyColumn{Type: c.Type.Structure(), Descending: c.Descending})
		}
	case Static:
		x.Part, x.Column = row.IndexStatic, c.ID
	case Regular:
		x.Part, x.Column = row.IndexRegular, c.ID
	}
	keys := x.Of == row.IndexKeys || x.Of == row.IndexEntries || x.Of == row.IndexValues && c.Type.Kind == row.KindSet
	x.Loose = keys && c.Type.Key().References(row.KindUDT)
	return x
}

// indexesOn returns the names of the indexes on a column.
func (t *Table) indexesOn(column string) (names []string) {
	for _, i := range t.Indexes {
		if i.Column == column {
			names = append(names, i.Name)
		}
	}
	return names
}

// noExpression returns the error of expressions on indexes, which only custom indexes
// have. There are none.
func (t *Table) noExpression(indexes []string) error {
	switch {
	case len(indexes) == 0:
		return nil
	case len(indexes) > 1:
		return invalid("Multiple custom index expressions in a single query are not supported")
	case slices.ContainsFunc(t.Indexes, func(i Index) bool { return i.Name == indexes[0] }):
		return invalid("Only CUSTOM indexes may be used in custom index expressions, %s is not valid", indexes[0])
	}
	return invalid("Invalid index expression, index %s not found for %s.%s", indexes[0], t.Keyspace, t.Name)
}

// of returns what the index has of its column.
func (i *Index) of() row.IndexOf {
	kind, _, ok := strings.Cut(i.Target, "(")
	if !ok || strings.HasPrefix(i.Target, `"`) {
		return row.IndexValue
	}
	switch kind {
	case "keys":
		return row.IndexKeys
	case "values":
		return row.IndexValues
	case "entries":
		return row.IndexEntries
	}
	return row.IndexValue // "full"
}

// supports says whether an index finds the rows that satisfy a restriction on its column.
func (i *Index) supports(r *restriction, c *Column) bool {
	if i.Column != c.Name {
		return false
	}
	switch i.of() {
	case row.IndexKeys:
		return r.operator == cql.ContainsKey
	case row.IndexValues:
		return r.operator == cql.Contains
	case row.IndexEntries:
		return r.element != nil
	case row.IndexValue:
	}
	return r.equal()
}

// access is an index that a query reads through.
type access struct {
	index *Index
	by    *restriction
	at    int // of the column in a tuple relation
}

// through returns the index for a restriction, nil if there is none.
func (w *where) through(r *restriction) *access {
	for _, by := range append([]*restriction{r}, r.also...) {
		for at, c := range by.columns {
			for i := range w.table.Indexes {
				if x := &w.table.Indexes[i]; x.supports(by, c) {
					return &access{index: x, by: by, at: at}
				}
			}
		}
	}
	return nil
}

// throughAny returns an index for one of several restrictions, which may be nil.
func (w *where) throughAny(list []*restriction) *access {
	for _, r := range list {
		if r == nil {
			continue
		}
		if a := w.through(r); a != nil {
			return a
		}
	}
	return nil
}

// sameBytes returns the restriction of the index that is used if it is no filter, and if
// the range of its rows may have equal values with other bytes; nil if not.
func (w *where) sameBytes() *restriction {
	a := w.access
	if a == nil || !a.by.equal() || len(a.by.columns) > 1 || slices.Contains(w.filters, a.by) || !a.by.columns[0].Type.References(row.KindDecimal) {
		return nil
	}
	return a.by
}

// Lookup says which rows an index finds.
type Lookup struct {
	Definition string // of the terms of the index
	Value      []byte // the beginning of the terms that are looked for

	// First are the names of items that are read in each key before those that the index
	// finds. Whole says that all items of a key are read if the index finds one of them.
	First []string
	Whole bool
}

// Indexed is a [Source] that can be read through an index.
type Indexed interface {
	Source

	// Through returns a source that visits the items that an index finds, and perhaps
	// others, in the order of the source. Without an index that has all rows of the table
	// it visits all items.
	Through(Lookup) Source
}

// lookup returns what the index is to find.
func (a *access) lookup(w *where, b *binding) (*Lookup, error) {
	t := w.table
	terms, err := row.ParseIndex(a.index.Terms)
	if err != nil {
		return nil, err
	}
	r := a.by
	value := r.bound
	if slices.Contains(w.filters, r) {
		value = r.compared
	}
	v, err := value(b, r.value)
	if err != nil {
		return nil, err
	}
	var entry []byte
	switch {
	case r.multi:
		if v = r.tuple(len(r.columns)).Split(v)[a.at]; v == nil {
			return nil, invalid("Unsupported null value for column %s", r.columns[a.at].Name)
		}
	case r.element != nil:
		entry = v
		if v, err = r.element.bind(b); err != nil {
			return nil, err
		}
		if entrySize(v, entry) >= indexedMax {
			return nil, invalid("Index expression values may not be larger than 64K")
		}
	case len(v) > indexedMax:
		return nil, invalid("Index expression values may not be larger than 64K")
	}
	l := &Lookup{Definition: a.index.Terms, First: []string{MetaItem}, Whole: terms.Part == row.IndexStatic}
	if len(t.Static) > 0 {
		l.First = append(l.First, StaticItem)
	}
	l.Value = terms.AppendValue(nil, v, entry)
	return l, nil
}

// indexedMax is the least size in bytes of a value that Apache Cassandra does not index.
const indexedMax = 65535

// entrySize is the size of a map's entry as Apache Cassandra indexes it: two values, each
// with its length and an end.
func entrySize(key, value []byte) int { return 2*3 + len(key) + len(value) }

// checkIndexed returns the error of a write of a value that is too large for an index.
func (t *Table) checkIndexed(changes []rowChange) error {
	for i := range t.Indexes {
		x := &t.Indexes[i]
		c := t.Column(x.Column)
		for j := range changes {
			size, err := x.largest(t, c, &changes[j])
			if err != nil {
				return err
			}
			if size >= indexedMax {
				return invalid("Cannot index value of size %d for index %s on %s.%s(%s) (maximum allowed size=%d)", size, x.Name, t.Keyspace, t.Name, cql.Quote(c.Name), indexedMax)
			}
		}
	}
	return nil
}

// largest returns the size of the first value that a change writes for an index and that
// is too large, or of another one. c is the column of the index.
func (i *Index) largest(t *Table, c *Column, change *rowChange) (size int, err error) {
	static := change.item == StaticItem
	switch {
	case change.item == "" || change.mutation.DeleteRow:
		return 0, nil
	case c.Kind == Clustering && !static:
		if len(change.item) < indexedMax {
			return 0, nil
		}
		columns := make([]row.KeyColumn, len(t.Clustering))
		for at, c := range t.Clustering {
			columns[at] = c.key()
		}
		values, err := row.DecodeKey(columns, []byte(change.item[len(RowItems):]))
		if err != nil {
			return 0, err
		}
		return len(values[c.Position]), nil
	case c.Kind == Static != static || c.Kind == PartitionKey:
		return 0, nil
	}
	of := i.of()
	keys := of == row.IndexKeys || of == row.IndexValues && c.Type.Kind == row.KindSet
	for _, op := range change.mutation.Ops {
		if op.Column != c.ID {
			continue
		}
		size = max(size, len(op.Value))
		for _, e := range op.Elements {
			var key []byte
			if (keys || of == row.IndexEntries) && len(e.Path)+len(e.Value)+entrySize(nil, nil) >= indexedMax {
				if key, err = c.Type.PathKey(&row.Cell{Path: e.Path, Original: e.Original}); err != nil {
					return 0, err
				}
			}
			one := len(e.Value)
			switch {
			case keys:
				one = len(key)
			case of == row.IndexEntries:
				one = entrySize(key, e.Value)
			}
			if size = max(size, one); size >= indexedMax {
				return size, nil
			}
		}
	}
	return size, nil
}
