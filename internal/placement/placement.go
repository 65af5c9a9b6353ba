// Package placement decides which physical partitions to split and which to
// merge. It decides and never acts: every function is pure, so that a server and
// a simulator get the same answers.
//
// Begin with [Splits]: the splits that a container needs now. [Merges] lists the
// merges that a merge on command would make. The caller must check an answer
// again before it acts, because the container changes in the meantime.
//
// # Invariants
//
// The same container and limits give the same answer. An answer names a
// partition at most once, and never a busy one. Applying the answers of [Splits]
// repeatedly comes to an end: partitions that cannot be divided are not named.
//
// Not here: where a split cuts, which only the partition knows from its stored
// bytes, and moves of partitions between machines.
//
// Page: docs/placement.md
package placement

import (
	"cmp"
	"slices"

	"github.com/decandb/decan/internal/resource"
)

// Partition is what a decision needs to know about one physical partition.
type Partition struct {
	ID resource.PartitionID

	// Bytes is the size of the documents, as the storage limit counts it.
	Bytes int64

	// Throughput is the RU/s of the partition if a custom distribution gives it
	// its own share; zero for an even distribution.
	Throughput int

	// Whole means that one full key owns all data, so a split does not make the
	// partition smaller. It is split for more throughput only if no other
	// partition is left.
	Whole bool

	// Busy means that the partition is being split, merged or built. It is not
	// named in answers, and [Splits] counts it as two.
	Busy bool

	// Indivisible means that not even the range of the partition can be divided.
	// [Splits] does not name it, and counts it as one.
	Indivisible bool
}

// Container holds a container's partitions in the order of their ranges.
type Container struct {
	Partitions []Partition

	// Throughput is the provisioned RU/s of the container, the maximum under
	// autoscale; zero if nothing is provisioned.
	Throughput int
}

// Limits are those of one physical partition. Both are positive.
type Limits struct {
	Bytes      int64 // of documents
	Throughput int   // RU/s
}

// Reason says why a partition is split.
type Reason string

// The reasons, as shown in logs and metrics.
const (
	Storage      Reason = "storage"      // more bytes than the limit of one partition
	Distribution Reason = "distribution" // a share above what one partition can serve
	Throughput   Reason = "throughput"   // the container's throughput needs more partitions
)

// Split is one decision.
type Split struct {
	ID     resource.PartitionID
	Reason Reason
}

// Splits returns the partitions to split now, most urgent first: those above the
// storage limit, those with a larger share of throughput than one partition can
// serve, and as many as the container's throughput additionally needs. For the
// last, partitions with more stored bytes come first, then those with the lower
// id: the service documents no order (partition-management, section 2).
//
// Children are considered only when they exist, so a container that needs many
// more partitions gets them in rounds, each at most doubling their number.
func Splits(c Container, l Limits) []Split {
	var splits []Split
	chosen := map[resource.PartitionID]bool{}
	choose := func(p Partition, because Reason) {
		if !p.Busy && !p.Indivisible && !chosen[p.ID] {
			chosen[p.ID] = true
			splits = append(splits, Split{ID: p.ID, Reason: because})
		}
	}
	bySize := slices.Clone(c.Partitions)
	slices.SortFunc(bySize, func(a, b Partition) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.ID, b.ID))
	})
	for _, p := range bySize {
		if p.Bytes > l.Bytes && !p.Whole {
			choose(p, Storage)
		}
	}
	for _, p := range bySize {
		if p.Throughput > l.Throughput {
			choose(p, Distribution)
		}
	}
	slices.SortStableFunc(bySize, func(a, b Partition) int { return cmp.Compare(last(a), last(b)) })
	missing := Needed(c.Throughput, l) - len(c.Partitions) - len(splits) - busy(c)
	for _, p := range bySize {
		if missing <= 0 {
			break
		}
		before := len(splits)
		choose(p, Throughput)
		missing -= len(splits) - before
	}
	return splits
}

// last returns 1 for a partition that is split only if no other is left.
func last(p Partition) int {
	if p.Whole {
		return 1
	}
	return 0
}

// busy returns how many partitions are being split.
func busy(c Container) int {
	n := 0
	for _, p := range c.Partitions {
		if p.Busy {
			n++
		}
	}
	return n
}

// Needed returns the number of physical partitions that a throughput in RU/s
// needs, at least one.
func Needed(throughput int, l Limits) int {
	return max(1, (throughput+l.Throughput-1)/l.Throughput)
}

// Merge is one decision: two adjacent partitions that become one.
type Merge struct {
	Low, High resource.PartitionID
}

// mergeFill is the maximum size of a merged partition as a fraction of its
// storage limit, so that it is not split again soon.
const mergeFill = 0.8

// Merges returns pairs of adjacent partitions to merge so that the container
// approaches the smallest number of partitions that its throughput needs and its
// bytes fit into. Pairs do not overlap; pairs with an empty partition come first
// (S111), then the smallest pairs. Applying it repeatedly comes to an end, with
// no pair left that fits.
//
// A pair fits if both are idle, if together they fill at most four fifths of the
// storage limit or one of them is empty, and if the container keeps enough
// partitions for its throughput.
func Merges(c Container, l Limits) []Merge {
	spare := len(c.Partitions) - Needed(c.Throughput, l)
	type pair struct {
		low   int
		bytes int64
		full  int // 0 if one of them is empty
	}
	var pairs []pair
	for i := 0; i+1 < len(c.Partitions); i++ {
		a, b := c.Partitions[i], c.Partitions[i+1]
		together, full := a.Bytes+b.Bytes, int(min(a.Bytes, b.Bytes, 1))
		most := l.Bytes // merging an empty partition adds no bytes
		if full > 0 {
			most = int64(mergeFill * float64(l.Bytes))
		}
		if a.Busy || b.Busy || together > most || a.Throughput+b.Throughput > l.Throughput {
			continue
		}
		pairs = append(pairs, pair{i, together, full})
	}
	slices.SortStableFunc(pairs, func(a, b pair) int { return cmp.Or(cmp.Compare(a.full, b.full), cmp.Compare(a.bytes, b.bytes)) })
	taken := map[int]bool{}
	var merges []Merge
	for _, p := range pairs {
		if len(merges) >= spare {
			break
		}
		if taken[p.low] || taken[p.low+1] {
			continue
		}
		taken[p.low], taken[p.low+1] = true, true
		merges = append(merges, Merge{Low: c.Partitions[p.low].ID, High: c.Partitions[p.low+1].ID})
	}
	return merges
}
