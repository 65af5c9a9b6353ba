package geo

import (
	"fmt"
	"math"
	"slices"

	"github.com/golang/geo/r3"

	"github.com/decandb/decan/internal/value"
)

// Reasons without a position. The service documents the one about latitude and
// the one about open rings; the others are ours.
const (
	reasonLatitude   = "Latitude values must be between -90 and 90 degrees."
	reasonLongitude  = "Longitude values must be between -180 and 180 degrees."
	reasonPlanar     = "Coordinate values must be between -1e150 and 1e150."
	reasonPosition   = "Invalid position. A position must be represented by an array of numbers. There must be at least two elements in the array."
	reasonObject     = "Unable to process the geometry."
	reasonLineLength = "The LineString input is not valid because it does not have two distinct positions."
	reasonOpposite   = "Two consecutive positions must not be on opposite sides of the earth."
	reasonOverlap    = "The MultiPolygon input is not valid because two of its polygons or rings overlap or share a part of a side."
)

// Weigh returns the type of a value that may be a geometry, or 0 if it certainly
// is not one, and its number of positions. It counts at most one position more
// than a shape may have, and takes a fraction of the time of [Parse].
func Weigh(v value.Value) (t Type, positions int) {
	name, coordinates := v.Get("type"), v.Get("coordinates")
	if name.Kind() != value.KindString || coordinates.Kind() != value.KindArray {
		return 0, 0
	}
	const nested = 4 // arrays around the numbers of a MultiPolygon
	if i := slices.Index(typeNames[:], name.Text()); i >= int(Point) {
		return Type(i), countPositions(coordinates, nested)
	}
	return 0, 0
}

// countPositions counts the arrays that do not begin with an array.
func countPositions(v value.Value, nested int) int {
	items := v.Items()
	if len(items) == 0 {
		return 0
	}
	if nested == 1 || items[0].Kind() != value.KindArray {
		return 1
	}
	count := 0
	for _, item := range items {
		if count += countPositions(item, nested-1); count > positionsMax {
			return positionsMax + 1
		}
	}
	return count
}

// parser collects the parts of one shape.
type parser struct {
	*body
	positions int // parsed so far, at most positionsMax
	polygon   int // the polygon being parsed, counted from 0
}

// parse returns the shape, or the zero Shape and a reason.
func parse(v value.Value, s System) (Shape, string) {
	typ := slices.Index(typeNames[:], v.Get("type").Text())
	coordinates := v.Get("coordinates")
	if v.Kind() != value.KindObject || v.Get("type").Kind() != value.KindString || !coordinates.IsDefined() {
		return Shape{}, reasonObject
	}
	if typ < int(Point) {
		return Shape{}, reasonObject
	}
	p := parser{body: &body{system: s, typ: Type(typ)}}
	p.edges, p.parts = p.oneEdge[:0], p.onePart[:0]
	if reason := p.read(coordinates); reason != "" {
		return Shape{}, reason
	}
	p.build()
	if reason := p.checkRings(); reason != "" {
		return Shape{}, reason
	}
	return Shape{p.body}, ""
}

// read parses the coordinates of the shape. Like all methods of the parser it
// returns a reason, or "".
func (p *parser) read(coordinates value.Value) string {
	switch p.typ {
	case Point:
		return p.point(coordinates)
	case MultiPoint:
		return p.each(coordinates, p.point)
	case LineString:
		return p.line(coordinates)
	case MultiLineString:
		return p.each(coordinates, p.line)
	case Polygon:
		return p.rings(coordinates)
	}
	return p.each(coordinates, func(v value.Value) string {
		reason := p.rings(v)
		p.polygon++
		return reason
	})
}

// each calls read for the elements of an array.
func (p *parser) each(v value.Value, read func(value.Value) string) string {
	if v.Kind() != value.KindArray {
		return fmt.Sprintf("The coordinates of a %s must be an array.", p.typ)
	}
	for _, item := range v.Items() {
		if reason := read(item); reason != "" {
			return reason
		}
	}
	return ""
}

func (p *parser) point(v value.Value) string {
	at, reason := p.position(v)
	if reason != "" {
		return reason
	}
	from := len(p.edges)
	p.edges = append(p.edges, newEdge(at, at, p.system))
	p.parts = append(p.parts, part{from: from, to: from + 1})
	return ""
}

func (p *parser) line(v value.Value) string {
	at, reason := p.list(v)
	if reason != "" {
		return reason
	}
	if len(at) < 2 {
		return reasonLineLength
	}
	return p.chain(at, part{})
}

// rings parses a polygon.
func (p *parser) rings(v value.Value) string {
	if v.Kind() != value.KindArray || v.Len() == 0 {
		return "The coordinates of a polygon must be an array of one or more rings."
	}
	for i, item := range v.Items() {
		if reason := p.ring(item, i); reason != "" {
			return reason
		}
	}
	return ""
}

// ring parses ring i of a polygon; 0 is the outer ring.
func (p *parser) ring(v value.Value, i int) string {
	items := v.Items()
	at, reason := p.list(v)
	if reason != "" {
		return reason
	}
	const few = "the ring number %d does not have enough points. Each ring of a polygon must contain at least four points."
	if len(items) < 4 {
		return p.invalid(few, i)
	}
	if !value.Equal(items[0], items[len(items)-1]) && !samePosition(at[0], at[len(at)-1], p.system) {
		return p.invalid("the start and end points of the ring number %d are not the same. Each ring of a polygon must have the same start and end points.", i)
	}
	if len(at) < 4 {
		return p.invalid(few, i)
	}
	at[len(at)-1] = at[0]
	// The inside is to the left. For an outer ring on the earth, its direction
	// in the document defines the inside. In a plane, and for a hole, the inside
	// is always the bounded side.
	reversed := false
	switch area := ringArea(at, p.system); {
	case p.system == Geometry:
		reversed = (area < 0) != (i > 0)
	case i > 0:
		reversed = area < 2*math.Pi
	}
	if reversed {
		slices.Reverse(at)
	}
	return p.chain(at, part{polygon: p.polygon, hole: i > 0})
}

// invalid returns a reason about ring i of the polygon being parsed.
func (p *parser) invalid(format string, i int) string {
	text := fmt.Sprintf("The %s input is not valid because ", p.typ)
	if p.typ == MultiPolygon {
		text = fmt.Sprintf("The MultiPolygon input is not valid because, in its polygon number %d, ", p.polygon+1)
	}
	return text + fmt.Sprintf(format, i+1)
}

// chain appends the edges between the positions, and their part.
func (p *parser) chain(at []r3.Vector, as part) string {
	as.from = len(p.edges)
	p.edges = slices.Grow(p.edges, len(at)-1)
	for i := 1; i < len(at); i++ {
		// Less than a metre from the opposite point, the plane of an edge is
		// only rounding error.
		if p.system == Geography && at[i].Add(at[i-1]).Norm() < 1e-7 {
			return reasonOpposite
		}
		p.edges = append(p.edges, newEdge(at[i-1], at[i], p.system))
	}
	as.to = len(p.edges)
	p.parts = append(p.parts, as)
	return ""
}

// list parses an array of positions. It keeps one of several equal positions in
// a row.
func (p *parser) list(v value.Value) ([]r3.Vector, string) {
	if v.Kind() != value.KindArray {
		return nil, fmt.Sprintf("The coordinates of a %s must be arrays of positions.", p.typ)
	}
	if p.positions+v.Len() > positionsMax {
		return nil, tooMany()
	}
	at := make([]r3.Vector, 0, v.Len())
	for _, item := range v.Items() {
		next, reason := p.position(item)
		if reason != "" {
			return nil, reason
		}
		if n := len(at); n == 0 || !samePosition(at[n-1], next, p.system) {
			at = append(at, next)
		}
	}
	return at, ""
}

func tooMany() string {
	return fmt.Sprintf("A geometry must not have more than %d points.", positionsMax)
}

// position parses a position. It ignores numbers after the second, such as an
// altitude.
func (p *parser) position(v value.Value) (r3.Vector, string) {
	items := v.Items()
	if len(items) < 2 {
		return r3.Vector{}, reasonPosition
	}
	for _, item := range items {
		if item.Kind() != value.KindNumber {
			return r3.Vector{}, reasonPosition
		}
	}
	if p.positions++; p.positions > positionsMax {
		return r3.Vector{}, tooMany()
	}
	x, y := items[0].Float(), items[1].Float()
	// NaN, which a query can compute, must fail these conditions.
	switch {
	case p.system == Geometry && !(math.Abs(x) <= planarMax && math.Abs(y) <= planarMax):
		return r3.Vector{}, reasonPlanar
	case p.system == Geometry:
		return r3.Vector{X: x, Y: y}, ""
	case !(math.Abs(y) <= 90):
		return r3.Vector{}, reasonLatitude
	case !(math.Abs(x) <= 180):
		return r3.Vector{}, reasonLongitude
	}
	return onSphere(x, y), ""
}
