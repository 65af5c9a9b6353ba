package resolver

import "fmt"

// Bound is one end of an interval. The zero value is unbounded.
type Bound[T any] struct {
	Value T
	Kind  BoundKind
}

// BoundKind says whether an interval has an end, and whether the end belongs to
// it.
type BoundKind uint8

// The kinds of bounds.
const (
	Unbounded BoundKind = iota
	Included
	Excluded
)

// Interval is a contiguous part of an ordered type. The zero value contains
// every value.
type Interval[T any] struct{ Low, High Bound[T] }

// HalfOpen returns the interval from low, included, to high, excluded.
func HalfOpen[T any](low, high T) Interval[T] {
	return Interval[T]{Bound[T]{low, Included}, Bound[T]{high, Excluded}}
}

// Closed returns the interval from low to high, both included.
func Closed[T any](low, high T) Interval[T] {
	return Interval[T]{Bound[T]{low, Included}, Bound[T]{high, Included}}
}

// Point returns the interval that contains one value.
func Point[T any](value T) Interval[T] { return Closed(value, value) }

// AtLeast returns the interval of low and everything above it.
func AtLeast[T any](low T) Interval[T] {
	return Interval[T]{Low: Bound[T]{low, Included}}
}

// Below returns the interval of everything below high.
func Below[T any](high T) Interval[T] {
	return Interval[T]{High: Bound[T]{high, Excluded}}
}

// Everything returns the interval that contains every value.
func Everything[T any]() Interval[T] { return Interval[T]{} }

// String formats the interval with brackets for included ends and parentheses
// for excluded ones, as in "[1, 15)".
func (i Interval[T]) String() string {
	low, high := "(", ")"
	if i.Low.Kind == Included {
		low = "["
	}
	if i.High.Kind == Included {
		high = "]"
	}
	return low + i.Low.text("-inf") + ", " + i.High.text("+inf") + high
}

func (b Bound[T]) text(unbounded string) string {
	if b.Kind == Unbounded {
		return unbounded
	}
	return fmt.Sprint(b.Value)
}

// order compares two values; its methods compare values with intervals.
type order[T any] func(a, b T) int

// empty reports whether the interval is empty by its bounds alone. An interval
// between two different values may contain nothing in a type like int; empty
// does not know that.
func (compare order[T]) empty(i Interval[T]) bool {
	if i.Low.Kind == Unbounded || i.High.Kind == Unbounded {
		return false
	}
	c := compare(i.Low.Value, i.High.Value)
	return c > 0 || c == 0 && (i.Low.Kind == Excluded || i.High.Kind == Excluded)
}

// below reports whether the whole interval lies below the value.
func (compare order[T]) below(i Interval[T], value T) bool {
	if i.High.Kind == Unbounded {
		return false
	}
	c := compare(i.High.Value, value)
	return c < 0 || c == 0 && i.High.Kind == Excluded
}

// contains reports whether the value lies in the interval.
func (compare order[T]) contains(i Interval[T], value T) bool {
	if compare.below(i, value) {
		return false
	}
	if i.Low.Kind == Unbounded {
		return true
	}
	c := compare(i.Low.Value, value)
	return c < 0 || c == 0 && i.Low.Kind == Included
}

// precedes reports whether all of a lies below all of b.
func (compare order[T]) precedes(a, b Interval[T]) bool {
	if a.High.Kind == Unbounded || b.Low.Kind == Unbounded {
		return false
	}
	c := compare(a.High.Value, b.Low.Value)
	return c < 0 || c == 0 && (a.High.Kind == Excluded || b.Low.Kind == Excluded)
}

// intersects reports whether the two intervals share a value. An empty interval
// intersects nothing.
func (compare order[T]) intersects(a, b Interval[T]) bool {
	return !compare.empty(a) && !compare.empty(b) && !compare.precedes(a, b) && !compare.precedes(b, a)
}

// lower compares two low ends, for sorting.
func (compare order[T]) lower(a, b Bound[T]) int {
	if a.Kind == Unbounded || b.Kind == Unbounded {
		return boolOrder(a.Kind == Unbounded, b.Kind == Unbounded)
	}
	if c := compare(a.Value, b.Value); c != 0 {
		return c
	}
	return boolOrder(a.Kind == Included, b.Kind == Included)
}

// boolOrder sorts true before false.
func boolOrder(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}
