package query

import (
	"bytes"
	"slices"
	"strings"

	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// Features are the capabilities that a client needs to merge the results of partitions.
// A gateway refuses a query that needs any of them.
type Features uint

// The features that plans can need.
const (
	FeatureOrderBy Features = 1 << iota
	FeatureTop
	FeatureOffsetAndLimit
	FeatureMultipleOrderBy     // ORDER BY of several keys
	FeatureNonStreamingOrderBy // rows of a partition are ordered and cannot be resumed
	FeatureDistinct
	FeatureGroupBy
	FeatureAggregate          // SELECT VALUE of an aggregate
	FeatureNonValueAggregate  // an aggregate in a column
	FeatureMultipleAggregates // several of them
	FeatureCountIf
	FeatureListAndSetAggregate // MAKELIST, MAKESET
	FeatureDCount              // counting distinct rows
	FeatureHybridSearch        // ORDER BY RANK
	FeatureWeightedRankFusion  // with weights
)

var featureNames = [...]string{
	"OrderBy", "Top", "OffsetAndLimit", "MultipleOrderBy", "NonStreamingOrderBy", "Distinct", "GroupBy",
	"Aggregate", "NonValueAggregate", "MultipleAggregates", "CountIf", "ListAndSetAggregate", "DCount",
	"HybridSearch", "WeightedRankFusion",
}

// Names returns the names of the features as in the protocol.
func (f Features) Names() []string {
	var names []string
	for i, name := range featureNames {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// Any reports whether merging needs more than concatenation.
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

// Refuse returns the BadRequest for a client that lacks features, or nil.
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

// Needs returns the features that merging the partitions of the query needs. They are
// those of the plan that [Plan.Describe] returns when the query visits several.
func (p *Plan) Needs() Features {
	q := p.query
	if q.Rank {
		return rankFeatures(q, p.with.params)
	}
	var f Features
	switch n := len(q.OrderBy); {
	case n > 1:
		f |= FeatureOrderBy | FeatureMultipleOrderBy
	case n == 1 && isDistance(q.OrderBy[0].Expr):
		f |= FeatureOrderBy | FeatureNonStreamingOrderBy
	case n == 1:
		f |= FeatureOrderBy
	}
	if p.top >= 0 {
		f |= FeatureTop
	}
	if p.limit >= 0 {
		f |= FeatureOffsetAndLimit
	}
	if counted, _ := distinctCount(q, p.with); counted != nil {
		return f | FeatureDistinct | FeatureDCount
	}
	return f | combiningFeatures(q)
}

// combiningFeatures are the features of a query that combines rows.
func combiningFeatures(q *sql.Select) Features {
	var f Features
	if q.Distinct {
		f |= FeatureDistinct
	}
	if len(q.GroupBy) > 0 {
		f |= FeatureGroupBy
	}
	if q.Value != nil {
		f |= aggregateFeatures(q.Value, FeatureAggregate)
	}
	for _, item := range q.Items {
		more := aggregateFeatures(item.Expr, FeatureNonValueAggregate)
		if f&more&FeatureNonValueAggregate != 0 {
			more |= FeatureMultipleAggregates
		}
		f |= more
	}
	return f
}

// aggregateFeatures are the features of the aggregates in x, which is a column or the
// value of the row.
func aggregateFeatures(x sql.Expr, place Features) Features {
	switch aggregateOf(x) {
	case "":
	case "CountIf":
		return place | FeatureCountIf
	case "MakeList", "MakeSet":
		return place | FeatureListAndSetAggregate
	default:
		return place
	}
	var f Features
	for part := range sql.Children(x) {
		f |= aggregateFeatures(part, place)
	}
	return f
}

// Describable returns a BadRequest if the service's planner refuses a query that
// partitions answer, otherwise nil. Such a query selects an expression of aggregates
// and reads more than one key.
func (p *Plan) Describable(d partitionkey.Definition) error {
	if p.query.Rank || p.alone(p.keyRanges(d)) {
		return nil
	}
	return p.uncomposed()
}

// Describe returns the plan that clients request before they visit partitions
// themselves: how to process the rows, the text for each partition, and the ranges of
// the key space to visit. Call [Plan.Describable] first.
func (p *Plan) Describe(d partitionkey.Definition) value.Value { return p.describe(d, false) }

// DescribeKey is [Plan.Describe] for a request that names a whole key. The only
// partition of that key can apply OFFSET LIMIT.
func (p *Plan) DescribeKey(d partitionkey.Definition) value.Value { return p.describe(d, true) }

func (p *Plan) describe(d partitionkey.Definition, single bool) value.Value {
	info, hybrid := value.Null(), value.Null()
	ranges := p.keyRanges(d)
	if p.query.Rank && p.base >= 0 {
		hybrid = p.describeHybrid()
	} else {
		r, _ := p.rewriting(p.alone(ranges), single && !p.wider(d, ranges))
		info = r.describe(p)
	}
	return value.Object([]value.Member{
		{Name: "partitionedQueryExecutionInfoVersion", Value: value.Int(2)},
		{Name: "queryInfo", Value: info},
		{Name: "hybridSearchQueryInfo", Value: hybrid},
		{Name: "queryRanges", Value: describeRanges(d, ranges)},
	})
}

// wider reports whether the query names one range that has more than one key: then the
// request's key does not make it a query of one partition.
func (p *Plan) wider(d partitionkey.Definition, ranges []keyRange) bool {
	return len(ranges) == 1 && (ranges[0].prefix || !ranges[0].exact && p.restricts(d))
}

// restricts reports whether the query says anything about the first level of the key of
// its documents.
func (p *Plan) restricts(d partitionkey.Definition) bool {
	places, ok := placesOf(d)
	return ok && !slices.ContainsFunc(p.boxes, func(b box) bool {
		at := b.find(places[0])
		return at < 0 || b[at].values.kinds&mayMiss != 0 || b[at].values.kinds&mayCompare == 0
	})
}

// alone reports whether one partition answers the whole query: the filter leaves a
// single key, or none.
func (p *Plan) alone(ranges []keyRange) bool {
	return len(ranges) == 0 || len(ranges) == 1 && ranges[0].exact
}

func (r rewriting) describe(p *Plan) value.Value {
	ways, expressions := []value.Value{}, []value.Value{}
	for _, sort := range r.order {
		way := "Ascending"
		if sort.Desc || sortsByValue(sort.Expr) && !(isDistance(sort.Expr) && p.nearFirst) {
			way = "Descending"
		}
		ways = append(ways, value.String(way))
		expressions = append(expressions, value.String(sort.Expr.String()))
	}
	groups, types := []value.Value{}, []value.Member{}
	for _, key := range r.groupBy {
		groups = append(groups, value.String(key.String()))
	}
	for i, alias := range r.aliases {
		kind := value.Null()
		if r.types[i] != "" {
			kind = value.String(r.types[i])
		}
		types = append(types, value.Member{Name: alias, Value: kind})
	}
	text, counted := "", value.Null()
	if r.text != nil {
		if text = r.text.String(); p.query.Rank {
			text = p.with.inline(text)
		}
	}
	if r.count != nil {
		counted = value.Object([]value.Member{{Name: "dCountAlias", Value: value.String(*r.count)}})
	}
	return value.Object([]value.Member{
		{Name: "distinctType", Value: value.String(r.distinct)},
		{Name: "top", Value: count(r.top)},
		{Name: "offset", Value: count(r.offset)},
		{Name: "limit", Value: count(r.limit)},
		{Name: "orderBy", Value: value.Array(ways)},
		{Name: "orderByExpressions", Value: value.Array(expressions)},
		{Name: "groupByExpressions", Value: value.Array(groups)},
		{Name: "groupByAliases", Value: textArray(r.aliases)},
		{Name: "aggregates", Value: textArray(r.aggregates)},
		{Name: "groupByAliasToAggregateType", Value: value.Object(types)},
		{Name: "rewrittenQuery", Value: value.String(text)},
		{Name: "hasSelectValue", Value: value.Bool(p.query.Value != nil && !p.query.Rank)},
		{Name: "dCountInfo", Value: counted},
		{Name: "hasNonStreamingOrderBy", Value: value.Bool(r.buffered)},
	})
}

func count(n int64) value.Value {
	if n < 0 {
		return value.Null()
	}
	return value.Int(n)
}

// describeRanges writes ranges in the form of the protocol. A whole key is a point. The
// prefix of a hierarchical key is the range from the prefix to the prefix followed by
// FF. Both include both ends. An empty list, and a query without FROM, is the point at
// the minimum, or the empty prefix for hierarchical keys.
func describeRanges(d partitionkey.Definition, list []keyRange) value.Value {
	if len(list) == 0 || len(list) == 1 && list[0].exact && list[0].point == partitionkey.MinEPK {
		list = []keyRange{{exact: true, prefix: d.Kind == partitionkey.KindMultiHash}}
	}
	ranges := make([]value.Value, len(list))
	for i, r := range list {
		low, high := r.Min, r.Max
		switch {
		case r.prefix:
			low, high = r.point, r.point+partitionkey.MaxEPK
		case r.exact:
			low, high = r.point, r.point
		}
		ranges[i] = value.Object([]value.Member{
			{Name: "min", Value: value.String(low.String())},
			{Name: "max", Value: value.String(high.String())},
			{Name: "isMinInclusive", Value: value.Bool(true)},
			{Name: "isMaxInclusive", Value: value.Bool(r.exact || r.prefix)},
		})
	}
	return value.Array(ranges)
}

func textArray(list []string) value.Value {
	items := make([]value.Value, len(list))
	for i, s := range list {
		items[i] = value.String(s)
	}
	return value.Array(items)
}

// AppendPlan appends the JSON of what [Plan.Describe] returned. It writes the weights
// of a hybrid search with a fraction even if it is zero: the Java SDK parses a number
// without a fraction as an integer and fails.
func AppendPlan(dst []byte, plan value.Value) []byte {
	const name = `"componentWeights":`
	weights := plan.Get("hybridSearchQueryInfo").Get("componentWeights")
	start := len(dst)
	dst = plan.Append(dst)
	if weights.Len() == 0 {
		return dst
	}
	text := []byte(name + "[")
	for i, w := range weights.Items() {
		if i > 0 {
			text = append(text, ',')
		}
		at := len(text)
		text = w.Append(text)
		if !bytes.ContainsAny(text[at:], ".eE") {
			text = append(text, ".0"...)
		}
	}
	text = append(text, ']')
	// No JSON string contains this text: its quotes would be escaped.
	return append(dst[:start], bytes.Replace(dst[start:], []byte(name+weights.JSON()), text, 1)...)
}
