package simulate

import (
	"cmp"
	"slices"

	"github.com/decandb/decan/internal/placement"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/partitionkey"
)

// group is one logical partition of the sample.
type group struct {
	epk   partitionkey.EPK
	name  string
	bytes float64 // in the container
	work  float64 // share of the writes and point reads
}

// part is a physical partition of the simulated container.
type part struct {
	r        partitionkey.Range
	from, to int // of the sorted groups
	bytes    float64
	work     float64

	// pieces is the number of physical partitions that it stands for: more than one if
	// it has more keys than the sample shows, and more bytes than one can have.
	pieces int
	closed bool // one full key owns all data
}

// container is a simulated container.
type container struct {
	key    partitionkey.Definition
	groups []group // by EPK
	parts  []part  // by range
	keys   float64 // full keys in the container for one of the sample
	places []place // of the documents of the sample, see simulation.places
}

// arrange lays the data out on physical partitions: those of a new container with the
// throughput, and the splits that a server would make (placement.Splits) while the data
// comes. The groups are in the order of their EPKs, and each has factor times its bytes.
func (x *simulation) arrange(key partitionkey.Definition, groups []group, keys float64, throughput int, factor float64) *container {
	c := &container{key: key, groups: slices.Clone(groups), keys: keys}
	for i := range c.groups {
		c.groups[i].bytes *= factor
	}
	for _, r := range key.Divide(x.Limits.PartitionsFor(resource.Throughput{Manual: throughput})) {
		c.parts = append(c.parts, c.part(r))
	}
	limits := placement.Limits{Bytes: x.Limits.PhysicalPartitionBytes, Throughput: x.Limits.PartitionRUs}
	for {
		state := placement.Container{Throughput: throughput}
		for i, p := range c.parts {
			state.Partitions = append(state.Partitions, placement.Partition{
				ID: resource.PartitionID(i), Bytes: int64(p.bytes), Whole: p.closed, Indivisible: p.closed,
			})
		}
		splits := placement.Splits(state, limits)
		if len(splits) == 0 {
			break
		}
		slices.SortFunc(splits, func(a, b placement.Split) int { return cmp.Compare(b.ID, a.ID) })
		for _, s := range splits {
			c.split(int(s.ID))
		}
	}
	for i := range c.parts {
		p := &c.parts[i]
		if p.pieces = 1; c.keys > 1 && p.to > p.from {
			p.pieces = max(1, int(p.bytes/float64(limits.Bytes)+0.999999))
		}
	}
	return c
}

// part returns the partition with a range.
func (c *container) part(r partitionkey.Range) part {
	at := func(e partitionkey.EPK) int {
		n, _ := slices.BinarySearchFunc(c.groups, e, func(g group, e partitionkey.EPK) int { return g.epk.Compare(e) })
		return n
	}
	p := part{r: r, from: at(r.Min), to: at(r.Max)}
	for _, g := range c.groups[p.from:p.to] {
		p.bytes += g.bytes
		p.work += g.work
	}
	return p
}

// split replaces a partition with two that have half of the bytes each, as near as whole
// logical partitions allow (S37), or the halves of its range if it is empty. A partition
// that cannot be divided is closed.
func (c *container) split(i int) {
	p := &c.parts[i]
	var at partitionkey.EPK
	if p.from == p.to {
		at = c.key.Middle(p.r)
	} else {
		var sum, best float64
		best = -1
		for g := p.from; g < p.to; g++ {
			if g > p.from && c.groups[g].epk.Compare(c.groups[g-1].epk) != 0 {
				off := max(p.bytes-2*sum, 2*sum-p.bytes)
				if best < 0 || off < best {
					best, at = off, c.groups[g].epk
				}
			}
			sum += c.groups[g].bytes
		}
	}
	if at.Compare(p.r.Min) <= 0 || at.Compare(p.r.Max) >= 0 {
		p.closed = true
		return
	}
	low, high := c.part(partitionkey.Range{Min: p.r.Min, Max: at}), c.part(partitionkey.Range{Min: at, Max: p.r.Max})
	c.parts = slices.Replace(c.parts, i, i+1, low, high)
}

// count returns the number of physical partitions.
func (c *container) count() int {
	n := 0
	for _, p := range c.parts {
		n += p.pieces
	}
	return n
}

// active returns how many have documents.
func (c *container) active() int {
	n := 0
	for _, p := range c.parts {
		if p.to > p.from {
			n += p.pieces
		}
	}
	return n
}

// Skew is how unevenly something is divided: 1 and 0 if it is even.
type Skew struct {
	MaxToMean float64 `json:"maxToMean"`
	Gini      float64 `json:"gini"` // 0: all have the same; near 1: one has all
}

func skewOf(shares []float64) Skew {
	n := len(shares)
	if n == 0 {
		return Skew{MaxToMean: 1}
	}
	sorted := slices.Sorted(slices.Values(shares))
	var sum, weighted float64
	for i, v := range sorted {
		sum += v
		weighted += float64(i+1) * v
	}
	if sum == 0 {
		return Skew{MaxToMean: 1}
	}
	return Skew{
		MaxToMean: sorted[n-1] / (sum / float64(n)),
		Gini:      max(0, 2*weighted/(float64(n)*sum)-float64(n+1)/float64(n)),
	}
}

// over returns the skew of a figure of the physical partitions.
func (c *container) over(figure func(part) float64) Skew {
	var shares []float64
	for _, p := range c.parts {
		for range p.pieces {
			shares = append(shares, figure(p)/float64(p.pieces))
		}
	}
	return skewOf(shares)
}
