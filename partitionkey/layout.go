package partitionkey

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/bits"
	"strings"
)

// uint128 is a version 2 hash as a number.
type uint128 struct{ high, low uint64 }

// hashMax returns the greatest version 2 hash, 2^126 - 1.
func hashMax() uint128 { return uint128{1<<62 - 1, math.MaxUint64} }

func (u uint128) sub(o uint128) (uint128, uint64) {
	low, borrow := bits.Sub64(u.low, o.low, 0)
	high, borrow := bits.Sub64(u.high, o.high, borrow)
	return uint128{high, low}, borrow
}

func (u uint128) add(o uint128) uint128 {
	low, carry := bits.Add64(u.low, o.low, 0)
	return uint128{u.high + o.high + carry, low}
}

func (u uint128) half() uint128 { return uint128{u.high >> 1, u.high<<63 | u.low>>1} }

func (u uint128) div(n uint64) uint128 {
	high, rest := u.high/n, u.high%n
	low, _ := bits.Div64(rest, u.low, n)
	return uint128{high, low}
}

func (u uint128) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, u.high)
	return binary.BigEndian.AppendUint64(dst, u.low)
}

// Divide returns the ranges of a new container with n partitions, in order. They
// are exactly those of the service: the hashes of the first level are divided
// evenly. It treats n below 1 as 1.
func (d Definition) Divide(n int) []Range {
	n = max(n, 1)
	ranges := make([]Range, n)
	bound := d.bounds(n)
	for i := range ranges {
		if i > 0 {
			ranges[i].Min = bound()
			ranges[i-1].Max = ranges[i].Min
		}
	}
	ranges[n-1].Max = MaxEPK
	return ranges
}

// bounds returns a function that returns the inner bounds in order.
func (d Definition) bounds(n int) func() EPK {
	// Divide first, then multiply, as the service does: the last range gets the
	// remainder of the division.
	if d.version() == 1 {
		step, at := math.MaxUint32/uint64(n), uint64(0)
		return func() EPK {
			at += step
			return EPK(appendOrderedNumber(nil, float64(at)))
		}
	}
	step, at := hashMax().div(uint64(n)), uint128{}
	return func() EPK {
		at = at.add(step)
		return EPK(at.append(nil))
	}
}

// Middle returns the point halfway through a range, where the service would
// split it: halfway between the hashes at the first level at which the bounds
// differ by more than one. If no bound lies strictly inside the range, the
// result does not either, and the range cannot be divided.
func (d Definition) Middle(r Range) EPK {
	if d.version() == 1 {
		low, high := hash1(r.Min), hash1(r.Max)
		return EPK(appendOrderedNumber(nil, float64((low+high)/2)))
	}
	e := d.middleByLevel(r)
	if r.Min.Compare(e) < 0 && e.Compare(r.Max) < 0 {
		return e
	}
	return d.middleByWidth(r)
}

// middleByLevel finds the first level with a gap and returns its middle.
func (d Definition) middleByLevel(r Range) EPK {
	width := d.width()
	b := make([]byte, 0, width)
	for at := 0; ; at += hashWidth {
		low, high := hash2(r.Min, at), hash2(r.Max, at)
		gap, borrow := high.sub(low)
		last := at+hashWidth == width
		if !last && borrow == 0 && gap.high == 0 && gap.low <= 1 {
			b = low.append(b)
			continue
		}
		if borrow != 0 {
			// The level before differed by one, so everything up to the end of
			// this level is inside the range.
			gap, _ = hashMax().sub(low)
		}
		return EPK(low.add(gap.half()).append(b))
	}
}

// middleByWidth treats both bounds as integers of the full width. It finds a
// point inside the range if there is one, even if it lies between the last hash
// of one level and the first of the next.
func (d Definition) middleByWidth(r Range) EPK {
	width := max(d.width(), len(r.Min), len(r.Max))
	number := func(e EPK) *big.Int {
		b := make([]byte, width)
		copy(b, e)
		return new(big.Int).SetBytes(b)
	}
	sum := new(big.Int).Add(number(r.Min), number(r.Max))
	return EPK(sum.Rsh(sum, 1).FillBytes(make([]byte, width)))
}

// hash2 returns the version 2 hash that starts at byte at of a bound. Missing
// bytes of a bound are zero, and the FF that ends a range means the greatest
// hash.
func hash2(e EPK, at int) uint128 {
	e = e[min(at, len(e)):]
	if strings.HasPrefix(string(e), string(MaxEPK)) {
		return hashMax()
	}
	var b [hashWidth]byte
	copy(b[:], e)
	return uint128{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

// hash1 returns the version 1 hash at the start of a bound. A bound above all
// numbers means the greatest hash.
func hash1(e EPK) uint64 {
	if e != "" && e[0] > markNumber {
		return math.MaxUint32
	}
	f, ok := orderedNumber(string(e))
	if !ok || f < 0 {
		return 0
	}
	return uint64(min(f, math.MaxUint32))
}

// orderedNumber parses the output of appendOrderedNumber at the beginning of s.
func orderedNumber(s string) (f float64, ok bool) {
	if len(s) < 2 || s[0] != markNumber {
		return 0, false
	}
	b := uint64(s[1]) << 56
	for i, shift := 2, 49; i < len(s) && shift >= 0; i, shift = i+1, shift-7 {
		b |= uint64(s[i]>>1) << shift
		if s[i]&1 == 0 {
			break
		}
	}
	if b>>63 == 0 {
		return math.Float64frombits(-b), true
	}
	return math.Float64frombits(b ^ 1<<63), true
}
