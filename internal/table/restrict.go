package table

import (
	"slices"
	"strings"

	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/table/cql"
)

// needsFiltering is the text of the error of a query that reads more rows than it
// returns and does not say ALLOW FILTERING.
const needsFiltering = "Cannot execute this query as it might involve data filtering and thus may have unpredictable performance. " +
	"If you want to execute this query despite the performance unpredictability, use ALLOW FILTERING"

// restriction is one relation of WHERE, or what several of them say about the same
// columns.
type restriction struct {
	columns  []*Column // several of a tuple relation
	text     string    // of the first relation
	operator cql.Operator
	element  term   // of column[element]; nil without
	value    term   // of a comparison, CONTAINS and CONTAINS KEY, and IN with a marker
	list     []term // of IN with terms

	// Of a slice: the bounds, either of which may be nil.
	lower, upper                   term
	lowerInclusive, upperInclusive bool
	lowerTuple, upperTuple         int // columns of a bound that is a tuple; 0 for the value of a column

	// multi says that a relation is on a tuple, writes that it is one of UPDATE or DELETE.
	multi, writes bool

	also []*restriction // other CONTAINS on the column
}

func (r *restriction) slice() bool { return r.lower != nil || r.upper != nil }
func (r *restriction) in() bool    { return r.operator == cql.In }
func (r *restriction) equal() bool { return r.operator == cql.Equal && r.element == nil }
func (r *restriction) contains() bool {
	return r.operator == cql.Contains || r.operator == cql.ContainsKey || r.element != nil
}

// tokens is what relations on token() say.
type tokens struct {
	equal                          term
	lower, upper                   term
	lowerInclusive, upperInclusive bool
}

// where is a compiled WHERE clause.
type where struct {
	table      *Table
	verb       string         // of UPDATE and DELETE; empty for a SELECT and INSERT
	partition  []*restriction // by position; nil for a column without one
	token      *tokens
	clustering []*restriction // by the position of the first column
	others     []*restriction // on static and regular columns

	restrictsKeys bool // there is a relation on the partition key or its token
	keyIn         bool // IN is one of them, and not only a filter of a range of tokens
	keyRange      bool // the clause names no partition keys: all, or those of a range of tokens

	filters []*restriction // that rows are compared with
	prefix  int            // clustering columns with = or IN from the first on
	slicing *restriction   // on the clustering columns after them; may be nil

	indexed bool           // the read goes through an index
	access  *access        // that index; nil if none of the table finds what is restricted
	found   []*restriction // that are left to the index
	tuples  []*restriction // tuple relations that are filters in Apache Cassandra, with its errors
}

// restrict compiles the relations of a SELECT.
func (a *terms) restrict(t *Table, relations []cql.Relation, filtering, staticOnly bool) (*where, error) {
	w := &where{table: t, partition: make([]*restriction, len(t.Partition)), clustering: make([]*restriction, len(t.Clustering))}
	var custom []string
	for i := range relations {
		switch relations[i].Kind {
		case cql.OnIndex:
			custom = append(custom, relations[i].Columns[0])
			continue
		case cql.OnFeed:
			continue // compileFeed compiles it.
		}
		if err := w.add(a, &relations[i], filtering); err != nil {
			return nil, err
		}
	}
	if err := t.noExpression(custom); err != nil {
		return nil, err
	}
	return w, w.finish(filtering, staticOnly)
}

// add compiles one relation and adds it to those on the same columns.
func (w *where) add(a *terms, r *cql.Relation, filtering bool) error {
	switch r.Kind {
	case cql.OnToken:
		return w.addToken(a, r)
	case cql.OnFeed:
		return invalid("%s() is a restriction of SELECT only", strings.ToUpper(r.Columns[0]))
	}
	columns := make([]*Column, len(r.Columns))
	for i, name := range r.Columns {
		if columns[i] = w.table.Column(name); columns[i] == nil {
			return w.table.undefined(name)
		}
	}
	switch {
	case w.verb != "" && (r.Operator == cql.Contains || r.Operator == cql.ContainsKey):
		return invalid("Cannot use %s with %s", w.verb, r.Operator)
	case r.Operator == cql.IsNotNull:
		return invalid("Unsupported restriction: %s", r)
	case r.Operator == cql.NotEqual:
		return invalid("Unsupported \"!=\" relation: %s", relationText(r))
	case r.Kind == cql.OnTuple:
		if err := w.checkTuple(r, columns); err != nil {
			return err
		}
	default:
		if err := checkRelation(r, columns[0]); err != nil {
			return err
		}
	}
	one, err := w.relation(a, r, columns)
	if err != nil {
		return err
	}
	if r.Operator == cql.Like {
		return invalid("LIKE restriction is only supported on properly indexed columns. %s is not valid.", relationText(r))
	}
	return w.merge(one, filtering)
}

// checkTuple checks the columns of a tuple relation.
func (w *where) checkTuple(r *cql.Relation, columns []*Column) error {
	for i, c := range columns {
		if c.Kind != Clustering {
			return invalid("Multi-column relations can only be applied to clustering columns but was applied to: %s", c.Name)
		}
		if slices.Contains(columns[:i], c) {
			return invalid("Column \"%s\" appeared twice in a relation: %s", c.Name, relationText(r))
		}
		if i > 0 && c.Position != columns[i-1].Position+1 {
			return invalid("Clustering columns must appear in the PRIMARY KEY order in multi-column relations: %s", relationText(r))
		}
	}
	return nil
}

// checkRelation checks whether a relation is possible with the type of its column.
func checkRelation(r *cql.Relation, c *Column) error {
	t := c.Type
	slice := r.Operator == cql.Less || r.Operator == cql.LessOrEqual || r.Operator == cql.Greater || r.Operator == cql.GreaterOrEqual
	if slice && t.References(row.KindDuration) && (r.Kind == cql.OnColumn) {
		return noSlice(t)
	}
	switch {
	case r.Kind == cql.OnElement:
		if t.Kind == row.KindList {
			return invalid("Indexes on list entries (%s[index] = value) are not currently supported.", c.Name)
		}
		if t.Kind != row.KindMap {
			return invalid("Column %s cannot be used as a map", c.Name)
		}
		if r.Operator != cql.Equal {
			return invalid("Only EQ relations are supported on map entries")
		}
		if t.Frozen {
			return invalid("Map-entry equality predicates on frozen map column %s are not supported", c.Name)
		}
	case r.Operator == cql.Contains && !t.Collection():
		return invalid("Cannot use CONTAINS on non-collection column %s", c.Name)
	case r.Operator == cql.ContainsKey && t.Kind != row.KindMap:
		return invalid("Cannot use CONTAINS KEY on non-map column %s", c.Name)
	case r.Operator == cql.Contains || r.Operator == cql.ContainsKey:
	case t.Multicell() && t.Kind == row.KindUDT:
		return invalid("Non-frozen UDT column '%s' (%s) cannot be restricted by any relation", c.Name, cql.Quote(t.Name))
	case t.Multicell():
		return invalid("Collection column '%s' (%s) cannot be restricted by a '%s' relation", c.Name, t, r.Operator)
	}
	return nil
}

// noSlice returns the error of a slice of values with durations, which have no order.
func noSlice(t *row.Type) error {
	of := "UDTs containing durations"
	switch {
	case t.Kind == row.KindDuration:
		of = "duration columns"
	case t.Collection():
		of = "collections containing durations"
	case t.Kind == row.KindTuple:
		of = "tuples containing durations"
	}
	return invalid("Slice restrictions are not supported on %s", of)
}

// merge adds a restriction to those on the same columns. The order of the checks is that
// of Apache Cassandra 4.1.
func (w *where) merge(one *restriction, filtering bool) error {
	first := one.columns[0]
	switch first.Kind {
	case PartitionKey:
		if other := w.partition[first.Position]; other != nil {
			return other.join(one)
		}
		w.partition[first.Position] = one
		return nil
	case Clustering:
		return w.mergeClustering(one, filtering)
	case Static, Regular:
	}
	for _, other := range w.others {
		if other.columns[0] == first {
			return other.join(one)
		}
	}
	w.others = append(w.others, one)
	return nil
}

func (w *where) mergeClustering(one *restriction, filtering bool) error {
	var last *restriction // before the new one
	for _, other := range w.clustering {
		if other != nil && (last == nil || other.last() > last.last()) {
			last = other
		}
	}
	sliced := last != nil && last.slice()
	joined := false
	for _, other := range w.clustering {
		if other != nil && overlap(other, one) {
			if err := other.join(one); err != nil {
				return err
			}
			joined = true
		}
	}
	first := one.columns[0]
	if last != nil && !filtering {
		start := last.columns[0]
		if sliced && first.Position > start.Position {
			return invalid("Clustering column \"%s\" cannot be restricted (preceding column \"%s\" is restricted by a non-EQ relation)", first.Name, start.Name)
		}
		if one.slice() && first.Position < start.Position {
			return invalid("PRIMARY KEY column \"%s\" cannot be restricted (preceding column \"%s\" is restricted by a non-EQ relation)", w.restrictedAfter(first), first.Name)
		}
	}
	if !joined {
		w.clustering[first.Position] = one
	}
	return nil
}

// last returns the position of the last column.
func (r *restriction) last() int { return r.columns[len(r.columns)-1].Position }

// restrictedAfter returns the name of the first clustering column after one that has a
// restriction.
func (w *where) restrictedAfter(c *Column) string {
	for _, r := range w.clustering[c.Position+1:] {
		if r != nil {
			return r.columns[0].Name
		}
	}
	return ""
}

func overlap(a, b *restriction) bool {
	return slices.ContainsFunc(a.columns, func(c *Column) bool { return slices.Contains(b.columns, c) })
}

// common returns the names of the columns that both relations restrict.
func common(a, b *restriction) string {
	var names []string
	for _, c := range a.columns {
		if slices.Contains(b.columns, c) {
			names = append(names, c.Name)
		}
	}
	return strings.Join(names, " ,")
}

// join adds a restriction to one with common columns: the other bound of a slice, or
// another CONTAINS.
func (r *restriction) join(one *restriction) error {
	names := common(r, one)
	switch {
	case r.contains() && one.contains():
		r.also = append(r.also, one)
		return nil
	case r.contains():
		return invalid("Collection column %s can only be restricted by CONTAINS, CONTAINS KEY, or map-entry equality", r.columns[0].Name)
	case r.equal():
		return invalid("%s cannot be restricted by more than one relation if it includes an Equal", names)
	case r.in():
		return invalid("%s cannot be restricted by more than one relation if it includes a IN", names)
	case !one.slice():
		return invalid("Column \"%s\" cannot be restricted by both an equality and an inequality relation", names)
	case r.columns[0] != one.columns[0]:
		later := r.columns[0]
		if one.columns[0].Position > later.Position {
			later = one.columns[0]
		}
		return invalid("Column \"%s\" cannot be restricted by two inequalities not starting with the same column", later.Name)
	case r.lower != nil && one.lower != nil:
		return invalid("More than one restriction was found for the start bound on %s", names)
	case r.upper != nil && one.upper != nil:
		return invalid("More than one restriction was found for the end bound on %s", names)
	}
	if one.lower != nil {
		r.lower, r.lowerInclusive, r.lowerTuple = one.lower, one.lowerInclusive, one.lowerTuple
	} else {
		r.upper, r.upperInclusive, r.upperTuple = one.upper, one.upperInclusive, one.upperTuple
	}
	r.multi = r.multi || one.multi
	if len(one.columns) > len(r.columns) {
		r.columns = one.columns
	}
	return nil
}

// relation compiles the terms of a relation.
func (w *where) relation(a *terms, r *cql.Relation, columns []*Column) (*restriction, error) {
	one := &restriction{columns: columns, text: r.String(), operator: r.Operator, multi: r.Kind == cql.OnTuple, writes: w.verb != ""}
	c := columns[0]
	to := w.table.receiver(c.Type, c.Name).of(c)
	if one.multi {
		types, names := make([]*row.Type, len(columns)), make([]string, len(columns))
		for i, c := range columns {
			types[i], names[i] = c.Type, c.Name
		}
		to.t, to.name, to.column, to.columns = row.TupleOf(types...), "("+strings.Join(names, ",")+")", nil, columns
	}
	var err error
	switch {
	case r.Kind == cql.OnElement:
		key := to
		key = key.part(c.Type.Key(), "key("+c.Name+")")
		if one.element, err = a.compile(r.Element, key); err != nil {
			return nil, err
		}
		to = to.part(c.Type.Element(), "value("+c.Name+")")
	case r.Operator == cql.Contains:
		to = to.part(c.Type.Element(), "value("+c.Name+")")
	case r.Operator == cql.ContainsKey:
		to = to.part(c.Type.Key(), "key("+c.Name+")")
	}
	if r.Operator == cql.In {
		return one, a.compileIn(one, r, to)
	}
	if one.multi {
		if l, ok := r.Value.(*cql.TupleLiteral); ok && len(l.Elements) != len(columns) {
			return nil, invalid("Expected %d elements in value tuple, but got %d: %s", len(columns), len(l.Elements), l)
		}
	}
	value, err := a.compile(r.Value, to)
	if err != nil {
		return nil, err
	}
	switch r.Operator {
	case cql.Greater, cql.GreaterOrEqual:
		one.lower, one.lowerInclusive = value, r.Operator == cql.GreaterOrEqual
	case cql.Less, cql.LessOrEqual:
		one.upper, one.upperInclusive = value, r.Operator == cql.LessOrEqual
	default:
		one.value = value
	}
	if one.multi {
		one.lowerTuple, one.upperTuple = len(columns), len(columns)
	}
	return one, nil
}

func (a *terms) compileIn(one *restriction, r *cql.Relation, to receiver) error {
	list, ok := r.Value.(*cql.TupleLiteral)
	if !ok {
		to = to.part(row.ListOf(to.t), "in("+strings.Trim(to.name, "()")+")")
		var err error
		if one.value, err = a.compile(r.Value, to); err == nil {
			one.value = nullable(one.value)
		}
		return err
	}
	for _, e := range list.Elements {
		if l, ok := e.(*cql.TupleLiteral); ok && one.multi && len(l.Elements) != len(one.columns) {
			return invalid("Expected %d elements in value tuple, but got %d: %s", len(one.columns), len(l.Elements), l)
		}
		t, err := a.compile(e, to)
		if err != nil {
			return err
		}
		one.list = append(one.list, t)
	}
	if len(one.list) == 1 { // as in Apache Cassandra, also for what depends on it
		one.operator, one.value, one.list = cql.Equal, one.list[0], nil
	}
	return nil
}

// addToken compiles a relation on token().
func (w *where) addToken(a *terms, r *cql.Relation) error {
	var names []string
	for _, name := range r.Columns {
		c := w.table.Column(name)
		if c == nil {
			return w.table.undefined(name)
		}
		if c.Kind != PartitionKey {
			return invalid("The token() function must contains only partition key components")
		}
		names = append(names, name)
	}
	if len(names) != len(w.table.Partition) {
		return invalid("The token() function must be applied to all partition key components or none of them")
	}
	var order []string
	for i, c := range w.table.Partition {
		if order = append(order, c.Name); c.Name != names[i] {
			for _, c := range w.table.Partition[i+1:] {
				order = append(order, c.Name)
			}
			return invalid("The token function arguments must be in the partition key order: %s", strings.Join(order, ", "))
		}
	}
	value, err := a.compile(r.Value, w.table.receiver(native(row.KindBigInt), "partition key token"))
	if err != nil {
		return err
	}
	if w.token == nil {
		w.token = &tokens{}
	}
	twice := func(which string) error {
		return invalid("More than one restriction was found for the %s bound on %s", which, strings.Join(order, ", "))
	}
	names = order
	switch r.Operator {
	case cql.Equal, cql.Greater, cql.GreaterOrEqual, cql.Less, cql.LessOrEqual:
	default:
		return invalid("%s cannot be used with the token function", r.Operator)
	}
	switch equal := r.Operator == cql.Equal; {
	case w.token.equal != nil:
		return invalid("%s cannot be restricted by more than one relation if it includes an Equal", strings.Join(names, ", "))
	case equal && *w.token != (tokens{}):
		return invalid("Columns \"%s\" cannot be restricted by both an equality and an inequality relation", strings.Join(names, ", "))
	case equal:
		w.token.equal = value
	case r.Operator == cql.Greater || r.Operator == cql.GreaterOrEqual:
		if w.token.lower != nil {
			return twice("start")
		}
		w.token.lower, w.token.lowerInclusive = value, r.Operator == cql.GreaterOrEqual
	default:
		if w.token.upper != nil {
			return twice("end")
		}
		w.token.upper, w.token.upperInclusive = value, r.Operator == cql.LessOrEqual
	}
	return nil
}

// finish decides which relations narrow the read, and which are filters. The order of the
// checks, and when the read goes through an index, are as in Apache Cassandra 4.1.
func (w *where) finish(filtering, staticOnly bool) error {
	byClustering := w.throughAny(w.clustering) != nil
	usable := byClustering || w.throughAny(w.partition) != nil || w.throughAny(w.others) != nil
	if err := w.finishPartition(filtering, usable); err != nil {
		return err
	}
	if err := w.finishClustering(filtering, staticOnly, usable); err != nil {
		return err
	}
	if len(w.others) > 0 {
		if w.indexed = w.indexed || usable; !usable && !filtering {
			return &Error{Text: needsFiltering}
		}
		w.found = append(w.found, w.others...)
	}
	if w.indexed && w.keyIn {
		return invalid("Select on indexed columns and with IN clause for the PRIMARY KEY are not supported")
	}
	if w.indexed {
		w.access = w.throughAny(append(slices.Clone(w.others), w.found...))
	}
	w.filters = append(w.filters, w.others...)
	for _, r := range w.filters {
		w.filters = append(w.filters, r.also...)
	}
	return nil
}

func (w *where) finishPartition(filtering, usable bool) error {
	some, filter := false, false
	for _, r := range w.partition {
		some = some || r != nil
		filter = filter || r == nil || r.slice() || r.contains()
	}
	if filter && some && !filtering && !usable {
		return &Error{Text: needsFiltering}
	}
	w.restrictsKeys = some || w.token != nil
	w.keyRange = filter || !some
	w.keyIn = (w.token == nil || !w.keyRange) && slices.ContainsFunc(w.partition, func(r *restriction) bool { return r != nil && r.in() })
	if !w.keyRange {
		return nil
	}
	w.indexed = usable && (some || w.token == nil)
	for i, r := range w.partition {
		if r != nil {
			if w.indexed {
				w.found = append(w.found, r)
			}
			w.filters = append(w.filters, r)
			w.partition[i] = nil
		}
	}
	return nil
}

// checkFiltering refuses a read that filters rows, as Apache Cassandra counts: if several
// columns are left to an index, or if clustering columns restrict a read of many keys.
func (w *where) checkFiltering(filtering bool) error {
	if filtering || !w.keyRange && !w.indexed {
		return nil
	}
	columns := 0
	for _, r := range w.found {
		columns += len(r.columns)
	}
	several := slices.ContainsFunc(w.others, func(r *restriction) bool { return len(r.also) > 0 })
	if columns > 1 || columns == 0 && (w.prefix > 0 || w.slicing != nil) || columns > 0 && several {
		return &Error{Text: needsFiltering}
	}
	return nil
}

func (w *where) finishClustering(filtering, staticOnly, usable bool) error {
	some := slices.ContainsFunc(w.clustering, func(r *restriction) bool { return r != nil })
	if some && staticOnly {
		return invalid("Cannot restrict clustering columns when selecting only static columns")
	}
	if !filtering && !usable && slices.ContainsFunc(w.clustering, func(r *restriction) bool { return r != nil && r.contains() }) {
		return invalid("Clustering columns can only be restricted with CONTAINS with a secondary index or filtering")
	}
	byClustering := w.throughAny(w.clustering) != nil
	narrowing := true
	var all, filters []*restriction
	for i, r := range w.clustering {
		if r == nil {
			continue
		}
		all = append(all, r)
		switch {
		case narrowing && i == w.prefix && (r.equal() || r.in()):
			w.prefix += len(r.columns)
			continue
		case narrowing && i == w.prefix && r.slice():
			w.slicing, narrowing = r, false
			continue
		}
		narrowing = false
		if !filtering && !usable {
			return invalid("PRIMARY KEY column \"%s\" cannot be restricted as preceding column \"%s\" is not restricted", r.columns[0].Name, w.table.Clustering[w.prefix].Name)
		}
		filters = append(filters, r)
	}
	w.indexed = w.indexed || usable && len(filters) > 0 || w.keyRange && byClustering
	if w.indexed || len(filters) > 0 {
		w.found = append(w.found, all...)
		w.tuples = w.tupleFilters(all)
	}
	w.filters = append(w.filters, filters...)
	for _, r := range filters {
		w.clustering[r.columns[0].Position] = nil
	}
	return nil
}

// tupleFilters returns the tuple relations that Apache Cassandra leaves to its filter of
// rows: those that do not begin where the ones before end, which count neither if they are
// slices nor if an index supports them.
func (w *where) tupleFilters(all []*restriction) (tuples []*restriction) {
	position := 0
	for _, r := range all {
		if r.contains() || r.columns[0].Position != position || w.through(r) != nil {
			if r.multi {
				tuples = append(tuples, r)
			}
			continue
		}
		if !r.slice() {
			position = r.last() + 1
		}
	}
	return tuples
}
