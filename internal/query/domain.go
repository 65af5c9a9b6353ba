package query

import (
	"math"
	"slices"

	"github.com/decandb/decan/internal/value"
)

// domain is a set of values, undefined included. It may be larger than the set that it
// describes.
type domain struct {
	kinds     kinds         // the kinds of its values
	intervals []interval    // the numbers and strings in it, sorted and disjoint; nil for all of its kinds
	parts     []value.Value // the arrays and objects in it; nil for all of its kinds
}

// interval is a range of numbers or of strings in the order of [value.Compare].
type interval struct {
	low, high value.Value // an undefined high is no limit, of strings
	above     bool        // low is not in the interval
	below     bool        // high is not in the interval
}

// partsMax is the number of arrays and objects that a domain lists.
const partsMax = 16

var (
	anything  = domain{kinds: mayAny}
	something = domain{kinds: mayExist}
	missing   = domain{kinds: mayMiss}
	certainly = domain{kinds: mayTrue}
)

var notNegative = domain{kinds: mayNumber, intervals: []interval{{low: value.Int(0), high: value.Number(math.Inf(1))}}}

// The intervals of all numbers, of those that have an order, and of all strings.
var (
	allNumbers     = interval{low: value.Number(math.NaN()), high: value.Number(math.Inf(1))}
	orderedNumbers = interval{low: value.Number(math.Inf(-1)), high: value.Number(math.Inf(1))}
	allStrings     = interval{low: value.String("")}
)

// just returns the domain of some values.
func just(values ...value.Value) domain {
	var d domain
	for _, v := range values {
		d.kinds |= kindsOf(v)
		switch v.Kind() {
		case value.KindNumber, value.KindString:
			d.intervals = append(d.intervals, interval{low: v, high: v})
		case value.KindArray, value.KindObject:
			d.parts = append(d.parts, v)
		}
	}
	if d.intervals != nil {
		d.intervals = united(d.intervals)
	}
	if len(d.parts) > partsMax {
		d.parts = nil
	}
	return d
}

// empty reports whether no value is in d.
func (d domain) empty() bool { return d.kinds == 0 }

// all reports whether every value is in d.
func (d domain) all() bool { return d.kinds == mayAny && d.intervals == nil && d.parts == nil }

// has reports whether v is in d.
func (d domain) has(v value.Value) bool {
	k := kindsOf(v)
	switch {
	case d.kinds&k == 0:
		return false
	case k&(mayNumber|mayString) != 0 && d.intervals != nil, k&(mayArray|mayObject) != 0 && d.parts != nil:
		return !d.meet(just(v)).empty()
	}
	return true
}

// listed returns the intervals of d, also if it has all numbers or all strings.
func (d domain) listed() []interval {
	if d.intervals != nil {
		return d.intervals
	}
	var list []interval
	if d.kinds&mayNumber != 0 {
		list = append(list, allNumbers)
	}
	if d.kinds&mayString != 0 {
		list = append(list, allStrings)
	}
	return list
}

// meet returns the values that are in both domains.
func (d domain) meet(o domain) domain {
	m := domain{kinds: d.kinds & o.kinds, intervals: d.intervals, parts: d.parts}
	if o.intervals != nil {
		if m.intervals = o.intervals; d.intervals != nil {
			m.intervals = intersected(d.intervals, o.intervals)
		}
	}
	if o.parts != nil {
		if m.parts = o.parts; d.parts != nil {
			m.parts = slices.DeleteFunc(slices.Clone(d.parts), func(v value.Value) bool {
				return !slices.ContainsFunc(o.parts, func(w value.Value) bool { return value.Equal(v, w) })
			})
		}
	}
	return m.tidy()
}

// tidy removes kinds without values, and values without kinds.
func (d domain) tidy() domain {
	scalars, composed := d.kinds&(mayNumber|mayString), d.kinds&(mayArray|mayObject)
	if d.intervals != nil {
		var have kinds
		for _, s := range d.intervals {
			have |= kindsOf(s.low)
		}
		d.kinds &^= scalars &^ have
		switch {
		case scalars&have == 0:
			d.intervals = nil
		case have&^scalars != 0:
			d.intervals = slices.DeleteFunc(slices.Clone(d.intervals), func(s interval) bool { return kindsOf(s.low)&scalars == 0 })
		}
	}
	if d.parts != nil {
		var have kinds
		for _, v := range d.parts {
			have |= kindsOf(v)
		}
		d.kinds &^= composed &^ have
		switch {
		case composed&have == 0:
			d.parts = nil
		case have&^composed != 0:
			d.parts = slices.DeleteFunc(slices.Clone(d.parts), func(v value.Value) bool { return kindsOf(v)&composed == 0 })
		}
	}
	return d
}

// join returns the values that are in one of the domains. It may add arrays and objects.
func (d domain) join(o domain) domain {
	j := domain{kinds: d.kinds | o.kinds}
	if d.intervals != nil || o.intervals != nil {
		j.intervals = united(append(slices.Clone(d.listed()), o.listed()...))
	}
	const composed = mayArray | mayObject
	switch {
	case d.kinds&composed == 0:
		j.parts = o.parts
	case o.kinds&composed == 0:
		j.parts = d.parts
	case d.parts != nil && o.parts != nil && len(d.parts)+len(o.parts) <= partsMax:
		j.parts = append(slices.Clone(d.parts), o.parts...)
	}
	return j
}

// compared returns the values whose comparison with v has a result in want.
func compared(op string, v value.Value, want kinds) domain {
	if op == "!=" {
		op, want = "=", ofNegated(want)|want&mayMiss
	}
	var d domain
	k := v.Kind()
	switch {
	case k == value.KindUndefined:
		if want&mayMiss != 0 {
			return anything
		}
		return d
	case op == "=":
		if want&mayMiss != 0 {
			d.kinds = mayMiss
		}
		if want&mayTrue != 0 && !hasNaN(v) {
			d = d.join(equalTo(v))
		}
		if want&mayFalse != 0 {
			d = d.join(except(v))
		}
		return d
	case want&mayMiss != 0:
		return anything
	case !hasOrder(k) || isNaN(v):
		return d
	}
	holds := outcomesOf[op]
	if want&mayTrue == 0 {
		holds = ^holds
	} else if want&mayFalse != 0 {
		holds = ^outcomes(0)
	}
	return ordered(v, holds)
}

// equalTo is the domain of v. Infinity is the greatest number, but no key is infinite,
// and the service asks all partitions for one.
func equalTo(v value.Value) domain {
	if v.Kind() == value.KindNumber && !v.Finite() {
		if v.Float() > 0 {
			return domain{kinds: mayNumber, intervals: []interval{{low: value.Number(math.MaxFloat64), high: v, above: true}}}
		}
		return domain{kinds: mayNumber, intervals: []interval{{low: v, high: value.Number(-math.MaxFloat64), below: true}}}
	}
	return just(v)
}

// except returns the defined values that are not equal to any of the given. It may add
// arrays and objects.
func except(values ...value.Value) domain {
	d, out := something, just(values...)
	d.kinds &^= out.kinds & (mayNull | mayBool)
	if out.intervals == nil {
		return d
	}
	for _, rest := range d.listed() {
		for _, s := range out.intervals {
			if kindsOf(s.low) != kindsOf(rest.low) || hasNaN(s.low) {
				continue
			}
			before := rest
			before.high, before.below = s.low, true
			if !before.empty() {
				d.intervals = append(d.intervals, before)
			}
			rest.low, rest.above = s.low, true
		}
		if !rest.empty() {
			d.intervals = append(d.intervals, rest)
		}
	}
	return d
}

// outside returns the strings that are not in a domain of strings.
func outside(d domain) domain {
	var intervals []interval
	rest := allStrings
	for _, s := range d.listed() {
		before := rest
		before.high, before.below = s.low, !s.above
		if !before.empty() {
			intervals = append(intervals, before)
		}
		if !s.high.IsDefined() {
			rest.high, rest.below = rest.low, true
			break
		}
		rest.low, rest.above = s.high, !s.below
	}
	if !rest.empty() {
		intervals = append(intervals, rest)
	}
	return domain{kinds: mayString, intervals: append([]interval{}, intervals...)}.tidy()
}

// ordered returns the values of the kind of v whose comparison with v has one of the
// outcomes.
func ordered(v value.Value, holds outcomes) domain {
	var d domain
	switch v.Kind() {
	case value.KindNull:
		if holds.hold(0) == yes {
			d.kinds = mayNull
		}
		return d
	case value.KindBool:
		for _, b := range []value.Value{value.Bool(false), value.Bool(true)} {
			if holds.hold(value.Compare(b, v)) == yes {
				d.kinds |= kindsOf(b)
			}
		}
		return d
	}
	whole := orderedNumbers
	if v.Kind() == value.KindString {
		whole = allStrings
	}
	lower, here, greater := whole, equalTo(v).intervals[0], whole
	lower.high, lower.below = v, true
	greater.low, greater.above = v, true
	intervals := []interval{}
	for i, s := range []interval{lower, here, greater} {
		if holds.hold(i-1) == yes && !s.empty() {
			intervals = append(intervals, s)
		}
	}
	if len(intervals) > 0 {
		d.kinds, d.intervals = kindsOf(v), united(intervals)
	}
	return d
}

// beginning returns the strings that begin with a prefix.
func beginning(prefix string) domain {
	if prefix == "" {
		return domain{kinds: mayString}
	}
	s := interval{low: value.String(prefix)}
	// The text after those is the prefix with its last byte, which is not the greatest, increased.
	if next := []byte(prefix); next[len(next)-1] < 0xFF {
		next[len(next)-1]++
		s.high, s.below = value.String(string(next)), true
	}
	return domain{kinds: mayString, intervals: []interval{s}}
}

func (s interval) empty() bool {
	if !s.high.IsDefined() {
		return false
	}
	c := value.Compare(s.low, s.high)
	return c > 0 || c == 0 && (s.above || s.below)
}

// point returns the only value of the interval.
func (s interval) point() (value.Value, bool) {
	return s.low, s.high.IsDefined() && !s.above && !s.below && value.Compare(s.low, s.high) == 0
}

// compareLows orders intervals by their first values.
func compareLows(a, b interval) int {
	if c := value.Compare(a.low, b.low); c != 0 || a.above == b.above {
		return c
	}
	if a.above {
		return 1
	}
	return -1
}

// endsBefore reports whether a ends before b does.
func (s interval) endsBefore(o interval) bool {
	sameKind := kindsOf(s.low) == kindsOf(o.low)
	switch {
	case !sameKind:
		return kindsOf(s.low) < kindsOf(o.low)
	case !s.high.IsDefined():
		return false
	case !o.high.IsDefined():
		return true
	}
	c := value.Compare(s.high, o.high)
	return c < 0 || c == 0 && s.below && !o.below
}

// touches reports whether there is no value between the end of s and the beginning of o,
// which begins after s begins.
func (s interval) touches(o interval) bool {
	if kindsOf(s.low) != kindsOf(o.low) {
		return false
	}
	if !s.high.IsDefined() {
		return true
	}
	c := value.Compare(o.low, s.high)
	return c < 0 || c == 0 && !(o.above && s.below)
}

// united sorts intervals and merges those that touch. It changes the list.
func united(list []interval) []interval {
	slices.SortFunc(list, compareLows)
	out := list[:0]
	for _, s := range list {
		if n := len(out); n > 0 && out[n-1].touches(s) {
			if last := &out[n-1]; last.endsBefore(s) {
				last.high, last.below = s.high, s.below
			}
			continue
		}
		out = append(out, s)
	}
	return out
}

// intersected returns the values in both lists. The result is not nil.
func intersected(a, b []interval) []interval {
	out := make([]interval, 0, max(len(a), len(b)))
	for len(a) > 0 && len(b) > 0 {
		s := a[0]
		if compareLows(b[0], s) > 0 {
			s.low, s.above = b[0].low, b[0].above
		}
		first := a[0].endsBefore(b[0])
		if kindsOf(a[0].low) == kindsOf(b[0].low) {
			if s.high, s.below = b[0].high, b[0].below; first {
				s.high, s.below = a[0].high, a[0].below
			}
			if !s.empty() {
				out = append(out, s)
			}
		}
		if first {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return out
}
