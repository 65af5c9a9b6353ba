package query

import (
	"unicode/utf8"

	"github.com/decandb/decan/internal/value"
)

// Depths that keep a hostile text from growing the stack without end. Real
// queries stay far below; chains of AND and OR count as one level.
const (
	heightMax  = 500           // of an expression tree
	nestingMax = 4 * heightMax // of brackets and signs in the text, enough for all that String writes
)

// Parse reads a query. The error is a BadRequest with the list of errors that
// clients expect: code SC1001 and the place in the text.
//
// A parameter name is an identifier here. [Compile] knows the names of the
// parameters, and so reads others too.
func Parse(text string) (*Select, error) {
	return parse(text, nil)
}

func parse(text string, declared map[string]value.Value) (*Select, error) {
	if !utf8.ValidString(text) {
		return nil, languageErrors(text, fault{code: "SC1001", message: "Syntax error, the query text is not valid UTF-8."})
	}
	p := &parser{text: text, lex: newLexer(text, declared)}
	p.advance()
	q := p.query()
	if p.tok.kind != tokenEnd {
		p.unexpected()
	}
	if p.failed {
		return nil, languageErrors(text, p.fault)
	}
	return q, nil
}

// parser is a recursive descent over the grammar, one token ahead. After the
// first error it sees the end of the text everywhere, so that it unwinds by
// itself, and what it returns is of no use.
type parser struct {
	text   string
	lex    *lexer
	tok    token
	ahead  []token // looked at already, at most one
	last   Span    // of the token before tok
	depth  int     // of nesting now
	height int     // of the expression returned last
	peak   int     // greatest height in the query being read

	failed bool
	fault  fault
}

func (p *parser) advance() {
	if p.failed {
		return
	}
	p.last = p.tok.at
	if len(p.ahead) > 0 {
		p.tok, p.ahead = p.ahead[0], p.ahead[:0]
	} else {
		p.tok = p.lex.next()
	}
	if p.tok.kind == tokenBad {
		p.unexpected()
	}
}

// peek returns the token behind the current one.
func (p *parser) peek() token {
	if len(p.ahead) == 0 {
		p.ahead = append(p.ahead, p.lex.next())
	}
	return p.ahead[0]
}

func (p *parser) fail(f fault) {
	if p.failed {
		return
	}
	p.failed, p.fault = true, f
	p.tok = token{kind: tokenEnd, at: Span{len(p.text), len(p.text)}}
	p.ahead = p.ahead[:0]
	p.lex.pos = len(p.text)
}

// unexpected fails at the current token; at the end of the text it names the
// token before, because there is nothing else to show.
func (p *parser) unexpected() {
	at := p.tok.at
	if p.tok.kind == tokenEnd {
		at = p.last
	}
	p.fail(syntaxError(p.text, at))
}

func (p *parser) accept(text string) bool {
	if !p.tok.is(text) {
		return false
	}
	p.advance()
	return true
}

func (p *parser) expect(text string) {
	if !p.accept(text) {
		p.unexpected()
	}
}

// from returns the span from start to the end of the token before this one.
func (p *parser) from(start int) Span { return Span{start, p.last.End} }

// enter counts a level of nesting; every call is followed by leave.
func (p *parser) enter() {
	if p.depth++; p.depth > nestingMax {
		p.tooDeep()
	}
}

func (p *parser) leave() { p.depth-- }

// raise sets the height of an expression whose highest part has the given one.
func (p *parser) raise(part int) {
	if p.height = part + 1; p.height > heightMax {
		p.tooDeep()
	}
	p.peak = max(p.peak, p.height)
}

func (p *parser) tooDeep() {
	p.fail(fault{at: p.tok.at, code: "SC1001", message: "Syntax error, the query is nested too deeply."})
}

// isName reports whether the token can be an identifier.
func (t token) isName() bool {
	return t.kind == tokenName || t.kind == tokenKeyword && reserved[t.text]
}

// name reads an identifier as written.
func (p *parser) name() string {
	if !p.tok.isName() {
		p.unexpected()
		return ""
	}
	at := p.tok.at
	p.advance()
	return p.text[at.Start:at.End]
}

func (p *parser) query() *Select {
	p.enter()
	defer p.leave()
	q := &Select{}
	start := p.tok.at.Start
	p.expect("SELECT")
	q.Distinct = p.accept("DISTINCT")
	if p.accept("TOP") {
		q.Top = p.count()
	}
	p.list(q)
	if p.accept("FROM") {
		q.From = p.inputs()
	}
	if p.accept("WHERE") {
		q.Where = p.expr()
	}
	if p.tok.is("GROUP") {
		p.advance()
		p.expect("BY")
		q.GroupBy = p.exprs()
	}
	if p.tok.is("ORDER") {
		p.advance()
		p.expect("BY")
		p.orderBy(q)
	}
	if p.accept("OFFSET") {
		q.Offset = p.count()
		p.expect("LIMIT")
		q.Limit = p.count()
	}
	q.at = p.from(start)
	return q
}

// count reads the number or parameter behind TOP, OFFSET and LIMIT. Whether it
// is a whole number within bounds is for the analysis to say.
func (p *parser) count() Expr {
	switch p.tok.kind {
	case tokenNumber:
		return p.literal(p.tok.value)
	case tokenParameter:
		return p.parameter()
	}
	p.unexpected()
	return &Literal{}
}

func (p *parser) list(q *Select) {
	start := p.tok.at.Start
	switch {
	case p.accept("*"):
		q.Star = true
	case p.accept("VALUE"):
		q.Value = p.expr()
	default:
		for {
			item := Item{Expr: p.expr()}
			if p.accept("AS") || p.tok.isName() {
				item.Alias = p.name()
			}
			q.Items = append(q.Items, item)
			if !p.accept(",") {
				break
			}
		}
	}
	q.listAt = p.from(start)
}

func (p *parser) inputs() *From {
	f := &From{Inputs: []Input{p.input()}}
	for p.accept("JOIN") {
		f.Inputs = append(f.Inputs, p.input())
	}
	return f
}

func (p *parser) input() Input {
	start := p.tok.at.Start
	var s Input
	if p.tok.isName() && p.peek().is("IN") {
		s.In = true
		s.Alias = p.name()
		p.expect("IN")
	}
	if p.accept("(") {
		s.Query = p.bracketed()
	} else {
		s.Of = p.collection()
	}
	if !s.In && (p.accept("AS") || p.tok.isName()) {
		s.Alias = p.name()
	}
	s.at = p.from(start)
	return s
}

// collection reads a name with property names and positions behind it.
func (p *parser) collection() Expr {
	start := p.tok.at.Start
	var x Expr = &Name{Name: p.name(), at: p.from(start)}
	for height := 0; ; height++ {
		switch {
		case p.accept("."):
			x = &Member{Of: x, Name: p.name(), at: p.from(start)}
		case p.accept("["):
			t := p.tok
			p.advance()
			p.expect("]")
			_, integral := t.value.Int64()
			switch {
			case t.kind == tokenString:
				x = &Member{Of: x, Name: t.value.Text(), at: p.from(start)}
			case t.kind == tokenNumber && integral:
				x = &Index{Of: x, At: &Literal{Value: t.value, at: t.at}, at: p.from(start)}
			default:
				p.fail(syntaxError(p.text, t.at))
			}
		default:
			return x
		}
		p.raise(height)
	}
}

func (p *parser) orderBy(q *Select) {
	if next := p.peek(); p.tok.is("RANK") && (next.isName() || next.is("LEFT") || next.is("RIGHT")) {
		p.advance()
		q.Rank = true
	}
	for {
		s := Sort{Expr: p.expr()}
		if _, ok := s.Expr.(*Call); q.Rank && !ok {
			p.fail(syntaxError(p.text, s.Expr.span()))
		}
		s.Way = p.tok.is("ASC") || p.tok.is("DESC")
		s.Desc = p.accept("DESC")
		if !s.Desc {
			p.accept("ASC")
		}
		q.OrderBy = append(q.OrderBy, s)
		if !p.accept(",") {
			return
		}
	}
}
