package query

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/resource"
	fulltext "github.com/decandb/decan/internal/text"
	"github.com/decandb/decan/internal/value"
)

// The placeholders that clients replace by statistics of all partitions. The last two
// end in the number of the text component.
const (
	documentsPlaceholder = "{documentdb-formattablehybridsearchquery-totaldocumentcount}"
	wordsPlaceholder     = "{documentdb-formattablehybridsearchquery-totalwordcount-%d}"
	hitsPlaceholder      = "{documentdb-formattablehybridsearchquery-hitcountsarray-%d}"
)

// depthMin is the minimum number of rows of each component of a fusion. A document is
// ranked only if it is among the rows of a component. The service uses the same number
// for a page of 10 rows.
const depthMin = 120

// depthFactor is the number of rows of a component for each row of the result, if that
// is more than depthMin.
const depthFactor = 2

// depth returns the number of rows of a component, -1 for all.
func (p *Plan) depth() int64 {
	if p.bound < 0 {
		return -1
	}
	return min(max(depthMin, depthFactor*max(p.bound, p.skip())), countMax) // LIMIT 0 counts its OFFSET, too
}

// describeHybrid returns the hybridSearchQueryInfo.
func (p *Plan) describeHybrid() value.Value {
	r := rankingOf(p.query, p.with)
	var infos, weights []value.Value
	for i := range r.components {
		infos = append(infos, p.componentInfo(r, i))
		if r.weights != nil {
			weights = append(weights, value.Number(r.weight(i)))
		}
	}
	statistics := p.statisticsText(r)
	skip := value.Null()
	if p.offset >= 0 {
		skip = value.Int(p.offset)
	}
	take := value.Null()
	if p.bound >= 0 {
		take = value.Int(p.take())
	}
	return value.Object([]value.Member{
		{Name: "globalStatisticsQuery", Value: value.String(statistics)},
		{Name: "componentQueryInfos", Value: value.Array(infos)},
		{Name: "componentWithoutPayloadQueryInfos", Value: value.Array(nil)},
		{Name: "projectionQueryInfo", Value: value.Null()},
		{Name: "componentWeights", Value: value.Array(weights)},
		{Name: "skip", Value: skip},
		{Name: "take", Value: take},
		{Name: "requiresGlobalStatistics", Value: value.Bool(r.texts() > 0)},
		{Name: "scoreCombinationKind", Value: value.String("Rrf")},
	})
}

// texts returns the number of text components.
func (r ranking) texts() int {
	n := 0
	for _, c := range r.components {
		if c.terms != nil {
			n++
		}
	}
	return n
}

func (r ranking) weight(i int) float64 {
	if r.weights == nil {
		return 1
	}
	return r.weights[i]
}

// componentInfo returns the queryInfo of one component: its rows, the best first.
func (p *Plan) componentInfo(r ranking, i int) value.Value {
	info := rewriting{
		text: p.componentText(r, i), top: p.depth(), offset: -1, limit: -1,
		distinct: distinctNone, buffered: true,
	}
	if p.limit >= 0 {
		info.top, info.offset, info.limit = -1, 0, info.top
	}
	info.order = info.text.OrderBy
	return info.describe(p)
}

// componentText returns the query of one component. Each row has the scores of all
// components, so that all of them rank a document that only one has found.
func (p *Plan) componentText(r ranking, i int) *sql.Select {
	q := *p.query
	payload := payloadOf(&q)
	scores := r.scores()
	known := &sql.ArrayLiteral{}
	for j, score := range scores {
		known.Items = append(known.Items, &sql.CoalesceExpr{X: score, Y: r.components[j].missing()})
	}
	q.Star, q.Value, q.Rank = false, nil, false
	switch n := p.depth(); {
	case p.limit >= 0:
		q.Offset, q.Limit = &sql.Literal{Value: value.Int(0)}, &sql.Literal{Value: value.Int(n)}
	case n >= 0:
		q.Top = &sql.Literal{Value: value.Int(n)}
	}
	q.Items = []sql.SelectItem{
		{Expr: ridOf(p.query)},
		{Expr: keyItems(scores[i : i+1]), Alias: "orderByItems"},
		{Expr: &sql.ObjectLiteral{Members: []sql.Property{
			{Name: "payload", Expr: payload}, {Name: "componentScores", Expr: known},
		}}, Alias: "payload"},
	}
	q.Where = filtered(p.query, nil)
	text := r.components[i].terms != nil
	q.OrderBy = []sql.OrderByItem{{Expr: scores[i], Desc: text, Explicit: text}}
	return &q
}

// Buffered reports whether the text of the plan is one that [Plan.Describe] returns for
// rows in the order of a score. Clients read all of its rows before they use one, and
// one SDK reads only the first page.
func (p *Plan) Buffered() bool {
	q := p.query
	return len(q.Items) == 3 && q.Items[1].Alias == "orderByItems" && q.Items[2].Alias == "payload" &&
		len(q.OrderBy) > 0 && sortsByValue(q.OrderBy[0].Expr)
}

// scores returns the expressions by which the components rank. Greater is better.
func (r ranking) scores() []sql.Expr {
	list := make([]sql.Expr, len(r.components))
	texts := 0
	for i, c := range r.components {
		if c.terms == nil {
			list[i] = &sql.CallExpr{Name: "_VectorScore", Args: c.call.Args}
			continue
		}
		list[i] = &sql.CallExpr{Name: "_FullTextScore", Args: []sql.Expr{
			c.call.Args[0], &sql.ArrayLiteral{Items: c.terms}, &sql.Ident{Name: documentsPlaceholder},
			&sql.Ident{Name: fmt.Sprintf(wordsPlaceholder, texts)}, &sql.Ident{Name: fmt.Sprintf(hitsPlaceholder, texts)},
		}}
		texts++
	}
	return list
}

// missing is the score of a document without one, which is below all others.
func (c scorer) missing() sql.Expr {
	if c.terms == nil {
		return &sql.Ident{Name: vectorWorst}
	}
	return &sql.Literal{Value: value.Int(-1)}
}

// vectorWorst is the score of a document without a vector, as the service writes it.
const vectorWorst = "-1.7976900000000001e+308"

// statisticsText returns the query for the statistics of all documents that the text
// components need. It has no filter, because the statistics of words do not depend on
// the query.
func (p *Plan) statisticsText(r ranking) string {
	entries := &sql.ArrayLiteral{}
	for _, c := range r.components {
		if c.terms == nil {
			continue
		}
		path := c.call.Args[0]
		hits := &sql.ArrayLiteral{}
		for _, term := range c.terms {
			found := &sql.CallExpr{Name: "FullTextContains", Args: []sql.Expr{path, term}}
			hits.Items = append(hits.Items, &sql.CallExpr{Name: "COUNTIF", Args: []sql.Expr{found}})
		}
		words := &sql.CallExpr{Name: "SUM", Args: []sql.Expr{&sql.CallExpr{Name: "_FullTextWordCount", Args: []sql.Expr{path}}}}
		entries.Items = append(entries.Items, &sql.ObjectLiteral{Members: []sql.Property{{Name: "totalWordCount", Expr: words}, {Name: "hitCounts", Expr: hits}}})
	}
	q := &sql.Select{From: p.query.From, Items: []sql.SelectItem{
		{Expr: &sql.CallExpr{Name: "COUNT", Args: []sql.Expr{&sql.Literal{Value: value.Int(1)}}}, Alias: "documentCount"},
		{Expr: entries, Alias: "fullTextStatistics"},
	}}
	return p.with.inline(q.String())
}

// Hybrid is how the server runs a query with ORDER BY RANK, in the way that
// [Plan.Describe] describes for clients: first [Hybrid.Statistics] over all
// partitions, which returns one row; with that row the queries of [Hybrid.Components],
// each merged over the partitions of [Plan.Ranges]; then [Hybrid.Fuse]. The result has
// no position: it is made as a whole, and each page is a part of it.
type Hybrid struct {
	plan    *Plan
	ranking ranking
}

// Hybrid returns how to run a query with ORDER BY RANK, or nil for any other query.
// [Plan.Run] does not run such a plan.
func (p *Plan) Hybrid() *Hybrid {
	if !p.query.Rank {
		return nil
	}
	r := rankingOf(p.query, p.with)
	return &Hybrid{plan: p, ranking: r}
}

// Statistics returns the query for the statistics of all documents, or nil if no
// component needs any.
func (h *Hybrid) Statistics() (*Plan, error) {
	if h.ranking.texts() == 0 {
		return nil, nil
	}
	return h.compile(h.plan.statisticsText(h.ranking))
}

// compile compiles a text that this package has made. It may be longer than a client's
// text, because it repeats parts of that text such as vectors.
func (h *Hybrid) compile(text string) (*Plan, error) {
	with := h.plan.with
	if with.opts.Limits.QueryTextBytes == 0 {
		with.opts.Limits = resource.DefaultLimits()
	}
	with.opts.Limits.QueryTextBytes = math.MaxInt
	return compile(text, with)
}

// Components returns the query of each component. statistics is the row of
// [Hybrid.Statistics], or nil if there is none.
func (h *Hybrid) Components(statistics []byte) ([]*Plan, error) {
	fill := []string{filterPlaceholder, "true"}
	if statistics != nil {
		row, err := value.Parse(statistics)
		if err != nil {
			return nil, fmt.Errorf("statistics of a hybrid search: %w", err)
		}
		fill = append(fill, documentsPlaceholder, countText(row.Get("documentCount")))
		for i, entry := range row.Get("fullTextStatistics").Items() {
			hits := "[]"
			if list := entry.Get("hitCounts"); list.Kind() == value.KindArray {
				hits = list.JSON()
			}
			fill = append(fill, fmt.Sprintf(wordsPlaceholder, i), countText(entry.Get("totalWordCount")), fmt.Sprintf(hitsPlaceholder, i), hits)
		}
	}
	replacer := strings.NewReplacer(fill...)
	plans := make([]*Plan, len(h.ranking.components))
	for i := range plans {
		var err error
		q := h.plan.componentText(h.ranking, i)
		if bound := h.plan.bound; !h.ranking.fused && bound >= 0 {
			// A single component is not fused: its first rows are those of the result.
			q.Top, q.Offset, q.Limit = &sql.Literal{Value: value.Int(bound)}, nil, nil
		}
		if v := h.plan.query.Value; v != nil {
			// The plan for clients has no such condition, so they may get fewer rows.
			q.Where = &sql.LogicalExpr{Terms: []sql.Expr{q.Where, &sql.CallExpr{Name: "IS_DEFINED", Args: []sql.Expr{v}}}}
		}
		if plans[i], err = h.compile(replacer.Replace(q.String())); err != nil {
			return nil, err
		}
	}
	return plans, nil
}

// Outline returns the queries of the components without statistics. They find the same
// documents as the real ones but score them differently. Together with
// [Hybrid.Statistics] they show what a search will read.
func (h *Hybrid) Outline() ([]*Plan, error) {
	none := slices.Repeat([]value.Value{value.Object(nil)}, len(h.ranking.components))
	return h.Components(value.Object([]value.Member{{Name: "fullTextStatistics", Value: value.Array(none)}}).Append(nil))
}

// countText writes a number, or 0 for any other value.
func countText(v value.Value) string {
	if v.Kind() != value.KindNumber {
		return "0"
	}
	return v.JSON()
}

// Fuse returns the result from the rows of the components, in the order of
// [Hybrid.Components]: documents by the sum of weight / (60 + rank), without those
// that OFFSET skips. A single component keeps its order. The rows have no positions.
func (h *Hybrid) Fuse(components [][]Row) ([]Row, error) {
	var found []hybridRow
	seen := map[string]bool{}
	for _, rows := range components {
		for _, row := range rows {
			one, err := parseHybridRow(row.JSON, len(h.ranking.components))
			if err != nil {
				return nil, err
			}
			if !seen[one.rid] {
				seen[one.rid] = true
				found = append(found, one)
			}
		}
	}
	var out []Row
	for _, i := range h.order(found) {
		if v := found[i].payload; v.IsDefined() {
			out = append(out, Row{JSON: v.Append(nil)})
		}
	}
	first := min(h.plan.skip(), int64(len(out)))
	last := first + min(h.plan.take(), int64(len(out))-first)
	return out[first:last], nil
}

// hybridRow is a row of a component query.
type hybridRow struct {
	rid     string
	scores  []float64
	payload value.Value
}

func parseHybridRow(json []byte, components int) (hybridRow, error) {
	v, err := parseRow(string(json))
	if err != nil {
		return hybridRow{}, fmt.Errorf("row of a hybrid search: %w", err)
	}
	scores := v.Get("payload").Get("componentScores").Items()
	if len(scores) != components {
		return hybridRow{}, fmt.Errorf("row of a hybrid search has %d scores for %d components", len(scores), components)
	}
	row := hybridRow{rid: v.Get("_rid").Text(), payload: v.Get("payload").Get("payload")}
	for _, score := range scores {
		row.scores = append(row.scores, score.Float())
	}
	return row, nil
}

// order returns the indexes of the rows in found, the best first. The rows of a single
// component are already in order.
func (h *Hybrid) order(found []hybridRow) []int {
	places := make([]int, len(found))
	if len(h.ranking.components) == 1 {
		for i := range places {
			places[i] = i
		}
		return places
	}
	list := make([]fulltext.Component, len(h.ranking.components))
	for c := range list {
		list[c].Weight = h.ranking.weight(c)
		for i, row := range found {
			list[c].Scores = append(list[c].Scores, fulltext.Scored{Document: i, Score: row.scores[c]})
		}
	}
	for i, scored := range fulltext.Fuse(list) {
		places[i] = scored.Document
	}
	return places
}
