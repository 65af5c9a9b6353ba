// Package geo computes with positions, lines and areas. It implements the
// spatial functions of the query language and the cells by which an index finds
// shapes.
//
// The query language calls it for ST_DISTANCE, ST_WITHIN, ST_INTERSECTS, ST_AREA
// and ST_ISVALID; the index for the cells of a document and for the intervals of
// cells that a query must read. Begin with [Parse], which converts a GeoJSON
// value to a [Shape]; [Distance], [Within], [Intersects] and [Area] compare and
// measure shapes; a [Grid] computes cells.
//
// # The earth
//
// In the system [Geography] coordinates are longitude and latitude in degrees on
// the ellipsoid WGS-84, and an edge is a great ellipse: the curve in which the
// plane through both ends and the centre of the earth cuts the surface. The
// service computes the same: its published results of ST_DISTANCE and ST_AREA
// agree to 2e-11 over long distances, 0.08 millimetres over short ones and 1e-10
// of an area. A linear map turns the ellipsoid into a sphere and great ellipses
// into great circles, so everything except lengths and areas is spherical
// geometry. In the system [Geometry] coordinates are those of a plane without a
// unit.
//
// # Invariants
//
//   - A Shape is valid: rings are closed, simple and oriented with the inside
//     to the left, holes are inside, polygons do not overlap.
//   - Distance is 0 exactly when Intersects is true, and Within implies
//     Intersects.
//   - If two shapes intersect, one of the intervals of either has a cell of the
//     other; if they are less than d apart, one of the intervals of [Grid.Near]
//     with d has.
//   - No input takes more than a number of steps that the 4096 positions of a
//     shape bound.
//
// The package knows nothing about documents, paths, policies or postings, and
// never returns shapes to GeoJSON.
//
// Page: docs/spatial.md.
package geo

import (
	"math"

	"github.com/golang/geo/r3"

	"github.com/decandb/decan/internal/value"
)

// System is the meaning of coordinates. A container has one system, in its
// geospatialConfig.
type System uint8

// The systems.
const (
	Geography System = iota // longitude and latitude in degrees, WGS-84
	Geometry                // a plane, x and y without a unit
)

// Type is the type of a shape.
type Type uint8

// The types, those of GeoJSON without GeometryCollection.
const (
	Point Type = iota + 1
	MultiPoint
	LineString
	MultiLineString
	Polygon
	MultiPolygon
)

var typeNames = [...]string{"", "Point", "MultiPoint", "LineString", "MultiLineString", "Polygon", "MultiPolygon"}

// String returns the name that GeoJSON and index policies use.
func (t Type) String() string {
	if int(t) < len(typeNames) {
		return typeNames[t]
	}
	return ""
}

// dim returns 0 for points, 1 for lines and 2 for areas.
func (t Type) dim() int { return int(t-Point) / 2 }

// Limits of a shape.
const (
	// positionsMax is the maximum number of positions of a shape, the documented
	// limit of a polygon. It bounds the time of every function in this package.
	positionsMax = 4096
	// planarMax bounds the coordinates of a plane, so that their products stay
	// finite.
	planarMax = 1e150
)

// Shape is a valid geometry. It is immutable, small and may be shared. The zero
// Shape has no type, intersects nothing and has no distance.
type Shape struct {
	*body
}

// body is the content of a Shape, which is one pointer.
//
// A position of Geography is a point of the unit sphere: longitude and
// parametric latitude, see [onSphere]. A position of Geometry is x, y, 0.
type body struct {
	system System
	typ    Type
	edges  []edge // of all parts, one after another; a point is an edge without length
	parts  []part
	nodes  []box // see tree.go

	// A point, the most frequent shape, needs no allocation except the body.
	oneEdge [1]edge
	onePart [1]part
	oneBox  [1]box
}

// part is a point, a line or a ring: edges[from:to].
type part struct {
	from, to int
	polygon  int  // its polygon, counted from 0
	hole     bool // the ring is not the first one of its polygon
	origin   bool // the origin of the sphere is in the ring; see contains
}

// edge is a straight line, or a great circle arc, from a to b.
type edge struct {
	a, b r3.Vector
	// normal is the unit normal of the plane of an arc and points to the left of
	// the edge; it is zero in a plane and for points.
	normal r3.Vector
	// near is the distance at which a position counts as on the edge.
	near float64
	// pad is how far the area that counts as on the edge extends beyond its box,
	// and rise how far the edge extends beyond the box of a and b.
	pad, rise float64
	planar    bool
}

// Parse returns the shape that a GeoJSON value describes, or false if it is not
// a valid geometry of the system, which the query language treats as undefined.
// A Point takes one allocation.
func Parse(v value.Value, s System) (Shape, bool) {
	shape, reason := parse(v, s)
	return shape, reason == ""
}

// Validate reports whether Parse accepts the value. If it does not, reason is a
// sentence that says why, as ST_ISVALIDDETAILED returns it.
func Validate(v value.Value, s System) (valid bool, reason string) {
	_, reason = parse(v, s)
	return reason == "", reason
}

// Type returns the type of the shape, 0 for the zero Shape.
func (s Shape) Type() Type {
	if s.body == nil {
		return 0
	}
	return s.typ
}

// System returns the system that the shape was parsed in.
func (s Shape) System() System {
	if s.body == nil {
		return Geography
	}
	return s.system
}

// empty reports whether the shape has no positions: the zero Shape and, for
// example, a MultiPolygon without polygons.
func (s Shape) empty() bool { return s.body == nil || len(s.edges) == 0 }

// related reports whether the two shapes can be compared.
func related(a, b Shape) bool {
	return !a.empty() && !b.empty() && a.system == b.system
}

// newEdge returns the edge from a to b.
func newEdge(a, b r3.Vector, s System) edge {
	near := nearness(a, b, s)
	e := edge{a: a, b: b, near: near, pad: 2 * clearance * near, planar: s == Geometry}
	if a != b && s == Geography {
		e.normal = normal(a, b).Normalize()
		e.rise = 1 - math.Sqrt(math.Max(0, 1-b.Sub(a).Norm2()/4))
	}
	return e
}

// isPoint reports whether the edge represents a point.
func (e *edge) isPoint() bool { return e.a == e.b }
