package query

import (
	"bytes"
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/value"
)

// ordering is the ORDER BY of a plan.
type ordering struct {
	keys []orderKey
	desc bool // the direction of the first key, which is also that of equal rows and positions

	index indexOrder // the index with this order, if it Walks

	// best finds the documents of all rows whose first key is a number above zero; the
	// zero value finds none. Only descending orders have it.
	best index.Expr

	nearest *vectorOrder // the vector index with this order; nil if there is none

	// narrow is the access of a search by nearest or best, without the conditions that
	// a place is defined. narrows says that there are such conditions.
	narrow  index.Expr
	narrows bool
}

// orderKey is one value to order by.
type orderKey struct {
	eval   func(e *env) value.Value
	invert bool // its direction differs from that of the first
}

// appendKey appends the order key of the current row: the concatenated keys of the
// values (see value.AppendOrderKey). Keys of the other direction have all bits inverted.
// No key is a prefix of another one.
func (o *ordering) appendKey(dst []byte, e *env) []byte {
	for _, k := range o.keys {
		start := len(dst)
		dst = value.AppendOrderKey(dst, k.eval(e))
		if k.invert {
			invert(dst[start:])
		}
	}
	return dst
}

// invert inverts all bits, which reverses the order of the bytes.
func invert(b []byte) {
	for i := range b {
		b[i] = ^b[i]
	}
}

// place is the position of a row in the order of all rows.
type place struct {
	key    []byte
	number uint64
	row    int // among those of its document; 0 if there is only one
}

// compare orders rows by key and then by number, both in the direction of the query.
// Clients that merge partitions and continue with a token skip the rows of equal key
// whose resource ids do not follow the last one in that direction. Rows of one
// document keep their order, on which those clients rely too.
func (p place) compare(o place, desc bool) int {
	c := cmp.Or(bytes.Compare(p.key, o.key), cmp.Compare(p.number, o.number))
	if desc {
		c = -c
	}
	return cmp.Or(c, cmp.Compare(p.row, o.row))
}

// sortedRow is a row with its place.
type sortedRow struct {
	place
	json []byte
}

func (s *sortedRow) bytes() int { return len(s.json) + len(s.key) }

// cutKey returns the part of an order key that a position contains.
func cutKey(key []byte) []byte {
	return bytes.Clone(key[:min(len(key), OrderKeyMax)])
}

// isCut reports whether the key of a position may be truncated.
func isCut(key []byte) bool { return len(key) >= OrderKeyMax }

// ordered runs a query with ORDER BY.
func (r *run) ordered(ctx context.Context, src Source) error {
	done, err := r.walk(ctx, src)
	if done || err != nil {
		r.page.Stats.Ways.Walked = 1
		return err
	}
	return r.sort(ctx, src)
}

// sort reads all candidates, or only the best of them if those are sufficient, and
// keeps the least rows after the beginning of the page, as many as the page has room
// for.
func (r *run) sort(ctx context.Context, src Source) error {
	access, err := r.searchAccess(ctx, src)
	if err != nil {
		return err
	}
	h, err := r.nearest(ctx, src, access)
	if h == nil && err == nil {
		h, err = r.best(ctx, src, access)
	}
	if h != nil {
		r.page.Stats.Ways.Searched = 1
	}
	if h == nil && err == nil {
		h, err = r.collect(ctx, src, r.plan.accessing)
	}
	if err != nil {
		return err
	}
	r.page.More = h.dropped
	for _, row := range h.sorted() {
		r.deliver(row)
	}
	if n := r.plan.bound; n >= 0 && int64(len(r.page.Rows)) >= n {
		r.page.More = false
	}
	return nil
}

// collect returns the least rows of the documents of an access.
func (r *run) collect(ctx context.Context, src Source, access index.Expr) (*rowHeap, error) {
	h := r.newHeap()
	keep := func(row int) bool { return r.keep(h, row) }
	return h, r.candidates(ctx, src, Need{Access: access, Bare: r.plan.bare}, func(c Candidate) bool {
		r.setCurrent(c)
		r.distinct(keep)
		return true
	})
}

// newHeap returns a heap for the rows that the page has room for.
func (r *run) newHeap() *rowHeap {
	h := &rowHeap{desc: r.plan.order.desc, bytesMax: r.budget.MaxBytes - int(r.page.Stats.OutputBytes), rowsMax: r.rowsMax()}
	if h.rowsMax > 0 {
		h.rowsMax -= len(r.page.Rows)
	}
	return h
}

// keep adds the current row to the heap if it belongs to the page.
func (r *run) keep(h *rowHeap, row int) bool {
	r.key = r.plan.order.appendKey(r.key[:0], r.env)
	return r.put(h, row)
}

// put is keep for a row whose key is in r.key.
func (r *run) put(h *rowHeap, row int) bool {
	at := place{key: r.key, number: r.number, row: row}
	if r.follows(at) && h.admits(at) && r.project() {
		at.key = bytes.Clone(at.key)
		h.push(sortedRow{place: at, json: bytes.Clone(r.row)})
		r.env.covers(int64(h.bytes))
		r.drop()
	}
	return r.env.err == nil
}

// deliver appends a row with an order key to the page.
func (r *run) deliver(row sortedRow) {
	r.page.Next = Position{Number: row.number, Key: cutKey(row.key), Row: row.row}
	r.page.Rows = append(r.page.Rows, Row{JSON: row.json, Order: row.key, Position: r.page.Next})
	r.page.Stats.OutputBytes += int64(len(row.json))
}

// rowsMax returns the maximum number of rows of the page, 0 for no limit.
func (r *run) rowsMax() int {
	n := max(r.budget.MaxItems, 0)
	if b := r.plan.bound; b >= 0 && (n == 0 || b < int64(n)) {
		n = int(b)
	}
	return n
}

// origin is the position at which a page of an ordered query begins.
type origin struct {
	place
	none bool // at the first row
	cut  bool // the key may be truncated
}

func originOf(b *Budget) origin {
	s := origin{none: !b.Started, place: place{key: b.After.Key, number: b.After.Number, row: b.After.Row}}
	if s.row == 0 {
		s.row = math.MaxInt // all rows of the document were returned
	}
	if b.AfterKey != nil {
		s.key = b.AfterKey
	} else {
		s.cut = isCut(s.key)
	}
	return s
}

// follows reports whether a row comes after the beginning of the page.
//
// A truncated key says only that the row is not before the group of rows with the same
// truncation. Then the whole group is returned again, so that no row is lost. That
// happens if the document at the position is deleted and its key is unknown.
func (r *run) follows(at place) bool {
	s := &r.from
	desc := r.plan.descending()
	if r.also != nil && at.compare(r.also.place, desc) <= 0 {
		return false
	}
	switch {
	case s.none:
		return true
	case s.cut:
		alike := place{key: at.key[:min(len(at.key), OrderKeyMax)]}
		return alike.compare(place{key: s.key}, desc) >= 0
	}
	return at.compare(s.place, desc) > 0
}

// probe returns the row at the position, with its whole key.
func (r *run) probe(ctx context.Context, src Source) error {
	at := r.budget.After
	if !r.plan.Ordered() || r.plan.base < 0 || at.Number == 0 {
		return nil
	}
	return r.candidates(ctx, src, Need{After: at.Number - 1}, func(c Candidate) bool {
		if c.Number != at.Number {
			return false
		}
		r.setCurrent(c)
		r.keys(func(key []byte) bool {
			if !bytes.Equal(cutKey(key), at.Key) {
				return true
			}
			r.page.Rows = []Row{{Position: at, Order: bytes.Clone(key)}}
			r.page.Next = at
			return false
		})
		return false
	})
}

// keys calls found with the order keys of the rows that the current document may have
// had. It ignores the filter: a document that has changed still has its key, unless
// that changed too.
func (r *run) keys(found func(key []byte) bool) {
	if o := r.plan.order; r.plan.group == nil {
		found(o.appendKey(nil, r.env))
		return
	}
	r.each(func(int) bool { return found(r.plan.group.appendKey(nil, r.env)) })
}

// rowHeap keeps the least rows, with the greatest of them on top. Its memory is
// bounded by bytesMax and one row.
type rowHeap struct {
	desc     bool
	rowsMax  int // 0 for no limit
	bytesMax int

	rows    []sortedRow
	bytes   int
	dropped bool  // rows were removed
	ceiling place // the least of the removed rows; no row after it may enter
}

// admits reports whether a row would be kept. Other rows need no projection.
func (h *rowHeap) admits(at place) bool {
	if h.dropped && at.compare(h.ceiling, h.desc) >= 0 {
		return false
	}
	if h.rowsMax > 0 && len(h.rows) >= h.rowsMax && at.compare(h.rows[0].place, h.desc) > 0 {
		at.key = bytes.Clone(at.key)
		h.dropped, h.ceiling = true, at
		return false
	}
	return true
}

// full reports whether rows that come after all others do not fit.
func (h *rowHeap) full() bool { return h.dropped || h.rowsMax > 0 && len(h.rows) >= h.rowsMax }

func (h *rowHeap) push(row sortedRow) {
	h.rows = append(h.rows, row)
	h.bytes += row.bytes()
	h.up(len(h.rows) - 1)
	for len(h.rows) > 1 && (h.bytes > h.bytesMax || h.rowsMax > 0 && len(h.rows) > h.rowsMax) {
		h.pop()
	}
}

func (h *rowHeap) pop() {
	last := len(h.rows) - 1
	top := h.rows[0]
	h.rows[0] = h.rows[last]
	h.rows[last] = sortedRow{}
	h.rows = h.rows[:last]
	h.down(0)
	h.bytes -= top.bytes()
	h.dropped, h.ceiling = true, top.place
}

func (h *rowHeap) above(i, j int) bool {
	return h.rows[i].compare(h.rows[j].place, h.desc) > 0
}

func (h *rowHeap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.above(i, parent) {
			return
		}
		h.rows[i], h.rows[parent] = h.rows[parent], h.rows[i]
		i = parent
	}
}

func (h *rowHeap) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h.rows) {
			return
		}
		if child+1 < len(h.rows) && h.above(child+1, child) {
			child++
		}
		if !h.above(child, i) {
			return
		}
		h.rows[i], h.rows[child] = h.rows[child], h.rows[i]
		i = child
	}
}

// sorted returns the rows in order. The heap cannot be used afterwards.
func (h *rowHeap) sorted() []sortedRow {
	slices.SortFunc(h.rows, func(a, b sortedRow) int { return a.compare(b.place, h.desc) })
	return h.rows
}
