package resolver

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

const (
	// VirtualNodesDefault is the number of ring points of a target with weight
	// 1. With 128 points, the most loaded of 8 targets has on average 12 % more
	// than the mean; with 16 points it has 40 % more.
	VirtualNodesDefault = 128

	// RingPointsMax is the maximum number of points of one ring. A point takes
	// 14 to 30 bytes of memory.
	RingPointsMax = 1 << 22
)

// Layout says where the points of a ring are and which point owns a key.
type Layout string

// The layouts. All but the first rebuild the ring of a legacy SDK exactly, so
// that data it placed is found again; see [LegacyMurmur] and [LegacyDotNet].
const (
	// LayoutSpread gives every target independent points. A key belongs to the
	// first point at or after its digest.
	LayoutSpread Layout = "spread"

	// LayoutPredecessor makes each point the hash of the previous one. A key
	// belongs to the last point at or before its digest. Node, Java and Python
	// use it, with Murmur3 unless another hash was configured.
	LayoutPredecessor Layout = "chain-predecessor"

	// LayoutDotNet64 and LayoutDotNet32 are chains that begin with the string
	// hash code of a 64-bit or 32-bit process of the .NET Framework. A key
	// belongs to the first point at or after its digest. They are derived from
	// the published behaviour, not verified against a run. Hash codes of .NET
	// Core are random, so data it placed cannot be located.
	LayoutDotNet64 Layout = "dotnet-x64"
	LayoutDotNet32 Layout = "dotnet-x86"
)

// valid reports whether the layout exists and supports the hash.
func (l Layout) valid(hash Hash) bool {
	switch l {
	case LayoutSpread:
		return true
	case LayoutPredecessor, LayoutDotNet64, LayoutDotNet32:
		return hash == Murmur3 || hash == MD5
	}
	return false
}

// RingConfig describes a consistent hash ring.
type RingConfig struct {
	Targets []Target

	// VirtualNodes is the number of points of a target with weight 1. Default
	// VirtualNodesDefault. Every target has at least one point, whatever its
	// weight.
	VirtualNodes int

	// Hash defaults to XXHash64. Legacy layouts require Murmur3 or MD5.
	Hash Hash

	// Layout defaults to LayoutSpread.
	Layout Layout
}

// LegacyMurmur describes the ring of the legacy Node, Java and Python SDKs. The
// names of the targets must be the links given to those SDKs.
func LegacyMurmur(targets ...Target) RingConfig {
	return RingConfig{Targets: targets, Hash: Murmur3, Layout: LayoutPredecessor}
}

// LegacyDotNet describes the ring of the legacy .NET SDK in a process of the
// .NET Framework with the given number of bits, 32 or 64. The names of the
// targets must be the links given to it.
func LegacyDotNet(processBits int, targets ...Target) RingConfig {
	layout := LayoutDotNet64
	if processBits == 32 {
		layout = LayoutDotNet32
	}
	return RingConfig{Targets: targets, Hash: MD5, Layout: layout}
}

// Ring is a consistent hash ring: a Resolver for text keys that distributes them
// over its targets by weight. It is immutable.
type Ring struct {
	targets      []Target
	hash         Hash
	layout       Layout
	virtualNodes int

	high   []uint64 // the points, ascending
	low    []uint64 // the low halves of the points; nil when all are zero
	owners []uint16 // the target of each point

	// starts holds, for each value of the leading bits of a digest, the index of
	// the first point that is not below them. A search begins there and usually
	// ends after one or two steps.
	starts []uint32
	shift  int // shifting right by it leaves only those leading bits
}

// NewRing builds a ring. A look-up costs one hash and a few comparisons. The
// error is an ErrConfig.
func NewRing(c RingConfig) (*Ring, error) {
	if err := checkTargets(c.Targets); err != nil {
		return nil, err
	}
	r := &Ring{
		targets:      slices.Clone(c.Targets),
		hash:         c.Hash,
		layout:       cmp.Or(c.Layout, LayoutSpread),
		virtualNodes: cmp.Or(c.VirtualNodes, VirtualNodesDefault),
	}
	if r.hash == nil {
		r.hash = XXHash64
	}
	if !r.layout.valid(r.hash) {
		return nil, fmt.Errorf("%w: a ring cannot have the layout %q with the hash %q", ErrConfig, r.layout, r.hash.Name())
	}
	if r.virtualNodes < 0 {
		return nil, fmt.Errorf("%w: %d virtual nodes, want at least 1", ErrConfig, r.virtualNodes)
	}
	if err := r.place(); err != nil {
		return nil, err
	}
	return r, nil
}

// ringPoint is a point while the ring is being built.
type ringPoint struct {
	at    Digest
	owner int
}

// place computes the points.
func (r *Ring) place() error {
	total := 0
	counts := make([]int, len(r.targets))
	for i, t := range r.targets {
		wanted := math.Max(1, math.Round(float64(r.virtualNodes)*t.weight()))
		if wanted > RingPointsMax || total+int(wanted) > RingPointsMax {
			return fmt.Errorf("%w: a ring of more than %d points: use fewer virtual nodes or smaller weights", ErrConfig, RingPointsMax)
		}
		counts[i] = int(wanted)
		total += counts[i]
	}
	points := make([]ringPoint, 0, total)
	for i, t := range r.targets {
		points = r.appendPoints(points, t.Name, i, counts[i])
	}
	slices.SortStableFunc(points, r.orderPoints)
	r.high = make([]uint64, total)
	r.owners = make([]uint16, total)
	low, any := make([]uint64, total), false
	for i, p := range points {
		r.high[i], low[i], r.owners[i] = p.at.High, p.at.Low, uint16(p.owner) // #nosec G115 -- below TargetsMax
		any = any || p.at.Low != 0
	}
	if any {
		r.low = low
	}
	r.indexStarts()
	return nil
}

// indexStarts fills starts with about one entry per point.
func (r *Ring) indexStarts() {
	indexed := bits.Len(uint(len(r.high))) // #nosec G115 -- not negative
	r.shift = r.width() - indexed
	r.starts = make([]uint32, 1<<indexed)
	point := 0
	for i := range r.starts {
		for point < len(r.high) && r.high[point]>>r.shift < uint64(i) { // #nosec G115 -- not negative
			point++
		}
		r.starts[i] = uint32(point) // #nosec G115 -- below RingPointsMax
	}
}

// width returns how many bits of Digest.High the ring uses.
func (r *Ring) width() int {
	if r.layout != LayoutSpread && r.hash == Murmur3 {
		return 32
	}
	return 64
}

// digest returns the position of a text on the ring. LayoutSpread mixes the bits
// again, so that a weak hash is good enough; legacy rings must use the hash
// unchanged.
func (r *Ring) digest(text string) Digest {
	d := r.hash.Sum(text)
	if r.layout == LayoutSpread {
		return Digest{High: mix(d.High, d.Low)}
	}
	return d
}

// orderPoints orders points by digest. Equal points keep the order of the target
// list in legacy rings, as the legacy SDKs did. In other rings the name decides,
// so that the order of the list does not matter.
func (r *Ring) orderPoints(a, b ringPoint) int {
	if c := a.at.compare(b.at); c != 0 || r.layout != LayoutSpread {
		return c
	}
	return cmp.Compare(r.targets[a.owner].Name, r.targets[b.owner].Name)
}

// appendPoints appends the points of one target.
func (r *Ring) appendPoints(points []ringPoint, name string, owner, count int) []ringPoint {
	if r.layout == LayoutSpread {
		text := append([]byte(name), 0, 0, 0, 0, 0)
		for i := range count {
			binary.LittleEndian.PutUint32(text[len(name)+1:], uint32(i)) // #nosec G115 -- below RingPointsMax
			points = append(points, ringPoint{r.digest(string(text)), owner})
		}
		return points
	}
	at := r.hash.Sum(r.chainStart(name))
	for range count {
		points = append(points, ringPoint{at, owner})
		at = r.hash.Sum(r.digestText(at))
	}
	return points
}

// chainStart returns the text whose hash is the first point of a target.
func (r *Ring) chainStart(name string) string {
	var code int32
	switch r.layout {
	case LayoutDotNet64:
		code = frameworkHash64(name)
	case LayoutDotNet32:
		code = frameworkHash32(name)
	default:
		return name
	}
	return string(binary.LittleEndian.AppendUint32(nil, uint32(code))) // #nosec G115 -- the bits are meant
}

// digestText returns the bytes of a digest in the form that the legacy SDKs hash
// again.
func (r *Ring) digestText(d Digest) string {
	if r.hash == Murmur3 {
		return string(binary.LittleEndian.AppendUint32(nil, uint32(d.High))) // #nosec G115 -- 32 bits are all it has
	}
	return string(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, d.High), d.Low))
}

// Owner returns the target of a key. It never fails and does not allocate if the
// hash does not. The target belongs to the ring and must not be changed.
func (r *Ring) Owner(key string) *Target {
	return &r.targets[r.owners[r.locate(key)]]
}

// locate returns the index of the point that owns the key.
func (r *Ring) locate(key string) int { return r.pointOf(r.digest(key)) }

// pointOf returns the index of the point that owns the digest.
func (r *Ring) pointOf(digest Digest) int {
	i := r.firstAtOrAfter(digest)
	if r.layout == LayoutPredecessor {
		if i == len(r.high) || r.high[i] != digest.High || r.low != nil && r.low[i] != digest.Low {
			i--
		}
		if i < 0 {
			i = len(r.high) - 1
		}
		return i
	}
	if i == len(r.high) {
		i = 0
	}
	return i
}

// firstAtOrAfter returns the index of the first point that is not below the
// digest.
func (r *Ring) firstAtOrAfter(d Digest) int {
	i := int(r.starts[d.High>>r.shift])
	for i < len(r.high) && (r.high[i] < d.High || r.low != nil && r.high[i] == d.High && r.low[i] < d.Low) {
		i++
	}
	return i
}

// ForWrite returns the key's owner.
func (r *Ring) ForWrite(key string) (Target, error) { return *r.Owner(key), nil }

// ForRead returns the owners of the selected keys. Hashing does not keep the
// order of keys, so the keys of an interval may be in any target.
func (r *Ring) ForRead(selection Selection[string]) ([]Target, error) {
	return readHashed(selection, r.targets, func(key string) int { return int(r.owners[r.locate(key)]) }), nil
}

// Targets returns the targets in the order given to NewRing.
func (r *Ring) Targets() []Target { return slices.Clone(r.targets) }

// Points returns the number of ring points of each target, in the order of
// Targets.
func (r *Ring) Points() []int {
	counts := make([]int, len(r.targets))
	for _, owner := range r.owners {
		counts[owner]++
	}
	return counts
}

// Closest returns the first n different targets along the ring from the key, the
// owner first. Use it to choose places for replicas. If there are n targets or
// fewer, it returns all of them.
func (r *Ring) Closest(key string, n int) []Target {
	var found []Target
	r.walk(key, func(owner int) bool {
		if n > len(found) {
			found = append(found, r.targets[owner])
		}
		return len(found) < n
	})
	return found
}

// walk visits each target once, in ring order from the key, until visit returns
// false.
func (r *Ring) walk(key string, visit func(owner int) bool) {
	step := 1
	if r.layout == LayoutPredecessor {
		step = len(r.owners) - 1
	}
	seen := make([]bool, len(r.targets))
	left := len(r.targets)
	for i := r.locate(key); left > 0; i = (i + step) % len(r.owners) {
		owner := int(r.owners[i])
		if seen[owner] {
			continue
		}
		seen[owner] = true
		left--
		if !visit(owner) {
			return
		}
	}
}

// BoundDefault is the default bound of Place: a target takes up to 1.25 times
// its share.
const BoundDefault = 1.25

// Place returns the target for a new group of documents such that no target
// holds more than bound times its share: the first target along the ring from
// the key that has room. load returns how much a target holds, in a unit in
// which the new group counts as 1. A bound of 0 means BoundDefault. The error is
// ErrNoTarget if every target is at its bound, and ErrConfig for a bound below
// 1.
//
// The result depends on the current loads, so it cannot be looked up again:
// store it, for instance in a Lookup that is asked before the ring.
func (r *Ring) Place(key string, load func(Target) float64, bound float64) (Target, error) {
	if bound == 0 {
		bound = BoundDefault
	}
	if !(bound >= 1) || math.IsInf(bound, 0) {
		return Target{}, fmt.Errorf("%w: a bound of %v, want at least 1", ErrConfig, bound)
	}
	total, weights := 1.0, 0.0
	loads := make([]float64, len(r.targets))
	for i, t := range r.targets {
		loads[i] = load(t)
		total += loads[i]
		weights += t.weight()
	}
	chosen := -1
	r.walk(key, func(owner int) bool {
		room := math.Ceil(bound * total * r.targets[owner].weight() / weights)
		if loads[owner]+1 <= room {
			chosen = owner
		}
		return chosen < 0
	})
	if chosen < 0 {
		return Target{}, fmt.Errorf("%w: every target is at its bound", ErrNoTarget)
	}
	return r.targets[chosen], nil
}

// readHashed implements ForRead for all resolvers that do not keep the order of
// keys.
func readHashed(selection Selection[string], targets []Target, owner func(key string) int) []Target {
	wanted := make([]bool, len(targets))
	for _, key := range selection.keys {
		wanted[owner(key)] = true
	}
	everything := selection.all
	for _, i := range selection.intervals {
		compare := order[string](cmp.Compare[string])
		if i.Low.Kind == Included && i.High.Kind == Included && i.Low.Value == i.High.Value {
			wanted[owner(i.Low.Value)] = true
		} else if !compare.empty(i) {
			everything = true
		}
	}
	var found []Target
	for i, t := range targets {
		if everything || wanted[i] {
			found = append(found, t)
		}
	}
	return found
}
