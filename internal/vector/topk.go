package vector

import "slices"

// Scored is a result, identified by a number of its owner, and its score.
type Scored struct {
	ID    uint64
	Score float64
}

// TopK keeps the best k results of those that are pushed. Of equal scores the
// smaller ID is better, so that the order of pushes does not matter. It is not
// safe for concurrent use.
type TopK struct {
	metric Metric
	k      int
	// heap has the worst result at its root.
	heap []Scored

	after *Scored // see [TopK.After]; nil accepts all
}

// roomMax is the capacity that a TopK allocates at once; it grows as needed.
const roomMax = 1024

// NewTopK returns an empty TopK. If k is below 1 it keeps nothing.
func NewTopK(m Metric, k int) *TopK {
	k = max(k, 0)
	return &TopK{metric: m, k: k, heap: make([]Scored, 0, min(k, roomMax))}
}

// After makes later pushes skip results that are not worse than s, the last
// result of an earlier search.
func (t *TopK) After(s Scored) { t.after = &s }

// Push adds a result and reports whether it is among the best so far. It
// allocates only to grow.
func (t *TopK) Push(id uint64, score float64) bool {
	s := Scored{id, score}
	if t.after != nil && !t.better(*t.after, s) {
		return false
	}
	if len(t.heap) < t.k {
		t.heap = append(t.heap, s)
		t.up(len(t.heap) - 1)
		return true
	}
	if t.k == 0 || !t.better(s, t.heap[0]) {
		return false
	}
	t.heap[0] = s
	t.down()
	return true
}

// Worst returns the score that a result must beat, and false while every result
// is accepted.
func (t *TopK) Worst() (float64, bool) {
	if len(t.heap) < t.k || t.k == 0 {
		return 0, false
	}
	return t.heap[0].Score, true
}

// Len returns the number of results, at most k.
func (t *TopK) Len() int { return len(t.heap) }

// Append appends the results to dst, best first, and keeps them.
func (t *TopK) Append(dst []Scored) []Scored {
	start := len(dst)
	dst = append(dst, t.heap...)
	slices.SortFunc(dst[start:], func(a, b Scored) int {
		switch {
		case t.better(a, b):
			return -1
		case t.better(b, a):
			return 1
		}
		return 0
	})
	return dst
}

// Reset removes all results and keeps the capacity.
func (t *TopK) Reset() { t.heap = t.heap[:0] }

func (t *TopK) better(a, b Scored) bool {
	if t.metric.Better(a.Score, b.Score) {
		return true
	}
	return a.ID < b.ID && !t.metric.Better(b.Score, a.Score)
}

func (t *TopK) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !t.better(t.heap[parent], t.heap[i]) {
			return
		}
		t.heap[parent], t.heap[i] = t.heap[i], t.heap[parent]
		i = parent
	}
}

func (t *TopK) down() {
	i := 0
	for {
		worst := 2*i + 1
		if worst >= len(t.heap) {
			return
		}
		if right := worst + 1; right < len(t.heap) && t.better(t.heap[worst], t.heap[right]) {
			worst = right
		}
		if !t.better(t.heap[i], t.heap[worst]) {
			return
		}
		t.heap[i], t.heap[worst] = t.heap[worst], t.heap[i]
		i = worst
	}
}
