package engine

import (
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/partitionkey"
)

// scope is where a query looks: the part of the key space that the request
// allows and the filter needs.
type scope struct {
	// ranges are sorted and disjoint, never empty, and all inside of what the
	// request names.
	ranges []partitionkey.Range

	// pinned: one logical partition, or one physical partition that the client
	// named. What such a query needs merged is merged in that partition.
	pinned bool

	// prefix: the request gave a part of a hierarchical key.
	prefix bool

	// whole: the request gave a whole key, so there is one range, that of the key.
	whole bool
}

// key returns what the whole key of the request hashes to, "" without one.
func (s scope) key() partitionkey.EPK {
	if !s.whole {
		return ""
	}
	return s.ranges[0].Min
}

// scopeOf combines what the request names with what the filter allows.
func scopeOf(c *catalog.Container, req *QueryRequest, plan *query.Plan) (scope, error) {
	s, base, err := named(c, req)
	if err != nil {
		return s, err
	}
	ranges := plan.Ranges(c.PartitionKey)
	s.ranges = within(ranges, base)
	if len(s.ranges) == 0 {
		// The filter contradicts itself or the key. One partition is asked all
		// the same, because the answer has a charge and a session token.
		first := c.Ranges.Overlapping(base)[0].Range
		r, _ := first.Intersect(base)
		s.ranges = []partitionkey.Range{r}
		s.pinned = true
	}
	// A filter that leaves out no key fixes none, and is not asked again.
	s.pinned = s.pinned || !(len(ranges) == 1 && ranges[0] == partitionkey.Full()) && plan.Pinned(c.PartitionKey)
	return s, nil
}

// named returns the range that key, partition and clip of the request name.
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
		s.pinned, s.whole, s.prefix = full, full, !full && key.Len() > 0
	}
	if req.Partition != nil {
		p, ok := c.Partition(*req.Partition)
		if !ok {
			return s, base, status.PartitionMoved(status.SubRangeGone)
		}
		// Some clients hash some keys wrongly, so a partition or a range that
		// comes with a whole key is not to be trusted.
		if !full {
			s.pinned = true
			if base, ok = base.Intersect(p.Range); !ok {
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
	return s, base, nil
}

// outside is the error of a clip that has nothing in common with the rest of
// the scope.
func outside(clip partitionkey.Range, partition *resource.PartitionID) error {
	if clip.Empty() {
		return status.BadRequest("The range of effective partition keys %v is empty.", clip)
	}
	if partition != nil {
		// The client believes that the partition owns it.
		return status.PartitionMoved(status.SubRangeGone)
	}
	return status.BadRequest("The range of effective partition keys %v has nothing in common with the partition key of the request.", clip)
}

// isPoint reports whether a range holds exactly one whole key.
func isPoint(d partitionkey.Definition, r partitionkey.Range) bool {
	return r.Min != partitionkey.MinEPK && d.Successor(r.Min).Compare(r.Max) == 0
}

// task is one partition's share of a scope.
type task struct {
	partition resource.Partition

	// clip is the part of the partition's range that the scope covers: the span
	// from the first of its ranges to the last. The filter, which the ranges
	// come from, does the rest.
	clip partitionkey.Range

	// asked is clip, or the one range of the scope that clip was cut from: a
	// partition recognizes the range of a key prefix.
	asked partitionkey.Range
}

// tasks returns the partitions that hold ranges, in range order.
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

// several reports whether more than one partition holds ranges, which are sorted.
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

// within cuts sorted ranges to r.
func within(ranges []partitionkey.Range, r partitionkey.Range) []partitionkey.Range {
	var list []partitionkey.Range
	for _, one := range ranges {
		if both, ok := one.Intersect(r); ok {
			list = append(list, both)
		}
	}
	return list
}
