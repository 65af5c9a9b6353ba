package geo

import (
	"testing"
)

func BenchmarkParse(b *testing.B) {
	for _, c := range []struct{ name, text string }{
		{"point", `{"type":"Point","coordinates":[31.9,-4.8]}`},
		{"polygon=circle/positions=16", circlePolygon(10, 10, 5, 15)},
		{"polygon=circle/positions=4096", circlePolygon(10, 10, 5, 4095)},
		{"polygon=comb/positions=4096", comb(2046)},
	} {
		b.Run(c.name, func(b *testing.B) {
			v := parseValue(b, c.text)
			b.ReportAllocs()
			for b.Loop() {
				if _, ok := Parse(v, Geography); !ok {
					b.Fatal("not valid")
				}
			}
		})
	}
}

func BenchmarkRelation(b *testing.B) {
	point := mustShape(b, Geography, `{"type":"Point","coordinates":[11,9]}`)
	small := mustShape(b, Geography, circlePolygon(10, 10, 5, 15))
	large := mustShape(b, Geography, circlePolygon(10, 10, 5, 4095))
	toothed := mustShape(b, Geography, comb(2046))
	far := mustShape(b, Geography, circlePolygon(-100, -50, 0.001, 4095))
	for _, c := range []struct {
		name string
		ask  func()
	}{
		{"within/point/positions=16", func() { Within(point, small) }},
		{"within/point/positions=4096", func() { Within(point, large) }},
		{"within/comb/comb", func() { Within(toothed, toothed) }},
		{"intersects/comb/circle=4096", func() { Intersects(toothed, far) }},
		{"distance/point/point", func() { Distance(point, point) }},
		{"distance/point/positions=16", func() { Distance(point, far) }},
		{"distance/circle=4096/circle=4096", func() { Distance(large, far) }},
		{"cells/positions=16", func() { Grid{}.Cells(nil, small, 8) }},
		{"query/positions=16", func() { Grid{}.Query(nil, small) }},
		{"near/point", func() { Grid{}.Near(nil, point, 30000) }},
		{"near/positions=4096", func() { Grid{}.Near(nil, large, 30000) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.ask()
			}
		})
	}
}
