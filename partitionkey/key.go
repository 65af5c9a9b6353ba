package partitionkey

import (
	"slices"
	"strings"
)

// Key is an immutable list of components, one per level, first level first. The
// zero value is the empty key, which has no level.
type Key struct {
	components []Component
}

// NewKey returns the key of the given components. It copies the slice.
func NewKey(components ...Component) Key {
	return Key{slices.Clone(components)}
}

// Clone returns a key that shares no memory with k, for instance with the
// document that k was read from.
func (k Key) Clone() Key {
	components := slices.Clone(k.components)
	for i := range components {
		components[i].text = strings.Clone(components[i].text)
	}
	return Key{components}
}

// Len returns the number of components.
func (k Key) Len() int { return len(k.components) }

// At returns the component of level i, counted from 0. It panics if the key has
// no such level.
func (k Key) At(i int) Component { return k.components[i] }

// Components returns a copy of the components.
func (k Key) Components() []Component { return slices.Clone(k.components) }

// Equal reports whether both keys have the same components. A key is not equal
// to its prefix, even if the remaining components are undefined.
func (k Key) Equal(o Key) bool { return slices.Equal(k.components, o.components) }

// Append returns a key with further components after those of k.
func (k Key) Append(c ...Component) Key {
	return Key{slices.Concat(k.components, c)}
}

// HasPrefix reports whether the key begins with the components of p. The empty
// key is a prefix of every key.
func (k Key) HasPrefix(p Key) bool {
	return len(p.components) <= len(k.components) &&
		slices.Equal(k.components[:len(p.components)], p.components)
}

// Compare orders keys by value, not by hash: component by component, undefined
// before null before false before true before numbers before strings. A prefix
// sorts before the keys that begin with it. Strings compare by UTF-16 code unit.
func Compare(a, b Key) int {
	return slices.CompareFunc(a.components, b.components, Component.compare)
}

// Canonical returns bytes that are equal for two keys if and only if the keys
// name the same logical partition under d. Under version 1 that includes strings
// that share their first 100 UTF-16 code units.
func (k Key) Canonical(d Definition) []byte {
	return k.AppendCanonical(nil, d)
}

// AppendCanonical appends the result of [Key.Canonical] to dst.
func (k Key) AppendCanonical(dst []byte, d Definition) []byte {
	if d.Kind == KindToken && len(k.components) == 1 {
		return append(dst, k.components[0].text...)
	}
	cut := d.version() == 1
	for _, c := range k.components {
		// Every encoding has a definite end: the byte FF does not occur in
		// UTF-8.
		dst = c.appendHashInput(dst, cut, 0xFF)
	}
	return dst
}
