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
	text               *sql.Select       // nil for the query unchanged; it shares nodes with the query and is only printed
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

// rewriting returns the rewriting of the query for the ranges that it visits: none if
// the filter leaves a single key, or no row at all, because one partition then answers
// alone. single leaves OFFSET LIMIT to it. The error is a BadRequest if clients cannot
// merge the query.
func (p *Plan) rewriting(pinned, single bool) (rewriting, error) {
	q := p.query
	if pinned && (!q.Distinct || q.From == nil) && !ordersTotals(q) {
		return rewriting{top: -1, offset: -1, limit: -1, distinct: distinctNone}, nil
	}
	if err := p.uncomposed(); err != nil {
		return rewriting{}, err
	}
	if counted, alias := distinctCount(q, p.with); counted != nil {
		r := rewriteText(counted, limits{-1, -1, -1})
		if r.count = &alias; r.text == nil {
			r.text = counted
		}
		return r, nil
	}
	if single && !q.Distinct && len(q.GroupBy) == 0 && (q.Value == nil || !hasAggregate(q.Value)) && !ordersByDistance(q) && !ordersTotals(q) {
		return rewriteText(q, limits{p.top, -1, -1}), nil
	}
	return rewriteText(q, limits{p.top, p.offset, p.limit}), nil
}

// ordersTotals reports whether a query is in an order of aggregates or of their rows. As
// in the service, its text for partitions is rewritten even if one answers alone.
func ordersTotals(q *sql.Select) bool {
	totals := isGrouped(q) && !ordersKeys(q)
	return q.From != nil && slices.ContainsFunc(q.OrderBy, func(sort sql.OrderByItem) bool {
		root, _ := pathRoot(sort.Expr, nil)
		return totals && !isPath(sort.Expr) && !isDistance(sort.Expr) || hasAggregate(sort.Expr) ||
			root != nil && countsRows(root.Name, q) && !(isGrouped(q) && len(q.From.Inputs) > 1)
	})
}

// limits are the values of TOP, OFFSET and LIMIT, -1 if absent.
type limits struct{ top, offset, limit int64 }

// rewriteText returns the rewriting of a query for several partitions.
func rewriteText(q *sql.Select, n limits) rewriting {
	r := rewriting{top: n.top, offset: n.offset, limit: n.limit, distinct: distinctNone}
	if q.Distinct {
		r.distinct = distinctUnordered
	}
	switch {
	case isGrouped(q) && !ordersKeys(q):
		r.groups(q)
	case len(q.OrderBy) > 0 && q.From != nil:
		r.ordered(q)
	case r.limit >= 0 || q.Distinct && q.Top != nil:
		text := *q
		r.bindCounts(&text)
		r.text = &text
	}
	if r.text != nil && q.Distinct {
		r.text.Top, r.text.Offset, r.text.Limit = nil, nil, nil
	}
	return r
}

// ordersKeys reports whether a query is rewritten as an ordered one whose rows are
// groups: it has GROUP BY and ORDER BY and no aggregates.
func ordersKeys(q *sql.Select) bool {
	if len(q.GroupBy) == 0 || len(q.OrderBy) == 0 {
		return false
	}
	for x := range q.Columns() {
		if hasAggregate(x) {
			return false
		}
	}
	return true
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

// computedKey returns the actual key of an ORDER BY item. The most similar vectors come
// first whatever the direction, and it depends on the metric whether a small or a large
// distance is similar. So the key of a distance is a score that decreases with it, and
// scores come with the greatest first. Documents without the vector have no score and
// come last. Other keys are unchanged.
func computedKey(s sql.OrderByItem) sql.OrderByItem {
	switch {
	case isDistance(s.Expr):
		s.Expr = &sql.CallExpr{Name: "_VectorScore", Args: s.Expr.(*sql.CallExpr).Args}
	case !sortsByValue(s.Expr):
		return s
	}
	s.Desc, s.Explicit = true, true
	return s
}

// ordersByDistance reports whether the first key of ORDER BY is a distance.
func ordersByDistance(q *sql.Select) bool { return len(q.OrderBy) > 0 && isDistance(q.OrderBy[0].Expr) }

// sortsByValue reports whether an ORDER BY key is not required to be a property:
// distances, and the scores in rewritten queries.
func sortsByValue(x sql.Expr) bool {
	call, ok := x.(*sql.CallExpr)
	return ok && (isDistance(x) || isFunction(call, "_VectorScore") || isFunction(call, "_FullTextScore"))
}

// distinctCount returns the subquery whose distinct rows are all that q counts, and the
// name of the column with the count. It is the only query over the combined rows of a
// subquery that clients merge. Any other is sent unchanged, and each partition answers
// for its own rows.
func distinctCount(q *sql.Select, in inputs) (counted *sql.Select, alias string) {
	if q.From == nil || len(q.From.Inputs) > 1 || q.Where != nil || q.GroupBy != nil || q.OrderBy != nil || q.Offset != nil {
		return nil, ""
	}
	counted = q.From.Inputs[0].Subquery
	if counted == nil || !counted.Distinct || q.From.Inputs[0].In {
		return nil, ""
	}
	x := q.Value
	if x == nil {
		if len(q.Items) != 1 {
			return nil, ""
		}
		x, alias = q.Items[0].Expr, columnNames(q.Items)[0]
	}
	if aggregateOf(x) != "Count" {
		return nil, ""
	}
	if v, ok := in.constant(x.(*sql.CallExpr).Args[0]); !ok || !v.IsDefined() {
		return nil, ""
	}
	return counted, alias
}

// groups rewrites aggregates and GROUP BY: partitions return parts of groups. As in the
// service, the text of a query with a single row of aggregates keeps TOP and OFFSET
// LIMIT.
func (r *rewriting) groups(q *sql.Select) {
	text := *q
	payload := r.partial(q)
	r.buffered = ordersTotals(q) || slices.ContainsFunc(q.OrderBy, func(sort sql.OrderByItem) bool { return !isPath(sort.Expr) })
	text.Star, text.Value, text.Items = false, nil, []sql.SelectItem{{Expr: payload, Alias: "payload"}}
	r.bindCounts(&text)
	switch {
	case len(q.GroupBy) > 0:
		r.groupBy = q.GroupBy
		keys := sql.SelectItem{Expr: keyItems(q.GroupBy), Alias: "groupByItems"}
		text.Items = append([]sql.SelectItem{keys}, text.Items...)
		text.Top, text.Offset, text.Limit = nil, nil, nil
	case q.Value != nil:
		text.Value, text.Items = payload, nil
		text.Top, text.Offset, text.Limit = nil, nil, nil
	}
	r.text = &text
}

// uncomposed returns a BadRequest if a column is an expression of aggregates, because
// partitions cannot return parts of it.
func (p *Plan) uncomposed() error {
	for x := range p.query.Columns() {
		if aggregateOf(x) == "" && hasAggregate(x) {
			return composition()
		}
	}
	return nil
}

func composition() error {
	return planError("Compositions of aggregates and other expressions are not allowed.")
}

// partial returns the expression of a part of a group: the select list with each
// aggregate in a form that can be added up. It records the columns in r.
func (r *rewriting) partial(q *sql.Select) sql.Expr {
	if q.Value != nil {
		if name := aggregateOf(q.Value); name != "" {
			r.aggregates = []string{name}
			return &sql.ArrayLiteral{Items: []sql.Expr{aggregateItem(q.Value.(*sql.CallExpr))}}
		}
		return q.Value
	}
	if q.Star {
		return &sql.Ident{Name: inputName(q)}
	}
	payload := &sql.ObjectLiteral{}
	for i, name := range columnNames(q.Items) {
		x := q.Items[i].Expr
		kind := aggregateOf(x)
		if kind != "" {
			x = aggregateItem(x.(*sql.CallExpr))
		}
		payload.Members = append(payload.Members, sql.Property{Name: name, Expr: x})
		r.aliases, r.types = append(r.aliases, name), append(r.types, kind)
	}
	return payload
}

// selectsKeys reports whether each key of GROUP BY is selected, so that no two rows
// are equal.
func selectsKeys(q *sql.Select) bool {
	selected := map[string]bool{}
	for x := range q.Columns() {
		selected[sql.Canonical(x)] = true
	}
	return !slices.ContainsFunc(q.GroupBy, func(key sql.Expr) bool { return !selected[sql.Canonical(key)] })
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
		item.Members = append(item.Members, sql.Property{Name: "item2", Expr: object(strings.ToLower(name), again(name))})
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

// ordered adds to each row of a partition what a client merges by: the resource ID and
// the order keys. Rows with a resource ID are distinct, so the client applies DISTINCT.
// It then sees all rows, in the order of their value if that is the key. The client
// also applies DISTINCT to rows that are groups.
func (r *rewriting) ordered(q *sql.Select) {
	r.order = q.OrderBy
	r.buffered = isDistance(q.OrderBy[0].Expr) || ordersTotals(q)
	r.text = orderedText(q)
	r.bindCounts(r.text)
	if len(q.GroupBy) > 0 {
		payload := r.partial(q)
		r.groupBy = q.GroupBy
		r.text.Items[2].Expr = &sql.ObjectLiteral{Members: []sql.Property{
			{Name: "groupByItems", Expr: keyItems(q.GroupBy)}, {Name: "payload", Expr: payload},
		}}
		r.text.Top, r.text.Offset, r.text.Limit = nil, nil, nil
	}
	if q.Distinct {
		r.text.Distinct = false
		if q.Value != nil && len(q.OrderBy) == 1 && q.OrderBy[0].Expr.String() == q.Value.String() {
			r.distinct = distinctOrdered
		}
	}
}

// bindCounts changes the text so that each partition also returns the rows that OFFSET
// may skip.
func (r *rewriting) bindCounts(q *sql.Select) {
	if r.limit >= 0 {
		q.Offset = &sql.Literal{Value: value.Int(0)}
		q.Limit = &sql.Literal{Value: value.Int(r.offset + r.limit)}
	}
}

// filterPlaceholder is the text that clients replace in a rewritten query: by true, or
// by a condition on the order key at which they resume.
const filterPlaceholder = "{documentdb-formattableorderbyquery-filter}"

// orderedText returns the query whose rows have what a client merges by.
func orderedText(q *sql.Select) *sql.Select {
	text := *q
	payload := payloadOf(q)
	keys := make([]sql.Expr, len(q.OrderBy))
	for i, sort := range q.OrderBy {
		keys[i] = sort.Expr
	}
	text.Star, text.Value = false, nil
	text.Items = []sql.SelectItem{
		{Expr: ridOf(q)},
		{Expr: keyItems(keys), Alias: "orderByItems"},
		{Expr: payload, Alias: "payload"},
	}
	if q.Value == nil || len(q.GroupBy) > 0 {
		payload = nil // an object is always defined, and the client filters groups
	}
	text.Where = filtered(q, payload)
	return &text
}

// ridOf returns the expression of the resource id of a row.
func ridOf(q *sql.Select) sql.Expr {
	return &sql.MemberExpr{X: &sql.Ident{Name: inputName(q)}, Name: "_rid"}
}

// inputName returns the alias of the first input, or the container if the input has no
// name of its own. Elements of a subquery have the name of its input.
func inputName(q *sql.Select) string {
	in := &q.From.Inputs[0]
	if in.In && in.Subquery != nil && in.Subquery.From != nil {
		return inputName(in.Subquery)
	}
	if in.Collection != nil && (in.In || in.Alias == "") {
		return rootName(in.Collection)
	}
	return in.Alias
}

// filtered returns the filter with the placeholder for a condition of the client, and
// without rows whose VALUE, if it is given, is undefined.
func filtered(q *sql.Select, payload sql.Expr) sql.Expr {
	and := func(x, y sql.Expr) sql.Expr { return &sql.LogicalExpr{Terms: []sql.Expr{x, y}} }
	var where sql.Expr = &sql.Ident{Name: "(" + filterPlaceholder + ")"} // not an expression of the language
	if q.Where != nil {
		where = and(q.Where, where)
	}
	if payload != nil {
		where = and(where, &sql.CallExpr{Name: "IS_DEFINED", Args: []sql.Expr{payload}})
	}
	return where
}

// payloadOf returns the expression of the query's result.
func payloadOf(q *sql.Select) sql.Expr {
	switch {
	case q.Star:
		return &sql.Ident{Name: inputName(q)}
	case q.Value != nil:
		return q.Value
	}
	o := &sql.ObjectLiteral{}
	for i, name := range columnNames(q.Items) {
		o.Members = append(o.Members, sql.Property{Name: name, Expr: q.Items[i].Expr})
	}
	return o
}

// asRewritten prepares a rewritten text to run. Rows of such a text begin with a
// resource ID. A row of a group takes it from one of its documents. If the query begins
// with a place in documents, the resource ID is that of the document, so the document
// becomes an input. Other queries do not change.
func (p *Plan) asRewritten() {
	q := p.query
	if q.From == nil || len(q.Items) != 3 || q.Items[1].Alias != "orderByItems" || q.Items[2].Alias != "payload" {
		return
	}
	rid, ok := q.Items[0].Expr.(*sql.MemberExpr)
	if !ok || rid.Name != "_rid" {
		return
	}
	root, ok := rid.X.(*sql.Ident)
	if !ok {
		return
	}
	changed := *q
	if in := &q.From.Inputs[0]; in.In && in.Subquery != nil && in.Alias != root.Name && inputName(q) == root.Name {
		// The planner's text names the input of the subquery, which has no meaning here.
		rid = &sql.MemberExpr{X: &sql.Ident{Name: in.Alias, At: root.At}, Name: rid.Name, At: rid.At, NameAt: rid.NameAt}
		changed.Items = slices.Clone(q.Items)
		changed.Items[0].Alias, changed.Items[0].Expr = "_rid", rid
	}
	if len(q.GroupBy) > 0 {
		changed.Items = slices.Clone(q.Items)
		changed.Items[0].Alias = "_rid"
		changed.Items[0].Expr = &sql.CallExpr{Name: "MIN", Args: []sql.Expr{rid}, At: rid.At}
	}
	if in := &q.From.Inputs[0]; in.Collection != nil && in.Name() != root.Name && rootName(in.Collection) == root.Name {
		whole := sql.Input{Collection: &sql.Ident{Name: root.Name, At: in.At}, At: in.At, AliasAt: in.At}
		changed.From = &sql.From{Inputs: append([]sql.Input{whole}, q.From.Inputs...)}
		p.rooted = true
	}
	p.query = &changed
}
