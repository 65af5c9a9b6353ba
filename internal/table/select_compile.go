package table

import (
	"cmp"
	"slices"
	"strings"

	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/table/cql"
	"github.com/decandb/decan/partitionkey"
)

// compileSelect compiles a SELECT of a table. The order of the checks is that of Apache
// Cassandra 4.1.
func (a *terms) compileSelect(t *Table, s *cql.Select) (*query, error) {
	q := &query{table: t, json: s.JSON, distinct: s.Distinct}
	selected := &selecting{table: t, terms: a}
	late := q.selectColumns(selected, s)
	static, err := selected.onlyStatic(s.Selectors)
	if err != nil {
		return nil, err
	}
	if q.where, err = a.restrict(t, s.Where, s.AllowFiltering, static); err != nil {
		return nil, err
	}
	order, err := orderColumns(t, s.OrderBy)
	if err != nil {
		return nil, err
	}
	if late != nil {
		return nil, late
	}
	q.aggregates = slices.ContainsFunc(q.expressions, expression.aggregates)
	if s.Distinct {
		if s.PerPartitionLimit != nil {
			return nil, invalid("PER PARTITION LIMIT is not allowed with SELECT DISTINCT queries")
		}
		if err := q.checkDistinct(order); err != nil {
			return nil, err
		}
	}
	if err := q.groupBy(s); err != nil {
		return nil, err
	}
	if q.aggregates && len(q.group) == 0 && s.PerPartitionLimit != nil {
		return nil, invalid("PER PARTITION LIMIT is not allowed with aggregate queries.")
	}
	if len(order) > 0 {
		if err := q.orderBy(s, order); err != nil {
			return nil, err
		}
	}
	if err := q.where.checkFiltering(s.AllowFiltering); err != nil {
		return nil, err
	}
	if s.PerPartitionLimit != nil {
		if q.perKey, err = a.compile(s.PerPartitionLimit, t.receiver(native(row.KindInt), "[per_partition_limit]")); err != nil {
			return nil, err
		}
	}
	if s.Limit != nil {
		if q.limit, err = a.compile(s.Limit, t.receiver(native(row.KindInt), "[limit]")); err != nil {
			return nil, err
		}
	}
	if q.feed, err = a.compileFeed(q, s); err != nil {
		return nil, err
	}
	q.prepareReads()
	return q, nil
}

// onlyStatic says whether selectors select static columns and nothing of the rows. In a
// table with static columns, Apache Cassandra looks for the functions of the selectors for
// that purpose, and finds some errors before it looks at WHERE.
func (s *selecting) onlyStatic(selectors []cql.Selector) (bool, error) {
	if len(s.table.Static) == 0 || len(selectors) == 0 {
		return false, nil
	}
	// find returns the first error of the selectors until one has a column of some kinds.
	find := func(kinds ...ColumnKind) (found bool, err error) {
		for i := range selectors {
			if s.early[i] != nil {
				return false, s.early[i]
			}
			if s.mentions(selectors[i].Expr, kinds) {
				return true, nil
			}
		}
		return false, nil
	}
	static, err := find(Static)
	if err != nil || !static {
		return false, err
	}
	other, err := find(Clustering, Regular)
	return !other, err
}

// mentions says whether a selector has a column of some kinds, as Apache Cassandra finds it:
// it takes a map or user-defined type for one if a value in it has no such column.
func (s *selecting) mentions(e cql.Expr, kinds []ColumnKind) bool {
	column := func(name string) bool {
		c := s.table.Column(name)
		return c != nil && slices.Contains(kinds, c.Kind)
	}
	any := func(list ...cql.Expr) bool {
		return slices.ContainsFunc(list, func(one cql.Expr) bool { return s.mentions(one, kinds) })
	}
	switch e := e.(type) {
	case *cql.Column:
		return column(e.Name)
	case *cql.WriteTime:
		return column(e.Column)
	case *cql.Call:
		return any(e.Args...)
	case *cql.Cast:
		return any(e.Value)
	case *cql.Binary:
		return any(e.Left, e.Right)
	case *cql.Negation:
		return any(e.Value)
	case *cql.TypeHint:
		return any(e.Value)
	case *cql.TupleLiteral:
		return any(e.Elements...)
	case *cql.ListLiteral:
		return any(e.Elements...)
	case *cql.SetLiteral:
		return any(e.Elements...)
	case *cql.MapLiteral:
		return slices.ContainsFunc(e.Entries, func(entry cql.MapEntry) bool {
			_, name := entry.Key.(*cql.Column)
			return !name && any(entry.Key) || !any(entry.Value)
		})
	case *cql.Field:
		return any(e.Value)
	case *cql.Element:
		return any(e.Value)
	case *cql.Slice:
		return any(e.Value)
	}
	return false
}

// selectColumns compiles what is selected, all of it. It returns the first error.
func (q *query) selectColumns(selected *selecting, s *cql.Select) (first error) {
	t := q.table
	if len(s.Selectors) == 0 {
		for _, c := range t.all() {
			q.expressions = append(q.expressions, &columnExpr{c})
			q.columns = append(q.columns, ResultColumn{c.Name, c.Type})
		}
	}
	selected.early = make([]error, len(s.Selectors))
	for i, one := range s.Selectors {
		selected.at = i
		e, err := selected.compile(one.Expr, nil)
		if t, ok := one.Expr.(*cql.TupleLiteral); ok && len(t.Elements) == 1 && err == nil {
			err = invalid("Cannot infer type for term %s in selection clause (try using a cast to force a type)", t)
		}
		if err != nil {
			first = cmp.Or(first, err)
			continue
		}
		name := one.Alias
		if name == "" {
			name = e.String()
			if c, ok := e.(*columnExpr); ok {
				name = c.column.Name
			}
		}
		q.expressions = append(q.expressions, e)
		q.columns = append(q.columns, ResultColumn{name, e.exactType()})
	}
	return first
}

// checkDistinct checks the columns of SELECT DISTINCT.
func (q *query) checkDistinct(order []*Column) error {
	w := q.where
	restricted := slices.ContainsFunc(w.clustering, func(r *restriction) bool { return r != nil })
	for _, f := range w.filters {
		for _, c := range f.columns {
			restricted = restricted || c.Kind == Clustering || c.Kind == Regular
		}
	}
	if restricted {
		return invalid("SELECT DISTINCT with WHERE clause only supports restriction by partition key and/or static columns.")
	}
	requested := map[*Column]bool{}
	var wrong *Column
	for _, e := range q.expressions {
		e.reads(func(c *Column, _ bool) {
			if requested[c] = true; wrong == nil && c.Kind != PartitionKey && c.Kind != Static {
				wrong = c
			}
		})
	}
	if wrong == nil && len(order) > 0 && w.keyIn && order[0].Kind != PartitionKey && order[0].Kind != Static {
		wrong = order[0] // The rows of several keys are sorted by it.
	}
	if wrong != nil {
		return invalid("SELECT DISTINCT queries must only request partition key columns and/or static columns (not %s)", wrong.Name)
	}
	if w.keyed() {
		return nil
	}
	for _, c := range q.table.Partition {
		if !requested[c] {
			return invalid("SELECT DISTINCT queries must request all the partition key columns (missing %s)", c.Name)
		}
	}
	return nil
}

// groupBy compiles GROUP BY: the key columns in their order; those that = fixes may be
// left out.
func (q *query) groupBy(s *cql.Select) error {
	if len(s.GroupBy) == 0 {
		return nil
	}
	keys := slices.Concat(q.table.Partition, q.table.Clustering)
	at, clustering := 0, 0
	const order = "Group by currently only support groups of columns following their declared order in the PRIMARY KEY"
	for _, e := range s.GroupBy {
		named, ok := e.(*cql.Column)
		if !ok {
			return invalid("Group by is currently only supported on the columns of the PRIMARY KEY, got %s", e)
		}
		c := q.table.Column(named.Name)
		if c == nil {
			return q.table.undefined(named.Name)
		}
		if c.Kind != PartitionKey && c.Kind != Clustering {
			return invalid("Group by is currently only supported on the columns of the PRIMARY KEY, got %s", c.Name)
		}
		for found := false; !found; at++ {
			if at == len(keys) {
				return invalid(order)
			}
			if keys[at].Kind == Clustering {
				clustering++
			}
			if found = keys[at] == c; !found && !q.where.fixed(keys[at]) {
				return invalid(order)
			}
		}
	}
	if at < len(keys) && keys[at].Kind == PartitionKey {
		return invalid("Group by is not supported on only a part of the partition key")
	}
	if clustering > 0 && s.Distinct {
		return invalid("Grouping on clustering columns is not allowed for SELECT DISTINCT queries")
	}
	q.group = keys[:at]
	return nil
}

// fixed says whether = restricts a column of the key.
func (w *where) fixed(c *Column) bool {
	list := w.partition
	if c.Kind == Clustering {
		list = w.clustering
	}
	for _, r := range list {
		if r != nil && r.equal() && slices.Contains(r.columns, c) {
			return true
		}
	}
	return false
}

// orderColumns finds the columns of ORDER BY; of a repeated one the last direction
// counts.
func orderColumns(t *Table, list []cql.Ordering) (columns []*Column, err error) {
	for _, o := range list {
		c := t.Column(o.Column)
		if c == nil {
			return nil, t.undefined(o.Column)
		}
		if !slices.Contains(columns, c) {
			columns = append(columns, c)
		}
	}
	return columns, nil
}

// orderBy compiles ORDER BY: the clustering order, or its reverse.
func (q *query) orderBy(s *cql.Select, columns []*Column) error {
	if q.where.indexed {
		return invalid("ORDER BY with 2ndary indexes is not supported.")
	}
	if !q.where.keyed() {
		return invalid("ORDER BY is only supported when the partition key is restricted by an EQ or an IN.")
	}
	descending := map[string]bool{}
	for _, o := range s.OrderBy {
		descending[o.Column] = o.Descending
	}
	at, first := 0, true
	for _, c := range columns {
		if c.Kind != Clustering {
			return invalid("Order by is currently only supported on the clustered columns of the PRIMARY KEY, got %s", c.Name)
		}
		for ; at < c.Position; at++ {
			if !q.where.fixed(q.table.Clustering[at]) {
				return invalid("Order by currently only supports the ordering of columns following their declared order in the PRIMARY KEY")
			}
		}
		if at != c.Position {
			return invalid("Order by currently only supports the ordering of columns following their declared order in the PRIMARY KEY")
		}
		at++
		reverse := descending[c.Name] != c.Descending
		if !first && reverse != q.reverse {
			return invalid("Unsupported order by relation")
		}
		q.reverse, first = reverse, false
	}
	q.sorted = q.where.keyIn
	if q.sorted && !q.aggregates && len(q.group) == 0 {
		q.ordered = at
	}
	return nil
}

// resultColumns returns the columns of the result.
func (q *query) resultColumns() []ResultColumn {
	if q.json {
		return []ResultColumn{{"[json]", native(row.KindText)}}
	}
	return q.columns
}

// checkPaging refuses pages of rows that have to be sorted as a whole. nothing says that no
// row is read.
func (q *query) checkPaging(size int, nothing bool) error {
	if q.sorted && size > 0 && (!nothing || q.aggregates || len(q.group) > 0) {
		return invalid("Cannot page queries with both ORDER BY and a IN restriction on the partition key; you must either remove the ORDER BY or the IN and sort client side, or disable paging for this query")
	}
	return nil
}

// warning returns what a client is warned of, empty for nothing.
func (q *query) warning() string {
	switch {
	case !q.aggregates && len(q.group) == 0:
	case !q.where.restrictsKeys:
		return "Aggregation query used without partition key"
	case q.where.keyIn:
		return "Aggregation query used on multiple partition keys (IN restriction)"
	}
	return ""
}

// all returns the columns in the order of SELECT *.
func (t *Table) all() []*Column { return slices.Concat(t.Partition, t.Clustering, t.Static, t.Regular) }

// compareKeys orders routing keys by token, then by their bytes.
func compareKeys(a, b string) int {
	return cmp.Or(cmp.Compare(partitionkey.Token([]byte(a)), partitionkey.Token([]byte(b))), strings.Compare(a, b))
}
