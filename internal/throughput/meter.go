package throughput

import "math"

// Meter adds up the charge of one request, and says as whom it spends. The zero
// value is ready, a nil Meter counts nothing. It belongs to one goroutine: a
// fan-out gives each partition a Meter of its own and merges them, in any order,
// for the sum does not depend on it.
type Meter struct {
	Spender

	// Twice says that budgets are charged twice what is counted, as answers are
	// whose reads cost twice.
	Twice bool

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

// As returns as whom the request spends.
func (m *Meter) As() Spender {
	if m == nil {
		return Spender{}
	}
	return m.Spender
}

// Due returns what a budget has to pay for the sum so far, in request units and
// not rounded.
func (m *Meter) Due() float64 {
	if m == nil {
		return 0
	}
	if m.Twice {
		return 2 * float64(m.micros) / micro
	}
	return float64(m.micros) / micro
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
