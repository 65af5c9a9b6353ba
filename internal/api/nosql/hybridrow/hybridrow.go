// Package hybridrow is the binary form in which the .NET client sends batches and
// reads their results: rows of two fixed schemas in a stream of records.
//
// [ReadOperations] and [AppendResults] are the server's side; [AppendOperations]
// and [ReadResults] are the client's, which the tests use.
//
// # Invariants
//
//   - For any bytes, reading ends with a value or an error, and takes memory in
//     proportion to their size; for a request, no more than for the requested
//     number of operations.
//   - Each side reads the other's output unchanged.
//
// The package knows only the layout of these rows: no operation, no status and no
// JSON. It refuses other schemas of the format.
//
// Page: docs/nosql.md, "Batches"
package hybridrow

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/decandb/decan/internal/status"
)

// version is the first byte of every row, and so of every stream.
const version = 0x81

// The schemas.
const (
	schemaSegment   = 2147473648
	schemaRecord    = 2147473649
	schemaOperation = 2145473648
	schemaResult    = 2145473649
)

// Sizes of the parts with a fixed size.
const (
	rowHead      = 1 + 4 // version and schema
	segmentBytes = rowHead + 1 + 4
	recordBytes  = rowHead + 4 + 4
)

// Is reports whether a body is a stream of rows rather than text.
func Is(body []byte) bool { return len(body) > 0 && body[0] == version }

// The types of sparse fields.
const (
	typeNull    = 1
	typeFalse   = 2
	typeTrue    = 3
	typeInt32   = 7
	typeUint32  = 11
	typeFloat64 = 16
	typeUTF8    = 20
)

// fixedBytes is the width of the fixed-width types of sparse fields.
var fixedBytes = [...]int{
	typeNull: 0, typeFalse: 0, typeTrue: 0,
	5: 1, 6: 2, typeInt32: 4, 8: 8, // signed
	9: 1, 10: 2, typeUint32: 4, 12: 8, // unsigned
	15: 4, typeFloat64: 8,
}

// isVarint and isText are the remaining types that a row can have.
func isVarint(kind byte) bool { return kind == 13 || kind == 14 }
func isText(kind byte) bool   { return kind == typeUTF8 || kind == 21 }

func malformed(format string, args ...any) error {
	return status.BadRequest("The body is not a batch in HybridRow: %s.", fmt.Sprintf(format, args...))
}

// reader reads bytes from the front of a row or a stream. After its first error
// it returns zeros.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err, r.rest = malformed(format, args...), nil
	}
}

// take returns the next n bytes, which share the body's memory.
func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.fail("%d bytes are missing", n-len(r.rest))
		return nil
	}
	taken := r.rest[:n:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uint32() uint32 {
	if b := r.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *reader) varint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.fail("a number has no end")
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// text reads a length and that many bytes.
func (r *reader) text() []byte {
	n := r.varint()
	if n > uint64(len(r.rest)) {
		r.fail("%d bytes are announced and %d there", n, len(r.rest))
		return nil
	}
	return r.take(int(n))
}

// head reads the beginning of a row.
func (r *reader) head(schema uint32) {
	if v := r.byte(); r.err == nil && v != version {
		r.fail("a row begins with %#x", v)
	}
	if s := r.uint32(); r.err == nil && s != schema {
		r.fail("a row has schema %d where %d is expected", s, schema)
	}
}

// records calls visit with the rest of each row of a schema in a stream, until it
// returns false.
func records(body []byte, schema uint32, visit func(*reader) (more bool)) error {
	r := reader{rest: body}
	r.head(schemaSegment)
	r.byte() // the present columns: always a length
	length := r.uint32()
	if r.err == nil && (length < segmentBytes || uint64(length) > uint64(len(body))) {
		r.fail("the segment is %d bytes long", length)
	}
	r.take(int(length) - segmentBytes) // a comment and a schema in text
	for r.err == nil && len(r.rest) > 0 {
		r.head(schemaRecord)
		size, sum := r.uint32(), r.uint32()
		if uint64(size) > uint64(len(r.rest)) {
			r.fail("a record is %d bytes long", size)
		}
		row := reader{rest: r.take(int(size))}
		if r.err == nil && crc32.ChecksumIEEE(row.rest) != sum {
			r.fail("a record does not match its checksum")
		}
		if r.err != nil {
			break
		}
		row.head(schema)
		more := visit(&row)
		if r.err = row.err; !more {
			break
		}
	}
	return r.err
}

// sparse calls field for each sparse field with the index of its name in the
// schema, or tokens if the schema does not contain it. The field reads the value;
// sparse skips the bytes that it does not read.
func (r *reader) sparse(tokens uint64, field func(token uint64, kind byte) (taken bool)) {
	for r.err == nil && len(r.rest) > 0 {
		kind := r.byte()
		token := r.varint()
		if token >= tokens {
			if token-tokens > uint64(len(r.rest)) {
				r.fail("a name of %d bytes is announced", token-tokens)
				return
			}
			r.take(int(token - tokens))
			token = tokens
		}
		if r.err == nil && !field(token, kind) {
			r.skip(kind)
		}
	}
}

func (r *reader) skip(kind byte) {
	switch {
	case isText(kind):
		r.text()
	case isVarint(kind):
		r.varint()
	case int(kind) < len(fixedBytes) && (fixedBytes[kind] > 0 || kind >= typeNull && kind <= typeTrue):
		r.take(fixedBytes[kind])
	default:
		r.fail("a field is of type %d", kind)
	}
}

// stream begins a stream of records.
func stream(dst []byte) []byte {
	dst = head(dst, schemaSegment)
	dst = append(dst, 1)
	return binary.LittleEndian.AppendUint32(dst, segmentBytes)
}

func head(dst []byte, schema uint32) []byte {
	return binary.LittleEndian.AppendUint32(append(dst, version), schema)
}

// record appends a record whose row is appended by row.
func record(dst []byte, schema uint32, row func([]byte) []byte) []byte {
	dst = head(dst, schemaRecord)
	at := len(dst)
	dst = append(dst, make([]byte, recordBytes-rowHead)...)
	begin := len(dst)
	dst = row(head(dst, schema))
	binary.LittleEndian.PutUint32(dst[at:], uint32(len(dst)-begin))
	binary.LittleEndian.PutUint32(dst[at+4:], crc32.ChecksumIEEE(dst[begin:]))
	return dst
}

// appendText appends the text or bytes of a variable column.
func appendText[T string | []byte](dst []byte, text T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// appendField appends a sparse text field, unless it is empty.
func appendField(dst []byte, token byte, text string) []byte {
	if text == "" {
		return dst
	}
	return appendText(append(dst, typeUTF8, token), text)
}

func appendFloat(dst []byte, token byte, f float64) []byte {
	return binary.LittleEndian.AppendUint64(append(dst, typeFloat64, token), math.Float64bits(f))
}
