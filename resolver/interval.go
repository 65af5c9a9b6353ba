package resolver

import "fmt"

// Bound is one end of an interval. The zero value is no bound.
type Bound[T any] struct {
	Value T
	Kind  BoundKind
}

// BoundKind says whether an end exists and belongs to its interval.
type BoundKind uint8

// The kinds of ends.
const (
	Unbounded BoundKind = iota
	Included
	Excluded
)

// Interval is a contiguous part of an ordered type. The zero value is everything.
type Interval[T any] struct{ Low, High Bound[T] }

// HalfOpen holds low and everything up to, but not including, high.
func HalfOpen[T any](low, high T) Interval[T] {
	return Interval[T]{Bound[T]{low, Included}, Bound[T]{high, Excluded}}
}

// Closed holds low, high and everything between.
func Closed[T any](low, high T) Interval[T] {
	return Interval[T]{Bound[T]{low, Included}, Bound[T]{high, Included}}
}

// Point holds one value.
func Point[T any](value T) Interval[T] { return Closed(value, value) }

// AtLeast holds low and everything above.
func AtLeast[T any](low T) Interval[T] {
	return Interval[T]{Low: Bound[T]{low, Included}}
}

// Below holds everything below high.
func Below[T any](high T) Interval[T] {
	return Interval[T]{High: Bound[T]{high, Excluded}}
}

// Everything holds every value.
func Everything[T any]() Interval[T] { return Interval[T]{} }

// String writes the interval with brackets that include and parentheses that
// exclude, as in "[1, 15)".
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

// order answers questions about intervals under one comparison.
type order[T any] func(a, b T) int

// empty reports whether no value can lie inside. Between two different values
// there may be none in a type like int, but that is not known here.
func (compare order[T]) empty(i Interval[T]) bool {
	if i.Low.Kind == Unbounded || i.High.Kind == Unbounded {
		return false
	}
	c := compare(i.Low.Value, i.High.Value)
	return c > 0 || c == 0 && (i.Low.Kind == Excluded || i.High.Kind == Excluded)
}

// below reports whether all of the interval lies below the value.
func (compare order[T]) below(i Interval[T], value T) bool {
	if i.High.Kind == Unbounded {
		return false
	}
	c := compare(i.High.Value, value)
	return c < 0 || c == 0 && i.High.Kind == Excluded
}

// contains reports whether the value lies inside.
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

// intersects reports whether the two share a value. An empty interval shares none.
func (compare order[T]) intersects(a, b Interval[T]) bool {
	return !compare.empty(a) && !compare.empty(b) && !compare.precedes(a, b) && !compare.precedes(b, a)
}

// lower compares the low ends, for sorting.
func (compare order[T]) lower(a, b Bound[T]) int {
	if a.Kind == Unbounded || b.Kind == Unbounded {
		return boolOrder(a.Kind == Unbounded, b.Kind == Unbounded)
	}
	if c := compare(a.Value, b.Value); c != 0 {
		return c
	}
	return boolOrder(a.Kind == Included, b.Kind == Included)
}

// boolOrder puts true first.
func boolOrder(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}
