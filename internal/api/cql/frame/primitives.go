package frame

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"unicode/utf8"
)

// decoder reads the notations of the protocol from a body. After an error its
// methods return zero values.
type decoder struct {
	b       []byte
	version Version
	err     error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = protocolError(format, args...)
	}
}

// take returns the next n bytes, or nil if there are fewer; what names them in the
// error.
func (d *decoder) take(n int, what string) []byte {
	if d.err != nil {
		return nil
	}
	if n < 0 || n > len(d.b) {
		d.fail("Not enough bytes to read %s", what)
		return nil
	}
	taken := d.b[:n:n]
	d.b = d.b[n:]
	return taken
}

func (d *decoder) byte() byte {
	if b := d.take(1, "a byte"); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) short() int {
	if b := d.take(2, "a 2 bytes number"); b != nil {
		return int(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (d *decoder) int() int32 {
	if b := d.take(4, "a 4 bytes number"); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (d *decoder) long() int64 {
	if b := d.take(8, "an 8 bytes number"); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (d *decoder) uuid() (u UUID) {
	copy(u[:], d.take(len(u), "a UUID"))
	return u
}

const (
	shortString = "an UTF8 serialized string preceded by its 2 bytes length"
	longString  = "an UTF8 serialized string preceded by its 4 bytes length"
	shortBytes  = "a byte array preceded by its 2 bytes length"
)

// prefixed reads a length of 2 bytes and the bytes.
func (d *decoder) prefixed(what string) []byte {
	if d.err == nil && len(d.b) < 2 {
		d.fail("Not enough bytes to read %s", what)
	}
	return d.take(d.short(), what)
}

// TextError is the error of a frame that is whole, but has a string which is not UTF-8. What
// follows the frame can be read.
type TextError struct{ Answer *Error }

// Error returns the message.
func (e *TextError) Error() string { return e.Answer.Message }

// Unwrap returns the answer.
func (e *TextError) Unwrap() error { return e.Answer }

// malformedShown is how many bytes of such a string an error has.
const malformedShown = 64

func (d *decoder) text(b []byte) string {
	if !utf8.Valid(b) {
		rest := b
		for len(rest) > 0 {
			r, size := utf8.DecodeRune(rest)
			if r == utf8.RuneError && size == 1 {
				break
			}
			rest = rest[size:]
		}
		if d.err == nil {
			d.err = &TextError{protocolError("Cannot decode string as UTF8: '%x'", rest[:min(len(rest), malformedShown)])}
		}
		return ""
	}
	return string(b)
}

func (d *decoder) string() string { return d.text(d.prefixed(shortString)) }

func (d *decoder) longString() string {
	if d.err == nil && len(d.b) < 4 {
		d.fail("Not enough bytes to read %s", longString)
	}
	return d.text(d.take(int(d.int()), longString))
}

func (d *decoder) shortBytes() []byte { return d.prefixed(shortBytes) }

// bytes returns nil for null.
func (d *decoder) bytes() []byte {
	n := d.int()
	if n < 0 {
		return nil
	}
	return d.take(int(n), "a byte array preceded by its 4 bytes length")
}

// count reads a number of elements that have at least size bytes each. More than the
// rest of the body can have are an error.
func (d *decoder) count(size int) int {
	return d.within(d.short(), size)
}

func (d *decoder) within(n, size int) int {
	if d.err == nil && (n < 0 || n > len(d.b)/size) {
		d.fail("Not enough bytes to read %d elements", n)
	}
	if d.err != nil {
		return 0
	}
	return n
}

func (d *decoder) stringList() []string {
	n := d.count(2)
	list := make([]string, n)
	for i := range list {
		list[i] = d.string()
	}
	return list
}

// decodePairs reads a map whose values read reads.
func decodePairs[V any](d *decoder, size int, read func() V) []Pair[V] {
	pairs := make([]Pair[V], d.count(2+size))
	for i := range pairs {
		pairs[i].Name = d.string()
		pairs[i].Value = read()
	}
	return pairs
}

func (d *decoder) stringMap() []Pair[string]        { return decodePairs(d, 2, d.string) }
func (d *decoder) stringMultimap() []Pair[[]string] { return decodePairs(d, 2, d.stringList) }
func (d *decoder) bytesMap() []Pair[[]byte]         { return decodePairs(d, 4, d.bytes) }

func (d *decoder) consistency() Consistency {
	n := d.short()
	if d.err == nil && n >= len(consistencyNames) {
		d.fail("Unknown code %d for a consistency level", n)
	}
	return Consistency(n)
}

// address reads an address without its port.
func (d *decoder) address() netip.Addr {
	n := int(d.byte())
	if d.err == nil && n != 4 && n != 16 {
		d.fail("Invalid address length: %d", n)
	}
	addr, _ := netip.AddrFromSlice(d.take(n, "an address")) // The zero address after an error.
	return addr
}

func (d *decoder) addressPort() netip.AddrPort {
	addr := d.address()
	port := d.int()
	if d.err == nil && (port < 0 || port > shortMax) {
		d.fail("Invalid port: %d", port)
	}
	return netip.AddrPortFrom(addr, uint16(port))
}

// Value is a value of a statement: bytes in the encoding of its type, null or unset.
// The zero Value is null.
type Value struct {
	Bytes []byte // nil for null
	Unset bool   // the client gives no value; version 4 and later
}

func (d *decoder) value() Value {
	n := d.int()
	switch {
	case n >= 0:
		return Value{Bytes: d.take(int(n), "a byte array preceded by its 4 bytes length")}
	case n == -1 || d.version < V4:
		return Value{}
	case n == -2:
		return Value{Unset: true}
	}
	d.fail("Invalid ByteBuf length %d", n)
	return Value{}
}

// encoder appends the notations of the protocol. It keeps the first error.
type encoder struct {
	b       []byte
	version Version
	err     error
}

func (e *encoder) fail(what string, n int) {
	if e.err == nil {
		e.err = fmt.Errorf("%s does not fit into its length field: %d", what, n)
	}
}

func (e *encoder) byte(n byte)   { e.b = append(e.b, n) }
func (e *encoder) int(n int32)   { e.b = binary.BigEndian.AppendUint32(e.b, uint32(n)) }
func (e *encoder) long(n int64)  { e.b = binary.BigEndian.AppendUint64(e.b, uint64(n)) }
func (e *encoder) uint(n uint32) { e.b = binary.BigEndian.AppendUint32(e.b, n) }

// short appends a count or a length; what names it in the error.
func (e *encoder) short(n int, what string) {
	if n < 0 || n > shortMax {
		e.fail(what, n)
	}
	e.b = binary.BigEndian.AppendUint16(e.b, uint16(n))
}

func (e *encoder) string(s string) {
	e.short(len(s), "a string")
	e.b = append(e.b, s...)
}

func (e *encoder) longString(s string) {
	if len(s) > BodyMax {
		e.fail("a string", len(s))
		return
	}
	e.int(int32(len(s)))
	e.b = append(e.b, s...)
}

// text appends a string for people, of which the beginning is enough.
func (e *encoder) text(s string) {
	if len(s) > shortMax {
		s = s[:shortMax]
		for !utf8.RuneStart(s[len(s)-1]) {
			s = s[:len(s)-1]
		}
		s = s[:len(s)-1] // The first byte of a character that may be incomplete.
	}
	e.string(s)
}

func (e *encoder) shortBytes(b []byte) {
	e.short(len(b), "a byte array")
	e.b = append(e.b, b...)
}

// bytes appends null for nil.
func (e *encoder) bytes(b []byte) {
	if len(b) > BodyMax {
		e.fail("a byte array", len(b))
		return
	}
	e.b = AppendBytes(e.b, b)
}

// AppendBytes appends a cell of a row to b: the length and the bytes of value, or null
// if value is nil.
func AppendBytes(b, value []byte) []byte {
	if value == nil {
		return append(b, 0xff, 0xff, 0xff, 0xff)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
	return append(b, value...)
}

func (e *encoder) value(v Value) {
	if v.Unset {
		e.int(-2)
		return
	}
	e.bytes(v.Bytes)
}

func (e *encoder) stringList(list []string) {
	e.short(len(list), "a list of strings")
	for _, s := range list {
		e.text(s)
	}
}

func encodePairs[V any](e *encoder, pairs []Pair[V], write func(V)) {
	e.short(len(pairs), "a map")
	for _, p := range pairs {
		e.string(p.Name)
		write(p.Value)
	}
}

func (e *encoder) stringMap(m []Pair[string])        { encodePairs(e, m, e.string) }
func (e *encoder) stringMultimap(m []Pair[[]string]) { encodePairs(e, m, e.stringList) }
func (e *encoder) bytesMap(m []Pair[[]byte])         { encodePairs(e, m, e.bytes) }

func (e *encoder) consistency(c Consistency) { e.short(int(c), "a consistency level") }

func (e *encoder) address(a netip.Addr) {
	raw := a.AsSlice()
	if len(raw) == 0 {
		e.fail("an address", 0)
	}
	e.byte(byte(len(raw)))
	e.b = append(e.b, raw...)
}

func (e *encoder) addressPort(a netip.AddrPort) {
	e.address(a.Addr())
	e.int(int32(a.Port()))
}
