package table

import (
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/decandb/decan/internal/row"
)

// definitionVersion is the version of the definitions that the package writes. It reads
// no later one.
const definitionVersion = 1

// StoredKeyspace is a keyspace with its tables as the catalog has them.
type StoredKeyspace struct {
	Name       string
	Definition json.RawMessage
	Tables     []StoredTable
}

// StoredTable is a table as the catalog has it.
type StoredTable struct {
	Name       string
	Definition json.RawMessage
}

type keyspaceJSON struct {
	Version       int               `json:"version"`
	Replication   map[string]string `json:"replication"`
	DurableWrites bool              `json:"durable_writes"`
	Types         []typeJSON        `json:"types,omitempty"`
}

type typeJSON struct {
	Name   string      `json:"name"`
	Fields []fieldJSON `json:"fields"`
}

type fieldJSON struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

type tableJSON struct {
	Version int           `json:"version"`
	ID      string        `json:"id"`
	Columns []columnJSON  `json:"columns"`
	NextID  uint32        `json:"next_id"`
	Options Options       `json:"options"`
	Indexes []indexJSON   `json:"indexes,omitempty"`
	Dropped []droppedJSON `json:"dropped,omitempty"`
	View    *viewJSON     `json:"view,omitempty"`
}

type columnJSON struct {
	Name       string     `json:"name"`
	Type       string     `json:"type"`
	Kind       ColumnKind `json:"kind"`
	Position   int        `json:"position,omitempty"`
	Descending bool       `json:"descending,omitempty"`
	ID         uint32     `json:"id"`
}

type indexJSON struct {
	Name    string            `json:"name"`
	Column  string            `json:"column"`
	Target  string            `json:"target"`
	Class   string            `json:"class,omitempty"`
	Options map[string]string `json:"options,omitempty"`
	Terms   string            `json:"terms"`
}

type droppedJSON struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Static bool   `json:"static,omitempty"`
	Time   int64  `json:"time"`
}

type viewJSON struct {
	Base       string `json:"base"`
	BaseID     string `json:"base_id"`
	AllColumns bool   `json:"all_columns,omitempty"`
	Where      string `json:"where"`
}

// Definition returns the keyspace as the catalog keeps it, without its tables.
func (k *Keyspace) Definition() json.RawMessage {
	out := keyspaceJSON{Version: definitionVersion, Replication: k.Replication, DurableWrites: k.DurableWrites}
	for _, t := range k.Types {
		one := typeJSON{Name: t.Name}
		for i, f := range t.Fields {
			one.Fields = append(one.Fields, fieldJSON{f, t.Parts[i].String()})
		}
		out.Types = append(out.Types, one)
	}
	return encode(out)
}

// Definition returns the table as the catalog keeps it.
func (t *Table) Definition() json.RawMessage {
	out := tableJSON{Version: definitionVersion, ID: hex.EncodeToString(t.ID[:]), NextID: t.nextID, Options: t.Options}
	for _, c := range t.all() {
		out.Columns = append(out.Columns, columnJSON{c.Name, c.Type.String(), c.Kind, c.Position, c.Descending, c.ID})
	}
	for _, i := range t.Indexes {
		out.Indexes = append(out.Indexes, indexJSON(i))
	}
	for _, d := range t.Dropped {
		out.Dropped = append(out.Dropped, droppedJSON{d.Name, d.Type.String(), d.Static, d.Time})
	}
	if v := t.View; v != nil {
		out.View = &viewJSON{v.Base, hex.EncodeToString(v.BaseID[:]), v.AllColumns, v.Where}
	}
	return encode(out)
}

// encode writes plain data, which cannot fail.
func encode(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// ReadSchema returns the schema that the definitions of the catalog describe.
func ReadSchema(definitions []StoredKeyspace) (*Schema, error) {
	s := &Schema{}
	for _, d := range definitions {
		k, err := readKeyspace(d)
		if err != nil {
			return nil, fmt.Errorf("keyspace %q: %w", d.Name, err)
		}
		s = s.with(k)
	}
	return s, nil
}

func decode(data json.RawMessage, version *int, into any) error {
	if err := json.Unmarshal(data, into); err != nil {
		return err
	}
	if *version != definitionVersion {
		return fmt.Errorf("definition has the version %d; this program reads version %d", *version, definitionVersion)
	}
	return nil
}

func readKeyspace(d StoredKeyspace) (*Keyspace, error) {
	var in keyspaceJSON
	if err := decode(d.Definition, &in.Version, &in); err != nil {
		return nil, err
	}
	k := &Keyspace{Name: d.Name, Replication: in.Replication, DurableWrites: in.DurableWrites}
	r := typeReader{keyspace: d.Name, texts: map[string]typeJSON{}, types: map[string]*row.Type{}}
	for _, t := range in.Types {
		r.texts[t.Name] = t
	}
	for _, t := range in.Types {
		found, err := r.userType("", t.Name)
		if err != nil {
			return nil, err
		}
		k.Types = append(k.Types, found)
	}
	for _, table := range d.Tables {
		t, err := readTable(d.Name, table, &r)
		if err != nil {
			return nil, fmt.Errorf("table %q: %w", table.Name, err)
		}
		k = k.withTable(t)
	}
	return k.linked(), nil
}

// typeReader reads the types of a keyspace. A user-defined type may have another one in
// a field.
type typeReader struct {
	keyspace string
	texts    map[string]typeJSON
	types    map[string]*row.Type
}

func (r *typeReader) userType(_, name string) (*row.Type, error) {
	if t := r.types[name]; t != nil {
		return t, nil
	}
	text, ok := r.texts[name]
	if !ok {
		return nil, fmt.Errorf("unknown type %q", name)
	}
	delete(r.texts, name) // a type in itself is unknown
	var fields []string
	var types []*row.Type
	for _, f := range text.Fields {
		t, err := r.read(f.Type)
		if err != nil {
			return nil, fmt.Errorf("field %q of type %q: %w", f.Name, name, err)
		}
		fields, types = append(fields, f.Name), append(types, t)
	}
	r.types[name] = row.UDTOf(r.keyspace, name, fields, types)
	return r.types[name], nil
}

func (r *typeReader) read(text string) (*row.Type, error) { return row.ParseType(text, r.userType) }

func readTable(keyspace string, d StoredTable, r *typeReader) (*Table, error) {
	var in tableJSON
	if err := decode(d.Definition, &in.Version, &in); err != nil {
		return nil, err
	}
	t := &Table{Keyspace: keyspace, Name: d.Name, Options: in.Options, nextID: in.NextID}
	if err := readID(&t.ID, in.ID); err != nil {
		return nil, err
	}
	var columns []*Column
	for _, c := range in.Columns {
		of, err := r.read(c.Type)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", c.Name, err)
		}
		columns = append(columns, &Column{Name: c.Name, Type: of, Kind: c.Kind, Position: c.Position, Descending: c.Descending, ID: c.ID})
	}
	for _, i := range in.Indexes {
		t.Indexes = append(t.Indexes, Index(i))
	}
	for _, c := range in.Dropped {
		of, err := r.read(c.Type)
		if err != nil {
			return nil, fmt.Errorf("dropped column %q: %w", c.Name, err)
		}
		t.Dropped = append(t.Dropped, DroppedColumn{c.Name, of, c.Static, c.Time})
	}
	if v := in.View; v != nil {
		t.View = &View{Base: v.Base, AllColumns: v.AllColumns, Where: v.Where}
		if err := readID(&t.View.BaseID, v.BaseID); err != nil {
			return nil, err
		}
	}
	return t.withColumns(columns), nil
}

func readID(id *[16]byte, text string) error {
	b, err := hex.DecodeString(text)
	if err == nil && len(b) != len(id) {
		err = fmt.Errorf("the id %q is not 16 bytes long", text)
	}
	copy(id[:], b)
	return err
}
