package row

import (
	"math"
	"math/big"
	"math/bits"
	"strconv"
)

// Cassandra 4.1 runs on Java 8 and 11, which do not always print the shortest
// decimal of a float or double: 2E23 is 1.9999999999999998E23. Clients see these
// digits in JSON and in casts to text, so this file computes them in the way of
// Java: it develops digits of b/s until the rest is less than the distance m to the
// neighbours, with three differences from an exact algorithm. Whole numbers below
// 2^63 lose the digits below half of their last bit. A number with an exponent gets
// at least two digits. The upper limit is exclusive when the terms fit machine
// words, and inclusive when they do not.

const (
	doubleBits = 52 // of the fraction of a double
	floatBits  = 23
)

// javaDigits returns the decimal digits of a positive finite number and the
// exponent of the first one.
func javaDigits(f float64, size int) (digits []byte, exponent int) {
	var fraction uint64
	var binary, significant int
	if size == 32 {
		word := uint64(math.Float32bits(float32(f)))
		fraction, binary = word&(1<<floatBits-1), int(word>>floatBits)
		fraction, binary, significant = normalizeFloat(fraction, binary, floatBits)
		fraction, binary = fraction<<(doubleBits-floatBits), binary-127
	} else {
		word := math.Float64bits(f)
		fraction, binary = word&(1<<doubleBits-1), int(word>>doubleBits)
		fraction, binary, significant = normalizeFloat(fraction, binary, doubleBits)
		binary -= 1023
	}
	zeros := bits.TrailingZeros64(fraction)
	length := doubleBits + 1 - zeros
	tiny := max(0, length-binary-1)
	if tiny == 0 && binary >= -21 && binary <= 62 {
		return wholeDigits(fraction, binary, significant)
	}
	exponent = estimateExponent(fraction, binary)
	d := digitTerms{
		fraction: fraction >> zeros, length: length,
		b5: max(0, -exponent), s5: max(0, exponent),
	}
	d.b2 = d.b5 + tiny + binary
	d.s2 = d.s5 + tiny
	d.m2 = d.b2 - significant
	d.b2 -= length - 1
	common := min(d.b2, d.s2)
	d.b2, d.s2, d.m2 = d.b2-common, d.s2-common, d.m2-common
	if length == 1 {
		// Below a power of two, the numbers are twice as dense.
		d.m2--
	}
	if d.m2 < 0 {
		d.b2, d.s2, d.m2 = d.b2-d.m2, d.s2-d.m2, 0
	}
	return d.develop(exponent)
}

// normalizeFloat returns the fraction with its highest bit, the exponent, and the
// number of significant bits.
func normalizeFloat(fraction uint64, exponent, size int) (uint64, int, int) {
	if exponent > 0 {
		return fraction | 1<<size, exponent, size + 1
	}
	significant := bits.Len64(fraction)
	shift := size + 1 - significant
	return fraction << shift, 1 - shift, significant
}

// wholeDigits returns the digits of a whole number, rounded to those that its
// significant bits have.
func wholeDigits(fraction uint64, binary, significant int) (digits []byte, exponent int) {
	n := fraction
	if binary >= doubleBits {
		n <<= binary - doubleBits
	} else {
		n >>= doubleBits - binary
	}
	dropped := 0
	if p := binary - significant - 1; p > 3 {
		dropped = len(strconv.FormatUint(1<<p, 10)) - 1
		unit := uint64(math.Pow10(dropped))
		rest := n % unit
		if n /= unit; rest >= unit/2 {
			n++
		}
	}
	digits = strconv.AppendUint(nil, n, 10)
	exponent = len(digits) - 1 + dropped
	for digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
	}
	return digits, exponent
}

// estimateExponent returns the exponent of the first digit, or one more.
func estimateExponent(fraction uint64, binary int) int {
	mantissa := math.Float64frombits(1023<<doubleBits | fraction&(1<<doubleBits-1))
	// The conversions forbid fused operations, which would round otherwise.
	estimate := float64((mantissa-1.5)*0.289529654) + 0.176091259
	return int(math.Floor(estimate + float64(float64(binary)*0.301029995663981)))
}

// digitTerms are the terms of the digits of a number: the number is b/s, half of the
// distance to its neighbours m/s, with b = fraction * 5^b5 * 2^b2, s = 5^s5 * 2^s2
// and m = 5^b5 * 2^m2, each times a power of ten.
type digitTerms struct {
	fraction   uint64
	length     int // of fraction in bits
	b2, s2, m2 int
	b5, s5     int
}

// bitsOfPower returns the bits of 5^n, as Java estimates them.
func bitsOfPower(n int) int {
	if n == 0 {
		return 0
	}
	if n > 26 {
		return 3 * n
	}
	return bits.Len64(powerOfFive(n))
}

func powerOfFive(n int) uint64 {
	power := uint64(1)
	for range n {
		power *= 5
	}
	return power
}

func (d *digitTerms) develop(exponent int) ([]byte, int) {
	bitsB := d.length + d.b2 + bitsOfPower(d.b5)
	bitsTens := d.s2 + 1 + bitsOfPower(d.s5+1)
	var w digitWriter
	switch {
	case bitsB < 32 && bitsTens < 32:
		b := int32(d.fraction) * int32(powerOfFive(d.b5)) << d.b2
		w.exponent = exponent
		developWords(&w, b, int32(powerOfFive(d.s5))<<d.s2, int32(powerOfFive(d.b5))<<d.m2)
	case bitsB < 64 && bitsTens < 64:
		b := int64(d.fraction) * int64(powerOfFive(d.b5)) << d.b2
		w.exponent = exponent
		developWords(&w, b, int64(powerOfFive(d.s5))<<d.s2, int64(powerOfFive(d.b5))<<d.m2)
	default:
		w.exponent = exponent
		d.developBig(&w)
	}
	return w.digits, w.exponent
}

// digitWriter collects digits.
type digitWriter struct {
	digits   []byte
	exponent int
}

// first takes the first digit, which is left out if it is zero and is not rounded
// up. It returns whether the number has an exponent in its text, and so needs a
// second digit.
func (w *digitWriter) first(digit int64, high bool) (scientific bool) {
	if digit == 0 && !high {
		w.exponent--
	} else {
		w.digits = append(w.digits, '0'+byte(digit))
	}
	return w.exponent < -3 || w.exponent >= 8
}

// roundUp adds one to the last digit.
func (w *digitWriter) roundUp() {
	i := len(w.digits) - 1
	for ; i > 0 && w.digits[i] == '9'; i-- {
		w.digits[i] = '0'
	}
	if w.digits[i] == '9' {
		w.digits[i] = '1'
		w.exponent++
		return
	}
	w.digits[i]++
}

// finish rounds the last digit: up if only the upper neighbour is near, to the
// nearer or even digit if both are. Twice is the comparison of twice the rest with
// one.
func (w *digitWriter) finish(low, high bool, twice int) {
	if high && (!low || twice > 0 || twice == 0 && w.digits[len(w.digits)-1]&1 != 0) {
		w.roundUp()
	}
}

// developWords develops digits in machine words, in which m may overflow.
func developWords[T int32 | int64](w *digitWriter, b, s, m T) {
	tens := 10 * s
	step := func() T {
		q := b / s
		b, m = 10*(b%s), 10*m
		return q
	}
	q := step()
	low, high := b < m, b+m > tens
	if w.first(int64(q), high) {
		low, high = false, false
	}
	for !low && !high {
		q = step()
		low, high = true, true
		if m > 0 {
			low, high = b < m, b+m > tens
		}
		w.digits = append(w.digits, '0'+byte(q))
	}
	twice := 0
	if rest := b<<1 - tens; rest > 0 {
		twice = 1
	} else if rest < 0 {
		twice = -1
	}
	w.finish(low, high, twice)
}

func (d *digitTerms) developBig(w *digitWriter) {
	term := func(fives, twos int) *big.Int {
		n := new(big.Int).Exp(big.NewInt(5), big.NewInt(int64(fives)), nil)
		return n.Lsh(n, uint(twos))
	}
	ten := big.NewInt(10)
	b := term(d.b5, d.b2)
	b.Mul(b, new(big.Int).SetUint64(d.fraction))
	s, m := term(d.s5, d.s2), term(d.b5, d.m2)
	tens := new(big.Int).Mul(s, ten)
	sum := new(big.Int)
	q := new(big.Int)
	step := func() (low, high bool) {
		q.QuoRem(b, s, b)
		b.Mul(b, ten)
		m.Mul(m, ten)
		return b.Cmp(m) < 0, sum.Add(b, m).Cmp(tens) >= 0
	}
	low, high := step()
	if w.first(q.Int64(), high) {
		low, high = false, false
	}
	for !low && !high {
		low, high = step()
		w.digits = append(w.digits, '0'+byte(q.Int64()))
	}
	w.finish(low, high, b.Lsh(b, 1).Cmp(tens))
}
