package query

import (
	"slices"

	"github.com/decandb/decan/internal/value"
)

// box is a conjunction: each of its places has a value in a domain. A place that is
// missing in the box may have any value.
type box []cell

type cell struct {
	place  string
	values domain
}

func (b box) find(place string) int {
	for i := range b {
		if b[i].place == place {
			return i
		}
	}
	return -1
}

func (r *reach) copied(in []box) []box {
	out := make([]box, len(in))
	for i, b := range in {
		r.work -= len(b)
		out[i] = slices.Clone(b)
	}
	return out
}

// Limits of [reach.joined].
const (
	joinedLast = 4 // boxes with which another one is merged
	equalMax   = 4 // length of lists that are compared
)

// joined returns the boxes of both lists. It merges those that differ in one place.
func (r *reach) joined(out, more []box) []box {
next:
	for _, b := range more {
		for i := max(0, len(out)-joinedLast); i < len(out); i++ {
			r.work -= 1 + len(b)/8
			if at, ok := differsAt(out[i], b); ok {
				if at >= 0 {
					r.work -= (len(out[i][at].values.intervals) + len(b[at].values.intervals)) / 8
					out[i][at].values = out[i][at].values.join(b[at].values)
				}
				continue next
			}
		}
		out = append(out, b)
	}
	if len(out) > casesMax {
		return []box{hull(out)}
	}
	return out
}

// differsAt returns the only place at which two boxes differ, -1 for none. It returns
// false if they differ in several.
func differsAt(a, b box) (at int, ok bool) {
	if len(a) != len(b) {
		return 0, false
	}
	at = -1
	for i := range a {
		switch {
		case a[i].place != b[i].place:
			return 0, false
		case a[i].values.equal(b[i].values):
		case at >= 0:
			return 0, false
		default:
			at = i
		}
	}
	return at, true
}

// equal reports whether two domains are equal. It may not see that long ones are.
func (d domain) equal(o domain) bool {
	if d.kinds != o.kinds || (d.intervals == nil) != (o.intervals == nil) || len(d.intervals) != len(o.intervals) || d.parts != nil || o.parts != nil {
		return false
	}
	if len(d.intervals) == 0 || &d.intervals[0] == &o.intervals[0] {
		return true
	}
	return len(d.intervals) <= equalMax && slices.EqualFunc(d.intervals, o.intervals, func(s, t interval) bool {
		return value.Equal(s.low, t.low) && value.Equal(s.high, t.high) && s.above == t.above && s.below == t.below
	})
}

// hull returns one box that admits what any of the boxes admits.
func hull(list []box) box {
	var out box
	for i, c := range list[0] {
		all := domain{}
		var intervals []interval
		for _, b := range list {
			if i >= len(b) || b[i].place != c.place {
				all = anything
				break
			}
			all.kinds |= b[i].values.kinds
			intervals = append(intervals, b[i].values.listed()...)
		}
		if all.all() {
			continue
		}
		if all.kinds&(mayNumber|mayString) != 0 {
			all.intervals = united(intervals)
		}
		out = append(out, cell{c.place, all})
	}
	return out
}
