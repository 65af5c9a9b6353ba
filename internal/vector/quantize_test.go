package vector

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestCodeBytes pins codes, which are stored: a change needs a new Version.
func TestCodeBytes(t *testing.T) {
	for dimensions, want := range map[int]uint64{
		3: 0x70aeaa43100610c7, 100: 0x5c073314a48ce5fa, 768: 0xdfb1e4122ed73e55, 4096: 0xa209c763ed800a0a,
	} {
		random := rand.New(rand.NewPCG(1, 1))
		v := make([]float32, dimensions)
		for i := range v {
			v[i] = random.Float32() - 0.5
		}
		h := fnv.New64a()
		for m := range Metric(len(metricNames)) {
			for _, size := range []int{1, QuantizationDefault(dimensions)} {
				for _, center := range [][]float32{nil, slices.Repeat([]float32{0.25}, dimensions)} {
					q, _ := NewQuantizer(m, dimensions, size, center)
					code, ok := q.Append(nil, v)
					if !ok || len(code) != q.Size() {
						t.Fatalf("%d bytes, want %d", len(code), q.Size())
					}
					h.Write(code)
				}
			}
		}
		if got := h.Sum64(); got != want {
			t.Errorf("%d: %#x, want %#x", dimensions, got, want)
		}
	}
}

// TestRotation checks that lengths and angles are preserved in every number of
// dimensions, and that every coordinate changes.
func TestRotation(t *testing.T) {
	random := seeded(t)
	for dimensions := 1; dimensions <= 300; dimensions++ {
		r := newRotation(dimensions)
		a, b := normal(random, dimensions), normal(random, dimensions)
		product, length := dot(a, b), dot(a, a)
		r.apply(a)
		r.apply(b)
		if got := dot(a, a); math.Abs(got-length) > 1e-4*length {
			t.Errorf("%d dimensions: squared length %g, was %g", dimensions, got, length)
		}
		if got := dot(a, b); math.Abs(got-product) > 1e-4*(length+dot(b, b)) {
			t.Errorf("%d dimensions: dot product %g, was %g", dimensions, got, product)
		}
		axis := make([]float32, dimensions)
		axis[random.IntN(dimensions)] = 1
		r.apply(axis)
		largest := 0.0
		for _, x := range axis {
			largest = max(largest, math.Abs(float64(x)))
		}
		if dimensions >= 64 && largest > 0.75 {
			t.Errorf("%d dimensions: an axis keeps %.2f in one coordinate", dimensions, largest)
		}
	}
}

// TestEstimatesAreRightOnAverage compares estimates with scores. The number of
// bits bounds the error of one estimate; the error of the mean is much less.
func TestEstimatesAreRightOnAverage(t *testing.T) {
	random := seeded(t)
	const dimensions, n = 256, 2000
	spread := [bitsMax + 1]float64{1: 0.06, 2: 0.03, 3: 0.017, 4: 0.01}
	for bits := 1; bits <= bitsMax; bits++ {
		q, _ := NewQuantizer(Cosine, dimensions, bits*dimensions/8, nil)
		sum, squares := 0.0, 0.0
		for range n {
			a, b := normal(random, dimensions), normal(random, dimensions)
			for i := range b {
				b[i] += a[i] / 2 // so that there is something to find
			}
			code, _ := q.Append(nil, a)
			e, _ := q.Query(b)
			wrong := e.Score(code) - Cosine.Score(a, b)
			sum += wrong
			squares += wrong * wrong
		}
		if deviation := math.Sqrt(squares / n); deviation > spread[bits] {
			t.Errorf("%d bits: standard deviation %.4f, want at most %.4f", bits, deviation, spread[bits])
		}
		if mean := math.Abs(sum / n); mean > spread[bits]/8 {
			t.Errorf("%d bits: %.4f off on average", bits, mean)
		}
	}
}

// TestEstimatesOfEachMetric checks the three formulas, with and without a
// center, on vectors that are not centered.
func TestEstimatesOfEachMetric(t *testing.T) {
	random := seeded(t)
	const dimensions = 512
	for m, allowed := range map[Metric]float64{Cosine: 0.03, DotProduct: 25, Euclidean: 0.7} {
		center := NewCenter(m, dimensions)
		draw := func() []float32 {
			v := normal(random, dimensions)
			for i := range v {
				v[i] += float32(i%3) / 2
			}
			return v
		}
		for range 200 {
			center.Add(draw())
		}
		for _, c := range [][]float32{nil, center.Mean()} {
			q, ok := NewQuantizer(m, dimensions, QuantizationDefault(dimensions), c)
			if !ok || q.Dimensions() != dimensions {
				t.Fatal("no quantizer")
			}
			for range 50 {
				a, b := draw(), draw()
				code, _ := q.Append(nil, a)
				e, _ := q.Query(b)
				if got, want := e.Score(code), m.Score(a, b); math.Abs(got-want) > allowed {
					t.Errorf("%s, center %t: about %g, exactly %g", m, c != nil, got, want)
				}
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	q, _ := NewQuantizer(Cosine, 3, 1, nil)
	e, _ := q.Query([]float32{1, 2, 3})
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	center := NewCenter(Cosine, 3)
	for _, v := range [][]float32{nil, {1, 2}, {1, 2, 3, 4}, {1, inf, 3}, {nan, 2, 3}} {
		if code, ok := q.Append([]byte{7}, v); ok || len(code) != 1 {
			t.Errorf("%v has the code %x", v, code)
		}
		if _, ok := q.Query(v); ok {
			t.Errorf("%v is a query", v)
		}
		if center.Add(v) {
			t.Errorf("%v is in the center", v)
		}
	}
	if center.Mean() != nil {
		t.Error("no vectors have a mean")
	}
	code, _ := q.Append(nil, []float32{1, 2, 3})
	for _, wrong := range [][]byte{nil, code[:len(code)-1], append(slices.Clone(code), 0)} {
		if score := e.Score(wrong); !math.IsNaN(score) {
			t.Errorf("%d bytes score %g", len(wrong), score)
		}
	}
}

func TestCenter(t *testing.T) {
	for m, want := range map[Metric][]float32{DotProduct: {2, 1}, Euclidean: {2, 1}, Cosine: {0.5, 0.5}} {
		c := NewCenter(m, 2)
		c.Add([]float32{4, 0})
		c.Add([]float32{0, 2})
		if got := c.Mean(); !slices.Equal(got, want) {
			t.Errorf("%s: mean %v, want %v", m, got, want)
		}
	}
}

// FuzzQuantizer makes codes of arbitrary vectors, and scores arbitrary bytes as
// codes.
func FuzzQuantizer(f *testing.F) {
	f.Add([]byte{0, 0, 0x80, 0x3F, 0, 0, 0, 0x40}, []byte("0123456789"), uint8(0), uint16(3), true)
	f.Add([]byte{0xFF, 0xFF, 0x7F, 0x7F, 1, 0, 0, 0}, []byte{}, uint8(2), uint16(1), false)
	f.Fuzz(func(t *testing.T, raw, code []byte, metric uint8, size uint16, centered bool) {
		v, ok := DecodeVector(nil, Float32, raw)
		if !ok || len(v) > 300 {
			return
		}
		var center []float32
		if centered {
			center = v
		}
		q, ok := NewQuantizer(Metric(metric%3), len(v), int(size), center)
		if wantOK := len(v) > 0 && size >= 1 && size <= QuantizationMax; ok != wantOK {
			t.Fatalf("%d dimensions, %d bytes: %t", len(v), size, ok)
		}
		if !ok {
			return
		}
		if q.Size() > headerSize+int(size) {
			t.Fatalf("codes of %d bytes, %d were given", q.Size(), size)
		}
		e, _ := q.Query(v)
		e.Score(code)
		own, ok := q.Append(nil, v)
		if !ok || len(own) != q.Size() {
			t.Fatalf("%v has the code %x", v, own)
		}
		for _, half := range [][]byte{own[:4], own[4:8]} {
			if x := math.Float32frombits(binary.LittleEndian.Uint32(half)); !finite(x) {
				t.Fatalf("%v has the code %x", v, own)
			}
		}
		if score := e.Score(own); math.IsNaN(score) {
			t.Fatalf("%v scores %g against itself", v, score)
		}
	})
}

// recallSet is a data set for recall: 10,000 vectors, and queries from the same
// distribution.
type recallSet struct {
	vectors, queries [][]float32
}

// clusters are 100 normally distributed centers with normal points around them
// at half that distance. uniform are independent coordinates from 0 to 1, which
// are all on one side of the origin and have no structure: the hardest case.
var recallSets = map[string]func(random *rand.Rand, dimensions int) func() []float32{
	"clusters": func(random *rand.Rand, dimensions int) func() []float32 {
		centers := make([][]float32, 100)
		for i := range centers {
			centers[i] = normal(random, dimensions)
		}
		return func() []float32 {
			v := normal(random, dimensions)
			for i, c := range centers[random.IntN(len(centers))] {
				v[i] = c + v[i]/2
			}
			return v
		}
	},
	"uniform": func(random *rand.Rand, dimensions int) func() []float32 {
		return func() []float32 {
			v := make([]float32, dimensions)
			for i := range v {
				v[i] = random.Float32()
			}
			return v
		}
	},
}

func drawRecallSet(name string, dimensions int, random *rand.Rand) recallSet {
	draw := recallSets[name](random, dimensions)
	n, queries := 10_000, 30
	if raceDetector {
		n, queries = 2_000, 10
	}
	s := recallSet{vectors: make([][]float32, n), queries: make([][]float32, queries)}
	for i := range s.vectors {
		s.vectors[i] = draw()
	}
	for i := range s.queries {
		s.queries[i] = draw()
	}
	return s
}

const (
	recallK = 10
	// recallCandidates is k times the default searchListSizeMultiplier.
	recallCandidates = 5 * recallK
)

// center returns the center of the vectors, or nil.
func (s recallSet) center(m Metric, wanted bool) []float32 {
	if !wanted {
		return nil
	}
	sum := NewCenter(m, len(s.vectors[0]))
	for _, v := range s.vectors {
		sum.Add(v)
	}
	return sum.Mean()
}

// exact returns the best results of each query.
func (s recallSet) exact(m Metric) [][]Scored {
	best := make([][]Scored, len(s.queries))
	top := NewTopK(m, recallK)
	for i, query := range s.queries {
		top.Reset()
		scorer := m.Scorer(query)
		for id, v := range s.vectors {
			top.Push(uint64(id), scorer.Score(v))
		}
		best[i] = top.Append(nil)
	}
	return best
}

// recall returns the fraction of the exact best results that is found by scoring
// the best candidates again.
func (s recallSet) recall(m Metric, q *Quantizer, best [][]Scored) float64 {
	var codes []byte
	for _, v := range s.vectors {
		codes, _ = q.Append(codes, v)
	}
	near, top := NewTopK(m, recallCandidates), NewTopK(m, recallK)
	found := 0
	for i, query := range s.queries {
		near.Reset()
		top.Reset()
		e, _ := q.Query(query)
		for id := range s.vectors {
			near.Push(uint64(id), e.Score(codes[id*q.Size():(id+1)*q.Size()]))
		}
		scorer := m.Scorer(query)
		for _, candidate := range near.Append(nil) {
			top.Push(candidate.ID, scorer.Score(s.vectors[candidate.ID]))
		}
		for _, s := range top.Append(nil) {
			if slices.Contains(best[i], s) {
				found++
			}
		}
	}
	return float64(found) / float64(recallK*len(s.queries))
}

// TestRecall checks the figures of docs/vector.md; -v prints them. With the race
// detector it uses fewer vectors, of which more are found.
func TestRecall(t *testing.T) {
	type code struct {
		bits     int
		centered bool
		want     float64
	}
	clusters := []code{{4, false, 0.99}, {2, false, 0.93}, {1, false, 0.80}}
	uniform := []code{{4, true, 0.99}, {4, false, 0.95}, {2, true, 0.88}, {1, true, 0.50}}
	for _, c := range []struct {
		set        string
		dimensions int
		metric     Metric
		codes      []code
	}{
		{"clusters", 128, Cosine, clusters},
		{"clusters", 768, Cosine, clusters},
		{"uniform", 128, Euclidean, uniform},
		{"uniform", 768, Euclidean, uniform},
	} {
		t.Run(fmt.Sprintf("%s/dimensions=%d/metric=%s", c.set, c.dimensions, c.metric), func(t *testing.T) {
			t.Parallel()
			const seed = 2026
			s := drawRecallSet(c.set, c.dimensions, rand.New(rand.NewPCG(seed, uint64(c.dimensions))))
			best := s.exact(c.metric)
			for _, code := range c.codes {
				q, ok := NewQuantizer(c.metric, c.dimensions, code.bits*c.dimensions/8, s.center(c.metric, code.centered))
				if !ok {
					t.Fatal("no quantizer")
				}
				got := s.recall(c.metric, q, best)
				t.Logf("seed %d, %d bits, center %t: recall@%d %.3f from %d candidates",
					seed, code.bits, code.centered, recallK, got, recallCandidates)
				if got < code.want {
					t.Errorf("%d bits, center %t: recall %.3f, want at least %.3f", code.bits, code.centered, got, code.want)
				}
			}
		})
	}
}
