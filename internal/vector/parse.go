package vector

import (
	"math"
	"strconv"

	"github.com/decandb/decan/internal/value"
)

// Parse appends the elements of v to dst. It returns false, and dst unchanged,
// if v is not a non-empty array of numbers that are finite as float32. The
// caller checks the length.
func Parse(v value.Value, dst []float32) ([]float32, bool) {
	items := v.Items()
	if len(items) == 0 {
		return dst, false
	}
	start := len(dst)
	for i := range items {
		if items[i].Kind() != value.KindNumber {
			return dst[:start], false
		}
		element := float32(items[i].Float())
		if !finite(element) {
			return dst[:start], false
		}
		dst = append(dst, element)
	}
	return dst, true
}

// finite reports whether f is neither NaN nor infinite; in those, all bits of
// the exponent are set.
func finite(f float32) bool {
	const exponent = 0x7F800000
	return math.Float32bits(f)&exponent != exponent
}

// ParseJSON is [Parse] for a JSON text, with optional white space around it. It
// creates no value and does not keep raw.
func ParseJSON(raw []byte, dst []float32) ([]float32, bool) {
	start := len(dst)
	s := scanner{raw: raw}
	if !s.next('[') {
		return dst, false
	}
	for {
		s.skipSpace()
		element, ok := s.number()
		if !ok {
			return dst[:start], false
		}
		dst = append(dst, element)
		if s.next(',') {
			continue
		}
		if !s.next(']') {
			return dst[:start], false
		}
		s.skipSpace()
		if s.pos < len(raw) {
			return dst[:start], false
		}
		return dst, true
	}
}

// scanner reads raw in one pass.
type scanner struct {
	raw []byte
	pos int
}

func (s *scanner) skipSpace() {
	for s.pos < len(s.raw) {
		switch s.raw[s.pos] {
		case ' ', '\n', '\r', '\t':
			s.pos++
		default:
			return
		}
	}
}

// next skips white space, and then the byte c if it is next.
func (s *scanner) next(c byte) bool {
	s.skipSpace()
	return s.take(c)
}

func (s *scanner) take(c byte) bool {
	if s.pos < len(s.raw) && s.raw[s.pos] == c {
		s.pos++
		return true
	}
	return false
}

// number parses a JSON number as value.Parse does, to the nearest double, and
// rounds it to the nearest float32.
func (s *scanner) number() (float32, bool) {
	start := s.pos
	negative := s.take('-')
	first := s.pos
	mantissa := s.digits(0)
	whole := s.pos - first
	if whole == 0 || whole > 1 && s.raw[first] == '0' {
		return 0, false
	}
	fraction := 0
	if s.take('.') {
		before := s.pos
		mantissa = s.digits(mantissa)
		fraction = s.pos - before
		if fraction == 0 {
			return 0, false
		}
	}
	plain := s.pos
	if s.take('e') || s.take('E') {
		if !s.take('+') {
			s.take('-')
		}
		before := s.pos
		s.digits(0)
		if s.pos == before {
			return 0, false
		}
	}
	// If the mantissa and the power of ten are both exact, there is only one
	// rounding.
	const digitsMax = 19 // that many fit 64 bits
	if s.pos == plain && whole+fraction <= digitsMax && mantissa < 1<<53 && fraction < len(powers) {
		f := float64(mantissa) / powers[fraction]
		if negative && mantissa != 0 { // -0 is 0, as everywhere
			f = -f
		}
		return single(f)
	}
	f, err := strconv.ParseFloat(string(s.raw[start:s.pos]), 64)
	if err != nil { // the syntax is valid, so the number is out of range
		return 0, false
	}
	return single(f + 0) // -0 + 0 is 0.
}

// digits parses decimal digits that follow those of n. n may overflow.
func (s *scanner) digits(n uint64) uint64 {
	for s.pos < len(s.raw) {
		d := s.raw[s.pos] - '0'
		if d > 9 {
			break
		}
		n = n*10 + uint64(d)
		s.pos++
	}
	return n
}

func single(f float64) (float32, bool) {
	element := float32(f)
	return element, finite(element)
}

// powers are the powers of ten that a double represents exactly.
var powers = [...]float64{
	1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
}
