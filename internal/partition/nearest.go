package partition

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/vector"
)

// Nearest asks for the documents whose vectors are nearest to one.
type Nearest struct {
	Path   index.Path // of the vectors
	Vector []float32
	Metric vector.Metric
	K      int // documents at most

	Access index.Expr // only documents that may satisfy it
	Bare   bool       // see [query.Need]
}

// errNoVectors is the error of a search at a path without a vector index, or
// with a vector of another number of dimensions.
var errNoVectors = errors.New("the index has no such vectors")

// Nearest yields the documents of the clip whose vectors are nearest, the
// nearest first and equally near ones in the order of their numbers. It scores
// all vectors that are stored, so it leaves none out, and it reads no document
// but those that it yields. Vectors are compared as they are stored, in the data
// type of the policy. Documents without a vector are not among them.
//
// It costs a lookup, and a hit for each document yielded.
func (s *source) Nearest(ctx context.Context, n Nearest) iter.Seq2[query.Candidate, error] {
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

func (s *source) nearest(ctx context.Context, n *Nearest, yield yielder) error {
	form, ok := s.now.indexing.active.VectorForm(n.Path)
	if !ok || form.Dimensions != len(n.Vector) {
		return fmt.Errorf("search %s: %w", n.Path, errNoVectors)
	}
	w := &walker{s: s, ctx: ctx, walk: query.Walk{Access: n.Access}}
	if err := w.limit(true); err != nil {
		return err
	}
	s.work.Lookups++
	best, err := s.score(ctx, form, n, w.within)
	if err != nil {
		return err
	}
	s.bare, s.led, s.term = n.Bare, true, ""
	use := s.offer(yield)
	for i, scored := range best.Append(nil) {
		if err := stopped(ctx, i+1); err != nil {
			return err
		}
		if more, err := s.find(scored.ID, use); err != nil || !more {
			return err
		}
	}
	return nil
}

// score keeps the best of the stored vectors whose documents are within a set;
// nil is all of the partition.
func (s *source) score(ctx context.Context, form *index.VectorForm, n *Nearest, within *storage.Numbers) (best *vector.TopK, err error) {
	rows := s.now.snapshot.Iter(storage.VectorBounds(form.ID))
	defer func() { err = errors.Join(err, rows.Close()) }()
	best = vector.NewTopK(n.Metric, n.K)
	scorer := n.Metric.Scorer(n.Vector)
	var elements []float32
	read := 0
	for valid := rows.First(); valid; valid = rows.Next() {
		if read++; stopped(ctx, read) != nil {
			return nil, stopped(ctx, read)
		}
		_, number, err := storage.DecodeVectorKey(rows.Key())
		if err != nil {
			return nil, s.damaged(err)
		}
		if within != nil && !within.Has(number) {
			continue
		}
		_, raw, ok := form.Split(rows.Value())
		if ok {
			elements, ok = vector.DecodeVector(elements[:0], form.Element, raw)
		}
		if !ok {
			return nil, s.damaged(fmt.Errorf("vector of document %d: %w", number, errDocument))
		}
		best.Push(number, scorer.Score(elements))
	}
	return best, nil
}
