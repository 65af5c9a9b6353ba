package geo

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/value"
)

// circle returns a ring of n edges around a position.
func circle(x, y, radius float64, n int) string {
	var at []string
	for i := range n + 1 {
		sin, cos := math.Sincos(float64(i%n) / float64(n) * 2 * math.Pi)
		at = append(at, fmt.Sprintf("[%.9f,%.9f]", x+radius*cos, y+radius*sin))
	}
	return "[" + strings.Join(at, ",") + "]"
}

func circlePolygon(x, y, radius float64, n int) string {
	return `{"type":"Polygon","coordinates":[` + circle(x, y, radius, n) + `]}`
}

// comb returns a polygon of 2n+4 positions with n teeth along a diagonal, so
// that the boxes of almost all its edges overlap.
func comb(n int) string {
	var at []string
	add := func(x, y float64) { at = append(at, fmt.Sprintf("[%.9f,%.9f]", x, y)) }
	for i := range n {
		root := float64(i) / float64(n)
		tip := root + 0.5/float64(n)
		add(root, -root)
		add(10+tip, 10-tip)
	}
	add(12, 8)
	add(1.2, -3)
	add(-2, -1)
	add(0, 0)
	slices.Reverse(at)
	return `{"type":"Polygon","coordinates":[[` + strings.Join(at, ",") + `]]}`
}

// TestPositionLimit checks both sides of the limit, which counts all positions
// of a shape.
func TestPositionLimit(t *testing.T) {
	const reason = "A geometry must not have more than 4096 points."
	points := strings.Repeat("[1,1],", 2048)
	for name, c := range map[string]struct {
		text string
		want string
	}{
		"polygon at the limit":    {circlePolygon(10, 10, 5, 4095), ""},
		"polygon above the limit": {circlePolygon(10, 10, 5, 4096), reason},
		"points at the limit":     {`{"type":"MultiPoint","coordinates":[` + points + strings.TrimSuffix(points, ",") + `]}`, ""},
		"points above the limit":  {`{"type":"MultiPoint","coordinates":[` + points + points + `[1,1]]}`, reason},
		"polygons together": {`{"type":"MultiPolygon","coordinates":[[` + circle(10, 10, 5, 2500) + `],[` +
			circle(40, 10, 5, 2500) + `]]}`, reason},
	} {
		for _, system := range []System{Geography, Geometry} {
			if _, got := Validate(parseValue(t, c.text), system); got != c.want {
				t.Errorf("%s: reason %q, want %q", name, got, c.want)
			}
		}
	}
}

// TestNotFinite checks numbers that JSON cannot represent, but a query can
// compute.
func TestNotFinite(t *testing.T) {
	for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		for _, at := range [][]value.Value{{value.Number(f), value.Int(0)}, {value.Int(0), value.Number(f)}} {
			v := value.Object([]value.Member{{Name: "type", Value: value.String("Point")}, {Name: "coordinates", Value: value.Array(at)}})
			for _, system := range []System{Geography, Geometry} {
				if _, ok := Parse(v, system); ok {
					t.Errorf("system %d takes %v", system, f)
				}
			}
		}
	}
}

// zigzag returns a line of n positions between two latitudes, whose edges are
// long and close to each other.
func zigzag(n int, low, high float64) string {
	var at []string
	for i := range n {
		at = append(at, fmt.Sprintf("[%.6f,%g]", 0.001*float64(i), []float64{low, high}[i%2]))
	}
	return `{"type":"LineString","coordinates":[` + strings.Join(at, ",") + `]}`
}

// TestLargeShapes checks shapes at the limit whose edges the trees cannot separate. It
// would not end if every edge were compared with every other edge. With the race
// detector the shapes are smaller.
func TestLargeShapes(t *testing.T) {
	n := 4095
	if raceDetector {
		n = 201
	}
	for _, system := range []System{Geography, Geometry} {
		toothed := mustShape(t, system, comb(n/2-1))
		round := mustShape(t, system, circlePolygon(5, 5, 3, n))
		far := mustShape(t, system, circlePolygon(-100, -50, 0.001, n))
		below, above := mustShape(t, system, zigzag(n, 0, 5)), mustShape(t, system, zigzag(n, 6, 11))
		if apart, _ := Distance(below, above); apart < 1 || system == Geography && (apart < 110_500 || apart > 110_700) {
			t.Errorf("system %d: the zigzags are %g apart", system, apart)
		}
		if !Intersects(toothed, round) || Within(round, toothed) || Within(toothed, round) || !Within(toothed, toothed) {
			t.Errorf("system %d: wrong relation of the comb and the circle", system)
		}
		near, _ := Distance(round, far)
		center, _ := Distance(round, mustShape(t, system, `{"type":"Point","coordinates":[-100,-50]}`))
		if off := center - near; off < 0 || off > 112 {
			t.Errorf("system %d: distance %g to the rim and %g to the center", system, near, center)
		}
	}
}

// TestManyPieces draws two thousand lines on top of each other, each of which the other
// shape cuts into two thousand pieces. It would not end if each piece were searched
// among all edges. With the race detector there are fewer.
func TestManyPieces(t *testing.T) {
	n := 2000
	if raceDetector {
		n = 200
	}
	var copies, teeth, outline []string
	for i := range n {
		at := 0.01 * float64(i+1)
		copies = append(copies, fmt.Sprintf("[[%g,0],[%g,0]]", 1-0.0001*float64(i), 19+0.0001*float64(i)))
		teeth = append(teeth, fmt.Sprintf("[[%g,0],[%g,10]]", at, at))
		outline = append(outline, fmt.Sprintf("[%g,0],[%g,-1]", at, at+0.005))
	}
	for _, system := range []System{Geography, Geometry} {
		lines := mustShape(t, system, `{"type":"MultiLineString","coordinates":[`+strings.Join(copies, ",")+`]}`)
		cut := mustShape(t, system, `{"type":"MultiLineString","coordinates":[`+strings.Join(teeth, ",")+`,[[0,0],[21,0]]]}`)
		area := mustShape(t, system, `{"type":"Polygon","coordinates":[[`+strings.Join(outline, ",")+`,[22,0],[22,5],[-1,5],[-1,0],[0.01,0]]]}`)
		if !Within(lines, cut) || !Within(lines, area) {
			t.Errorf("system %d: the lines are not within what cuts them", system)
		}
	}
}

// TestGridBox checks boxes on both sides of the requirements of a grid.
func TestGridBox(t *testing.T) {
	for _, c := range []struct {
		box  Box
		want string
	}{
		{Box{0, 0, 1, 1}, ""},
		{Box{-1e150, -1e150, 1e150, 1e150}, ""},
		{Box{1e6, 0, 1e6 + 10, 1}, ""},
		{Box{1e6, 0, 1e6 + 0.5, 1}, "minimum"},
		{Box{0, 0, 0, 1}, "minimum"},
		{Box{0, 1, 1, 0}, "minimum"},
		{Box{0, 0, 1e151, 1}, "1e150"},
		{Box{math.NaN(), 0, 1, 1}, "1e150"},
		{Box{0, math.Inf(-1), 1, 1}, "1e150"},
	} {
		_, err := NewGrid(c.box)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("NewGrid(%v) gives error %v, want %q", c.box, err, c.want)
		}
	}
}

// TestCellIDs pins ids, because they are stored on disk.
func TestCellIDs(t *testing.T) {
	plane, err := NewGrid(Box{0, 0, 16, 16})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		grid   Grid
		system System
		text   string
		want   []uint64
	}{
		{Grid{}, Geography, `{"type":"Point","coordinates":[0,0]}`, []uint64{0x1000000000000001}},
		{Grid{}, Geography, `{"type":"Point","coordinates":[31.9,-4.8]}`, []uint64{0x19b79be189f7206d}},
		{plane, Geometry, `{"type":"Point","coordinates":[0,0]}`, []uint64{1}},
		{plane, Geometry, `{"type":"Point","coordinates":[-7,99]}`, []uint64{0xaaaaaaaaaaaaaab}},
		{plane, Geometry, `{"type":"Point","coordinates":[99,99]}`, []uint64{0x1fffffffffffffff}},
		{plane, Geometry, `{"type":"Polygon","coordinates":[[[1,1],[7,1],[7,7],[1,7],[1,1]]]}`, []uint64{0x400000000000000}},
		{plane, Geometry, `{"type":"Polygon","coordinates":[[[9,1],[15,1],[15,7],[9,7],[9,1]]]}`, []uint64{0x1400000000000000}},
	} {
		got := c.grid.Cells(nil, mustShape(t, c.system, c.text), 1)
		if fmt.Sprintf("%x", got) != fmt.Sprintf("%x", c.want) {
			t.Errorf("cells of %s are %x, want %x", c.text, got, c.want)
		}
	}
}

// TestOtherSystem checks that a grid has no cells for shapes of the other system.
func TestOtherSystem(t *testing.T) {
	const text = `{"type":"Point","coordinates":[1,2]}`
	plane, err := NewGrid(Box{0, 0, 16, 16})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		grid  Grid
		shape Shape
		want  int
	}{
		{Grid{}, mustShape(t, Geography, text), 1},
		{Grid{}, mustShape(t, Geometry, text), 0},
		{plane, mustShape(t, Geography, text), 0},
		{plane, mustShape(t, Geometry, text), 1},
		{Grid{}, Shape{}, 0},
		{plane, mustShape(t, Geometry, `{"type":"MultiPolygon","coordinates":[]}`), 0},
	} {
		if got := len(c.grid.Cells(nil, c.shape, 8)); got != c.want {
			t.Errorf("%d cells, want %d", got, c.want)
		}
		if got := len(c.grid.Query(nil, c.shape)) > 0; got != (c.want > 0) {
			t.Errorf("intervals: %t, want %t", got, c.want > 0)
		}
		if got := len(c.grid.Near(nil, c.shape, 1)) > 0; got != (c.want > 0) {
			t.Errorf("intervals of a distance: %t, want %t", got, c.want > 0)
		}
	}
}

// Weigh returns the type and the number of positions without parsing.
func TestWeigh(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text      string
		kind      Type
		positions int
	}{
		{`{"type":"Point","coordinates":[1,2,3]}`, Point, 1},
		{`{"type":"MultiPoint","coordinates":[[1,2],[3,4]]}`, MultiPoint, 2},
		{`{"type":"Polygon","coordinates":[[[0,0],[1,0],[0,1],[0,0]],[]]}`, Polygon, 4},
		{`{"type":"MultiPolygon","coordinates":[[[[0,0],[1,0]]],[[[0,0]]]]}`, MultiPolygon, 3},
		{`{"type":"MultiPolygon","coordinates":[[[[[[[0,0],[1,0]]]]]]]}`, MultiPolygon, 1},
		{`{"type":"MultiPolygon","coordinates":[]}`, MultiPolygon, 0},
		{circlePolygon(0, 0, 1, 4095), Polygon, 4096},
		{circlePolygon(0, 0, 1, 5000), Polygon, 4097},
		{`{"type":"Feature","coordinates":[1,2]}`, 0, 0},
		{`{"type":"Point"}`, 0, 0},
		{`{"type":"","coordinates":[1,2]}`, 0, 0},
		{`{"type":1,"coordinates":[1,2]}`, 0, 0},
		{`[1,2]`, 0, 0},
	} {
		if kind, positions := Weigh(parseValue(t, c.text)); kind != c.kind || positions != c.positions {
			t.Errorf("%.80s: %d positions of %q, want %d of %q", c.text, positions, kind, c.positions, c.kind)
		}
	}
}

// bundle returns a line that goes back and forth diagonally n times, at a
// distance from the origin.
func bundle(n int, away float64) string {
	at := make([]string, n)
	for i := range at {
		x, y := away+1e-6*float64(i), -away
		if i%2 == 1 {
			x, y = x+40, y+40
		}
		at[i] = fmt.Sprintf("[%g,%g]", x, y)
	}
	return `{"type":"LineString","coordinates":[` + strings.Join(at, ",") + `]}`
}

// TestBundles measures the distance between two lines whose parts are all about
// equally far from each other, on both sides of the limit for a distance.
func TestBundles(t *testing.T) {
	for _, system := range []System{Geography, Geometry} {
		a, b := mustShape(t, system, bundle(500, 0)), mustShape(t, system, bundle(500, 1))
		if d, ok := Distance(a, b); !ok || d <= 0 {
			t.Errorf("system %d: two bundles of 500 lines are %g apart, %v", system, d, ok)
		}
		if raceDetector {
			continue // half a million pairs, in one goroutine
		}
		a, b = mustShape(t, system, bundle(4095, 0)), mustShape(t, system, bundle(4095, 1))
		if d, ok := Distance(a, b); ok {
			t.Errorf("system %d: two bundles of 4,095 lines are %g apart: all pairs were compared", system, d)
		}
	}
}
