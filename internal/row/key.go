package row

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// The first byte of an encoded value.
const (
	keyNull  = 0x02
	keyEmpty = 0x04
	keyValue = 0x08
)

// KeyColumn is a clustering column as keys need it.
type KeyColumn struct {
	Type *Type
	// Descending says that the column is in descending order.
	Descending bool
}

// AppendKey appends the encoding of one value so that the order of the bytes is
// the order of Compare, or the opposite order if the column is descending. The
// encodings of the columns of a key, one after another, order as the columns do
// in turn, and no encoding is the beginning of another one. Null encodes, for
// indexes and filters. Values that compare as equal have one encoding.
//
// Durations and counters have no order in keys; a duration is encoded as its
// bytes.
func (c KeyColumn) AppendKey(dst, v []byte) []byte {
	start := len(dst)
	dst = c.Type.appendKey(dst, v)
	if c.Descending {
		for i := start; i < len(dst); i++ {
			dst[i] = ^dst[i]
		}
	}
	return dst
}

// CutKey reads one encoded value and returns it with the rest of src. The value
// has the bytes that [KeyColumn.AppendKey] encoded, except where several values
// compare as equal: then it is the simplest of them; see [Type.Exact]. It shares
// no memory with src.
func (c KeyColumn) CutKey(src []byte) (v, rest []byte, err error) {
	return c.cut(&keyArena{}, src)
}

func (c KeyColumn) cut(arena *keyArena, src []byte) (v, rest []byte, err error) {
	if !c.Descending {
		return c.Type.cutKey(arena, src, 0)
	}
	inverted := src
	if n := c.Type.fixedKey(); n > 0 && n+1 < len(src) {
		inverted = src[:n+1]
	}
	inverted = arena.clone(inverted)
	for i := range inverted {
		inverted[i] = ^inverted[i]
	}
	v, left, err := c.Type.cutKey(arena, inverted, 0)
	return v, src[len(inverted)-len(left):], err
}

// keyArena is memory that several decoded values share.
type keyArena struct{ free []byte }

func (a *keyArena) clone(v []byte) []byte {
	if len(v) > cap(a.free)-len(a.free) {
		return bytes.Clone(v)
	}
	start := len(a.free)
	a.free = append(a.free, v...)
	return a.free[start:len(a.free):len(a.free)]
}

// EncodeKey returns the encoding of the clustering key with the given values,
// which may be the first ones of the columns only.
func EncodeKey(columns []KeyColumn, values [][]byte) []byte {
	var dst []byte
	for i, v := range values {
		dst = columns[i].AppendKey(dst, v)
	}
	return dst
}

// DecodeKey returns the values of an encoded clustering key. It is an error if a
// value is missing or bytes remain.
func DecodeKey(columns []KeyColumn, key []byte) ([][]byte, error) {
	d := KeyDecoder{Columns: columns}
	return d.Decode(key)
}

// KeyDecoder decodes keys one after another, in the same memory.
type KeyDecoder struct {
	Columns []KeyColumn

	values [][]byte
	arena  keyArena
}

// Decode returns the values of an encoded clustering key, as DecodeKey does. They are
// valid until the next call.
func (d *KeyDecoder) Decode(key []byte) ([][]byte, error) {
	d.values = slices.Grow(d.values[:0], len(d.Columns))
	// A value with its copy that is not inverted.
	d.arena.free = slices.Grow(d.arena.free[:0], 2*len(key))
	for _, c := range d.Columns {
		value, rest, err := c.cut(&d.arena, key)
		if err != nil {
			return nil, err
		}
		d.values, key = append(d.values, value), rest
	}
	if len(key) > 0 {
		return nil, badKey()
	}
	return d.values, nil
}

func badKey() error { return fmt.Errorf("%w: key", ErrCorrupt) }

// Before returns the bound that precedes every key that begins with prefix, and
// follows every lesser key. Keys k >= prefix in the order of bytes are the ones
// from it on. It is prefix itself.
func Before(prefix []byte) []byte { return prefix }

// After returns the bound that follows every key that begins with prefix, and
// precedes every greater key. It appends to a copy.
func After(prefix []byte) []byte {
	return append(slices.Clip(prefix), keyAfter)
}

// keyAfter is greater than the first byte of an encoded value, inverted or not:
// ^keyNull is 0xfd.
const keyAfter = 0xff

// Span returns the bounds of a slice of clustering keys as a half-open interval of
// bytes [start, end). Prefix are the encoded columns that are fixed. Lower and
// upper are the encodings of prefix with the columns of a bound of values, in the
// order of values; nil means no bound on that side. For a descending column the
// caller passes the bound of greater values as lower one: Span thinks in the
// order of keys.
func Span(prefix, lower []byte, lowerInclusive bool, upper []byte, upperInclusive bool) (start, end []byte) {
	start, end = Before(prefix), After(prefix)
	if lower != nil {
		start = lower
		if !lowerInclusive {
			start = After(lower)
		}
	}
	if upper != nil {
		end = upper
		if upperInclusive {
			end = After(upper)
		}
	}
	return start, end
}

// Exact says whether CutKey returns the bytes of each value of the type that
// AppendKey encodes. It is false for types with several values that compare as
// equal, such as decimals of different scale.
func (t *Type) Exact() bool {
	switch t.Kind {
	case KindBoolean, KindVarInt, KindDecimal, KindFloat, KindDouble:
		return false
	}
	return !slices.ContainsFunc(t.Parts, func(part *Type) bool { return !part.Exact() })
}

// Original returns v if its encoding does not have all of its bytes, and nil if
// CutKey returns them. Rows keep originals next to their cells.
func (t *Type) Original(v []byte) []byte {
	if len(v) == 0 || t.Exact() {
		return nil
	}
	back, _, err := t.cutKey(&keyArena{}, t.appendKey(nil, v), 0)
	if err == nil && bytes.Equal(back, v) {
		return nil
	}
	return v
}

func (t *Type) appendKey(dst, v []byte) []byte {
	switch {
	case v == nil:
		return append(dst, keyNull)
	case len(v) == 0:
		return append(dst, keyEmpty)
	}
	dst = append(dst, keyValue)
	switch t.Kind {
	case KindTinyInt, KindSmallInt, KindInt, KindBigInt, KindCounter, KindTimestamp:
		return append(append(dst, v[0]^0x80), v[1:]...)
	case KindDate, KindTime:
		// Cassandra compares these as unsigned bytes.
		return append(dst, v...)
	case KindBoolean:
		return append(dst, min(v[0], 1))
	case KindDouble:
		return binary.BigEndian.AppendUint64(dst, doubleOrder(v))
	case KindFloat:
		return binary.BigEndian.AppendUint32(dst, floatOrder(v))
	case KindUUID:
		dst = append(dst, v[6]>>4)
		if v[6]>>4 == 1 {
			return append(binary.BigEndian.AppendUint64(dst, uuidTime(v)), v[8:]...)
		}
		return append(dst, v...)
	case KindTimeUUID:
		dst = binary.BigEndian.AppendUint64(dst, uuidTime(v))
		for _, b := range v[8:] {
			dst = append(dst, b^0x80)
		}
		return dst
	case KindVarInt:
		return appendVarIntKey(dst, v)
	case KindDecimal:
		return appendDecimalKey(dst, v)
	case KindList, KindSet, KindMap, KindVector:
		parts := t.Split(v)
		for i, part := range parts {
			if i%len(t.Parts) == 0 {
				dst = append(dst, 1)
			}
			dst = t.Parts[i%len(t.Parts)].appendKey(dst, part)
		}
		return append(dst, 0)
	case KindTuple, KindUDT:
		// Nulls at the end are left out, so that a field which is added later
		// changes no encoding.
		parts := t.Split(v)
		for len(parts) > 0 && parts[len(parts)-1] == nil {
			parts = parts[:len(parts)-1]
		}
		for i, part := range parts {
			dst = t.Parts[i].appendKey(dst, part)
		}
		return append(dst, 0)
	}
	return appendEscaped(dst, v)
}

// appendEscaped appends bytes with an end: 00 is 00 FF, and 00 01 ends them.
func appendEscaped(dst, v []byte) []byte {
	for {
		at := bytes.IndexByte(v, 0)
		if at < 0 {
			return append(append(dst, v...), 0, 1)
		}
		dst = append(append(dst, v[:at]...), 0, 0xff)
		v = v[at+1:]
	}
}

func cutEscaped(arena *keyArena, src []byte) (v, rest []byte, err error) {
	for {
		at := bytes.IndexByte(src, 0)
		if at < 0 || at+1 >= len(src) {
			return nil, src, badKey()
		}
		end := src[at+1]
		if end == 1 && v == nil {
			return arena.clone(src[:at]), src[at+2:], nil
		}
		v = append(v, src[:at]...)
		switch end {
		case 1:
			return v, src[at+2:], nil
		case 0xff:
			v = append(v, 0)
		default:
			return nil, src, badKey()
		}
		src = src[at+2:]
	}
}

// appendVarIntKey appends the length of the magnitude, then the magnitude. A
// negative number n has the inverted bytes of -n - 1.
func appendVarIntKey(dst, v []byte) []byte {
	v = trimVarInt(v)
	invert := byte(0)
	if v[0] >= 0x80 {
		invert = 0xff
	}
	for len(v) > 0 && v[0] == invert {
		v = v[1:]
	}
	if len(v) <= varIntShort {
		dst = append(dst, (0x80+byte(len(v)))^invert)
	} else {
		dst = append(dst, 0xff^invert)
		start := len(dst)
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(v)))
		for i := start; i < len(dst); i++ {
			dst[i] ^= invert
		}
	}
	return append(dst, v...)
}

// varIntShort is the length of the longest magnitude whose length is in the first
// byte.
const varIntShort = 126

func cutVarIntKey(src []byte) (v, rest []byte, err error) {
	if len(src) == 0 {
		return nil, src, badKey()
	}
	invert := byte(0)
	if src[0] < 0x80 {
		invert = 0xff
	}
	size := uint64(src[0]^invert) - 0x80
	src = src[1:]
	if size > varIntShort {
		if len(src) < 4 {
			return nil, src, badKey()
		}
		size = uint64(binary.BigEndian.Uint32([]byte{src[0] ^ invert, src[1] ^ invert, src[2] ^ invert, src[3] ^ invert}))
		src = src[4:]
		if size <= varIntShort {
			return nil, src, badKey()
		}
	}
	if size > uint64(len(src)) || size > 0 && src[0] == invert {
		return nil, src, badKey()
	}
	if size == 0 || (src[0]^invert) >= 0x80 {
		v = append(v, invert)
	}
	return append(v, src[:size]...), src[size:], nil
}

// appendDecimalKey appends the sign, the exponent of the first digit and the
// digits without zeros at their ends, two per byte.
func appendDecimalKey(dst, v []byte) []byte {
	unscaled, scale := bigInt(v[4:]), decimalScale(v)
	if unscaled.Sign() == 0 {
		return append(dst, 1)
	}
	sign, invert := byte(2), byte(0)
	if unscaled.Sign() < 0 {
		sign, invert = 0, 0xff
		unscaled.Neg(unscaled)
	}
	digits := unscaled.String()
	// The exponent has more than 32 bits if the scale is at its limits.
	exponent := int64(len(digits)) - int64(scale)
	digits = strings.TrimRight(digits, "0")
	dst = append(dst, sign)
	start := len(dst)
	dst = append(dst, byte(exponent>>32)^0x80)
	dst = binary.BigEndian.AppendUint32(dst, uint32(exponent))
	for i := 0; i < len(digits); i += 2 {
		pair := (digits[i] - '0') * 10
		if i+1 < len(digits) {
			pair += digits[i+1] - '0'
		}
		dst = append(dst, pair+1)
	}
	dst = append(dst, 0)
	for i := start; i < len(dst); i++ {
		dst[i] ^= invert
	}
	return dst
}

func cutDecimalKey(src []byte) (v, rest []byte, err error) {
	if len(src) == 0 || src[0] > 2 {
		return nil, src, badKey()
	}
	sign := src[0]
	src = src[1:]
	if sign == 1 {
		return Decimal(new(big.Int), 0), src, nil
	}
	invert := byte(0)
	if sign == 0 {
		invert = 0xff
	}
	end := -1
	if len(src) > 5 {
		end = bytes.IndexByte(src[5:], invert)
	}
	if end < 1 {
		return nil, src, badKey()
	}
	exponent := int64(int8(src[0] ^ invert ^ 0x80))
	for _, b := range src[1:5] {
		exponent = exponent<<8 | int64(b^invert)
	}
	digits := make([]byte, 0, 2*end)
	for _, b := range src[5 : 5+end] {
		if b ^= invert; b > 100 {
			return nil, src, badKey()
		}
		digits = append(digits, '0'+(b-1)/10, '0'+(b-1)%10)
	}
	if digits[0] == '0' {
		return nil, src, badKey()
	}
	if digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
		if digits[len(digits)-1] == '0' {
			return nil, src, badKey()
		}
	}
	unscaled, ok := new(big.Int).SetString(string(digits), 10)
	scale := int64(len(digits)) - exponent
	// A number without decimals has the scale 0 if it is not long.
	if scale < 0 && scale >= -18 {
		unscaled.Mul(unscaled, new(big.Int).Exp(big.NewInt(10), big.NewInt(-scale), nil))
		scale = 0
	}
	if !ok || scale < -1<<31-1<<17 || scale > 1<<31-1 {
		return nil, src, badKey()
	}
	for ; scale < -1<<31; scale++ {
		unscaled.Mul(unscaled, big.NewInt(10))
	}
	if sign == 0 {
		unscaled.Neg(unscaled)
	}
	return Decimal(unscaled, int32(scale)), src[5+end+1:], nil
}

// fixedKey returns the length of the body of an encoded value, or 0.
func (t *Type) fixedKey() int {
	switch t.Kind {
	case KindTinyInt, KindBoolean:
		return 1
	case KindSmallInt:
		return 2
	case KindInt, KindDate, KindFloat:
		return 4
	case KindBigInt, KindCounter, KindTimestamp, KindTime, KindDouble:
		return 8
	case KindTimeUUID:
		return 16
	}
	return 0
}

// cutKey is the inverse of appendKey.
func (t *Type) cutKey(arena *keyArena, src []byte, depth int) (v, rest []byte, err error) {
	if len(src) == 0 || depth > typeDepthMax+1 {
		return nil, src, badKey()
	}
	first := src[0]
	src = src[1:]
	switch first {
	case keyNull:
		return nil, src, nil
	case keyEmpty:
		return []byte{}, src, nil
	case keyValue:
	default:
		return nil, src, badKey()
	}
	if n := t.fixedKey(); n > 0 {
		if len(src) < n {
			return nil, src, badKey()
		}
		v, rest = arena.clone(src[:n]), src[n:]
		switch t.Kind {
		case KindTinyInt, KindSmallInt, KindInt, KindBigInt, KindCounter, KindTimestamp:
			v[0] ^= 0x80
		case KindBoolean:
			if v[0] > 1 {
				return nil, src, badKey()
			}
		case KindDouble, KindFloat:
			if v[0] >= 0x80 {
				v[0] ^= 0x80
			} else {
				for i := range v {
					v[i] = ^v[i]
				}
			}
		case KindTimeUUID:
			restoreTime(v)
			for i := 8; i < 16; i++ {
				v[i] ^= 0x80
			}
		}
		return v, rest, nil
	}
	switch t.Kind {
	case KindUUID:
		if len(src) < 17 || src[0] > 15 {
			return nil, src, badKey()
		}
		v = arena.clone(src[1:17])
		if src[0] == 1 {
			restoreTime(v)
		}
		if v[6]>>4 != src[0] {
			return nil, src, badKey()
		}
		return v, src[17:], nil
	case KindVarInt:
		return cutVarIntKey(src)
	case KindDecimal:
		return cutDecimalKey(src)
	case KindList, KindSet, KindMap, KindVector:
		return t.cutCollectionKey(arena, src, depth)
	case KindTuple, KindUDT:
		parts := make([][]byte, len(t.Parts))
		for i, part := range t.Parts {
			if len(src) > 0 && src[0] == 0 {
				break
			}
			if parts[i], src, err = part.cutKey(arena, src, depth+1); err != nil {
				return nil, src, err
			}
		}
		if len(src) == 0 || src[0] != 0 {
			return nil, src, badKey()
		}
		return PackTuple(parts), src[1:], nil
	}
	return cutEscaped(arena, src)
}

func (t *Type) cutCollectionKey(arena *keyArena, src []byte, depth int) (v, rest []byte, err error) {
	var parts [][]byte
	for {
		if len(src) == 0 || src[0] > 1 {
			return nil, src, badKey()
		}
		more := src[0] == 1
		src = src[1:]
		if !more {
			break
		}
		for _, of := range t.Parts {
			var part []byte
			if part, src, err = of.cutKey(arena, src, depth+1); err != nil {
				return nil, src, err
			}
			parts = append(parts, part)
		}
	}
	return t.Pack(parts), src, nil
}

// restoreTime is the inverse of uuidTime, in place.
func restoreTime(v []byte) {
	n := binary.BigEndian.Uint64(v)
	binary.BigEndian.PutUint64(v, n<<32|n>>16&0xffff0000|n>>48)
}
