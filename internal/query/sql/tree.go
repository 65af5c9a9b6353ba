package sql

import "github.com/decandb/decan/internal/value"

// Span is a part of the query text: the bytes from Start up to, but not including, End.
type Span struct{ Start, End int }

// Select is a parsed query or subquery. It is a tree without shared nodes, and is
// immutable after [Parse].
type Select struct {
	Distinct bool
	Top      Expr // a Literal or Parameter; nil without TOP
	Star     bool // SELECT *; then Value and Items are empty
	Value    Expr // of SELECT VALUE; nil otherwise
	Items    []SelectItem
	From     *From // nil without FROM
	Where    Expr  // nil without WHERE
	GroupBy  []Expr
	OrderBy  []OrderByItem
	Rank     bool // ORDER BY RANK
	Offset   Expr // a Literal or Parameter; nil without OFFSET LIMIT
	Limit    Expr // set when Offset is

	At       Span // of the whole query, without the brackets of a subquery
	ListAt   Span // the select list, after DISTINCT and TOP
	TopAt    Span // from TOP on
	FromAt   Span // the inputs, after FROM
	GroupAt  Span // from GROUP on
	OrderAt  Span // from ORDER on
	OffsetAt Span // from OFFSET on
}

// SelectItem is one item of a select list.
type SelectItem struct {
	Expr  Expr
	Alias string // any text; "" when none is given

	At Span // of the alias, otherwise of Expr
}

// From is the FROM clause: the first input and those joined to it.
type From struct {
	Inputs []Input // never empty
}

// Input is one source of a query: a collection, the elements of one, or the
// rows of a subquery.
type Input struct {
	In         bool    // Alias IN Collection: iterate the elements
	Alias      string  // "" when none is given
	Collection Expr    // an Ident with MemberExprs and IndexExprs after it; nil for a subquery
	Subquery   *Select // nil for a collection
	SubqueryAt Span    // with its brackets

	At      Span // without the alias after it
	AliasAt Span // of the alias, or of the name in its place; see Name
}

// OrderByItem is one item of an ORDER BY clause.
type OrderByItem struct {
	Expr     Expr
	Desc     bool
	Explicit bool // ASC or DESC is written

	At Span
}

// Expr is a scalar expression: one of the pointer types of this file.
type Expr interface {
	// String returns the expression as query text; see [Select.String].
	String() string
	// Span returns where the expression is in the text.
	Span() Span
}

// Literal is a constant, including undefined.
type Literal struct {
	Value value.Value
	At    Span
}

// Ident is an identifier: an alias of the FROM clause.
type Ident struct {
	Name string
	At   Span
}

// Parameter is a reference to a parameter of the request.
type Parameter struct {
	Name string // without the @
	At   Span
}

// MemberExpr is access to a property, written .name or ["name"], or [@parameter] if the
// value of that is a string.
type MemberExpr struct {
	X      Expr
	Name   string
	Quoted bool   // it is written in brackets, even if it does not need them
	Param  string // the parameter of the request that Name is the value of, without the @; "" if Name is written
	At     Span
	NameAt Span
}

// IndexExpr is access by a computed position or name.
type IndexExpr struct {
	X     Expr
	Index Expr
	At    Span
}

// UnaryExpr is one of the operators - + ~ NOT.
type UnaryExpr struct {
	Op string
	X  Expr
	At Span
}

// BinaryExpr is an arithmetic, bitwise, comparison or string operator. Parse turns
// <> into !=.
type BinaryExpr struct {
	Op   string
	X, Y Expr
	At   Span
}

// LogicalExpr is a chain of AND or of OR. It is flat, so that a long chain is not
// deep.
type LogicalExpr struct {
	Or    bool
	Terms []Expr // two or more
	At    Span
}

// CoalesceExpr is X ?? Y.
type CoalesceExpr struct {
	X, Y Expr
	At   Span
}

// ConditionalExpr is Cond ? Then : Else.
type ConditionalExpr struct {
	Cond, Then, Else Expr
	At               Span
}

// BetweenExpr is X [NOT] BETWEEN Low AND High.
type BetweenExpr struct {
	Not          bool
	X, Low, High Expr
	At           Span
}

// InExpr is X [NOT] IN (List).
type InExpr struct {
	Not  bool
	X    Expr
	List []Expr // one or more
	At   Span
}

// LikeExpr is X [NOT] LIKE Pattern [ESCAPE Escape].
type LikeExpr struct {
	Not       bool
	X         Expr
	Pattern   Expr
	Escape    string // any text; the analysis accepts one character
	HasEscape bool
	At        Span
	EscapeAt  Span
}

// LetExpr is (LET Name = Value IN In). It evaluates In with the name bound to the value.
type LetExpr struct {
	Name      string
	Value, In Expr
	At        Span
	NameAt    Span
}

// CallExpr is a call of a built-in function, or of a user-defined one.
type CallExpr struct {
	Name   string // as written, without the prefix udf.
	UDF    bool
	Args   []Expr
	At     Span
	NameAt Span
}

// ArrayLiteral is [a, b].
type ArrayLiteral struct {
	Items []Expr
	At    Span
}

// ObjectLiteral is {"name": a}.
type ObjectLiteral struct {
	Members []Property
	At      Span
}

// Property is one member of an [ObjectLiteral].
type Property struct {
	Name   string
	Expr   Expr
	NameAt Span
}

// SubqueryKind says what the value of a subquery is.
type SubqueryKind uint8

// The kinds of subqueries.
const (
	SubqueryScalar SubqueryKind = iota // the only row
	SubqueryExists                     // whether there is a row
	SubqueryArray                      // all rows
	SubqueryAll                        // whether all rows are true
	SubqueryFirst
	SubqueryLast
)

// Subquery is a query used as an expression.
type Subquery struct {
	Kind  SubqueryKind
	Query *Select
	At    Span
}

// Span returns where the node is.
func (x *Literal) Span() Span { return x.At }

// Span returns where the node is.
func (x *Ident) Span() Span { return x.At }

// Span returns where the node is.
func (x *Parameter) Span() Span { return x.At }

// Span returns where the node is.
func (x *MemberExpr) Span() Span { return x.At }

// Span returns where the node is.
func (x *IndexExpr) Span() Span { return x.At }

// Span returns where the node is.
func (x *UnaryExpr) Span() Span { return x.At }

// Span returns where the node is.
func (x *BinaryExpr) Span() Span { return x.At }

// Span returns where the node is.
func (x *LogicalExpr) Span() Span { return x.At }

// Span returns where the node is.
func (x *CoalesceExpr) Span() Span { return x.At }

// Span returns where the node is.
func (x *ConditionalExpr) Span() Span { return x.At }

// Span returns where the node is.
func (x *BetweenExpr) Span() Span { return x.At }

// Span returns where the node is.
func (x *InExpr) Span() Span { return x.At }

// Span returns where the node is.
func (x *LikeExpr) Span() Span { return x.At }

// Span returns where the node is.
func (x *LetExpr) Span() Span { return x.At }

// Span returns where the node is.
func (x *CallExpr) Span() Span { return x.At }

// Span returns where the node is.
func (x *ArrayLiteral) Span() Span { return x.At }

// Span returns where the node is.
func (x *ObjectLiteral) Span() Span { return x.At }

// Span returns where the node is.
func (x *Subquery) Span() Span { return x.At }
