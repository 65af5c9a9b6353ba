package value

import (
	"math"
	"strconv"
)

// Append appends v as compact JSON. Undefined members and elements are left
// out, and an undefined v appends nothing. Integers within 64 bits are written
// in full, other doubles with the fewest digits that read back as the same
// double, with an exponent below 1e-6 and from 1e21 on. Strings stay UTF-8;
// only quotes, backslashes and control characters are escaped.
//
// NaN and the infinities have no JSON form. Append writes null for them, which
// is not the same value: a caller that may have computed one asks [Value.Finite]
// before.
func (v Value) Append(dst []byte) []byte {
	switch v.kind {
	case KindNull:
		return append(dst, "null"...)
	case KindBool:
		return strconv.AppendBool(dst, v.bits != 0)
	case KindNumber:
		if v.exact {
			return strconv.AppendInt(dst, int64(v.bits), 10)
		}
		return appendDouble(dst, math.Float64frombits(v.bits))
	case KindString:
		return AppendQuoted(dst, v.Text())
	case KindArray:
		return appendArray(dst, v.Items())
	case KindObject:
		return appendObject(dst, v.Members())
	}
	return dst
}

// JSON returns what [Value.Append] writes, as a string.
func (v Value) JSON() string {
	return string(v.Append(nil))
}

// String is [Value.JSON] for people: undefined, NaN and the infinities at the
// top are named instead of left out.
func (v Value) String() string {
	switch {
	case !v.IsDefined():
		return "undefined"
	case v.kind == KindNumber && !v.Finite():
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	}
	return v.JSON()
}

// MarshalJSON lets a Value be a field of a struct that encoding/json writes.
// Undefined is null there; the omitzero option leaves it out.
func (v Value) MarshalJSON() ([]byte, error) {
	if !v.IsDefined() {
		return []byte("null"), nil
	}
	return v.Append(nil), nil
}

// UnmarshalJSON is [Parse] into a field of a struct that encoding/json reads.
func (v *Value) UnmarshalJSON(data []byte) error {
	parsed, err := Parse(data)
	if err != nil {
		return err
	}
	*v = parsed
	return nil
}

func appendArray(dst []byte, items []Value) []byte {
	dst = append(dst, '[')
	first := true
	for _, item := range items {
		if !item.IsDefined() {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = item.Append(dst)
	}
	return append(dst, ']')
}

func appendObject(dst []byte, members []Member) []byte {
	dst = append(dst, '{')
	for i := range members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendQuoted(dst, members[i].Name)
		dst = append(dst, ':')
		dst = members[i].Value.Append(dst)
	}
	return append(dst, '}')
}

// appendDouble writes a double as JavaScript would, which is what clients are
// used to see.
func appendDouble(dst []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(dst, "null"...)
	}
	if abs := math.Abs(f); abs >= 1e-6 && abs < 1e21 {
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	// Go pads exponents to two digits: 1e-09 becomes 1e-9.
	if n := len(dst); dst[n-4] == 'e' && dst[n-2] == '0' {
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}
