package sql

import (
	"strings"
	"unicode/utf8"

	"github.com/decandb/decan/internal/value"
)

// Limits that bound the stack, whatever the text. A chain of AND or OR is one level,
// and so are brackets that open at the same place.
const (
	heightMax  = 500           // of an expression tree
	nestingMax = 4 * heightMax // of brackets and signs; sufficient for every text that String returns
)

// Parse parses a query. The error is a BadRequest in the form that clients expect,
// with a code of the form SC10xx and the position in the text.
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
	if q.Star && q.From == nil {
		p.fail(Diagnosticf(q.ListAt, "SC1021", "Syntax error, 'SELECT *' is not valid if FROM clause is omitted."))
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
	given  Expr    // the primary expression to continue with, nil for none; see [parser.bracket]
	first  int     // where given begins
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
	if p.tok.Bad() {
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
	p.ahead, p.given = p.ahead[:0], nil
	p.lex.pos = len(p.text)
}

// unexpected fails at the current token.
func (p *parser) unexpected() { p.fail(syntaxError(p.text, p.tok)) }

// start returns the offset of the next expression.
func (p *parser) start() int {
	if p.given != nil {
		return p.first
	}
	return p.tok.At.Start
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
	start := p.tok.At.Start
	p.expect("SELECT")
	q.Distinct = p.accept("DISTINCT")
	if at := p.tok.At.Start; p.accept("TOP") {
		q.Top = p.top()
		q.TopAt = p.from(at)
	}
	p.list(q)
	if p.accept("FROM") {
		at := p.tok.At.Start
		q.From = p.inputs()
		q.FromAt = p.from(at)
	}
	if p.accept("WHERE") {
		q.Where = p.expr()
	}
	if at := p.tok.At.Start; p.accept("GROUP") {
		p.expect("BY")
		q.GroupBy = p.exprs()
		q.GroupAt = p.from(at)
	}
	if at := p.tok.At.Start; p.accept("ORDER") {
		p.expect("BY")
		p.orderBy(q)
		q.OrderAt = p.from(at)
	}
	if at := p.tok.At.Start; p.accept("OFFSET") {
		q.Offset = p.rows()
		p.expect("LIMIT")
		q.Limit = p.rows()
		q.OffsetAt = p.from(at)
	}
	q.At = p.from(start)
	return q
}

// top reads the number or parameter after TOP. NaN and Infinity are numbers here.
func (p *parser) top() Expr {
	if t := p.tok; t.Is("NaN") || t.Is("Infinity") {
		p.advance()
		return &Ident{Name: t.Text, At: t.At}
	}
	return p.count()
}

// count reads the number or parameter after OFFSET or LIMIT. The analysis checks
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

// rows reads a count that is written as an integer.
func (p *parser) rows() Expr {
	written := !strings.ContainsAny(p.tok.Text, ".eE") || strings.ContainsAny(p.tok.Text, "xX")
	if _, whole := p.tok.Value.Int64(); p.tok.Kind == TokenNumber && !(whole && written) {
		p.unexpected()
	}
	return p.count()
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
			at := p.tok.At.Start
			item := SelectItem{Expr: p.expr()}
			if as := p.accept("AS"); as || p.tok.IsIdent() || p.tok.Kind == TokenString {
				at = p.tok.At.Start
				item.Alias = p.label()
			}
			item.At = p.from(at)
			q.Items = append(q.Items, item)
			if !p.accept(",") {
				break
			}
		}
	}
	q.ListAt = p.from(start)
}

// label reads a name that may be a string.
func (p *parser) label() string {
	if p.tok.Kind != TokenString {
		return p.name()
	}
	text := p.tok.Value.Text()
	p.advance()
	return text
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
		s.In, s.AliasAt = true, p.tok.At
		s.Alias = p.name()
		p.expect("IN")
	}
	if at := p.tok.At.Start; p.accept("(") {
		s.Subquery = p.bracketed()
		s.SubqueryAt = p.from(at)
	} else {
		var at Span
		s.Collection, at = p.collection()
		if !s.In {
			s.AliasAt = at
		}
	}
	s.At = p.from(start)
	if !s.In && (p.accept("AS") || p.tok.IsIdent()) {
		s.AliasAt = p.tok.At
		s.Alias = p.name()
	}
	return s
}

// collection reads a name followed by property names and indexes. It also returns the
// position of the last of them.
func (p *parser) collection() (Expr, Span) {
	start, last := p.tok.At.Start, p.tok.At
	var x Expr = &Ident{Name: p.name(), At: p.from(start)}
	for height := 0; ; height++ {
		switch {
		case p.accept("."):
			last = p.tok.At
			x = &MemberExpr{X: x, Name: p.name(), At: p.from(start), NameAt: last}
		case p.accept("["):
			t := p.tok
			last = t.At
			if t.Kind != TokenString && t.Kind != TokenNumber {
				p.unexpected()
			}
			p.advance()
			p.expect("]")
			if t.Kind == TokenString {
				x = &MemberExpr{X: x, Name: t.Value.Text(), Quoted: true, At: p.from(start), NameAt: t.At}
			} else {
				x = &IndexExpr{X: x, Index: &Literal{Value: t.Value, At: t.At}, At: p.from(start)}
			}
		default:
			return x, last
		}
		p.raise(height)
	}
}

func (p *parser) orderBy(q *Select) {
	if next := p.peek(); p.tok.Is("RANK") && (next.IsIdent() || next.Is("LEFT") || next.Is("RIGHT") || next.Is("UDF")) {
		p.advance()
		q.Rank = true
		at := p.tok.At.Start
		var call *CallExpr
		if p.tok.Is("UDF") {
			call = p.userFunction()
		} else {
			call = p.call()
		}
		q.OrderBy = []OrderByItem{p.direction(call, at)}
		return
	}
	for {
		at := p.tok.At.Start
		q.OrderBy = append(q.OrderBy, p.direction(p.expr(), at))
		if !p.accept(",") {
			return
		}
	}
}

// direction reads the ASC or DESC of an expression that begins at a place.
func (p *parser) direction(x Expr, at int) OrderByItem {
	s := OrderByItem{Expr: x, Explicit: p.tok.Is("ASC") || p.tok.Is("DESC")}
	s.Desc = p.accept("DESC")
	if !s.Desc {
		p.accept("ASC")
	}
	s.At = p.from(at)
	return s
}
