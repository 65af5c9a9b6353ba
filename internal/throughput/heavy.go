package throughput

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync"
	"time"
)

// heavyKept is the maximum number of candidates in a window of [Heavy]. An id
// that has spent more than 1/heavyKept of a window's units is among them.
const heavyKept = 64

// Heavy finds the ids that spend the most, such as the hottest partition keys of
// a partition, in bounded memory. It keeps candidates of this minute and of the
// previous one by the space-saving algorithm: a new id replaces the candidate
// with the fewest units, which become its possible error.
//
// A Heavy is safe for concurrent use; the zero value is empty. Adding to an
// existing candidate does not allocate. V is a value that the caller wants back
// with the id. The candidates keep the value in memory, or the result of its
// method Clone if it has one.
type Heavy[V any] struct {
	mu sync.Mutex

	minute       int64
	now, earlier *window[V]
	seed         maphash.Seed
}

// Hot is an id that spends much.
type Hot[V any] struct {
	ID    string
	Value V
	Units float64 // upper bound of what it spent
	Error float64 // how much Units may be too high
}

// window counts one minute. Its slices have the same length, at most heavyKept,
// and grow as needed: most partitions have only a few requested keys.
type window[V any] struct {
	hashes []uint64
	hot    []Hot[V]
	known  []bool // a caller has given the Value
}

// Add adds units that id has spent. Top returns v with the id; nil means that
// the caller does not know it. The first v that is not nil is kept.
func (h *Heavy[V]) Add(id string, v *V, units float64, now time.Time) {
	if units <= 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.advance(now)
	h.now.add(maphash.String(h.seed, id), id, v, units)
}

// Top returns the ids that have spent the most in this minute and the previous
// one, hottest first; most is their maximum number.
func (h *Heavy[V]) Top(most int, now time.Time) []Hot[V] {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.advance(now)
	all := slices.Clone(h.now.hot)
	for i, old := range h.earlier.hot {
		if at := h.now.find(h.earlier.hashes[i], old.ID); at >= 0 {
			all[at].Units += old.Units
			all[at].Error += old.Error
		} else {
			all = append(all, old)
		}
	}
	slices.SortFunc(all, func(a, b Hot[V]) int {
		return cmp.Or(cmp.Compare(b.Units-b.Error, a.Units-a.Error), cmp.Compare(b.Units, a.Units), cmp.Compare(a.ID, b.ID))
	})
	return all[:min(most, len(all))]
}

// advance begins a new minute if now is in one.
func (h *Heavy[V]) advance(now time.Time) {
	minute := minuteOf(now.Unix())
	if h.now == nil {
		h.now, h.earlier, h.seed, h.minute = new(window[V]), new(window[V]), maphash.MakeSeed(), minute
	}
	switch passed := minute - h.minute; {
	case passed <= 0: // a clock that was set back counts in the current minute
		return
	case passed == 1:
		h.now, h.earlier = h.earlier, h.now
		*h.now = window[V]{}
	default:
		*h.now, *h.earlier = window[V]{}, window[V]{}
	}
	h.minute = minute
}

func (w *window[V]) find(hash uint64, id string) int {
	for i, have := range w.hashes {
		if have == hash && w.hot[i].ID == id {
			return i
		}
	}
	return -1
}

func (w *window[V]) add(hash uint64, id string, v *V, units float64) {
	at := w.find(hash, id)
	switch {
	case at >= 0:
		w.hot[at].Units += units
	case len(w.hot) < heavyKept:
		at = len(w.hot)
		w.hashes, w.hot, w.known = append(w.hashes, hash), append(w.hot, Hot[V]{ID: id, Units: units}), append(w.known, false)
	default:
		at = w.least()
		before := w.hot[at].Units
		w.hashes[at], w.hot[at], w.known[at] = hash, Hot[V]{ID: id, Units: before + units, Error: before}, false
	}
	if v != nil && !w.known[at] {
		w.hot[at].Value, w.known[at] = kept(v), true
	}
}

// kept returns the form of a value that is kept.
func kept[V any](v *V) V {
	if c, ok := any(v).(interface{ Clone() V }); ok {
		return c.Clone()
	}
	return *v
}

func (w *window[V]) least() int {
	at := 0
	for i := range w.hot {
		if w.hot[i].Units < w.hot[at].Units {
			at = i
		}
	}
	return at
}
