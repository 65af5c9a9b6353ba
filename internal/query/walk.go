package query

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/value"
)

// indexOrder is an order of rows that the index provides.
type indexOrder struct {
	index.Order
	access index.Expr // what to intersect with the span of the order
	place  index.Span // see [Walk.Place]
}

// indexOrderOf asks the index for the order of paths. It returns false if the policy
// has no such order. where are conditions that hold for all rows: paths that they fix
// may precede the keys in a composite index, and conditions on the first key shorten
// the walk.
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
		return o.satisfies(part, keys, where)
	}), index.All)
	return o, true
}

// satisfies reports whether all documents of the walk satisfy a part of the access. For
// a part that is about the first key alone, it restricts the walk to the documents of
// that part.
func (o *indexOrder) satisfies(part index.Expr, keys []index.SortKey, where predicate) bool {
	path, key := part.Span.Path, keys[0].Path
	switch {
	case part.Op == index.Or:
		return o.spans(part, key, where)
	case part.Op != index.Leaf || slices.Contains(path, index.Element):
		return false // two conditions on elements may be true of different elements
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

// part returns the position of a path in the composite index, or a negative number.
func (o *indexOrder) part(path index.Path) int {
	return slices.IndexFunc(o.Composite, func(part string) bool {
		return part == path.String()+" ASC" || part == path.String()+" DESC"
	})
}

// between restricts the walk to the values that the first key has in the documents
// that pass. Clients that continue an ordered query send a disjunction with one case
// for each type of value and one for a missing property.
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
// documents that pass. Each case of a disjunction may fix some of the keys and bound
// the next one: clients send such filters to continue after a row.
func caseBounds(ix *index.Index, o index.Order, keys []index.SortKey, where predicate) (low, high index.Term) {
	cases := []predicate{where}
	for _, part := range where.terms() {
		if part.op == opOr {
			cases = part.args // any of them will do
			break
		}
	}
	low, high = o.Span.High, o.Span.Low
	for _, c := range cases {
		part, rest := o, keys
		for v, ok := c.fixed(rest[0].Path); ok && len(rest) > 1; v, ok = c.fixed(rest[0].Path) {
			below, tells := part.Fix(v)
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

// spans reports whether a disjunction is equivalent to the bounds to which
// [indexOrder.between] has restricted the walk: all of its cases are about the first
// key, and there is no gap between them.
func (o *indexOrder) spans(e index.Expr, path index.Path, where predicate) bool {
	if where.op == opTrue {
		return false // nothing was restricted
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

// extent is the range of the values at one place in the documents that pass a
// predicate.
type extent struct {
	low, high index.Term // bounds of their terms, high not included
	missing   bool       // documents without a value may pass
	anywhere  bool       // the range is unknown
}

// extent returns the range of the values at a path in the documents that pass.
func (p predicate) extent(ix *index.Index, path index.Path) extent {
	switch p.op {
	case opFalse:
		return extent{}
	case opAnd:
		all := extent{anywhere: true}
		for _, arg := range p.args {
			all = all.and(arg.extent(ix, path))
		}
		return all
	case opOr:
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
	if p.op == opMissing {
		return extent{missing: true}
	}
	return extentOf(p.leaf(ix), path)
}

// extentOf returns the range of the terms of an expression, if all of them are terms
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

// lookupFactor is the number of documents that can be read in the order of the source
// in the time that an ordered walk takes for one.
const lookupFactor = 4

// walkMax is the maximum number of documents that a walk reads for each row, before it
// gives up because a part of the filter without an index rejects most of them.
const walkMax = 256

// countFactor is the number of documents that are counted for each row before anything
// is read. It is also the number of terms that a walk may pass for each row to know
// which documents to skip.
const countFactor = 4 * lookupFactor

// walk follows the index through the rows in their order and stops when the page is
// full, if that seems cheaper than reading all candidates. If it gives up earlier, it
// returns false, and the rest of the page is still to be filled.
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

// orderWalk is a walk in progress.
type orderWalk struct {
	run   *run
	order *indexOrder
	src   Indexed
	ctx   context.Context
	most  int64 // number of documents to read before extend decides whether to continue
	seen  int64
	err   error // of the index

	group     string   // the current run of terms that do not determine the order
	heap      *rowHeap // the rows of that run; nil outside a run
	abandoned bool
	closed    bool // the page is complete
}

// A page is small and its source may be large: reading all of the index before the
// first row would cost more than the page. So a walk begins after a short count, and
// the count grows with the walk: the total count is proportional to what was read.
//
// Of N documents, m pass what the index knows of the filter, and k rows are wanted. A
// walk then reads about k*N/m documents, a sort reads m. A walk that meets only those
// m documents reads k.

// worth reports whether to begin a walk, and sets how many documents to read first.
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
	// The remaining work is known: less by a walk through that many, or all m.
	most := m*m/w.most + 1
	n, _, err := w.src.Count(w.ctx, index.Expr{}, most)
	w.most = m / lookupFactor
	return n < most, err
}

// alone reports whether the walk meets exactly the documents that the index finds.
func (w *orderWalk) alone() bool { return w.order.access.Op == index.All }

// count counts the documents that the index finds, up to most.
func (w *orderWalk) count(most int64) (int64, error) {
	n, _, err := w.src.Count(w.ctx, w.run.plan.accessing, most)
	return n, err
}

// extend reports whether a walk that has read its documents should read more, and sets
// how many.
func (w *orderWalk) extend() bool {
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

// seek sets the beginning of the walk to the position of the page.
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
	if from.row < math.MaxInt {
		// The document may have rows after the position.
		if walk.After--; walk.Desc {
			walk.After += 2
		}
	}
}

// document adds the rows of the next document and reports whether to continue.
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
	if w.seen >= w.most && !w.extend() {
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
	r.setCurrent(c)
	if w.heap != nil {
		r.distinct(func(row int) bool { return r.keep(w.heap, row) })
	} else {
		r.distinct(w.row)
	}
	return !w.closed
}

// row appends the current row, which is in order, to the page.
func (w *orderWalk) row(row int) bool {
	r := w.run
	r.key = r.plan.order.appendKey(r.key[:0], r.env)
	at := place{key: r.key, number: r.number, row: row}
	if !r.follows(at) {
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

// flush appends the rows of a run of terms and reports whether more rows fit.
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
