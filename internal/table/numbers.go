package table

import (
	"math"
	"math/big"
	"strconv"

	"github.com/decandb/decan/internal/row"
)

// number is a numeric value, as Java's Number: each conversion is that of Java.
type number struct {
	kind row.Kind
	i    int64    // of integers and counters
	f    float64  // of float and double
	b    *big.Int // of varint, and the unscaled value of decimal
	s    int32    // scale of decimal
}

// numberOf reads a numeric value that is not empty.
func numberOf(k row.Kind, v []byte) number {
	n := number{kind: k}
	switch k {
	case row.KindFloat, row.KindDouble:
		n.f = row.Floating(v)
	case row.KindVarInt:
		n.b = row.BigInteger(v)
	case row.KindDecimal:
		n.b, n.s = row.DecimalParts(v)
	default:
		n.i = row.Integer(v)
	}
	return n
}

// whole says whether the number is an integer of up to 64 bits.
func (n number) whole() bool {
	return n.b == nil && n.kind != row.KindFloat && n.kind != row.KindDouble
}

// bigInt returns the number without its fraction.
func (n number) bigInt() *big.Int {
	switch {
	case n.whole():
		return big.NewInt(n.i)
	case n.kind == row.KindVarInt:
		return n.b
	case n.kind == row.KindDecimal:
		return truncated(n.b, n.s)
	}
	unscaled, scale := decimalOf(n.f)
	return truncated(unscaled, scale)
}

// truncated returns a decimal without its fraction.
func truncated(unscaled *big.Int, scale int32) *big.Int {
	if scale <= 0 {
		return new(big.Int).Mul(unscaled, pow10(-int64(scale)))
	}
	return new(big.Int).Quo(unscaled, pow10(int64(scale)))
}

func pow10(n int64) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(n), nil) }

// int64 returns the number as Java's longValue: low bits of large integers, and the
// nearest value in the range for floating-point numbers.
func (n number) int64() int64 {
	switch {
	case n.whole():
		return n.i
	case n.b != nil:
		return lowBits(n.bigInt())
	case math.IsNaN(n.f):
		return 0
	case n.f >= math.MaxInt64:
		return math.MaxInt64
	case n.f <= math.MinInt64:
		return math.MinInt64
	}
	return int64(n.f)
}

// lowBits returns the lowest 64 bits of an integer in two's complement.
func lowBits(b *big.Int) int64 {
	low := new(big.Int).And(b, new(big.Int).SetUint64(math.MaxUint64))
	return int64(low.Uint64())
}

// int32 is Java's intValue.
func (n number) int32() int32 {
	if n.whole() || n.b != nil {
		return int32(n.int64())
	}
	switch {
	case math.IsNaN(n.f):
		return 0
	case n.f >= math.MaxInt32:
		return math.MaxInt32
	case n.f <= math.MinInt32:
		return math.MinInt32
	}
	return int32(n.f)
}

// float64 is Java's doubleValue.
func (n number) float64() float64 {
	switch {
	case n.whole():
		return float64(n.i)
	case n.kind == row.KindVarInt:
		f, _ := new(big.Float).SetInt(n.b).Float64()
		return f
	case n.kind == row.KindDecimal:
		f, err := strconv.ParseFloat(n.b.String()+"e"+strconv.FormatInt(-int64(n.s), 10), 64)
		if err != nil && !math.IsInf(f, 0) {
			return 0
		}
		return f
	}
	return n.f
}

// float32 is Java's floatValue.
func (n number) float32() float32 {
	switch {
	case n.whole():
		return float32(n.i)
	case n.b != nil:
		f, _ := strconv.ParseFloat(n.b.String()+"e"+strconv.FormatInt(-int64(n.s), 10), 32)
		return float32(f)
	}
	return float32(n.f)
}

// decimal returns the number as a decimal. It is false for NaN and the infinities.
// Integers of up to 64 bits pass through a double if lossy is true, as operands of
// operations do in Cassandra; so 2 becomes 2.0.
func (n number) decimal(lossy bool) (unscaled *big.Int, scale int32, ok bool) {
	switch {
	case n.kind == row.KindDecimal:
		return n.b, n.s, true
	case n.kind == row.KindVarInt:
		return n.b, 0, true
	case n.whole() && !lossy:
		return big.NewInt(n.i), 0, true
	}
	f := n.float64()
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, 0, false
	}
	unscaled, scale = decimalOf(f)
	return unscaled, scale, true
}

// decimalOf returns Java's BigDecimal.valueOf of a finite double: the digits that Java
// prints, so that 2 is 2.0.
func decimalOf(f float64) (unscaled *big.Int, scale int32) {
	v, err := native(row.KindDecimal).ParseLiteral(row.FloatLiteral, native(row.KindDouble).Format(row.Double(f)), "")
	if err != nil {
		return new(big.Int), 0
	}
	return row.DecimalParts(v)
}

// encode returns the value of a numeric kind nearest to the number, as Java converts.
// It is false if a decimal or varint cannot hold it.
func (n number) encode(k row.Kind) (v []byte, ok bool) {
	if n.kind == row.KindDecimal && !floating(k) && n.s < -decimalMax {
		return nil, false // It has too many digits.
	}
	switch k {
	case row.KindTinyInt:
		return []byte{byte(n.int32())}, true
	case row.KindSmallInt:
		i := n.int32()
		return []byte{byte(i >> 8), byte(i)}, true
	case row.KindInt:
		return row.Int(n.int32()), true
	case row.KindBigInt, row.KindCounter:
		return row.BigInt(n.int64()), true
	case row.KindFloat:
		return row.Float(n.float32()), true
	case row.KindDouble:
		return row.Double(n.float64()), true
	case row.KindVarInt:
		if n.b == nil && !n.whole() && (math.IsNaN(n.f) || math.IsInf(n.f, 0)) {
			return nil, false
		}
		return row.VarInt(n.bigInt()), true
	}
	unscaled, scale, ok := n.decimal(false)
	if !ok {
		return nil, false
	}
	return row.Decimal(unscaled, scale), true
}

// numericKinds are the kinds of numbers, in the order in which messages list them.
var numericKinds = []row.Kind{
	row.KindTinyInt, row.KindSmallInt, row.KindInt, row.KindBigInt, row.KindCounter, row.KindFloat, row.KindDouble, row.KindVarInt, row.KindDecimal,
}

func numeric(k row.Kind) bool {
	for _, n := range numericKinds {
		if n == k {
			return true
		}
	}
	return false
}

func floating(k row.Kind) bool {
	return k == row.KindFloat || k == row.KindDouble || k == row.KindDecimal
}

// width returns the bytes of the values of a numeric kind; those of varint and decimal
// count as more than any other.
func width(k row.Kind) int {
	switch k {
	case row.KindTinyInt:
		return 1
	case row.KindSmallInt:
		return 2
	case row.KindInt, row.KindFloat:
		return 4
	case row.KindVarInt, row.KindDecimal:
		return math.MaxInt
	}
	return 8
}

// wider returns the kind of the result of an operation on two kinds of numbers.
func wider(left, right row.Kind) row.Kind {
	bytes := max(width(left), width(right))
	if floating(left) || floating(right) {
		switch bytes {
		case 4, 2, 1:
			return row.KindFloat
		case 8:
			return row.KindDouble
		}
		return row.KindDecimal
	}
	switch bytes {
	case 1:
		return row.KindTinyInt
	case 2:
		return row.KindSmallInt
	case 4:
		return row.KindInt
	case 8:
		return row.KindBigInt
	}
	return row.KindVarInt
}
