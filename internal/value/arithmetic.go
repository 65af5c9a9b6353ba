package value

import (
	"math"
	"math/bits"
)

// The arithmetic of the query language. Two integers give an integer if it fits in 64
// bits. Everything else is computed in floating point, and so is everything that is
// computed from such a result: 2^53 + 1 is exact, 2^53 * 1.0 + 1 is not.
//
// The results of the functions are undefined if an operand is not a number.

// Double returns the number f as a result of floating-point arithmetic. It equals
// Number(f). Only arithmetic, [Value.IsDouble], [Value.Integer], [Value.Signed] and
// [Value.AppendText] tell them apart.
func Double(f float64) Value {
	v := Number(f)
	v.double = v.exact
	v.minus = f == 0 && math.Signbit(f)
	return v
}

// Signed is [Value.Float], but -0 for a -0 that [Double] made.
func (v Value) Signed() float64 {
	if v.minus {
		return math.Copysign(0, -1)
	}
	return v.Float()
}

// safeMax is the greatest integer below which every integer is a double.
const safeMax = 1<<53 - 1

// Integer returns the number and true if functions of integers accept it: any Int64,
// except results of floating-point arithmetic beyond 2^53, which may be inexact.
func (v Value) Integer() (int64, bool) {
	i, ok := v.Int64()
	return i, ok && (!v.double || i >= -safeMax && i <= safeMax)
}

// IsDouble reports whether arithmetic treats v as floating point: a fraction, a number
// beyond 64 bits, or a result of floating-point arithmetic.
func (v Value) IsDouble() bool {
	_, ok := v.integer()
	return v.kind == KindNumber && !ok
}

// integer returns the number if arithmetic treats it as an integer.
func (v Value) integer() (int64, bool) {
	return int64(v.bits), v.exact && !v.double && v.kind == KindNumber
}

// integers returns both numbers if arithmetic treats them as integers.
func integers(a, b Value) (x, y int64, ok bool) {
	x, okX := a.integer()
	y, okY := b.integer()
	return x, y, okX && okY
}

// Add returns a + b.
func Add(a, b Value) Value {
	if x, y, ok := integers(a, b); ok {
		if sum := x + y; (sum > x) == (y > 0) {
			return Int(sum)
		}
	}
	return float(a, b, func(x, y float64) float64 { return x + y })
}

// Subtract returns a - b.
func Subtract(a, b Value) Value {
	if x, y, ok := integers(a, b); ok {
		if difference := x - y; (difference < x) == (y > 0) {
			return Int(difference)
		}
	}
	return float(a, b, func(x, y float64) float64 { return x - y })
}

// Multiply returns a * b.
func Multiply(a, b Value) Value {
	if x, y, ok := integers(a, b); ok {
		if product, ok := product(x, y); ok {
			return Int(product)
		}
	}
	return float(a, b, func(x, y float64) float64 { return x * y })
}

// product returns x * y if it fits in 64 bits.
func product(x, y int64) (int64, bool) {
	high, low := bits.Mul64(uint64(x), uint64(y))
	// Mul64 reads negative numbers as too large by 2^64.
	signed := int64(high) - x>>63&y - y>>63&x
	return int64(low), signed == int64(low)>>63
}

// Divide returns a / b: an integer if both are integers and the division has no
// remainder. Division by zero is an infinity or NaN.
func Divide(a, b Value) Value {
	if x, y, ok := integers(a, b); ok && y != 0 && x%y == 0 && !(x == math.MinInt64 && y == -1) {
		return Int(x / y)
	}
	return float(a, b, func(x, y float64) float64 { return x / y })
}

// Modulo returns the remainder of a / b with the sign of a; NaN if b is 0. It is never
// -0. As in the service, a remainder below 2^53 without a fraction is an integer, also if
// the operands are floating point.
func Modulo(a, b Value) Value {
	if x, y, ok := integers(a, b); ok && y != 0 {
		return Int(x % y)
	}
	rest := float(a, b, func(x, y float64) float64 { return unsigned(math.Mod(x, y)) })
	if whole, ok := rest.Integer(); ok && whole >= -safeMax && whole <= safeMax {
		return Int(whole)
	}
	return rest
}

// unsigned returns f, or 0 for -0.
func unsigned(f float64) float64 { return f + 0 }

// Negate returns -v. As in the service, -2^63 is its own negation.
func Negate(v Value) Value {
	if x, ok := v.integer(); ok {
		return Int(-x)
	}
	if v.kind != KindNumber {
		return Value{}
	}
	return Double(-v.Signed())
}

// float applies a function to two numbers.
func float(a, b Value, f func(x, y float64) float64) Value {
	if a.kind != KindNumber || b.kind != KindNumber {
		return Value{}
	}
	return Double(f(a.Signed(), b.Signed()))
}
