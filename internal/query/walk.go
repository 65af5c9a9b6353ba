package query

import (
	"context"
	"math"
	"slices"

	"github.com/decandb/decan/internal/index"
)

// indexOrder is an order of rows that the index has.
type indexOrder struct {
	index.Order
	access index.Expr // what is to look at beside the span of the order
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
	for _, leaf := range leaves(access) {
		path := leaf.Span.Path
		switch {
		case slices.Equal(path, keys[0].Path):
			o.Order = o.Narrow(leaf.Span)
		case !slices.Contains(o.Composite, path.String()+" ASC") && !slices.Contains(o.Composite, path.String()+" DESC"):
			continue
		default:
			if _, fixed := where.fixed(path); !fixed {
				continue
			}
		}
		o.access = without(o.access, leaf.Span)
	}
	return o, true
}

// leaves returns the conditions on one place that all documents of an
// expression satisfy. Those on elements of arrays are not among them, since each
// may be true of another element.
func leaves(e index.Expr) []index.Expr {
	var list []index.Expr
	all := []index.Expr{e}
	if e.Op == index.And {
		all = e.Args
	}
	for _, arg := range all {
		if arg.Op == index.Leaf && !slices.Contains(arg.Span.Path, index.Element) {
			list = append(list, arg)
		}
	}
	return list
}

// without returns an expression less one of its leaves.
func without(e index.Expr, span index.Span) index.Expr {
	same := func(arg index.Expr) bool {
		return arg.Op == index.Leaf && arg.Span.Low == span.Low && arg.Span.High == span.High
	}
	switch {
	case same(e):
		return index.Expr{}
	case e.Op == index.And:
		return joined(index.And, slices.DeleteFunc(slices.Clone(e.Args), same), index.All)
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
	most, err := r.worthWalking(ctx, indexed)
	if most == 0 || err != nil {
		return false, err
	}
	w := &orderWalk{run: r, order: &o.index, most: most}
	from := Walk{Span: o.index.Span, Desc: o.index.Desc, Missing: o.index.Missing, Access: o.index.access, Bare: r.plan.bare}
	w.seek(&from)
	r.led = true
	err = r.documents(ctx, indexed.Ordered(ctx, from), w.document)
	r.led = false
	if err == nil && !w.abandoned && !w.closed {
		w.flush()
	}
	if n := len(r.page.Rows); n > 0 {
		last := &r.page.Rows[n-1]
		r.from = originOf(&Budget{After: last.Position, AfterKey: last.Order, Started: true})
	}
	return !w.abandoned, err
}

// worthWalking returns how many documents to look at on a walk before giving it
// up, 0 to do without.
//
// Of N documents m pass what the index knows of the filter, and k rows are
// wanted: a walk looks at about k*N/m documents, the sort at m. When the walk
// keeps to those m by itself, it looks at k.
func (r *run) worthWalking(ctx context.Context, src Indexed) (documents int64, err error) {
	defer r.watch.lookingUp()()
	k := int64(r.rowsMax())
	if k == 0 {
		return 0, nil
	}
	access, most := r.plan.accessing, int64(math.MaxInt64)
	alone := r.plan.order.index.access.Op == index.All
	if alone {
		most = walkMax * lookupFactor * k
	}
	m, _, err := src.Count(ctx, access, most)
	if m <= lookupFactor*k || err != nil {
		return 0, err
	}
	if alone {
		return max(m/lookupFactor, k+1), nil
	}
	n, _, err := src.Count(ctx, index.Expr{}, math.MaxInt64)
	if float64(m)*float64(m) <= lookupFactor*float64(k)*float64(n) {
		return 0, err
	}
	return m / lookupFactor, err
}

// orderWalk is a walk under way.
type orderWalk struct {
	run   *run
	order *indexOrder
	most  int64 // documents to look at
	seen  int64

	group     string   // the run of terms that do not tell the order
	heap      *rowHeap // its rows; nil outside of one
	abandoned bool
	closed    bool // the page is complete
}

// seek has the walk begin at the position of the page.
func (w *orderWalk) seek(walk *Walk) {
	from := &w.run.from
	if from.none {
		return
	}
	walk.From, walk.Started = w.order.Seek(from.key), true
	if _, exact := w.order.Group(walk.From); !exact || from.cut {
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
	if w.seen++; w.seen > w.most {
		w.abandoned = true
		return false
	}
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
