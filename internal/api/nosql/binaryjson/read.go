package binaryjson

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"strconv"
	"sync"
	"unsafe"

	"github.com/decandb/decan/internal/value"
)

// AppendText appends the JSON text of a binary document to dst. It returns what
// follows the document in src, since the format does not say where a document
// ends before it is read. The text has at most limit bytes, else the error is
// [ErrTooLong]; other errors are [ErrInvalid] and [ErrTooDeep], with dst as it was.
// A string that is not UTF-8 has U+FFFD for each wrong byte. Typed numbers, GUIDs
// and bytes become plain numbers and strings.
func AppendText(dst, src []byte, limit int) (text, rest []byte, err error) {
	if !Is(src) {
		return dst, src, invalid(0, "not a binary document")
	}
	scratch := scratches.Get().(*[]byte)
	defer scratches.Put(scratch)
	r := reader{src: src, at: 1, dst: dst, limit: len(dst) + limit, scratch: *scratch}
	err = r.value(len(src), 0)
	if cap(r.scratch) <= pooledBytes {
		*scratch = r.scratch
	}
	if err == nil && len(r.dst) > r.limit {
		err = ErrTooLong
	}
	if err != nil {
		return dst, src, err
	}
	return r.dst, src[r.at:], nil
}

// scratches are buffers for strings, of at most pooledBytes each.
var scratches = sync.Pool{New: func() any { return new([]byte) }}

const pooledBytes = 1 << 16

// reader reads the value at src[at:].
type reader struct {
	src     []byte // from the first byte of the document, from which references count
	at      int
	dst     []byte
	limit   int    // of len(dst)
	scratch []byte // a string that is packed in src
}

// value reads a value that ends at end at the latest.
func (r *reader) value(end, depth int) error {
	if r.at >= end {
		return invalid(r.at, "a value is missing")
	}
	if len(r.dst) > r.limit {
		return ErrTooLong
	}
	marker := r.src[r.at]
	switch {
	case marker < literalMax:
		r.at++
		r.dst = strconv.AppendUint(r.dst, uint64(marker), 10)
		return nil
	case marker < unsigned64:
		text, err := r.string(end)
		if err != nil {
			return err
		}
		return r.quoted(text)
	case marker < bytes1 || marker > bytes4 && marker < array0:
		return r.scalar(marker, end)
	case marker <= bytes4:
		return r.bytes(marker, end)
	}
	if depth == depthMax {
		return ErrTooDeep
	}
	switch {
	case marker < object0:
		return r.array(marker, end, depth+1)
	case marker < numbers1:
		return r.object(marker, end, depth+1)
	case marker <= matrix2:
		return r.numbers(marker, end)
	}
	return invalid(r.at, "an unknown marker")
}

// scalar reads a number, a GUID, null, false or true.
func (r *reader) scalar(marker byte, end int) error {
	switch marker {
	case null:
		r.at++
		r.dst = append(r.dst, "null"...)
		return nil
	case no:
		r.at++
		r.dst = append(r.dst, "false"...)
		return nil
	case yes:
		r.at++
		r.dst = append(r.dst, "true"...)
		return nil
	case guid:
		b, err := r.take(1, 16, end)
		if err != nil {
			return err
		}
		// The first three parts are little-endian numbers.
		b = []byte{b[3], b[2], b[1], b[0], b[5], b[4], b[7], b[6], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]}
		r.dst = append(r.dst, '"')
		for i, c := range b {
			if i == 4 || i == 6 || i == 8 || i == 10 {
				r.dst = append(r.dst, '-')
			}
			r.dst = append(r.dst, lowerHexDigits[c>>4], lowerHexDigits[c&15])
		}
		r.dst = append(r.dst, '"')
		return nil
	}
	size := numberSize(marker)
	if size == 0 {
		return invalid(r.at, "an unknown marker")
	}
	b, err := r.take(1, size, end)
	if err != nil {
		return err
	}
	r.dst = appendNumber(r.dst, marker, b)
	return nil
}

// numberSize is the number of bytes of a number after its marker, or 0.
func numberSize(marker byte) int {
	switch marker {
	case unsigned8, uint8Of, int8Of:
		return 1
	case number16, int16Of:
		return 2
	case number32, int32Of, uint32Of, float32Of:
		return 4
	case unsigned64, number64, int64Of, double, float64Of:
		return 8
	}
	return 0
}

// appendNumber appends the text of a number whose marker has a size, without it.
func appendNumber(dst []byte, marker byte, b []byte) []byte {
	switch marker {
	case unsigned8, uint8Of:
		return strconv.AppendUint(dst, uint64(b[0]), 10)
	case int8Of:
		return strconv.AppendInt(dst, int64(int8(b[0])), 10)
	case number16, int16Of:
		return strconv.AppendInt(dst, int64(int16(binary.LittleEndian.Uint16(b))), 10)
	case number32, int32Of:
		return strconv.AppendInt(dst, int64(int32(binary.LittleEndian.Uint32(b))), 10)
	case uint32Of:
		return strconv.AppendUint(dst, uint64(binary.LittleEndian.Uint32(b)), 10)
	case number64, int64Of:
		return strconv.AppendInt(dst, int64(binary.LittleEndian.Uint64(b)), 10)
	case unsigned64:
		return strconv.AppendUint(dst, binary.LittleEndian.Uint64(b), 10)
	case float32Of:
		return appendFloat(dst, float64(math.Float32frombits(binary.LittleEndian.Uint32(b))), 32)
	}
	return appendFloat(dst, math.Float64frombits(binary.LittleEndian.Uint64(b)), 64)
}

// appendFloat appends the shortest text that reads back as f, in the form of the
// .NET client: an exponent of at least two digits below 1E-04 and from 1E+17 on,
// and strings for what JSON has no number for.
func appendFloat(dst []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(dst, `"-Infinity"`...)
	}
	if size := math.Abs(f); size != 0 && (size < 1e-4 || size >= 1e17) {
		return strconv.AppendFloat(dst, f, 'E', -1, bits)
	}
	return strconv.AppendFloat(dst, f, 'f', -1, bits)
}

// take returns size bytes that begin skip bytes after the marker, and moves past
// them.
func (r *reader) take(skip, size, end int) ([]byte, error) {
	if size > end-r.at-skip {
		return nil, invalid(r.at, "a value that ends too early")
	}
	b := r.src[r.at+skip : r.at+skip+size]
	r.at += skip + size
	return b, nil
}

// length returns the number of size bytes that begins skip bytes after the marker.
func (r *reader) length(skip, size, end int) (int, error) {
	if skip+size > end-r.at {
		return 0, invalid(r.at, "a value that ends too early")
	}
	b := r.src[r.at+skip:]
	switch size {
	case 1:
		return int(b[0]), nil
	case 2:
		return int(binary.LittleEndian.Uint16(b)), nil
	case 3:
		return int(b[0]) | int(b[1])<<8 | int(b[2])<<16, nil
	}
	n := binary.LittleEndian.Uint32(b)
	if n > math.MaxInt32 {
		return 0, invalid(r.at, "a length of more than two gigabytes")
	}
	return int(n), nil
}

// quoted appends a string as JSON.
func (r *reader) quoted(text []byte) error {
	if len(text) > r.limit-len(r.dst) {
		return ErrTooLong
	}
	r.dst = value.AppendQuoted(r.dst, unsafe.String(unsafe.SliceData(text), len(text)))
	return nil
}

// bytes reads a value of bytes, which becomes a string in base64.
func (r *reader) bytes(marker byte, end int) error {
	size := 1 << (marker - bytes1)
	n, err := r.length(1, size, end)
	if err != nil {
		return err
	}
	b, err := r.take(1+size, n, end)
	if err != nil {
		return err
	}
	r.dst = append(r.dst, '"')
	r.dst = base64.StdEncoding.AppendEncode(r.dst, b)
	r.dst = append(r.dst, '"')
	return nil
}

// array reads an array with items of any kind.
func (r *reader) array(marker byte, end, depth int) error {
	end, err := r.enter(marker-array0, end)
	if err != nil {
		return err
	}
	r.dst = append(r.dst, '[')
	for many := false; r.at < end; many = true {
		if many {
			r.dst = append(r.dst, ',')
		}
		if err := r.value(end, depth); err != nil {
			return err
		}
		if marker == array1 {
			break
		}
	}
	r.dst = append(r.dst, ']')
	return nil
}

// enter moves past the head of an array or an object and returns its end. Kinds
// are 0 for an empty one, 1 for one item, then those with a length of 1, 2 and 4
// bytes, and those with a number of items after the length, which is not needed.
func (r *reader) enter(kind byte, end int) (int, error) {
	switch kind {
	case 0:
		r.at++
		return r.at, nil
	case 1:
		r.at++
		if r.at >= end {
			return 0, invalid(r.at, "a value is missing")
		}
		return end, nil
	}
	size := 1 << ((kind - 2) % 3)
	head := 1 + size
	if kind >= 5 {
		head += size
	}
	n, err := r.length(1, size, end)
	if err != nil {
		return 0, err
	}
	if n > end-r.at-head {
		return 0, invalid(r.at, "a value that ends too early")
	}
	r.at += head
	return r.at + n, nil
}

func (r *reader) object(marker byte, end, depth int) error {
	end, err := r.enter(marker-object0, end)
	if err != nil {
		return err
	}
	r.dst = append(r.dst, '{')
	for many := false; r.at < end; many = true {
		if many {
			r.dst = append(r.dst, ',')
		}
		name, err := r.string(end)
		if err != nil {
			return err
		}
		if err := r.quoted(name); err != nil {
			return err
		}
		r.dst = append(r.dst, ':')
		if err := r.value(end, depth); err != nil {
			return err
		}
		if marker == object1 {
			break
		}
	}
	r.dst = append(r.dst, '}')
	return nil
}

// numbers reads an array of numbers of one type, or an array of such arrays, all
// of one length.
func (r *reader) numbers(marker byte, end int) error {
	head, size := 1, 1 // bytes before the marker of the items; of a count
	if marker == matrix1 || marker == matrix2 {
		head = 2
	}
	if marker == numbers2 || marker == matrix2 {
		size = 2
	}
	if head+1+size > end-r.at {
		return invalid(r.at, "a value that ends too early")
	}
	if head == 2 && r.src[r.at+1] != numbers1+byte(size-1) {
		return invalid(r.at, "an array of arrays that are not of numbers")
	}
	item := r.src[r.at+head]
	width := 0
	switch item {
	case uint8Of, int8Of, int16Of, int32Of, int64Of, float32Of, float64Of:
		width = numberSize(item)
	default:
		return invalid(r.at, "an array of numbers of an unknown type")
	}
	columns, err := r.length(head+1, size, end)
	if err != nil {
		return err
	}
	rows, skip := 1, head+1+size
	if head == 2 {
		if rows, err = r.length(skip, size, end); err != nil {
			return err
		}
		skip += size
	}
	// At most 65,535 times 65,535 times 8 bytes.
	b, err := r.take(skip, rows*columns*width, end)
	if err != nil {
		return err
	}
	if rows*columns > r.limit-len(r.dst) {
		return ErrTooLong
	}
	if head == 2 {
		r.dst = append(r.dst, '[')
	}
	for row := range rows {
		if row > 0 {
			r.dst = append(r.dst, ',')
		}
		r.dst = append(r.dst, '[')
		for column := range columns {
			if column > 0 {
				r.dst = append(r.dst, ',')
			}
			r.dst = appendNumber(r.dst, item, b)
			b = b[width:]
		}
		r.dst = append(r.dst, ']')
		if len(r.dst) > r.limit {
			return ErrTooLong
		}
	}
	if head == 2 {
		r.dst = append(r.dst, ']')
	}
	return nil
}
