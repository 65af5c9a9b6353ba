package frame

import "math"

// Startup is the message STARTUP, which begins a connection.
type Startup struct{ Options []Pair[string] }

// The names of options of STARTUP, which clients write in any case.
const (
	OptionCQLVersion  = "CQL_VERSION"
	OptionCompression = "COMPRESSION"
	OptionOverload    = "THROW_ON_OVERLOAD"
)

// Options is the message OPTIONS, which asks what the server supports.
type Options struct{}

// AuthResponse is the message AUTH_RESPONSE.
type AuthResponse struct{ Token []byte } // nil for null

// Register is the message REGISTER, which asks for events.
type Register struct{ Events []string }

// The kinds of events.
const (
	TopologyChanges = "TOPOLOGY_CHANGE"
	StatusChanges   = "STATUS_CHANGE"
	SchemaChanges   = "SCHEMA_CHANGE"
)

// QueryFlags say which parameters a statement has.
type QueryFlags uint32

// The flags.
const (
	QueryValues QueryFlags = 1 << iota
	QuerySkipMetadata
	QueryPageSize
	QueryPagingState
	QuerySerial
	QueryTimestamp
	QueryNamed
	QueryKeyspace // version 5
	QueryNow      // version 5
)

// Parameters are the parameters of a statement. Flags says which of them are given.
type Parameters struct {
	Consistency  Consistency
	Flags        QueryFlags
	Values       []Value
	Names        []string // of the values with QueryNamed; nil otherwise
	PageSize     int32    // zero or less means no pages
	PagingState  []byte   // nil for null
	Serial       Consistency
	Timestamp    int64  // microseconds
	Keyspace     string // for this request
	NowInSeconds int32
}

// Has reports whether a flag is set.
func (p *Parameters) Has(flag QueryFlags) bool { return p.Flags&flag != 0 }

// Query is the message QUERY.
type Query struct {
	Text       string
	Parameters Parameters
}

// Prepare is the message PREPARE.
type Prepare struct {
	Text     string
	Flags    uint32 // version 5; prepareKeyspace
	Keyspace string // version 5; "" for that of the connection
}

const prepareKeyspace = 0x01

// Execute is the message EXECUTE.
type Execute struct {
	ID         []byte
	MetadataID []byte // of the result; version 5
	Parameters Parameters
}

// BatchType says how a batch is applied.
type BatchType byte

// The types of batches.
const (
	Logged BatchType = iota
	Unlogged
	CounterBatch
)

// Batch is the message BATCH.
type Batch struct {
	Type       BatchType
	Statements []BatchStatement
	Parameters Parameters // without values and pages
}

// BatchStatement is a statement of a batch: a text, or the id of a prepared one.
type BatchStatement struct {
	Text   string
	ID     []byte // nil for a text
	Values []Value
}

// Opcode implements [Message].
func (Startup) Opcode() Opcode { return OpStartup }

// Opcode implements [Message].
func (Options) Opcode() Opcode { return OpOptions }

// Opcode implements [Message].
func (AuthResponse) Opcode() Opcode { return OpAuthResponse }

// Opcode implements [Message].
func (Register) Opcode() Opcode { return OpRegister }

// Opcode implements [Message].
func (*Query) Opcode() Opcode { return OpQuery }

// Opcode implements [Message].
func (*Prepare) Opcode() Opcode { return OpPrepare }

// Opcode implements [Message].
func (*Execute) Opcode() Opcode { return OpExecute }

// Opcode implements [Message].
func (*Batch) Opcode() Opcode { return OpBatch }

func (m Startup) encode(e *encoder)      { e.stringMap(m.Options) }
func (Options) encode(*encoder)          {}
func (m AuthResponse) encode(e *encoder) { e.bytes(m.Token) }
func (m Register) encode(e *encoder)     { e.stringList(m.Events) }

func (m *Query) encode(e *encoder) {
	e.longString(m.Text)
	e.parameters(&m.Parameters)
}

func (m *Prepare) encode(e *encoder) {
	e.longString(m.Text)
	if e.version < V5 {
		return
	}
	e.uint(m.Flags)
	if m.Flags&prepareKeyspace != 0 {
		e.string(m.Keyspace)
	}
}

// PrepareIn returns a PREPARE of a text in a keyspace, which version 5 has.
func PrepareIn(keyspace, text string) *Prepare {
	return &Prepare{Text: text, Flags: prepareKeyspace, Keyspace: keyspace}
}

func (m *Execute) encode(e *encoder) {
	e.shortBytes(m.ID)
	if e.version >= V5 {
		e.shortBytes(m.MetadataID)
	}
	e.parameters(&m.Parameters)
}

func (e *encoder) queryFlags(flags QueryFlags) {
	if e.version >= V5 {
		e.uint(uint32(flags))
	} else {
		e.byte(byte(flags))
	}
}

func (e *encoder) parameters(p *Parameters) {
	e.consistency(p.Consistency)
	e.queryFlags(p.Flags)
	if p.Has(QueryValues) {
		e.short(len(p.Values), "a list of values")
		for i, v := range p.Values {
			if p.Has(QueryNamed) {
				e.string(p.Names[i])
			}
			e.value(v)
		}
	}
	if p.Has(QueryPageSize) {
		e.int(p.PageSize)
	}
	if p.Has(QueryPagingState) {
		e.bytes(p.PagingState)
	}
	e.common(p)
}

// common appends the parameters that batches have too.
func (e *encoder) common(p *Parameters) {
	if p.Has(QuerySerial) {
		e.consistency(p.Serial)
	}
	if p.Has(QueryTimestamp) {
		e.long(p.Timestamp)
	}
	if e.version < V5 {
		return
	}
	if p.Has(QueryKeyspace) {
		e.string(p.Keyspace)
	}
	if p.Has(QueryNow) {
		e.int(p.NowInSeconds)
	}
}

func (m *Batch) encode(e *encoder) {
	e.byte(byte(m.Type))
	e.short(len(m.Statements), "a batch")
	for i := range m.Statements {
		s := &m.Statements[i]
		if s.ID == nil {
			e.byte(0)
			e.longString(s.Text)
		} else {
			e.byte(1)
			e.shortBytes(s.ID)
		}
		e.short(len(s.Values), "a list of values")
		for _, v := range s.Values {
			e.value(v)
		}
	}
	e.consistency(m.Parameters.Consistency)
	e.queryFlags(m.Parameters.Flags)
	e.common(&m.Parameters)
}

func decodeStartup(d *decoder) Message { return Startup{Options: d.stringMap()} }

func decodeRegister(d *decoder) Message {
	events := d.stringList()
	for _, event := range events {
		if event != TopologyChanges && event != StatusChanges && event != SchemaChanges {
			d.fail("Invalid value '%s' for Type", event)
		}
	}
	return Register{Events: events}
}

func decodeQuery(d *decoder) Message {
	m := &Query{Text: d.longString()}
	d.parameters(&m.Parameters)
	return m
}

func decodePrepare(d *decoder) Message {
	m := &Prepare{Text: d.longString()}
	if d.version >= V5 {
		m.Flags = uint32(d.int())
		if m.Flags&prepareKeyspace != 0 {
			m.Keyspace = d.string()
		}
	}
	return m
}

func decodeExecute(d *decoder) Message {
	m := &Execute{ID: d.shortBytes()}
	if d.version >= V5 {
		m.MetadataID = d.shortBytes()
	}
	d.parameters(&m.Parameters)
	return m
}

func (d *decoder) queryFlags() QueryFlags {
	if d.version >= V5 {
		return QueryFlags(uint32(d.int()))
	}
	return QueryFlags(d.byte()) &^ (QueryKeyspace | QueryNow)
}

// valueSize is the minimum number of bytes of a value.
const valueSize = 4

func (d *decoder) values() []Value {
	values := make([]Value, d.count(valueSize))
	for i := range values {
		values[i] = d.value()
	}
	return values
}

func (d *decoder) parameters(p *Parameters) {
	p.Consistency = d.consistency()
	p.Flags = d.queryFlags()
	switch {
	case p.Has(QueryValues) && p.Has(QueryNamed):
		n := d.count(2 + valueSize)
		p.Names, p.Values = make([]string, n), make([]Value, n)
		for i := range n {
			p.Names[i], p.Values[i] = d.string(), d.value()
		}
	case p.Has(QueryValues):
		p.Values = d.values()
	}
	if p.Has(QueryPageSize) {
		p.PageSize = d.int()
	}
	if p.Has(QueryPagingState) {
		p.PagingState = d.bytes()
	}
	d.common(p)
}

func (d *decoder) common(p *Parameters) {
	if p.Has(QuerySerial) {
		p.Serial = d.consistency()
	}
	if p.Has(QueryTimestamp) {
		p.Timestamp = d.long()
		if p.Timestamp == math.MinInt64 {
			d.fail("Out of bound timestamp, must be in [%d, %d] (got %d)", math.MinInt64+1, int64(math.MaxInt64), int64(math.MinInt64))
		}
	}
	if p.Has(QueryKeyspace) {
		p.Keyspace = d.string()
	}
	if p.Has(QueryNow) {
		p.NowInSeconds = d.int()
	}
}

// statementSize is the minimum number of bytes of a statement of a batch.
const statementSize = 1 + 2 + 2

func decodeBatch(d *decoder) Message {
	m := &Batch{Type: BatchType(d.byte())}
	if m.Type > CounterBatch {
		d.fail("Invalid BATCH message type %d", m.Type)
	}
	m.Statements = make([]BatchStatement, d.count(statementSize))
	for i := range m.Statements {
		s := &m.Statements[i]
		switch kind := d.byte(); kind {
		case 0:
			s.Text = d.longString()
		case 1:
			s.ID = d.shortBytes()
		default:
			d.fail("Invalid query kind in BATCH messages. Must be 0 or 1 but got %d", kind)
		}
		s.Values = d.values()
	}
	m.Parameters.Consistency = d.consistency()
	m.Parameters.Flags = d.queryFlags()
	if m.Parameters.Has(QueryNamed) {
		// The names would come after the values of all statements: the protocol
		// defines a form that cannot be read.
		d.fail("Named values are not supported in BATCH messages")
	}
	m.Parameters.Flags &^= QueryValues | QuerySkipMetadata | QueryPageSize | QueryPagingState
	d.common(&m.Parameters)
	return m
}
