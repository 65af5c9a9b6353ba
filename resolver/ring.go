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
	// VirtualNodesDefault is how many points of a ring a target of weight 1 gets.
	// With 128 the most loaded of 8 targets has 12 % more than the mean on average
	// over rings; with 16 it is 40 %.
	VirtualNodesDefault = 128

	// RingPointsMax bounds the points of one ring, at 14 to 30 bytes each.
	RingPointsMax = 1 << 22
)

// Layout says where the points of a ring lie and which point owns a key.
type Layout string

// The layouts. All but the first rebuild the ring of a legacy SDK bit by bit, so
// that data it placed is found again; see [LegacyMurmur] and [LegacyDotNet].
const (
	// LayoutSpread gives every target independent points. A key belongs to the
	// first point at or behind its digest.
	LayoutSpread Layout = "spread"

	// LayoutPredecessor makes each point the hash of the one before. A key belongs
	// to the last point at or before its digest: Node, Java and Python, with Murmur3
	// unless they were given another hash.
	LayoutPredecessor Layout = "chain-predecessor"

	// LayoutDotNet64 and LayoutDotNet32 are chains that begin at the string hash
	// code of a 64-bit or 32-bit process of the .NET Framework. A key belongs to the
	// first point at or behind its digest. They are derived from the published
	// behaviour, not taken from runs. .NET Core has random hash codes, so what it
	// placed cannot be found by rule.
	LayoutDotNet64 Layout = "dotnet-x64"
	LayoutDotNet32 Layout = "dotnet-x86"
)

// valid reports whether the layout exists and goes with the hash.
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

	// VirtualNodes is how many points a target of weight 1 has. Default
	// VirtualNodesDefault. A target has at least one, however light.
	VirtualNodes int

	// Hash defaults to XXHash64. The chains of legacy layouts need Murmur3 or MD5.
	Hash Hash

	// Layout defaults to LayoutSpread.
	Layout Layout
}

// LegacyMurmur describes the ring of the legacy Node, Java and Python SDKs. The
// targets' names are the links given to those SDKs.
func LegacyMurmur(targets ...Target) RingConfig {
	return RingConfig{Targets: targets, Hash: Murmur3, Layout: LayoutPredecessor}
}

// LegacyDotNet describes the ring of the legacy .NET SDK in a process of the .NET
// Framework with the given number of bits, 32 or 64. The targets' names are the
// links given to it.
func LegacyDotNet(processBits int, targets ...Target) RingConfig {
	layout := LayoutDotNet64
	if processBits == 32 {
		layout = LayoutDotNet32
	}
	return RingConfig{Targets: targets, Hash: MD5, Layout: layout}
}

// Ring is a consistent hash ring: a Resolver for text keys that spreads them over
// its targets by weight. It does not change once built.
type Ring struct {
	targets      []Target
	hash         Hash
	layout       Layout
	virtualNodes int

	high   []uint64 // the points, ascending
	low    []uint64 // the low halves of the points; nil when all are zero
	owners []uint16 // the target of each point

	// starts has, for each value of the first bits of a digest, the first point that
	// is not below them: a search begins there and ends within a step or two.
	starts []uint32
	shift  int // what leaves only those first bits
}

// NewRing builds a ring. A look-up costs one hash and a few comparisons. The error is
// an ErrConfig.
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

// indexStarts fills starts, which has about one entry per point.
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

// digest returns where a text lies on the ring. Own rings mix the bits once more, so
// that a hash need not be a good one; legacy rings have to take it as it is.
func (r *Ring) digest(text string) Digest {
	d := r.hash.Sum(text)
	if r.layout == LayoutSpread {
		return Digest{High: mix(d.High, d.Low)}
	}
	return d
}

// orderPoints orders by digest. Points that meet keep the order of the list in
// legacy rings, as there; otherwise the name decides, so that the order of the
// list means nothing.
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

// chainStart returns what the first point of a target is the hash of.
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

// digestText returns the bytes of a digest, as the legacy SDKs hash them again.
func (r *Ring) digestText(d Digest) string {
	if r.hash == Murmur3 {
		return string(binary.LittleEndian.AppendUint32(nil, uint32(d.High))) // #nosec G115 -- 32 bits are all it has
	}
	return string(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, d.High), d.Low))
}

// Owner returns the target of a key. It allocates nothing and never fails. The
// target is the ring's own and must not be changed.
func (r *Ring) Owner(key string) *Target {
	return &r.targets[r.owners[r.locate(key)]]
}

// locate returns the index of the point that owns the key.
func (r *Ring) locate(key string) int { return r.pointOf(r.digest(key)) }

// pointOf returns the index of the point that owns what lies at the digest.
func (r *Ring) pointOf(digest Digest) int {
	i := r.firstAtOrBehind(digest)
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

// firstAtOrBehind returns the index of the first point that is not below the
// digest.
func (r *Ring) firstAtOrBehind(d Digest) int {
	i := int(r.starts[d.High>>r.shift])
	for i < len(r.high) && (r.high[i] < d.High || r.low != nil && r.high[i] == d.High && r.low[i] < d.Low) {
		i++
	}
	return i
}

// ForWrite returns the key's owner.
func (r *Ring) ForWrite(key string) (Target, error) { return *r.Owner(key), nil }

// ForRead returns the owners of the selected keys. Hashing keeps no order, so an
// interval may be anywhere.
func (r *Ring) ForRead(selection Selection[string]) ([]Target, error) {
	return readHashed(selection, r.targets, func(key string) int { return int(r.owners[r.locate(key)]) }), nil
}

// Targets returns the targets in the order given to NewRing.
func (r *Ring) Targets() []Target { return slices.Clone(r.targets) }

// Points returns how many points each target has on the ring, in the order of
// Targets.
func (r *Ring) Points() []int {
	counts := make([]int, len(r.targets))
	for _, owner := range r.owners {
		counts[owner]++
	}
	return counts
}

// Closest returns the first n different targets that a walk along the ring from
// the key meets, the owner first: places for replicas. It returns all targets when
// there are no more than n.
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

// walk visits each target once, in the order in which they follow the key, until
// visit returns false.
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

// BoundDefault is how much more than its share a target takes in Place.
const BoundDefault = 1.25

// Place returns the target for a new group of documents such that no target holds
// more than bound times its share: the first one along the ring from the key that
// still has room. load tells how much each target holds, in any unit of which the
// new group is one; a bound of 0 is BoundDefault.
//
// The answer depends on the loads of the moment, so it is a placement and no
// look-up: keep it, for instance in a Lookup in front of the ring.
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

// readHashed is ForRead of all resolvers that keep no order of keys.
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
