package geo

import (
	"cmp"
	"errors"
	"math"
	"math/bits"
	"slices"

	"github.com/golang/geo/r3"
	"github.com/golang/geo/s2"
)

// Cells. A grid divides the earth, or a plane, into cells, and each cell into
// four, for 30 levels. The id of a cell is its path from the root, two bits per
// level, followed by a 1 and zeros, so it is in the middle of the ids of the
// cells inside it. On the earth, the cells and their ids are those of package s2
// on the sphere from which [Geography] is stretched; the six faces of a cube are
// the cells of level 0. A plane has one cell of level 0, and the digits are
// those of a quadtree in Z order.
//
// Ids are stored on disk and must never change.

const (
	levelMax = 30
	// queryCells is the number of cells that cover the shape of a query. More
	// cells follow the shape more closely, but each is a range to read.
	queryCells = 20
	// queryLevelMax is the last level of those cells, ten metres wide on the
	// earth. Smaller cells would exclude some more documents, but each adds the
	// cells that contain it to the query.
	queryLevelMax = 20
	rootCell      = 1 << (2 * levelMax)
)

// Box is a rectangle of a plane, the boundingBox of a spatial index.
type Box struct{ XMin, YMin, XMax, YMax float64 }

// Grid computes the cells of shapes. The zero Grid is the grid of [Geography].
type Grid struct {
	box    Box
	planar bool
}

// NewGrid returns a grid for [Geometry] with fine cells inside the box: the
// smallest are its 2^30th part. The outermost cells extend to infinity, so
// shapes outside the box are found too, but less precisely. It returns an error
// if the box has no width or height, or a coordinate that is not a valid
// position.
func NewGrid(box Box) (Grid, error) {
	for _, c := range [...]float64{box.XMin, box.YMin, box.XMax, box.YMax} {
		if !(math.Abs(c) <= planarMax) {
			return Grid{}, errors.New("bounding box has a coordinate that is not between -1e150 and 1e150")
		}
	}
	// The smallest cells must be wider than the distance between two doubles,
	// otherwise they contain no positions.
	if tooNarrow(box.XMin, box.XMax) || tooNarrow(box.YMin, box.YMax) {
		return Grid{}, errors.New("bounding box must have a minimum well below its maximum in both directions")
	}
	return Grid{box, true}, nil
}

func tooNarrow(low, high float64) bool {
	return !(high-low > 1e-6*math.Max(math.Abs(low), math.Abs(high))) || high-low < 1e-150
}

// Interval contains the ids from Low to High, both included.
type Interval struct{ Low, High uint64 }

// Cells appends the ids of the cells to store for a shape, ascending and without
// duplicates, and returns the extended slice. They cover the shape and are at
// most limit cells, or six if limit is less. A point has the one cell of the
// last level that contains it. An empty shape, and a shape of another system
// than the grid's, have no cells.
func (g Grid) Cells(dst []uint64, s Shape, limit int) []uint64 {
	if !g.suits(s) {
		return dst
	}
	if s.typ == Point {
		return append(dst, g.leaf(s.edges[0].a))
	}
	return append(dst, g.cover(limit, levelMax, g.relater(s.body))...)
}

// Everything appends the cells of level 0, which contain all others. Every query
// finds a shape that is stored with them.
func (g Grid) Everything(dst []uint64) []uint64 {
	if g.planar {
		return append(dst, rootCell)
	}
	for face := range uint64(6) {
		dst = append(dst, face<<61|rootCell)
	}
	return dst
}

// Query appends the intervals of stored cells that find every shape that
// intersects s, ascending and disjoint, and returns the extended slice. They
// also find other shapes. Each interval is either the range of cells inside one
// of at most 20 cells that cover s, or a single cell that contains such a cell,
// because a large shape is stored with large cells. There are at most 420
// intervals, and 36 on average over random shapes.
func (g Grid) Query(dst []Interval, s Shape) []Interval {
	if !g.suits(s) {
		return dst
	}
	return append(dst, intervals(g.cover(queryCells, queryLevelMax, g.relater(s.body)))...)
}

// Near is [Grid.Query] for every shape whose [Distance] from s is at most
// distance. A negative distance or NaN finds nothing.
func (g Grid) Near(dst []Interval, s Shape, distance float64) []Interval {
	if !g.suits(s) || !(distance >= 0) {
		return dst
	}
	relate := g.planeNear(s.body, distance)
	if !g.planar {
		relate = sphereNear(s.body, distance)
	}
	return append(dst, intervals(g.cover(queryCells, queryLevelMax, relate))...)
}

// suits reports whether the grid has cells for the shape.
func (g Grid) suits(s Shape) bool {
	return !s.empty() && g.planar == (s.system == Geometry)
}

// relation is the relation between a cell and an area. A relater may return
// meets for any of the three; it returns apart only if that is certain despite
// the tolerance and the rounding of contacts.
type relation uint8

const (
	meets  relation = iota
	away            // nothing of the area is in the cell
	inside          // nothing of the cell is outside the area
)

type relater func(cell uint64) relation

func (g Grid) relater(b *body) relater {
	if g.planar {
		return g.planeCells(b)
	}
	return sphereCells(b)
}

// cover returns at most limit cells, or six, that cover an area, ascending. It
// divides the largest cell first, until that would give too many cells or the
// cells are of the last level.
func (g Grid) cover(limit, lastLevel int, relate relater) []uint64 {
	var done, open []uint64
	last := uint64(rootCell) >> (2 * lastLevel)
	put := func(cell uint64) {
		switch relate(cell) {
		case meets:
			open = append(open, cell)
		case inside:
			done = append(done, cell)
		}
	}
	for _, cell := range g.Everything(nil) {
		put(cell)
	}
	for len(open) > 0 {
		cell := open[0]
		if open = open[1:]; lowBit(cell) <= last {
			done = append(done, cell)
			continue
		}
		doneBefore, openBefore := len(done), len(open)
		for _, child := range children(cell) {
			put(child)
		}
		if len(done)+len(open) > limit {
			done, open = append(done[:doneBefore], cell), open[:openBefore]
		}
	}
	slices.Sort(done)
	return done
}

func lowBit(cell uint64) uint64 { return cell & -cell }

func children(cell uint64) [4]uint64 {
	step := lowBit(cell) / 2
	first := cell - step - step/2
	return [...]uint64{first, first + step, first + 2*step, first + 3*step}
}

// intervals returns the ids inside the cells and those of the cells that contain
// them, as ascending intervals that neither touch nor overlap.
func intervals(cells []uint64) []Interval {
	var all []Interval
	for _, cell := range cells {
		bit := lowBit(cell)
		all = append(all, Interval{cell - (bit - 1), cell + (bit - 1)})
		for bit < rootCell {
			bit *= 4
			cell = cell&-bit | bit
			all = append(all, Interval{cell, cell})
		}
	}
	slices.SortFunc(all, func(a, b Interval) int { return cmp.Compare(a.Low, b.Low) })
	kept := all[:0]
	for _, next := range all {
		if n := len(kept); n > 0 && next.Low <= kept[n-1].High+1 {
			kept[n-1].High = max(kept[n-1].High, next.High)
		} else {
			kept = append(kept, next)
		}
	}
	return kept
}

// leaf returns the cell of the last level that contains the position.
func (g Grid) leaf(p r3.Vector) uint64 {
	if !g.planar {
		c := s2.CellFromPoint(s2.Point{Vector: p})
		return uint64(c.ID())
	}
	x := column(p.X, g.box.XMin, g.box.XMax)
	y := column(p.Y, g.box.YMin, g.box.YMax)
	cell := uint64(1)
	for i := range levelMax {
		cell |= (x>>i&1<<1 | y>>i&1) << (2*i + 1)
	}
	return cell
}

// column returns the number of the column of the last level that contains c.
func column(c, low, high float64) uint64 {
	const columns = 1 << levelMax
	return uint64(math.Max(0, math.Min(columns-1, (c-low)/(high-low)*columns)))
}

// sphereMargin is the minimum distance, in radians, at which a cell and an edge
// count as apart: more than the tolerances of two shapes in contact together.
const sphereMargin = 8 * tolerance

// cone is a cell of the sphere, represented by the four planes through its edges
// with normals that point inside.
type cone struct {
	corners, normals [4]r3.Vector
	center           r3.Vector
}

func newCone(cell uint64) cone {
	c := s2.CellFromCellID(s2.CellID(cell))
	var k cone
	for i := range k.corners {
		k.corners[i] = c.Vertex(i).Vector
		k.normals[i] = c.Edge(i).Vector
	}
	k.center = c.Center().Vector
	return k
}

// away reports whether the edge is certainly outside the cone. Two cones that
// are apart are separated by a plane through the center of the earth; away tests
// the planes of the cell and that of the edge.
func (k *cone) away(e *edge) bool {
	for _, n := range k.normals {
		if n.Dot(e.a) < -sphereMargin && n.Dot(e.b) < -sphereMargin {
			return true
		}
	}
	if e.isPoint() {
		return false
	}
	left, right := true, true
	for _, c := range k.corners {
		d := e.normal.Dot(c)
		left = left && d > sphereMargin
		right = right && d < -sphereMargin
	}
	return left || right
}

// sphereCells relates cells to a shape on the earth.
func sphereCells(b *body) relater {
	return func(cell uint64) relation {
		k := newCone(cell)
		skip := func(n *box) bool {
			for _, normal := range k.normals {
				if n.above(normal.Mul(-1), sphereMargin) {
					return true
				}
			}
			return false
		}
		if b.visit(skip, func(i int) bool { return !k.away(&b.edges[i]) }) {
			return meets
		}
		if b.typ.dim() == 2 && b.contains(k.center, nil) {
			return inside
		}
		return away
	}
}

// sphereNear relates cells to everything within a distance in metres of a shape
// on the earth. On the sphere, the angle is at most distance divided by the
// smallest stretch of the earth.
func sphereNear(b *body, distance float64) relater {
	angle := distance/polarRadius + sphereMargin
	center := &body{system: Geography, typ: Point}
	center.edges = center.oneEdge[:]
	return func(cell uint64) relation {
		k := newCone(cell)
		radius := 0.0
		for _, c := range k.corners {
			radius = math.Max(radius, chordAngle(c.Sub(k.center).Norm2()))
		}
		if b.typ.dim() == 2 && b.contains(k.center, nil) {
			if radius <= angle {
				return inside
			}
			return meets
		}
		center.oneEdge[0] = newEdge(k.center, k.center, Geography)
		center.build()
		s := search{a: center, b: b, scale: unit, best: math.Inf(1)}
		s.search(center.root(), b.root())
		switch from := chordAngle(s.best); {
		case from-radius > angle+sphereMargin:
			return away
		case from+radius <= angle:
			return inside
		}
		return meets
	}
}

// chordAngle returns the angle between positions from the square of their
// distance.
func chordAngle(d2 float64) float64 { return 2 * math.Asin(math.Min(1, math.Sqrt(d2)/2)) }

// rect returns the rectangle of a planar cell. The outermost cells extend to
// infinity.
func (g Grid) rect(cell uint64) box {
	level := levelMax - bits.TrailingZeros64(cell)/2
	x, y := 0, 0
	for i := 1; i <= level; i++ {
		digit := int(cell>>(2*(levelMax-i)+1)) & 3
		x, y = x<<1|digit>>1, y<<1|digit&1
	}
	last := 1<<level - 1
	edge := func(i int, low, high float64) float64 {
		switch {
		case i == 0:
			return math.Inf(-1)
		case i > last:
			return math.Inf(1)
		}
		return low + math.Ldexp(float64(i), -level)*(high-low)
	}
	return box{
		r3.Vector{X: edge(x, g.box.XMin, g.box.XMax), Y: edge(y, g.box.YMin, g.box.YMax)},
		r3.Vector{X: edge(x+1, g.box.XMin, g.box.XMax), Y: edge(y+1, g.box.YMin, g.box.YMax)},
	}
}

// margin is the minimum distance at which a cell and an edge of a shape count as
// apart: more than the rounding of contacts, which depends on the largest
// coordinate.
func (g Grid) margin(b *body) float64 {
	reach := math.Max(math.Max(math.Abs(g.box.XMin), math.Abs(g.box.XMax)), math.Max(math.Abs(g.box.YMin), math.Abs(g.box.YMax)))
	n := &b.nodes[0]
	for _, c := range [...]float64{n.low.X, n.low.Y, n.high.X, n.high.Y} {
		reach = math.Max(reach, math.Abs(c))
	}
	return 16 * planarTolerance * reach
}

// planeCells relates cells to a shape of a plane.
func (g Grid) planeCells(b *body) relater {
	margin := g.margin(b)
	grow := r3.Vector{X: margin, Y: margin}
	all := box{b.nodes[0].low.Sub(grow), b.nodes[0].high.Add(grow)}
	return func(cell uint64) relation {
		// Clipped to the box of the shape, a cell has no infinite side.
		r := g.rect(cell)
		r = box{r.low.Sub(grow), r.high.Add(grow)}
		r.low = r3.Vector{X: math.Max(r.low.X, all.low.X), Y: math.Max(r.low.Y, all.low.Y), Z: all.low.Z}
		r.high = r3.Vector{X: math.Min(r.high.X, all.high.X), Y: math.Min(r.high.Y, all.high.Y), Z: all.high.Z}
		if r.low.X > r.high.X || r.low.Y > r.high.Y {
			return away
		}
		if b.visit(r.apart, func(i int) bool { return !r.away(&b.edges[i]) }) {
			return meets
		}
		if b.typ.dim() == 2 && b.contains(middle(r.low, r.high, Geometry), nil) {
			return inside
		}
		return away
	}
}

// away reports whether the edge is certainly outside the rectangle: its box is
// outside, or the corners are all on one side of it.
func (r *box) away(e *edge) bool {
	bounds := e.box()
	if bounds.apart(r) {
		return true
	}
	if e.isPoint() {
		return false
	}
	left, right := true, true
	for _, c := range [...]r3.Vector{r.low, r.high, {X: r.low.X, Y: r.high.Y}, {X: r.high.X, Y: r.low.Y}} {
		side := e.side(c)
		left, right = left && side > 0, right && side < 0
	}
	return left || right
}

// planeNear relates cells to everything within a distance of a shape of a plane.
func (g Grid) planeNear(b *body, distance float64) relater {
	limit := distance + g.margin(b)
	limit += 8 * epsilon * limit
	shape := g.planeCells(b)
	return func(cell uint64) relation {
		if is := shape(cell); is != away {
			return is
		}
		r := g.rect(cell)
		r.low.Z, r.high.Z = math.Inf(-1), math.Inf(1)
		skip := func(n *box) bool { return math.Sqrt(n.gap2(&r, unit)) > limit }
		if b.visit(skip, func(i int) bool { return r.distance(&b.edges[i]) <= limit }) {
			return meets
		}
		return away
	}
}

// distance returns the distance between an edge and a rectangle that do not
// meet. The nearest position is an end of the edge or a finite corner of the
// rectangle.
func (r *box) distance(e *edge) float64 {
	least := math.Inf(1)
	for _, p := range [...]r3.Vector{e.a, e.b} {
		least = math.Min(least, r.gap2(&box{p, p}, unit))
	}
	for _, x := range [...]float64{r.low.X, r.high.X} {
		for _, y := range [...]float64{r.low.Y, r.high.Y} {
			if corner := (r3.Vector{X: x, Y: y}); !math.IsInf(x, 0) && !math.IsInf(y, 0) {
				least = math.Min(least, e.closestPlanar(corner).Sub(corner).Norm2())
			}
		}
	}
	return math.Sqrt(least)
}
