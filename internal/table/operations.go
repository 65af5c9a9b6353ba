package table

import (
	"errors"
	"math"
	"math/big"
	"sync"

	"github.com/decandb/decan/internal/row"
)

// operations returns the functions of an operator.
var operations = sync.OnceValue(func() map[byte][]*function {
	all := map[byte][]*function{}
	add := func(op byte, left, right, result row.Kind, eval func(a, b []byte) ([]byte, error)) {
		f := &function{args: []*row.Type{native(left), native(right)}, result: native(result)}
		f.name, f.operator = operationNames[op], op
		f.eval = func(_ *Moment, args [][]byte) ([]byte, error) {
			if len(args[0]) == 0 && left != row.KindText && left != row.KindASCII || len(args[1]) == 0 && right != row.KindText && right != row.KindASCII {
				return nil, nil
			}
			v, err := eval(args[0], args[1])
			if err != nil {
				return nil, failed(f.name, typeNames(f.args), "the operation '%s %c %s' failed: %s", f.args[0], op, f.args[1], err)
			}
			return v, nil
		}
		all[op] = append(all[op], f)
	}
	for _, op := range []byte("+-*/%") {
		for _, left := range numericKinds {
			for _, right := range numericKinds {
				to := wider(left, right)
				add(op, left, right, to, func(a, b []byte) ([]byte, error) {
					return operate(op, to, numberOf(left, a), numberOf(right, b))
				})
			}
		}
	}
	for _, kinds := range [][3]row.Kind{
		{row.KindText, row.KindText, row.KindText},
		{row.KindASCII, row.KindASCII, row.KindASCII},
		{row.KindASCII, row.KindText, row.KindText},
		{row.KindText, row.KindASCII, row.KindText},
	} {
		add('+', kinds[0], kinds[1], kinds[2], func(a, b []byte) ([]byte, error) {
			return append(append(make([]byte, 0, len(a)+len(b)), a...), b...), nil
		})
	}
	for op, sign := range map[byte]int64{'+': 1, '-': -1} {
		add(op, row.KindTimestamp, row.KindDuration, row.KindTimestamp, func(a, b []byte) ([]byte, error) {
			months, days, nanos := row.DurationParts(b)
			return row.BigInt(shift(row.Integer(a), sign*int64(months), sign*int64(days), sign*nanos)), nil
		})
		add(op, row.KindDate, row.KindDuration, row.KindDate, func(a, b []byte) ([]byte, error) {
			months, ds, nanos := row.DurationParts(b)
			if nanos != 0 {
				return nil, reason("The duration must have a day precision. Was: " + native(row.KindDuration).Format(b))
			}
			return row.Date(days(shift(row.DateDays(a)*milliPerDay, sign*int64(months), sign*int64(ds), 0))), nil
		})
	}
	return all
})

var operationNames = map[byte]string{'+': "_add", '-': "_substract", '*': "_multiply", '/': "_divide", '%': "_modulo"}

// shift adds a duration to a time in milliseconds since 1970, months first. It may wrap around.
func shift(milli, months, ds, nanos int64) int64 {
	if months != 0 {
		milli = addMonths(milli, months)
	}
	return milli + ds*milliPerDay + nanos/1e6
}

var (
	errZero    = errors.New("/ by zero")
	errBigZero = errors.New("BigInteger divide by zero")
)

// operate applies an operator to two numbers, with a result of a kind.
func operate(op byte, to row.Kind, a, b number) ([]byte, error) {
	switch to {
	case row.KindFloat:
		return row.Float(float32(operateFloat(op, float64(a.float32()), float64(b.float32())))), nil
	case row.KindDouble:
		return row.Double(operateFloat(op, a.float64(), b.float64())), nil
	case row.KindVarInt:
		v, err := operateBig(op, a.bigInt(), b.bigInt())
		if err != nil {
			return nil, err
		}
		return row.VarInt(v), nil
	case row.KindDecimal:
		return operateDecimal(op, a, b)
	}
	v, err := operateInt(op, to, a.int64(), b.int64())
	if err != nil {
		return nil, err
	}
	bytes, _ := number{kind: row.KindBigInt, i: v}.encode(to)
	return bytes, nil
}

// plus adds two values of a type of numbers or texts; null if one is null, or no number.
func plus(k row.Kind, a, b []byte) ([]byte, error) {
	if a == nil || b == nil {
		return nil, nil
	}
	if k == row.KindText || k == row.KindASCII {
		return append(append(make([]byte, 0, len(a)+len(b)), a...), b...), nil
	}
	if len(a) == 0 || len(b) == 0 {
		return nil, nil
	}
	return operate('+', k, numberOf(k, a), numberOf(k, b))
}

// operateFloat applies an operator to two numbers. The result of two float values,
// rounded to float, is that of the operation on them.
func operateFloat(op byte, a, b float64) float64 {
	switch op {
	case '+':
		return a + b
	case '-':
		return a - b
	case '*':
		return a * b
	case '/':
		return a / b
	}
	return math.Mod(a, b)
}

func operateInt(op byte, to row.Kind, a, b int64) (int64, error) {
	switch op {
	case '+':
		return a + b, nil
	case '-':
		return a - b, nil
	case '*':
		return a * b, nil
	}
	if b == 0 {
		return 0, errZero
	}
	if b == -1 { // Go's result of the least integer is Java's, too.
		if op == '/' {
			return -a, nil
		}
		return 0, nil
	}
	if op == '/' {
		return a / b, nil
	}
	return a % b, nil
}

func operateBig(op byte, a, b *big.Int) (*big.Int, error) {
	v := new(big.Int)
	switch op {
	case '+':
		return v.Add(a, b), nil
	case '-':
		return v.Sub(a, b), nil
	case '*':
		return v.Mul(a, b), nil
	}
	if b.Sign() == 0 {
		return nil, errBigZero
	}
	if op == '/' {
		return v.Quo(a, b), nil
	}
	return v.Rem(a, b), nil
}

// reason is why an operation fails, as a sentence of Cassandra.
type reason string

// Error returns the sentence.
func (r reason) Error() string { return string(r) }

// decimalMax bounds the digits of a decimal that an operation makes.
const decimalMax = 10_000

var (
	errNaN      = reason("A NaN cannot be converted into a decimal")
	errInfinite = reason("An infinite number cannot be converted into a decimal")
	errLong     = reason("The decimal is too long")
)

func operateDecimal(op byte, a, b number) ([]byte, error) {
	x, xs, ok := a.decimal(true)
	y, ys, also := b.decimal(true)
	if !ok || !also {
		if math.IsNaN(a.f) || math.IsNaN(b.f) {
			return nil, errNaN
		}
		return nil, errInfinite
	}
	if gap := int64(xs) - int64(ys); op != '*' && (gap > decimalMax || gap < -decimalMax) {
		return nil, errLong
	}
	if op == '*' {
		scale := int64(xs) + int64(ys)
		if scale != int64(int32(scale)) {
			return nil, errLong
		}
		return row.Decimal(new(big.Int).Mul(x, y), int32(scale)), nil
	}
	if op == '/' {
		return divideDecimals(x, xs, y, ys)
	}
	if op == '%' && y.Sign() == 0 {
		if x.Sign() == 0 {
			return nil, reason("Division undefined")
		}
		return nil, reason("Division by zero")
	}
	if op == '%' {
		return remainder(x, xs, y, ys)
	}
	scale := max(xs, ys)
	x = new(big.Int).Mul(x, pow10(int64(scale)-int64(xs)))
	y = new(big.Int).Mul(y, pow10(int64(scale)-int64(ys)))
	v, err := operateBig(op, x, y)
	if err != nil {
		return nil, err
	}
	return row.Decimal(v, scale), nil
}

// remainder returns the rest of a division of decimals with the scale that Java's BigDecimal
// gives it: that of x minus the product of the integral quotient and y, where the quotient
// has the difference of the scales, or fewer digits if it is an integer with zeros at its end.
func remainder(x *big.Int, xs int32, y *big.Int, ys int32) ([]byte, error) {
	scale, preferred := max(xs, ys), int64(xs)-int64(ys)
	a := new(big.Int).Mul(x, pow10(int64(scale)-int64(xs)))
	b := new(big.Int).Mul(y, pow10(int64(scale)-int64(ys)))
	quotient, rest := new(big.Int).QuoRem(a, b, new(big.Int))
	of := preferred
	if ten := big.NewInt(10); preferred < 0 && quotient.Sign() != 0 {
		for of = 0; of > preferred; of-- {
			q, r := new(big.Int).QuoRem(quotient, ten, new(big.Int))
			if r.Sign() != 0 {
				break
			}
			quotient = q
		}
	}
	result := max(int64(xs), of+int64(ys))
	if result < int64(scale) {
		rest.Quo(rest, pow10(int64(scale)-result)) // They are zeros.
	} else {
		rest.Mul(rest, pow10(result-int64(scale)))
	}
	return row.Decimal(rest, int32(result)), nil
}

// divideDecimals divides as Cassandra does: at least 32 significant digits and 32
// decimals, at most 1,000 decimals, without trailing zeros.
func divideDecimals(x *big.Int, xs int32, y *big.Int, ys int32) ([]byte, error) {
	if y.Sign() == 0 {
		return nil, errBigZero
	}
	const digits, scaleMin, scaleMax = 32, 32, 1000
	first := (int64(precision(x)) - int64(xs)) - (int64(precision(y)) - int64(ys))
	scale := min(max(digits-first, int64(xs), int64(ys), scaleMin), scaleMax)
	quotient := quotientHalfUp(x, y, scale+int64(ys)-int64(xs))
	unscaled, s := stripZeros(quotient, scale)
	return row.Decimal(unscaled, int32(s)), nil
}

// quotientHalfUp returns x / y times 10^shift, rounded half up.
func quotientHalfUp(x, y *big.Int, shift int64) *big.Int {
	a, b := new(big.Int).Set(x), new(big.Int).Set(y)
	if shift >= 0 {
		a.Mul(a, pow10(shift))
	} else {
		b.Mul(b, pow10(-shift))
	}
	negative := a.Sign()*b.Sign() < 0
	a.Abs(a)
	b.Abs(b)
	q, r := new(big.Int).QuoRem(a, b, new(big.Int))
	if r.Lsh(r, 1).Cmp(b) >= 0 {
		q.Add(q, big.NewInt(1))
	}
	if negative {
		q.Neg(q)
	}
	return q
}

// stripZeros removes trailing zeros; zero has the scale 0.
func stripZeros(unscaled *big.Int, scale int64) (*big.Int, int64) {
	if unscaled.Sign() == 0 {
		return unscaled, 0
	}
	ten, rest := big.NewInt(10), new(big.Int)
	for {
		q, r := new(big.Int).QuoRem(unscaled, ten, rest)
		if r.Sign() != 0 {
			return unscaled, scale
		}
		unscaled, scale = q, scale-1
	}
}

// precision returns the number of decimal digits, 1 for zero.
func precision(b *big.Int) int {
	return len(new(big.Int).Abs(b).String())
}

// resolveOperation finds the operation for two operands. receiver is the type of what
// the result is for, nil if that is not known.
func resolveOperation(op byte, left, right argument, receiver *row.Type) (*function, error) {
	return resolveOperationFor(op, left, right, receiver, false)
}

// resolveOperationFor is resolveOperation for a receiver that may be a clustering column in
// descending order: its type in Apache Cassandra is not that of the operands, which it would
// decide between.
func resolveOperationFor(op byte, left, right argument, receiver *row.Type, descending bool) (*function, error) {
	args := []argument{left, right}
	var fit []*function
	for _, f := range operations()[op] {
		if receiver != nil && typeMatch(receiver, f.result) == noMatch {
			continue
		}
		switch f.matches(args) {
		case exact:
			return f, nil
		case weak:
			fit = append(fit, f)
		}
	}
	switch len(fit) {
	case 0:
		return nil, invalid("the '%c' operation is not supported between %s and %s", op, left, right)
	case 1:
		return fit[0], nil
	}
	if receiver != nil && !descending && !left.marks() && !right.marks() {
		for _, f := range fit {
			if f.args[0].Equal(receiver) && f.args[1].Equal(receiver) {
				return f, nil
			}
		}
	}
	return nil, invalid("Ambiguous '%c' operation with args %s and %s: use type hint to disambiguate, example '(int) ?'", op, left, right)
}

// resolveNegation finds the negation of an operand.
func resolveNegation(operand argument, receiver *row.Type) (*function, error) {
	candidates := make([]*function, len(numericKinds))
	for i, k := range numericKinds {
		candidates[i] = negation(k)
	}
	return choose(candidates, []argument{operand}, receiver, func([]*function) error {
		return invalid("Ambiguous negation: use type casts to disambiguate")
	}, func() error {
		return invalid("Invalid call to function system._negate, none of its type signatures match (known type signatures: %s)", signatures(candidates))
	})
}

func negation(k row.Kind) *function {
	t := native(k)
	return &function{name: "_negate", args: []*row.Type{t}, result: t, eval: func(_ *Moment, args [][]byte) ([]byte, error) {
		if len(args[0]) == 0 {
			return nil, nil
		}
		n := numberOf(k, args[0])
		n.i, n.f = -n.i, -n.f
		if n.b != nil {
			n.b = new(big.Int).Neg(n.b)
		}
		v, _ := n.encode(k)
		return v, nil
	}}
}
