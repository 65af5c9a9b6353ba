// Package placement decides which physical partitions to split and which to
// merge. It decides and never acts: every function is a pure one of what it is
// told, so that a server and a simulator get the same answers.
//
// Learn [Splits] first: what a container needs now. [Merges] says what a merge
// on command would join. Who acts on the answers must check them again, because
// the container goes on meanwhile.
//
// # Invariants
//
// The same container and limits give the same answer.
// A partition is named at most once in an answer, and never one that is busy.
// Applying the answers of [Splits] again and again comes to an end: partitions
// that cannot be divided are left alone.
//
// Absent: where a split cuts is the partition's to say, which knows its stored
// bytes; moving partitions between machines.
//
// Page: docs/placement.md
package placement

import (
	"cmp"
	"slices"

	"github.com/decandb/decan/internal/resource"
)

// Partition is what a decision needs to know of one physical partition.
type Partition struct {
	ID resource.PartitionID

	// Bytes is the size of the documents, as the storage limit counts it.
	Bytes int64

	// Throughput is the RU/s that the partition is to have, when a custom
	// distribution gives it a share of its own; zero for an even one.
	Throughput int

	// Whole says that one full key owns everything, so that no cut makes it
	// smaller. For more throughput it is divided when nothing else is left.
	Whole bool

	// Busy says that the partition is being split, merged or built. It is left
	// alone.
	Busy bool
}

// Container is a container's partitions in the order of their ranges.
type Container struct {
	Partitions []Partition

	// Throughput is the RU/s provisioned for the container, the maximum under
	// autoscale; zero when nothing is provisioned.
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
	Storage      Reason = "storage"      // more bytes than one partition may hold
	Distribution Reason = "distribution" // a share above what one partition can serve
	Throughput   Reason = "throughput"   // the container's throughput needs more partitions
)

// Split is one decision.
type Split struct {
	ID     resource.PartitionID
	Reason Reason
}

// Splits returns the partitions to split now, the most urgent first: those above
// the storage limit, those that have been given more throughput than one can
// serve, and as many as the container's throughput needs besides. For the last,
// the partitions with the most stored bytes come first, then those with the
// lowest id: the service names no order (partition-management, section 2).
//
// Children are not judged before they are there, so a container that needs many
// more partitions gets them in rounds, each at most doubling their number.
func Splits(c Container, l Limits) []Split {
	var splits []Split
	chosen := map[resource.PartitionID]bool{}
	choose := func(p Partition, because Reason) {
		if !p.Busy && !chosen[p.ID] {
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

// last is 1 for a partition that is divided only when nothing else is left.
func last(p Partition) int {
	if p.Whole {
		return 1
	}
	return 0
}

// busy returns how many partitions will be two soon.
func busy(c Container) int {
	n := 0
	for _, p := range c.Partitions {
		if p.Busy {
			n++
		}
	}
	return n
}

// Needed returns how many physical partitions a throughput in RU/s needs, at
// least one.
func Needed(throughput int, l Limits) int {
	return max(1, (throughput+l.Throughput-1)/l.Throughput)
}

// Merge is one decision: two neighbours that become one.
type Merge struct {
	Low, High resource.PartitionID
}

// mergeFill is how full a merged partition may be, as a share of its storage
// limit, so that it is not split again soon.
const mergeFill = 0.8

// Merges returns the neighbours to join so that the container comes near the
// fewest partitions that its throughput needs and its bytes fit into: pairs that
// do not overlap, those with an empty partition first (S111) and then the smallest
// together. Applying it again and again comes to an end, with no pair left that
// fits.
//
// A pair fits when both are idle, when together they fill at most four fifths of
// the storage limit or one of them is empty, and when the container keeps enough
// partitions for its throughput.
func Merges(c Container, l Limits) []Merge {
	spare := len(c.Partitions) - Needed(c.Throughput, l)
	type pair struct {
		low   int
		bytes int64
		full  int // 0 with an empty partition
	}
	var pairs []pair
	for i := 0; i+1 < len(c.Partitions); i++ {
		a, b := c.Partitions[i], c.Partitions[i+1]
		together, full := a.Bytes+b.Bytes, int(min(a.Bytes, b.Bytes, 1))
		most := l.Bytes // An empty one makes the other no fuller.
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
