package query

import (
	"bytes"
	"context"
	"math"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/value"
)

// Of the scores of a text most are zero: they belong to the documents that have
// none of the words. A page of the best scores comes from those that have one,
// and what it lacks from the latest of the others, for documents of equal scores
// come in descending order of their numbers.

// sparedMin is how many documents may have what a query merely demands to be
// there, for a search to find out which they are.
const sparedMin = 1000

// searchAccess returns what a search by scores asks the index for beside the
// scores. That something stands at a place, as every rewritten query demands of
// what it selects, is left to the filter unless few documents have it: there may
// be as many terms to pass as there are documents.
func (r *run) searchAccess(ctx context.Context, src Source) (index.Expr, error) {
	p := r.plan
	indexed, ok := src.(Indexed)
	if !ok || !p.order.narrows || p.order.nearest == nil && p.order.best.Op == index.All {
		return p.accessing, nil
	}
	defer r.watch.lookingUp()()
	most := max(sparedMin, lookupFactor*p.bound)
	n, _, err := indexed.Count(ctx, p.accessing, most)
	if n < 0 || n >= most {
		return p.order.narrow, err
	}
	return p.accessing, err
}

// best returns the rows of the page from the best documents of the order alone,
// and from the latest ones with a score of zero; nil when nothing seems to be
// gained, or those turn out not to fill the page.
func (r *run) best(ctx context.Context, src Source, candidates index.Expr) (*rowHeap, error) {
	access, wanted := r.plan.order.best, r.rowsMax()
	indexed, ok := src.(Indexed)
	zero := value.AppendKey(nil, value.Int(0))
	beyond := !r.from.none && bytes.Compare(r.from.key, zero) < 0 // in those without a score
	if !ok || access.Op == index.All || wanted == 0 || beyond {
		return nil, nil
	}
	watched := r.watch.lookingUp()
	_, most, err := r.plan.bestMax(ctx, indexed, candidates, int64(wanted))
	watched()
	if most < 0 || err != nil {
		return nil, err
	}
	h, err := r.collect(ctx, src, access)
	if err != nil {
		return nil, err
	}
	if !h.full() || bytes.Compare(h.rows[0].key, zero) <= 0 {
		if h, err = r.latest(ctx, src, h, candidates, zero, most); h == nil || err != nil {
			return nil, err
		}
	}
	h.dropped = true // There are the others still.
	return h, nil
}

// bestMax returns how many documents are needed for so many rows of the best
// scores, and how many with a score of zero to look at before giving up: less
// than none when it is better to look at all candidates, because those that may
// have a greater score are too many, or those that have to be added.
func (p *Plan) bestMax(ctx context.Context, src Indexed, candidates index.Expr, wanted int64) (needed, most int64, err error) {
	n, _, err := src.Count(ctx, p.order.best, math.MaxInt64)
	if err != nil {
		return 0, -1, err
	}
	_, ranked := src.(Ranked)
	lacking := max(0, wanted-n)
	if n < 0 || lacking > 0 && (!ranked || len(p.order.keys) > 1) {
		return 0, -1, nil
	}
	all, _, err := src.Count(ctx, candidates, math.MaxInt64)
	if all < 2*(n+lookupFactor*lacking) || err != nil {
		return 0, -1, err
	}
	return n + lacking, (all - n) / lookupFactor, nil
}

// latest adds to the rows of a heap whose keys are above zero the latest ones
// whose keys are zero; nil when the page is not full after so many documents.
func (r *run) latest(ctx context.Context, src Source, from *rowHeap, candidates index.Expr, zero []byte, most int64) (*rowHeap, error) {
	ranked, ok := src.(Ranked)
	if !ok || len(r.plan.order.keys) > 1 {
		return nil, nil
	}
	h := r.newHeap()
	for _, row := range from.rows {
		if bytes.Compare(row.key, zero) > 0 {
			h.push(row)
		}
	}
	need := Need{Access: candidates, Bare: r.plan.bare}
	if at := r.from; !at.none && !at.cut && bytes.Equal(at.key, zero) {
		need.After = at.number
		if at.row < math.MaxInt && at.number < math.MaxUint64 {
			need.After++ // The document has rows behind the position, perhaps.
		}
	}
	keep := func(row int) bool {
		if r.key = r.plan.order.appendKey(r.key[:0], r.env); bytes.Equal(r.key, zero) {
			return r.put(h, row)
		}
		return r.env.err == nil
	}
	seen := int64(0)
	err := r.documents(ctx, ranked.Latest(ctx, need), func(c Candidate) bool {
		if seen++; h.full() || seen > most {
			return false
		}
		r.turn(c)
		r.each(keep)
		return !h.full()
	})
	if err != nil || !h.full() {
		return nil, err
	}
	return h, nil
}

// estimateBest returns how many documents are read of all that are candidates.
func (p *Plan) estimateBest(ctx context.Context, src Indexed, all int64) (int64, error) {
	o := p.order
	_, ranked := src.(Ranked)
	switch {
	case o == nil || p.bound <= 0 || p.inner != nil:
	case o.nearest != nil && ranked:
		if n := o.nearest.needed(p.bound); all > lookupFactor*n {
			return n, nil
		}
	case o.best.Op != index.All:
		if n, most, err := p.bestMax(ctx, src, p.accessing, p.bound); most >= 0 || err != nil {
			return n, err
		}
	}
	return all, nil
}

// estimate returns how many documents the queries of a hybrid search read.
func (h *Hybrid) estimate(ctx context.Context, src Source) (total int64, ok bool, err error) {
	plans, err := h.Outline()
	if err != nil {
		return 0, false, err
	}
	statistics, err := h.Statistics()
	if err != nil {
		return 0, false, err
	}
	if statistics != nil && (statistics.group == nil || len(statistics.group.lookups) == 0) {
		plans = append(plans, statistics)
	}
	for _, p := range plans {
		n, ok, err := p.Estimate(ctx, src)
		if !ok || err != nil {
			return 0, false, err
		}
		total += n
	}
	return total, true, nil
}

// explainBest returns how the first rows of an order by scores are found instead.
func (p *Plan) explainBest() []*Step {
	o := p.order
	switch {
	case o == nil || p.bound <= 0:
	case o.nearest != nil:
		return []*Step{o.nearest.explain(p.bound)}
	case o.best.Op != index.All:
		return []*Step{on("or read alone", "documents with a word", explainAccess(o.best))}
	}
	return nil
}

// best notes the indexes that find the first rows of an order by scores.
func (u *IndexUse) best(p *Plan) {
	if h := p.Hybrid(); h != nil {
		plans, err := h.Outline()
		for i := range plans {
			if err == nil {
				u.best(plans[i])
			}
		}
		return
	}
	switch o := p.order; {
	case o == nil || p.bound <= 0:
	case o.nearest != nil:
		u.single("vector " + o.nearest.policy.String())
	default:
		u.add(o.best)
	}
}
