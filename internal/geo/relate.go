package geo

import (
	"cmp"
	"slices"

	"github.com/golang/geo/r3"
	"github.com/golang/geo/s2"
)

// Intersects reports whether the shapes have a common position. Boundaries
// belong to shapes. It is false if one is empty or they are of different
// systems.
func Intersects(a, b Shape) bool {
	if !related(a, b) {
		return false
	}
	if pairs(a.body, b.body, func(i, j int) bool { return a.edges[i].meet(&b.edges[j]) != apart }) {
		return true
	}
	// No boundaries meet, so each part is entirely inside or entirely outside
	// the other shape.
	return a.holdsPart(b.body) || b.holdsPart(a.body)
}

// holdsPart reports whether the first position of a part of c is in the area.
func (b *body) holdsPart(c *body) bool {
	if b.typ.dim() < 2 {
		return false
	}
	return slices.ContainsFunc(c.parts, func(p part) bool { return b.contains(c.edges[p.from].a, nil) })
}

// Within reports whether a is within b: no position of a is outside b, and their
// interiors have a common position. So a position on the boundary of a polygon
// is not within it, and neither is a line along its boundary. Every shape is
// within itself. The ends of an open line are its boundary. It is false if one
// is empty or they are of different systems.
func Within(a, b Shape) bool {
	if !related(a, b) || a.typ.dim() > b.typ.dim() {
		return false
	}
	if a.typ.dim() == 0 {
		return a.pointsWithin(b.body)
	}
	inside := false
	cut := cutter{body: b.body}
	for i := range a.edges {
		ok := cut.pieces(&a.edges[i], func(p place) bool {
			if b.typ.dim() == 1 {
				inside = inside || p == forward || p == backward
				return p != outer && p != inner
			}
			// An area on the other side of a boundary fills a hole.
			inside = inside || p == inner || a.typ.dim() == 2
			return p != outer && (p != backward || a.typ.dim() == 1)
		})
		if !ok {
			return false
		}
	}
	if !inside || a.typ.dim() < 2 {
		return inside
	}
	// A boundary of b inside a has the outside of b on one of its sides.
	cut = cutter{body: a.body}
	for i := range b.edges {
		if !cut.pieces(&b.edges[i], func(p place) bool { return p != inner }) {
			return false
		}
	}
	return true
}

// pointsWithin is Within for points.
func (b *body) pointsWithin(c *body) bool {
	inside := false
	for i := range b.edges {
		switch c.locate(b.edges[i].a) {
		case outer:
			return false
		case inner:
			inside = true
		}
	}
	return inside
}

// place says where a position or a piece of an edge is relative to a shape.
type place uint8

const (
	outer    place = iota
	inner          // inside, not on the boundary
	boundary       // on the boundary, for a position
	forward        // along an edge, in its direction
	backward       // along an edge, against its direction
)

// locate returns the place of a position.
func (b *body) locate(p r3.Vector) place {
	on := b.edgesWith(p)
	switch b.typ.dim() {
	case 2:
		if len(on) > 0 {
			return boundary
		}
		if b.contains(p, nil) {
			return inner
		}
		return outer
	case 1:
		return b.locateOnLines(p, on)
	}
	if len(on) > 0 {
		return inner
	}
	return outer
}

// locateOnLines returns the place of a position on the numbered edges of lines.
// The boundary of lines consists of the positions that are an end an odd number
// of times.
func (b *body) locateOnLines(p r3.Vector, on []int) place {
	if len(on) == 0 {
		return outer
	}
	ends := 0
	for i := range b.parts {
		first, last := &b.edges[b.parts[i].from], &b.edges[b.parts[i].to-1]
		if first.same(first.a, p) {
			ends++
		}
		if last.same(last.b, p) {
			ends++
		}
	}
	if ends%2 == 1 {
		return boundary
	}
	return inner
}

// edgesWith returns the numbers of the edges that contain the position.
func (b *body) edgesWith(p r3.Vector) []int {
	var on []int
	b.visit(func(n *box) bool { return !n.has(p) }, func(i int) bool {
		if b.edges[i].has(p) {
			on = append(on, i)
		}
		return false
	})
	return on
}

// cutter cuts edges into pieces at the vertices of a shape. Thousands of edges
// of other lines may coincide, with thousands of pieces each; the pieces are
// then the same, so their places are cached.
type cutter struct {
	*body
	known map[[2]r3.Vector]place
}

// cutsMin is the number of cuts from which the pieces of an edge are cached.
const cutsMin = 16

// pieces cuts the edge wherever a vertex of the shape is on it and calls at with
// the place of each piece: outer, inner, forward or backward. It stops and
// returns false when at returns false.
//
// For an edge that crosses a boundary, which is partly outer, at is called with
// outer.
func (c *cutter) pieces(e *edge, at func(place) bool) bool {
	var cuts []r3.Vector
	var near []int
	crossed := false
	bounds := e.box()
	c.visit(bounds.apart, func(i int) bool {
		f := &c.edges[i]
		switch e.meet(f) {
		case apart:
			return false
		case crosses:
			crossed = crossed || c.typ.dim() == 2
		}
		near = append(near, i)
		for _, p := range [...]r3.Vector{f.a, f.b} {
			if e.has(p) && !e.same(p, e.a) && !e.same(p, e.b) {
				cuts = append(cuts, p)
			}
		}
		return false
	})
	if crossed && !at(outer) {
		return false
	}
	along := e.b.Sub(e.a)
	slices.SortFunc(cuts, func(p, q r3.Vector) int { return cmp.Compare(p.Sub(q).Dot(along), 0) })
	from := e.a
	for _, to := range append(cuts, e.b) {
		if e.same(from, to) {
			continue
		}
		is, known := c.known[[2]r3.Vector{from, to}]
		if !known {
			is = c.piece(from, to, near)
			if len(cuts) >= cutsMin {
				c.keep(from, to, is)
			}
		}
		if !at(is) {
			return false
		}
		from = to
	}
	return true
}

func (c *cutter) keep(from, to r3.Vector, is place) {
	if c.known == nil {
		c.known = map[[2]r3.Vector]place{}
	}
	c.known[[2]r3.Vector{from, to}] = is
}

// piece returns the place of the piece of an edge between two positions, neither
// of which is on the other side of a boundary. The piece can run only along the
// numbered edges.
func (b *body) piece(from, to r3.Vector, near []int) place {
	for _, i := range near {
		if f := &b.edges[i]; f.has(from) && f.has(to) {
			if to.Sub(from).Dot(f.b.Sub(f.a)) > 0 {
				return forward
			}
			return backward
		}
	}
	if b.typ.dim() == 2 && b.contains(middle(from, to, b.system), nil) {
		return inner
	}
	return outer
}

// contains reports whether a position that is on no boundary is in the area. It
// ignores the rings for which skip, if not nil, returns true; holes then still
// count as areas: a position in a hole is in two rings.
//
// It counts the boundaries between the position and a reference position. On the
// sphere that is a fixed origin, and the predicates of package s2 count a ring
// that is met in a vertex exactly once or twice as required. In a plane it is
// infinitely far to the right.
func (b *body) contains(p r3.Vector, skip func(ring int) bool) bool {
	if b.system == Geometry {
		return b.containsPlanar(p, skip)
	}
	in := false
	for i := range b.parts {
		if b.parts[i].origin && (skip == nil || !skip(i)) {
			in = !in
		}
	}
	var (
		origin  = s2.OriginPoint()
		crosser = s2.NewEdgeCrosser(s2.Point{Vector: p}, origin)
		plane   = p.Cross(origin.Vector).Normalize()
		below   = plane.Mul(-1)
	)
	b.visit(func(n *box) bool { return n.above(plane, tolerance) || n.above(below, tolerance) }, func(i int) bool {
		e := &b.edges[i]
		if crosser.EdgeOrVertexCrossing(s2.Point{Vector: e.a}, s2.Point{Vector: e.b}) && (skip == nil || !skip(b.partOf(i))) {
			in = !in
		}
		return false
	})
	return in
}

func (b *body) containsPlanar(p r3.Vector, skip func(ring int) bool) bool {
	in := false
	b.visit(func(n *box) bool { return p.Y < n.low.Y || p.Y > n.high.Y || p.X > n.high.X }, func(i int) bool {
		e := &b.edges[i]
		if (e.a.Y > p.Y) == (e.b.Y > p.Y) {
			return false
		}
		left := (e.b.X-e.a.X)*(p.Y-e.a.Y) > (e.b.Y-e.a.Y)*(p.X-e.a.X)
		if left != (e.b.Y < e.a.Y) && (skip == nil || !skip(b.partOf(i))) {
			in = !in
		}
		return false
	})
	return in
}

// partOf returns the number of the part that has the edge.
func (b *body) partOf(edge int) int {
	i, _ := slices.BinarySearchFunc(b.parts, edge, func(p part, edge int) int {
		if edge >= p.to {
			return -1
		}
		if edge < p.from {
			return 1
		}
		return 0
	})
	return i
}
