// Package value holds JSON values as this database sees them.
//
// A [Value] is undefined, null, a boolean, a number, a string, an array or an
// object. Its zero value is undefined, which no JSON text can say: it is what a
// missing property is. Every other package reads documents, keys, parameters
// and results through it. [Parse] reads JSON, [Value.Append] writes it,
// [Compare] orders any two values, and [AppendKey] encodes a value so that byte
// order is Compare order. [Path] names a place inside a document.
//
// # Invariants
//
//   - Compare(a, b) equals bytes.Compare of the keys of a and b (I7).
//   - A number has one representation: an integer of 64 bits when it is one,
//     otherwise a double. So 1, 1.0 and 1e0 are one value, -0 is 0, and every
//     integer of 64 bits is kept exactly.
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

// Kind is the type of a value. Kinds are declared in the order in which values
// of different kinds compare.
type Kind uint8

// The kinds, smallest first.
const (
	KindUndefined Kind = iota
	KindNull
	KindBool
	KindNumber
	KindString
	KindArray
	KindObject
)

// String returns the kind in lower case, as messages name it.
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

// Value is an immutable JSON value of three words, meant to be passed by value.
// The zero value is undefined. Strings, arrays and objects share memory with
// what they were made from; a string taken out of a parsed document keeps the
// text of the whole document alive.
//
// Values do not compare with ==, which would compare addresses: use [Equal].
type Value struct {
	_ [0]func() // Forbids ==.

	// data points at the first byte, element or member, and bits counts them.
	// One pointer instead of a string and two slices makes a Value 24 bytes,
	// and so a document half the size and its copies half the work. Only the
	// constructors write it and only Text, Items and Members read it, each
	// behind a look at kind.
	data  unsafe.Pointer
	bits  uint64 // Boolean, int64, float64 bits, or length.
	kind  Kind
	exact bool // A number whose bits are an int64.
}

// Member is one property of an object.
type Member struct {
	Name  string
	Value Value
}

// Undefined is the zero Value, spelled out for readers.
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

// Number returns the number f. An integral f within 64 bits is the same value
// as the [Int] of it, and -0 is 0. NaN and the infinities are legal here, since
// evaluation meets them, but no JSON can say them: see [Value.Finite].
func Number(f float64) Value {
	// The upper bound is exclusive: 2^63 is a double but no int64.
	if f >= -(1<<63) && f < 1<<63 {
		if i := int64(f); float64(i) == f {
			return Int(i)
		}
	}
	if f != f {
		f = math.NaN() // One NaN among the many bit patterns.
	}
	return Value{kind: KindNumber, bits: math.Float64bits(f)}
}

// Int returns the integer i, exactly.
func Int(i int64) Value {
	return Value{kind: KindNumber, exact: true, bits: uint64(i)}
}

// String returns the string s, which should be valid UTF-8: Append writes
// U+FFFD for a byte that is not.
func String(s string) Value {
	return Value{kind: KindString, data: unsafe.Pointer(unsafe.StringData(s)), bits: uint64(len(s))}
}

// Array returns an array of the items, which it owns from then on. An undefined
// item keeps its place: it counts for length, order and keys, and only JSON
// leaves it out.
func Array(items []Value) Value {
	return Value{kind: KindArray, data: unsafe.Pointer(unsafe.SliceData(items)), bits: uint64(len(items))}
}

// Object returns an object of the members, which it owns from then on and may
// reorder in place: of several with one name, the last value wins and takes the
// first place; an undefined member is dropped, for that is what a missing
// property is.
func Object(members []Member) Value {
	return object(distinct(members))
}

// Kind returns the type of the value.
func (v Value) Kind() Kind { return v.kind }

// IsDefined reports whether v is anything but undefined. Null is defined.
func (v Value) IsDefined() bool { return v.kind != KindUndefined }

// IsZero reports whether v is undefined, so that the omitzero option of
// encoding/json leaves it out.
func (v Value) IsZero() bool { return v.kind == KindUndefined }

// Bool returns the boolean, or false when v is none.
func (v Value) Bool() bool { return v.IsTrue() }

// IsTrue reports whether v is exactly the boolean true.
func (v Value) IsTrue() bool { return v.kind == KindBool && v.bits != 0 }

// Float returns the number as the nearest double, or 0 when v is no number.
func (v Value) Float() float64 {
	if v.kind != KindNumber {
		return 0
	}
	if v.exact {
		return float64(int64(v.bits))
	}
	return math.Float64frombits(v.bits)
}

// Int64 returns the number and true when it is an integer within 64 bits.
func (v Value) Int64() (int64, bool) {
	if v.kind != KindNumber || !v.exact {
		return 0, false
	}
	return int64(v.bits), true
}

// Text returns the string, or "" when v is none.
func (v Value) Text() string {
	if v.kind != KindString {
		return ""
	}
	return unsafe.String((*byte)(v.data), int(v.bits))
}

// Items returns the elements of an array, or nil when v is none. The caller
// must not change them.
func (v Value) Items() []Value {
	if v.kind != KindArray {
		return nil
	}
	return unsafe.Slice((*Value)(v.data), int(v.bits))
}

// Members returns the properties of an object in their order, or nil when v is
// none. The caller must not change them.
func (v Value) Members() []Member {
	if v.kind != KindObject {
		return nil
	}
	return unsafe.Slice((*Member)(v.data), int(v.bits))
}

// Len returns the number of bytes of a string, of elements of an array or of
// members of an object, and 0 for every other kind.
func (v Value) Len() int {
	if v.kind < KindString {
		return 0
	}
	return int(v.bits)
}

// Get returns the property of that name, or undefined when there is none or v
// is no object. It looks at the members one by one.
func (v Value) Get(name string) Value {
	members := v.Members()
	for i := range members {
		if members[i].Name == name {
			return members[i].Value
		}
	}
	return Value{}
}

// Index returns element i counted from 0, or undefined when there is none or v
// is no array.
func (v Value) Index(i int) Value {
	if items := v.Items(); i >= 0 && i < len(items) {
		return items[i]
	}
	return Value{}
}

// Finite reports whether v holds no NaN and no infinity, at any depth: whether
// it can be said in JSON. A result is checked before it is written.
func (v Value) Finite() bool {
	switch v.kind {
	case KindNumber:
		f := v.Float()
		return f-f == 0 // NaN for NaN and the infinities.
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

// With returns the object with the named member replaced in its place, or
// appended. An undefined x removes the member. Undefined counts as the empty
// object; every other v that is no object is a mistake of the caller and
// panics. The original is unchanged; members are shared.
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

// Without returns the object less the named members; names it has not are
// ignored. A value that is no object has no members and comes back as it is.
// The original is unchanged; when nothing is removed the result shares it.
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

// object is Object for members known to be distinct and defined.
func object(members []Member) Value {
	return Value{kind: KindObject, data: unsafe.Pointer(unsafe.SliceData(members)), bits: uint64(len(members))}
}

// scanMax is the number of members up to which looking through all of them is
// faster than building a map.
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

// distinctMany is distinct in linear time, since the number of members is the
// choice of whoever sent the document.
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
