package binaryjson

import (
	"encoding/base64"
	"encoding/binary"
	"slices"
)

// string reads a string that ends at end at the latest. The bytes are those of the
// document, of a table, or of r.scratch, which the next call overwrites.
func (r *reader) string(end int) ([]byte, error) {
	if r.at >= end {
		return nil, invalid(r.at, "a name is missing")
	}
	switch marker := r.src[r.at]; {
	case marker >= system && marker < dictionary:
		r.at++
		return systemBytes[marker-system], nil
	case marker >= short && marker <= string4:
		return r.plain(end)
	case marker >= reference1 && marker <= reference4:
		return r.reference(int(marker-reference1)+1, end)
	case marker >= lowerHex && marker < short:
		return r.packed(marker, end)
	case marker >= guidLower && marker <= guidQuoted:
		return r.guid(marker, end)
	case marker >= base64One && marker <= base64URLTwo:
		return r.base64(marker, end)
	case marker >= dictionary && marker < 0x68:
		return nil, invalid(r.at, "a string of a dictionary")
	}
	return nil, invalid(r.at, "not a string")
}

// systemBytes is systemTable in bytes.
var systemBytes = func() (table [len(systemTable)][]byte) {
	for i, text := range systemTable {
		table[i] = []byte(text)
	}
	return table
}()

// plain reads a string whose bytes follow its length.
func (r *reader) plain(end int) ([]byte, error) {
	marker := r.src[r.at]
	if marker < shortMax {
		return r.take(1, int(marker-short), end)
	}
	size := 1 << (marker - string1)
	n, err := r.length(1, size, end)
	if err != nil {
		return nil, err
	}
	return r.take(1+size, n, end)
}

// reference reads the offset of a string, which has its bytes there, and returns
// them.
func (r *reader) reference(size, end int) ([]byte, error) {
	to, err := r.length(1, size, end)
	if err != nil {
		return nil, err
	}
	if to >= len(r.src) || r.src[to] < short || r.src[to] > string4 {
		return nil, invalid(r.at, "a reference that is not to a string")
	}
	back := r.at + 1 + size
	r.at = to
	text, err := r.plain(len(r.src))
	r.at = back
	return text, err
}

// guid reads 32 hexadecimal digits, the first of two in the lower half of a byte.
func (r *reader) guid(marker byte, end int) ([]byte, error) {
	b, err := r.take(1, 16, end)
	if err != nil {
		return nil, err
	}
	digits := lowerHexDigits
	if marker == guidUpper {
		digits = upperHexDigits
	}
	text := r.scratch[:0]
	if marker == guidQuoted {
		text = append(text, '"')
	}
	for i, c := range b {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			text = append(text, '-')
		}
		text = append(text, digits[c&15], digits[c>>4])
	}
	if marker == guidQuoted {
		text = append(text, '"')
	}
	r.scratch = text
	return text, nil
}

// base64 reads bytes that become a string in base64. They are counted in groups of
// three; then comes how many are missing in the last group.
func (r *reader) base64(marker byte, end int) ([]byte, error) {
	size, encoding := 1, base64.StdEncoding
	if marker == base64Two || marker == base64URLTwo {
		size = 2
	}
	if marker >= base64URLOne {
		encoding = base64.URLEncoding
	}
	groups, err := r.length(1, size, end)
	if err != nil {
		return nil, err
	}
	missing, err := r.length(1+size, 1, end)
	if err != nil {
		return nil, err
	}
	if missing > 2 || missing > groups*3 {
		return nil, invalid(r.at, "base64 of a wrong length")
	}
	b, err := r.take(2+size, groups*3-missing, end)
	if err != nil {
		return nil, err
	}
	r.scratch = encoding.AppendEncode(r.scratch[:0], b)
	return r.scratch, nil
}

// packed reads a string whose characters have four to seven bits.
func (r *reader) packed(marker byte, end int) ([]byte, error) {
	size, head, bits := 1, 2, 4
	switch marker {
	case packed4, packed5, packed6:
		head, bits = 3, int(marker-packed4)+4
	case packed7:
		bits = 7
	case packed7L2:
		size, head, bits = 2, 3, 7
	}
	n, err := r.length(1, size, end)
	if err != nil {
		return nil, err
	}
	if head > end-r.at {
		return nil, invalid(r.at, "a value that ends too early")
	}
	base := byte(0)
	if marker >= packed4 && marker <= packed6 {
		base = r.src[r.at+2]
	}
	start := r.at
	b, err := r.take(head, packedLength(n, bits), end)
	if err != nil {
		return nil, err
	}
	text := slices.Grow(r.scratch[:0], n+7)[:n+7] // whole groups of eight are written
	r.scratch = text
	if marker <= dateTime {
		if n%2 == 1 && b[len(b)-1] > 0x0F {
			return nil, invalid(start, "a string of half bytes with one too many")
		}
		digits := &halfBytes[marker-lowerHex]
		for i, c := range b {
			text[2*i], text[2*i+1] = digits[c&15], digits[c>>4]
		}
		return text[:n], nil
	}
	l := lanesOf(bits)
	to := text
	for ; len(b) >= 8; b, to = b[bits:], to[8:] {
		binary.LittleEndian.PutUint64(to, addBytes(l.spread(binary.LittleEndian.Uint64(b)), base))
	}
	for len(b) > 0 {
		var eight [8]byte
		b = b[copy(eight[:bits], b):]
		binary.LittleEndian.PutUint64(eight[:], addBytes(l.spread(binary.LittleEndian.Uint64(eight[:])), base))
		to = to[copy(to, eight[:]):]
	}
	return text[:n], nil
}

// halfBytes are the alphabets of strings with four bits for a character, by marker
// less lowerHex.
var halfBytes = [...][16]byte{
	0:                   [16]byte([]byte(lowerHexDigits)),
	upperHex - lowerHex: [16]byte([]byte(upperHexDigits)),
	dateTime - lowerHex: [16]byte([]byte(dateTimeDigits)),
}

// addBytes adds c to each byte of word, without carries between them.
func addBytes(word uint64, c byte) uint64 {
	const low = 0x7F7F7F7F7F7F7F7F
	each := uint64(c) * 0x0101010101010101
	return (word&low + each&low) ^ (word^each)&^low
}

// lanes moves eight characters between their packed form, of some bits each, and
// eight bytes. Both ways take three steps: halves, quarters, eighths. In the packed
// form, the upper half of each part lies directly above the lower one.
type lanes struct {
	low   [3]uint64 // the lower half of each part
	high  [3]uint64 // the upper half when it is spread
	tight [3]uint64 // the upper half when it is packed
	shift [3]uint8
}

func lanesOf(bits int) *lanes { return &lanesTable[bits-4] }

var lanesTable = func() (table [4]lanes) {
	for i := range table {
		bits, l := i+4, &table[i]
		for step := range 3 {
			width := 32 >> step // of a half when it is spread
			count := 4 >> step  // of characters in a half
			mask := uint64(1)<<(count*bits) - 1
			for at := 0; at < 64; at += 2 * width {
				l.low[step] |= mask << at
			}
			l.shift[step] = uint8(width - count*bits)
			l.high[step] = l.low[step] << width
			l.tight[step] = l.low[step] << (count * bits)
		}
	}
	return table
}()

// spread returns the eight characters of a packed word in a byte each. It ignores
// further bits.
func (l *lanes) spread(word uint64) uint64 {
	word = word&l.low[0] | word<<(l.shift[0]&63)&l.high[0]
	word = word&l.low[1] | word<<(l.shift[1]&63)&l.high[1]
	return word&l.low[2] | word<<(l.shift[2]&63)&l.high[2]
}

// pack is the inverse of spread.
func (l *lanes) pack(word uint64) uint64 {
	word = word&l.low[2] | word>>(l.shift[2]&63)&l.tight[2]
	word = word&l.low[1] | word>>(l.shift[1]&63)&l.tight[1]
	return word&l.low[0] | word>>(l.shift[0]&63)&l.tight[0]
}

// packedLength is the number of bytes of n characters of so many bits.
func packedLength(n, bits int) int { return (n*bits + 7) / 8 }
