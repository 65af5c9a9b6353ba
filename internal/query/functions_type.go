package query

import "github.com/decandb/decan/internal/value"

// typeFunctions test the type of a value. They return a boolean even for undefined.
func typeFunctions() []function {
	is := func(name string, holds func(v value.Value) bool) function {
		return function{name: name, min: 1, max: 1, run: func(_ *env, args []value.Value) value.Value {
			return value.Bool(holds(args[0]))
		}}
	}
	kind := func(name string, k value.Kind) function {
		return is(name, func(v value.Value) bool { return v.Kind() == k })
	}
	return []function{
		is("IS_DEFINED", value.Value.IsDefined),
		kind("IS_NULL ISNULL", value.KindNull),
		kind("IS_BOOL IS_BOOLEAN", value.KindBool),
		kind("IS_NUMBER", value.KindNumber),
		kind("IS_STRING", value.KindString),
		kind("IS_ARRAY", value.KindArray),
		kind("IS_OBJECT", value.KindObject),
		is("IS_PRIMITIVE", func(v value.Value) bool {
			return v.Kind() >= value.KindNull && v.Kind() <= value.KindString
		}),
		is("IS_INTEGER", func(v value.Value) bool {
			_, ok := v.Integer()
			return ok
		}),
		is("IS_FINITE_NUMBER", func(v value.Value) bool {
			return v.Kind() == value.KindNumber && v.Finite()
		}),
		is("IS_DATETIME", func(v value.Value) bool {
			_, ok := parseDateTime(v)
			return ok
		}),
		{name: "IIF", min: 3, max: 3, run: func(_ *env, args []value.Value) value.Value {
			if args[0].IsTrue() {
				return args[1]
			}
			return args[2]
		}},
	}
}
