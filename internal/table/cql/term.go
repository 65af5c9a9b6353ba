package cql

import "errors"

// term parses a value: constants, markers, functions and arithmetic on them.
func (p *parser) term() Expr {
	if !p.deeper() {
		p.shallower()
		return nil
	}
	left := p.product()
	for !p.stopped {
		k := p.kind()
		if k != tPlus && k != tMinus {
			if !followsTerm[k] {
				p.noViable(p.pos-p.afterMarker(), p.pos)
			}
			break
		}
		if p.isSumWithColumn() {
			break
		}
		if next := p.peek(1); k == tPlus && next != tMinus && !startsValue(next) {
			p.noViable(p.pos, p.pos+1)
			break
		}
		p.advance()
		left = &Binary{Op: operatorByte(k), Left: left, Right: p.product()}
		if !p.deeper() { // a long sum is a deep tree
			break
		}
		defer p.shallower()
	}
	p.shallower()
	return left
}

// afterMarker returns 1 if the token before the current one is a marker: then a choice
// began there.
func (p *parser) afterMarker() int {
	if p.pos > 0 && p.tokens[p.pos-1].kind == tQuestion {
		return 1
	}
	return 0
}

// isSumWithColumn reports whether a plus and a column follow, as in l = [1] + l.
func (p *parser) isSumWithColumn() bool {
	k, next := p.peek(1), p.peek(2)
	return p.kind() == tPlus && (k == tEmptyQuoted || isName(k) && next != tParenOpen && next != tDot)
}

// followsTerm holds the tokens that may follow a value.
var followsTerm = [kindCount]bool{
	tEOF: true, tSemicolon: true, tComma: true, tParenClose: true, tBracketClose: true, tBraceClose: true, tColon: true,
	tRange: true, kAnd: true, kIf: true, kWhere: true, kAs: true, kAllow: true, kGroup: true, kOrder: true, kPer: true,
	kLimit: true, kPrimary: true, kApply: true, kInsert: true, kUpdate: true, kDelete: true,
}

func operatorByte(k kind) byte { return kindNames[k][1] }

func (p *parser) product() Expr {
	left := p.signed()
	for !p.stopped {
		k := p.kind()
		if k != tStar && k != tSlash && k != tPercent {
			break
		}
		p.advance()
		left = &Binary{Op: operatorByte(k), Left: left, Right: p.signed()}
		if !p.deeper() {
			break
		}
		defer p.shallower()
	}
	return left
}

func (p *parser) signed() Expr {
	if p.accept(tMinus) {
		return &Negation{Value: p.simpleTerm()}
	}
	return p.simpleTerm()
}

// constant parses a constant; the result is nil if there is none.
func (p *parser) constant() *Literal {
	var k LiteralKind
	switch p.kind() {
	case tString:
		return &Literal{Kind: StringLiteral, Text: p.stringText()}
	case tInteger:
		k = IntegerLiteral
	case tFloat:
		k = FloatLiteral
	case tBool:
		k = BooleanLiteral
	case tUUIDLiteral:
		k = UUIDLiteral
	case tHex:
		k = HexLiteral
	case tDurationLiteral:
		k = DurationLiteral
	case kNan, tNegativeNaN:
		p.advance()
		return &Literal{Kind: FloatLiteral, Text: "NaN"}
	case kInfinity:
		p.advance()
		return &Literal{Kind: FloatLiteral, Text: "Infinity"}
	case tNegativeInfinity:
		p.advance()
		return &Literal{Kind: FloatLiteral, Text: "-Infinity"}
	default:
		return nil
	}
	l := &Literal{Kind: k, Text: p.text()}
	p.advance()
	return l
}

func (p *parser) simpleTerm() Expr {
	if p.stopped {
		return nil
	}
	if l := p.constant(); l != nil {
		return l
	}
	k := p.kind()
	switch {
	case k == tQuestion || k == tColon:
		return p.marker()
	case k == kNull:
		p.advance()
		return &Null{}
	case k == tBracketOpen:
		return p.list(p.term)
	case k == tBraceOpen:
		return p.braces()
	case k == tParenOpen:
		if t := p.typeInParentheses(); t != nil {
			return p.hinted(t, p.simpleTerm)
		}
		return p.tupleTerm()
	case k == kCast && p.peek(1) == tParenOpen:
		return p.cast(p.simpleTerm)
	case isFunction(k) || k == kToken || k == kCount || isName(k) && p.peek(1) == tDot:
		return p.call(p.term)
	}
	p.noViable(p.pos, p.pos)
	return nil
}

// isFunction reports whether a token may be the name of a function.
func isFunction(k kind) bool {
	return k == tIdent || k == tQuoted || k >= firstBasic && k < firstExtra
}

// call parses a call of a function.
func (p *parser) call(argument func() Expr) Expr {
	start := p.pos
	c := &Call{}
	if p.peek(1) == tDot {
		c.Function.Keyspace = p.name()
		p.advance()
	}
	if k := p.kind(); !isFunction(k) && k != kToken && k != kCount {
		p.noViable(start, p.pos)
		return c
	}
	if p.peek(1) != tParenOpen {
		p.noViable(start, p.pos+1)
		return c
	}
	c.Function.Name = p.nameText()
	p.advance()
	p.advance()
	if p.accept(tParenClose) {
		return c
	}
	c.Args = p.listed(argument)
	p.expectLooking(tParenClose)
	return c
}

// listed parses one or more expressions with commas between them.
func (p *parser) listed(one func() Expr) []Expr {
	var all []Expr
	for ok := true; ok && !p.stopped; ok = p.accept(tComma) {
		all = append(all, one())
	}
	return all
}

// list parses [a, b].
func (p *parser) list(one func() Expr) Expr {
	defer p.shallower()
	if !p.deeper() {
		return nil
	}
	p.advance()
	l := &ListLiteral{}
	if p.accept(tBracketClose) {
		return l
	}
	l.Elements = p.listed(one)
	p.expectLooking(tBracketClose)
	return l
}

// braces parses a set, a map or a value of a user-defined type.
func (p *parser) braces() Expr {
	defer p.shallower()
	if !p.deeper() {
		return nil
	}
	brace := p.pos
	p.advance()
	if p.accept(tBraceClose) {
		return &SetLiteral{}
	}
	if next := p.peek(1); isName(p.kind()) && next != tColon && next != tParenOpen && next != tDot {
		p.noViable(brace, p.pos+1)
		return nil
	}
	if isName(p.kind()) && p.peek(1) == tColon {
		u := &UDTLiteral{}
		for ok := true; ok && !p.stopped; ok = p.accept(tComma) {
			f := FieldValue{Name: p.name()}
			p.expect(tColon)
			f.Value = p.term()
			u.Fields = append(u.Fields, f)
		}
		p.expect(tBraceClose)
		return u
	}
	return p.setOrMap(p.term)
}

// setOrMap parses what follows the brace of a set or map that is not empty.
func (p *parser) setOrMap(one func() Expr) Expr {
	first := one()
	if p.accept(tColon) {
		m := &MapLiteral{Entries: []MapEntry{{Key: first, Value: one()}}}
		for p.accept(tComma) {
			e := MapEntry{Key: one()}
			p.expectLooking(tColon)
			e.Value = one()
			m.Entries = append(m.Entries, e)
		}
		p.expectLooking(tBraceClose)
		return m
	}
	s := &SetLiteral{Elements: []Expr{first}}
	for p.accept(tComma) {
		s.Elements = append(s.Elements, one())
	}
	p.expectLooking(tBraceClose)
	return s
}

// tupleTerm parses (a, b).
func (p *parser) tupleTerm() Expr {
	defer p.shallower()
	if !p.deeper() {
		return nil
	}
	p.expect(tParenOpen)
	t := &TupleLiteral{Elements: p.listed(p.term)}
	p.expect(tParenClose)
	return t
}

// typeInParentheses parses (type) if a value follows it, and otherwise nothing. A type
// does not begin with a parenthesis, so that each token is tried at most once per level.
func (p *parser) typeInParentheses() *Type {
	k := p.peek(1)
	if !isName(k) && k != kSet && k != tString {
		return nil
	}
	start, err, markers := p.pos, p.err, len(p.markers)
	p.advance()
	t := p.parseType()
	ok := errors.Is(p.err, err) && p.accept(tParenClose) && startsValue(p.kind())
	switch next, after := p.kind(), p.peek(1); {
	case next == tColon: // of a map, or of a marker
		ok = ok && k != tString && isName(after)
	case next == kAs: // before the name of a selected expression, or the name of a function
		ok = ok && !isName(after)
	case k == tString && isName(next): // the next clause, or a function
		ok = ok && (after == tParenOpen || after == tDot)
	}
	if ok {
		return t
	}
	if p.tooDeep {
		return nil
	}
	p.pos, p.err, p.markers, p.stopped = start, err, p.markers[:markers], false
	return nil
}

// startsValue reports whether a value may begin with a token.
func startsValue(k kind) bool {
	switch k {
	case tString, tInteger, tFloat, tBool, tUUIDLiteral, tHex, tDurationLiteral, tNegativeNaN, tNegativeInfinity, kNan, kInfinity,
		tQuestion, tColon, kNull, tBracketOpen, tBraceOpen, tParenOpen, kToken:
		return true
	}
	return isName(k)
}

// hinted parses the value of (type) value.
func (p *parser) hinted(t *Type, value func() Expr) Expr {
	defer p.shallower()
	if !p.deeper() {
		return nil
	}
	return &TypeHint{Type: t, Value: value()}
}

// cast parses CAST(value AS type).
func (p *parser) cast(value func() Expr) Expr {
	defer p.shallower()
	if !p.deeper() {
		return nil
	}
	p.advance()
	p.expect(tParenOpen)
	c := &Cast{Value: value()}
	p.expectLooking(kAs)
	k := p.kind()
	if p.stopped || k < firstNative || k >= firstExtra {
		p.noViable(p.pos, p.pos)
		return c
	}
	c.Type = &Type{Name: nativeName(k)}
	p.advance()
	p.expect(tParenClose)
	return c
}

// selectors parses the columns of SELECT; * is none.
func (p *parser) selectors() []Selector {
	if p.accept(tStar) {
		return nil
	}
	var all []Selector
	for ok := true; ok && !p.stopped; ok = p.accept(tComma) {
		s := Selector{Expr: p.selected()}
		if p.accept(kAs) {
			s.Alias = p.name()
		}
		all = append(all, s)
	}
	return all
}

// selected parses one selected expression: like term, with columns, fields and elements.
func (p *parser) selected() Expr {
	if !p.deeper() {
		p.shallower()
		return nil
	}
	left := p.selectedProduct()
	for !p.stopped {
		k := p.kind()
		if k != tPlus && k != tMinus {
			break
		}
		p.advance()
		left = &Binary{Op: operatorByte(k), Left: left, Right: p.selectedProduct()}
		if !p.deeper() {
			break
		}
		defer p.shallower()
	}
	p.shallower()
	return left
}

func (p *parser) selectedProduct() Expr {
	left := p.selectedSigned()
	for !p.stopped {
		k := p.kind()
		if k != tStar && k != tSlash && k != tPercent {
			break
		}
		p.advance()
		left = &Binary{Op: operatorByte(k), Left: left, Right: p.selectedSigned()}
		if !p.deeper() {
			break
		}
		defer p.shallower()
	}
	return left
}

func (p *parser) selectedSigned() Expr {
	if p.accept(tMinus) {
		defer p.shallower()
		if !p.deeper() {
			return nil
		}
		return &Negation{Value: p.selectedSigned()}
	}
	start := p.pos
	e := p.selectedSimple()
	if _, ok := e.(*Column); ok && !p.stopped {
		switch k := p.kind(); {
		case k == tString || k == tInteger || k == tFloat || isName(k) && k != kAs && !p.followsSelector(k):
			p.failAt(start, p.pos, p.pos+1, "no viable alternative at input '"+escape(p.tokenText(p.pos))+"'")
			return e
		}
	}
	if p.kind() == tBracketOpen || p.kind() == tDot {
		e = p.modified(e)
		if k := p.kind(); p.tokens[p.pos-1].kind != tBracketClose && (k == kCast || isFunction(k) && p.peek(1) == tParenOpen) && !p.stopped {
			p.noViable(start, p.pos)
		}
	}
	return e
}

// modified parses the fields and elements that follow an expression. If they are not
// right, the expression ends before them.
func (p *parser) modified(plain Expr) Expr {
	start, err, markers := p.pos, p.err, len(p.markers)
	e := p.modifiers(plain)
	if !errors.Is(p.err, err) && !p.tooDeep {
		p.pos, p.err, p.markers, p.stopped = start, err, p.markers[:markers], false
		return plain
	}
	return e
}

func (p *parser) modifiers(e Expr) Expr {
	for !p.stopped {
		switch p.kind() {
		case tDot:
			p.advance()
			e = &Field{Value: e, Field: p.name()}
		case tBracketOpen:
			p.advance()
			e = p.subscript(e)
			p.expect(tBracketClose)
		default:
			return e
		}
		if !p.deeper() {
			break
		}
		defer p.shallower()
	}
	return e
}

// followsSelector reports whether a name may come after an expression of GROUP BY.
func (p *parser) followsSelector(k kind) bool { return k == kPer }

// subscript parses what is between brackets: an element or a slice.
func (p *parser) subscript(value Expr) Expr {
	if p.accept(tRange) {
		return &Slice{Value: value, To: p.term()}
	}
	from := p.term()
	if !p.accept(tRange) {
		return &Element{Value: value, Key: from}
	}
	s := &Slice{Value: value, From: from}
	if p.kind() != tBracketClose {
		s.To = p.term()
	}
	return s
}

func (p *parser) selectedSimple() Expr {
	if p.stopped {
		return nil
	}
	if l := p.constant(); l != nil {
		return l
	}
	start, k, next := p.pos, p.kind(), p.peek(1)
	switch {
	case k == tQuestion || k == tColon:
		return p.marker()
	case k == kNull:
		p.advance()
		return &Null{}
	case k == tBracketOpen:
		return p.list(p.selected)
	case k == tBraceOpen:
		p.advance()
		if p.accept(tBraceClose) {
			return &SetLiteral{}
		}
		return p.setOrMap(p.selected)
	case k == tParenOpen:
		if t := p.typeInParentheses(); t != nil {
			return p.hinted(t, p.selectedSimple)
		}
		return p.selectedTuple()
	case k == kCount && next == tParenOpen && p.peek(2) == tStar:
		p.pos = start + 3
		p.expect(tParenClose)
		return &CountRows{}
	case k == kCount && next == tParenOpen && !startsValue(p.peek(2)) && p.peek(2) != tParenClose && p.peek(2) != tMinus:
		p.noViable(start, start+2)
		return nil
	case (k == kWritetime || k == kTtl) && next == tParenOpen:
		p.pos = start + 2
		w := &WriteTime{TTL: k == kTtl, Column: p.name()}
		p.expect(tParenClose)
		return w
	case k == kCast && next == tParenOpen:
		return p.cast(p.selected)
	case k == kToken && next != tParenOpen:
		p.advance()
		p.expectLooking(tParenOpen)
		return nil
	case k == kToken || next == tParenOpen && (isFunction(k) || k == kCount),
		next == tDot && isName(k) && p.peek(3) == tParenOpen:
		return p.call(p.selected)
	case isName(k):
		c := &Column{Name: p.nameText()}
		p.advance()
		return c
	}
	p.noViable(start, start)
	return nil
}

// selectedTuple parses (a, b), or an expression in parentheses.
func (p *parser) selectedTuple() Expr {
	defer p.shallower()
	if !p.deeper() {
		return nil
	}
	p.advance()
	t := &TupleLiteral{Elements: p.listed(p.selected)}
	p.expect(tParenClose)
	return t
}
