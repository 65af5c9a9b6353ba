package sql

import (
	"math"
	"strings"

	"github.com/decandb/decan/internal/value"
)

// The levels of precedence of the binary operators, lowest first.
const (
	levelCompare = iota + 1 // and shifts
	levelConcat
	levelAdd
	levelMultiply
)

// operatorLevel returns the level of a binary operator, or 0 for other symbols. It is
// that of the service's planner; the published grammars disagree.
func operatorLevel(op string) int {
	switch op {
	case "=", "!=", "<", "<=", ">", ">=", "<<", ">>", ">>>":
		return levelCompare
	case "||":
		return levelConcat
	case "+", "-", "&", "|", "^":
		return levelAdd
	case "*", "/", "%":
		return levelMultiply
	}
	return 0
}

// String returns the query as the service's planner writes it, so that plans are equal
// byte for byte: a clause a line, keywords in upper case, strings in double quotes, and
// brackets around each operator. The text parses to an equal tree.
func (q *Select) String() string {
	var p printer
	p.query(q)
	return p.String()
}

// String returns the input as in a FROM clause, without FROM or JOIN.
func (in *Input) String() string {
	var p printer
	p.input(in)
	return p.String()
}

// String returns the item as in an ORDER BY clause.
func (s *OrderByItem) String() string {
	var p printer
	p.orderByItem(s)
	return p.String()
}

func (x *Literal) String() string         { return text(x) }
func (x *Ident) String() string           { return text(x) }
func (x *Parameter) String() string       { return text(x) }
func (x *MemberExpr) String() string      { return text(x) }
func (x *IndexExpr) String() string       { return text(x) }
func (x *UnaryExpr) String() string       { return text(x) }
func (x *BinaryExpr) String() string      { return text(x) }
func (x *LogicalExpr) String() string     { return text(x) }
func (x *CoalesceExpr) String() string    { return text(x) }
func (x *ConditionalExpr) String() string { return text(x) }
func (x *BetweenExpr) String() string     { return text(x) }
func (x *InExpr) String() string          { return text(x) }
func (x *LikeExpr) String() string        { return text(x) }
func (x *LetExpr) String() string         { return text(x) }
func (x *CallExpr) String() string        { return text(x) }
func (x *ArrayLiteral) String() string    { return text(x) }
func (x *ObjectLiteral) String() string   { return text(x) }
func (x *Subquery) String() string        { return text(x) }

func text(x Expr) string {
	var p printer
	p.expr(x)
	return p.String()
}

// Canonical returns a text that is equal for two expressions if they differ only in
// the case of function names and in how they write the names of properties.
func Canonical(x Expr) string {
	p := printer{fold: true}
	p.expr(x)
	return p.String()
}

type printer struct {
	strings.Builder
	fold   bool // the text is for comparison only
	indent int
}

func (p *printer) write(parts ...string) {
	for _, part := range parts {
		p.WriteString(part)
	}
}

// line begins a line of a query.
func (p *printer) line(word string) {
	p.write("\n")
	for range p.indent {
		p.write("    ")
	}
	p.write(word)
}

func (p *printer) query(q *Select) {
	p.write("SELECT ")
	if q.Distinct {
		p.write("DISTINCT ")
	}
	if q.Top != nil {
		p.write("TOP ")
		p.expr(q.Top)
		p.write(" ")
	}
	switch {
	case q.Star:
		p.write("*")
	case q.Value != nil:
		p.write("VALUE ")
		p.expr(q.Value)
	}
	for i, item := range q.Items {
		p.comma(i)
		p.expr(item.Expr)
		if item.Alias != "" {
			p.write(" AS ", label(item.Alias))
		}
	}
	if q.From != nil {
		for i := range q.From.Inputs {
			if i == 0 {
				p.line("FROM ")
			} else {
				p.line("JOIN ")
			}
			p.input(&q.From.Inputs[i])
		}
	}
	if q.Where != nil {
		p.line("WHERE ")
		p.expr(q.Where)
	}
	if q.GroupBy != nil {
		p.line("GROUP BY ")
		p.list(q.GroupBy)
	}
	p.orderBy(q)
	if q.Offset != nil {
		p.line("OFFSET ")
		p.expr(q.Offset)
		p.write(" LIMIT ")
		p.expr(q.Limit)
	}
}

func (p *printer) input(s *Input) {
	if s.In {
		p.write(s.Alias, " IN ")
	}
	if s.Subquery != nil {
		p.bracketed("", s.Subquery)
	} else {
		p.expr(s.Collection)
	}
	if !s.In && s.Alias != "" {
		p.write(" AS ", s.Alias)
	}
}

func (p *printer) orderBy(q *Select) {
	if q.OrderBy == nil {
		return
	}
	p.line("ORDER BY ")
	if q.Rank {
		p.write("RANK ")
	}
	for i := range q.OrderBy {
		p.comma(i)
		p.orderByItem(&q.OrderBy[i])
	}
}

func (p *printer) orderByItem(s *OrderByItem) {
	p.expr(s.Expr)
	switch {
	case s.Desc:
		p.write(" DESC")
	case s.Explicit:
		p.write(" ASC")
	}
}

func (p *printer) comma(i int) {
	if i > 0 {
		p.write(", ")
	}
}

func (p *printer) list(list []Expr) {
	for i, x := range list {
		p.comma(i)
		p.expr(x)
	}
}

// bracketed writes a subquery after a keyword. The planner indents that of ARRAY twice.
func (p *printer) bracketed(word string, q *Select) {
	deep := 0
	if word == "ARRAY" {
		deep = 1
	}
	p.write(word, "(")
	p.indent += 1 + deep
	p.line("")
	p.query(q)
	p.indent--
	p.line(")")
	p.indent -= deep
}

// expr writes x. Operators have brackets, whatever surrounds them.
func (p *printer) expr(x Expr) {
	switch x := x.(type) {
	case *Literal:
		p.literal(x.Value)
	case *Ident:
		p.write(x.Name)
	case *Parameter:
		p.write("@", x.Name)
	case *MemberExpr:
		p.base(x.X)
		switch {
		case x.Param != "" && !p.fold:
			p.write("[@", x.Param, "]")
		case plainName(x.Name) && (!x.Quoted || p.fold):
			p.write(".", x.Name)
		default:
			p.write("[", quote(x.Name), "]")
		}
	case *IndexExpr:
		p.base(x.X)
		p.write("[")
		p.expr(x.Index)
		p.write("]")
	case *CallExpr:
		p.call(x)
	case *ArrayLiteral:
		p.write("[")
		p.list(x.Items)
		p.write("]")
	case *ObjectLiteral:
		p.write("{")
		for i, m := range x.Members {
			p.comma(i)
			p.write(quote(m.Name), ": ")
			p.expr(m.Expr)
		}
		p.write("}")
	case *Subquery:
		p.bracketed([...]string{SubqueryScalar: "", SubqueryExists: "EXISTS", SubqueryArray: "ARRAY", SubqueryAll: "ALL", SubqueryFirst: "FIRST", SubqueryLast: "LAST"}[x.Kind], x.Query)
	case *LogicalExpr:
		p.logic(x)
	case *UnaryExpr:
		if isNegativeInfinity(x) {
			p.write("-Infinity")
			return
		}
		p.write("(", x.Op, " ")
		p.expr(x.X)
		p.write(")")
	default:
		p.write("(")
		p.operation(x)
		p.write(")")
	}
}

// isNegativeInfinity reports whether x is -Infinity without a blank, which the planner
// reads as one number.
func isNegativeInfinity(x Expr) bool {
	u, ok := x.(*UnaryExpr)
	if !ok || u.Op != "-" {
		return false
	}
	of, ok := u.X.(*Ident)
	return ok && of.Name == "Infinity" && of.At.Start == u.At.Start+1
}

// operation writes an operator and its operands.
func (p *printer) operation(x Expr) {
	switch x := x.(type) {
	case *BinaryExpr:
		p.expr(x.X)
		p.write(" ", x.Op, " ")
		p.expr(x.Y)
	case *CoalesceExpr:
		p.expr(x.X)
		p.write(" ?? ")
		p.expr(x.Y)
	case *ConditionalExpr:
		p.expr(x.Cond)
		p.write(" ? ")
		p.expr(x.Then)
		p.write(" : ")
		p.expr(x.Else)
	case *BetweenExpr:
		p.expr(x.X)
		p.not(x.Not)
		p.write(" BETWEEN ")
		p.expr(x.Low)
		p.write(" AND ")
		p.expr(x.High)
	case *InExpr:
		p.expr(x.X)
		if x.Not {
			p.write(" NOT ") // and another blank: the planner has two
		}
		p.write(" IN (")
		p.list(x.List)
		p.write(")")
	case *LikeExpr:
		p.expr(x.X)
		p.not(x.Not)
		p.write(" LIKE ")
		p.expr(x.Pattern)
		if x.HasEscape {
			p.write(" ESCAPE ", quote(x.Escape))
		}
	case *LetExpr:
		p.indent++ // of subqueries in it
		p.write("LET ", x.Name, " = ")
		p.expr(x.Value)
		p.write(" IN (")
		p.expr(x.In)
		p.write(")")
		p.indent--
	}
}

// logic writes a chain with a bracket for each operator: ((a AND b) AND c).
func (p *printer) logic(x *LogicalExpr) {
	word := " AND "
	if x.Or {
		word = " OR "
	}
	for range x.Terms[1:] {
		p.write("(")
	}
	p.expr(x.Terms[0])
	for _, term := range x.Terms[1:] {
		p.write(word)
		p.expr(term)
		p.write(")")
	}
}

func (p *printer) call(x *CallExpr) {
	name := x.Name
	switch {
	case x.UDF:
		p.write("udf.")
	case p.fold || strings.EqualFold(name, "LEFT") || strings.EqualFold(name, "RIGHT"):
		name = strings.ToUpper(name)
	}
	p.write(name, "(")
	p.list(x.Args)
	p.write(")")
}

func (p *printer) not(not bool) {
	if not {
		p.write(" NOT")
	}
}

// base writes the object of a property or element. It puts a number in brackets,
// because the number would absorb the point. It does the same for the name of a number,
// as the planner does.
func (p *printer) base(x Expr) {
	_, literal := x.(*Literal)
	name, named := x.(*Ident)
	if literal || named && (name.Name == "NaN" || name.Name == "Infinity") || isNegativeInfinity(x) {
		p.write("(")
		defer p.write(")")
	}
	p.expr(x)
}

func (p *printer) literal(v value.Value) {
	if !v.IsDefined() {
		p.write("undefined")
		return
	}
	if v.Kind() == value.KindNumber {
		if v.Float() == 0 && math.Signbit(v.Signed()) {
			p.write("-")
		}
		p.Write(v.AppendText(nil)) // as the planner does: 1e17 and 100000000000000000 are not the same
		return
	}
	p.write(v.JSON())
}

// label returns an alias as it is written.
func label(name string) string {
	if plainName(name) {
		return name
	}
	return quote(name)
}

// plainName reports whether a property can be written after a point.
func plainName(name string) bool {
	if name == "" || scanName(name, 0) != len(name) {
		return false
	}
	word := keyword(name)
	return word == "" || reserved[word]
}

func quote(s string) string { return string(value.AppendQuoted(nil, s)) }
