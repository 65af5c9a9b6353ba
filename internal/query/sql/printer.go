package sql

import (
	"strings"

	"github.com/decandb/decan/internal/value"
)

// The levels of precedence, lowest first.
const (
	levelConditional = iota + 1
	levelCoalesce
	levelOr
	levelAnd
	levelPredicate // BETWEEN IN LIKE LET
	levelEqual
	levelCompare
	levelShift
	levelAdd
	levelMultiply
	levelUnary
	levelPostfix
)

// operatorLevel returns the level of a binary operator, or 0 for other symbols. The
// published grammars disagree about & | ^ and ||. Here they have the level of + and -,
// and String writes brackets around them.
func operatorLevel(op string) int {
	switch op {
	case "=", "!=":
		return levelEqual
	case "<", "<=", ">", ">=":
		return levelCompare
	case "<<", ">>", ">>>":
		return levelShift
	case "+", "-", "&", "|", "^", "||":
		return levelAdd
	case "*", "/", "%":
		return levelMultiply
	}
	return 0
}

func disputed(op string) bool { return op == "&" || op == "|" || op == "^" || op == "||" }

func (x *Literal) level() int         { return levelPostfix }
func (x *Ident) level() int           { return levelPostfix }
func (x *Parameter) level() int       { return levelPostfix }
func (x *MemberExpr) level() int      { return levelPostfix }
func (x *IndexExpr) level() int       { return levelPostfix }
func (x *UnaryExpr) level() int       { return levelUnary }
func (x *BinaryExpr) level() int      { return operatorLevel(x.Op) }
func (x *CoalesceExpr) level() int    { return levelCoalesce }
func (x *ConditionalExpr) level() int { return levelConditional }
func (x *BetweenExpr) level() int     { return levelPredicate }
func (x *InExpr) level() int          { return levelPredicate }
func (x *LikeExpr) level() int        { return levelPredicate }
func (x *LetExpr) level() int         { return levelPredicate }
func (x *CallExpr) level() int        { return levelPostfix }
func (x *ArrayLiteral) level() int    { return levelPostfix }
func (x *ObjectLiteral) level() int   { return levelPostfix }
func (x *Subquery) level() int        { return levelPostfix }

func (x *LogicalExpr) level() int {
	if x.Or {
		return levelOr
	}
	return levelAnd
}

// String returns the query as text that parses to an equal tree: on one line, with
// keywords in upper case, strings in double quotes, and brackets only where they are
// needed or where grammars disagree.
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
	p.expr(x, levelConditional)
	return p.String()
}

// Canonical returns a text that is equal for two expressions if they differ only in
// the case of function names.
func Canonical(x Expr) string {
	p := printer{fold: true}
	p.expr(x, levelConditional)
	return p.String()
}

type printer struct {
	strings.Builder
	fold bool // function names in upper case
}

func (p *printer) write(parts ...string) {
	for _, part := range parts {
		p.WriteString(part)
	}
}

func (p *printer) query(q *Select) {
	p.write("SELECT ")
	if q.Distinct {
		p.write("DISTINCT ")
	}
	if q.Top != nil {
		p.write("TOP ")
		p.expr(q.Top, levelPostfix)
		p.write(" ")
	}
	switch {
	case q.Star:
		p.write("*")
	case q.Value != nil:
		p.write("VALUE ")
		p.expr(q.Value, levelConditional)
	}
	for i, item := range q.Items {
		p.comma(i)
		p.expr(item.Expr, levelConditional)
		if item.Alias != "" {
			p.write(" AS ", item.Alias)
		}
	}
	if q.From != nil {
		for i := range q.From.Inputs {
			if i == 0 {
				p.write(" FROM ")
			} else {
				p.write(" JOIN ")
			}
			p.input(&q.From.Inputs[i])
		}
	}
	if q.Where != nil {
		p.write(" WHERE ")
		p.expr(q.Where, levelConditional)
	}
	if q.GroupBy != nil {
		p.write(" GROUP BY ")
		p.list(q.GroupBy)
	}
	p.orderBy(q)
	if q.Offset != nil {
		p.write(" OFFSET ")
		p.expr(q.Offset, levelPostfix)
		p.write(" LIMIT ")
		p.expr(q.Limit, levelPostfix)
	}
}

func (p *printer) input(s *Input) {
	if s.In {
		p.write(s.Alias, " IN ")
	}
	if s.Subquery != nil {
		p.write("(")
		p.query(s.Subquery)
		p.write(")")
	} else {
		p.expr(s.Collection, levelPostfix)
	}
	if !s.In && s.Alias != "" {
		p.write(" AS ", s.Alias)
	}
}

func (p *printer) orderBy(q *Select) {
	if q.OrderBy == nil {
		return
	}
	p.write(" ORDER BY ")
	if q.Rank {
		p.write("RANK ")
	}
	for i := range q.OrderBy {
		p.comma(i)
		p.orderByItem(&q.OrderBy[i])
	}
}

func (p *printer) orderByItem(s *OrderByItem) {
	p.expr(s.Expr, levelConditional)
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
		p.expr(x, levelConditional)
	}
}

// expr writes x, with brackets if its level is below lowest.
func (p *printer) expr(x Expr, lowest int) {
	if x.level() < lowest {
		p.write("(")
		defer p.write(")")
	}
	switch x := x.(type) {
	case *Literal:
		p.literal(x.Value)
	case *Ident:
		p.write(x.Name)
	case *Parameter:
		p.write("@", x.Name)
	case *MemberExpr:
		p.base(x.X)
		if plainName(x.Name) {
			p.write(".", x.Name)
		} else {
			p.write("[", quote(x.Name), "]")
		}
	case *IndexExpr:
		p.base(x.X)
		p.write("[")
		p.expr(x.Index, levelConditional)
		p.write("]")
	case *UnaryExpr:
		p.unary(x)
	case *BinaryExpr:
		p.operand(x, x.X, x.level())
		p.write(" ", x.Op, " ")
		p.operand(x, x.Y, x.level()+1)
	case *LogicalExpr:
		p.logic(x)
	case *CoalesceExpr:
		p.expr(x.X, levelOr)
		p.write(" ?? ")
		p.expr(x.Y, levelCoalesce)
	case *ConditionalExpr:
		p.expr(x.Cond, levelCoalesce)
		p.write(" ? ")
		p.expr(x.Then, levelConditional)
		p.write(" : ")
		p.expr(x.Else, levelConditional)
	default:
		p.rest(x)
	}
}

// rest writes the expressions that contain a keyword or a bracket.
func (p *printer) rest(x Expr) {
	switch x := x.(type) {
	case *BetweenExpr:
		p.expr(x.X, levelEqual)
		p.not(x.Not)
		p.write(" BETWEEN ")
		p.expr(x.Low, levelEqual)
		p.write(" AND ")
		p.expr(x.High, levelEqual)
	case *InExpr:
		p.expr(x.X, levelEqual)
		p.not(x.Not)
		p.write(" IN (")
		p.list(x.List)
		p.write(")")
	case *LikeExpr:
		p.expr(x.X, levelEqual)
		p.not(x.Not)
		p.write(" LIKE ")
		p.expr(x.Pattern, levelEqual)
		if x.HasEscape {
			p.write(" ESCAPE ", quote(x.Escape))
		}
	case *LetExpr:
		p.write("LET ", x.Name, " = ")
		p.expr(x.Value, levelEqual)
		p.write(" IN ")
		p.expr(x.In, levelEqual)
	case *CallExpr:
		if x.UDF {
			p.write("udf.")
		}
		name := x.Name
		if p.fold && !x.UDF {
			name = strings.ToUpper(name)
		}
		p.write(name, "(")
		p.list(x.Args)
		p.write(")")
	case *ArrayLiteral:
		p.write("[")
		p.list(x.Items)
		p.write("]")
	case *ObjectLiteral:
		p.write("{")
		for i, m := range x.Members {
			p.comma(i)
			p.write(quote(m.Name), ": ")
			p.expr(m.Expr, levelConditional)
		}
		p.write("}")
	case *Subquery:
		p.write([...]string{SubqueryScalar: "", SubqueryExists: "EXISTS", SubqueryArray: "ARRAY", SubqueryAll: "ALL", SubqueryFirst: "FIRST", SubqueryLast: "LAST"}[x.Kind], "(")
		p.query(x.Query)
		p.write(")")
	}
}

func (p *printer) not(not bool) {
	if not {
		p.write(" NOT")
	}
}

// unary separates two signs, because -- begins a comment.
func (p *printer) unary(x *UnaryExpr) {
	p.write(x.Op)
	inner, ok := x.X.(*UnaryExpr)
	if x.Op == "NOT" || ok && inner.Op == x.Op {
		p.write(" ")
	}
	p.expr(x.X, levelUnary)
}

// operand writes an operand of x. It adds brackets around an operator whose precedence
// relative to x is disputed.
func (p *printer) operand(x *BinaryExpr, side Expr, lowest int) {
	if inner, ok := side.(*BinaryExpr); ok && inner.Op != x.Op && (disputed(inner.Op) || disputed(x.Op)) {
		lowest = levelPostfix
	}
	p.expr(side, lowest)
}

func (p *printer) logic(x *LogicalExpr) {
	word := " AND "
	if x.Or {
		word = " OR "
	}
	for i, term := range x.Terms {
		if i > 0 {
			p.write(word)
		}
		p.expr(term, x.level()+1)
	}
}

// base writes the object of a property or element. It puts a number in brackets, which
// would otherwise absorb the point.
func (p *printer) base(x Expr) {
	if l, ok := x.(*Literal); ok && l.Value.Kind() == value.KindNumber {
		p.write("(")
		defer p.write(")")
	}
	p.expr(x, levelPostfix)
}

func (p *printer) literal(v value.Value) {
	if !v.IsDefined() {
		p.write("undefined")
		return
	}
	p.write(v.JSON())
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
