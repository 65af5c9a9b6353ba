package resolver

import (
	"iter"
	"maps"
	"math"
	"slices"
)

// Spread describes how evenly a sample of keys is distributed over targets.
type Spread struct {
	Counts     map[string]int // keys per target name; every target has an entry
	Unrouted   int            // keys that no target accepts
	MaxToMean  float64        // highest count divided by the mean, counts divided by weight; 1 is even, 0 if there are no keys
	Gini       float64        // Gini coefficient of the counts divided by weight; 0 is even
	KeysRouted int
}

// SpreadOf routes a sample of keys with ForWrite and measures the distribution.
func SpreadOf[K any](r Resolver[K], keys []K) Spread { return SpreadSeq(r, slices.Values(keys)) }

// SpreadSeq is SpreadOf for a sequence of keys, which need not fit in memory.
func SpreadSeq[K any](r Resolver[K], keys iter.Seq[K]) Spread {
	s := Spread{Counts: map[string]int{}}
	targets := r.Targets()
	for _, t := range targets {
		s.Counts[t.Name] = 0
	}
	for key := range keys {
		t, err := r.ForWrite(key)
		if err != nil {
			s.Unrouted++
			continue
		}
		s.Counts[t.Name]++
		s.KeysRouted++
	}
	loads := make([]float64, len(targets))
	for i, t := range targets {
		loads[i] = float64(s.Counts[t.Name]) / t.weight()
	}
	s.MaxToMean, s.Gini = unevenness(loads)
	return s
}

// unevenness returns the highest load divided by the mean, and the Gini
// coefficient.
func unevenness(loads []float64) (maxToMean, gini float64) {
	slices.Sort(loads)
	sum, ranked := 0.0, 0.0
	for i, load := range loads {
		sum += load
		ranked += float64(i+1) * load
	}
	if sum == 0 {
		return 0, 0
	}
	n := float64(len(loads))
	return loads[len(loads)-1] * n / sum, math.Max(0, 2*ranked/(n*sum)-(n+1)/n)
}

// Movement describes which keys of a sample change their target when one
// resolver replaces another.
type Movement struct {
	Keys     int
	Moved    int
	Pairs    map[[2]string]int // number of moved keys per pair of old and new target name
	Unrouted int               // keys that at least one of the two resolvers does not accept
}

// MovementOf routes a sample of keys with both resolvers and compares the
// targets.
func MovementOf[K any](before, after Resolver[K], keys []K) Movement {
	return MovementSeq(before, after, slices.Values(keys))
}

// MovementSeq is MovementOf for a sequence of keys, which need not fit in
// memory.
func MovementSeq[K any](before, after Resolver[K], keys iter.Seq[K]) Movement {
	m := Movement{Pairs: map[[2]string]int{}}
	for key := range keys {
		m.Keys++
		from, errBefore := before.ForWrite(key)
		to, errAfter := after.ForWrite(key)
		if errBefore != nil || errAfter != nil {
			m.Unrouted++
			continue
		}
		if from.Name != to.Name {
			m.Moved++
			m.Pairs[[2]string{from.Name, to.Name}]++
		}
	}
	return m
}

// RingMovement is the exact share of a ring that changes its owner, computed
// without a sample.
type RingMovement struct {
	// Scheme is the name of the ring's scheme in the plan, "" for the first
	// scheme.
	Scheme string `json:"scheme,omitempty"`

	// Segments is the number of segments into which the points of both rings
	// divide the ring. Moved is how many of them change their owner, and Share
	// is the fraction of the ring that these cover.
	Segments int     `json:"segments"`
	Moved    int     `json:"moved"`
	Share    float64 `json:"share"`

	// Pairs lists what moves by old and new owner, in the order of the targets.
	Pairs []RingPair `json:"pairs,omitempty"`
}

// RingPair is what moves from one target of a ring to another.
type RingPair struct {
	From     string  `json:"from"`
	To       string  `json:"to"`
	Segments int     `json:"segments"`
	Share    float64 `json:"share"`
}

// Movement compares two rings. ok is false if they use different hashes or
// layouts: their segments cannot be compared then, and the caller has to route a
// sample.
func (r *Ring) Movement(next *Ring) (movement RingMovement, ok bool) {
	if r.hash.Name() != next.hash.Name() || r.layout != next.layout {
		return movement, false
	}
	bounds := slices.Concat(r.high, next.high)
	slices.Sort(bounds)
	pairs := map[[2]uint16]*RingPair{}
	for at, share := range r.segments(slices.Compact(bounds)) {
		movement.Segments++
		from, to := r.owners[r.pointOf(at)], next.owners[next.pointOf(at)]
		if r.targets[from].Name == next.targets[to].Name {
			continue
		}
		pair := pairs[[2]uint16{from, to}]
		if pair == nil {
			pair = &RingPair{From: r.targets[from].Name, To: next.targets[to].Name}
			pairs[[2]uint16{from, to}] = pair
		}
		pair.Segments++
		pair.Share += share
		movement.Moved++
		movement.Share += share
	}
	for _, owners := range slices.SortedFunc(maps.Keys(pairs), func(a, b [2]uint16) int { return slices.Compare(a[:], b[:]) }) {
		movement.Pairs = append(movement.Pairs, *pairs[owners])
	}
	return movement, true
}

// segments yields, for each segment between ascending bounds, a digest that
// belongs to the owner of the segment, and the segment's share of the ring.
func (r *Ring) segments(bounds []uint64) iter.Seq2[Digest, float64] {
	return func(yield func(Digest, float64) bool) {
		for i, end := range bounds {
			start := bounds[(i+len(bounds)-1)%len(bounds)]
			at := Digest{High: end}
			if r.layout == LayoutPredecessor {
				at = Digest{High: start, Low: math.MaxUint64}
			}
			if !yield(at, r.part(start, end)) {
				return
			}
		}
	}
}

// Shares returns the fraction of the ring that each target owns, in the order of
// Targets. It is the fraction of a very large number of keys that the target
// receives. The sum is 1.
func (r *Ring) Shares() []float64 {
	shares := make([]float64, len(r.targets))
	for at, share := range r.segments(slices.Compact(slices.Clone(r.high))) {
		shares[r.owners[r.pointOf(at)]] += share
	}
	return shares
}

// OwnerAt returns the target that owns the position part, a fraction of the way
// around the ring from 0 to below 1. It is meant for drawing the ring. The
// target belongs to the ring and must not be changed.
func (r *Ring) OwnerAt(part float64) *Target {
	if !(part > 0) {
		part = 0
	}
	part = min(part, math.Nextafter(1, 0))
	at := Digest{High: uint64(math.Ldexp(part, r.width()))}
	return &r.targets[r.owners[r.pointOf(at)]]
}

// part returns the fraction of the ring between two points, 1 if they are equal.
func (r *Ring) part(start, end uint64) float64 {
	if start == end {
		return 1
	}
	width := end - start
	if r.width() < 64 {
		width &= 1<<r.width() - 1
	}
	return math.Ldexp(float64(width), -r.width())
}

// RingMovements compares the rings that have the same name and the same key
// level in the current plans of both routings. It omits rings whose segments
// cannot be compared. A routing built in code has no plan; the result is then
// empty.
func RingMovements(before, after *Routing) ([]RingMovement, error) {
	if before.State.Current.Scheme.Kind == "" || after.State.Current.Scheme.Kind == "" {
		return nil, nil // a routing built in code
	}
	var movements []RingMovement
	names := append([]string{""}, slices.Sorted(maps.Keys(before.State.Current.Behind))...)
	for _, name := range names {
		old, next := before.State.Current.scheme(name), after.State.Current.scheme(name)
		if old.Kind != KindRing || next.Kind != KindRing || old.level() != next.level() {
			continue
		}
		from, err := before.Ring(name)
		if err != nil {
			return nil, err
		}
		to, err := after.Ring(name)
		if err != nil {
			return nil, err
		}
		if movement, ok := from.Movement(to); ok {
			movement.Scheme = name
			movements = append(movements, movement)
		}
	}
	return movements, nil
}
