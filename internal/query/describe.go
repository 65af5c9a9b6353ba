package query

import (
	"strings"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// Features are what somebody who merges the partitions of a query has to be able
// to do. They are also what a gateway refuses to do itself.
type Features uint

// The features that the plans of this version can need.
const (
	FeatureOrderBy Features = 1 << iota
	FeatureTop
	FeatureOffsetAndLimit
)

var featureNames = [...]string{"OrderBy", "Top", "OffsetAndLimit"}

// Names returns the features as clients name them.
func (f Features) Names() []string {
	var names []string
	for i, name := range featureNames {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// Any reports whether more than putting rows behind each other is needed.
func (f Features) Any() bool { return f != 0 }

// Missing returns the features that are not in a client's comma-separated list.
func (f Features) Missing(supported string) []string {
	have := map[string]bool{}
	for name := range strings.SplitSeq(supported, ",") {
		have[strings.TrimSpace(name)] = true
	}
	var missing []string
	for _, name := range f.Names() {
		if !have[name] {
			missing = append(missing, name)
		}
	}
	return missing
}

// Refuse returns the BadRequest for a client that lacks features, nil for one
// that has them all.
func (f Features) Refuse(supported string) error {
	missing := f.Missing(supported)
	if len(missing) == 0 {
		return nil
	}
	text := "Query contains 1 or more unsupported features. Upgrade your SDK to a version that does support the requested features:"
	for _, name := range missing {
		text += "\nQuery contained " + name + ", which the calling client does not support."
	}
	return status.BadRequest("%s", text)
}

// Needs returns the features of the query when it runs over several partitions.
func (p *Plan) Needs() Features {
	var f Features
	if p.order != nil {
		f |= FeatureOrderBy
	}
	if p.top >= 0 {
		f |= FeatureTop
	}
	if p.limit >= 0 {
		f |= FeatureOffsetAndLimit
	}
	return f
}

// filterPlaceholder is what clients replace in a rewritten query: by true, or
// by a condition on the order key with which they resume.
const filterPlaceholder = "{documentdb-formattableorderbyquery-filter}"

// Describe returns the plan that clients ask for before they visit partitions
// themselves: what they have to do with the rows, the text to send to each
// partition, and the ranges of the key space to visit.
func (p *Plan) Describe(d partitionkey.Definition) value.Value {
	info := p.describe(p.Pinned(d))
	return value.Object([]value.Member{
		{Name: "partitionedQueryExecutionInfoVersion", Value: value.Int(2)},
		{Name: "queryInfo", Value: info},
		{Name: "hybridSearchQueryInfo", Value: value.Null()},
		{Name: "queryRanges", Value: describeRanges(p.keyRanges(d))},
	})
}

// describe returns the queryInfo. A query with OFFSET LIMIT whose filter fixes
// the key is left to the one partition that has it; TOP is told all the same,
// since doing it twice is harmless.
func (p *Plan) describe(pinned bool) value.Value {
	offset, limit, rewritten := p.offset, p.limit, ""
	order := p.order
	switch {
	case limit >= 0 && pinned:
		offset, limit, order = -1, -1, nil
	case order != nil:
		rewritten = p.rewriteOrdered()
	case limit >= 0:
		q := *p.query
		p.rewriteCounts(&q)
		rewritten = q.String()
	}
	ways, expressions := []value.Value{}, []value.Value{}
	if order != nil {
		way := "Ascending"
		if order.desc {
			way = "Descending"
		}
		ways = append(ways, value.String(way))
		expressions = append(expressions, value.String(p.query.OrderBy[0].Expr.String()))
	}
	none := value.Array(nil)
	return value.Object([]value.Member{
		{Name: "distinctType", Value: value.String("None")},
		{Name: "top", Value: count(p.top)},
		{Name: "offset", Value: count(offset)},
		{Name: "limit", Value: count(limit)},
		{Name: "orderBy", Value: value.Array(ways)},
		{Name: "orderByExpressions", Value: value.Array(expressions)},
		{Name: "groupByExpressions", Value: none},
		{Name: "groupByAliases", Value: none},
		{Name: "aggregates", Value: none},
		{Name: "groupByAliasToAggregateType", Value: value.Object(nil)},
		{Name: "rewrittenQuery", Value: value.String(rewritten)},
		{Name: "hasSelectValue", Value: value.Bool(p.query.Value != nil)},
		{Name: "dCountInfo", Value: value.Null()},
		{Name: "hasNonStreamingOrderBy", Value: value.Bool(false)},
	})
}

func count(n int64) value.Value {
	if n < 0 {
		return value.Null()
	}
	return value.Int(n)
}

// rewriteCounts replaces parameters by their values, and has each partition
// return the rows that may be skipped as well, as many as LIMIT can say.
func (p *Plan) rewriteCounts(q *Select) {
	if p.top >= 0 {
		q.Top = &Literal{Value: value.Int(p.top)}
	}
	if p.limit >= 0 {
		q.Offset = &Literal{Value: value.Int(0)}
		q.Limit = &Literal{Value: value.Int(min(p.offset+p.limit, countMax))}
	}
}

// rewriteOrdered returns the query that makes each partition send, with every
// row, what a client merges by: the resource id and the order key.
func (p *Plan) rewriteOrdered() string {
	q := *p.query
	alias := &Name{Name: p.alias()}
	sort := q.OrderBy[0]
	payload := p.payload(alias)
	keys := &ArrayLiteral{Items: []Expr{&ObjectLiteral{Members: []Property{{Name: "item", Expr: sort.Expr}}}}}
	q.Star, q.Value = false, nil
	q.Items = []Item{
		{Expr: &Member{Of: alias, Name: "_rid"}},
		{Expr: keys, Alias: "orderByItems"},
		{Expr: payload, Alias: "payload"},
	}
	// The placeholder stands for a condition and is no expression itself, so it
	// goes in as a name.
	conditions := []Expr{&Name{Name: "(" + filterPlaceholder + ")"}}
	if p.query.Value != nil {
		conditions = append([]Expr{&Call{Name: "IS_DEFINED", Args: []Expr{payload}}}, conditions...)
	}
	if q.Where != nil {
		conditions = append([]Expr{&Name{Name: "(" + q.Where.String() + ")"}}, conditions...)
	}
	where := conditions[0]
	if len(conditions) > 1 {
		where = &Name{Name: "(" + (&Logic{Terms: conditions}).String() + ")"}
	}
	q.Where = where
	p.rewriteCounts(&q)
	return q.String()
}

func (p *Plan) alias() string {
	in := p.query.From.Inputs[0]
	if in.Alias != "" {
		return in.Alias
	}
	return sourceName(in.Of)
}

// payload is the expression of what the query returns.
func (p *Plan) payload(alias Expr) Expr {
	switch {
	case p.query.Star:
		return alias
	case p.query.Value != nil:
		return p.query.Value
	}
	o := &ObjectLiteral{}
	for i, name := range columnNames(p.query.Items) {
		o.Members = append(o.Members, Property{Name: name, Expr: p.query.Items[i].Expr})
	}
	return o
}

// describeRanges writes ranges as clients read them: a whole key as a point
// with both ends included, and no range at all as the point at the minimum.
func describeRanges(list []keyRange) value.Value {
	if len(list) == 0 {
		list = []keyRange{{exact: true}}
	}
	ranges := make([]value.Value, len(list))
	for i, r := range list {
		low, high := r.Min, r.Max
		if r.exact {
			low, high = r.point, r.point
		}
		ranges[i] = value.Object([]value.Member{
			{Name: "min", Value: value.String(low.String())},
			{Name: "max", Value: value.String(high.String())},
			{Name: "isMinInclusive", Value: value.Bool(true)},
			{Name: "isMaxInclusive", Value: value.Bool(r.exact)},
		})
	}
	return value.Array(ranges)
}
