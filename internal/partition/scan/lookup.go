package scan

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// What the index knows without reading documents: the set of an expression, and the
// number of documents.

// postings returns the documents of an expression: a set, which the caller closes,
// nil for all documents, or none.
func (s *Source) postings(ctx context.Context, e index.Expr) (set *storage.Postings, none bool) {
	// The plan may be compiled for another version of the policy.
	if e.Op != index.All && !s.now.Indexing.Active.Serves(e) {
		return nil, false
	}
	return s.combine(ctx, e)
}

func (s *Source) combine(ctx context.Context, e index.Expr) (set *storage.Postings, none bool) {
	switch e.Op {
	case index.All:
		return nil, false
	case index.Leaf, index.Filter:
		return s.lookup(ctx, e)
	case index.And:
		return s.conjunction(ctx, e.Args)
	case index.Or:
		return s.disjunction(ctx, e.Args)
	}
	return nil, true
}

// look counts a span for the charge. It counts each span once.
func (s *Source) look(span index.Span) {
	key := [2]index.Term{span.Low, span.High}
	if s.lookedMany == nil && slices.Contains(s.looked, key) || s.lookedMany[key] {
		return
	}
	s.work.Lookups++
	if len(s.looked) < lookedFew {
		s.looked = append(s.looked, key)
		return
	}
	if s.lookedMany == nil {
		s.lookedMany = map[[2]index.Term]bool{}
		for _, k := range s.looked {
			s.lookedMany[k] = true
		}
	}
	s.lookedMany[key] = true
}

// lookedFew is the number of spans that are compared one by one. A query can have
// tens of thousands, which need a map.
const lookedFew = 16

func (s *Source) lookup(ctx context.Context, e index.Expr) (set *storage.Postings, none bool) {
	if e.Span.Empty() {
		return nil, true
	}
	s.look(e.Span)
	if !e.Span.One || e.Op == index.Filter {
		return s.now.Rows.PostingsRanges(ctx, listRange(e)), false
	}
	s.key = storage.TermKey(s.key[:0], e.Span.Low)
	return s.now.Rows.Postings(s.key), false
}

// listRange returns the posting lists of a Leaf or a Filter.
func listRange(e index.Expr) storage.ListRange {
	r := storage.ListRange{Low: storage.TermKey(nil, e.Span.Low), High: storage.TermKey(nil, e.Span.High)}
	if e.Op == index.Filter {
		r.Keep = func(list []byte) bool {
			v, exact := index.DecodeTerm(index.Term(list[1:]))
			return !exact || e.Test(v)
		}
	}
	return r
}

func (s *Source) conjunction(ctx context.Context, args []index.Expr) (set *storage.Postings, none bool) {
	var sets []*storage.Postings
	for _, arg := range args {
		set, none := s.combine(ctx, arg)
		if none {
			discard(sets)
			return nil, true
		}
		if set != nil {
			sets = append(sets, set)
		}
	}
	if len(sets) == 0 {
		return nil, false
	}
	return storage.Intersect(sets...), false
}

// leavesMax is the greatest number of spans of one OR that have an iterator each.
// More spans are read with one iterator.
const leavesMax = 16

func (s *Source) disjunction(ctx context.Context, args []index.Expr) (set *storage.Postings, none bool) {
	var sets []*storage.Postings
	var ranges []storage.ListRange
	for _, arg := range args {
		if leaf := arg.Op == index.Leaf || arg.Op == index.Filter; leaf && len(args) > leavesMax {
			if !arg.Span.Empty() {
				s.look(arg.Span)
				ranges = append(ranges, listRange(arg))
			}
			continue
		}
		set, none := s.combine(ctx, arg)
		if none {
			continue
		}
		if set == nil {
			discard(sets)
			return nil, false
		}
		sets = append(sets, set)
	}
	if len(ranges) > 0 {
		sets = append(sets, s.now.Rows.PostingsRanges(ctx, ranges...))
	}
	if len(sets) == 0 {
		return nil, true
	}
	return storage.Union(sets...), false
}

// discard closes sets that were not read. Their errors do not matter.
func discard(sets []*storage.Postings) {
	for _, set := range sets {
		_ = set.Close()
	}
}

// lacks reports whether the index lacks documents, so that it must not answer. An error
// counts as such a document: reading the documents returns it again.
func (s *Source) lacks() bool {
	if !s.now.Indexing.MayLack(&s.now.State) {
		return false
	}
	list := s.now.Rows.Postings(storage.TermKey(nil, layout.BareTerm))
	n, err := list.CountTo(1)
	return errors.Join(err, list.Close()) != nil || n > 0
}

// broken is the error of a set that could not be read to its end.
func (s *Source) broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return Ended(ctx)
	}
	return s.damaged(err)
}

// items counts the documents of the clip. If there are more than most, the result is
// most at least.
func (s *Source) items(ctx context.Context, most int64) (n int64, err error) {
	if s.whole {
		return s.now.Items, nil
	}
	if s.prefix != nil {
		list := s.now.Rows.Postings(s.prefix)
		n, err := list.CountTo(most)
		return n, errors.Join(err, list.Close())
	}
	rows := s.now.Rows.Iter(s.bounds(storage.FamilyLogical))
	defer func() { err = errors.Join(err, rows.Close()) }()
	read := 0
	for valid := rows.First(); valid && n < most; valid = s.nextLogical(rows) {
		if read++; Stopped(ctx, read) != nil {
			return 0, Stopped(ctx, read)
		}
		t, err := layout.DecodeTotals(rows.Value())
		if err != nil {
			return 0, s.damaged(err)
		}
		epk, _, err := storage.DecodeLogicalKey(rows.Key())
		if err != nil {
			return 0, s.damaged(err)
		}
		if s.r.own.Width > 0 || s.clip.Contains(partitionkey.EPK(epk)) {
			n += t.Items
		}
	}
	return n, nil
}

// Count returns how many documents of the clip satisfy an expression according to the
// index. It reads no document. The count is exact if the expression is exact and the
// clip is the whole partition, a prefix of the key, or contains the one key that the
// expression asks for. Otherwise, or if more than most terms would have to be read, it
// is an upper bound.
func (s *Source) Count(ctx context.Context, access index.Expr, most int64) (n int64, exact bool, err error) {
	n, exact, err = s.count(ctx, access, most)
	return min(n, most), exact, err
}

func (s *Source) count(ctx context.Context, access index.Expr, most int64) (n int64, exact bool, err error) {
	if access.Op == index.None || most <= 0 {
		return 0, true, nil
	}
	if access.Op == index.All {
		n, err := s.items(ctx, most)
		return n, true, err
	}
	if !s.now.Indexing.Active.Serves(access) {
		n, err := s.items(ctx, most)
		return n, n == 0, err
	}
	inside, outside := s.placed(access)
	if outside {
		return 0, true, nil
	}
	known, less, err := s.affordable(ctx, access, most)
	if err != nil {
		return 0, false, err
	}
	n, ok, err := s.countSet(ctx, known, most)
	if err != nil {
		return 0, false, err
	}
	if ok && n == 0 {
		return 0, true, nil
	}
	if ok && (s.whole || s.prefix != nil || inside) {
		return n, access.Exact() && !less, nil
	}
	items, err := s.items(ctx, most)
	if ok {
		items = min(n, items)
	}
	return items, items == 0, err
}

// affordable returns the part of an expression that can be counted up to most without
// reading many more terms than that.
func (s *Source) affordable(ctx context.Context, access index.Expr, most int64) (_ index.Expr, less bool, err error) {
	if most == math.MaxInt64 || access.Op == index.Leaf && s.adds(access) {
		return access, false, nil
	}
	return s.within(ctx, access, most)
}

// adds reports whether each document of a leaf is in exactly one of its lists, so that
// the lists add up to the count.
func (s *Source) adds(leaf index.Expr) bool {
	return !leaf.Span.One && s.prefix == nil && s.single(leaf.Span)
}

// countSet counts the documents of an expression, of the prefix of the clip if it has
// one. ok is false if the expression does not narrow the documents.
func (s *Source) countSet(ctx context.Context, access index.Expr, most int64) (n int64, ok bool, err error) {
	if access.Op == index.Leaf && s.adds(access) {
		n, err := s.countLists(ctx, access.Span, most)
		return n, true, err
	}
	set, none := s.combine(ctx, access)
	if none {
		return 0, true, nil
	}
	if set == nil {
		return 0, false, nil
	}
	set = s.underPrefix(set)
	n, err = set.CountTo(most)
	if err = errors.Join(err, set.Close()); err != nil {
		err = s.broken(ctx, err)
	}
	return n, true, err
}

// single reports whether no document has two terms of a span: its path has one value
// in a document.
func (s *Source) single(span index.Span) bool {
	own, ok := s.now.Indexing.Active.Span(span.Path, index.Defined, value.Null())
	return ok && own.Low <= span.Low && span.High <= own.High && !slices.Contains(span.Path, index.Element)
}

// countLists adds up the lists of a span of which no document has two terms.
func (s *Source) countLists(ctx context.Context, span index.Span, most int64) (n int64, err error) {
	if span.Empty() {
		return 0, nil
	}
	s.look(span)
	lists := s.lists(span)
	defer func() { err = errors.Join(err, lists.Close()) }()
	read := 0
	for valid := lists.First(); valid && n < most; valid = lists.Next() {
		if read++; Stopped(ctx, read) != nil {
			return 0, Stopped(ctx, read)
		}
		s.passed++
		count, err := lists.Count()
		if err != nil {
			return 0, s.damaged(err)
		}
		n += count
	}
	return n, nil
}

// lists returns the posting lists of a span.
func (s *Source) lists(span index.Span) *storage.Lists {
	return s.now.Rows.Lists(storage.TermKey(nil, span.Low), storage.TermKey(nil, span.High))
}

// placed reports whether all documents of an expression are inside the clip, or all
// outside of it. That is known if the expression asks for one value at each path of
// the key.
func (s *Source) placed(access index.Expr) (inside, outside bool) {
	if s.whole {
		return true, false
	}
	key := partitionkey.NewKey()
	for level, path := range s.r.container().KeyPaths() {
		c, ok := s.fixed(access, level, path)
		if !ok {
			return false, false
		}
		key = key.Append(c)
	}
	inside = s.clip.Contains(s.r.own.Key.Hash(key))
	return inside, !inside
}

// fixed returns the only key component at a level that documents of an expression can
// have.
func (s *Source) fixed(access index.Expr, level int, path value.Path) (partitionkey.Component, bool) {
	switch access.Op {
	case index.And:
		for _, arg := range access.Args {
			if c, ok := s.fixed(arg, level, path); ok {
				return c, true
			}
		}
	case index.Leaf:
		span := access.Span
		same := slices.EqualFunc(span.Path, path, func(name string, step value.Step) bool { return name == step.Name && !step.IsIndex })
		if !same || !span.One || !span.Exact {
			break
		}
		// Other kinds of indexes have spans of the same path, and a computed property
		// with that name is not the key.
		doc, exact := index.DecodeTerm(span.Low)
		own, ok := s.now.Indexing.Active.Span(span.Path, index.Eq, doc)
		computed := func(p resource.ComputedProperty) bool { return p.Name == path[0].Name }
		if !exact || !ok || own.Low != span.Low || slices.ContainsFunc(s.now.Indexing.Policy.Computed, computed) {
			break
		}
		// A document with this value only gives the component.
		for i := len(path) - 1; i >= 0; i-- {
			doc = value.Object([]value.Member{{Name: path[i].Name, Value: doc}})
		}
		return s.r.container().KeyOf(doc).At(level), true
	}
	return partitionkey.Component{}, false
}

// damaged is the error of a row that cannot be read.
func (s *Source) damaged(err error) error {
	return fmt.Errorf("partition %s: %w", s.r.name, err)
}
