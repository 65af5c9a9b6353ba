package geo

import (
	"math"
	"testing"

	"github.com/decandb/decan/internal/value"
)

var fuzzTexts = []string{
	`{"type":"Point","coordinates":[31.9,-4.8]}`,
	`{"type":"MultiPoint","coordinates":[[180,90],[-180,-90]]}`,
	`{"type":"LineString","coordinates":[[31.8,-5],[31.8,-4.7],[31.8,-5]]}`,
	`{"type":"MultiLineString","coordinates":[[[0,0],[90,0]],[[0,0],[-90,1e-300]]]}`,
	`{"type":"Polygon","coordinates":[[[0,0],[9,0],[9,9],[0,9],[0,0]],[[1,1],[1,2],[2,2],[1,1]]]}`,
	`{"type":"Polygon","coordinates":[[[0,60],[90,60],[180,60],[-90,60],[0,60]]]}`,
	`{"type":"MultiPolygon","coordinates":[[[[0,0],[0,9],[9,9],[0,0]]],[[[1,3],[2,3],[2,4],[1,3]]]]}`,
	`{"type":"Polygon","coordinates":[[[1e150,0],[0,1e150],[-1e150,-1e150],[1e150,0]]]}`,
}

// FuzzShape runs every function on every shape that a text describes.
func FuzzShape(f *testing.F) {
	for _, text := range fuzzTexts {
		f.Add(text, false)
		f.Add(text, true)
	}
	const octant = `{"type":"Polygon","coordinates":[[[0,0],[90,0],[0,90],[0,0]]]}`
	f.Fuzz(func(t *testing.T, text string, plane bool) {
		v, err := value.ParseString(text)
		if err != nil {
			return
		}
		system, grid := Geography, Grid{}
		if plane {
			system = Geometry
			grid, _ = NewGrid(Box{-10, -10, 10, 10})
		}
		s, ok := Parse(v, system)
		if valid, reason := Validate(v, system); valid != ok || valid != (reason == "") {
			t.Fatalf("Parse says %t, Validate %t because of %q", ok, valid, reason)
		}
		kind, positions := Weigh(v)
		if !ok {
			return
		}
		if kind != s.Type() || (positions == 0) != s.empty() || positions < len(s.edges) {
			t.Fatalf("weighed as %d positions of a %s", positions, kind)
		}
		if area, ok := Area(s); !ok || !(area >= 0) || math.IsInf(area, 0) {
			t.Fatalf("area %g", area)
		}
		if s.empty() {
			return
		}
		if !Intersects(s, s) || !grid.selfHit(s) {
			t.Fatal("does not find itself")
		}
		other := mustShape(t, system, octant)
		distance, ok := Distance(s, other)
		if !ok || !(distance >= 0) || (distance == 0) != Intersects(s, other) {
			t.Fatalf("distance %g, but intersection is %t", distance, Intersects(s, other))
		}
		if Within(s, other) && distance > 0 {
			t.Fatal("within, but apart")
		}
		if !hit(grid.Cells(nil, other, 8), grid.Near(nil, s, distance)) {
			t.Fatalf("not found at its distance %g", distance)
		}
	})
}

// selfHit reports whether a query for a shape finds the shape itself.
func (g Grid) selfHit(s Shape) bool { return hit(g.Cells(nil, s, 8), g.Query(nil, s)) }
