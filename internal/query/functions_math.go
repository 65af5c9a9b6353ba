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
			return value.Double(f(args[0].Signed()))
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
			return value.Double(f(x, y))
		}}
	}
	list := []function{
		{name: "ABS", min: 1, max: 1, run: absolute},
		rounding("CEILING", math.Ceil), rounding("FLOOR", math.Floor), rounding("TRUNC", math.Trunc),
		{name: "SIGN", min: 1, max: 1, run: sign},
		{name: "SQUARE", min: 1, max: 1, run: func(_ *env, args []value.Value) value.Value { return value.Multiply(args[0], args[0]) }},
		one("SQRT", math.Sqrt), one("EXP", math.Exp), one("LOG10", log10),
		one("SIN", math.Sin), one("COS", math.Cos), one("TAN", math.Tan),
		one("COT", func(x float64) float64 { return 1 / math.Tan(x) }),
		one("ASIN", math.Asin), one("ACOS", math.Acos), one("ATAN", math.Atan),
		one("DEGREES", func(x float64) float64 { return x * 180 / math.Pi }),
		one("RADIANS", func(x float64) float64 { return x * math.Pi / 180 }),
		two("POWER", power), two("ATN2", math.Atan2),
		{name: "LOG", min: 1, max: 2, run: logarithm},
		{name: "ROUND", min: 1, max: 2, run: round},
		{name: "NumberBin", min: 1, max: 2, run: numberBin},
		{name: "PI", run: func(*env, []value.Value) value.Value { return value.Double(math.Pi) }},
		{name: "RAND", volatile: true, run: func(*env, []value.Value) value.Value { return value.Double(rand.Float64()) }},
	}
	return append(list, integerFunctions()...)
}

// integerFunctions process integers of 64 bits and wrap around.
func integerFunctions() []function {
	two := func(name string, f func(x, y int64) (int64, bool)) function {
		return function{name: name, min: 2, max: 2, run: func(_ *env, args []value.Value) value.Value {
			x, okX := args[0].Integer()
			y, okY := args[1].Integer()
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
		two("IntMul IntMultiply", func(x, y int64) (int64, bool) {
			return x * y, !(x == math.MinInt64 && y == -1 || x == -1 && y == math.MinInt64)
		}),
		two("IntDiv", func(x, y int64) (int64, bool) {
			if y == 0 || x == math.MinInt64 && y == -1 {
				return 0, false
			}
			return x / y, true
		}),
		two("IntMod", func(x, y int64) (int64, bool) {
			if y == 0 || x == math.MinInt64 && y == -1 {
				return 0, false
			}
			return x % y, true
		}),
		two("IntBitAnd", sure(func(x, y int64) int64 { return x & y })),
		two("IntBitOr", sure(func(x, y int64) int64 { return x | y })),
		two("IntBitXor", sure(func(x, y int64) int64 { return x ^ y })),
		two("IntBitLeftShift", sure(func(x, y int64) int64 { return x << (uint64(y) & 63) })),
		two("IntBitRightShift", sure(func(x, y int64) int64 { return x >> (uint64(y) & 63) })),
		{name: "IntBitNot", min: 1, max: 1, run: func(_ *env, args []value.Value) value.Value {
			x, ok := args[0].Integer()
			if !ok {
				return value.Undefined()
			}
			return value.Int(^x)
		}},
	}
}

// sign is undefined for NaN.
func sign(_ *env, args []value.Value) value.Value {
	switch x := args[0].Float(); {
	case args[0].Kind() != value.KindNumber || isNaN(args[0]):
		return value.Undefined()
	case x > 0:
		return value.Int(1)
	case x < 0:
		return value.Int(-1)
	}
	return value.Int(0)
}

// logarithm divides natural logarithms, except for the bases 2 and 10: there the
// logarithm of a power of the base must be an integer.
func logarithm(_ *env, args []value.Value) value.Value {
	if args[0].Kind() != value.KindNumber {
		return value.Undefined()
	}
	x := args[0].Float()
	if len(args) == 1 {
		return value.Double(ln(x))
	}
	if args[1].Kind() != value.KindNumber {
		return value.Undefined()
	}
	switch base := args[1].Float(); base {
	case 10:
		return value.Double(log10(x))
	case 2:
		return value.Double(math.Log2(x))
	default:
		return value.Double(ln(x) / ln(base))
	}
}

// Go's logarithms are wrong for denormal numbers, so these are multiplied by a power of
// two first.
const (
	normalMin   = 0x1p-1022
	denormal    = 0x1p54
	denormalLog = 54
)

func ln(x float64) float64 {
	if x > 0 && x < normalMin {
		return math.Log(x*denormal) - denormalLog*math.Ln2
	}
	return math.Log(x)
}

// power scales denormal numbers, because it computes with their logarithms.
func power(x, y float64) float64 {
	if x > 0 && x < normalMin {
		return math.Pow(x*denormal, y) * math.Pow(denormal, -y)
	}
	return math.Pow(x, y)
}

// log10 returns an integer for powers of ten.
func log10(x float64) float64 {
	if x > 0 && x < normalMin {
		return math.Log10(x*denormal) - denormalLog*(math.Ln2/math.Ln10)
	}
	y := math.Log10(x)
	if near := math.Round(y); math.Pow10(int(near)) == x {
		return near
	}
	return y
}

// absolute keeps integers exact.
func absolute(_ *env, args []value.Value) value.Value {
	if args[0].Kind() == value.KindNumber && !math.Signbit(args[0].Signed()) {
		return args[0]
	}
	return value.Negate(args[0])
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
		if digits, ok = args[1].Integer(); !ok {
			return value.Undefined()
		}
	}
	if digits >= 0 && x.Float() == 0 {
		return x
	}
	if i, whole := x.Int64(); whole && digits >= 0 {
		return value.Int(i)
	}
	return whole(x.Float(), roundTo(x.Float(), digits))
}

// roundTo multiplies or divides by ten once for each digit, as the service does: the last
// digits of the power show in the result. There are at most 17 digits after the point.
// Before it the power may become infinite, and the result NaN.
func roundTo(x float64, digits int64) float64 {
	const most, least = 17, -400
	digits = min(max(digits, least), most)
	scale := 1.0
	for range max(digits, -digits) {
		scale *= 10
	}
	if digits < 0 {
		return math.Round(x/scale) * scale
	}
	return math.Round(x*scale) / scale
}

// whole returns the result f of rounding x. As in the service, it is an integer of 64
// bits if f has no fraction and x is not too large for one; if x is too small, it is the
// least integer.
func whole(x, f float64) value.Value {
	if x >= 1<<63 || math.Trunc(f) != f {
		return value.Double(f)
	}
	return value.Int(int64Of(f))
}

// int64Of drops the fraction. Like the service, it returns the least integer for NaN and
// for numbers that do not fit 64 bits.
func int64Of(f float64) int64 {
	if f >= -(1<<63) && f < 1<<63 {
		return int64(f)
	}
	return math.MinInt64
}

// numberBin rounds down to a multiple of a size, or up if the size is negative. It is
// undefined for infinite numbers and NaN. As in the service, integers wrap around at the
// ends of 64 bits.
func numberBin(_ *env, args []value.Value) value.Value {
	size := value.Int(1)
	if len(args) == 2 {
		size = args[1]
	}
	x, y, ok := numbers(args[0], size)
	if !ok || y == 0 || x-x != 0 || y-y != 0 {
		return value.Undefined()
	}
	if i, ok := args[0].Integer(); ok {
		if n, ok := size.Integer(); ok {
			return value.Int(binOf(i, n))
		}
	}
	bin := math.Floor(x/y) * y
	switch {
	case y == 1:
		return whole(x, bin)
	case math.Trunc(y) == y:
		bin += 0 // no -0
	}
	return value.Double(bin)
}

// binOf is numberBin of integers. The size is not 0.
func binOf(i, size int64) int64 {
	rest := i % size
	if rest == 0 || rest > 0 == (size > 0) {
		return i - rest
	}
	return i - rest - size
}
