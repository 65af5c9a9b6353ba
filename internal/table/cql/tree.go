package cql

// Name is the name of a table, type, index, view or function. Keyspace is empty where the
// text has none: then the keyspace in use holds.
type Name struct {
	Keyspace string
	Name     string
}

// Select is SELECT.
type Select struct {
	JSON      bool
	Distinct  bool
	Selectors []Selector // empty for *
	From      Name
	Where     []Relation
	GroupBy   []Expr
	OrderBy   []Ordering
	// PerPartitionLimit and Limit are a *Literal, a *Marker or nil.
	PerPartitionLimit Expr
	Limit             Expr
	AllowFiltering    bool
}

// Selector is one selected expression.
type Selector struct {
	Expr  Expr
	Alias string // empty without AS
}

// Ordering is one column of ORDER BY.
type Ordering struct {
	Column     string
	Descending bool
}

// Using is what a statement says about time. Each is a *Literal, a *Marker or nil.
type Using struct {
	Timestamp Expr
	TTL       Expr
}

// Insert is INSERT of columns, or of JSON.
type Insert struct {
	Table   Name
	Columns []string
	Values  []Expr
	// JSON is a *Literal or a *Marker for INSERT JSON, and nil for columns.
	JSON         Expr
	DefaultUnset bool // INSERT JSON leaves columns alone that the text does not name
	IfNotExists  bool
	Using        Using
}

// Update is UPDATE.
type Update struct {
	Table       Name
	Using       Using
	Assignments []Assignment
	Where       []Relation
	IfExists    bool
	Conditions  []Condition
}

// Delete is DELETE.
type Delete struct {
	Table      Name
	Selection  []Target // empty for rows
	Using      Using
	Where      []Relation
	IfExists   bool
	Conditions []Condition
}

// Target is a column, an element of it, or a field of it.
type Target struct {
	Column  string
	Element Expr   // nil unless the text has column[element]
	Field   string // empty unless the text has column.field
}

// AssignmentKind is the form of an assignment.
type AssignmentKind uint8

// The forms of an assignment.
const (
	Set      AssignmentKind = iota // target = value
	Add                            // column = column + value, column += value
	Subtract                       // column = column - value, column -= value
	Prepend                        // column = value + column
)

// Assignment is one assignment of UPDATE.
type Assignment struct {
	Kind   AssignmentKind
	Target Target // a whole column unless the kind is Set
	Value  Expr
}

// Condition is one condition of a lightweight transaction.
type Condition struct {
	Target   Target
	Operator Operator // a comparison, In, Contains or ContainsKey
	// Value is the operand; for In it is a *TupleLiteral of the values or a *Marker.
	Value Expr
}

// BatchKind is the kind of a batch.
type BatchKind uint8

// The kinds of a batch, with their numbers in the native protocol.
const (
	Logged BatchKind = iota
	Unlogged
	Counter
)

// Batch is BEGIN BATCH ... APPLY BATCH.
type Batch struct {
	Kind       BatchKind
	Using      Using
	Statements []Statement // *Insert, *Update and *Delete
}

// Operator is the operator of a relation or condition.
type Operator uint8

// The operators.
const (
	Equal Operator = iota
	NotEqual
	Less
	LessOrEqual
	Greater
	GreaterOrEqual
	In
	Contains
	ContainsKey
	Like
	IsNotNull
)

var operatorTexts = [...]string{"=", "!=", "<", "<=", ">", ">=", "IN", "CONTAINS", "CONTAINS KEY", "LIKE", "IS NOT"}

// String returns the operator as a text has it.
func (o Operator) String() string { return operatorTexts[o] }

// RelationKind says what is on the left of a relation.
type RelationKind uint8

// The kinds of a relation.
const (
	OnColumn  RelationKind = iota // one column
	OnElement                     // column[element]
	OnTuple                       // (column, ...)
	OnToken                       // token(column, ...)
	OnIndex                       // expr(index, value)
	OnFeed                        // a function of the change feed, such as COSMOS_FEEDRANGE()
)

// Relation is one relation of WHERE.
type Relation struct {
	Kind     RelationKind
	Columns  []string // one, unless the kind is OnTuple or OnToken; the index for OnIndex, the function for OnFeed
	Element  Expr     // of OnElement
	Operator Operator
	// Value is the operand. For In it is a *TupleLiteral of the values or a *Marker;
	// for IsNotNull it is a *Null.
	Value Expr
}

// Use is USE.
type Use struct{ Keyspace string }

// Truncate is TRUNCATE.
type Truncate struct{ Table Name }

// Property is one option of WITH: a text or a map.
type Property struct {
	Name  string
	Value string // the raw text of the constant: strings without quotes
	Map   []MapProperty
	IsMap bool
}

// MapProperty is one entry of an option that is a map.
type MapProperty struct{ Key, Value string }

// CreateKeyspace is CREATE KEYSPACE.
type CreateKeyspace struct {
	Keyspace    string
	IfNotExists bool
	Properties  []Property
}

// AlterKeyspace is ALTER KEYSPACE.
type AlterKeyspace struct {
	Keyspace   string
	IfExists   bool
	Properties []Property
}

// DropKeyspace is DROP KEYSPACE.
type DropKeyspace struct {
	Keyspace string
	IfExists bool
}

// ColumnDefinition is one column of CREATE TABLE and ALTER TABLE ADD, or one field of a type.
type ColumnDefinition struct {
	Name    string
	Type    *Type
	Static  bool
	Primary bool // the column says PRIMARY KEY
}

// PrimaryKey is a PRIMARY KEY clause.
type PrimaryKey struct {
	Partition  []string
	Clustering []string
}

// ClusteringOrder is one column of CLUSTERING ORDER BY.
type ClusteringOrder struct {
	Column     string
	Descending bool
}

// CreateTable is CREATE TABLE.
type CreateTable struct {
	Table       Name
	IfNotExists bool
	Columns     []ColumnDefinition
	// Keys are the PRIMARY KEY clauses; a correct statement has one, or one column that
	// says PRIMARY KEY.
	Keys           []PrimaryKey
	Order          []ClusteringOrder
	CompactStorage bool
	Properties     []Property
}

// AlterTableKind says what ALTER TABLE changes.
type AlterTableKind uint8

// The changes of ALTER TABLE.
const (
	AlterType AlterTableKind = iota
	AddColumns
	DropColumns
	RenameColumns
	DropCompactStorage
	AlterProperties
)

// Rename is one new name of a column or field.
type Rename struct{ From, To string }

// AlterTable is ALTER TABLE.
type AlterTable struct {
	Table        Name
	IfExists     bool
	Kind         AlterTableKind
	IfColumn     bool               // ADD IF NOT EXISTS, DROP IF EXISTS, RENAME IF EXISTS
	Columns      []ColumnDefinition // of AddColumns, and one of AlterType
	Drop         []string
	Timestamp    int64 // of DROP ... USING TIMESTAMP, in microseconds
	HasTimestamp bool
	Renames      []Rename
	Properties   []Property
}

// DropTable is DROP TABLE.
type DropTable struct {
	Table    Name
	IfExists bool
}

// CreateType is CREATE TYPE.
type CreateType struct {
	Type        Name
	IfNotExists bool
	Fields      []ColumnDefinition
}

// AlterUserType is ALTER TYPE: one added field, renames, or a changed type, which every
// version since 3.10 refuses.
type AlterUserType struct {
	Type     Name
	IfExists bool
	IfField  bool
	Add      *ColumnDefinition
	Change   *ColumnDefinition
	Renames  []Rename
}

// DropType is DROP TYPE.
type DropType struct {
	Type     Name
	IfExists bool
}

// IndexTargetKind is the part of a column that an index covers.
type IndexTargetKind uint8

// The parts of a column that an index may cover.
const (
	IndexColumn IndexTargetKind = iota
	IndexValues
	IndexKeys
	IndexEntries
	IndexFull
)

// IndexTarget is one target of CREATE INDEX.
type IndexTarget struct {
	Kind   IndexTargetKind
	Column string
}

// CreateIndex is CREATE INDEX.
type CreateIndex struct {
	Name        Name // the name is empty unless the text has one
	Table       Name
	Custom      bool
	IfNotExists bool
	Targets     []IndexTarget
	Class       string // of USING; empty without
	Properties  []Property
}

// DropIndex is DROP INDEX.
type DropIndex struct {
	Index    Name
	IfExists bool
}

// CreateView is CREATE MATERIALIZED VIEW.
type CreateView struct {
	View        Name
	IfNotExists bool
	Selectors   []Selector // empty for *
	Base        Name
	Where       []Relation
	Key         PrimaryKey
	Order       []ClusteringOrder
	Properties  []Property
}

// AlterView is ALTER MATERIALIZED VIEW.
type AlterView struct {
	View       Name
	IfExists   bool
	Properties []Property
}

// DropView is DROP MATERIALIZED VIEW.
type DropView struct {
	View     Name
	IfExists bool
}

// DescribeKind says what DESCRIBE describes.
type DescribeKind uint8

// The forms of DESCRIBE.
const (
	DescribeCluster DescribeKind = iota
	DescribeSchema
	DescribeKeyspaces
	DescribeKeyspace
	DescribeTables
	DescribeTable
	DescribeIndex
	DescribeView
	DescribeTypes
	DescribeType
	DescribeFunctions
	DescribeFunction
	DescribeAggregates
	DescribeAggregate
	DescribeAny // DESCRIBE name
)

// Describe is DESCRIBE.
type Describe struct {
	Kind      DescribeKind
	Full      bool // FULL SCHEMA
	Only      bool // ONLY KEYSPACE
	Name      Name // for DescribeKeyspace the keyspace, which may be empty
	Internals bool // WITH INTERNALS
}

// CreateFunction is CREATE FUNCTION.
type CreateFunction struct {
	Function    Name
	OrReplace   bool
	IfNotExists bool
	Arguments   []ColumnDefinition
	CalledOn    bool // CALLED ON NULL INPUT
	Returns     *Type
	Language    string
	Body        string
}

// CreateAggregate is CREATE AGGREGATE.
type CreateAggregate struct {
	Aggregate   Name
	OrReplace   bool
	IfNotExists bool
	Arguments   []*Type
	State       string // SFUNC
	StateType   *Type
	Final       string // FINALFUNC; empty without
	Initial     Expr   // INITCOND; nil without
}

// DropFunction is DROP FUNCTION and DROP AGGREGATE.
type DropFunction struct {
	Function     Name
	Aggregate    bool
	IfExists     bool
	Arguments    []*Type
	HasArguments bool
}

// CreateTrigger is CREATE TRIGGER.
type CreateTrigger struct {
	Trigger     string
	Table       Name
	IfNotExists bool
	Class       string
}

// DropTrigger is DROP TRIGGER.
type DropTrigger struct {
	Trigger  string
	Table    Name
	IfExists bool
}

// RoleStatement is a statement about roles, users or permissions. Nothing executes
// them: the members say which statement it is, for the error and for audit.
type RoleStatement struct {
	Verb        string // CREATE, ALTER, DROP, GRANT, REVOKE or LIST
	Object      string // ROLE, USER, ROLES, USERS or PERMISSIONS
	Role        string // that is created, altered, dropped or granted
	Grantee     string // of GRANT, REVOKE, and of LIST ... OF
	IfExists    bool   // IF EXISTS, or IF NOT EXISTS for CREATE
	Permissions []string
}

func (*Select) statement()          {}
func (*Insert) statement()          {}
func (*Update) statement()          {}
func (*Delete) statement()          {}
func (*Batch) statement()           {}
func (*Use) statement()             {}
func (*Truncate) statement()        {}
func (*CreateKeyspace) statement()  {}
func (*AlterKeyspace) statement()   {}
func (*DropKeyspace) statement()    {}
func (*CreateTable) statement()     {}
func (*AlterTable) statement()      {}
func (*DropTable) statement()       {}
func (*CreateType) statement()      {}
func (*AlterUserType) statement()   {}
func (*DropType) statement()        {}
func (*CreateIndex) statement()     {}
func (*DropIndex) statement()       {}
func (*CreateView) statement()      {}
func (*AlterView) statement()       {}
func (*DropView) statement()        {}
func (*Describe) statement()        {}
func (*CreateFunction) statement()  {}
func (*CreateAggregate) statement() {}
func (*DropFunction) statement()    {}
func (*CreateTrigger) statement()   {}
func (*DropTrigger) statement()     {}
func (*RoleStatement) statement()   {}
