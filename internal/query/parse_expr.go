package query

import (
	"unicode/utf8"

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

// expr reads a whole expression: the conditional operator is the loosest.
func (p *parser) expr() Expr {
	p.enter()
	defer p.leave()
	start := p.tok.at.Start
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
	return &Conditional{If: x, Then: then, Else: otherwise, at: p.from(start)}
}

func (p *parser) coalesce() Expr {
	p.enter()
	defer p.leave()
	start := p.tok.at.Start
	x := p.logic(true)
	if !p.accept("??") {
		return x
	}
	height := p.height
	y := p.coalesce()
	p.raise(max(height, p.height))
	return &Coalesce{L: x, R: y, at: p.from(start)}
}

// logic reads a chain of OR, or of AND inside it.
func (p *parser) logic(or bool) Expr {
	word, term := "AND", p.predicate
	if or {
		word, term = "OR", func() Expr { return p.logic(false) }
	}
	start := p.tok.at.Start
	x := term()
	if !p.tok.is(word) {
		return x
	}
	chain := &Logic{Or: or, Terms: []Expr{x}}
	height := p.height
	for p.accept(word) {
		chain.Terms = append(chain.Terms, term())
		height = max(height, p.height)
	}
	p.raise(height)
	chain.at = p.from(start)
	return chain
}

// predicate reads BETWEEN, IN, LIKE and LET, which do not chain. The AND of
// BETWEEN is taken here, so a logical AND may follow without brackets.
func (p *parser) predicate() Expr {
	start := p.tok.at.Start
	if p.tok.is("LET") && p.binds() {
		return p.let()
	}
	x := p.binary(levelEqual)
	not := false
	if p.tok.is("NOT") {
		if next := p.peek(); !next.is("BETWEEN") && !next.is("IN") && !next.is("LIKE") {
			return x
		}
		p.advance()
		not = true
	}
	height := p.height
	switch {
	case p.accept("BETWEEN"):
		low := p.binary(levelEqual)
		height = max(height, p.height)
		p.expect("AND")
		high := p.binary(levelEqual)
		p.raise(max(height, p.height))
		return &Between{Not: not, X: x, Low: low, High: high, at: p.from(start)}
	case p.accept("IN"):
		p.expect("(")
		list := p.exprs()
		p.expect(")")
		p.raise(max(height, p.height))
		return &In{Not: not, X: x, List: list, at: p.from(start)}
	case p.accept("LIKE"):
		like := &Like{Not: not, X: x, Pattern: p.binary(levelEqual)}
		p.raise(max(height, p.height))
		if p.accept("ESCAPE") {
			if p.tok.kind != tokenString || utf8.RuneCountInString(p.tok.value.Text()) != 1 {
				p.unexpected()
			}
			like.Escape, like.HasEscape = p.tok.value.Text(), true
			p.advance()
		}
		like.at = p.from(start)
		return like
	}
	return x
}

// binary reads a chain of operators of at least that level, all of which group
// to the left.
func (p *parser) binary(lowest int) Expr {
	start := p.tok.at.Start
	x := p.unary()
	for {
		level := 0
		if p.tok.kind == tokenSymbol {
			level = operatorLevel(p.tok.text)
		}
		if level < lowest {
			return x
		}
		op := p.tok.text
		p.advance()
		height := p.height
		y := p.binary(level + 1)
		p.raise(max(height, p.height))
		x = &Binary{Op: op, L: x, R: y, at: p.from(start)}
	}
}

func (p *parser) unary() Expr {
	if !p.tok.is("-") && !p.tok.is("+") && !p.tok.is("~") && !p.tok.is("NOT") {
		return p.postfix()
	}
	p.enter()
	defer p.leave()
	start, op := p.tok.at.Start, p.tok.text
	p.advance()
	x := p.unary()
	p.raise(p.height)
	return &Unary{Op: op, X: x, at: p.from(start)}
}

func (p *parser) postfix() Expr {
	start := p.tok.at.Start
	x := p.primary()
	for {
		switch {
		case p.accept("."):
			p.raise(p.height)
			x = &Member{Of: x, Name: p.name(), at: p.from(start)}
		case p.accept("["):
			height := p.height
			at := p.expr()
			p.expect("]")
			p.raise(max(height, p.height))
			if name, ok := at.(*Literal); ok && name.Value.Kind() == value.KindString {
				x = &Member{Of: x, Name: name.Value.Text(), at: p.from(start)}
			} else {
				x = &Index{Of: x, At: at, at: p.from(start)}
			}
		default:
			return x
		}
	}
}

func (p *parser) primary() Expr {
	p.height = 1
	t := p.tok
	switch t.kind {
	case tokenNumber, tokenString:
		return p.literal(t.value)
	case tokenParameter:
		return p.parameter()
	case tokenName:
		if p.peek().is("(") {
			return p.call()
		}
		p.advance()
		return &Name{Name: t.text, at: t.at}
	case tokenKeyword:
		return p.word()
	}
	switch {
	case p.accept("("):
		if p.tok.is("SELECT") {
			return p.subquery(Scalar, t.at.Start)
		}
		x := p.expr()
		p.expect(")")
		return x
	case p.accept("["):
		return p.array(t.at.Start)
	case p.accept("{"):
		return p.object(t.at.Start)
	}
	p.unexpected()
	return &Literal{}
}

func (p *parser) literal(v value.Value) Expr {
	x := &Literal{Value: v, at: p.tok.at}
	p.advance()
	return x
}

func (p *parser) parameter() Expr {
	x := &Parameter{Name: p.tok.text, at: p.tok.at}
	p.advance()
	return x
}

// subqueries are the keywords that take a query in brackets.
var subqueries = map[string]SubqueryKind{
	"EXISTS": Exists, "ARRAY": Array, "ALL": All, "FIRST": First, "LAST": Last,
}

// word reads a primary expression that begins with a keyword.
func (p *parser) word() Expr {
	t := p.tok
	switch t.text {
	case "TRUE":
		return p.literal(value.Bool(true))
	case "FALSE":
		return p.literal(value.Bool(false))
	case "NULL":
		return p.literal(value.Null())
	case "UNDEFINED":
		return p.literal(value.Undefined())
	case "LEFT", "RIGHT":
		return p.call()
	case "UDF":
		p.advance()
		p.expect(".")
		x := p.call()
		x.UDF = true
		x.at = p.from(t.at.Start)
		return x
	}
	if kind, ok := subqueries[t.text]; ok && p.peek().is("(") {
		p.advance()
		p.advance()
		return p.subquery(kind, t.at.Start)
	}
	if !t.isName() {
		p.unexpected()
		return &Literal{}
	}
	if p.peek().is("(") {
		return p.call()
	}
	return &Name{Name: p.name(), at: t.at}
}

// let reads LET name = value IN expression, both sides without AND, OR and what
// is looser, unless they stand in brackets.
func (p *parser) let() Expr {
	start := p.tok.at.Start
	p.advance()
	x := &Let{Name: p.name()}
	p.expect("=")
	x.Value = p.binary(levelEqual)
	height := p.height
	p.expect("IN")
	x.In = p.binary(levelEqual)
	p.raise(max(height, p.height))
	x.at = p.from(start)
	return x
}

// binds reports whether a name and = follow the current token, which is LET: as
// a name of its own LET may stand in front of = alone.
func (p *parser) binds() bool {
	if !p.peek().isName() {
		return false
	}
	ahead := *p.lex
	t := ahead.next()
	return t.is("=")
}

// subquery reads the query behind an opened bracket.
func (p *parser) subquery(kind SubqueryKind, start int) Expr {
	q := p.bracketed()
	return &Subquery{Kind: kind, Query: q, at: p.from(start)}
}

// bracketed reads a query and the bracket that closes it; its height is that
// of its highest expression and one more.
func (p *parser) bracketed() *Select {
	outer := p.peak
	p.peak = 0
	q := p.query()
	p.expect(")")
	p.raise(p.peak)
	p.peak = max(p.peak, outer)
	return q
}

func (p *parser) call() *Call {
	t := p.tok
	x := &Call{Name: p.text[t.at.Start:t.at.End], nameAt: t.at}
	if !t.isName() && !t.is("LEFT") && !t.is("RIGHT") {
		p.unexpected()
		return x
	}
	p.advance()
	p.expect("(")
	p.height = 0
	if !p.tok.is(")") {
		x.Args = p.exprs()
	}
	p.expect(")")
	p.raise(p.height)
	x.at = p.from(t.at.Start)
	return x
}

func (p *parser) array(start int) Expr {
	x := &ArrayLiteral{}
	p.height = 0
	if !p.tok.is("]") {
		x.Items = p.exprs()
	}
	p.expect("]")
	p.raise(p.height)
	x.at = p.from(start)
	return x
}

func (p *parser) object(start int) Expr {
	x := &ObjectLiteral{}
	height := 0
	for !p.tok.is("}") {
		m := Property{}
		if p.tok.kind == tokenString {
			m.Name = p.tok.value.Text()
			p.advance()
		} else {
			m.Name = p.name()
		}
		p.expect(":")
		m.Expr = p.expr()
		height = max(height, p.height)
		x.Members = append(x.Members, m)
		if !p.accept(",") {
			break
		}
		if p.tok.is("}") {
			p.unexpected()
		}
	}
	p.expect("}")
	p.raise(height)
	x.at = p.from(start)
	return x
}
