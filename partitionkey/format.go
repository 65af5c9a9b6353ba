package partitionkey

import (
	"encoding/hex"
	"math"
	"strconv"
	"unicode/utf16"
)

// String returns the key in the form that [Parse] reads: a JSON array in ASCII
// without blanks. Parse returns an equal key unless a number is not finite or
// the key is that of a table, which is written as one string of hexadecimal digits.
func (k Key) String() string {
	b, _ := k.AppendText(nil)
	return string(b)
}

// AppendText appends the result of [Key.String] to dst. It never fails.
func (k Key) AppendText(dst []byte) ([]byte, error) {
	dst = append(dst, '[')
	for i := range k.components {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = k.components[i].appendJSON(dst)
	}
	return append(dst, ']'), nil
}

// MarshalJSON writes the key as the JSON array that [Key.String] returns. A
// number that is not finite is an *Error.
func (k Key) MarshalJSON() ([]byte, error) {
	for i, c := range k.components {
		if !c.finite() {
			return nil, errorf("Component %d of the partition key is not a finite number.", i+1)
		}
	}
	return k.AppendText(nil)
}

// UnmarshalJSON reads the form of [Parse]. As usual in JSON, null changes
// nothing.
func (k *Key) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil
	}
	parsed, err := Parse(string(text))
	if err != nil {
		return err
	}
	*k = parsed
	return nil
}

func (c *Component) appendJSON(dst []byte) []byte {
	switch c.typ {
	case TypeNull:
		return append(dst, "null"...)
	case TypeFalse:
		return append(dst, "false"...)
	case TypeTrue:
		return append(dst, "true"...)
	case TypeNumber:
		return appendNumber(dst, c.Float())
	case TypeString:
		return appendQuoted(dst, c.text)
	case TypeBytes:
		return append(hex.AppendEncode(append(dst, `"0x`...), []byte(c.text)), '"')
	}
	return append(dst, "{}"...)
}

// appendNumber writes the shortest decimal form that parses to the same number,
// with an exponent only where JavaScript writes one.
func appendNumber(dst []byte, f float64) []byte {
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
		// Go writes at least two digits of an exponent.
		if n := len(dst); dst[n-3] == '-' && dst[n-2] == '0' {
			dst = append(dst[:n-2], dst[n-1])
		}
		return dst
	}
	return strconv.AppendFloat(dst, f, 'f', -1, 64)
}

// appendQuoted writes a JSON string in ASCII, because the key is sent in a
// header.
func appendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r >= ' ' && r < 0x7F:
			dst = append(dst, byte(r))
		case r > 0xFFFF:
			first, second := utf16.EncodeRune(r)
			dst = appendUnit(appendUnit(dst, first), second)
		default:
			dst = appendUnit(dst, r)
		}
	}
	return append(dst, '"')
}

func appendUnit(dst []byte, unit rune) []byte {
	const digits = "0123456789abcdef"
	return append(dst, '\\', 'u', digits[unit>>12&0xF], digits[unit>>8&0xF], digits[unit>>4&0xF], digits[unit&0xF])
}
