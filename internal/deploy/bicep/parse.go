package bicep

// nestingMax is the depth of brackets, operators and types that a source may have.
const nestingMax = 100

// parser reads declarations. After a syntax error it passes what is left of
// the element or of the declaration and reads on, so that what came before the
// error is checked too.
type parser struct {
	*report
	tokens []token
	pos    int
	bad    bool // the element being read has an error
	depth  int
	params bool // a .bicepparam file
}

// parse reads a whole source.
func parse(r *report, params bool) []*declaration {
	p := &parser{report: r, params: params}
	p.tokens = lex(r)
	var list []*declaration
	for {
		for p.tok().kind == kNewLine {
			p.pos++
		}
		if p.tok().kind == kEOF {
			return list
		}
		before := len(p.findings)
		if d := p.declaration(); d != nil {
			d.broken = len(p.findings) > before
			list = append(list, d)
		}
		if !p.bad && p.tok().kind != kNewLine && p.tok().kind != kEOF {
			p.fail(p.tok().span, "BCP019", "Expected a new line character at this location.")
		}
		if p.bad {
			if len(list) > 0 {
				list[len(list)-1].broken = true
			}
			p.skip("")
		}
		p.bad = false
		p.depth = 0
	}
}

func (p *parser) tok() token { return p.tokens[p.pos] }

// after returns the nth token after the current one.
func (p *parser) after(n int) token {
	if p.pos+n < len(p.tokens) {
		return p.tokens[p.pos+n]
	}
	return p.tokens[len(p.tokens)-1]
}

// fail records a syntax error, unless the element has one.
func (p *parser) fail(s span, code, format string, args ...any) {
	if !p.bad {
		p.add(s, code, format, args...)
	}
	p.bad = true
}

// is reports whether the current token is this operator or bracket.
func (p *parser) is(text string) bool {
	t := p.tok()
	return t.kind == kPunct && t.text == text
}

func (p *parser) isWord(text string) bool {
	t := p.tok()
	return t.kind == kIdent && t.text == text
}

// take passes the current token if it is this operator or bracket.
func (p *parser) take(text string) bool {
	if p.is(text) {
		p.pos++
		return true
	}
	return false
}

// expect passes this operator or bracket, or fails.
func (p *parser) expect(text string) span {
	t := p.tok()
	if !p.bad && !p.take(text) {
		p.fail(t.span, "BCP018", "Expected the %q character at this location.", text)
	}
	return t.span
}

// enter counts a level of nesting; leave undoes it.
func (p *parser) enter() bool {
	p.depth++
	if p.depth > nestingMax {
		p.fail(p.tok().span, CodeLimit, "The source is nested deeper than %d levels.", nestingMax)
		return false
	}
	return true
}

func (p *parser) leave() { p.depth-- }

// skip passes tokens up to a line end or the closing bracket, brackets that
// open on the way included. A bracket that is never closed ends before the next
// line that begins with a declaration.
func (p *parser) skip(closing string) {
	open := 0
	for ; p.tok().kind != kEOF; p.pos++ {
		t := p.tok()
		if t.kind == kNewLine && (open == 0 || closing == "" && p.declarationFollows()) {
			return
		}
		if t.kind != kPunct {
			continue
		}
		switch t.text {
		case "{", "(", "[", "[?":
			open++
		case "}", ")", "]":
			if open == 0 && (closing != "" && t.text == closing) {
				return
			}
			open = max(open-1, 0)
		}
	}
}

// declarationFollows reports whether the line after a line end begins with a
// declaration, without blanks before it.
func (p *parser) declarationFollows() bool {
	end, word, name := p.tok(), p.after(1), p.after(2)
	return word.start == end.end && word.kind == kIdent && p.statement(word.text) && (name.kind == kIdent || name.kind == kString)
}

// newLines passes line ends and reports whether there were any.
func (p *parser) newLines() bool {
	found := false
	for p.tok().kind == kNewLine {
		p.pos++
		found = true
	}
	return found
}

// identifier reads a name, or fails with code.
func (p *parser) identifier(code, message string) ident {
	t := p.tok()
	if p.bad || t.kind != kIdent {
		p.fail(t.span, code, "%s", message)
		return ident{span: t.span}
	}
	p.pos++
	return ident{t.span, t.text}
}

// elements reads the members between brackets, each with read: members end at
// a line end or at a comma, and a comma needs a member on its line.
func (p *parser) elements(closing string, read func()) {
	p.newLines()
	for !p.is(closing) {
		t := p.tok()
		if t.kind == kEOF {
			p.fail(t.span, "BCP018", "Expected the %q character at this location.", closing)
			return
		}
		p.bad = false
		read()
		if p.bad {
			p.skip(closing)
			p.newLines()
			// Without anything passed, the loop would not end.
			if p.tok().span == t.span && !p.is(closing) && p.tok().kind != kEOF {
				p.pos++
			}
			continue
		}
		switch {
		case p.is(","):
			p.pos++
			if p.tok().kind == kNewLine {
				p.fail(p.tok().span, "BCP238", "Unexpected new line character after a comma.")
				p.newLines()
			}
		case p.newLines(), p.is(closing), p.tok().kind == kEOF:
		default:
			p.fail(p.tok().span, "BCP236", "Expected a new line or comma character at this location.")
			p.skip(closing)
			p.newLines()
		}
	}
	p.bad = false
	p.pos++
}

// decorators reads lines that begin with @.
func (p *parser) decorators() []*decorator {
	var list []*decorator
	for p.is("@") {
		d := &decorator{span: p.tok().span}
		p.pos++
		name := p.identifier("BCP123", "Expected a namespace or decorator name at this location.")
		var base expr
		for !p.bad && p.take(".") {
			base = &nameExpr{name}
			name = p.identifier("BCP020", "Expected a function or property name at this location.")
		}
		if !p.bad && !p.is("(") {
			p.fail(name.span, "BCP152", "Function %q cannot be used as a decorator without parentheses.", name.name)
		}
		if !p.bad {
			d.call = p.call(base, name, d.start+1)
			d.end = d.call.end
			if d.call.base == nil {
				d.call.start = name.start
			}
		}
		if !p.bad && p.tok().kind != kNewLine && p.tok().kind != kEOF {
			p.fail(p.tok().span, "BCP019", "Expected a new line character at this location.")
		}
		if p.bad {
			p.skip("")
			p.bad = false
		}
		list = append(list, d)
		p.newLines()
	}
	return list
}

// declaration reads one statement.
func (p *parser) declaration() *declaration {
	decorators := p.decorators()
	t := p.tok()
	d := &declaration{span: t.span, keyword: t.text, keywordAt: t.span, decorators: decorators}
	if len(decorators) > 0 {
		d.start = decorators[0].start
	}
	if t.kind != kIdent || !p.statement(t.text) {
		if len(decorators) > 0 {
			p.fail(decorators[0].span, "BCP132", "Expected a declaration after the decorator.")
		} else if p.params {
			p.fail(t.span, "BCP337", "This declaration type is not valid for a Bicep Parameters file. Supported declarations: \"using\", \"extends\", \"param\", \"var\", \"type\", \"import\".")
		} else {
			p.fail(t.span, "BCP007", "This declaration type is not recognized. Specify a metadata, parameter, variable, resource, or output declaration.")
		}
		return nil
	}
	p.pos++
	switch t.text {
	case "targetScope":
		p.assigned(d)
	case "metadata":
		d.name = p.identifier("BCP216", "Expected a metadata identifier at this location.")
		p.assigned(d)
	case "param":
		p.parameter(d)
	case "var":
		p.variable(d)
	case "type":
		d.name = p.identifier("BCP278", "Expected a type identifier at this location.")
		p.expect("=")
		d.typ = p.typ()
	case "func":
		p.function(d)
	case "resource", "module":
		p.resource(d)
	case "output":
		d.name = p.identifier("BCP016", "Expected an output identifier at this location.")
		d.typ = p.typ()
		p.assigned(d)
	case "import":
		p.imports(d)
	case "using":
		if p.isWord("none") {
			p.pos++
			d.none = true
		} else {
			d.path = p.pathString("BCP258", "Expected a file path string.")
		}
	case "assert":
		p.fail(t.span, "BCP349", "Using an assert declaration requires enabling EXPERIMENTAL feature \"Assertions\".")
	case "test":
		p.fail(t.span, CodeUnsupported, "Test declarations are not read here.")
	case "extension":
		p.fail(t.span, CodeUnsupported, "Extensions are not read here: a template of this database needs none.")
	case "extends":
		p.fail(t.span, CodeUnsupported, "A parameters file that extends another one is not read here.")
	}
	d.end = p.tokens[max(p.pos-1, 0)].end
	d.complete(p.params)
	return d
}

// complete fills what a syntax error left out, so that nothing is nil later.
func (d *declaration) complete(params bool) {
	at := span{d.end, d.end}
	switch d.keyword {
	case "metadata", "var", "func", "output", "resource", "module", "targetScope":
		if d.value == nil {
			d.value = &skipped{at}
		}
	case "param":
		if d.value == nil && params {
			d.value = &skipped{at}
		}
	}
	if d.typ == nil && (d.keyword == "type" || d.keyword == "output" || d.keyword == "param" && !params) {
		d.typ = &skippedType{at}
	}
	if d.result == nil && d.keyword == "func" {
		d.result = &skippedType{at}
	}
	if d.path == nil && (d.keyword == "resource" || d.keyword == "module") {
		d.path = &skipped{at}
	}
}

// statement reports whether word begins a declaration in this kind of file.
func (p *parser) statement(word string) bool {
	switch word {
	case "param", "var", "import", "type":
		return true
	case "using", "extends":
		return p.params
	case "targetScope", "metadata", "func", "resource", "module", "output", "assert", "test", "extension":
		return !p.params
	}
	return false
}

// assigned reads "= value".
func (p *parser) assigned(d *declaration) {
	p.expect("=")
	if !p.bad {
		d.value = p.value()
	}
}

// value reads an expression or a loop.
func (p *parser) value() expr {
	if p.is("[") && p.loopFollows() {
		return p.loop(false)
	}
	return p.expression()
}

func (p *parser) parameter(d *declaration) {
	d.name = p.identifier("BCP013", "Expected a parameter identifier at this location.")
	if p.params {
		p.assigned(d)
		return
	}
	d.typ = p.typ()
	switch {
	case p.bad, p.tok().kind == kNewLine, p.tok().kind == kEOF:
	case p.is("="):
		p.assigned(d)
	default:
		p.fail(p.tok().span, "BCP008", "Expected the \"=\" token, or a newline at this location.")
	}
}

func (p *parser) variable(d *declaration) {
	d.name = p.identifier("BCP015", "Expected a variable identifier at this location.")
	if !p.bad && !p.is("=") && p.tok().kind != kNewLine && p.tok().kind != kEOF {
		// "var a-b" has a type that begins with a minus.
		d.typ = p.typ()
	}
	p.assigned(d)
}

func (p *parser) function(d *declaration) {
	d.name = p.identifier("BCP015", "Expected a variable identifier at this location.")
	if p.bad {
		return
	}
	p.expect("(")
	p.newLines()
	for !p.bad && !p.is(")") {
		name := p.identifier("BCP015", "Expected a variable identifier at this location.")
		typ := p.typ()
		d.parameters = append(d.parameters, functionParameter{name, typ})
		p.newLines()
		if p.is(")") {
			break
		}
		if !p.bad && !p.take(",") {
			p.fail(p.tok().span, "BCP237", "Expected a comma character at this location.")
		}
		p.newLines()
	}
	p.expect(")")
	d.result = p.typ()
	p.expect("=>")
	p.newLines()
	if !p.bad {
		d.value = p.expression()
	}
}

// resource reads a resource or a module, at the top or nested.
func (p *parser) resource(d *declaration) {
	if d.keyword == "resource" {
		d.name = p.identifier("BCP017", "Expected a resource identifier at this location.")
		d.path = p.pathString("BCP068", "Expected a resource type string. Specify a valid resource type of format \"<type-name>@<apiVersion>\".")
		if p.isWord("existing") {
			p.pos++
			d.existing = true
		}
	} else {
		d.name = p.identifier("BCP096", "Expected a module identifier at this location.")
		d.path = p.pathString("BCP097", "Expected a module path string. This should be a relative path to another bicep file, e.g. 'myModule.bicep' or '../parent/myModule.bicep'")
	}
	p.expect("=")
	if p.bad {
		return
	}
	for n := 0; ; n++ {
		if t := p.after(n); t.kind == kIdent && t.text == "if" {
			p.pos += n
			break
		} else if t.kind != kNewLine {
			break
		}
	}
	d.value = p.body()
}

// body reads an object, a condition or a loop.
func (p *parser) body() expr {
	t := p.tok()
	switch {
	case p.bad:
		return &skipped{t.span}
	case p.isWord("if"):
		p.pos++
		open := p.expect("(")
		condition := p.expression()
		p.expect(")")
		x := &ifExpr{span: t.span, condition: &parenExpr{open.to(condition.at()), condition}}
		if !p.bad && !p.continues("{") {
			p.fail(p.tok().span, "BCP018", "Expected the \"{\" character at this location.")
		}
		x.body = p.body()
		x.end = x.body.at().end
		return x
	case p.is("{"):
		return p.object(true)
	case p.is("["):
		return p.loop(true)
	}
	p.fail(t.span, "BCP118", "Expected the \"{\" character, the \"[\" character, or the \"if\" keyword at this location.")
	return &skipped{t.span}
}

func (p *parser) pathString(code, message string) expr {
	t := p.tok()
	if p.bad || t.kind != kString {
		p.fail(t.span, code, "%s", message)
		return &skipped{t.span}
	}
	return p.stringValue()
}

// imports reads "{ a, b as c } from 'f'" and "* as n from 'f'".
func (p *parser) imports(d *declaration) {
	switch {
	case p.tok().kind == kString:
		d.path = p.stringValue()
		return
	case p.take("*"):
		p.word("as", "BCP012")
		d.wildcard = p.identifier("BCP358", "This declaration is missing a template file path reference.")
	case p.take("{"):
		p.elements("}", func() {
			s := importedSymbol{at: p.tok().span}
			if t := p.tok(); t.kind == kString && t.last {
				p.pos++
				s.original = t.text
			} else {
				s.name = p.identifier("BCP357", "An exported symbol name was expected here.")
				s.original = s.name.name
			}
			if p.isWord("as") {
				p.pos++
				s.name = p.identifier("BCP278", "Expected a type identifier at this location.")
			} else if s.name.name == "" {
				p.fail(s.at, "BCP377", "An imported symbol whose name is no identifier needs a name: add \"as name\".")
			}
			d.symbols = append(d.symbols, s)
		})
	default:
		p.fail(p.tok().span, "BCP356", "A list of names in braces or \"* as name\" was expected here.")
		return
	}
	p.word("from", "BCP012")
	d.path = p.pathString("BCP097", "Expected a module path string. This should be a relative path to another bicep file, e.g. 'myModule.bicep' or '../parent/myModule.bicep'")
}

// word passes a word of the language, or fails.
func (p *parser) word(text, code string) {
	if p.bad || !p.isWord(text) {
		p.fail(p.tok().span, code, "Expected the %q keyword at this location.", text)
		return
	}
	p.pos++
}
