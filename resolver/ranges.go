package resolver

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"sort"
)

// RangeEntry sends the keys of an interval to a target. Several entries may name
// the same target.
type RangeEntry[T any] struct {
	Interval Interval[T]
	Target   Target
}

// RangeOptions changes what a Range accepts and returns.
type RangeOptions struct {
	// AllowGaps accepts gaps between entries. Writing a key in a gap is
	// ErrNoTarget, as it is for keys before the first and after the last entry.
	AllowGaps bool

	// FirstWins accepts entries that overlap, as in the legacy SDKs: a write
	// uses the first matching entry in the list, a read uses all of them. It
	// implies AllowGaps, and look-ups become linear.
	FirstWins bool

	// Repeat returns a target once for each key or interval of a selection and
	// each matching entry, as the legacy .NET and Node SDKs did. A query that
	// follows the result reads some documents twice.
	Repeat bool
}

// Range is a Resolver for ordered keys, such as numbers, names and times.
type Range[T any] struct {
	entries []RangeEntry[T] // sorted by low end, unless FirstWins
	compare order[T]
	options RangeOptions
}

// NewRange builds a resolver for an ordered type. Adjacent closed intervals of
// an integer type, such as 1 to 15 and 16 to 30, have no gap between them. The
// error is ErrOverlap, ErrGap or another ErrConfig.
func NewRange[T cmp.Ordered](entries []RangeEntry[T], options RangeOptions) (*Range[T], error) {
	return newRange(entries, cmp.Compare[T], followsInteger[T], options)
}

// NewRangeFunc is NewRange for a type with its own order, such as time.Time with
// time.Time.Compare. Two intervals adjoin if one ends where the other begins and
// exactly one of them includes that value.
func NewRangeFunc[T any](entries []RangeEntry[T], compare func(a, b T) int, options RangeOptions) (*Range[T], error) {
	return newRange(entries, compare, func(T, T) bool { return false }, options)
}

func newRange[T any](entries []RangeEntry[T], compare order[T], follows func(a, b T) bool, options RangeOptions) (*Range[T], error) {
	if len(entries) == 0 || len(entries) > TargetsMax {
		return nil, fmt.Errorf("%w: %d ranges, want 1 to %d", ErrConfig, len(entries), TargetsMax)
	}
	r := &Range[T]{slices.Clone(entries), compare, options}
	for _, e := range r.entries {
		if e.Target.Name == "" {
			return nil, fmt.Errorf("%w: the target of the range %v has no name", ErrConfig, e.Interval)
		}
		if compare.empty(e.Interval) {
			return nil, fmt.Errorf("%w: the range %v is empty", ErrConfig, e.Interval)
		}
	}
	if options.FirstWins {
		return r, nil
	}
	slices.SortStableFunc(r.entries, func(a, b RangeEntry[T]) int {
		return compare.lower(a.Interval.Low, b.Interval.Low)
	})
	for i := 1; i < len(r.entries); i++ {
		if err := r.checkNeighbours(r.entries[i-1].Interval, r.entries[i].Interval, follows); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// checkNeighbours checks two intervals that are adjacent in the order of their
// low ends.
func (r *Range[T]) checkNeighbours(a, b Interval[T], follows func(a, b T) bool) error {
	if !r.compare.precedes(a, b) {
		return fmt.Errorf("%w: %v and %v", ErrOverlap, a, b)
	}
	if r.options.AllowGaps {
		return nil
	}
	if r.compare(a.High.Value, b.Low.Value) == 0 {
		if a.High.Kind == Included || b.Low.Kind == Included {
			return nil
		}
	} else if a.High.Kind == Included && b.Low.Kind == Included && follows(a.High.Value, b.Low.Value) {
		return nil
	}
	return fmt.Errorf("%w: between %v and %v; allow gaps if it is intended", ErrGap, a, b)
}

// followsInteger reports whether a and b are integers with none between them.
func followsInteger[T cmp.Ordered](a, b T) bool {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	switch {
	case x.CanInt():
		return x.Int()+1 == y.Int() && x.Int() < y.Int()
	case x.CanUint():
		return x.Uint()+1 == y.Uint() && x.Uint() < y.Uint()
	}
	return false
}

// ForWrite returns the target of the entry that covers the key, or ErrNoTarget.
func (r *Range[T]) ForWrite(key T) (Target, error) {
	if i := r.find(key); i >= 0 {
		return r.entries[i].Target, nil
	}
	return Target{}, fmt.Errorf("%w: no range contains %v", ErrNoTarget, key)
}

// find returns the index of the entry that serves a write of the key, -1 for none.
func (r *Range[T]) find(key T) int {
	if r.options.FirstWins {
		return slices.IndexFunc(r.entries, func(e RangeEntry[T]) bool { return r.compare.contains(e.Interval, key) })
	}
	i := r.firstNotBelow(key)
	if i < len(r.entries) && r.compare.contains(r.entries[i].Interval, key) {
		return i
	}
	return -1
}

// firstNotBelow returns the index of the first entry that does not lie entirely
// below the key. The entries must be sorted.
func (r *Range[T]) firstNotBelow(key T) int {
	return sort.Search(len(r.entries), func(i int) bool { return !r.compare.below(r.entries[i].Interval, key) })
}

// ForRead returns the targets of all entries that intersect the selection, in
// the order of the ranges, or of the list under FirstWins.
func (r *Range[T]) ForRead(selection Selection[T]) ([]Target, error) {
	if r.options.Repeat {
		return r.repeated(selection), nil
	}
	wanted := make([]bool, len(r.entries))
	for _, i := range r.wanted(selection) {
		wanted[i] = true
	}
	var found union
	for i, e := range r.entries {
		if wanted[i] {
			found.add(e.Target)
		}
	}
	return found.targets, nil
}

// repeated returns one target per match.
func (r *Range[T]) repeated(selection Selection[T]) []Target {
	var found []Target
	for _, i := range r.wanted(selection) {
		found = append(found, r.entries[i].Target)
	}
	return found
}

// wanted returns the indexes of matching entries, for each selected key and
// interval in turn.
func (r *Range[T]) wanted(selection Selection[T]) []int {
	var found []int
	intervals := selection.intervals
	if selection.all {
		intervals = []Interval[T]{Everything[T]()}
	}
	for _, key := range selection.keys {
		found = r.appendMeeting(found, Point(key))
	}
	for _, i := range intervals {
		found = r.appendMeeting(found, i)
	}
	return found
}

func (r *Range[T]) appendMeeting(found []int, wanted Interval[T]) []int {
	first := 0
	if !r.options.FirstWins && wanted.Low.Kind != Unbounded {
		first = r.firstNotBelow(wanted.Low.Value)
	}
	for i := first; i < len(r.entries); i++ {
		if r.compare.intersects(r.entries[i].Interval, wanted) {
			found = append(found, i)
		} else if !r.options.FirstWins && r.compare.precedes(wanted, r.entries[i].Interval) {
			break
		}
	}
	return found
}

// Targets returns the targets in the order of the ranges.
func (r *Range[T]) Targets() []Target {
	var all union
	for _, e := range r.entries {
		all.add(e.Target)
	}
	return all.targets
}
