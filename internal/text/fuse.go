package text

import (
	"cmp"
	"math"
	"slices"
)

// fusion is the constant of reciprocal rank fusion, the one of the SDKs.
const fusion = 60

// Scored is a document, by a number its owner gave it, and a score.
type Scored struct {
	Document int
	Score    float64
}

// Component is one scorer of an RRF: what it thinks of the documents.
type Component struct {
	// Scores holds each document at most once, in any order. A document that
	// is missing gets nothing from this component. A NaN is the worst score.
	Scores []Scored
	// Ascending says that a smaller score is better, as for a distance.
	Ascending bool
	// Weight says how much the component counts. A negative one turns its order
	// around and counts as much as the positive one.
	Weight float64
}

// Fuse ranks the documents of all components by the sum of weight / (60 + rank),
// the best first and of equals the one with the smaller number. The best
// document of a component has rank 1; those with equal scores share a rank, and
// the next one has the next rank (1, 2, 2, 3), as in the SDKs for JavaScript and
// Python. It leaves the components as they are.
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

// before orders the better score first, NaN last, and equals by their number.
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
