package query

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/decandb/decan/internal/value"
)

// sortedRow is a row with what it is ordered by.
type sortedRow struct {
	key    []byte
	number uint64
	json   []byte
}

func (s sortedRow) bytes() int { return len(s.json) + len(s.key) }

// compare orders rows by key and then by number, both in the direction of the
// query: clients that merge partitions and go on with a token leave out the rows
// of equal key whose resource ids are, in that direction, not behind the last.
func (o *ordering) compare(aKey []byte, aNumber uint64, bKey []byte, bNumber uint64) int {
	c := bytes.Compare(aKey, bKey)
	if c == 0 {
		c = cmp.Compare(aNumber, bNumber)
	}
	if o.desc {
		c = -c
	}
	return c
}

// cutKey returns the part of an order key that a position holds.
func cutKey(key []byte) []byte {
	return bytes.Clone(key[:min(len(key), OrderKeyMax)])
}

// isCut reports whether the key of a position may be less than the whole.
func isCut(key []byte) bool { return len(key) >= OrderKeyMax }

// ordered runs a query with ORDER BY: it looks at all candidates and keeps the
// least rows behind the position, as many as the page may hold, in a heap with
// the greatest on top.
func (r *run) ordered(ctx context.Context, src Source) error {
	h := &rowHeap{order: r.plan.order, bytesMax: r.budget.MaxBytes, rowsMax: r.rowsMax()}
	var key []byte
	for c, err := range src.Candidates(ctx, Need{Access: r.plan.accessing}) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if r.passes(c) {
			key = value.AppendKey(key[:0], r.env.at(r.plan.order.slot))
			if r.behind(key, c.Number) && h.admits(key, c.Number) && r.project() {
				h.push(sortedRow{key: bytes.Clone(key), number: c.Number, json: bytes.Clone(r.row)})
				r.drop()
			}
		}
		if r.env.err != nil {
			return r.env.err
		}
	}
	r.page.Next, r.page.More = r.budget.After, h.dropped
	if n := r.plan.bound; n >= 0 && int64(len(h.rows)) >= n {
		r.page.More = false
	}
	for _, row := range h.sorted() {
		r.page.Next = Position{Number: row.number, Key: cutKey(row.key)}
		r.page.Rows = append(r.page.Rows, Row{JSON: row.json, Order: row.key, Position: r.page.Next})
		r.page.Stats.OutputBytes += int64(len(row.json))
	}
	return nil
}

// rowsMax is how many rows the page can have, 0 for any number.
func (r *run) rowsMax() int {
	n := max(r.budget.MaxItems, 0)
	if b := r.plan.bound; b >= 0 && (n == 0 || b < int64(n)) {
		n = int(b)
	}
	return n
}

// behind reports whether a row comes after the position where the page begins.
//
// A cut key says only that the row is not in front of the group of rows that
// are cut alike. Then the whole group comes again, so that no row is lost; it
// happens when the document at the position is gone and nobody knows its key.
func (r *run) behind(key []byte, number uint64) bool {
	b := &r.budget
	if !b.Started {
		return true
	}
	o := r.plan.order
	if b.AfterKey != nil {
		return o.compare(key, number, b.AfterKey, b.After.Number) > 0
	}
	if !isCut(b.After.Key) {
		return o.compare(key, number, b.After.Key, b.After.Number) > 0
	}
	return o.compare(key[:min(len(key), OrderKeyMax)], 0, b.After.Key, 0) >= 0
}

// probe returns the row at the position, to learn its whole key.
func (r *run) probe(ctx context.Context, src Source) error {
	at := r.budget.After
	if r.plan.order == nil || r.plan.base < 0 || at.Number == 0 {
		return nil
	}
	for c, err := range src.Candidates(ctx, Need{After: at.Number - 1}) {
		if err != nil {
			return err
		}
		if c.Number != at.Number {
			return nil
		}
		r.env.load(c.Body)
		key := value.AppendKey(nil, r.env.at(r.plan.order.slot))
		if r.env.err != nil {
			return r.env.err
		}
		r.page.Stats.Retrieved++
		r.page.Stats.RetrievedBytes += int64(len(c.Body))
		if bytes.Equal(cutKey(key), at.Key) {
			r.page.Rows = []Row{{Position: at, Order: key}}
			r.page.Next = at
		}
		return nil
	}
	return nil
}

// rowHeap keeps the least rows, the greatest of them on top. Its size in memory
// is bounded by bytesMax and one row.
type rowHeap struct {
	order    *ordering
	rowsMax  int // 0 for any number
	bytesMax int

	rows    []sortedRow
	bytes   int
	dropped bool      // rows had to go
	ceiling sortedRow // the least of those; nothing behind it may come in
}

// admits reports whether a row would stay, so that others need no projection.
func (h *rowHeap) admits(key []byte, number uint64) bool {
	if h.dropped && h.order.compare(key, number, h.ceiling.key, h.ceiling.number) >= 0 {
		return false
	}
	if h.rowsMax > 0 && len(h.rows) >= h.rowsMax {
		top := h.rows[0]
		if h.order.compare(key, number, top.key, top.number) > 0 {
			h.dropped, h.ceiling = true, sortedRow{key: bytes.Clone(key), number: number}
			return false
		}
	}
	return true
}

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
	h.dropped, h.ceiling = true, sortedRow{key: top.key, number: top.number}
}

func (h *rowHeap) above(i, j int) bool {
	a, b := h.rows[i], h.rows[j]
	return h.order.compare(a.key, a.number, b.key, b.number) > 0
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

// sorted returns the rows in order and leaves the heap unusable.
func (h *rowHeap) sorted() []sortedRow {
	slices.SortFunc(h.rows, func(a, b sortedRow) int { return h.order.compare(a.key, a.number, b.key, b.number) })
	return h.rows
}
