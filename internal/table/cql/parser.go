package cql

import (
	"strconv"
	"strings"
)

// parser turns tokens into a tree. It reads all tokens first: they are small, and a
// choice between forms looks ahead.
type parser struct {
	lex         lexer
	tokens      []token // the last one is tEOF
	pos         int
	lexFailedAt int // index of the token before which lex failed
	depth       int
	markers     []string
	err         error // *SyntaxError, the first one
	stopped     bool
	tooDeep     bool // the error is that of deeper
}

// keepTokens bounds the memory that a parser keeps for the next text.
const keepTokens = 4096

func (p *parser) begin(text string) {
	p.lex = lexer{text: text}
	p.tokens = p.tokens[:0]
	p.pos, p.depth, p.lexFailedAt, p.stopped, p.tooDeep = 0, 0, 0, false, false
	p.markers, p.err = nil, nil
	if len(text) > MaxText {
		p.tokens = append(p.tokens, token{})
		p.fail("Statement of " + strconv.Itoa(len(text)) + " bytes is longer than the maximum of " + strconv.Itoa(MaxText) + " bytes")
		return
	}
	for {
		t := p.lex.next()
		if p.lex.failed != "" && p.lexFailedAt == 0 {
			p.lexFailedAt = len(p.tokens)
		}
		p.tokens = append(p.tokens, t)
		if t.kind == tEOF {
			break
		}
	}
	if p.lex.failed != "" && p.lexFailedAt == 0 {
		p.fail(p.lex.failed)
	}
}

// release returns the parser to the pool.
func (p *parser) release() {
	p.lex.text = ""
	p.markers, p.err = nil, nil
	if cap(p.tokens) > keepTokens {
		p.tokens = nil
	}
	parsers.Put(p)
}

// kind returns the kind of the current token.
func (p *parser) kind() kind { return p.tokens[p.pos].kind }

// peek returns the kind of the token n after the current one.
func (p *parser) peek(n int) kind {
	if p.pos+n >= len(p.tokens) {
		return tEOF
	}
	return p.tokens[p.pos+n].kind
}

func (p *parser) advance() {
	if p.pos < len(p.tokens)-1 {
		p.pos++
	}
}

// accept moves past the current token if it is of a kind.
func (p *parser) accept(k kind) bool {
	if p.kind() != k || p.stopped {
		return false
	}
	p.advance()
	return true
}

// expect moves past the current token, which must be of a kind.
func (p *parser) expect(k kind) bool {
	if p.stopped {
		return false
	}
	if p.kind() != k {
		p.mismatch(k, 0)
		return false
	}
	p.advance()
	return true
}

// expectLooking is expect for rules that have looked one token further.
func (p *parser) expectLooking(k kind) bool {
	if !p.stopped && p.kind() != k {
		p.mismatch(k, 1)
	}
	return p.accept(k)
}

// text returns the text of the current token as it is in the statement.
func (p *parser) text() string {
	t := p.tokens[p.pos]
	return p.lex.text[t.start:t.end]
}

// deeper counts a level of nesting; each call has a call of shallower.
func (p *parser) deeper() bool {
	p.depth++
	if p.depth > MaxDepth && !p.stopped {
		p.tooDeep = true
		p.fail("Statement is nested more than " + strconv.Itoa(MaxDepth) + " levels deep")
	}
	return !p.stopped
}

func (p *parser) shallower() { p.depth-- }

// unquoteString returns what a string literal holds.
func unquoteString(s string) string {
	if strings.HasPrefix(s, "$$") {
		return s[2 : len(s)-2]
	}
	s = s[1 : len(s)-1]
	if strings.IndexByte(s, '\'') >= 0 {
		s = strings.ReplaceAll(s, "''", "'")
	}
	return s
}

// parseStatement parses the whole text.
func (p *parser) parseStatement() Statement {
	s := p.statement()
	for p.accept(tSemicolon) {
	}
	p.expect(tEOF)
	if p.err == nil && p.lex.failed != "" {
		p.fail(p.lex.failed)
	}
	return s
}

func (p *parser) statement() Statement {
	start := p.pos
	switch p.kind() {
	case kSelect:
		return p.parseSelect()
	case kInsert:
		return p.parseInsert()
	case kUpdate:
		return p.parseUpdate()
	case kDelete:
		return p.parseDelete()
	case kBegin:
		return p.parseBatch()
	case kUse:
		p.advance()
		return &Use{Keyspace: p.keyspaceName()}
	case kTruncate:
		p.advance()
		p.accept(kColumnfamily)
		return &Truncate{Table: p.tableName()}
	case kCreate:
		return p.parseCreate()
	case kAlter:
		return p.parseAlter()
	case kDrop:
		return p.parseDrop()
	case kDescribe, kDesc:
		return p.parseDescribe()
	case kGrant, kRevoke:
		return p.parseGrant()
	case kList:
		return p.parseListRoles()
	}
	p.noViable(start, start)
	return nil
}

// isName reports whether a token may be a name of a column, table or keyspace.
func isName(k kind) bool {
	return k == tIdent || k == tQuoted || k >= firstBasic && k < firstReserved
}

// nameText returns the name that the current token is: folded, or as in its quotes.
func (p *parser) nameText() string {
	s := p.text()
	switch p.kind() {
	case tQuoted:
		s = s[1 : len(s)-1]
		if strings.IndexByte(s, '"') >= 0 {
			s = strings.ReplaceAll(s, `""`, `"`)
		}
		return s
	case tEmptyQuoted:
		return ""
	case kVarchar:
		return "varchar"
	}
	return strings.ToLower(s)
}

// name parses a name that may be a keyword of the unreserved groups.
func (p *parser) name() string {
	if p.stopped {
		return ""
	}
	if !isName(p.kind()) {
		p.noViable(p.pos, p.pos)
		return ""
	}
	s := p.nameText()
	p.advance()
	return s
}

// column parses the name of a column, which may be empty for the sake of old tables.
func (p *parser) column() string {
	if p.accept(tEmptyQuoted) {
		return ""
	}
	return p.name()
}

// nameOrMarker parses a name of an object; a marker in its place has an error of its own.
func (p *parser) nameOrMarker(object string) string {
	if p.kind() == tQuestion && !p.stopped {
		p.note("Bind variables cannot be used for " + object + " names")
		p.advance()
		return ""
	}
	return p.name()
}

func (p *parser) keyspaceName() string { return p.nameOrMarker("keyspace") }

// tableName parses [keyspace.]table.
func (p *parser) tableName() Name {
	if k := p.kind(); isName(k) && p.peek(1) != tDot && !followsTable[p.peek(1)] {
		p.noViable(p.pos, p.pos+1)
	}
	return p.qualified("table")
}

// followsTable holds the tokens that may follow the name of a table in some statement.
var followsTable = [kindCount]bool{
	tEOF: true, tSemicolon: true, tParenOpen: true, kWhere: true, kGroup: true, kOrder: true, kPer: true, kLimit: true, kAllow: true,
	kUsing: true, kSet: true, kJson: true, kAs: true, kAdd: true, kAlter: true, kDrop: true, kRename: true, kWith: true, kTo: true,
	kFrom: true, kOf: true, kNorecursive: true, kInsert: true, kUpdate: true, kDelete: true, kApply: true, kPrimary: true,
}

func (p *parser) qualified(object string) Name {
	var n Name
	if p.peek(1) == tDot {
		n.Keyspace = p.nameOrMarker("keyspace")
		p.expect(tDot)
	}
	n.Name = p.nameOrMarker(object)
	return n
}

// typeName parses the name of a user type: not the name of a native type.
func (p *parser) typeName() Name {
	var n Name
	if p.peek(1) == tDot {
		n.Keyspace = p.name()
		p.expect(tDot)
	}
	k := p.kind()
	if k >= firstNative && k < firstReserved && k != kKey && n.Keyspace == "" && !p.stopped {
		p.advance() // such a name can only be that of a keyspace
		p.expect(tDot)
		return n
	}
	if p.stopped || k != tIdent && k != tQuoted && k != kKey && (k < firstBasic || k >= firstNative) {
		p.noViable(p.pos, p.pos)
		return n
	}
	n.Name = p.nameText()
	if k == tIdent && reservedTypes[n.Name] {
		p.note("Invalid (reserved) user type name " + n.Name)
	}
	p.advance()
	return n
}

var reservedTypes = map[string]bool{"byte": true, "complex": true, "enum": true, "interval": true, "macaddr": true, "bitstring": true}

// stringText parses a string literal and returns what it holds.
func (p *parser) stringText() string {
	if p.stopped || p.kind() != tString {
		p.expect(tString)
		return ""
	}
	s := unquoteString(p.text())
	p.advance()
	return s
}

// ifExists parses an optional IF EXISTS.
func (p *parser) ifExists() bool {
	if p.kind() != kIf || p.stopped {
		return false
	}
	p.advance()
	return p.expect(kExists)
}

// ifNotExists parses an optional IF NOT EXISTS.
func (p *parser) ifNotExists() bool {
	if p.kind() != kIf || p.stopped {
		return false
	}
	p.advance()
	return p.expect(kNot) && p.expect(kExists)
}

// parseType parses a type.
func (p *parser) parseType() *Type {
	defer p.shallower()
	if !p.deeper() {
		return nil
	}
	k := p.kind()
	t := &Type{}
	next := p.peek(1)
	switch {
	case next == tDot && isName(k):
	case k >= firstNative && k < firstExtra:
		t.Name = nativeName(k)
		p.advance()
		return t
	case next == tLess && k == kFrozen:
		return p.frozenType()
	case next == tLess && k == kList:
		return p.collectionType(ListType, 1)
	case k == kSet:
		return p.collectionType(SetType, 1)
	case next == tLess && k == kMap:
		return p.collectionType(MapType, 2)
	case next == tLess && k == kTuple:
		return p.collectionType(TupleType, 0)
	case next == tLess && k == tIdent && strings.EqualFold(p.text(), "vector"):
		return p.vectorType()
	case k == tString:
		t.Kind, t.Name = CustomType, p.stringText()
		return t
	}
	t.Kind = UserType
	n := p.typeName()
	t.Keyspace, t.Name = n.Keyspace, n.Name
	return t
}

// nativeName returns the name of the native type that a keyword names.
func nativeName(k kind) string {
	if k == kVarchar {
		return "text"
	}
	return strings.ToLower(strings.TrimPrefix(kindNames[k], "K_"))
}

func (p *parser) frozenType() *Type {
	p.advance()
	p.expect(tLess)
	t := p.parseType()
	if t == nil {
		return nil
	}
	switch t.Kind {
	case NativeType:
		p.note("frozen<> is only allowed on collections, tuples, and user-defined types (got " + t.Name + ")")
	case CustomType:
		p.note("frozen<> is only allowed on collections, tuples, and user-defined types (got '" + t.Name + "')")
	}
	t.Frozen = true
	p.expect(tGreater)
	return t
}

// collectionType parses what has n types between < and >; 0 means one or more.
func (p *parser) collectionType(k TypeKind, n int) *Type {
	t := &Type{Kind: k}
	p.advance()
	p.expect(tLess)
	for !p.stopped {
		t.Elements = append(t.Elements, p.parseType())
		if n == 0 && !p.accept(tComma) || n > 0 && len(t.Elements) == n {
			break
		}
		if n > 0 {
			p.expect(tComma)
		}
	}
	p.expectLooking(tGreater)
	return t
}

// vectorType parses vector<type, dimension>, which Apache Cassandra has from 5.0.
func (p *parser) vectorType() *Type {
	t := &Type{Kind: VectorType}
	p.advance()
	p.expect(tLess)
	t.Elements = []*Type{p.parseType()}
	p.expect(tComma)
	if p.kind() == tInteger && !p.stopped {
		n, err := strconv.Atoi(p.text())
		if err != nil || n <= 0 {
			p.fail("vectors may only have positive dimensions; given " + p.text())
		}
		t.Dimension = n
	}
	p.expect(tInteger)
	p.expect(tGreater)
	return t
}
