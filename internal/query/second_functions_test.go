package query

import (
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/value"
)

// This file has the operators and functions of the second evaluator that only the corpus
// of EF Core uses. It shares no code with the compiler.

func (n second) between(x *sql.BetweenExpr, b *bindings) value.Value {
	v := n.expr(x.X, b)
	low, high := binaryOf(">=", v, n.expr(x.Low, b)), binaryOf("<=", v, n.expr(x.High, b))
	decided := low.IsTrue() && high.IsTrue()
	for _, side := range []value.Value{low, high} {
		if side.Kind() == value.KindBool && !side.IsTrue() {
			return value.Bool(x.Not)
		}
	}
	if !decided {
		return value.Undefined()
	}
	return value.Bool(!x.Not)
}

func (n second) like(x *sql.LikeExpr, b *bindings) value.Value {
	v, pattern := n.expr(x.X, b), n.expr(x.Pattern, b)
	if v.Kind() != value.KindString || pattern.Kind() != value.KindString {
		return value.Undefined()
	}
	return value.Bool(likes(v.Text(), pattern.Text(), x.Escape) != x.Not)
}

// likes matches a pattern of % and _.
func likes(s, pattern, escape string) bool {
	if pattern == "" {
		return s == ""
	}
	if escape != "" && strings.HasPrefix(pattern, escape) {
		pattern = pattern[len(escape):]
	} else if pattern[0] == '%' {
		for i := range len(s) + 1 {
			if likes(s[i:], pattern[1:], escape) {
				return true
			}
		}
		return false
	} else if pattern[0] == '_' {
		_, width := utf8.DecodeRuneInString(s)
		return s != "" && likes(s[width:], pattern[1:], escape)
	}
	return s != "" && s[0] == pattern[0] && likes(s[1:], pattern[1:], escape)
}

func secondOperator(op string, l, r value.Value) value.Value {
	if op == "||" {
		if l.Kind() != value.KindString || r.Kind() != value.KindString {
			return value.Undefined()
		}
		return value.String(l.Text() + r.Text())
	}
	if l.Kind() != value.KindNumber || r.Kind() != value.KindNumber {
		return value.Undefined()
	}
	x, y := l.Float(), r.Float()
	switch op {
	case "-":
		return value.Number(x - y)
	case "/":
		return value.Number(x / y)
	case "%":
		return value.Number(math.Mod(x, y))
	case "&":
		return value.Int(int64(int32(x) & int32(y)))
	}
	return value.Int(int64(int32(x) | int32(y)))
}

// ofTexts is a function of strings, undefined for anything else. The last argument may be
// a boolean that ignores case.
func ofTexts(f func(args []string) value.Value) func([]value.Value) value.Value {
	return func(args []value.Value) value.Value {
		fold := false
		if last := args[len(args)-1]; last.Kind() == value.KindBool {
			fold, args = last.IsTrue(), args[:len(args)-1]
		}
		var list []string
		for _, arg := range args {
			if arg.Kind() != value.KindString {
				return value.Undefined()
			}
			text := arg.Text()
			if fold {
				text = strings.ToLower(text)
			}
			list = append(list, text)
		}
		return f(list)
	}
}

func ofText(f func(s string) string) func([]value.Value) value.Value {
	return ofTexts(func(args []string) value.Value { return value.String(f(args[0])) })
}

func ofNumber(f func(x float64) float64) func([]value.Value) value.Value {
	return func(args []value.Value) value.Value {
		if args[0].Kind() != value.KindNumber {
			return value.Undefined()
		}
		return value.Number(f(args[0].Float()))
	}
}

func ofTest(f func(a, b string) bool) func([]value.Value) value.Value {
	return ofTexts(func(args []string) value.Value { return value.Bool(f(args[0], args[1])) })
}

func ofKind(kind value.Kind) func([]value.Value) value.Value {
	return func(args []value.Value) value.Value { return value.Bool(args[0].Kind() == kind) }
}

// cut returns the characters of a string between two positions, limited to it.
func cut(v, from, to value.Value) value.Value {
	if v.Kind() != value.KindString || from.Kind() != value.KindNumber || to.Kind() != value.KindNumber {
		return value.Undefined()
	}
	runes := []rune(v.Text())
	start := min(max(int(from.Float()), 0), len(runes))
	end := min(max(int(to.Float()), start), len(runes))
	return value.String(string(runes[start:end]))
}

var secondFunctions = map[string]func(args []value.Value) value.Value{
	"IS_STRING": ofKind(value.KindString), "IS_NUMBER": ofKind(value.KindNumber), "IS_ARRAY": ofKind(value.KindArray),
	"IS_BOOL": ofKind(value.KindBool), "IS_OBJECT": ofKind(value.KindObject),
	"LOWER": ofText(strings.ToLower), "TRIM": ofText(strings.TrimSpace), "REVERSE": ofText(func(s string) string {
		runes := []rune(s)
		slices.Reverse(runes)
		return string(runes)
	}),
	"LTRIM":      ofText(func(s string) string { return strings.TrimLeft(s, " ") }),
	"RTRIM":      ofText(func(s string) string { return strings.TrimRight(s, " ") }),
	"STARTSWITH": ofTest(strings.HasPrefix), "ENDSWITH": ofTest(strings.HasSuffix), "CONTAINS": ofTest(strings.Contains),
	"STRINGEQUALS": ofTest(func(a, b string) bool { return a == b }),
	"CONCAT":       ofTexts(func(args []string) value.Value { return value.String(strings.Join(args, "")) }),
	"REPLACE": ofTexts(func(args []string) value.Value {
		return value.String(strings.ReplaceAll(args[0], args[1], args[2]))
	}),
	"LENGTH":   ofTexts(func(args []string) value.Value { return value.Int(int64(len([]rune(args[0])))) }),
	"INDEX_OF": ofTexts(func(args []string) value.Value { return value.Int(int64(strings.Index(args[0], args[1]))) }),
	"LEFT":     func(args []value.Value) value.Value { return cut(args[0], value.Int(0), args[1]) },
	"RIGHT": func(args []value.Value) value.Value {
		n := len([]rune(args[0].Text()))
		return cut(args[0], value.Int(int64(n-int(args[1].Float()))), value.Int(int64(n)))
	},
	"SUBSTRING": func(args []value.Value) value.Value {
		return cut(args[0], args[1], value.Number(args[1].Float()+args[2].Float()))
	},
	"ABS": ofNumber(math.Abs), "FLOOR": ofNumber(math.Floor), "CEILING": ofNumber(math.Ceil), "ROUND": ofNumber(math.Round),
	"TRUNC": ofNumber(math.Trunc), "SQRT": ofNumber(math.Sqrt), "SQUARE": ofNumber(func(x float64) float64 { return x * x }),
	"SIGN": ofNumber(func(x float64) float64 {
		switch {
		case x > 0:
			return 1
		case x < 0:
			return -1
		}
		return 0
	}),
	"POWER": func(args []value.Value) value.Value {
		return ofNumber(func(x float64) float64 { return math.Pow(x, args[1].Float()) })(args[:1])
	},
	"TOSTRING": func(args []value.Value) value.Value {
		if args[0].Kind() == value.KindString || !args[0].IsDefined() {
			return args[0]
		}
		return value.String(args[0].JSON())
	},
	"ARRAY_SLICE": func(args []value.Value) value.Value {
		items := args[0].Items()
		if args[0].Kind() != value.KindArray || args[1].Kind() != value.KindNumber {
			return value.Undefined()
		}
		start := int(args[1].Float())
		if start < 0 {
			start = max(0, len(items)+start)
		}
		items = items[min(start, len(items)):]
		if len(args) > 2 {
			items = items[:min(max(int(args[2].Float()), 0), len(items))]
		}
		return value.Array(items)
	},
	"ARRAY_CONCAT": func(args []value.Value) value.Value {
		var items []value.Value
		for _, arg := range args {
			if arg.Kind() != value.KindArray {
				return value.Undefined()
			}
			items = append(items, arg.Items()...)
		}
		return value.Array(items)
	},
	"ARRAY_CONTAINS": func(args []value.Value) value.Value { // of a part of an object
		if args[0].Kind() != value.KindArray || args[1].Kind() != value.KindObject || !args[len(args)-1].IsTrue() {
			return value.Undefined()
		}
		return value.Bool(slices.ContainsFunc(args[0].Items(), func(item value.Value) bool {
			for _, m := range args[1].Members() {
				if !value.Equal(item.Get(m.Name), m.Value) {
					return false
				}
			}
			return true
		}))
	},
	"DATETIMEPART": func(args []value.Value) value.Value {
		at, err := time.Parse(time.RFC3339Nano, args[1].Text())
		if err != nil {
			return value.Undefined()
		}
		at = at.UTC()
		parts := map[string]int{
			"yyyy": at.Year(), "mm": int(at.Month()), "dd": at.Day(), "hh": at.Hour(), "mi": at.Minute(), "ss": at.Second(),
			"ms": at.Nanosecond() / 1e6, "mcs": at.Nanosecond() / 1e3, "dw": int(at.Weekday()),
		}
		return value.Int(int64(parts[args[0].Text()]))
	},
	"DATETIMEADD": func(args []value.Value) value.Value {
		at, err := time.Parse(time.RFC3339Nano, args[2].Text())
		if err != nil || args[1].Kind() != value.KindNumber {
			return value.Undefined()
		}
		n := int(args[1].Float())
		units := map[string]time.Duration{"hh": time.Hour, "mi": time.Minute, "ss": time.Second}
		switch part := args[0].Text(); part {
		case "yyyy":
			at = at.AddDate(n, 0, 0)
		case "dd":
			at = at.AddDate(0, 0, n)
		default:
			at = at.Add(time.Duration(n) * units[part])
		}
		return value.String(at.UTC().Format("2006-01-02T15:04:05.0000000Z"))
	},
}
