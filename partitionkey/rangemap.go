package partitionkey

import (
	"fmt"
	"iter"
	"slices"
	"sort"
)

// Entry is one range of a RangeMap and its value.
type Entry[T any] struct {
	Range Range
	Value T
}

// RangeMap is an immutable tiling of the whole key space: sorted, non-empty
// ranges that cover it exactly once. The zero value has no ranges and supports
// only Len, All and Overlapping. A RangeMap may be copied and shared.
type RangeMap[T any] struct {
	entries []Entry[T]
}

// NewRangeMap returns the map of the given entries, in any order. It copies the
// slice. If entries leave a gap, overlap, or do not reach from MinEPK to MaxEPK,
// the error names the bounds.
func NewRangeMap[T any](entries []Entry[T]) (RangeMap[T], error) {
	sorted := slices.Clone(entries)
	slices.SortStableFunc(sorted, func(a, b Entry[T]) int {
		return a.Range.Min.Compare(b.Range.Min)
	})
	if err := checkTiling(sorted); err != nil {
		return RangeMap[T]{}, err
	}
	return RangeMap[T]{sorted}, nil
}

func checkTiling[T any](sorted []Entry[T]) error {
	if len(sorted) == 0 {
		return fmt.Errorf("no ranges: %v is not covered", Full())
	}
	end := MinEPK
	for i, entry := range sorted {
		r := entry.Range
		if r.Empty() {
			return fmt.Errorf("range %v is empty", r)
		}
		switch r.Min.Compare(end) {
		case +1:
			return fmt.Errorf("gap: %v is not covered", Range{end, r.Min})
		case -1:
			return fmt.Errorf("range %v overlaps %v", sorted[i-1].Range, r)
		}
		end = r.Max
	}
	switch end.Compare(MaxEPK) {
	case -1:
		return fmt.Errorf("gap: %v is not covered", Range{end, MaxEPK})
	case +1:
		return fmt.Errorf("range %v goes beyond %v", sorted[len(sorted)-1].Range, MaxEPK)
	}
	return nil
}

// Len returns the number of ranges.
func (m RangeMap[T]) Len() int { return len(m.entries) }

// At returns entry i in the order of ranges.
func (m RangeMap[T]) At(i int) Entry[T] { return m.entries[i] }

// All yields every range with its value, in order.
func (m RangeMap[T]) All() iter.Seq2[Range, T] {
	return func(yield func(Range, T) bool) {
		for _, entry := range m.entries {
			if !yield(entry.Range, entry.Value) {
				return
			}
		}
	}
}

// Locate returns the entry whose range contains e, in logarithmic time and
// without allocation. An EPK at or above MaxEPK, which no key has, belongs to
// the last entry. Locate panics on the zero map.
func (m RangeMap[T]) Locate(e EPK) Entry[T] {
	return m.entries[m.after(e)-1]
}

// after returns the number of entries that start at or before e.
func (m RangeMap[T]) after(e EPK) int {
	return sort.Search(len(m.entries), func(i int) bool {
		return m.entries[i].Range.Min.Compare(e) > 0
	})
}

// Overlapping returns the entries whose ranges overlap r, in order. They are
// adjacent. The slice belongs to the map and must not be changed. An empty range
// overlaps nothing.
func (m RangeMap[T]) Overlapping(r Range) []Entry[T] {
	if r.Empty() || len(m.entries) == 0 || r.Min.Compare(MaxEPK) >= 0 {
		return nil
	}
	from := m.after(r.Min) - 1
	to := sort.Search(len(m.entries), func(i int) bool {
		return m.entries[i].Range.Min.Compare(r.Max) >= 0
	})
	return m.entries[from:to:to]
}

// Replace returns a map without the old ranges and with the new entries: a split
// replaces one range by several, a merge several by one. The error names the
// bounds if an old range is not in the map, or if the new entries do not cover
// exactly the old ranges. m does not change.
func (m RangeMap[T]) Replace(old []Range, with []Entry[T]) (RangeMap[T], error) {
	entries := slices.Clone(m.entries)
	for _, r := range old {
		i := slices.IndexFunc(entries, func(entry Entry[T]) bool { return entry.Range.Equal(r) })
		if i < 0 {
			return RangeMap[T]{}, fmt.Errorf("replace %v: no such range", r)
		}
		entries = slices.Delete(entries, i, i+1)
	}
	replaced, err := NewRangeMap(append(entries, with...))
	if err != nil {
		return RangeMap[T]{}, fmt.Errorf("replace %v: %w", old, err)
	}
	return replaced, nil
}
