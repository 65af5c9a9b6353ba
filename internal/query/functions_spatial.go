package query

import (
	"github.com/decandb/decan/internal/geo"
	"github.com/decandb/decan/internal/value"
)

// spatialFunctions are functions of GeoJSON values. An invalid geometry makes the
// result undefined, except for the two functions that test validity. To these, an
// undefined value is invalid too. Spatial functions need no index.
func spatialFunctions() []function {
	return []function{
		spatial("ST_DISTANCE", 2, func(s []geo.Shape) value.Value {
			return numberIf(geo.Distance(s[0], s[1]))
		}),
		spatial("ST_WITHIN", 2, func(s []geo.Shape) value.Value { return value.Bool(geo.Within(s[0], s[1])) }),
		spatial("ST_INTERSECTS", 2, func(s []geo.Shape) value.Value { return value.Bool(geo.Intersects(s[0], s[1])) }),
		spatial("ST_AREA", 1, func(s []geo.Shape) value.Value { return numberIf(geo.Area(s[0])) }),
		validity("ST_ISVALID", func(valid bool, _ string) value.Value { return value.Bool(valid) }),
		validity("ST_ISVALIDDETAILED", func(valid bool, reason string) value.Value {
			members := []value.Member{{Name: "valid", Value: value.Bool(valid)}}
			if !valid {
				members = append(members, value.Member{Name: "reason", Value: value.String(reason)})
			}
			return value.Object(members)
		}),
	}
}

func numberIf(x float64, ok bool) value.Value {
	if !ok {
		return value.Undefined()
	}
	return value.Double(x)
}

// spatial returns a function of n geometries. Constant ones are parsed once.
func spatial(name string, n int, f func(s []geo.Shape) value.Value) function {
	bind := func(b binding) runner {
		system := b.system()
		fixed := make([]geo.Shape, n)
		known := make([]bool, n)
		for i := range fixed {
			if v, ok := b.constant(i); ok {
				if fixed[i], known[i] = geo.Parse(v, system); !known[i] {
					return undefinedRun
				}
			}
		}
		return func(_ *env, args []value.Value) value.Value {
			var room [2]geo.Shape
			for i, arg := range args {
				shape, ok := fixed[i], true
				if !known[i] {
					shape, ok = geo.Parse(arg, system)
				}
				if !ok {
					return value.Undefined()
				}
				room[i] = shape
			}
			return f(room[:n])
		}
	}
	return function{name: name, min: n, max: n, bind: bind}
}

// validity returns a test of a geometry.
func validity(name string, f func(valid bool, reason string) value.Value) function {
	bind := func(b binding) runner {
		system := b.system()
		return func(_ *env, args []value.Value) value.Value {
			return f(geo.Validate(args[0], system))
		}
	}
	return function{name: name, min: 1, max: 1, bind: bind}
}

// system returns the coordinate system of the container; geography if there is no
// policy.
func (b binding) system() geo.System {
	if b.ix == nil {
		return geo.Geography
	}
	return b.ix.System()
}
