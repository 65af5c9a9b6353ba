package scan

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math"
	"slices"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/value"
)

// Walks through the terms of the index in their order. Groups, distinct values, least
// and greatest values, and rows in an order of the index need them.

// Terms yields the terms of a walk in order, each with the number of documents of the
// clip that have it. It reads numbers of documents only, and holds at most one bit in
// memory for each document of the partition.
func (s *Source) Terms(ctx context.Context, walk query.Walk) iter.Seq2[query.TermCount, error] {
	return func(yield func(query.TermCount, error) bool) {
		ended := false
		count := func(n int64, first uint64) (more bool) {
			if n == 0 {
				return true
			}
			s.work.Hits++
			ended = !yield(query.TermCount{Term: s.term, Count: n, First: first}, nil)
			return !ended
		}
		err := s.walk(ctx, walk, count, func(w *walker, set *storage.Postings) (bool, error) {
			first, n := uint64(0), int64(0)
			switch {
			case !walk.First:
			case walk.Desc && w.begins(s.term): // The set is read from its end.
				for number, ok := set.Prev(); ok; number, ok = set.Prev() {
					if n++; Stopped(ctx, int(n)) != nil {
						return false, Stopped(ctx, int(n))
					}
					first = number
				}
			default:
				var ok bool
				if first, ok = set.Next(); ok {
					n = 1
				}
			}
			rest, err := set.Count()
			if err != nil {
				return false, s.broken(ctx, err)
			}
			return count(n+rest, first), nil
		})
		if err != nil && !ended {
			yield(query.TermCount{}, err)
		}
	}
}

// Ordered yields the documents of a walk.
func (s *Source) Ordered(ctx context.Context, walk query.Walk) iter.Seq2[query.Candidate, error] {
	return func(yield func(query.Candidate, error) bool) {
		ended := false
		once := func(c query.Candidate, err error) bool {
			ended = ended || !yield(c, err)
			return !ended
		}
		s.bare, s.led = walk.Bare, true
		use := s.offer(once)
		err := s.walk(ctx, walk, nil, func(w *walker, set *storage.Postings) (bool, error) {
			return w.documents(set, use)
		})
		if err != nil && !ended {
			yield(query.Candidate{}, err)
		}
	}
}

// visitor receives the documents of each term of a walk. The term is in s.term. It
// reports whether the walk continues.
type visitor func(w *walker, set *storage.Postings) (more bool, err error)

// walker is one walk.
type walker struct {
	s    *Source
	ctx  context.Context
	walk query.Walk

	// within has the documents that count; nil for all of the partition.
	within *storage.Numbers
	// clip is the number of documents of the clip while within may include others,
	// which the walk finds one by one: misses counts them. Zero if it includes none.
	clip, misses int64

	count func(n int64, first uint64) (more bool) // see walk

	lists  *storage.Lists
	passed int64 // lists read so far
	tried  bool  // entries was called
}

// entry is one term of one document.
type entry struct {
	term   index.Term
	number uint64
}

// walk visits the terms of a walk. If count is not nil, the documents of each set are
// exactly those of the clip that satisfy the access, and count is called instead of
// visit if their number is known without reading them.
func (s *Source) walk(ctx context.Context, walk query.Walk, count func(n int64, first uint64) (more bool), visit visitor) (err error) {
	if !s.now.Indexing.Active.Serves(index.Expr{Op: index.Leaf, Span: walk.Span}) || count != nil && !s.now.Indexing.Active.Serves(walk.Access) {
		return status.Unavailable(nil, "The index has changed since the query was planned. Try again.")
	}
	w := &walker{s: s, ctx: ctx, walk: walk, count: count}
	if err := w.limit(count != nil); err != nil {
		return err
	}
	if w.within != nil && w.within.Len() == 0 {
		return nil
	}
	s.look(walk.Span)
	w.lists = s.lists(walk.Span)
	defer func() { err = errors.Join(err, w.lists.Close()) }()
	missing := walk.Missing && (walk.From == "" || walk.Desc)
	if missing && !walk.Desc {
		if more, err := w.missing(visit); err != nil || !more {
			return err
		}
	}
	if !walk.Desc || walk.From != "" || !walk.Started {
		if more, err := w.terms(visit); err != nil || !more {
			return err
		}
	}
	if missing && walk.Desc {
		_, err = w.missing(visit)
	}
	return err
}

// clipFactor times scanMax bounds the counting of a clip's documents. A larger clip
// counts as the whole partition.
const clipFactor = 16

// limit sets within and clip. If exact, within has exactly the documents that count.
func (w *walker) limit(exact bool) error {
	s := w.s
	access := w.walk.Access
	if w.walk.Effort > 0 && !exact {
		var err error
		if access, _, err = s.within(w.ctx, access, w.walk.Effort); err != nil {
			return err
		}
	}
	set, none := s.postings(w.ctx, access)
	if none {
		w.within = new(storage.Numbers)
		return nil
	}
	set = s.underPrefix(set)
	if !s.whole && s.prefix == nil {
		most, few := clipFactor*s.r.Strategy.ScanMax+1, s.r.Strategy.ScanMax
		if w.walk.Effort > 0 {
			most, few = min(most, w.walk.Effort), 0
		}
		items, err := s.items(w.ctx, most)
		if err == nil && !exact && items > few {
			// Reading all rows of a large clip can take longer than the walk.
			if w.clip = items; items >= most {
				w.clip = s.now.Items
			}
		} else if err == nil {
			var clip *storage.Numbers
			if clip, err = s.numbers(w.ctx); err == nil {
				set = intersect(set, clip)
			}
		}
		if err != nil {
			if set != nil {
				discard([]*storage.Postings{set})
			}
			return err
		}
	}
	if set == nil {
		return nil
	}
	var err error
	if w.within, err = set.Collect(w.ctx); err != nil {
		return s.broken(w.ctx, err)
	}
	return nil
}

// intersect limits a set to numbers. A nil set is all documents.
func intersect(set *storage.Postings, numbers *storage.Numbers) *storage.Postings {
	if set == nil {
		return numbers.Postings()
	}
	return storage.Intersect(set, numbers.Postings())
}

// numbers returns the numbers of the clip. It reads all rows of the clip.
func (s *Source) numbers(ctx context.Context) (numbers *storage.Numbers, err error) {
	rows := s.now.Rows.Iter(s.bounds(storage.FamilyDocument))
	defer func() { err = errors.Join(err, rows.Close()) }()
	var b storage.NumbersBuilder
	n := 0
	for valid := rows.First(); valid; valid = rows.Next() {
		if n++; Stopped(ctx, n) != nil {
			return nil, Stopped(ctx, n)
		}
		d, err := layout.DecodeDocument(rows.Value())
		if err != nil {
			return nil, s.damaged(err)
		}
		if s.r.own.Width > 0 || s.holds(rows.Key()[1:], &d) {
			b.Add(d.Number)
		}
	}
	return b.Numbers(), nil
}

// terms visits the terms of the span, from the position where the walk begins.
func (w *walker) terms(visit visitor) (more bool, err error) {
	n := 0
	for ok := w.first(); ok; ok = w.next() {
		if n++; Stopped(w.ctx, n) != nil {
			return false, Stopped(w.ctx, n)
		}
		term := index.Term(w.lists.Key()[1:])
		w.lists.Within(w.within)
		w.s.passed++
		if more, err := w.visit(term, w.lists.Numbers(), visit); err != nil || !more {
			return false, err
		}
		if w.passed++; w.late() {
			rest, ok, err := w.entries(term)
			if err != nil {
				return false, err
			}
			if ok {
				return w.rest(rest, visit)
			}
		}
	}
	if err := w.lists.Err(); err != nil {
		return false, w.s.damaged(err)
	}
	return true, nil
}

// first moves to the list at which the walk begins.
func (w *walker) first() bool {
	from := storage.TermKey(nil, w.walk.From)
	switch {
	case w.walk.From == "" && w.walk.Desc:
		return w.lists.Last()
	case w.walk.From == "":
		return w.lists.First()
	case w.walk.Desc:
		return w.lists.SeekLE(from)
	}
	return w.lists.SeekGE(from)
}

func (w *walker) next() bool {
	if w.walk.Desc {
		return w.lists.Prev()
	}
	return w.lists.Next()
}

// begins reports whether the walk begins inside of the documents of a term.
func (w *walker) begins(term index.Term) bool {
	return w.walk.After != 0 && term == w.walk.From && (term != "" || w.walk.Started)
}

// visit passes the documents of a term to a visitor, except for those before the
// position where the walk begins.
func (w *walker) visit(term index.Term, set *storage.Postings, visit visitor) (more bool, err error) {
	w.s.term = term
	if !w.begins(term) {
		return visit(w, set)
	}
	if w.walk.Desc {
		set.SeekLT(w.walk.After)
	} else if w.walk.After == ^uint64(0) || !set.SeekGE(w.walk.After+1) {
		return true, nil
	}
	return visit(w, set)
}

// documents calls use with the documents of a set.
func (w *walker) documents(set *storage.Postings, use func(d *layout.Document) (more bool, err error)) (more bool, err error) {
	move := set.Next
	if w.walk.Desc {
		move = set.Prev
	}
	n, narrowed := 0, false
	for number, ok := move(); ok; number, ok = move() {
		if n++; Stopped(w.ctx, n) != nil {
			return false, Stopped(w.ctx, n)
		}
		if narrowed && !w.within.Has(number) {
			continue
		}
		before := w.s.work.Documents
		if more, err := w.s.find(number, use); err != nil || !more {
			return false, err
		}
		if w.clip == 0 || before != w.s.work.Documents {
			continue
		}
		if w.misses++; w.s.r.Strategy.Costs.missed(w.misses, w.clip) {
			// Many documents are outside of the clip: find those inside first.
			if err := w.narrow(); err != nil {
				return false, err
			}
			narrowed = true
		}
	}
	if err := set.Err(); err != nil {
		return false, w.s.broken(w.ctx, err)
	}
	return true, nil
}

// narrow limits the walk to the documents of the clip.
func (w *walker) narrow() error {
	clip, err := w.s.numbers(w.ctx)
	if err == nil && w.within != nil {
		clip, err = storage.Intersect(w.within.Postings(), clip.Postings()).Collect(w.ctx)
	}
	w.within, w.clip = clip, 0
	return err
}

// missing visits the documents without a term of the place.
func (w *walker) missing(visit visitor) (more bool, err error) {
	s, span := w.s, w.walk.Place
	if span.High == "" {
		span = w.walk.Span
	}
	if none, err := s.Complete(span); none || err != nil {
		return err == nil, err
	}
	known := w.count != nil && w.within == nil && w.walk.After == 0
	if known && !w.walk.First && s.single(span) {
		n, err := s.countLists(w.ctx, span, math.MaxInt64)
		s.term = ""
		return err == nil && w.count(s.now.Items-n, 0), err
	}
	have, err := s.now.Rows.PostingsRange(w.ctx, storage.TermKey(nil, span.Low), storage.TermKey(nil, span.High)).Collect(w.ctx)
	if err != nil {
		return false, s.broken(w.ctx, err)
	}
	if have.Len() == s.now.Items {
		return true, nil
	}
	if known {
		first, err := s.firstOutside(w.ctx, have)
		s.term = ""
		return err == nil && w.count(s.now.Items-have.Len(), first), err
	}
	all := w.within
	if all == nil {
		if all, err = s.all(w.ctx); err != nil {
			return false, err
		}
	}
	return w.visit("", storage.Difference(all.Postings(), have.Postings()), visit)
}

// all returns the numbers of all documents of the partition.
func (s *Source) all(ctx context.Context) (*storage.Numbers, error) {
	var b storage.NumbersBuilder
	err := s.eachNumber(ctx, func(number uint64) bool {
		b.Add(number)
		return true
	})
	return b.Numbers(), err
}

// firstOutside returns the least number of a document that is not in a set, zero if
// there is none.
func (s *Source) firstOutside(ctx context.Context, set *storage.Numbers) (first uint64, err error) {
	err = s.eachNumber(ctx, func(number uint64) bool {
		if !set.Has(number) {
			first = number
		}
		return first == 0
	})
	return first, err
}

// eachNumber calls use with the numbers of the documents of the partition, ascending,
// until it returns false.
func (s *Source) eachNumber(ctx context.Context, use func(number uint64) bool) (err error) {
	rows := s.now.Rows.Iter(storage.FamilyRID.Bounds())
	defer func() { err = errors.Join(err, rows.Close()) }()
	n := 0
	for valid := rows.First(); valid; valid = rows.Next() {
		if n++; Stopped(ctx, n) != nil {
			return Stopped(ctx, n)
		}
		number, err := storage.DecodeRIDKey(rows.Key())
		if err != nil {
			return s.damaged(err)
		}
		if !use(number) {
			return nil
		}
	}
	return nil
}

// late reports whether the walk has read so many lists that computing the terms of the
// few documents that count is cheaper.
func (w *walker) late() bool {
	if w.tried || w.within == nil || w.within.Len() > w.s.r.Strategy.ScanMax {
		return false
	}
	return w.passed > w.s.r.Strategy.WalkFactor*w.within.Len()
}

// entries returns the rest of the walk, after a term, from the terms of the documents
// that count. ok is false if they need too much memory.
func (w *walker) entries(after index.Term) (list []entry, ok bool, err error) {
	w.tried = true
	const overhead = 32
	bytes, n := 0, 0
	set := w.within.Postings()
	for number, ok := set.Next(); ok; number, ok = set.Next() {
		if n++; Stopped(w.ctx, n) != nil {
			return nil, false, Stopped(w.ctx, n)
		}
		terms, err := w.s.terms(number)
		if err != nil {
			return nil, false, err
		}
		for _, term := range terms {
			if term < w.walk.Span.Low || term >= w.walk.Span.High || (term < after) != w.walk.Desc || term == after {
				continue
			}
			list = append(list, entry{term, number})
			bytes += len(term) + overhead
		}
		if bytes > w.s.r.Strategy.WalkBytes {
			return nil, false, nil
		}
	}
	slices.SortFunc(list, func(a, b entry) int {
		if w.walk.Desc {
			a, b = b, a
		}
		return cmp.Or(cmp.Compare(a.term, b.term), cmp.Compare(a.number, b.number))
	})
	return list, true, nil
}

// rest visits the terms of sorted entries.
func (w *walker) rest(list []entry, visit visitor) (more bool, err error) {
	for len(list) > 0 {
		term := list[0].term
		var b storage.NumbersBuilder
		for len(list) > 0 && list[0].term == term {
			b.Add(list[0].number)
			list = list[1:]
		}
		if more, err := w.visit(term, b.Numbers().Postings(), visit); err != nil || !more {
			return false, err
		}
	}
	return true, nil
}

// terms returns the terms of a document in the index in use.
func (s *Source) terms(number uint64) (list []index.Term, err error) {
	_, err = s.find(number, func(d *layout.Document) (bool, error) {
		list, err = s.now.Indexing.TermsInUse(d)
		return true, err
	})
	return list, err
}

// Complete reports whether every document of the partition is known to have a term of
// a span.
func (s *Source) Complete(span index.Span) (yes bool, err error) {
	active := s.now.Indexing.Active
	own, ok := active.Span(span.Path, index.Defined, value.Null())
	if !ok || own.Low < span.Low || own.High > span.High {
		return false, nil // The terms of the path are not all in the span.
	}
	// The time is written to every document, and is not known when the paths
	// are compared.
	if ts, ok := active.Timestamp(0); ok && ts[:storage.PathBytes] == own.Low[:storage.PathBytes] {
		return true, nil
	}
	s.key = storage.MetaKey(s.key[:0], layout.MetaPaths)
	_, err = s.now.Rows.View(s.key, func(row []byte) error {
		set, err := layout.DecodePaths(row)
		yes = err == nil && set.Has(own.Low)
		return err
	})
	if err != nil {
		err = s.damaged(err)
	}
	return yes, err
}
