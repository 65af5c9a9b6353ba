package query

import (
	"math"
	"math/rand/v2"

	"github.com/decandb/decan/internal/value"
)

// mathFunctions take numbers; any other argument makes them undefined.
func mathFunctions() []function {
	one := func(name string, f func(x float64) float64) function {
		return function{name: name, min: 1, max: 1, run: func(_ *env, args []value.Value) value.Value {
			if args[0].Kind() != value.KindNumber {
				return value.Undefined()
			}
			return value.Number(f(args[0].Float()))
		}}
	}
	// whole are functions that leave an exact integer as it is.
	whole := func(name string, f func(x float64) float64) function {
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
		one("ABS", math.Abs), whole("CEILING", math.Ceil), whole("FLOOR", math.Floor), whole("TRUNC", math.Trunc),
		one("SIGN", sign), one("SQUARE", func(x float64) float64 { return x * x }),
		one("SQRT", math.Sqrt), one("EXP", math.Exp), one("LOG10", math.Log10),
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

// integerFunctions work on whole numbers of 64 bits and wrap around.
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

// logarithm divides natural logarithms for a base, but for 2 and 10, where the
// results for powers must be whole.
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
		return value.Number(math.Log10(x))
	case 2:
		return value.Number(math.Log2(x))
	default:
		return value.Number(math.Log(x) / math.Log(base))
	}
}

// round rounds halves away from zero.
func round(_ *env, args []value.Value) value.Value {
	if args[0].Kind() != value.KindNumber {
		return value.Undefined()
	}
	if len(args) == 1 {
		if _, ok := args[0].Int64(); ok {
			return args[0]
		}
		return value.Number(math.Round(args[0].Float()))
	}
	digits, ok := args[1].Int64()
	if !ok || digits < -300 || digits > 300 {
		return value.Undefined()
	}
	scale := math.Pow(10, float64(digits))
	return value.Number(math.Round(args[0].Float()*scale) / scale)
}

func numberBin(_ *env, args []value.Value) value.Value {
	size := value.Int(1)
	if len(args) == 2 {
		size = args[1]
	}
	x, y, ok := numbers(args[0], size)
	if !ok || y == 0 {
		return value.Undefined()
	}
	return value.Number(math.Floor(x/y) * y)
}
