package sql

import (
	"math"

	"github.com/decandb/decan/internal/value"
)

func (p *parser) exprs() []Expr {
	list := []Expr{p.expr()}
	height := p.height
	for p.accept(",") {
		list = append(list, p.expr())
		height = max(height, p.height)
	}
	p.height = height
	return list
}

// expr reads an expression. The conditional operator has the lowest precedence.
func (p *parser) expr() Expr {
	p.enter()
	defer p.leave()
	start := p.start()
	x := p.coalesce()
	if !p.accept("?") {
		return x
	}
	height := p.height
	then := p.expr()
	height = max(height, p.height)
	p.expect(":")
	otherwise := p.expr()
	p.raise(max(height, p.height))
	return &ConditionalExpr{Cond: x, Then: then, Else: otherwise, At: p.from(start)}
}

func (p *parser) coalesce() Expr {
	p.enter()
	defer p.leave()
	start := p.start()
	x := p.logic(true)
	if !p.accept("??") {
		return x
	}
	height := p.height
	y := p.coalesce()
	p.raise(max(height, p.height))
	return &CoalesceExpr{X: x, Y: y, At: p.from(start)}
}

// logic reads a chain of OR, or a chain of AND inside one.
func (p *parser) logic(or bool) Expr {
	word, term := "AND", p.predicate
	if or {
		word, term = "OR", func() Expr { return p.logic(false) }
	}
	start := p.start()
	x := term()
	if !p.tok.Is(word) {
		return x
	}
	chain := &LogicalExpr{Or: or, Terms: []Expr{x}}
	height := p.height
	if first, ok := x.(*LogicalExpr); ok && first.Or == or {
		// The operators group to the left: (a AND b) AND c is the same chain.
		chain.Terms = first.Terms
		height--
	}
	for p.accept(word) {
		chain.Terms = append(chain.Terms, term())
		height = max(height, p.height)
	}
	p.raise(height)
	chain.At = p.from(start)
	return chain
}

// predicate reads BETWEEN, IN and LIKE, which do not chain. It reads the AND of
// BETWEEN, so that a logical AND may follow without brackets. The service's planner
// refuses such a text, but documented queries contain it.
func (p *parser) predicate() Expr {
	start := p.start()
	x := p.binary(levelCompare)
	not := false
	if p.tok.Is("NOT") {
		p.advance()
		if !p.tok.Is("BETWEEN") && !p.tok.Is("IN") && !p.tok.Is("LIKE") {
			p.unexpected()
		}
		not = true
	}
	height := p.height
	switch {
	case p.accept("BETWEEN"):
		low := p.binary(levelCompare)
		height = max(height, p.height)
		p.expect("AND")
		high := p.binary(levelCompare)
		p.raise(max(height, p.height))
		return &BetweenExpr{Not: not, X: x, Low: low, High: high, At: p.from(start)}
	case p.accept("IN"):
		p.expect("(")
		list := p.exprs()
		p.expect(")")
		p.raise(max(height, p.height))
		return &InExpr{Not: not, X: x, List: list, At: p.from(start)}
	case p.accept("LIKE"):
		like := &LikeExpr{Not: not, X: x, Pattern: p.binary(levelCompare)}
		p.raise(max(height, p.height))
		if p.accept("ESCAPE") {
			if p.tok.Kind != TokenString {
				p.unexpected()
			}
			like.Escape, like.HasEscape, like.EscapeAt = p.tok.Value.Text(), true, p.tok.At
			p.advance()
		}
		like.At = p.from(start)
		return like
	}
	return x
}

// binary reads a chain of left-associative operators of at least the given level.
func (p *parser) binary(lowest int) Expr {
	start := p.start()
	x := p.unary()
	for {
		level := 0
		if p.tok.Kind == TokenSymbol {
			level = operatorLevel(p.tok.Text)
		}
		if level < lowest {
			return x
		}
		op := p.tok.Text
		p.advance()
		height := p.height
		y := p.binary(level + 1)
		p.raise(max(height, p.height))
		x = &BinaryExpr{Op: op, X: x, Y: y, At: p.from(start)}
	}
}

func (p *parser) unary() Expr {
	if p.given != nil || !p.tok.Is("-") && !p.tok.Is("+") && !p.tok.Is("~") && !p.tok.Is("NOT") {
		return p.postfix()
	}
	p.enter()
	defer p.leave()
	start, op := p.tok.At.Start, p.tok.Text
	p.advance()
	if op == "-" && p.tok.Kind == TokenNumber && p.tok.At.Start == p.last.End {
		// A sign directly before a number belongs to it.
		p.height = 1
		v := negative(p.tok.Value)
		p.advance()
		return p.steps(&Literal{Value: v, At: p.from(start)}, start)
	}
	x := p.unary()
	p.raise(p.height)
	return &UnaryExpr{Op: op, X: x, At: p.from(start)}
}

func (p *parser) postfix() Expr {
	start := p.start()
	return p.steps(p.primary(), start)
}

// negative returns the number with the other sign. An integer stays an integer, and so
// does 2^63, which fits 64 bits only with the minus sign.
func negative(v value.Value) value.Value {
	if value.Equal(v, value.Number(1<<63)) {
		return value.Int(math.MinInt64)
	}
	return value.Negate(v)
}

// steps reads the properties and indexes after x.
func (p *parser) steps(x Expr, start int) Expr {
	for {
		switch {
		case p.accept("."):
			p.raise(p.height)
			at := p.tok.At
			x = &MemberExpr{X: x, Name: p.name(), At: p.from(start), NameAt: at}
		case p.accept("["):
			height := p.height
			at := p.expr()
			p.expect("]")
			p.raise(max(height, p.height))
			if name, param := p.propertyName(at); name.Kind() == value.KindString {
				x = &MemberExpr{X: x, Name: name.Text(), Quoted: true, Param: param, At: p.from(start), NameAt: at.Span()}
			} else {
				x = &IndexExpr{X: x, Index: at, At: p.from(start)}
			}
		default:
			return x
		}
	}
}

// propertyName returns the value of a literal or a declared parameter in brackets, and
// the name of the latter.
func (p *parser) propertyName(x Expr) (v value.Value, param string) {
	switch x := x.(type) {
	case *Literal:
		return x.Value, ""
	case *Parameter:
		return p.lex.declared[x.Name], x.Name
	}
	return value.Undefined(), ""
}

func (p *parser) primary() Expr {
	if x := p.given; x != nil {
		p.given = nil
		return x
	}
	p.height = 1
	t := p.tok
	switch t.Kind {
	case TokenNumber, TokenString:
		return p.literal(t.Value)
	case TokenParameter:
		return p.parameter()
	case TokenIdent:
		if p.peek().Is("(") {
			return p.called()
		}
		p.advance()
		return &Ident{Name: t.Text, At: t.At}
	case TokenKeyword:
		return p.word()
	}
	switch {
	case p.accept("("):
		return p.bracket(t.At.Start)
	case p.accept("["):
		return p.array(t.At.Start)
	case p.accept("{"):
		return p.object(t.At.Start)
	}
	p.unexpected()
	return &Literal{}
}

// bracket reads what follows an opening bracket, and the closing one: a query, LET, or
// an expression. Brackets that open at the same place are read in a loop: each closed
// one is the beginning of the expression in the next, so that a text such as
// ((((a AND b) AND c) AND d) AND e) needs no depth.
func (p *parser) bracket(start int) Expr {
	opened := []int{start}
	for p.tok.Is("(") {
		opened = append(opened, p.tok.At.Start)
		p.advance()
	}
	last := len(opened) - 1
	var x Expr
	switch {
	case p.tok.Is("SELECT"):
		x = p.subquery(SubqueryScalar, opened[last])
	case p.tok.Is("LET") && p.binds():
		x = p.let()
		p.expect(")")
	default:
		x = p.expr()
		p.expect(")")
	}
	for i := last; i > 0 && !p.failed; i-- {
		p.given, p.first = x, opened[i]
		x = p.expr()
		p.expect(")")
	}
	return x
}

func (p *parser) literal(v value.Value) Expr {
	x := &Literal{Value: v, At: p.tok.At}
	p.advance()
	return x
}

func (p *parser) parameter() Expr {
	x := &Parameter{Name: p.tok.Text, At: p.tok.At}
	p.advance()
	return x
}

// subqueries are the keywords that a query in brackets follows.
var subqueries = map[string]SubqueryKind{
	"EXISTS": SubqueryExists, "ARRAY": SubqueryArray, "ALL": SubqueryAll, "FIRST": SubqueryFirst, "LAST": SubqueryLast,
}

// word reads a primary expression that begins with a keyword.
func (p *parser) word() Expr {
	t := p.tok
	switch t.Text {
	case "TRUE":
		return p.literal(value.Bool(true))
	case "FALSE":
		return p.literal(value.Bool(false))
	case "NULL":
		return p.literal(value.Null())
	case "UNDEFINED":
		return p.literal(value.Undefined())
	case "NaN", "Infinity":
		p.advance()
		return &Ident{Name: t.Text, At: t.At}
	case "LEFT", "RIGHT":
		return p.call()
	case "UDF":
		return p.userFunction()
	}
	kind, queries := subqueries[t.Text]
	if queries && p.peek().Is("(") {
		p.advance()
		p.advance()
		if t.IsIdent() && !p.tok.Is("SELECT") {
			return p.arguments(&CallExpr{Name: p.text[t.At.Start:t.At.End], NameAt: t.At})
		}
		return p.subquery(kind, t.At.Start)
	}
	if !t.IsIdent() {
		if queries {
			p.advance()
		}
		p.unexpected()
		return &Literal{}
	}
	if p.peek().Is("(") {
		return p.called()
	}
	return &Ident{Name: p.name(), At: t.At}
}

// let reads LET name = value IN expression, after an opening bracket.
func (p *parser) let() Expr {
	start := p.tok.At.Start
	p.advance()
	x := &LetExpr{NameAt: p.tok.At}
	if p.tok.Is("RANK") || p.tok.Is("LET") {
		p.unexpected()
	}
	x.Name = p.name()
	p.expect("=")
	x.Value = p.binary(levelCompare)
	height := p.height
	p.expect("IN")
	x.In = p.binary(levelCompare)
	p.raise(max(height, p.height))
	x.At = p.from(start)
	return x
}

// binds reports whether a name follows the current token LET. Otherwise LET is an
// identifier.
func (p *parser) binds() bool { return p.peek().IsIdent() }

// subquery reads the query after an opening bracket.
func (p *parser) subquery(kind SubqueryKind, start int) Expr {
	q := p.bracketed()
	x := &Subquery{Kind: kind, Query: q, At: p.from(start)}
	if kind == SubqueryScalar {
		x.At = q.At // the place of an expression in brackets is without them
	}
	return x
}

// bracketed reads a query and its closing bracket. Its height is one more than that of
// its highest expression.
func (p *parser) bracketed() *Select {
	outer := p.peak
	p.peak = 0
	q := p.query()
	p.expect(")")
	p.raise(p.peak)
	p.peak = max(p.peak, outer)
	return q
}

// userFunction reads a call after the keyword udf.
func (p *parser) userFunction() *CallExpr {
	start := p.tok.At.Start
	p.advance()
	p.expect(".")
	x := p.call()
	x.UDF = true
	x.At = p.from(start)
	return x
}

// called reads a call in an expression. The grammar of the service reads a query in
// place of the arguments before it finds the error.
func (p *parser) called() Expr {
	t := p.tok
	p.advance()
	p.advance()
	if p.tok.Is("SELECT") {
		p.query()
		p.unexpected()
		return &Literal{}
	}
	return p.arguments(&CallExpr{Name: p.text[t.At.Start:t.At.End], NameAt: t.At})
}

func (p *parser) call() *CallExpr {
	t := p.tok
	x := &CallExpr{Name: p.text[t.At.Start:t.At.End], NameAt: t.At}
	if !t.IsIdent() && !t.Is("LEFT") && !t.Is("RIGHT") {
		p.unexpected()
		return x
	}
	p.advance()
	p.expect("(")
	return p.arguments(x)
}

// arguments reads the arguments of a call after the opening bracket.
func (p *parser) arguments(x *CallExpr) *CallExpr {
	p.height = 0
	if !p.tok.Is(")") {
		x.Args = p.exprs()
	}
	p.expect(")")
	p.raise(p.height)
	x.At = p.from(x.NameAt.Start)
	return x
}

func (p *parser) array(start int) Expr {
	x := &ArrayLiteral{}
	p.height = 0
	if !p.tok.Is("]") {
		x.Items = p.exprs()
	}
	p.expect("]")
	p.raise(p.height)
	x.At = p.from(start)
	return x
}

func (p *parser) object(start int) Expr {
	x := &ObjectLiteral{}
	height := 0
	for !p.tok.Is("}") {
		m := Property{NameAt: p.tok.At}
		m.Name = p.label()
		p.expect(":")
		m.Expr = p.expr()
		height = max(height, p.height)
		x.Members = append(x.Members, m)
		if !p.accept(",") {
			break
		}
		if p.tok.Is("}") {
			p.unexpected()
		}
	}
	p.expect("}")
	p.raise(height)
	x.At = p.from(start)
	return x
}
