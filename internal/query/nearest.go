package query

import (
	"context"
	"math"
	"strconv"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/internal/vector"
)

// vectorOrder is an order by the similarity of a stored vector and a constant one that
// a vector index provides.
type vectorOrder struct {
	policy index.Path // the path of the vectors
	form   *index.VectorForm
	vector []float32
	metric vector.Metric

	// multiplier is the number of approximate matches to compare exactly for each row;
	// 0 for an exact search.
	multiplier int64
	// rounded reports that the index stores vectors with fewer bits than the documents,
	// so its order is approximate too.
	rounded bool
}

// nearestTo returns the vector index with the order of an expression, the greatest
// first; nil if there is none.
func (c *compiler) nearestTo(x sql.Expr, ix *index.Index) *vectorOrder {
	call, ok := x.(*sql.CallExpr)
	if !ok || ix == nil || !isFunction(call, "_VectorScore") {
		return nil
	}
	parts := make([]code, len(call.Args))
	for i, arg := range call.Args {
		parts[i] = c.expr(arg)
		if i > 1 && !parts[i].con {
			return nil
		}
	}
	at, given := call.Args[0], parts[1]
	path, stored := c.path(at)
	if !stored {
		at, given = call.Args[1], parts[0]
		path, stored = c.path(at)
	}
	if !stored || !given.con {
		return nil
	}
	n := &vectorOrder{policy: indexPath(path)}
	if n.form, ok = ix.VectorForm(n.policy); !ok {
		return nil
	}
	var options []value.Value
	for _, part := range parts[2:] {
		options = append(options, part.v)
	}
	n.metric, ok = metricOf(options, c.binding(call, parts).policyMetric())
	if v, fits := vector.Parse(given.v, nil); ok && fits && len(v) == n.form.Dimensions {
		n.vector = v
	}
	n.rounded = n.form.Element != vector.Float32
	exact := len(options) > 0 && options[0].Bool()
	if n.vector == nil || exact && n.rounded {
		return nil
	}
	if !exact && (n.rounded || n.form.Quantizer != nil && n.form.Metric == n.metric) {
		n.multiplier = searchMultiplier(options)
	}
	return n
}

// The options for the number of approximate matches to compare for each row, and the
// default. The first option that is present applies.
const (
	listMultiplier          = "quantizedVectorListMultiplier"
	searchListMultiplier    = "searchListSizeMultiplier"
	searchMultiplierDefault = 5
)

// searchMultiplier parses the options after the vectors of a call.
func searchMultiplier(options []value.Value) int64 {
	if len(options) < 2 {
		return searchMultiplierDefault
	}
	for _, name := range [...]string{listMultiplier, searchListMultiplier} {
		if n, ok := options[1].Get(name).Int64(); ok {
			return min(max(n, 1), searchMultiplierMax)
		}
	}
	return searchMultiplierDefault
}

// nearest makes the page from the documents with the nearest vectors, which it requests
// from the source. It returns nil if it expects too many of them, or if they do not
// fill the page and others follow.
//
// An approximate search continues until the number of documents that passed the filter
// equals the number of rows of all pages together. It does so for every page, so all
// pages come from the same documents.
func (r *run) nearest(ctx context.Context, src Source, access index.Expr) (*rowHeap, error) {
	n, wanted := r.plan.order.nearest, r.rowsMax()
	ranked, ok := src.(Ranked)
	if !ok || n == nil || r.plan.bound < 0 || wanted == 0 {
		return nil, nil
	}
	search := Nearest{
		Path: n.policy, Form: n.form.ID, Vector: n.vector, Metric: n.metric,
		K: wanted, Access: access, Bare: r.plan.bare,
	}
	passing := int64(0) // number of documents that must pass the filter
	if n.multiplier > 0 {
		search.List = int(min(n.multiplier*r.plan.bound, math.MaxInt32))
		passing = n.needed(r.plan.bound)
		search.K = int(passing)
	} else if !r.from.none {
		if search.From, search.Started = n.resume(r.from.place); !search.Started {
			return nil, nil
		}
	}
	most, err := r.nearestMax(ctx, ranked, access, max(passing, int64(wanted)))
	if most == 0 || err != nil {
		return nil, err
	}
	h := r.newHeap()
	keep := func(row int) bool { return r.keep(h, row) }
	seen, before, abandoned := int64(0), r.page.Stats.Matched, false
	err = r.documents(ctx, ranked.Nearest(ctx, search), func(c Candidate) bool {
		if seen++; seen > most {
			abandoned = true
			return false
		}
		r.setCurrent(c)
		r.distinct(keep)
		return !h.full() || r.page.Stats.Matched-before < passing
	})
	if err != nil || abandoned || !h.full() {
		return nil, err
	}
	h.dropped = true // there may be others
	return h, nil
}

// needed returns the number of documents to read for that many rows. If the index
// stores rounded vectors, its best documents are approximate too.
func (n *vectorOrder) needed(rows int64) int64 {
	if n.rounded {
		return min(n.multiplier*rows, math.MaxInt32)
	}
	return rows
}

// nearestMax returns the maximum number of documents to read in the order of a search,
// 0 to do without it. Each takes as long as several documents that are read and
// sorted.
func (r *run) nearestMax(ctx context.Context, src Indexed, access index.Expr, wanted int64) (int64, error) {
	defer r.watch.lookingUp()()
	m, _, err := src.Count(ctx, access, math.MaxInt64)
	if m < 0 && err == nil {
		m, _, err = src.Count(ctx, index.Expr{}, math.MaxInt64)
	}
	if m <= lookupFactor*wanted || err != nil {
		return 0, err
	}
	return m / lookupFactor, nil
}

// resume returns the start of a search for the rows after a place. ok is false for rows
// without a vector.
func (n *vectorOrder) resume(at place) (vector.Scored, bool) {
	key, _, err := value.DecodeKey(at.key)
	if err != nil || key.Kind() != value.KindNumber {
		return vector.Scored{}, false
	}
	s := vector.Scored{ID: at.number, Score: similarity(n.metric, key.Float())}
	if at.row < math.MaxInt {
		s.ID++ // the document may have more rows
	}
	return s, true
}

// explain returns how a partition searches.
func (n *vectorOrder) explain(bound int64) *Step {
	detail := "to a vector at " + n.policy.String() + " by " + n.metric.String()
	if n.multiplier == 0 {
		return on("or find nearest", detail+", exactly")
	}
	list := n.multiplier * bound
	return on("or find nearest", detail+", among "+strconv.FormatInt(list, 10)+" approximate matches")
}
