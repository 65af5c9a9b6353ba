package value

import (
	"math"
	"strconv"
)

// Append appends v as compact JSON. Undefined members and elements are omitted,
// and an undefined v appends nothing. Integers of 64 bits are written in full.
// Other doubles are written with the fewest digits that parse to the same
// double, with an exponent below 1e-6 and from 1e21 on. Strings stay UTF-8; only
// quotes, backslashes and control characters are escaped.
//
// NaN and the infinities have no JSON form. Append writes null for them, which
// is a different value: a caller that may have computed one must call
// [Value.Finite] first.
func (v Value) Append(dst []byte) []byte { return v.append(dst, formJSON) }

// AppendText appends v as the query language converts values to strings. The text is
// JSON except for three points: NaN and the infinities are written by name, doubles
// have 15 significant digits if those denote the same number and otherwise 17, with
// an exponent of at least two digits where C's %g has one, and from 1e17 on doubles and
// the results of floating-point arithmetic have an exponent and 17 digits without zeros at
// the end. Undefined members and elements are omitted, and an undefined v appends nothing.
func (v Value) AppendText(dst []byte) []byte { return v.append(dst, formText) }

// form is how numbers are written.
type form bool

const (
	formJSON form = false // of Append
	formText form = true  // of AppendText
)

func (v Value) append(dst []byte, f form) []byte {
	switch v.kind {
	case KindNull:
		return append(dst, "null"...)
	case KindBool:
		return strconv.AppendBool(dst, v.bits != 0)
	case KindNumber:
		switch i := int64(v.bits); {
		case v.exact && (f == formJSON || !v.double || -exponentMin < i && i < exponentMin):
			return strconv.AppendInt(dst, i, 10)
		case f == formText:
			return appendDoubleText(dst, v.Float())
		}
		return appendDouble(dst, math.Float64frombits(v.bits))
	case KindString:
		return AppendQuoted(dst, v.Text())
	case KindArray:
		return appendArray(dst, v.Items(), f)
	case KindObject:
		return appendObject(dst, v.Members(), f)
	}
	return dst
}

// JSON returns the output of [Value.Append] as a string.
func (v Value) JSON() string {
	return string(v.Append(nil))
}

// String returns the JSON of v for people. Unlike [Value.JSON], it names
// undefined, NaN and the infinities if v itself is one of them.
func (v Value) String() string {
	switch {
	case !v.IsDefined():
		return "undefined"
	case v.kind == KindNumber && !v.Finite():
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	}
	return v.JSON()
}

// MarshalJSON implements json.Marshaler. Undefined becomes null; the omitzero
// option omits it.
func (v Value) MarshalJSON() ([]byte, error) {
	if !v.IsDefined() {
		return []byte("null"), nil
	}
	return v.Append(nil), nil
}

// UnmarshalJSON implements json.Unmarshaler with [Parse].
func (v *Value) UnmarshalJSON(data []byte) error {
	parsed, err := Parse(data)
	if err != nil {
		return err
	}
	*v = parsed
	return nil
}

func appendArray(dst []byte, items []Value, f form) []byte {
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
		dst = item.append(dst, f)
	}
	return append(dst, ']')
}

func appendObject(dst []byte, members []Member, f form) []byte {
	dst = append(dst, '{')
	for i := range members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendQuoted(dst, members[i].Name)
		dst = append(dst, ':')
		dst = members[i].Value.append(dst, f)
	}
	return append(dst, '}')
}

// appendDouble writes a double as JavaScript does, which clients expect.
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

// A number of decimalDigits significant digits survives the conversion to a double and
// back. A double survives the conversion to doubleDigits digits and back.
const (
	decimalDigits = 15
	doubleDigits  = 17
	exponentMin   = 1e17 // the least number without a fraction that has an exponent
)

func appendDoubleText(dst []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, "NaN"...)
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(f, -1):
		return append(dst, "-Infinity"...)
	}
	if math.Abs(f) >= exponentMin {
		return strconv.AppendFloat(dst, f, 'g', doubleDigits, 64)
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, 'g', decimalDigits, 64)
	if again, err := strconv.ParseFloat(string(dst[start:]), 64); err == nil && again == f {
		return dst
	}
	return strconv.AppendFloat(dst[:start], f, 'g', doubleDigits, 64)
}
