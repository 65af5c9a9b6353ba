package simulate

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/decandb/decan/partitionkey"
)

const (
	// considered is how many properties proposals are made of.
	considered = 5
	// manyValues is the number of distinct values from which a level has a high
	// cardinality: "at least thousands" (S25).
	manyValues = 1000
	// missingMost is the share of documents that may lack a proposed level.
	missingMost = 0.5
)

// propose returns candidates: every order of one to three of the properties that queries
// ask for most and that have the most values.
func (x *simulation) propose() [][]string {
	list := slices.DeleteFunc(slices.Clone(x.properties), func(p Property) bool { return p.Values < 2 || p.Missing > missingMost })
	slices.SortStableFunc(list, func(a, b Property) int {
		return cmp.Or(cmp.Compare(b.Asked, a.Asked), cmp.Compare(b.Values, a.Values), cmp.Compare(a.Missing, b.Missing))
	})
	if len(list) == 0 {
		return nil
	}
	chosen := list[:min(len(list), considered)]
	// The property with the most values can make any key fine enough (S59).
	if best := x.finest(); best != "" && !slices.ContainsFunc(chosen, func(p Property) bool { return p.Path == best }) {
		chosen[len(chosen)-1] = x.propertyAt(best)
	}
	var candidates [][]string
	var extend func(paths []string)
	extend = func(paths []string) {
		if len(paths) > 0 {
			candidates = append(candidates, slices.Clone(paths))
		}
		if len(paths) == partitionkey.LevelsMax || x.Table && len(paths) == 1 {
			return
		}
		for _, p := range chosen {
			if slices.Contains(paths, p.Path) {
				continue
			}
			// A level below one that is unique divides nothing.
			if len(paths) > 0 && x.propertyAt(paths[len(paths)-1]).unique {
				continue
			}
			extend(append(slices.Clone(paths), p.Path))
		}
	}
	extend(nil)
	return candidates
}

// ask sets the share of the queries that a key of each property alone would route.
func (x *simulation) ask() {
	var runs float64
	for _, q := range x.queries {
		runs += q.PerSecond
	}
	for i := range x.properties {
		p := &x.properties[i]
		c, err := containerOf([]string{p.Path})
		if err != nil || runs == 0 {
			continue
		}
		for _, q := range x.queries {
			ranges := q.plans[0].plan.Ranges(c.PartitionKey)
			if len(ranges) != 1 || !ranges[0].Equal(partitionkey.Full()) {
				p.Asked += q.PerSecond / runs
			}
		}
	}
}

// finest returns the path with the most values, /id if several have as many (S60).
func (x *simulation) finest() string {
	best := Property{}
	for _, p := range x.properties {
		if p.Missing > 0 {
			continue
		}
		if p.Values > best.Values || p.Values == best.Values && p.Path == "/id" {
			best = p
		}
	}
	return best.Path
}

func (x *simulation) propertyAt(path string) Property {
	for _, p := range x.properties {
		if p.Path == path {
			return p
		}
	}
	return Property{Path: path}
}

// grade orders reports.
type grade struct {
	full    bool    // a key passes its limit now
	soon    bool    // or at the first growth
	narrow  bool    // writes go to few partitions, and must be fast
	cost    float64 // RU/s, as many as the hottest partition needs in each
	levels  int
	single  float64 // share of the queries that ask a single partition
	largest int64
}

// rank sorts reports, best first: no full key, no target that is missed, then the least
// throughput, to a twentieth, then the fewest levels, the most queries of a single
// partition, to a twentieth, and the smallest keys.
func rank(list []Report) {
	truth := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	least := math.Inf(1)
	for _, r := range list {
		least = min(least, max(1, r.grade.cost))
	}
	steps := func(cost float64) int { // in twentieths, so that small differences count as none
		return int(math.Log(max(1, cost)/least) / math.Log(1.05))
	}
	slices.SortStableFunc(list, func(a, b Report) int {
		return cmp.Or(
			cmp.Compare(truth(a.grade.full), truth(b.grade.full)),
			cmp.Compare(truth(a.grade.narrow), truth(b.grade.narrow)),
			cmp.Compare(truth(a.grade.soon), truth(b.grade.soon)),
			cmp.Compare(steps(a.grade.cost), steps(b.grade.cost)),
			cmp.Compare(a.grade.levels, b.grade.levels),
			cmp.Compare(int(20*b.grade.single), int(20*a.grade.single)),
			cmp.Compare(a.grade.largest, b.grade.largest),
			cmp.Compare(strings.Join(a.Paths, ","), strings.Join(b.Paths, ",")),
		)
	})
}
