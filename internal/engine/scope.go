package engine

import (
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/partitionkey"
)

// scope is the part of the key space that a query reads: the request allows it
// and the filter needs it.
type scope struct {
	// ranges are sorted, disjoint and inside the range that the request names.
	// There is at least one.
	ranges []partitionkey.Range

	// pinned is true for one logical partition, or one physical partition that
	// the client named. That partition merges the rows of such a query.
	pinned bool

	// prefix is true if the request has a prefix of a hierarchical key.
	prefix bool

	// point is the hash of the only key of the scope: of a whole key, or of bounds of
	// hashed keys that exclude all others. Otherwise it is empty.
	point partitionkey.EPK

	// former is true if the request names a partition that others have replaced.
	former bool
}

// scopeOf returns the intersection of what the request names and what the
// filter needs.
func scopeOf(c *catalog.Container, req *QueryRequest, plan *query.Plan) (scope, error) {
	s, base, err := named(c, req)
	if err != nil {
		return s, err
	}
	ranges := plan.Ranges(c.PartitionKey)
	s.ranges = within(ranges, base)
	if len(s.ranges) == 0 {
		// The filter contradicts itself or the key. One partition is asked
		// nevertheless, for the charge and the session token of the answer.
		first := c.Ranges.Overlapping(base)[0].Range
		r, _ := first.Intersect(base)
		s.ranges = []partitionkey.Range{r}
		s.pinned = true
	}
	// A filter that excludes no key pins none: the second test is then not
	// needed.
	s.pinned = s.pinned || !(len(ranges) == 1 && ranges[0] == partitionkey.Full()) && plan.Pinned(c.PartitionKey)
	return s, nil
}

// named returns the range given by the key, the partition and the clip of the
// request, and the scope without ranges.
func named(c *catalog.Container, req *QueryRequest) (s scope, base partitionkey.Range, err error) {
	base = partitionkey.Full()
	full := false
	if req.Key != nil {
		key := given(c.PartitionKey, *req.Key)
		if err := c.PartitionKey.Check(key, false); err != nil {
			return s, base, keyError(err)
		}
		if base, err = c.PartitionKey.Prefix(key); err != nil {
			return s, base, keyError(err)
		}
		full = key.Len() == c.PartitionKey.Levels()
		s.pinned, s.prefix = full, !full && key.Len() > 0
	}
	if req.Partition != nil {
		p, ok := c.Partition(*req.Partition)
		r := p.Range
		if !ok && req.Former {
			r, ok = c.OnceOwned(*req.Partition)
			s.former = ok
		}
		if !ok {
			return s, base, status.PartitionMoved(status.SubRangeGone)
		}
		// Some clients hash some keys wrongly, so the partition and the range
		// given with a whole key are ignored.
		if !full {
			s.pinned = true
			if base, ok = base.Intersect(r); !ok {
				return s, base, status.PartitionMoved(status.SubRangeGone)
			}
		}
	}
	if req.Clip != nil && !full {
		clipped, ok := base.Intersect(*req.Clip)
		if !ok {
			return s, base, outside(*req.Clip, req.Partition)
		}
		base = clipped
	}
	if full || isKey(c.PartitionKey, base) {
		s.point = base.Min
	}
	return s, base, nil
}

// outside returns the error of a clip that does not overlap the rest of the
// scope.
func outside(clip partitionkey.Range, partition *resource.PartitionID) error {
	if clip.Empty() {
		return status.BadRequest("The range of effective partition keys %v is empty.", clip)
	}
	if partition != nil {
		// The client has an old list of ranges, by which the partition owns the
		// clip.
		return status.PartitionMoved(status.SubRangeGone)
	}
	return status.BadRequest("The range of effective partition keys %v has nothing in common with the partition key of the request.", clip)
}

// isPoint reports whether a range holds exactly one whole key.
func isPoint(d partitionkey.Definition, r partitionkey.Range) bool {
	return r.Min != partitionkey.MinEPK && d.Successor(r.Min).Compare(r.Max) == 0
}

// isKey is isPoint for the bounds that clients send for one key: the end may also be
// the hash of the key followed by FF.
func isKey(d partitionkey.Definition, r partitionkey.Range) bool {
	next := d.Successor(r.Min)
	return r.Min != partitionkey.MinEPK && (next.Compare(r.Max) >= 0 || next == r.Min+"\x01" && r.Max == r.Min+partitionkey.MaxEPK)
}

// task is the part of a scope in one partition.
type task struct {
	partition resource.Partition

	// clip is the part of the partition's range that the scope covers, from the
	// first range of the scope to the last. The filter, from which the ranges
	// come, excludes the gaps between them.
	clip partitionkey.Range

	// asked is clip or, if clip is part of one range of the scope, that whole
	// range: a partition recognizes the range of a key prefix.
	asked partitionkey.Range
}

// tasks returns the partitions that own ranges, in range order.
func tasks(c *catalog.Container, ranges []partitionkey.Range) []task {
	var list []task
	for _, r := range ranges {
		entries := c.Ranges.Overlapping(r)
		if list == nil {
			list = make([]task, 0, min(len(entries)+len(ranges)-1, c.Ranges.Len()))
		}
		for _, entry := range entries {
			clip, ok := entry.Range.Intersect(r)
			if !ok {
				continue
			}
			if n := len(list); n > 0 && list[n-1].partition.ID == entry.Value.ID {
				list[n-1].clip.Max = clip.Max
				list[n-1].asked = list[n-1].clip
				continue
			}
			list = append(list, task{partition: entry.Value, clip: clip, asked: r})
		}
	}
	return list
}

// several reports whether more than one partition owns ranges, which are sorted.
func several(c *catalog.Container, ranges []partitionkey.Range) bool {
	first, found := resource.PartitionID(0), false
	for _, r := range ranges {
		for _, entry := range c.Ranges.Overlapping(r) {
			if found && entry.Value.ID != first {
				return true
			}
			first, found = entry.Value.ID, true
		}
	}
	return false
}

// within returns the intersections of sorted ranges with r.
func within(ranges []partitionkey.Range, r partitionkey.Range) []partitionkey.Range {
	var list []partitionkey.Range
	for _, one := range ranges {
		if both, ok := one.Intersect(r); ok {
			list = append(list, both)
		}
	}
	return list
}

// divided divides tasks at the bounds of a range, which a merge of partitions may have
// left inside of one.
func divided(list []task, at partitionkey.Range) []task {
	var out []task
	for _, t := range list {
		for _, bound := range []partitionkey.EPK{at.Min, at.Max} {
			if t.clip.Min.Compare(bound) < 0 && bound.Compare(t.clip.Max) < 0 {
				low := t
				low.clip.Max = bound
				low.asked = low.clip
				out = append(out, low)
				t.clip.Min = bound
				t.asked = t.clip
			}
		}
		out = append(out, t)
	}
	return out
}

// whereabouts returns the first of the streams in a range, or after it if none is, and
// how many of them are in it. Streams are in the order of their ranges.
func whereabouts(streams []stream, at partitionkey.Range) (first, n int) {
	for _, s := range streams {
		switch {
		case s.clip.Max.Compare(at.Min) <= 0:
			first++
		case s.clip.Min.Compare(at.Max) < 0:
			n++
		}
	}
	return first, n
}
