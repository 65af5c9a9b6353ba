package vector

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
)

// Element is the type of the elements of a stored vector.
type Element uint8

// The element types, as named in a vector policy.
const (
	Float32 Element = iota
	Float16
	Int8
	Uint8
)

var elements = [...]struct {
	name string
	size int
}{Float32: {"float32", 4}, Float16: {"float16", 2}, Int8: {"int8", 1}, Uint8: {"uint8", 1}}

// ParseElement returns the element type with that name, in any letter case.
func ParseElement(name string) (Element, bool) {
	for i, known := range elements {
		if strings.EqualFold(name, known.name) {
			return Element(i), true
		}
	}
	return 0, false
}

// String returns the name of the element type as policies write it.
func (e Element) String() string {
	if int(e) < len(elements) {
		return elements[e].name
	}
	return "unknown element type"
}

// Size returns the size of one stored element in bytes, 0 for an unknown type.
func (e Element) Size() int {
	if int(e) < len(elements) {
		return elements[e].size
	}
	return 0
}

// AppendVector appends the stored form of v: its elements in little-endian
// order. An element becomes the nearest value of the type, or the even one of
// two nearest values. A value out of range becomes the end of the range, and NaN
// becomes 0.
func AppendVector(dst []byte, e Element, v []float32) []byte {
	switch e {
	case Float32:
		for _, x := range v {
			dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(clamped(x, -math.MaxFloat32, math.MaxFloat32)))
		}
	case Float16:
		for _, x := range v {
			dst = binary.LittleEndian.AppendUint16(dst, halfBits(clamped(x, -halfMax, halfMax)))
		}
	case Int8:
		for _, x := range v {
			dst = append(dst, byte(int8(math.RoundToEven(float64(clamped(x, math.MinInt8, math.MaxInt8))))))
		}
	case Uint8:
		for _, x := range v {
			dst = append(dst, byte(math.RoundToEven(float64(clamped(x, 0, math.MaxUint8)))))
		}
	}
	return dst
}

// DecodeVector appends the elements of a stored vector to dst. It returns false
// if raw is not a whole number of elements of the type, or an element is not
// finite.
func DecodeVector(dst []float32, e Element, raw []byte) ([]float32, bool) {
	size := e.Size()
	if size == 0 || len(raw)%size != 0 {
		return dst, false
	}
	start := len(dst)
	dst = slices.Grow(dst, len(raw)/size)[:start+len(raw)/size]
	if !decode(dst[start:], e, raw) {
		return dst[:start], false
	}
	return dst, true
}

// decode fills v from the same number of stored elements, and reports whether
// all are finite.
func decode(v []float32, e Element, raw []byte) bool {
	allFinite := true
	switch e {
	case Float32:
		for i := range v {
			v[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw))
			allFinite = allFinite && finite(v[i])
			raw = raw[4:]
		}
	case Float16:
		for i := range v {
			v[i] = halfFloat(binary.LittleEndian.Uint16(raw))
			allFinite = allFinite && finite(v[i])
			raw = raw[2:]
		}
	case Int8:
		for i, b := range raw[:len(v)] {
			v[i] = float32(int8(b))
		}
	case Uint8:
		for i, b := range raw[:len(v)] {
			v[i] = float32(b)
		}
	}
	return allFinite
}

func clamped(x, low, high float32) float32 {
	if x != x {
		return 0
	}
	return max(low, min(high, x))
}

// halfMax is the largest finite number of 16 bits.
const halfMax = 65504

// halfBits returns the IEEE 754 form in 16 bits of a number within ±halfMax.
func halfBits(f float32) uint16 {
	bits := math.Float32bits(f)
	sign := uint16(bits >> 16 & 0x8000)
	bits &= 0x7FFFFFFF
	const smallest = 113 << 23 // 2^-14, the smallest normal number
	if bits < smallest {
		// Adding 0.5 leaves exactly the fraction bits of a subnormal, rounded by
		// the hardware.
		sum := math.Float32frombits(bits) + 0.5
		return sign | uint16(math.Float32bits(sum)-math.Float32bits(0.5))
	}
	// Round off 13 bits, and change the bias of the exponent from 127 to 15.
	bits += 0xFFF + bits>>13&1
	return sign | uint16((bits-112<<23)>>13)
}

// halfFloat returns the number of an IEEE 754 form in 16 bits.
func halfFloat(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exponent, fraction := uint32(h>>10&0x1F), uint32(h&0x3FF)
	switch exponent {
	case 0:
		const unit = 1.0 / (1 << 24)
		return math.Float32frombits(math.Float32bits(float32(fraction)*unit) | sign)
	case 0x1F:
		return math.Float32frombits(sign | 0x7F800000 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
}
