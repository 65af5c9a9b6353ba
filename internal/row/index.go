package row

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// The kinds of items, which are the first bytes of their names in a partition key.
const (
	MetaItem   = "\x00" // the deletions of the partition: [Meta]
	StaticItem = "\x01" // the static row
	RowItems   = "\x02" // a row; its encoded clustering key follows
)

// IndexPart is the part of a table whose values an index has.
type IndexPart string

// The parts of a table.
const (
	IndexPartition  IndexPart = "partition"  // one column of the partition key
	IndexClustering IndexPart = "clustering" // a clustering column
	IndexStatic     IndexPart = "static"     // a static column
	IndexRegular    IndexPart = "regular"    // a regular column
)

// IndexOf is what an index has of the column.
type IndexOf string

// What an index has of a column.
const (
	IndexValue   IndexOf = "value"   // the value as a whole
	IndexKeys    IndexOf = "keys"    // the keys of a map
	IndexValues  IndexOf = "values"  // the elements of a list or set, or the values of a map
	IndexEntries IndexOf = "entries" // the entries of a map
)

// Index is the definition of a secondary index: it says by which terms an item is found.
// Terms depend on the definition and the bytes of the item alone, and on no clock: an item
// has the terms of cells that have expired or that a deletion of its partition covers,
// and a reader compares the row. The exported fields are set before the first call of a
// method.
type Index struct {
	Part IndexPart
	Of   IndexOf

	// Column is the id of a static or regular column.
	Column uint32

	// Position is that of a column of the partition key, which has Columns columns, or
	// of a clustering column.
	Position, Columns int

	// Types has the type of the column; for a clustering column, it has those of all
	// clustering columns up to it, with their directions. User-defined types are tuples,
	// see [Type.Structure]. A field that they get later is not a part of the terms.
	Types []KeyColumn

	// Loose says that the keys of a set or map have user-defined types. A stored key does
	// not tell where a later field begins, so all keys have the same term.
	Loose bool

	id string
}

// IndexIDBytes is the number of bytes of a term that identify its index.
const IndexIDBytes = 8

// Values longer than valueMax bytes are hashed in terms.
const (
	valueMax    = 64
	valueHashed = 0x10 // no encoded value begins with it
	valueHash   = 16   // bytes
)

type indexJSON struct {
	Part     IndexPart `json:"part"`
	Of       IndexOf   `json:"of"`
	Column   uint32    `json:"column,omitzero"`
	Position int       `json:"position,omitzero"`
	Columns  int       `json:"columns,omitzero"`
	Types    []string  `json:"types"`
	Loose    bool      `json:"loose,omitzero"`
}

const descendingSuffix = " desc"

// Text returns the definition as text. Equal definitions have equal texts.
func (x *Index) Text() string {
	out := indexJSON{Part: x.Part, Of: x.Of, Column: x.Column, Position: x.Position, Columns: x.Columns, Loose: x.Loose}
	for _, c := range x.Types {
		text := c.Type.String()
		if c.Descending {
			text += descendingSuffix
		}
		out.Types = append(out.Types, text)
	}
	text, err := json.Marshal(out)
	if err != nil {
		panic(err) // It is plain data.
	}
	return string(text)
}

// ParseIndex reads a text of [Index.Text].
func ParseIndex(text string) (*Index, error) {
	bad := func(what any) (*Index, error) { return nil, fmt.Errorf("index %.200s: %v", text, what) }
	var in indexJSON
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&in); err != nil {
		return bad(err)
	}
	x := &Index{Part: in.Part, Of: in.Of, Column: in.Column, Position: in.Position, Columns: in.Columns, Loose: in.Loose}
	for _, one := range in.Types {
		one, descending := strings.CutSuffix(one, descendingSuffix)
		t, err := ParseType(one, func(_, name string) (*Type, error) { return nil, fmt.Errorf("the type %q is not known", name) })
		if err != nil {
			return bad(err)
		}
		x.Types = append(x.Types, KeyColumn{Type: t, Descending: descending})
	}
	if !x.valid() {
		return bad("it is not valid")
	}
	if again := x.Text(); again != text {
		return bad("it is not in the form in which this release writes it")
	}
	x.identify()
	return x, nil
}

// valid says whether the parts of a definition fit together.
func (x *Index) valid() bool {
	if len(x.Types) == 0 || x.Position < 0 || x.Columns < 0 {
		return false
	}
	t := x.Types[len(x.Types)-1].Type
	switch x.Part {
	case IndexPartition:
		if x.Column != 0 || len(x.Types) != 1 || x.Position >= x.Columns {
			return false
		}
	case IndexClustering:
		if x.Column != 0 || x.Columns != 0 || len(x.Types) != x.Position+1 {
			return false
		}
	case IndexStatic, IndexRegular:
		if x.Position != 0 || x.Columns != 0 || len(x.Types) != 1 {
			return false
		}
	default:
		return false
	}
	cells := x.Part == IndexStatic || x.Part == IndexRegular
	if x.Loose && (x.Of == IndexValue || x.Of == IndexValues && t.Kind != KindSet) {
		return false
	}
	switch x.Of {
	case IndexValue:
		return !t.Multicell()
	case IndexValues:
		return cells && t.Multicell() && t.Collection()
	case IndexKeys, IndexEntries:
		return cells && t.Multicell() && t.Kind == KindMap
	}
	return false
}

// identify makes the id, with which all terms of the index begin.
func (x *Index) identify() {
	sum := sha256.Sum256([]byte("row index " + x.Text()))
	x.id = string(sum[:IndexIDBytes])
}

// ID returns the bytes with which all terms of the index begin. Indexes with different
// definitions have different ones.
func (x *Index) ID() string {
	if x.id == "" {
		x.identify()
	}
	return x.id
}

// column returns the type of the column.
func (x *Index) column() *Type { return x.Types[len(x.Types)-1].Type }

// AppendValue appends the beginning of the terms of the items that have a value, which
// must not be null: that of the column, an element of a collection, or a key. entry is
// the value of an entry, and nil unless the index has entries.
func (x *Index) AppendValue(dst, v, entry []byte) []byte {
	t := x.column()
	if x.Loose {
		return x.append(dst, nil)
	}
	switch x.Of {
	case IndexKeys:
		return x.append(dst, t.Key().appendKey(nil, v))
	case IndexValues:
		return x.append(dst, t.Element().appendKey(nil, v))
	case IndexEntries:
		return x.append(dst, t.Element().appendKey(t.Key().appendKey(nil, v), entry))
	}
	return x.append(dst, t.appendKey(nil, v))
}

// append appends the beginning of a term for an encoded value, which is nil if all
// values have one term.
func (x *Index) append(dst, encoded []byte) []byte {
	dst = append(dst, x.ID()...)
	if len(encoded) <= valueMax {
		return append(dst, encoded...)
	}
	sum := sha256.Sum256(encoded)
	return append(append(dst, valueHashed), sum[:valueHash]...)
}

// Values calls visit with the beginning of each term of an item, some perhaps several
// times. No beginning is the beginning of another one. key is the routing key.
func (x *Index) Values(key, item, body []byte, visit func(value []byte)) error {
	switch kind := string(item[:min(1, len(item))]); {
	case kind == StaticItem && (x.Part == IndexStatic || x.Part == IndexPartition):
	case kind == RowItems && x.Part != IndexStatic:
	default:
		return nil
	}
	var r Reader
	if err := r.Reset(body); err != nil {
		return err
	}
	if x.Part == IndexStatic || x.Part == IndexRegular {
		return x.cells(&r, visit)
	}
	if exists := r.Marker.Present || r.anyValue(); !exists {
		return r.Err()
	}
	if x.Part == IndexPartition {
		values, err := SplitRoutingKey(key, x.Columns)
		if err != nil {
			return err
		}
		v, err := x.column().fit(values[x.Position])
		if err != nil {
			return err
		}
		visit(x.AppendValue(nil, v, nil))
		return r.Err()
	}
	rest := item[len(RowItems):]
	for i, c := range x.Types {
		v, after, err := c.CutKey(rest)
		if err != nil {
			return err
		}
		if i == x.Position {
			visit(x.AppendValue(nil, v, nil))
		}
		rest = after
	}
	return r.Err()
}

// anyValue says whether a cell has a value, which may have expired.
func (r *Reader) anyValue() bool {
	for r.Next() {
		if r.Cell.hasValue() {
			return true
		}
	}
	return false
}

// cells visits the values of the column in the cells of a row.
func (x *Index) cells(r *Reader, visit func(value []byte)) error {
	t := x.column()
	of := t
	if t.Multicell() {
		of = t.Element()
	}
	keys := x.Of == IndexKeys || x.Of == IndexValues && t.Kind == KindSet
	for r.Next() {
		c := &r.Cell
		if c.Column > x.Column {
			break
		}
		if c.Column != x.Column || !c.hasValue() {
			continue
		}
		v := c.Value
		if v == nil {
			v = []byte{} // the empty value
		}
		if !keys {
			fit, err := of.fit(v)
			if err != nil {
				return err
			}
			v = fit
		}
		switch {
		case x.Loose:
			visit(x.append(nil, nil))
		case keys:
			visit(x.append(nil, c.Path))
		case x.Of == IndexEntries:
			visit(x.append(nil, of.appendKey(slices.Clone(c.Path), v)))
		default:
			visit(x.append(nil, of.appendKey(nil, v)))
		}
	}
	return r.Err()
}

// fit returns a stored value without the fields that its type has got since the structure t
// was taken. The error is that of a value that is not of the type.
func (t *Type) fit(v []byte) ([]byte, error) {
	v = t.cutFields(v)
	if err := t.ValidateStored(v); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return v, nil
}

func (t *Type) cutFields(v []byte) []byte {
	if len(v) == 0 || !t.References(KindTuple) {
		return v
	}
	parts := t.Split(v)
	for i := range parts {
		parts[i] = t.Parts[i%len(t.Parts)].cutFields(parts[i])
	}
	return t.Pack(parts)
}

// Structure returns the type with tuples in the place of user-defined types, whose values
// are the same. It depends on no name.
func (t *Type) Structure() *Type {
	if t.Native() {
		return t
	}
	changed := *t
	changed.Parts = make([]*Type, len(t.Parts))
	for i, p := range t.Parts {
		changed.Parts[i] = p.Structure()
	}
	if t.Kind == KindUDT {
		return TupleOf(changed.Parts...)
	}
	return &changed
}
