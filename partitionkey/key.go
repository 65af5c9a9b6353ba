package partitionkey

import (
	"slices"
	"strings"
)

// Key is an immutable list of components, one per level from the first. The
// zero value is the empty key, which has no level.
type Key struct {
	components []Component
}

// NewKey returns the key of the given components. It keeps a copy.
func NewKey(components ...Component) Key {
	return Key{slices.Clone(components)}
}

// Clone returns a key that shares no memory with k, such as the document that k was
// read from.
func (k Key) Clone() Key {
	components := slices.Clone(k.components)
	for i := range components {
		components[i].text = strings.Clone(components[i].text)
	}
	return Key{components}
}

// Len returns the number of components.
func (k Key) Len() int { return len(k.components) }

// At returns the component of level i, counted from 0. It panics when the key
// has no such level.
func (k Key) At(i int) Component { return k.components[i] }

// Components returns a copy of the components.
func (k Key) Components() []Component { return slices.Clone(k.components) }

// Equal reports whether both keys have the same components. A key is not equal
// to its prefix, even if the remaining components are undefined.
func (k Key) Equal(o Key) bool { return slices.Equal(k.components, o.components) }

// Append returns the key with further components behind its own.
func (k Key) Append(c ...Component) Key {
	return Key{slices.Concat(k.components, c)}
}

// HasPrefix reports whether the first components of the key are those of p. The
// empty key is a prefix of every key.
func (k Key) HasPrefix(p Key) bool {
	return len(p.components) <= len(k.components) &&
		slices.Equal(k.components[:len(p.components)], p.components)
}

// Compare orders keys by value, not by hash: component by component, undefined
// before null before false before true before numbers before strings, and a
// prefix before the keys below it. Strings compare by UTF-16 code unit.
func Compare(a, b Key) int {
	return slices.CompareFunc(a.components, b.components, Component.compare)
}

// Canonical returns bytes that are equal for two keys exactly when the keys
// name one logical partition under d. Under version 1 that is also the case for
// strings that share their first 100 UTF-16 code units.
func (k Key) Canonical(d Definition) []byte {
	return k.AppendCanonical(nil, d)
}

// AppendCanonical appends what [Key.Canonical] returns to dst.
func (k Key) AppendCanonical(dst []byte, d Definition) []byte {
	cut := d.version() == 1
	for _, c := range k.components {
		// Every encoding ends itself: FF occurs in no UTF-8.
		dst = c.appendHashInput(dst, cut, 0xFF)
	}
	return dst
}
