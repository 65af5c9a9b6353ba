package bicep

import "strconv"

const expectedType = "Expected a type at this location. Please specify a valid type expression or one of the following types: \"any\", \"array\", \"bool\", \"int\", \"object\", \"string\"."

// typ reads a type: a union or what binds closer.
func (p *parser) typ() typeExpr {
	if p.bad || !p.enter() {
		return &skippedType{p.tok().span}
	}
	defer p.leave()
	var members []typeExpr
	if p.continues("|") {
		p.pos++
	}
	for {
		p.newLinesBeforeMember(len(members))
		members = append(members, p.unaryType())
		if p.bad || !p.continues("|") {
			break
		}
		p.pos++
	}
	if len(members) == 1 {
		return members[0]
	}
	return &unionType{members[0].at().to(members[len(members)-1].at()), members}
}

// newLinesBeforeMember refuses a line end after "|".
func (p *parser) newLinesBeforeMember(n int) {
	if n > 0 && p.tok().kind == kNewLine {
		p.fail(p.tok().span, "BCP310", "Expected a type expression at this location.")
	}
}

func (p *parser) unaryType() typeExpr {
	t := p.tok()
	if p.bad {
		return &skippedType{t.span}
	}
	var x typeExpr
	if t.kind == kPunct && (t.text == "-" || t.text == "!" || t.text == "+") {
		p.pos++
		operand := p.memberType()
		x = operand
		switch l, ok := operand.(*literalType); {
		case p.bad:
		case !ok:
			// A name that does not exist is the better message, and the checker has it.
		default:
			x = &literalType{t.span.to(operand.at()), &unaryExpr{t.span.to(operand.at()), t.text, l.value}}
		}
	} else {
		x = p.memberType()
	}
	for !p.bad {
		switch t := p.tok(); {
		case p.take("?"):
			x = &nullableType{x.at().to(t.span), x}
		case p.take("!"):
			x = &nonNullType{x.at().to(t.span), x}
		default:
			return x
		}
	}
	return x
}

func (p *parser) memberType() typeExpr {
	x := p.primaryType()
	levels := 0
	defer func() { p.depth -= levels }()
	for !p.bad {
		t := p.tok()
		switch {
		case p.take("["):
			switch i := p.tok(); {
			case p.take("]"):
				x = &arrayType{x.at().to(i.span), x}
			case p.take("*"):
				x = &memberType{span: x.at().to(p.expect("]")), base: x, form: "[*]"}
			case i.kind == kInt:
				p.pos++
				n, _ := strconv.Atoi(i.text)
				x = &memberType{span: x.at().to(p.expect("]")), base: x, form: "[]", index: n}
			default:
				p.fail(i.span, "BCP018", "Expected the \"]\" character at this location.")
			}
		case p.take("."):
			if s := p.tok(); p.take("*") {
				x = &memberType{span: x.at().to(s.span), base: x, form: ".*"}
				break
			}
			name := p.identifier("BCP020", "Expected a function or property name at this location.")
			if n, ok := x.(*nameType); ok && n.name == "sys" && p.take("<") {
				x = p.generic(name)
				break
			}
			x = &memberType{span: x.at().to(name.span), base: x, form: ".", name: name}
		default:
			return x
		}
		levels++
		if !p.enter() {
			break
		}
		_ = t
	}
	return x
}

func (p *parser) primaryType() typeExpr {
	t := p.tok()
	switch t.kind {
	case kIdent:
		p.pos++
		switch t.text {
		case "true", "false":
			return &literalType{t.span, &literal{t.span, t.text == "true"}}
		case "null":
			return &literalType{t.span, &literal{t.span, nil}}
		case "resource":
			if p.tok().kind == kString {
				p.fail(t.span, CodeUnsupported, "Parameters and outputs that are resources are not read here.")
				return &skippedType{t.span}
			}
		}
		name := ident{t.span, t.text}
		if p.take("<") {
			return p.generic(name)
		}
		return &nameType{name}
	case kInt, kString:
		v := p.primary()
		if s, ok := v.(*stringExpr); ok && len(s.holes) > 0 {
			p.fail(s.span, "BCP032", "The value must be a compile-time constant.")
		}
		if _, ok := v.(*skipped); ok {
			return &skippedType{t.span}
		}
		return &literalType{v.at(), v}
	case kPunct:
		switch t.text {
		case "(":
			p.pos++
			x := p.typ()
			p.expect(")")
			return x
		case "{":
			return p.objectType()
		case "[":
			return p.tupleType()
		}
	}
	p.fail(t.span, "BCP279", expectedType)
	return &skippedType{t.span}
}

// generic reads the arguments of resourceInput<'type@version'>; line ends may
// be around them.
func (p *parser) generic(name ident) typeExpr {
	g := &genericType{span: name.span, name: name}
	p.newLines()
	for !p.bad && !p.is(">") {
		g.args = append(g.args, p.typ())
		p.newLines()
		if !p.take(",") {
			break
		}
		p.newLines()
	}
	g.end = p.expect(">").end
	return g
}

func (p *parser) objectType() typeExpr {
	x := &objectType{span: p.tok().span}
	p.pos++
	p.elements("}", func() {
		m := typeMember{span: p.tok().span, decorators: p.decorators()}
		t := p.tok()
		m.span = t.span
		star := false
		switch {
		case t.kind == kIdent:
			p.pos++
			m.name = t.text
		case t.kind == kString && t.first && t.last:
			p.pos++
			m.name = t.text
		case p.take("*"):
			star = true
		default:
			p.fail(t.span, "BCP022", "Expected a property name at this location.")
			return
		}
		p.expect(":")
		m.value = p.typ()
		switch {
		case !star:
			x.members = append(x.members, m)
		case x.additional != nil:
			p.add(t.span, "BCP315", "An object type may have at most one additional properties declaration.")
		default:
			x.additional = &m
		}
	})
	x.end = p.tokens[p.pos-1].end
	return x
}

func (p *parser) tupleType() typeExpr {
	x := &tupleType{span: p.tok().span}
	p.pos++
	p.elements("]", func() {
		m := typeMember{span: p.tok().span, decorators: p.decorators()}
		m.value = p.typ()
		x.items = append(x.items, m)
	})
	x.end = p.tokens[p.pos-1].end
	return x
}
