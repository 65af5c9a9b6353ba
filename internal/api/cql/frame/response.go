package frame

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"
)

// Ready is the message READY.
type Ready struct{}

// Authenticate is the message AUTHENTICATE.
type Authenticate struct{ Class string }

// Supported is the message SUPPORTED.
type Supported struct{ Options []Pair[[]string] }

// AuthChallenge is the message AUTH_CHALLENGE.
type AuthChallenge struct{ Token []byte } // nil for null

// AuthSuccess is the message AUTH_SUCCESS.
type AuthSuccess struct{ Token []byte } // nil for null

// Void is a RESULT without content.
type Void struct{}

// SetKeyspace is the RESULT of USE.
type SetKeyspace struct{ Keyspace string }

// Column describes a column of a result or a marker of a statement.
type Column struct {
	Keyspace, Table, Name string
	Type                  Type
}

// Columns are the columns of a result, or the markers of a statement. They never
// change. The zero value has none.
type Columns struct {
	list   []Column
	global bool
	count  int
}

// NewColumns returns the columns of a list, which it keeps.
func NewColumns(list []Column) Columns {
	global := len(list) > 0
	for _, c := range list {
		global = global && c.Keyspace == list[0].Keyspace && c.Table == list[0].Table
	}
	return Columns{list: list, global: global, count: len(list)}
}

// All returns the columns. It is empty if they were decoded from a result that left
// them out.
func (c Columns) All() []Column { return c.list }

// Len returns the number of columns, also of those that were left out.
func (c Columns) Len() int { return c.count }

// leftOut reports whether only the number of columns is known.
func (c *Columns) leftOut() bool { return len(c.list) < c.count }

// Metadata describes the rows of a result.
type Metadata struct {
	Columns     Columns
	Skip        bool   // leave out the columns
	PagingState []byte // of the next page; nil for none
	NewID       []byte // version 5: the columns have changed; nil if not
}

// Rows is a RESULT with rows.
type Rows struct {
	Metadata Metadata
	Count    int
	Cells    []byte // of all rows, as [AppendBytes] appends them
}

// All returns the rows. The cells of a row are valid until the next row; nil is null.
func (r *Rows) All() iter.Seq[[][]byte] {
	return func(yield func([][]byte) bool) {
		d := decoder{b: r.Cells}
		row := make([][]byte, r.Metadata.Columns.count)
		for range r.Count {
			for i := range row {
				row[i] = d.bytes()
			}
			if d.err != nil || !yield(row) {
				return
			}
		}
	}
}

// Prepared is the RESULT of PREPARE.
type Prepared struct {
	ID         []byte
	MetadataID []byte // of the result; version 5
	Markers    Columns
	Keys       []uint16 // version 4 and later: the markers of the partition key, in its order
	Result     Columns
}

// SchemaChange is the RESULT of a statement that changes the schema, and an event.
type SchemaChange struct {
	Change    string // Created, Updated or Dropped
	Target    string
	Keyspace  string
	Name      string   // not of a keyspace
	Arguments []string // the types of the arguments of a function or an aggregate
}

// What happens in a [SchemaChange], and to what.
const (
	Created = "CREATED"
	Updated = "UPDATED"
	Dropped = "DROPPED"

	TargetKeyspace  = "KEYSPACE"
	TargetTable     = "TABLE"
	TargetType      = "TYPE"
	TargetFunction  = "FUNCTION"
	TargetAggregate = "AGGREGATE"
)

// Event is the message EVENT.
type Event struct {
	// Schema is the change of a schema event; nil for the other kinds.
	Schema *SchemaChange

	// Of the other kinds.
	Kind    string // StatusChanges or TopologyChanges
	Change  string // such as Up
	Address netip.AddrPort
}

// The changes of nodes.
const (
	Up          = "UP"
	Down        = "DOWN"
	NewNode     = "NEW_NODE"
	RemovedNode = "REMOVED_NODE"
)

// Opcode implements [Message].
func (Ready) Opcode() Opcode { return OpReady }

// Opcode implements [Message].
func (Authenticate) Opcode() Opcode { return OpAuthenticate }

// Opcode implements [Message].
func (Supported) Opcode() Opcode { return OpSupported }

// Opcode implements [Message].
func (AuthChallenge) Opcode() Opcode { return OpAuthChallenge }

// Opcode implements [Message].
func (AuthSuccess) Opcode() Opcode { return OpAuthSuccess }

// Opcode implements [Message].
func (Void) Opcode() Opcode { return OpResult }

// Opcode implements [Message].
func (SetKeyspace) Opcode() Opcode { return OpResult }

// Opcode implements [Message].
func (*Rows) Opcode() Opcode { return OpResult }

// Opcode implements [Message].
func (*Prepared) Opcode() Opcode { return OpResult }

// Opcode implements [Message].
func (*SchemaChange) Opcode() Opcode { return OpResult }

// Opcode implements [Message].
func (*Event) Opcode() Opcode { return OpEvent }

func (Ready) encode(*encoder)             {}
func (m Authenticate) encode(e *encoder)  { e.string(m.Class) }
func (m Supported) encode(e *encoder)     { e.stringMultimap(m.Options) }
func (m AuthChallenge) encode(e *encoder) { e.bytes(m.Token) }
func (m AuthSuccess) encode(e *encoder)   { e.bytes(m.Token) }

// The kinds of RESULT.
const (
	kindVoid         = 1
	kindRows         = 2
	kindSetKeyspace  = 3
	kindPrepared     = 4
	kindSchemaChange = 5
)

// The flags of metadata.
const (
	metadataGlobal  = 0x01
	metadataMore    = 0x02
	metadataSkip    = 0x04
	metadataChanged = 0x08
)

func (Void) encode(e *encoder) { e.int(kindVoid) }

func (m SetKeyspace) encode(e *encoder) {
	e.int(kindSetKeyspace)
	e.string(m.Keyspace)
}

func (m *SchemaChange) encode(e *encoder) {
	e.int(kindSchemaChange)
	m.encodeChange(e)
}

func (m *SchemaChange) encodeChange(e *encoder) {
	e.string(m.Change)
	e.string(m.Target)
	e.string(m.Keyspace)
	if m.Target != TargetKeyspace {
		e.string(m.Name)
	}
	if m.Target == TargetFunction || m.Target == TargetAggregate {
		e.stringList(m.Arguments)
	}
}

func (m *Event) encode(e *encoder) {
	if m.Schema != nil {
		e.string(SchemaChanges)
		m.Schema.encodeChange(e)
		return
	}
	e.string(m.Kind)
	e.string(m.Change)
	e.addressPort(m.Address)
}

func (r *Rows) encode(e *encoder) {
	e.b = slices.Grow(e.b, len(r.Cells)+minRows)
	e.int(kindRows)
	e.metadata(&r.Metadata)
	e.int(int32(r.Count))
	e.b = append(e.b, r.Cells...)
}

// minRows is about the length of the metadata of a few columns.
const minRows = 256

func (e *encoder) metadata(m *Metadata) {
	flags := int32(0)
	if m.Columns.global {
		flags |= metadataGlobal
	}
	if m.PagingState != nil {
		flags |= metadataMore
	}
	changed := m.NewID != nil && e.version >= V5
	if changed {
		flags |= metadataChanged
	}
	skip := m.Skip && !changed || m.Columns.count == 0 || m.Columns.leftOut()
	if skip {
		flags |= metadataSkip
	}
	e.int(flags)
	e.int(int32(m.Columns.count))
	if m.PagingState != nil {
		e.bytes(m.PagingState)
	}
	if changed {
		e.shortBytes(m.NewID)
	}
	if !skip {
		e.columns(&m.Columns)
	}
}

func (e *encoder) columns(c *Columns) {
	if c.global {
		e.string(c.list[0].Keyspace)
		e.string(c.list[0].Table)
	}
	for i := range c.list {
		column := &c.list[i]
		if !c.global {
			e.string(column.Keyspace)
			e.string(column.Table)
		}
		e.string(column.Name)
		e.option(&column.Type)
	}
}

func (m *Prepared) encode(e *encoder) {
	e.int(kindPrepared)
	e.shortBytes(m.ID)
	if e.version >= V5 {
		e.shortBytes(m.MetadataID)
	}
	flags := int32(0)
	if m.Markers.global {
		flags |= metadataGlobal
	}
	if m.Markers.leftOut() {
		flags |= metadataSkip
	}
	e.int(flags)
	e.int(int32(m.Markers.count))
	if e.version >= V4 {
		e.int(int32(len(m.Keys)))
		for _, at := range m.Keys {
			e.short(int(at), "a marker")
		}
	}
	if !m.Markers.leftOut() {
		e.columns(&m.Markers)
	}
	e.metadata(&Metadata{Columns: m.Result})
}

func decodeSupported(d *decoder) Message { return Supported{Options: d.stringMultimap()} }

func decodeResult(d *decoder) Message {
	switch kind := d.int(); kind {
	case kindVoid:
		return Void{}
	case kindRows:
		return d.rows()
	case kindSetKeyspace:
		return SetKeyspace{Keyspace: d.string()}
	case kindPrepared:
		return d.prepared()
	case kindSchemaChange:
		return d.schemaChange()
	default:
		d.fail("Unknown kind of RESULT: %d", kind)
		return Void{}
	}
}

// columnSize is the minimum number of bytes of a column.
const columnSize = 2 + optionSize

func (d *decoder) columns(flags int32, n int) Columns {
	c := Columns{global: flags&metadataGlobal != 0, count: n}
	if flags&metadataSkip != 0 {
		c.global = c.global && n > 0
		return c
	}
	var keyspace, table string
	if c.global {
		keyspace, table = d.string(), d.string()
	}
	c.list = make([]Column, d.within(n, columnSize))
	for i := range c.list {
		if !c.global {
			keyspace, table = d.string(), d.string()
		}
		c.list[i] = Column{Keyspace: keyspace, Table: table, Name: d.string(), Type: d.option(0)}
	}
	c.global = c.global && n > 0
	return c
}

// columnsMax bounds the columns of a result that leaves them out.
const columnsMax = shortMax

func (d *decoder) columnCount() int {
	n := d.int()
	if d.err == nil && (n < 0 || n > columnsMax) {
		d.fail("Invalid number of columns: %d", n)
		return 0
	}
	return int(n)
}

func (d *decoder) metadata() Metadata {
	flags, n := d.int(), d.columnCount()
	m := Metadata{Skip: flags&metadataSkip != 0}
	if flags&metadataMore != 0 {
		m.PagingState = d.bytes()
	}
	if flags&metadataChanged != 0 && d.version >= V5 {
		m.NewID = d.shortBytes()
	}
	m.Columns = d.columns(flags, n)
	return m
}

func (d *decoder) rows() *Rows {
	m := &Rows{Metadata: d.metadata()}
	m.Count = int(d.int())
	columns := m.Metadata.Columns.count
	if d.err == nil && (m.Count < 0 || columns == 0 && m.Count > 0) {
		d.fail("Invalid number of rows: %d", m.Count)
	}
	if d.err != nil {
		return m
	}
	cells := d.b
	for range m.Count {
		for range columns {
			d.bytes()
		}
		if d.err != nil {
			return m
		}
	}
	m.Cells = cells[:len(cells)-len(d.b)]
	return m
}

func (d *decoder) prepared() *Prepared {
	m := &Prepared{ID: d.shortBytes()}
	if d.version >= V5 {
		m.MetadataID = d.shortBytes()
	}
	flags, n := d.int(), d.columnCount()
	if d.version >= V4 {
		m.Keys = make([]uint16, d.within(int(d.int()), 2))
		for i := range m.Keys {
			m.Keys[i] = uint16(d.short())
		}
	}
	m.Markers = d.columns(flags, n)
	m.Result = d.metadata().Columns
	return m
}

func (d *decoder) schemaChange() *SchemaChange {
	m := &SchemaChange{Change: d.string(), Target: d.string(), Keyspace: d.string()}
	if m.Target != TargetKeyspace {
		m.Name = d.string()
	}
	if m.Target == TargetFunction || m.Target == TargetAggregate {
		m.Arguments = d.stringList()
	}
	return m
}

func decodeEvent(d *decoder) Message {
	switch kind := d.string(); kind {
	case SchemaChanges:
		return &Event{Schema: d.schemaChange()}
	case StatusChanges, TopologyChanges:
		return &Event{Kind: kind, Change: d.string(), Address: d.addressPort()}
	default:
		d.fail("Invalid value '%s' for Type", kind)
		return &Event{}
	}
}

// String returns the change for people.
func (m *SchemaChange) String() string {
	return fmt.Sprintf("%s %s %s.%s", m.Change, m.Target, m.Keyspace, m.Name)
}
