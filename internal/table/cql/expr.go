package cql

// Expr is a value, or an expression that SELECT evaluates: a pointer to one of the
// structs below. Columns, fields, elements, slices, WriteTime and CountRows are only
// in selected expressions and GROUP BY.
type Expr interface {
	expr()
	// String returns the expression as a text has it.
	String() string
	appendTo(b []byte) []byte
}

// LiteralKind is the form of a constant.
type LiteralKind uint8

// The forms of a constant.
const (
	StringLiteral LiteralKind = iota
	IntegerLiteral
	FloatLiteral
	BooleanLiteral
	UUIDLiteral
	HexLiteral
	DurationLiteral
)

var literalNames = [...]string{"STRING", "INTEGER", "FLOAT", "BOOLEAN", "UUID", "HEX", "DURATION"}

// String returns the name of the form in messages.
func (k LiteralKind) String() string { return literalNames[k] }

// Literal is a constant.
type Literal struct {
	Kind LiteralKind
	// Text is the text of the constant, for a string without its quotes. NaN and
	// Infinity have the kind FloatLiteral.
	Text string
}

// Null is NULL.
type Null struct{}

// Marker is a bind marker, ? or :name.
type Marker struct {
	Index int    // in Parsed.Markers
	Name  string // empty for ?
}

// ListLiteral is [a, b].
type ListLiteral struct{ Elements []Expr }

// SetLiteral is {a, b}. Without elements it may also be a map.
type SetLiteral struct{ Elements []Expr }

// MapEntry is one entry of a MapLiteral.
type MapEntry struct{ Key, Value Expr }

// MapLiteral is {a: b, c: d}. In a selected expression its keys may be columns: then it
// may be the value of a user-defined type.
type MapLiteral struct{ Entries []MapEntry }

// FieldValue is one field of a UDTLiteral.
type FieldValue struct {
	Name  string
	Value Expr
}

// UDTLiteral is {name: value}, a value of a user-defined type.
type UDTLiteral struct{ Fields []FieldValue }

// TupleLiteral is (a, b). In a selected expression one element in parentheses is an
// expression in parentheses.
type TupleLiteral struct{ Elements []Expr }

// Call is a call of a function. The name is in lower case unless it was in quotes.
type Call struct {
	Function Name
	Args     []Expr
}

// Cast is CAST(value AS type).
type Cast struct {
	Value Expr
	Type  *Type
}

// TypeHint is (type) value.
type TypeHint struct {
	Type  *Type
	Value Expr
}

// Binary is an arithmetic operation: Op is one of + - * / %.
type Binary struct {
	Op          byte
	Left, Right Expr
}

// Negation is -value.
type Negation struct{ Value Expr }

// Column is a column of the table.
type Column struct{ Name string }

// Field is value.field.
type Field struct {
	Value Expr
	Field string
}

// Element is value[key].
type Element struct{ Value, Key Expr }

// Slice is value[from..to]; either bound may be nil, not both.
type Slice struct{ Value, From, To Expr }

// WriteTime is WRITETIME(column), or TTL(column).
type WriteTime struct {
	Column string
	TTL    bool
}

// CountRows is COUNT(*).
type CountRows struct{}

func (*Literal) expr()      {}
func (*Null) expr()         {}
func (*Marker) expr()       {}
func (*ListLiteral) expr()  {}
func (*SetLiteral) expr()   {}
func (*MapLiteral) expr()   {}
func (*UDTLiteral) expr()   {}
func (*TupleLiteral) expr() {}
func (*Call) expr()         {}
func (*Cast) expr()         {}
func (*TypeHint) expr()     {}
func (*Binary) expr()       {}
func (*Negation) expr()     {}
func (*Column) expr()       {}
func (*Field) expr()        {}
func (*Element) expr()      {}
func (*Slice) expr()        {}
func (*WriteTime) expr()    {}
func (*CountRows) expr()    {}

// TypeKind is the form of a type.
type TypeKind uint8

// The forms of a type.
const (
	NativeType TypeKind = iota
	ListType
	SetType
	MapType
	TupleType
	VectorType
	UserType
	CustomType // 'org.apache...': a class of Apache Cassandra
)

// Type is a type as a text names it. What a user type is, a schema says.
type Type struct {
	Kind TypeKind
	// Keyspace and Name are those of a user type. Name is also the name of a native
	// type, in lower case with varchar as text, and the class of a custom type.
	Keyspace string
	Name     string
	// Elements are the types inside: one of a list, set or vector, two of a map, any
	// number of a tuple.
	Elements  []*Type
	Dimension int // of a vector
	Frozen    bool
}
