package sql

import (
	"unicode/utf8"

	"github.com/decandb/decan/internal/value"
)

// Limits that bound the stack, whatever the text. A chain of AND or OR is one level.
const (
	heightMax  = 500           // of an expression tree
	nestingMax = 4 * heightMax // of brackets and signs; sufficient for every text that String returns
)

// Parse parses a query. The error is a BadRequest in the form that clients expect,
// with code SC1001 and the position in the text.
//
// declared are the parameters of the request by name, without the @; nil for none. A
// parameter whose name is not an identifier must be declared.
func Parse(text string, declared map[string]value.Value) (*Select, error) {
	if !utf8.ValidString(text) {
		return nil, NewError(text, Diagnostic{Code: "SC1001", Message: "Syntax error, the query text is not valid UTF-8."})
	}
	p := &parser{text: text, lex: NewLexer(text, declared)}
	p.advance()
	q := p.query()
	if p.tok.Kind != TokenEnd {
		p.unexpected()
	}
	if p.failed {
		return nil, NewError(text, p.fault)
	}
	return q, nil
}

// parser is a recursive-descent parser with one token of lookahead. After the first
// error every token is the end of the text, so that all methods return; their results
// are meaningless.
type parser struct {
	text   string
	lex    *Lexer
	tok    Token
	ahead  []Token // lookahead, at most one
	last   Span    // of the token before tok
	depth  int     // current nesting
	height int     // of the expression that was returned last
	peak   int     // largest height in the current query

	failed bool
	fault  Diagnostic
}

func (p *parser) advance() {
	if p.failed {
		return
	}
	p.last = p.tok.At
	if len(p.ahead) > 0 {
		p.tok, p.ahead = p.ahead[0], p.ahead[:0]
	} else {
		p.tok = p.lex.Next()
	}
	if p.tok.Kind == TokenInvalid {
		p.unexpected()
	}
}

// peek returns the token after the current one.
func (p *parser) peek() Token {
	if len(p.ahead) == 0 {
		p.ahead = append(p.ahead, p.lex.Next())
	}
	return p.ahead[0]
}

func (p *parser) fail(f Diagnostic) {
	if p.failed {
		return
	}
	p.failed, p.fault = true, f
	p.tok = Token{Kind: TokenEnd, At: Span{len(p.text), len(p.text)}}
	p.ahead = p.ahead[:0]
	p.lex.pos = len(p.text)
}

// unexpected fails at the current token. At the end of the text it reports the
// previous token instead.
func (p *parser) unexpected() {
	at := p.tok.At
	if p.tok.Kind == TokenEnd {
		at = p.last
	}
	p.fail(syntaxError(p.text, at))
}

func (p *parser) accept(text string) bool {
	if !p.tok.Is(text) {
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

// from returns the span from start to the end of the previous token.
func (p *parser) from(start int) Span { return Span{start, p.last.End} }

// enter counts a level of nesting. Each call needs a call of leave.
func (p *parser) enter() {
	if p.depth++; p.depth > nestingMax {
		p.tooDeep()
	}
}

func (p *parser) leave() { p.depth-- }

// raise sets the height of an expression whose highest operand has height part.
func (p *parser) raise(part int) {
	if p.height = part + 1; p.height > heightMax {
		p.tooDeep()
	}
	p.peak = max(p.peak, p.height)
}

func (p *parser) tooDeep() {
	p.fail(Diagnostic{At: p.tok.At, Code: "SC1001", Message: "Syntax error, the query is nested too deeply."})
}

// IsIdent reports whether the token can be an identifier.
func (t Token) IsIdent() bool {
	return t.Kind == TokenIdent || t.Kind == TokenKeyword && reserved[t.Text]
}

// name reads an identifier and returns it as written.
func (p *parser) name() string {
	if !p.tok.IsIdent() {
		p.unexpected()
		return ""
	}
	at := p.tok.At
	p.advance()
	return p.text[at.Start:at.End]
}

func (p *parser) query() *Select {
	p.enter()
	defer p.leave()
	q := &Select{}
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
	if p.tok.Is("GROUP") {
		p.advance()
		p.expect("BY")
		q.GroupBy = p.exprs()
	}
	if p.tok.Is("ORDER") {
		p.advance()
		p.expect("BY")
		p.orderBy(q)
	}
	if p.accept("OFFSET") {
		q.Offset = p.count()
		p.expect("LIMIT")
		q.Limit = p.count()
	}
	return q
}

// count reads the number or parameter after TOP, OFFSET or LIMIT. The analysis checks
// its value.
func (p *parser) count() Expr {
	switch p.tok.Kind {
	case TokenNumber:
		return p.literal(p.tok.Value)
	case TokenParameter:
		return p.parameter()
	}
	p.unexpected()
	return &Literal{}
}

func (p *parser) list(q *Select) {
	start := p.tok.At.Start
	switch {
	case p.accept("*"):
		q.Star = true
	case p.accept("VALUE"):
		q.Value = p.expr()
	default:
		for {
			item := SelectItem{Expr: p.expr()}
			if p.accept("AS") || p.tok.IsIdent() {
				item.Alias = p.name()
			}
			q.Items = append(q.Items, item)
			if !p.accept(",") {
				break
			}
		}
	}
	q.ListAt = p.from(start)
}

func (p *parser) inputs() *From {
	f := &From{Inputs: []Input{p.input()}}
	for p.accept("JOIN") {
		f.Inputs = append(f.Inputs, p.input())
	}
	return f
}

func (p *parser) input() Input {
	start := p.tok.At.Start
	var s Input
	if p.tok.IsIdent() && p.peek().Is("IN") {
		s.In = true
		s.Alias = p.name()
		p.expect("IN")
	}
	if p.accept("(") {
		s.Subquery = p.bracketed()
	} else {
		s.Collection = p.collection()
	}
	if !s.In && (p.accept("AS") || p.tok.IsIdent()) {
		s.Alias = p.name()
	}
	s.At = p.from(start)
	return s
}

// collection reads a name followed by property names and indexes.
func (p *parser) collection() Expr {
	start := p.tok.At.Start
	var x Expr = &Ident{Name: p.name(), At: p.from(start)}
	for height := 0; ; height++ {
		switch {
		case p.accept("."):
			x = &MemberExpr{X: x, Name: p.name(), At: p.from(start)}
		case p.accept("["):
			t := p.tok
			p.advance()
			p.expect("]")
			_, integral := t.Value.Int64()
			switch {
			case t.Kind == TokenString:
				x = &MemberExpr{X: x, Name: t.Value.Text(), At: p.from(start)}
			case t.Kind == TokenNumber && integral:
				x = &IndexExpr{X: x, Index: &Literal{Value: t.Value, At: t.At}, At: p.from(start)}
			default:
				p.fail(syntaxError(p.text, t.At))
			}
		default:
			return x
		}
		p.raise(height)
	}
}

func (p *parser) orderBy(q *Select) {
	if next := p.peek(); p.tok.Is("RANK") && (next.IsIdent() || next.Is("LEFT") || next.Is("RIGHT")) {
		p.advance()
		q.Rank = true
	}
	for {
		s := OrderByItem{Expr: p.expr()}
		if _, ok := s.Expr.(*CallExpr); q.Rank && !ok {
			p.fail(syntaxError(p.text, s.Expr.Span()))
		}
		s.Explicit = p.tok.Is("ASC") || p.tok.Is("DESC")
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
