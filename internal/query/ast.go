package query

import "github.com/decandb/decan/internal/value"

// Span is a part of the query text as byte offsets, Start included and End not.
type Span struct{ Start, End int }

// Select is a parsed query or subquery. It is a tree without sharing, and
// nobody changes it after [Parse].
type Select struct {
	Distinct bool
	Top      Expr // a Literal or Parameter; nil without TOP
	Star     bool // SELECT *; then Value and Items are empty
	Value    Expr // of SELECT VALUE; nil otherwise
	Items    []Item
	From     *From // nil without FROM
	Where    Expr  // nil without WHERE
	GroupBy  []Expr
	OrderBy  []Sort
	Rank     bool // ORDER BY RANK
	Offset   Expr // a Literal or Parameter; nil without OFFSET LIMIT
	Limit    Expr // set when Offset is

	at     Span // the whole query
	listAt Span // what follows SELECT, DISTINCT and TOP
}

// Item is one column of a select list.
type Item struct {
	Expr  Expr
	Alias string // "" when none is given
}

// From is the FROM clause: the first input and those joined to it.
type From struct {
	Inputs []Input // never empty
}

// Input is one source of a query: a collection, the elements of one, or the
// rows of a subquery.
type Input struct {
	In    bool    // iterate the elements
	Alias string  // "" when none is given
	Of    Expr    // a Name with Members and Indexes behind it; nil for a subquery
	Query *Select // nil for a collection

	at Span
}

// Sort is one key of an ORDER BY clause.
type Sort struct {
	Expr Expr
	Desc bool
	Way  bool // ASC or DESC is written
}

// Expr is a scalar expression: one of the pointer types of this file.
type Expr interface {
	// String returns the expression as query text, see [Select.String].
	String() string

	span() Span
	// level is the place in the table of precedence; see print.go.
	level() int
}

// Literal is a constant as written. Undefined is one.
type Literal struct {
	Value value.Value
	at    Span
}

// Name is an identifier: an alias of the FROM clause.
type Name struct {
	Name string
	at   Span
}

// Parameter is a reference to a parameter of the request.
type Parameter struct {
	Name string // without the @
	at   Span
}

// Member is access to a property, written .name or ["name"].
type Member struct {
	Of   Expr
	Name string
	at   Span
}

// Index is access by a computed position or name.
type Index struct {
	Of Expr
	At Expr
	at Span
}

// Unary is one of the operators - + ~ NOT.
type Unary struct {
	Op string
	X  Expr
	at Span
}

// Binary is an arithmetic, bitwise, comparison or string operator. <> is
// parsed to !=.
type Binary struct {
	Op   string
	L, R Expr
	at   Span
}

// Logic is a chain of AND or of OR, flat so that long chains stay shallow.
type Logic struct {
	Or    bool
	Terms []Expr // two or more
	at    Span
}

// Coalesce is L ?? R.
type Coalesce struct {
	L, R Expr
	at   Span
}

// Conditional is If ? Then : Else.
type Conditional struct {
	If, Then, Else Expr
	at             Span
}

// Between is X [NOT] BETWEEN Low AND High.
type Between struct {
	Not          bool
	X, Low, High Expr
	at           Span
}

// In is X [NOT] IN (List).
type In struct {
	Not  bool
	X    Expr
	List []Expr // one or more
	at   Span
}

// Like is X [NOT] LIKE Pattern [ESCAPE Escape].
type Like struct {
	Not       bool
	X         Expr
	Pattern   Expr
	Escape    string
	HasEscape bool
	at        Span
}

// Let is LET Name = Value IN In: In, where the name means the value.
type Let struct {
	Name      string
	Value, In Expr
	at        Span
}

// Call is a call of a built-in function, or of a user-defined one.
type Call struct {
	Name   string // as written, without udf.
	UDF    bool
	Args   []Expr
	at     Span
	nameAt Span
}

// ArrayLiteral is [a, b].
type ArrayLiteral struct {
	Items []Expr
	at    Span
}

// ObjectLiteral is {"name": a}.
type ObjectLiteral struct {
	Members []Property
	at      Span
}

// Property is one member of an [ObjectLiteral].
type Property struct {
	Name string
	Expr Expr
}

// SubqueryKind says what an expression makes of the rows of a subquery.
type SubqueryKind uint8

// The kinds of subqueries.
const (
	Scalar SubqueryKind = iota // the only row
	Exists                     // whether there is a row
	Array                      // all rows
	All                        // whether all rows are true
	First
	Last
)

// Subquery is a query used as an expression.
type Subquery struct {
	Kind  SubqueryKind
	Query *Select
	at    Span
}

func (x *Literal) span() Span       { return x.at }
func (x *Name) span() Span          { return x.at }
func (x *Parameter) span() Span     { return x.at }
func (x *Member) span() Span        { return x.at }
func (x *Index) span() Span         { return x.at }
func (x *Unary) span() Span         { return x.at }
func (x *Binary) span() Span        { return x.at }
func (x *Logic) span() Span         { return x.at }
func (x *Coalesce) span() Span      { return x.at }
func (x *Conditional) span() Span   { return x.at }
func (x *Between) span() Span       { return x.at }
func (x *In) span() Span            { return x.at }
func (x *Like) span() Span          { return x.at }
func (x *Let) span() Span           { return x.at }
func (x *Call) span() Span          { return x.at }
func (x *ArrayLiteral) span() Span  { return x.at }
func (x *ObjectLiteral) span() Span { return x.at }
func (x *Subquery) span() Span      { return x.at }

// names iterates over the identifiers in x, also those in subqueries, where a
// name may be an alias of the subquery itself.
func names(x Expr) func(yield func(*Name) bool) {
	return func(yield func(*Name) bool) { walkNames(x, yield) }
}

func walkNames(x Expr, yield func(*Name) bool) bool {
	switch x := x.(type) {
	case *Name:
		return yield(x)
	case *Subquery:
		for part := range x.Query.exprs() {
			if !walkNames(part, yield) {
				return false
			}
		}
	}
	for part := range parts(x) {
		if !walkNames(part, yield) {
			return false
		}
	}
	return true
}

// exprs iterates over the expressions directly inside a query and inside the
// queries of its FROM clause: all that it has but TOP, OFFSET and LIMIT.
func (q *Select) exprs() func(yield func(Expr) bool) {
	return func(yield func(Expr) bool) { q.walk(yield) }
}

func (q *Select) walk(yield func(Expr) bool) bool {
	if q.From != nil {
		for i := range q.From.Inputs {
			in := &q.From.Inputs[i]
			if in.Query != nil && !in.Query.walk(yield) || in.Of != nil && !yield(in.Of) {
				return false
			}
		}
	}
	for x := range selected(q) {
		if !yield(x) {
			return false
		}
	}
	if q.Where != nil && !yield(q.Where) {
		return false
	}
	for _, x := range q.GroupBy {
		if !yield(x) {
			return false
		}
	}
	for _, s := range q.OrderBy {
		if !yield(s.Expr) {
			return false
		}
	}
	return true
}
