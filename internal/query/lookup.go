package query

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/pacing"
	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/value"
)

// lookup is a way to answer a grouping, or some of its aggregates, from the index
// instead of the documents. It requires that a row depends only on the value at one
// place; the index knows the number of documents of each term.
type lookup struct {
	way   lookupWay
	calls []int // the aggregates that it answers alone; nil for all of a grouping that has keys, or a filter to evaluate

	access  index.Expr // of byCount: the documents; otherwise those to intersect with the span of order
	order   index.Order
	slot    int  // of the place
	ordered bool // the terms come in the order of the groups
	filter  bool // evaluate the filter with the value; otherwise the access is exact
	holds   bool // of byCount: the argument is true of these documents
}

type lookupWay uint8

const (
	byCount     lookupWay = iota // from the number of documents
	byEnds                       // from the least and the greatest term
	byValues                     // each term is evaluated
	byWords                      // from the numbers of words
	byDocuments                  // from the documents of access
)

// compileLookup determines how the index can answer.
func (p *Plan) compileLookup(c *compiler, ix *index.Index) {
	g := p.group
	if ix == nil || g == nil || !p.plain || !p.whole || g.listing {
		return
	}
	var all places
	for _, key := range g.keys {
		all.add(c, key.expr)
	}
	for _, call := range g.calls {
		all.add(c, call.expr.Args[0])
	}
	known := p.exact
	if !known {
		all.add(c, p.query.Where)
	}
	switch {
	case all.other:
	case g.lone && known:
		g.lookups = p.lookupCalls(c, ix)
	case len(all.list) == 1:
		if l, ok := p.lookupValues(ix, all.list[0], g.desc, !known); ok {
			l.ordered = !g.lone && !g.keys[0].invert && isPlace(c, g.keys[0].expr)
			g.lookups = []lookup{l}
		}
	}
}

// lookupsMax is the maximum number of lookups of one query. With more, it reads the
// documents once instead.
const lookupsMax = 16

// lookupCalls answers each aggregate of a query without GROUP BY separately; nil if
// one cannot be answered.
func (p *Plan) lookupCalls(c *compiler, ix *index.Index) []lookup {
	var list []lookup
	for i, call := range p.group.calls {
		var at places
		at.add(c, call.expr.Args[0])
		l, ok := lookup{way: byCount, access: p.accessing}, true
		text, isText := p.lookupText(c, ix, call)
		switch kind := call.kind; {
		case isText:
			l = text
		case len(at.list) == 0:
		case len(at.list) > 1:
			return nil
		default:
			l, ok = p.lookupValues(ix, at.list[0], false, false)
			switch alone := isPlace(c, call.expr.Args[0]); {
			case alone && kind == Count:
				l.way, l.access = byCount, joined(index.And, append(slices.Clone(leavesAnd(l.access)), index.Expr{Op: index.Leaf, Span: l.order.Span}), index.All)
			case alone && (kind == Min || kind == Max):
				l.way = byEnds
			}
		}
		if !ok {
			return nil
		}
		same := func(o lookup) bool { return l.way == byValues && o.way == byValues && o.slot == l.slot }
		if at := slices.IndexFunc(list, same); at >= 0 {
			list[at].calls = append(list[at].calls, i) // one walk for both
			continue
		}
		if len(list) == lookupsMax {
			return nil
		}
		l.calls = []int{i}
		list = append(list, l)
	}
	return list
}

// leavesAnd returns the terms of a conjunction.
func leavesAnd(e index.Expr) []index.Expr {
	switch e.Op {
	case index.All:
		return nil
	case index.And:
		return e.Args
	}
	return []index.Expr{e}
}

// lookupValues evaluates the values of one place.
func (p *Plan) lookupValues(ix *index.Index, at spot, desc, filter bool) (lookup, bool) {
	keys := []index.SortKey{{Path: indexPath(at.path), Desc: desc}}
	o, ok := indexOrderOf(ix, keys, predicate{}, p.accessing)
	l := lookup{way: byValues, access: o.access, order: o.Order, slot: at.slot, filter: filter}
	if filter {
		l.access = index.Expr{}
	}
	return l, ok && o.Walks && o.Composite == nil && o.Span.Exact
}

// spot is a place in documents and its slot.
type spot struct {
	path value.Path
	slot int
}

// places are the spots that expressions depend on.
type places struct {
	list  []spot // two of them if there are more
	other bool   // they depend on something else too
}

// add adds the places on which x depends.
func (l *places) add(c *compiler, x sql.Expr) {
	if l.other || c.expr(x).con {
		return
	}
	if path, ok := c.path(x); ok {
		l.spot(c, path)
		return
	}
	switch x := x.(type) {
	case *sql.Ident:
		a, _ := c.scope.lookup(x.Name)
		l.other = !a.let
	case *sql.Subquery:
		l.other = true
	case *sql.LetExpr:
		l.add(c, x.Value)
		c.within(c.lets[x], func() { l.add(c, x.In) })
		return
	case *sql.CallExpr:
		f := functions[strings.ToUpper(x.Name)]
		l.other = x.UDF || f == nil || f.volatile || f.aggregate
	}
	for part := range sql.Children(x) {
		l.add(c, part)
	}
}

func (l *places) spot(c *compiler, path value.Path) {
	// Elements of arrays share their terms, and the whole document has none.
	if len(path) == 0 || slices.ContainsFunc(path, func(s value.Step) bool { return s.IsIndex }) {
		l.other = true
		return
	}
	at := spot{path: path, slot: c.places.Add(path)}
	if n := len(l.list); n == 0 || n == 1 && l.list[0].slot != at.slot {
		l.list = append(l.list, at)
	}
}

// isPlace reports whether x is a place itself.
func isPlace(c *compiler, x sql.Expr) bool {
	_, ok := c.path(x)
	return ok
}

// look answers from the index. If it cannot, or if reading documents is cheaper, it
// returns false and leaves the set unchanged.
func (s *groupSet) look(ctx context.Context, src Source) (done bool, err error) {
	indexed, ok := src.(Indexed)
	if !ok || len(s.g.lookups) == 0 {
		return false, nil
	}
	for i := range s.g.lookups {
		if ok, err := s.pays(ctx, indexed, &s.g.lookups[i]); !ok || err != nil {
			return false, err
		}
	}
	for i := range s.g.lookups {
		if ok, err := s.lookup(ctx, indexed, &s.g.lookups[i]); !ok || err != nil {
			s.reset()
			return false, err
		}
	}
	return true, nil
}

// pays reports whether a lookup seems cheaper than reading documents. A lookup visits
// every term; if few documents qualify, most terms belong to other documents.
func (s *groupSet) pays(ctx context.Context, src Indexed, l *lookup) (bool, error) {
	if l.way == byCount || l.access.Op == index.All {
		return true, nil
	}
	defer s.run.watch.lookingUp()()
	n, _, err := src.Count(ctx, index.Expr{}, math.MaxInt64)
	if err != nil {
		return false, err
	}
	if l.way == byDocuments {
		m, _, err := src.Count(ctx, l.access, n/lookupFactor+1)
		return m >= 0 && m <= n/lookupFactor, err
	}
	m, _, err := src.Count(ctx, s.run.plan.accessing, n/lookupFactor+1)
	return m < 0 || m > n/lookupFactor, err
}

func (s *groupSet) lookup(ctx context.Context, src Indexed, l *lookup) (done bool, err error) {
	switch l.way {
	case byCount:
		return s.count(ctx, src, l)
	case byEnds:
		return s.ends(ctx, src, l)
	case byWords:
		return s.words(ctx, src, l)
	case byDocuments:
		return s.documents(ctx, src, l)
	}
	return s.values(ctx, src, l)
}

func (s *groupSet) count(ctx context.Context, src Indexed, l *lookup) (done bool, err error) {
	defer s.run.watch.lookingUp()()
	n, exact, err := src.Count(ctx, l.access, math.MaxInt64)
	if !exact || err != nil || n == 0 {
		return exact, err
	}
	e := s.run.env
	e.load(emptyDocument)
	for _, i := range l.calls {
		v := s.g.calls[i].arg(e)
		switch {
		case l.holds:
			v = value.Bool(true)
		case l.order.Walks:
			v = value.Null() // COUNT of a place that all of these have
		}
		s.only.Aggregates[i].addTimes(e, v, n)
	}
	return true, e.err
}

// ends reads the last term, which shows whether there is an array or an object, and,
// for the least value, the first.
func (s *groupSet) ends(ctx context.Context, src Indexed, l *lookup) (done bool, err error) {
	defer s.run.watch.lookingUp()()
	e := s.run.env
	for _, i := range l.calls {
		a := &s.only.Aggregates[i]
		for _, desc := range []bool{true, false} {
			if !desc && (a.Kind == Max || a.Void) {
				break
			}
			for t, err := range src.Terms(ctx, Walk{Span: l.order.Span, Desc: desc, Access: l.access}) {
				if err != nil {
					return false, err
				}
				v, exact := index.DecodeTerm(t.Term)
				if !exact && v.Kind() <= value.KindString {
					return false, nil
				}
				if a.Kind == Max || !desc || v.Kind() > value.KindString {
					a.add(e, v)
				}
				break
			}
		}
	}
	return true, e.err
}

// unclearMax is the maximum number of terms of a lookup that do not determine the
// value. Their documents are read.
const unclearMax = 64

// values evaluates the values of the terms.
func (s *groupSet) values(ctx context.Context, src Indexed, l *lookup) (done bool, err error) {
	r := s.run
	walk := Walk{Span: l.order.Span, Desc: l.order.Desc, Missing: l.order.Missing, First: !s.g.lone, Access: l.access}
	if l.ordered && !r.from.none {
		walk.From, _ = l.order.Seek(s.g.seekable(r.from.key))
		walk.Started = true
	}
	var unclear []index.Expr
	looked := 0
	watched := r.watch.lookingUp()
	for t, err := range src.Terms(ctx, walk) {
		if looked++; looked%contextEvery == 0 && err == nil {
			err = pacing.Check(ctx)
		}
		if err != nil {
			return false, err
		}
		v, exact := value.Undefined(), true
		if t.Term != "" {
			v, exact = index.DecodeTerm(t.Term)
		}
		if !exact {
			if unclear = append(unclear, documentsOf(t.Term, l.order.Span)); len(unclear) > unclearMax {
				return false, nil
			}
			continue
		}
		if l.ordered && s.complete(t.Term) {
			if _, known := l.order.Group(t.Term); known || !s.g.sorted {
				break
			}
		}
		s.assume(l.slot, v, t.First)
		if l.filter && r.plan.filter(r.env) != yes {
			continue
		}
		if !s.take(l, t.Count) {
			return false, r.env.err
		}
	}
	watched()
	if len(unclear) == 0 {
		return true, r.env.err
	}
	return s.unclear(ctx, src, l, unclear)
}

// documentsOf is the expression of the documents that have one term.
func documentsOf(t index.Term, of index.Span) index.Expr {
	return index.Expr{Op: index.Leaf, Span: index.Span{Low: t, High: t + "\x00", One: true, Path: of.Path, Label: of.Label}}
}

// complete reports whether the page has all its groups when the walk has reached a
// term. Later terms have greater keys, even truncated ones, because no key is a prefix
// of another one.
func (s *groupSet) complete(t index.Term) bool {
	return s.rowsMax > 0 && len(s.groups) > s.rowsMax && (s.g.sorted || len(t) < groupPrefix)
}

// assume sets a document of which only the value at one place is known, and its number.
func (s *groupSet) assume(slot int, v value.Value, number uint64) {
	var text []byte
	if v.IsDefined() {
		s.text = v.Append(s.text[:0])
		text = s.text
	}
	s.run.number = number
	s.run.env.assume(slot, v, text)
}

// take adds the current row to the aggregates that a lookup answers.
func (s *groupSet) take(l *lookup, times int64) bool {
	if l.calls == nil {
		return s.add(times)
	}
	e := s.run.env
	for _, i := range l.calls {
		s.only.Aggregates[i].addTimes(e, s.g.calls[i].arg(e), times)
	}
	return e.err == nil
}

// unclear reads the documents of terms that do not determine their values.
func (s *groupSet) unclear(ctx context.Context, src Source, l *lookup, terms []index.Expr) (done bool, err error) {
	r := s.run
	known := map[index.Term]bool{}
	for _, term := range terms {
		known[term.Span.Low] = true
	}
	id := terms[0].Span.Low[:termIDSize]
	need := Need{Access: joined(index.Or, terms, index.None), Unordered: true, Bare: r.plan.bare}
	var term []byte
	take := func(int) bool { return s.take(l, 1) }
	err = r.candidates(ctx, src, need, func(c Candidate) bool {
		r.setCurrent(c)
		term = appendTerm(append(term[:0], id...), r.env.at(l.slot))
		if known[index.Term(term)] {
			r.each(take)
		}
		return true
	})
	return err == nil, err
}

// termIDSize is the size in bytes of the path id in a term.
const termIDSize = 8

// appendTerm appends the part of the term of a value after the id.
func appendTerm(dst []byte, v value.Value) []byte {
	if v.Kind() >= value.KindArray {
		return append(dst, value.AppendKey(nil, v)[0])
	}
	dst, _ = value.AppendKeyLimit(dst, v, index.StringBytesMax)
	return dst
}
