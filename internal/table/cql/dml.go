package cql

func (p *parser) parseSelect() *Select {
	s := &Select{}
	p.advance()
	if p.kind() == kJson && p.modifies(p.peek(1)) {
		s.JSON = true
		p.advance()
	}
	if p.kind() == kDistinct && p.modifies(p.peek(1)) {
		if after := p.peek(2); isName(p.peek(1)) && !followsColumn[after] && after != tEOF {
			p.noViable(p.pos, p.pos+1)
		}
		s.Distinct = true
		p.advance()
	}
	if k := p.kind(); (k == kDistinct || k == kJson) && !followsColumn[p.peek(1)] {
		p.noViable(p.pos, p.pos+1)
	}
	s.Selectors = p.selectors()
	switch {
	case p.stopped:
	case p.kind() == tBracketOpen:
		p.mismatch(kFrom, 2)
	case p.peek(1) == tParenOpen:
		p.expectLooking(kFrom)
	default:
		p.expect(kFrom)
	}
	s.From = p.tableName()
	if p.accept(kWhere) {
		s.Where = p.parseWhere()
	}
	if p.accept(kGroup) {
		p.expect(kBy)
		for ok := true; ok; ok = p.accept(tComma) {
			s.GroupBy = append(s.GroupBy, p.selected())
		}
	}
	if p.accept(kOrder) {
		p.expect(kBy)
		for ok := true; ok; ok = p.accept(tComma) {
			o := Ordering{Column: p.column()}
			if !p.accept(kAsc) {
				o.Descending = p.accept(kDesc)
			}
			s.OrderBy = append(s.OrderBy, o)
		}
	}
	if p.accept(kPer) {
		p.expect(kPartition)
		p.expect(kLimit)
		s.PerPartitionLimit = p.integer()
	}
	if p.accept(kLimit) {
		s.Limit = p.integer()
	}
	if p.accept(kAllow) {
		p.expect(kFiltering)
		s.AllowFiltering = true
	}
	return s
}

// followsColumn holds the tokens that may follow a selected column.
var followsColumn = [kindCount]bool{
	tComma: true, tDot: true, tBracketOpen: true, tParenOpen: true, tPlus: true, tMinus: true, tStar: true, tSlash: true, tPercent: true,
	kFrom: true, kAs: true,
}

// modifies reports whether JSON or DISTINCT with this token after it is the keyword:
// as the name of a column something else follows.
func (p *parser) modifies(next kind) bool {
	switch next {
	case kAs:
		return !isName(p.peek(2))
	case tStar:
		return p.peek(2) == kFrom
	case tMinus:
		return true
	}
	return startsValue(next)
}

// integer parses a limit, a timestamp or a time to live: an integer or a marker.
func (p *parser) integer() Expr {
	switch p.kind() {
	case tInteger:
		l := &Literal{Kind: IntegerLiteral, Text: p.text()}
		p.advance()
		return l
	case tQuestion, tColon:
		return p.marker()
	}
	p.noViable(p.pos, p.pos)
	return nil
}

// marker parses ? or :name.
func (p *parser) marker() *Marker {
	m := &Marker{Index: len(p.markers)}
	if p.accept(tColon) {
		m.Name = p.name()
	} else {
		p.advance()
	}
	p.markers = append(p.markers, m.Name)
	return m
}

func (p *parser) parseInsert() *Insert {
	s := &Insert{}
	p.advance()
	p.expect(kInto)
	s.Table = p.tableName()
	switch {
	case p.stopped:
	case p.kind() == tParenOpen:
		p.advance()
		for ok := true; ok; ok = p.accept(tComma) {
			s.Columns = append(s.Columns, p.column())
		}
		p.expect(tParenClose)
		p.expect(kValues)
		p.expect(tParenOpen)
		s.Values = make([]Expr, 0, len(s.Columns))
		for ok := true; ok; ok = p.accept(tComma) {
			s.Values = append(s.Values, p.term())
		}
		p.expect(tParenClose)
	case p.kind() == kJson:
		p.advance()
		p.insertJSON(s)
	default:
		p.noViable(p.pos, p.pos)
	}
	s.IfNotExists = p.ifNotExists()
	s.Using = p.using(true)
	return s
}

func (p *parser) insertJSON(s *Insert) {
	switch p.kind() {
	case tString:
		s.JSON = &Literal{Kind: StringLiteral, Text: p.stringText()}
	case tQuestion, tColon:
		s.JSON = p.marker()
	default:
		p.noViable(p.pos, p.pos)
	}
	if p.accept(kDefault) {
		switch {
		case p.accept(kUnset):
			s.DefaultUnset = true
		case p.accept(kNull):
		default:
			p.noViable(p.pos, p.pos)
		}
	}
}

// using parses an optional USING clause. DELETE takes no TTL.
func (p *parser) using(ttl bool) Using {
	var u Using
	if !p.accept(kUsing) {
		return u
	}
	if !ttl {
		p.expect(kTimestamp)
		u.Timestamp = p.integer()
		return u
	}
	for ok := true; ok && !p.stopped; ok = p.accept(kAnd) {
		switch {
		case p.accept(kTimestamp):
			u.Timestamp = p.integer()
		case p.accept(kTtl):
			u.TTL = p.integer()
		default:
			p.noViable(p.pos, p.pos)
		}
	}
	return u
}

func (p *parser) parseUpdate() *Update {
	s := &Update{}
	p.advance()
	s.Table = p.tableName()
	s.Using = p.using(true)
	p.expect(kSet)
	for ok := true; ok && !p.stopped; ok = p.accept(tComma) {
		p.assignment(s)
	}
	p.expect(kWhere)
	s.Where = p.parseWhere()
	s.IfExists, s.Conditions = p.conditions()
	return s
}

// assignment parses one assignment. Two of the same column go together only if both add
// to it or take from it, or are about elements or different fields.
func (p *parser) assignment(s *Update) {
	start := p.pos
	a := Assignment{Target: Target{Column: p.column()}}
	switch {
	case p.accept(tEqual):
		p.assigned(&a)
	case p.accept(tPlusEqual):
		a.Kind, a.Value = Add, p.term()
	case p.accept(tMinusEqual):
		a.Kind, a.Value = Subtract, p.term()
	case p.accept(tBracketOpen):
		a.Target.Element = p.term()
		p.expect(tBracketClose)
		p.expect(tEqual)
		a.Value = p.term()
	case p.accept(tDot):
		a.Target.Field = p.name()
		p.expect(tEqual)
		a.Value = p.term()
	default:
		p.noViable(max(start, p.pos), p.pos)
	}
	for i := range s.Assignments {
		if b := &s.Assignments[i]; b.Target.Column == a.Target.Column && !compatible(b, &a) {
			p.note("Multiple incompatible setting of column " + Quote(a.Target.Column))
		}
	}
	s.Assignments = append(s.Assignments, a)
}

// sets reports whether an assignment replaces a whole column.
func (a *Assignment) sets() bool {
	return a.Kind == Set && a.Target.Element == nil && a.Target.Field == ""
}

// compatible reports whether two assignments of one column may be in one statement.
func compatible(a, b *Assignment) bool {
	switch {
	case a.sets() || b.sets():
		return false
	case a.Target.Field != "":
		return a.Target.Field != b.Target.Field
	}
	return true
}

// assigned parses what follows column =.
func (p *parser) assigned(a *Assignment) {
	k := p.kind()
	next := p.peek(1)
	if (isName(k) || k == tEmptyQuoted) && (next == tPlus || next == tMinus || next == tInteger) {
		column := p.column()
		form := ""
		switch {
		case p.accept(tPlus):
			a.Kind, form = Add, "X = X +<value>"
			a.Value = p.term()
		case p.accept(tMinus):
			a.Kind, form = Subtract, "X = X -<value>"
			a.Value = p.term()
		default: // X = X -3: the lexer takes the sign for that of the number
			text := p.text()
			form = "X = X + <value>"
			if text[0] == '-' {
				form = "X = X - <value>"
			}
			a.Kind, a.Value = Add, &Literal{Kind: IntegerLiteral, Text: text}
			p.advance()
		}
		if column != a.Target.Column {
			p.note("Only expressions of the form " + form + " are supported.")
		}
		return
	}
	if (isName(k) || k == tEmptyQuoted) && next != tParenOpen && next != tDot {
		p.noViable(p.pos, p.pos+1)
		return
	}
	a.Value = p.term()
	// The sum a + b of two terms is one term, so that a plus here is before a name.
	if p.kind() == tPlus && !p.stopped {
		p.advance()
		a.Kind = Prepend
		if p.column() != a.Target.Column {
			p.note("Only expressions of the form X = <value> + X are supported.")
		}
	}
}

func (p *parser) parseDelete() *Delete {
	s := &Delete{}
	p.advance()
	if k := p.kind(); isName(k) || k == tEmptyQuoted {
		for ok := true; ok && !p.stopped; ok = p.accept(tComma) {
			if k := p.peek(1); k != tComma && k != tDot && k != tBracketOpen && k != kFrom && isName(p.kind()) {
				p.noViable(p.pos, p.pos+1)
			}
			t := Target{Column: p.column()}
			if p.accept(tBracketOpen) {
				t.Element = p.term()
				p.expect(tBracketClose)
			} else if p.accept(tDot) {
				t.Field = p.name()
			}
			s.Selection = append(s.Selection, t)
		}
	}
	p.expect(kFrom)
	s.Table = p.tableName()
	s.Using = p.using(false)
	p.expect(kWhere)
	s.Where = p.parseWhere()
	s.IfExists, s.Conditions = p.conditions()
	return s
}

// conditions parses an optional IF clause of UPDATE and DELETE.
func (p *parser) conditions() (exists bool, conditions []Condition) {
	if !p.accept(kIf) {
		return false, nil
	}
	if p.kind() == kExists {
		switch p.peek(1) {
		case tEOF, tSemicolon, kInsert, kUpdate, kDelete, kApply:
			p.advance()
			return true, nil
		case tEqual, tNotEqual, tLess, tLessEqual, tGreater, tGreaterEqual, kIn, tBracketOpen, tDot:
		default:
			p.noViable(p.pos, p.pos+1)
			return false, nil
		}
	}
	for ok := true; ok && !p.stopped; ok = p.accept(kAnd) {
		conditions = append(conditions, p.condition())
	}
	return false, conditions
}

func (p *parser) condition() Condition {
	c := Condition{Target: Target{Column: p.column()}}
	if p.accept(tBracketOpen) {
		c.Target.Element = p.term()
		p.expect(tBracketClose)
	} else if p.accept(tDot) {
		c.Target.Field = p.name()
	}
	if p.accept(kIn) {
		c.Operator = In
		c.Value = p.inValues(p.pos)
		return c
	}
	if c.Target.Element == nil && c.Target.Field == "" && p.accept(kContains) {
		c.Operator = Contains
		if p.accept(kKey) {
			c.Operator = ContainsKey
		}
	} else {
		c.Operator = p.comparison()
	}
	c.Value = p.term()
	return c
}

// comparison parses one of = != < <= > >=.
func (p *parser) comparison() Operator {
	o, ok := comparisonOf(p.kind())
	if !ok || p.stopped {
		p.noViable(p.pos, p.pos)
		return Equal
	}
	p.advance()
	return o
}

func comparisonOf(k kind) (Operator, bool) {
	switch k {
	case tEqual:
		return Equal, true
	case tNotEqual:
		return NotEqual, true
	case tLess:
		return Less, true
	case tLessEqual:
		return LessOrEqual, true
	case tGreater:
		return Greater, true
	case tGreaterEqual:
		return GreaterOrEqual, true
	}
	return Equal, false
}

// inValues parses what follows IN: a marker, or values in parentheses, maybe none. A
// choice that fails here began at the token start.
func (p *parser) inValues(start int) Expr {
	switch p.kind() {
	case tQuestion, tColon:
		return p.marker()
	case tParenOpen:
		p.advance()
		t := &TupleLiteral{}
		if p.accept(tParenClose) {
			return t
		}
		for ok := true; ok && !p.stopped; ok = p.accept(tComma) {
			t.Elements = append(t.Elements, p.term())
		}
		p.expectLooking(tParenClose)
		return t
	}
	p.noViable(start, p.pos)
	return nil
}

func (p *parser) parseBatch() *Batch {
	s := &Batch{}
	p.advance()
	if p.accept(kUnlogged) {
		s.Kind = Unlogged
	} else if p.accept(kCounter) {
		s.Kind = Counter
	}
	p.expect(kBatch)
	s.Using = p.using(true)
	for !p.stopped {
		var inner Statement
		switch p.kind() {
		case kInsert:
			inner = p.parseInsert()
		case kUpdate:
			inner = p.parseUpdate()
		case kDelete:
			inner = p.parseDelete()
		}
		if inner == nil {
			break
		}
		s.Statements = append(s.Statements, inner)
		p.accept(tSemicolon)
	}
	p.expect(kApply)
	p.expect(kBatch)
	return s
}

// parseWhere parses the relations of a WHERE clause.
func (p *parser) parseWhere() []Relation {
	var where []Relation
	for ok := true; ok && !p.stopped; ok = p.accept(kAnd) {
		if where == nil {
			where = make([]Relation, 0, 2)
		}
		where = append(where, p.relation())
	}
	return where
}

func (p *parser) relation() Relation {
	defer p.shallower()
	if !p.deeper() {
		return Relation{}
	}
	k := p.kind()
	switch {
	case k == tExpr:
		p.advance()
		r := Relation{Kind: OnIndex, Columns: []string{p.nameOrMarker("index")}}
		p.expect(tComma)
		r.Value = p.term()
		p.expect(tParenClose)
		return r
	case k == kToken:
		p.advance()
		r := Relation{Kind: OnToken, Columns: p.columnTuple()}
		r.Operator = p.comparison()
		r.Value = p.term()
		return r
	case p.isFeedFunction():
		return p.feedRelation()
	case k == tParenOpen:
		if p.isColumnTuple() {
			return p.tupleRelation()
		}
		p.advance()
		r := p.relation()
		p.expectLooking(tParenClose)
		return r
	}
	return p.columnRelation()
}

// isColumnTuple reports whether names in parentheses begin at the current token.
func (p *parser) isColumnTuple() bool {
	k := p.peek(1)
	next := p.peek(2)
	return (isName(k) || k == tEmptyQuoted) && (next == tComma || next == tParenClose)
}

func (p *parser) columnTuple() []string {
	p.expect(tParenOpen)
	var columns []string
	for ok := true; ok && !p.stopped; ok = p.accept(tComma) {
		columns = append(columns, p.column())
	}
	p.expect(tParenClose)
	return columns
}

func (p *parser) columnRelation() Relation {
	start := p.pos
	r := Relation{Columns: []string{p.column()}}
	switch k := p.kind(); {
	case p.stopped:
	case p.accept(tBracketOpen):
		r.Kind = OnElement
		r.Element = p.term()
		p.expect(tBracketClose)
		r.Operator = p.comparison()
		r.Value = p.term()
	case k == kIn:
		p.advance()
		r.Operator = In
		r.Value = p.inValues(start)
	case p.accept(kContains):
		r.Operator = Contains
		if p.accept(kKey) {
			r.Operator = ContainsKey
		}
		r.Value = p.term()
	case p.accept(kLike):
		r.Operator = Like
		r.Value = p.term()
	case p.accept(kIs):
		p.expect(kNot)
		p.expect(kNull)
		r.Operator = IsNotNull
		r.Value = &Null{}
	default:
		if _, ok := comparisonOf(k); !ok {
			p.noViable(start, p.pos)
			return r
		}
		r.Operator = p.comparison()
		r.Value = p.term()
	}
	return r
}

func (p *parser) tupleRelation() Relation {
	r := Relation{Kind: OnTuple, Columns: p.columnTuple()}
	if p.accept(kIn) {
		r.Operator = In
		r.Value = p.tupleInValues()
		return r
	}
	operator := p.pos
	r.Operator = p.comparison()
	switch p.kind() {
	case tParenOpen:
		r.Value = p.tupleTerm()
	case tQuestion, tColon:
		r.Value = p.marker()
	default:
		p.noViable(operator, p.pos)
	}
	return r
}

// tupleInValues parses what follows (a, b) IN: a marker, nothing, tuples or markers.
func (p *parser) tupleInValues() Expr {
	start := p.pos
	if k := p.kind(); k == tQuestion || k == tColon {
		return p.marker()
	}
	t := &TupleLiteral{}
	if !p.expect(tParenOpen) || p.accept(tParenClose) {
		return t
	}
	if k := p.kind(); k != tParenOpen && k != tQuestion && k != tColon {
		p.noViable(start, p.pos)
	}
	markers := p.kind() != tParenOpen // The first one decides about all of them.
	for ok := true; ok && !p.stopped; ok = p.accept(tComma) {
		switch k := p.kind(); {
		case !markers && k == tParenOpen:
			t.Elements = append(t.Elements, p.tupleTerm())
		case !markers:
			p.mismatch(tParenOpen, 0)
		case k == tQuestion || k == tColon:
			t.Elements = append(t.Elements, p.marker())
		default:
			p.noViable(p.pos, p.pos)
		}
	}
	p.expect(tParenClose)
	return t
}
