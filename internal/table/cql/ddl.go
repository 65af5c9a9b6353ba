package cql

import "strconv"

func (p *parser) parseCreate() Statement {
	start := p.pos
	p.advance()
	switch p.kind() {
	case kKeyspace:
		p.advance()
		s := &CreateKeyspace{IfNotExists: p.ifNotExists(), Keyspace: p.keyspaceName()}
		p.expect(kWith)
		s.Properties = p.properties()
		return s
	case kColumnfamily:
		p.advance()
		return p.createTable()
	case kType:
		p.advance()
		return p.createType()
	case kCustom, kIndex:
		return p.createIndex()
	case kMaterialized:
		p.advance()
		p.expect(kView)
		return p.createView()
	case kTrigger:
		p.advance()
		s := &CreateTrigger{IfNotExists: p.ifNotExists(), Trigger: p.name()}
		p.expect(kOn)
		s.Table = p.tableName()
		p.expect(kUsing)
		s.Class = p.stringText()
		return s
	case kOr:
		if k := p.peek(2); p.peek(1) == kReplace && (k == kFunction || k == kAggregate) {
			p.advance()
			p.advance()
			return p.createFunctionOrAggregate(true)
		}
		if p.peek(1) == kReplace {
			p.noViable(start, p.pos+2)
			return nil
		}
		p.noViable(start, p.pos+1)
		return nil
	case kFunction, kAggregate:
		return p.createFunctionOrAggregate(false)
	case kUser, kRole:
		return p.role("CREATE")
	}
	p.noViable(start, p.pos)
	return nil
}

func (p *parser) createTable() *CreateTable {
	s := &CreateTable{IfNotExists: p.ifNotExists(), Table: p.tableName()}
	p.expect(tParenOpen)
	p.tableElement(s)
	for p.accept(tComma) {
		if p.kind() != tParenClose && p.kind() != tComma {
			p.tableElement(s)
		}
	}
	p.expect(tParenClose)
	if p.accept(kWith) {
		s.Properties, s.Order, s.CompactStorage = p.tableProperties()
	}
	return s
}

// tableElement parses a column, or a PRIMARY KEY clause.
func (p *parser) tableElement(s *CreateTable) {
	if p.kind() == kPrimary {
		s.Keys = append(s.Keys, p.primaryKey())
		return
	}
	c := ColumnDefinition{Name: p.name(), Type: p.parseType()}
	c.Static = p.accept(kStatic)
	if p.accept(kPrimary) {
		p.expect(kKey)
		c.Primary = true
	}
	s.Columns = append(s.Columns, c)
}

func (p *parser) primaryKey() PrimaryKey {
	var key PrimaryKey
	p.expect(kPrimary)
	p.expect(kKey)
	p.expect(tParenOpen)
	if p.accept(tParenOpen) {
		for ok := true; ok && !p.stopped; ok = p.accept(tComma) {
			key.Partition = append(key.Partition, p.name())
		}
		p.expect(tParenClose)
	} else {
		key.Partition = []string{p.name()}
	}
	for p.accept(tComma) {
		key.Clustering = append(key.Clustering, p.name())
	}
	p.expect(tParenClose)
	return key
}

// tableProperties parses the options of CREATE TABLE and CREATE MATERIALIZED VIEW.
func (p *parser) tableProperties() (props []Property, order []ClusteringOrder, compact bool) {
	for ok := true; ok && !p.stopped; ok = p.accept(kAnd) {
		switch {
		case p.kind() == kCompact && p.peek(1) == kStorage:
			p.advance()
			p.advance()
			compact = true
		case p.kind() == kClustering && p.peek(1) == kOrder:
			p.advance()
			p.advance()
			order = append(order, p.clusteringOrder()...)
		default:
			props = p.property(props)
		}
	}
	return props, order, compact
}

func (p *parser) clusteringOrder() []ClusteringOrder {
	var order []ClusteringOrder
	p.expect(kBy)
	p.expect(tParenOpen)
	for ok := true; ok && !p.stopped; ok = p.accept(tComma) {
		o := ClusteringOrder{Column: p.name()}
		switch {
		case p.accept(kAsc):
		case p.accept(kDesc):
			o.Descending = true
		default:
			p.noViable(p.pos, p.pos)
		}
		order = append(order, o)
	}
	p.expect(tParenClose)
	return order
}

// properties parses name = value AND ...
func (p *parser) properties() []Property {
	var props []Property
	for ok := true; ok && !p.stopped; ok = p.accept(kAnd) {
		props = p.property(props)
	}
	return props
}

// property parses one option and appends it.
func (p *parser) property(props []Property) []Property {
	start := p.pos
	prop := Property{Name: p.name()}
	if p.stopped {
		return props
	}
	if p.kind() != tEqual {
		p.noViable(start, p.pos)
		return props
	}
	p.advance()
	k := p.kind()
	switch {
	case k == tBraceOpen:
		prop.IsMap = true
		prop.Map = p.propertyMap()
	case k >= firstBasic && k < firstReserved:
		prop.Value = p.nameText()
		p.advance()
	default:
		l := p.constant()
		if l == nil {
			p.noViable(start, p.pos)
			return props
		}
		prop.Value = l.Text
	}
	for i := range props {
		if props[i].Name == prop.Name {
			p.note("Multiple definition for property '" + prop.Name + "'")
		}
	}
	return append(props, prop)
}

// propertyMap parses a map of constants.
func (p *parser) propertyMap() []MapProperty {
	var entries []MapProperty
	p.advance()
	if p.accept(tBraceClose) {
		return nil
	}
	failed := false
	for ok := true; ok && !p.stopped; ok = p.accept(tComma) {
		key := p.term()
		p.expect(tColon)
		value := p.term()
		if p.stopped || failed {
			continue
		}
		k, isKey := key.(*Literal)
		v, isValue := value.(*Literal)
		switch {
		case !isKey:
			failed = true
			p.note("Invalid property name: " + key.String() + bindHint(key))
		case !isValue:
			failed = true
			p.note("Invalid property value: " + value.String() + " for property: " + key.String() + bindHint(value))
		default:
			for _, e := range entries {
				if e.Key == k.Text {
					p.note("Multiple definition for property " + k.Text)
				}
			}
			entries = append(entries, MapProperty{k.Text, v.Text})
		}
	}
	p.expect(tBraceClose)
	return entries
}

func bindHint(e Expr) string {
	if _, ok := e.(*Marker); ok {
		return " (bind variables are not supported in DDL queries)"
	}
	return ""
}

func (p *parser) createType() *CreateType {
	s := &CreateType{IfNotExists: p.ifNotExists(), Type: p.typeName()}
	p.expect(tParenOpen)
	s.Fields = append(s.Fields, ColumnDefinition{Name: p.name(), Type: p.parseType()})
	for p.accept(tComma) {
		if p.kind() != tParenClose && p.kind() != tComma {
			s.Fields = append(s.Fields, ColumnDefinition{Name: p.name(), Type: p.parseType()})
		}
	}
	p.expect(tParenClose)
	return s
}

func (p *parser) createIndex() *CreateIndex {
	s := &CreateIndex{Custom: p.accept(kCustom)}
	p.expect(kIndex)
	s.IfNotExists = p.ifNotExists()
	if p.kind() != kOn {
		s.Name.Name = p.nameOrMarker("index")
	}
	p.expect(kOn)
	s.Table = p.tableName()
	p.expect(tParenOpen)
	if p.kind() != tParenClose {
		for ok := true; ok && !p.stopped; ok = p.accept(tComma) {
			s.Targets = append(s.Targets, p.indexTarget())
		}
	}
	p.expect(tParenClose)
	if p.accept(kUsing) {
		s.Class = p.stringText()
	}
	if p.accept(kWith) {
		s.Properties = p.properties()
	}
	return s
}

func (p *parser) indexTarget() IndexTarget {
	var t IndexTarget
	if p.peek(1) == tParenOpen {
		switch p.kind() {
		case kValues:
			t.Kind = IndexValues
		case kKeys:
			t.Kind = IndexKeys
		case kEntries:
			t.Kind = IndexEntries
		case kFull:
			t.Kind = IndexFull
		}
	}
	if t.Kind == IndexColumn {
		t.Column = p.column()
		return t
	}
	p.advance()
	p.advance()
	t.Column = p.column()
	p.expect(tParenClose)
	return t
}

func (p *parser) createView() *CreateView {
	s := &CreateView{IfNotExists: p.ifNotExists(), View: p.tableName()}
	p.expect(kAs)
	p.expect(kSelect)
	s.Selectors = p.selectors()
	p.expect(kFrom)
	s.Base = p.tableName()
	if p.accept(kWhere) {
		s.Where = p.parseWhere()
	}
	s.Key = p.primaryKey()
	if p.accept(kWith) {
		var compact bool
		s.Properties, s.Order, compact = p.tableProperties()
		if compact {
			p.note("COMPACT STORAGE tables are not allowed starting with version 4.0")
		}
	}
	return s
}

func (p *parser) createFunctionOrAggregate(replace bool) Statement {
	aggregate := p.kind() == kAggregate
	p.advance()
	exists := p.ifNotExists()
	name := p.functionName()
	p.expect(tParenOpen)
	if aggregate {
		s := &CreateAggregate{Aggregate: name, OrReplace: replace, IfNotExists: exists, Arguments: p.argumentTypes()}
		p.expect(kSfunc)
		s.State = p.functionName().Name
		p.expect(kStype)
		s.StateType = p.parseType()
		if p.accept(kFinalfunc) {
			s.Final = p.functionName().Name
		}
		if p.accept(kInitcond) {
			s.Initial = p.term()
		}
		return s
	}
	s := &CreateFunction{Function: name, OrReplace: replace, IfNotExists: exists}
	if p.kind() != tParenClose {
		for ok := true; ok && !p.stopped; ok = p.accept(tComma) {
			s.Arguments = append(s.Arguments, ColumnDefinition{Name: p.name(), Type: p.parseType()})
		}
	}
	p.expect(tParenClose)
	switch {
	case p.accept(kCalled):
		s.CalledOn = true
	case p.accept(kReturns):
		p.expect(kNull)
	default:
		p.noViable(p.pos, p.pos)
	}
	p.expect(kOn)
	p.expect(kNull)
	p.expect(kInput)
	p.expect(kReturns)
	s.Returns = p.parseType()
	p.expect(kLanguage)
	if p.kind() == tIdent && !p.stopped {
		s.Language = p.nameText()
	}
	p.expect(tIdent)
	p.expect(kAs)
	s.Body = p.stringText()
	return s
}

// functionName parses [keyspace.]function.
func (p *parser) functionName() Name {
	var n Name
	if p.peek(1) == tDot {
		n.Keyspace = p.keyspaceName()
		p.expect(tDot)
	}
	k := p.kind()
	if p.stopped || !isFunction(k) && k != kToken && k != kCount {
		p.noViable(p.pos, p.pos)
		return n
	}
	n.Name = p.nameText()
	p.advance()
	return n
}

// argumentTypes parses types up to the closing parenthesis.
func (p *parser) argumentTypes() []*Type {
	var types []*Type
	if !p.stopped && p.kind() != tParenClose {
		for ok := true; ok && !p.stopped; ok = p.accept(tComma) {
			types = append(types, p.parseType())
		}
	}
	p.expect(tParenClose)
	return types
}

func (p *parser) parseAlter() Statement {
	start := p.pos
	p.advance()
	switch p.kind() {
	case kKeyspace:
		p.advance()
		s := &AlterKeyspace{IfExists: p.ifExists(), Keyspace: p.keyspaceName()}
		p.expect(kWith)
		s.Properties = p.properties()
		return s
	case kColumnfamily:
		p.advance()
		return p.alterTable()
	case kType:
		p.advance()
		return p.alterType()
	case kMaterialized:
		p.advance()
		p.expect(kView)
		s := &AlterView{IfExists: p.ifExists(), View: p.tableName()}
		p.expect(kWith)
		s.Properties = p.properties()
		return s
	case kUser, kRole:
		return p.role("ALTER")
	}
	p.noViable(start, p.pos)
	return nil
}

func (p *parser) alterTable() *AlterTable {
	s := &AlterTable{IfExists: p.ifExists(), Table: p.tableName()}
	switch {
	case p.stopped:
	case p.accept(kAlter):
		c := ColumnDefinition{Name: p.column()}
		p.expect(kType)
		c.Type = p.parseType()
		s.Columns = []ColumnDefinition{c}
	case p.accept(kAdd):
		s.Kind, s.IfColumn = AddColumns, p.ifNotExists()
		p.names(func() {
			c := ColumnDefinition{Name: p.name(), Type: p.parseType()}
			c.Static = p.accept(kStatic)
			s.Columns = append(s.Columns, c)
		})
	case p.kind() == kDrop && p.peek(1) == kCompact && p.peek(2) == kStorage:
		p.advance()
		p.advance()
		p.advance()
		s.Kind = DropCompactStorage
	case p.accept(kDrop):
		s.Kind, s.IfColumn = DropColumns, p.ifExists()
		p.names(func() { s.Drop = append(s.Drop, p.name()) })
		p.dropTimestamp(s)
	case p.accept(kRename):
		s.Kind, s.IfColumn = RenameColumns, p.ifExists()
		s.Renames = p.renames()
	case p.accept(kWith):
		s.Kind, s.Properties = AlterProperties, p.properties()
	default:
		p.noViable(p.pos, p.pos)
	}
	return s
}

// names parses one definition, or several in parentheses.
func (p *parser) names(one func()) {
	if !p.accept(tParenOpen) {
		one()
		return
	}
	for ok := true; ok && !p.stopped; ok = p.accept(tComma) {
		one()
	}
	p.expect(tParenClose)
}

func (p *parser) dropTimestamp(s *AlterTable) {
	if !p.accept(kUsing) {
		return
	}
	p.expect(kTimestamp)
	if p.kind() == tInteger && !p.stopped {
		text := p.text()
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			p.fail("Failed parsing statement: [" + p.lex.text + `] reason: NumberFormatException For input string: "` + text + `"`)
		}
		s.Timestamp, s.HasTimestamp = n, true
	}
	p.expect(tInteger)
}

func (p *parser) renames() []Rename {
	var all []Rename
	for ok := true; ok && !p.stopped; ok = p.accept(kAnd) {
		r := Rename{From: p.name()}
		p.expect(kTo)
		r.To = p.name()
		all = append(all, r)
	}
	return all
}

func (p *parser) alterType() *AlterUserType {
	s := &AlterUserType{IfExists: p.ifExists(), Type: p.typeName()}
	switch {
	case p.stopped:
	case p.accept(kAlter):
		c := &ColumnDefinition{Name: p.name()}
		p.expect(kType)
		c.Type = p.parseType()
		s.Change = c
	case p.accept(kAdd):
		s.IfField = p.ifNotExists()
		s.Add = &ColumnDefinition{Name: p.name(), Type: p.parseType()}
	case p.accept(kRename):
		s.IfField = p.ifExists()
		s.Renames = p.renames()
	default:
		p.noViable(p.pos, p.pos)
	}
	return s
}

func (p *parser) parseDrop() Statement {
	start := p.pos
	p.advance()
	switch k := p.kind(); k {
	case kKeyspace:
		p.advance()
		return &DropKeyspace{IfExists: p.ifExists(), Keyspace: p.keyspaceName()}
	case kColumnfamily:
		p.advance()
		return &DropTable{IfExists: p.ifExists(), Table: p.tableName()}
	case kType:
		p.advance()
		return &DropType{IfExists: p.ifExists(), Type: p.typeName()}
	case kIndex:
		p.advance()
		return &DropIndex{IfExists: p.ifExists(), Index: p.qualified("index")}
	case kMaterialized:
		p.advance()
		p.expect(kView)
		return &DropView{IfExists: p.ifExists(), View: p.tableName()}
	case kTrigger:
		p.advance()
		s := &DropTrigger{IfExists: p.ifExists(), Trigger: p.name()}
		p.expect(kOn)
		s.Table = p.tableName()
		return s
	case kFunction, kAggregate:
		p.advance()
		s := &DropFunction{Aggregate: k == kAggregate, IfExists: p.ifExists(), Function: p.functionName()}
		if p.accept(tParenOpen) {
			s.HasArguments = true
			s.Arguments = p.argumentTypes()
		}
		return s
	case kUser, kRole:
		return p.role("DROP")
	}
	p.noViable(start, p.pos)
	return nil
}

func (p *parser) parseDescribe() *Describe {
	s := &Describe{}
	p.advance()
	start, next := p.pos, p.peek(1)
	plain := next == tEOF || next == tSemicolon || next == kWith
	k := p.kind()
	plural, isPlural := describedPlurals[k]
	switch {
	case p.stopped:
	case isPlural:
		p.advance()
		s.Kind = plural
	case k == kFull:
		p.advance()
		s.Kind, s.Full = DescribeSchema, true
		p.expect(kKeyspace)
	case k == kOnly && next == kKeyspace, k == kKeyspace:
		p.keyspaceOrSchema(s)
	case k == kColumnfamily, k == kIndex:
		p.advance()
		s.Kind = DescribeTable
		if k == kIndex {
			s.Kind = DescribeIndex
		}
		s.Name = p.tableName()
	case k == kMaterialized:
		p.advance()
		p.expect(kView)
		s.Kind, s.Name = DescribeView, p.tableName()
	case k == kType && !plain && next != tDot:
		p.advance()
		s.Kind, s.Name = DescribeType, p.typeName()
	case (k == kFunction || k == kAggregate) && !plain && next != tDot:
		p.advance()
		s.Kind = DescribeFunction
		if k == kAggregate {
			s.Kind = DescribeAggregate
		}
		s.Name = p.functionName()
	case isName(k):
		s.Kind, s.Name = DescribeAny, p.tableName()
	default:
		p.noViable(start, start)
	}
	if p.accept(kWith) {
		p.expect(kInternals)
		s.Internals = true
	}
	return s
}

var describedPlurals = map[kind]DescribeKind{
	kCluster: DescribeCluster, kKeyspaces: DescribeKeyspaces, kTables: DescribeTables, kTypes: DescribeTypes,
	kFunctions: DescribeFunctions, kAggregates: DescribeAggregates,
}

// keyspaceOrSchema parses [ONLY] KEYSPACE [name] and SCHEMA. The two words are one token,
// so that the text decides: SCHEMA alone describes all keyspaces.
func (p *parser) keyspaceOrSchema(s *Describe) {
	s.Only = p.accept(kOnly)
	schema := len(p.text()) == len("SCHEMA")
	p.advance()
	s.Kind = DescribeKeyspace
	if isName(p.kind()) || p.kind() == tQuestion {
		s.Name.Name = p.keyspaceName()
	} else if schema && !s.Only {
		s.Kind = DescribeSchema
	}
}
