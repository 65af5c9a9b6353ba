package partitionkey

import (
	"cmp"
	"math"
	"strings"
	"unicode/utf8"
)

// Type is the type of a component. Components of different types compare in the
// order in which their types are declared.
type Type uint8

// The types in ascending order.
const (
	TypeUndefined Type = iota // the property is missing in the document
	TypeNull
	TypeFalse
	TypeTrue
	TypeNumber
	TypeString
	TypeBytes // the routing key of a table
)

// Component is the value of one level of a key. The zero value is undefined.
// Components can be compared with ==.
type Component struct {
	typ  Type
	bits uint64 // the float64; zero unless typ is TypeNumber
	text string // valid UTF-8 of TypeString, any bytes of TypeBytes; empty for other types
}

// notANumber is the only NaN in components, so that == works.
const notANumber = 0xFFF8000000000000

// Undefined returns the component of a document that lacks the property.
func Undefined() Component { return Component{} }

// Null returns the component of a property that is null. It differs from
// Undefined.
func Null() Component { return Component{typ: TypeNull} }

// Bool returns the component of a boolean property.
func Bool(b bool) Component {
	if b {
		return Component{typ: TypeTrue}
	}
	return Component{typ: TypeFalse}
}

// Number returns the component of a numeric property. -0 becomes 0, so that a
// logical partition never has two hashes. [Definition.Check] rejects keys with a
// number that is not finite, because no document can hold it.
func Number(f float64) Component {
	if f == 0 {
		return Component{typ: TypeNumber}
	}
	if math.IsNaN(f) {
		return Component{typ: TypeNumber, bits: notANumber}
	}
	return Component{typ: TypeNumber, bits: math.Float64bits(f)}
}

// String returns the component of a string property. The text is not normalized
// or trimmed, but each byte that is not valid UTF-8 becomes U+FFFD, as in any
// JSON decoder.
func String(s string) Component {
	if !utf8.ValidString(s) {
		s = string([]rune(s))
	}
	return Component{typ: TypeString, text: s}
}

// Bytes returns the component of the key of a table: the routing key, as drivers
// compute it. That is the value of the one column of the partition key, or for
// each of several columns its length in two bytes, its value and a zero byte.
func Bytes(routingKey string) Component { return Component{typ: TypeBytes, text: routingKey} }

// Type returns the type of the component.
func (c Component) Type() Type { return c.typ }

// Float returns the number of a TypeNumber component, and 0 for other types.
func (c Component) Float() float64 { return math.Float64frombits(c.bits) }

// Text returns the string of a TypeString component, the bytes of a TypeBytes
// component, and "" for other types.
func (c Component) Text() string { return c.text }

// finite reports whether JSON can represent the component.
func (c Component) finite() bool {
	f := c.Float()
	return !math.IsNaN(f) && !math.IsInf(f, 0)
}

// compare orders components by type, then numbers by value and strings by UTF-16
// code unit.
func (c Component) compare(o Component) int {
	if c.typ != o.typ {
		return cmp.Compare(c.typ, o.typ)
	}
	switch c.typ {
	case TypeNumber:
		return cmp.Compare(c.Float(), o.Float())
	case TypeBytes:
		return strings.Compare(c.text, o.text)
	}
	return compareUTF16(c.text, o.text)
}

// compareUTF16 compares two strings of valid UTF-8 in the order of their UTF-16
// code units. That is the order of the bytes, except that U+E000 to U+FFFF (lead
// bytes EE and EF) sort after the characters that need two units (lead bytes
// from F0).
func compareUTF16(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		x, y := a[i], b[i]
		if x == y {
			continue
		}
		if x >= 0xEE && y >= 0xEE && (x >= 0xF0) != (y >= 0xF0) {
			return cmp.Compare(y, x)
		}
		return cmp.Compare(x, y)
	}
	return strings.Compare(a[n:], b[n:])
}
