package partition

import "bytes"

// identity is a descriptor with what follows from it. It is immutable.
type identity struct {
	descriptor
	width     int    // length in bytes of a full EPK; zero if it varies
	low, high []byte // bounds of the row keys of the partition, without the family
	render    renderer
}

// newIdentity returns the identity of a descriptor.
func newIdentity(d descriptor) identity {
	i := identity{descriptor: d, width: epkWidth(d.Key), render: newRenderer(d.Container)}
	i.low, i.high = keyBounds(d.Range, i.width)
	return i
}

// within reports whether a row belongs to the partition, by its key without the
// family. After a split, the store of a child can have rows of the other child.
func (i *identity) within(suffix []byte) bool {
	return bytes.Compare(suffix, i.low) >= 0 && bytes.Compare(suffix, i.high) < 0
}
