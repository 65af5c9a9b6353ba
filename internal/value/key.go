package value

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"unsafe"
)

// The first byte of a key. The tags ascend in the order of Compare; 0x00 is
// below all of them and ends arrays and objects.
const (
	tagEnd       = 0x00
	tagUndefined = 0x01
	tagNull      = 0x02
	tagFalse     = 0x03
	tagTrue      = 0x04
	tagNumber    = 0x05
	tagString    = 0x06
	tagArray     = 0x07
	tagObject    = 0x08
)

// Inside a string, one of these follows a zero byte.
const (
	zeroEnd  = 0x01 // the string ends
	zeroCut  = 0x02 // the string continues, but the key has only a hash of it
	zeroByte = 0xFF // a zero byte
)

// numberSize is the length of a number's key after the tag.
const numberSize = 10

// cutSize is the length of the hash that replaces the rest of a cut string.
const cutSize = 8

// keyDepthMax bounds the stack that decoding a key can use, because a key may
// come from a client. No document or query can nest as deeply.
const keyDepthMax = 1024

// ErrKeyCut is returned by [DecodeKey] for a key that [AppendKeyLimit] cut.
var ErrKeyCut = errors.New("key contains a truncated string")

// AppendKey appends the key of v. Keys compare byte by byte as [Compare] orders
// values. No key is a prefix of another, so keys can be concatenated. Equal
// values have equal keys. [DecodeKey] decodes them.
//
// A key begins with a tag. Undefined, null, false and true have nothing more. A
// number has ten bytes; a string has its bytes, with 00 written as 00 FF, then
// 00 01; an array has the keys of its elements, then 00; an object has the keys
// of the name and value of each member in the order of names, then 00.
func AppendKey(dst []byte, v Value) []byte {
	dst, _ = AppendKeyLimit(dst, v, math.MaxInt)
	return dst
}

// AppendKeyLimit appends the key of v with each string, member names included,
// limited to stringMax bytes, for indexes whose keys must stay short. The key of
// a longer string holds its first stringMax bytes, then 00 02 and 8 bytes of a
// hash of the whole string; truncated is then true.
//
// Keys with the same limit keep the order of Compare as far as possible: a cut
// string sorts after the string that equals its first stringMax bytes, and
// before every string whose first stringMax bytes are greater. The order among
// cut strings with the same first bytes is arbitrary, so a reader of the index
// must compare the documents again. Different strings almost always have
// different keys, but that is not guaranteed. The key of a cut string without
// its last 8 bytes is the common prefix of the keys of all cut strings with the
// same beginning.
func AppendKeyLimit(dst []byte, v Value, stringMax int) (key []byte, truncated bool) {
	switch v.kind {
	case KindUndefined:
		return append(dst, tagUndefined), false
	case KindNull:
		return append(dst, tagNull), false
	case KindBool:
		return append(dst, tagFalse+byte(v.bits)), false
	case KindNumber:
		return appendNumberKey(append(dst, tagNumber), v), false
	case KindString:
		return appendStringKey(append(dst, tagString), v.Text(), stringMax)
	case KindArray:
		dst = append(dst, tagArray)
		for _, item := range v.Items() {
			var cut bool
			dst, cut = AppendKeyLimit(dst, item, stringMax)
			truncated = truncated || cut
		}
		return append(dst, tagEnd), truncated
	default:
		return appendObjectKey(append(dst, tagObject), v.Members(), stringMax)
	}
}

func appendObjectKey(dst []byte, members []Member, stringMax int) (key []byte, truncated bool) {
	if inOrder(members) {
		return appendMemberKeys(dst, members, stringMax)
	}
	var room [scanMax]Member
	return appendMemberKeys(dst, sorted(room[:0], members), stringMax)
}

func appendMemberKeys(dst []byte, members []Member, stringMax int) (key []byte, truncated bool) {
	for _, m := range members {
		var nameCut, valueCut bool
		dst, nameCut = appendStringKey(append(dst, tagString), m.Name, stringMax)
		dst, valueCut = AppendKeyLimit(dst, m.Value, stringMax)
		truncated = truncated || nameCut || valueCut
	}
	return append(dst, tagEnd), truncated
}

// appendNumberKey writes the largest double that is not above the number, in 8
// bytes that sort as doubles do, and then the difference to the number in 2
// bytes. Doubles between 2^62 and 2^63 are 1,024 apart, so the difference is at
// most 1,023. It is zero for all numbers except integers beyond 2^53.
func appendNumberKey(dst []byte, v Value) []byte {
	f := v.Float()
	missing := uint16(0)
	if v.exact {
		i := int64(v.bits)
		// Conversion rounds to nearest, so f may be one double too high. 2^63 is
		// not an int64 and always too high.
		if f >= 1<<63 || int64(f) > i {
			f = math.Nextafter(f, math.Inf(-1))
		}
		missing = uint16(i - int64(f))
	}
	dst = binary.BigEndian.AppendUint64(dst, orderedBits(f))
	return binary.BigEndian.AppendUint16(dst, missing)
}

// orderedBits maps doubles to integers of the same order. NaN maps to 0, and no
// other double does.
func orderedBits(f float64) uint64 {
	if f != f {
		return 0
	}
	bits := math.Float64bits(f)
	if bits>>63 != 0 {
		return ^bits
	}
	return bits | 1<<63
}

func doubleOf(ordered uint64) float64 {
	switch {
	case ordered == 0:
		return math.NaN()
	case ordered>>63 != 0:
		return math.Float64frombits(ordered &^ (1 << 63))
	}
	return math.Float64frombits(^ordered)
}

func appendStringKey(dst []byte, s string, stringMax int) (key []byte, truncated bool) {
	kept := s
	if len(s) > stringMax {
		kept = s[:stringMax]
	}
	for {
		zero := strings.IndexByte(kept, 0)
		if zero < 0 {
			break
		}
		dst = append(dst, kept[:zero+1]...)
		dst = append(dst, zeroByte)
		kept = kept[zero+1:]
	}
	dst = append(dst, kept...)
	if len(s) <= stringMax {
		return append(dst, 0, zeroEnd), false
	}
	dst = append(dst, 0, zeroCut)
	// A cryptographic hash, so that an attacker cannot construct collisions.
	hash := sha256.Sum256(unsafe.Slice(unsafe.StringData(s), len(s)))
	return append(dst, hash[:cutSize]...), true
}

// DecodeKey decodes the key at the beginning of key and returns its value and
// the remaining bytes. The value equals the original; the members of objects are
// in the order of their names. Strings are copied.
//
// DecodeKey rejects bytes that [AppendKey] does not write, so that equal values
// always have equal keys, and nesting beyond 1,024 levels. A key with a cut
// string returns [ErrKeyCut].
func DecodeKey(key []byte) (v Value, rest []byte, err error) {
	v, rest, err = decodeKey(key, 0)
	if err != nil {
		return Value{}, nil, fmt.Errorf("decode key: %w", err)
	}
	return v, rest, nil
}

var (
	errKeyShort = errors.New("the key ends too early")
	errKeyDepth = fmt.Errorf("more than %d nested arrays and objects", keyDepthMax)
)

// decodeKey decodes a key that is nested in depth arrays and objects.
func decodeKey(key []byte, depth int) (v Value, rest []byte, err error) {
	if len(key) == 0 {
		return Value{}, nil, errKeyShort
	}
	tag, key := key[0], key[1:]
	switch tag {
	case tagUndefined:
		return Value{}, key, nil
	case tagNull:
		return Null(), key, nil
	case tagFalse, tagTrue:
		return Bool(tag == tagTrue), key, nil
	case tagNumber:
		return decodeNumber(key)
	case tagString:
		s, rest, err := decodeString(key)
		return String(s), rest, err
	case tagArray:
		return decodeArray(key, depth+1)
	case tagObject:
		return decodeObject(key, depth+1)
	}
	return Value{}, nil, fmt.Errorf("unknown tag 0x%02x", tag)
}

func decodeNumber(key []byte) (v Value, rest []byte, err error) {
	if len(key) < numberSize {
		return Value{}, nil, errKeyShort
	}
	v = Number(doubleOf(binary.BigEndian.Uint64(key)))
	if missing := binary.BigEndian.Uint16(key[8:]); missing > 0 && v.exact {
		v = Int(int64(v.bits) + int64(missing))
	}
	// Encoding the number again rejects -0, other NaNs, and an invalid
	// difference.
	var again [numberSize]byte
	if string(appendNumberKey(again[:0], v)) != string(key[:numberSize]) {
		return Value{}, nil, fmt.Errorf("number %x is not in canonical form", key[:numberSize])
	}
	return v, key[numberSize:], nil
}

func decodeString(key []byte) (s string, rest []byte, err error) {
	var buf []byte
	for i := 0; i+1 < len(key); i++ {
		if key[i] != 0 {
			continue
		}
		switch key[i+1] {
		case zeroEnd:
			if buf == nil {
				return string(key[:i]), key[i+2:], nil
			}
			return string(append(buf, key[:i]...)), key[i+2:], nil
		case zeroByte:
			buf = append(buf, key[:i+1]...)
			key = key[i+2:]
			i = -1
		case zeroCut:
			return "", nil, ErrKeyCut
		default:
			return "", nil, fmt.Errorf("unknown byte 0x%02x after a zero", key[i+1])
		}
	}
	return "", nil, errKeyShort
}

func decodeArray(key []byte, depth int) (v Value, rest []byte, err error) {
	if depth > keyDepthMax {
		return Value{}, nil, errKeyDepth
	}
	var items []Value
	for {
		if len(key) > 0 && key[0] == tagEnd {
			return Array(items), key[1:], nil
		}
		var item Value
		item, key, err = decodeKey(key, depth)
		if err != nil {
			return Value{}, nil, err
		}
		items = append(items, item)
	}
}

func decodeObject(key []byte, depth int) (v Value, rest []byte, err error) {
	if depth > keyDepthMax {
		return Value{}, nil, errKeyDepth
	}
	var members []Member
	for {
		if len(key) == 0 {
			return Value{}, nil, errKeyShort
		}
		if key[0] == tagEnd {
			return object(members), key[1:], nil
		}
		if key[0] != tagString {
			return Value{}, nil, fmt.Errorf("tag 0x%02x where a member name is expected", key[0])
		}
		var m Member
		m.Name, key, err = decodeString(key[1:])
		if err != nil {
			return Value{}, nil, err
		}
		if n := len(members); n > 0 && members[n-1].Name >= m.Name {
			return Value{}, nil, fmt.Errorf("member %q is not in the order of names", m.Name)
		}
		m.Value, key, err = decodeKey(key, depth)
		if err != nil {
			return Value{}, nil, err
		}
		if !m.Value.IsDefined() {
			return Value{}, nil, fmt.Errorf("member %q is undefined", m.Name)
		}
		members = append(members, m)
	}
}
