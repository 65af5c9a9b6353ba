package value

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// Compare returns -1, 0 or 1 if a sorts before, equal to or after b. The order
// is total and equals the byte order of the keys ([AppendKey]):
//
//   - undefined < null < false < true < numbers < strings < arrays < objects;
//   - numbers by numeric value, exactly, whether integer or double; NaN is equal
//     to itself and before all others;
//   - strings by their UTF-8 bytes, which is the order of code points. It differs
//     from the order of UTF-16 units only where a character beyond U+FFFF meets
//     one from U+E000 to U+FFFF; [AppendOrderKey] has that order;
//   - arrays by the first element that differs, then the shorter first;
//   - objects as arrays of their members sorted by name, a member by its name
//     and then its value, whatever order they were written in.
func Compare(a, b Value) int {
	if a.kind != b.kind {
		return cmp.Compare(a.kind, b.kind)
	}
	switch a.kind {
	case KindBool:
		return cmp.Compare(a.bits, b.bits)
	case KindNumber:
		return compareNumbers(a, b)
	case KindString:
		return strings.Compare(a.Text(), b.Text())
	case KindArray:
		return slices.CompareFunc(a.Items(), b.Items(), Compare)
	case KindObject:
		return compareObjects(a.Members(), b.Members())
	}
	return 0
}

// Equal reports whether Compare(a, b) is 0. The order of members does not
// matter, the order of elements does. 1 equals 1.0 but not "1"; undefined equals
// undefined, and NaN equals NaN.
func Equal(a, b Value) bool {
	if a.kind != b.kind {
		return false
	}
	switch a.kind {
	case KindBool:
		return a.bits == b.bits
	case KindNumber:
		return a.exact == b.exact && a.bits == b.bits
	case KindString:
		return a.Text() == b.Text()
	case KindArray:
		return slices.EqualFunc(a.Items(), b.Items(), Equal)
	case KindObject:
		return equalObjects(a, b)
	}
	return true
}

// Equal is the function Equal as a method, for comparing libraries.
func (v Value) Equal(other Value) bool { return Equal(v, other) }

func equalObjects(a, b Value) bool {
	left, right := a.Members(), b.Members()
	if len(left) != len(right) {
		return false
	}
	for i := range left {
		if left[i].Name == right[i].Name {
			if !Equal(left[i].Value, right[i].Value) {
				return false
			}
			continue
		}
		if len(left) > scanMax {
			return compareObjects(left, right) == 0
		}
		if other := b.Get(left[i].Name); !other.IsDefined() || !Equal(left[i].Value, other) {
			return false
		}
	}
	return true
}

// compareNumbers relies on the unique representation of a number: a double that
// is not exact has a fraction, is outside of int64, or is NaN.
func compareNumbers(a, b Value) int {
	switch {
	case a.exact && b.exact:
		return cmp.Compare(int64(a.bits), int64(b.bits))
	case a.exact:
		return compareIntDouble(int64(a.bits), math.Float64frombits(b.bits))
	case b.exact:
		return -compareIntDouble(int64(b.bits), math.Float64frombits(a.bits))
	}
	// In the order of package cmp, NaN is also the lowest and equal to itself.
	return cmp.Compare(math.Float64frombits(a.bits), math.Float64frombits(b.bits))
}

// compareIntDouble compares without converting i to a double, which could round
// it to f. The two are never equal.
func compareIntDouble(i int64, f float64) int {
	switch {
	case f >= 1<<63:
		return -1
	case f >= -(1 << 63):
		if i <= int64(math.Floor(f)) {
			return -1
		}
	}
	return 1 // f is smaller, or NaN
}

func compareObjects(a, b []Member) int {
	if inOrder(a) && inOrder(b) {
		return compareSorted(a, b)
	}
	var left, right [scanMax]Member
	return compareSorted(sorted(left[:0], a), sorted(right[:0], b))
}

func compareSorted(a, b []Member) int {
	for i := range min(len(a), len(b)) {
		if c := compareNames(a[i], b[i]); c != 0 {
			return c
		}
		if c := Compare(a[i].Value, b[i].Value); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

func inOrder(members []Member) bool { return slices.IsSortedFunc(members, compareNames) }

// sorted appends the members to room and sorts them by name.
func sorted(room, members []Member) []Member {
	room = append(room, members...)
	slices.SortFunc(room, compareNames)
	return room
}

func compareNames(a, b Member) int { return strings.Compare(a.Name, b.Name) }
