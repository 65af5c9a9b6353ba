package query

import (
	"math"
	"math/rand/v2"

	"github.com/decandb/decan/internal/value"
)

// mathFunctions take numbers. Any other argument makes them undefined.
func mathFunctions() []function {
	one := func(name string, f func(x float64) float64) function {
		return function{name: name, min: 1, max: 1, run: func(_ *env, args []value.Value) value.Value {
			if args[0].Kind() != value.KindNumber {
				return value.Undefined()
			}
			return value.Number(f(args[0].Float()))
		}}
	}
	// rounding are the functions that return an exact integer unchanged.
	rounding := func(name string, f func(x float64) float64) function {
		inner := one(name, f)
		run := inner.run
		inner.run = func(e *env, args []value.Value) value.Value {
			if _, ok := args[0].Int64(); ok {
				return args[0]
			}
			return run(e, args)
		}
		return inner
	}
	two := func(name string, f func(x, y float64) float64) function {
		return function{name: name, min: 2, max: 2, run: func(_ *env, args []value.Value) value.Value {
			x, y, ok := numbers(args[0], args[1])
			if !ok {
				return value.Undefined()
			}
			return value.Number(f(x, y))
		}}
	}
	list := []function{
		{name: "ABS", min: 1, max: 1, run: absolute},
		rounding("CEILING", math.Ceil), rounding("FLOOR", math.Floor), rounding("TRUNC", math.Trunc),
		one("SIGN", sign), one("SQUARE", func(x float64) float64 { return x * x }),
		one("SQRT", math.Sqrt), one("EXP", math.Exp), one("LOG10", log10),
		one("SIN", math.Sin), one("COS", math.Cos), one("TAN", math.Tan),
		one("COT", func(x float64) float64 { return 1 / math.Tan(x) }),
		one("ASIN", math.Asin), one("ACOS", math.Acos), one("ATAN", math.Atan),
		one("DEGREES", func(x float64) float64 { return x * (180 / math.Pi) }),
		one("RADIANS", func(x float64) float64 { return x * (math.Pi / 180) }),
		two("POWER", math.Pow), two("ATN2", math.Atan2),
		{name: "LOG", min: 1, max: 2, run: logarithm},
		{name: "ROUND", min: 1, max: 2, run: round},
		{name: "NumberBin", min: 1, max: 2, run: numberBin},
		{name: "PI", run: func(*env, []value.Value) value.Value { return value.Number(math.Pi) }},
		{name: "RAND", volatile: true, run: func(*env, []value.Value) value.Value { return value.Number(rand.Float64()) }},
	}
	return append(list, integerFunctions()...)
}

// integerFunctions process integers of 64 bits and wrap around.
func integerFunctions() []function {
	two := func(name string, f func(x, y int64) (int64, bool)) function {
		return function{name: name, min: 2, max: 2, run: func(_ *env, args []value.Value) value.Value {
			x, okX := args[0].Int64()
			y, okY := args[1].Int64()
			if !okX || !okY {
				return value.Undefined()
			}
			r, ok := f(x, y)
			if !ok {
				return value.Undefined()
			}
			return value.Int(r)
		}}
	}
	sure := func(f func(x, y int64) int64) func(x, y int64) (int64, bool) {
		return func(x, y int64) (int64, bool) { return f(x, y), true }
	}
	return []function{
		two("IntAdd", sure(func(x, y int64) int64 { return x + y })),
		two("IntSub", sure(func(x, y int64) int64 { return x - y })),
		two("IntMul IntMultiply", sure(func(x, y int64) int64 { return x * y })),
		two("IntDiv", func(x, y int64) (int64, bool) {
			if y == 0 {
				return 0, false
			}
			return x / y, true
		}),
		two("IntMod", func(x, y int64) (int64, bool) {
			if y == 0 {
				return 0, false
			}
			return x % y, true
		}),
		two("IntBitAnd IntBitwiseAnd", sure(func(x, y int64) int64 { return x & y })),
		two("IntBitOr IntBitwiseOr", sure(func(x, y int64) int64 { return x | y })),
		two("IntBitXor IntBitwiseXor", sure(func(x, y int64) int64 { return x ^ y })),
		two("IntBitLeftShift IntBitwiseLeftShift", sure(func(x, y int64) int64 { return x << (uint64(y) & 63) })),
		two("IntBitRightShift IntBitwiseRightShift", sure(func(x, y int64) int64 { return x >> (uint64(y) & 63) })),
		{name: "IntBitNot IntBitwiseNot", min: 1, max: 1, run: func(_ *env, args []value.Value) value.Value {
			x, ok := args[0].Int64()
			if !ok {
				return value.Undefined()
			}
			return value.Int(^x)
		}},
	}
}

func sign(x float64) float64 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return x
}

// logarithm divides natural logarithms for a base, except for 2 and 10, where the
// results for powers must be integers.
func logarithm(_ *env, args []value.Value) value.Value {
	if args[0].Kind() != value.KindNumber {
		return value.Undefined()
	}
	x := args[0].Float()
	if len(args) == 1 {
		return value.Number(math.Log(x))
	}
	if args[1].Kind() != value.KindNumber {
		return value.Undefined()
	}
	switch base := args[1].Float(); base {
	case 10:
		return value.Number(log10(x))
	case 2:
		return value.Number(math.Log2(x))
	default:
		return value.Number(math.Log(x) / math.Log(base))
	}
}

// log10 returns an integer for powers of ten.
func log10(x float64) float64 {
	y := math.Log10(x)
	if near := math.Round(y); math.Pow10(int(near)) == x {
		return near
	}
	return y
}

// whole returns a number without a fraction as the nearest int64, for positions and
// lengths, which are limited anyway.
func whole(v value.Value) (int64, bool) {
	if n, ok := v.Int64(); ok {
		return n, true
	}
	switch f := v.Float(); {
	case f >= 1<<63 && f <= math.MaxFloat64:
		return math.MaxInt64, true
	case f < -(1<<63) && f >= -math.MaxFloat64:
		return math.MinInt64, true
	}
	return 0, false
}

// absolute keeps integers exact, except -2^63, whose negation does not fit 64 bits.
func absolute(_ *env, args []value.Value) value.Value {
	if args[0].Kind() != value.KindNumber {
		return value.Undefined()
	}
	if i, ok := args[0].Int64(); ok && i != math.MinInt64 {
		return value.Int(max(i, -i))
	}
	return value.Number(math.Abs(args[0].Float()))
}

// round rounds halves away from zero, to a number of digits after the point or, if it
// is negative, before the point.
func round(_ *env, args []value.Value) value.Value {
	x := args[0]
	if x.Kind() != value.KindNumber {
		return value.Undefined()
	}
	digits := int64(0)
	if len(args) == 2 {
		var ok bool
		if digits, ok = whole(args[1]); !ok {
			return value.Undefined()
		}
	}
	i, isInt := x.Int64()
	switch {
	case !x.Finite() || isInt && digits >= 0:
		return x
	case digits >= 0:
		return value.Number(roundDecimals(x.Float(), digits))
	case isInt && digits >= -tensMax:
		return roundInteger(i, -digits)
	}
	return value.Number(roundTens(x.Float(), digits))
}

// tensMax is the greatest power of ten in 64 bits without a sign.
const tensMax = 19

// roundDecimals rounds to a number of digits after the point. A number with no more
// digits is unchanged, such as every double from 2^52.
func roundDecimals(x float64, digits int64) float64 {
	scale := math.Pow10(int(min(digits, 400)))
	if scaled := x * scale; math.Abs(scaled) < 1<<52 {
		return math.Round(scaled) / scale
	}
	return x
}

// roundTens rounds to a multiple of a power of ten. The result is 0 if the power is
// larger than all numbers.
func roundTens(x float64, digits int64) float64 {
	unit := math.Pow10(int(-max(digits, -400)))
	if math.IsInf(unit, 1) {
		return 0
	}
	return math.Round(x/unit) * unit
}

// roundInteger is roundTens of an integer, and is exact within 64 bits.
func roundInteger(i, zeros int64) value.Value {
	unit, size := uint64(1), uint64(i)
	for range zeros {
		unit *= 10
	}
	if i < 0 {
		size = -size
	}
	rest := size % unit
	size -= rest
	if rest >= unit-rest {
		size += unit
	}
	switch {
	case size > math.MaxInt64:
		return value.Number(math.Copysign(float64(size), float64(i)))
	case i < 0:
		return value.Int(-int64(size))
	}
	return value.Int(int64(size))
}

// numberBin rounds down to a multiple of a size, or up if the size is negative.
func numberBin(_ *env, args []value.Value) value.Value {
	size := value.Int(1)
	if len(args) == 2 {
		size = args[1]
	}
	x, y, ok := numbers(args[0], size)
	if !ok || y == 0 {
		return value.Undefined()
	}
	if i, ok := args[0].Int64(); ok {
		if n, ok := size.Int64(); ok {
			if bin, ok := binOf(i, n); ok {
				return value.Int(bin)
			}
		}
	}
	bins := math.Floor(x / y)
	if math.IsInf(bins, 0) && args[0].Finite() {
		return args[0] // the size is finer than the number
	}
	return value.Number(bins * y)
}

// binOf is numberBin of integers. It returns false if the result does not fit 64 bits.
// The size is not 0.
func binOf(i, size int64) (int64, bool) {
	rest := i % size
	switch {
	case rest == 0:
		return i, true
	case rest > 0 == (size > 0):
		return i - rest, true
	}
	bin := i - rest - size
	return bin, (bin < i) == (size > 0)
}
