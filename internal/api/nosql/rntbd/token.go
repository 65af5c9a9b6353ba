package rntbd

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
)

// Type is the type of a token's value: the third byte of a token. All numbers on the
// wire are little-endian.
type Type byte

// The types. A text or bytes has a length of 1, 2 or 4 bytes before its value.
const (
	TypeByte        Type = 0x00 // 1 byte; truth values are 0 and 1
	TypeUShort      Type = 0x01 // 2 bytes
	TypeULong       Type = 0x02 // 4 bytes, unsigned
	TypeLong        Type = 0x03 // 4 bytes, signed
	TypeULongLong   Type = 0x04 // 8 bytes, unsigned
	TypeLongLong    Type = 0x05 // 8 bytes, signed
	TypeGUID        Type = 0x06 // 16 bytes
	TypeSmallString Type = 0x07 // length of 1 byte
	TypeString      Type = 0x08 // length of 2 bytes
	TypeULongString Type = 0x09 // length of 4 bytes
	TypeSmallBytes  Type = 0x0A // length of 1 byte
	TypeBytes       Type = 0x0B // length of 2 bytes
	TypeULongBytes  Type = 0x0C // length of 4 bytes
	TypeFloat       Type = 0x0D // 4 bytes, IEEE 754
	TypeDouble      Type = 0x0E // 8 bytes, IEEE 754
)

// kind groups the types that a reader may take for each other.
type kind uint8

const (
	kindInteger kind = iota + 1
	kindGUID
	kindText
	kindBytes
	kindReal
)

// types has the form of each type: fixed is the size of its values, or prefix the size
// of the length before them. It never changes.
var types = [...]struct {
	name          string
	kind          kind
	fixed, prefix uint8
}{
	TypeByte:        {"Byte", kindInteger, 1, 0},
	TypeUShort:      {"UShort", kindInteger, 2, 0},
	TypeULong:       {"ULong", kindInteger, 4, 0},
	TypeLong:        {"Long", kindInteger, 4, 0},
	TypeULongLong:   {"ULongLong", kindInteger, 8, 0},
	TypeLongLong:    {"LongLong", kindInteger, 8, 0},
	TypeGUID:        {"Guid", kindGUID, 16, 0},
	TypeSmallString: {"SmallString", kindText, 0, 1},
	TypeString:      {"String", kindText, 0, 2},
	TypeULongString: {"ULongString", kindText, 0, 4},
	TypeSmallBytes:  {"SmallBytes", kindBytes, 0, 1},
	TypeBytes:       {"Bytes", kindBytes, 0, 2},
	TypeULongBytes:  {"ULongBytes", kindBytes, 0, 4},
	TypeFloat:       {"Float", kindReal, 4, 0},
	TypeDouble:      {"Double", kindReal, 8, 0},
}

// String returns the name of the type, as in the clients' tables.
func (t Type) String() string {
	if int(t) < len(types) {
		return types[t].name
	}
	return fmt.Sprintf("type 0x%02X", byte(t))
}

// Max returns the maximum number of bytes of a value of the type.
func (t Type) Max() int {
	if int(t) >= len(types) {
		return 0
	}
	switch form := types[t]; form.prefix {
	case 0:
		return int(form.fixed)
	case 1:
		return math.MaxUint8
	case 2:
		return math.MaxUint16
	}
	return math.MaxUint32
}

// token is one entry of a table of tokens.
type token struct {
	name string
	typ  Type
}

func nameOf(table []token, id uint16) string {
	if int(id) < len(table) && table[id].name != "" {
		return table[id].name
	}
	return fmt.Sprintf("0x%04X", id)
}

// Token is a token as it is on the wire.
type Token struct {
	ID   uint16
	Type Type

	// Value has the bytes of the value, without the length before them.
	Value string
}

// tokenMin is the size of the smallest token: identifier, type and one byte.
const tokenMin = 4

// NextToken decodes the token at an offset of head, and returns the offset after it.
// The token shares the memory of head.
func NextToken(head string, at int) (Token, int, error) {
	rest := head[at:]
	if len(rest) < tokenMin {
		return Token{}, 0, violation("a token needs %d bytes, and %d are left", tokenMin, len(rest))
	}
	t := Token{ID: uint16(rest[0]) | uint16(rest[1])<<8, Type: Type(rest[2])}
	if int(t.Type) >= len(types) {
		return Token{}, 0, violation("token 0x%04X has the unknown %s", t.ID, t.Type)
	}
	form := types[t.Type]
	begin, size := tokenMin-1+int(form.prefix), uint64(form.fixed)
	if form.prefix > 0 && len(rest) >= begin {
		size = integer(rest[tokenMin-1:begin], false)
	}
	if len(rest) < begin || size > uint64(len(rest)-begin) {
		return Token{}, 0, violation("token 0x%04X of type %s is longer than its frame", t.ID, t.Type)
	}
	end := begin + int(size)
	t.Value = rest[begin:end]
	return t, at + end, nil
}

// Append encodes the token. A value that is longer than its type permits, or has
// another size than its type, is an error.
func (t Token) Append(dst []byte) ([]byte, error) {
	if int(t.Type) >= len(types) {
		return dst, fmt.Errorf("token 0x%04X has the unknown %s", t.ID, t.Type)
	}
	form := types[t.Type]
	if len(t.Value) > t.Type.Max() || form.prefix == 0 && len(t.Value) != int(form.fixed) {
		return dst, fmt.Errorf("token 0x%04X of type %s has a value of %d bytes", t.ID, t.Type, len(t.Value))
	}
	dst = append(dst, byte(t.ID), byte(t.ID>>8), byte(t.Type))
	for i := range int(form.prefix) {
		dst = append(dst, byte(len(t.Value)>>(8*i)))
	}
	return append(dst, t.Value...), nil
}

// Int returns the value of an integer type. Unsigned values of 8 bytes above the
// maximum of an int64 become negative. Other types give 0 and false.
func (t Token) Int() (int64, bool) {
	if int(t.Type) >= len(types) || types[t.Type].kind != kindInteger {
		return 0, false
	}
	return int64(integer(t.Value, t.Type == TypeLong)), true
}

// integer decodes up to 8 bytes.
func integer(b string, signed bool) uint64 {
	var n uint64
	for i := range len(b) {
		n |= uint64(b[i]) << (8 * i)
	}
	if signed {
		unused := 64 - 8*len(b)
		n = uint64(int64(n<<unused) >> unused)
	}
	return n
}

// appendInteger encodes an integer in size bytes.
func appendInteger(dst []byte, n uint64, size uint8) []byte {
	for range size {
		dst = append(dst, byte(n))
		n >>= 8
	}
	return dst
}

// GUID is an identifier in the order of its bytes on the wire: the first three fields
// are little-endian.
type GUID [16]byte

// String returns the identifier as text, such as 00112233-4455-6677-8899-aabbccddeeff.
func (g GUID) String() string {
	var text [36]byte
	return string(g.append(text[:0]))
}

func (g GUID) append(dst []byte) []byte {
	fields := g.swapped()
	for i, end := range [...]int{4, 6, 8, 10, 16} {
		if i > 0 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, fields[[...]int{0, 4, 6, 8, 10}[i]:end])
	}
	return dst
}

// swapped returns the bytes in the order of the text, or back.
func (g GUID) swapped() GUID {
	binary.BigEndian.PutUint32(g[0:], binary.LittleEndian.Uint32(g[0:]))
	binary.BigEndian.PutUint16(g[4:], binary.LittleEndian.Uint16(g[4:]))
	binary.BigEndian.PutUint16(g[6:], binary.LittleEndian.Uint16(g[6:]))
	return g
}

// ParseGUID is the reverse of GUID.String.
func ParseGUID(text string) (GUID, error) {
	var g GUID
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return GUID{}, fmt.Errorf("%q is not a GUID", text)
	}
	digits := text[:8] + text[9:13] + text[14:18] + text[19:23] + text[24:]
	if _, err := hex.Decode(g[:], []byte(digits)); err != nil {
		return GUID{}, fmt.Errorf("%q is not a GUID", text)
	}
	return g.swapped(), nil
}

// Violation is an error of a client against the framing, after which nothing on its
// connection can be read.
type Violation struct{ Reason string }

// Error returns the reason.
func (v *Violation) Error() string { return v.Reason }

func violation(format string, args ...any) error {
	return &Violation{Reason: fmt.Sprintf(format, args...)}
}
