package throughput

import "math"

// Meter adds up the charge of one request, and holds who spends it. The zero
// value is ready to use, and a nil Meter counts nothing. It is not safe for
// concurrent use: a fan-out gives each partition its own Meter and merges them,
// in any order, because the sum does not depend on it.
type Meter struct {
	Spender

	// Twice means that budgets are charged twice the counted units, for requests
	// whose reads cost twice.
	Twice bool

	micros int64 // millionths of a request unit: the sum of integers does not depend on the order
}

const micro = 1e6

// Add adds a charge in request units. It panics if the charge is negative or
// NaN.
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

// As returns the Spender of the request.
func (m *Meter) As() Spender {
	if m == nil {
		return Spender{}
	}
	return m.Spender
}

// Due returns the unrounded request units that a budget must pay so far.
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
// clients see it.
func (m *Meter) Charge() float64 {
	if m == nil {
		return 0
	}
	const hundredth = micro / 100
	return math.Round(float64(m.micros)/hundredth) / 100
}
