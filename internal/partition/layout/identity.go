package layout

import "bytes"

// Identity is a descriptor with what follows from it. It is immutable.
type Identity struct {
	Descriptor
	Width     int    // length in bytes of a full EPK; zero if it varies
	Low, High []byte // bounds of the row keys of the partition, without the family
	Render    Renderer
}

// NewIdentity returns the identity of a descriptor.
func NewIdentity(d Descriptor) Identity {
	i := Identity{Descriptor: d, Width: EPKWidth(d.Key), Render: NewRenderer(d.Container)}
	i.Low, i.High = KeyBounds(d.Range, i.Width)
	return i
}

// Within reports whether a row belongs to the partition, by its key without the
// family. After a split, the store of a child can have rows of the other child.
func (i *Identity) Within(suffix []byte) bool {
	return bytes.Compare(suffix, i.Low) >= 0 && bytes.Compare(suffix, i.High) < 0
}
