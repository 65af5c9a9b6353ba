package geo

import (
	"math"

	"github.com/golang/geo/r3"
)

// The ellipsoid WGS-84, in metres.
const (
	equatorRadius = 6378137.0
	flattening    = 1 / 298.257223563
	polarRadius   = equatorRadius * (1 - flattening)
	// eccentricity2 is e², the square of the first eccentricity, and second2
	// that of the second.
	eccentricity2 = flattening * (2 - flattening)
	second2       = eccentricity2 / (1 - eccentricity2)
)

var (
	// earth stretches the unit sphere to the ellipsoid.
	earth = r3.Vector{X: equatorRadius, Y: equatorRadius, Z: polarRadius}
	unit  = r3.Vector{X: 1, Y: 1, Z: 1}
)

func stretch(p, scale r3.Vector) r3.Vector {
	return r3.Vector{X: p.X * scale.X, Y: p.Y * scale.Y, Z: p.Z * scale.Z}
}

// onSphere returns the point of the unit sphere that earth stretches to the
// point of the ellipsoid with the longitude and latitude in degrees. Its
// latitude is the parametric one.
func onSphere(longitude, latitude float64) r3.Vector {
	sin, cos := sincosDegrees(latitude)
	sin *= 1 - flattening
	norm := math.Hypot(sin, cos)
	sin, cos = sin/norm, cos/norm
	east, north := sincosDegrees(longitude)
	return r3.Vector{X: cos * north, Y: cos * east, Z: sin}
}

// sincosDegrees is exact at multiples of 90 degrees, so that 180 west equals 180
// east and a pole is one position.
func sincosDegrees(degrees float64) (sin, cos float64) {
	turns := math.Round(degrees / 90)
	sin, cos = math.Sincos((degrees - 90*turns) * math.Pi / 180)
	switch int(turns) & 3 {
	case 1:
		return cos, -sin
	case 2:
		return -sin, -cos
	case 3:
		return -cos, sin
	}
	return sin, cos
}

// Distance returns the distance between the shapes: in metres on the earth, in
// the unit of the coordinates in a plane. It is 0 if they intersect, and false
// if one is empty, they are of different systems, or more than pairsMax pairs of
// their edges would have to be measured.
//
// On the earth it is the length of the great ellipse between the two positions
// that are nearest to each other in a straight line through the earth. Another
// pair may be nearer along the surface, by less than the ellipsoid differs from
// a sphere over that distance; at 100 kilometres the difference is not
// measurable.
func Distance(a, b Shape) (float64, bool) {
	if !related(a, b) {
		return 0, false
	}
	if Intersects(a, b) {
		return 0, true
	}
	s := newSearch(a.body, b.body)
	s.search(a.root(), b.root())
	if s.pairs > pairsMax {
		return 0, false
	}
	length := math.Sqrt(s.best)
	if a.system == Geography {
		length = arcLength(s.p, s.q)
	}
	// Rounding may make the length 0 although the shapes do not intersect; the
	// intersection decides.
	return math.Max(length, math.SmallestNonzeroFloat64), true
}

// arcLength returns the length in metres of the great ellipse between two
// positions of the earth.
//
// With the angle t from p and the unit tangent v(t) on the sphere, the length is
// the integral of a sqrt(1 - e² v(t).Z²), an elliptic integral of so small a
// modulus that a fixed quadrature gives all digits.
func arcLength(p, q r3.Vector) float64 {
	up := normal(p, q)
	angle := math.Atan2(up.Norm(), p.Dot(q))
	if angle == 0 {
		return 0
	}
	tangent := up.Cross(p)
	if tangent.Norm2() == 0 {
		// Between opposite points of the earth every way is a great ellipse; the
		// shortest leads over a pole.
		tangent = p.Cross(r3.Vector{X: p.Y, Y: -p.X})
		if tangent.Norm2() == 0 {
			tangent = r3.Vector{X: 1}
		}
	}
	rise := tangent.Normalize().Z
	return equatorRadius * angle * average(func(t float64) float64 {
		sin, cos := math.Sincos(t * angle)
		z := rise*cos - p.Z*sin
		return math.Sqrt(1 - eccentricity2*z*z)
	})
}

// average returns the mean of f over [0, 1] by Gauss-Legendre quadrature with
// twelve nodes.
func average(f func(float64) float64) float64 {
	nodes := [...]struct{ at, weight float64 }{
		{0.562616704255734458, 0.124573522906701393},
		{0.683915749499090097, 0.116746268269177404},
		{0.793658977143308724, 0.101583713361532961},
		{0.884951337097152344, 0.080039164271673113},
		{0.952058628185237428, 0.053469662997659216},
		{0.990780317123359628, 0.023587668193255914},
	}
	sum := 0.0
	for _, n := range nodes {
		sum += n.weight * (f(n.at) + f(1-n.at))
	}
	return sum
}

// Area returns the area of the shape, in square metres on the earth, in squares
// of the unit of the coordinates in a plane. Points and lines have area 0. It is
// false only for the zero Shape.
//
// On the earth it is the area on the ellipsoid enclosed by great ellipses. A
// clockwise outer ring excludes what it surrounds, so the area is that of the
// rest of the earth.
func Area(a Shape) (float64, bool) {
	if a.body == nil {
		return 0, false
	}
	if a.typ.dim() < 2 {
		return 0, true
	}
	sum := 0.0
	for _, ring := range a.parts {
		sum += a.ringArea(ring)
	}
	return math.Abs(sum), true
}

// ringArea returns what the ring adds to the area: for a hole, a negative number.
//
// A steradian of the sphere at height z = sin(latitude) is stretched to
// f(z) = ab sqrt(1 + e'²z²) square metres, whose mean over the sphere is m. The
// integral of m is m times the spherical area. That of the rest, f - m, becomes
// by Green's theorem an integral along the edges: with G' = f - m and G(0) = 0
// it is that of -G dλ, and since (1 - z²) dλ = n.Z dt on a great circle with unit
// normal n, that of -n.Z G/(1-z²) dt, which is smooth even at the poles.
func (b *body) ringArea(ring part) float64 {
	at := make([]r3.Vector, 0, ring.to-ring.from+1)
	at = append(at, b.edges[ring.from].a)
	for i := ring.from; i < ring.to; i++ {
		at = append(at, b.edges[i].b)
	}
	left := ringArea(at, b.system)
	if b.system == Geometry {
		return left
	}
	if ring.hole {
		left -= 4 * math.Pi
	}
	sum := left * meanStretch
	for i := ring.from; i < ring.to; i++ {
		e := &b.edges[i]
		angle := math.Atan2(normal(e.a, e.b).Norm(), e.a.Dot(e.b))
		rise := e.normal.Cross(e.a).Z
		sum -= e.normal.Z * angle * average(func(t float64) float64 {
			sin, cos := math.Sincos(t * angle)
			return stretchRest(e.a.Z*cos + rise*sin)
		})
	}
	return sum
}

// stretchSeries are the coefficients of f(z) = Σ c z^2k.
var stretchSeries = func() (c [8]float64) {
	term := equatorRadius * polarRadius
	for k := range c {
		c[k] = term
		term *= second2 * (0.5 - float64(k)) / float64(k+1)
	}
	return c
}()

// meanStretch is the mean of f over the sphere: the square of the radius of the
// sphere with the same area as the earth.
var meanStretch = func() (m float64) {
	for k, c := range stretchSeries {
		m += c / float64(2*k+1)
	}
	return m
}()

// stretchRest returns G(z) / (1 - z²) of ringArea. As G is the sum of
// c (z^(2k+1) - z) / (2k+1), the division leaves -cz (1 + z² + ... + z^(2k-2)).
func stretchRest(z float64) float64 {
	sum, powers, power := 0.0, 0.0, 1.0
	for k, c := range stretchSeries {
		sum -= c / float64(2*k+1) * powers
		powers += power
		power *= z * z
	}
	return sum * z
}

// search finds the nearest positions of two shapes that do not intersect. One of
// them is the end of an edge, so edges are compared with ends. The boxes of the
// trees exclude what is farther than the best pair so far.
type search struct {
	a, b  *body
	scale r3.Vector
	p, q  r3.Vector // the nearest pair so far, in any order
	best  float64   // the square of their distance in the space stretched by scale
	pairs int       // number of pairs of edges that were measured
}

// newSearch returns a search for the nearest positions in a straight line.
func newSearch(a, b *body) search {
	scale := earth
	if a.system == Geometry {
		scale = unit
	}
	return search{a: a, b: b, scale: scale, best: math.Inf(1)}
}

// pairsMax is how many pairs of edges are measured for one distance; that takes
// a second or two. Two bundles of thousands of long parallel diagonal lines need
// that many.
const pairsMax = 1 << 19

func (s *search) search(x, y span) {
	if s.pairs > pairsMax || s.gap2(x, y) >= s.best {
		return
	}
	switch {
	case x.isLeaf() && y.isLeaf():
		for i := x.low; i < x.high; i++ {
			for j := y.low; j < y.high; j++ {
				s.try(&s.a.edges[i], &s.b.edges[j])
			}
		}
	case y.isLeaf() || !x.isLeaf() && x.high-x.low >= y.high-y.low:
		left, right := x.halves()
		if s.gap2(right, y) < s.gap2(left, y) {
			left, right = right, left
		}
		s.search(left, y)
		s.search(right, y)
	default:
		left, right := y.halves()
		if s.gap2(x, right) < s.gap2(x, left) {
			left, right = right, left
		}
		s.search(x, left)
		s.search(x, right)
	}
}

func (s *search) gap2(x, y span) float64 {
	return s.a.nodes[x.node].gap2(&s.b.nodes[y.node], s.scale)
}

// try compares the ends of each edge with the other edge, unless the middle of
// the shorter one shows that the whole edge is too far.
func (s *search) try(e, f *edge) {
	eBox, fBox := e.box(), f.box()
	if eBox.gap2(&fBox, s.scale) >= s.best {
		return
	}
	if e.b.Sub(e.a).Norm2() < f.b.Sub(f.a).Norm2() {
		e, f = f, e
	}
	if f.isPoint() {
		s.tryEnd(f.a, e)
		return
	}
	center := middle(f.a, f.b, s.a.system)
	radius := center.Sub(f.a).Norm() * s.scale.X // the greater of the scales
	if s.tooFar(center, e, radius) {
		return
	}
	s.pairs++
	if _, d2 := e.closest(center, s.scale); math.Sqrt(d2)-radius > math.Sqrt(s.best) {
		return
	}
	s.tryEnd(e.a, f)
	s.tryEnd(e.b, f)
	s.tryEnd(f.a, e)
	s.tryEnd(f.b, e)
}

// tooFar reports whether the edge is certainly no nearer to p than the best pair
// plus radius, because its plane is not. That holds for most edges, and closest
// is much slower.
func (s *search) tooFar(p r3.Vector, e *edge, radius float64) bool {
	if e.planar || e.isPoint() {
		return false
	}
	least := (math.Abs(e.normal.Dot(p)) - tolerance) * s.scale.Z // the lesser of the scales
	return least-radius > math.Sqrt(s.best)
}

func (s *search) tryEnd(p r3.Vector, e *edge) {
	if s.tooFar(p, e, 0) {
		return
	}
	if q, d2 := e.closest(p, s.scale); d2 < s.best {
		s.p, s.q, s.best = p, q, d2
	}
}

// closest returns the position of the edge that is nearest to p in a straight
// line in the space stretched by scale, and the square of that distance.
func (e *edge) closest(p, scale r3.Vector) (r3.Vector, float64) {
	q := e.b
	if e.planar {
		q = e.closestPlanar(p)
	} else if !e.isPoint() {
		q = e.closestOnArc(p, scale)
	}
	best, d2 := q, stretch(p.Sub(q), scale).Norm2()
	for _, end := range [...]r3.Vector{e.a, e.b} {
		if d := stretch(p.Sub(end), scale).Norm2(); d < d2 {
			best, d2 = end, d
		}
	}
	return best, d2
}

func (e *edge) closestPlanar(p r3.Vector) r3.Vector {
	along := e.b.Sub(e.a)
	length2 := along.Norm2()
	if length2 == 0 {
		return e.a
	}
	t := p.Sub(e.a).Dot(along) / length2
	return e.a.Add(along.Mul(math.Min(1, math.Max(0, t))))
}

// closestOnArc starts with the position that is nearest on the sphere and
// corrects it for the flattening by Newton's method: S(t) = A cos t + W sin t is
// the stretched arc, and (P - S)·S' is zero where P is nearest.
func (e *edge) closestOnArc(p, scale r3.Vector) r3.Vector {
	side := e.normal.Cross(e.a)
	angle := math.Atan2(e.b.Dot(side), e.b.Dot(e.a))
	t := math.Atan2(p.Dot(side), p.Dot(e.a))
	if t < angle/2-math.Pi {
		t += 2 * math.Pi
	}
	P, A, W := stretch(p, scale), stretch(e.a, scale), stretch(side, scale)
	for range 4 {
		t = math.Min(angle, math.Max(0, t))
		sin, cos := math.Sincos(t)
		at := A.Mul(cos).Add(W.Mul(sin))
		slope := W.Mul(cos).Sub(A.Mul(sin))
		rest := P.Sub(at)
		bend := rest.Dot(at) + slope.Norm2()
		if bend <= 0 {
			break // near the pole of the arc, which is equally far from all of it
		}
		step := rest.Dot(slope) / bend
		t += math.Max(-0.1, math.Min(0.1, step))
		if math.Abs(step) < epsilon {
			break
		}
	}
	sin, cos := math.Sincos(math.Min(angle, math.Max(0, t)))
	return e.a.Mul(cos).Add(side.Mul(sin))
}
