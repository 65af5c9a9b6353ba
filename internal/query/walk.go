package query

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/value"
)

// indexOrder is an order of rows that the index has.
type indexOrder struct {
	index.Order
	access index.Expr // what is to look at beside the span of the order
	place  index.Span // see [Walk.Place]
}

// indexOrderOf asks the index for the order of paths, and false when the policy
// allows none. where are conditions that hold for all rows: what they fix may
// stand in front of the keys of a composite index, and what they say about the
// first key makes the way shorter.
func indexOrderOf(ix *index.Index, keys []index.SortKey, where predicate, access index.Expr) (indexOrder, bool) {
	order, ok := ix.Order(keys, where.fixed)
	o := indexOrder{Order: order, access: access}
	if !ok || !o.Walks {
		return o, ok
	}
	o.between(ix, keys[0].Path, where)
	if len(keys) > 1 {
		low, high := caseBounds(ix, o.Order, keys, where)
		o.Span.Low, o.Span.High = max(o.Span.Low, low), min(o.Span.High, high)
	}
	o.access = joined(index.And, slices.DeleteFunc(slices.Clone(leavesAnd(access)), func(part index.Expr) bool {
		return o.says(part, keys, where)
	}), index.All)
	return o, true
}

// says reports whether all documents of the walk satisfy a part of the access,
// and cuts the walk to those of a part that is about the first key alone.
func (o *indexOrder) says(part index.Expr, keys []index.SortKey, where predicate) bool {
	path, key := part.Span.Path, keys[0].Path
	switch {
	case part.Op == index.Or:
		return o.spans(part, key, where)
	case part.Op != index.Leaf || slices.Contains(path, index.Element):
		return false // Conditions on elements may each be true of another one.
	case slices.Equal(path, key):
		o.Order = o.Narrow(part.Span)
		return true
	}
	at := o.part(path)
	if _, fixed := where.fixed(path); at < 0 || !fixed {
		return false
	}
	// The terms of the walk begin with the values that are fixed, up to the first key
	// that is not.
	return !slices.ContainsFunc(keys, func(k index.SortKey) bool {
		_, fixed := where.fixed(k.Path)
		return !fixed && o.part(k.Path) < at
	})
}

// part returns which part of the composite index a path is, below zero for none.
func (o *indexOrder) part(path index.Path) int {
	return slices.IndexFunc(o.Composite, func(part string) bool {
		return part == path.String()+" ASC" || part == path.String()+" DESC"
	})
}

// between cuts the walk to where the values of the first key lie in all
// documents that pass: clients that go on with an ordered query say that in a
// disjunction, one case for each type of value, and one for a property that is
// not there.
func (o *indexOrder) between(ix *index.Index, path index.Path, where predicate) {
	e := where.extent(ix, path)
	if e.anywhere || e.missing && (o.Composite != nil || !o.Missing) {
		return
	}
	if e.low >= e.high {
		own, _ := ix.Span(path, index.Defined, value.Null())
		e.low, e.high = own.Low, own.Low
	}
	place := o.Span
	o.Order = o.Narrow(index.Span{Low: e.low, High: e.high})
	if o.Missing = e.missing; e.missing {
		o.place = place
	}
}

// caseBounds returns the bounds of the terms of an order of several keys in all
// documents that pass: each case of a disjunction may fix some of the keys and
// bound the next one, as clients do that go on behind a row.
func caseBounds(ix *index.Index, o index.Order, keys []index.SortKey, where predicate) (low, high index.Term) {
	cases := []predicate{where}
	for _, part := range where.terms() {
		if part.op == either {
			cases = part.args // The first is as good as another.
			break
		}
	}
	low, high = o.Span.High, o.Span.Low
	for _, c := range cases {
		part, rest := o, keys
		for v, ok := c.fixed(rest[0].Path); ok && len(rest) > 1; v, ok = c.fixed(rest[0].Path) {
			below, tells := part.Behind(v)
			if !tells {
				break
			}
			part, rest = below, rest[1:]
		}
		if e := c.extent(ix, rest[0].Path); !e.anywhere && !e.missing && e.low < e.high {
			part = part.Narrow(index.Span{Low: e.low, High: e.high})
		}
		low, high = min(low, part.Span.Low), max(high, part.Span.High)
	}
	return low, high
}

// spans reports whether a disjunction says no more than the bounds to which
// [indexOrder.between] has cut the walk: its cases are all about the first key,
// and leave no gap between them.
func (o *indexOrder) spans(e index.Expr, path index.Path, where predicate) bool {
	if where.op == anything {
		return false // Nothing was cut.
	}
	list := make([]index.Span, len(e.Args))
	for i, arg := range e.Args {
		if arg.Op != index.Leaf || !slices.Equal(arg.Span.Path, path) {
			return false
		}
		list[i] = arg.Span
	}
	slices.SortFunc(list, func(a, b index.Span) int { return cmp.Compare(a.Low, b.Low) })
	high := list[0].High
	for _, s := range list[1:] {
		if s.Low > high {
			return false
		}
		high = max(high, s.High)
	}
	return true
}

// extent is where the values at one place lie in the documents that pass a
// predicate.
type extent struct {
	low, high index.Term // bounds of their terms, high not included
	missing   bool       // documents without a value may pass
	anywhere  bool       // nothing is known
}

// extent returns where the values at a path lie in the documents that pass.
func (p predicate) extent(ix *index.Index, path index.Path) extent {
	switch p.op {
	case nothing:
		return extent{}
	case both:
		all := extent{anywhere: true}
		for _, arg := range p.args {
			all = all.and(arg.extent(ix, path))
		}
		return all
	case either:
		var any extent
		for _, arg := range p.args {
			if any = any.or(arg.extent(ix, path)); any.anywhere {
				break
			}
		}
		return any
	}
	if slices.Contains(path, index.Element) || !slices.Equal(indexPath(p.path), path) {
		return extent{anywhere: true}
	}
	if p.op == isMissing {
		return extent{missing: true}
	}
	return extentOf(p.leaf(ix), path)
}

// extentOf returns where the terms of an expression lie, if they are all those
// of a path.
func extentOf(e index.Expr, path index.Path) extent {
	args := []index.Expr{e}
	if e.Op == index.Or {
		args = e.Args
	}
	var any extent
	for _, arg := range args {
		switch {
		case arg.Op == index.None:
		case (arg.Op == index.Leaf || arg.Op == index.Filter) && slices.Equal(arg.Span.Path, path):
			any = any.or(extent{low: arg.Span.Low, high: arg.Span.High})
		default:
			return extent{anywhere: true}
		}
	}
	return any
}

func (e extent) and(o extent) extent {
	switch {
	case e.anywhere:
		return o
	case o.anywhere:
		return e
	}
	e.low, e.high, e.missing = max(e.low, o.low), min(e.high, o.high), e.missing && o.missing
	if e.low >= e.high {
		e.low, e.high = "", ""
	}
	return e
}

func (e extent) or(o extent) extent {
	e.anywhere = e.anywhere || o.anywhere
	e.missing = e.missing || o.missing
	switch {
	case o.low >= o.high:
	case e.low >= e.high:
		e.low, e.high = o.low, o.high
	default:
		e.low, e.high = min(e.low, o.low), max(e.high, o.high)
	}
	return e
}

// lookupFactor is how many documents in the order that a source prefers are read
// in the time of one found through an ordered walk.
const lookupFactor = 4

// walkMax is how many documents a walk may look at for each row that is wanted
// before it is given up, when a part of the filter that no index knows leaves
// most of them out.
const walkMax = 256

// countFactor is how many documents are counted for each row that is wanted
// before anything is read, and how many terms a walk may pass for each of them to
// know which documents to leave out.
const countFactor = 4 * lookupFactor

// walk follows the index through the rows in their order and stops when the page
// is full, if that seems to take less than looking at all candidates. When it
// does not get as far, it reports false, and the rest of the page is still to be
// filled.
func (r *run) walk(ctx context.Context, src Source) (done bool, err error) {
	o := r.plan.order
	indexed, ok := src.(Indexed)
	if !ok || !o.index.Walks {
		return false, nil
	}
	w := &orderWalk{run: r, order: &o.index, src: indexed, ctx: ctx}
	if worth, err := w.worth(); !worth || err != nil {
		return false, err
	}
	from := Walk{
		Span: o.index.Span, Desc: o.index.Desc, Missing: o.index.Missing, Place: o.index.place,
		Access: o.index.access, Effort: countFactor * int64(r.rowsMax()), Bare: r.plan.bare,
	}
	w.seek(&from)
	err = r.documents(ctx, indexed.Ordered(ctx, from), w.document)
	if err == nil {
		err = w.err
	}
	if err == nil && !w.abandoned && !w.closed {
		w.flush()
	}
	if n := len(r.page.Rows); n > 0 {
		last := &r.page.Rows[n-1]
		r.from = originOf(&Budget{After: last.Position, AfterKey: last.Order, Started: true})
	}
	return !w.abandoned, err
}

// orderWalk is a walk under way.
type orderWalk struct {
	run   *run
	order *indexOrder
	src   Indexed
	ctx   context.Context
	most  int64 // documents to look at before it is asked again whether to go on
	seen  int64
	err   error // of asking

	group     string   // the run of terms that do not tell the order
	heap      *rowHeap // its rows; nil outside of one
	abandoned bool
	closed    bool // the page is complete
}

// A page is small and what it is taken from is not, so that looking at all of
// the index before the first row would cost more than the page. So a walk begins
// after a short count, and the longer it gets the more is counted: all that is
// ever counted is in proportion to what was read.
//
// Of N documents m pass what the index knows of the filter, and k rows are
// wanted: a walk looks at about k*N/m documents, the sort at m. When the walk
// keeps to those m by itself, it looks at k.

// worth reports whether to begin, and sets how many documents to look at first.
func (w *orderWalk) worth() (bool, error) {
	defer w.run.watch.lookingUp()()
	k := int64(w.run.rowsMax())
	if k == 0 {
		return false, nil
	}
	w.most = lookupFactor * k
	if w.alone() {
		m, err := w.count(w.most + 1)
		return m > w.most, err
	}
	m, err := w.count(countFactor*k + 1)
	switch {
	case m <= w.most || err != nil:
		return false, err
	case m > countFactor*k:
		return true, nil
	}
	// What is left to do is known: less by a walk through so many, or all m.
	most := m*m/w.most + 1
	n, _, err := w.src.Count(w.ctx, index.Expr{}, most)
	w.most = m / lookupFactor
	return n < most, err
}

// alone reports whether the walk meets the documents that the index finds, and
// no others.
func (w *orderWalk) alone() bool { return w.order.access.Op == index.All }

// count counts the documents that the index finds, up to most.
func (w *orderWalk) count(most int64) (int64, error) {
	n, _, err := w.src.Count(w.ctx, w.run.plan.accessing, most)
	return n, err
}

// goOn reports whether a walk that has looked at as many documents as it might
// shall look at more of them, and sets how many.
func (w *orderWalk) goOn() bool {
	defer w.run.watch.lookingUp()()
	k := int64(w.run.rowsMax())
	enough, most := 2*lookupFactor*w.seen, int64(math.MaxInt64)
	var n int64
	if w.alone() {
		most = walkMax * k
	} else if n, _, w.err = w.src.Count(w.ctx, index.Expr{}, math.MaxInt64); w.err == nil {
		enough = max(enough, int64(math.Sqrt(lookupFactor*float64(k)*float64(n)))+1)
	}
	var m int64
	if w.err == nil {
		m, w.err = w.count(enough)
	}
	if !w.alone() && float64(m)*float64(m) <= lookupFactor*float64(k)*float64(n) {
		return false
	}
	w.most = min(m/lookupFactor, most)
	return w.err == nil && w.most > w.seen
}

// seek has the walk begin at the position of the page.
func (w *orderWalk) seek(walk *Walk) {
	from := &w.run.from
	if from.none {
		return
	}
	var beyond bool
	walk.From, beyond = w.order.Seek(from.key)
	walk.Started = true
	if _, exact := w.order.Group(walk.From); !exact || from.cut || beyond {
		return
	}
	walk.After = from.number
	if w.run.budget.After.Row > 0 {
		// The document has rows behind the position, perhaps.
		if walk.After--; walk.Desc {
			walk.After += 2
		}
	}
}

// document takes the rows of the next document, and reports whether to go on.
func (w *orderWalk) document(c Candidate) bool {
	r := w.run
	group, exact := w.order.Group(c.Term)
	if w.heap != nil && (exact || group != w.group) && !w.flush() {
		return false
	}
	if r.enough() {
		w.closed = true
		return false
	}
	if r.full() {
		r.page.More, w.closed = true, true
		return false
	}
	if w.seen >= w.most && !w.goOn() {
		w.abandoned = true
		return false
	}
	w.seen++
	if !exact && w.heap == nil {
		w.group = group
		w.heap = &rowHeap{desc: r.plan.order.desc, bytesMax: r.budget.MaxBytes - int(r.page.Stats.OutputBytes)}
		if most := r.rowsMax(); most > 0 {
			w.heap.rowsMax = most - len(r.page.Rows)
		}
	}
	r.turn(c)
	if w.heap != nil {
		r.each(func(row int) bool { return r.keep(w.heap, row) })
	} else {
		r.each(w.row)
	}
	return !w.closed
}

// row appends the current row, which stands in order, to the page.
func (w *orderWalk) row(row int) bool {
	r := w.run
	r.key = r.plan.order.appendKey(r.key[:0], r.env)
	at := place{key: r.key, number: r.number, row: row}
	if !r.behind(at) {
		return r.env.err == nil
	}
	if w.closed = r.enough(); w.closed {
		return false
	}
	if w.closed = r.full(); w.closed {
		r.page.More = true
		return false
	}
	if !r.project() {
		return r.env.err == nil
	}
	if w.closed = !r.fits(); w.closed {
		r.drop()
		r.page.More = true
		return false
	}
	at.key = slices.Clone(at.key)
	r.deliver(sortedRow{place: at, json: r.row})
	return true
}

// flush appends the rows of a run of terms, and reports whether others have room
// behind them.
func (w *orderWalk) flush() bool {
	if w.heap == nil {
		return true
	}
	for _, row := range w.heap.sorted() {
		w.run.deliver(row)
	}
	if w.heap.dropped {
		w.run.page.More, w.closed = true, true
	}
	w.heap = nil
	return !w.closed
}
