package query

import (
	"slices"

	"github.com/decandb/decan/internal/value"
)

// arrayFunctions work on arrays, sets and objects.
func arrayFunctions() []function {
	return []function{
		{name: "ARRAY_CONTAINS", min: 2, max: 3, run: arrayContains},
		{name: "ARRAY_CONTAINS_ANY", min: 2, max: -1, run: arrayContainsAny},
		{name: "ARRAY_CONTAINS_ALL", min: 2, max: -1, run: arrayContainsAll},
		{name: "ARRAY_LENGTH", min: 1, max: 1, run: func(_ *env, args []value.Value) value.Value {
			if args[0].Kind() != value.KindArray {
				return value.Undefined()
			}
			return value.Int(int64(args[0].Len()))
		}},
		{name: "ARRAY_CONCAT", min: 2, max: -1, run: arrayConcat},
		{name: "ARRAY_SLICE", min: 2, max: 3, run: arraySlice},
		{name: "ARRAY_SUM", min: 1, max: 1, run: onNumbers(total)},
		{name: "ARRAY_AVG", min: 1, max: 1, run: onNumbers(average)},
		{name: "ARRAY_MEDIAN", min: 1, max: 1, run: onNumbers(median)},
		{name: "ARRAY_MIN", min: 1, max: 1, run: extreme(-1)},
		{name: "ARRAY_MAX", min: 1, max: 1, run: extreme(1)},
		{name: "CHOOSE", min: 2, max: -1, run: func(_ *env, args []value.Value) value.Value {
			if i, ok := args[0].Integer(); ok && i >= 1 && i < int64(len(args)) {
				return args[i]
			}
			return value.Undefined()
		}},
		{name: "ObjectToArray", min: 1, max: 3, run: objectToArray},
		{name: "SetUnion SET_UNION", min: 2, max: 2, run: onSets(func(e *env, a, b []value.Value) value.Value {
			return value.Array(e.distinct(append(slices.Clone(a), b...), nil))
		})},
		{name: "SetIntersect SET_INTERSECT", min: 2, max: 2, run: onSets(intersection)},
		{name: "SetDifference SET_DIFFERENCE", min: 2, max: 2, run: onSets(func(e *env, a, b []value.Value) value.Value {
			out := e.keySet(b)
			return value.Array(e.distinct(a, func(key string) bool { return !out[key] }))
		})},
		{name: "SetEqual SET_EQUAL", min: 2, max: 2, run: onSets(func(e *env, a, b []value.Value) value.Value {
			left, right := e.keySet(a), e.keySet(b)
			same := len(left) == len(right) && !slices.ContainsFunc(a, hasNaN) && !slices.ContainsFunc(b, hasNaN)
			for key := range left {
				same = same && right[key]
			}
			return value.Bool(same)
		})},
	}
}

// contains reports whether an array has an element equal to x or, if partial is set,
// an object with all properties of x.
func (e *env) contains(array []value.Value, x value.Value, partial bool) bool {
	for _, item := range array {
		if !e.workOf(item, x) {
			return false
		}
		if equalValues(item, x) || partial && e.within(x, item) {
			return true
		}
	}
	return false
}

// within reports whether part is equal to whole or a part of it: an object with some of
// its properties, or an array of parts of its elements.
func (e *env) within(part, whole value.Value) bool {
	if !e.work(1) || part.Kind() != whole.Kind() {
		return false
	}
	switch part.Kind() {
	case value.KindObject:
		for _, m := range part.Members() {
			if !e.within(m.Value, e.member(whole, m.Name)) {
				return false
			}
		}
		return true
	case value.KindArray:
		return slices.EqualFunc(part.Items(), whole.Items(), e.within)
	}
	return e.workOf(part, whole) && equalValues(part, whole)
}

func arrayContains(e *env, args []value.Value) value.Value {
	if args[0].Kind() != value.KindArray || !args[1].IsDefined() {
		return value.Undefined()
	}
	if len(args) == 3 && args[2].Kind() != value.KindBool {
		return value.Undefined()
	}
	return value.Bool(e.contains(args[0].Items(), args[1], len(args) == 3 && args[2].IsTrue()))
}

func arrayContainsAny(e *env, args []value.Value) value.Value {
	if args[0].Kind() != value.KindArray {
		return value.Undefined()
	}
	result := no
	for _, x := range args[1:] {
		switch {
		case !x.IsDefined():
			result = unknown
		case e.contains(args[0].Items(), x, false):
			return value.Bool(true)
		}
	}
	return result.value()
}

func arrayContainsAll(e *env, args []value.Value) value.Value {
	if args[0].Kind() != value.KindArray {
		return value.Undefined()
	}
	result := yes
	for _, x := range args[1:] {
		switch {
		case !x.IsDefined():
			result = unknown
		case !e.contains(args[0].Items(), x, false):
			return value.Bool(false)
		}
	}
	return result.value()
}

// arrayItemsMax is the maximum length of an array that an expression builds. An
// element uses about as much memory as a short one has text.
const arrayItemsMax = builtMax / 2

func arrayConcat(e *env, args []value.Value) value.Value {
	n := 0
	for _, a := range args {
		if a.Kind() != value.KindArray {
			return value.Undefined()
		}
		n += a.Len()
	}
	if n > arrayItemsMax && !e.fits(2*n) {
		return value.Undefined()
	}
	items := make([]value.Value, 0, n)
	for _, a := range args {
		items = append(items, a.Items()...)
	}
	return value.Array(items)
}

func arraySlice(_ *env, args []value.Value) value.Value {
	start, ok := args[1].Integer()
	if args[0].Kind() != value.KindArray || !ok {
		return value.Undefined()
	}
	n := int64(args[0].Len())
	length := n
	if len(args) == 3 {
		if length, ok = args[2].Integer(); !ok {
			return value.Undefined()
		}
	}
	if start < 0 {
		start = max(0, n+max(start, -n))
	}
	start = min(start, n)
	end := start + max(0, min(length, n-start))
	return value.Array(args[0].Items()[start:end])
}

// onNumbers returns a function of an array of numbers. Undefined elements are ignored;
// any other element makes the result undefined. f may reorder the list.
func onNumbers(f func(list []value.Value) value.Value) func(*env, []value.Value) value.Value {
	return func(_ *env, args []value.Value) value.Value {
		if args[0].Kind() != value.KindArray {
			return value.Undefined()
		}
		var list []value.Value
		for _, item := range args[0].Items() {
			switch item.Kind() {
			case value.KindNumber:
				list = append(list, item)
			case value.KindUndefined:
			default:
				return value.Undefined()
			}
		}
		return f(list)
	}
}

// total returns the sum of the numbers; undefined if there are none.
func total(list []value.Value) value.Value {
	if len(list) == 0 {
		return value.Undefined()
	}
	sum := list[0]
	for _, x := range list[1:] {
		sum = value.Add(sum, x)
	}
	return sum
}

// average divides the sum, which may be infinite.
func average(list []value.Value) value.Value {
	return value.Divide(total(list), value.Int(int64(len(list))))
}

// median returns the middle number, or the mean of the two middle ones.
func median(list []value.Value) value.Value {
	n := len(list)
	if n == 0 {
		return value.Undefined()
	}
	slices.SortFunc(list, value.Compare)
	switch {
	case isNaN(list[0]): // NaN sorts first
		return list[0]
	case n%2 == 1:
		return list[n/2]
	}
	return average(list[n/2-1 : n/2+1])
}

// extreme returns ARRAY_MIN for -1 and ARRAY_MAX for 1. Unlike elsewhere, NaN is
// greater than every other number. Of equal elements, such as 0 and -0, ARRAY_MIN
// returns the last and ARRAY_MAX the first.
func extreme(sign int) func(*env, []value.Value) value.Value {
	return func(_ *env, args []value.Value) value.Value {
		if args[0].Kind() != value.KindArray {
			return value.Undefined()
		}
		best := value.Undefined()
		for _, item := range args[0].Items() {
			if item.Kind() > value.KindString {
				return value.Undefined()
			}
			if !item.IsDefined() {
				continue
			}
			if c := compareExtreme(item, best) * sign; !best.IsDefined() || c > 0 || c == 0 && sign < 0 {
				best = item
			}
		}
		return best
	}
}

func compareExtreme(a, b value.Value) int {
	if a.Kind() == b.Kind() && isNaN(a) != isNaN(b) {
		return -value.Compare(a, b)
	}
	return value.Compare(a, b)
}

func objectToArray(_ *env, args []value.Value) value.Value {
	names := [2]string{"k", "v"}
	given := args[1:]
	for len(given) > 0 && !given[len(given)-1].IsDefined() {
		given = given[:len(given)-1]
	}
	for i, arg := range given {
		if arg.Kind() != value.KindString {
			return value.Undefined()
		}
		names[i] = arg.Text()
	}
	if args[0].Kind() != value.KindObject {
		return value.Undefined()
	}
	members := args[0].Members()
	items := make([]value.Value, len(members))
	for i, m := range members {
		items[i] = value.Object([]value.Member{{Name: names[0], Value: value.String(m.Name)}, {Name: names[1], Value: m.Value}})
	}
	return value.Array(items)
}

func onSets(f func(e *env, a, b []value.Value) value.Value) func(*env, []value.Value) value.Value {
	return func(e *env, args []value.Value) value.Value {
		if args[0].Kind() != value.KindArray || args[1].Kind() != value.KindArray {
			return value.Undefined()
		}
		if !e.fitsValue(args[0]) || !e.fitsValue(args[1]) {
			return value.Undefined()
		}
		return f(e, args[0].Items(), args[1].Items())
	}
}

// intersection returns the elements of a that are also in b, in the order of a. As in
// the service, if these are all of b but not all of a, it returns b unchanged.
func intersection(e *env, a, b []value.Value) value.Value {
	in := e.keySet(b)
	both := e.distinct(a, func(key string) bool { return in[key] })
	if len(both) == len(b) && len(both) < len(a) {
		return value.Array(b)
	}
	return value.Array(both)
}

// keySet returns the keys of items, except items that equal nothing, such as NaN.
func (e *env) keySet(items []value.Value) map[string]bool {
	set := make(map[string]bool, len(items))
	for _, item := range items {
		key, ok := e.key(item)
		if !ok {
			break
		}
		if !hasNaN(item) {
			set[key] = true
		}
	}
	return set
}

// distinct returns the first of each group of equal items that keep admits. A nil keep
// admits all.
func (e *env) distinct(items []value.Value, keep func(key string) bool) []value.Value {
	seen := make(map[string]bool, len(items))
	var out []value.Value
	for _, item := range items {
		key, ok := e.key(item)
		if !ok {
			break
		}
		if seen[key] || keep != nil && !keep(key) {
			continue
		}
		if !hasNaN(item) {
			seen[key] = true
		}
		out = append(out, item)
	}
	return out
}

// key returns a text that is equal for equal values, and whether to continue.
func (e *env) key(v value.Value) (string, bool) {
	e.scratch = value.AppendKey(e.scratch[:0], v)
	return string(e.scratch), e.work(keyWork + len(e.scratch))
}

// keyWork is the work for a key in addition to its bytes: a string and a map entry.
const keyWork = 16
