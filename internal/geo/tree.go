package geo

import (
	"math"

	"github.com/golang/geo/r3"
)

// box is an axis-parallel box in space, or in the plane z = 0.
type box struct{ low, high r3.Vector }

func (b *box) add(c box) {
	b.low = r3.Vector{X: math.Min(b.low.X, c.low.X), Y: math.Min(b.low.Y, c.low.Y), Z: math.Min(b.low.Z, c.low.Z)}
	b.high = r3.Vector{X: math.Max(b.high.X, c.high.X), Y: math.Max(b.high.Y, c.high.Y), Z: math.Max(b.high.Z, c.high.Z)}
}

func (b *box) apart(c *box) bool {
	return b.low.X > c.high.X || c.low.X > b.high.X ||
		b.low.Y > c.high.Y || c.low.Y > b.high.Y ||
		b.low.Z > c.high.Z || c.low.Z > b.high.Z
}

func (b *box) has(p r3.Vector) bool {
	return b.low.X <= p.X && p.X <= b.high.X &&
		b.low.Y <= p.Y && p.Y <= b.high.Y &&
		b.low.Z <= p.Z && p.Z <= b.high.Z
}

// above reports whether the whole box is more than limit above a plane through
// the origin, on the side to which its unit normal points.
func (b *box) above(normal r3.Vector, limit float64) bool {
	least := math.Min(normal.X*b.low.X, normal.X*b.high.X) +
		math.Min(normal.Y*b.low.Y, normal.Y*b.high.Y) +
		math.Min(normal.Z*b.low.Z, normal.Z*b.high.Z)
	return least > limit
}

// gap2 returns the square of the distance between two boxes in a space stretched
// by scale.
func (b *box) gap2(c *box, scale r3.Vector) float64 {
	x := scale.X * math.Max(0, math.Max(b.low.X-c.high.X, c.low.X-b.high.X))
	y := scale.Y * math.Max(0, math.Max(b.low.Y-c.high.Y, c.low.Y-b.high.Y))
	z := scale.Z * math.Max(0, math.Max(b.low.Z-c.high.Z, c.low.Z-b.high.Z))
	return x*x + y*y + z*z
}

// flat is the rise below which the box of an arc is not computed more exactly.
const flat = 1e-7

// box returns the box that contains the edge and everything that counts as on
// it.
func (e *edge) box() box {
	b := box{e.a, e.a}
	b.add(box{e.b, e.b})
	down, up := r3.Vector{X: e.rise, Y: e.rise, Z: e.rise}, r3.Vector{X: e.rise, Y: e.rise, Z: e.rise}
	if e.rise > flat {
		from, to := e.normal.Cross(e.a), e.normal.Cross(e.b)
		down.X, up.X = e.reach(b.low.X, b.high.X, e.normal.X, from.X, to.X)
		down.Y, up.Y = e.reach(b.low.Y, b.high.Y, e.normal.Y, from.Y, to.Y)
		down.Z, up.Z = e.reach(b.low.Z, b.high.Z, e.normal.Z, from.Z, to.Z)
	}
	pad := r3.Vector{X: e.pad, Y: e.pad, Z: e.pad}
	return box{b.low.Sub(down).Sub(pad), b.high.Add(up).Add(pad)}
}

// reach returns how far an arc that is not flat extends beyond the ends low and
// high of its extent on one axis. normal is that of its plane, from and to are
// the directions in which it leaves one end and reaches the other, all on that
// axis.
//
// A great circle has its extremes where it is perpendicular to the axis, at a
// distance of sqrt(1 - normal²) from the center. The arc contains one of them if
// it rises at one end and falls at the other. The margin is for the rounding of
// the normal, which is much less for such long arcs.
func (e *edge) reach(low, high, normal, from, to float64) (down, up float64) {
	const margin = 1e-11
	extreme := math.Sqrt(math.Max(0, 1-normal*normal) + margin)
	if from <= margin && to >= -margin {
		down = math.Min(e.rise, math.Max(0, low+extreme))
	}
	if from >= -margin && to <= margin {
		up = math.Min(e.rise, math.Max(0, extreme-high))
	}
	return down, up
}

// leafMax is the number of edges that are searched linearly.
const leafMax = 8

// span is a node of the tree over the edges of a body: edges[low:high], whose
// box is nodes[node]. The tree halves the edges in their written order, which is
// also a spatial order, because edges are chained. So it takes one pass to build
// and no sorting. Its depth is at most 9.
type span struct{ node, low, high int }

func (s span) isLeaf() bool { return s.high-s.low <= leafMax }

func (s span) halves() (left, right span) {
	mid := (s.low + s.high) / 2
	return span{2*s.node + 1, s.low, mid}, span{2*s.node + 2, mid, s.high}
}

func (b *body) root() span { return span{0, 0, len(b.edges)} }

// build builds the tree. All edges must have been added.
func (b *body) build() {
	if len(b.edges) == 0 {
		return
	}
	size := 1
	for leaves := 1; leaves*leafMax < len(b.edges); leaves *= 2 {
		size = 4*leaves - 1
	}
	if b.nodes = b.oneBox[:]; size > 1 {
		b.nodes = make([]box, size)
	}
	b.buildSpan(b.root())
}

func (b *body) buildSpan(s span) box {
	var all box
	if s.isLeaf() {
		all = b.edges[s.low].box()
		for i := s.low + 1; i < s.high; i++ {
			all.add(b.edges[i].box())
		}
	} else {
		left, right := s.halves()
		all = b.buildSpan(left)
		all.add(b.buildSpan(right))
	}
	b.nodes[s.node] = all
	return all
}

// visit calls at with the number of every edge that is in no box for which skip
// is true. It stops and returns true when at does.
func (b *body) visit(skip func(*box) bool, at func(int) bool) bool {
	return b.visitSpan(b.root(), skip, at)
}

func (b *body) visitSpan(s span, skip func(*box) bool, at func(int) bool) bool {
	if skip(&b.nodes[s.node]) {
		return false
	}
	if !s.isLeaf() {
		left, right := s.halves()
		return b.visitSpan(left, skip, at) || b.visitSpan(right, skip, at)
	}
	for i := s.low; i < s.high; i++ {
		if at(i) {
			return true
		}
	}
	return false
}

// pairs calls at with the numbers of an edge of a and one of b whose boxes
// overlap. It stops and returns true when at does. If a is b, it omits most of
// the pairs in which i is not less than j.
func pairs(a, b *body, at func(i, j int) bool) bool {
	return pairSpans(a, b, a.root(), b.root(), at)
}

func pairSpans(a, b *body, s, t span, at func(i, j int) bool) bool {
	if a.nodes[s.node].apart(&b.nodes[t.node]) || a == b && s.low >= t.high {
		return false
	}
	switch {
	case s.isLeaf() && t.isLeaf():
		for i := s.low; i < s.high; i++ {
			for j := t.low; j < t.high; j++ {
				if at(i, j) {
					return true
				}
			}
		}
		return false
	case t.isLeaf() || !s.isLeaf() && s.high-s.low >= t.high-t.low:
		left, right := s.halves()
		return pairSpans(a, b, left, t, at) || pairSpans(a, b, right, t, at)
	}
	left, right := t.halves()
	return pairSpans(a, b, s, left, at) || pairSpans(a, b, s, right, at)
}
