package table

import (
	"math"
	"math/big"

	"github.com/decandb/decan/internal/row"
)

// aggregator computes an aggregate over the values of a group.
type aggregator interface {
	// add adds a value, which is nil for null. It keeps no bytes of it.
	add(v []byte) error
	result() []byte
}

// aggregateFunction returns the aggregate of a name for a type, nil if there is none.
func aggregateFunction(name string, t *row.Type) *function {
	f := &function{name: name, args: []*row.Type{t}, result: t}
	switch {
	case name == "count":
		f.result = native(row.KindBigInt)
		f.aggregate = func() aggregator { return &counting{} }
	case (name == "min" || name == "max") && !t.Native():
		return aggregateFunction(name, native(row.KindBlob)) // as in Apache Cassandra, which has none for the type
	case name == "min":
		f.aggregate = func() aggregator { return &extreme{t: t, sign: -1} }
	case name == "max":
		f.aggregate = func() aggregator { return &extreme{t: t, sign: 1} }
	case !numeric(t.Kind):
		return nil
	case name == "sum":
		f.aggregate = func() aggregator { return newSumming(t.Kind, false) }
	case name == "avg":
		f.aggregate = func() aggregator { return newSumming(t.Kind, true) }
	default:
		return nil
	}
	return f
}

// numericAggregates returns sum or avg for all kinds of numbers.
func numericAggregates(name string) (all []*function) {
	for _, k := range numericKinds {
		all = append(all, aggregateFunction(name, native(k)))
	}
	return all
}

// countRows returns COUNT(*).
func countRows() *function {
	return &function{name: "countRows", result: native(row.KindBigInt), aggregate: func() aggregator { return &counting{rows: true} }}
}

// counting counts rows, or values that are not null.
type counting struct {
	rows bool
	n    int64
}

func (c *counting) add(v []byte) error {
	if c.rows || v != nil {
		c.n++
	}
	return nil
}
func (c *counting) result() []byte { return row.BigInt(c.n) }

// extreme finds the least or the greatest value.
type extreme struct {
	t    *row.Type
	sign int
	best []byte
}

func (e *extreme) add(v []byte) error {
	if v != nil && (e.best == nil || e.t.Compare(v, e.best)*e.sign > 0) {
		e.best = append(make([]byte, 0, max(1, len(v))), v...)
	}
	return nil
}
func (e *extreme) result() []byte { return e.best }

// newSumming returns the sum, or the average, of numbers of a kind.
func newSumming(k row.Kind, average bool) aggregator {
	switch k {
	case row.KindFloat, row.KindDouble:
		return &floatSum{kind: k, average: average}
	case row.KindDecimal:
		return &decimalSum{average: average, sum: new(big.Int)}
	}
	return &intSum{kind: k, average: average, sum: new(big.Int)}
}

// intSum adds integers. The sum is cut to the type; an average is of the whole sum.
type intSum struct {
	kind    row.Kind
	average bool
	small   int64 // a part of the sum that has not been added to sum
	sum     *big.Int
	n       int64
}

func (s *intSum) add(v []byte) error {
	if len(v) == 0 {
		return nil
	}
	s.n++
	n := numberOf(s.kind, v)
	if n.b != nil {
		s.sum.Add(s.sum, n.b)
		return nil
	}
	if next := s.small + n.i; (next > s.small) == (n.i > 0) {
		s.small = next
		return nil
	}
	s.sum.Add(s.sum, big.NewInt(s.small))
	s.small = n.i
	return nil
}

func (s *intSum) result() []byte {
	total := new(big.Int).Add(s.sum, big.NewInt(s.small))
	if s.average && s.n > 0 {
		total.Quo(total, big.NewInt(s.n))
	}
	v, _ := number{kind: row.KindVarInt, b: total}.encode(s.kind)
	return v
}

// floatSum adds with the summation of Kahan, as Cassandra does.
type floatSum struct {
	kind              row.Kind
	average           bool
	sum, lost, simple float64
	n                 int64
}

func (s *floatSum) add(v []byte) error {
	if len(v) == 0 {
		return nil
	}
	s.n++
	f := row.Floating(v)
	s.simple += f
	y := f - s.lost
	t := s.sum + y
	s.lost = (t - s.sum) - y
	s.sum = t
	return nil
}

func (s *floatSum) result() []byte {
	total := s.sum
	if math.IsNaN(total) && math.IsInf(s.simple, 0) {
		total = s.simple
	}
	if s.average && s.n > 0 {
		total /= float64(s.n)
	}
	v, _ := number{kind: row.KindDouble, f: total}.encode(s.kind)
	return v
}

// decimalSum adds decimals exactly. An average is a running mean at the scale of the
// values, rounded half to even, as in Cassandra.
type decimalSum struct {
	average bool
	sum     *big.Int // the sum, or the mean
	scale   int32
	n       int64
}

func (s *decimalSum) add(v []byte) error {
	if len(v) == 0 {
		return nil
	}
	b, scale := row.DecimalParts(v)
	if gap := int64(scale) - int64(s.scale); s.n > 0 && (gap > decimalMax || gap < -decimalMax) || scale < -decimalMax || scale > decimalMax {
		return failed("sum", []string{"decimal"}, "%s", errLong)
	}
	s.n++
	if !s.average {
		s.plus(b, scale)
		return nil
	}
	// mean += (value - mean) / n
	difference := decimalSum{sum: new(big.Int).Set(b), scale: scale}
	difference.plus(new(big.Int).Neg(s.sum), s.scale)
	s.plus(halfEven(difference.sum, big.NewInt(s.n)), difference.scale)
	return nil
}

// plus adds a decimal to the sum.
func (s *decimalSum) plus(b *big.Int, scale int32) {
	to := max(s.scale, scale)
	s.sum = new(big.Int).Add(new(big.Int).Mul(s.sum, pow10(int64(to)-int64(s.scale))), new(big.Int).Mul(b, pow10(int64(to)-int64(scale))))
	s.scale = to
}

func (s *decimalSum) result() []byte { return row.Decimal(s.sum, s.scale) }

// halfEven returns a / b, rounded to the nearest integer, or to the even one of two.
func halfEven(a, b *big.Int) *big.Int {
	q, r := new(big.Int).QuoRem(a, b, new(big.Int))
	switch c := new(big.Int).Lsh(r, 1).CmpAbs(b); {
	case c > 0, c == 0 && q.Bit(0) == 1:
		q.Add(q, big.NewInt(int64(a.Sign()*b.Sign())))
	}
	return q
}
