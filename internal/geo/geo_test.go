package geo

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/decandb/decan/internal/value"
)

// TestGeo runs the cases of testdata/cases. The commands "geography" and
// "geometry" define shapes, one per line: NAME GEOJSON. Every other command has
// lines with names of shapes, and prints one line for each.
func TestGeo(t *testing.T) {
	datadriven.Walk(t, "testdata/cases", func(t *testing.T, file string) {
		named := map[string]Shape{}
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
			var b strings.Builder
			for line := range strings.Lines(d.Input) {
				words := strings.Fields(line)
				if len(words) == 0 {
					continue
				}
				label, answer := strings.Join(words, " "), ""
				switch d.Cmd {
				case "geography":
					label, answer = words[0], define(t, named, line, Geography)
				case "geometry":
					label, answer = words[0], define(t, named, line, Geometry)
				default:
					answer = ask(t, d, shapesOf(t, d, named, words))
				}
				fmt.Fprintf(&b, "%s: %s\n", label, answer)
			}
			return b.String()
		})
	})
}

// shapesOf returns the named shapes; "none" is the zero Shape.
func shapesOf(t *testing.T, d *datadriven.TestData, named map[string]Shape, words []string) []Shape {
	var shapes []Shape
	for _, word := range words {
		shape, ok := named[word]
		if !ok && word != "none" {
			t.Fatalf("%s: no shape %s", d.Pos, word)
		}
		shapes = append(shapes, shape)
	}
	return shapes
}

// define parses a line with a shape and returns its type or the reason why it is
// invalid.
func define(t *testing.T, named map[string]Shape, line string, s System) string {
	name, text, _ := strings.Cut(line, " ")
	v := parseValue(t, text)
	shape, ok := Parse(v, s)
	valid, reason := Validate(v, s)
	if ok != valid || valid != (reason == "") {
		t.Fatalf("Parse of %s gives %t, Validate %t with %q", name, ok, valid, reason)
	}
	if !valid {
		return reason
	}
	if shape.System() != s {
		t.Fatalf("%s has system %d, want %d", name, shape.System(), s)
	}
	named[name] = shape
	return shape.Type().String()
}

// ask runs one of the commands with shapes.
func ask(t *testing.T, d *datadriven.TestData, shapes []Shape) string {
	switch d.Cmd {
	case "area":
		return number(Area(shapes[0]))
	case "distance":
		return number(Distance(shapes[0], shapes[1]))
	case "within":
		return strconv.FormatBool(Within(shapes[0], shapes[1]))
	case "intersects":
		return strconv.FormatBool(Intersects(shapes[0], shapes[1]))
	}
	t.Fatalf("unknown command %s", d.Cmd)
	return ""
}

// number prints ten digits: the digits in which machines with and without fused
// operations agree.
func number(f float64, ok bool) string {
	if !ok {
		return "undefined"
	}
	return strconv.FormatFloat(f, 'g', 10, 64)
}

func parseValue(t testing.TB, text string) value.Value {
	t.Helper()
	v, err := value.ParseString(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func mustShape(t testing.TB, s System, text string) Shape {
	t.Helper()
	v := parseValue(t, text)
	shape, ok := Parse(v, s)
	if !ok {
		_, reason := Validate(v, s)
		t.Fatalf("%s: %s", text, reason)
	}
	return shape
}

// TestPublishedFigures compares with the documentation of the service for its
// samples of ST_DISTANCE and ST_AREA, to the digits that agree with a great
// ellipse.
func TestPublishedFigures(t *testing.T) {
	target := mustShape(t, Geography, `{"type":"Point","coordinates":[-122.11758113953535,47.66901087006131]}`)
	near := mustShape(t, Geography, `{"type":"Point","coordinates":[-122.12826822304672,47.63980239335718]}`)
	far := mustShape(t, Geography, `{"type":"Point","coordinates":[-96.84368664765994,46.81297794314663]}`)
	box := mustShape(t, Geography, `{"type":"Polygon","coordinates":[[[31.8,-5],[32,-5],[32,-4.7],[31.8,-4.7],[31.8,-5]]]}`)
	nearDistance, _ := Distance(near, target)
	farDistance, _ := Distance(far, target)
	area, _ := Area(box)
	for _, c := range []struct {
		name                 string
		got, want, tolerance float64
	}{
		{"distance to Headquarters", nearDistance, 3345.269817267368, 8e-5},
		{"distance to Research and development", farDistance, 1907438.421299902, 4e-5},
		{"area of a polygon", area, 735970283.0522614, 0.07},
	} {
		if d := c.got - c.want; d > c.tolerance || d < -c.tolerance {
			t.Errorf("%s: got %.9f, want %.9f, off by %g", c.name, c.got, c.want, d)
		}
	}
}

// TestReferences compares with lengths and areas of great ellipses that were
// integrated with thirty digits.
func TestReferences(t *testing.T) {
	text, err := os.ReadFile("testdata/references.json")
	if err != nil {
		t.Fatal(err)
	}
	var references []struct {
		Name, Measure string
		Shapes        []json.RawMessage
		Want          float64
	}
	if err := json.Unmarshal(text, &references); err != nil {
		t.Fatal(err)
	}
	for _, r := range references {
		a := mustShape(t, Geography, string(r.Shapes[0]))
		got, ok := Area(a)
		if r.Measure == "distance" {
			got, ok = Distance(a, mustShape(t, Geography, string(r.Shapes[1])))
		}
		if d := got - r.Want; !ok || d > 1e-13*r.Want+2e-9 || d < -1e-13*r.Want-2e-9 {
			t.Errorf("%s: got %.10f, want %.10f, off by %g", r.Name, got, r.Want, d)
		}
	}
}
