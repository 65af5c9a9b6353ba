package query

// streamHeap has the stream with the least row first. A stream whose rows are used and
// that has more comes before all others, because its next row may be the least.
type streamHeap []*mergeStream

func (h streamHeap) Len() int { return len(h) }

func (h streamHeap) Less(i, j int) bool {
	a, b := h[i], h[j]
	if len(a.rows) == 0 || len(b.rows) == 0 {
		return len(a.rows) < len(b.rows)
	}
	return a.rows[0].place().compare(b.rows[0].place(), a.desc) < 0
}

func (r *Row) place() place { return place{key: r.Order, number: r.Position.Number} }

func (h streamHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *streamHeap) Push(x any) { *h = append(*h, x.(*mergeStream)) }

// Pop implements heap.Interface.
func (h *streamHeap) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	*h = (*h)[:last]
	return s
}
