package geo

import (
	"math"

	"github.com/golang/geo/r3"
)

const (
	// epsilon is the distance from 1 to the next double.
	epsilon = 0x1p-52
	// tolerance is the distance, in radians, at which two positions of the earth
	// count as one and a position counts as on an edge: 64 nanometres. Unit
	// vectors and normals are exact to about a twentieth of it. Without it,
	// rounding would decide whether a position on the meridian that bounds a box
	// is inside.
	tolerance = 1e-14
	// planarTolerance is the same in a plane, relative to the largest coordinate
	// of an edge. It covers the rounding of coordinates that are not integers.
	planarTolerance = 8 * epsilon
	// clearance is the factor by which the positions and edges of a ring must be
	// farther from each other, so that no part of a valid ring is near to two of
	// its sides.
	clearance = 4
)

// nearness returns the distance at which positions count as on an edge between p
// and q, or as equal to a position p = q.
func nearness(p, q r3.Vector, s System) float64 {
	if s == Geography {
		return tolerance
	}
	return planarTolerance * math.Max(math.Max(math.Abs(p.X), math.Abs(p.Y)), math.Max(math.Abs(q.X), math.Abs(q.Y)))
}

// samePosition reports whether p and q are too close to each other for an edge.
func samePosition(p, q r3.Vector, s System) bool {
	near := clearance * nearness(p, q, s)
	return p == q || p.Sub(q).Norm2() <= near*near
}

// normal returns the product of p and q. Their sum and difference are
// perpendicular and the difference of close vectors is exact, so the result for
// close vectors is as exact as any.
func normal(p, q r3.Vector) r3.Vector { return p.Add(q).Cross(q.Sub(p)).Mul(0.5) }

// side returns 1 if p is to the left of the edge, -1 if it is to the right, and
// 0 if it is on its line.
func (e *edge) side(p r3.Vector) int {
	var d, limit float64
	if e.planar {
		along := e.b.Sub(e.a)
		d, limit = along.X*(p.Y-e.a.Y)-along.Y*(p.X-e.a.X), e.near*(math.Abs(along.X)+math.Abs(along.Y))
	} else {
		d, limit = e.normal.Dot(p), e.near
	}
	switch {
	case d > limit:
		return 1
	case d < -limit:
		return -1
	}
	return 0
}

// spans reports whether p, a position on the line of the edge, is between its
// ends, ends included.
func (e *edge) spans(p r3.Vector) bool {
	along := e.b.Sub(e.a)
	slack := e.near * (math.Abs(along.X) + math.Abs(along.Y) + math.Abs(along.Z))
	return p.Sub(e.a).Dot(along) >= -slack && p.Sub(e.b).Dot(along) <= slack && (e.planar || p.Dot(e.a.Add(e.b)) > 0)
}

// has reports whether p is on the edge.
func (e *edge) has(p r3.Vector) bool {
	return e.same(e.a, p) || e.same(e.b, p) || !e.isPoint() && e.side(p) == 0 && e.spans(p)
}

// same reports whether p and q, one of which is on the edge, are the same
// position.
func (e *edge) same(p, q r3.Vector) bool { return p == q || p.Sub(q).Norm2() <= e.near*e.near }

// contact is how two edges meet.
type contact uint8

const (
	apart   contact = iota
	touches         // in one position, which is an end of one of them
	crosses         // in one position, which is an end of neither
	runs            // along each other, in more than one position
)

// meet returns how the edges meet.
func (e *edge) meet(f *edge) contact {
	ea, eb := f.side(e.a), f.side(e.b)
	if ea*eb > 0 {
		return apart
	}
	fa, fb := e.side(f.a), e.side(f.b)
	switch {
	case fa*fb > 0:
		return apart
	case fa*fb*ea*eb == 0:
		return e.touch(f)
	case ea == fb:
		return crosses
	}
	// The arcs cross each other's great circles on opposite sides of the earth.
	return apart
}

// touch returns how edges that do not cross meet, from the ends of each that are
// on the other.
func (e *edge) touch(f *edge) contact {
	var first r3.Vector
	found := apart
	note := func(on bool, p r3.Vector) {
		switch {
		case !on:
		case found == apart:
			first, found = p, touches
		case !e.same(first, p):
			found = runs
		}
	}
	note(f.has(e.a), e.a)
	note(f.has(e.b), e.b)
	note(e.has(f.a), f.a)
	note(e.has(f.b), f.b)
	return found
}

// middle returns the position halfway between p and q.
func middle(p, q r3.Vector, s System) r3.Vector {
	if s == Geometry {
		return p.Add(q.Sub(p).Mul(0.5))
	}
	return p.Add(q).Normalize()
}
