package query

import (
	"slices"
	"strconv"
	"strings"

	"github.com/decandb/decan/internal/value"
)

// box is a conjunction: each of its places has a value in a domain. A place that is
// missing in the box may have any value.
type box []cell

type cell struct {
	place  string
	values domain
	firm   domain // what suppositions are compared with; see reach.loose
	lost   kinds  // kinds that are not in values only because of places inside this one
}

func (b box) find(place string) int {
	for i := range b {
		if b[i].place == place {
			return i
		}
	}
	return -1
}

// Beginnings of the names of cells that say something else about a place.
const (
	supposed = "~" // see reach.suppose
	iterated = "!" // an input iterates over its elements
)

// refutes reports whether a supposition excludes the firm values of a place.
func (b box) refutes(place string, firm domain) bool {
	at := b.find(supposed + place)
	return at >= 0 && firm.meet(b[at].values).empty()
}

// composed reports whether d is a list of arrays and objects.
func (d domain) composed() bool { return d.parts != nil && d.kinds&^(mayArray|mayObject) == 0 }

// insideParts restricts the values of a place by those of the array or object that it is
// in, if these are listed.
func (b box) insideParts(place string, values domain) domain {
	for i := range b {
		if !b[i].values.composed() {
			continue
		}
		if inside, ok := partsAt(b[i].values.parts, b[i].place, place); ok {
			values = values.meet(inside)
		}
	}
	return values
}

// restrictParts restricts the places inside a place whose values are listed, and reports
// whether that is possible.
func (b box) restrictParts(place string, values domain) bool {
	if !values.composed() {
		return true
	}
	for i := range b {
		if inside, ok := partsAt(values.parts, place, b[i].place); ok {
			switch both := b[i].values.meet(inside); {
			case !both.empty():
				b[i].values = both
			case b[i].lost&inside.kinds == 0:
				return false
			}
		}
	}
	return b.find(iterated+place) < 0 || slices.ContainsFunc(values.parts, func(v value.Value) bool { return v.Len() > 0 })
}

// partsAt returns the values of a place directly inside another one with these values.
func partsAt(parts []value.Value, outer, place string) (domain, bool) {
	rest, ok := strings.CutPrefix(place, outer)
	switch {
	case !ok || rest == "":
		return domain{}, false
	case rest[0] == '[':
		return elementsAt(parts, rest)
	case rest[0] != '/':
		return domain{}, false
	}
	size, name, _ := strings.Cut(rest[1:], ":")
	if n, err := strconv.Atoi(size); err != nil || n != len(name) {
		return domain{}, false
	}
	values := make([]value.Value, len(parts))
	for i, v := range parts {
		values[i] = v.Get(name)
	}
	return just(values...), true
}

// elementsAt returns the values of an element if rest is the step to it.
func elementsAt(parts []value.Value, rest string) (domain, bool) {
	text, ok := strings.CutSuffix(strings.TrimPrefix(rest, "["), "]")
	n, err := strconv.ParseUint(text, 10, 31)
	if !ok || err != nil {
		return domain{}, false
	}
	values := make([]value.Value, len(parts))
	for i, v := range parts {
		values[i] = v.Index(int(n))
	}
	return just(values...), true
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
					out[i][at].firm = out[i][at].firm.join(b[at].firm)
					out[i][at].lost |= b[at].lost
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
		case a[i].values.equal(b[i].values) && a[i].firm.equal(b[i].firm) && a[i].lost == b[i].lost:
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
		out = append(out, cell{c.place, all, anything, 0})
	}
	return out
}

// reach works out which documents can have rows.
func (p *Plan) reach(c *compiler) {
	r := &reach{work: reachMax}
	p.boxes = r.rows(p.query, c.scope, true, []box{nil})
	for i, b := range p.boxes {
		// Ranges need only the properties of the document.
		p.boxes[i] = slices.Clone(slices.DeleteFunc(b, func(x cell) bool { return !strings.HasPrefix(x.place, "/") }))
	}
}
