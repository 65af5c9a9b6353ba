package query

import (
	"bytes"
	"context"
	"math"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/value"
)

// Most scores of a text are zero: those of the documents without any of the words. A
// page of the best scores comes from the documents with a word. If they do not fill
// it, the latest other documents do, because documents of equal score come by
// descending number.

// sparedMin is the number of documents up to which a search determines which of them
// have a value that the query only requires to be defined.
const sparedMin = 1000

// searchAccess returns what a search by scores asks the index for in addition to the
// scores. Conditions that a place is defined, which every rewritten query has for its
// select list, are left to the filter unless few documents satisfy them: the index may
// have as many terms as documents.
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

// best makes the page from only the documents with the best scores and the latest
// documents with a score of zero. It returns nil if it expects to save nothing, or if
// these documents do not fill the page.
func (r *run) best(ctx context.Context, src Source, candidates index.Expr) (*rowHeap, error) {
	access, wanted := r.plan.order.best, r.rowsMax()
	indexed, ok := src.(Indexed)
	zero := value.AppendKey(nil, value.Int(0))
	beyond := !r.from.none && bytes.Compare(r.from.key, zero) < 0 // among those without a score
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
	h.dropped = true // the other documents follow
	return h, nil
}

// bestMax returns the number of documents needed for that many rows of the best
// scores, and the maximum number with a score of zero to read. It is negative if
// reading all candidates is better, because too many may have a greater score or must
// be added.
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

// latest adds the latest rows with a key of zero to a heap of rows with keys above
// zero. It returns nil if that many documents do not fill the page.
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
			need.After++ // the document may have rows after the position
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
		r.setCurrent(c)
		r.distinct(keep)
		return !h.full()
	})
	if err != nil || !h.full() {
		return nil, err
	}
	return h, nil
}

// estimateBest returns the number of documents to read, of all candidates.
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

// estimate returns the number of documents that the queries of a hybrid search read.
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

// explainBest returns the alternative way to find the first rows of an order by
// scores.
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

// best records the indexes that find the first rows of an order by scores.
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
