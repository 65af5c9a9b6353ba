package vector

import (
	"math"
	"math/bits"
)

// rotation is a pseudo-random rotation of a space. It distributes the
// information in a vector evenly over the coordinates, so that few bits of each
// give its direction. It consists of sign changes and Walsh-Hadamard transforms,
// which take n log n steps and no matrix. The transform needs a power of two, so
// it is applied to the first and the last coordinates in turn; the two blocks
// overlap by at least half of one.
//
// It depends only on the number of dimensions and is immutable.
type rotation struct {
	dimensions int
	// block is the greatest power of two that is not above dimensions.
	block int
	// flips has one bit per coordinate and round, set for a sign change.
	flips [rounds][]uint64
}

const rounds = 4

func newRotation(dimensions int) rotation {
	r := rotation{dimensions: dimensions, block: 1 << (bits.Len(uint(dimensions)) - 1)}
	state := uint64(dimensions)
	for i := range r.flips {
		r.flips[i] = make([]uint64, (dimensions+63)/64)
		for j := range r.flips[i] {
			r.flips[i][j] = splitMix(&state)
		}
	}
	return r
}

// splitMix is the SplitMix64 generator. It is written out here because the
// rotation is part of a stored format.
func splitMix(state *uint64) uint64 {
	*state += 0x9E3779B97F4A7C15
	z := *state
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// apply rotates x in place. x must have as many elements as there are
// dimensions.
func (r *rotation) apply(x []float32) {
	for i := range r.flips {
		flip(x, r.flips[i])
		if i%2 == 0 {
			transform(x[:r.block])
		} else {
			transform(x[len(x)-r.block:])
		}
	}
}

func flip(x []float32, flips []uint64) {
	for i := range x {
		sign := uint32(flips[i/64]>>(i%64)&1) << 31
		x[i] = math.Float32frombits(math.Float32bits(x[i]) ^ sign)
	}
}

// transform is the Walsh-Hadamard transform, scaled to preserve lengths. The
// length of x must be a power of two.
func transform(x []float32) {
	for half := 1; half < len(x); half *= 2 {
		for start := 0; start < len(x); start += 2 * half {
			low := x[start : start+half]
			high := x[start+half : start+2*half][:len(low)]
			for i, a := range low {
				b := high[i]
				low[i], high[i] = a+b, a-b
			}
		}
	}
	scale := float32(1 / math.Sqrt(float64(len(x))))
	for i := range x {
		x[i] = float32(x[i] * scale)
	}
}
