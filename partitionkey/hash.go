package partitionkey

import (
	"encoding/binary"

	"github.com/twmb/murmur3"
)

// hashWidth is the number of bytes of one version 2 hash.
const hashWidth = 16

// The sizes of stack buffers for a hash input: most components fit the first,
// and everything that Check accepts fits the second.
const (
	inputSmall = 128
	inputLarge = ComponentBytesMax + 2
)

// The marker byte before each component of a hash input.
const (
	markUndefined = 0x00
	markNull      = 0x01
	markFalse     = 0x02
	markTrue      = 0x03
	markNumber    = 0x05
	markString    = 0x08
)

// Hash returns the EPK of a key. Under KindMultiHash the key may be a prefix;
// its EPK is a prefix of the EPKs of all keys that begin with it. The EPK of the
// empty key is MinEPK. Hash checks no limits; see [Definition.Check].
func (d Definition) Hash(k Key) EPK {
	var buf [LevelsMax * hashWidth]byte
	return EPK(d.AppendHash(buf[:0], k))
}

// AppendHash appends the bytes of [Definition.Hash] to dst. Under version 2 it
// does not allocate if dst has room and no component exceeds ComponentBytesMax.
func (d Definition) AppendHash(dst []byte, k Key) []byte {
	if len(k.components) == 0 {
		return dst
	}
	if d.Kind == KindToken {
		return appendToken(dst, Token([]byte(k.components[0].text)))
	}
	if d.Kind == KindRange {
		return appendOrdered(dst, k.components, false)
	}
	if d.Kind == KindHash && d.version() == 1 {
		return appendHash1(dst, k.components)
	}
	if d.Kind == KindHash {
		return appendHash2(dst, k.components)
	}
	for i := range k.components {
		dst = appendHash2(dst, k.components[i:i+1])
	}
	return dst
}

// appendHash2 appends the version 2 hash of all given components together.
func appendHash2(dst []byte, components []Component) []byte {
	size := 0
	for i := range components {
		size += len(components[i].text) + 9
	}
	// A separate function, so that a short input does not clear the large
	// buffer.
	if size > inputSmall {
		return appendHash2Large(dst, components)
	}
	var buf [inputSmall]byte
	return appendSum(dst, appendHashInput2(buf[:0], components))
}

//go:noinline
func appendHash2Large(dst []byte, components []Component) []byte {
	var buf [inputLarge]byte
	return appendSum(dst, appendHashInput2(buf[:0], components))
}

func appendHashInput2(dst []byte, components []Component) []byte {
	for i := range components {
		dst = components[i].appendHashInput(dst, false, 0xFF)
	}
	return dst
}

// appendSum appends the 128-bit hash of the input, high word first, with the two
// top bits cleared. That keeps every component of an EPK below the byte FF that
// ends a range.
func appendSum(dst, input []byte) []byte {
	low, high := murmur3.Sum128(input)
	dst = binary.BigEndian.AppendUint64(dst, high&(1<<62-1))
	return binary.BigEndian.AppendUint64(dst, low)
}

// appendHashInput appends the encoding of c in the input of a hash. A string
// ends with the given byte, and is cut first if cut is true.
func (c *Component) appendHashInput(dst []byte, cut bool, end byte) []byte {
	switch c.typ {
	case TypeNumber:
		dst = append(dst, markNumber)
		return binary.LittleEndian.AppendUint64(dst, c.bits)
	case TypeString:
		dst = append(dst, markString)
		if cut {
			dst = appendCut(dst, c.text)
		} else {
			dst = append(dst, c.text...)
		}
		return append(dst, end)
	}
	return append(dst, c.marker())
}

// marker returns the marker byte of a component without content.
func (c *Component) marker() byte {
	switch c.typ {
	case TypeNull:
		return markNull
	case TypeFalse:
		return markFalse
	case TypeTrue:
		return markTrue
	}
	return markUndefined
}
