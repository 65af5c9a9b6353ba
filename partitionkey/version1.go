package partitionkey

import (
	"math"
	"unicode/utf8"

	"github.com/twmb/murmur3"
)

// Version 1 hashes to only 32 bits, so it appends the key itself to the hash:
//
//	EPK = ordered number of the hash, then each component in ordered form
//
// The ordered form compares byte by byte as the values do. Strings enter both
// parts cut to cutUnits.

const (
	// cutUnits is how many UTF-16 code units of a string are significant.
	cutUnits = 100

	// shortBytes is the maximum length of a cut string that is written
	// completely and ended with a zero byte. Of a longer one, shortBytes+1 bytes
	// are written without an end.
	shortBytes = 100

	// cutBytesMax is the longest cut string: three bytes for each unit.
	cutBytesMax = 3 * cutUnits
)

// appendHash1 appends the version 1 EPK of all given components.
func appendHash1(dst []byte, components []Component) []byte {
	var buf [cutBytesMax + 2]byte
	input := buf[:0]
	for i := range components {
		input = components[i].appendHashInput(input, true, 0x00)
	}
	dst = appendOrderedNumber(dst, float64(murmur3.Sum32(input)))
	return appendOrdered(dst, components, true)
}

// appendOrdered appends the ordered form of all given components. Strings are
// cut first if cut is true.
func appendOrdered(dst []byte, components []Component, cut bool) []byte {
	for i := range components {
		switch c := &components[i]; c.typ {
		case TypeNumber:
			dst = appendOrderedNumber(dst, c.Float())
		case TypeString:
			dst = appendOrderedString(dst, c.text, cut)
		default:
			dst = append(dst, c.marker())
		}
	}
	return dst
}

// appendOrderedNumber appends the marker of a number, its eight top bits, and
// the remaining 56 bits from the top in groups of seven. The low bit of each
// group says whether more groups follow. Trailing groups of zeros are omitted,
// except the first group.
func appendOrderedNumber(dst []byte, f float64) []byte {
	b := math.Float64bits(f)
	if b>>63 == 0 {
		b ^= 1 << 63
	} else {
		b = -b
	}
	dst = append(dst, markNumber, byte(b>>56))
	for b <<= 8; ; b <<= 7 {
		group := byte(b>>56) &^ 1
		if b<<7 == 0 {
			return append(dst, group)
		}
		dst = append(dst, group|1)
	}
}

// appendOrderedString appends the marker of a string and each byte plus one, so
// that zero can end it. No byte overflows, because UTF-8 has no byte FF.
func appendOrderedString(dst []byte, s string, cut bool) []byte {
	dst = append(dst, markString)
	start := len(dst)
	if cut {
		dst = appendCut(dst, s)
	} else {
		dst = append(dst, s[:min(len(s), shortBytes+1)]...)
	}
	long := len(dst)-start > shortBytes
	if long {
		dst = dst[:start+shortBytes+1]
	}
	for i := start; i < len(dst); i++ {
		dst[i]++
	}
	if long {
		return dst
	}
	return append(dst, 0x00)
}

// appendCut appends the first cutUnits UTF-16 code units of s. If the cut
// divides a character of two units, the remaining half becomes U+FFFD, as in
// clients whose strings are UTF-16.
func appendCut(dst []byte, s string) []byte {
	if len(s) <= cutUnits {
		return append(dst, s...)
	}
	units := 0
	for i, r := range s {
		if units == cutUnits {
			return append(dst, s[:i]...)
		}
		units++
		if r < 0x10000 {
			continue
		}
		if units == cutUnits {
			return utf8.AppendRune(append(dst, s[:i]...), utf8.RuneError)
		}
		units++
	}
	return append(dst, s...)
}
