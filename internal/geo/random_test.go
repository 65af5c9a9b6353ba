package geo

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/golang/geo/r3"
)

// draw generates random GeoJSON. Half of its coordinates are on a coarse
// lattice, so that shapes share positions, sides and meridians.
type draw struct {
	*rand.Rand
	system System
	x, y   float64 // around this position,
	reach  float64 // at about this distance
}

// newDraw returns a draw and logs its seed if the test fails.
func newDraw(t *testing.T) *draw {
	seed := uint64(time.Now().UnixNano())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	return &draw{Rand: rand.New(rand.NewPCG(seed, 0))}
}

// somewhere moves the draw to another position and scale.
func (d *draw) somewhere() {
	d.system = System(d.IntN(2))
	d.x, d.y = d.Float64()*360-180, math.Asin(d.Float64()*2-1)*180/math.Pi
	if d.IntN(3) == 0 {
		d.x, d.y = []float64{0, 180, -180, 90, 45}[d.IntN(5)], []float64{0, 90, -90, 45}[d.IntN(4)]
	}
	d.reach = math.Pow(10, d.Float64()*7-5)
}

func (d *draw) position(x, y float64) string {
	if d.IntN(2) == 0 {
		x, y = d.x+math.Round((x-d.x)/d.reach*3)*d.reach/3, d.y+math.Round((y-d.y)/d.reach*3)*d.reach/3
	}
	if d.system == Geography {
		y = math.Max(-90, math.Min(90, y))
		x = math.Remainder(x, 360)
	}
	return "[" + strconv.FormatFloat(x, 'g', -1, 64) + "," + strconv.FormatFloat(y, 'g', -1, 64) + "]"
}

func (d *draw) near(center float64) float64 { return center + (d.Float64()*2-1)*d.reach }

// ring draws a star around a center: simple in a plane unless rounded.
func (d *draw) ring(x, y, radius float64) string {
	n := 3 + d.IntN(6)
	if d.IntN(8) == 0 {
		n = 3 + d.IntN(100)
	}
	turn := d.Float64()
	var at []string
	for i := range n {
		sin, cos := math.Sincos((float64(i) + turn) / float64(n) * 2 * math.Pi)
		r := radius * (0.5 + d.Float64()/2)
		at = append(at, d.position(x+r*cos, y+r*sin))
	}
	if d.IntN(8) == 0 {
		slices.Reverse(at)
	}
	return "[" + strings.Join(append(at, at[0]), ",") + "]"
}

func (d *draw) polygon() string {
	x, y, radius := d.near(d.x), d.near(d.y), d.reach*(0.1+d.Float64())
	rings := []string{d.ring(x, y, radius)}
	if d.IntN(4) == 0 {
		rings = append(rings, d.ring(x, y, radius*0.4))
	}
	return "[" + strings.Join(rings, ",") + "]"
}

func (d *draw) line() string {
	var at []string
	for range 2 + d.IntN(5) {
		at = append(at, d.position(d.near(d.x), d.near(d.y)))
	}
	return "[" + strings.Join(at, ",") + "]"
}

func (d *draw) several(one func() string) string {
	var all []string
	for range 1 + d.IntN(3) {
		all = append(all, one())
	}
	return "[" + strings.Join(all, ",") + "]"
}

func (d *draw) text() string {
	point := func() string { return d.position(d.near(d.x), d.near(d.y)) }
	typ := Point + Type(d.IntN(6))
	coordinates := ""
	switch typ {
	case Point:
		coordinates = point()
	case MultiPoint:
		coordinates = d.several(point)
	case LineString:
		coordinates = d.line()
	case MultiLineString:
		coordinates = d.several(d.line)
	case Polygon:
		coordinates = d.polygon()
	case MultiPolygon:
		coordinates = d.several(d.polygon)
	}
	return fmt.Sprintf(`{"type":%q,"coordinates":%s}`, typ, coordinates)
}

// shape draws until the shape is valid.
func (d *draw) shape(t *testing.T) (Shape, string) {
	for {
		text := d.text()
		if s, ok := Parse(parseValue(t, text), d.system); ok {
			return s, text
		}
	}
}

// TestRelations checks on random pairs that the answers are consistent with each
// other.
func TestRelations(t *testing.T) {
	t.Parallel()
	d := newDraw(t)
	seen := map[string]int{}
	for range 8000 {
		d.somewhere()
		a, aText := d.shape(t)
		b, bText := d.shape(t)
		intersects, within := Intersects(a, b), Within(a, b)
		distance, ok := Distance(a, b)
		back, _ := Distance(b, a)
		fail := func(what string) {
			t.Fatalf("%s\nsystem %d\n%s\n%s\nintersects %t, within %t, distance %g and %g", what, d.system, aText, bText, intersects, within, distance, back)
		}
		switch {
		case !ok || !(distance >= 0) || math.IsInf(distance, 0):
			fail("no distance")
		case (distance == 0) != intersects:
			fail("intersection and distance differ")
		case Intersects(b, a) != intersects || math.Abs(distance-back) > 1e-9*distance+1e-8:
			fail("not symmetric")
		case within && !intersects:
			fail("within, but no intersection")
		case !Within(a, a) || !Intersects(a, a):
			fail("not within itself")
		case within && Within(b, a) && a.typ.dim() != b.typ.dim():
			fail("within each other")
		}
		areaA, _ := Area(a)
		areaB, _ := Area(b)
		if within && areaA > areaB*(1+1e-9)+1e-6 {
			fail("the larger area is within the smaller")
		}
		seen[fmt.Sprint(intersects, within)]++
	}
	for _, kind := range []string{"false false", "true false", "true true"} {
		if seen[kind] < 100 {
			t.Errorf("only %d pairs are %s", seen[kind], kind)
		}
	}
}

// TestCellsFindShapes checks that the intervals of a shape find every shape that
// intersects it or is near it.
func TestCellsFindShapes(t *testing.T) {
	t.Parallel()
	d := newDraw(t)
	hits, most, sum, spared := 0, 0, 0, 0
	for range 3000 {
		d.somewhere()
		grid := d.grid(t)
		a, aText := d.shape(t)
		b, bText := d.shape(t)
		limit := 1 + d.IntN(20)
		stored := grid.Cells(nil, a, limit)
		if len(stored) == 0 || len(stored) > max(limit, 6) || !slices.IsSorted(stored) {
			t.Fatalf("%d cells, want at most %d:\n%s", len(stored), limit, aText)
		}
		query := grid.Query(nil, b)
		most, sum = max(most, len(query)), sum+len(query)
		checkIntervals(t, query)
		found := hit(stored, query)
		if Intersects(a, b) {
			if hits++; !found {
				t.Fatalf("not found by an intersection, grid %v:\n%s\n%s", grid, aText, bText)
			}
		} else if !found {
			spared++
		}
		distance, _ := Distance(a, b)
		near := grid.Near(nil, b, distance)
		checkIntervals(t, near)
		if !hit(stored, near) {
			t.Fatalf("not found by its distance %g, grid %v:\n%s\n%s", distance, grid, aText, bText)
		}
		if everything := grid.Everything(nil); !hit(everything, query) || !hit(everything, near) {
			t.Fatalf("a shape in all cells is not found, grid %v:\n%s", grid, bText)
		}
		if !hit(stored, grid.Near(nil, b, math.Inf(1))) || len(grid.Near(nil, b, -1)) > 0 || len(grid.Near(nil, b, math.NaN())) > 0 {
			t.Fatalf("infinity does not find all, or a number below zero finds something")
		}
	}
	if hits < 200 || spared < 200 {
		t.Errorf("%d hits, %d excluded by cells: too few for a result", hits, spared)
	}
	t.Logf("%d hits, %d not read, at most %d intervals and %d on average", hits, spared, most, sum/3000)
}

// grid returns a grid for the system. A planar grid often does not cover the
// shapes.
func (d *draw) grid(t *testing.T) Grid {
	if d.system == Geography {
		return Grid{}
	}
	x, y := d.near(d.x), d.near(d.y)
	reach := math.Max(d.reach*math.Pow(10, d.Float64()*4-2), 1e-3)
	g, err := NewGrid(Box{x - reach, y - reach, x + reach, y + 2*reach})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func hit(cells []uint64, intervals []Interval) bool {
	return slices.ContainsFunc(cells, func(cell uint64) bool {
		return slices.ContainsFunc(intervals, func(i Interval) bool { return i.Low <= cell && cell <= i.High })
	})
}

func checkIntervals(t *testing.T, all []Interval) {
	t.Helper()
	for i, next := range all {
		if next.Low > next.High || i > 0 && next.Low <= all[i-1].High+1 {
			t.Fatalf("interval %d of %v is empty or touches the one before", i, all)
		}
	}
}

// TestDistanceIsLeast compares distances with those of many pairs of positions
// on the edges: none may be less, and the least must be about as large.
func TestDistanceIsLeast(t *testing.T) {
	t.Parallel()
	d := newDraw(t)
	for range 1000 {
		d.somewhere()
		a, aText := d.shape(t)
		b, bText := d.shape(t)
		got, _ := Distance(a, b)
		if got == 0 || len(a.edges)*len(b.edges) > 200 {
			continue
		}
		least, steps := math.Inf(1), 0.0
		for i := range a.edges {
			for j := range b.edges {
				p, q := samples(&a.edges[i]), samples(&b.edges[j])
				for _, p := range p {
					for _, q := range q {
						least = math.Min(least, length(p, q, d.system))
					}
				}
				steps = math.Max(steps, step(p, d.system)+step(q, d.system))
			}
		}
		// The nearest position in a straight line is not the nearest along the
		// surface.
		slack := 1e-9*got + 1e-7
		if d.system == Geography {
			slack += 1e-3 * got * math.Min(1, math.Pow(got/equatorRadius, 2))
		}
		if got > least+slack || got < least-steps-slack {
			t.Fatalf("distance %g, but of samples that are %g apart %g:\n%s\n%s", got, steps, least, aText, bText)
		}
	}
}

func samples(e *edge) []r3.Vector {
	const n = 20
	var at []r3.Vector
	for i := range n + 1 {
		t := float64(i) / n
		p := e.a.Mul(1 - t).Add(e.b.Mul(t))
		if !e.planar {
			p = p.Normalize()
		}
		at = append(at, p)
	}
	return at
}

// step returns the greatest distance between neighbours.
func step(at []r3.Vector, s System) float64 {
	most := 0.0
	for i := 1; i < len(at); i++ {
		most = math.Max(most, length(at[i-1], at[i], s))
	}
	return most
}

func length(p, q r3.Vector, s System) float64 {
	if s == Geometry {
		return p.Sub(q).Norm()
	}
	return arcLength(p, q)
}

// TestContains compares areas with a winding number: in the plane around a
// position, and on the sphere in the tangent plane of it.
func TestContains(t *testing.T) {
	t.Parallel()
	d := newDraw(t)
	in := 0
	for range 10000 {
		d.somewhere()
		d.reach = math.Min(d.reach, 10)
		a, text := d.shape(t)
		if a.typ.dim() < 2 {
			continue
		}
		p := parsePosition(t, d)
		if area, _ := Area(a); a.locate(p) == boundary || d.system == Geography && area > 1e14 {
			continue
		}
		turns := 0.0
		for i := range a.edges {
			turns += turn(&a.edges[i], p)
		}
		want := math.Abs(turns) > math.Pi
		if got := a.contains(p, nil); got != want {
			t.Fatalf("contains %v is %t, but the boundary turns by %g:\n%s", p, got, turns, text)
		}
		if want {
			in++
		}
	}
	if in < 100 {
		t.Errorf("only %d positions are inside", in)
	}
}

func parsePosition(t *testing.T, d *draw) r3.Vector {
	text := fmt.Sprintf(`{"type":"Point","coordinates":%s}`, d.position(d.near(d.x), d.near(d.y)))
	return mustShape(t, d.system, text).edges[0].a
}

// turn returns the angle by which the edge goes around p.
func turn(e *edge, p r3.Vector) float64 {
	a, b := e.a.Sub(p), e.b.Sub(p)
	if e.planar {
		return math.Atan2(a.Cross(b).Z, a.Dot(b))
	}
	// The projection to the tangent plane, in the direction of p.
	a, b = a.Sub(p.Mul(a.Dot(p))), b.Sub(p.Mul(b.Dot(p)))
	return math.Atan2(a.Cross(b).Dot(p), a.Dot(b))
}

// TestComplement checks that a ring and its reverse divide the earth.
func TestComplement(t *testing.T) {
	t.Parallel()
	d := newDraw(t)
	const earthArea = 510065621724088.44
	for range 3000 {
		d.somewhere()
		// Smaller rings at a pole have parts as narrow as the contact tolerance,
		// where the direction may decide.
		d.system, d.reach = Geography, math.Max(d.reach, 1e-3)
		ring := strings.Split(strings.Trim(d.ring(d.near(d.x), d.near(d.y), d.reach), "[]"), "],[")
		a, ok := Parse(parseValue(t, polygonOf(ring)), Geography)
		slices.Reverse(ring)
		b, same := Parse(parseValue(t, polygonOf(ring)), Geography)
		if ok != same {
			_, why := Validate(parseValue(t, polygonOf(ring)), Geography)
			t.Fatalf("one direction is valid, the other is not: %s: %s", polygonOf(ring), why)
		}
		if !ok {
			continue
		}
		areaA, _ := Area(a)
		areaB, _ := Area(b)
		if math.Abs(areaA+areaB-earthArea) > 1 {
			t.Fatalf("areas %g and %g do not make the earth: %s", areaA, areaB, polygonOf(ring))
		}
		p := parsePosition(t, d)
		if a.locate(p) != boundary && a.contains(p, nil) == b.contains(p, nil) {
			t.Fatalf("%v is in both or in neither: %s", p, polygonOf(ring))
		}
		if Within(a, b) || Within(b, a) || !Intersects(a, b) {
			t.Fatalf("complements are within each other or apart: %s", polygonOf(ring))
		}
	}
}

func polygonOf(ring []string) string {
	return `{"type":"Polygon","coordinates":[[[` + strings.Join(ring, "],[") + `]]]}`
}

// TestBoxHoldsItsEdge checks that all positions of an edge are in its box, and
// that the box of a long arc is about as small as possible.
func TestBoxHoldsItsEdge(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 3))
	for range 20_000 {
		a := onSphere(360*random.Float64()-180, 180*random.Float64()-90)
		length := math.Pow(10, -7*random.Float64())
		b := a.Add(r3.Vector{X: length * random.NormFloat64(), Y: length * random.NormFloat64(), Z: length * random.NormFloat64()}).Normalize()
		if random.IntN(4) == 0 {
			b = onSphere(float64(random.IntN(5)-2)*45, float64(random.IntN(5)-2)*45)
		}
		if a == b || a.Add(b).Norm() < 1e-3 {
			continue
		}
		e := newEdge(a, b, Geography)
		bounds := e.box()
		seen := box{a, a}
		angle := math.Atan2(a.Cross(b).Norm(), a.Dot(b))
		side := e.normal.Cross(a)
		const steps = 200
		for i := range steps + 1 {
			sin, cos := math.Sincos(angle * float64(i) / steps)
			p := a.Mul(cos).Add(side.Mul(sin))
			seen.add(box{p, p})
			if !bounds.has(p) {
				t.Fatalf("seed %d: the edge from %v to %v has %v, its box is %v", seed, a, b, p, bounds)
			}
		}
		// Between two of the positions an arc rises by the square of their
		// distance.
		room := e.pad + angle*angle/steps/steps + 4e-6
		slack := bounds.high.Sub(seen.high).Add(seen.low.Sub(bounds.low))
		if most := math.Max(slack.X, math.Max(slack.Y, slack.Z)); most > 2*room {
			t.Fatalf("seed %d: the box %v of the edge from %v to %v is %g wider than the edge", seed, bounds, a, b, most)
		}
	}
}
