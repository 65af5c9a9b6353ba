package bicep

import "strconv"

const expectedValue = "Expected a literal value, an array, an object, a parenthesized expression, or a function call at this location."

// expression reads an expression: a ternary or what binds closer. A line may
// end before "?" and before ":".
func (p *parser) expression() expr {
	if !p.enter() {
		return &skipped{p.tok().span}
	}
	defer p.leave()
	condition := p.binary(0)
	if p.bad || !p.continues("?") {
		return condition
	}
	p.pos++
	p.newLines()
	x := &ternaryExpr{span: condition.at(), condition: condition}
	x.yes = p.expression()
	if !p.bad {
		p.continues(":")
	}
	p.expect(":")
	x.no = &skipped{p.tok().span}
	if !p.bad {
		p.newLines()
		x.no = p.expression()
	}
	x.end = x.no.at().end
	return x
}

// continues reports whether text follows, after line ends or not, and passes
// the line ends if it does.
func (p *parser) continues(text string) bool {
	for n := 0; ; n++ {
		t := p.after(n)
		if t.kind == kNewLine {
			continue
		}
		if t.kind != kPunct || t.text != text {
			return false
		}
		p.pos += n
		return true
	}
}

// precedence of binary operators; all bind to the left.
var precedence = map[string]int{
	"??": 1,
	"||": 2,
	"&&": 3,
	"==": 4, "!=": 4, "=~": 4, "!~": 4,
	"<": 5, "<=": 5, ">": 5, ">=": 5,
	"+": 6, "-": 6,
	"*": 7, "/": 7, "%": 7,
}

func (p *parser) binary(floor int) expr {
	left := p.unary()
	levels := 0
	defer func() { p.depth -= levels }()
	for !p.bad {
		t := p.tok()
		rank := 0
		if t.kind == kPunct {
			rank = precedence[t.text]
		}
		if rank <= floor {
			break
		}
		levels++
		if !p.enter() {
			break
		}
		p.pos++
		right := p.binary(rank)
		left = &binaryExpr{left.at().to(right.at()), t.text, left, right}
	}
	return left
}

func (p *parser) unary() expr {
	t := p.tok()
	if !p.bad && t.kind == kPunct && (t.text == "!" || t.text == "-" || t.text == "+") {
		if !p.enter() {
			return &skipped{t.span}
		}
		defer p.leave()
		p.pos++
		operand := p.member()
		return &unaryExpr{t.span.to(operand.at()), t.text, operand}
	}
	return p.member()
}

// member reads a primary expression and what is called on it.
func (p *parser) member() expr {
	x := p.primary()
	levels := 0
	defer func() { p.depth -= levels }()
	for !p.bad {
		t := p.tok()
		if t.kind != kPunct {
			break
		}
		switch t.text {
		case "!":
			p.pos++
			x = &assertExpr{x.at().to(t.span), x}
		case ".", ".?":
			p.pos++
			name := p.identifier("BCP020", "Expected a function or property name at this location.")
			if name.name == "" {
				return &memberExpr{x.at(), x, name, t.text == ".?"}
			}
			if t.text == "." && p.is("(") {
				x = p.call(x, name, x.at().start)
			} else {
				x = &memberExpr{x.at().to(name.span), x, name, t.text == ".?"}
			}
		case "::":
			p.pos++
			name := p.identifier("BCP020", "Expected a function or property name at this location.")
			x = &childExpr{x.at().to(name.span), x, name}
		case "[", "[?":
			p.pos++
			i := &indexExpr{span: x.at(), base: x, safe: t.text == "[?"}
			i.fromEnd = p.take("^")
			if p.is("]") {
				p.fail(p.tok().span, "BCP117", "An empty indexer is not allowed. Specify a valid expression.")
				return x
			}
			i.index = p.expression()
			i.end = p.expect("]").end
			x = i
		default:
			return x
		}
		levels++
		if !p.enter() {
			break
		}
	}
	return x
}

// call reads the arguments of a function.
func (p *parser) call(base expr, name ident, start int) *callExpr {
	c := &callExpr{span: span{start, name.end}, base: base, name: name}
	c.open = p.expect("(")
	p.newLines()
	for !p.bad && !p.is(")") {
		c.args = append(c.args, p.value())
		if p.bad {
			break
		}
		p.newLines()
		if p.is(")") {
			break
		}
		if !p.take(",") {
			p.fail(p.tok().span, "BCP237", "Expected a comma character at this location.")
			break
		}
		p.newLines()
		if p.is(")") {
			p.fail(p.tok().span, "BCP009", expectedValue)
		}
	}
	c.open.end = p.expect(")").end
	c.end = c.open.end
	return c
}

func (p *parser) primary() expr {
	t := p.tok()
	if p.bad {
		return &skipped{t.span}
	}
	switch t.kind {
	case kInt:
		p.pos++
		n, err := strconv.ParseUint(t.text, 10, 64)
		if err != nil || n > 1<<63 {
			p.add(t.span, "BCP010", "Expected a valid 64-bit signed integer.")
			return &skipped{t.span}
		}
		if n == 1<<63 {
			// Only the negative of this number fits.
			if p.pos >= 2 && p.tokens[p.pos-2].text == "-" && p.tokens[p.pos-2].kind == kPunct {
				return &literal{t.span, int64(-1 << 63)}
			}
			p.add(t.span, "BCP010", "Expected a valid 64-bit signed integer.")
			return &skipped{t.span}
		}
		return &literal{t.span, int64(n)}
	case kString:
		return p.stringValue()
	case kIdent:
		switch t.text {
		case "true", "false":
			p.pos++
			return &literal{t.span, t.text == "true"}
		case "null":
			p.pos++
			return &literal{t.span, nil}
		}
		p.pos++
		name := ident{t.span, t.text}
		switch {
		case p.is("("):
			return p.call(nil, name, t.start)
		case p.is("=>"):
			return p.lambda(t.span, []ident{name})
		}
		return &nameExpr{name}
	case kPunct:
		switch t.text {
		case "(":
			return p.parenthesis()
		case "{":
			return p.object(false)
		case "[":
			return p.array()
		}
	}
	p.fail(t.span, "BCP009", expectedValue)
	return &skipped{t.span}
}

// parenthesis reads "(x)", "() => x" or "(a, b) => x".
func (p *parser) parenthesis() expr {
	open := p.tok().span
	if names, n, ok := p.lambdaNames(); ok {
		p.pos += n
		return p.lambda(open, names)
	}
	p.pos++
	p.newLines()
	if p.is(")") {
		p.fail(open, "BCP243", "Parentheses must contain exactly one expression.")
		return &skipped{open}
	}
	inner := p.expression()
	p.newLines()
	switch {
	case p.bad:
	case p.is(","):
		p.fail(p.tok().span, "BCP243", "Parentheses must contain exactly one expression.")
	case !p.is(")"):
		p.fail(inner.at(), "BCP243", "Parentheses must contain exactly one expression.")
	default:
		end := p.expect(")")
		return &parenExpr{open.to(end), inner}
	}
	return &parenExpr{open, inner}
}

// lambdaNames looks ahead for "(a, b) =>" and returns the names and the
// number of tokens before "=>".
func (p *parser) lambdaNames() (names []ident, n int, ok bool) {
	n = 1
	blank := func() {
		for p.after(n).kind == kNewLine {
			n++
		}
	}
	is := func(text string) bool {
		t := p.after(n)
		return t.kind == kPunct && t.text == text
	}
	blank()
	for !is(")") {
		t := p.after(n)
		if t.kind != kIdent {
			return nil, 0, false
		}
		names = append(names, ident{t.span, t.text})
		n++
		blank()
		if is(",") {
			n++
			blank()
		} else if !is(")") {
			return nil, 0, false
		}
	}
	n++
	return names, n, is("=>")
}

func (p *parser) lambda(start span, names []ident) expr {
	p.expect("=>")
	p.newLines()
	body := p.expression()
	return &lambdaExpr{start.to(body.at()), names, body}
}

func (p *parser) stringValue() expr {
	t := p.tok()
	x := &stringExpr{span: t.span}
	bad := false
	for {
		t = p.tok()
		if t.kind != kString {
			// Tokens are left of the expression: pass them up to the rest of the string.
			p.fail(t.span, "BCP064", "Found unexpected tokens in interpolated expression.")
			for p.tok().kind != kNewLine && p.tok().kind != kEOF && (p.tok().kind != kString || p.tok().first) {
				p.pos++
			}
			if p.tok().kind != kString {
				return &skipped{x.span}
			}
			t = p.tok()
		} else if len(x.parts) > 0 && t.first {
			p.fail(t.span, "BCP064", "Found unexpected tokens in interpolated expression.")
			return &skipped{x.span}
		}
		p.pos++
		bad = bad || t.bad
		x.parts = append(x.parts, t.text)
		x.end = t.end
		if t.last {
			break
		}
		if n := p.tok(); n.kind == kString && !n.first {
			p.fail(n.span, "BCP009", expectedValue)
			x.holes = append(x.holes, &skipped{n.span})
			continue
		}
		x.holes = append(x.holes, p.expression())
		if p.bad {
			return &skipped{x.span}
		}
	}
	if bad {
		return &skipped{x.span}
	}
	return x
}

func (p *parser) array() expr {
	if p.loopFollows() {
		return p.loop(false)
	}
	x := &arrayExpr{span: p.tok().span}
	if !p.enter() {
		return x
	}
	defer p.leave()
	p.pos++
	p.elements("]", func() {
		spread := p.take("...")
		v := p.value()
		x.items = append(x.items, arrayItem{v, spread})
	})
	x.end = p.tokens[p.pos-1].end
	return x
}

// object reads an object; in a resource it may hold resources.
func (p *parser) object(resource bool) expr {
	x := &objectExpr{span: p.tok().span}
	if !p.enter() {
		return x
	}
	defer p.leave()
	p.pos++
	p.elements("}", func() {
		t := p.tok()
		if resource && (p.is("@") || t.kind == kIdent && t.text == "resource" && p.after(1).kind == kIdent) {
			d := &declaration{span: t.span, keyword: "resource", decorators: p.decorators()}
			d.keywordAt = p.tok().span
			before := len(p.findings)
			p.word("resource", "BCP018")
			if p.bad {
				return
			}
			p.resource(d)
			d.end = p.tokens[p.pos-1].end
			d.broken = len(p.findings) > before
			d.complete(false)
			x.resources = append(x.resources, d)
			return
		}
		if p.take("...") {
			x.items = append(x.items, objectItem{value: p.expression(), spread: true})
			return
		}
		item := objectItem{}
		switch t.kind {
		case kIdent:
			p.pos++
			item.key = &nameExpr{ident{t.span, t.text}}
		case kString:
			item.key = p.stringValue()
		default:
			p.fail(t.span, "BCP022", "Expected a property name at this location.")
			return
		}
		p.expect(":")
		if p.bad {
			return
		}
		item.value = p.value()
		x.items = append(x.items, item)
	})
	x.end = p.tokens[p.pos-1].end
	return x
}

// loopFollows reports whether the bracket at the current place opens a loop.
func (p *parser) loopFollows() bool {
	for n := 1; ; n++ {
		t := p.after(n)
		if t.kind == kNewLine {
			continue
		}
		if t.kind != kIdent || t.text != "for" {
			return false
		}
		// [for] and [for, x] hold a variable of this name.
		next := p.after(n + 1)
		return next.kind == kIdent || next.kind == kPunct && next.text == "("
	}
}

// loop reads "[for x in list: body]"; the body of a resource is an object or
// a condition with one.
func (p *parser) loop(resource bool) expr {
	x := &forExpr{span: p.expect("[")}
	p.newLines()
	if !p.enter() {
		return &skipped{x.span}
	}
	defer p.leave()
	if !p.isWord("for") {
		p.fail(p.tok().span, "BCP012", "Expected the \"for\" keyword at this location.")
		return &skipped{x.span}
	}
	p.pos++
	if p.take("(") {
		x.item = p.identifier("BCP136", "Expected a loop item variable identifier at this location.")
		if !p.bad && !p.take(",") {
			p.fail(p.tok().span, "BCP018", "Expected the \",\" character at this location.")
		}
		x.index = p.identifier("BCP163", "Expected a loop index variable identifier at this location.")
		p.expect(")")
	} else {
		x.item = p.identifier("BCP136", "Expected a loop item variable identifier at this location.")
	}
	p.word("in", "BCP012")
	if p.bad {
		return &skipped{x.span}
	}
	x.list = p.expression()
	p.expect(":")
	p.newLines()
	switch {
	case p.bad:
		x.body = &skipped{p.tok().span}
	case resource && (p.isWord("if") || p.is("{")):
		x.body = p.body()
	case resource:
		p.fail(p.tok().span, "BCP167", "Expected the \"{\" character or the \"if\" keyword at this location.")
		x.body = &skipped{p.tok().span}
	default:
		x.body = p.value()
	}
	if !p.bad {
		p.newLines()
	}
	x.end = p.expect("]").end
	return x
}
