// Package value defines the JSON values of this database.
//
// A [Value] is undefined, null, a boolean, a number, a string, an array or an
// object. The zero value is undefined, which JSON cannot represent; a missing
// property is undefined. Every other package uses it for documents, keys,
// parameters and results. [Parse] reads JSON, [Value.Append] writes it,
// [Compare] orders any two values, and [AppendKey] encodes a value so that byte
// order equals the order of Compare. [Path] names a position inside a document, and
// [Locator] finds the values at many paths in JSON without parsing it.
//
// # Invariants
//
//   - Compare(a, b) equals bytes.Compare of the keys of a and b (I7).
//   - A number has one representation: an integer of 64 bits if it is one,
//     otherwise a double. So 1, 1.0 and 1e0 are one value, -0 equals 0, and every
//     integer of 64 bits is kept exactly. The marks of [Double] do not make a
//     number another value.
//   - An object keeps the order of its members, has no two of one name, and
//     none that is undefined. An array may hold undefined elements.
//   - Parse(v.Append(nil)) equals v for every value that Parse returned.
//
// The package knows nothing about containers, partition keys, indexes or
// queries, and imports nothing of this module.
//
// Page: docs/query.md, "Values".
package value

import (
	"fmt"
	"math"
	"slices"
	"unsafe"
)

// Kind is the type of a value. Values of different kinds compare in the order in
// which the kinds are declared.
type Kind uint8

// The kinds in ascending order.
const (
	KindUndefined Kind = iota
	KindNull
	KindBool
	KindNumber
	KindString
	KindArray
	KindObject
)

// String returns the kind in lower case, as used in messages.
func (k Kind) String() string {
	switch k {
	case KindUndefined:
		return "undefined"
	case KindNull:
		return "null"
	case KindBool:
		return "boolean"
	case KindNumber:
		return "number"
	case KindString:
		return "string"
	case KindArray:
		return "array"
	case KindObject:
		return "object"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Value is an immutable JSON value of three words, to be passed by value. The
// zero value is undefined. Strings, arrays and objects share memory with what
// they were made from; a string from a parsed document keeps the text of the
// whole document in memory.
//
// Values cannot be compared with ==, which would compare addresses: use [Equal].
type Value struct {
	_ [0]func() // forbids ==

	// data points to the first byte, element or member, and bits is their
	// number. One pointer instead of a string and two slices makes a Value 24
	// bytes, which halves the size of a document and the cost of copying it.
	// Only the constructors write data, and only Text, Items and Members read
	// it, each after checking kind.
	data   unsafe.Pointer
	bits   uint64 // boolean, int64, float64 bits, or length
	kind   Kind
	exact  bool // for a number: bits is an int64
	double bool // for such a number: it is a result of floating-point arithmetic; see Double
	minus  bool // for the number 0: it is -0; see Double
}

// Member is one property of an object.
type Member struct {
	Name  string
	Value Value
}

// Undefined returns the zero Value.
func Undefined() Value { return Value{} }

// Null returns the JSON null, which is a defined value.
func Null() Value { return Value{kind: KindNull} }

// Bool returns the boolean b.
func Bool(b bool) Value {
	if b {
		return Value{kind: KindBool, bits: 1}
	}
	return Value{kind: KindBool}
}

// Number returns the number f. An integral f of at most 64 bits equals the [Int]
// with the same value, and -0 equals 0. NaN and the infinities are allowed,
// because evaluation can produce them, but JSON cannot represent them: see
// [Value.Finite].
func Number(f float64) Value {
	// The upper bound is exclusive: 2^63 is a double but not an int64.
	if f >= -(1<<63) && f < 1<<63 {
		if i := int64(f); float64(i) == f {
			return Int(i)
		}
	}
	if f != f {
		f = math.NaN() // one NaN for all bit patterns
	}
	return Value{kind: KindNumber, bits: math.Float64bits(f)}
}

// Int returns the integer i, exactly.
func Int(i int64) Value {
	return Value{kind: KindNumber, exact: true, bits: uint64(i)}
}

// String returns the string s, which should be valid UTF-8. Append writes U+FFFD
// for each byte that is not.
func String(s string) Value {
	return Value{kind: KindString, data: unsafe.Pointer(unsafe.StringData(s)), bits: uint64(len(s))}
}

// Array returns an array of the items and takes ownership of the slice. An
// undefined item keeps its position: it counts for length, order and keys; only
// JSON omits it.
func Array(items []Value) Value {
	return Value{kind: KindArray, data: unsafe.Pointer(unsafe.SliceData(items)), bits: uint64(len(items))}
}

// Object returns an object of the members. It takes ownership of the slice and
// may reorder it. If several members have the same name, the last value wins and
// takes the position of the first. Undefined members are dropped.
func Object(members []Member) Value {
	return object(distinct(members))
}

// Kind returns the type of the value.
func (v Value) Kind() Kind { return v.kind }

// IsDefined reports whether v is not undefined. Null is defined.
func (v Value) IsDefined() bool { return v.kind != KindUndefined }

// IsZero reports whether v is undefined, so that the omitzero option of
// encoding/json omits it.
func (v Value) IsZero() bool { return v.kind == KindUndefined }

// Bool returns the boolean, or false if v is not a boolean.
func (v Value) Bool() bool { return v.IsTrue() }

// IsTrue reports whether v is exactly the boolean true.
func (v Value) IsTrue() bool { return v.kind == KindBool && v.bits != 0 }

// Float returns the number as the nearest double, or 0 if v is not a number.
func (v Value) Float() float64 {
	if v.kind != KindNumber {
		return 0
	}
	if v.exact {
		return float64(int64(v.bits))
	}
	return math.Float64frombits(v.bits)
}

// Int64 returns the number and true if it is an integer of 64 bits.
func (v Value) Int64() (int64, bool) {
	if v.kind != KindNumber || !v.exact {
		return 0, false
	}
	return int64(v.bits), true
}

// Text returns the string, or "" if v is not a string.
func (v Value) Text() string {
	if v.kind != KindString {
		return ""
	}
	return unsafe.String((*byte)(v.data), int(v.bits))
}

// Items returns the elements of an array, or nil if v is not an array. The
// caller must not change them.
func (v Value) Items() []Value {
	if v.kind != KindArray {
		return nil
	}
	return unsafe.Slice((*Value)(v.data), int(v.bits))
}

// Members returns the properties of an object in their order, or nil if v is not
// an object. The caller must not change them.
func (v Value) Members() []Member {
	if v.kind != KindObject {
		return nil
	}
	return unsafe.Slice((*Member)(v.data), int(v.bits))
}

// Len returns the number of bytes of a string, elements of an array or members
// of an object, and 0 for every other kind.
func (v Value) Len() int {
	if v.kind < KindString {
		return 0
	}
	return int(v.bits)
}

// Get returns the property with the name, or undefined if there is none or v is
// not an object. It is a linear search.
func (v Value) Get(name string) Value {
	members := v.Members()
	for i := range members {
		if members[i].Name == name {
			return members[i].Value
		}
	}
	return Value{}
}

// Index returns element i, counted from 0, or undefined if there is none or v is
// not an array.
func (v Value) Index(i int) Value {
	if items := v.Items(); i >= 0 && i < len(items) {
		return items[i]
	}
	return Value{}
}

// Finite reports whether v contains no NaN and no infinity at any depth, so that
// JSON can represent it. Results must be checked before they are written.
func (v Value) Finite() bool {
	switch v.kind {
	case KindNumber:
		f := v.Float()
		return f-f == 0 // NaN for NaN and the infinities
	case KindArray:
		for _, item := range v.Items() {
			if !item.Finite() {
				return false
			}
		}
	case KindObject:
		for _, m := range v.Members() {
			if !m.Value.Finite() {
				return false
			}
		}
	}
	return true
}

// With returns the object with the named member replaced in its position, or
// appended. An undefined x removes the member. An undefined v counts as the
// empty object; With panics if v is of any other kind than object. v does not
// change; the result shares its members.
func (v Value) With(name string, x Value) Value {
	if v.kind != KindObject && v.kind != KindUndefined {
		panic("value: With of " + v.kind.String())
	}
	if !x.IsDefined() {
		return object(v.Without(name).Members())
	}
	old := v.Members()
	members := make([]Member, len(old), len(old)+1)
	copy(members, old)
	i := slices.IndexFunc(members, func(m Member) bool { return m.Name == name })
	if i < 0 {
		return object(append(members, Member{name, x}))
	}
	members[i].Value = x
	return object(members)
}

// Without returns the object without the named members; it ignores unknown
// names. A value that is not an object is returned unchanged. v does not change;
// if nothing is removed, the result is v.
func (v Value) Without(names ...string) Value {
	old := v.Members()
	gone := func(m Member) bool { return slices.Contains(names, m.Name) }
	first := slices.IndexFunc(old, gone)
	if first < 0 {
		return v
	}
	members := make([]Member, first, len(old)-1)
	copy(members, old)
	for _, m := range old[first+1:] {
		if !gone(m) {
			members = append(members, m)
		}
	}
	return object(members)
}

// object is Object for members that are known to be distinct and defined.
func object(members []Member) Value {
	return Value{kind: KindObject, data: unsafe.Pointer(unsafe.SliceData(members)), bits: uint64(len(members))}
}

// scanMax is the number of members up to which a linear search is faster than
// building a map.
const scanMax = 32

// distinct moves the members that an object keeps to the front of the slice and
// returns them.
func distinct(members []Member) []Member {
	if len(members) > scanMax {
		return distinctMany(members)
	}
	kept := 0
next:
	for i := range members {
		name := members[i].Name
		for j := range members[:kept] {
			if members[j].Name == name {
				members[j].Value = members[i].Value
				continue next
			}
		}
		if kept != i {
			members[kept] = members[i]
		}
		kept++
	}
	return defined(members[:kept])
}

// distinctMany is distinct in linear time, because the sender of a document
// chooses the number of members.
func distinctMany(members []Member) []Member {
	places := make(map[string]int, len(members))
	kept := members[:0]
	for _, m := range members {
		if at, seen := places[m.Name]; seen {
			kept[at].Value = m.Value
			continue
		}
		places[m.Name] = len(kept)
		kept = append(kept, m)
	}
	return defined(kept)
}

// defined drops the undefined members in place.
func defined(members []Member) []Member {
	for i := range members {
		if members[i].Value.kind == KindUndefined {
			return slices.DeleteFunc(members, func(m Member) bool { return !m.Value.IsDefined() })
		}
	}
	return members
}
