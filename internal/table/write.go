package table

import (
	"slices"
	"strings"

	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/table/cql"
)

// write is a compiled INSERT, UPDATE or DELETE.
type write struct {
	table *Table
	verb  string // as messages have it
	where *where

	marker     bool // the row exists by the write alone, as after INSERT
	assigned   []assignment
	json       *jsonValues // of INSERT JSON
	deleteRows bool        // DELETE without columns

	timestamp, ttl      term // nil if the statement has none
	exists, notExists   bool
	conditions          []writeCondition
	statics, onlyStatic bool // static columns are assigned; and nothing else
}

// conditional says whether the statement has an IF clause.
func (w *write) conditional() bool { return w.exists || w.notExists || len(w.conditions) > 0 }

// assignment changes one column. op makes the change from the values of the terms.
type assignment struct {
	column  *Column
	terms   []term
	op      func(values [][]byte) (row.Op, error)
	adds    bool // the value of the operation is added to that of the row
	removes bool // the first term is the element that DELETE names
}

// writeCondition is one condition of an IF clause.
type writeCondition struct {
	column   *Column
	kind     row.ConditionKind
	field    int
	element  term
	operator row.Operator
	values   []term
	list     term // of IN with a marker
	of       *row.Type
}

// compileWrite compiles an INSERT, UPDATE or DELETE of a table.
func (a *terms) compileWrite(t *Table, s cql.Statement) (*write, error) {
	w := &write{table: t}
	var using cql.Using
	var conditions []cql.Condition
	var compile func() error
	switch s := s.(type) {
	case *cql.Insert:
		w.verb, w.marker, w.notExists, using = "INSERT", true, s.IfNotExists, s.Using
		compile = func() error { return w.insert(a, s) }
	case *cql.Update:
		w.verb, w.exists, using, conditions = "UPDATE", s.IfExists, s.Using, s.Conditions
		compile = func() error { return w.update(a, s) }
	case *cql.Delete:
		w.verb, w.exists, using, conditions = "DELETE", s.IfExists, s.Using, s.Conditions
		compile = func() error { return w.delete(a, s) }
	}
	var err error
	if w.timestamp, err = a.optional(using.Timestamp, t.receiver(native(row.KindBigInt), "[timestamp]")); err != nil {
		return nil, err
	}
	if w.ttl, err = a.optional(using.TTL, t.receiver(native(row.KindInt), "[ttl]")); err != nil {
		return nil, err
	}
	timed := invalid("Cannot provide custom timestamp for conditional updates")
	if len(conditions) > 0 && w.timestamp != nil {
		return nil, timed
	}
	for _, c := range conditions {
		if err := w.condition(a, c); err != nil {
			return nil, err
		}
	}
	if err := compile(); err != nil {
		return nil, err
	}
	switch {
	case w.conditional() && t.Counter():
		return nil, invalid("Conditional updates are not supported on counter tables")
	case w.conditional() && w.timestamp != nil:
		return nil, timed
	}
	return w, w.checkConditionalDelete()
}

// check returns the error of a statement that compiles and cannot be executed.
func (w *write) check() error {
	switch {
	case w.table.View != nil:
		return invalid("Cannot directly modify a materialized view")
	case w.table.Counter() && w.timestamp != nil:
		return invalid("Cannot provide custom timestamp for counter updates")
	case w.table.Counter() && w.ttl != nil:
		return invalid("Cannot provide custom TTL for counter updates")
	}
	return nil
}

// optional compiles a value that a statement may leave out.
func (a *terms) optional(e cql.Expr, r receiver) (term, error) {
	if e == nil {
		return nil, nil
	}
	return a.compile(e, r)
}

// insert compiles the columns of INSERT. Key columns become relations with =.
func (w *write) insert(a *terms, s *cql.Insert) error {
	if w.table.Counter() {
		return invalid("INSERT statements are not allowed on counter tables, use UPDATE instead")
	}
	if s.JSON != nil {
		return w.insertJSON(a, s)
	}
	if len(s.Columns) != len(s.Values) {
		return invalid("Unmatched column names/values")
	}
	var relations []cql.Relation
	onlyStatic := true
	for i, name := range s.Columns {
		if slices.Contains(s.Columns[:i], name) {
			return invalid("The column names contains duplicates")
		}
	}
	for i, name := range s.Columns {
		c := w.table.Column(name)
		switch {
		case c == nil:
			return w.table.undefined(name)
		case c.Kind == PartitionKey || c.Kind == Clustering:
			relations = append(relations, cql.Relation{Columns: []string{name}, Operator: cql.Equal, Value: s.Values[i]})
			continue
		}
		if c.Kind == Regular {
			onlyStatic = false
		}
		if err := w.set(a, c, s.Values[i]); err != nil {
			return err
		}
	}
	w.onlyStatic = w.statics && onlyStatic
	return w.restrict(a, relations)
}

// set compiles column = value.
func (w *write) set(a *terms, c *Column, value cql.Expr) error {
	v, err := a.compile(value, w.table.receiver(c.Type, c.Name).of(c))
	if err != nil {
		return err
	}
	w.assign(assignment{column: c, terms: []term{v}, op: func(values [][]byte) (row.Op, error) {
		return row.SetColumn(c.ID, c.Type, values[0]), nil
	}})
	return nil
}

func (w *write) assign(x assignment) {
	w.assigned = append(w.assigned, x)
	if x.column.Kind == Static {
		w.statics = true
	}
}

func (w *write) update(a *terms, s *cql.Update) error {
	only := true
	for _, x := range s.Assignments {
		c := w.table.Column(x.Target.Column)
		switch {
		case c == nil:
			return w.table.undefined(x.Target.Column)
		case c.Kind == PartitionKey || c.Kind == Clustering:
			return invalid("PRIMARY KEY part %s found in SET part", c.Name)
		case c.Kind == Regular:
			only = false
		}
		if err := w.assignment(a, c, &x); err != nil {
			return err
		}
	}
	w.onlyStatic = only && !w.conditionOn(Regular)
	return w.restrict(a, s.Where)
}

// conditionOn says whether a condition is on a column of a kind.
func (w *write) conditionOn(k ColumnKind) bool {
	return slices.ContainsFunc(w.conditions, func(x writeCondition) bool { return x.column.Kind == k })
}

func (w *write) delete(a *terms, s *cql.Delete) error {
	only := len(s.Selection) > 0
	w.deleteRows = !only
	for i := range s.Selection {
		x := &s.Selection[i]
		c := w.table.Column(x.Column)
		switch {
		case c == nil:
			return w.table.undefined(x.Column)
		case c.Kind == PartitionKey || c.Kind == Clustering:
			return invalid("Invalid identifier %s for deletion (should not be a PRIMARY KEY part)", c.Name)
		case c.Kind == Regular:
			only = false
		}
		if err := w.deletion(a, c, x); err != nil {
			return err
		}
	}
	w.onlyStatic = only && !w.conditionOn(Regular)
	return w.restrict(a, s.Where)
}

// restrict compiles the relations that name the rows of the write.
func (w *write) restrict(a *terms, relations []cql.Relation) error {
	t := w.table
	if slices.ContainsFunc(relations, func(r cql.Relation) bool { return r.Kind == cql.OnIndex }) {
		return invalid("Custom index expressions cannot be used in WHERE clauses for UPDATE or DELETE statements")
	}
	w.where = &where{table: t, partition: make([]*restriction, len(t.Partition)), clustering: make([]*restriction, len(t.Clustering))}
	if w.verb != "INSERT" {
		w.where.verb = w.verb
	}
	for i := range relations {
		if err := w.where.add(a, &relations[i], false); err != nil {
			return err
		}
	}
	if w.where.token != nil {
		return invalid("The token function cannot be used in WHERE clauses for %s statements", w.verb)
	}
	var missing []string
	sliced := false
	for i, r := range w.where.partition {
		if r == nil {
			missing = append(missing, t.Partition[i].Name)
		} else {
			sliced = sliced || r.slice()
		}
	}
	if len(missing) > 0 {
		return invalid("Some partition key parts are missing: %s", strings.Join(missing, ", "))
	}
	if sliced {
		return invalid("Only EQ and IN relation are supported on the partition key (unless you use the token() function) for %s statements", w.verb)
	}
	if err := w.restrictClustering(); err != nil {
		return err
	}
	var other []string
	for _, r := range w.where.others {
		other = append(other, r.columns[0].Name)
	}
	if slices.Sort(other); len(other) > 0 {
		return invalid("Non PRIMARY KEY columns found in where clause: %s ", strings.Join(other, ", "))
	}
	return nil
}

// restrictClustering checks the relations on clustering columns.
func (w *write) restrictClustering() error {
	some := slices.ContainsFunc(w.where.clustering, func(r *restriction) bool { return r != nil })
	if w.onlyStatic {
		if some && w.verb != "INSERT" {
			return invalid("Invalid restrictions on clustering columns since the %s statement modifies only static columns", w.verb)
		}
		if !some {
			w.marker = false
			return nil
		}
		w.onlyStatic = false
	}
	if w.verb == "UPDATE" && slices.ContainsFunc(w.where.clustering, func(r *restriction) bool { return r != nil && r.slice() }) {
		return invalid("Slice restrictions are not supported on the clustering columns in UPDATE statements")
	}
	var missing []string
	covered := 0
	for i, r := range w.where.clustering {
		if r != nil {
			covered = i + len(r.columns)
		} else if i >= covered {
			missing = append(missing, w.table.Clustering[i].Name)
		}
	}
	if len(missing) > 0 && w.verb != "DELETE" {
		return invalid("Some clustering keys are missing: %s", strings.Join(missing, ", "))
	}
	return w.where.finishClustering(false, false, false)
}

// checkConditionalDelete checks the key of a DELETE with an IF clause.
func (w *write) checkConditionalDelete() error {
	if w.verb != "DELETE" || !w.conditional() || w.where.prefix == len(w.table.Clustering) {
		return nil
	}
	const text = "DELETE statements must restrict all PRIMARY KEY columns with equality relations in order to "
	if w.deleteRows || slices.ContainsFunc(w.assigned, func(x assignment) bool { return x.column.Kind == Regular }) {
		return invalid(text + "delete non static columns")
	}
	if w.conditionOn(Regular) {
		return invalid(text + "use IF condition on non static columns")
	}
	return nil
}

// checkOneRow refuses IN on the partition key of a statement with an IF clause, and then on
// the clustering columns.
func (w *write) checkOneRow() error {
	kind := "deletions"
	if w.verb == "UPDATE" {
		kind = "updates"
	}
	in := func(r *restriction) bool { return r != nil && r.in() }
	switch {
	case slices.ContainsFunc(w.where.partition, in):
		return invalid("IN on the partition key is not supported with conditional %s", kind)
	case slices.ContainsFunc(w.where.clustering, in):
		return invalid("IN on the clustering key columns is not supported with conditional %s", kind)
	}
	return nil
}

// checkInBatch refuses IN in a statement of a batch with conditions, also in one that has
// none itself. For IN on the partition key, Apache Cassandra has an internal error.
func (w *write) checkInBatch() error {
	in := func(r *restriction) bool { return r != nil && r.in() }
	if slices.ContainsFunc(w.where.partition, in) {
		return invalid("Batch with conditions cannot span multiple partitions (you cannot use IN on the partition key)")
	}
	return nil
}

// condition compiles one condition.
func (w *write) condition(a *terms, e cql.Condition) error {
	t := w.table
	c := t.Column(e.Target.Column)
	if c == nil {
		return t.undefined(e.Target.Column)
	}
	name := c.Name
	if c.Type.Kind == row.KindCounter {
		return invalid("Conditions on counters are not supported")
	}
	x := writeCondition{column: c, kind: row.ColumnIs, of: c.Type, operator: conditionOperators[e.Operator]}
	r := t.receiver(c.Type, c.Name).of(c)
	switch {
	case e.Target.Element != nil:
		key := r.part(native(row.KindInt), "idx("+c.Name+")")
		switch c.Type.Kind {
		case row.KindList:
		case row.KindMap:
			key = r.part(c.Type.Key(), "key("+c.Name+")")
		case row.KindSet:
			return invalid("Invalid element access syntax for set column %s", name)
		default:
			return invalid("Invalid element access syntax for non-collection column %s", name)
		}
		if err := checkDurations(c.Type.Element(), e.Operator); err != nil {
			return err
		}
		var err error
		if x.element, err = a.compile(e.Target.Element, key); err != nil {
			return err
		}
		x.kind, x.of = row.ElementIs, c.Type.Element()
		r = r.part(x.of, "value("+c.Name+")")
	case e.Target.Field != "":
		if c.Type.Kind != row.KindUDT {
			return invalid("Invalid field access syntax for non-UDT column %s", name)
		}
		if x.field = c.Type.Field(e.Target.Field); x.field < 0 {
			return invalid("Unknown field %s for column %s", e.Target.Field, name)
		}
		x.kind, x.of = row.FieldIs, c.Type.Parts[x.field]
		if err := checkDurations(x.of, e.Operator); err != nil {
			return err
		}
		r = r.part(x.of, c.Name+"."+e.Target.Field)
	default:
		if err := checkDurations(c.Type, e.Operator); err != nil {
			return err
		}
	}
	if e.Operator == cql.Contains || e.Operator == cql.ContainsKey {
		if e.Operator == cql.ContainsKey && r.t.Kind != row.KindMap {
			return invalid("Cannot use CONTAINS KEY on non-map column %s", r.name)
		}
		if !r.t.Collection() {
			return invalid("Cannot use CONTAINS on non-collection column %s", r.name)
		}
		if e.Operator == cql.ContainsKey {
			r = r.part(r.t.Key(), "key("+r.name+")")
		} else {
			r = r.part(r.t.Element(), "value("+r.name+")")
		}
	}
	var err error
	if e.Operator != cql.In {
		var v term
		v, err = a.compile(e.Value, r)
		x.values = []term{v}
	} else if m, ok := e.Value.(*cql.Marker); ok {
		x.list, err = a.compile(m, r.part(row.ListOf(r.t).Freeze(), "in("+r.name+")"))
		x.list = nullable(x.list)
	} else {
		for _, one := range e.Value.(*cql.TupleLiteral).Elements {
			var v term
			if v, err = a.compile(one, r); err != nil {
				break
			}
			x.values = append(x.values, v)
		}
	}
	if err == nil && (c.Kind == PartitionKey || c.Kind == Clustering) {
		err = invalid("PRIMARY KEY column '%s' cannot have IF conditions", name)
	}
	w.conditions = append(w.conditions, x)
	return err
}

// checkDurations refuses a comparison of order with durations.
func checkDurations(t *row.Type, o cql.Operator) error {
	if !t.References(row.KindDuration) || o < cql.Less || o > cql.GreaterOrEqual {
		return nil
	}
	switch {
	case t.Collection():
		return invalid("Slice conditions are not supported on collections containing durations")
	case t.Kind == row.KindTuple:
		return invalid("Slice conditions are not supported on tuples containing durations")
	case t.Kind == row.KindUDT:
		return invalid("Slice conditions are not supported on UDTs containing durations")
	}
	return invalid("Slice conditions ( %s ) are not supported on durations", o)
}

var conditionOperators = [...]row.Operator{
	cql.Equal: row.Equal, cql.NotEqual: row.NotEqual, cql.Less: row.Less, cql.LessOrEqual: row.LessEqual, cql.Greater: row.Greater,
	cql.GreaterOrEqual: row.GreaterEqual, cql.In: row.In, cql.Contains: row.Contains, cql.ContainsKey: row.ContainsKey,
}
