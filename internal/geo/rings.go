package geo

import (
	"math"
	"slices"

	"github.com/golang/geo/r3"
	"github.com/golang/geo/s2"
)

// checkRings returns why the rings of an area are invalid, or "". It needs the
// tree and completes the parts.
//
// A ring must not touch itself. Two rings may touch in single positions, but not
// cross or run along each other. Holes must be inside their polygon and outside
// each other, and polygons must be outside each other.
func (p *parser) checkRings() string {
	if p.typ.dim() < 2 || len(p.parts) == 0 {
		return ""
	}
	if p.system == Geography {
		for i := range p.parts {
			p.parts[i].origin = p.ringHasOrigin(i)
		}
	}
	p.scaleNear(clearance)
	defer p.scaleNear(1.0 / clearance)
	touched := make([]bool, len(p.parts))
	reason := ""
	pairs(p.body, p.body, func(i, j int) bool {
		if i >= j {
			return false
		}
		e, f := &p.edges[i], &p.edges[j]
		how := e.meet(f)
		if how == apart {
			return false
		}
		r, s := p.partOf(i), p.partOf(j)
		if r == s {
			if how != touches || !p.adjacent(r, i, j) {
				reason = p.invalidRing(r, "the ring number %d touches or crosses itself.")
			}
			return reason != ""
		}
		touched[r], touched[s] = true, true
		if how != touches || crossesUnscaled(*e, *f) {
			reason = p.overlap(r, s)
		}
		return reason != ""
	})
	if reason != "" {
		return reason
	}
	for r := range p.parts {
		if !p.inPlace(r, touched[r]) {
			return p.overlap(r, r)
		}
	}
	return ""
}

// crossesUnscaled reports whether edges that touch while positions are scaled by
// clearance cross without scaling: a vertex is on the wrong side of the other
// ring, by more than the tolerance.
func crossesUnscaled(e, f edge) bool {
	e.near /= clearance
	f.near /= clearance
	return e.meet(&f) == crosses
}

func (p *parser) scaleNear(by float64) {
	for i := range p.edges {
		p.edges[i].near *= by
	}
}

// adjacent reports whether edges i < j of ring r follow each other.
func (p *parser) adjacent(r, i, j int) bool {
	ring := p.parts[r]
	return j == i+1 || i == ring.from && j == ring.to-1
}

// overlap returns the reason for two rings that are in the wrong place relative
// to each other.
func (p *parser) overlap(r, s int) string {
	switch {
	case p.parts[r].polygon != p.parts[s].polygon, r == s && !p.parts[r].hole && p.typ == MultiPolygon:
		return reasonOverlap
	case r == s && !p.parts[r].hole:
		return p.invalidRing(r, "a hole crosses the ring number %d.")
	}
	return p.invalidRing(max(r, s), "the ring number %d is not inside the first ring and outside of the others.")
}

// invalidRing returns a reason about ring r of all rings.
func (p *parser) invalidRing(r int, format string) string {
	p.polygon = p.parts[r].polygon
	first := r
	for first > 0 && p.parts[first-1].polygon == p.polygon {
		first--
	}
	return p.invalid(format, r-first)
}

// inPlace reports whether ring r is in no other polygon, and, if it is a hole,
// in the first ring of its own polygon and in no other hole. So a hole is in an
// odd number of the other rings, and any other ring in an even number; if
// polygons or holes are nested, the count is wrong for one of them.
//
// Without a contact one position decides for the whole ring. If the ring is
// touched, each vertex and the middle of each edge is tested, because the other
// ring may cross it in a vertex.
func (p *parser) inPlace(r int, touched bool) bool {
	ring := p.parts[r]
	if len(p.parts) == 1 {
		return true
	}
	own := func(other int) bool { return other == r }
	if !touched {
		return p.contains(p.edges[ring.from].a, own) == ring.hole
	}
	for i := ring.from; i < ring.to; i++ {
		e := &p.edges[i]
		for _, at := range [...]r3.Vector{e.a, middle(e.a, e.b, p.system)} {
			if !p.onOther(at, r) && p.contains(at, own) != ring.hole {
				return false
			}
		}
	}
	return true
}

// onOther reports whether the position is on the boundary of a ring other than r.
func (p *parser) onOther(at r3.Vector, r int) bool {
	return p.visit(func(n *box) bool { return !n.has(at) }, func(i int) bool {
		return (i < p.parts[r].from || i >= p.parts[r].to) && p.edges[i].has(at)
	})
}

// ringHasOrigin reports whether the origin of the sphere, see contains, is to
// the left of ring r; a hole counts as an area. The predicates of package s2
// decide whether a vertex belongs to the ring; the boundaries between it and the
// origin are counted.
func (p *parser) ringHasOrigin(r int) bool {
	ring := p.parts[r]
	edges := p.edges[ring.from:ring.to]
	from := s2.Point{Vector: edges[1].a}
	crosser := s2.NewEdgeCrosser(from, s2.OriginPoint())
	in := s2.AngleContainsVertex(s2.Point{Vector: edges[0].a}, from, s2.Point{Vector: edges[1].b})
	for i := range edges {
		if crosser.EdgeOrVertexCrossing(s2.Point{Vector: edges[i].a}, s2.Point{Vector: edges[i].b}) {
			in = !in
		}
	}
	return in != ring.hole
}

// ringArea returns the area to the left of a closed ring: on the unit sphere in
// steradians from 0 to 4π; in the plane, negative if the ring runs clockwise.
func ringArea(at []r3.Vector, s System) float64 {
	sum := 0.0
	if s == Geometry {
		for i := 2; i < len(at); i++ {
			sum += at[i-1].Sub(at[0]).Cross(at[i].Sub(at[0])).Z / 2
		}
		return sum
	}
	center := fanCenter(at)
	for i := 1; i < len(at); i++ {
		sum += triangleArea(center, at[i-1], at[i])
	}
	if sum = math.Mod(sum, 4*math.Pi); sum < 0 {
		sum += 4 * math.Pi
	}
	return sum
}

// triangleArea returns the area of a spherical triangle, negative if its
// vertices run clockwise. It uses the formula of Van Oosterom and Strackee,
// which is exact for small triangles too because the product is one of
// differences.
func triangleArea(a, b, c r3.Vector) float64 {
	volume := b.Sub(a).Cross(c.Sub(a)).Dot(a)
	return 2 * math.Atan2(volume, 1+a.Dot(b)+b.Dot(c)+c.Dot(a))
}

// fanCenter returns the position from which the triangles to the edges of a ring
// are drawn. No edge may be opposite to it, because a triangle turns inside out
// there. For a ring that does not reach around the earth it is the first vertex;
// small triangles next to it are exact.
func fanCenter(at []r3.Vector) r3.Vector {
	if !slices.ContainsFunc(at, func(p r3.Vector) bool { return p.Dot(at[0]) <= 0 }) {
		return at[0] // the whole ring is on one side of the earth
	}
	const clear = 0.1 // radians; anything larger than rounding
	best, most := at[0], -1.0
	try := func(center r3.Vector) bool {
		least := math.Inf(1)
		for i := 1; i < len(at); i++ {
			e := newEdge(at[i-1], at[i], Geography)
			_, d2 := e.closest(center.Mul(-1), r3.Vector{X: 1, Y: 1, Z: 1})
			least = math.Min(least, d2)
		}
		if least > most {
			best, most = center, least
		}
		return least > clear*clear
	}
	if try(at[0]) {
		return best
	}
	for x := -1.0; x <= 1; x++ {
		for y := -1.0; y <= 1; y++ {
			for z := -1.0; z <= 1; z++ {
				if center := (r3.Vector{X: x, Y: y, Z: z}); center != (r3.Vector{}) && try(center.Normalize()) {
					return best
				}
			}
		}
	}
	return best
}
