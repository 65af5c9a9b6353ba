// Package vector compares vectors: their metrics, their stored forms, a
// quantizer for an index that scans many of them, and the best k results of a
// scan. The function VectorDistance and the vector indexes use it.
//
// The types to know, in this order: [Metric] (what similar means), [Element]
// (how a vector is stored), [Quantizer] and [Estimator] (short codes and
// approximate scores), [TopK] (the best of a scan).
//
// # Invariants
//
//   - A parsed vector has at least one element, and all are finite.
//   - ParseJSON takes the texts that value.Parse and Parse take together, and
//     makes the same vector of them.
//   - A code depends on the vector, its dimensions and the code size alone, so
//     it may be stored: see [Version]. Its bytes and all scores are the same on
//     every machine.
//
// The package knows nothing about documents, paths, policies or queries, and
// keeps no state.
//
// Page: docs/vector.md.
package vector

import (
	"math"
	"strings"
)

// Version increases when a release makes other codes of some vector than the
// previous one, so that an index knows that it must be rebuilt.
const Version = 1

// Limits of the service. The flat index has a lower one for dimensions, which
// the policy checks.
const (
	// DimensionsMax is the maximum number of elements of an indexed vector.
	DimensionsMax = 4096
	// QuantizationMax is the largest quantizationByteSize.
	QuantizationMax = 512
)

// Metric is a measure of similarity between two vectors.
type Metric uint8

// The metrics, as named in a vector policy.
const (
	// Cosine is the cosine of the angle, -1 to 1; 0 if one vector is zero.
	Cosine Metric = iota
	// DotProduct is the sum of products.
	DotProduct
	// Euclidean is the distance; smaller is more similar.
	Euclidean
)

var metricNames = [...]string{Cosine: "cosine", DotProduct: "dotproduct", Euclidean: "euclidean"}

// ParseMetric returns the metric with that name, in any letter case.
func ParseMetric(name string) (Metric, bool) {
	for i, known := range metricNames {
		if strings.EqualFold(name, known) {
			return Metric(i), true
		}
	}
	return 0, false
}

// String returns the name of the metric as policies write it.
func (m Metric) String() string {
	if int(m) < len(metricNames) {
		return metricNames[m]
	}
	return "unknown metric"
}

// Better reports whether score a is more similar than score b. NaN is less
// similar than every number.
func (m Metric) Better(a, b float64) bool {
	if m == Euclidean {
		a, b = -a, -b
	}
	return a > b || math.IsNaN(b) && !math.IsNaN(a)
}

// Score compares two vectors of the same length, with sums in float64. It is NaN
// if the lengths differ.
func (m Metric) Score(a, b []float32) float64 {
	if len(a) != len(b) {
		return math.NaN()
	}
	switch m {
	case DotProduct:
		return dot(a, b)
	case Euclidean:
		return math.Sqrt(squaredDistance(a, b))
	}
	_, left := productAndSquares(a, a)
	product, right := productAndSquares(a, b)
	return cosine(product, left, right)
}

// Scorer compares many vectors with one query. It is faster than [Metric.Score]
// and returns exactly the same scores. It is immutable.
type Scorer struct {
	metric  Metric
	query   []float64
	squares float64
}

// Scorer returns the scorer for a query. It copies the query.
func (m Metric) Scorer(query []float32) *Scorer {
	s := &Scorer{metric: m, query: make([]float64, len(query))}
	for i, x := range query {
		s.query[i] = float64(x)
	}
	_, s.squares = productAndSquares(query, query)
	return s
}

// Score returns the score of v for the query, NaN if the lengths differ.
func (s *Scorer) Score(v []float32) float64 {
	if len(v) != len(s.query) {
		return math.NaN()
	}
	switch s.metric {
	case DotProduct:
		return dot(s.query, v)
	case Euclidean:
		return math.Sqrt(squaredDistance(s.query, v))
	}
	product, right := productAndSquares(s.query, v)
	return cosine(product, s.squares, right)
}

// cosine computes the cosine from a dot product and two squared lengths. It
// clips the result, which rounding may move out of bounds.
func cosine(product, left, right float64) float64 {
	if left == 0 || right == 0 {
		return 0
	}
	return max(-1, min(1, product/math.Sqrt(left*right)))
}

// The sums below have several parts so that an addition need not wait for the
// previous one, and use loops in which the compiler can remove bounds checks.
// The first vector may be converted to float64 already, because conversion is
// most of the work. Products of two float32 are exact in float64, so it does not
// matter whether a machine fuses multiplication and addition; that of a
// difference is rounded explicitly.

func dot[F float32 | float64](a []F, b []float32) float64 {
	var s0, s1, s2, s3 float64
	b = b[:len(a)]
	i := 0
	for ; i < len(a)-3; i += 4 {
		s0 += float64(a[i]) * float64(b[i])
		s1 += float64(a[i+1]) * float64(b[i+1])
		s2 += float64(a[i+2]) * float64(b[i+2])
		s3 += float64(a[i+3]) * float64(b[i+3])
	}
	for ; i < len(a); i++ {
		s0 += float64(a[i]) * float64(b[i])
	}
	return (s0 + s1) + (s2 + s3)
}

func squaredDistance[F float32 | float64](a []F, b []float32) float64 {
	var s0, s1, s2, s3 float64
	b = b[:len(a)]
	i := 0
	for ; i < len(a)-3; i += 4 {
		d0, d1 := float64(a[i])-float64(b[i]), float64(a[i+1])-float64(b[i+1])
		d2, d3 := float64(a[i+2])-float64(b[i+2]), float64(a[i+3])-float64(b[i+3])
		s0 += float64(d0 * d0)
		s1 += float64(d1 * d1)
		s2 += float64(d2 * d2)
		s3 += float64(d3 * d3)
	}
	for ; i < len(a); i++ {
		d := float64(a[i]) - float64(b[i])
		s0 += float64(d * d)
	}
	return (s0 + s1) + (s2 + s3)
}

// productAndSquares returns the dot product and the squared length of b.
func productAndSquares[F float32 | float64](a []F, b []float32) (product, squares float64) {
	var p0, p1, s0, s1 float64
	b = b[:len(a)]
	i := 0
	for ; i < len(a)-1; i += 2 {
		y0, y1 := float64(b[i]), float64(b[i+1])
		p0 += float64(a[i]) * y0
		s0 += y0 * y0
		p1 += float64(a[i+1]) * y1
		s1 += y1 * y1
	}
	for ; i < len(a); i++ {
		y := float64(b[i])
		p0 += float64(a[i]) * y
		s0 += y * y
	}
	return p0 + p1, s0 + s1
}
