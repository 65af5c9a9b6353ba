package resolver

// RingPoints returns the points of a ring in order, for the vectors of legacy
// rings.
func (r *Ring) RingPoints() (digests []Digest, owners []int) {
	for i := range r.high {
		d := Digest{High: r.high[i]}
		if r.low != nil {
			d.Low = r.low[i]
		}
		digests = append(digests, d)
		owners = append(owners, int(r.owners[i]))
	}
	return digests, owners
}

// FrameworkHash64, FrameworkHash32, MurmurSum and XXSum export internals for the
// vectors.
var (
	FrameworkHash64 = frameworkHash64
	FrameworkHash32 = frameworkHash32
	MurmurSum       = murmurSum
	XXSum           = xxSum
)
