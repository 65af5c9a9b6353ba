package row

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"net/netip"
	"strconv"
	"strings"
)

// Format returns a native value as the text that a cast to text gives: no
// quotes, a blob in hexadecimal digits without 0x, a timestamp such as
// 2020-02-29T01:02:03.004Z. Null and values with parts are written as CQL. The
// empty value is the empty text.
func (t *Type) Format(v []byte) string {
	if v == nil || !t.Native() {
		return t.Literal(v)
	}
	return string(t.appendText(nil, v))
}

// Literal returns a value as CQL text that denotes it: strings, times and
// addresses in quotes. The empty value of a type other than a string or blob is
// null.
func (t *Type) Literal(v []byte) string { return string(t.appendLiteral(nil, v)) }

func (t *Type) appendLiteral(dst, v []byte) []byte {
	if v == nil {
		return append(dst, "null"...)
	}
	switch t.Kind {
	case KindASCII, KindText:
		return append(append(append(dst, '\''), strings.ReplaceAll(string(v), "'", "''")...), '\'')
	case KindBlob:
		return t.appendText(append(dst, "0x"...), v)
	case KindList, KindVector:
		return t.appendParts(append(dst, '['), v, ']')
	case KindSet, KindMap, KindUDT:
		return t.appendParts(append(dst, '{'), v, '}')
	case KindTuple:
		return t.appendParts(append(dst, '('), v, ')')
	}
	if len(v) == 0 {
		return append(dst, "null"...)
	}
	switch t.Kind {
	case KindDate, KindTime, KindTimestamp, KindInet:
		return append(t.appendText(append(dst, '\''), v), '\'')
	}
	return t.appendText(dst, v)
}

func (t *Type) appendParts(dst, v []byte, end byte) []byte {
	parts := t.Split(v)
	if len(v) == 0 {
		parts = nil
	}
	for i, part := range parts {
		if i > 0 && t.Kind == KindMap && i%2 == 1 {
			dst = append(dst, ": "...)
		} else if i > 0 {
			dst = append(dst, ", "...)
		}
		if t.Kind == KindUDT {
			dst = append(append(dst, QuoteName(t.Fields[i])...), ": "...)
		}
		dst = t.Parts[i%len(t.Parts)].appendLiteral(dst, part)
	}
	return append(dst, end)
}

// appendText appends the text of a native value that is not null.
func (t *Type) appendText(dst, v []byte) []byte {
	switch t.Kind {
	case KindASCII, KindText:
		return append(dst, v...)
	case KindBlob:
		return hex.AppendEncode(dst, v)
	}
	if t.Validate(v) != nil || len(v) == 0 {
		return dst
	}
	switch t.Kind {
	case KindTinyInt, KindSmallInt, KindInt, KindBigInt, KindCounter:
		return strconv.AppendInt(dst, Integer(v), 10)
	case KindVarInt:
		return bigInt(v).Append(dst, 10)
	case KindDecimal:
		return appendDecimalText(dst, v)
	case KindDouble:
		return appendJavaFloat(dst, Floating(v), 64)
	case KindFloat:
		return appendJavaFloat(dst, Floating(v), 32)
	case KindBoolean:
		return strconv.AppendBool(dst, v[0] != 0)
	case KindUUID, KindTimeUUID:
		for i, part := range [][]byte{v[:4], v[4:6], v[6:8], v[8:10], v[10:]} {
			if i > 0 {
				dst = append(dst, '-')
			}
			dst = hex.AppendEncode(dst, part)
		}
		return dst
	case KindInet:
		return appendInet(dst, v)
	case KindDate:
		return appendDate(dst, DateDays(v))
	case KindTime:
		return appendTime(dst, Integer(v))
	case KindTimestamp:
		return appendTimestamp(dst, Integer(v), 'T')
	case KindDuration:
		months, days, nanos, _ := cutDuration(v)
		return appendDurationText(dst, months, days, nanos)
	}
	return dst
}

// appendInet appends an address; an IPv6 address has all its eight groups.
func appendInet(dst, v []byte) []byte {
	if len(v) == 4 {
		return netip.AddrFrom4([4]byte(v)).AppendTo(dst)
	}
	for i := 0; i < len(v); i += 2 {
		if i > 0 {
			dst = append(dst, ':')
		}
		dst = strconv.AppendUint(dst, uint64(binary.BigEndian.Uint16(v[i:])), 16)
	}
	return dst
}

// appendDecimalText appends a decimal as Java's BigDecimal prints it.
func appendDecimalText(dst, v []byte) []byte {
	unscaled, scale := DecimalParts(v)
	if scale == 0 {
		return unscaled.Append(dst, 10)
	}
	if unscaled.Sign() < 0 {
		dst = append(dst, '-')
	}
	digits := strings.TrimPrefix(unscaled.String(), "-")
	exponent := int64(len(digits)-1) - int64(scale)
	if scale > 0 && exponent >= -6 {
		if point := len(digits) - int(scale); point > 0 {
			return append(append(append(dst, digits[:point]...), '.'), digits[point:]...)
		}
		dst = append(dst, "0."...)
		for range int(scale) - len(digits) {
			dst = append(dst, '0')
		}
		return append(dst, digits...)
	}
	dst = append(dst, digits[0])
	if len(digits) > 1 {
		dst = append(append(dst, '.'), digits[1:]...)
	}
	if exponent == 0 {
		return dst
	}
	dst = append(dst, 'E')
	if exponent > 0 {
		dst = append(dst, '+')
	}
	return strconv.AppendInt(dst, exponent, 10)
}

// appendJavaFloat appends a float or double as Java prints it: with at least one
// digit after the point, and with an exponent if the number is less than 10^-3, or
// 10^7 or more.
func appendJavaFloat(dst []byte, f float64, bits int) []byte {
	if math.Signbit(f) && f == f {
		dst, f = append(dst, '-'), -f
	}
	switch {
	case f != f:
		return append(dst, "NaN"...)
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...)
	case f == 0:
		return append(dst, "0.0"...)
	}
	digits, exponent := javaDigits(f, bits)
	switch {
	case exponent < -3 || exponent >= 7:
		dst = append(append(dst, digits[0], '.'), digits[1:]...)
		if len(digits) == 1 {
			dst = append(dst, '0')
		}
		return strconv.AppendInt(append(dst, 'E'), int64(exponent), 10)
	case exponent < 0:
		return append(append(dst, "0.000"[:1-exponent]...), digits...)
	}
	for len(digits) < exponent+2 {
		digits = append(digits, '0')
	}
	return append(append(append(dst, digits[:exponent+1]...), '.'), digits[exponent+1:]...)
}
