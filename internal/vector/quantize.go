package vector

import (
	"encoding/binary"
	"math"
	"math/bits"
)

const (
	// headerSize is the part of a code before its bits: two float32.
	headerSize = 8
	// bitsMax is how many bits of a coordinate a code keeps at most. More hardly
	// change which candidates are found, and cost time.
	bitsMax = 4
	// queryBits is how many bits of a coordinate of the query are compared, one
	// of them for the sign.
	queryBits = 6
)

// Quantizer makes short codes of vectors, from which an [Estimator] guesses
// scores. The code of a vector is the direction from a centre to it, rotated,
// with one to four bits for each coordinate, and two numbers that make the guess
// right on average (the method is RaBitQ: Gao and Long, SIGMOD 2024, and its
// extension to several bits, SIGMOD 2025). A Quantizer is immutable and may be
// shared between goroutines.
type Quantizer struct {
	metric   Metric
	rotation rotation
	// center is what codes are relative to, or nil for the origin.
	center        []float32
	centerSquared float64
	// kept is how many coordinates a code has: all, or the first ones when
	// there is less than one bit for each.
	kept int
	// bits is how many planes of bits a code has, the lowest first; a plane has
	// one bit of each kept coordinate.
	bits       int
	planeBytes int
}

// QuantizationDefault returns the quantizationByteSize for a policy that names
// none: four bits for each dimension, within the limit.
func QuantizationDefault(dimensions int) int {
	return max(1, min(bitsMax*((dimensions+7)/8), QuantizationMax))
}

// NewQuantizer returns the quantizer for vectors of so many dimensions, 1 to
// [DimensionsMax], and codes of quantizationBytes, 1 to [QuantizationMax], plus 8
// bytes. It reports false for other numbers. When more bytes are given than four
// bits for each dimension need, or than make another whole bit for each, codes
// are shorter.
//
// The center, which the Quantizer keeps, should be near the mean of the vectors,
// as [Center] computes it; nil is the origin, which is good enough for vectors
// that point in all directions. It belongs to the codes: whoever stores them
// stores it too. It is false when its length is not dimensions.
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

// Dimensions returns how many elements the vectors have.
func (q *Quantizer) Dimensions() int { return q.rotation.dimensions }

// Size returns how many bytes a code has.
func (q *Quantizer) Size() int { return headerSize + q.bits*q.planeBytes }

// Append appends the code of v, [Quantizer.Size] bytes. It reports false when v
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

// residual is what is left of a vector without the center.
type residual struct {
	// coordinates are the rotated residual with a length of 1, or zeros.
	coordinates []float32
	length      float64
	// centerProduct is the dot product of the vector and the center.
	centerProduct float64
}

// residual computes the residual of v, which is scaled to a length of 1 before
// when the metric is Cosine.
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

// narrow rounds to a float32 that is finite.
func narrow(f float64) float32 {
	return float32(max(-math.MaxFloat32, min(math.MaxFloat32, f)))
}

// pack writes the planes of the coordinates u, and returns the dot product of u
// and the levels that were written, divided by the length of u. The level of
// bits c is 2c + 1 - 2^bits.
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

// steps are the distances between levels that make the smallest error for
// coordinates that are normally distributed with a variance of 1, by the number
// of bits (Max, 1960). With one bit only the sign counts.
var steps = [bitsMax + 1]float64{1: 1, 2: 0.9957, 3: 0.5860, 4: 0.3352}

// bestStep returns the inverse of the step, near the one for normal coordinates,
// whose levels have the smallest angle to u.
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
			squares += level * level // Small integers are exact.
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

// Estimator guesses the scores of codes against one query. It is immutable and
// may be shared between goroutines.
type Estimator struct {
	quantizer *Quantizer
	// words holds the query as planes of bits, those of 64 coordinates together,
	// lowest plane first. The numbers they make are two's complement.
	words [][queryBits]uint64
	// sum is the sum of those numbers.
	sum int
	// scale makes a dot product of those numbers one of the vectors.
	scale float64
	// offset is what the center adds: to a dot product, or for Euclidean the
	// squared length of the query's residual.
	offset float64
}

// Query returns an estimator of scores against v. It reports false when v has
// another number of dimensions or an element that is not finite.
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

// Score guesses the score of the vector that the code was made of, on the scale
// of the metric, but not within its bounds. It is NaN for bytes that are no code
// of the quantizer.
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

// product returns the sum of the query's numbers at the bits set in a plane.
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

// Center sums up vectors, to find the center for [NewQuantizer].
type Center struct {
	metric Metric
	sum    []float64
	count  int
}

// NewCenter returns a Center of no vectors.
func NewCenter(m Metric, dimensions int) *Center {
	return &Center{metric: m, sum: make([]float64, max(dimensions, 0))}
}

// Add counts v in. It reports false, and does not, when v has another number of
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

// Mean returns the mean of the vectors, which for Cosine are scaled to a length
// of 1 first, and nil when there is none.
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
