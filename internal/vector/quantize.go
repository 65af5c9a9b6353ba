package vector

import (
	"encoding/binary"
	"math"
	"math/bits"
)

const (
	// headerSize is the size of the part of a code before its bits: two float32.
	headerSize = 8
	// bitsMax is the maximum number of bits per coordinate in a code. More bits
	// hardly change which candidates are found, but cost time.
	bitsMax = 4
	// queryBits is the number of bits per coordinate of a query, including the
	// sign.
	queryBits = 6
)

// Quantizer makes short codes of vectors, from which an [Estimator] estimates
// scores. The code of a vector is the rotated direction from a center to it,
// with one to four bits per coordinate, and two numbers that make the estimate
// unbiased. The method is RaBitQ (Gao and Long, SIGMOD 2024) with its extension
// to several bits (SIGMOD 2025). A Quantizer is immutable and safe for
// concurrent use.
type Quantizer struct {
	metric   Metric
	rotation rotation
	// center is the origin of the codes; nil means zero.
	center        []float32
	centerSquared float64
	// kept is the number of coordinates in a code: all, or the first ones if
	// there is less than one bit for each.
	kept int
	// bits is the number of bit planes in a code, lowest first. A plane has one
	// bit for each kept coordinate.
	bits       int
	planeBytes int
}

// QuantizationDefault returns the quantizationByteSize for a policy that does
// not name one: four bits per dimension, up to the limit.
func QuantizationDefault(dimensions int) int {
	return max(1, min(bitsMax*((dimensions+7)/8), QuantizationMax))
}

// NewQuantizer returns the quantizer for vectors with dimensions elements, 1 to
// [DimensionsMax], and codes of quantizationBytes, 1 to [QuantizationMax], plus
// 8 bytes. It returns false for other numbers. Codes are shorter if
// quantizationBytes is more than four bits per dimension, or does not make
// another whole bit for each.
//
// The Quantizer keeps center, which should be near the mean of the vectors as
// [Center] computes it. Nil is the origin, which is sufficient for vectors that
// point in all directions. Codes depend on the center, so it must be stored with
// them. NewQuantizer returns false if its length is not dimensions.
func NewQuantizer(m Metric, dimensions, quantizationBytes int, center []float32) (*Quantizer, bool) {
	switch {
	case dimensions < 1 || dimensions > DimensionsMax,
		quantizationBytes < 1 || quantizationBytes > QuantizationMax,
		center != nil && len(center) != dimensions:
		return nil, false
	}
	q := &Quantizer{metric: m, rotation: newRotation(dimensions), center: center, centerSquared: dot(center, center)}
	whole := (dimensions + 7) / 8
	if quantizationBytes >= whole {
		q.kept, q.planeBytes, q.bits = dimensions, whole, min(quantizationBytes/whole, bitsMax)
	} else {
		q.kept, q.planeBytes, q.bits = quantizationBytes*8, quantizationBytes, 1
	}
	return q, true
}

// Dimensions returns the number of elements of a vector.
func (q *Quantizer) Dimensions() int { return q.rotation.dimensions }

// Size returns the size of a code in bytes.
func (q *Quantizer) Size() int { return headerSize + q.bits*q.planeBytes }

// Append appends the code of v, [Quantizer.Size] bytes. It returns false if v
// has another number of dimensions or an element that is not finite.
//
//	0  float32 little-endian  length of the residual / how much of it the bits tell
//	4  float32 little-endian  Euclidean: squared length of the residual
//	                          others: dot product of v and the center
//	8  planes of bits         bit i%8 of byte i/8 is of coordinate i
func (q *Quantizer) Append(dst []byte, v []float32) ([]byte, bool) {
	r, ok := q.residual(v)
	if !ok {
		return dst, false
	}
	start := len(dst)
	dst = append(dst, make([]byte, q.Size())...)
	code := dst[start:]
	told := q.pack(code[headerSize:], r.coordinates[:q.kept])
	factor := 0.0
	if told > 0 {
		factor = r.length / told
	}
	second := r.centerProduct
	if q.metric == Euclidean {
		second = float64(r.length * r.length)
	}
	binary.LittleEndian.PutUint32(code, math.Float32bits(narrow(factor)))
	binary.LittleEndian.PutUint32(code[4:], math.Float32bits(narrow(second)))
	return dst, true
}

// residual is a vector relative to the center.
type residual struct {
	// coordinates are the rotated residual, normalized to length 1, or zeros.
	coordinates []float32
	length      float64
	// centerProduct is the dot product of the vector and the center.
	centerProduct float64
}

// residual computes the residual of v. For Cosine it first normalizes v to
// length 1.
func (q *Quantizer) residual(v []float32) (residual, bool) {
	if len(v) != q.rotation.dimensions {
		return residual{}, false
	}
	for _, x := range v {
		if !finite(x) {
			return residual{}, false
		}
	}
	wide := make([]float64, len(v))
	scale := 1.0
	if q.metric == Cosine {
		scale = inverse(math.Sqrt(dot(v, v)))
	}
	r := residual{coordinates: make([]float32, len(v))}
	for i, x := range v {
		wide[i] = float64(scale * float64(x))
		if q.center != nil {
			c := float64(q.center[i])
			r.centerProduct += float64(wide[i] * c)
			wide[i] -= c
		}
		r.length += float64(wide[i] * wide[i])
	}
	r.length = math.Sqrt(r.length)
	unit := inverse(r.length)
	for i, x := range wide {
		r.coordinates[i] = float32(unit * x)
	}
	q.rotation.apply(r.coordinates)
	return r, true
}

func inverse(length float64) float64 {
	if length == 0 {
		return 0
	}
	return 1 / length
}

// narrow rounds to a finite float32.
func narrow(f float64) float32 {
	return float32(max(-math.MaxFloat32, min(math.MaxFloat32, f)))
}

// pack writes the planes of the coordinates u. It returns the dot product of u
// and the written levels, divided by the length of u. The level of bits c is 2c
// + 1 - 2^bits.
func (q *Quantizer) pack(planes []byte, u []float32) float64 {
	length := math.Sqrt(dot(u, u))
	if length == 0 {
		return 0
	}
	step := q.bestStep(u, length)
	told := 0.0
	for i, x := range u {
		c := q.quantize(x, step)
		told += float64(q.level(c) * float64(x))
		for plane := range q.bits {
			planes[plane*q.planeBytes+i/8] |= byte(c>>plane&1) << (i % 8)
		}
	}
	return told / length
}

// steps are the distances between levels with the smallest error for coordinates
// that are normally distributed with variance 1, by the number of bits (Max,
// 1960). With one bit only the sign matters.
var steps = [bitsMax + 1]float64{1: 1, 2: 0.9957, 3: 0.5860, 4: 0.3352}

// bestStep returns the inverse of the step whose levels have the smallest angle
// to u. It searches near the step for normal coordinates.
func (q *Quantizer) bestStep(u []float32, length float64) float32 {
	usual := math.Sqrt(float64(len(u))) / (length * steps[q.bits])
	if q.bits == 1 {
		return narrow(usual)
	}
	best, bestFit := float32(0), -1.0
	for _, factor := range [...]float64{0.8, 0.9, 1, 1.1, 1.25} {
		step := narrow(usual * factor)
		product, squares := 0.0, 0.0
		for _, x := range u {
			level := q.level(q.quantize(x, step))
			product += float64(level * float64(x))
			squares += level * level // small integers are exact
		}
		if fit := product * product / squares; fit > bestFit {
			best, bestFit = step, fit
		}
	}
	return best
}

// quantize returns the bits of coordinate x for an inverse step.
func (q *Quantizer) quantize(x, step float32) int {
	most := float32(int(1)<<q.bits - 1)
	c := float32(x*step) + (most+1)/2
	switch {
	case c < 0:
		return 0
	case c > most:
		return int(most)
	}
	return int(c)
}

func (q *Quantizer) level(c int) float64 { return float64(2*c + 1 - 1<<q.bits) }

// Estimator estimates the scores of codes for one query. It is immutable and
// safe for concurrent use.
type Estimator struct {
	quantizer *Quantizer
	// words holds the query as bit planes in blocks of 64 coordinates, lowest
	// plane first. The numbers are in two's complement.
	words [][queryBits]uint64
	// sum is the sum of those numbers.
	sum int
	// scale converts a dot product of those numbers to one of the vectors.
	scale float64
	// offset is the contribution of the center: to a dot product or, for
	// Euclidean, the squared length of the query's residual.
	offset float64
}

// Query returns an estimator of scores for v. It returns false if v has another
// number of dimensions or an element that is not finite.
func (q *Quantizer) Query(v []float32) (*Estimator, bool) {
	r, ok := q.residual(v)
	if !ok {
		return nil, false
	}
	u := r.coordinates[:q.kept]
	e := &Estimator{quantizer: q, words: make([][queryBits]uint64, (q.kept+63)/64)}
	e.offset = r.centerProduct - q.centerSquared
	if q.metric == Euclidean {
		e.offset = float64(r.length * r.length)
	}
	largest := 0.0
	for _, x := range u {
		largest = max(largest, math.Abs(float64(x)))
	}
	if largest == 0 {
		return e, true
	}
	const most = 1<<(queryBits-1) - 1
	for i, x := range u {
		n := int(math.Round(float64(x) * most / largest))
		e.sum += n
		for plane := range queryBits {
			e.words[i/64][plane] |= uint64(n>>plane&1) << (i % 64)
		}
	}
	e.scale = largest / most * r.length * inverse(math.Sqrt(dot(u, u)))
	return e, true
}

// Score estimates the score of the vector of a code, on the scale of the metric
// but not within its bounds. It is NaN for bytes that are not a code of the
// quantizer.
func (e *Estimator) Score(code []byte) float64 {
	q := e.quantizer
	if len(code) != q.Size() {
		return math.NaN()
	}
	factor := float64(math.Float32frombits(binary.LittleEndian.Uint32(code)))
	second := float64(math.Float32frombits(binary.LittleEndian.Uint32(code[4:])))
	// Levels are 2c + 1 - 2^bits.
	total := e.sum * (1 - 1<<q.bits)
	planes := code[headerSize:]
	for plane := range q.bits {
		total += e.product(planes[:q.planeBytes]) << (plane + 1)
		planes = planes[q.planeBytes:]
	}
	product := float64(float64(total) * e.scale * factor)
	if q.metric == Euclidean {
		return math.Sqrt(max(0, e.offset+second-2*product))
	}
	return product + second + e.offset
}

// product returns the sum of the query's numbers at the set bits of a plane.
func (e *Estimator) product(plane []byte) int {
	var sums [queryBits]int
	words := e.words
	for len(plane) >= 8 && len(words) > 0 {
		w, x := &words[0], binary.LittleEndian.Uint64(plane)
		sums[0] += bits.OnesCount64(x & w[0])
		sums[1] += bits.OnesCount64(x & w[1])
		sums[2] += bits.OnesCount64(x & w[2])
		sums[3] += bits.OnesCount64(x & w[3])
		sums[4] += bits.OnesCount64(x & w[4])
		sums[5] += bits.OnesCount64(x & w[5])
		plane, words = plane[8:], words[1:]
	}
	if len(words) > 0 {
		var last [8]byte
		copy(last[:], plane)
		x := binary.LittleEndian.Uint64(last[:])
		for i, bit := range words[0] {
			sums[i] += bits.OnesCount64(x & bit)
		}
	}
	return sums[0] + sums[1]<<1 + sums[2]<<2 + sums[3]<<3 + sums[4]<<4 - sums[5]<<5
}

// Center computes the mean of vectors, the center for [NewQuantizer].
type Center struct {
	metric Metric
	sum    []float64
	count  int
}

// NewCenter returns a Center without vectors.
func NewCenter(m Metric, dimensions int) *Center {
	return &Center{metric: m, sum: make([]float64, max(dimensions, 0))}
}

// Add adds v. It returns false and does nothing if v has another number of
// dimensions or an element that is not finite.
func (c *Center) Add(v []float32) bool {
	if len(v) != len(c.sum) {
		return false
	}
	for _, x := range v {
		if !finite(x) {
			return false
		}
	}
	scale := 1.0
	if c.metric == Cosine {
		scale = inverse(math.Sqrt(dot(v, v)))
	}
	for i, x := range v {
		c.sum[i] += float64(scale * float64(x))
	}
	c.count++
	return true
}

// Mean returns the mean of the vectors, nil if there are none. For Cosine the
// vectors are normalized to length 1 first.
func (c *Center) Mean() []float32 {
	if c.count == 0 {
		return nil
	}
	mean := make([]float32, len(c.sum))
	for i, sum := range c.sum {
		mean[i] = narrow(sum / float64(c.count))
	}
	return mean
}
