package throughput

import "math"

// Meter adds up the charge of one request. The zero value is ready, a nil Meter
// counts nothing. It belongs to one goroutine: a fan-out gives each partition a
// Meter of its own and merges them, in any order, for the sum does not depend
// on it.
type Meter struct {
	micros int64 // millionths of a request unit: integers add up the same in any order
}

const micro = 1e6

// Add adds a charge in request units. It panics when that is negative or no
// number, since a meter never runs backwards.
func (m *Meter) Add(charge float64) {
	if !(charge >= 0) {
		panic("throughput: charge is not a positive number")
	}
	if m != nil {
		m.micros += int64(math.Round(charge * micro))
	}
}

// Merge adds what another meter counted.
func (m *Meter) Merge(o *Meter) {
	if m != nil && o != nil {
		m.micros += o.micros
	}
}

// Charge returns the sum so far in request units, rounded to hundredths as
// clients read it.
func (m *Meter) Charge() float64 {
	if m == nil {
		return 0
	}
	const hundredth = micro / 100
	return math.Round(float64(m.micros)/hundredth) / 100
}
