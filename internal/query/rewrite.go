package query

import (
	"slices"
	"strings"

	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/value"
)

// rewriting is how a client that reads partitions separately gets the result of a
// query: the text to send to each, and what to do with the rows. The names are those
// of the queryInfo in the protocol.
type rewriting struct {
	text               *sql.Select       // nil for the query unchanged
	top, offset, limit int64             // to apply to the merged rows; -1 for none
	distinct           string            // None, or the order in which equal rows arrive: Ordered, Unordered
	order              []sql.OrderByItem // keys of the rows' orderByItems
	groupBy            []sql.Expr        // keys of the rows' groupByItems
	aliases            []string
	aggregates         []string // of SELECT VALUE
	types              []string // by alias: the aggregate in that column, or ""
	count              *string  // the client counts the rows, into a column of this name, or as a value if it is ""
	buffered           bool     // rows of one partition come in order and cannot be resumed
}

// The values of distinctType.
const (
	distinctNone      = "None"
	distinctOrdered   = "Ordered"
	distinctUnordered = "Unordered"
)

// alone returns the rewriting of a query that one partition runs as a whole.
func (p *Plan) alone() rewriting {
	return rewriting{top: p.top, offset: -1, limit: -1, distinct: distinctNone}
}

// rewriting returns the rewriting of the query for several partitions. It returns a
// BadRequest if clients cannot merge it.
func (p *Plan) rewriting() (rewriting, error) {
	q := p.query
	r := rewriting{top: p.top, offset: p.offset, limit: p.limit, distinct: distinctNone}
	switch inner := combining(q.From); {
	case inner != nil:
		return p.rewriteCount(r, inner)
	case isGrouped(q):
		return p.rewriteGroups(r)
	case len(q.OrderBy) > 0 && !readsDocuments(q):
		return r, planError("ORDER BY over several partitions is only supported in a query whose FROM clause begins with the container.")
	case q.Distinct:
		p.rewriteDistinct(&r)
	case len(q.OrderBy) > 0:
		r.order, r.buffered = q.OrderBy, isDistance(q.OrderBy[0].Expr)
		r.text = p.orderedText()
		p.bindCounts(r.text)
	case p.limit >= 0:
		text := *q
		p.bindCounts(&text)
		r.text = &text
	}
	return r, nil
}

// readsDocuments reports whether the first input of a query is the container. Then its
// alias has the resource id that distinguishes merged rows.
func readsDocuments(q *sql.Select) bool {
	if q.From == nil {
		return false
	}
	in := q.From.Inputs[0]
	_, whole := in.Collection.(*sql.Ident)
	return whole && !in.In
}

// combining returns the subquery in FROM if its rows are made from several documents,
// otherwise nil.
func combining(from *sql.From) *sql.Select {
	for from != nil {
		q := from.Inputs[0].Subquery
		switch {
		case q == nil:
			return nil
		case q.Distinct || isGrouped(q):
			return q
		}
		from = q.From
	}
	return nil
}

// isGrouped reports whether the rows of a query are groups: it has GROUP BY or an
// aggregate.
func isGrouped(q *sql.Select) bool {
	return len(q.GroupBy) > 0 || q.Value != nil && hasAggregate(q.Value) ||
		slices.ContainsFunc(q.Items, func(item sql.SelectItem) bool { return hasAggregate(item.Expr) })
}

// aggregateOf returns the name of the aggregate if x is a call of one, otherwise "".
func aggregateOf(x sql.Expr) string {
	kind, ok := aggregateKind(x)
	if !ok {
		return ""
	}
	return kind.String()
}

// isDistance reports whether an ORDER BY key is a distance of vectors, which no
// ordinary index sorts.
func isDistance(x sql.Expr) bool {
	call, ok := x.(*sql.CallExpr)
	return ok && isFunction(call, "VectorDistance")
}

// computedKey returns the actual key of an ORDER BY item. The most similar vectors
// come first whatever the direction, and it depends on the metric whether a small or a
// large distance is similar. So the key is a score that decreases with the distance.
// Documents without the vector have no score and come last. Other keys are unchanged.
func computedKey(s sql.OrderByItem) sql.OrderByItem {
	if !isDistance(s.Expr) {
		return s
	}
	return sql.OrderByItem{Expr: &sql.CallExpr{Name: "_VectorScore", Args: s.Expr.(*sql.CallExpr).Args}, Desc: true, Explicit: true}
}

// sortsByValue reports whether an ORDER BY key is not required to be a property:
// distances, and the scores in rewritten queries.
func sortsByValue(x sql.Expr) bool {
	call, ok := x.(*sql.CallExpr)
	return ok && (isDistance(x) || isFunction(call, "_VectorScore") || isFunction(call, "_FullTextScore"))
}

// rewriteCount rewrites a count of distinct rows: each partition returns its own, and
// the client counts. It is the only query over the combined rows of a subquery that
// clients can merge.
func (p *Plan) rewriteCount(r rewriting, inner *sql.Select) (rewriting, error) {
	q := p.query
	alias, ok := countedAs(q, inner)
	if !ok {
		return r, planError("A query over several partitions can only count the rows of a subquery that has DISTINCT, GROUP BY or an aggregate.")
	}
	r.distinct, r.count, r.text = distinctUnordered, &alias, inner
	return r, nil
}

// countedAs reports whether q only counts the distinct rows of its subquery, and
// returns the name of the column with the count.
func countedAs(q, inner *sql.Select) (alias string, ok bool) {
	if q.From.Inputs[0].Subquery != inner || len(q.From.Inputs) > 1 || isGrouped(inner) || q.Where != nil || q.GroupBy != nil {
		return "", false
	}
	x := q.Value
	if x == nil {
		if len(q.Items) != 1 {
			return "", false
		}
		x, alias = q.Items[0].Expr, columnNames(q.Items)[0]
	}
	if aggregateOf(x) != "Count" {
		return "", false
	}
	// Each row is defined, so counting the alias or a constant is equivalent.
	switch arg := x.(*sql.CallExpr).Args[0].(type) {
	case *sql.Literal:
		return alias, arg.Value.IsDefined()
	case *sql.Ident:
		return alias, arg.Name == q.From.Inputs[0].Alias
	}
	return "", false
}

// groupedAggregatesMax is the service's maximum number of aggregates in a query with
// GROUP BY over several partitions.
const groupedAggregatesMax = 21

// rewriteGroups rewrites aggregates and GROUP BY: partitions return parts of groups,
// so their rows cannot be skipped or limited.
func (p *Plan) rewriteGroups(r rewriting) (rewriting, error) {
	q := p.query
	grouped := len(q.GroupBy) > 0
	switch {
	case grouped && len(q.OrderBy) > 0:
		return r, planError("ORDER BY is not supported together with GROUP BY over several partitions.")
	case grouped && q.Distinct && !selectsKeys(q):
		return r, planError("DISTINCT is not supported together with GROUP BY over several partitions, unless each of the grouped expressions is selected.")
	}
	payload, err := p.partial(&r)
	if err != nil {
		return r, err
	}
	text := *q
	text.Distinct, text.Top, text.Offset, text.Limit, text.OrderBy = false, nil, nil, nil, nil
	text.Value, text.Items = nil, []sql.SelectItem{{Expr: payload, Alias: "payload"}}
	switch {
	case grouped:
		r.groupBy = q.GroupBy
		keys := sql.SelectItem{Expr: keyItems(q.GroupBy), Alias: "groupByItems"}
		text.Items = append([]sql.SelectItem{keys}, text.Items...)
	case q.Value != nil:
		text.Value, text.Items = payload, nil
	}
	r.text = &text
	return r, nil
}

// selectsKeys reports whether each key of GROUP BY is selected, so that no two rows
// are equal.
func selectsKeys(q *sql.Select) bool {
	selected := map[string]bool{}
	if q.Value != nil {
		selected[q.Value.String()] = true
	}
	for _, item := range q.Items {
		selected[item.Expr.String()] = true
	}
	return !slices.ContainsFunc(q.GroupBy, func(key sql.Expr) bool { return !selected[key.String()] })
}

// partial returns the expression of a part of a group: the select list with each
// aggregate in a form that can be added up. It records the columns in r.
func (p *Plan) partial(r *rewriting) (sql.Expr, error) {
	q := p.query
	if q.Value != nil {
		name := aggregateOf(q.Value)
		switch {
		case name != "":
			r.aggregates = []string{name}
			return &sql.ArrayLiteral{Items: []sql.Expr{aggregateItem(q.Value.(*sql.CallExpr))}}, nil
		case hasAggregate(q.Value):
			return nil, errComposition()
		}
		return q.Value, nil
	}
	payload := &sql.ObjectLiteral{}
	total := 0
	for i, name := range columnNames(q.Items) {
		x := q.Items[i].Expr
		kind := aggregateOf(x)
		switch {
		case kind != "":
			total++
			x = aggregateItem(x.(*sql.CallExpr))
		case hasAggregate(x):
			return nil, errComposition()
		}
		payload.Members = append(payload.Members, sql.Property{Name: name, Expr: x})
		r.aliases, r.types = append(r.aliases, name), append(r.types, kind)
	}
	if len(q.GroupBy) > 0 && total > groupedAggregatesMax {
		return nil, planError("A query with GROUP BY over several partitions can have no more than 21 aggregates.")
	}
	return payload, nil
}

func errComposition() error {
	return planError("Compositions of aggregates and other expressions are not allowed.")
}

// aggregateItem returns an aggregate in the form of a part of a group. The average is
// a sum and a count. The least and the greatest also have a count, which distinguishes
// a part without values from a part with values that have no order.
func aggregateItem(call *sql.CallExpr) sql.Expr {
	again := func(name string) sql.Expr { return &sql.CallExpr{Name: name, Args: call.Args} }
	object := func(name string, x sql.Expr) *sql.ObjectLiteral {
		return &sql.ObjectLiteral{Members: []sql.Property{{Name: name, Expr: x}, {Name: "count", Expr: again("COUNT")}}}
	}
	item := &sql.ObjectLiteral{Members: []sql.Property{{Name: "item", Expr: call}}}
	switch name := strings.ToUpper(call.Name); name {
	case "AVG":
		item.Members[0].Expr = object("sum", again("SUM"))
	case "MIN", "MAX":
		item.Members = append(item.Members, sql.Property{Name: "item2", Expr: object(strings.ToLower(name), call)})
	}
	return item
}

// keyItems returns the array of keys by which clients compare rows.
func keyItems(keys []sql.Expr) sql.Expr {
	list := &sql.ArrayLiteral{}
	for _, key := range keys {
		list.Items = append(list.Items, &sql.ObjectLiteral{Members: []sql.Property{{Name: "item", Expr: key}}})
	}
	return list
}

// rewriteDistinct leaves the comparison of rows to the client, which sees all of them.
// If they are sorted by the select list, equal rows are adjacent. Without an order,
// partitions remove equal rows of their own. With an order each row has a resource id
// and is distinct, so the client also counts.
func (p *Plan) rewriteDistinct(r *rewriting) {
	q := p.query
	r.distinct = distinctUnordered
	text := *q
	if len(q.OrderBy) == 0 {
		if q.Top == nil && q.Offset == nil {
			return
		}
		p.bindCounts(&text)
		text.Top = nil
		r.text = &text
		return
	}
	if orderedBySelected(q) {
		r.distinct = distinctOrdered
	}
	r.order, r.buffered = q.OrderBy, isDistance(q.OrderBy[0].Expr)
	text = *p.orderedText()
	text.Distinct, text.Top, text.Offset, text.Limit = false, nil, nil, nil
	r.text = &text
}

// orderedBySelected reports whether ORDER BY has every selected expression, so that
// equal rows are adjacent.
func orderedBySelected(q *sql.Select) bool {
	keys := map[string]bool{}
	for _, sort := range q.OrderBy {
		keys[sort.Expr.String()] = true
	}
	if q.Value != nil {
		return keys[q.Value.String()]
	}
	return !q.Star && !slices.ContainsFunc(q.Items, func(item sql.SelectItem) bool { return !keys[item.Expr.String()] })
}

// bindCounts replaces parameters by their values. Each partition also returns the rows
// that OFFSET may skip, up to the maximum of LIMIT.
func (p *Plan) bindCounts(q *sql.Select) {
	q.Top = nil
	if p.top >= 0 {
		q.Top = &sql.Literal{Value: value.Int(p.top)}
	}
	if p.limit >= 0 {
		q.Offset = &sql.Literal{Value: value.Int(0)}
		q.Limit = &sql.Literal{Value: value.Int(min(p.offset+p.limit, countMax))}
	}
}

// filterPlaceholder is what clients replace in a rewritten query: by true, or by a
// condition on the order key with which they resume.
const filterPlaceholder = "{documentdb-formattableorderbyquery-filter}"

// orderedText returns the query that makes each partition return what a client merges
// by with every row: the resource id and the order keys.
func (p *Plan) orderedText() *sql.Select {
	q := *p.query
	alias := &sql.Ident{Name: p.alias()}
	payload := p.payload(alias)
	keys, sorts := make([]sql.Expr, len(q.OrderBy)), make([]sql.OrderByItem, len(q.OrderBy))
	for i, sort := range q.OrderBy {
		sorts[i] = computedKey(sort)
		keys[i] = sorts[i].Expr
	}
	q.OrderBy = sorts
	q.Star, q.Value = false, nil
	q.Items = []sql.SelectItem{
		{Expr: &sql.MemberExpr{X: alias, Name: "_rid"}},
		{Expr: keyItems(keys), Alias: "orderByItems"},
		{Expr: payload, Alias: "payload"},
	}
	var conditions []sql.Expr
	if p.query.Value != nil {
		conditions = append(conditions, &sql.CallExpr{Name: "IS_DEFINED", Args: []sql.Expr{payload}})
	}
	q.Where = withPlaceholder(q.Where, conditions...)
	return &q
}

// withPlaceholder returns a filter with the placeholder for a condition of the client.
// The placeholder is not an expression, so it is inserted as an identifier.
func withPlaceholder(where sql.Expr, conditions ...sql.Expr) sql.Expr {
	conditions = append(conditions, &sql.Ident{Name: "(" + filterPlaceholder + ")"})
	if where != nil {
		conditions = append([]sql.Expr{&sql.Ident{Name: "(" + where.String() + ")"}}, conditions...)
	}
	if len(conditions) == 1 {
		return conditions[0]
	}
	return &sql.Ident{Name: "(" + (&sql.LogicalExpr{Terms: conditions}).String() + ")"}
}

// alias returns the name of the first input, whose documents have the resource ids.
func (p *Plan) alias() string {
	return p.query.From.Inputs[0].Name()
}

// payload returns the expression of the query's result.
func (p *Plan) payload(alias sql.Expr) sql.Expr {
	switch {
	case p.query.Star:
		return alias
	case p.query.Value != nil:
		return p.query.Value
	}
	o := &sql.ObjectLiteral{}
	for i, name := range columnNames(p.query.Items) {
		o.Members = append(o.Members, sql.Property{Name: name, Expr: p.query.Items[i].Expr})
	}
	return o
}
