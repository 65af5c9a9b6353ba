package table

import (
	"bytes"
	"cmp"
	"errors"
	"math"
	"slices"

	"github.com/decandb/decan/internal/row"
)

// Items are the items of one partition key while a [KeyChange] is evaluated, as package
// partition has them.
type Items interface {
	// Get returns the body of an item, nil if there is none. It is valid until the next
	// call.
	Get(item string) ([]byte, error)
	// Put replaces the body of an item; nil removes it. due is the time in seconds since
	// 1970 at which something of it can be removed, zero for never. If it is negative, the
	// whole item is removed at -due.
	Put(item string, body []byte, due int64) error
	// Micros returns a time in microseconds since 1970 that is greater than that of any
	// earlier change of the partition which has asked for it.
	Micros() int64
}

// KeyChange is what statements do to one partition key: data that the writer of its
// partition evaluates, as one effect.
type KeyChange struct {
	Table *Table
	Key   string // routing key
	Now   int64  // in seconds since 1970: what has expired then is not there

	// Projections are those of the views of the table, as they are when the change is
	// evaluated. Projected says that Evaluate left an outbox, which is to be settled.
	Projections []*Projection
	Projected   bool

	conditional bool
	late        error // of the values of a conditional change, for which its conditions come first
	conditions  []rowConditions
	changes     []rowChange

	// Applied says whether the conditions held. If they did not, found are the rows that
	// the result shows, and fetched what it may show of them.
	Applied bool
	found   []foundRow
	fetched fetched
}

// rowConditions are the conditions on a row, or on the static row.
type rowConditions struct {
	key    []byte // encoded clustering key
	static bool   // the conditions are on the static row
	all    []row.Condition
}

// rowChange is a change of a row, of the static row, of a range of rows or of all.
type rowChange struct {
	item       string // of a row or the static row
	partition  bool   // delete the whole partition
	deletion   *span  // delete a range of rows
	mutation   row.Mutation
	adds       map[int]*Column // operations whose values are added to those of the row
	serverTime bool            // the writer gives the timestamp
}

// bind returns what the statement does, by partition key in the order of tokens. times is
// the timestamp of the request, or of its batch; nil lets the writer give one.
func (w *write) bind(b *binding, times *int64, now int64) ([]*KeyChange, error) {
	keys, err := w.where.keys(b)
	if err != nil {
		return nil, err
	}
	if w.conditional() {
		if err := w.checkOneRow(); err != nil {
			return nil, err
		}
	}
	on, err := w.targets(b)
	if err != nil {
		return nil, err
	}
	if !w.conditional() && !w.onlyStatic && len(on.rows) == 0 && len(on.spans) == 0 {
		// As in Apache Cassandra, a statement that names no row has no timestamp to check.
		all := make([]*KeyChange, len(keys))
		for i, key := range keys {
			all[i] = &KeyChange{Table: w.table, Key: key, Now: now, fetched: w.fetched()}
		}
		return all, nil
	}
	timestamp, err := w.timestampOf(b, times)
	if err != nil {
		return nil, err
	}
	ttl, late := w.ttlOf(b)
	if late != nil && !w.conditional() {
		return nil, late
	}
	if on.spans != nil && !w.deleteRows {
		return nil, invalid("Range deletions are not supported for specific columns")
	}
	regular, static, err := w.changedColumns(b)
	if err != nil && !w.conditional() {
		return nil, err
	}
	late = cmp.Or(late, err)
	mutation := row.Mutation{TTL: ttl, Marker: w.marker}
	if timestamp != nil {
		mutation.Timestamp = *timestamp
	}
	changes := w.changes(on, mutation, regular, static, timestamp == nil)
	if !w.conditional() {
		if err := w.table.checkIndexed(changes); err != nil {
			return nil, err
		}
	}
	conditions, err := w.bindConditions(b)
	if err != nil {
		return nil, err
	}
	all := make([]*KeyChange, len(keys))
	for i, key := range keys {
		all[i] = &KeyChange{Table: w.table, Key: key, Now: now, changes: slices.Clone(changes), conditions: conditions, conditional: w.conditional(), late: late, fetched: w.fetched()}
	}
	return all, nil
}

func (w *write) timestampOf(b *binding, times *int64) (*int64, error) {
	if w.conditional() {
		return nil, nil
	}
	if w.timestamp == nil || w.timestamp.unset(b) {
		return times, nil
	}
	v, err := w.timestamp.bind(b)
	if err != nil {
		return nil, err
	}
	if len(v) == 0 {
		return nil, invalid("Invalid null value of timestamp")
	}
	n := row.Integer(v)
	return &n, checkTimestamp(n)
}

// checkTimestamp refuses the timestamp that is before all others.
func checkTimestamp(n int64) error {
	if n == math.MinInt64 {
		return invalid("Out of bound timestamp, must be in [%d, %d]", int64(math.MinInt64+1), int64(math.MaxInt64))
	}
	return nil
}

func (w *write) ttlOf(b *binding) (uint32, error) {
	if w.ttl == nil || w.ttl.unset(b) {
		return w.expiring(b, int64(w.table.Options.DefaultTTL), "default ")
	}
	v, err := w.ttl.bind(b)
	if err != nil || v == nil {
		return 0, err
	}
	if len(v) == 0 {
		return 0, invalid("Invalid empty value of TTL")
	}
	n := row.Integer(v)
	switch {
	case n < 0:
		return 0, invalid("A TTL must be greater or equal to 0, but was %d", n)
	case n > ttlMax:
		return 0, invalid("ttl is too large. requested (%d) maximum (%d)", n, ttlMax)
	}
	return w.expiring(b, n, "")
}

// expiring refuses a time to live that ends later than a time of 32 bits can tell.
func (w *write) expiring(b *binding, ttl int64, what string) (uint32, error) {
	if ttl > 0 && b.moment.Now.Unix()+ttl > math.MaxInt32 {
		return 0, invalid("Request on table %s.%s with %sttl of %d seconds exceeds maximum supported expiration date of 2038-01-19T03:14:06+00:00. "+
			"In order to avoid this use a lower TTL, change the expiration date overflow policy or upgrade to a version where this limitation is fixed. "+
			"See CASSANDRA-14092 for more details.", w.table.Keyspace, w.table.Name, what, ttl)
	}
	return uint32(ttl), nil
}

// changedColumns are changes of columns. Those of adds have values that are added to those of the row.
type changedColumns struct {
	ops  []row.Op
	adds map[int]*Column
}

// changedColumns returns the changes of regular and static columns. Unset values change
// nothing.
func (w *write) changedColumns(b *binding) (regular, static changedColumns, err error) {
	for _, x := range w.assigned {
		values := make([][]byte, len(x.terms))
		skip := false
		for i, t := range x.terms {
			if t.unset(b) {
				if (i == 1 || x.removes) && x.column.Type.Kind == row.KindMap {
					return regular, static, invalid("Invalid unset map key")
				}
				if i == 1 {
					return regular, static, invalid("Invalid unset value for list index")
				}
				skip = true
				continue
			}
			if values[i], err = t.bind(b); err != nil {
				return regular, static, err
			}
		}
		var op row.Op
		switch {
		case skip && x.column.Type.Kind == row.KindList && len(values) == 2 && values[1] != nil:
			op = row.CheckIndex(x.column.ID, int32(row.Integer(values[1])))
		case skip && (x.column.Type.Kind != row.KindList || len(values) < 2):
			continue
		default: // The null index of a list is an error, also with an unset value.
			op, err = x.op(values)
		}
		if err != nil {
			return regular, static, err
		}
		of := &regular
		if x.column.Kind == Static {
			of = &static
		}
		if x.adds {
			if of.adds == nil {
				of.adds = map[int]*Column{}
			}
			of.adds[len(of.ops)] = x.column
		}
		of.ops = append(of.ops, op)
	}
	return regular, static, nil
}

// targets are the rows, or the ranges of rows, that a statement names in a partition.
type targets struct {
	rows  []namedRow
	spans []span // nil if the statement names rows
}

// targets returns what the statement names: nothing if it changes static columns only.
func (w *write) targets(b *binding) (on targets, err error) {
	if w.onlyStatic {
		return on, nil
	}
	if w.where.prefix < len(w.table.Clustering) || w.where.slicing != nil {
		if on.spans, err = w.where.spans(b); on.spans == nil {
			on.spans = []span{}
		}
		return on, err
	}
	on.rows, err = w.rows(b)
	return on, err
}

// changes returns the changes of each partition key that the statement names.
func (w *write) changes(on targets, m row.Mutation, regular, static changedColumns, serverTime bool) (all []rowChange) {
	if len(static.ops) > 0 {
		one := m
		one.Marker, one.Ops = false, static.ops
		times := 1
		if w.table.Counter() || slices.ContainsFunc(static.ops, func(op row.Op) bool {
			return op.Kind == row.OpAppend || op.Kind == row.OpPrepend || op.Kind == row.OpReplace
		}) {
			times = max(len(on.rows), 1) // Static columns change for each row that the statement names.
		}
		for range times {
			all = append(all, rowChange{item: StaticItem, mutation: one, adds: static.adds, serverTime: serverTime})
		}
	}
	if w.deleteRows && len(w.table.Clustering) == 0 {
		return []rowChange{{partition: true, mutation: m, serverTime: serverTime}}
	}
	for _, s := range on.spans {
		one := rowChange{mutation: m, serverTime: serverTime, deletion: &s}
		if s.start == nil && s.end == nil {
			one.partition, one.deletion = true, nil
		}
		all = append(all, one)
	}
	for _, r := range on.rows {
		one := m
		one.Ops, one.DeleteRow, one.Key = regular.ops, w.deleteRows, r.originals
		if len(regular.ops) > 0 || w.marker || w.deleteRows {
			all = append(all, rowChange{item: RowItems + string(r.key), mutation: one, adds: regular.adds, serverTime: serverTime})
		}
	}
	return all
}

// namedRow is a row that a statement names by its whole key.
type namedRow struct {
	key       []byte
	originals []row.KeyValue
	size      int // of the values
}

// clusteringMax is the greatest size in bytes of a clustering value.
const clusteringMax = 65_535

// rows returns the rows of all clustering values, in order.
func (w *write) rows(b *binding) ([]namedRow, error) {
	all := []namedRow{{}}
	long := false
	for i := 0; i < len(w.table.Clustering); {
		r := w.where.clustering[i]
		values, err := r.listed(b)
		if err != nil {
			return nil, err
		}
		var next []namedRow
		for _, v := range values {
			encoded, err := r.encode(v)
			if err != nil {
				return nil, err
			}
			parts := [][]byte{v}
			if r.multi {
				parts = r.tuple(len(r.columns)).Split(v)
			}
			for _, p := range all {
				one := namedRow{key: slices.Concat(p.key, encoded), originals: slices.Clone(p.originals), size: p.size}
				for j, part := range parts {
					one.size += len(part)
					long = long || len(part) > clusteringMax
					if original := r.columns[j].Type.Original(part); original != nil {
						one.originals = append(one.originals, row.KeyValue{Column: i + j, Value: original})
					}
				}
				next = append(next, one)
			}
		}
		if len(next) > combinationsMax {
			return nil, invalid("The statement names %d rows. At most %d are allowed.", len(next), combinationsMax)
		}
		all = next
		i += len(r.columns)
	}
	if long {
		return nil, invalid("Key length of %d is longer than maximum of %d", all[0].size, clusteringMax)
	}
	slices.SortStableFunc(all, func(a, b namedRow) int { return bytes.Compare(a.key, b.key) })
	return slices.CompactFunc(all, func(a, b namedRow) bool { return bytes.Equal(a.key, b.key) }), nil
}

// bindConditions returns the conditions of the statement: those on static columns apart.
func (w *write) bindConditions(b *binding) (all []rowConditions, err error) {
	if !w.conditional() {
		return nil, nil
	}
	on := rowConditions{static: w.onlyStatic}
	if !w.onlyStatic {
		rows, err := w.rows(b)
		if err != nil {
			return nil, err
		}
		on.key = rows[0].key
	}
	onStatic := rowConditions{key: on.key, static: true}
	switch {
	case w.exists:
		on.all = append(on.all, row.Condition{Kind: row.RowExists})
	case w.notExists:
		on.all = append(on.all, row.Condition{Kind: row.RowNotExists})
	}
	for i := range w.conditions {
		c, err := w.conditions[i].bind(b)
		if err != nil {
			return nil, err
		}
		if w.conditions[i].column.Kind == Static {
			onStatic.all = append(onStatic.all, c)
		} else {
			on.all = append(on.all, c)
		}
	}
	if len(onStatic.all) > 0 {
		all = append(all, onStatic)
	}
	if len(on.all) > 0 {
		all = append(all, on)
	}
	return all, nil
}

// bind returns the condition as data.
func (x *writeCondition) bind(b *binding) (row.Condition, error) {
	c := row.Condition{Kind: x.kind, Column: x.column.ID, Type: x.column.Type, Field: x.field, Op: x.operator}
	one := func(t term) ([]byte, error) {
		if t.unset(b) {
			return nil, invalid("Invalid 'unset' value in condition")
		}
		return t.bind(b)
	}
	var err error
	if x.element != nil {
		if c.Key, err = one(x.element); err != nil {
			return c, err
		}
	}
	if x.list != nil {
		v, err := one(x.list)
		if err == nil && v == nil {
			err = invalid("Invalid null list in IN condition")
		}
		c.Values = elementsOf(x.of, v)
		return c, err
	}
	for _, t := range x.values {
		if x.operator == row.In && t.unset(b) {
			continue // As in Apache Cassandra, the list does not have it.
		}
		v, err := one(t)
		if err != nil {
			return c, err
		}
		c.Values = append(c.Values, v)
	}
	return c, nil
}

// Join adds the changes of other statements of a batch to the same partition key.
func (k *KeyChange) Join(other *KeyChange) {
	k.changes = append(k.changes, other.changes...)
	k.conditions = append(k.conditions, other.conditions...)
	k.conditional = k.conditional || other.conditional
	k.late = cmp.Or(k.late, other.late)
	k.fetched.add(other.fetched)
}

// fail turns an error of package row into one of a statement.
func fail(err error) error {
	if e, ok := errors.AsType[*row.Error](err); ok {
		return invalid("%s", e.Text)
	}
	return err
}

// Evaluate checks the conditions and makes the changes. It is called again after an error
// of the partition, so it begins again.
func (k *KeyChange) Evaluate(items Items) error {
	k.Applied, k.found, k.Projected = true, nil, false
	e := evaluation{KeyChange: k, items: items}
	body, err := items.Get(MetaItem)
	if err != nil {
		return err
	}
	if e.meta, err = row.DecodeMeta(bytes.Clone(body)); body != nil && err != nil {
		return err
	}
	if err := e.check(); err != nil {
		return fail(err)
	}
	if !k.Applied {
		return nil
	}
	if k.late != nil {
		return k.late
	}
	if k.conditional {
		if err := k.Table.checkIndexed(k.changes); err != nil {
			return fail(err)
		}
	}
	return fail(e.change())
}

// evaluation is one call of Evaluate.
type evaluation struct {
	*KeyChange
	items Items
	meta  row.Meta
}

// read returns a row or the static row.
func (e *evaluation) read(item string) (row.Row, row.Deletion, error) {
	covered := e.meta.Deletion
	if item != StaticItem {
		covered = e.meta.Covering([]byte(item[1:]))
	}
	body, err := e.items.Get(item)
	if err != nil || body == nil {
		return row.Row{}, covered, err
	}
	r, err := row.DecodeRow(bytes.Clone(body))
	return r, covered, err
}

// change makes the changes. All that the writer gives a timestamp have the same one.
func (e *evaluation) change() error {
	var now int64
	var changed row.Meta
	var from []byte // where the first deletion begins
	groups := map[string][]row.Mutation{}
	var order []string
	for i := range e.changes {
		c := &e.changes[i]
		m := c.mutation
		if c.serverTime || e.conditional { // As in Apache Cassandra, which has one time for all of them.
			if now == 0 {
				now = e.items.Micros()
			}
			m.Timestamp = now
		}
		if e.conditional && (c.partition || c.deletion != nil) {
			m.Timestamp-- // The rows that a conditional batch writes are kept, as in Apache Cassandra.
		}
		switch {
		case c.partition:
			changed = row.MergeMeta(&changed, &row.Meta{Deletion: row.Deletion{Present: true, Timestamp: m.Timestamp, Local: e.Now}})
		case c.deletion != nil:
			changed = row.MergeMeta(&changed, &row.Meta{Ranges: []row.RangeDeletion{{Start: c.deletion.start, End: c.deletion.end, Timestamp: m.Timestamp, Local: e.Now}}})
		default:
			if _, ok := groups[c.item]; !ok {
				order = append(order, c.item)
			}
			if m.Sequence == 0 {
				m.Sequence = e.items.Micros()
			}
			if err := e.add(c, &m); err != nil {
				return err
			}
			groups[c.item] = append(groups[c.item], m)
		}
	}
	if !changed.Empty() {
		if !changed.Deletion.Present {
			from = changed.Ranges[0].Start
		}
		sweep := e.meta.Sweep
		e.meta = row.MergeMeta(&e.meta, &changed)
		e.meta.Sweep = sweep
		e.meta.Sweeps(from)
		if err := e.items.Put(MetaItem, e.meta.Append(nil), e.Table.dueMeta(&e.meta)); err != nil {
			return err
		}
		if len(e.Projections) > 0 {
			if err := e.leave(OutboxRange, nil, changed); err != nil {
				return err
			}
		}
	}
	for _, item := range order {
		before, covered, err := e.read(item)
		if err != nil {
			return err
		}
		after, err := row.Apply(&before, row.Snapshot{Now: e.Now, Covered: covered}, groups[item]...)
		if err != nil {
			return err
		}
		if err := e.put(item, &after); err != nil {
			return err
		}
		if err := e.project(item, &before, &after, covered); err != nil {
			return err
		}
	}
	return nil
}

// add adds the values of the row to those of a change. What is null stays null.
func (e *evaluation) add(c *rowChange, m *row.Mutation) error {
	if len(c.adds) == 0 {
		return nil
	}
	r, covered, err := e.read(c.item)
	if err != nil {
		return err
	}
	m.Ops = slices.Clone(m.Ops)
	for i, column := range c.adds {
		own, err := r.Value(row.Want{Column: column.ID, Type: column.Type}, row.Snapshot{Now: e.Now, Covered: covered})
		if err != nil {
			return err
		}
		sum, err := plus(column.Type.Kind, own.Bytes, m.Ops[i].Value)
		if err != nil {
			return invalid("%s", err.Error())
		}
		m.Ops[i] = row.SetColumn(column.ID, column.Type, sum)
	}
	return nil
}

func (e *evaluation) put(item string, r *row.Row) error {
	if r.Empty() {
		return e.items.Put(item, nil, 0)
	}
	return e.items.Put(item, r.Append(nil), e.Table.due(r))
}

// keyMarkers returns the index of the marker of each column of the partition key, the last
// one if there are several. It is nil unless each column has one, and for several tables.
func keyMarkers(markers []Marker, tables []*Table) []int {
	if len(tables) != 1 {
		return nil
	}
	all := make([]int, len(tables[0].Partition))
	found := 0
	for i, m := range markers {
		if m.column != nil && m.column.Kind == PartitionKey {
			if all[m.column.Position] == 0 {
				found++
			}
			all[m.column.Position] = i + 1
		}
	}
	if found < len(all) {
		return nil
	}
	for i := range all {
		all[i]--
	}
	return all
}
