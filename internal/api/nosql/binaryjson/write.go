package binaryjson

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"sync"
	"unsafe"

	"github.com/decandb/decan/internal/value"
)

// Append appends the binary form of JSON text to dst, byte for byte as the .NET
// client writes it without options: packed strings and references, but no arrays of
// numbers of one type. Integers of 64 bits stay exact; larger ones become doubles.
// The escape of half a surrogate pair becomes U+FFFD. Errors are [ErrText] and
// [ErrTooDeep], with dst as it was.
func Append(dst, text []byte) ([]byte, error) {
	w := writers.Get().(*writer)
	defer w.release()
	w.out, w.start, w.at = append(dst, first), len(dst), 0
	w.text = unsafe.String(unsafe.SliceData(text), len(text)) // released with the writer
	if err := w.value(0); err != nil {
		return dst, err
	}
	if w.space(); w.at < len(text) {
		return dst, w.wrong("more than one value")
	}
	w.resolve()
	return w.out, nil
}

var writers = sync.Pool{New: func() any { return &writer{buckets: make([]int32, bucketsMin)} }}

// pooledMax is the number of strings up to which a writer is used again.
const pooledMax = 1000

// release forgets the document, with the keys that are in its text.
func (w *writer) release() {
	if len(w.strings) > pooledMax {
		return
	}
	clear(w.strings)
	clear(w.buckets)
	*w = writer{strings: w.strings[:0], buckets: w.buckets, references: w.references[:0]}
	writers.Put(w)
}

// writer writes the value at text[at:].
//
// The head of an array or an object is known when it ends. It is written with two
// bytes for the head at first, and its content is moved if the head has another
// length. Offsets of strings in the content move along. References therefore have
// the number of a string until the outermost value ends.
type writer struct {
	out   []byte
	start int // of the document in out; offsets count from here
	text  string
	at    int

	strings    []shared // that references may name
	buckets    []int32  // the last of strings with a hash, plus one; a power of two
	references []int    // offsets of references in the document
}

// shared is a string that was written once.
type shared struct {
	text   string
	hash   uint64
	next   int32 // the one before in the same bucket, plus one
	offset int
	most   int // what the offset can become when heads grow
}

// headRoom is the length of the head of an array or object until it ends.
const headRoom = 2

// headMost is by how much a head can grow while its content is written, as the .NET
// client counts it.
const headMost = 7

func (w *writer) wrong(what string) error {
	return fmt.Errorf("%w: %s at byte %d", ErrText, what, w.at)
}

func (w *writer) space() {
	for w.at < len(w.text) {
		switch w.text[w.at] {
		case ' ', '\t', '\n', '\r':
			w.at++
		default:
			return
		}
	}
}

// peek returns the next byte after space, or 0 at the end.
func (w *writer) peek() byte {
	w.space()
	if w.at == len(w.text) {
		return 0
	}
	return w.text[w.at]
}

// value writes the next value. depth is the number of arrays and objects around it.
func (w *writer) value(depth int) error {
	switch c := w.peek(); c {
	case '{', '[':
		if depth == depthMax {
			return ErrTooDeep
		}
		return w.items(c == '[', depth+1)
	case '"':
		text, err := w.string()
		if err != nil {
			return err
		}
		w.stringValue(text, depth)
		return nil
	case 't':
		return w.word("true", yes)
	case 'f':
		return w.word("false", no)
	case 'n':
		return w.word("null", null)
	case 0:
		return w.wrong("a value is missing")
	}
	return w.number()
}

func (w *writer) word(word string, marker byte) error {
	if len(w.text)-w.at < len(word) || w.text[w.at:w.at+len(word)] != word {
		return w.wrong("an unknown word")
	}
	w.at += len(word)
	w.out = append(w.out, marker)
	return nil
}

// items writes an array or an object.
func (w *writer) items(array bool, depth int) error {
	w.at++
	head := len(w.out)
	strings, references := len(w.strings), len(w.references)
	w.out = append(w.out, 0, 0)
	end := byte('}')
	if array {
		end = ']'
	}
	count := 0
	for w.peek() != end {
		if count > 0 {
			if w.text[w.at] != ',' {
				return w.wrong("a comma is missing")
			}
			w.at++
		}
		if !array {
			if w.peek() != '"' {
				return w.wrong("a name is missing")
			}
			name, err := w.string()
			if err != nil {
				return err
			}
			w.name(name, depth)
			if w.peek() != ':' {
				return w.wrong("a colon is missing")
			}
			w.at++
		}
		if err := w.value(depth); err != nil {
			return err
		}
		count++
		if w.peek() == 0 {
			return w.wrong("an end is missing")
		}
	}
	w.at++
	w.head(array, head, count, strings, references)
	return nil
}

// head writes the head of an array or object that begins at out[at], and moves the
// content, with the offsets of the strings and references in it.
func (w *writer) head(array bool, at, count, strings, references int) {
	kind := byte(objectL1)
	if array {
		kind = arrayL1
	}
	n := len(w.out) - at - headRoom
	var buffer [9]byte
	head := append(buffer[:0], kind)
	switch {
	case count == 0:
		head[0] -= 2
	case count == 1:
		head[0]--
	case n <= math.MaxUint8:
		head = append(head, byte(n))
		if array && count > 16 {
			head[0] += 3
			head = append(head, byte(count))
		}
	case n <= math.MaxUint16:
		head[0]++
		head = binary.LittleEndian.AppendUint16(head, uint16(n))
		if array && (count > 16 || n > 0x1000) {
			head[0] += 3
			head = binary.LittleEndian.AppendUint16(head, uint16(count))
		}
	default:
		head[0] += 2
		head = binary.LittleEndian.AppendUint32(head, uint32(n))
		if array {
			head[0] += 3
			head = binary.LittleEndian.AppendUint32(head, uint32(count))
		}
	}
	if by := len(head) - headRoom; by != 0 {
		for range by {
			w.out = append(w.out, 0)
		}
		copy(w.out[at+len(head):], w.out[at+headRoom:at+headRoom+n])
		w.out = w.out[:at+len(head)+n]
		for i := range w.strings[strings:] {
			w.strings[strings+i].offset += by
		}
		for i := range w.references[references:] {
			w.references[references+i] += by
		}
	}
	copy(w.out[at:], head)
}

// resolve replaces the numbers of strings in references by their offsets.
func (w *writer) resolve() {
	for _, offset := range w.references {
		b := w.out[w.start+offset:]
		size := int(b[0]-reference1) + 1
		number := 0
		for i := range size {
			number |= int(b[1+i]) << (8 * i)
		}
		to := w.strings[number].offset
		for i := range size {
			b[1+i] = byte(to >> (8 * i))
		}
	}
}

// number writes the next number.
func (w *writer) number() error {
	start := w.at
	integer := true
	digits := func() (n int) {
		for ; w.at < len(w.text) && w.text[w.at]-'0' <= 9; n++ {
			w.at++
		}
		return n
	}
	if w.text[w.at] == '-' {
		w.at++
	}
	whole := w.at
	if n := digits(); n == 0 || n > 1 && w.text[whole] == '0' {
		return w.wrong("no value")
	}
	if w.at < len(w.text) && w.text[w.at] == '.' {
		integer = false
		w.at++
		if digits() == 0 {
			return w.wrong("a digit is missing")
		}
	}
	if w.at < len(w.text) && w.text[w.at]|0x20 == 'e' {
		integer = false
		w.at++
		if w.at < len(w.text) && (w.text[w.at] == '+' || w.text[w.at] == '-') {
			w.at++
		}
		if digits() == 0 {
			return w.wrong("a digit is missing")
		}
	}
	text := w.text[start:w.at]
	if integer {
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			w.out = appendInt(w.out, i)
			return nil
		}
	}
	f, _ := strconv.ParseFloat(text, 64) // What is too large becomes infinite.
	w.out = binary.LittleEndian.AppendUint64(append(w.out, double), math.Float64bits(f))
	return nil
}

// appendInt appends an integer in the shortest form that the .NET client has for it.
func appendInt(dst []byte, i int64) []byte {
	switch {
	case i >= 0 && i < literalMax:
		return append(dst, byte(i))
	case i >= 0 && i <= math.MaxUint8:
		return append(dst, unsigned8, byte(i))
	case int64(int16(i)) == i:
		return binary.LittleEndian.AppendUint16(append(dst, number16), uint16(i))
	case int64(int32(i)) == i:
		return binary.LittleEndian.AppendUint32(append(dst, number32), uint32(i))
	}
	return binary.LittleEndian.AppendUint64(append(dst, number64), uint64(i))
}

// string reads the next string, whose opening quote is text[at].
func (w *writer) string() (string, error) {
	content, end, err := value.ReadString(w.text, w.at)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrText, err)
	}
	w.at = end
	return content, nil
}
