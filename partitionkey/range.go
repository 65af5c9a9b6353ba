package partitionkey

// Range is a half-open interval of the key space: it contains every EPK from Min
// up to, but not including, Max. The zero value is empty.
type Range struct {
	Min EPK `json:"min"`
	Max EPK `json:"max"`
}

// Full returns the range of the whole key space.
func Full() Range { return Range{MinEPK, MaxEPK} }

// Contains reports whether e lies in the range.
func (r Range) Contains(e EPK) bool {
	return r.Min.Compare(e) <= 0 && e.Compare(r.Max) < 0
}

// Empty reports whether the range is empty: Min is not less than Max.
func (r Range) Empty() bool { return r.Min.Compare(r.Max) >= 0 }

// Equal reports whether both ranges have the same bounds.
func (r Range) Equal(o Range) bool {
	return r.Min.Compare(o.Min) == 0 && r.Max.Compare(o.Max) == 0
}

// Overlaps reports whether the ranges have a common EPK.
func (r Range) Overlaps(o Range) bool {
	_, ok := r.Intersect(o)
	return ok
}

// Intersect returns the common part of both ranges, and whether there is one.
func (r Range) Intersect(o Range) (Range, bool) {
	if r.Min.Compare(o.Min) < 0 {
		r.Min = o.Min
	}
	if r.Max.Compare(o.Max) > 0 {
		r.Max = o.Max
	}
	if r.Empty() {
		return Range{}, false
	}
	return r, true
}

// Covers reports whether every EPK of o lies in r.
func (r Range) Covers(o Range) bool {
	return o.Empty() || r.Min.Compare(o.Min) <= 0 && o.Max.Compare(r.Max) <= 0
}

// String returns the range in the form [min,max), in hexadecimal.
func (r Range) String() string {
	return "[" + r.Min.String() + "," + r.Max.String() + ")"
}

// Prefix returns the range that contains the EPKs of the key and of every key
// that begins with it, and of no others unless hashes collide. For a full key
// that is a single point, for the empty key the whole key space; anything
// between requires KindMultiHash. The error is an *Error; its Mismatch is set if
// the key has more components than there are levels, or is a prefix under another
// kind.
func (d Definition) Prefix(k Key) (Range, error) {
	n := k.Len()
	if n == 0 {
		return Full(), nil
	}
	if n > d.Levels() {
		return Range{}, d.Check(k, false)
	}
	e := d.Hash(k)
	if n == d.Levels() {
		return Range{e, d.Successor(e)}, nil
	}
	if d.Kind != KindMultiHash {
		return Range{}, mismatchf("A partition key of kind %v has no prefix: %d components are needed, not %d.", d.Kind, len(d.Paths), n)
	}
	// The next component starts with a byte of at most 3F.
	return Range{e, e + MaxEPK}, nil
}

// Successor returns the least bound above e that excludes all other keys: the
// range from e to it contains only e. Under version 2 it is e plus one, as an
// integer of 16 bytes per path. EPKs of version 1 have no common width; there it
// is e followed by a byte 01, because no key hashes to another key's EPK
// followed by zero bytes. For MaxEPK and above, Successor returns MaxEPK.
func (d Definition) Successor(e EPK) EPK {
	if e.Compare(MaxEPK) >= 0 {
		return MaxEPK
	}
	if d.Kind == KindRange || d.version() == 1 {
		return e + "\x01"
	}
	b := make([]byte, max(len(e), d.width()))
	copy(b, e)
	for i := len(b) - 1; ; i-- {
		// The first byte is below FF, so the carry ends there at the latest.
		if b[i]++; b[i] != 0 {
			return EPK(b)
		}
	}
}

// width returns the number of bytes of a full version 2 EPK.
func (d Definition) width() int {
	if d.Kind != KindMultiHash {
		return hashWidth
	}
	return hashWidth * max(1, len(d.Paths))
}
