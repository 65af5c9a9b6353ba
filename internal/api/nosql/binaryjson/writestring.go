package binaryjson

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"slices"
	"unsafe"
)

// systemByLength are the strings of systemTable by their length, with their markers.
var systemByLength = func() (table [19][]systemString) {
	for i, text := range systemTable {
		table[len(text)] = append(table[len(text)], systemString{text, system + byte(i)})
	}
	return table
}()

type systemString struct {
	text   string
	marker byte
}

// systemMarker returns the marker of a string of systemTable.
func systemMarker(text string) (byte, bool) {
	if len(text) < len(systemByLength) {
		for _, s := range systemByLength[len(text)] {
			if s.text == text {
				return s.marker, true
			}
		}
	}
	return 0, false
}

// Lengths of strings that may be referred to, in bytes. Names have no upper bound.
const (
	referredMin = 2
	referredMax = 88
)

// name writes the name of a property, which is never packed.
func (w *writer) name(text string, depth int) {
	if marker, ok := systemMarker(text); ok {
		w.out = append(w.out, marker)
		return
	}
	if len(text) >= referredMin && w.refer(text, depth) {
		return
	}
	w.plain(text)
}

// stringValue writes a string that is a value.
func (w *writer) stringValue(text string, depth int) {
	if marker, ok := systemMarker(text); ok {
		w.out = append(w.out, marker)
		return
	}
	if w.guid(text) || w.pack(text) {
		return
	}
	if len(text) >= referredMin && len(text) <= referredMax && w.refer(text, depth) {
		return
	}
	w.plain(text)
}

// plain writes a string as its length and its bytes. The bounds of the lengths are
// those of the .NET client, which leaves out the largest of each size.
func (w *writer) plain(text string) {
	n := len(text)
	switch {
	case n < shortMax-short:
		w.out = append(w.out, short+byte(n))
	case n < math.MaxUint8:
		w.out = append(w.out, string1, byte(n))
	case n < math.MaxUint16:
		w.out = binary.LittleEndian.AppendUint16(append(w.out, string2), uint16(n))
	default:
		w.out = binary.LittleEndian.AppendUint32(append(w.out, string4), uint32(n))
	}
	w.out = append(w.out, text...)
}

// refer writes a reference if the string was written before. Otherwise it notes
// where the string will be, if a reference to it is shorter than the string.
func (w *writer) refer(text string, depth int) bool {
	offset := len(w.out) - w.start
	hash := maphash.String(hashSeed, text)
	number := w.find(text, hash)
	if number < 0 {
		most := offset + depth*headMost
		if len(text) >= 1+referenceSize(most) {
			w.share(shared{text: text, hash: hash, offset: offset, most: most})
		}
		return false
	}
	w.references = append(w.references, offset)
	size := referenceSize(w.strings[number].most)
	w.out = append(w.out, reference1+byte(size-1))
	for range size {
		w.out = append(w.out, byte(number))
		number >>= 8
	}
	return true
}

// bucketsMin is the number of buckets of a new writer.
const bucketsMin = 64

var hashSeed = maphash.MakeSeed()

// find returns the number of a shared string, or -1.
func (w *writer) find(text string, hash uint64) int {
	for i := w.buckets[hash&uint64(len(w.buckets)-1)]; i > 0; i = w.strings[i-1].next {
		if s := &w.strings[i-1]; s.hash == hash && s.text == text {
			return int(i - 1)
		}
	}
	return -1
}

// share adds a string.
func (w *writer) share(s shared) {
	if len(w.strings) == len(w.buckets) {
		w.buckets = make([]int32, 4*len(w.buckets))
		for i := range w.strings {
			w.link(i)
		}
	}
	w.strings = append(w.strings, s)
	w.link(len(w.strings) - 1)
}

// link puts a string into its bucket.
func (w *writer) link(number int) {
	bucket := &w.buckets[w.strings[number].hash&uint64(len(w.buckets)-1)]
	w.strings[number].next, *bucket = *bucket, int32(number+1)
}

// referenceSize is the number of bytes of an offset.
func referenceSize(offset int) int {
	switch {
	case offset <= math.MaxUint8:
		return 1
	case offset <= math.MaxUint16:
		return 2
	case offset <= 1<<24-1:
		return 3
	}
	return 4
}

// guid writes a GUID of lower-case or of upper-case digits, or one of lower-case
// digits in quotes.
func (w *writer) guid(text string) bool {
	marker := byte(guidLower)
	if len(text) == 38 && text[0] == '"' && text[37] == '"' {
		marker, text = guidQuoted, text[1:37]
	}
	if len(text) != 36 {
		return false
	}
	var packed [16]byte
	lower, upper := false, false
	digit := 0
	for i := range len(text) {
		c := text[i]
		var half byte
		switch {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return false
			}
			continue
		case c >= '0' && c <= '9':
			half = c - '0'
		case c >= 'a' && c <= 'f':
			half, lower = c-'a'+10, true
		case c >= 'A' && c <= 'F':
			half, upper = c-'A'+10, true
		default:
			return false
		}
		packed[digit/2] |= half << (digit % 2 * 4)
		digit++
	}
	switch {
	case upper && (lower || marker == guidQuoted):
		return false
	case upper:
		marker = guidUpper
	}
	w.out = append(append(w.out, marker), packed[:]...)
	return true
}

// charset is a set of ASCII characters.
type charset [2]uint64

func (s *charset) add(c byte)            { s[c>>6] |= 1 << (c & 63) }
func (s *charset) within(t charset) bool { return s[0]&^t[0] == 0 && s[1]&^t[1] == 0 }

func charsetOf(text string) (s charset) {
	for i := range len(text) {
		s.add(text[i])
	}
	return s
}

// alphabets are the alphabets of half bytes, in the order in which they are tried.
var alphabets = [...]struct {
	marker byte
	set    charset
	digit  [128]byte
}{
	{dateTime, charsetOf(dateTimeDigits), digitsOf(dateTimeDigits)},
	{lowerHex, charsetOf(lowerHexDigits), digitsOf(lowerHexDigits)},
	{upperHex, charsetOf(upperHexDigits), digitsOf(upperHexDigits)},
}

func digitsOf(text string) (digit [128]byte) {
	for i := range len(text) {
		digit[text[i]] = byte(i)
	}
	return digit
}

func ascii(text []byte) bool {
	for ; len(text) >= 8; text = text[8:] {
		if binary.LittleEndian.Uint64(text)&0x8080808080808080 != 0 {
			return false
		}
	}
	for _, c := range text {
		if c >= 0x80 {
			return false
		}
	}
	return true
}

// Lengths from which strings are packed, in characters.
const (
	alphabetMin = 16
	packed4Min  = 24
	packed5Min  = 32
	packed6Min  = 40
	packed7Min  = 88
)

// pack writes a string of ASCII characters with four to seven bits each, if it is
// long enough for it.
func (w *writer) pack(content string) bool {
	n := len(content)
	if n < alphabetMin || n > math.MaxUint16 {
		return false
	}
	text := unsafe.Slice(unsafe.StringData(content), n)
	if !ascii(text) {
		return false
	}
	if n <= math.MaxUint8 {
		var set charset
		low, high := text[0], text[0]
		for _, c := range text {
			set.add(c)
			low, high = min(low, c), max(high, c)
		}
		span := int(high-low) + 1
		for i := range alphabets {
			if a := &alphabets[i]; set.within(a.set) {
				w.out = append(w.out, a.marker, byte(n))
				for i := 0; i < n; i += 2 {
					pair := a.digit[text[i]]
					if i+1 < n {
						pair |= a.digit[text[i+1]] << 4
					}
					w.out = append(w.out, pair)
				}
				return true
			}
		}
		switch {
		case span <= 16 && n >= packed4Min:
			w.out = append(w.out, packed4, byte(n), low)
			w.packBits(text, 4, low)
			return true
		case span <= 32 && n >= packed5Min:
			w.out = append(w.out, packed5, byte(n), low)
			w.packBits(text, 5, low)
			return true
		case span <= 64 && n >= packed6Min:
			w.out = append(w.out, packed6, byte(n), low)
			w.packBits(text, 6, low)
			return true
		}
	}
	switch {
	case n < packed7Min:
		return false
	case n <= math.MaxUint8:
		w.out = append(w.out, packed7, byte(n))
	default:
		w.out = binary.LittleEndian.AppendUint16(append(w.out, packed7L2), uint16(n))
	}
	w.packBits(text, 7, 0)
	return true
}

// packBits writes eight characters less base in so many bytes. The characters that
// are missing in the last group count as zeros less base, as in the .NET client: their
// bits fill the last byte.
func (w *writer) packBits(text []byte, bits int, base byte) {
	lanes := lanesOf(bits)
	each := uint64(base) * 0x0101010101010101
	w.out = slices.Grow(w.out, packedLength(len(text), bits)+8) // groups are written with eight bytes
	to := w.out[len(w.out):cap(w.out)]
	size := len(w.out)
	for ; len(text) >= 8; text = text[8:] {
		// No character is less than base, so that nothing is borrowed.
		binary.LittleEndian.PutUint64(to, lanes.pack(binary.LittleEndian.Uint64(text)-each))
		to, size = to[bits:], size+bits
	}
	w.out = w.out[:size]
	if len(text) == 0 {
		return
	}
	var word uint64
	for i := range 8 {
		c := uint64(0)
		if i < len(text) {
			c = uint64(text[i])
		}
		word |= (c - uint64(base)) << (i * bits)
	}
	binary.LittleEndian.PutUint64(to, word)
	w.out = w.out[:size+packedLength(len(text), bits)]
}
