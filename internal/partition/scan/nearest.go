package scan

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/vector"
)

var _ query.Ranked = (*Source)(nil)

// Nearest yields the documents of the clip whose vectors are nearest, as
// [query.Ranked] says. It compares vectors as they are stored, in the data type of
// the policy, and reads only the documents that it yields.
//
// It scores all stored vectors if n has no List, if the index has no codes or codes of
// another metric, or if few documents count. The charge is a lookup, each vector and
// code that is compared, and a hit for each document that is yielded.
func (s *Source) Nearest(ctx context.Context, n query.Nearest) iter.Seq2[query.Candidate, error] {
	return func(yield func(query.Candidate, error) bool) {
		ended := false
		once := func(c query.Candidate, err error) bool {
			ended = ended || !yield(c, err)
			return !ended
		}
		if err := s.nearest(ctx, &n, once); err != nil && !ended {
			yield(query.Candidate{}, err)
		}
	}
}

// searchGrowth is the factor by which each round of a search looks for more documents
// than the one before. A round scores everything again, so there should be few.
const searchGrowth = 8

func (s *Source) nearest(ctx context.Context, n *query.Nearest, yield yielder) error {
	form, ok := s.now.Indexing.Active.VectorForm(n.Path)
	if !ok || form.ID != n.Form || form.Dimensions != len(n.Vector) {
		return status.Unavailable(nil, "The index has changed since the query was planned. Try again.")
	}
	w := &walker{s: s, ctx: ctx, walk: query.Walk{Access: n.Access}}
	if err := w.limit(true); err != nil {
		return err
	}
	s.work.Lookups++
	s.bare, s.led, s.term = n.Bare, true, ""
	search := s.search(ctx, form, n, w.within)
	use := s.offer(yield)
	for more := true; more; {
		found, rest, err := search.round()
		if err != nil {
			return err
		}
		for i, scored := range found {
			if err := Stopped(ctx, i+1); err != nil {
				return err
			}
			if more, err := s.find(^scored.ID, use); err != nil || !more {
				return err
			}
		}
		more = rest
	}
	return nil
}

// vectorSearch is one search. The ID of a scored document is its number with all bits
// inverted, so that of two equal scores the greater number is better.
type vectorSearch struct {
	s      *Source
	ctx    context.Context
	form   *index.VectorForm
	within *storage.Numbers // the documents that count; nil for all of the partition

	scorer    *vector.Scorer
	estimator *vector.Estimator // of codes; nil if codes are not used
	best      *vector.TopK      // of the round
	size      int               // of the round
	metric    vector.Metric
	elements  []float32
}

// search begins a search among the documents of within, or of the whole partition if
// it is nil.
func (s *Source) search(ctx context.Context, form *index.VectorForm, n *query.Nearest, within *storage.Numbers) *vectorSearch {
	v := &vectorSearch{s: s, ctx: ctx, form: form, within: within, metric: n.Metric, size: max(n.K, 1), scorer: n.Metric.Scorer(n.Vector)}
	if n.List > 0 && form.Quantizer != nil && n.Metric == form.Metric && v.count() > max(s.r.Strategy.GuessMin, int64(n.List)) {
		// ok, since the vector is finite and has the dimensions of the form.
		if e, ok := form.Quantizer.Query(n.Vector); ok {
			v.estimator, v.size = e, n.List
		}
	}
	v.begin()
	if n.Started && v.estimator == nil {
		v.best.After(vector.Scored{ID: ^n.From.ID, Score: n.From.Score})
	}
	return v
}

// count returns the number of documents that count.
func (v *vectorSearch) count() int64 {
	if v.within == nil {
		return v.s.now.Items
	}
	return v.within.Len()
}

// begin begins a round.
func (v *vectorSearch) begin() {
	v.size = int(min(int64(v.size), v.count(), math.MaxInt32))
	v.best = vector.NewTopK(v.metric, v.size)
}

// round returns the next documents, the nearest first, and whether there may be more.
func (v *vectorSearch) round() (found []vector.Scored, more bool, err error) {
	if v.estimator != nil {
		err = v.score(v.form.CodeID, v.guess)
	} else {
		err = v.score(v.form.ID, v.exactly)
	}
	if err != nil {
		return nil, false, err
	}
	found = v.best.Append(nil)
	if more = len(found) == v.size && int64(v.size) < v.count(); more {
		v.size = min(v.size, math.MaxInt32/searchGrowth) * searchGrowth
		v.begin()
		v.best.After(found[len(found)-1])
	}
	if v.estimator != nil {
		found, err = v.compare(found)
	}
	return found, more, err
}

// scoring returns the score of a stored vector or code, and false if it is damaged.
type scoring func(stored []byte) (score float64, ok bool)

func (v *vectorSearch) guess(code []byte) (float64, bool) {
	score := v.estimator.Score(code)
	return score, !math.IsNaN(score)
}

func (v *vectorSearch) exactly(stored []byte) (score float64, ok bool) {
	if len(stored) != v.form.Size() {
		return 0, false
	}
	v.elements, ok = vector.DecodeVector(v.elements[:0], v.form.Element, stored)
	return v.scorer.Score(v.elements), ok
}

// score scores what the documents that count have stored under an id.
func (v *vectorSearch) score(id index.Term, of scoring) error {
	if v.within != nil && v.s.r.Strategy.Costs.picks(v.within.Len(), v.s.now.Items) {
		return v.scoreEach(id, of)
	}
	return v.scoreAll(id, of)
}

// scoreAll is score that reads everything under the id.
func (v *vectorSearch) scoreAll(id index.Term, of scoring) (err error) {
	rows := v.s.now.Rows.Iter(storage.VectorBounds(id))
	defer func() { err = errors.Join(err, rows.Close()) }()
	read := 0
	for valid := rows.First(); valid; valid = rows.Next() {
		if read++; Stopped(v.ctx, read) != nil {
			return Stopped(v.ctx, read)
		}
		_, number, err := storage.DecodeVectorKey(rows.Key())
		if err != nil {
			return v.s.damaged(err)
		}
		if v.within != nil && !v.within.Has(number) {
			continue
		}
		if err := v.offer(number, rows.Value(), of); err != nil {
			return err
		}
	}
	return nil
}

// scoreEach is score that looks up each document.
func (v *vectorSearch) scoreEach(id index.Term, of scoring) error {
	set := v.within.Postings()
	read := 0
	for number, ok := set.Next(); ok; number, ok = set.Next() {
		if read++; Stopped(v.ctx, read) != nil {
			return Stopped(v.ctx, read)
		}
		if _, err := v.view(id, number, of); err != nil {
			return err
		}
	}
	return nil
}

// view scores what one document has stored under an id, if it has something.
func (v *vectorSearch) view(id index.Term, number uint64, of scoring) (found bool, err error) {
	s := v.s
	s.key = storage.VectorKey(s.key[:0], id, number)
	return s.now.Rows.View(s.key, func(stored []byte) error { return v.offer(number, stored, of) })
}

func (v *vectorSearch) offer(number uint64, stored []byte, of scoring) error {
	v.s.work.Vectors++
	score, ok := of(stored)
	if !ok {
		return v.s.damaged(fmt.Errorf("vector of document %d: %w", number, layout.ErrDocument))
	}
	v.best.Push(^number, score)
	return nil
}

// compare sorts documents that were scored by codes by their vectors.
func (v *vectorSearch) compare(guessed []vector.Scored) ([]vector.Scored, error) {
	next := v.best
	v.best = vector.NewTopK(v.metric, len(guessed))
	for i, g := range guessed {
		if err := Stopped(v.ctx, i+1); err != nil {
			return nil, err
		}
		found, err := v.view(v.form.ID, ^g.ID, v.exactly)
		if err == nil && !found {
			err = v.s.damaged(fmt.Errorf("the vector of document %d is missing: %w", ^g.ID, layout.ErrDocument))
		}
		if err != nil {
			return nil, err
		}
	}
	compared := v.best.Append(nil)
	v.best = next
	return compared, nil
}

// Latest yields the documents that may satisfy the need, in descending order of their
// numbers.
func (s *Source) Latest(ctx context.Context, need query.Need) iter.Seq2[query.Candidate, error] {
	return func(yield func(query.Candidate, error) bool) {
		ended := false
		once := func(c query.Candidate, err error) bool {
			ended = ended || !yield(c, err)
			return !ended
		}
		if err := s.latest(ctx, need, once); err != nil && !ended {
			yield(query.Candidate{}, err)
		}
	}
}

func (s *Source) latest(ctx context.Context, need query.Need, yield yielder) error {
	w := &walker{s: s, ctx: ctx, walk: query.Walk{Access: need.Access, Desc: true}}
	if err := w.limit(true); err != nil {
		return err
	}
	s.bare, s.led, s.term = need.Bare, need.Access.Op != index.All, ""
	use := s.offer(yield)
	if w.within == nil {
		return s.walkBack(ctx, need.After, use)
	}
	set := w.within.Postings()
	if need.After > 0 {
		set.SeekLT(need.After)
	}
	_, err := w.documents(set, use)
	return err
}

// walkBack reads the documents of the whole partition with numbers below one, or all
// if it is zero, in descending order.
func (s *Source) walkBack(ctx context.Context, below uint64, use func(d *layout.Document) (more bool, err error)) error {
	low, high := storage.FamilyRID.Bounds()
	if below > 0 {
		high = storage.RIDKey(nil, below)
	}
	return s.walkNumbers(ctx, low, high, true, use)
}
