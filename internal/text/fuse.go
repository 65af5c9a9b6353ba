package text

import (
	"cmp"
	"math"
	"slices"
)

// fusion is the constant of reciprocal rank fusion. The SDKs use the same.
const fusion = 60

// Scored is a document, identified by a number of its owner, and a score.
type Scored struct {
	Document int
	Score    float64
}

// Component is one scorer of an RRF and its scores.
type Component struct {
	// Scores holds each document at most once, in any order. A missing document
	// gets nothing from this component. NaN is the worst score.
	Scores []Scored
	// Ascending means that a smaller score is better, as for a distance.
	Ascending bool
	// Weight is the weight of the component. A negative weight reverses its
	// order and counts as much as the positive one.
	Weight float64
}

// Fuse ranks the documents of all components by the sum of weight / (60 + rank),
// best first; equal documents are ordered by their number. The best document of
// a component has rank 1. Documents with equal scores share a rank, and the next
// one has the next rank (1, 2, 2, 3), as in the SDKs for JavaScript and Python.
// Fuse does not change the components.
func Fuse(components []Component) []Scored {
	sums := map[int]float64{}
	for _, c := range components {
		ranked := slices.Clone(c.Scores)
		ascending := c.Ascending != (c.Weight < 0)
		slices.SortFunc(ranked, func(a, b Scored) int { return before(a, b, ascending) })
		rank := 1
		for i, s := range ranked {
			if i > 0 && !same(s.Score, ranked[i-1].Score) {
				rank++
			}
			sums[s.Document] += math.Abs(c.Weight) / float64(fusion+rank)
		}
	}
	fused := make([]Scored, 0, len(sums))
	for document, sum := range sums {
		fused = append(fused, Scored{document, sum})
	}
	slices.SortFunc(fused, func(a, b Scored) int { return before(a, b, false) })
	return fused
}

// before orders the better score first and NaN last; equal scores are ordered by
// number.
func before(a, b Scored, ascending bool) int {
	if same(a.Score, b.Score) {
		return cmp.Compare(a.Document, b.Document)
	}
	switch {
	case math.IsNaN(a.Score):
		return 1
	case math.IsNaN(b.Score):
		return -1
	case (a.Score < b.Score) == ascending:
		return -1
	}
	return 1
}

func same(a, b float64) bool {
	return a == b || math.IsNaN(a) && math.IsNaN(b)
}
